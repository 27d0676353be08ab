/* SPDX-License-Identifier: Apache-2.0 */
/* Every operation of a vector header alone, against plain C on each lane: bit for bit, except that any NaN equals any NaN where
   arithmetic makes it. Compiled once per level and type, with VEC_HEADER the header. */
#include "test_vec.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include VEC_HEADER
#include "convert.h"
#include "guarded.h"

#ifdef ATTN_REAL_IS_DOUBLE
typedef uint64_t bits;
#define MAX DBL_MAX
#define MIN DBL_MIN
#define TINY DBL_TRUE_MIN
#define BIAS 1023
#define QUIET 0x7ff8000000000000u
#define SIGN 0x8000000000000000u
#define INFINITE 0x7ff0000000000000u
#define FMA fma
#define NEXT nextafter
#else
typedef uint32_t bits;
#define MAX FLT_MAX
#define MIN FLT_MIN
#define TINY FLT_TRUE_MIN
#define BIAS 127
#define QUIET 0x7fc00000u
#define SIGN 0x80000000u
#define INFINITE 0x7f800000u
#define FMA fmaf
#define NEXT nextafterf
#endif

static bits bits_of(real x)
{
    bits b;
    memcpy(&b, &x, sizeof b);
    return b;
}
static real real_of(bits b)
{
    real x;
    memcpy(&x, &b, sizeof x);
    return x;
}

static uint64_t random_bits(void)
{
    static uint64_t state = 88172645463325252u; /* xorshift64 (Marsaglia 2003); the same numbers in every run */
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}
static real uniform(real low, real high) { return low + (high - low) * (real)(random_bits() >> 11) * (real)0x1p-53; }

/* ------------------------------------------------------------------ checks ---- */

static const char *operation;
static long failures, shown;

static void fail(const char *what, real want, real got, const real *of)
{
    failures++;
    if (shown++ < 5)
        printf("%s: %s: want %a, got %a; of %a, %a, %a\n", operation, what, (double)want, (double)got, (double)of[0], (double)of[1],
               (double)of[2]);
}
static void check_bits(const char *what, real want, real got)
{
    if (bits_of(want) != bits_of(got))
        fail(what, want, got, (real[3]){ 0 });
}
static void check(const char *what, int holds)
{
    if (!holds)
        fail(what, 1, 0, (real[3]){ 0 });
}

/* --------------------------------------------------- operations on each lane ---- */

#ifdef VEC_FMA_ROUNDS_TWICE
#define WANT_FMA(a, b, c) ((a) * (b) + (c))
#else
/* By a call of libm: inlined it would be the instruction under test. */
static real (*const volatile exact_fma)(real, real, real) = FMA;
#define WANT_FMA(a, b, c) exact_fma(a, b, c)
#endif

enum exactness { COMPUTES, MOVES }; /* MOVES: a NaN keeps its bits */

static vf sum_and_product(vf sum, vf a, vf b)
{
    v_add_product(&sum, a, b);
    return sum;
}

/* X(operation, on vectors, on one lane, exactness) */
#define LANE_OPERATIONS(X)                                                                                                                 \
    X(v_add, v_add(a, b), a + b, COMPUTES)                                                                                                 \
    X(v_sub, v_sub(a, b), a - b, COMPUTES)                                                                                                 \
    X(v_mul, v_mul(a, b), a * b, COMPUTES)                                                                                                 \
    X(v_div, v_div(a, b), a / b, COMPUTES)                                                                                                 \
    X(v_fma, v_fma(a, b, c), WANT_FMA(a, b, c), COMPUTES)                                                                                  \
    X(v_add_product, sum_and_product(c, a, b), WANT_FMA(a, b, c), COMPUTES)                                                                \
    X(v_max, v_max(a, b), a > b ? a : b, MOVES)                                                                                            \
    X(v_min, v_min(a, b), a < b ? a : b, MOVES)                                                                                            \
    X(v_abs, v_abs(a), real_of(bits_of(a) & ~(bits)SIGN), MOVES)                                                                           \
    X(v_greater, v_select(v_greater(a, b), c, a), a > b ? c : a, MOVES)                                                                    \
    X(v_equal, v_select(v_equal(a, b), c, a), a == b ? c : a, MOVES)                                                                       \
    X(v_select, v_select(v_greater(c, v_zero()), a, b), c > 0 ? a : b, MOVES)                                                              \
    X(v_or_b, v_select(v_or_b(v_greater(a, b), v_greater(b, c)), a, b), a > b || b > c ? a : b, MOVES)

#define DEFINE(name, vectors, lane, exactness)                                                                                             \
    static vf vec_##name(vf a, vf b, vf c) { return (void)a, (void)b, (void)c, vectors; }                                                  \
    static real one_##name(real a, real b, real c) { return (void)a, (void)b, (void)c, lane; }
LANE_OPERATIONS(DEFINE)

static const struct lane_operation {
    const char *name;
    vf (*vec)(vf, vf, vf);
    real (*one)(real, real, real);
    enum exactness exactness;
} lane_operations[] = {
#define ENTRY(name, vectors, lane, exactness) { #name, vec_##name, one_##name, exactness },
    LANE_OPERATIONS(ENTRY)
};

static real edge(long i)
{
    static const real magnitudes[] = { 0, TINY, 3 * TINY, MIN - TINY, MIN, 1e-30f, 0.3f, 1, 1 + 0x1p-20f, 1.5f, 3, 8388609, 1e30f, MAX };
    enum { N = sizeof magnitudes / sizeof *magnitudes };
    const bits special[] = { INFINITE, INFINITE | SIGN, QUIET, QUIET | SIGN | 5 };
    return i < N ? magnitudes[i] : i < 2 * N ? -magnitudes[i - N] : real_of(special[i - 2 * N]);
}
enum { EDGES = 32, TRIPLES = EDGES * EDGES * EDGES, RANDOM_TRIPLES = 200000 };

/* All triples of edge values, then random ones: any bits, or numbers near 1 (whose sums and products round). */
static void triple(long n, real of[3])
{
    const int random = n >= TRIPLES, any_bits = n % 2;
    for (int i = 0; i < 3; i++, n /= EDGES)
        of[i] = !random ? edge(n % EDGES) : any_bits ? real_of((bits)random_bits()) : uniform(-4, 4);
}

static void test_lane_operation(const struct lane_operation *op)
{
    operation = op->name;
    shown = 0;
    for (long n = 0; n < TRIPLES + RANDOM_TRIPLES; n += VL) {
        real of[VL][3], in[3][VL], got[VL];
        for (int i = 0; i < VL; i++) {
            triple(n + i, of[i]);
            for (int j = 0; j < 3; j++)
                in[j][i] = of[i][j];
        }
        v_store(got, op->vec(v_load(in[0]), v_load(in[1]), v_load(in[2])));
        for (int i = 0; i < VL; i++) {
            real want = op->one(of[i][0], of[i][1], of[i][2]);
            int same_nan = op->exactness == COMPUTES && isnan(want) && isnan(got[i]);
            if (bits_of(want) != bits_of(got[i]) && !same_nan)
                fail("a lane", want, got[i], of[i]);
        }
    }
}

/* ------------------------------------------------------- constants and memory ---- */

/* Numbers to tell lanes apart; one is a NaN whose bits must survive. */
static real label(long i) { return i % 7 == 3 ? real_of(QUIET | SIGN | (bits)i) : (real)(1000 + i); }

static void test_constants(void)
{
    real got[VL];
    v_store(got, v_zero());
    for (int i = 0; i < VL; i++)
        check_bits("v_zero", 0, got[i]);
    for (int j = 0; j < 8; j++) {
        v_store(got, v_set1(label(j)));
        for (int i = 0; i < VL; i++)
            check_bits("v_set1", label(j), got[i]);
    }
    v_store(got, v_lane_numbers());
    for (int i = 0; i < VL; i++)
        check_bits("v_lane_numbers", (real)i, got[i]);
}

/* n = -1 .. VL + 1, and the ends of int */
enum { COUNTS = VL + 5 };
static int count(int i) { return i == 0 ? INT_MIN : i == COUNTS - 1 ? INT_MAX : i - 2; }
static int touched(int n) { return n < 0 ? 0 : n < VL ? n : VL; }

static guarded new_reals(int n, enum guard_side side)
{
    guarded g = guarded_new((size_t)n * sizeof(real), side);
    for (int i = 0; i < n; i++)
        ((real *)g.data)[i] = label(i);
    return g;
}

static void test_load(void)
{
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < COUNTS; i++) {
            const int n = count(i), m = touched(n);
            guarded g = new_reals(m, (enum guard_side)side);
            real got[VL];
            v_store(got, v_load_first((const real *)g.data, n));
            for (int lane = 0; lane < VL; lane++)
                check_bits("v_load_first", lane < m ? label(lane) : 0, got[lane]);
            check("a load writes nothing", guarded_intact(&g));
            guarded_free(&g);
        }
}

static void test_store(void)
{
    real from[VL];
    for (int i = 0; i < VL; i++)
        from[i] = label(100 + i);
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < COUNTS; i++) {
            const int n = count(i), m = touched(n);
            guarded g = new_reals(m, (enum guard_side)side);
            v_store_first((real *)g.data, v_load(from), n);
            for (int lane = 0; lane < m; lane++)
                check_bits("v_store_first", from[lane], ((real *)g.data)[lane]);
            check("a store writes nothing past n", guarded_intact(&g));
            guarded_free(&g);
        }
}

/* Aligned as a real is, and no more: every place in three vectors. */
static void test_unaligned(void)
{
    for (int side = 0; side < 2; side++)
        for (int at = 0; at <= 2 * VL; at++) {
            guarded g = new_reals(3 * VL, (enum guard_side)side);
            real *reals = (real *)g.data, got[VL];
            v_store(got, v_load(reals + at));
            for (int i = 0; i < VL; i++)
                check_bits("v_load", label(at + i), got[i]);
            v_store(reals + at, v_zero());
            for (int i = 0; i < 3 * VL; i++)
                check_bits("v_store", i >= at && i < at + VL ? 0 : label(i), reals[i]);
            check("a store writes nothing else", guarded_intact(&g));
            guarded_free(&g);
        }
}

static void test_nonzero_bytes(void)
{
    static const uint8_t values[] = { 0, 1, 2, 0x7f, 0x80, 0xff, 0, 0 };
    for (int round = 0; round < 400; round++)
        for (int n = 0; n <= WORD_BITS; n++) {
            guarded g = guarded_new((size_t)n, round % 2 ? GUARD_AFTER : GUARD_BEFORE);
            word want = 0;
            for (int i = 0; i < n; i++) {
                g.data[i] = values[random_bits() % sizeof values];
                want |= (word)(g.data[i] != 0) << i;
            }
            check("the first bytes", nonzero_bytes(g.data, n) == want);
            if (n == WORD_BITS)
                check("as many as a word has bits", v_nonzero_bytes(g.data) == want);
            guarded_free(&g);
        }
}

static void test_select_bit(void)
{
    real a[VL], b[VL], got[VL];
    word w[VL];
    for (int round = 0; round < 100; round++)
        for (int bit = 0; bit < WORD_BITS; bit++) {
            for (int i = 0; i < VL; i++) {
                a[i] = label(i);
                b[i] = label(100 + i);
                w[i] = (word)random_bits();
            }
            v_store(got, v_select_bit(w, bit, v_load(a), v_load(b)));
            for (int i = 0; i < VL; i++)
                check_bits("a lane", w[i] >> bit & 1 ? a[i] : b[i], got[i]);
        }
}

/* All 65536 numbers of 16 bits. */
static void test_16_bits(void)
{
    for (unsigned first = 0; first < 65536; first += VL) {
        uint16_t x[VL];
        real f16[VL], bf16[VL];
        for (unsigned i = 0; i < VL; i++)
            x[i] = (uint16_t)(first + i);
        v_store(f16, v_load_f16(x));
        v_store(bf16, v_load_bf16(x));
        for (int i = 0; i < VL; i++) {
            const real want_f16 = attn_float_of_f16(x[i]), want_bf16 = attn_float_of_bf16(x[i]);
            check("an f16", want_f16 == want_f16 ? bits_of(want_f16) == bits_of(f16[i]) : f16[i] != f16[i]);
            check("a bf16", want_bf16 == want_bf16 ? bits_of(want_bf16) == bits_of(bf16[i]) : bf16[i] != bf16[i]);
        }
    }
}

static void test_prefetch(void)
{
    guarded g = guarded_new(1, GUARD_AFTER);
    v_prefetch(NULL);
    v_prefetch(g.data + 1);
    guarded_free(&g);
}

/* ----------------------------------------------------------- across the lanes ---- */

static void test_any(void)
{
    for (unsigned long set = 0; set < 1ul << VL; set++) {
        real x[VL];
        for (int i = 0; i < VL; i++)
            x[i] = (real)(set >> i & 1);
        check("1 if any lane is true, else 0", v_any(v_greater(v_load(x), v_zero())) == (set != 0));
    }
}

static void test_sum(void)
{
    real x[VL];
    for (int round = 0; round < 1000; round++) {
        real want = 0;
        for (int i = 0; i < VL; i++)
            want += x[i] = (real)(int)(random_bits() % 2001) - 1000;
        check_bits("integers", want, v_sum(v_load(x)));
    }
    for (int i = 0; i < VL; i++) {
        real kept = x[i];
        x[i] = real_of(QUIET);
        check("NaN in any lane", isnan(v_sum(v_load(x))));
        x[i] = -INFINITY;
        check_bits("-inf in any lane", -INFINITY, v_sum(v_load(x)));
        x[i] = kept;
    }
}

/* Each sum is that of its vector, and has the bits that the same vector gives in any other place. */
static void test_sums(void)
{
    real x[VL][VL], got[VL], moved[VL];
    for (int round = 0; round < 1000; round++) {
        const int by = round % VL, is_whole = round % 2;
        vf part[2][VL / SUMS_PART];
        for (int i = 0; i < VL * VL; i++)
            x[i / VL][i % VL] = is_whole ? (real)(int)(random_bits() % 2001) - 1000 : uniform(-9, 9);
        for (int i = 0; i < VL; i += SUMS_PART) {
            vf here[SUMS_PART], there[SUMS_PART];
            for (int j = 0; j < SUMS_PART; j++) {
                here[j] = v_load(x[i + j]);
                there[j] = v_load(x[(i + j + by) % VL]);
            }
            part[0][i / SUMS_PART] = v_sums_part(here);
            part[1][i / SUMS_PART] = v_sums_part(there);
        }
        v_store(got, v_sums_whole(part[0]));
        v_store(moved, v_sums_whole(part[1]));
        for (int i = 0; i < VL; i++) {
            real want = 0;
            for (int j = 0; j < VL; j++)
                want += x[i][j];
            if (is_whole)
                check_bits("integers", want, got[i]);
            check_bits("another place", got[(i + by) % VL], moved[i]);
        }
    }
}

static void test_top(void)
{
    real x[VL];
    for (int round = 0; round < 1000; round++) {
        real want = -INFINITY;
        for (int i = 0; i < VL; i++) {
            x[i] = random_bits() % 4 ? uniform(-9, 9) : -INFINITY;
            want = x[i] > want ? x[i] : want;
        }
        check_bits("random lanes", want, v_top(v_load(x)));
        x[round % VL] = INFINITY;
        check_bits("+inf in any lane", INFINITY, v_top(v_load(x)));
    }
}

static void test_transpose(void)
{
    real x[VL][VL];
    vf r[VL];
    for (int i = 0; i < VL; i++) {
        for (int j = 0; j < VL; j++)
            x[i][j] = label(i * VL + j);
        r[i] = v_load(x[i]);
    }
    v_transpose(r);
    for (int i = 0; i < VL; i++)
        v_store(x[i], r[i]);
    for (int i = 0; i < VL; i++)
        for (int j = 0; j < VL; j++)
            check_bits("an element", label(j * VL + i), x[i][j]);
}

/* --------------------------------------------------------- the pieces of exp2 ---- */

static void check_fraction(real x)
{
    real got[VL];
    v_store(got, v_fraction(v_set1(x)));
    for (int i = 0; i < VL; i++) {
        const real want = isinf(x) ? 0 : x - (real)floor((double)x);
        int good = isnan(x) ? isnan(got[i]) : x < -BIAS && !isinf(x) ? got[i] >= 0 && got[i] <= 1 : want == got[i];
        if (!good)
            fail("v_fraction", want, got[i], (real[3]){ x });
    }
}

static void check_scale2(real a, real x)
{
    real got[VL];
    v_store(got, v_scale2(v_set1(a), v_set1(x)));
    for (int i = 0; i < VL; i++) {
        const real want = isnan(a) ? a : isinf(x) ? 0 : (real)ldexp((double)a, (int)floor((double)(x > -2 * BIAS ? x : -2 * BIAS)));
        int good = isnan(a) ? isnan(got[i]) : want == got[i] || (x < -(BIAS - 1) && bits_of(got[i]) == 0);
        if (!good)
            fail("v_scale2", want, got[i], (real[3]){ a, x });
    }
}

static void test_exp2_pieces(void)
{
    const real nan = real_of(QUIET);
    const real far_down[] = { -INFINITY, -MAX, -1e30f, -BIAS - 100, -BIAS - 30, -BIAS - 1.5f, -BIAS, -BIAS + 0.5f, -BIAS + 1 };
    const real others[] = { -MIN, -TINY, TINY, MIN, -0.f, BIAS, nan };
    for (int i = 0; i < 100000; i++) {
        real x = i % 16 < 9 && i < 200 ? far_down[i % 16] : i < 200 ? others[i % 7] : i % 2 ? uniform(-BIAS - 20, BIAS) : uniform(-2, 2);
        if (i % 3 == 0 && !isinf(x))
            x = NEXT((real)floor((double)x), i % 2 ? -INFINITY : x);
        check_fraction(x);
        if (!isnan(x))
            check_scale2(i % 8 == 0 ? 1 : i % 8 == 1 ? 2 : uniform(1, 2), x);
        check_scale2(nan, x);
    }
    check_scale2(nan, INFINITY);
}

#ifdef VEC_HAS_PAIRS
#include "test_vec_pairs.h"
#endif

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
#ifdef VEC_HAS_PAIRS
    { "p_set1, p_load, p_store, p_and", test_pair_moves }, { "p_zip", test_zip }, { "p_round, v_store_bf16", test_rounding },
    { "v_dot", test_dot },
#endif
    { "constants", test_constants }, { "v_load_first", test_load }, { "v_store_first", test_store }, { "v_load, v_store", test_unaligned },
    { "v_nonzero_bytes", test_nonzero_bytes }, { "v_select_bit", test_select_bit }, { "16 bits", test_16_bits },
    { "v_prefetch", test_prefetch }, { "v_any", test_any }, { "v_sum", test_sum },
    { "v_sums_part, v_sums_whole", test_sums },
    { "v_top", test_top }, { "v_transpose", test_transpose }, { "exp2 pieces", test_exp2_pieces },
};

long vec_test(void)
{
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    for (size_t i = 0; i < sizeof lane_operations / sizeof *lane_operations; i++)
        test_lane_operation(&lane_operations[i]);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        operation = tests[i].name;
        shown = 0;
        tests[i].run();
    }
    printf("%s, %d lanes: %zu operations, %ld failed checks\n", VEC_HEADER, VL,
           sizeof lane_operations / sizeof *lane_operations + sizeof tests / sizeof *tests, failures);
    return failures;
}
