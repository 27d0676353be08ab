// SPDX-License-Identifier: Apache-2.0
// All heads side by side, small, with one range of colours; a click opens the head at that cell.

const THUMBNAIL = {width: 190, height: 190};

function thumbnailSize(m, factor) {
    const most = {x: THUMBNAIL.width * factor, y: THUMBNAIL.height * factor};
    let x = Math.min(24 * factor, most.x / m.cols), y = Math.min(24 * factor, most.y / m.rows);
    if (m.square && m.rows <= 3 * m.cols && m.cols <= 3 * m.rows) {
        x = y = Math.min(x, y);
    }
    return {width: Math.max(24, Math.round(x * m.cols)), height: Math.max(16, Math.round(y * m.rows))};
}

// The whole matrix on one small canvas.
function drawThumbnail(canvas, m, size, colour, colours) {
    const r = window.devicePixelRatio || 1, c = canvas.getContext('2d');
    canvas.width = Math.round(size.width * r);
    canvas.height = Math.round(size.height * r);
    canvas.style.width = `${size.width}px`;
    canvas.style.height = `${size.height}px`;
    const di = blockOf(canvas.height / m.rows), dj = blockOf(canvas.width / m.cols);
    const at = (n, step, all, full) => Math.round(Math.min(all, n * step) / all * full);
    c.imageSmoothingEnabled = false;
    for (let bi = 0; bi * di < m.rows; bi += TILE) {
        for (let bj = 0; bj * dj < m.cols; bj += TILE) {
            const bitmap = tileBitmap(m, colour, colours, bi, bj, di, dj);
            const x = at(bj, dj, m.cols, canvas.width), y = at(bi, di, m.rows, canvas.height);
            c.drawImage(bitmap, x, y, at(bj + bitmap.width, dj, m.cols, canvas.width) - x,
                at(bi + bitmap.height, di, m.rows, canvas.height) - y);
        }
    }
}

// tiles: [{matrix, title, open(i, j)}]. Pictures are drawn one in a frame, so that many large heads don't hold up the page.
function sideBySide(tiles, settings) {
    const grid = el('div.heads-grid', {role: 'list'}), jobs = [];
    const colours = drawingColours[settings.dark ? 'dark' : 'light'];
    for (const tile of tiles) {
        const size = thumbnailSize(tile.matrix, settings.factor), canvas = el('canvas', {'aria-hidden': 'true'});
        const button = el('button.head-tile', {type: 'button', 'aria-label': tile.title, 'aria-current': tile.current ? 'true' : null},
            el('span.head-name', {}, tile.title), canvas);
        canvas.style.width = `${size.width}px`;
        canvas.style.height = `${size.height}px`;
        button.addEventListener('click', (event) => {
            const box = canvas.getBoundingClientRect(), inside = event.detail > 0 && event.target === canvas;
            tile.open(...(inside ? [cellIn(event.clientY - box.top, box.height, tile.matrix.rows),
                cellIn(event.clientX - box.left, box.width, tile.matrix.cols)] : []));
        });
        grid.append(el('div', {role: 'listitem'}, button));
        jobs.push(() => {
            drawThumbnail(canvas, tile.matrix, size, colouring(tile.matrix, settings.range, settings.dark, settings.byRow), colours);
            canvas.dataset.drawn = 'true';
        });
    }
    runInFrames(jobs);
    return grid;
}

const cellIn = (at, size, count) => Math.min(count - 1, Math.max(0, Math.floor(at / size * count)));

function runInFrames(jobs) {
    requestAnimationFrame(() => {
        const until = performance.now() + FRAME_MS;
        while (jobs.length && performance.now() < until) {
            jobs.shift()();
        }
        if (jobs.length) {
            runInFrames(jobs);
        }
    });
}
