/* SPDX-License-Identifier: Apache-2.0 */
/* The part of test_vec.c for operations on pairs of bf16. */
#ifndef ATTN_TEST_VEC_PAIRS_H
#define ATTN_TEST_VEC_PAIRS_H

static uint16_t any_bf16(void)
{
    const uint32_t r = (uint32_t)(random_bits() >> 32);
    return (uint16_t)(r % 4 == 0 ? r >> 16 : r % 4 == 1 ? bits_of(edge(r >> 8 & 31)) >> 16 : bits_of(uniform(-4, 4)) >> 16);
}
static uint16_t bf16_near_1(void) { return (uint16_t)(bits_of(uniform(-4, 4)) >> 16); }

static void fill_pairs(uint16_t pairs[2 * VL], uint16_t (*number)(void))
{
    for (int i = 0; i < 2 * VL; i++)
        pairs[i] = number();
}

/* The pairs of memory as a vector, by way of reals, as kernels hold them. */
static vp pairs_at(const uint16_t pairs[2 * VL])
{
    real held[VL];
    memcpy(held, pairs, sizeof held);
    return p_load(held);
}
static void pairs_of(uint16_t pairs[2 * VL], vp a)
{
    real held[VL];
    p_store(held, a);
    memcpy(pairs, held, sizeof held);
}

static void test_pair_moves(void)
{
    uint16_t pairs[2 * VL], got[2 * VL];
    for (int round = 0; round < 1000; round++) {
        const word mask = (word)random_bits();
        fill_pairs(pairs, any_bf16);
        pairs_of(got, pairs_at(pairs));
        check("p_load, p_store", memcmp(got, pairs, sizeof got) == 0);
        pairs_of(got, p_set1(pairs + round % (2 * VL - 1)));
        for (int i = 0; i < 2 * VL; i++)
            check("p_set1", got[i] == pairs[round % (2 * VL - 1) + i % 2]);
        pairs_of(got, p_and(pairs_at(pairs), mask));
        for (int i = 0; i < 2 * VL; i++)
            check("p_and", got[i] == (uint16_t)(pairs[i] & (i % 2 ? mask >> 16 : mask)));
    }
}

static void test_zip(void)
{
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < COUNTS; i++) {
            const int n = count(i), m = touched(n);
            uint16_t got[2 * VL];
            guarded low = guarded_new((size_t)m * 2, (enum guard_side)side), high = guarded_new((size_t)m * 2, (enum guard_side)side);
            for (int j = 0; j < m; j++) {
                ((uint16_t *)(void *)low.data)[j] = any_bf16();
                ((uint16_t *)(void *)high.data)[j] = any_bf16();
            }
            pairs_of(got, p_zip((const uint16_t *)(const void *)low.data, (const uint16_t *)(const void *)high.data, n));
            for (int j = 0; j < VL; j++) {
                check("the low half", got[2 * j] == (j < m ? ((uint16_t *)(void *)low.data)[j] : 0));
                check("the high half", got[2 * j + 1] == (j < m ? ((uint16_t *)(void *)high.data)[j] : 0));
            }
            guarded_free(&low);
            guarded_free(&high);
        }
}

static int is_right_bf16(uint16_t got, real x, int may_flush)
{
    const uint16_t want = attn_bf16_of_float(x);
    if (isnan(x))
        return isnan(attn_float_of_bf16(got));
    return got == want || (may_flush && (bits_of(x) & ~SIGN) < bits_of(MIN) && (got & 0x7fff) == 0);
}

static void test_rounding(void)
{
    for (int round = 0; round < 20000; round++) {
        real low[VL], high[VL];
        uint16_t got[2 * VL], stored[VL];
        for (int i = 0; i < VL; i++) {
            low[i] = round % 2 ? real_of((bits)random_bits()) : round % 4 ? edge((long)(random_bits() % EDGES)) : uniform(0, 150);
            high[i] = round % 3 ? real_of((bits)random_bits() & 0xffff8000) : uniform(0, 1);
        }
        pairs_of(got, p_round(v_load(low), v_load(high)));
        for (int i = 0; i < VL; i++) {
            check("the low half", is_right_bf16(got[2 * i], low[i], 1));
            check("the high half", is_right_bf16(got[2 * i + 1], high[i], 1));
            low[i] = isnan(low[i]) ? (real)NAN : low[i];
        }
        v_store_bf16(stored, v_load(low));
        for (int i = 0; i < VL; i++)
            check("v_store_bf16", is_right_bf16(stored[i], low[i], 0));
    }
}

/* A dot product against its exact value: three steps within 2u each, and denormals lost of operands and results. */
static int is_right_dot(real got, const uint16_t a[2], const uint16_t b[2], real c)
{
    double sum = (double)c, size = fabs((double)c), lost = 4 * (double)MIN;
    for (int i = 0; i < 2; i++) {
        const double x = (double)attn_float_of_bf16(a[i]), y = (double)attn_float_of_bf16(b[i]);
        sum += x * y;
        size += fabs(x * y);
        lost += (double)MIN * ((fabs(x) < (double)MIN ? fabs(y) : 0) + (fabs(y) < (double)MIN ? fabs(x) : 0));
    }
    if (!isfinite(size)) /* which of them it is, is the level's choice: a NaN or infinity among the operands never leaves a number */
        return !isfinite(got);
    return size > 0.99 * (double)MAX || fabs((double)got - sum) <= 6.1 * 0x1p-24 * size + lost;
}

static void test_dot(void)
{
    uint16_t a[2 * VL], b[2 * VL], halves[2 * VL];
    real c[VL], got[VL], swapped[VL], only[VL], none[VL];
    for (int round = 0; round < 100000; round++) {
        fill_pairs(a, round % 2 ? bf16_near_1 : any_bf16);
        fill_pairs(b, round % 2 ? bf16_near_1 : any_bf16);
        for (int i = 0; i < VL; i++) {
            c[i] = round % 2 ? uniform(-40, 40) : edge((long)(random_bits() % EDGES));
            c[i] = fabs((double)c[i]) < (double)MIN ? 0 : c[i];
        }
        v_store(got, v_dot(pairs_at(a), pairs_at(b), v_load(c)));
        v_store(swapped, v_dot(pairs_at(b), pairs_at(a), v_load(c)));
        for (int i = 0; i < VL; i++) {
            if (!is_right_dot(got[i], a + 2 * i, b + 2 * i, c[i]))
                fail("a lane", 0, got[i], (real[3]){ attn_float_of_bf16(a[2 * i]), attn_float_of_bf16(b[2 * i]), c[i] });
            check("either factor first", bits_of(got[i]) == bits_of(swapped[i]) || isnan(got[i]));
        }
        if (round % 2 == 0)
            continue;
        /* The half whose factor is 0 adds nothing, whatever finite number is the other factor; both: c is left. */
        for (int i = 0; i < 2 * VL; i++)
            halves[i] = i % 2 == (int)(round / 2 % 2) ? a[i] : 0;
        v_store(got, v_dot(pairs_at(halves), pairs_at(b), v_load(c)));
        v_store(only, v_dot(pairs_at(halves), p_and(pairs_at(b), round / 2 % 2 ? 0xffff0000 : 0xffff), v_load(c)));
        v_store(none, v_dot(p_and(pairs_at(a), 0), pairs_at(b), v_load(c)));
        for (int i = 0; i < VL; i++) {
            check("a product with 0", got[i] == only[i]);
            check("two products with 0", none[i] == c[i]);
        }
    }
}
#endif
