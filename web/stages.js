// SPDX-License-Identifier: Apache-2.0
// The stages in the order of computation, and the matrices of each: operands, then the result. A stage that the data lacks is left out.

// ---- matrices ----

// One matrix is made once, so that its range is looked for once.
function cached(model, key, make) {
    model.matrices = model.matrices || new Map();
    if (!model.matrices.has(key)) {
        model.matrices.set(key, make());
    }
    return model.matrices.get(key);
}

const SYMBOLS = {q: 'Q', k: 'K', v: 'V', x: 'X', m: 'M', m_v: 'M_V', w_q: 'W_Q', w_k: 'W_K', w_v: 'W_V', w_o: 'W_O', b_q: 'b_Q',
                 b_k: 'b_K', b_v: 'b_V', b_o: 'b_O', result: 'O', added: 'bias', q_plain: 'Q', k_plain: 'K'};

const symbolOf = (name) => SYMBOLS[name] || name;

// With RoPE there are two Q and two K: the projected ones, and the turned ones that the scores are made of.
const isTurnedByRope = (model, name) => (name === 'q' || name === 'k') && model.has(`${name}_plain`);
const symbolIn = (model, name) => (isTurnedByRope(model, name) ? `${symbolOf(name)}_rot` : symbolOf(name));

// What is computed in the page is double.
const dtypeOf = (model, name) => (model.has(name) ? model.arrays[name].dtype : 'f64');

function axisNames(model, axis) {
    return axis === 'query' ? model.labels.query || null : axis === 'key' ? model.labels.key || model.labels.query_as_key || null : null;
}

// scores, scaled, capped, masked, weights of one head: [Lq, Lk]
function cellMatrix(model, b, h, name) {
    return cached(model, `${name}/${b}/${h}`, () => {
        const head = model.head(b, h), weights = name === 'weights';
        const cheap = weights && (model.has('weights_u8') || model.has('top_index'));
        return matrixOf({
            panel: name, rows: model.Lq, cols: model.Lk, square: true, rowAxis: 'query', colAxis: 'key',
            rowNames: axisNames(model, 'query'), colNames: axisNames(model, 'key'),
            at: (i, j) => head.value(name, i, j),
            coarse: cheap ? (i, j) => head.coarseWeight(i, j) : null,
            hidden: weights || name === 'masked' ? (i, j) => head.isHidden(i, j) : null,
            rowSum: weights && (model.has('weights') || head.computes) ? (i) => head.rowSum(i) : null,
            scale: weights ? 'sequential' : 'diverging', cost: model.has(name) ? 1 : model.d + 4, dtype: dtypeOf(model, name),
        });
    });
}

// q, k, v, output of one head: rows of features
function headMatrix(model, b, h, name) {
    return cached(model, `${name}/${b}/${h}`, () => {
        const head = model.head(b, h), query = name.startsWith('q') || name === 'output';
        const cols = name === 'v' || name === 'output' ? model.dv : model.d;
        const numbers = name === 'output' ? null : head[name];
        return matrixOf({
            panel: name, rows: query ? model.Lq : model.Lk, cols, rowAxis: query ? 'query' : 'key', colAxis: 'feature',
            rowNames: axisNames(model, query ? 'query' : 'key'),
            at: numbers ? (i, c) => numbers[i * cols + c] : (i, c) => head.output(i, c),
            cost: name === 'output' && !model.has('output') ? model.Lk * model.d : 1, dtype: dtypeOf(model, name),
        });
    });
}

// An array that has no heads: x, m, weights of the projections, the result. A vector is a matrix of one row.
function plainMatrix(model, b, name, rowAxis) {
    return cached(model, `${name}/${b}`, () => {
        const array = model.arrays[name], rank = array.shape.length;
        const cols = array.shape[rank - 1], rows = name.startsWith('b_') ? 1 : array.shape[rank - 2];
        const page = name.startsWith('b_') ? array.all() : array.page([b]);
        return matrixOf({panel: name, rows, cols, rowAxis: rowAxis || 'feature', colAxis: 'feature', rowNames: axisNames(model, rowAxis),
                         at: (i, c) => page[i * cols + c], dtype: array.dtype});
    });
}

// All heads of q, k, v or the outputs side by side, as they are before the split and after the join: [L, heads * d]
function joinedMatrix(model, b, name) {
    return cached(model, `all_${name}/${b}`, () => {
        const query = name === 'q' || name === 'output', heads = query ? model.H : model.Hkv;
        const d = name === 'q' || name === 'k' ? model.d : model.dv;
        const array = model.arrays[`${name}_plain`] || model.arrays[name];
        const pages = Array.from({length: heads}, (_, h) => array.page([b, h]));
        return matrixOf({panel: `all_${name}`, rows: query ? model.Lq : model.Lk, cols: heads * d, rowAxis: query ? 'query' : 'key',
            colAxis: 'feature',
                         rowNames: axisNames(model, query ? 'query' : 'key'), bands: {size: d, count: heads}, dtype: array.dtype,
                         at: (i, c) => pages[Math.floor(c / d)][i * d + c % d]});
    });
}

// What the bias and ALiBi add to a head
function addedMatrix(model, b, h) {
    return cached(model, `added/${b}/${h}`, () => {
        const head = model.head(b, h);
        return matrixOf({panel: 'added', rows: model.Lq, cols: model.Lk, square: true, rowAxis: 'query', colAxis: 'key', dtype: 'f64',
                         rowNames: axisNames(model, 'query'), colNames: axisNames(model, 'key'), at: (i, j) => head.added(i, j)});
    });
}

// The matrix of a head stage for what is chosen: one head, or all of them combined.
function chosenMatrix(model, view, name) {
    const of = STAGE_NAMES.includes(name) ? cellMatrix : headMatrix;
    if (of === headMatrix || view.mode === 'one' || view.mode === 'all') {
        return of(model, view.batch, view.head, name);
    }
    return cached(model, `${name}/${view.batch}/${view.mode}`, () =>
        combined(Array.from({length: model.H}, (_, h) => of(model, view.batch, h, name)), view.mode));
}

// ---- stages ----

const sizes = (...n) => `(${n.join(', ')})`;
const productShape = (a, b, c) => `${sizes(a, b)} × ${sizes(b, c)} → ${sizes(a, c)}`;

function operand(model, view, name, turned = false) {
    const matrix = chosenMatrix(model, view, name);
    const shared = ['k', 'k_plain', 'v'].includes(name) && model.Hkv < model.H;
    const group = model.H / model.Hkv, kv = Math.floor(view.head / group);
    const symbol = symbolIn(model, name);
    const note = shared ? say('shared', {symbol: symbolOf(name), kv, from: kv * group, to: (kv + 1) * group - 1}) : '';
    return {symbol: turned ? `${symbol}^T` : symbol, matrix: turned ? transposed(matrix) : matrix, note};
}

function resultOf(model, view, name) {
    return {symbol: symbolIn(model, name), matrix: chosenMatrix(model, view, name), result: true};
}

// Several heads and batch items in words: "in each of 8 heads".
function times(model) {
    const words = [];
    if (model.H > 1) {
        words.push(say('each_head', {n: model.H}));
    }
    if (model.B > 1 && !model.layered) {
        words.push(say('each_item', {n: model.B}));
    }
    return words.join(' ');
}

function inputsStage(model) {
    return {id: 'inputs', formula: 'Q, K, V', perHead: true, about: () => say('a_inputs'),
            shape: () => `Q ${sizes(model.Lq, model.d)}   K ${sizes(model.Lk, model.d)}   V ${sizes(model.Lk, model.dv)}   ${times(model)}`,
            panels: (view) => ['q', 'k', 'v'].map((name) => ({...operand(model, view, name), result: name === 'q'}))};
}

// Q and K turned by their positions.
function ropeStage(model) {
    const turned = (view, name) => [operand(model, view, `${name}_plain`), {op: '→'}];
    return {id: 'rope', formula: 'Q_rot, K_rot = RoPE(Q), RoPE(K)', perHead: true, about: () => say('a_rope'),
            shape: () => `${sizes(model.Lq, model.d)} → ${sizes(model.Lq, model.d)}   ${times(model)}`,
            panels: (view) => [...turned(view, 'q'), resultOf(model, view, 'q'), {op: ''},
                ...turned(view, 'k'), resultOf(model, view, 'k')]};
}

function scoresStage(model) {
    return {id: 'scores', formula: `scores = ${symbolIn(model, 'q')} ${symbolIn(model, 'k')}^T`, perHead: true, cells: true,
            about: () => say('a_scores'),
            shape: () => `${productShape(model.Lq, model.d, model.Lk)}   ${times(model)}`,
            panels: (view) => (model.head(0, 0).computes && isSingle(view) ?
                [operand(model, view, 'q'), {op: '×'}, operand(model, view, 'k', true), {op: '='}] :
                    []).concat(resultOf(model, view, 'scores'))};
}

const isSingle = (view) => view.mode === 'one' || view.mode === 'all';

// A stage that keeps the shape: from the one before, by op.
function cellStage(model, id, before, formula, about, op, more = () => []) {
    const shape = () => `${sizes(model.Lq, model.Lk)} → ${sizes(model.Lq, model.Lk)}   ${times(model)}`;
    return {id, formula, perHead: true, cells: true, about, shape, panels: (view) => {
        const source = before ? [operand(model, view, before), ...more(view), {op}] : [];
        return source.concat(resultOf(model, view, id));
    }};
}

function scaledStage(model, before) {
    const scale = model.head(0, 0).scale, given = model.options.scale_given;
    if (!model.known) {
        return cellStage(model, 'scaled', before, 'scaled = scores × scale', () => say('a_scaled_given'), '× scale =');
    }
    const formula = `scaled = scores${model.d && !given ? ' / √d_k = scores' : ''} × ${numberText(scale)}`;
    return cellStage(model, 'scaled', before, formula, () => say(given ? 'a_scaled_given' : 'a_scaled'), `× ${numberText(scale)} =`);
}

function cappedStage(model, before) {
    const cap = model.known ? numberText(model.options.softcap) : 'cap';
    return cellStage(model, 'capped', before, `capped = ${cap} tanh(scaled / ${cap})`, () => say('a_capped', {cap}), '→');
}

function hidesAnything(model) {
    const o = model.options;
    return Boolean(model.has('mask') || model.has('bias') || o.causal || o.window || o.kv_len || o.q_len || o.alibi);
}

// Without Q and K the file does not tell; its -inf do.
const mayHide = (model) => hidesAnything(model) || (!model.head(0, 0).computes && model.has('masked'));

function maskedStage(model, before) {
    const adds = [model.has('bias') ? 'bias' : '', model.options.alibi ? 'ALiBi' : ''].filter(Boolean);
    const any = mayHide(model);
    const formula = `masked = ${[before || 'capped', ...adds].join(' + ')}${any ? ', hidden = -∞' : ''}`;
    const more = (view) => (adds.length && isSingle(view) ?
        [{op: '+'}, {symbol: adds.join(' + '), matrix: addedMatrix(model, view.batch, view.head)}] : []);
    return cellStage(model, 'masked', before, formula, () => say(any ? 'a_masked' : 'a_masked_none'), '→', more);
}

function weightsStage(model, before) {
    const sinks = Boolean(model.options.sinks), dropout = model.options.dropout > 0;
    const softmax = `softmax(masked${sinks ? ', sink' : ''})`;
    const about = () => [before ? 'a_weights' : 'a_weights_view', sinks && 'a_weights_sink', dropout && 'a_weights_dropout'].filter(Boolean)
        .map((word) => say(word)).join(' ');
    return cellStage(model, 'weights', before, `weights = ${dropout ? `dropout(${softmax})` : softmax}`, about, '→');
}

const stagesHave = (model, id) => attentionStages(model).some((stage) => stage.id === id);

function outputStage(model) {
    return {id: 'output', formula: 'output = weights V', perHead: true, about: () => say('a_output'),
            shape: () => `${productShape(model.Lq, model.Lk, model.dv)}   ${times(model)}`,
            panels: (view) => {
                const single = {...view, mode: 'one'};
                const given = model.has('v') && stagesHave(model, 'weights');
                const operands = given ? [operand(model, single, 'weights'), {op: '×'}, operand(model, single, 'v'), {op: '='}] : [];
                return operands.concat(resultOf(model, single, 'output'));
            }};
}

// Q = X W_Q + b_Q, and the same for K and V with the memory.
function projectStage(model, name) {
    const source = name === 'v' && model.has('m_v') ? 'm_v' : name !== 'q' && model.has('m') ? 'm' : 'x';
    const Symbol = name.toUpperCase(), bias = model.has(`b_${name}`);
    const heads = name === 'q' ? model.H : model.Hkv, d = name === 'v' ? model.dv : model.d;
    const width = model.has(source) ? model.arrays[source].shape.at(-1) : model.info.shape.width;
    return {id: name, project: name, source, formula: `${Symbol} = ${symbolOf(source)} W_${Symbol}${bias ? ` + b_${Symbol}` : ''}`,
            about: () => say(`a_${name}`, {source: symbolOf(source).replace('_', '')}),
            shape: () => productShape(name === 'q' ? model.Lq : model.Lk, width, heads * d),
            panels: (view) => {
                const parts = [];
                if (model.has(source)) {
                    const matrix = plainMatrix(model, view.batch, source, source === 'x' ? 'query' : 'key');
                    parts.push({symbol: symbolOf(source), matrix}, {op: '×'});
                    parts.push(model.has(`w_${name}`) ? {symbol: `W_${Symbol}`, matrix: weightMatrix(model, name)} : {op: `W_${Symbol}`});
                    parts.push(...biasPanels(model, view, name), {op: '='});
                }
                return parts.concat({symbol: Symbol, matrix: joinedMatrix(model, view.batch, name), result: true});
            }};
}

function weightMatrix(model, name) {
    const heads = name === 'q' || name === 'o' ? model.H : model.Hkv;
    const m = plainMatrix(model, 0, `w_${name}`);
    m.bands = name === 'o' ? null : {size: m.cols / heads, count: heads};
    return m;
}

function biasPanels(model, view, name) {
    return model.has(`b_${name}`) ? [{op: '+'}, {symbol: symbolOf(`b_${name}`), matrix: plainMatrix(model, view.batch, `b_${name}`)}] : [];
}

function splitStage(model) {
    const sides = model.kind === 'split' ? ['x'] : ['q', 'k', 'v'].filter((name) => model.has(name));
    return {id: 'split', formula: '(L, H·d) → (L, H, d) → (H, L, d)', bands: sides,
            about: () => say('a_split', {H: model.H, d: splitWidth(model)}),
            shape: () => `${sizes(model.Lq, model.H * splitWidth(model))} → ${sizes(model.Lq, model.H, splitWidth(model))} → ` +
                         sizes(model.H, model.Lq, splitWidth(model)),
            panels: () => []};
}

const splitWidth = (model) => (model.kind === 'split' ? model.arrays.x.shape.at(-1) / model.H : model.d);

function concatStage(model) {
    return {id: 'concat', formula: 'concat = [head_0 | head_1 | … ]', bands: ['output'], joins: true,
            about: () => say('a_concat', {H: model.H, d: model.dv}),
            shape: () => [[model.H, model.Lq, model.dv], [model.Lq, model.H, model.dv], [model.Lq, model.H * model.dv]]
                .map((shape) => sizes(...shape)).join(' → '),
            panels: () => []};
}

function resultStage(model) {
    const out = model.arrays.result.shape.at(-1), bias = model.has('b_o');
    return {id: 'result', formula: `O = concat W_O${bias ? ' + b_O' : ''}`, about: () => say('a_result'),
            shape: () => productShape(model.Lq, model.H * model.dv, out),
            panels: (view) => [
                {symbol: 'concat', matrix: joinedMatrix(model, view.batch, 'output')}, {op: '×'},
                model.has('w_o') ? {symbol: 'W_O', matrix: weightMatrix(model, 'o')} : {op: 'W_O'},
                ...biasPanels(model, view, 'o'), {op: '='},
                {symbol: 'O', matrix: plainMatrix(model, view.batch, 'result', 'query'), result: true},
            ]};
}

function matrixStage(model, id, joins) {
    return {id, formula: joins ? '(H, L, d) → (L, H, d) → (L, H·d)' : 'X', about: () => say(`a_${id}`), joins, bands: joins ? ['x'] : null,
            shape: () => (joins ? `${sizes(model.H, model.Lq, splitWidth(model))} → ` : '') + sizes(model.Lq, model.H * splitWidth(model)),
            panels: (view) => [{symbol: 'X', matrix: bandedX(model, view.batch), result: true}]};
}

function bandedX(model, b) {
    const m = plainMatrix(model, b, 'x', 'query');
    m.bands = {size: splitWidth(model), count: model.H};
    m.rowAxis = 'row';
    return m;
}

// scores .. weights: what the file has or what Q and K give.
function attentionStages(model) {
    const computes = model.head(0, 0).computes, stages = [];
    let before = null;
    const add = (id, make) => {
        if (computes || model.has(id) || (id === 'weights' && (model.has('weights_u8') || model.has('top_index')))) {
            stages.push(make(model, before));
            before = id;
        }
    };
    add('scores', scoresStage);
    add('scaled', scaledStage);
    if (model.options.softcap > 0 || (!computes && model.has('capped'))) {
        add('capped', cappedStage);
    }
    add('masked', maskedStage);
    add('weights', weightsStage);
    return stages;
}

function buildStages(model) {
    if (model.kind === 'split') {
        return [matrixStage(model, 'x', false), splitStage(model), matrixStage(model, 'join', true)];
    }
    const mha = model.kind === 'mha', all = model.has('q') && model.has('k') && model.has('v');
    const stages = mha ? [...['q', 'k', 'v'].map((name) => projectStage(model, name)), splitStage(model)] : all ? [inputsStage(model)] : [];
    if (mha && model.has('q_plain')) {
        stages.push(ropeStage(model));
    }
    stages.push(...attentionStages(model));
    if (model.has('output') || (all && model.known)) {
        stages.push(outputStage(model));
    }
    if (mha) {
        stages.push(concatStage(model));
    }
    if (model.has('result')) {
        stages.push(resultStage(model));
    }
    return stages;
}
