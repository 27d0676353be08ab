// SPDX-License-Identifier: Apache-2.0
// The buttons over and under a stage.

function group(word, ...children) {
    return el('div.group', {role: 'group', 'aria-label': say(word)}, el('span', {}, say(word)), ...children);
}

function pressButton(text, pressed, act, more = {}) {
    const button = el('button', {type: 'button', 'aria-pressed': pressed === null ? null : String(pressed), ...more}, text);
    button.addEventListener('click', act);
    return button;
}

function controls(stage, view) {
    const bar = el('div.controls', {}, ...(app.teacher ? [] : partControls())), model = app.model;
    if (model.B > 1) {
        const names = model.labels.layer || null;
        const select = numberSelect('batch', model.B, view.batch, (b) => { app.view.batch = b; }, names);
        bar.append(group(model.layered ? 'layer' : 'batch', select));
    }
    if (stage.perHead && model.H > 1) {
        bar.append(headControls(stage, view));
    }
    if (!stage.bands) {
        bar.append(group('view', ...viewButtons(view)), group('colours', colourSelect(stage)));
    }
    return bar.childElementCount ? bar : '';
}

function viewButtons(view) {
    const buttons = [pressButton(say('transpose'), app.turned, actions.transpose, {id: 'transpose', title: say('transpose_label')})];
    if (view.mode !== 'all') {
        buttons.push(pressButton(say('hide'), app.hide, actions.hide, {id: 'hide'}),
            pressButton(say('as_table'), app.table, actions.table, {id: 'as-table'}));
    }
    return app.hide ? [...buttons, pressButton(say('reveal_all'), null, actions.revealAll, {id: 'reveal-all'})] : buttons;
}

function zoomButtons() {
    const zooms = [['−', 'zoomOut', 'zoom_out'], ['+', 'zoomIn', 'zoom_in'], ['⤢', 'fit', 'fit']];
    return el('div.group', {}, ...zooms.map(([text, act, word]) =>
        pressButton(text, null, actions[act], {'aria-label': say(word), title: say(word), id: act})));
}

function saveButtons() {
    const buttons = (...kinds) => kinds.map((kind) =>
        pressButton(kind.toUpperCase(), null, () => save(kind), {id: `save-${kind}`, title: say(`save_${kind}`)}));
    return el('div.controls.save', {}, group('save', ...buttons('png', 'svg')),
              el('div.group', {}, el('span', {id: 'current'}, ''), ...buttons('csv', 'json')));
}

// Which matrix CSV and JSON are of.
function nameCurrent() {
    byId('current').replaceChildren(rich(currentShown().item.symbol));
}

function numberSelect(id, count, at, set, names = null) {
    const select = el('select', {id}, ...Array.from({length: count}, (_, n) =>
        el('option', {value: String(n), selected: n === at ? '' : null}, nameOf(names, n))));
    select.addEventListener('change', () => { set(Number(select.value)); render(); });
    return select;
}

function headControls(stage, view) {
    const H = app.model.H, chips = el('div.group.chips', {role: 'group', 'aria-label': say('head')}, el('span', {}, say('head')));
    const one = (h) => { app.view.head = h; app.view.mode = 'one'; render(); };
    if (H <= MANY_HEADS) {
        chips.append(...Array.from({length: H}, (_, h) => pressButton(String(h), view.mode === 'one' && view.head === h, () => one(h),
            {'data-head': String(h)})));
    } else {
        chips.append(numberSelect('head', H, view.head, (h) => { app.view.head = h; app.view.mode = 'one'; }));
    }
    const mode = (name, word) => pressButton(say(word), view.mode === name, () => { app.view.mode = name; render(); },
        {id: `mode-${name}`});
    chips.append(mode('all', 'all_heads'));
    if (stage.cells) {
        chips.append(mode('average', 'average'), mode('maximum', 'maximum'));
    }
    return chips;
}

function colourSelect(stage) {
    const kinds = ['matrix', ...(stage.cells && app.model.H > 1 ? ['heads'] : []), ...(stage.cells ? ['row'] : [])];
    const words = {matrix: 'colours_head', heads: 'colours_all', row: 'colours_row'};
    const select = el('select', {id: 'colours', 'aria-label': say('colours')}, ...kinds.map((kind) =>
        el('option', {value: kind, selected: kind === app.colours ? '' : null}, say(words[kind]))));
    select.addEventListener('change', () => { app.colours = select.value; render(); });
    return select;
}
