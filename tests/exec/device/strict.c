/* strict.c - each manner of the strict device catches the fault it is there for, planted here:
 * kernels and hosts that a real device would punish only now and then.
 */
#include "libexec/device/device.h"
#include "libexec/executor/plan_executor.h"
#include "libexport/transform/graph_segment.h"

#include <exg/emit.h>
#include <exg/exec.h>
#include <exg/export.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define COUNT 64 /* floats: a block without padding */

static const exg_device_table *const table = &exg_device_strict;

typedef struct bench {
    exg_accelerator *device;
    exg_tensor in, out;
    exg_kernel_call call;
    float here[COUNT];
} bench;

static float *floats_on(exg_accelerator *device)
{
    void *address;
    exg_error err;

    assert_int_equal(table->allocate(device, COUNT * sizeof(float), &address, &err), EXG_OK);
    return address;
}

static void open_bench(bench *b)
{
    exg_error err;

    memset(b, 0, sizeof(*b));
    assert_int_equal(table->open(0, &b->device, &err), EXG_OK);
    b->in.data = floats_on(b->device);
    b->out.data = floats_on(b->device);
    b->call = (exg_kernel_call){
        .inputs = &b->in, .outputs = &b->out, .input_count = 1, .output_count = 1};
    for (int i = 0; i < COUNT; i++) {
        b->here[i] = (float)i;
    }
}

static void ask(bench *b, void (*run)(const exg_kernel_call *call))
{
    static exg_kernel kernel;

    kernel.run = run;
    assert_int_equal(table->launch(b->device, &kernel, &b->call, 1, NULL), EXG_OK);
}

static void bring(bench *b, void *to, const void *from)
{
    bool in = to == b->in.data || to == b->out.data;

    assert_int_equal(
        (in ? table->copy_in : table->copy_out)(b->device, to, from, sizeof(b->here), NULL),
        EXG_OK);
}

static void wait_for(bench *b)
{
    assert_int_equal(table->wait(b->device, NULL), EXG_OK);
}

static void close_bench(bench *b)
{
    table->close(b->device);
}

static void twice(const exg_kernel_call *call)
{
    for (int i = 0; i < COUNT; i++) {
        ((float *)call->outputs[0].data)[i] = 2 * ((const float *)call->inputs[0].data)[i];
    }
}

/* ---- what kills --------------------------------------------------------------------------- */

#define FAULTED 42

static void on_fault(int number)
{
    (void)number;
    _exit(FAULTED);
}

/* In a process of its own: does the host's or the kernel's hand on memory end it? */
static bool faults(void (*act)(bench *b))
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        bench b;

        signal(SIGSEGV, on_fault);
        signal(SIGBUS, on_fault);
        open_bench(&b);
        act(&b);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == FAULTED;
}

static volatile float seen;

static void does_as_told(bench *b)
{
    bring(b, b->in.data, b->here);
    ask(b, twice);
    bring(b, b->here, b->out.data);
    wait_for(b);
    seen = b->here[1];
}

static void follows_an_address(bench *b)
{
    bring(b, b->in.data, b->here);
    wait_for(b);
    seen = *(const float *)b->in.data;
}

static void writes_past_the_end(const exg_kernel_call *call)
{
    ((volatile float *)call->outputs[0].data)[COUNT] = 1;
}

static void overruns(bench *b)
{
    ask(b, writes_past_the_end);
    wait_for(b);
}

static float *stray;

static void follows_a_stray(const exg_kernel_call *call)
{
    (void)call;
    seen = *stray;
}

static void touches_what_it_was_not_given(bench *b)
{
    stray = floats_on(b->device);
    ask(b, follows_a_stray);
    wait_for(b);
}

static void uses_what_was_released(bench *b)
{
    table->release(b->device, b->in.data);
    ask(b, twice);
    wait_for(b);
}

static void wrong_hands_on_memory_fault(void **state)
{
    (void)state;
    assert_false(faults(does_as_told));
    assert_true(faults(follows_an_address));
    assert_true(faults(overruns));
    assert_true(faults(touches_what_it_was_not_given));
    assert_true(faults(uses_what_was_released));
}

/* ---- what gives wrong results ------------------------------------------------------------- */

static void nothing_is_done_before_it_is_waited_for(void **state)
{
    bench b;
    float out[COUNT] = {0};

    (void)state;
    open_bench(&b);
    bring(&b, b.in.data, b.here);
    ask(&b, twice);
    bring(&b, out, b.out.data);
    assert_true(out[3] == 0);
    b.here[3] = 100; /* the host's bytes are its device's until then */
    wait_for(&b);
    assert_true(out[3] == 200 && out[4] == 8);
    close_bench(&b);
}

/* The caller may use the call for the next thing it asks for. */
static void a_call_is_read_when_it_is_asked_for(void **state)
{
    bench b;
    float out[COUNT] = {0};
    void *first;

    (void)state;
    open_bench(&b);
    bring(&b, b.in.data, b.here);
    ask(&b, twice);
    first = b.out.data;
    b.in.data = first;
    b.out.data = floats_on(b.device);
    ask(&b, twice);
    bring(&b, out, b.out.data);
    wait_for(&b);
    assert_true(out[3] == 12);
    close_bench(&b);
}

static void raises(const exg_kernel_call *call)
{
    exg_raise(call, EXG_FAULT_INDEX);
}

/* Who asks for a kernel that says so looks at its note; of another nobody would. */
static void kernels_that_raise_say_that_they_may(void **state)
{
    static const exg_kernel silent = {.name = "silent", .run = raises};
    static const exg_kernel frank = {.name = "frank", .run = raises, .flags = EXG_KERNEL_RAISES};
    exg_fault_note note = {.fault = EXG_FAULT_NONE};
    exg_error err;
    bench b;

    (void)state;
    open_bench(&b);
    b.call.fault = &note;
    assert_int_equal(table->launch(b.device, &frank, &b.call, 1, NULL), EXG_OK);
    assert_int_equal(table->wait(b.device, &err), EXG_OK);
    note.fault = EXG_FAULT_NONE;
    assert_int_equal(table->launch(b.device, &silent, &b.call, 1, NULL), EXG_OK);
    assert_int_equal(table->wait(b.device, &err), EXG_DEVICE);
    assert_string_equal(err.code, "DEV-012");
    close_bench(&b);
}

static void fresh_memory_is_nan(void **state)
{
    bench b;
    float out[COUNT] = {0};

    (void)state;
    open_bench(&b);
    bring(&b, out, b.out.data);
    wait_for(&b);
    for (int i = 0; i < COUNT; i++) {
        assert_true(isnan(out[i]));
    }
    close_bench(&b);
}

static void what_was_recorded_is_done_again(void **state)
{
    exg_device_graph *graph;
    exg_error err;
    bench b;
    float out[COUNT] = {0};

    (void)state;
    open_bench(&b);
    assert_int_equal(table->record(b.device, NULL), EXG_OK);
    ask(&b, twice);
    assert_int_equal(table->recorded(b.device, &graph, NULL), EXG_OK);
    for (int run = 1; run <= 2; run++) {
        b.here[5] = (float)run;
        bring(&b, b.in.data, b.here);
        assert_int_equal(table->replay(b.device, graph, NULL), EXG_OK);
        bring(&b, out, b.out.data);
        wait_for(&b);
        assert_true(out[5] == 2 * (float)run);
    }
    b.in.data = floats_on(b.device); /* which the record knows nothing of */
    assert_int_equal(table->replay(b.device, graph, &err), EXG_DEVICE);
    assert_string_equal(err.code, "DEV-008");
    table->forget(b.device, graph);
    close_bench(&b);
}

/* ---- an engine that forgets to wait -------------------------------------------------------- */

static exg_device_table forgetful;

static exg_status no_wait(exg_accelerator *device, exg_error *err)
{
    (void)device;
    (void)err;
    return EXG_OK;
}

static exg_status open_forgetful(uint32_t index, exg_accelerator **device, exg_error *err)
{
    exg_status status = exg_device_strict.open(index, device, err);

    (*device)->table = &forgetful;
    return status;
}

static bool forwards;        /* x as an earlier plan left it, each time in another place */
static const exg_grid *grid; /* NULL: no mesh */

static exg_status give(exg_plan_executor *rank, exg_accelerator *device, uint32_t input, float *x,
                       exg_error *err)
{
    void *there;

    if (!forwards) {
        exg_plan_executor_set_input(rank, input, x, false);
        return EXG_OK;
    }
    EXG_TRY(device->table->allocate(device, COUNT * sizeof(*x), &there, err));
    EXG_TRY(device->table->copy_in(device, there, x, COUNT * sizeof(*x), err));
    EXG_TRY(device->table->wait(device, err));
    exg_plan_executor_bind_input(rank, input, there);
    return EXG_OK;
}

/* Plans and runs a program of one tensor on a device, without a session; what comes out when
 * it is OK. */
static exg_status try_to_run(const exg_device_table *on, exg_program *program,
                             const exg_operators *operators, float *x, float *y, exg_error *err)
{
    const exg_symbols none = {0};
    exg_program *functional;
    exg_graph_segment *segment;
    exg_accelerator *device;
    exg_weight_store *memory;
    exg_plan *plan;
    exg_plan_executor *rank = NULL;
    exg_status status;
    uint32_t input = 0;

    assert_int_equal(exg_graph_segment_begin(program, operators, &none, NULL, NULL, &segment, err),
                     EXG_OK);
    assert_int_equal(exg_graph_segment_functional(segment, false, false, &functional, err), EXG_OK);
    assert_int_equal(on->open(0, &device, err), EXG_OK);
    assert_int_equal(exg_plan_rank(functional, operators, NULL, NULL, device, NULL, &plan, err),
                     EXG_OK);
    assert_int_equal(exg_weight_store_create(program->weights, NULL, &memory, err), EXG_OK);
    while (plan->inputs[input].kind != EXG_INPUT_USER) {
        input++;
    }
    plan->inputs[input].is_forwarded = forwards;
    status = exg_plan_executor_create(plan, memory, NULL, grid, device, 0, 0, &rank, err);
    status = status == EXG_OK ? exg_plan_executor_settle(rank, err) : status;
    if (status == EXG_OK) {
        uint32_t o = plan->output_count - 1;
        size_t bytes = (size_t)exg_tensor_numel(&plan->outputs[o].location.view) * sizeof(*y);

        memset(exg_plan_executor_output(rank, o), 0, bytes);
        status = exg_plan_executor_fold(rank, err);
        for (int run = 0; run < 6 && status == EXG_OK; run++) { /* the second is recorded */
            status = run % 3 == 0 ? give(rank, device, input, x, err) : EXG_OK;
            status = status == EXG_OK ? exg_plan_executor_run(rank, err) : status;
        }
        memcpy(y, exg_plan_executor_output(rank, o), bytes);
    }
    exg_plan_executor_destroy(rank);
    exg_weight_store_destroy(memory);
    device->table->close(device);
    exg_program_destroy(functional);
    exg_graph_segment_destroy(segment);
    return status;
}

/* relu(x), x from -10 up; the sum of what comes out. */
static exg_status try_relu(const exg_device_table *on, double *sum, exg_error *err)
{
    const int64_t sizes[] = {COUNT};
    static float x[COUNT];
    float y[COUNT] = {0};
    exg_operators *operators;
    exg_program *program;
    exg_builder *builder;
    exg_tensor_meta meta;
    exg_argument out;
    exg_status status;

    assert_int_equal(exg_operators_create(&operators, err), EXG_OK);
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, err), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &builder, err), EXG_OK);
    meta = exg_builder_meta(builder, EXG_DTYPE_F32, sizes, 1);
    out =
        exg_arg_ref(EMIT(builder, relu_default,
                         exg_builder_input(builder, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET)));
    exg_builder_output(builder, &out, EXG_OUTPUT_USER, NULL);
    assert_int_equal(exg_builder_finish(builder, err), EXG_OK);
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i - 10);
    }
    status = try_to_run(on, program, operators, x, y, err);
    *sum = 0;
    for (int i = 0; i < COUNT; i++) {
        *sum += y[i];
    }
    exg_program_destroy(program);
    exg_operators_destroy(operators);
    return status;
}

static double run_relu(const exg_device_table *on)
{
    exg_error err;
    double sum;

    assert_int_equal(try_relu(on, &sum, &err), EXG_OK);
    return sum;
}

static void an_engine_that_does_not_wait_is_found_out(void **state)
{
    (void)state;
    forgetful = exg_device_strict;
    forgetful.wait = no_wait;
    forgetful.open = open_forgetful;
    assert_true(run_relu(&exg_device_strict) == 53 * 54 / 2);
    assert_false(run_relu(&forgetful) == 53 * 54 / 2);
}

static void what_is_forwarded_is_read_where_it_is(void **state)
{
    (void)state;
    forwards = true;
    assert_true(run_relu(&exg_device_strict) == 53 * 54 / 2);
    assert_true(run_relu(&exg_device_strict_host) == 53 * 54 / 2);
    forwards = false;
}

/* ---- a device that cannot record ------------------------------------------------------------ */

static exg_device_table fleeting;
static int asked_to_record;

static exg_status record_nothing(exg_accelerator *device, exg_error *err)
{
    (void)device;
    asked_to_record++;
    return EXG_FAIL(err, UNSUPPORTED, "DEV-009", "not this");
}

static exg_status open_fleeting(uint32_t index, exg_accelerator **device, exg_error *err)
{
    exg_status status = exg_device_strict.open(index, device, err);

    (*device)->table = &fleeting;
    return status;
}

static void what_cannot_be_recorded_is_asked_for_each_time(void **state)
{
    (void)state;
    fleeting = exg_device_strict;
    fleeting.open = open_fleeting;
    fleeting.record = record_nothing;
    assert_true(run_relu(&fleeting) == 53 * 54 / 2);
    assert_int_equal(asked_to_record, 1);
}

/* ---- a rank that fails ---------------------------------------------------------------------- */

static exg_device_table failing;
static bool has_failed;
static int told; /* had the others been, when the device was first waited for after that? -1: no */

static exg_status fail_to_launch(exg_accelerator *device, const exg_kernel *kernel,
                                 const exg_kernel_call *call, uint32_t operands, exg_error *err)
{
    (void)device;
    (void)kernel;
    (void)call;
    (void)operands;
    has_failed = true;
    return EXG_FAIL(err, DEVICE, "DEV-008", "it does not");
}

static exg_status wait_and_look(exg_accelerator *device, exg_error *err)
{
    if (has_failed && told < 0) {
        told = exg_grid_is_aborted(grid);
    }
    return exg_device_strict.wait(device, err);
}

static exg_status open_failing(uint32_t index, exg_accelerator **device, exg_error *err)
{
    exg_status status = exg_device_strict.open(index, device, err);

    (*device)->table = &failing;
    return status;
}

/* Others' devices may wait for what this one does not come to ask for, and this one for them: they
 * are told before it is waited for, where devices are joined. */
static void others_hear_of_a_failure_before_the_device_is_waited_for(void **state)
{
    const exg_mesh_shape shape = {1, {2}};
    exg_device_link link = {.name = "a link"};
    exg_grid grids[2];
    exg_error err;
    double sum;

    (void)state;
    failing = exg_device_strict;
    failing.open = open_failing;
    failing.launch = fail_to_launch;
    failing.wait = wait_and_look;
    for (int joined = 0; joined <= 1; joined++) {
        assert_int_equal(exg_local_grid(&shape, grids, &err), EXG_OK);
        grids[0].links[0] = joined == 1 ? &link : NULL;
        grid = &grids[0];
        has_failed = false;
        told = -1;
        assert_int_equal(try_relu(&failing, &sum, &err), EXG_DEVICE);
        assert_string_equal(err.code, "DEV-008");
        assert_int_equal(told, joined);
        grid = NULL;
        exg_grid_close(&grids[0]);
        exg_grid_close(&grids[1]);
    }
}

/* ---- not enough memory ---------------------------------------------------------------------- */

static exg_device_table scarce;
static int left, given; /* allocations until one is refused; not given back yet */

static exg_status refuse_one(exg_accelerator *device, uint64_t bytes, void **address,
                             exg_error *err)
{
    *address = NULL;
    if (left-- == 0) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-004", "%llu bytes", (unsigned long long)bytes);
    }
    given++;
    return exg_device_strict.allocate(device, bytes, address, err);
}

static void take_back(exg_accelerator *device, void *address)
{
    given -= address != NULL;
    exg_device_strict.release(device, address);
}

static exg_status open_scarce(uint32_t index, exg_accelerator **device, exg_error *err)
{
    exg_status status = exg_device_strict.open(index, device, err);

    (*device)->table = &scarce;
    return status;
}

static void what_was_taken_is_given_back(const char *path)
{
    static float x[4096];
    static float y[4096];
    exg_operators *operators;
    exg_program *program;
    exg_error err;
    exg_status status = EXG_NO_MEMORY;
    int refused = 0;

    assert_int_equal(exg_operators_create(&operators, &err), EXG_OK);
    assert_int_equal(exg_open(path, NULL, &program, NULL, &err), EXG_OK);
    for (; status != EXG_OK; refused++) {
        exg_error_clear(&err);
        left = refused;
        status = try_to_run(&scarce, program, operators, x, y, &err);
        assert_true(status == EXG_OK || (status == EXG_NO_MEMORY && err.fix[0] != '\0' &&
                                         strcmp(err.code, "MEM-004") == 0));
        assert_int_equal(given, 0);
    }
    assert_true(refused > 6);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
}

static void a_device_that_has_not_enough_is_left_as_it_was(void **state)
{
    (void)state;
    scarce = exg_device_strict;
    scarce.open = open_scarce;
    scarce.allocate = refuse_one;
    scarce.release = take_back;
    what_was_taken_is_given_back("fixtures/mlp.pt2");
    what_was_taken_is_given_back("fixtures/inplace.pt2"); /* with state */
}

/* ---- names --------------------------------------------------------------------------------- */

static void devices_are_found_by_name(void **state)
{
    static const char *const bad[] = {"gpu", "strict:64", "strict:", "strict:1x", "", "strict:-1"};
    exg_session_options options = {.size = sizeof(options)};
    exg_device_info *info;
    exg_session *session;
    exg_operators *operators;
    exg_verified verified;
    exg_program *program;
    uint32_t count;
    exg_error err;

    (void)state;
    assert_string_equal(exg_device_kind(0), "cpu");
    assert_null(exg_device_kind(4));
    assert_int_equal(exg_device_count("cpu", &count, &err), EXG_OK);
    assert_int_equal(count, 1);
    assert_int_equal(exg_device_describe("cpu", 0, &info, &err), EXG_OK);
    assert_int_equal(info->size, sizeof(*info));
    assert_true(info->memory_bytes > info->free_bytes && info->free_bytes > 0);
    free(info);
    assert_int_equal(exg_device_describe("cpu", 1, &info, &err), EXG_USAGE);
    assert_null(info);
    assert_int_equal(exg_operators_create(&operators, &err), EXG_OK);
    assert_int_equal(exg_open("fixtures/mlp.pt2", NULL, &program, NULL, &err), EXG_OK);
    assert_int_equal(exg_verify(program, operators, &verified, NULL, &err), EXG_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        options.device = bad[i];
        assert_int_equal(exg_session_create(&verified, &options, &session, &err), EXG_USAGE);
        assert_string_equal(err.code, "DEV-001");
    }
    exg_program_destroy(program);
    exg_operators_destroy(operators);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_hands_on_memory_fault),
        cmocka_unit_test(nothing_is_done_before_it_is_waited_for),
        cmocka_unit_test(a_call_is_read_when_it_is_asked_for),
        cmocka_unit_test(kernels_that_raise_say_that_they_may),
        cmocka_unit_test(fresh_memory_is_nan),
        cmocka_unit_test(what_was_recorded_is_done_again),
        cmocka_unit_test(an_engine_that_does_not_wait_is_found_out),
        cmocka_unit_test(what_is_forwarded_is_read_where_it_is),
        cmocka_unit_test(what_cannot_be_recorded_is_asked_for_each_time),
        cmocka_unit_test(others_hear_of_a_failure_before_the_device_is_waited_for),
        cmocka_unit_test(a_device_that_has_not_enough_is_left_as_it_was),
        cmocka_unit_test(devices_are_found_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
