// SPDX-License-Identifier: Apache-2.0
// A matrix on a canvas that scrolls and zooms. Colours are made in tiles of 64 x 64 dots, one dot a cell or, zoomed out, a block of cells;
// a few tiles in each frame. Lines, digits, hatching and marks are drawn over them where cells are large enough.

const TILE = 64;
const FRAME_MS = 9;
const CELL = {width: 46, height: 28};
const DIGITS_FROM = {width: 30, height: 14};
const SMALL_TEXT = 12;

// How a number becomes a colour: matrix, [from, to], dark, by row (each row from 0 to its largest).
function colouring(matrix, range, dark, byRow) {
    const table = palettes[dark ? 'dark' : 'light'][matrix.scale];
    const ends = byRow ? rowRanges(matrix) : () => range;
    return (x, i, j) => {
        const [low, high] = ends(i, j);
        const t = (x - low) / (high - low);
        return table[Math.min(PALETTE_STEPS - 1, Math.max(0, Math.round(t * (PALETTE_STEPS - 1))))] || table[0];
    };
}

// Each row's own range, looked for when first asked. In the transposed view the rows are the columns.
function rowRanges(matrix) {
    const kept = new Map(), count = matrix.transposed ? matrix.rows : matrix.cols;
    return (i, j) => {
        const row = matrix.transposed ? j : i;
        if (!kept.has(row)) {
            let far = 0, signed = matrix.scale === 'diverging';
            for (let n = 0; n < count; n++) {
                const x = matrix.transposed ? matrix.colour(n, row) : matrix.colour(row, n);
                far = Number.isFinite(x) && Math.abs(x) > far ? Math.abs(x) : far;
            }
            kept.set(row, [signed ? -(far || 1) : 0, far || 1]);
        }
        return kept.get(row);
    };
}

// The number that stands for a block of cells: the largest in size that is seen; of a costly matrix the one in the middle.
function blockValue(m, i0, j0, di, dj) {
    const i1 = Math.min(m.rows, i0 + di), j1 = Math.min(m.cols, j0 + dj);
    if (m.cost > 1 && !m.coarse && di * dj > 1) {
        const i = (i0 + i1) >> 1, j = (j0 + j1) >> 1;
        return m.hidden && m.hidden(i, j) ? null : m.at(i, j);
    }
    let found = null;
    for (let i = i0; i < i1; i++) {
        for (let j = j0; j < j1; j++) {
            if (m.hidden && m.hidden(i, j)) {
                continue;
            }
            const x = m.colour(i, j);
            found = found === null || Number.isNaN(x) || Math.abs(x) > Math.abs(found) ? x : found;
        }
    }
    return found;
}

// One tile: dots of blocks from block (bi, bj) on.
function tileBitmap(m, colour, colours, bi, bj, di, dj) {
    const height = Math.min(TILE, Math.ceil(m.rows / di) - bi), width = Math.min(TILE, Math.ceil(m.cols / dj) - bj);
    const canvas = document.createElement('canvas');
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext('2d'), image = context.createImageData(width, height);
    for (let y = 0, at = 0; y < height; y++) {
        for (let x = 0; x < width; x++, at += 4) {
            const i = (bi + y) * di, j = (bj + x) * dj, value = blockValue(m, i, j, di, dj);
            const rgb = value === null ? colours.hidden : value === undefined ? colours.absent :
                Number.isFinite(value) ? colour(value, i, j) : value === -Infinity ? colours.hidden : colours.odd;
            image.data.set(rgb, at);
            image.data[at + 3] = 255;
        }
    }
    context.putImageData(image, 0, 0);
    return canvas;
}

// How many cells one dot stands for, so that a dot is no smaller than a pixel.
const blockOf = (cellSize) => (cellSize >= 1 ? 1 : 2 ** Math.ceil(Math.log2(1 / cellSize)));

function hatchPattern(context, colours, ratio) {
    const tile = document.createElement('canvas'), size = Math.round(7 * ratio);
    tile.width = tile.height = size;
    const c = tile.getContext('2d');
    c.strokeStyle = colours.hatch;
    c.lineWidth = ratio;
    for (const shift of [-size, 0, size]) {
        c.beginPath();
        c.moveTo(shift, size);
        c.lineTo(shift + size, 0);
        c.stroke();
    }
    return context.createPattern(tile, 'repeat');
}

const nameOf = (names, n) => (names ? names[n] : String(n));

class Heatmap {
    // on: {pick(i, j), move(i, j), hover(i, j, event)}; i and j are those of the matrix as it is drawn
    constructor(on) {
        this.on = on;
        this.host = el('div.heat', {tabindex: '0', role: 'application', 'aria-roledescription': 'matrix'});
        this.scroller = el('div.heat-scroll');
        this.sizer = el('div.heat-sizer');
        this.canvas = el('canvas', {'aria-hidden': 'true'});
        this.host.append(this.scroller);
        this.scroller.append(this.sizer);
        this.sizer.append(this.canvas);
        this.context = this.canvas.getContext('2d');
        this.tiles = new Map();
        this.cursor = null;
        this.scale = 1;
        this.listen();
    }

    // settings: {range, byRow, dark, factor, width, height, cover(i, j), marks: {rows, cols, cell}}
    show(matrix, settings) {
        this.matrix = matrix;
        this.settings = settings;
        this.colours = drawingColours[settings.dark ? 'dark' : 'light'];
        this.colour = colouring(matrix, settings.range, settings.dark, settings.byRow);
        this.tiles.clear();
        this.ratio = window.devicePixelRatio || 1;
        this.pattern = hatchPattern(this.context, this.colours, this.ratio);
        this.fit();
    }

    mark(marks) {
        this.settings.marks = marks;
        this.draw();
    }

    // ---- sizes ----

    fit() {
        const m = this.matrix, f = this.settings.factor;
        this.scale = 1;
        this.measureNames();
        this.cell = {x: CELL.width * f, y: CELL.height * f};
        for (let pass = 0; pass < 2; pass++) { // the gutters depend on the size of a cell
            this.measureGutters();
            const room = {x: this.settings.width - this.left - this.right - 2, y: this.settings.height - this.top - 2};
            this.cell = fittingCell(m, room, f);
        }
        this.measureGutters();
        this.base = {...this.cell};
        const wide = this.left + this.right + m.cols * this.cell.x, high = this.top + m.rows * this.cell.y;
        this.scroller.style.width = `${Math.ceil(Math.min(wide, this.settings.width)) + 1}px`;
        this.scroller.style.height = `${Math.ceil(Math.min(high, this.settings.height)) + 1}px`;
        this.resize();
    }

    zoom(factor) {
        const m = this.matrix, centre = this.cursor || this.cellAt(this.scroller.clientWidth / 2, this.scroller.clientHeight / 2);
        const most = CELL.width * this.settings.factor * 1.6;
        const cell = {x: Math.min(most, this.cell.x * factor), y: Math.min(most * 0.6, this.cell.y * factor)};
        if (m.square && cell.x > 16 && cell.y > 16) {
            cell.y = Math.min(cell.y, cell.x * 0.62);
        }
        this.cell = {x: Math.max(this.base.x, cell.x), y: Math.max(this.base.y, cell.y)};
        this.measureGutters();
        this.resize();
        if (centre) {
            this.scroller.scrollLeft = (centre.j + 0.5) * this.cell.x - (this.scroller.clientWidth - this.left) / 2;
            this.scroller.scrollTop = (centre.i + 0.5) * this.cell.y - (this.scroller.clientHeight - this.top) / 2;
        }
        this.draw();
    }

    resize() {
        const m = this.matrix, r = this.ratio;
        this.canvas.style.width = this.canvas.style.height = '0px'; // its old size must not call for scroll bars
        this.sizer.style.width = `${this.left + this.right + m.cols * this.cell.x}px`;
        this.sizer.style.height = `${this.top + m.rows * this.cell.y}px`;
        const width = Math.min(this.scroller.clientWidth, this.left + this.right + m.cols * this.cell.x);
        const height = Math.min(this.scroller.clientHeight, this.top + m.rows * this.cell.y);
        this.view = {width, height};
        this.host.dataset.geometry = [this.left, this.top, this.cell.x, this.cell.y].join(' '); // for the tests
        this.canvas.width = Math.max(1, Math.round(width * r));
        this.canvas.height = Math.max(1, Math.round(height * r));
        this.canvas.style.width = `${width}px`;
        this.canvas.style.height = `${height}px`;
        this.draw();
    }

    get font() {
        return `${SMALL_TEXT * this.settings.factor}px ${FONT}`;
    }

    measureNames() {
        const m = this.matrix;
        const widest = (names, count) => {
            this.context.font = this.font;
            const texts = names ? [...names].sort((a, b) => b.length - a.length).slice(0, 24) : [String(count - 1)];
            return Math.max(...texts.map((text) => this.context.measureText(text).width), 8);
        };
        const most = Math.min(130 * this.settings.factor, this.settings.width / 3.2);
        this.names = {row: Math.min(most, widest(m.rowNames, m.rows)),
            col: Math.min(90 * this.settings.factor, widest(m.colNames, m.cols))};
    }

    measureGutters() {
        const m = this.matrix, f = this.settings.factor;
        this.left = m.bare ? 2 : this.names.row + 10;
        this.upright = m.colNames !== null && this.names.col + 4 > this.cell.x;
        this.top = (this.upright ? this.names.col + 10 : 18 * f) + (m.bands ? 6 : 0);
        this.right = m.rowSum ? 52 * f : 0;
    }

    // ---- drawing ----

    draw() {
        if (!this.asked) {
            this.asked = requestAnimationFrame(() => {
                this.asked = 0;
                this.paint();
            });
        }
    }

    // The cells that can be seen.
    visible() {
        const m = this.matrix, x = this.scroller.scrollLeft, y = this.scroller.scrollTop;
        const j1 = Math.ceil((x + this.view.width - this.left) / this.cell.x);
        const i1 = Math.ceil((y + this.view.height - this.top) / this.cell.y);
        return {i0: Math.max(0, Math.floor(y / this.cell.y)), i1: Math.min(m.rows, i1), j0: Math.max(0, Math.floor(x / this.cell.x)),
                j1: Math.min(m.cols, j1)};
    }

    x(j) {
        return this.left + j * this.cell.x - this.scroller.scrollLeft;
    }

    y(i) {
        return this.top + i * this.cell.y - this.scroller.scrollTop;
    }

    paint() {
        const c = this.context, r = this.ratio, seen = this.visible();
        c.setTransform(1, 0, 0, 1, 0, 0);
        c.fillStyle = this.colours.paper;
        c.fillRect(0, 0, this.canvas.width, this.canvas.height);
        const complete = this.paintTiles(seen);
        c.setTransform(r, 0, 0, r, 0, 0);
        c.save();
        c.beginPath();
        c.rect(this.left, this.top, this.view.width - this.left - this.right, this.view.height - this.top);
        c.clip();
        if (this.cell.x >= 6 && this.cell.y >= 6) {
            this.paintCells(seen);
        }
        this.paintMarks();
        c.restore();
        this.paintRowNames(seen);
        this.paintColumnNames(seen);
        if (!complete) {
            this.draw();
        }
    }

    // False when tiles are left for the next frame.
    paintTiles(seen) {
        const di = blockOf(this.cell.y * this.ratio), dj = blockOf(this.cell.x * this.ratio), r = this.ratio, c = this.context;
        const until = performance.now() + FRAME_MS, high = TILE * di, wide = TILE * dj;
        let complete = true;
        c.imageSmoothingEnabled = false;
        for (let ti = Math.floor(seen.i0 / high); ti * high < seen.i1; ti++) {
            for (let tj = Math.floor(seen.j0 / wide); tj * wide < seen.j1; tj++) {
                const bitmap = this.tile(ti, tj, di, dj, until);
                if (!bitmap) {
                    complete = false;
                    continue;
                }
                const x0 = Math.round(this.x(tj * wide) * r), y0 = Math.round(this.y(ti * high) * r);
                const x1 = Math.round(this.x(Math.min(this.matrix.cols, tj * wide + bitmap.width * dj)) * r);
                const y1 = Math.round(this.y(Math.min(this.matrix.rows, ti * high + bitmap.height * di)) * r);
                c.drawImage(bitmap, x0, y0, x1 - x0, y1 - y0);
            }
        }
        this.host.dataset.drawn = String(complete);
        return complete;
    }

    tile(ti, tj, di, dj, until) {
        const key = `${di},${dj},${ti},${tj}`;
        if (!this.tiles.has(key) && (performance.now() < until || this.tiles.size === 0)) {
            if (this.tiles.size > 400) {
                this.tiles.clear();
            }
            this.tiles.set(key, tileBitmap(this.matrix, this.colour, this.colours, ti * TILE, tj * TILE, di, dj));
        }
        return this.tiles.get(key);
    }

    paintCells(seen) {
        const c = this.context, m = this.matrix, cover = this.settings.cover;
        const digits = this.cell.x >= DIGITS_FROM.width && this.cell.y >= DIGITS_FROM.height;
        const size = Math.min(13 * this.settings.factor, this.cell.y * 0.55, this.cell.x * 0.32);
        c.font = `${size}px ${FONT}`;
        c.textAlign = 'center';
        c.textBaseline = 'middle';
        const room = Math.floor((this.cell.x - 4) / (size * 0.56));
        for (let i = seen.i0; i < seen.i1; i++) {
            for (let j = seen.j0; j < seen.j1; j++) {
                this.paintCell(i, j, cover && cover(i, j), digits, room);
            }
        }
        if (this.cell.x >= 12 && this.cell.y >= 12) {
            this.paintGrid(seen);
        }
    }

    paintCell(i, j, covered, digits, room) {
        const c = this.context, m = this.matrix, x = this.x(j), y = this.y(i);
        if (covered) {
            c.fillStyle = cssColour(this.colours.absent);
            // Nothing of the colour may show at the edges.
            c.fillRect(Math.floor(x) - 1, Math.floor(y) - 1, Math.ceil(this.cell.x) + 2, Math.ceil(this.cell.y) + 2);
            c.fillStyle = this.colours.faint;
            c.fillText('?', x + this.cell.x / 2, y + this.cell.y / 2);
            return;
        }
        const hidden = m.hidden && m.hidden(i, j);
        if (hidden) {
            this.hatch(x, y);
        }
        if (digits) {
            const value = m.at(i, j);
            const odd = !Number.isFinite(value);
            c.fillStyle = hidden || value === -Infinity ? this.colours.ink : odd ? this.colours.ink : inkOn(this.colour(value, i, j));
            const text = value === undefined ? '·' : shortNumber(value, room);
            if (hidden) {
                this.textOnPaper(text, x, y);
            } else {
                c.fillText(text, x + this.cell.x / 2, y + this.cell.y / 2 + 0.5);
            }
        }
    }

    // Digits on hatching need a plain ground.
    textOnPaper(text, x, y) {
        const c = this.context, width = c.measureText(text).width + 6, height = Math.min(this.cell.y - 4, 16 * this.settings.factor);
        const ink = c.fillStyle;
        c.fillStyle = cssColour(this.colours.hidden);
        c.fillRect(x + (this.cell.x - width) / 2, y + (this.cell.y - height) / 2, width, height);
        c.fillStyle = ink;
        c.fillText(text, x + this.cell.x / 2, y + this.cell.y / 2 + 0.5);
    }

    hatch(x, y) {
        const c = this.context, r = this.ratio;
        c.save();
        c.setTransform(1, 0, 0, 1, 0, 0);
        c.fillStyle = this.pattern;
        c.fillRect(Math.round(x * r), Math.round(y * r), Math.round(this.cell.x * r), Math.round(this.cell.y * r));
        c.restore();
    }

    paintGrid(seen) {
        const c = this.context;
        c.strokeStyle = this.colours.line;
        c.lineWidth = 1;
        c.beginPath();
        for (let i = seen.i0; i <= seen.i1; i++) {
            c.moveTo(this.left, Math.round(this.y(i)) + 0.5);
            c.lineTo(Math.min(this.view.width, this.x(this.matrix.cols)), Math.round(this.y(i)) + 0.5);
        }
        for (let j = seen.j0; j <= seen.j1; j++) {
            c.moveTo(Math.round(this.x(j)) + 0.5, this.top);
            c.lineTo(Math.round(this.x(j)) + 0.5, Math.min(this.view.height, this.y(this.matrix.rows)));
        }
        c.stroke();
    }

    // Rows, columns and the cell that belong to what was picked, and the keyboard's cursor.
    paintMarks() {
        const m = this.matrix, marks = this.settings.marks || {};
        const box = (i0, i1, j0, j1, colour, width) => {
            const c = this.context, x = this.x(j0), y = this.y(i0);
            c.strokeStyle = colour;
            c.lineWidth = width;
            c.strokeRect(x + width / 2, y + width / 2, Math.max(2, this.x(j1) - x - width), Math.max(2, this.y(i1) - y - width));
        };
        (marks.rows || []).forEach((i) => box(i, i + 1, 0, m.cols, this.colours.mark, 2));
        (marks.cols || []).forEach(([from, to]) => box(0, m.rows, from, to, this.colours.mark, 2));
        if (marks.cell) {
            box(marks.cell.i, marks.cell.i + 1, marks.cell.j, marks.cell.j + 1, this.colours.mark, 3);
        }
        if (this.cursor && document.activeElement === this.host) {
            box(this.cursor.i, this.cursor.i + 1, this.cursor.j, this.cursor.j + 1, this.colours.cursor, 3);
        }
    }

    paintRowNames(seen) {
        const c = this.context, m = this.matrix, f = this.settings.factor;
        if (m.bare) {
            return;
        }
        c.font = this.font;
        c.textBaseline = 'middle';
        const every = niceStep(13 * f / this.cell.y, m.rowNames);
        for (let i = Math.ceil(seen.i0 / every) * every; i < seen.i1; i += every) {
            const y = this.y(i) + this.cell.y / 2;
            if (y < this.top) {
                continue;
            }
            c.textAlign = 'right';
            c.fillStyle = this.lit('rows', i) ? this.colours.mark : this.colours.faint;
            c.fillText(clipText(c, nameOf(m.rowNames, i), this.names.row), this.left - 5, y);
            if (m.rowSum && this.cell.y >= 9) {
                c.textAlign = 'left';
                c.fillStyle = this.colours.faint;
                c.fillText(this.settings.cover && this.settings.cover(i, 0) ? '?' : shortNumber(m.rowSum(i), 6),
                    this.view.width - this.right + 5, y);
            }
        }
        if (m.rowSum && this.cell.y >= 9) {
            c.textAlign = 'left';
            c.fillStyle = this.colours.faint;
            c.fillText('Σ', this.view.width - this.right + 5, this.top - 9 * f);
        }
    }

    lit(which, n) {
        const marks = this.settings.marks || {}, on = marks.cell && (which === 'rows' ? marks.cell.i : marks.cell.j) === n;
        return on || (which === 'rows' ? (marks.rows || []).includes(n) : (marks.cols || []).some(([from, to]) => n >= from && n < to));
    }

    paintColumnNames(seen) {
        const c = this.context, m = this.matrix, f = this.settings.factor;
        c.font = this.font;
        const need = this.upright ? 13 * f : m.colNames ? 10 : c.measureText(String(m.cols)).width + 6;
        const every = niceStep(need / this.cell.x, m.colNames);
        const base = this.top - 5 - (m.bands ? 6 : 0);
        for (let j = Math.ceil(seen.j0 / every) * every; j < seen.j1; j += every) {
            const x = this.x(j) + this.cell.x / 2;
            if (x < this.left || x > this.view.width - this.right) {
                continue;
            }
            c.fillStyle = this.lit('cols', j) ? this.colours.mark : this.colours.faint;
            const text = clipText(c, nameOf(m.colNames, j), this.upright ? this.names.col : Math.max(this.cell.x, need));
            if (!this.upright && every > 1 && x + c.measureText(text).width / 2 > this.view.width - this.right) {
                continue; // it would be cut off, or run into what stands beside
            }
            this.columnName(text, x, base);
        }
        if (m.bands) {
            this.paintBands();
        }
    }

    columnName(text, x, y) {
        const c = this.context;
        c.save();
        c.translate(x, y);
        if (this.upright) {
            c.rotate(-Math.PI / 2);
            c.textAlign = 'left';
            c.textBaseline = 'middle';
        } else {
            c.textAlign = 'center';
            c.textBaseline = 'alphabetic';
        }
        c.fillText(text, 0, 0);
        c.restore();
    }

    // Which columns belong to which head.
    paintBands() {
        const c = this.context, {size, count} = this.matrix.bands;
        for (let h = 0; h < count; h++) {
            const from = Math.max(this.left, this.x(h * size)), to = Math.min(this.view.width, this.x((h + 1) * size));
            if (to > from) {
                c.fillStyle = headColour(h, this.settings.dark);
                c.fillRect(from, this.top - 6, to - from - 1, 4);
            }
        }
    }

    // ---- pointer and keys ----

    cellAt(x, y) {
        const i = Math.floor((y - this.top + this.scroller.scrollTop) / this.cell.y);
        const j = Math.floor((x - this.left + this.scroller.scrollLeft) / this.cell.x);
        const inside = x >= this.left && y >= this.top && i >= 0 && j >= 0 && i < this.matrix.rows && j < this.matrix.cols;
        return inside ? {i, j} : null;
    }

    cellOf(event) {
        const box = this.canvas.getBoundingClientRect();
        return this.cellAt(event.clientX - box.left, event.clientY - box.top);
    }

    listen() {
        this.scroller.addEventListener('scroll', () => this.draw());
        this.canvas.addEventListener('click', (event) => {
            const at = this.cellOf(event);
            if (at) {
                this.cursor = at;
                this.on.pick(at.i, at.j);
            }
        });
        this.canvas.addEventListener('mousemove', (event) => {
            const at = this.cellOf(event);
            this.on.hover(at, event);
        });
        this.canvas.addEventListener('mouseleave', () => this.on.hover(null));
        this.host.addEventListener('keydown', (event) => this.key(event));
        for (const type of ['focus', 'blur']) {
            this.host.addEventListener(type, () => this.draw());
        }
    }

    key(event) {
        const at = this.cursor || {i: 0, j: 0}, m = this.matrix;
        const page = Math.max(1, Math.floor((this.view.height - this.top) / this.cell.y) - 1);
        const end = event.ctrlKey;
        const moves = {
            ArrowLeft: [at.i, at.j - 1], ArrowRight: [at.i, at.j + 1], ArrowUp: [at.i - 1, at.j], ArrowDown: [at.i + 1, at.j],
            Home: [end ? 0 : at.i, 0], End: [end ? m.rows - 1 : at.i, m.cols - 1],
            PageUp: [at.i - page, at.j], PageDown: [at.i + page, at.j],
        };
        if (event.altKey || event.metaKey) {
            return;
        }
        if (moves[event.key]) {
            this.moveTo(...(this.cursor ? moves[event.key] : [0, 0]));
            this.on.move(this.cursor.i, this.cursor.j);
        } else if (event.key === 'Enter' || event.key === ' ') {
            this.cursor = at;
            this.on.pick(at.i, at.j);
        } else {
            return;
        }
        event.preventDefault();
        event.stopPropagation();
    }

    // Puts the cursor on a cell and scrolls to it.
    moveTo(i, j) {
        const m = this.matrix, s = this.scroller;
        this.cursor = {i: Math.min(m.rows - 1, Math.max(0, i)), j: Math.min(m.cols - 1, Math.max(0, j))};
        const x = this.cursor.j * this.cell.x, y = this.cursor.i * this.cell.y;
        const wide = this.view.width - this.left - this.right, high = this.view.height - this.top;
        s.scrollLeft = Math.min(x, Math.max(s.scrollLeft, x + this.cell.x - wide));
        s.scrollTop = Math.min(y, Math.max(s.scrollTop, y + this.cell.y - high));
        this.draw();
    }

    // What one dot stands for, in words; '' where it is one cell.
    blockText() {
        const x = blockOf(this.cell.x * this.ratio), y = blockOf(this.cell.y * this.ratio);
        const sampled = this.matrix.cost > 1 && !this.matrix.coarse;
        return x * y > 1 ? say(sampled ? 'sample_note' : 'block_note', {x, y}) : '';
    }
}

// The largest cell with which the matrix fits. Cells of a square matrix stay square once they are small.
function fittingCell(m, room, factor) {
    let x = Math.min(CELL.width * factor, Math.max(20, room.x) / m.cols), y = Math.min(CELL.height * factor, Math.max(20, room.y) / m.rows);
    const small = Math.min(x, y) < DIGITS_FROM.height * factor, alike = m.rows <= 3 * m.cols && m.cols <= 3 * m.rows;
    if (m.square && small && alike) {
        x = y = Math.min(x, y);
    }
    return {x, y};
}

// How many rows go by from one label to the next: 1, 2, 5, 10, 20 ..., so that counting is easy; tokens are shown as densely as they fit.
function niceStep(least, names) {
    if (names || least <= 1) {
        return Math.max(1, Math.ceil(least));
    }
    const power = 10 ** Math.floor(Math.log10(least));
    return power * [1, 2, 5, 10].find((n) => n * power >= least);
}

function clipText(context, text, width) {
    if (context.measureText(text).width <= width) {
        return text;
    }
    const letters = [...text];
    while (letters.length > 1 && context.measureText(`${letters.join('')}…`).width > width) {
        letters.pop();
    }
    return `${letters.join('')}…`;
}
