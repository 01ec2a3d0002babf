/* isa.c - asks the processor. */
#include "libexec/kernels/isa.h"

#include <stdatomic.h>

static _Atomic int limit = EXG_ISA_COUNT - 1;

static exg_isa best(void)
{
#ifdef EXG_HAVE_X86_64_LOOPS
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2") ||
        !__builtin_cpu_supports("popcnt")) {
        return EXG_ISA_GENERIC;
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        if (!__builtin_cpu_supports("avx512vnni")) {
            return EXG_ISA_V4;
        }
        return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_is("amd") ? EXG_ISA_BF16
                                                                               : EXG_ISA_VNNI;
    }
    return EXG_ISA_V3;
#else
    return EXG_ISA_GENERIC;
#endif
}

exg_isa exg_isa_current(void)
{
    exg_isa isa = best();
    int most = atomic_load_explicit(&limit, memory_order_relaxed);

    return (int)isa <= most ? isa : (exg_isa)most;
}

const char *exg_isa_name(exg_isa isa)
{
    static const char *const names[] = {"generic", "v3", "v4", "vnni", "bf16"};

    return names[isa];
}

void exg_isa_limit(exg_isa isa)
{
    atomic_store_explicit(&limit, (int)isa, memory_order_relaxed);
}
