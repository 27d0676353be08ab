// SPDX-License-Identifier: Apache-2.0
// What a heat map draws: rows x cols numbers by a function at(i, j), with names, a range and a kind of scale.
//   coarse(i, j)   a cheaper number that is good enough for a colour
//   hidden(i, j)   true for a cell that the row does not see
//   rowSum(i)      shown beside the row
//   bare           without names of rows: it stands right of a matrix that has them
//   cost           multiplications that one at(i, j) takes; decides how many cells may be looked at for a range

const RANGE_CELLS = 1 << 20;
const RANGE_WORK = 1 << 24;

function matrixOf(parts) {
    const m = {scale: 'diverging', rowNames: null, colNames: null, coarse: null, hidden: null, rowSum: null, cost: 1, transposed: false,
               square: false, ...parts};
    m.colour = m.coarse || m.at;
    return m;
}

function transposed(m) {
    const turn = (f) => f && ((i, j) => f(j, i));
    return {...m, rows: m.cols, cols: m.rows, at: turn(m.at), coarse: turn(m.coarse), colour: turn(m.colour), hidden: turn(m.hidden),
            rowNames: m.colNames, colNames: m.rowNames, rowAxis: m.colAxis, colAxis: m.rowAxis, rowSum: null, colSum: m.rowSum,
            transposed: !m.transposed};
}

// The least and the greatest finite number of the matrix; of every n-th cell where looking at all would take too long.
function extremes(m) {
    if (m.extremes) {
        return m.extremes;
    }
    const cells = Math.min(RANGE_CELLS * (m.coarse ? 16 : 1), RANGE_WORK / (m.coarse ? 1 : m.cost));
    const step = Math.max(1, Math.ceil(Math.sqrt(m.rows * m.cols / cells)));
    let least = Infinity, greatest = -Infinity;
    for (let i = 0; i < m.rows; i += step) {
        for (let j = 0; j < m.cols; j += step) {
            const x = m.colour(i, j);
            if (Number.isFinite(x)) {
                least = x < least ? x : least;
                greatest = x > greatest ? x : greatest;
            }
        }
    }
    m.extremes = least > greatest ? [0, 0] : [least, greatest];
    return m.extremes;
}

// The numbers that the ends of the palette stand for: from 0 for weights, the same on both sides of 0 for the others.
function rangeOf(matrices) {
    let least = 0, greatest = 0;
    for (const m of matrices) {
        const [low, high] = extremes(m);
        least = Math.min(least, low);
        greatest = Math.max(greatest, high);
    }
    if (matrices[0].scale === 'sequential') {
        return [0, greatest || 1];
    }
    const far = Math.max(-least, greatest) || 1;
    return [-far, far];
}

// Over the heads, cell by cell. A cell is hidden where every head hides it.
function combined(matrices, how) {
    const n = matrices.length;
    const each = (name) => (i, j) => {
        let sum = 0, most = -Infinity;
        for (const m of matrices) {
            const x = m[name](i, j) || 0;
            sum += x;
            most = x > most ? x : most;
        }
        return how === 'average' ? sum / n : most;
    };
    const hides = matrices[0].hidden && ((i, j) => matrices.every((m) => m.hidden(i, j)));
    const sums = matrices[0].rowSum && how === 'average' && ((i) => matrices.reduce((sum, m) => sum + m.rowSum(i), 0) / n);
    return matrixOf({...matrices[0], at: each('at'), coarse: matrices[0].coarse && each('colour'), hidden: hides, rowSum: sums || null,
                     cost: n * matrices[0].cost, extremes: null});
}

// ---- numbers as text ----

// Six significant digits, or the decimals of --round.
function numberText(x, round = null) {
    if (x === undefined) {
        return '?';
    }
    if (!Number.isFinite(x)) {
        return Number.isNaN(x) ? 'NaN' : x > 0 ? '∞' : '-∞';
    }
    const text = round === null || round === undefined ? String(Number(x.toPrecision(6))) : x.toFixed(round);
    return Number(text) === 0 && !text.includes('.') ? '0' : text.replace('e+', 'e');
}

// At most `room` characters for a cell, as many digits as fit; '' where even one does not.
function shortNumber(x, room) {
    if (!Number.isFinite(x) || x === 0) {
        return numberText(x);
    }
    const size = Math.abs(x), small = size < 1e-4 || size >= 1e6;
    const forms = [(digits) => (small ? x.toExponential(digits - 1) :
        String(Number(size >= 1 ? x.toPrecision(digits) : x.toFixed(digits)))),
                   (digits) => String(Number(x.toFixed(digits))).replace('0.', '.')];
    for (const form of forms) {
        for (let digits = 4; digits >= 1; digits--) {
            const text = form(digits);
            if (text.length <= room && Number(text) !== 0) {
                return text;
            }
        }
    }
    return size < 1 && room >= 2 ? '≈0' : '';
}

// As in --json: enough digits that the same number is read back.
function exactText(x, dtype) {
    if (x === undefined) {
        return 'nan';
    }
    if (!Number.isFinite(x)) {
        return Number.isNaN(x) ? 'nan' : x > 0 ? 'inf' : '-inf';
    }
    return String(dtype === 'f32' ? Number(x.toPrecision(9)) : x);
}
