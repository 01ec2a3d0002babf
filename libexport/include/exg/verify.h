/* verify.h - the gate: what passed here is not doubted again.
 *
 * Decoding promises that a program can be walked; verification that it means
 * what the format says: names, order, argument types, tensor metadata, signature
 * against graph, weights against metadata, storage bounds. Every rule is a row of
 * libexport/verify/rule.def, which exg_rule_at() lists. All faults are reported in
 * one run.
 *
 * Only exg_verify() makes an exg_verified, and libexec takes nothing else.
 */
#ifndef EXG_VERIFY_H
#define EXG_VERIFY_H

#include <exg/formats.h>
#include <exg/operators.h>
#include <exg/program.h>
#include <exg/weights.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- rules --------------------------------------------------------------------- */

typedef enum exg_severity {
    EXG_SEVERITY_ERROR,   /* closes the gate */
    EXG_SEVERITY_WARNING, /* told: PyTorch refuses it, or it is likely a mistake */
    EXG_SEVERITY_NOTE     /* told for the sake of other readers */
} exg_severity;

const char *exg_severity_name(exg_severity severity); /* "error", "warning", "note" */

/* Who keeps a rule. */
typedef enum exg_keeper {
    EXG_KEEPER_OPENING,   /* exg_open() refuses the file with the rule's code */
    EXG_KEEPER_VERIFYING, /* exg_verify() finds it */
    EXG_KEEPER_DATA,      /* exg_verify_data() reads the weights for it */
    EXG_KEEPER_FILE,      /* exg_verify_file() looks at the file, and at those beside it */
    EXG_KEEPER_WEIGHTS,   /* exg_weights_verify() finds it in a file of weights; what elements are,
                             exg_verify_values() in a program too */
    EXG_KEEPER_NOTHING    /* no file can break it here; `fix` says why */
} exg_keeper;

const char *exg_keeper_name(exg_keeper keeper); /* "opening", ..., "nothing" */

typedef struct exg_rule {
    const char *code; /* "VAL-004"; never changes its meaning */
    exg_severity severity;
    exg_keeper keeper;
    const char *claim; /* what holds in a sound file */
    const char *fix;   /* the way out, or "" */
} exg_rule;

uint32_t exg_rule_count(void);
const exg_rule *exg_rule_at(uint32_t index);     /* NULL past the last */
const exg_rule *exg_rule_find(const char *code); /* NULL: no rule has this code */

/* ---- findings ------------------------------------------------------------------- */

typedef struct exg_diagnostic {
    exg_severity severity;
    const char *code;    /* "VAL-004" */
    const char *message; /* what */
    const char *where;   /* "graph.nodes[3].inputs[1]" */
    const char *fix;     /* or "" */
    /* The user's Python that made the node found fault with, where the file tells
     * (stack_trace): "" and 0 where it does not. */
    const char *source_file; /* "/home/me/model.py" */
    const char *source_text; /* "y = self.up(x)" */
    uint32_t source_line;
} exg_diagnostic;

typedef struct exg_diagnostics {
    exg_diagnostic *items;
    uint32_t count;         /* of the items: past 1000 findings are counted, not listed */
    uint32_t error_count;   /* found */
    uint32_t warning_count; /* found */
    uint32_t note_count;    /* found */
    exg_arena *arena;       /* owns the texts */
} exg_diagnostics;

void exg_diagnostics_free(exg_diagnostics *diagnostics); /* NULL, all zeros are allowed */

/* ---- the gate ------------------------------------------------------------------- */

/* A program that passed, with the operators it was checked against. Borrows both:
 * they must stay, unchanged, as long as it is used. */
typedef struct exg_verified {
    const exg_program *program;
    const exg_operators *operators;
} exg_verified;

/* Checks every rule. On OK *verified may be used; MALFORMED when any rule of
 * severity error is broken: err holds the first, `diagnostics` (may be NULL) all,
 * warnings and notes too; the caller frees it in either case. Without a list,
 * rules that only warn and take time are left out. NO_MEMORY. */
EXG_NODISCARD exg_status exg_verify(const exg_program *program, const exg_operators *operators,
                                    exg_verified *verified, exg_diagnostics *diagnostics,
                                    exg_error *err);

/* Reads every storage: compares checksums (exg_weights_check(), with its `options`; may
 * be NULL), looks at the bytes of bools. Adds to `diagnostics`, which exg_verify() made.
 * MALFORMED when a checksum differs: err holds the first. IO, NO_MEMORY. */
EXG_NODISCARD exg_status exg_verify_data(const exg_program *program, exg_diagnostics *diagnostics,
                                         const exg_check_options *options, exg_error *err);

/* Reads all elements of floating-point weights: finds NaN and infinities, tensors of zeros alone,
 * denormal numbers (WGT-020 to WGT-022, which are no errors). Adds to `diagnostics`, which
 * exg_verify() made. `threads` 0: every core. MALFORMED, IO of bytes that cannot be read;
 * NO_MEMORY. */
EXG_NODISCARD exg_status exg_verify_values(const exg_program *program, exg_diagnostics *diagnostics,
                                           uint32_t threads, exg_error *err);

/* What exg_open() found of the file `path` ("-": one that has no name) that other readers would
 * mind, and whether the files of weights beside it are there, and long enough; reads none. Adds to
 * `diagnostics`, which exg_verify() made. MALFORMED (WGT-015) when one is not: err holds the first.
 * NO_MEMORY. */
EXG_NODISCARD exg_status exg_verify_file(const exg_program *program, const char *path,
                                         const exg_file_info *info, exg_diagnostics *diagnostics,
                                         exg_error *err);

/* ---- weights alone --------------------------------------------------------------- */

typedef struct exg_weights_verify_options {
    size_t size;         /* sizeof(exg_weights_verify_options) */
    exg_weights *needed; /* of the program that these weights are for, or NULL */
    const char *digest;  /* that they should have, "sha256:..." or "xxh3-128:...", or NULL */
    bool values;         /* read all elements: NaN, infinities, zeros, denormal numbers */
    uint32_t threads;    /* 0: every core */
} exg_weights_verify_options;

/* What of the rules kept by weights (exg_rule_at()) is broken in weights that exg_weights_open()
 * gave, whose format was checked by that. `options` may be NULL. MALFORMED when one of severity
 * error is: err holds the first, `diagnostics` all, which the caller frees in either case. USAGE (a
 * digest that is none), IO, NO_MEMORY. */
EXG_NODISCARD exg_status exg_weights_verify(exg_weights *weights,
                                            const exg_weights_verify_options *options,
                                            exg_diagnostics *diagnostics, exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
