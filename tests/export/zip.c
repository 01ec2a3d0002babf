/* zip.c - the archive index: what honest tools write is read, what lies is refused. */
#include "libexport/formats/pt2/zip.h"
#include "tests/export/maker.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_status open_zip(const void *data, size_t length, exg_arena **arena, exg_zip *zip,
                           exg_error *err)
{
    *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    assert_non_null(*arena);
    exg_error_clear(err);
    return exg_zip_open(data, length, 0, *arena, zip, err);
}

/* Opens from an exact copy and expects `code`, told as `message`. */
static void expect_fault(zip_maker *maker, const char *code, const char *message)
{
    uint8_t *copy = malloc(maker->out.length + 1);
    exg_arena *arena;
    exg_zip zip;
    exg_error err;
    exg_status status;

    memcpy(copy, maker->out.data, maker->out.length);
    status = open_zip(copy, maker->out.length, &arena, &zip, &err);
    if (strcmp(err.code, code) != 0 || (status == EXG_OK) != (code[0] == '\0') ||
        strstr(err.message, message) == NULL) {
        fail_msg("expected %s, got %s %s", code, err.code, err.message);
    }
    exg_arena_destroy(arena);
    free(copy);
    zip_free(maker);
}

static void expect_code(zip_maker *maker, const char *code)
{
    expect_fault(maker, code, "");
}

static void set16(zip_maker *zip, size_t at, uint16_t value)
{
    zip->out.data[at] = (char)value;
    zip->out.data[at + 1] = (char)(value >> 8);
}

static void two_members(zip_maker *zip)
{
    zip_add(zip, "m/a", "hello", 5);
    zip_add_deflated(zip, "m/b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 32);
}

static void it_reads_stored_and_deflated_members(void **state)
{
    zip_maker maker = {0};
    exg_arena *arena;
    exg_zip zip;
    exg_error err;
    const uint8_t *data;
    void *owned;

    (void)state;
    two_members(&maker);
    zip_finish(&maker);
    assert_int_equal(open_zip(maker.out.data, maker.out.length, &arena, &zip, &err), EXG_OK);
    assert_int_equal(zip.count, 2);
    assert_null(exg_zip_find(&zip, "m/c"));
    assert_int_equal(exg_zip_read(&zip, exg_zip_find(&zip, "m/a"), 0, &data, &owned, &err), EXG_OK);
    assert_memory_equal(data, "hello", 5);
    assert_null(owned);
    assert_int_equal(exg_zip_check_crc(&zip, exg_zip_find(&zip, "m/a"), data, &err), EXG_OK);
    assert_int_equal(exg_zip_read(&zip, exg_zip_find(&zip, "m/b"), 32, &data, &owned, &err),
                     EXG_OK);
    assert_memory_equal(data, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 32);
    assert_int_equal(exg_zip_check_crc(&zip, exg_zip_find(&zip, "m/b"), data, &err), EXG_OK);
    free(owned);
    assert_int_equal(exg_zip_read(&zip, exg_zip_find(&zip, "m/b"), 31, &data, &owned, &err),
                     EXG_LIMIT);
    exg_arena_destroy(arena);
    zip_free(&maker);
}

static void it_notices_a_wrong_crc(void **state)
{
    zip_maker maker = {0};
    exg_arena *arena;
    exg_zip zip;
    exg_error err;
    const uint8_t *data;
    void *owned;

    (void)state;
    two_members(&maker);
    zip_finish(&maker);
    maker.out.data[34] ^= 1;
    assert_int_equal(open_zip(maker.out.data, maker.out.length, &arena, &zip, &err), EXG_OK);
    assert_int_equal(exg_zip_read(&zip, &zip.entries[0], 0, &data, &owned, &err), EXG_OK);
    assert_int_equal(exg_zip_check_crc(&zip, &zip.entries[0], data, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "ARC-012");
    exg_arena_destroy(arena);
    zip_free(&maker);
}

static void it_refuses_names_that_are_not_safe(void **state)
{
    static const struct {
        const char *name;
        uint16_t length; /* 0: strlen */
    } rows[] = {{"m/../x", 0}, {"m/./x", 0},      {"m//x", 0},          {"/x", 0},
                {"..", 0},     {".", 0},          {"m\\x", 0},          {"m/x\0y", 5},
                {"m/\xff", 0}, {"m/\xc0\x80", 0}, {"m/\xed\xa0\x80", 0}};
    char longest[600];
    zip_maker maker = {0};

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        zip_add(&maker, "m/ok", "x", 1);
        zip_add(&maker, rows[r].length > 0 ? "m/x_y" : rows[r].name, "x", 1);
        if (rows[r].length > 0) {
            memcpy(maker.members[1].name, rows[r].name, rows[r].length);
        }
        zip_finish(&maker);
        expect_code(&maker, "ARC-014");
    }
    memset(longest, 'x', sizeof(longest));
    longest[511] = '\0';
    zip_add(&maker, longest, "", 0);
    zip_finish(&maker);
    expect_code(&maker, "");
    longest[511] = 'x';
    longest[512] = '\0';
    zip_add(&maker, longest, "", 0);
    zip_finish(&maker);
    expect_code(&maker, "ARC-014");
}

static void it_refuses_names_that_differ_by_case_alone(void **state)
{
    zip_maker maker = {0};

    (void)state;
    zip_add(&maker, "m/Weight_0", "x", 1);
    zip_add(&maker, "m/weight_0", "y", 1);
    zip_finish(&maker);
    expect_code(&maker, "ARC-009");
    zip_add(&maker, "m/w", "x", 1);
    zip_add(&maker, "m/w", "y", 1);
    zip_finish(&maker);
    expect_code(&maker, "ARC-009");
}

/* Changes to the central directory against honest local headers. */
static void it_refuses_directories_that_lie(void **state)
{
    zip_maker maker = {0};

    (void)state;
    two_members(&maker);
    maker.members[1].offset = 0; /* two members share one body */
    zip_finish(&maker);
    expect_code(&maker, "ARC-016");
    two_members(&maker);
    maker.members[0].stored = maker.members[0].plain = 9; /* into the next header */
    zip_finish(&maker);
    expect_code(&maker, "ARC-016");
    two_members(&maker);
    maker.members[0].stored = 4; /* stored, but two sizes */
    zip_finish(&maker);
    expect_code(&maker, "ARC-016");
    two_members(&maker);
    maker.members[1].stored = 0x7fffffff;
    zip_finish(&maker);
    expect_code(&maker, "ARC-016");
    two_members(&maker);
    maker.members[1].offset = 0x7fffffff;
    zip_finish(&maker);
    expect_code(&maker, "ARC-016");
    two_members(&maker);
    strcpy(maker.members[0].name, "m/c"); /* other name than the local header */
    zip_finish(&maker);
    expect_code(&maker, "ARC-016");
    two_members(&maker);
    maker.members[0].crc ^= 1;
    zip_finish(&maker);
    expect_code(&maker, "ARC-016");
    two_members(&maker);
    maker.members[1].method = 0;
    maker.members[1].stored = maker.members[1].plain;
    zip_finish(&maker);
    expect_code(&maker, "ARC-016");
    two_members(&maker);
    maker.members[0].method = 12;
    zip_finish(&maker);
    expect_code(&maker, "ZIP-METHOD");
    two_members(&maker);
    maker.members[0].flags |= 1;
    zip_finish(&maker);
    expect_code(&maker, "ZIP-CRYPT");
}

static void it_refuses_bytes_that_belong_to_nobody(void **state)
{
    zip_maker maker = {0};

    (void)state;
    exg_text_puts(&maker.out, "#!/bin/sh\n"); /* before */
    two_members(&maker);
    zip_finish(&maker);
    expect_code(&maker, "ARC-016");
    zip_add(&maker, "m/a", "x", 1); /* between */
    exg_text_puts(&maker.out, "hidden");
    zip_add(&maker, "m/b", "y", 1);
    zip_finish(&maker);
    expect_code(&maker, "ARC-016");
    two_members(&maker); /* a member the directory does not name */
    maker.count = 1;
    zip_finish(&maker);
    expect_code(&maker, "ARC-016");
    two_members(&maker); /* after */
    zip_finish(&maker);
    exg_text_puts(&maker.out, "x");
    expect_fault(&maker, "ZIP-END", "the archive ends here, 1 bytes follow that are not its own");
}

static void it_refuses_wrong_end_records(void **state)
{
    zip_maker maker = {0};

    (void)state;
    two_members(&maker);
    zip_finish(&maker);
    set16(&maker, maker.out.length - 22 + 8, 3); /* entries, both counts */
    set16(&maker, maker.out.length - 22 + 10, 3);
    expect_code(&maker, "ZIP-END");
    two_members(&maker);
    zip_finish(&maker);
    set16(&maker, maker.out.length - 22 + 8, 1);
    set16(&maker, maker.out.length - 22 + 10, 1);
    expect_code(&maker, "ZIP-DIR");
    two_members(&maker);
    zip_finish(&maker);
    set16(&maker, maker.out.length - 22 + 8, 1); /* entries, one count */
    expect_fault(&maker, "ZIP-END", "counts 1 entries on this disk and 2 in all");
    two_members(&maker);
    zip_finish(&maker);
    set16(&maker, maker.out.length - 22 + 4, 1); /* a second disk */
    expect_code(&maker, "ZIP-DISKS");
    two_members(&maker);
    zip_finish(&maker);
    set16(&maker, maker.out.length - 22 + 16, 0); /* the directory's place */
    expect_code(&maker, "ZIP-END");
}

static void it_refuses_streams_that_do_not_end_properly(void **state)
{
    zip_maker maker = {0};
    char text[4000];

    (void)state;
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = (char)(i * i >> 5);
    }
    for (int kind = 0; kind < 4; kind++) {
        exg_arena *arena;
        exg_zip zip;
        exg_error err;
        const uint8_t *data;
        void *owned;

        zip_add_deflated(&maker, "m/a", text, sizeof(text));
        zip_finish(&maker);
        assert_int_equal(open_zip(maker.out.data, maker.out.length, &arena, &zip, &err), EXG_OK);
        zip.entries[0].bytes -= kind == 0;        /* goes on */
        zip.entries[0].bytes += kind == 1;        /* ends early */
        zip.entries[0].stored_bytes -= kind == 2; /* breaks off */
        if (kind == 3) {
            maker.out.data[40] ^= 0x55;
            maker.out.data[60] ^= 0x55;
        }
        if (exg_zip_read(&zip, &zip.entries[0], 10000, &data, &owned, &err) == EXG_OK) {
            assert_int_equal(kind, 3); /* other bytes, which the crc tells */
            assert_int_equal(exg_zip_check_crc(&zip, &zip.entries[0], data, &err), EXG_MALFORMED);
            free(owned);
        } else {
            assert_string_equal(err.code, "ARC-017");
        }
        exg_arena_destroy(arena);
        zip_free(&maker);
    }
}

static void it_refuses_sizes_that_deflate_cannot_reach(void **state)
{
    zip_maker maker = {0};
    exg_arena *arena;
    exg_zip zip;
    exg_error err;
    const uint8_t *data;
    void *owned;

    (void)state;
    zip_add_deflated(&maker, "m/a", "x", 1);
    zip_finish(&maker);
    assert_int_equal(open_zip(maker.out.data, maker.out.length, &arena, &zip, &err), EXG_OK);
    zip.entries[0].bytes = UINT64_C(1) << 40;
    assert_int_equal(exg_zip_read(&zip, &zip.entries[0], UINT64_MAX, &data, &owned, &err),
                     EXG_MALFORMED);
    assert_string_equal(err.code, "ARC-017");
    exg_arena_destroy(arena);
    zip_free(&maker);
}

static void it_refuses_every_prefix(void **state)
{
    zip_maker maker = {0};

    (void)state;
    two_members(&maker);
    zip_finish(&maker);
    for (size_t n = 0; n < maker.out.length; n++) {
        uint8_t *copy = malloc(n + 1);
        exg_arena *arena;
        exg_zip zip;
        exg_error err;

        memcpy(copy, maker.out.data, n);
        assert_int_not_equal(open_zip(copy, n, &arena, &zip, &err), EXG_OK);
        assert_true(err.code[0] != '\0');
        exg_arena_destroy(arena);
        free(copy);
    }
    zip_free(&maker);
}

static void it_stays_inside_for_every_flipped_bit(void **state)
{
    zip_maker maker = {0};

    (void)state;
    two_members(&maker);
    zip_finish(&maker);
    for (size_t bit = 0; bit < maker.out.length * 8; bit++) {
        uint8_t *copy = malloc(maker.out.length);
        exg_arena *arena;
        exg_zip zip;
        exg_error err;

        memcpy(copy, maker.out.data, maker.out.length);
        copy[bit / 8] = (uint8_t)(copy[bit / 8] ^ 1 << (bit % 8));
        if (open_zip(copy, maker.out.length, &arena, &zip, &err) == EXG_OK) {
            for (uint32_t i = 0; i < zip.count; i++) {
                const uint8_t *data;
                void *owned;

                if (exg_zip_read(&zip, &zip.entries[i], 1 << 20, &data, &owned, &err) == EXG_OK) {
                    (void)exg_zip_check_crc(&zip, &zip.entries[i], data, &err);
                    free(owned);
                }
            }
        }
        exg_arena_destroy(arena);
        free(copy);
    }
    zip_free(&maker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_stored_and_deflated_members),
        cmocka_unit_test(it_notices_a_wrong_crc),
        cmocka_unit_test(it_refuses_names_that_are_not_safe),
        cmocka_unit_test(it_refuses_names_that_differ_by_case_alone),
        cmocka_unit_test(it_refuses_directories_that_lie),
        cmocka_unit_test(it_refuses_bytes_that_belong_to_nobody),
        cmocka_unit_test(it_refuses_wrong_end_records),
        cmocka_unit_test(it_refuses_streams_that_do_not_end_properly),
        cmocka_unit_test(it_refuses_sizes_that_deflate_cannot_reach),
        cmocka_unit_test(it_refuses_every_prefix),
        cmocka_unit_test(it_stays_inside_for_every_flipped_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
