/* first.c - a program is opened, checked, and run on zeros: the README's lines. */
#include <exg/exec.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "model.pt2"; /* takes x: f32[3, 8] */
    float x[3 * 8] = {0};
    exg_session_input in = {.name = "x", .tensor = {x, EXG_DTYPE_F32, 2, {3, 8}, {8, 1}}};
    exg_program *program = NULL;
    exg_operators *operators = NULL;
    exg_session *session = NULL;
    exg_verified verified;
    exg_error err;

    if (exg_open(path, NULL, &program, NULL, &err) != EXG_OK || /* decoded; reads no weight */
        exg_operators_create(&operators, &err) != EXG_OK ||
        exg_verify(program, operators, &verified, NULL, &err) != EXG_OK || /* the gate */
        exg_session_create(&verified, NULL, &session, &err) != EXG_OK ||
        exg_session_run(session, &in, 1, &err) != EXG_OK) { /* plans once for these sizes */
        fprintf(stderr, "%s: %s\n%s\n", err.code, err.message, err.fix);
        return exg_status_exit_code(err.status);
    }
    printf("%g\n", (double)((const float *)exg_session_output_at(session, 0)->tensor.data)[0]);
    exg_session_destroy(session);
    exg_operators_destroy(operators);
    exg_program_destroy(program);
    return 0;
}
