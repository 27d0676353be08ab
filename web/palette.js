// SPDX-License-Identifier: Apache-2.0
// Colours. Lightness alone orders both scales, in even steps of OKLab (Ottosson 2020), so that they can be read without colour vision and
// in
// grey print; hue only helps. Sequential for weights, diverging about 0 for everything that has a sign.

const PALETTE_STEPS = 256;

// OKLCH -> sRGB bytes; hue in degrees. Out-of-gamut channels are cut.
function oklch(lightness, chroma, hue) {
    const a = chroma * Math.cos(hue * Math.PI / 180), b = chroma * Math.sin(hue * Math.PI / 180);
    const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3;
    const linear = [
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
    ];
    return linear.map((x) => {
        const cut = Math.min(1, Math.max(0, x));
        return Math.round(255 * (cut <= 0.0031308 ? 12.92 * cut : 1.055 * cut ** (1 / 2.4) - 0.055));
    });
}

function mix(from, to, t) {
    return from.map((x, n) => x + (to[n] - x) * t);
}

function table(colourAt) {
    return Array.from({length: PALETTE_STEPS}, (_, n) => oklch(...colourAt(n / (PALETTE_STEPS - 1))));
}

// From the paper's colour (0) to the ink's (1), through a little more chroma.
function sequentialTable(dark) {
    const ends = dark ? [[0.25, 0.03, 275], [0.95, 0.09, 105]] : [[0.985, 0.015, 105], [0.32, 0.11, 275]];
    return table((t) => {
        const [lightness, chroma, hue] = mix(ends[0], ends[1], t);
        return [lightness, chroma + 0.06 * Math.sin(Math.PI * t), hue];
    });
}

// Blue below 0, orange above; the middle is the paper.
function divergingTable(dark) {
    const middle = dark ? 0.25 : 0.98, end = dark ? 0.86 : 0.42;
    return table((t) => {
        const away = Math.abs(2 * t - 1);
        return [middle + (end - middle) * away, 0.13 * Math.sin(Math.PI / 2 * away), t < 0.5 ? 258 : 55];
    });
}

const palettes = {
    light: {sequential: sequentialTable(false), diverging: divergingTable(false)},
    dark: {sequential: sequentialTable(true), diverging: divergingTable(true)},
};

const cssColour = (rgb) => `rgb(${rgb[0]},${rgb[1]},${rgb[2]})`;

// Black or white, whichever is easier to read on the colour.
function inkOn(rgb) {
    const [r, g, b] = rgb.map((x) => (x / 255) ** 2.2);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.22 ? '#111' : '#fff';
}

// Heads are told apart by their number first; hue and, from one to the next, lightness help.
function headColour(head, dark) {
    return cssColour(oklch((dark ? 0.72 : 0.58) + (head % 2 ? 0.09 : -0.04), 0.13, (40 + 137.508 * head) % 360));
}

// What surrounds the colours of the cells on a canvas.
const drawingColours = {
    light: {paper: '#ffffff', ink: '#1c2430', faint: '#5b6675', line: '#d5dae1', hidden: [226, 229, 233], hatch: '#8b94a1',
        absent: [246, 247, 249],
            cursor: '#0b57d0', mark: '#b3480c', odd: [255, 214, 214]},
    dark: {paper: '#151a21', ink: '#e8ecf2', faint: '#a3adba', line: '#3a4350', hidden: [52, 58, 67], hatch: '#8b94a1',
        absent: [30, 36, 44],
           cursor: '#8ab4ff', mark: '#ffb077', odd: [110, 30, 40]},
};
