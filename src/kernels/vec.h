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
   v_max(a, b) v_min(a, b)        the greater / the lesser; b if they are equal (+0 and -0 are) or either is NaN
   v_abs(a)                       without the sign, NaN included
   v_greater(a, b) v_equal(a, b)  vb; false for NaN
   v_and_b(a, b) v_or_b(a, b)     vb, of vb
   v_any(c)                       1 if any lane is true, else 0
   v_select(c, a, b)              a where c, else b
   v_select_bytes(p, n, a, b)     lane i: a where byte p[i] != 0, else b; lanes from n on: b; any n; no memory past n bytes is touched
   The two pieces of exp2, for x <= 127 (double: 1023) or NaN; above that they give any value:
   v_fraction(x)                  x - floor(x), in [0,1], a zero of either sign; from -127 (-1023) down any value in [0,1]; NaN for NaN
   v_scale2(a, x)                 a * 2^floor(x), a in [1,2]; below -126 (-1022) the denormal or 0, and 0 at -inf; any value for NaN.
                                  NaN if a is NaN, whatever x
   v_sum(a) v_top(a)              sum, in an order of the level's own / maximum of the lanes, unspecified if one is NaN
   v_transpose(r)                 r[i] lane j <-> r[j] lane i, VL vectors
   v_prefetch(p)                  hint: bring the line of p into L2; p may point anywhere

   And the shapes of the register tiles, chosen by the number of registers:
   QUERY_VECS                     vectors in the widest block of queries
   TILE_REGS                      accumulators of one register tile of attention
   GEMM_VECS, GEMM_REGS           the same two of the linear layer; GEMM_VECS * VL is the width of a packed panel */
#ifndef ATTN_VEC_H
#define ATTN_VEC_H

#ifdef ATTN_REAL_IS_DOUBLE
typedef double real;
#else
typedef float real;
#endif

#define OP static inline __attribute__((always_inline, unused))
#define INLINE static inline __attribute__((always_inline, unused))
#define KERNEL static __attribute__((noinline, unused))

/* Before a `for` whose bounds are constants: no loop is left, so an array that it indexes can live in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

#endif
