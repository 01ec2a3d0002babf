/* fuzz_early.c - any bytes as early JSON, its carry taken and ignored. What opens is
 * copied, compared, printed, and the bytes inside it are read.
 */
#include "tests/fuzz/fuzz.h"

#include <exg/formats.h>
#include <stdlib.h>

static void open_bytes(const void *data, size_t size, bool ignore_carry)
{
    exg_open_options options = {
        .size = sizeof(options), .memory_budget = 16 << 20, .ignore_carry = ignore_carry};
    exg_program *program = NULL;
    exg_program *copy = NULL;
    char *text = NULL;
    exg_error err;

    exg_error_clear(&err);
    if (exg_open_memory(data, size, &options, &program, NULL, &err) != EXG_OK) {
        if (program != NULL || err.code[0] == '\0') {
            abort();
        }
        return;
    }
    for (uint32_t i = 0; i < program->weights->storage_count; i++) {
        if (program->weights->storages[i].kind == EXG_STORAGE_MEMORY) {
            exg_ignore(exg_storage_check(program->weights, i, NULL));
        }
    }
    if (exg_program_copy(program, &copy, NULL) == EXG_OK) {
        (void)exg_program_equal(program, copy, false, NULL); /* names may repeat: either */
    }
    if (exg_program_print(program, &text, NULL) == EXG_OK) {
        free(text);
    }
    exg_program_destroy(copy);
    exg_program_destroy(program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    open_bytes(data, size, false);
    open_bytes(data, size, true);
    return 0;
}
