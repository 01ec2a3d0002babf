/* pickle.c - the machine reads what PyTorch pickles and never does what it says. */
#include "libexport/formats/pt2/pickle.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A state dict of one tensor, as torch.save writes it (protocol 2). */
static const char state_dict[] =
    "\x80\x02"
    "}q\x00X\x01\x00\x00\x00wq\x01"
    "ctorch._utils\n_rebuild_tensor_v2\nq\x02"
    "((X\x07\x00\x00\x00storageq\x03"
    "ctorch\nFloatStorage\nq\x04"
    "X\x01\x00\x00\x00"
    "0q\x05X\x03\x00\x00\x00"
    "cpuq\x06K\x0ctq\x07QK\x02K\x02K\x03\x86q\x08K\x03K\x01\x86q\x09\x89"
    "ccollections\nOrderedDict\nq\x0a)Rq\x0btq\x0cRq\x0ds.";
#define STATE_DICT_BYTES (sizeof(state_dict) - 1)

typedef struct opened {
    exg_arena *arena;
    exg_pickle_value *root;
    exg_error err;
    exg_status status;
} opened;

static opened read_pickle(const void *data, size_t length)
{
    opened o = {.arena = exg_arena_create(NULL, 64 * length + 65536)};
    uint8_t *copy = malloc(length + 1);

    memcpy(copy, data, length);
    exg_error_clear(&o.err);
    o.status = exg_pickle_read(copy, length, o.arena, &o.root, &o.err);
    free(copy);
    return o;
}

/* A tensor that carries an attribute, as torch.export leaves on samples of a dynamic size. */
#define FROM_TYPE(builder, type, attributes)                                                       \
    "\x80\x02"                                                                                     \
    "ctorch._tensor\n_rebuild_from_type_v2\n"                                                      \
    "(" builder type "((X\x07\x00\x00\x00storage"                                                  \
    "ctorch\nFloatStorage\n"                                                                       \
    "X\x01\x00\x00\x00"                                                                            \
    "0X\x03\x00\x00\x00"                                                                           \
    "cpuK\x0ctQK\x02K\x02K\x03\x86K\x03K\x01\x86\x89"                                              \
    "ccollections\nOrderedDict\n)Rt" attributes "tR."
#define REBUILD     "ctorch._utils\n_rebuild_tensor_v2\n"
#define SPECIALIZED "}X\x0e\x00\x00\x00_specialize_on}K\x00]ss"

static void it_reads_a_tensor_with_attributes(void **state)
{
    static const char tensor[] = FROM_TYPE(REBUILD, "ctorch\nTensor\n", SPECIALIZED);
    opened o = read_pickle(tensor, sizeof(tensor) - 1);

    (void)state;
    if (o.status != EXG_OK) {
        fail_msg("%s %s", o.err.code, o.err.message);
    }
    assert_int_equal(o.root->kind, EXG_PICKLE_TENSOR);
    assert_int_equal(o.root->as_tensor.offset, 2);
    assert_int_equal(o.root->as_tensor.sizes->items[1]->as_int, 3);
    exg_arena_destroy(o.arena);
}

static void it_reads_a_state_dict(void **state)
{
    opened o = read_pickle(state_dict, STATE_DICT_BYTES);
    const exg_pickle_value *w;

    (void)state;
    if (o.status != EXG_OK) {
        fail_msg("%s %s", o.err.code, o.err.message);
    }
    assert_int_equal(o.root->kind, EXG_PICKLE_DICT);
    assert_int_equal(o.root->as_items.count, 2);
    assert_string_equal(o.root->as_items.items[0]->as_text.data, "w");
    w = o.root->as_items.items[1];
    assert_int_equal(w->kind, EXG_PICKLE_TENSOR);
    assert_int_equal(w->as_tensor.dtype, EXG_DTYPE_F32);
    assert_int_equal(w->as_tensor.offset, 2);
    assert_int_equal(w->as_tensor.sizes->items[1]->as_int, 3);
    assert_int_equal(w->as_tensor.strides->items[0]->as_int, 3);
    assert_string_equal(w->as_tensor.storage->key, "0");
    assert_int_equal(w->as_tensor.storage->count, 12);
    exg_arena_destroy(o.arena);
}

static void it_reads_every_constant(void **state)
{
    static const struct {
        const char *bytes;
        size_t length;
        int64_t value;
    } rows[] = {
        {"K\xff.", 3, 255},
        {"M\xff\xff.", 4, 65535},
        {"J\xff\xff\xff\xff.", 6, -1},
        {"\x8a\x00.", 3, 0},
        {"\x8a\x01\x80.", 4, -128},
        {"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f.", 11, INT64_MAX},
    };
    static const char pair[] = "cbuiltins\ncomplex\nG\x3f\xf0\0\0\0\0\0\0G\x40\0\0\0\0\0\0\0\x86R.";
    opened o;

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        o = read_pickle(rows[r].bytes, rows[r].length);
        assert_int_equal(o.status, EXG_OK);
        assert_int_equal(o.root->kind, EXG_PICKLE_INT);
        assert_true(o.root->as_int == rows[r].value);
        exg_arena_destroy(o.arena);
    }
    o = read_pickle("G\x3f\xf8\0\0\0\0\0\0.", 10);
    assert_true(o.status == EXG_OK && o.root->as_float == 1.5);
    exg_arena_destroy(o.arena);
    o = read_pickle(pair, sizeof(pair) - 1);
    assert_true(o.status == EXG_OK && o.root->as_complex.imag == 2);
    exg_arena_destroy(o.arena);
}

#define ROW(bytes, status, code)                                                                   \
    {                                                                                              \
        bytes, sizeof(bytes) - 1, status, code                                                     \
    }

static void it_refuses_attacks(void **state)
{
    static const struct {
        const char *bytes;
        size_t length;
        exg_status status;
        const char *code;
    } rows[] = {
        ROW("cos\nsystem\n(X\x02\0\0\0lstR.", EXG_UNSUPPORTED, "PKL-GLOBAL"),
        ROW("cposix\nsystem\n.", EXG_UNSUPPORTED, "PKL-GLOBAL"),
        ROW("cbuiltins\neval\n.", EXG_UNSUPPORTED, "PKL-GLOBAL"),
        ROW("ctorch\nload\n.", EXG_UNSUPPORTED, "PKL-GLOBAL"),
        ROW("ctorch.FloatStorage\n__init__\n.", EXG_UNSUPPORTED, "PKL-GLOBAL"),
        ROW("ctorch._export.serde.serialize\n_reconstruct_fake_tensor\n.", EXG_UNSUPPORTED,
            "PKL-GLOBAL"),
        ROW("\x8c\x02os\x8c\x06system\x93.", EXG_UNSUPPORTED, "PKL-GLOBAL"),
        ROW("(S'ls'\nios\nsystem\n.", EXG_UNSUPPORTED, "PKL-OPCODE"),
        ROW("I1\n.", EXG_UNSUPPORTED, "PKL-OPCODE"),
        ROW("\x82\x01.", EXG_UNSUPPORTED, "PKL-OPCODE"),        /* EXT1 */
        ROW("(cos\nsystem\no.", EXG_UNSUPPORTED, "PKL-GLOBAL"), /* OBJ */
        ROW("P1\n.", EXG_UNSUPPORTED, "PKL-OPCODE"),            /* PERSID */
        ROW("ccollections\nOrderedDict\n(K\x01tR.", EXG_UNSUPPORTED, "PKL-CALL"),
        ROW("ctorch\nSize\nK\x01\x85R.", EXG_UNSUPPORTED, "PKL-CALL"),
        ROW("ctorch\nFloatStorage\n)R.", EXG_UNSUPPORTED, "PKL-CALL"),
        ROW(FROM_TYPE("ctorch\nSize\n", "ctorch\nTensor\n", "}"), EXG_UNSUPPORTED, "PKL-CALL"),
        ROW(FROM_TYPE("ctorch._tensor\n_rebuild_from_type_v2\n", "ctorch\nTensor\n", "}"),
            EXG_UNSUPPORTED, "PKL-CALL"),
        ROW(FROM_TYPE(REBUILD, "ctorch\nfloat32\n", "}"), EXG_UNSUPPORTED, "PKL-CALL"),
        ROW(FROM_TYPE(REBUILD, "ctorch\nTensor\n", "N"), EXG_UNSUPPORTED, "PKL-CALL"),
        ROW(FROM_TYPE(REBUILD, "cos\nsystem\n", "}"), EXG_UNSUPPORTED, "PKL-GLOBAL"),
        ROW("K\x01)R.", EXG_MALFORMED, "PKL-001"),
        ROW("K\x01K\x02R.", EXG_MALFORMED, "PKL-001"),
        ROW("}K\x01"
            "b.",
            EXG_UNSUPPORTED, "PKL-CALL"),
        ROW("K\x01Q.", EXG_UNSUPPORTED, "PKL-CALL"),
        ROW("X\x07\0\0\0storageX\x01\0\0\0"
            "aX\x01\0\0\0"
            "bX\x01\0\0\0"
            "cK\x01(tQ.",
            EXG_UNSUPPORTED, "PKL-CALL"),
        ROW("", EXG_MALFORMED, "PKL-001"),
        ROW(".", EXG_MALFORMED, "PKL-001"),
        ROW("NN.", EXG_MALFORMED, "PKL-001"),
        ROW("N.N", EXG_MALFORMED, "PKL-001"),
        ROW("(N.", EXG_MALFORMED, "PKL-001"),
        ROW("t.", EXG_MALFORMED, "PKL-001"),
        ROW("\x85.", EXG_MALFORMED, "PKL-001"),
        ROW("N(\x85.", EXG_MALFORMED, "PKL-001"), /* takes from under a mark */
        ROW("Na.", EXG_MALFORMED, "PKL-001"),
        ROW("NNa.", EXG_MALFORMED, "PKL-001"),
        ROW("}NNa.", EXG_MALFORMED, "PKL-001"),
        ROW("}(Nu.", EXG_MALFORMED, "PKL-001"),
        ROW("h\x00.", EXG_MALFORMED, "PKL-001"),
        ROW("Nq\x01.", EXG_MALFORMED, "PKL-001"),
        ROW("Nr\xff\xff\xff\xff.", EXG_MALFORMED, "PKL-001"),
        ROW("q\x00.", EXG_MALFORMED, "PKL-001"),
        ROW("\x94.", EXG_MALFORMED, "PKL-001"),
        ROW("X\xff\xff\xff\xff"
            "abc.",
            EXG_MALFORMED, "PKL-001"),
        ROW("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
            "abc.",
            EXG_MALFORMED, "PKL-001"),
        ROW("\x8a\x09\1\2\3\4\5\6\7\x08\x09.", EXG_UNSUPPORTED, "PKL-LIMIT"),
        ROW("G\0\0.", EXG_MALFORMED, "PKL-001"),
        ROW("cos", EXG_MALFORMED, "PKL-001"),
        ROW("cos\nsystem", EXG_MALFORMED, "PKL-001"),
        ROW("NN\x93.", EXG_MALFORMED, "PKL-001"),
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        opened o = read_pickle(rows[r].bytes, rows[r].length);

        if (o.status != rows[r].status || strcmp(o.err.code, rows[r].code) != 0) {
            fail_msg("row %zu: %s %s %s", r, exg_status_name(o.status), o.err.code, o.err.message);
        }
        exg_arena_destroy(o.arena);
    }
}

static void it_limits_what_a_short_pickle_builds(void **state)
{
    size_t length = 200000;
    char *marks = malloc(length);
    opened o;

    (void)state;
    memset(marks, '(', length); /* a mark a byte */
    o = read_pickle(marks, length);
    assert_int_not_equal(o.status, EXG_OK);
    exg_arena_destroy(o.arena);
    memset(marks, 'N', length); /* an object a byte */
    o = read_pickle(marks, length);
    assert_int_not_equal(o.status, EXG_OK);
    exg_arena_destroy(o.arena);
    free(marks);
}

static void it_takes_containers_that_contain_themselves(void **state)
{
    opened o = read_pickle("]q\x00h\x00"
                           "a.",
                           7);

    (void)state;
    assert_int_equal(o.status, EXG_OK);
    assert_ptr_equal(o.root->as_items.items[0], o.root);
    exg_arena_destroy(o.arena);
}

static void it_refuses_every_prefix_and_survives_every_flipped_bit(void **state)
{
    (void)state;
    for (size_t n = 0; n < STATE_DICT_BYTES; n++) {
        opened o = read_pickle(state_dict, n);

        assert_int_not_equal(o.status, EXG_OK);
        exg_arena_destroy(o.arena);
    }
    for (size_t bit = 0; bit < STATE_DICT_BYTES * 8; bit++) {
        char copy[sizeof(state_dict)];
        opened o;

        memcpy(copy, state_dict, sizeof(copy));
        copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << (bit % 8));
        o = read_pickle(copy, STATE_DICT_BYTES);
        assert_true(o.status == EXG_OK || o.err.code[0] != '\0');
        exg_arena_destroy(o.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_a_state_dict),
        cmocka_unit_test(it_reads_a_tensor_with_attributes),
        cmocka_unit_test(it_reads_every_constant),
        cmocka_unit_test(it_refuses_attacks),
        cmocka_unit_test(it_limits_what_a_short_pickle_builds),
        cmocka_unit_test(it_takes_containers_that_contain_themselves),
        cmocka_unit_test(it_refuses_every_prefix_and_survives_every_flipped_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
