/* isa.h - which compiled copy of a loop this machine runs.
 *
 * Everything in loops/ is compiled once per instruction set, its names ending in
 * _generic, _v3 (AVX2, FMA, F16C) or _v4 (AVX-512). A family exports one table
 * of functions; EXG_LOOPS(family) is the best table for this machine. Products of bytes have
 * a table _vnni (AVX512-VNNI) and one _amx besides, products of bf16 as they are only _bf16, for
 * processors whose AVX512-BF16 outruns their f32 (AMD's, from Zen 4 on), and _amx; those of bf16
 * by half bytes only _bf16, which is AMX's too; all else takes _v4 there.
 *
 * A process that uses AMX needs leave of the Linux kernel, which the first question for the
 * machine's best asks for once; from then on signal stacks of less than AT_MINSIGSTKSZ are
 * refused. Without leave nothing of AMX runs.
 */
#ifndef EXG_LIBEXEC_KERNELS_ISA_H
#define EXG_LIBEXEC_KERNELS_ISA_H

#include <stdbool.h>

typedef enum exg_isa {
    EXG_ISA_GENERIC,
    EXG_ISA_V3,
    EXG_ISA_V4,
    EXG_ISA_VNNI,
    EXG_ISA_BF16,
    EXG_ISA_AMX,
    EXG_ISA_COUNT
} exg_isa;

/* Whether the processor, and this build, have it. */
bool exg_isa_has(exg_isa isa);
/* What is in force: the best there is, unless another was decided on before somebody asked. From
 * then on it stays, so that whatever is prepared at any time meets. */
exg_isa exg_isa_current(void);
/* Decides on it, if nobody has asked yet; gives what is in force. */
exg_isa exg_isa_decide(exg_isa isa);
const char *exg_isa_name(exg_isa isa);

/* For tests: `isa`, or the best below it, from now on, in calls prepared later. */
void exg_isa_limit(exg_isa isa);
/* For tests: `isa` runs here, whatever the processor says, and nobody has asked yet. */
void exg_isa_assume(exg_isa isa);

/* Inside loops/: the name of this copy. */
#define EXG_ISA_JOIN2(name, isa) name##_##isa
#define EXG_ISA_JOIN(name, isa)  EXG_ISA_JOIN2(name, isa)
#define EXG_ISA_NAME(name)       EXG_ISA_JOIN(name, EXG_ISA)

/* In headers: the tables of a family. */
#define EXG_LOOPS_DECLARE(type, name) extern const type name##_generic, name##_v3, name##_v4
#define EXG_LOOPS_DECLARE_BYTES(type, name)                                                        \
    EXG_LOOPS_DECLARE(type, name);                                                                 \
    extern const type name##_vnni, name##_amx
#define EXG_LOOPS_DECLARE_BF16(type, name) extern const type name##_bf16
#define EXG_LOOPS_DECLARE_PAIRS(type, name)                                                        \
    EXG_LOOPS_DECLARE_BF16(type, name);                                                            \
    extern const type name##_amx

/* EXG_LOOPS_BF16, EXG_LOOPS_PAIRS: NULL where there is none. A build without those of v4 has none
 * of what is on them either (EXG_LOOPS_FOR_HERE in CMakeLists.txt). */
#if defined(EXG_HAVE_V4_LOOPS)
#define EXG_LOOPS(name)                                                                            \
    (exg_isa_current() >= EXG_ISA_V4   ? &name##_v4                                                \
     : exg_isa_current() == EXG_ISA_V3 ? &name##_v3                                                \
                                       : &name##_generic)
#define EXG_LOOPS_BYTES(name)                                                                      \
    (exg_isa_current() >= EXG_ISA_AMX    ? &name##_amx                                             \
     : exg_isa_current() >= EXG_ISA_VNNI ? &name##_vnni                                            \
                                         : EXG_LOOPS(name))
#define EXG_LOOPS_BF16(name) (exg_isa_current() >= EXG_ISA_BF16 ? &name##_bf16 : NULL)
#define EXG_LOOPS_PAIRS(name)                                                                      \
    (exg_isa_current() >= EXG_ISA_AMX ? &name##_amx : EXG_LOOPS_BF16(name))
#else
#if defined(EXG_HAVE_X86_64_LOOPS)
#define EXG_LOOPS(name) (exg_isa_current() == EXG_ISA_V3 ? &name##_v3 : &name##_generic)
#else
#define EXG_LOOPS(name) (&name##_generic)
#endif
#define EXG_LOOPS_BF16(name)  NULL
#define EXG_LOOPS_PAIRS(name) NULL
#define EXG_LOOPS_BYTES(name) EXG_LOOPS(name)
#endif

#endif
