/* flag_rules.c - flags of higher-order operators (NOD-023): what is no graph and no operand. */
#include "libexport/verify/verifier.h"

#include <string.h>

static const struct {
    const char *name, *kinds;
} flags[] = {
#define EXG_FLAGS(name, kinds) {name, kinds},
#include "libexport/verify/flag.def"
#undef EXG_FLAGS
};

static bool fits(const exg_argument *arg, char kind)
{
    exg_argument_kind is = arg->kind;

    switch (kind) {
    case 's':
        return is == EXG_ARGUMENT_STRING;
    case 'S':
        return is == EXG_ARGUMENT_STRING || is == EXG_ARGUMENT_NONE;
    case 'd':
        return is == EXG_ARGUMENT_NONE ||
               (is == EXG_ARGUMENT_SCALAR_TYPE && exg_dtype_is_float(arg->as_scalar_type));
    case 'b':
        return is == EXG_ARGUMENT_BOOL;
    case 'B':
        return is == EXG_ARGUMENT_BOOL || is == EXG_ARGUMENT_NONE;
    default:
        return true;
    }
}

static const char *called(char kind)
{
    return kind == 's'   ? "a text"
           : kind == 'S' ? "a text or None"
           : kind == 'd' ? "a floating-point dtype or None"
           : kind == 'b' ? "a bool"
                         : "a bool or None";
}

void exg_verify_flags(exg_verifier *v, const exg_node *node, const exg_model_path *path)
{
    static const char prefix[] = "torch.ops.higher_order.";
    const char *name = node->target + sizeof(prefix) - 1;

    for (size_t f = 0; f < sizeof(flags) / sizeof(flags[0]); f++) {
        const char *kinds = flags[f].kinds;

        if (strncmp(node->target, prefix, sizeof(prefix) - 1) != 0 ||
            strcmp(name, flags[f].name) != 0) {
            continue;
        }
        for (uint32_t i = 0; kinds[i] != '\0' && i < node->input_count; i++) {
            if (!fits(&node->inputs[i].arg, kinds[i])) {
                exg_found(v, "NOD-023", EXG_AT_INDEX(path, "inputs", i), "%s takes %s here, not %s",
                          name, called(kinds[i]), exg_argument_tag(node->inputs[i].arg.kind));
            }
        }
    }
}
