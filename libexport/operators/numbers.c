/* numbers.c - the integers of a call are of a tensor's size, before any are counted with: they
 * come from files. */
#include "libexport/operators/shape.h"

#include <inttypes.h>
#include <string.h>

/* More elements than any tensor that is run has; sums of a few and small multiples fit. */
#define REACH ((int64_t)1 << 47)

static bool is_among(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Ends that mean all there is, shifts that count around, bounds and numbers of draws, and what is
 * only compared with. */
static bool may_be_any(const char *name)
{
    static const char *const names[] = {"start", "end",  "shifts", "low",         "high",
                                        "from",  "to",   "stream", "ignore_index"};

    return is_among(name, names, sizeof(names) / sizeof(names[0]));
}

/* Lists with an element a part, not a dim. */
static bool may_be_long(const char *name)
{
    static const char *const names[] = {"split_sizes", "indices", "path"};

    return is_among(name, names, sizeof(names) / sizeof(names[0]));
}

static exg_status check_one(const exg_schema_argument *parameter, int64_t n, exg_error *err)
{
    int64_t most = parameter->type.list_length > 0 ? INT32_MAX : REACH;

    if ((n < -most || n > most) && !may_be_any(parameter->name)) {
        return EXG_SHAPE_FAIL(err, "%s: %" PRId64 " is more than any tensor has", parameter->name,
                              n);
    }
    return EXG_OK;
}

static exg_status check_list(const exg_schema_argument *parameter, const exg_argument *arg,
                             exg_error *err)
{
    uint32_t length = parameter->type.list_length;

    if (length > 1 && arg->count > 1 && arg->count != length) {
        return EXG_SHAPE_FAIL(err, "%s: %u numbers for %u", parameter->name, arg->count, length);
    }
    if (arg->count > EXG_SHAPE_RANK_MAX && !may_be_long(parameter->name)) {
        return EXG_SHAPE_FAIL(err, "%s: %u numbers, more than a tensor has dims", parameter->name,
                              arg->count);
    }
    for (uint32_t i = 0; i < arg->count; i++) {
        bool is_sym = arg->kind == EXG_ARGUMENT_SYM_INTS;

        EXG_TRY(check_one(parameter, is_sym ? arg->as_syms[i].as_int : arg->as_ints[i], err));
    }
    return EXG_OK;
}

exg_status exg_check_numbers(const exg_operator *op, const exg_argument *args, exg_error *err)
{
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        const exg_schema_argument *parameter = &op->schema->arguments[i];
        exg_type_base base = parameter->type.base;

        if (base != EXG_TYPE_INT && base != EXG_TYPE_SYM_INT) {
            continue;
        }
        if (args[i].kind == EXG_ARGUMENT_INTS || args[i].kind == EXG_ARGUMENT_SYM_INTS) {
            EXG_TRY(check_list(parameter, &args[i], err));
        } else {
            EXG_TRY(check_one(parameter, exg_get_int(&args[i]), err));
        }
    }
    return EXG_OK;
}
