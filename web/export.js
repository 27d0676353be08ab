// SPDX-License-Identifier: Apache-2.0
// Files made in the page: pictures of the stage, numbers of the matrix. They go from memory to the disk and nowhere else.

const EXPORT_CELLS = 1 << 22;

function download(name, blob) {
    const link = el('a', {href: URL.createObjectURL(blob), download: name});
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

// Rows [from, to) that fit into one file.
function exportRows(matrix, first) {
    const most = Math.max(1, Math.floor(EXPORT_CELLS / Math.max(1, matrix.cols)));
    return matrix.rows <= most ? {from: 0, to: matrix.rows} :
        {from: Math.min(first, matrix.rows - most), to: Math.min(first, matrix.rows - most) + most};
}

// Numbers alone, as `attn` reads them back.
function csvText(matrix, {from, to}) {
    const lines = [];
    for (let i = from; i < to; i++) {
        lines.push(Array.from({length: matrix.cols}, (_, j) => exactText(matrix.at(i, j), matrix.dtype)).join(','));
    }
    return `${lines.join('\n')}\n`;
}

// An array as docs/json.md has it, with where it stands.
function jsonText(matrix, about, {from, to}) {
    const number = (x) => (Number.isFinite(x) ? Number(exactText(x, matrix.dtype)) : exactText(x, matrix.dtype));
    const values = Array.from({length: to - from}, (_, i) => Array.from({length: matrix.cols}, (_, j) => number(matrix.at(from + i, j))));
    const hidden = matrix.hidden && Array.from({length: to - from}, (_, i) =>
        Array.from({length: matrix.cols}, (_, j) => matrix.hidden(from + i, j)));
    const whole = {schema: 1, ...about, dtype: matrix.dtype || 'f64', shape: [to - from, matrix.cols], first_row: from,
                   row_labels: matrix.rowNames ? matrix.rowNames.slice(from, to) : undefined, column_labels: matrix.colNames || undefined,
                   values,
                   hidden: hidden || undefined};
    return `${JSON.stringify(whole)}\n`;
}

function svgText(figure) {
    return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(paintAsSvg(figure))}\n`;
}

function pngBlob(figure) {
    return new Promise((done) => paintOnCanvas(figure, 2).toBlob(done, 'image/png'));
}
