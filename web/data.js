// SPDX-License-Identifier: Apache-2.0
// The data of the page (docs/page.md): one JSON element, and beside it each array as base64 of little-endian numbers. A text of many
// megabytes is decoded only where it is looked at.

const ELEMENTS = {f32: Float32Array, f64: Float64Array, u8: Uint8Array, i32: Int32Array};
const DECODE_CHARACTERS = 1 << 18;

// Elements first .. first + count - 1 of a base64 text.
function decodeBase64(text, dtype, first, count) {
    const Numbers = ELEMENTS[dtype], size = Numbers.BYTES_PER_ELEMENT;
    const bytes = new Uint8Array(count * size);
    const skip = first * size % 3; // four characters hold three bytes
    const begin = (first * size - skip) / 3 * 4, end = Math.ceil((first + count) * size / 3) * 4;
    let at = -skip;
    for (let from = begin; from < end; from += DECODE_CHARACTERS) {
        const part = atob(text.slice(from, Math.min(end, from + DECODE_CHARACTERS)));
        for (let n = at < 0 ? -at : 0; n < part.length && at + n < bytes.length; n++) {
            bytes[at + n] = part.charCodeAt(n);
        }
        at += part.length;
    }
    return new Numbers(bytes.buffer);
}

// Numbers of a shape. read(first, count) gives a typed array; what was read is kept for a while.
class NumberArray {
    constructor(shape, dtype, read) {
        this.shape = shape;
        this.dtype = dtype;
        this.read = read;
        this.kept = new Map();
    }

    static of(shape, numbers) {
        const all = Float64Array.from(numbers);
        return new NumberArray(shape, 'f64', (first, count) => all.subarray(first, first + count));
    }

    part(first, count) {
        let found = this.kept.get(first);
        if (!found || found.length < count) {
            found = this.read(first, count);
            this.kept.set(first, found);
            if (this.kept.size > 256) {
                this.kept.delete(this.kept.keys().next().value);
            }
        }
        return found;
    }

    all() {
        return this.part(0, this.shape.reduce((a, b) => a * b, 1));
    }

    // The last `rank` axes at the leading indices; axes of size 1 spread, leading axes that the array lacks are ignored.
    page(lead, rank = 2) {
        const axes = this.shape.length - rank;
        const used = axes < lead.length ? lead.slice(lead.length - axes) : lead;
        const count = this.shape.slice(axes).reduce((a, b) => a * b, 1);
        let index = 0;
        for (let n = 0; n < axes; n++) {
            index = index * this.shape[n] + (this.shape[n] === 1 ? 0 : used[n]);
        }
        return this.part(index * count, count);
    }
}

// JSON has no infinity: they are strings.
function asNumber(value) {
    const words = {inf: Infinity, '-inf': -Infinity, nan: NaN};
    return typeof value === 'string' ? words[value] : value;
}

function arrayOfElement(name, info) {
    let text = null;
    return new NumberArray(info.shape, info.dtype, (first, count) => {
        if (text === null) {
            const element = document.getElementById(`attn-array-${name}`);
            text = element ? element.textContent.replace(/\s+/g, '') : '';
        }
        return decodeBase64(text, info.dtype, first, count);
    });
}

const LABEL_LETTERS = 200; // what is longer is measured and cut at every drawing, and shown nowhere

// {query: [name, ...] or null, key: ..., layer: ...}
function readLabels(lists) {
    const first = (name) => [...name.slice(0, 2 * LABEL_LETTERS)].slice(0, LABEL_LETTERS).join('');
    const cut = (name) => (name.length > LABEL_LETTERS ? `${first(name)}…` : name);
    return Object.fromEntries(Object.entries(lists || {}).map(([axis, names]) => [axis, names && names.map(cut)]));
}

// What is shown: sizes, options and arrays. The arrays of a model made in the page are there already.
class Model {
    constructor(info, arrays) {
        this.info = info;
        this.kind = info.kind;
        this.arrays = arrays;
        this.options = info.options || (info.causal ? {causal: true} : {});
        this.known = Boolean(info.options);
        this.labels = readLabels(info.labels);
        const s = info.shape || {};
        Object.assign(this, {H: s.H || 1, Hkv: s.Hkv || s.H || 1, Lq: s.Lq || 0, Lk: s.Lk || 0, d: s.d_k || 0, dv: s.d_v || 0});
        this.B = (s.B || 1) * (s.layers || 1);
        this.heads = new Map();
    }

    has(name) {
        return Boolean(this.arrays[name]);
    }

    // One head of one batch item (or layer), where all arithmetic is.
    head(b, h) {
        const key = b * this.H + h;
        if (!this.heads.has(key)) {
            this.heads.set(key, new Head(this, b, h));
        }
        return this.heads.get(key);
    }

    get layered() {
        return this.kind === 'view';
    }
}

// The arrays whose names begin so, without that.
function readArrays(info, prefix) {
    return Object.fromEntries(Object.entries(info.arrays || {}).filter(([name]) => name.startsWith(prefix))
        .map(([name, about]) => [name.slice(prefix.length), arrayOfElement(name, about)]));
}

// What the page has: one thing, or the several attentions of a model.
function readModels() {
    const info = JSON.parse(document.getElementById('attn-data').textContent);
    return [new Model(info, readArrays(info, '')),
        ...(info.more || []).map((part) => new Model({...info, ...part}, readArrays(info, `${part.part}_`)))];
}
