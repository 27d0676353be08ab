/* SPDX-License-Identifier: Apache-2.0 */
/* The vector operations that every vec_<isa>.h provides for float and every vec_<isa>_f64.h for double; `real` is that type.
   One kernel body over them serves every ISA level and both types. Only these headers hold intrinsics; everything in them is static.
   VL lanes; vf = VL reals; vb = VL truth values. tests/kernels/test_vec.c tests each operation alone, on each level.

   v_zero() v_set1(x)             all lanes +0 / x
   v_lane_numbers()               0, 1, 2, ...
   v_load(p) v_store(p, a)        VL reals, aligned as a real is
   v_load_first(p, n)             the first n reals, the other lanes +0     } any n, also <= 0 and > VL; no memory past them
   v_store_first(p, a, n)         the first n lanes                         } is touched, so p may be anything when n <= 0
   v_load_f16(p) v_load_bf16(p)   VL numbers of 16 bits as reals, exactly; NaN for NaN. p is aligned as uint16_t is
   v_add v_sub v_mul v_div        lane by lane, one rounding
   v_fma(a, b, c)                 a*b + c in one rounding (scalar: two, see vec_scalar.h)
   v_add_product(sum, a, b)       *sum = v_fma(a, b, *sum), in the register that holds *sum
   v_max(a, b) v_min(a, b)        the greater / the lesser; b if they are equal (+0 and -0 are) or either is NaN
   v_abs(a)                       without the sign, NaN included
   v_greater(a, b) v_equal(a, b)  vb; false for NaN
   v_or_b(a, b)                   vb, of vb
   v_any(c)                       1 if any lane is true, else 0
   v_select(c, a, b)              a where c, else b
   v_nonzero_bytes(p)             the word whose bit i says that byte p[i] is not 0, for as many bytes as a word has bits
   v_select_bit(w, i, a, b)       lane l: a where bit i of the word w[l] is 1, else b
   The two pieces of exp2, for x <= 127 (double: 1023) or NaN; above that they give any value:
   v_fraction(x)                  x - floor(x), in [0,1], a zero of either sign; from -127 (-1023) down any value in [0,1]; NaN for NaN
   v_scale2(a, x)                 a * 2^floor(x), a in [1,2]; below -126 (-1022) the denormal or 0, and 0 at -inf; any value for NaN.
                                  NaN if a is NaN, whatever x
   v_sum(a) v_top(a)              sum, in an order of the level's own / maximum of the lanes, unspecified if one is NaN
   v_sums_part(r) v_sums_whole(p) VL vectors r[i] -> lane i: the sum of the lanes of r[i], all in the same order, the level's own, in two
                                  steps: SUMS_PART of them at a time become one, and the VL / SUMS_PART of those become the sums
   v_transpose(r)                 r[i] lane j <-> r[j] lane i, VL vectors
   v_prefetch(p)                  hint: bring the line of p into L2; p may point anywhere

   Where the CPU has a dot product of bf16 (VEC_HAS_PAIRS), also on vp = VL words of two bf16, the first in the low half. A vp lies in
   memory where VL reals would:
   p_set1(p)                      the two bf16 at p in all lanes; p is aligned as uint16_t is
   p_load(p) p_store(p, a)        as v_load and v_store
   p_and(a, mask)                 the bits of every word that are 1 in the mask
   p_round(low, high)             lane by lane low and high, to nearest, ties to even; a denormal may become 0; NaN for NaN
   p_zip(low, high, n)            the first n bf16 of two rows side by side, the other lanes 0; any n, no memory past them is touched
   v_dot(a, b, c)                 c + a.low*b.low + a.high*b.high; v_dot(b, a, c) has the same bits. The level says in which order and
                                  how often it rounds: each step within 2 units roundoff, and it may take denormals, also of results,
                                  for 0. A product with a zero adds exactly nothing; NaN if a product or sum is
   v_store_bf16(p, a)             VL reals to the nearest bf16, ties to even, denormals too; of the NaNs only the one of C
   And the shapes of the register tiles, chosen by the number of registers:
   QUERY_VECS                     vectors in the widest block of queries
   TILE_REGS                      accumulators of one register tile of attention
   TILE_STEP                      terms in a turn of its loop
   FEW_SCORE_ROWS                 rows of a block up to which scores have keys as lanes, where that was measured to be faster
   NARROW_SCORE_ROWS              the same where K has 16 bits: it need not be widened before
   FREE_PASS, FREE_REGS           rows that a tile of scores in free order (body_free.h) does at a time, a multiple of SUMS_PART that
                                  divides VL, and its accumulators: 12 of 16 registers leave room for a key and its row
   GEMM_VECS, GEMM_REGS           the same two of the linear layer; GEMM_VECS * VL is the width of a packed panel
   GEMM_UNROLL                    before the loop over the terms of a step: UNROLL where that was measured to be faster, else nothing */
#ifndef ATTN_VEC_H
#define ATTN_VEC_H
#include <stdint.h>
#include <string.h>

#ifdef ATTN_REAL_IS_DOUBLE
typedef double real;
typedef uint64_t word; /* as wide as a real */
#else
typedef float real;
typedef uint32_t word;
#endif
enum { WORD_BITS = 8 * sizeof(word) };

#define OP static inline __attribute__((always_inline, unused))
#define INLINE static inline __attribute__((always_inline, unused))
#define KERNEL static __attribute__((noinline, unused))

/* Before a `for` whose bounds are constants: no loop is left, so an array that it indexes can live in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* The first n bits of v_nonzero_bytes, n <= WORD_BITS; no byte from p[n] on is touched. Eight bytes at a time: the top bit of each byte
   that is not 0, gathered by one product. */
INLINE word nonzero_bytes(const uint8_t *p, int n)
{
    word bits = 0;
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t x;
        memcpy(&x, p + i, sizeof x);
        const uint64_t low = 0x7f7f7f7f7f7f7f7f, top = (((x & low) + low) | x) & ~low;
        bits |= (word)((top >> 7) * 0x0102040810204080 >> 56) << i;
    }
    for (; i < n; i++)
        bits |= (word)(p[i] != 0) << i;
    return bits;
}

#endif
