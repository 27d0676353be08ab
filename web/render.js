// SPDX-License-Identifier: Apache-2.0
// Draws the present stage: panels, heads side by side, or bands.

function bothNames(stage) {
    const [english, korean] = WORDS[`s_${stage.id}`];
    return language === 'ko' ? [korean, english] : [english, korean];
}

function renderStage() {
    const stage = stageNow(), view = effectiveView(), [first, second] = bothNames(stage);
    app.maps = [];
    const names = el('p.names', {}, first, el('span', {}, ` · ${second}`));
    const head = el('div.stage-head', {}, el('div', {}, el('h2.formula', {}, rich(stage.formula)), names, el('p.shape', {}, stage.shape())),
                    el('p.about', {}, stage.about()));
    const body = el('div.stage-body'), main = byId('stage');
    main.replaceChildren(head, controls(stage, view), body);
    const width = body.clientWidth;
    if (view.mode === 'average' || view.mode === 'maximum' || (view.mode === 'all' && stage.cells)) {
        body.append(el('p.warning', {role: 'note'}, say('warning')));
    }
    if (stage.bands) {
        renderBands(stage, view, body, width);
    } else if (view.mode === 'all' && stage.perHead && app.model.H > 1) {
        renderHeads(stage, view, body);
    } else if (showsLayers(stage, view)) {
        const large = el('div.large');
        body.append(el('div.with-layers', {}, layersGrid(width), large));
        renderPanels(stage, view, large, large.clientWidth);
    } else {
        renderPanels(stage, view, body, width);
    }
    body.append(saveButtons(), ...stageNotes(stage));
    nameCurrent();
}

function renderPanels(stage, view, body, width) {
    let items = stage.panels(view);
    items = app.turned ? turnedPanels(items) : items;
    const widths = panelWidths(items, width, factor()), row = el('div.panels');
    body.append(row);
    let result = null;
    for (const item of items) {
        if (!item.matrix) {
            row.append(el(item.op ? 'span.operator' : 'span.line-break', {'aria-hidden': 'true'}, rich(item.op)));
            continue;
        }
        const shown = renderPanel(item, view, widths.shift(), row);
        result = item.result || !result ? shown : result;
    }
    app.main = result;
    const {item, settings, map} = result;
    body.append(el('div.under', {}, zoomButtons(), legend(item.matrix, settings.range, settings.byRow, app.dark, mayHide(app.model))));
    const block = el('p.block', {id: 'block-note'}, map.blockText());
    body.append(block);
    if (app.table) {
        body.append(numberTable(item.matrix, map.cursor, app.file.info.options && app.file.info.options.round, settings.cover));
    }
}

function renderPanel(item, view, width, row) {
    const {matrix} = item, turned = isTurned(item);
    const base = (i, j) => (turned ? [j, i] : [i, j]);
    const map = new Heatmap({
        pick: (i, j) => pick(item, ...base(i, j)),
        move: (i, j) => announce(cellWords(matrix, i, j, coverOf(item))),
        hover: (at, event) => showTip(item, at, event),
    });
    const settings = {...settingsFor(item, view, width), marks: marksFor(item)};
    map.host.setAttribute('aria-label', say('matrix_label', {name: plainFormula(item.symbol), rows: matrix.rows, cols: matrix.cols}));
    map.host.dataset.panel = matrix.panel;
    const size = el('span.size', {}, ` ${sizes(matrix.rows, matrix.cols)}`);
    const caption = el('figcaption', {}, el('span.symbol', {}, rich(item.symbol)), size, item.note ? el('div.note', {}, item.note) : '');
    row.append(el('figure.panel', {}, caption, map.host));
    map.show(matrix, settings);
    const shown = {map, item, settings, base};
    app.maps.push(shown);
    restoreCursor(shown);
    return shown;
}

// The K of Q K^T is drawn transposed; in the transposed view it is not. The matrix itself knows.
const isTurned = (item) => item.matrix.transposed;

function marksFor(item) {
    const marks = marksIn(item.matrix.panel, app.picked);
    return isTurned(item) ? turnedMarks(marks) : marks;
}

function restoreCursor(shown) {
    const {map, item} = shown, p = app.picked;
    if (p && p.panel === item.matrix.panel) {
        map.moveTo(...(isTurned(item) ? [p.j, p.i] : [p.i, p.j]));
    }
}

function renderHeads(stage, view, body) {
    const name = ['inputs', 'rope'].includes(stage.id) ? 'q' : stage.id;
    const of = (h) => chosenMatrix(app.model, {...view, head: h, mode: 'one'}, name);
    const turn = (m) => (app.turned ? transposed(m) : m);
    const matrices = Array.from({length: app.model.H}, (_, h) => turn(of(h)));
    const settings = {range: rangeOf(matrices), byRow: app.colours === 'row' && matrices[0].square, dark: app.dark, factor: factor()};
    const open = (mode, h) => (i, j) => openHead(name, mode, h, ...(app.turned ? [j, i] : [i, j]));
    const tiles = matrices.map((matrix, h) => ({matrix, title: say('head_n', {h}), current: h === view.head, open: open('one', h)}));
    if (stage.cells) {
        for (const mode of ['average', 'maximum']) {
            tiles.push({matrix: turn(chosenMatrix(app.model, {...view, mode}, name)), title: say(`over_heads_${mode}`, {n: app.model.H}),
                open: open(mode, view.head)});
        }
    }
    body.append(el('p.hint', {}, say('side_by_side', {n: app.model.H})), sideBySide(tiles, settings),
        legend(matrices[0], settings.range, settings.byRow, app.dark, mayHide(app.model)));
    app.main = {item: {matrix: matrices[view.head], symbol: symbolOf(name), result: true}, settings: {...settings, cover: null}, map: null};
}

function openHead(name, mode, h, i, j) {
    app.view.mode = mode;
    app.view.head = h;
    app.picked = Number.isInteger(i) ? {panel: name, i, j} : null;
    render();
    focusMain();
}

function renderBands(stage, view, body, width) {
    const model = app.model, name = stage.bands[app.part % stage.bands.length];
    const matrix = name === 'x' ? bandedX(model, view.batch) : joinedMatrix(model, view.batch, name);
    const settings = {...settingsFor({matrix}, view, width), cover: null};
    const bands = bandsView({matrix, apart: stage.joins, settings, pick: (h, i, c) => pickBand(matrix, i, h * matrix.bands.size + c),
                             move: (piece, i, c) => announce(cellWords(piece, i, c, null)),
                             hover: (piece, at, event) => showTip({matrix: piece}, at, event)});
    const bar = el('div.split-bar', {}, splitButtons(bands.row, stage.joins));
    if (stage.bands.length > 1) {
        bar.append(partSelect(stage));
    }
    bar.append(el('span.hint', {}, say('split_rule', {d: matrix.bands.size})));
    body.append(bar, bands.row);
    bands.layout(width);
    body.append(legend(matrix, settings.range, false, app.dark, false));
    app.main = {item: {matrix, symbol: name === 'output' ? 'concat' : symbolOf(name), result: true}, settings, map: null};
    app.bands = {maps: bands.maps, size: matrix.bands.size, panel: matrix.panel};
    markBands();
    const wrong = !stage.joins && reshapeAlone(matrix);
    if (wrong) {
        const table = numberTable(wrong.matrix, null, 2, null);
        body.append(el('details.notes', {}, el('summary', {}, say('reshape_alone', {h: wrong.h})), table));
    }
}

function pickBand(matrix, i, c) {
    app.picked = {panel: matrix.panel, i, j: c, matrix, symbol: app.main.item.symbol};
    markBands();
    renderCell();
}

function markBands() {
    const p = app.picked;
    app.bands.maps.forEach(({map}, h) => {
        const here = p && p.panel === app.bands.panel && Math.floor(p.j / app.bands.size) === h;
        map.mark(here ? {cell: {i: p.i, j: p.j % app.bands.size}} : {});
    });
}

function partSelect(stage) {
    const select = el('select', {id: 'split-part', 'aria-label': say('split_which')}, ...stage.bands.map((name, n) =>
        el('option', {value: String(n), selected: n === app.part % stage.bands.length ? '' : null}, symbolOf(name))));
    select.addEventListener('change', () => { app.part = Number(select.value); renderStage(); });
    return select;
}

function stageNotes(stage) {
    const model = app.model, notes = [];
    if (model.tokens) {
        notes.push(say('words_note'));
    }
    if (stage.id === 'weights') {
        if (model.has('top_index')) {
            notes.push(say('summary_note', {k: model.info.summary ? model.info.summary.k : model.arrays.top_index.shape.at(-1)}),
                model.head(0, 0).computes ? say('summary_exact') : '');
        } else if (model.has('weights_u8')) {
            notes.push(say(model.head(0, 0).computes ? 'bytes_note' : 'bytes_only'));
        }
    }
    return notes.filter(Boolean).map((text) => el('p.notes', {}, text));
}
