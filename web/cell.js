// SPDX-License-Identifier: Apache-2.0
// The arithmetic of one cell: where its number comes from, why it is hidden, where it goes.
// An explanation is {symbol, place, value, blocks, goes}. A block is one of
//   {line, answer, note}          a sentence or an equation; answer: its end is the answer; note: it gives the answer away
//   {terms: {head, rows, sum}}    rows of numbers, the last of each is what is summed; sum may be null
//   {why: [sentences]}            reasons for being hidden
// and goes is a list of {text, stage, panel, i, j, head}, a place to go to.

const DTYPE_WORDS = {f32: 'f32', f64: 'f64'};

// "1 (am)"
function placeText(names, n) {
    return names && names[n] !== undefined ? `${n} (${names[n]})` : String(n);
}

function whyHidden(head, i, j) {
    const o = head.model.options, bits = head.hiddenBits(i, j);
    const values = {i, j, pos: head.position(i)};
    const open = (n) => (n < 0 ? '∞' : n);
    const reasons = HIDDEN.filter((_, n) => bits >> n & 1).map((name) => say(`why_${name}`, {
        ...values, n: name === 'q_len' ? head.qLen : head.kvLen, left: o.window && open(o.window[0]),
        right: o.window && open(o.window[1])}));
    return reasons.length || !head.isHidden(i, j) ? reasons : [say('why_unknown')];
}

function whyShort(head, i, j) {
    const bits = head.hiddenBits(i, j);
    const names = HIDDEN.filter((_, n) => bits >> n & 1).map((name) => say(`short_${name}`));
    return names.length ? [...new Set(names)].join(', ') : say('short_unknown');
}

// A sum of products: a[c] * b[c], and what is added to it.
function productTerms(symbols, count, left, right, bias = null) {
    const rows = Array.from({length: count}, (_, c) => [c, left(c), right(c), left(c) * right(c)]);
    let sum = rows.reduce((total, row) => total + row[3], 0);
    if (bias !== null) {
        rows.push([say('bias_term'), null, null, bias]);
        sum += bias;
    }
    return {terms: {head: ['', ...symbols, say('product')], rows, sum}};
}

// Where the kernel's number differs from the sum done here in the digits that are shown.
function kernelNote(shown, again, matrix, known) {
    if (Object.is(numberText(shown), numberText(again)) || !Number.isFinite(shown) || !Number.isFinite(again)) {
        return [];
    }
    const value = exactText(shown, matrix.dtype);
    return [{line: `${known ? say('kernel_says', {dtype: DTYPE_WORDS[matrix.dtype] || 'f32', value}) : say('file_says', {value})}; ` +
                   say('again_here', {value: numberText(again)}), note: true}];
}

const explainers = {
    scores({model, head, i, j}) {
        if (!head.computes) {
            return [{line: say('from_file')}];
        }
        const Q = symbolIn(model, 'q'), K = symbolIn(model, 'k');
        return [{line: `scores[${i},${j}] = Σ_c ${Q}[${i},c] · ${K}[${j},c]`},
                productTerms([`${Q}[${i},c]`, `${K}[${j},c]`], model.d, (c) => head.q[i * model.d + c], (c) => head.k[j * model.d + c])];
    },
    scaled({model, head, i, j, value}) {
        const score = model.known ? head.value('scores', i, j) : undefined;
        const numbers = `${numberText(score)} × ${numberText(head.scale)} = ${numberText(value)}`;
        return score === undefined ? [{line: say('from_file')}] :
            [{line: `scaled[${i},${j}] = scores[${i},${j}] × scale = ${numbers}`, answer: true}];
    },
    capped({model, head, i, j, value}) {
        if (!model.known) {
            return [{line: say('from_file')}];
        }
        const cap = numberText(head.softcap), x = head.value('scaled', i, j);
        return [{line: `capped[${i},${j}] = cap · tanh(scaled / cap) = ${cap} · tanh(${numberText(x)} / ${cap}) = ${numberText(value)}`,
            answer: true}];
    },
    masked({model, head, i, j, value, before}) {
        const source = model.known && before ? head.value(before, i, j) : null;
        if (head.isHidden(i, j)) {
            return [{why: whyHidden(head, i, j)}, {line: `masked[${i},${j}] = -∞, ${say('hidden_weight')}`}];
        }
        if (source === undefined || source === null) {
            return [{line: say('from_file')}];
        }
        const bias = head.bias ? ` + ${numberText(head.bias(i, j))} (bias)` : '';
        const alibi = head.slope ? ` - ${numberText(head.slope)} · |${head.position(i)} - ${j}| (ALiBi)` : '';
        return [{line: `masked[${i},${j}] = ${numberText(source)}${bias}${alibi} = ${numberText(value)}`, answer: true}];
    },
    weights: explainWeight,
    output({model, head, i, j}) {
        if (!model.has('v') || !(head.computes || model.has('weights'))) {
            return [{line: say('from_file')}];
        }
        const seen = visibleKeys(head, i);
        if (seen.length === 0) {
            return [{line: say('empty_row')}];
        }
        const terms = productTerms([`weights[${i},j]`, `V[j,${j}]`], seen.length, (n) => head.value('weights', i, seen[n]),
                                   (n) => head.v[seen[n] * model.dv + j]);
        terms.terms.rows.forEach((row, n) => { row[0] = placeText(axisNames(model, 'key'), seen[n]); });
        return [{line: `output[${i},${j}] = Σ_j weights[${i},j] · V[j,${j}]`}, terms];
    },
    added({head, i, j}) {
        const alibi = head.slope ? ` - ${numberText(head.slope)} · |${head.position(i)} - ${j}| (ALiBi)` : '';
        return [{line: `${head.bias ? `${numberText(head.bias(i, j))} (bias)` : '0'}${alibi} = ${numberText(head.added(i, j))}`}];
    },
};

function visibleKeys(head, i) {
    return Array.from({length: head.Lk}, (_, j) => j).filter((j) => !head.isHidden(i, j));
}

// The softmax of the row, with its largest number taken off first.
function explainWeight({model, head, i, j, value}) {
    if (head.isHidden(i, j)) {
        return [{why: whyHidden(head, i, j)}, {line: say('hidden_weight')},
            ...(head.computes && head.row(i).visible === 0 ? [{line: say('empty_row')}] : [])];
    }
    if (model.tokens) {
        return explainJoinedWords(head, i, j);
    }
    if (!head.computes && !head.stored('masked')) {
        const word = value === undefined ? say('not_top', {k: model.info.summary.k}) : say('view_softmax');
        return [{line: word}, topTerms(head, i)].filter(Boolean);
    }
    const row = head.row(i), power = (key) => Math.exp(row.masked[key] - row.max);
    const names = axisNames(model, 'key');
    const rows = visibleKeys(head, i).map((key) => [placeText(names, key), row.masked[key], row.masked[key] - row.max, power(key)]);
    if (row.sink > 0) {
        rows.push([say('sink_term'), head.sink, head.sink - row.max, row.sink]);
    }
    const share = power(j) / row.sum, sum = numberText(row.sum), max = numberText(row.max);
    const below = `Σ_j e^(masked[${i},j] - max)`;
    const blocks = [
        {line: `weights[${i},${j}] = e^(masked[${i},${j}] - max) / ${row.sink > 0 ? `(${below} + e^(sink - max))` : below}`},
        {line: `= e^(${numberText(row.masked[j])} - ${max}) / ${sum} = ${numberText(power(j))} / ${sum} = ${numberText(share)}`,
         answer: true},
        {line: say('max_off', {max})},
        {terms: {head: [say('key'), 'masked', '- max', 'e^(…)'], rows, sum: row.sum, here: placeText(names, j)}},
    ];
    if (head.dropout > 0) {
        const word = value === 0 ? say('dropped', {value: numberText(share)}) :
            say('scaled_up', {value: numberText(share), p: head.dropout});
        return blocks.concat({line: word, note: true});
    }
    return blocks.concat(kernelNote(value, share, {dtype: dtypeOf(model, 'weights')}, model.known));
}

function topTerms(head, i) {
    const top = head.topRow(i);
    const rows = top && [...top].sort((a, b) => b[1] - a[1]).map(([key, weight]) => [placeText(axisNames(head.model, 'key'), key), weight]);
    return rows && {terms: {head: [say('key'), 'weights'], rows, sum: rows.reduce((sum, row) => sum + row[1], 0)}};
}

// A cell of the turned q or k: two columns of the projected one, by the angle of the position.
function explainTurned({model, head, i, j}, name) {
    const {interleaved, factor, frequencies, rows, keys} = model.options.rope, pairs = frequencies.length;
    const plain = headMatrix(model, head.b, head.h, `${name}_plain`), S = symbolOf(name);
    if (j >= 2 * pairs) {
        return [{line: say('rope_pass', {pairs: 2 * pairs})}, {line: `${S}_rot[${i},${j}] = ${S}[${i},${j}]`}];
    }
    const pair = interleaved ? j >> 1 : j % pairs, second = interleaved ? j % 2 === 1 : j >= pairs;
    const other = interleaved ? j ^ 1 : second ? j - pairs : j + pairs;
    const pos = (name === 'q' ? rows : keys)[head.b][i], angle = pos * frequencies[pair], sign = second ? '+' : '-';
    const c = Math.cos(angle) * factor, s = Math.sin(angle) * factor, own = plain.at(i, j), across = plain.at(i, other);
    const [times, close] = factor === 1 ? ['', ''] : [`${numberText(factor)} (`, ')'];
    const value = own * c + (second ? across * s : -across * s);
    return [
        {line: say('rope_pair', {j, other, pair, pos, frequency: numberText(frequencies[pair]), angle: numberText(angle)})},
        {line: `${S}_rot[${i},${j}] = ${times}${S}[${i},${j}] cos ${sign} ${S}[${i},${other}] sin${close}`},
        {line: `= ${numberText(own)} · ${numberText(c)} ${sign} ${numberText(across)} · ${numberText(s)} = ${numberText(value)}`,
         answer: true},
    ];
}

// A cell of X W + b: row i of the source times column c of the weights.
function explainProjection(model, stage, b, i, c) {
    const name = stage.project;
    if (!model.has(stage.source) || !model.has(`w_${name}`)) {
        return [{line: say('not_saved')}];
    }
    const x = plainMatrix(model, b, stage.source), w = plainMatrix(model, 0, `w_${name}`);
    const bias = model.has(`b_${name}`) ? plainMatrix(model, 0, `b_${name}`).at(0, c) : null;
    const source = symbolOf(stage.source);
    const added = bias === null ? '' : ` + b_${symbolOf(name)}[${c}]`;
    return [{line: `${symbolOf(name)}[${i},${c}] = Σ_n ${source}[${i},n] · W_${symbolOf(name)}[n,${c}]${added}`},
            productTerms([`${source}[${i},n]`, `W_${symbolOf(name)}[n,${c}]`], x.cols, (n) => x.at(i, n), (n) => w.at(n, c), bias)];
}

function explainResult(model, b, i, c) {
    if (!model.has('w_o')) {
        return [{line: say('not_saved')}];
    }
    const concat = joinedMatrix(model, b, 'output'), w = plainMatrix(model, 0, 'w_o');
    const bias = model.has('b_o') ? plainMatrix(model, 0, 'b_o').at(0, c) : null;
    return [{line: `O[${i},${c}] = Σ_n concat[${i},n] · W_O[n,${c}]${bias === null ? '' : ` + b_O[${c}]`}`},
            productTerms([`concat[${i},n]`, `W_O[n,${c}]`], concat.cols, (n) => concat.at(i, n), (n) => w.at(n, c), bias)];
}

const belongs = (c, d) => say('belongs', {c, d, h: Math.floor(c / d), rest: c % d});

// Over heads: what each of them has there.
function explainCombined(model, view, panel, i, j) {
    const rows = Array.from({length: model.H}, (_, h) => [say('head_n', {h}), cellMatrix(model, view.batch, h, panel).at(i, j)]);
    const values = rows.map((row) => row[1] || 0), total = values.reduce((a, b) => a + b, 0);
    const text = view.mode === 'average' ? `${numberText(total)} / ${model.H} = ${numberText(total / model.H)}` :
        `max = ${numberText(Math.max(...values))}`;
    return [{line: say('over_heads')}, {terms: {head: ['', symbolOf(panel)], rows, sum: view.mode === 'average' ? total : null}},
            {line: text, answer: true}];
}

// ---- where it goes ----

const place = (symbol, stage, panel, i, j, head) => ({text: say('goes_place', {symbol, i, j}), stage, panel, i, j, head});

function goesTo(model, stages, view, panel, i, j) {
    const has = (id) => stages.some((stage) => stage.id === id);
    const next = (id) => stages[stages.findIndex((stage) => stage.id === id) + 1];
    const row = (symbol, stage, to, r, c = 0) => has(stage) && {text: say('goes_row', {symbol, i: r}), stage, panel: to, i: r, j: c};
    const column = (symbol, stage, to, c) => has(stage) && {text: say('goes_column', {symbol, j: c}), stage, panel: to, i: 0, j: c};
    const head = view.head;
    switch (panel) {
    case 'x': case 'm': case 'm_v':
        return projectionsOf(model, panel).map((name) => row(symbolOf(name), name, `all_${name}`, i)).filter(Boolean);
    case 'all_q': {
        const [stage, to] = has('rope') ? ['rope', 'q_plain'] : ['scores', 'q'];
        return [place('Q', stage, to, i, j % model.d, Math.floor(j / model.d))];
    }
    case 'q_plain': case 'k_plain': return [row(symbolIn(model, panel[0]), 'rope', panel[0], i, j)];
    case 'all_k': case 'all_v': return splitGoes(model, panel, i, j);
    case 'q': return [row('scores', 'scores', 'scores', i)].filter(Boolean);
    case 'k': return [column('scores', 'scores', 'scores', i)].filter(Boolean);
    case 'v': return [column('output', 'output', 'output', j)].filter(Boolean);
    case 'weights': return [row('output', 'output', 'output', i)].filter(Boolean);
    case 'masked': return has('weights') ? [{text: say('goes_share', {symbol: 'weights', i, n: view.mode === 'one' || view.mode === 'all' ?
        visibleKeys(model.head(view.batch, head), i).length : model.Lk}), stage: 'weights', panel: 'weights', i, j}] : [];
    case 'output': return has('concat') ? [place('concat', 'concat', 'all_output', i, head * model.dv + j)] : [{text: say('goes_end')}];
    case 'all_output': return [row('O', 'result', 'result', i)].filter(Boolean);
    case 'result': return [{text: say('goes_end')}];
    default: return STAGE_NAMES.includes(panel) && next(panel) ?
        [{text: say('goes_next', {symbol: next(panel).id}), stage: next(panel).id, panel: next(panel).id, i, j}] : [];
    }
}

function projectionsOf(model, source) {
    const memory = model.has('m');
    const of = {q: 'x', k: memory ? 'm' : 'x', v: model.has('m_v') ? 'm_v' : memory ? 'm' : 'x'};
    return ['q', 'k', 'v'].filter((name) => of[name] === source);
}

function splitGoes(model, panel, i, j) {
    const name = panel.slice(4), d = name === 'v' ? model.dv : model.d, head = Math.floor(j / d) * (model.H / model.Hkv);
    const [stage, to] = model.has('k_plain') ? ['rope', 'k_plain'] : ['scores', 'k'];
    return name === 'k' ? [place('K', stage, to, i, j % d, head)] : [place('V', 'output', 'v', i, j % d, head)];
}

// ---- the whole ----

function explainCell(model, stages, view, at) {
    const {panel, i, j, matrix} = at, stage = stages[view.stage], value = matrix.at(i, j);
    const combinedHeads = STAGE_NAMES.includes(panel) && view.mode !== 'one' && view.mode !== 'all' && model.H > 1;
    const head = model.head(view.batch, view.head), order = attentionStages(model).map((s) => s.id);
    const context = {model, head, i, j, value, before: order[order.indexOf(panel) - 1]};
    let blocks;
    if (combinedHeads) {
        blocks = explainCombined(model, view, panel, i, j);
    } else if (explainers[panel]) {
        blocks = explainers[panel](context);
    } else if (panel.startsWith('all_')) {
        blocks = explainJoined(model, stages, stage, view, panel, i, j);
    } else if (panel === 'result') {
        blocks = explainResult(model, view.batch, i, j);
    } else if (isTurnedByRope(model, panel)) {
        blocks = explainTurned(context, panel);
    } else if (['q', 'k', 'v', 'q_plain', 'k_plain'].includes(panel) && model.kind === 'mha') {
        blocks = [{line: splitBack(model, panel[0], view.head, j)}];
    } else if (panel === 'x' && matrix.bands) {
        blocks = [{line: belongs(j, matrix.bands.size)}];
    } else {
        blocks = [{line: say('given')}];
    }
    const terms = blocks.find((block) => block.terms && block.terms.sum !== null);
    const sums = !combinedHeads && ['scores', 'output', 'result', 'all_q', 'all_k', 'all_v'].includes(panel) && terms;
    const notes = sums ? kernelNote(value, terms.terms.sum, matrix, model.known) : [];
    return {symbol: at.symbol, matrix, i, j, value, blocks: blocks.concat(notes), goes: goesTo(model, stages, view, panel, i, j),
            head: combinedHeads || !stage.perHead ? null : view.head};
}

function explainJoined(model, stages, stage, view, panel, i, j) {
    const name = panel.slice(4), d = name === 'q' || name === 'k' ? model.d : model.dv;
    if (name === 'output') {
        const h = Math.floor(j / d);
        return [{line: belongs(j, d)}, {line: `concat[${i},${j}] = output_${h}[${i},${j % d}]`}];
    }
    const project = stages.find((s) => s.project === name);
    return [...(project ? explainProjection(model, project, view.batch, i, j) : []), {line: belongs(j, d)}];
}

// Column j of head h was column h d + j before the split.
function splitBack(model, name, h, j) {
    const d = name === 'v' ? model.dv : model.d, part = name === 'q' ? h : Math.floor(h / (model.H / model.Hkv));
    return belongs(part * d + j, d);
}
