/* SPDX-License-Identifier: Apache-2.0 */
/* Norms, activations and RoPE by their formulas; attn_model.h says whose they are. */
#include "model_ref.h"

#include "attn_ref.h"

#include <math.h>

static const long double pi = 3.14159265358979323846264338327950288L;

/* ------------------------------------------------------------------ norms ---- */

void ref_norm(double *out, const double *x, int64_t n, const ref_norm_options *o) {
    long double mean = 0, square = 0;
    for (int64_t i = 0; i < n && !o->rms; i++) {
        mean += x[i];
    }
    mean /= n;
    for (int64_t i = 0; i < n; i++) {
        square += (x[i] - mean) * (x[i] - mean);
    }
    for (int64_t i = 0; i < n; i++) {
        const long double weight = (o->weight ? o->weight[i] : 1) + (o->plus_one ? 1.0L : 0);
        out[i] = (double)((x[i] - mean) / sqrtl(square / n + o->eps) * weight + (o->bias ? o->bias[i] : 0));
    }
}

/* ------------------------------------------------------------ activations ---- */

double ref_activation(attn_activation f, double x) {
    switch (f) {
    case ATTN_GELU: return (double)(x * erfcl(-x / sqrtl(2)) / 2); /* 1 + erf z = erfc -z */
    case ATTN_GELU_TANH: return (double)(x / (1 + expl(-2 * sqrtl(2 / pi) * (x + 0.044715L * x * x * x)))); /* (1 + tanh z)/2 */
    case ATTN_SILU: return (double)(x / (1 + expl(-(long double)x)));
    case ATTN_RELU: return x < 0 ? 0 : x;
    }
    return (double)NAN;
}

void ref_softmax(double *out, const double *x, int64_t n) {
    long double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        top = x[i] > top ? x[i] : top;
    }
    for (int64_t i = 0; i < n && top > -INFINITY; i++) {
        sum += expl(x[i] - top);
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = top > -INFINITY ? (double)(expl(x[i] - top) / sum) : 0;
    }
}

/* ------------------------------------------------------------------- RoPE ---- */

attn_rope_desc ref_rope_defaults(const attn_rope_desc *d) {
    attn_rope_desc full = *d;
    full.rotary_dim = d->rotary_dim ? d->rotary_dim : d->cos ? 2 * d->cos->shape[1] : d->head_dim;
    full.theta = d->theta != 0 ? d->theta : 10000;
    full.factor = d->factor != 0 ? d->factor : 1;
    full.low_freq = d->low_freq != 0 ? d->low_freq : 1;
    full.high_freq = d->high_freq != 0 ? d->high_freq : 4;
    full.beta_fast = d->beta_fast != 0 ? d->beta_fast : 32;
    full.beta_slow = d->beta_slow != 0 ? d->beta_slow : 1;
    full.attention_factor = d->attention_factor != 0 ? d->attention_factor : 0.1 * log(full.factor) + 1;
    return full;
}

/* Between f/s (m = 0) and f (m = 1). */
static long double mix(const attn_rope_desc *d, long double f, long double m) {
    return (1 - m) * f / d->factor + m * f;
}

static long double clamp(long double x, long double low, long double high) {
    return x < low ? low : x > high ? high : x;
}

static long double yarn_share(const attn_rope_desc *d, int64_t p) {
    const long double r = d->rotary_dim, N = d->original_length, per_log = r / (2 * logl(d->theta));
    const long double low = fmaxl(floorl(per_log * logl(N / (2 * pi * d->beta_fast))), 0);
    const long double high = fminl(ceill(per_log * logl(N / (2 * pi * d->beta_slow))), r - 1);
    return 1 - clamp((p - low) / (high == low ? 0.001L : high - low), 0, 1);
}

double ref_rope_frequency(const attn_rope_desc *d, int64_t p) {
    const long double r = d->rotary_dim, s = d->factor, N = d->original_length;
    long double theta = d->theta;
    if (d->scaling == ATTN_ROPE_DYNAMIC && d->length > d->original_length) {
        theta *= powl(s * d->length / N - (s - 1), r / (r - 2));
    }
    const long double f = powl(theta, -2 * p / r), wavelength = 2 * pi / f;
    switch (d->scaling) {
    case ATTN_ROPE_LINEAR: return (double)(f / s);
    case ATTN_ROPE_LLAMA3: return (double)mix(d, f, clamp((N / wavelength - d->low_freq) / (d->high_freq - d->low_freq), 0, 1));
    case ATTN_ROPE_YARN: return (double)mix(d, f, yarn_share(d, p));
    default: return (double)f;
    }
}

void ref_rope(double *row, const attn_rope_desc *desc, int64_t position) {
    const attn_rope_desc d = ref_rope_defaults(desc);
    for (int64_t p = 0; p < d.rotary_dim / 2; p++) {
        const bool interleaved = d.flags & ATTN_ROPE_INTERLEAVED;
        double *a = row + (interleaved ? 2 * p : p), *b = row + (interleaved ? 2 * p + 1 : p + d.rotary_dim / 2);
        const long double factor = d.scaling == ATTN_ROPE_YARN ? d.attention_factor : 1;
        const long double angle = d.cos ? 0 : (long double)position * ref_rope_frequency(&d, p);
        const long double c = d.cos ? ref_element(d.cos, 0, 0, position, p) : factor * cosl(angle);
        const long double s = d.cos ? ref_element(d.sin, 0, 0, position, p) : factor * sinl(angle);
        const long double x = *a, y = *b;
        *a = (double)(x * c - y * s);
        *b = (double)(y * c + x * s);
    }
}
