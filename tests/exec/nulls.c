/* nulls.c - every public call that gives a status, with nothing given: what a caller has in hand
 * who did not look at the status of the call before. tests/abi/public.sh sees that none is left
 * out. */
#include <exg/diff.h>
#include <exg/exec.h>
#include <exg/export.h>
#include <exg/http.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static int faults;

static void look(const char *call, exg_status status, const exg_error *err)
{
    if (status != EXG_USAGE || strcmp(err->code, "ARG-001") != 0 || err->fix[0] == '\0') {
        print_message("  %s: status %d, '%s' %s\n", call, (int)status, err->code, err->message);
        faults++;
    }
}

#define NULLED(call)                                                                               \
    do {                                                                                           \
        exg_error_clear(&err);                                                                     \
        exg_status status_ = (call); /* NOLINT */                                                  \
        look(#call, status_, &err);                                                                \
    } while (0)

static void check_formats(void)
{
    exg_error err;

    NULLED(exg_open(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_open_memory(NULL, 0, NULL, NULL, NULL, &err));
    NULLED(exg_save(NULL, NULL, EXG_FORMAT_PT2, NULL, &err));
    NULLED(exg_weights_sniff(NULL, NULL, NULL, &err));
    NULLED(exg_weights_unwrap(NULL, NULL, &err));
    NULLED(exg_weights_open(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_weights_open_memory(NULL, 0, NULL, NULL, NULL, &err));
    NULLED(exg_weights_save(NULL, NULL, NULL, &err));
    NULLED(exg_byte_source_of_stream(0, 0, NULL, &err));
    NULLED(exg_http_create(NULL, NULL, &err));
    NULLED(exg_http_open_source(NULL, NULL, NULL, &err));
    NULLED(exg_tensor_file_open(NULL, NULL, &err));
    NULLED(exg_tensor_file_open_memory(NULL, 0, NULL, &err));
    NULLED(exg_tensor_file_save(NULL, NULL, 0, NULL, &err));
}

static void check_artifact(void)
{
    exg_error err;

    NULLED(exg_program_digest(NULL, EXG_CHECKSUM_SHA256, 0, NULL, &err));
    NULLED(exg_digest_prove(NULL, NULL, EXG_CHECKSUM_SHA256, NULL, 0, 0, 0, NULL, &err));
    NULLED(exg_digest_check_proof(NULL, 0, NULL, NULL, NULL, &err));
    NULLED(exg_model_sign(NULL, NULL, NULL, NULL, NULL, &err));
    NULLED(exg_model_check_signature(NULL, NULL, NULL, NULL, NULL, &err));
    NULLED(exg_store_open(NULL, false, NULL, &err));
    NULLED(exg_store_add(NULL, NULL, NULL, 0, NULL, &err));
    NULLED(exg_store_export(NULL, NULL, NULL, false, NULL, &err));
    NULLED(exg_store_remove(NULL, NULL, &err));
    NULLED(exg_store_collect(NULL, NULL, &err));
    NULLED(exg_store_names(NULL, NULL, &err));
    NULLED(exg_store_verify(NULL, 0, NULL, NULL, &err));
    NULLED(exg_model_bom(NULL, NULL, 0, NULL, &err));
    NULLED(exg_patch_make(NULL, NULL, NULL, NULL, NULL, &err));
    NULLED(exg_patch_apply(NULL, NULL, NULL, NULL, NULL, &err));
    NULLED(exg_patch_describe(NULL, NULL, &err));
}

static void check_program(void)
{
    exg_error err;

    NULLED(exg_argument_copy(NULL, NULL, &err));
    NULLED(exg_program_create(NULL, 0, NULL, &err));
    NULLED(exg_program_copy(NULL, NULL, &err));
    NULLED(exg_program_print(NULL, NULL, &err));
    NULLED(exg_program_print_graph(NULL, NULL, &err));
    NULLED(exg_graph_print(NULL, NULL, &err));
}

static void check_signature(void)
{
    exg_error err;

    NULLED(exg_signature_user_inputs(NULL, NULL, 0, NULL, &err));
    NULLED(exg_signature_user_outputs(NULL, EXG_WITH_LOSS, NULL, 0, NULL, &err));
    NULLED(exg_signature_input_tokens(NULL, NULL, 0, NULL, &err));
    NULLED(exg_signature_output_tokens(NULL, NULL, 0, NULL, &err));
    NULLED(exg_signature_backward(NULL, NULL, NULL, &err));
    NULLED(exg_signature_from_maps(NULL, NULL, NULL, 0, NULL, 0, NULL, &err));
    NULLED(exg_signature_from_graph(NULL, NULL, &err));
    NULLED(exg_input_spec_check(NULL, &err));
    NULLED(exg_output_spec_check(NULL, &err));
    NULLED(exg_signature_rename(NULL, NULL, NULL, EXG_TARGETS_FOLLOW, &err));
    NULLED(exg_signature_replace_hook(NULL, NULL, NULL, EXG_USE_NODE, false, false,
                                      EXG_TARGETS_STAY, &err));
    NULLED(exg_program_replace_uses(NULL, 0, 0, &err));
    NULLED(exg_program_rename_value(NULL, NULL, NULL, &err));
    NULLED(exg_signature_print(NULL, NULL, &err));
    NULLED(exg_signature_repr(NULL, NULL, &err));
}

static void check_operators(void)
{
    exg_error err;

    NULLED(exg_function_schema_parse(NULL, NULL, NULL, &err));
    NULLED(exg_operators_create(NULL, &err));
    NULLED(exg_operators_register(NULL, NULL, &err));
    NULLED(exg_operators_load(NULL, NULL, &err));
    NULLED(exg_operators_load_for(NULL, NULL, &err));
    NULLED(exg_operator_normalize(NULL, NULL, NULL, &err));
    NULLED(exg_operator_infer(NULL, NULL, NULL, NULL, NULL, NULL, &err));
    NULLED(exg_operator_evaluate(NULL, NULL, 0, NULL, NULL, &err));
    NULLED(exg_builder_create(NULL, NULL, NULL, &err));
    NULLED(exg_builder_finish(NULL, &err));
}

static void check_symint(void)
{
    exg_error err;

    NULLED(exg_symbols_add(NULL, NULL, NULL, 0, 0, &err));
    NULLED(exg_symint_evaluate(NULL, NULL, NULL, &err));
    NULLED(exg_symfloat_evaluate(NULL, NULL, NULL, &err));
    NULLED(exg_symint_visit(NULL, NULL, NULL, &err));
}

static void check_transform(void)
{
    exg_error err;

    NULLED(exg_bind_inputs(NULL, NULL, 0, NULL, NULL, NULL, &err));
    NULLED(exg_bind_hints(NULL, NULL, NULL, &err));
    NULLED(exg_bind_asked(NULL, NULL, 0, NULL, NULL, &err));
    NULLED(exg_program_part(NULL, NULL, NULL, 0, NULL, NULL, &err));
    assert_null(exg_graph_within(NULL, 1));
    NULLED(exg_program_unwrap(NULL, NULL, &err));
    NULLED(exg_program_take_blocks(NULL, NULL, NULL, &err));
    NULLED(exg_weights_wrap(NULL, NULL, NULL, &err));
    NULLED(exg_missing_operators(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_specialize(NULL, NULL, NULL, &err));
    NULLED(exg_decompose(NULL, NULL, NULL, &err));
    NULLED(exg_functionalize(NULL, NULL, NULL, &err));
    NULLED(exg_simplify(NULL, NULL, NULL, &err));
}

static void check_verify(void)
{
    exg_error err;

    NULLED(exg_verify(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_verify_data(NULL, NULL, NULL, &err));
    NULLED(exg_verify_values(NULL, NULL, 0, &err));
    NULLED(exg_file_describe(NULL, NULL, NULL, &err));
    NULLED(exg_save_programs(NULL, 1, NULL, EXG_FORMAT_PT2, NULL, &err));
    NULLED(exg_verify_file(NULL, NULL, NULL, NULL, &err));
}

static void check_weights(void)
{
    exg_error err;

    NULLED(exg_weights_create(NULL, NULL, &err));
    NULLED(exg_weights_add_storage(NULL, NULL, NULL, &err));
    NULLED(exg_weights_add(NULL, NULL, &err));
    NULLED(exg_weights_add_metadata(NULL, NULL, NULL, &err));
    NULLED(exg_weights_add_metadata_as(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_weights_skip(NULL, NULL, NULL, &err));
    NULLED(exg_weights_skip_code(NULL, NULL, NULL, EXG_CODE_NONE, &err));
    NULLED(exg_weights_own(NULL, NULL, NULL, &err));
    NULLED(exg_weights_set_directory(NULL, NULL, &err));
    NULLED(exg_storage_read(NULL, 0, 0, 0, NULL, &err));
    NULLED(exg_storage_map(NULL, 0, NULL, &err));
    NULLED(exg_weight_read(NULL, NULL, NULL, 0, &err));
    NULLED(exg_weight_read_range(NULL, NULL, 0, 0, NULL, &err));
    NULLED(exg_tensor_meta_bytes(NULL, NULL, &err));
    NULLED(exg_tensor_meta_check_view(NULL, 0, &err));
    NULLED(exg_weights_digest(NULL, EXG_CHECKSUM_SHA256, 0, NULL, &err));
    NULLED(exg_weights_inspect(NULL, NULL, &err));
    NULLED(exg_weights_verify(NULL, NULL, NULL, &err));
    NULLED(exg_weight_measure(NULL, NULL, NULL, &err));
    NULLED(exg_weights_join(NULL, 1, NULL, &err));
    NULLED(exg_weights_edit(NULL, NULL, NULL, &err));
    NULLED(exg_weights_slice(NULL, NULL, 0, NULL, &err));
    NULLED(exg_weights_set_offsets(NULL, NULL, &err));
    NULLED(exg_weights_concatenate(NULL, 0, NULL, NULL, &err));
    NULLED(exg_weights_merge(NULL, 1, NULL, NULL, &err));
    NULLED(exg_weights_save_ranks(NULL, 1, NULL, NULL, &err));
    NULLED(exg_ranks_save_begin(NULL, NULL, &err));
    NULLED(exg_ranks_save_resume(NULL, NULL, &err));
    NULLED(exg_ranks_save_file(NULL, NULL, NULL, &err));
    NULLED(exg_ranks_save_end(NULL, NULL, 1, &err));
    NULLED(exg_ranks_save_join(NULL, NULL, 1, NULL, NULL, &err));
    NULLED(exg_partition_weights(NULL, NULL, NULL, NULL, NULL, NULL, NULL, &err));
    NULLED(exg_model_numbers(NULL, NULL, NULL, &err));
    NULLED(exg_weights_strip(NULL, NULL, &err));
    NULLED(exg_weights_splat(NULL, 0, NULL, &err));
    NULLED(exg_weights_in_order(NULL, EXG_LITTLE_ENDIAN, NULL, &err));
    NULLED(exg_weights_fill(NULL, NULL, false, NULL, NULL, &err));
    NULLED(exg_storage_check(NULL, 0, &err));
    NULLED(exg_weights_check(NULL, NULL, &err));
}

static void check_diff(void)
{
    exg_error err;

    NULLED(exg_diff_weights(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_diff_programs(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_program_inspect(NULL, NULL, NULL, &err));
    NULLED(exg_annotations_open(NULL, NULL, NULL, &err));
    NULLED(exg_index_limit(NULL, 0, NULL, NULL, &err));
    NULLED(exg_first_segment(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_input_paths(NULL, NULL, NULL, &err));
    NULLED(exg_program_at_stage(NULL, NULL, EXG_STAGE_DECOMPOSE, NULL, &err));
    NULLED(exg_json_written(NULL, &err));
    NULLED(exg_file_write(NULL, NULL, 0, &err));
    NULLED(exg_tensor_file_check_name(NULL, &err));
}

static void check_session(void)
{
    exg_error err;

    NULLED(exg_session_create(NULL, NULL, NULL, &err));
    NULLED(exg_operator_describe(NULL, NULL, &err));
    NULLED(exg_session_run(NULL, NULL, 0, &err));
    NULLED(exg_session_launch(NULL, NULL, 0, &err));
    NULLED(exg_session_wait(NULL, &err));
    NULLED(exg_session_fence(NULL, NULL, &err));
    NULLED(exg_session_after(NULL, NULL, &err));
    NULLED(exg_session_after_event(NULL, NULL, &err));
    NULLED(exg_fence_wait(NULL, &err));
    NULLED(exg_session_find_input(NULL, NULL, NULL, &err));
    NULLED(exg_session_bind_input(NULL, NULL, &err));
    NULLED(exg_session_bind_output(NULL, 0, NULL, &err));
    NULLED(exg_session_bind_rank_input(NULL, 0, NULL, &err));
    NULLED(exg_session_bind_rank_output(NULL, 0, 0, NULL, &err));
    NULLED(exg_session_rank_allocate(NULL, 0, 0, NULL, &err));
    NULLED(exg_session_allocate(NULL, 0, NULL, &err));
    NULLED(exg_session_copy_in(NULL, NULL, NULL, 0, &err));
    NULLED(exg_session_copy_out(NULL, NULL, NULL, 0, &err));
    NULLED(exg_session_prepare(NULL, NULL, 0, &err));
    NULLED(exg_session_state_set(NULL, NULL, 0, NULL, &err));
    NULLED(exg_sessions_check_collectives(NULL, 1, &err));
    NULLED(exg_costs_measure(0, false, NULL, &err));
}

static void check_plan(void)
{
    exg_error err;

    NULLED(exg_plan_create(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_plan_print(NULL, NULL, &err));
}

static void check_place(void)
{
    exg_error err;

    NULLED(exg_costs_open(NULL, NULL, &err));
    NULLED(exg_costs_save(NULL, NULL, &err));
    NULLED(exg_partition_options_open(NULL, 0, 1, NULL, NULL, &err));
    NULLED(exg_partition(NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, &err));
}

static void check_placement(void)
{
    exg_error err;

    NULLED(exg_placement_parse(NULL, NULL, &err));
}

static void check_device(void)
{
    exg_error err;

    NULLED(exg_device_count(NULL, NULL, &err));
    NULLED(exg_device_describe(NULL, 0, NULL, &err));
    NULLED(exg_isa_choose(NULL, &err));
}

static void check_device_mesh(void)
{
    exg_error err;

    NULLED(exg_mpi_mesh_create(NULL, NULL, &err));
    NULLED(exg_local_mesh_create(NULL, NULL, &err));
    NULLED(exg_device_mesh_find_dim(NULL, NULL, NULL, &err));
    NULLED(exg_device_mesh_slice(NULL, NULL, 0, NULL, &err));
    NULLED(exg_device_mesh_flatten(NULL, NULL, 0, NULL, NULL, &err));
    NULLED(exg_device_mesh_select(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_device_mesh_self(NULL, NULL, &err));
}

static void check_dtensor(void)
{
    exg_error err;

    NULLED(exg_dtensor_from_local(NULL, NULL, NULL, 0, NULL, NULL, &err));
    NULLED(exg_dtensor_copy_to_host(NULL, NULL, NULL, &err));
    NULLED(exg_dtensor_copy_from_host(NULL, NULL, NULL, &err));
    NULLED(exg_distribute_tensor(NULL, NULL, NULL, 0, 0, NULL, &err));
    NULLED(exg_module_create(NULL, NULL, &err));
    NULLED(exg_distribute_module(NULL, NULL, NULL, NULL, NULL, &err));
    NULLED(exg_module_assign(NULL, NULL, NULL, 0, &err));
    NULLED(exg_module_forward(NULL, NULL, NULL, 0, NULL, 0, &err));
    NULLED(exg_module_session(NULL, NULL, NULL, &err));
    NULLED(exg_dtensor_redistribute(NULL, NULL, 0, NULL, &err));
    NULLED(exg_dtensor_wait(NULL, &err));
    NULLED(exg_dtensor_full_tensor(NULL, NULL, &err));
    NULLED(exg_to_local_backward(NULL, NULL, NULL, 0, NULL, &err));
    NULLED(exg_from_local_backward(NULL, NULL, NULL, 0, NULL, &err));
    NULLED(exg_redistribute_backward(NULL, NULL, NULL, &err));
    NULLED(exg_dtensor_coerce_like(NULL, NULL, NULL, &err));
    NULLED(exg_dtensor_coerce_tangent(NULL, NULL, &err));
    NULLED(exg_dtensor_empty(NULL, NULL, NULL, &err));
    NULLED(exg_dtensor_zeros(NULL, NULL, NULL, &err));
    NULLED(exg_dtensor_ones(NULL, NULL, NULL, &err));
    NULLED(exg_dtensor_full(NULL, NULL, exg_scalar_int(0), NULL, &err));
    NULLED(exg_dtensor_arange(NULL, NULL, 0, 0, NULL, &err));
    NULLED(exg_dtensor_rand(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_dtensor_randn(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_dtensor_set_requires_grad(NULL, false, &err));
    NULLED(exg_dtensor_print(NULL, NULL, &err));
    NULLED(exg_dtensor_print_whole(NULL, NULL, &err));
    NULLED(exg_dtensor_chunk(NULL, NULL, NULL, &err));
    NULLED(exg_dtensor_write_items(NULL, NULL, NULL, 0, NULL, &err));
    NULLED(exg_dtensor_shard_at(NULL, NULL, NULL, &err));
    NULLED(exg_checkpoint_save(NULL, NULL, 1, NULL, NULL, &err));
    NULLED(exg_checkpoint_load(NULL, NULL, 1, NULL, NULL, &err));
}

static void check_dispatch(void)
{
    exg_error err;

    NULLED(exg_op_schema_from_call(NULL, NULL, NULL, 0, NULL, 0, NULL, &err));
    NULLED(exg_op_schema_set_value(NULL, 0, NULL, &err));
    NULLED(exg_op_schema_print(NULL, NULL, &err));
    NULLED(exg_dispatcher_create(NULL, NULL, NULL, &err));
    NULLED(exg_dispatcher_configure(NULL, NULL, &err));
    NULLED(exg_dispatcher_register(NULL, NULL, NULL, &err));
    NULLED(exg_dispatch(NULL, NULL, NULL, 0, NULL, 0, NULL, &err));
    NULLED(exg_propagate_input_sharding(NULL, NULL, NULL, NULL, NULL, NULL, NULL, &err));
    NULLED(exg_pack_args(NULL, NULL, 0, false, NULL, NULL, NULL, &err));
    NULLED(exg_wrap(NULL, NULL, NULL, &err));
    NULLED(exg_dtensor_item(NULL, NULL, &err));
    NULLED(exg_empty(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_zeros(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_ones(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_full(NULL, NULL, NULL, exg_scalar_int(0), NULL, &err));
    NULLED(exg_rand(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_randn(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_scalar_store(EXG_DTYPE_F32, NULL, exg_scalar_int(0), &err));
}

static void check_autograd(void)
{
    exg_error err;

    NULLED(exg_dispatcher_push_mesh(NULL, NULL, &err));
    NULLED(exg_dispatcher_self(NULL, NULL, &err));
    NULLED(exg_from_local(NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, &err));
    NULLED(exg_to_local(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_redistribute(NULL, NULL, NULL, 0, NULL, NULL, &err));
    NULLED(exg_full_tensor(NULL, NULL, NULL, NULL, &err));
    NULLED(exg_distribute(NULL, NULL, NULL, NULL, 0, 0, NULL, &err));
    NULLED(exg_backward(NULL, NULL, NULL, 0, NULL, &err));
}

static void every_call_tells_what_it_is_not_given(void **state)
{
    (void)state;
    check_formats();
    check_artifact();
    check_program();
    check_signature();
    check_operators();
    check_symint();
    check_transform();
    check_verify();
    check_weights();
    check_diff();
    check_session();
    check_plan();
    check_place();
    check_placement();
    check_device();
    check_device_mesh();
    check_dtensor();
    check_dispatch();
    check_autograd();
    assert_int_equal(faults, 0);
}

/* Those without room for a fault; and the name is that of what is missing. */
static void what_is_missing_is_named(void **state)
{
    exg_operators *operators;
    exg_program *program;
    exg_error err;

    (void)state;
    assert_int_equal(exg_emit_all(NULL, EXG_OP_relu_default, NULL, 0, NULL), EXG_USAGE);
    assert_int_equal(exg_builder_status(NULL), EXG_USAGE);
    assert_int_equal(exg_weights_add_bytes(NULL, malloc(8), 8, EXG_LITTLE_ENDIAN, NULL, &err),
                     EXG_USAGE);
    assert_int_equal(exg_open("fixtures/none.pt2", NULL, &program, NULL, NULL), EXG_IO);
    assert_null(program);
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    assert_int_equal(exg_verify(program, operators, NULL, NULL, &err), EXG_USAGE);
    assert_string_equal(err.message, "exg_verify: 'program' is NULL");
    assert_int_equal(exg_tensor_file_save("none", NULL, 1, NULL, &err), EXG_USAGE);
    assert_string_equal(err.message, "exg_tensor_file_save: 'items' is NULL");
    exg_operators_destroy(operators);
}

/* As exg_verify leaves it when it fails. */
static void a_program_that_did_not_pass_is_none(void **state)
{
    const exg_verified zeros = {0};
    exg_arena *arena = exg_arena_create(NULL, 1 << 16);
    exg_symbols symbols = {0};
    exg_program *out;
    exg_diff diff;
    exg_error err;

    (void)state;
    NULLED(exg_bind_inputs(&zeros, NULL, 0, NULL, arena, &symbols, &err));
    NULLED(exg_specialize(&zeros, &symbols, &out, &err));
    NULLED(exg_diff_programs(&zeros, &zeros, NULL, &diff, &err));
    assert_int_equal(faults, 0);
    exg_arena_destroy(arena);
}

static void nothing_is_let_go(void **state)
{
    (void)state;
    exg_diff_free(NULL);
    exg_file_info_free(NULL);
    exg_tensor_file_close(NULL);
    exg_arena_destroy(NULL);
    exg_operators_destroy(NULL);
    exg_builder_destroy(NULL);
    exg_program_destroy(NULL);
    exg_error_clear(NULL);
    exg_diagnostics_free(NULL);
    exg_weights_release(NULL);
    exg_mismatches_free(NULL);
    exg_device_mesh_destroy(NULL);
    exg_object_clear(NULL, true);
    exg_dispatcher_destroy(NULL);
    exg_dtensor_destroy(NULL);
    exg_module_destroy(NULL);
    exg_plan_destroy(NULL);
    exg_session_destroy(NULL);
    exg_fence_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_tells_what_it_is_not_given),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(a_program_that_did_not_pass_is_none),
        cmocka_unit_test(nothing_is_let_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
