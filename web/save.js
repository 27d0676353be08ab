// SPDX-License-Identifier: Apache-2.0
// The files of the present stage, and the sheet that is printed.

function figureNow(dark = app.dark) {
    const stage = stageNow(), view = effectiveView(), {item, settings} = app.main, names = bothNames(stage);
    const where = [app.model.B > 1 ? `${say(app.model.layered ? 'layer' : 'batch')} ${view.batch}` : '', stage.perHead && app.model.H > 1 ? headWords(view) : '']
        .filter(Boolean).join(' · ');
    return {title: stage.formula, lines: [names.join(' · '), stage.shape(), where].filter(Boolean), matrix: item.matrix, range: settings.range, byRow: settings.byRow,
            dark, cover: settings.cover};
}

function headWords(view) {
    return view.mode === 'average' || view.mode === 'maximum' ? say(`over_heads_${view.mode}`, {n: app.model.H}) : say('head_n', {h: view.head});
}

function fileName(kind) {
    const stage = stageNow(), view = effectiveView();
    const head = stage.perHead && app.model.H > 1 ? `-${view.mode === 'average' || view.mode === 'maximum' ? view.mode : `head${view.head}`}` : '';
    return `attn-${stage.id}${app.model.B > 1 ? `-${app.model.layered ? 'layer' : 'batch'}${view.batch}` : ''}${head}.${kind}`;
}

async function save(kind) {
    const name = fileName(kind), {item, map} = app.main, view = effectiveView(), stage = stageNow();
    const part = exportRows(item.matrix, map ? map.visible().i0 : 0);
    if (kind === 'png') {
        download(name, await pngBlob(figureNow()));
    } else if (kind === 'svg') {
        download(name, new Blob([svgText(figureNow())], {type: 'image/svg+xml'}));
    } else if (kind === 'csv') {
        download(name, new Blob([csvText(item.matrix, part)], {type: 'text/csv'}));
    } else {
        const about = {stage: stage.id, matrix: item.matrix.panel, formula: stage.formula, transposed: item.matrix.transposed, batch: view.batch,
                       head: stage.perHead ? (isSingle(view) ? view.head : view.mode) : null};
        download(name, new Blob([jsonText(item.matrix, about, part)], {type: 'application/json'}));
    }
    const whole = part.from === 0 && part.to === item.matrix.rows;
    announce(whole || kind === 'png' || kind === 'svg' ? say('saved', {name}) : say('saved_part', {from: part.from, to: part.to - 1}));
}

// All stages, one below the other, on paper.
function fillPrintSheet() {
    const sheet = byId('print-sheet'), at = app.view.stage, figures = [];
    for (let n = 0; n < app.stages.length; n++) {
        app.view.stage = n;
        const stage = stageNow(), view = effectiveView(), item = printedItem(stage, view);
        const settings = settingsFor(item, view, 600);
        app.printing = {item, settings};
        const names = bothNames(stage), where = stage.perHead && app.model.H > 1 ? [headWords(view)] : [];
        const figure = {title: stage.formula, lines: [names.join(' · '), stage.shape(), ...where], matrix: item.matrix, range: settings.range, byRow: settings.byRow,
                        dark: false, cover: settings.cover};
        figures.push(el('figure', {}, paintAsSvg(figure), el('p', {}, stage.about())));
    }
    app.view.stage = at;
    sheet.replaceChildren(...figures);
}

function printedItem(stage, view) {
    if (stage.bands) {
        const name = stage.bands[0];
        return {matrix: name === 'x' ? bandedX(app.model, view.batch) : joinedMatrix(app.model, view.batch, name), result: true};
    }
    const items = stage.panels({...view, mode: view.mode === 'all' ? 'one' : view.mode}), result = items.find((item) => item.result);
    return app.turned ? {...result, matrix: transposed(result.matrix)} : result;
}
