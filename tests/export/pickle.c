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
    uint8_t *copy; /* of exactly the pickle's size, so that a sanitizer sees what is behind it */
    exg_pickle pickle;
    exg_pickle_value *root;
    exg_error err;
    exg_status status;
} opened;

static opened read_pickle_as(const void *data, size_t length, bool strict)
{
    opened o = {.arena = exg_arena_create(NULL, 64 * length + 65536)};
    exg_pickle_options options = {.strict = strict};

    o.copy = malloc(length + (length == 0));
    memcpy(o.copy, data, length);
    exg_error_clear(&o.err);
    o.status = exg_pickle_read(o.copy, length, &options, o.arena, &o.pickle, &o.err);
    o.root = o.pickle.root;
    return o;
}

static opened read_pickle(const void *data, size_t length)
{
    return read_pickle_as(data, length, true);
}

static void close_pickle(opened *o)
{
    exg_arena_destroy(o->arena);
    free(o->copy);
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
    assert_int_equal(o.root->as_tensor->offset, 2);
    assert_int_equal(o.root->as_tensor->sizes->items[1]->as_int, 3);
    close_pickle(&o);
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
    assert_int_equal(w->as_tensor->dtype, EXG_DTYPE_F32);
    assert_int_equal(w->as_tensor->offset, 2);
    assert_int_equal(w->as_tensor->sizes->items[1]->as_int, 3);
    assert_int_equal(w->as_tensor->strides->items[0]->as_int, 3);
    assert_string_equal(w->as_tensor->storage->key, "0");
    assert_int_equal(w->as_tensor->storage->count, 12);
    close_pickle(&o);
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
        close_pickle(&o);
    }
    o = read_pickle("G\x3f\xf8\0\0\0\0\0\0.", 10);
    assert_true(o.status == EXG_OK && o.root->as_float == 1.5);
    close_pickle(&o);
    o = read_pickle(pair, sizeof(pair) - 1);
    assert_true(o.status == EXG_OK && o.root->as_complex.imag == 2);
    close_pickle(&o);
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
        ROW("\x82\x01.", EXG_UNSUPPORTED, "PKL-OPCODE"), /* EXT1 */
        ROW("\x97.", EXG_UNSUPPORTED, "PKL-OPCODE"),     /* NEXT_BUFFER */
        ROW("ccollections\nCounter\n)R.", EXG_UNSUPPORTED, "PKL-GLOBAL"),
        ROW("cbuiltins\ngetattr\n.", EXG_UNSUPPORTED, "PKL-GLOBAL"),
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
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        opened o = read_pickle(rows[r].bytes, rows[r].length);

        if (o.status != rows[r].status || strcmp(o.err.code, rows[r].code) != 0) {
            fail_msg("row %zu: %s %s %s", r, exg_status_name(o.status), o.err.code, o.err.message);
        }
        close_pickle(&o);
    }
}

static void it_refuses_damage(void **state)
{
    static const struct {
        const char *bytes;
        size_t length;
        exg_status status;
        const char *code;
    } rows[] = {
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
        ROW("Nq\x04.", EXG_MALFORMED, "PKL-001"), /* more places than bytes */
        ROW("Nq\x01h\x00.", EXG_MALFORMED, "PKL-001"),
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
        close_pickle(&o);
    }
}

/* Of protocols that torch.export does not write. */
static void it_refuses_damage_in_older_opcodes(void **state)
{
    static const char *const rows[] = {"I99999999999999999999x\n.",
                                       "L-L\n.",
                                       "Ix\n.",
                                       "F1.5x\n.",
                                       "Sabc\n.",
                                       "Np-1\n.",
                                       "Np99\n.",
                                       "(o.",
                                       "(Nd.",
                                       "0.",
                                       "1.",
                                       "2.",
                                       "(I1\n",
                                       "K\x01)R.",
                                       "K\001b.",
                                       "\x8b\x05",
                                       "\x8e\xff\xff\xff\xff\xff\xff\xff\xff."};

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        opened o = read_pickle_as(rows[r], strlen(rows[r]), false);

        if (o.status == EXG_OK || o.err.code[0] == '\0') {
            fail_msg("row %zu: %s", r, exg_status_name(o.status));
        }
        close_pickle(&o);
    }
}

/* The bytes that protocol 2 has of them: the lowest first, in two's complement. */
static void it_reads_large_integers_in_text(void **state)
{
    static const struct {
        const char *text, *bytes;
        size_t length;
    } rows[] = {
        {"L18446744073709551616L\n.", "\0\0\0\0\0\0\0\0\1", 9},
        {"L9223372036854775808L\n.", "\0\0\0\0\0\0\0\x80\0", 9},
        {"L-9223372036854775809L\n.", "\xff\xff\xff\xff\xff\xff\xff\x7f\xff", 9},
        {"I-18446744073709551616\n.", "\0\0\0\0\0\0\0\0\xff", 9},
        {"L1208925819614629174706175L\n.", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0", 11},
    };
    char many[500];

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        opened o = read_pickle_as(rows[r].text, strlen(rows[r].text), false);
        const exg_pickle_value *root = o.pickle.root;

        assert_int_equal(o.status, EXG_OK);
        assert_int_equal(root->kind, EXG_PICKLE_LONG);
        assert_int_equal(root->as_text.length, rows[r].length);
        assert_memory_equal(root->as_text.data, rows[r].bytes, rows[r].length);
        close_pickle(&o);
        o = read_pickle_as(rows[r].text, strlen(rows[r].text), true);
        assert_int_not_equal(o.status, EXG_OK);
        close_pickle(&o);
    }
    memset(many, '7', sizeof(many)); /* too many digits */
    many[0] = 'L';
    memcpy(many + 402, "L\n.", 3);
    opened o = read_pickle_as(many, 405, false);

    assert_int_equal(o.status, EXG_MALFORMED);
    close_pickle(&o);
}

/* A reading that is not strict knows the same attacks for what they are, and runs none. */
static void it_keeps_calls_as_objects(void **state)
{
    static const struct {
        const char *bytes;
        size_t length;
        const char *text; /* what is built */
        exg_skipped_code worst;
    } rows[] = {
#define OBJECT(bytes, text, worst) {bytes, sizeof(bytes) - 1, text, EXG_CODE_##worst}
        OBJECT("cos\nsystem\n(X\x02\0\0\0lstR.", "system('ls')", DANGEROUS),
        OBJECT("(S'ls'\nios\nsystem\n.", "system('ls')", DANGEROUS),
        OBJECT("(cos\nsystem\nS'ls'\no.", "system('ls')", DANGEROUS),
        OBJECT("cposix\nsystem\n.", "posix.system", DANGEROUS),
        OBJECT("\x8c\x0b__builtin__\x8c\x04"
               "eval\x93\x8c\x03"
               "1+1\x85R.",
               "eval('1+1')", DANGEROUS),
        OBJECT("\x8c\x05torch\x8c\x0dnn.os.systemx\x93.", "torch.nn.os.systemx", DANGEROUS),
        OBJECT("\x8c\x05torch\x8c\x09os.system\x93.", "torch.os.system", DANGEROUS),
        OBJECT("cbuiltins\ngetattr\ncnumpy\nos\nX\x06\0\0\0system\x86R.", "numpy.os.system",
               DANGEROUS),
        OBJECT("cbuiltins\ngetattr\nK\x01X\x01\0\0\0x\x86R.", "getattr(1, 'x')", DANGEROUS),
        OBJECT("ctorch.nn.modules.linear\nLinear\n)\x81.", "Linear()", NONE),
        OBJECT("ctorch.nn.modules.linear\nos.system\n)\x81.", "os.system()", DANGEROUS),
        OBJECT("cargparse\nNamespace\n)\x81}X\x01\0\0\0aK\x01sb.", "Namespace(a=1)", NONE),
        OBJECT("ccopyreg\n_reconstructor\n(cargparse\nNamespace\ncbuiltins\nobject\nNtR"
               "}X\x01\0\0\0aK\x01sb.",
               "Namespace(a=1)", NONE),
        OBJECT("cmine\nThing\n(K\x01tR.", "Thing(1)", FOREIGN),
        OBJECT("cmine\nThing\n)}X\x01\0\0\0aK\x01s\x92.", "Thing()", FOREIGN),
        OBJECT("\x82\x07.", "copyreg.extension 7", FOREIGN),
        OBJECT("cos\nsystem\n(X\x02\0\0\0lstR0K\x01.", "1", DANGEROUS), /* thrown away */
        OBJECT("K\x02(cos\nsystem\n1.", "2", DANGEROUS),
        OBJECT("ccollections\ndefaultdict\ncos\nsystem\n\x85R.", "{}", DANGEROUS),
        OBJECT("N.junk", "None", NONE),
        OBJECT("K\x01K\x02.", "2", NONE),
#undef OBJECT
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        opened o = read_pickle_as(rows[r].bytes, rows[r].length, false);
        exg_skipped_code worst = EXG_CODE_NONE;
        exg_text text = EXG_TEXT_EMPTY;

        if (o.status != EXG_OK) {
            fail_msg("row %zu: %s %s", r, o.err.code, o.err.message);
        }
        for (uint32_t i = 0; i < o.pickle.global_count; i++) {
            exg_skipped_code code = o.pickle.globals[i]->code;

            worst = code > worst && (o.pickle.globals[i]->tag == EXG_TAG_FOREIGN ||
                                     o.root->kind == EXG_PICKLE_OBJECT)
                        ? code
                        : worst;
        }
        exg_pickle_put(&text, o.root);
        assert_string_equal(exg_text_string(&text), rows[r].text);
        if (worst != rows[r].worst) {
            fail_msg("row %zu: %d", r, (int)worst);
        }
        exg_text_free(&text);
        close_pickle(&o);
    }
}

/* What torch.load takes without running anything, and what other protocols write. */
static void it_reads_what_is_no_tensor(void **state)
{
    static const struct {
        const char *bytes;
        size_t length;
        const char *text;
    } rows[] = {
#define VALUE(bytes, text) {bytes, sizeof(bytes) - 1, text}
        VALUE("c__builtin__\nset\n](K\x01K\x02"
              "e\x85R.",
              "{1, 2}"),
        VALUE("\x8f(K\x01\x90.", "{1}"),
        VALUE("(K\x01\x91.", "{1}"),
        VALUE("cbuiltins\nfrozenset\n]\x85R.", "set()"),
        VALUE("ccollections\nCounter\n}X\x01\0\0\0aK\x02s\x85R.", "{'a': 2}"),
        VALUE("ccollections\ndefaultdict\ncbuiltins\nlist\n\x85RX\x01\0\0\0aK\x02s.", "{'a': 2}"),
        VALUE("ccollections\nOrderedDict\n]]X\x01\0\0\0a"
              "aK\x01"
              "aa\x85R.",
              "{'a': 1}"),
        VALUE("ccollections\ndeque\n]K\x05\x86R(K\x01K\x02"
              "e.",
              "[1, 2]"),
        VALUE("c_codecs\nencode\nX\x03\0\0\0a\xc3\xbfX\x06\0\0\0latin1\x86R.", "b'a\\xff'"),
        VALUE("cbuiltins\nbytearray\nC\x02xy\x85R.", "b'xy'"),
        VALUE("\x96\x02\0\0\0\0\0\0\0xy.", "b'xy'"),
        VALUE("\x8e\x02\0\0\0\0\0\0\0xy.", "b'xy'"),
        VALUE("\x8a\x0d\0\0\0\0\0\0\0\0\0\0\0\0\x10.", "1267650600228229401496703205376"),
        VALUE("\x8a\x09\0\0\0\0\0\0\0\0\xff.", "-18446744073709551616"),
        VALUE("\x8b\x01\0\0\0\x7f.", "127"),
        VALUE("ctorch\ndevice\nX\x04\0\0\0cudaK\x01\x86R.", "cuda:1"),
        VALUE("ctorch.serialization\n_get_layout\nX\x0d\0\0\0torch.strided"
              "\x85R.",
              "torch.strided"),
        VALUE("ctorch\nper_tensor_affine\n.", "torch.per_tensor_affine"),
        VALUE("ctorch\nfloat4_e2m1fn_x2\n.", "torch.float4_e2m1fn_x2"),
        VALUE("ctorch\nSize\nK\x01K\x02\x86\x85R.", "(1, 2)"),
        VALUE("(lp0\nI1\naI01\naL5L\naF1.5\naVx\naS'y'\nag0\n0.", "[1, True, 5, 1.5, 'x', 'y']"),
        VALUE("(I1\nI2\nd.", "{1: 2}"),
        VALUE("K\x01"
              "2\x86.",
              "(1, 1)"),
        VALUE("Nq\x01h\x01\x86.", "(None, None)"), /* a memo with a gap */
#undef VALUE
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        opened o = read_pickle_as(rows[r].bytes, rows[r].length, false);
        exg_text text = EXG_TEXT_EMPTY;

        if (o.status != EXG_OK) {
            fail_msg("row %zu: %s %s", r, o.err.code, o.err.message);
        }
        exg_pickle_put(&text, o.root);
        if (strcmp(exg_text_string(&text), rows[r].text) != 0) {
            fail_msg("row %zu: %s", r, exg_text_string(&text));
        }
        exg_text_free(&text);
        close_pickle(&o);
    }
}

/* A text stops, however often one thing is named. */
static void it_limits_the_text_of_a_value(void **state)
{
    char laughs[200];
    size_t at = 0;
    exg_text text = EXG_TEXT_EMPTY;
    opened o;

    (void)state;
    laughs[at++] = ']';
    for (uint8_t i = 0; i < 7; i++) { /* lists of ten times the list before */
        laughs[at++] = 'q';
        laughs[at++] = (char)i;
        laughs[at++] = '0';
        laughs[at++] = '(';
        for (int k = 0; k < 10; k++) {
            laughs[at++] = 'h';
            laughs[at++] = (char)i;
        }
        laughs[at++] = 'l';
    }
    laughs[at++] = '.';
    o = read_pickle_as(laughs, at, false);
    assert_int_equal(o.status, EXG_OK);
    exg_pickle_put(&text, o.root);
    assert_true(text.length > EXG_PICKLE_TEXT_MAX && text.length < EXG_PICKLE_TEXT_MAX + 1000);
    exg_text_free(&text);
    close_pickle(&o);
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
    close_pickle(&o);
    memset(marks, 'N', length); /* an object a byte */
    o = read_pickle(marks, length);
    assert_int_not_equal(o.status, EXG_OK);
    close_pickle(&o);
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
    close_pickle(&o);
}

static void it_refuses_every_prefix_and_survives_every_flipped_bit(void **state)
{
    (void)state;
    for (size_t n = 0; n < STATE_DICT_BYTES; n++) {
        opened o = read_pickle(state_dict, n);

        assert_int_not_equal(o.status, EXG_OK);
        close_pickle(&o);
    }
    for (size_t bit = 0; bit < STATE_DICT_BYTES * 8; bit++) {
        char copy[sizeof(state_dict)];
        opened o;

        memcpy(copy, state_dict, sizeof(copy));
        copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << (bit % 8));
        o = read_pickle(copy, STATE_DICT_BYTES);
        assert_true(o.status == EXG_OK || o.err.code[0] != '\0');
        close_pickle(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_a_state_dict),
        cmocka_unit_test(it_reads_a_tensor_with_attributes),
        cmocka_unit_test(it_reads_every_constant),
        cmocka_unit_test(it_refuses_attacks),
        cmocka_unit_test(it_refuses_damage),
        cmocka_unit_test(it_refuses_damage_in_older_opcodes),
        cmocka_unit_test(it_reads_large_integers_in_text),
        cmocka_unit_test(it_keeps_calls_as_objects),
        cmocka_unit_test(it_reads_what_is_no_tensor),
        cmocka_unit_test(it_limits_the_text_of_a_value),
        cmocka_unit_test(it_limits_what_a_short_pickle_builds),
        cmocka_unit_test(it_takes_containers_that_contain_themselves),
        cmocka_unit_test(it_refuses_every_prefix_and_survives_every_flipped_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
