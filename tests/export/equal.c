/* equal.c - exg_program_equal and exg_program_copy: every difference is found, and told by its
 * place. */
#include "tests/export/whole.h"

#include <exg/weights.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define INPUT(i) q->graph->nodes[0].inputs[i]
#define ARG(i)   INPUT(i).arg

/* Makes the change of line `n` of difference.def and gives what is to be said of it, or NULL. */
static const char *change(exg_program *q, int n)
{
    switch (n) {
#define EXG_DIFFERENCE(says, ...)                                                                  \
    case __LINE__:                                                                                 \
        __VA_ARGS__;                                                                               \
        return says;
#include "tests/export/difference.def"
#undef EXG_DIFFERENCE
    default:
        return NULL;
    }
}

static void a_copy_says_the_same(void **state)
{
    exg_program *p = make_whole();
    exg_program *q = NULL;
    char difference[256];

    (void)state;
    assert_int_equal(exg_program_copy(p, &q, NULL), EXG_OK);
    if (!exg_program_equal(p, q, true, difference)) {
        fail_msg("%s", difference);
    }
    assert_string_equal(difference, "");
    assert_true(exg_graph_equal(p->graph, q->graph));
    exg_program_destroy(p);
    exg_program_destroy(q);
}

static void every_difference_is_told(void **state)
{
    exg_program *p = make_whole();
    int count = 0;

    (void)state;
    for (int n = 1; n < 300; n++) {
        char difference[256];
        exg_program *q = NULL;
        const char *says;

        assert_int_equal(exg_program_copy(p, &q, NULL), EXG_OK);
        says = change(q, n);
        if (says != NULL) {
            bool in_graph = strncmp(says, "graph", 5) == 0;

            count++;
            if (exg_program_equal(p, q, true, difference) || strstr(difference, says) == NULL) {
                fail_msg("line %d: '%s', not '%s'", n, difference, says);
            }
            assert_false(exg_program_equal(q, p, true, NULL));
            assert_int_equal(exg_graph_equal(p->graph, q->graph), !in_graph);
        }
        exg_program_destroy(q);
    }
    assert_true(count > 120);
    exg_program_destroy(p);
}

/* Weights are shared by copies: here each program has its own. */
static exg_program *with_weights(uint32_t second_storage, const void *bytes)
{
    exg_program *p = make_whole();
    exg_storage storage = {.length = 16, .data = bytes, .byte_order = EXG_BIG_ENDIAN};
    exg_weight weight = {.fqn = "v", .table = EXG_TABLE_STATE, .is_param = true};
    uint32_t index;

    assert_int_equal(exg_weights_add_storage(p->weights, &storage, &index, NULL), EXG_OK);
    assert_int_equal(index, 2);
    weight.storage = second_storage;
    weight.meta = p->sample_inputs[0].meta;
    assert_int_equal(exg_weights_add(p->weights, &weight, NULL), EXG_OK);
    return p;
}

static void weights_are_compared(void **state)
{
    static const struct {
        const char *says;
        uint32_t storage;
        const char *bytes;
        bool compare_bytes, equal;
    } rows[] = {
        {"", 2, "0123456789abcdef", true, true},
        {"weights['v']: the bytes differ in the MiB from offset 0", 2, "0123456789abcdeF", true,
         false},
        {"", 2, "0123456789abcdeF", false, true},
        {"weights['v']: storages are shared differently", 0, "0123456789abcdef", true, false},
    };
    exg_program *p = with_weights(2, "0123456789abcdef");
    char difference[256];

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_program *q = with_weights(rows[r].storage, rows[r].bytes);

        assert_int_equal(exg_program_equal(p, q, rows[r].compare_bytes, difference), rows[r].equal);
        assert_string_equal(difference, rows[r].says);
        assert_int_equal(exg_program_equal(q, p, rows[r].compare_bytes, NULL), rows[r].equal);
        exg_program_destroy(q);
    }
    exg_program_destroy(p);
}

#define LARGE (2 * 1024 * 1024 + 16)

/* Block by block, to the last byte. */
static void large_weights_are_compared(void **state)
{
    static const struct {
        size_t changed;
        const char *says;
    } rows[] = {
        {LARGE, ""},
        {0, "weights['w']: the bytes differ in the MiB from offset 0"},
        {1024 * 1024, "weights['w']: the bytes differ in the MiB from offset 1048576"},
        {LARGE - 1, "weights['w']: the bytes differ in the MiB from offset 2097152"},
    };
    uint8_t *bytes[2] = {calloc(1, LARGE + 1), calloc(1, LARGE + 1)};
    exg_program *programs[2];
    char difference[256];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        int64_t size = LARGE;
        exg_sym_int sizes[] = {{.value = size}};
        exg_sym_int strides[] = {{.value = 1}};
        exg_tensor_meta meta = {.dtype = EXG_DTYPE_U8,
                                .layout = EXG_LAYOUT_STRIDED,
                                .rank = 1,
                                .sizes = sizes,
                                .strides = strides,
                                .device = {"cpu", -1}};
        exg_storage storage = {.kind = EXG_STORAGE_MEMORY, .length = LARGE, .data = bytes[i]};
        exg_weight weight = {.fqn = "w", .meta = &meta};

        assert_non_null(bytes[i]);
        assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &programs[i], NULL), EXG_OK);
        assert_int_equal(
            exg_weights_add_storage(programs[i]->weights, &storage, &weight.storage, NULL), EXG_OK);
        assert_int_equal(exg_weights_add(programs[i]->weights, &weight, NULL), EXG_OK);
    }
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        bytes[1][rows[r].changed] = 1;
        assert_int_equal(exg_program_equal(programs[0], programs[1], true, difference),
                         rows[r].changed == LARGE);
        assert_string_equal(difference, rows[r].says);
        bytes[1][rows[r].changed] = 0;
    }
    for (size_t i = 0; i < 2; i++) {
        exg_program_destroy(programs[i]);
        free(bytes[i]);
    }
}

static void fields_of_weights_are_compared(void **state)
{
    exg_tensor_meta other;
    exg_program *p = with_weights(2, "0123456789abcdef");
    char difference[256];

    (void)state;
    for (int field = 0; field < 6; field++) {
        static const char *const says[] = {
            "weights['v']: fqn is 'v' and 'u'",      "weights['v']: the table is",
            "weights['v']: is_param is 1 and 0",     "weights['v']: use_pickle is 0 and 1",
            "weights['v']: the tensor metas differ", "weights['v']: only one has a tensor meta"};
        exg_program *q = with_weights(2, "0123456789abcdef");
        exg_weight *weight = &q->weights->items[1];

        other = *weight->meta;
        other.requires_grad = !other.requires_grad;
        weight->fqn = field == 0 ? "u" : weight->fqn;
        weight->table = field == 1 ? EXG_TABLE_CONSTANTS : weight->table;
        weight->is_param = field != 2;
        weight->use_pickle = field == 3;
        weight->meta = field == 4 ? &other : field == 5 ? NULL : weight->meta;
        assert_false(exg_program_equal(p, q, true, difference));
        if (strstr(difference, says[field]) == NULL) {
            fail_msg("'%s', not '%s'", difference, says[field]);
        }
        exg_program_destroy(q);
    }
    exg_program_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_says_the_same),
        cmocka_unit_test(every_difference_is_told),
        cmocka_unit_test(weights_are_compared),
        cmocka_unit_test(large_weights_are_compared),
        cmocka_unit_test(fields_of_weights_are_compared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
