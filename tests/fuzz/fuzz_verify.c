/* fuzz_verify.c - any bytes as the JSON of a model in an otherwise honest archive (that of
 * fixtures/bad). What opens is verified; what passes goes down the road to functional
 * core operators, where nothing is doubted any more.
 */
#include "libexport/base/arena.h"
#include "tests/export/maker.h"
#include "tests/fuzz/fuzz.h"

#include <exg/export.h>
#include <stdlib.h>

#define META(sizes, strides)                                                                       \
    "{\"dtype\":7,\"sizes\":[" sizes "],\"requires_grad\":true,\"device\":{\"type\":\"cpu\","      \
    "\"index\":null},\"strides\":[" strides "],\"storage_offset\":{\"as_int\":0},\"layout\":7}"
#define ENTRY(name, record, meta)                                                                  \
    "\"" name "\":{\"path_name\":\"" record "\",\"is_param\":true,\"use_pickle\":false,"           \
    "\"tensor_meta\":" meta "}"

static const char weights[] = "{\"config\":{" ENTRY(
    "up.weight", "weight_0",
    META("{\"as_int\":4},{\"as_int\":8}",
         "{\"as_int\":8},{\"as_int\":1}")) "," ENTRY("up.bias", "weight_1",
                                                     META("{\"as_int\":4}", "{\"as_int\":1}")) "}}";

static void go_on(const exg_verified *verified, exg_arena *arena)
{
    exg_program *stages[4] = {NULL};
    exg_symbols symbols;

    if (exg_bind_hints(verified->program, arena, &symbols, NULL) == EXG_OK &&
        exg_specialize(verified, &symbols, &stages[0], NULL) == EXG_OK &&
        exg_decompose(stages[0], verified->operators, &stages[1], NULL) == EXG_OK &&
        exg_functionalize(stages[1], verified->operators, &stages[2], NULL) == EXG_OK) {
        exg_ignore(exg_simplify(stages[2], verified->operators, &stages[3], NULL));
    }
    for (int i = 0; i < 4; i++) {
        exg_program_destroy(stages[i]);
    }
}

static void verify(const exg_program *program)
{
    static exg_operators *operators;
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_diagnostics found;
    exg_verified verified;
    exg_error err;
    exg_status status;

    if (arena == NULL || (operators == NULL && exg_operators_create(&operators, &err) != EXG_OK)) {
        abort();
    }
    exg_error_clear(&err);
    status = exg_verify(program, operators, &verified, &found, &err);
    if ((status == EXG_OK) != (found.error_count == 0) ||
        (status == EXG_OK) != (verified.program != NULL)) {
        abort();
    }
    for (uint32_t i = 0; i < found.count; i++) {
        if (exg_rule_find(found.items[i].code) == NULL || found.items[i].message[0] == '\0') {
            abort();
        }
    }
    if (status == EXG_OK) {
        go_on(&verified, arena);
    }
    exg_diagnostics_free(&found);
    exg_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char zeros[128];
    const record changes[] = {
        {"models/model.json", (const char *)data, size},
        {"data/weights/model_weights_config.json", weights, SIZE_MAX},
        {"data/weights/weight_0", zeros, 128},
        {"data/weights/weight_1", zeros, 16},
    };
    exg_open_options options = {.size = sizeof(options), .memory_budget = 16 << 20};
    zip_maker zip = {0};
    exg_program *program;

    make_program(&zip, changes, sizeof(changes) / sizeof(changes[0]));
    if (exg_open_memory(zip.out.data, zip.out.length, &options, &program, NULL, NULL) == EXG_OK) {
        verify(program);
        exg_program_destroy(program);
    }
    zip_free(&zip);
    return 0;
}
