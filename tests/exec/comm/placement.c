/* placement.c - chunks as torch.chunk cuts them, placements as DTensor writes them. */
#include <exg/placement.h>

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void chunks_are_torchs(void **state)
{
    static const struct {
        int64_t length;
        uint32_t n;
        int64_t sizes[8];
        int64_t offsets[8];
    } rows[] = {
        {5, 4, {2, 2, 1, 0}, {0, 2, 4, 5}},
        {6, 4, {2, 2, 2, 0}, {0, 2, 4, 6}},
        {9, 4, {3, 3, 3, 0}, {0, 3, 6, 9}},
        {10, 4, {3, 3, 3, 1}, {0, 3, 6, 9}},
        {13, 4, {4, 4, 4, 1}, {0, 4, 8, 12}},
        {17, 8, {3, 3, 3, 3, 3, 2, 0, 0}, {0, 3, 6, 9, 12, 15, 17, 17}},
        {1, 4, {1, 0, 0, 0}, {0, 1, 1, 1}},
        {0, 3, {0, 0, 0}, {0, 0, 0}},
        {8, 4, {2, 2, 2, 2}, {0, 2, 4, 6}},
        {7, 1, {7}, {0}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (uint32_t r = 0; r < rows[i].n; r++) {
            int64_t offset;
            int64_t size;

            exg_chunk(rows[i].length, rows[i].n, r, &offset, &size);
            assert_true(size == rows[i].sizes[r] && offset == rows[i].offsets[r]);
        }
    }
}

static void chunks_cover_a_dimension_once(void **state)
{
    (void)state;
    for (int64_t length = 0; length < 40; length++) {
        for (uint32_t n = 1; n < 12; n++) {
            int64_t next = 0;

            for (uint32_t r = 0; r < n; r++) {
                int64_t offset;
                int64_t size;

                exg_chunk(length, n, r, &offset, &size);
                assert_true(offset == next && size >= 0);
                next += size;
            }
            assert_true(next == length);
        }
    }
}

static void lengths_near_2_to_63_do_not_overflow(void **state)
{
    int64_t offset;
    int64_t size;

    (void)state;
    exg_chunk(INT64_MAX, 2, 1, &offset, &size);
    assert_true(offset == INT64_MAX / 2 + 1 && size == INT64_MAX / 2);
    exg_chunk(INT64_MAX, 3, 2, &offset, &size);
    assert_true(offset >= 0 && size >= 0 && offset + size == INT64_MAX);
}

/* S003-35, S003-36 */
static void placements_are_printed_and_read_back(void **state)
{
    char text[EXG_PLACEMENT_TEXT];
    exg_placement back;

    (void)state;
    for (int32_t dim = 0; dim < 8; dim++) {
        (void)exg_placement_print(exg_shard(dim), text);
        assert_int_equal(exg_placement_parse(text, &back, NULL), EXG_OK);
        assert_true(exg_placement_equal(back, exg_shard(dim)));
    }
    for (int op = 0; op < EXG_REDUCE_OP_COUNT; op++) {
        exg_placement p = exg_partial((exg_reduce_op)op);

        assert_int_equal(exg_placement_parse(exg_placement_print(p, text), &back, NULL), EXG_OK);
        assert_true(exg_placement_equal(back, p));
        assert_false(exg_placement_equal(back, exg_replicate()));
    }
    assert_string_equal(exg_placement_print(exg_replicate(), text), "R");
    assert_string_equal(exg_placement_print(exg_shard(1), text), "S(1)");
    assert_string_equal(exg_placement_print(exg_partial(EXG_REDUCE_AVG), text), "P(avg)");
    assert_string_equal(exg_placement_print(exg_strided_shard(1, 2147483647), text),
                        "_S(1, 2147483647)");
    assert_int_equal(exg_placement_parse("_S(-1, 3)", &back, NULL), EXG_OK);
    assert_true(exg_placement_equal(back, exg_strided_shard(-1, 3)));
    assert_int_equal(exg_placement_parse("_StridedShard(dim=0, sf=2)", &back, NULL), EXG_OK);
    assert_true(exg_placement_equal(back, exg_strided_shard(0, 2)));
    assert_false(exg_placement_equal(back, exg_strided_shard(0, 3)));
    assert_false(exg_placement_equal(back, exg_shard(0)));
    assert_int_equal(exg_placement_parse("_S(0)", &back, NULL), EXG_USAGE);
    assert_int_equal(exg_placement_parse("_S(0, 2", &back, NULL), EXG_USAGE);
    assert_int_equal(exg_placement_parse("_S(0, 2, 1)", &back, NULL), EXG_USAGE);
    assert_int_equal(exg_placement_parse("P(median)", &back, NULL), EXG_USAGE);
}

static void pytorchs_spelling_is_read(void **state)
{
    exg_placement p;

    (void)state;
    assert_int_equal(exg_placement_parse("Shard(2)", &p, NULL), EXG_OK);
    assert_true(exg_placement_equal(p, exg_shard(2)));
    assert_int_equal(exg_placement_parse("Shard(dim=3)", &p, NULL), EXG_OK);
    assert_true(exg_placement_equal(p, exg_shard(3)));
    assert_int_equal(exg_placement_parse("S(-1)", &p, NULL), EXG_OK);
    assert_int_equal(p.dim, -1);
    assert_int_equal(exg_placement_parse("Replicate()", &p, NULL), EXG_OK);
    assert_true(exg_placement_equal(p, exg_replicate()));
    assert_int_equal(exg_placement_parse("Partial(max)", &p, NULL), EXG_OK);
    assert_true(exg_placement_equal(p, exg_partial(EXG_REDUCE_MAX)));
    assert_int_equal(exg_placement_parse("Partial()", &p, NULL), EXG_OK);
    assert_true(exg_placement_equal(p, exg_partial(EXG_REDUCE_SUM)));
    assert_int_equal(exg_placement_parse("Partial(reduce_op='avg')", &p, NULL), EXG_OK);
    assert_true(exg_placement_equal(p, exg_partial(EXG_REDUCE_AVG)));
    assert_int_equal(exg_placement_parse("_StridedShard(dim=0, split_factor=2)", &p, NULL), EXG_OK);
    assert_true(exg_placement_equal(p, exg_strided_shard(0, 2)));
    assert_int_equal(exg_placement_parse("_StridedShard(1,split_factor=3)", &p, NULL), EXG_OK);
    assert_true(exg_placement_equal(p, exg_strided_shard(1, 3)));
    assert_int_equal(exg_placement_parse(" Shard( dim = 0 ) ", &p, NULL), EXG_OK);
    assert_true(exg_placement_equal(p, exg_shard(0)));
}

static void what_is_no_placement_is_refused(void **state)
{
    static const char *const rows[] = {"",
                                       "S",
                                       "S()",
                                       "S(",
                                       "S(1",
                                       "S(x)",
                                       "S(1)x",
                                       "S(1)(2)",
                                       "P(mean)",
                                       "P(sum",
                                       "r",
                                       "RR",
                                       "Shard",
                                       "Shard(1",
                                       "P(sum))",
                                       "S(1 )x",
                                       "S(999)",
                                       "S(99999999999999999999)",
                                       "S(dim=)",
                                       "Shard(dim=1",
                                       "Shard(sf=1)",
                                       "_S(dim=0)",
                                       "_S(dim=0, dim=2)",
                                       "_StridedShard(dim=0, split_factor)",
                                       "_StridedShard(dim=0, split_factor=-1)",
                                       "Partial(reduce_op=)",
                                       "Partial(op=sum)",
                                       "Replicate(",
                                       "Replicate(0)"};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_placement p;
        exg_error err;

        if (exg_placement_parse(rows[i], &p, &err) != EXG_USAGE) {
            fail_msg("'%s' is taken for a placement", rows[i]);
        }
        assert_string_equal(err.code, "PLC-001");
        assert_true(err.fix[0] != '\0');
    }
}

/* What is read is what is printed, of each way to reduce. */
static void reductions_have_names(void **state)
{
    static const char *const names[] = {"P(sum)",     "P(avg)",  "P(max)", "P(min)",
                                        "P(product)", "P(band)", "P(bor)", "P(bxor)"};
    static const exg_reduce_op ops[] = {EXG_REDUCE_SUM, EXG_REDUCE_AVG,     EXG_REDUCE_MAX,
                                        EXG_REDUCE_MIN, EXG_REDUCE_PRODUCT, EXG_REDUCE_BAND,
                                        EXG_REDUCE_BOR, EXG_REDUCE_BXOR};

    (void)state;
    assert_int_equal(sizeof(ops) / sizeof(ops[0]), EXG_REDUCE_OP_COUNT);
    assert_string_equal(exg_reduce_op_name(EXG_REDUCE_OP_COUNT), "?");
    for (size_t i = 0; i < EXG_REDUCE_OP_COUNT; i++) {
        char text[EXG_PLACEMENT_TEXT];
        exg_placement read;

        assert_string_equal(exg_placement_print(exg_partial(ops[i]), text), names[i]);
        assert_int_equal(exg_placement_parse(names[i], &read, NULL), EXG_OK);
        assert_true(exg_placement_equal(read, exg_partial(ops[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_torchs),
        cmocka_unit_test(chunks_cover_a_dimension_once),
        cmocka_unit_test(lengths_near_2_to_63_do_not_overflow),
        cmocka_unit_test(placements_are_printed_and_read_back),
        cmocka_unit_test(pytorchs_spelling_is_read),
        cmocka_unit_test(what_is_no_placement_is_refused),
        cmocka_unit_test(reductions_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
