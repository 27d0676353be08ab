// SPDX-License-Identifier: Apache-2.0
// Small matrices typed in the page. They become a model like that of a file, so every view works on them.

const TEACHER_MOST = 12;

const teacherStart = () => ({
    kind: 'sdpa', causal: false, scale: '', keyTurned: true, heads: 2,
    size: {Lq: 2, Lk: 4, d: 3, dv: 2, L: 2, width: 3, inner: 4},
    text: {
        q: [['1', '0', '1'], ['0', '1', '0']], k: [['1', '0', '1'], ['0', '1', '0'], ['1', '1', '1'], ['0', '0', '1']],
        v: [['10', '0'], ['0', '10'], ['5', '5'], ['1', '2']],
        x: [['1', '0', '2'], ['0', '1', '1']],
        w_q: [['1', '0', '0', '1'], ['0', '1', '1', '0'], ['1', '0', '1', '0']],
        w_k: [['0', '1', '1', '0'], ['1', '0', '0', '1'], ['0', '1', '0', '1']],
        w_v: [['1', '0', '2', '0'], ['0', '1', '0', '2'], ['1', '1', '0', '0']],
        w_o: [['1', '0', '0'], ['0', '1', '0'], ['0', '0', '1'], ['1', '1', '1']],
    },
});

// Rows x columns of each matrix of the editor.
function teacherShapes(t) {
    const s = t.size;
    return t.kind === 'sdpa' ? {q: [s.Lq, s.d], k: [s.Lk, s.d], v: [s.Lk, s.dv]} :
        {x: [s.L, s.width], w_q: [s.width, s.inner], w_k: [s.width, s.inner], w_v: [s.width, s.inner], w_o: [s.inner, s.width]};
}

// New cells are 0; what is cut off comes back when the size does.
function cellText(t, name, i, j) {
    const row = t.text[name][i];
    return row && row[j] !== undefined ? row[j] : '0';
}

function setCellText(t, name, i, j, text) {
    t.text[name][i] = t.text[name][i] || [];
    for (let n = 0; n < j; n++) {
        t.text[name][i][n] = t.text[name][i][n] === undefined ? '0' : t.text[name][i][n];
    }
    t.text[name][i][j] = text;
}

// A number as people type it: 1, -0.5, 2e3, 1/3, and a decimal comma. NaN when it is none.
function typedNumber(text) {
    const plain = text.trim().replace(/^−/, '-').replace(/^(-?\d*),(\d+)$/, '$1.$2');
    const share = plain.match(/^(-?[\d.]+)\s*\/\s*([\d.]+)$/);
    return share ? Number(share[1]) / Number(share[2]) : /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
}

// {numbers: name -> row-major numbers, problem: a sentence or ''}
function teacherNumbers(t) {
    const numbers = {};
    for (const [name, [rows, cols]] of Object.entries(teacherShapes(t))) {
        numbers[name] = [];
        for (let i = 0; i < rows; i++) {
            for (let j = 0; j < cols; j++) {
                const text = cellText(t, name, i, j), x = typedNumber(text);
                if (!Number.isFinite(x)) {
                    const turned = name === 'k' && t.keyTurned; // named as it is typed
                    const place = {matrix: turned ? 'Kᵀ' : symbolOf(name).replace('_', ''), i: turned ? j : i, j: turned ? i : j};
                    return {problem: say('bad_number', {...place, text})};
                }
                numbers[name].push(x);
            }
        }
    }
    const {inner} = t.size;
    if (t.kind === 'mha' && inner % t.heads !== 0) {
        const list = Array.from({length: inner}, (_, n) => n + 1).filter((n) => inner % n === 0).join(', ');
        return {problem: say('bad_heads', {width: inner, heads: t.heads, list})};
    }
    return {numbers, problem: ''};
}

function multiply(a, b, rows, inner, cols) {
    const out = new Float64Array(rows * cols);
    for (let i = 0; i < rows; i++) {
        for (let j = 0; j < cols; j++) {
            for (let n = 0; n < inner; n++) {
                out[i * cols + j] += a[i * inner + n] * b[n * cols + j];
            }
        }
    }
    return out;
}

// (L, H d) -> (H, L, d)
function splitHeads(joined, L, heads, d) {
    const out = new Float64Array(joined.length);
    for (let i = 0; i < L; i++) {
        for (let c = 0; c < heads * d; c++) {
            out[(Math.floor(c / d) * L + i) * d + c % d] = joined[i * heads * d + c];
        }
    }
    return out;
}

function teacherModel(t, numbers) {
    const s = t.size, mha = t.kind === 'mha', heads = mha ? t.heads : 1, typedScale = typedNumber(t.scale);
    const [Lq, Lk] = mha ? [s.L, s.L] : [s.Lq, s.Lk], [d, dv] = mha ? [s.inner / heads, s.inner / heads] : [s.d, s.dv];
    const given = Number.isFinite(typedScale);
    const arrays = {};
    const put = (name, shape, data) => { arrays[name] = NumberArray.of(shape, data); };
    if (mha) {
        for (const name of ['q', 'k', 'v']) {
            const joined = multiply(numbers.x, numbers[`w_${name}`], s.L, s.width, s.inner);
            put(name, [1, heads, s.L, d], splitHeads(joined, s.L, heads, d));
            put(`w_${name}`, [s.width, s.inner], numbers[`w_${name}`]);
        }
        put('x', [1, s.L, s.width], numbers.x);
        put('w_o', [s.inner, s.width], numbers.w_o);
    } else {
        put('q', [1, 1, Lq, d], numbers.q);
        put('k', [1, 1, Lk, d], numbers.k);
        put('v', [1, 1, Lk, dv], numbers.v);
    }
    const info = {kind: t.kind, shape: {B: 1, H: heads, Hkv: heads, Lq, Lk, d_k: d, d_v: dv, width: s.width},
                  options: {scale: given ? typedScale : 1 / Math.sqrt(d), scale_given: given, softcap: 0, causal: t.causal, offset: [0]},
                  labels: {}};
    const model = new Model(info, arrays);
    if (mha) {
        addResult(model, put, numbers.w_o, s);
    }
    return model;
}

// The heads' outputs and the last projection.
function addResult(model, put, wo, s) {
    const {H, Lq, dv} = model, output = new Float64Array(H * Lq * dv), concat = new Float64Array(H * Lq * dv);
    for (let h = 0; h < H; h++) {
        for (let i = 0; i < Lq; i++) {
            for (let c = 0; c < dv; c++) {
                output[(h * Lq + i) * dv + c] = concat[i * H * dv + h * dv + c] = model.head(0, h).output(i, c);
            }
        }
    }
    put('output', [1, H, Lq, dv], output);
    put('result', [1, Lq, s.width], multiply(concat, wo, Lq, H * dv, s.width));
}

// The numbers of one head of the file as text, where they are few enough to be edited; or null.
function teacherFromFile(model, b, h) {
    const fits = model.has('q') && model.has('k') && model.has('v') && Math.max(model.Lq, model.Lk, model.d, model.dv) <= TEACHER_MOST;
    if (!fits) {
        return null;
    }
    const texts = (m) => Array.from({length: m.rows}, (_, i) => Array.from({length: m.cols}, (_, j) => numberText(m.at(i, j))));
    const t = teacherStart();
    for (const name of ['q', 'k', 'v']) {
        t.text[name] = texts(headMatrix(model, b, h, name));
    }
    Object.assign(t.size, {Lq: model.Lq, Lk: model.Lk, d: model.d, dv: model.dv});
    t.causal = Boolean(model.options.causal);
    t.scale = model.options.scale_given ? numberText(model.head(b, h).scale) : '';
    return t;
}

// ---- the editor ----

// change(sizes): called after t has changed; sizes tells that the editor itself must be drawn again.
function teacherEditor(t, change, fromFile) {
    const box = el('section.teacher', {'aria-label': say('teacher_title')});
    box.append(el('h2', {}, say('teacher_title')), el('p.hint', {}, say('teacher_hint')), teacherSettings(t, change, fromFile));
    const matrices = el('div.teacher-matrices');
    for (const [name, shape] of Object.entries(teacherShapes(t))) {
        matrices.append(teacherMatrix(t, name, shape, change));
    }
    box.append(matrices, el('p.problem', {id: 'teacher-problem', role: 'alert'}));
    return box;
}

function teacherSettings(t, change, fromFile) {
    const field = (label, input) => el('label.field', {}, el('span', {}, label), input);
    const size = (label, name) => {
        const input = el('input', {type: 'number', min: '1', max: String(TEACHER_MOST), value: String(t.size[name]), id: `size-${name}`});
        input.addEventListener('change', () => {
            t.size[name] = Math.min(TEACHER_MOST, Math.max(1, Math.round(Number(input.value)) || 1));
            change(true);
        });
        return field(label, input);
    };
    const kind = el('select', {id: 'teacher-kind'},
        ...['sdpa', 'mha'].map((name) => el('option', {value: name, selected: t.kind === name ? '' : null}, say(`teacher_${name}`))));
    kind.addEventListener('change', () => { t.kind = kind.value; change(true); });
    const row = el('div.teacher-settings', {}, field(say('teacher_kind'), kind));
    if (t.kind === 'sdpa') {
        row.append(size(say('rows_n'), 'Lq'), size(say('keys_n'), 'Lk'), size(say('width_n'), 'd'), size(say('values_n'), 'dv'));
    } else {
        row.append(size(say('tokens_n'), 'L'), size('X', 'width'), size('W', 'inner'), field(say('heads_n'), headsInput(t, change)));
    }
    row.append(field(say('scale_n'), scaleInput(t, change)),
        checkField(say('causal'), t.causal, 'teacher-causal', (on) => { t.causal = on; change(false); }));
    if (t.kind === 'sdpa') {
        row.append(checkField(say('key_as'), t.keyTurned, 'teacher-turned', (on) => { t.keyTurned = on; change(true); }));
    }
    row.append(...teacherButtons(t, change, fromFile));
    return row;
}

function checkField(label, on, id, set) {
    const input = el('input', {type: 'checkbox', id});
    input.checked = on;
    input.addEventListener('change', () => set(input.checked));
    return el('label.field.check', {}, input, el('span', {}, label));
}

function headsInput(t, change) {
    const input = el('input', {type: 'number', min: '1', max: String(TEACHER_MOST), value: String(t.heads), id: 'teacher-heads'});
    input.addEventListener('input', () => { t.heads = Math.max(1, Math.round(Number(input.value)) || 1); change(false); });
    return input;
}

function scaleInput(t, change) {
    const input = el('input', {type: 'text', value: t.scale, placeholder: say('scale_auto'), id: 'teacher-scale', inputmode: 'decimal',
        size: '6'});
    input.addEventListener('input', () => { t.scale = input.value; change(false); });
    return input;
}

function teacherButtons(t, change, fromFile) {
    const fill = (make) => {
        for (const [name, [rows, cols]] of Object.entries(teacherShapes(t))) {
            t.text[name] = Array.from({length: rows}, () => Array.from({length: cols}, make));
        }
        change(true);
    };
    const button = (word, id, act) => {
        const made = el('button', {type: 'button', id}, say(word));
        made.addEventListener('click', act);
        return made;
    };
    const list = [button('random', 'teacher-random', () => fill(() => String(Math.round(Math.random() * 8 - 4) / 2))),
        button('zeros', 'teacher-zeros', () => fill(() => '0'))];
    return fromFile ? [...list, button('from_this_file', 'teacher-file', fromFile)] : list;
}

function teacherMatrix(t, name, [rows, cols], change) {
    const turned = name === 'k' && t.keyTurned, [r, c] = turned ? [cols, rows] : [rows, cols];
    const title = `${symbolOf(name)}${turned ? '^T' : ''}`;
    const table = el('table.teacher-matrix', {'aria-label': plainFormula(title)});
    for (let i = 0; i < r; i++) {
        const line = el('tr');
        for (let j = 0; j < c; j++) {
            const [a, b] = turned ? [j, i] : [i, j];
            line.append(el('td', {}, teacherInput(t, name, a, b, change, {i, j, title: plainFormula(title)})));
        }
        table.append(line);
    }
    return el('figure.teacher-figure', {}, el('figcaption', {}, rich(title), ` ${sizes(r, c)}`), table);
}

function teacherInput(t, name, a, b, change, at) {
    const input = el('input', {type: 'text', inputmode: 'decimal', value: cellText(t, name, a, b), autocomplete: 'off', 'data-matrix': name,
        'data-row': String(at.i),
                               'data-column': String(at.j), 'aria-label': say('cell_label', {matrix: at.title, i: at.i, j: at.j})});
    input.addEventListener('input', () => {
        setCellText(t, name, a, b, input.value);
        input.setAttribute('aria-invalid', String(Number.isNaN(typedNumber(input.value))));
        change(false);
    });
    input.addEventListener('focus', () => input.select());
    input.addEventListener('keydown', (event) => teacherKey(event, input, name, at));
    input.addEventListener('paste', (event) => teacherPaste(event, t, name, at, name === 'k' && t.keyTurned, change));
    return input;
}

// Up, down and Enter go from cell to cell, as in a spreadsheet.
function teacherKey(event, input, name, at) {
    const step = {ArrowUp: -1, ArrowDown: 1, Enter: 1}[event.key];
    const next = step && document.querySelector(`input[data-matrix="${name}"][data-row="${at.i + step}"][data-column="${at.j}"]`);
    if (next) {
        event.preventDefault();
        next.focus();
    }
}

// Several rows from a spreadsheet or a .csv; the matrix grows as far as it must.
function teacherPaste(event, t, name, at, turned, change) {
    const text = event.clipboardData.getData('text').trim();
    const table = text.split(/\r?\n/).map((line) => line.trim().split(/\s*[\t;,]\s*|\s+/));
    if (table.length === 1 && table[0].length === 1) {
        return;
    }
    event.preventDefault();
    const most = {rows: 0, cols: 0};
    table.forEach((line, i) => line.forEach((word, j) => {
        const [a, b] = turned ? [at.j + j, at.i + i] : [at.i + i, at.j + j];
        if (a < TEACHER_MOST && b < TEACHER_MOST) {
            setCellText(t, name, a, b, word);
            most.rows = Math.max(most.rows, a + 1);
            most.cols = Math.max(most.cols, b + 1);
        }
    }));
    growTo(t, name, most);
    change(true);
}

function growTo(t, name, most) {
    const axes = {q: ['Lq', 'd'], k: ['Lk', 'd'], v: ['Lk', 'dv'], x: ['L', 'width'], w_o: ['inner', 'width']}[name] || ['width', 'inner'];
    t.size[axes[0]] = Math.max(t.size[axes[0]], most.rows);
    t.size[axes[1]] = Math.max(t.size[axes[1]], most.cols);
}
