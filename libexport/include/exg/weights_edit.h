/* weights_edit.h - other weights made of weights: fewer, under other names, in other dtypes.
 *
 * What is made is read from the weights it is made of, block by block, when it is read itself:
 * nothing is copied before. All patterns are of the names in the weights that are given, as
 * exg inspect shows them. Threads: as weights.h.
 */
#ifndef EXG_WEIGHTS_EDIT_H
#define EXG_WEIGHTS_EDIT_H

#include <exg/status.h>
#include <exg/weights.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_weights_edit_options {
    size_t size; /* sizeof(exg_weights_edit_options) */

    /* Which tensors: those that a pattern of `select` fits (none is given: all), without those
     * that one of `exclude` fits. Patterns of fnmatch(): *, ?, [...]; * passes dots. */
    const char *const *select;
    uint32_t select_count;
    const char *const *exclude;
    uint32_t exclude_count;

    /* Of a training checkpoint the model alone: without what lies below the names that
     * checkpoints give to the state of optimizers, schedulers and the like; and where all that is
     * left, but for single numbers, lies below one name that they give to the model ("state_dict",
     * "model", ...), without it and them. Where more lies beside it kept() is told of one. */
    bool model_only;

    /* Tensors of one kind of model as those of another: the text of a preset (docs/weights.md), of
     * names without the prefixes below, before the expressions below; it may also turn tensors,
     * take them apart and put them together. NULL: none. Of a name that no rule fits kept() is
     * told. `numbers`: what it needs to know ({"heads", "32"}), before what the metadata say. */
    const char *preset;
    exg_string_map numbers;

    /* What they are called: a prefix that fits is taken away, the first that does; then each
     * POSIX extended regular expression (key) is replaced by its value wherever it fits, one
     * after the other. \0 to \9 in the value are what the expression and its groups fitted. */
    const char *const *prefixes;
    uint32_t prefix_count;
    exg_string_map renames;

    /* The last two dimensions swapped: patterns as in `select`. */
    const char *const *transposes;
    uint32_t transpose_count;

    /* What their elements are: key is a pattern as in `select`, value a floating-point dtype
     * ("bf16", "float8_e4m3fn") or blocks of GGUF ("q8_0"). The last that fits counts. Key NULL is
     * every floating-point tensor; a pattern also makes integers and bool floating. Rounding: to
     * the nearest, and between two to the even one; what passes the largest becomes infinite, and
     * of float8_e4m3fn, which has no infinity, the largest (448); from float64 by way of float32;
     * NaN stays NaN. All of it is what PyTorch's Tensor.to() does. Blocks of GGUF are decoded to
     * float32 first, as gguf-py does it (and llama.cpp Q8_K and Q1_0), F4 and F6 too;
     * of others UNSUPPORTED (WGT-DTYPE).
     * Blocks are made as gguf-py and llama.cpp make them, to the bit: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0,
     * Q4_K, Q5_K, Q6_K. Tensors of fewer than two dimensions, and those whose rows are no whole
     * number of blocks, keep their dtype: kept() is told. The one that a pattern names exactly is
     * refused then (UNSUPPORTED WGT-BLOCK). So are, when they are read, NaN, infinities and what is
     * too large for the scale of a block. */
    exg_string_map dtypes;

    /* A tensor stays as it is in a way that was not asked for; may be NULL. */
    void (*kept)(void *user, const char *name, const char *why);
    void *user;

    /* Pairs of the metadata: set, or with "" removed. */
    exg_string_map metadata;

    /* Of tensors of the same dtype, shape and bytes all but the first are left out, and the
     * metadata say for each which: {name: name of the first}, as safetensors.torch.save_model()
     * has it. */
    bool deduplicate;

    /* A pattern, prefix or expression that fits nothing is no fault, as of a list for many
     * models. */
    bool lenient;

    /* Of a model that is for so many ranks what the rank `shard` has: of tensors of which the
     * preset says along which dim ranks have parts that part, the others whole. 0: all of it.
     * USAGE (WGT-PRESET): there is no preset, it says it of no tensor, or parts are not equal. */
    uint32_t shard_count, shard;
} exg_weights_edit_options;

/* USAGE: WGT-PATTERN (an expression that is none, a pattern that fits no tensor; none is left),
 * WGT-DTYPE (a dtype that is none or not floating), WGT-NAME (two tensors get one name, or an empty
 * one). */
EXG_NODISCARD exg_status exg_weights_edit(exg_weights *of, const exg_weights_edit_options *options,
                                          exg_weights **made, exg_error *err);

/* A part of a tensor: a box of its elements. */
typedef struct exg_weight_slice {
    const char *name;
    uint32_t dims;
    const int64_t *offsets, *sizes;
} exg_weight_slice;

/* These parts, as views, in this order; the metadata say where each begins, as PyTorch's
 * HuggingFaceStorageWriter does ("DCP_SHARDING_INFO"), so files of all parts can be put together.
 * USAGE (WGT-SLICE): there is no such tensor, or no such part of it. UNSUPPORTED: of blocks. */
EXG_NODISCARD exg_status exg_weights_slice(exg_weights *of, const exg_weight_slice *slices,
                                           uint32_t count, exg_weights **made, exg_error *err);

/* The same of weights that are parts already: where each begins in its whole, `offsets[i]` of
 * items[i], as many numbers as it has dims. Once, after the last is added. */
EXG_NODISCARD exg_status exg_weights_set_offsets(exg_weights *weights,
                                                 const int64_t *const *offsets, exg_error *err);

/* The tensors and metadata of several, one after the other. USAGE (WGT-NAME): one name twice. */
EXG_NODISCARD exg_status exg_weights_join(exg_weights *const *of, uint32_t count,
                                          exg_weights **made, exg_error *err);

/* The files of the ranks of one model, in their order, as the model: all have tensors of the same
 * names. `dims` has patterns of names (as exg_weights_edit_options.select) with the dim along which
 * those that one fits go on from rank to rank, "0", or of matrices "1" or "-1"; the first that fits
 * counts. Of others every rank must have the same elements, which are compared now. Skipped things
 * and metadata are those of the first. USAGE: WGT-NAME (a name that not all have, elements that are
 * not the same), WGT-PATTERN (a pattern that fits no tensor, no dim), WGT-PRESET (other shapes or
 * dtypes than the first's). UNSUPPORTED WGT-PATTERN: another dim. */
EXG_NODISCARD exg_status exg_weights_concatenate(exg_weights *const *of, uint32_t count,
                                                 const exg_string_map *dims, exg_weights **made,
                                                 exg_error *err);

/* Several as one, to be edited by the same options: exg_weights_join(), or where the preset says of
 * tensors along which dim the ranks' parts go on (docs/weights.md), and the weights have names in
 * common, as exg_weights_concatenate() does. Then what no rule of the preset fits, and what is not
 * the same in all ranks, is skipped. Options as of exg_weights_edit(); NULL: joined. Faults as of
 * those, and USAGE (WGT-PRESET): a preset that is none. */
EXG_NODISCARD exg_status exg_weights_merge(exg_weights *const *of, uint32_t count,
                                           const exg_weights_edit_options *options,
                                           exg_weights **made, exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
