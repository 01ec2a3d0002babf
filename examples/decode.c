/* decode.c - a language model writes on: one token a call, its cache is the session's state.
 *
 *   decode FILE.pt2 COUNT TOKEN...
 *
 * The program takes tokens: i64[1, 1] and position: i64[1], gives logits: f32[1, 1, vocabulary],
 * and writes the keys and values of that position into buffers. Prints the tokens given and COUNT
 * more, each the likeliest. */
#include <exg/exec.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* One token at one position: the likeliest that follows. */
static exg_status step(exg_session *session, int64_t token, int64_t position, int64_t *next,
                       exg_error *err)
{
    const exg_session_input inputs[] = {
        {.name = "tokens", .tensor = {&token, EXG_DTYPE_I64, 2, {1, 1}, {1, 1}}},
        {.name = "position", .tensor = {&position, EXG_DTYPE_I64, 1, {1}, {1}}}};
    const exg_tensor *logits;

    EXG_TRY(exg_session_run(session, inputs, 2, err)); /* planned at the first call alone */
    logits = &exg_session_output_at(session, 0)->tensor;
    *next = 0;
    for (int64_t i = 1; i < exg_tensor_numel(logits); i++) {
        const float *values = logits->data;

        *next = values[i] > values[*next] ? i : *next;
    }
    return EXG_OK;
}

static exg_status decode(exg_session *session, int argc, char **argv, exg_error *err)
{
    const int given = argc - 3;
    const int count = given + atoi(argv[2]);
    int64_t token = 0;

    for (int position = 0; position < count; position++) {
        token = position < given ? strtoll(argv[3 + position], NULL, 10) : token;
        printf("%" PRId64 "%c", token, position + 1 < count ? ' ' : '\n');
        EXG_TRY(step(session, token, position, &token, err));
    }
    return EXG_OK;
}

int main(int argc, char **argv)
{
    exg_program *program = NULL;
    exg_operators *operators = NULL;
    exg_session *session = NULL;
    exg_verified verified;
    exg_error err;
    exg_status status;

    if (argc < 4) {
        fputs("usage: decode FILE.pt2 COUNT TOKEN...\n", stderr);
        return 2;
    }
    status = exg_open(argv[1], NULL, &program, NULL, &err);
    status = status == EXG_OK ? exg_operators_create(&operators, &err) : status;
    status = status == EXG_OK ? exg_verify(program, operators, &verified, NULL, &err) : status;
    status = status == EXG_OK ? exg_session_create(&verified, NULL, &session, &err) : status;
    status = status == EXG_OK ? decode(session, argc, argv, &err) : status;
    if (status != EXG_OK) {
        fprintf(stderr, "decode: %s: %s\n", err.code, err.message);
    }
    exg_session_destroy(session);
    exg_operators_destroy(operators);
    exg_program_destroy(program);
    return exg_status_exit_code(status);
}
