/* lookup.c - what is known of a target; a weight by its name. */
#include "libexport/verify/lookup.h"

#include <string.h>

static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Functions on sizes beyond operators/symbolic.def, and the wrappers that PyTorch lets stand in a
 * graph. */
static const char *const functions[] = {
    "torch.sym_sqrt",
    "torch.sym_sum",
    "torch._C._set_grad_enabled",
    "torch.autograd.grad_mode.set_grad_enabled",
    EXG_ENTER_AUTOCAST,
    EXG_EXIT_AUTOCAST,
};

/* "torch.ops.NAMESPACE.NAME.OVERLOAD"; a packet names no overload. */
static bool is_overload(const char *target)
{
    uint32_t dots = 0;

    for (const char *c = target; *c != '\0'; c++) {
        dots += *c == '.';
    }
    return starts(target, "torch.ops.") && dots >= 4;
}

static bool is_allowed(const char *target)
{
    if (is_overload(target) || starts(target, "torch.ops.higher_order.") ||
        starts(target, "torch._functorch.predispatch.") || target[0] == '#') {
        return true;
    }
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (strcmp(functions[i], target) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_core(const exg_target *target)
{
    static const char *const names[] = {
#define EXG_CORE_ATEN(name) "torch.ops.aten." name,
#include "libexport/operators/core_aten.def"
#undef EXG_CORE_ATEN
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], target->text) == 0) {
            return true;
        }
    }
    return target->is_higher_order || target->is_size_operator ||
           !starts(target->text, "torch.ops.aten.");
}

static bool is_size_operator(const char *target)
{
    return starts(target, "_operator.") || starts(target, "math.") ||
           starts(target, "torch.sym_") || starts(target, "torch._sym_");
}

/* Names with points between them, none of them empty. */
static bool is_function(const char *target)
{
    size_t length = strlen(target);

    return strchr(target, '.') != NULL && target[0] != '.' && target[length - 1] != '.' &&
           strstr(target, "..") == NULL;
}

const exg_target *exg_verifier_target(exg_verifier *v, const char *text)
{
    uintptr_t address = (uintptr_t)text;
    uint32_t slot = (uint32_t)(address >> 3 ^ address >> 11) % EXG_TARGETS_CACHED;
    uint32_t index;

    if (v->targets_cached[slot].text == text) { /* files keep equal texts once */
        return &v->targets[v->targets_cached[slot].target];
    }
    index = exg_map_find(&v->targets_by_text, text);
    if (index == EXG_MAP_NONE) {
        index = v->target_count;
        v->targets_by_text.arena = v->arena;
        if (!exg_arena_reserve(v->arena, &v->targets, index, &v->target_capacity,
                               sizeof(exg_target)) ||
            !exg_map_put(&v->targets_by_text, text, index)) {
            v->failed = true;
            return NULL;
        }
        v->targets[index] = (exg_target){
            .text = text,
            .op = exg_operators_find(v->operators, text),
            .is_call = text[0] == '#' || is_function(text),
            .is_higher_order = starts(text, "torch.ops.higher_order."),
            .is_size_operator = is_size_operator(text),
        };
        v->targets[index].is_core = is_core(&v->targets[index]);
        v->targets[index].is_allowed = v->targets[index].op != NULL || is_allowed(text);
        v->target_count++;
    }
    v->targets_cached[slot].text = text;
    v->targets_cached[slot].target = index;
    return &v->targets[index];
}

const exg_weight *exg_verifier_weight(const exg_verifier *v, exg_weight_table table,
                                      const char *fqn)
{
    uint32_t index = exg_map_find(&v->weights[table], fqn);

    return index == EXG_MAP_NONE ? NULL : &v->program->weights->items[index];
}
