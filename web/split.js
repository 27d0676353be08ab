// SPDX-License-Identifier: Apache-2.0
// Which columns become which head: the matrix as one piece, cut into one band for each head, that move apart and together again.

// The bands of one matrix, a heat map for each; `apart` says how they begin.
function bandsView(parts) {
    const {matrix, apart, settings, pick, move, hover} = parts;
    const {size, count} = matrix.bands;
    const row = el('div.bands', {'data-apart': String(apart)});
    const maps = [];
    for (let h = 0; h < count; h++) {
        const piece = matrixOf({...matrix, cols: size, bands: null, extremes: null, at: (i, c) => matrix.at(i, h * size + c)});
        const map = new Heatmap({pick: (i, c) => pick(h, i, c), move: (i, c) => move(piece, i, c),
                                 hover: (at, event) => hover(piece, at, event)});
        map.host.setAttribute('aria-label', say('matrix_label', {name: `${say('head_n', {h})}, ${say('columns_of', columnsOf(h, size))}`,
                                                                 rows: matrix.rows, cols: size}));
        const head = el('div.band', {}, el('div.band-title', {}, el('strong', {}, say('head_n', {h})),
            el('span', {}, say('columns_of', columnsOf(h, size)))), map.host);
        head.style.setProperty('--head', headColour(h, settings.dark));
        row.append(head);
        maps.push({map, piece});
    }
    return {row, maps, layout: (width) => layoutBands(maps, count, settings, width)};
}

const columnsOf = (h, size) => ({from: h * size, to: (h + 1) * size - 1});

// Every band gets the same width, as many in a row as can be seen well; the first of a row names the rows for all.
function layoutBands(maps, count, settings, width) {
    const gap = 16, names = nameGutter(maps[0].piece, settings), room = width - names;
    const across = Math.max(1, Math.min(count, Math.floor(room / (85 * settings.factor + gap))));
    const each = Math.floor(room / across) - gap;
    maps.forEach(({map, piece}, h) => {
        piece.bare = h % across !== 0;
        map.show(piece, {...settings, width: Math.max(40, each + (piece.bare ? 0 : names)), height: 300 * settings.factor});
    });
}

function nameGutter(m, settings) {
    const texts = m.rowNames ? [...m.rowNames].sort((a, b) => b.length - a.length).slice(0, 24) : [String(m.rows)];
    return Math.min(130 * settings.factor, Math.max(...texts.map((text) => textWidth(text, SMALL_TEXT * settings.factor)))) + 8;
}

// The buttons that move the bands. Returns the element.
function splitButtons(row, joins) {
    const button = el('button', {type: 'button', class: 'primary'});
    const name = () => { button.textContent = say(row.dataset.apart === 'true' ? 'join' : 'split'); };
    button.addEventListener('click', () => {
        row.dataset.apart = String(row.dataset.apart !== 'true');
        name();
    });
    name();
    // Shown once when the stage opens: the bands start where the stage begins and go where it ends.
    requestAnimationFrame(() => requestAnimationFrame(() => {
        row.dataset.apart = String(!joins);
        name();
    }));
    return button;
}

// What head 1 would hold if the columns were only reshaped, for the learner who forgot the transpose. null: nothing to confuse.
function reshapeAlone(matrix) {
    const {size, count} = matrix.bands, h = Math.min(1, count - 1);
    if (count < 2 || matrix.rows < 2 || matrix.rows * matrix.cols > 4096) {
        return null;
    }
    const flat = (n) => matrix.at(Math.floor(n / matrix.cols), n % matrix.cols);
    return {h, matrix: matrixOf({...matrix, panel: 'reshape', cols: size, bands: null, extremes: null, rowNames: null,
                                 at: (i, c) => flat((h * matrix.rows + i) * size + c)})};
}
