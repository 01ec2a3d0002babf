/* mlp.c - builds a two-layer perceptron from nothing and saves it.
 *
 *   mlp OUT.pt2|OUT.exg
 *
 * y = relu(x @ up.T + bias) @ down.T for x (3, 8), with weights of a fixed pattern. The
 * file is one that torch.export.load opens and calls, and exg run runs. */
#include <exg/emit.h>
#include <exg/export.h>
#include <stdio.h>

enum { ROWS = 3, IN = 8, HIDDEN = 16, OUT = 4 };

/* Small numbers without a pattern that would hide a wrong order. */
static void fill(float *values, int count, unsigned seed)
{
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(int)(seed >> 16 & 0xff) / 256.0f - 0.5f;
    }
}

static void build(exg_builder *b)
{
    static float up[HIDDEN * IN];
    static float bias[HIDDEN];
    static float down[OUT * HIDDEN];
    exg_tensor_meta x_meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){ROWS, IN}, 2);
    exg_tensor_meta up_meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){HIDDEN, IN}, 2);
    exg_tensor_meta bias_meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){HIDDEN}, 1);
    exg_tensor_meta down_meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){OUT, HIDDEN}, 2);

    fill(up, HIDDEN * IN, 1);
    fill(bias, HIDDEN, 2);
    fill(down, OUT * HIDDEN, 3);
    up_meta.requires_grad = bias_meta.requires_grad = down_meta.requires_grad = true;

    /* Weights come before the user's inputs. Errors stick: ask once, at the end. */
    exg_ref w = exg_builder_weight(b, "up.weight", &up_meta, EXG_INPUT_PARAMETER, up);
    exg_ref c = exg_builder_weight(b, "up.bias", &bias_meta, EXG_INPUT_PARAMETER, bias);
    exg_ref d = exg_builder_weight(b, "down.weight", &down_meta, EXG_INPUT_PARAMETER, down);
    exg_ref x = exg_builder_input(b, "x", &x_meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    exg_ref h = EMIT(b, relu_default, EMIT(b, linear_default, x, w, c));
    exg_argument y = exg_arg_ref(EMIT(b, linear_default, h, d));

    exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
    exg_builder_call(b);
}

static exg_status run(const char *path, exg_operators *operators, exg_program *program,
                      exg_error *err)
{
    exg_builder *builder = NULL;
    exg_verified verified;

    EXG_TRY(exg_builder_create(operators, program, &builder, err));
    build(builder);
    EXG_TRY(exg_builder_finish(builder, err));
    EXG_TRY(exg_verify(program, operators, &verified, NULL, err));
    return exg_save(program, path, exg_format_from_path(path), NULL, err);
}

int main(int argc, char **argv)
{
    exg_operators *operators = NULL;
    exg_program *program = NULL;
    exg_error err;
    exg_status status;

    if (argc != 2) {
        fputs("usage: mlp OUT.pt2|OUT.exg\n", stderr);
        return 2;
    }
    status = exg_operators_create(&operators, &err);
    if (status == EXG_OK) {
        status = exg_program_create(NULL, UINT64_MAX, &program, &err);
    }
    if (status == EXG_OK) {
        status = run(argv[1], operators, program, &err);
    }
    if (status != EXG_OK) {
        fprintf(stderr, "mlp: %s: %s %s\n", err.code, err.message, err.fix);
    }
    exg_program_destroy(program);
    exg_operators_destroy(operators);
    return exg_status_exit_code(status);
}
