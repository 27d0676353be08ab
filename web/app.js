// SPDX-License-Identifier: Apache-2.0
// What is looked at, what the buttons and keys do to it, and drawing it all again.

const PLAY_MS = 3000;
const MANY_HEADS = 16;

const app = {
    file: null, model: null, stages: [], maps: [], picked: null, teacher: null, playing: 0, dark: false, projector: false,
    table: false, hide: false, turned: false, colours: 'matrix', revealed: new Set(), part: 0,
    parts: [], which: 0, words: false, grid: null,
    view: {stage: 0, batch: 0, head: 0, mode: 'one'},
};

const stageNow = () => app.stages[app.view.stage];
const factor = () => (app.projector ? 1.5 : 1);

// ---- what is chosen ----

// Averages exist for the Lq x Lk stages only; others show one head then.
function effectiveView() {
    const stage = stageNow(), combinedMode = app.view.mode === 'average' || app.view.mode === 'maximum';
    return {...app.view, mode: combinedMode && !stage.cells ? 'one' : app.view.mode};
}

const revealKey = (i, j) => [app.view.stage, app.view.batch, app.view.head, app.view.mode, i, j].join('/');

// Whether the answer of a cell is hidden; coordinates of the matrix as it is drawn.
function coverOf(item) {
    if (!app.hide || !item.result || ['inputs', 'x'].includes(stageNow().id)) {
        return null; // what was given is no answer
    }
    return (i, j) => !app.revealed.has(item.matrix.transposed ? revealKey(j, i) : revealKey(i, j));
}

function rangeFor(item, view) {
    const name = item.matrix.panel;
    if (app.colours !== 'heads' || !STAGE_NAMES.includes(name) || view.mode === 'average' || view.mode === 'maximum') {
        return rangeOf([item.matrix]);
    }
    return rangeOf(allHeads(view, name));
}

const allHeads = (view, name) => Array.from({length: app.model.H}, (_, h) =>
    chosenMatrix(app.model, {...view, head: h, mode: 'one'}, name));

function settingsFor(item, view, width) {
    const high = Math.max(260, Math.min(window.innerHeight * 0.66, 900));
    return {range: rangeFor(item, view), byRow: app.colours === 'row' && item.matrix.square, dark: app.dark, factor: factor(), width,
            height: item.result ? high : Math.min(high, 320 * factor()), cover: coverOf(item)};
}

// ---- drawing ----

function announce(text) {
    byId('live').textContent = text;
}

function render() {
    document.querySelectorAll('[data-word]').forEach((element) => { element.textContent = say(element.dataset.word); });
    document.documentElement.dataset.theme = app.dark ? 'dark' : 'light';
    document.documentElement.dataset.size = app.projector ? 'projector' : 'normal';
    renderBar();
    renderStageList();
    renderStage();
    renderCell();
    renderFoot();
    writeHash();
}

function renderBar() {
    const info = app.file.info, m = app.model;
    byId('title').textContent = app.teacher ? say('teacher_title') : info.title || say('app');
    document.title = `${byId('title').textContent} · attn`;
    const shape = m.kind === 'split' ? sizes(m.Lq, m.H * splitWidth(m)) :
        `Lq ${m.Lq} · Lk ${m.Lk}${m.d ? ` · d_k ${m.d} · d_v ${m.dv}` : ''}`;
    byId('subtitle').textContent = `${say('app')} · ${shape} · ${say('heads')} ${m.H}`;
    byId('teacher').setAttribute('aria-pressed', String(Boolean(app.teacher)));
    byId('teacher').textContent = say(app.teacher ? 'teacher_leave' : 'teacher');
    byId('projector').setAttribute('aria-pressed', String(app.projector));
    byId('language').setAttribute('aria-label', say('language_label'));
    byId('projector').setAttribute('aria-label', say('projector_label'));
    byId('help-button').setAttribute('aria-label', say('help'));
    byId('previous').setAttribute('aria-label', say('previous'));
    byId('next').setAttribute('aria-label', say('next'));
    byId('stages').setAttribute('aria-label', say('stages'));
    byId('play').textContent = say(app.playing ? 'pause' : 'play');
    byId('previous').disabled = app.view.stage === 0;
    byId('next').disabled = app.view.stage === app.stages.length - 1;
}

function renderStageList() {
    const items = app.stages.map((stage, n) => {
        const short = stage.formula.length > 26 ? stage.formula.split(' = ')[0] : stage.formula;
        const button = el('button', {type: 'button', 'data-stage': stage.id, 'aria-current': n === app.view.stage ? 'true' : null},
                          el('span.formula', {}, rich(short)), el('span.name', {}, say(`s_${stage.id}`)));
        button.addEventListener('click', () => goStage(n));
        return el('li', {}, button);
    });
    byId('stage-list').replaceChildren(...items);
    const current = items[app.view.stage], list = byId('stage-list');
    list.scrollLeft = current.offsetLeft - list.offsetLeft - (list.clientWidth - current.clientWidth) / 2;
}

// ---- cells ----

function cellWords(matrix, i, j, cover) {
    const place = {row: placeText(matrix.rowNames, i), col: placeText(matrix.colNames, j)};
    if (cover && cover(i, j)) {
        return say('cell_says', {...place, value: '?'});
    }
    if (matrix.hidden && matrix.hidden(i, j) && matrix.square) {
        const [a, b] = matrix.transposed ? [j, i] : [i, j];
        return say('cell_hidden_says', {...place, why: whyShort(app.model.head(app.view.batch, app.view.head), a, b)});
    }
    return say('cell_says', {...place, value: numberText(matrix.at(i, j), app.file.info.options && app.file.info.options.round)});
}

function showTip(item, at, event) {
    const tip = byId('tip');
    tip.hidden = !at;
    if (at) {
        tip.textContent = cellWords(item.matrix, at.i, at.j, coverOf(item));
        tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
        tip.style.top = `${event.clientY + 34 > window.innerHeight ? event.clientY - 34 : event.clientY + 16}px`;
    }
}

// i, j: of the matrix as it is, not as it is turned.
function pick(item, i, j) {
    app.picked = {panel: item.matrix.panel, i, j};
    app.maps.forEach((shown) => shown.map.mark(marksFor(shown.item)));
    renderCell();
    nameCurrent();
    announce(cellWords(item.matrix, ...(isTurned(item) ? [j, i] : [i, j]), coverOf(item)));
    writeHash();
}

// The panel of the present stage that holds the picked cell.
function pickedItem() {
    const p = app.picked;
    if (p && p.matrix && p.matrix.panel === (app.main && app.main.item.matrix.panel)) {
        return {matrix: p.matrix, symbol: p.symbol, result: true};
    }
    const shown = p && app.maps.find((one) => one.item.matrix.panel === p.panel);
    return shown ? shown.item : null;
}

function renderCell() {
    const box = byId('cell'), item = pickedItem(), p = app.picked;
    const title = el('h2.unseen', {id: 'cell-title'}, say('cell'));
    const matrix = item && (isTurned(item) ? transposed(item.matrix) : item.matrix);
    if (!item || p.i >= matrix.rows || p.j >= matrix.cols) {
        box.replaceChildren(title, el('p.hint', {}, say('cell_hint')));
        showWay();
        return;
    }
    const symbol = item.symbol.replace(/\^T$/, '');
    const told = explainCell(app.model, app.stages, {...effectiveView()}, {panel: p.panel, i: p.i, j: p.j, matrix, symbol});
    const cover = coverOf({...item, matrix}), covered = Boolean(cover) && cover(p.i, p.j);
    const round = app.file.info.options && app.file.info.options.round;
    box.replaceChildren(title, cellView(told, round, covered,
        {go: goTo, reveal: revealPicked, answer: (text) => answerPicked(text, told.value)}));
    showWay();
}

// On a small window the arithmetic is below the edge: a button leads to it.
function showWay() {
    const box = byId('cell'), way = byId('to-cell'), value = box.querySelector('.cell-value');
    const below = Boolean(value) && box.getBoundingClientRect().top > window.innerHeight - 60;
    way.hidden = !below;
    way.textContent = below ? `${value.textContent} ↓` : '';
}

function revealPicked() {
    app.revealed.add(revealKey(app.picked.i, app.picked.j));
    app.maps.forEach((shown) => shown.map.draw());
    renderCell();
}

function answerPicked(text, value) {
    const right = isRight(text, value);
    if (right) {
        setTimeout(revealPicked, 900);
    }
    return right;
}

function goTo(place) {
    const stage = app.stages.findIndex((one) => one.id === place.stage);
    if (place.head !== undefined && place.head !== null) {
        app.view.head = place.head;
        app.view.mode = 'one';
    }
    if (app.view.mode === 'all') {
        app.view.mode = 'one';
    }
    app.picked = {panel: place.panel, i: place.i, j: place.j};
    goStage(stage);
    if (stageNow().bands) {
        pickBand(app.main.item.matrix, place.i, place.j);
    }
    focusMain();
}

function focusMain() {
    const p = app.picked, shown = p && app.maps.find((one) => one.item.matrix.panel === p.panel);
    const target = shown || app.main;
    if (target && target.map) {
        target.map.host.focus({preventScroll: true});
    }
}

// ---- stages ----

function goStage(n) {
    if (n < 0 || n >= app.stages.length) {
        return;
    }
    const moved = n !== app.view.stage, inMatrix = document.activeElement && document.activeElement.matches('.heat');
    app.view.stage = n;
    const p = app.picked;
    // A cell of the scores is the same cell of the next stages.
    if (moved && p && STAGE_NAMES.includes(p.panel) && STAGE_NAMES.includes(stageNow().id)) {
        app.picked = {panel: stageNow().id, i: p.i, j: p.j};
    }
    render();
    if (inMatrix) {
        focusMain();
    }
    const stage = stageNow();
    announce(say('stage_says', {n: n + 1, all: app.stages.length, formula: plainFormula(stage.formula), name: say(`s_${stage.id}`)}));
}

function stop() {
    clearInterval(app.playing);
    app.playing = 0;
    renderBar();
}

function play() {
    if (app.playing) {
        stop();
        return;
    }
    if (app.view.stage === app.stages.length - 1) {
        goStage(0);
    }
    app.playing = setInterval(() => {
        goStage(app.view.stage + 1);
        if (app.view.stage === app.stages.length - 1) {
            stop();
        }
    }, PLAY_MS);
    renderBar();
}

// The matrix that was last picked in, or else the result of the stage.
function currentShown() {
    const p = app.picked;
    return (p && app.maps.find((one) => one.item.matrix.panel === p.panel)) || app.main;
}

function zoom(by) {
    const map = currentShown().map;
    if (map) {
        by ? map.zoom(by) : map.fit();
        const note = byId('block-note');
        if (note) {
            note.textContent = map.blockText();
        }
    }
}

function toggle(name) {
    return () => {
        app[name] = !app[name];
        render();
    };
}

function headBy(step) {
    const H = app.model.H;
    app.view.head = (app.view.head + step + H) % H;
    app.view.mode = 'one';
    render();
}

function layerBy(step) {
    if (app.model.layered) {
        app.view.batch = (app.view.batch + step + app.model.B) % app.model.B;
        render();
    }
}

const actions = {
    previous: () => goStage(app.view.stage - 1),
    next: () => goStage(app.view.stage + 1),
    stage: goStage,
    play,
    zoomIn: () => zoom(1.5),
    zoomOut: () => zoom(1 / 1.5),
    fit: () => zoom(0),
    previousHead: () => headBy(-1),
    nextHead: () => headBy(1),
    previousLayer: () => layerBy(-1),
    nextLayer: () => layerBy(1),
    words: () => switchPart(app.which, !app.words),
    allHeads: () => { app.view.mode = app.view.mode === 'all' ? 'one' : 'all'; render(); },
    transpose: toggle('turned'),
    hide: () => { app.revealed.clear(); toggle('hide')(); },
    table: toggle('table'),
    revealAll: () => { app.hide = false; render(); },
    language: () => {
        setLanguage(language === 'en' ? 'ko' : 'en');
        drawEditor();
        render();
    },
    theme: toggle('dark'),
    projector: toggle('projector'),
    help: helpDialog,
    escape: () => { if (app.playing) { stop(); } focusMain(); },
};

// ---- teacher ----

function setModel(model) {
    const id = app.stages.length ? stageNow().id : '';
    app.model = model;
    app.stages = buildStages(model);
    const same = app.stages.findIndex((stage) => stage.id === id);
    app.view.stage = Math.max(0, same);
    app.view.head = Math.min(app.view.head, model.H - 1);
    app.view.batch = Math.min(app.view.batch, model.B - 1);
}

function drawEditor() {
    const box = byId('editor');
    const fromFile = teacherFromFile(app.file, 0, 0) && (() => {
        app.teacher = teacherFromFile(app.file, 0, 0);
        recompute(true);
    });
    box.replaceChildren(...(app.teacher ? [teacherEditor(app.teacher, recompute, fromFile)] : []));
    if (app.teacher) {
        byId('teacher-problem').textContent = teacherNumbers(app.teacher).problem;
    }
}

function recompute(editorToo) {
    if (editorToo) {
        drawEditor();
    }
    const {numbers, problem} = teacherNumbers(app.teacher);
    byId('teacher-problem').textContent = problem;
    if (!problem) {
        setModel(teacherModel(app.teacher, numbers));
        render();
        announce(say('fresh'));
    }
}

function toggleTeacher() {
    app.teacher = app.teacher ? null : app.kept || teacherStart();
    app.kept = app.teacher || app.kept;
    app.picked = null;
    drawEditor();
    if (app.teacher) {
        const at = app.stages.findIndex((stage) => stage.id === 'scores');
        recompute(false);
        app.view.stage = Math.max(0, app.stages.findIndex((stage) => stage.id === 'scores'));
        render();
        return at;
    }
    setModel(app.file);
    render();
    return -1;
}

// ---- the address: where one stands, for a link to the same place ----

function writeHash() {
    const v = app.view, p = app.picked;
    const parts = {stage: stageNow().id, part: app.which || null, words: app.words ? 1 : null,
                   batch: v.batch || (app.file.info.at ? 0 : null),
                   head: v.head || (app.file.info.at ? 0 : null), mode: v.mode === 'one' ? null : v.mode,
                   cell: p && !p.matrix ? `${p.panel}.${p.i}.${p.j}` : null,
                   lang: language};
    const text = Object.entries(parts).filter(([, value]) => value !== null).map(([key, value]) => `${key}=${value}`).join('&');
    try {
        history.replaceState(null, '', `#${text}`);
    } catch {
        // Some browsers refuse this for files; a link to the place is all that is lost.
    }
}

function readHash() {
    const at = new URLSearchParams(location.hash.slice(1)), v = app.view;
    const within = (text, count) => Math.min(Math.max(0, Number.parseInt(text, 10) || 0), count - 1);
    if (!app.teacher) {
        choosePart(within(at.get('part'), app.parts.length), at.get('words') === '1');
    }
    const opens = app.file.info.at || {layer: 0, head: 0};
    v.stage = Math.max(0, app.stages.findIndex((stage) => stage.id === at.get('stage')));
    v.batch = within(at.get('batch') ?? opens.layer, app.model.B);
    v.head = within(at.get('head') ?? opens.head, app.model.H);
    v.mode = ['all', 'average', 'maximum'].includes(at.get('mode')) ? at.get('mode') : 'one';
    const cell = (at.get('cell') || '').split('.');
    const [i, j] = cell.slice(1).map(Number);
    app.picked = cell.length === 3 && i >= 0 && j >= 0 && Number.isInteger(i + j) ? {panel: cell[0], i, j} : null;
    return at.get('lang');
}

// ---- start ----

function wire() {
    const on = (id, act) => byId(id).addEventListener('click', act);
    on('previous', actions.previous);
    on('next', actions.next);
    on('play', actions.play);
    on('language', actions.language);
    on('theme', actions.theme);
    on('projector', actions.projector);
    on('teacher', toggleTeacher);
    on('print', () => window.print());
    on('help-button', actions.help);
    on('skip', (event) => { event.preventDefault(); focusMain(); });
    on('to-cell', () => byId('cell').scrollIntoView({block: 'start'}));
    window.addEventListener('scroll', showWay, {passive: true});
    listenForKeys(actions);
    window.addEventListener('beforeprint', fillPrintSheet);
    let waiting = 0, width = window.innerWidth;
    window.addEventListener('resize', () => {
        clearTimeout(waiting);
        waiting = setTimeout(() => {
            if (window.innerWidth !== width) { // the height of a phone's window changes while one scrolls
                width = window.innerWidth;
                render();
            }
        }, 150);
    });
    window.addEventListener('hashchange', () => {
        setLanguage(readHash() || language);
        render();
    });
    const dark = window.matchMedia('(prefers-color-scheme: dark)');
    app.dark = dark.matches;
    dark.addEventListener('change', () => { app.dark = dark.matches; render(); });
}

function renderFoot() {
    const info = app.file.info, notes = (info.notes || []).map((note) => el('li', {}, note));
    byId('foot').replaceChildren(...(notes.length ? [el('h2', {}, say('notes')), el('ul', {}, ...notes)] : []),
                                 el('p', {}, info.command ? el('code', {}, info.command) : '', info.version ? ` · libattn ${info.version}` :
                                     '', info.isa ? ` · ${info.isa}` : ''));
}

function start() {
    app.parts = readModels();
    choosePart(0, false);
    setLanguage(readHash() || app.file.info.lang);
    wire();
    render();
    document.documentElement.dataset.ready = 'true';
}

try {
    start();
} catch (error) {
    byId('stage').replaceChildren(el('p.failed', {role: 'alert'}, say('failed', {why: error.message})));
    throw error;
}
