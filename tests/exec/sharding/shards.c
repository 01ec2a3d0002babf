/* shards.c - a saved program under every sharding of its inputs: what tests/interop/shards.py
 * asks of each entry of PyTorch's operator database.
 *
 *   shards RANKS PROGRAM INPUTS.safetensors      prints: right wrong failed kept summands, why
 */
#include "tests/exec/sharding/every.h"

#include <exg/export.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUTS_MAX 32

static uint32_t take_inputs(const exg_program *program, const exg_tensor_file *file,
                            exg_session_input *inputs)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < program->signature.input_count && count < INPUTS_MAX; i++) {
        const char *name = program->signature.inputs[i].arg.name;
        const exg_named_tensor *t;

        if (program->signature.inputs[i].kind != EXG_INPUT_USER || name == NULL) {
            continue;
        }
        t = exg_tensor_file_find(file, name);
        if (t != NULL && t->rank <= EXG_RANK_MAX) {
            exg_session_input *in = &inputs[count++];

            *in = (exg_session_input){.name = name};
            in->tensor.dtype = t->dtype;
            in->tensor.rank = t->rank;
            in->tensor.data = (void *)(uintptr_t)t->data;
            memcpy(in->tensor.sizes, t->shape, t->rank * sizeof(int64_t));
            exg_tensor_set_contiguous(&in->tensor);
        }
    }
    return count;
}

int main(int argc, char **argv)
{
    exg_session_input inputs[INPUTS_MAX];
    exg_operators *operators = NULL;
    exg_program *program = NULL;
    exg_tensor_file *file = NULL;
    exg_verified verified;
    tried t = {0};
    exg_error err;

    if (argc != 4) {
        return 2;
    }
    if (exg_operators_create(&operators, &err) != EXG_OK ||
        exg_open(argv[2], NULL, &program, NULL, &err) != EXG_OK ||
        exg_tensor_file_open(argv[3], &file, &err) != EXG_OK ||
        exg_verify(program, operators, &verified, NULL, &err) != EXG_OK) {
        printf("0 0 0 0 0 unsharded: %s %s\n", err.code, err.message);
    } else if (!try_every_sharding(&verified, inputs, take_inputs(program, file, inputs),
                                   (uint32_t)strtoul(argv[1], NULL, 10), &t)) {
        printf("0 0 0 0 0 unsharded: %s\n", t.why);
    } else {
        printf("%u %u %u %u %u %s\n", t.right, t.wrong, t.failed, t.kept, t.summands, t.why);
    }
    exg_tensor_file_close(file);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
    return 0;
}
