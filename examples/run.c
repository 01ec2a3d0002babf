/* run.c - opens a program, shows what goes in and out, and runs it on zeros.
 *
 *   run FILE.pt2|FILE.exg
 *
 * Prints every parameter, every user input and, after the run, every output with the sum
 * of its elements. */
#include <exg/exec.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { INPUTS_MAX = 16 };

/* A program as opened, verified and loaded. All zeros is allowed. */
typedef struct loaded {
    exg_program *program;
    exg_operators *operators;
    exg_verified verified;
    exg_session *session;
} loaded;

static exg_status load(const char *path, loaded *l, exg_error *err)
{
    EXG_TRY(exg_open(path, NULL, &l->program, NULL, err)); /* decoded; reads no weight */
    EXG_TRY(exg_operators_create(&l->operators, err));
    EXG_TRY(exg_verify(l->program, l->operators, &l->verified, NULL, err));
    return exg_session_create(&l->verified, NULL, &l->session, err);
}

static void unload(loaded *l)
{
    exg_session_destroy(l->session);
    exg_operators_destroy(l->operators);
    exg_program_destroy(l->program);
}

static void print_meta(const char *what, const char *name, const exg_tensor_meta *meta)
{
    printf("%-9s %-24s %s[", what, name, exg_dtype_name(meta->dtype));
    for (uint32_t d = 0; d < meta->rank; d++) {
        printf("%s%" PRId64, d > 0 ? ", " : "", meta->sizes[d].value);
    }
    puts("]");
}

/* A tensor of zeros with the sizes that the file recorded (hints, where symbolic). */
static exg_status zeros(const char *name, const exg_tensor_meta *meta, exg_session_input *input,
                        exg_error *err)
{
    int64_t numel = 1;

    *input = (exg_session_input){.name = name};
    input->tensor.dtype = meta->dtype;
    input->tensor.rank = meta->rank;
    for (uint32_t d = 0; d < meta->rank; d++) {
        input->tensor.sizes[d] = meta->sizes[d].value;
        numel *= meta->sizes[d].value;
    }
    exg_tensor_set_contiguous(&input->tensor);
    input->tensor.data = calloc((size_t)numel + 1, exg_dtype_bytes(meta->dtype));
    return input->tensor.data == NULL ? EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory")
                                      : EXG_OK;
}

static exg_status make_inputs(const loaded *l, exg_session_input *inputs, uint32_t *count,
                              exg_error *err)
{
    const exg_signature_argument *leaves[INPUTS_MAX];
    uint32_t leaf_count;

    EXG_TRY(
        exg_signature_user_inputs(&l->program->signature, leaves, INPUTS_MAX, &leaf_count, err));
    for (uint32_t i = 0; i < leaf_count && i < INPUTS_MAX; i++) {
        exg_value_id id = leaves[i]->kind == EXG_ARGUMENT_TENSOR
                              ? exg_graph_find_value(l->program->graph, leaves[i]->name)
                              : EXG_NO_VALUE;

        if (id != EXG_NO_VALUE) {
            const exg_tensor_meta *meta = l->program->graph->values[id].tensor;

            print_meta("input", leaves[i]->name, meta);
            EXG_TRY(zeros(leaves[i]->name, meta, &inputs[*count], err));
            ++*count;
        }
    }
    return EXG_OK;
}

static double sum_of(const exg_tensor *tensor)
{
    double sum = 0;

    for (int64_t i = 0; tensor->dtype == EXG_DTYPE_F32 && i < exg_tensor_numel(tensor); i++) {
        sum += (double)((const float *)tensor->data)[i];
    }
    return sum;
}

static exg_status run(const loaded *l, exg_session_input *inputs, uint32_t *count, exg_error *err)
{
    for (uint32_t i = 0; i < l->program->weights->count; i++) {
        if (l->program->weights->items[i].meta != NULL) {
            print_meta("weight", l->program->weights->items[i].fqn,
                       l->program->weights->items[i].meta);
        }
    }
    EXG_TRY(make_inputs(l, inputs, count, err));
    EXG_TRY(exg_session_run(l->session, inputs, *count, err));
    for (uint32_t i = 0; i < exg_session_output_count(l->session); i++) {
        const exg_session_output *output = exg_session_output_at(l->session, i);

        if (output->constant.kind == EXG_ARGUMENT_TENSOR) {
            printf("output    %-24u sum %.6g\n", i, sum_of(&output->tensor));
        }
    }
    return EXG_OK;
}

int main(int argc, char **argv)
{
    exg_session_input inputs[INPUTS_MAX];
    uint32_t count = 0;
    loaded l = {0};
    exg_error err;
    exg_status status;

    if (argc != 2) {
        fputs("usage: run FILE.pt2|FILE.exg\n", stderr);
        return 2;
    }
    status = load(argv[1], &l, &err);
    if (status == EXG_OK) {
        status = run(&l, inputs, &count, &err);
    }
    if (status != EXG_OK) {
        fprintf(stderr, "run: %s: %s\n", err.code, err.message);
    }
    for (uint32_t i = 0; i < count; i++) {
        free(inputs[i].tensor.data);
    }
    unload(&l);
    return exg_status_exit_code(status);
}
