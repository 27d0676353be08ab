// SPDX-License-Identifier: Apache-2.0
// One stage on the screen: its panels beside each other, marked where they belong to the picked cell.

// Turned round, A × B = C is Bᵀ × Aᵀ = Cᵀ.
function turnedPanels(items) {
    const turn = (item) => (item.matrix ? {...item, symbol: turnedSymbol(item.symbol), matrix: transposed(item.matrix)} : item);
    const at = items.findIndex((item) => item.op === '×');
    const list = items.map(turn);
    if (at > 0) {
        [list[at - 1], list[at + 1]] = [list[at + 1], list[at - 1]];
    }
    return list;
}

const turnedSymbol = (symbol) => (symbol.endsWith('^T') ? symbol.slice(0, -2) : `${symbol}^T`);

// ---- what belongs to the picked cell, in each matrix of a stage ----

function marksIn(panel, picked) {
    if (!picked) {
        return {};
    }
    const {i, j} = picked, column = [[j, j + 1]], cell = {cell: {i, j}};
    if (panel === picked.panel) {
        return cell;
    }
    if (stageNow().id === 'rope' && panel[0] !== picked.panel[0]) {
        return {}; // they meet in the scores alone
    }
    const related = {
        scores: {q: {rows: [i]}, k: {rows: [j]}},
        q: {scores: {rows: [i]}, k: {cols: column}, q_plain: {rows: [i]}},
        k: {scores: {cols: [[i, i + 1]]}, q: {cols: column}, k_plain: {rows: [i]}},
        q_plain: {q: {rows: [i]}},
        k_plain: {k: {rows: [i]}},
        weights: {masked: {rows: [i]}, output: {rows: [i]}, v: {rows: [j]}},
        output: {weights: {rows: [i]}, v: {cols: column}},
        v: {weights: {cols: [[i, i + 1]]}, output: {cols: column}},
        all_q: {x: {rows: [i]}, w_q: {cols: column}, b_q: {cols: column}},
        all_k: {x: {rows: [i]}, m: {rows: [i]}, w_k: {cols: column}, b_k: {cols: column}},
        all_v: {x: {rows: [i]}, m: {rows: [i]}, m_v: {rows: [i]}, w_v: {cols: column}, b_v: {cols: column}},
        result: {all_output: {rows: [i]}, w_o: {cols: column}, b_o: {cols: column}},
    }[picked.panel] || {};
    const alike = ['scores', 'scaled', 'capped', 'masked', 'added'];
    return related[panel] || (alike.includes(panel) && alike.includes(picked.panel) ? cell : {});
}

function turnedMarks(marks) {
    return {rows: (marks.cols || []).map(([from]) => from), cols: (marks.rows || []).map((i) => [i, i + 1]),
            cell: marks.cell && {i: marks.cell.j, j: marks.cell.i}};
}

// ---- layout ----

const widthOf = (m, factor) => 60 * factor + m.cols * CELL.width * factor + (m.rowSum ? 52 * factor : 0);

// How wide each panel may be: all they want, or most of it for the result.
function panelWidths(items, width, factor) {
    const matrices = items.filter((item) => item.matrix), operators = (items.length - matrices.length) * 44 * factor;
    const wanted = matrices.map((item) => widthOf(item.matrix, factor)), room = width - operators - matrices.length * 26;
    if (width < 620 * factor || matrices.length === 1) {
        return wanted.map((want) => Math.min(want, width - 28));
    }
    if (wanted.reduce((a, b) => a + b, 0) <= room) {
        return wanted;
    }
    const results = matrices.filter((item) => item.result).length, operands = matrices.length - results;
    if (results === 0 || operands === 0 || matrices[0].result) {
        return wanted.map((want) => Math.min(want, room / matrices.length));
    }
    const wantedByResult = Math.max(...matrices.map((item, n) => (item.result ? wanted[n] : 0)));
    const share = Math.min(0.3, Math.max(0.34 / operands, 0.12, (1 - wantedByResult / room) / operands));
    const small = matrices.map((item, n) => (item.result ? 0 : Math.min(wanted[n], room * share)));
    const rest = room - small.reduce((a, b) => a + b, 0);
    return matrices.map((item, n) => (item.result ? Math.min(wanted[n], rest) : small[n]));
}

// The colours' ends in words and as a strip.
function legend(matrix, range, byRow, dark, hides) {
    const table = palettes[dark ? 'dark' : 'light'][matrix.scale];
    const strip = el('span.strip', {'aria-hidden': 'true'});
    const stops = Array.from({length: 17}, (_, n) => cssColour(table[Math.round(n * 255 / 16)]));
    strip.style.background = `linear-gradient(to right, ${stops.join(',')})`;
    const box = el('p.legend', {}, byRow ? say('colours_row') : numberText(range[0]), ' ', strip, ' ', byRow ? '' : numberText(range[1]));
    if (matrix.hidden && hides) {
        box.append(el('span.legend-hidden', {}, el('span.swatch', {'aria-hidden': 'true'}), say('legend_hidden')));
    }
    if (hides && app.model.has('top_index')) {
        box.append(el('span.legend-hidden', {}, el('span.swatch.blank', {'aria-hidden': 'true'}), say('legend_absent')));
    }
    return box;
}

// The numbers round the cursor as a real table, for screen readers and for copying.
const TABLE_CELLS = 24;

function numberTable(matrix, at, round, cover) {
    const from = (n, count) => Math.max(0, Math.min(n - TABLE_CELLS / 2, count - TABLE_CELLS));
    const r0 = from(at ? at.i : 0, matrix.rows), c0 = from(at ? at.j : 0, matrix.cols);
    const r1 = Math.min(matrix.rows, r0 + TABLE_CELLS), c1 = Math.min(matrix.cols, c0 + TABLE_CELLS);
    const range = (a, b) => Array.from({length: b - a}, (_, n) => a + n);
    const head = el('tr', {}, el('td'), ...range(c0, c1).map((j) => el('th', {scope: 'col'}, nameOf(matrix.colNames, j))));
    const body = range(r0, r1).map((i) => el('tr', {}, el('th', {scope: 'row'}, nameOf(matrix.rowNames, i)), ...range(c0, c1).map((j) =>
        el(matrix.hidden && matrix.hidden(i, j) ? 'td.number.is-hidden' : 'td.number', {},
           cover && cover(i, j) ? '?' : numberText(matrix.at(i, j), round)))));
    const part = r1 - r0 < matrix.rows || c1 - c0 < matrix.cols;
    const caption = part ? say('table_part', {r0, r1: r1 - 1, rows: matrix.rows, c0, c1: c1 - 1, cols: matrix.cols}) : '';
    return el('div.table-scroll', {tabindex: '0', role: 'group', 'aria-label': say('as_table')},
              el('table.numbers', {}, el('caption', {}, caption), el('thead', {}, head), el('tbody', {}, ...body)));
}
