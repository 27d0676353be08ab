// SPDX-License-Identifier: Apache-2.0
// A model's heads, all of them, small: a row for each layer, a column for each head. A click or Enter opens one.

const LAYER_TILE = {least: 20, most: 64, gap: 3, name: 36, high: 640};

const showsLayers = (stage, view) => app.model.layered && stage.cells && view.mode === 'one' && app.model.B * app.model.H > 1;

// The side of a tile, so that the grid takes less than half of the width.
function layerSide(width, f) {
    const {least, most, gap, name, high} = LAYER_TILE, share = width < 640 * f ? 1 : 0.42;
    const across = (width * share - name * f) / app.model.H - gap, down = high * f / app.model.B - gap;
    return Math.round(Math.max(least * f, Math.min(most * f, across, down)));
}

function layerTile(layer, head, side, later) {
    const m = cellMatrix(app.model, layer, head, 'weights'), shown = app.turned ? transposed(m) : m;
    const size = {width: side, height: Math.round(side * Math.min(1.6, Math.max(0.5, shown.rows / shown.cols)))};
    const canvas = el('canvas', {'aria-hidden': 'true'}), names = app.model.labels.layer || null;
    const title = `${say('layer')} ${nameOf(names, layer)}, ${say('head_n', {h: head})}`;
    const tile = el('button.layer-tile', {type: 'button', title, 'aria-label': title, 'data-layer': String(layer),
                                          'data-head': String(head)}, canvas);
    canvas.style.width = `${size.width}px`;
    canvas.style.height = `${size.height}px`;
    tile.addEventListener('click', () => openLayer(layer, head));
    later.push(() => {
        const colour = colouring(shown, rangeOf([shown]), app.dark, false);
        drawThumbnail(canvas, shown, size, colour, drawingColours[app.dark ? 'dark' : 'light']);
        canvas.dataset.drawn = 'true';
    });
    return tile;
}

function openLayer(layer, head) {
    app.view.batch = layer;
    app.view.head = head;
    render();
    announce(`${say('layer')} ${layer}, ${say('head_n', {h: head})}`);
}

// It stays as long as it shows the same: a click changes what is marked, not the pictures.
function layersGrid(width) {
    const f = factor(), side = layerSide(width, f), key = [app.which, app.words, app.turned, app.dark, language, side].join();
    if (!app.grid || app.grid.key !== key || app.grid.model !== app.model) {
        app.grid = {key, model: app.model, element: makeLayersGrid(side, f)};
    }
    markLayer(app.grid.element);
    return app.grid.element;
}

function makeLayersGrid(side, f) {
    const {B, H, labels} = app.model, later = [], every = niceStep(15 * f / (side + LAYER_TILE.gap), null);
    const grid = el('div.layers-grid', {role: 'group', 'aria-label': say('layers_title')});
    grid.style.setProperty('grid-template-columns', `auto repeat(${H}, ${side}px)`);
    grid.append(el('span'), ...Array.from({length: H}, (_, h) => el('span.layers-head', {}, h % every ? '' : String(h))));
    for (let layer = 0; layer < B; layer++) {
        grid.append(el('span.layers-layer', {}, nameOf(labels.layer || null, layer)));
        grid.append(...Array.from({length: H}, (_, h) => layerTile(layer, h, side, later)));
    }
    grid.addEventListener('keydown', moveInLayers);
    runInFrames(later);
    return el('figure.layers', {}, el('figcaption', {}, say('layers_hint', {B, H})), grid);
}

function markLayer(element) {
    for (const tile of element.querySelectorAll('.layer-tile')) {
        const here = Number(tile.dataset.layer) === app.view.batch && Number(tile.dataset.head) === app.view.head;
        tile.tabIndex = here ? 0 : -1;
        here ? tile.setAttribute('aria-current', 'true') : tile.removeAttribute('aria-current');
    }
}

// One stop for the tabulator; arrows go from head to head.
function moveInLayers(event) {
    const steps = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}, step = steps[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) {
        return;
    }
    event.preventDefault();
    event.stopPropagation();
    const to = (n, by, count) => Math.min(count - 1, Math.max(0, n + by));
    openLayer(to(app.view.batch, step[0], app.model.B), to(app.view.head, step[1], app.model.H));
    app.grid.element.querySelector('[aria-current]').focus({preventScroll: true});
}
