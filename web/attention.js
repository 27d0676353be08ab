// SPDX-License-Identifier: Apache-2.0
// Attention in double precision, with the meaning of the options as in attn.h. Where the file has a stage as the kernel computed it, that
// number is shown; everything else comes from here.

const HIDDEN = ['mask', 'bias', 'causal', 'window', 'kv_len', 'q_len']; // bit n of hiddenBits
const STAGE_NAMES = ['scores', 'scaled', 'capped', 'masked', 'weights'];

function tanhCap(x, cap) {
    return cap > 0 ? cap * Math.tanh(x / cap) : x;
}

// The sum of products of n numbers, from a[at], b[bt] on.
function dot(a, at, b, bt, n) {
    let sum = 0;
    for (let c = 0; c < n; c++) {
        sum += a[at + c] * b[bt + c];
    }
    return sum;
}

// What one of the options bias, mask, keep holds for a head, as a function of (i, j).
function spread(array, b, h) {
    const page = array.page([b, h]);
    const rows = array.shape[array.shape.length - 2], cols = array.shape[array.shape.length - 1];
    const down = rows === 1 ? 0 : cols, along = cols === 1 ? 0 : 1;
    return (i, j) => page[i * down + j * along];
}

function option(list, n, otherwise) {
    return Array.isArray(list) ? asNumber(list[n % list.length]) : otherwise;
}

class Head {
    constructor(model, b, h) {
        const o = model.options;
        Object.assign(this, {model, b, h, Lq: model.Lq, Lk: model.Lk, d: model.d, dv: model.dv});
        this.kvHead = Math.floor(h / (model.H / model.Hkv));
        this.offset = option(o.offset, b, 0);
        this.kvLen = option(o.kv_len, b, model.Lk);
        this.qLen = option(o.q_len, b, model.Lq);
        const slopes = o.alibi && Array.isArray(o.alibi[0]) ? o.alibi[b] : o.alibi; // per head, or per batch item and head
        this.slope = option(slopes, h, 0);
        this.sink = Array.isArray(o.sinks) ? option(o.sinks, h, 0) : null;
        this.scale = o.scale === undefined || o.scale === null ? 1 / Math.sqrt(model.d || 1) : asNumber(o.scale);
        this.softcap = o.softcap || 0;
        this.dropout = o.dropout || 0;
        for (const name of ['mask', 'bias', 'keep']) {
            this[name] = model.has(name) ? spread(model.arrays[name], b, h) : null;
        }
        this.rows = new Map();
    }

    // Arrays of this head, decoded when first asked for.
    get q() { return this.pageOf('q', this.h); }
    get q_plain() { return this.pageOf('q_plain', this.h); }
    get k_plain() { return this.pageOf('k_plain', this.kvHead); }
    get k() { return this.pageOf('k', this.kvHead); }
    get v() { return this.pageOf('v', this.kvHead); }

    pageOf(name, head) {
        const key = `page_${name}`;
        if (!this[key]) {
            this[key] = this.model.arrays[name].page([this.b, head]);
        }
        return this[key];
    }

    // Nothing is computed of what another program saved: its positions and its scale are not known.
    get computes() {
        return this.model.known && this.model.has('q') && this.model.has('k');
    }

    // Stage `name` as the file has it, or null.
    stored(name) {
        return this.model.has(name) ? this.pageOf(name, this.h) : null;
    }

    position(i) {
        return this.offset + i;
    }

    hiddenBits(i, j) {
        const o = this.model.options, away = j - this.position(i);
        let bits = this.mask && !this.mask(i, j) ? 1 : 0;
        bits |= this.bias && this.bias(i, j) === -Infinity ? 2 : 0;
        bits |= o.causal && away > 0 ? 4 : 0;
        if (o.window) {
            const [left, right] = o.window;
            bits |= (left >= 0 && -away > left) || (right >= 0 && away > right) ? 8 : 0;
        }
        bits |= j >= this.kvLen ? 16 : 0;
        return bits | (i >= this.qLen ? 32 : 0);
    }

    // Hidden as far as this file can tell: by its options, or by the -inf of a stage that came without them.
    isHidden(i, j) {
        if (this.hiddenBits(i, j)) {
            return true;
        }
        const masked = this.computes ? null : this.stored('masked');
        return masked !== null && masked[i * this.Lk + j] === -Infinity;
    }

    // Bias and ALiBi, which are added before the softmax.
    added(i, j) {
        const alibi = this.slope ? -this.slope * Math.abs(this.position(i) - j) : 0;
        return (this.bias ? this.bias(i, j) : 0) + alibi;
    }

    computed(name, i, j) {
        switch (name) {
        case 'scores': return dot(this.q, i * this.d, this.k, j * this.d, this.d);
        case 'scaled': return this.value('scores', i, j) * this.scale;
        case 'capped': return tanhCap(this.value('scaled', i, j), this.softcap);
        case 'masked': return this.isHidden(i, j) ? -Infinity : this.value('capped', i, j) + this.added(i, j);
        default: return this.dropout > 0 && !this.keep ? this.summary(i, j) : this.kept(i, j, this.share(i, j));
        }
    }

    // The number that is shown for a cell of a stage; undefined where a summary does not have it.
    value(name, i, j) {
        const stored = this.stored(name);
        if (stored) {
            return stored[i * this.Lk + j];
        }
        return this.computes ? this.computed(name, i, j) : this.summary(i, j);
    }

    // The softmax, before dropout. With the lse of the kernel one cell costs one score, not a row of them.
    share(i, j) {
        if (this.isHidden(i, j)) {
            return 0;
        }
        const lse = this.stored('lse') ? this.lseOf(i) : this.row(i).lse;
        return Math.exp(this.value('masked', i, j) - lse);
    }

    lseOf(i) {
        return this.model.arrays.lse.page([this.b, this.h], 1)[i];
    }

    kept(i, j, share) {
        if (this.dropout === 0) {
            return share;
        }
        return this.keep(i, j) && this.dropout < 1 ? share / (1 - this.dropout) : 0;
    }

    // The numbers of the softmax of a row: max, sum, lse, the sink's part, how many keys it sees.
    row(i) {
        if (!this.rows.has(i)) {
            if (this.rows.size > 512) {
                this.rows.clear();
            }
            this.rows.set(i, this.softmaxRow(i));
        }
        return this.rows.get(i);
    }

    softmaxRow(i) {
        const sink = this.sink !== null && i < this.qLen ? this.sink : -Infinity;
        let max = sink, visible = 0;
        const masked = new Float64Array(this.Lk);
        for (let j = 0; j < this.Lk; j++) {
            masked[j] = this.value('masked', i, j);
            if (!this.isHidden(i, j)) {
                visible++;
                max = Number.isNaN(masked[j]) || masked[j] > max ? masked[j] : max;
            }
        }
        if (visible === 0) {
            return {masked, visible, max: -Infinity, sum: 0, sink: 0, lse: sink};
        }
        const sinkPart = sink === -Infinity ? 0 : Math.exp(sink - max);
        let sum = sinkPart;
        for (let j = 0; j < this.Lk; j++) {
            sum += this.isHidden(i, j) ? 0 : Math.exp(masked[j] - max);
        }
        return {masked, visible, max, sum, sink: sinkPart, lse: max + Math.log(sum)};
    }

    // The weights of the overview: one byte each, times the scale of the row; or the top-k list. Good for a colour, not for a number.
    coarseWeight(i, j) {
        const bytes = this.stored('weights_u8');
        if (bytes) {
            return bytes[i * this.Lk + j] / 255 * this.model.arrays.weights_scale.page([this.b, this.h], 1)[i];
        }
        return this.model.has('top_index') ? this.summary(i, j) : this.value('weights', i, j);
    }

    // The weight of key j if it is among the row's largest, or what the bytes say.
    summary(i, j) {
        const bytes = this.stored('weights_u8');
        if (bytes) {
            return this.coarseWeight(i, j);
        }
        const top = this.topRow(i);
        return top ? top.get(j) : undefined;
    }

    topRow(i) {
        const index = this.stored('top_index'), weight = this.stored('top_weight');
        if (!index || !weight) {
            return null;
        }
        this.tops = this.tops || new Map();
        if (!this.tops.has(i)) {
            const k = this.model.arrays.top_index.shape.at(-1), row = new Map();
            for (let n = 0; n < k; n++) {
                const key = index[i * k + n];
                if (key >= 0) {
                    row.set(key, weight[i * k + n]);
                }
            }
            this.tops.set(i, row);
        }
        return this.tops.get(i);
    }

    output(i, c) {
        const stored = this.stored('output');
        if (stored) {
            return stored[i * this.dv + c];
        }
        if (!this.model.known) {
            return undefined;
        }
        let sum = 0;
        for (let j = 0; j < this.Lk; j++) {
            sum += this.isHidden(i, j) ? 0 : this.value('weights', i, j) * this.v[j * this.dv + c];
        }
        return sum;
    }

    rowSum(i) {
        this.sums = this.sums || new Map();
        if (!this.sums.has(i)) {
            let sum = 0;
            for (let j = 0; j < this.Lk; j++) {
                sum += this.value('weights', i, j) || 0;
            }
            this.sums.set(i, sum);
        }
        return this.sums.get(i);
    }
}
