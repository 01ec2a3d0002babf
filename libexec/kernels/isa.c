/* isa.c - asks the processor, and the system. */
#include "libexec/kernels/isa.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#if defined(EXG_HAVE_V4_LOOPS) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* What is in force, from the first time that somebody asks; EXG_ISA_COUNT: nobody did yet. */
static _Atomic int in_force = EXG_ISA_COUNT;
static _Atomic int assumed = EXG_ISA_GENERIC; /* as good as had, by tests */

#if defined(EXG_HAVE_V4_LOOPS) && defined(__linux__)
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA  18
#define TILE_STATES         (UINT64_C(3) << 17)              /* XTILECFG, XTILEDATA in XCR0 */
#define AMX_FEATURES        (1U << 22 | 1U << 24 | 1U << 25) /* bf16, tile, int8 in leaf 7's edx */

static uint64_t states_kept(void)
{
    uint32_t low;
    uint32_t high;

    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool may_use_tiles(void)
{
    uint32_t a;
    uint32_t b;
    uint32_t c;
    uint32_t d;

    return __builtin_cpu_supports("avx512bf16") && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (d & AMX_FEATURES) == AMX_FEATURES && (states_kept() & TILE_STATES) == TILE_STATES &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

/* Asked once; two threads that ask at the same time hear the same. */
static bool has_tiles(void)
{
    static _Atomic int known; /* 0: not yet, else 1 + the answer */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);

    if (answer == 0) {
        answer = 1 + may_use_tiles();
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}
#elif defined(EXG_HAVE_V4_LOOPS)
static bool has_tiles(void)
{
    return false;
}
#endif

#ifdef EXG_HAVE_X86_64_LOOPS
static bool has_v3(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("popcnt");
}
#endif
#ifdef EXG_HAVE_V4_LOOPS
static bool has_v4(void)
{
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#endif

bool exg_isa_has(exg_isa isa)
{
    if ((int)isa <= atomic_load_explicit(&assumed, memory_order_relaxed)) {
        return true;
    }
    switch (isa) {
    case EXG_ISA_GENERIC:
        return true;
#ifdef EXG_HAVE_X86_64_LOOPS
    case EXG_ISA_V3:
        return has_v3();
#endif
#ifdef EXG_HAVE_V4_LOOPS
    case EXG_ISA_V4:
        return has_v4();
    case EXG_ISA_VNNI:
        return has_v4() && __builtin_cpu_supports("avx512vnni");
    case EXG_ISA_BF16:
        return has_v4() && __builtin_cpu_supports("avx512vnni") &&
               __builtin_cpu_supports("avx512bf16");
    case EXG_ISA_AMX:
        return has_v4() && __builtin_cpu_supports("avx512vnni") && has_tiles();
#endif
    default:
        return false;
    }
}

/* Whether it gains over those before it: AVX512-BF16 alone does on AMD's. */
static bool gains(exg_isa isa)
{
#ifdef EXG_HAVE_V4_LOOPS
    return isa != EXG_ISA_BF16 || __builtin_cpu_is("amd");
#else
    (void)isa;
    return true;
#endif
}

/* The best of those up to `most`, or that one itself. */
static exg_isa best_of(exg_isa most)
{
    int isa = (int)most;

    while (!exg_isa_has((exg_isa)isa) || (isa != (int)most && !gains((exg_isa)isa))) {
        isa--;
    }
    return (exg_isa)isa;
}

exg_isa exg_isa_current(void)
{
    int isa = atomic_load_explicit(&in_force, memory_order_relaxed);

    return isa == EXG_ISA_COUNT ? exg_isa_decide(best_of(EXG_ISA_AMX)) : (exg_isa)isa;
}

exg_isa exg_isa_decide(exg_isa isa)
{
    int was = EXG_ISA_COUNT;

    return atomic_compare_exchange_strong(&in_force, &was, (int)isa) ? isa : (exg_isa)was;
}

const char *exg_isa_name(exg_isa isa)
{
    static const char *const names[] = {"generic", "v3", "v4", "vnni", "bf16", "amx"};

    return names[isa];
}

void exg_isa_limit(exg_isa isa)
{
    atomic_store_explicit(&in_force, (int)best_of(isa), memory_order_relaxed);
}

void exg_isa_assume(exg_isa isa)
{
    atomic_store_explicit(&assumed, (int)isa, memory_order_relaxed);
    atomic_store_explicit(&in_force, EXG_ISA_COUNT, memory_order_relaxed);
}
