/* input_names.c - what a session's inputs are called: by the placeholder's name, or else by the
 * argument of the call and what nests in it ("cache.layers.0.keys").
 */
#include "libexec/session/session.h"
#include "libexport/base/require.h"
#include "libexport/program/constant.h"
#include "libexport/transform/bind.h"

#include <exg/transform.h>
#include <string.h>

exg_status exg_session_map_names(exg_session *s, exg_error *err)
{
    const exg_program *program = s->verified.program;
    const char **paths;

    EXG_TRY(exg_input_paths(program, s->arena, &paths, err));
    exg_map_init(&s->inputs, s->arena);
    exg_map_init(&s->constants, s->arena);
    exg_map_init(&s->paths, s->arena);
    for (uint32_t i = 0; i < program->graph->input_count; i++) {
        const exg_input_spec *spec = &program->signature.inputs[i];

        if (spec->kind != EXG_INPUT_USER || spec->arg.name == NULL) {
            continue;
        }
        if (!exg_map_put(exg_is_constant(spec->arg.kind) ? &s->constants : &s->inputs,
                         spec->arg.name, i) ||
            (paths[i] != NULL && !exg_map_put(&s->paths, paths[i], i))) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return EXG_OK;
}

static bool has_placeholder(const exg_session *s, const char *name)
{
    return exg_map_find(&s->inputs, name) != EXG_MAP_NONE ||
           exg_map_find(&s->constants, name) != EXG_MAP_NONE;
}

/* The placeholder's name of what is called so; `name` itself where nothing is. */
static const char *name_of(const exg_session *s, const char *name)
{
    uint32_t at;

    if (name == NULL || has_placeholder(s, name)) {
        return name;
    }
    at = exg_map_find(&s->paths, name);
    return at == EXG_MAP_NONE ? name : s->verified.program->signature.inputs[at].arg.name;
}

exg_status exg_session_find_input(const exg_session *session, const char *name,
                                  const char **placeholder, exg_error *err)
{
    EXG_REQUIRE(err, session, placeholder);

    *placeholder = name_of(session, name);
    return *placeholder != NULL && has_placeholder(session, *placeholder)
               ? EXG_OK
               : exg_fail_no_input(session->verified.program, name, err);
}

void exg_session_name_inputs(exg_session *s, const exg_session_input **inputs, uint32_t count)
{
    bool named = true;

    for (uint32_t i = 0; i < count; i++) {
        named = named && name_of(s, (*inputs)[i].name) == (*inputs)[i].name;
    }
    if (named || count > s->verified.program->graph->input_count) { /* too many are refused */
        return;
    }
    memcpy(s->all, *inputs, count * sizeof(*s->all));
    for (uint32_t i = 0; i < count; i++) {
        s->all[i].name = name_of(s, s->all[i].name);
    }
    *inputs = s->all;
}
