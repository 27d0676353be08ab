// SPDX-License-Identifier: Apache-2.0
// The files of the present stage, and the sheet that is printed.

// The stage as one picture: all its panels, or all heads four in a row.
function figureOf(stage, view, dark) {
    const names = bothNames(stage), model = app.model;
    const where = [model.B > 1 ? `${say(model.layered ? 'layer' : 'batch')} ${view.batch}` : '',
                   stage.perHead && model.H > 1 ? headWords(view) : ''].filter(Boolean).join(' · ');
    const items = figureItems(stage, view).map((item) => (item.matrix ? {...settingsFor(item, view, 600), ...item} : item));
    const lines = items.some((item) => item.op) ? 1 : Math.ceil(items.length / 4), across = Math.max(4, items.length / lines);
    const rows = Array.from({length: lines}, (_, n) => items.slice(across * n, across * (n + 1)));
    return {title: stage.formula, lines: [names.join(' · '), stage.shape(), where].filter(Boolean), rows, dark};
}

function figureItems(stage, view) {
    const model = app.model, turn = (items) => (app.turned ? turnedPanels(items) : items);
    if (stage.bands) {
        const name = stage.bands[app.part % stage.bands.length];
        const matrix = name === 'x' ? bandedX(model, view.batch) : joinedMatrix(model, view.batch, name);
        return [{matrix, symbol: name === 'output' ? 'concat' : symbolOf(name), result: true}];
    }
    if (view.mode === 'all' && stage.perHead && model.H > 1) {
        const name = ['inputs', 'rope'].includes(stage.id) ? 'q' : stage.id;
        const heads = allHeads(view, name), range = rangeOf(heads);
        return turn(heads.map((matrix, h) => ({matrix, symbol: say('head_n', {h}), range, cover: null, result: true})));
    }
    return turn(stage.panels(view));
}

function headWords(view) {
    if (view.mode === 'all') {
        return say('all_heads');
    }
    return view.mode === 'average' || view.mode === 'maximum' ? say(`over_heads_${view.mode}`, {n: app.model.H}) :
        say('head_n', {h: view.head});
}

// PNG and SVG are of the stage; a matrix that is not its result is named too.
function fileName(kind, panel) {
    const stage = stageNow(), view = effectiveView();
    const which = view.mode === 'average' || view.mode === 'maximum' ? view.mode : `head${view.head}`;
    const batch = app.model.B > 1 ? `-${app.model.layered ? 'layer' : 'batch'}${view.batch}` : '';
    const head = stage.perHead && app.model.H > 1 ? `-${which}` : '';
    const other = ['csv', 'json'].includes(kind) && panel !== app.main.item.matrix.panel ? `-${panel}` : '';
    return `attn-${stage.id}${batch}${head}${other}.${kind}`;
}

async function save(kind) {
    const {item, map} = currentShown(), view = effectiveView(), stage = stageNow(), name = fileName(kind, item.matrix.panel);
    const figure = () => figureOf(stage, view, app.dark);
    const part = exportRows(item.matrix, map ? map.visible().i0 : 0);
    if (kind === 'png') {
        download(name, await pngBlob(figure()));
    } else if (kind === 'svg') {
        download(name, new Blob([svgText(figure())], {type: 'image/svg+xml'}));
    } else if (kind === 'csv') {
        download(name, new Blob([csvText(item.matrix, part)], {type: 'text/csv'}));
    } else {
        const about = {stage: stage.id, matrix: item.matrix.panel, formula: stage.formula,
                       transposed: item.matrix.transposed, batch: view.batch,
                       head: stage.perHead ? (isSingle(view) ? view.head : view.mode) : null};
        download(name, new Blob([jsonText(item.matrix, about, part)], {type: 'application/json'}));
    }
    const whole = part.from === 0 && part.to === item.matrix.rows;
    announce(whole || kind === 'png' || kind === 'svg' ? say('saved', {name}) : say('saved_part', {from: part.from, to: part.to - 1}));
}

// All stages, one below the other, on paper.
function fillPrintSheet() {
    const at = app.view.stage;
    const figures = app.stages.map((stage, n) => {
        app.view.stage = n; // what is hidden, and for which stage a view exists, depends on it
        return el('figure', {}, paintAsSvg(figureOf(stage, effectiveView(), false)), el('p', {}, stage.about()));
    });
    app.view.stage = at;
    byId('print-sheet').replaceChildren(...figures);
}
