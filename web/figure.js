// SPDX-License-Identifier: Apache-2.0
// A stage as one picture, for PNG, SVG and print: a list of shapes, painted on a canvas or as SVG. Large matrices are an image inside.

const FIGURE_CELLS = 4096;
const FIGURE_CELL = {width: 52, height: 30};
const FIGURE_MOST = {result: 1300, operand: 480}; // width and height of the cells together
const FONT = 'system-ui, "Noto Sans", "Noto Sans CJK KR", "Noto Sans KR", "Apple SD Gothic Neo", "Malgun Gothic", sans-serif';

const measuring = document.createElement('canvas').getContext('2d');

function textWidth(text, size, bold = false) {
    measuring.font = `${bold ? 'bold ' : ''}${size}px ${FONT}`;
    return measuring.measureText(text).width;
}

// figure: {title, lines, rows: [[item, ...], ...], dark}; an item is {op} or {symbol, matrix, range, byRow, cover, result}.
// Returns {width, height, shapes, colours}.
function figureShapes(figure) {
    const colours = drawingColours[figure.dark ? 'dark' : 'light'], shapes = [], pad = 16;
    const text = (x, at, words, more = {}) => shapes.push({text: words, x, y: at, size: 13, fill: colours.ink, anchor: 'start', ...more});
    let y = pad + 20, width = pad + textWidth(plainFormula(figure.title), 20, true);
    text(pad, y, plainFormula(figure.title), {size: 20, bold: true});
    for (const line of figure.lines) {
        y += 20;
        text(pad, y, line, {fill: colours.faint});
        width = Math.max(width, pad + textWidth(line, 13));
    }
    y += 16;
    for (const row of figure.rows) {
        const boxes = row.map((item) => (item.matrix ? figureBox(item) : {width: textWidth(plainFormula(item.op), 20) + 24, height: 0}));
        const high = Math.max(...boxes.map((box) => box.height));
        let x = pad;
        row.forEach((item, n) => {
            const box = boxes[n], down = y + (high - box.height) / 2;
            if (item.matrix) {
                panelShapes(shapes, text, {...item, dark: figure.dark}, colours, {...box, x, y: down});
            } else {
                text(x + box.width / 2, y + high / 2, plainFormula(item.op), {size: 20, anchor: 'middle', fill: colours.faint});
            }
            x += box.width;
        });
        width = Math.max(width, x);
        y += high + 12;
    }
    return {width: Math.ceil(width + pad), height: Math.ceil(y + 4), shapes, colours};
}

// How large one matrix is with its name above, its labels and its legend: everything is measured from its upper left corner.
function figureBox(item) {
    const m = item.matrix, names = (list, count) => (list ? list.slice(0, 200) : [String(Math.max(0, count - 1))]);
    const rowNames = Math.min(160, Math.max(...names(m.rowNames, m.rows).map((name) => textWidth(name, 12)))) + 8;
    const widest = Math.max(...names(m.colNames, m.cols).map((name) => textWidth(name, 12)));
    const cell = figureCell(m, item.result ? FIGURE_MOST.result : FIGURE_MOST.operand);
    const upright = m.colNames !== null && widest + 4 > cell.x;
    const top = 26 + (upright ? Math.min(110, widest) : 14) + 8, sums = m.rowSum && cell.y >= 12 ? 60 : 0;
    const title = textWidth(`${plainFormula(item.symbol)} ${sizes(m.rows, m.cols)}`, 14), legend = item.result ? 210 : 0;
    const width = Math.max(rowNames + m.cols * cell.x + sums, title, rowNames + legend) + 12;
    return {cell, upright, left: rowNames, top, width, height: top + m.rows * cell.y + (item.result ? 48 : 8)};
}

function panelShapes(shapes, text, figure, colours, place) {
    const m = figure.matrix, {cell} = place, size = {width: m.cols * cell.x, height: m.rows * cell.y};
    const box = {...place, ...size, left: place.x + place.left, top: place.y + place.top};
    text(box.left, place.y + 14, `${plainFormula(figure.symbol)} ${sizes(m.rows, m.cols)}`, {size: 14});
    if (m.rows * m.cols <= FIGURE_CELLS) {
        cellShapes(shapes, figure, colours, box);
    } else {
        imageShape(shapes, figure, colours, box);
    }
    nameShapes(text, figure, colours, box);
    if (figure.result) {
        legendShapes(shapes, text, figure, colours, box.left, box.top + box.height + 14);
    }
}

function figureCell(m, most) {
    const x = Math.min(FIGURE_CELL.width, most / Math.max(1, m.cols)), y = Math.min(FIGURE_CELL.height, most / Math.max(1, m.rows));
    const small = m.square && Math.min(x, y) < 14;
    return small ? {x: Math.min(x, y), y: Math.min(x, y)} : {x, y};
}

function cellShapes(shapes, figure, colours, box) {
    const m = figure.matrix, colour = colouring(m, figure.range, figure.dark, figure.byRow), {cell} = box;
    const size = Math.min(12, cell.y * 0.5), room = Math.floor((cell.x - 4) / (size * 0.56));
    for (let i = 0; i < m.rows; i++) {
        for (let j = 0; j < m.cols; j++) {
            const value = m.at(i, j), hidden = m.hidden && m.hidden(i, j), covered = figure.cover && figure.cover(i, j);
            const plain = !hidden && !covered && Number.isFinite(value);
            const rgb = covered || value === undefined ? colours.absent :
                hidden || value === -Infinity ? colours.hidden : plain ? colour(value, i, j) : colours.odd;
            const x = box.left + j * cell.x, y = box.top + i * cell.y;
            shapes.push({rect: [x, y, cell.x, cell.y], fill: cssColour(rgb), stroke: cell.x >= 12 ? colours.line : null,
                         hatch: hidden && !covered});
            if (cell.x >= 30 && cell.y >= 12) {
                const words = covered ? '?' : value === undefined ? '' : shortNumber(value, room);
                shapes.push({text: words, x: x + cell.x / 2, y: y + cell.y / 2 + size * 0.36, size, anchor: 'middle',
                             fill: plain ? inkOn(rgb) : colours.ink});
            }
        }
    }
}

function imageShape(shapes, figure, colours, box) {
    const canvas = document.createElement('canvas');
    const size = {width: Math.ceil(box.width), height: Math.ceil(box.height)};
    drawThumbnail(canvas, figure.matrix, size, colouring(figure.matrix, figure.range, figure.dark, figure.byRow), colours);
    shapes.push({image: canvas, rect: [box.left, box.top, box.width, box.height]});
}

function nameShapes(text, figure, colours, box) {
    const m = figure.matrix, {cell} = box, fill = colours.faint;
    const everyRow = niceStep(13 / cell.y, m.rowNames);
    const everyCol = niceStep((box.upright ? 13 : textWidth(String(m.cols), 12) + 8) / cell.x, m.colNames);
    for (let i = 0; i < m.rows; i += everyRow) {
        const y = box.top + (i + 0.5) * cell.y + 4;
        text(box.left - 6, y, nameOf(m.rowNames, i), {size: 12, anchor: 'end', fill});
        if (m.rowSum && cell.y >= 12) {
            text(box.left + box.width + 8, y, `Σ ${figure.cover && figure.cover(i, 0) ? '?' : shortNumber(m.rowSum(i), 6)}`,
                {size: 12, fill});
        }
    }
    for (let j = 0; j < m.cols; j += everyCol) {
        const x = box.left + (j + 0.5) * cell.x;
        text(x + (box.upright ? 4 : 0), box.top - 6, nameOf(m.colNames, j),
             {size: 12, anchor: box.upright ? 'start' : 'middle', turn: box.upright, fill});
    }
}

function legendShapes(shapes, text, figure, colours, x, y) {
    const table = palettes[figure.dark ? 'dark' : 'light'][figure.matrix.scale], steps = 64, width = 200;
    for (let n = 0; n < steps; n++) {
        shapes.push({rect: [x + n * width / steps, y, width / steps + 0.5, 10],
            fill: cssColour(table[Math.round(n * (PALETTE_STEPS - 1) / (steps - 1))])});
    }
    const ends = figure.byRow ? [say('colours_row'), ''] : figure.range.map((end) => numberText(end));
    text(x, y + 24, ends[0], {size: 11, fill: colours.faint});
    text(x + width, y + 24, ends[1], {size: 11, anchor: 'end', fill: colours.faint});
}

// ---- painters ----

function paintOnCanvas(figure, ratio) {
    const {width, height, shapes, colours} = figureShapes(figure), canvas = document.createElement('canvas'), c = canvas.getContext('2d');
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const pattern = hatchPattern(c, colours, ratio);
    c.scale(ratio, ratio);
    c.fillStyle = colours.paper;
    c.fillRect(0, 0, width, height);
    for (const shape of shapes) {
        paintShape(c, shape, pattern, ratio);
    }
    return canvas;
}

function paintShape(c, shape, pattern, ratio) {
    if (shape.image) {
        c.imageSmoothingEnabled = false;
        c.drawImage(shape.image, ...shape.rect);
    } else if (shape.rect) {
        c.fillStyle = shape.fill;
        c.fillRect(...shape.rect);
        if (shape.hatch) {
            c.save();
            c.scale(1 / ratio, 1 / ratio);
            c.fillStyle = pattern;
            c.fillRect(...shape.rect.map((n) => n * ratio));
            c.restore();
        }
        if (shape.stroke) {
            c.strokeStyle = shape.stroke;
            c.strokeRect(...shape.rect);
        }
    } else {
        c.save();
        c.translate(shape.x, shape.y);
        c.rotate(shape.turn ? -Math.PI / 2 : 0);
        c.font = `${shape.bold ? 'bold ' : ''}${shape.size}px ${FONT}`;
        c.textAlign = {start: 'left', middle: 'center', end: 'right'}[shape.anchor];
        c.fillStyle = shape.fill;
        c.fillText(shape.text, 0, 0);
        c.restore();
    }
}

const SVG = 'http://www.w3.org/2000/svg';

function svgElement(name, attributes, text) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) {
        if (value !== null && value !== undefined) {
            element.setAttribute(key, value);
        }
    }
    if (text !== undefined) {
        element.textContent = text;
    }
    return element;
}

function paintAsSvg(figure) {
    const {width, height, shapes, colours} = figureShapes(figure);
    const svg = svgElement('svg', {width, height, viewBox: `0 0 ${width} ${height}`, 'font-family': FONT, role: 'img'});
    svg.append(svgElement('title', {}, plainFormula(figure.title)));
    const pattern = svgElement('pattern', {id: 'hatch', width: 7, height: 7, patternUnits: 'userSpaceOnUse'});
    pattern.append(svgElement('path', {d: 'M-1,8 L8,-1', stroke: colours.hatch}));
    svg.append(pattern, svgElement('rect', {width, height, fill: colours.paper}));
    const short = (n) => Math.round(n * 100) / 100;
    for (const shape of shapes) {
        const [x, y, w, h] = (shape.rect || []).map(short);
        if (shape.image) {
            svg.append(svgElement('image', {x, y, width: w, height: h, href: shape.image.toDataURL(), preserveAspectRatio: 'none',
                'image-rendering': 'pixelated'}));
        } else if (shape.rect) {
            svg.append(svgElement('rect', {x, y, width: w, height: h, fill: shape.fill, stroke: shape.stroke}));
            if (shape.hatch) {
                svg.append(svgElement('rect', {x, y, width: w, height: h, fill: 'url(#hatch)'}));
            }
        } else {
            const turn = shape.turn ? `rotate(-90 ${short(shape.x)} ${short(shape.y)})` : null;
            svg.append(svgElement('text', {x: short(shape.x), y: short(shape.y), 'font-size': shape.size,
                                           'font-weight': shape.bold ? 'bold' : null, 'text-anchor': shape.anchor,
                                           fill: shape.fill, transform: turn}, shape.text));
        }
    }
    return svg;
}
