/* SPDX-License-Identifier: Apache-2.0 */
/* Which ISA levels this CPU and its operating system can run.
 *   scalar  plain C, on every machine
 *   avx2    AVX2, FMA and F16C, and the OS saves the YMM registers
 *   avx512  avx2, AVX-512 F, BW, DQ and VL, and the OS saves the ZMM and mask registers
 *   avx512_bf16  avx512 and AVX512_BF16
 *   neon    every AArch64
 *   neon_bf16    neon and BF16
 * Nothing is kept between calls: a question costs a few CPUID instructions and is asked when a context is created. */
#ifndef ATTN_CPU_H
#define ATTN_CPU_H

/* Worst first within an architecture. */
enum attn_isa_level {
    ATTN_LEVEL_SCALAR,
    ATTN_LEVEL_AVX2,
    ATTN_LEVEL_AVX512,
    ATTN_LEVEL_AVX512_BF16,
    ATTN_LEVEL_NEON,
    ATTN_LEVEL_NEON_BF16,
    ATTN_LEVELS
};

/* The names above; NULL for any other value. */
const char *attn_cpu_level_name(enum attn_isa_level level);

/* 1 if this architecture has the level at all, so that its kernels are built; else 0. */
int attn_cpu_level_built(enum attn_isa_level level);

/* 1 if code of the level can run here; else 0. */
int attn_cpu_level_usable(enum attn_isa_level level);

/* The same by name; 0 for NULL and for a name that is none of a level. */
int attn_cpu_usable(const char *name);

enum { ATTN_CPU_NAME_SIZE = 49 };
/* Writes the CPU's own name, such as "AMD EPYC 9B14", or the architecture's where the CPU does not tell. */
void attn_cpu_name(char name[ATTN_CPU_NAME_SIZE]);

#endif
