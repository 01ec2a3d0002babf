/* weights_change.c - weights with other bytes: gone, turned around, from another file. */
#include <exg/formats.h>

#include "tests/export/exg_folder.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A program of a fixture takes other weights. */
static void take(exg_program *program, exg_weights *made)
{
    exg_weights_release(program->weights);
    program->weights = made;
}

static uint8_t *read_weight(exg_weights *weights, const char *name, uint64_t *bytes)
{
    const exg_weight *weight = exg_weights_find(weights, EXG_TABLE_STATE, name);
    uint8_t *data;

    weight = weight == NULL ? exg_weights_find(weights, EXG_TABLE_CONSTANTS, name) : weight;
    assert_non_null(weight);
    assert_int_equal(exg_tensor_meta_bytes(weight->meta, bytes, NULL), EXG_OK);
    data = malloc(*bytes + 1);
    assert_int_equal(exg_weight_read(weights, weight, data, *bytes, NULL), EXG_OK);
    return data;
}

/* Every tensor of both reads the same. */
static void assert_same_weights(exg_weights *a, exg_weights *b)
{
    for (uint32_t i = 0; i < a->count; i++) {
        uint64_t bytes = 0;
        uint8_t *x = read_weight(a, a->items[i].fqn, &bytes);
        uint8_t *y = read_weight(b, a->items[i].fqn, &bytes);

        assert_memory_equal(x, y, bytes);
        free(x);
        free(y);
    }
}

static void it_strips_weights_and_leaves_the_rest(void **state)
{
    exg_save_options options = {.size = sizeof(options), .compression = EXG_COMPRESSION_ZSTD};
    exg_program *p = open_program("fixtures/lm.core.dynamic.pt2");
    exg_program *q = open_program("fixtures/lm.core.dynamic.pt2");
    exg_weights *made = NULL;

    (void)state;
    assert_int_equal(exg_weights_strip(p->weights, &made, NULL), EXG_OK);
    take(p, made);
    save_program(q, "whole.exg", NULL);
    save_program(p, "bare.exg", &options);
    assert_true(file_bytes("bare.exg") < file_bytes("whole.exg") / 4);
    exg_program_destroy(p);
    p = open_program(in_folder("bare.exg"));
    assert_int_equal(exg_weights_check(p->weights, NULL, NULL), EXG_OK);
    for (uint32_t i = 0; i < p->weights->count; i++) {
        const exg_weight *weight = &p->weights->items[i];
        uint64_t bytes = 0;
        uint8_t *data;

        if (weight->table == EXG_TABLE_STATE) {
            data = read_weight(p->weights, weight->fqn, &bytes);
            for (uint64_t b = 0; b < bytes; b++) {
                assert_int_equal(data[b], 0);
            }
            free(data);
        }
    }
    exg_program_destroy(p);
    exg_program_destroy(q);
    empty_folder();
}

/* In either byte order, of f32 and bf16. */
static void it_puts_one_number_in_the_place_of_all(void **state)
{
    static const char *const fixtures[] = {"fixtures/mlp.pt2", "fixtures/bf16.pt2"};

    (void)state;
    for (int i = 0; i < 4; i++) {
        exg_program *p = open_program(fixtures[i % 2]);
        exg_weights *made = NULL;

        if (i >= 2) {
            assert_int_equal(exg_weights_in_order(p->weights, EXG_BIG_ENDIAN, &made, NULL), EXG_OK);
            take(p, made);
        }
        assert_int_equal(exg_weights_splat(p->weights, -1.5, &made, NULL), EXG_OK);
        take(p, made);
        for (uint32_t w = 0; w < p->weights->count; w++) {
            const exg_weight *weight = &p->weights->items[w];
            uint64_t bytes = 0;
            uint8_t *data = read_weight(p->weights, weight->fqn, &bytes);

            for (uint64_t b = 0; b < bytes; b += exg_dtype_bytes(weight->meta->dtype)) {
                assert_true(exg_element_value(weight->meta->dtype, data + b) == -1.5);
            }
            free(data);
        }
        exg_program_destroy(p);
    }
}

/* S002-64: big endian per element, complex by halves; swapped when read. */
static void it_turns_byte_order_around_and_reads_the_same(void **state)
{
    static const char *const fixtures[] = {"fixtures/views.pt2", "fixtures/bf16.pt2",
                                           "fixtures/tied.pt2", "fixtures/lm.decode.pt2"};

    (void)state;
    for (size_t i = 0; i < sizeof(fixtures) / sizeof(fixtures[0]); i++) {
        exg_program *p = open_program(fixtures[i]);
        exg_program *q = open_program(fixtures[i]);
        exg_program *r;
        exg_weights *made = NULL;
        exg_error err;

        exg_error_clear(&err);
        if (exg_weights_in_order(p->weights, EXG_BIG_ENDIAN, &made, &err) != EXG_OK) {
            fail_msg("%s: %s %s", fixtures[i], err.code, err.message);
        }
        take(p, made);
        save_program(p, "big.exg", NULL);
        r = open_program(in_folder("big.exg"));
        assert_int_equal(r->weights->storages[r->weights->items[0].storage].byte_order,
                         EXG_BIG_ENDIAN);
        assert_same_weights(r->weights, q->weights);
        assert_int_equal(exg_weights_in_order(r->weights, EXG_LITTLE_ENDIAN, &made, NULL), EXG_OK);
        take(r, made);
        save_program(r, "little.exg", NULL);
        save_program(q, "plain.exg", NULL);
        assert_files_equal("little.exg", "plain.exg");
        exg_program_destroy(p);
        exg_program_destroy(q);
        exg_program_destroy(r);
    }
    empty_folder();
}

static void it_turns_what_a_known_file_holds(void **state)
{
    static const uint8_t bytes[] = {0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0}; /* 1, -2: S002-70 */
    float values[2] = {1, -2};
    int64_t two = 2;
    exg_named_tensor tensor = {"x", EXG_DTYPE_F32, 1, &two, values, sizeof(values)};
    exg_weights *weights = NULL;
    exg_weights *made = NULL;
    uint8_t got[8];

    (void)state;
    assert_int_equal(exg_tensor_file_save(in_folder("x.safetensors"), &tensor, 1, NULL, NULL),
                     EXG_OK);
    assert_int_equal(exg_weights_open(in_folder("x.safetensors"), NULL, &weights, NULL, NULL),
                     EXG_OK);
    assert_int_equal(exg_weights_in_order(weights, EXG_BIG_ENDIAN, &made, NULL), EXG_OK);
    for (uint64_t from = 0; from < 8; from++) { /* from inside an element on, too */
        assert_int_equal(exg_storage_read(made, 0, from, 8 - from, got, NULL), EXG_OK);
        assert_memory_equal(got, bytes + from, 8 - from);
    }
    assert_int_equal(exg_weight_read(made, &made->items[0], got, 8, NULL), EXG_OK);
    assert_memory_equal(got, values, 8);
    exg_weights_release(made);
    exg_weights_release(weights);
    empty_folder();
}

/* The weights of a program, a little changed, as safetensors. */
static void save_changed(const char *fixture, const char *name, uint8_t flip)
{
    exg_program *p = open_program(fixture);
    exg_weights *weights;
    exg_tensor_file *file = NULL;

    assert_int_equal(exg_weights_save(p->weights, in_folder("w.safetensors"), NULL, NULL), EXG_OK);
    exg_program_destroy(p);
    assert_int_equal(exg_tensor_file_open(in_folder("w.safetensors"), &file, NULL), EXG_OK);
    for (uint32_t i = 0; i < file->count; i++) {
        uint8_t *data = malloc(file->items[i].bytes + 1);

        for (uint64_t b = 0; b < file->items[i].bytes; b++) {
            data[b] = ((const uint8_t *)file->items[i].data)[b] ^ flip;
        }
        file->items[i].data = data;
    }
    assert_int_equal(exg_tensor_file_save(in_folder(name), file->items, file->count, NULL, NULL),
                     EXG_OK);
    for (uint32_t i = 0; i < file->count; i++) {
        free((void *)(uintptr_t)file->items[i].data);
    }
    exg_tensor_file_close(file);
    assert_int_equal(exg_weights_open(in_folder(name), NULL, &weights, NULL, NULL), EXG_OK);
    exg_weights_release(weights);
}

/* What is given as it is wanted stays where it is: no process has a copy of it. */
static void assert_in_place(exg_weights *from, exg_weights *made)
{
    for (uint32_t i = 0; i < made->count; i++) {
        const uint8_t *there = NULL;
        const uint8_t *here = NULL;
        uint32_t k = 0;

        while (strcmp(from->items[k].fqn, made->items[i].fqn) != 0) {
            k++;
        }
        assert_int_equal(exg_storage_map(from, from->items[k].storage, &there, NULL), EXG_OK);
        assert_int_equal(exg_storage_map(made, made->items[i].storage, &here, NULL), EXG_OK);
        assert_non_null(here);
        assert_ptr_equal(here, there + from->items[k].meta->storage_offset.value *
                                           exg_dtype_bytes(from->items[k].meta->dtype));
    }
}

static void it_fills_a_program_from_another_file(void **state)
{
    static const char *const fixtures[] = {"fixtures/mlp.pt2", "fixtures/tied.pt2",
                                           "fixtures/lm.decode.pt2", "fixtures/convbn.pt2"};

    (void)state;
    for (size_t i = 0; i < sizeof(fixtures) / sizeof(fixtures[0]); i++) {
        exg_program *p = open_program(fixtures[i]);
        exg_weights *from = NULL;
        exg_weights *made = NULL;
        exg_mismatches mismatches;

        save_changed(fixtures[i], "other.safetensors", 0x55);
        assert_int_equal(exg_weights_open(in_folder("other.safetensors"), NULL, &from, NULL, NULL),
                         EXG_OK);
        assert_int_equal(exg_weights_fill(p->weights, from, false, &made, &mismatches, NULL),
                         EXG_OK);
        assert_int_equal(mismatches.count, 0);
        assert_same_weights(from, made);
        if (i == 0) { /* each a storage of its own */
            assert_in_place(from, made);
        }
        take(p, made);
        save_program(p, "filled.exg", NULL);
        exg_program_destroy(p);
        p = open_program(in_folder("filled.exg"));
        assert_same_weights(from, p->weights);
        exg_weights_release(from);
        exg_program_destroy(p);
    }
    empty_folder();
}

/* As checkpoints have them: one of two names that share bytes. Without either both are told. */
static void a_tied_weight_needs_one_name(void **state)
{
    for (int left_out = 0; left_out < 3; left_out++) {
        exg_program *p = open_program("fixtures/tied.pt2");
        exg_weights *from = NULL;
        exg_weights *made = NULL;
        exg_mismatches mismatches;
        uint32_t kept = 0;

        (void)state;
        save_changed("fixtures/tied.pt2", "other.safetensors", 0x55);
        assert_int_equal(exg_weights_open(in_folder("other.safetensors"), NULL, &from, NULL, NULL),
                         EXG_OK);
        for (uint32_t i = 0; i < from->count; i++) {
            bool is_first = strcmp(from->items[i].fqn, "encode.weight") == 0;
            bool is_second = strcmp(from->items[i].fqn, "decode.weight") == 0;

            if ((!is_first || left_out == 1) && (!is_second || left_out == 0)) {
                from->items[kept++] = from->items[i];
            }
        }
        from->count = kept;
        if (left_out == 2) {
            assert_int_equal(exg_weights_fill(p->weights, from, false, &made, &mismatches, NULL),
                             EXG_MISMATCH);
            assert_int_equal(mismatches.count, 2);
        } else {
            assert_int_equal(exg_weights_fill(p->weights, from, false, &made, &mismatches, NULL),
                             EXG_OK);
            assert_same_weights(from, made);
            from->items[0].fqn = left_out == 0 ? "encode.weight" : "decode.weight";
            assert_same_weights(from, made);
            exg_weights_release(made);
        }
        exg_mismatches_free(&mismatches);
        exg_weights_release(from);
        exg_program_destroy(p);
    }
    empty_folder();
}

/* Views that overlap: unchanged bytes fit, any other contradict each other. */
static void it_fills_views_where_they_lie(void **state)
{
    exg_program *p = open_program("fixtures/views.pt2");
    exg_weights *from = NULL;
    exg_weights *made = NULL;
    exg_mismatches mismatches;
    exg_error err;

    (void)state;
    for (uint8_t flip = 0; flip < 2; flip++) {
        save_changed("fixtures/views.pt2", "other.safetensors", flip);
        assert_int_equal(exg_weights_open(in_folder("other.safetensors"), NULL, &from, NULL, NULL),
                         EXG_OK);
        assert_int_equal(exg_weights_fill(p->weights, from, false, &made, &mismatches, &err),
                         EXG_OK);
        assert_same_weights(from, made);
        exg_mismatches_free(&mismatches);
        exg_weights_release(made);
        exg_weights_release(from);
    }
    exg_program_destroy(p);
    empty_folder();
}

static void it_lists_every_mismatch(void **state)
{
    static const int64_t shapes[][2] = {{8, 16}, {16, 0}, {4, 16}, {3, 3}};
    static const float zeros[256] = {0};
    exg_program *p = open_program("fixtures/mlp.pt2");
    exg_named_tensor items[4];
    exg_weights *from = NULL;
    exg_weights *made = NULL;
    exg_mismatches mismatches;
    exg_error err;
    uint32_t seen[8] = {0};

    (void)state;
    items[0] = (exg_named_tensor){"up.weight", EXG_DTYPE_F32, 2, shapes[0], zeros, 512};
    items[1] = (exg_named_tensor){"up.bias", EXG_DTYPE_F16, 1, shapes[1], zeros, 32};
    items[2] = (exg_named_tensor){"down.weight", EXG_DTYPE_F32, 2, shapes[2], zeros, 256};
    items[3] = (exg_named_tensor){"more", EXG_DTYPE_F32, 2, shapes[3], zeros, 36};
    assert_int_equal(exg_tensor_file_save(in_folder("o.safetensors"), items, 4, NULL, NULL),
                     EXG_OK);
    assert_int_equal(exg_weights_open(in_folder("o.safetensors"), NULL, &from, NULL, NULL), EXG_OK);
    assert_int_equal(exg_weights_fill(p->weights, from, false, &made, &mismatches, &err),
                     EXG_MISMATCH);
    assert_string_equal(err.code, "WGT-FILL");
    assert_null(made);
    for (uint32_t i = 0; i < mismatches.count; i++) {
        seen[mismatches.items[i].kind]++;
    }
    assert_int_equal(seen[EXG_MISMATCH_SHAPE], 1);   /* up.weight */
    assert_int_equal(seen[EXG_MISMATCH_DTYPE], 1);   /* up.bias */
    assert_int_equal(seen[EXG_MISMATCH_MISSING], 1); /* down.bias */
    assert_int_equal(seen[EXG_MISMATCH_UNKNOWN], 1); /* more: no fault */
    assert_int_equal(mismatches.fault_count, 3);
    exg_mismatches_free(&mismatches);
    exg_weights_release(from);
    exg_program_destroy(p);
    empty_folder();
}

/* encode.weight and decode.weight are one parameter: two values for it are a mismatch. */
static void it_refuses_two_values_for_tied_weights(void **state)
{
    exg_program *p = open_program("fixtures/tied.pt2");
    exg_tensor_file *file = NULL;
    exg_weights *from = NULL;
    exg_weights *made = NULL;
    exg_mismatches mismatches;
    uint8_t *other = NULL;

    (void)state;
    save_changed("fixtures/tied.pt2", "same.safetensors", 0);
    assert_int_equal(exg_tensor_file_open(in_folder("same.safetensors"), &file, NULL), EXG_OK);
    for (uint32_t i = 0; i < file->count; i++) {
        if (strcmp(file->items[i].name, "decode.weight") == 0) {
            other = malloc(file->items[i].bytes);
            memcpy(other, file->items[i].data, file->items[i].bytes);
            other[file->items[i].bytes - 1] ^= 1;
            file->items[i].data = other;
        }
    }
    assert_int_equal(
        exg_tensor_file_save(in_folder("two.safetensors"), file->items, file->count, NULL, NULL),
        EXG_OK);
    free(other);
    exg_tensor_file_close(file);
    assert_int_equal(exg_weights_open(in_folder("two.safetensors"), NULL, &from, NULL, NULL),
                     EXG_OK);
    assert_int_equal(exg_weights_fill(p->weights, from, false, &made, &mismatches, NULL),
                     EXG_MISMATCH);
    assert_int_equal(mismatches.count, 1);
    assert_int_equal(mismatches.items[0].kind, EXG_MISMATCH_SHARED);
    exg_mismatches_free(&mismatches);
    exg_weights_release(from);
    exg_program_destroy(p);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_strips_weights_and_leaves_the_rest),
        cmocka_unit_test(it_puts_one_number_in_the_place_of_all),
        cmocka_unit_test(it_turns_byte_order_around_and_reads_the_same),
        cmocka_unit_test(it_turns_what_a_known_file_holds),
        cmocka_unit_test(it_fills_a_program_from_another_file),
        cmocka_unit_test(a_tied_weight_needs_one_name),
        cmocka_unit_test(it_fills_views_where_they_lie),
        cmocka_unit_test(it_lists_every_mismatch),
        cmocka_unit_test(it_refuses_two_values_for_tied_weights),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
