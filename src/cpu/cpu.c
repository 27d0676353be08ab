/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu.h"

#include <string.h>

static const char *const level_names[ATTN_LEVELS] = { "scalar", "avx2", "avx512", "avx512_bf16", "neon", "neon_bf16" };

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdint.h>

/* The register sets that the operating system saves when it switches threads (XCR0); 0 if it does not say.
   CPUID alone tells what the CPU has: with the state not saved, the instructions fault or lose their registers. */
static uint64_t saved_registers(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static int has_avx2(void)
{
    const uint64_t xmm_ymm = 0x6;
    const unsigned leaf1 = bit_AVX | bit_FMA | bit_F16C;
    unsigned a, b, c, d;
    return (saved_registers() & xmm_ymm) == xmm_ymm
        && __get_cpuid(1, &a, &b, &c, &d) && (c & leaf1) == leaf1
        && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}

static int has_avx512(void)
{
    const uint64_t mask_zmm = 0xe0;
    const unsigned leaf7 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    unsigned a, b, c, d;
    return has_avx2() && (saved_registers() & mask_zmm) == mask_zmm
        && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & leaf7) == leaf7;
}

static int has_avx512_bf16(void)
{
    const unsigned bf16 = 1u << 5; /* of leaf 7.1 */
    unsigned a, b, c, d;
    return has_avx512() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & bf16);
}

int attn_cpu_level_built(enum attn_isa_level level)
{
    return (unsigned)level <= ATTN_LEVEL_AVX512_BF16;
}

int attn_cpu_level_usable(enum attn_isa_level level)
{
    switch (level) {
    case ATTN_LEVEL_SCALAR: return 1;
    case ATTN_LEVEL_AVX2: return has_avx2();
    case ATTN_LEVEL_AVX512: return has_avx512();
    case ATTN_LEVEL_AVX512_BF16: return has_avx512_bf16();
    default: return 0;
    }
}

void attn_cpu_name(char name[ATTN_CPU_NAME_SIZE])
{
    unsigned r[12] = { 0 };
    strcpy(name, "x86-64");
    if (!__get_cpuid(0x80000004u, &r[0], &r[1], &r[2], &r[3]))
        return;
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    memcpy(name, r, sizeof r);
    name[sizeof r] = '\0';
    for (size_t n = strlen(name); n > 0 && name[n - 1] == ' '; n--)
        name[n - 1] = '\0';
}

#else

#if defined(__aarch64__)
#include <sys/auxv.h>
#define HAS_NEON 1
#define ARCHITECTURE "AArch64"
static int has_neon_bf16(void)
{
    const unsigned long bf16 = 1ul << 14; /* HWCAP2_BF16 */
    return (getauxval(AT_HWCAP2) & bf16) != 0;
}
#else
#define HAS_NEON 0
#define ARCHITECTURE "unknown"
static int has_neon_bf16(void) { return 0; }
#endif

int attn_cpu_level_built(enum attn_isa_level level)
{
    return level == ATTN_LEVEL_SCALAR || ((level == ATTN_LEVEL_NEON || level == ATTN_LEVEL_NEON_BF16) && HAS_NEON);
}

int attn_cpu_level_usable(enum attn_isa_level level)
{
    return attn_cpu_level_built(level) && (level != ATTN_LEVEL_NEON_BF16 || has_neon_bf16());
}

void attn_cpu_name(char name[ATTN_CPU_NAME_SIZE])
{
    strcpy(name, ARCHITECTURE);
}

#endif

const char *attn_cpu_level_name(enum attn_isa_level level)
{
    return (unsigned)level < ATTN_LEVELS ? level_names[level] : NULL;
}

int attn_cpu_usable(const char *name)
{
    for (int level = 0; name && level < ATTN_LEVELS; level++)
        if (!strcmp(name, level_names[level]))
            return attn_cpu_level_usable((enum attn_isa_level)level);
    return 0;
}
