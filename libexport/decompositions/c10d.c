/* c10d.c - shapes and lowerings of c10d.def: collectives of a process group as moves along a line
 * of ranks. Those of a group of one are copies.
 */
#include "libexport/base/checked.h"
#include "libexport/operators/bound_group.h"
#include "libexport/operators/lower.h"

#include <exg/emit.h>
#include <exg/operator_id_new.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/c10d.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

/* ---- shapes --------------------------------------------------------------------------- */

static exg_status dims_of_rows(const exg_shape_call *call, exg_dims *dims, exg_error *err)
{
    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), dims, err));
    return dims->rank > 0 ? EXG_OK : EXG_SHAPE_FAIL(err, "rows of a 0-d tensor");
}

/* The argument group_size, wherever the schema has it. */
static exg_status group_size(const exg_shape_call *call, int64_t *size, exg_error *err)
{
    const exg_function_schema *schema = call->op->schema;
    uint32_t at = 0;

    while (at + 1 < schema->argument_count &&
           strcmp(schema->arguments[at].name, "group_size") != 0) {
        at++;
    }
    *size = exg_get_int(&call->args[at]);
    return *size > 0 ? EXG_OK : EXG_SHAPE_FAIL(err, "a group of %" PRId64 " ranks", *size);
}

exg_status exg_shape_c10d_all_gather(exg_shape_call *call, exg_error *err)
{
    int64_t size;
    exg_dims out;

    EXG_TRY(group_size(call, &size, err));
    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    if (out.rank == 0) {
        out = (exg_dims){1, {1}};
    }
    if (!exg_mul_i64(out.n[0], size, &out.n[0])) {
        return EXG_FAIL(err, LIMIT, "SHP-001", "a tensor of too many elements");
    }
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

exg_status exg_shape_c10d_reduce_scatter(exg_shape_call *call, exg_error *err)
{
    int64_t size;
    exg_dims out;

    EXG_TRY(group_size(call, &size, err));
    EXG_TRY(dims_of_rows(call, &out, err));
    if (out.n[0] % size != 0) {
        return EXG_SHAPE_FAIL(
            err, "%" PRId64 " rows are not divided evenly among %" PRId64 " ranks", out.n[0], size);
    }
    out.n[0] /= size;
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

/* What the splits come to; a list of numbers that are below 0 or too many is refused. */
static exg_status sum_of_splits(const exg_argument *splits, int64_t *sum, exg_error *err)
{
    *sum = 0;
    for (uint32_t i = 0; splits->kind == EXG_ARGUMENT_INTS && i < splits->count; i++) {
        if (splits->as_ints[i] < 0 || !exg_add_i64(*sum, splits->as_ints[i], sum)) {
            return EXG_SHAPE_FAIL(err, "a split of %" PRId64 " rows", splits->as_ints[i]);
        }
    }
    return EXG_OK;
}

exg_status exg_shape_all_to_all_single(exg_shape_call *call, exg_error *err)
{
    exg_dims out;
    int64_t sent;

    EXG_TRY(dims_of_rows(call, &out, err));
    EXG_TRY(sum_of_splits(&call->args[2], &sent, err));
    if (call->args[1].count != call->args[2].count) {
        return EXG_SHAPE_FAIL(err, "%u splits of the output, and %u of the input",
                              call->args[1].count, call->args[2].count);
    }
    if (sent != out.n[0]) {
        return EXG_SHAPE_FAIL(err, "splits of %" PRId64 " rows, and an input of %" PRId64, sent,
                              out.n[0]);
    }
    EXG_TRY(sum_of_splits(&call->args[1], &out.n[0], err));
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

/* ---- what lowerings share ------------------------------------------------------------- */

/* false: it is of no mesh, which sticks. */
static bool find_group(exg_builder *b, const exg_argument *name, exg_bound_group *group)
{
    exg_error err;

    if (name->kind == EXG_ARGUMENT_STRING && exg_bound_group_read(name->as_string, group)) {
        return true;
    }
    (void)exg_error_fix(&err,
                        EXG_FAIL(&err, UNSUPPORTED, "COM-005",
                                 "whom the group '%.40s' meets only a mesh says",
                                 name->kind == EXG_ARGUMENT_STRING ? name->as_string : ""),
                        "exg explain --stage plan --mesh N, with --group where it is a part of "
                        "the mesh");
    exg_builder_fail(b, &err);
    return false;
}

/* A reduction that PyTorch has, and of complex numbers one that it takes. */
static bool check_reduction(exg_builder *b, exg_ref x, const exg_argument *op, bool by_parts)
{
    static const char *const words[] = {"sum", "avg",  "product", "min",
                                        "max", "band", "bor",     "bxor"};
    bool known = false;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        known = known || exg_lower_is_word(op, words[i]);
    }
    if (!known) {
        char what[80];

        (void)snprintf(what, sizeof(what), "no reduction is called '%.40s'",
                       op->kind == EXG_ARGUMENT_STRING ? op->as_string : "");
        exg_lower_refuse(b, what);
        return false;
    }
    if (!by_parts && exg_dtype_is_complex(exg_lower_dtype(b, x)) && !exg_lower_is_word(op, "sum") &&
        !exg_lower_is_word(op, "avg")) {
        exg_lower_refuse(b, "of complex numbers there are sums and means");
        return false;
    }
    return true;
}

/* Row-major; complex numbers as pairs along one dim more. */
static exg_ref sent(exg_builder *b, exg_ref x)
{
    x = exg_lower_is_contiguous(b, x) ? x : exg_lower_row_major(b, x);
    return exg_dtype_is_complex(exg_lower_dtype(b, x)) ? EMIT(b, view_as_real_default, x) : x;
}

static void received(exg_builder *b, exg_ref like, exg_ref y, exg_argument *results)
{
    bool is_complex = exg_dtype_is_complex(exg_lower_dtype(b, like));

    results[0] = exg_arg_ref(is_complex ? EMIT(b, view_as_complex_default, y) : y);
}

static void copied(exg_builder *b, exg_ref x, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, clone_default, x));
}

/* ---- lowerings ------------------------------------------------------------------------ */

void exg_lower_c10d_all_reduce(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_bound_group group;

    if (!check_reduction(b, SELF, &args[1], false) || !find_group(b, &args[2], &group)) {
        return;
    }
    if (group.size == 1) {
        copied(b, SELF, results);
        return;
    }
    received(b, SELF, EMIT(b, exg_all_reduce, sent(b, SELF), args[1], exg_arg_int(group.line)),
             results);
}

void exg_lower_c10d_all_gather(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims dims = exg_lower_dims(b, SELF);
    exg_ref x = dims.rank == 0 ? EMIT(b, unsqueeze_default, SELF, exg_arg_int(0)) : SELF;
    int64_t rows = dims.rank == 0 ? 1 : dims.n[0];
    exg_bound_group group;

    if (!find_group(b, &args[2], &group)) {
        return;
    }
    if (group.size == 1) {
        copied(b, x, results);
        return;
    }
    received(b, SELF,
             EMIT(b, exg_all_gather, sent(b, x), exg_arg_int(0), exg_arg_int(rows * group.size),
                  exg_arg_int(group.line)),
             results);
}

void exg_lower_c10d_reduce_scatter(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims dims = exg_lower_dims(b, SELF);
    exg_bound_group group;

    if (!check_reduction(b, SELF, &args[1], true) || !find_group(b, &args[3], &group)) {
        return;
    }
    if (dims.rank == 0 || dims.n[0] % group.size != 0) {
        exg_lower_refuse(b, "rows are not divided evenly among the ranks of the group");
        return;
    }
    if (group.size == 1) {
        copied(b, SELF, results);
        return;
    }
    received(b, SELF,
             EMIT(b, exg_reduce_scatter, sent(b, SELF), exg_arg_int(0),
                  exg_arg_int(dims.n[0] / group.size), args[1], exg_arg_int(group.line)),
             results);
}

void exg_lower_c10d_all_to_all_single(exg_builder *b, const exg_argument *args,
                                      exg_argument *results)
{
    exg_bound_group group;

    if (!find_group(b, &args[3], &group)) {
        return;
    }
    if (args[1].count != group.size || args[2].count != group.size) {
        exg_lower_refuse(b, "as many splits as the group has ranks are needed");
        return;
    }
    if (group.size == 1) {
        copied(b, SELF, results);
        return;
    }
    received(
        b, SELF,
        EMIT(b, exg_all_to_all_single, sent(b, SELF), args[1], args[2], exg_arg_int(group.line)),
        results);
}

void exg_lower_c10d_broadcast(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_bound_group group;

    if (!find_group(b, &args[2], &group)) {
        return;
    }
    if (exg_get_int(&args[1]) < 0 || exg_get_int(&args[1]) >= group.size) {
        exg_lower_refuse(b, "the source is no rank of the group");
        return;
    }
    if (group.size == 1) {
        copied(b, SELF, results);
        return;
    }
    received(b, SELF, EMIT(b, exg_broadcast, sent(b, SELF), args[1], exg_arg_int(group.line)),
             results);
}

void exg_lower_c10d_all_reduce_coalesced_inplace(exg_builder *b, const exg_argument *args,
                                                 exg_argument *results)
{
    exg_ref *reduced = exg_lower_new_refs(b, args[0].count);

    for (uint32_t i = 0; reduced != NULL && i < args[0].count; i++) {
        reduced[i] =
            EMIT(b, c10d_all_reduce_inplace, exg_lower_item(&args[0], i), args[1], args[2]);
    }
    if (reduced != NULL) {
        results[0] = exg_arg_refs(b, reduced, args[0].count);
    }
}

void exg_lower_dtensor_shard_dim_alltoall(exg_builder *b, const exg_argument *args,
                                          exg_argument *results)
{
    exg_dims dims = exg_lower_dims(b, SELF);
    uint32_t gathered = exg_lower_dim(b, exg_get_int(&args[1]), dims.rank);
    uint32_t scattered = exg_lower_dim(b, exg_get_int(&args[2]), dims.rank);
    exg_bound_group group;

    if (dims.rank == 0 || gathered == scattered) {
        exg_lower_refuse(b, "two dims are needed, one to gather and one to shard");
        return;
    }
    if (!find_group(b, &args[3], &group)) {
        return;
    }
    if (dims.n[scattered] % group.size != 0) {
        exg_lower_refuse(b, "the dim is not divided evenly among the ranks of the group");
        return;
    }
    if (group.size == 1) {
        copied(b, SELF, results);
        return;
    }
    received(b, SELF,
             EMIT(b, exg_all_to_all, sent(b, SELF), exg_arg_int(gathered),
                  exg_arg_int(dims.n[gathered] * group.size), exg_arg_int(scattered),
                  exg_arg_int(dims.n[scattered] / group.size), exg_arg_int(group.line)),
             results);
}
