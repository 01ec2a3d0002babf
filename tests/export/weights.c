/* weights.c - storages and views; files that stay in their folder and are whole. */
#include <exg/weights.h>

#include "libexport/base/files.h"
#include "libexport/weights/checksum.h"
#include "libexport/weights/message_digest.h"
#include "libexport/weights/storage.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static char folder[] = "/tmp/exg-weights-XXXXXX";

static void put_file(const char *name, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static unsigned count_entries(void)
{
    DIR *d = opendir(folder);
    unsigned count = 0;

    while (readdir(d) != NULL) {
        count++;
    }
    closedir(d);
    return count;
}

static exg_tensor_meta meta_of(exg_sym_int *numbers, uint32_t rank, int64_t offset)
{
    return (exg_tensor_meta){.dtype = EXG_DTYPE_I16,
                             .layout = EXG_LAYOUT_STRIDED,
                             .rank = rank,
                             .sizes = numbers,
                             .strides = numbers + rank,
                             .storage_offset = exg_sym_int_of(offset),
                             .device = {"cpu", -1}};
}

static void it_gathers_views_row_by_row(void **state)
{
    static const int16_t data[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const struct {
        int64_t numbers[4]; /* sizes, strides */
        int64_t offset;
        int16_t expected[6];
        int count;
    } rows[] = {
        {{2, 3, 3, 1}, 0, {0, 1, 2, 3, 4, 5}, 6}, /* packed */
        {{2, 3, 3, 1}, 2, {2, 3, 4, 5, 6, 7}, 6}, /* at an offset */
        {{2, 3, 1, 2}, 1, {1, 3, 5, 2, 4, 6}, 6}, /* transposed */
        {{2, 3, 0, 1}, 5, {5, 6, 7, 5, 6, 7}, 6}, /* expanded */
        {{2, 2, 1, 1}, 3, {3, 4, 4, 5}, 4},       /* overlapping */
        {{0, 3, 3, 1}, 99, {0}, 0},               /* empty */
    };
    exg_weights *w = NULL;
    exg_storage storage = {
        .kind = EXG_STORAGE_MEMORY, .length = sizeof(data), .data = (const uint8_t *)data};
    uint32_t index;

    (void)state;
    assert_int_equal(exg_weights_create(NULL, &w, NULL), EXG_OK);
    assert_int_equal(exg_weights_add_storage(w, &storage, &index, NULL), EXG_OK);
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_sym_int numbers[4];
        exg_tensor_meta meta = meta_of(numbers, 2, rows[r].offset);
        exg_weight weight = {"w", EXG_TABLE_STATE, false, false, &meta, index};
        int16_t out[6] = {0};

        for (int i = 0; i < 4; i++) {
            numbers[i] = exg_sym_int_of(rows[r].numbers[i]);
        }
        assert_int_equal(exg_weight_read(w, &weight, out, (uint64_t)rows[r].count * 2, NULL),
                         EXG_OK);
        assert_memory_equal(out, rows[r].expected, (size_t)rows[r].count * 2);
        assert_int_equal(exg_weight_read(w, &weight, out, (uint64_t)rows[r].count * 2 + 1, NULL),
                         EXG_USAGE);
    }
    {
        exg_sym_int numbers[2] = {exg_sym_int_of(8), exg_sym_int_of(1)};
        exg_tensor_meta meta = meta_of(numbers, 1, 1);
        exg_weight weight = {"w", EXG_TABLE_STATE, false, false, &meta, index};
        int16_t out[8];
        exg_error err;

        assert_int_equal(exg_weight_read(w, &weight, out, 16, &err), EXG_MALFORMED);
        assert_string_equal(err.code, "WGT-005");
    }
    exg_weights_release(w);
}

static void it_swaps_by_element_and_by_half(void **state)
{
    char a[] = "abcdefgh";
    char b[] = "abcdefgh";
    char c[] = "abcdefgh";

    (void)state;
    exg_bytes_swap(a, 8, EXG_DTYPE_F32);
    assert_string_equal(a, "dcbahgfe");
    exg_bytes_swap(b, 8, EXG_DTYPE_C64);
    assert_string_equal(b, "dcbahgfe");
    exg_bytes_swap(c, 8, EXG_DTYPE_U8);
    assert_string_equal(c, "abcdefgh");
}

/* A million times "a" in odd pieces (FIPS 180-4's third example), and any blocks in both ways. */
static void it_hashes_long_texts_with_and_without_instructions(void **state)
{
    static unsigned char data[64 * 50];
    uint32_t a[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint32_t b[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const struct {
        exg_checksum_kind kind;
        const char *text;
    } rows[] = {
        {EXG_CHECKSUM_SHA256, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
        {EXG_CHECKSUM_SHA1, "34aa973cd4c4daa4f61eeb2bdbad27316534016f"},
        {EXG_CHECKSUM_MD5, "7707d6ae4e027c70eea2a935c2296f21"},
    };
    char text[65];

    (void)state;
    memset(data, 'a', sizeof(data));
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_message_digest digest;

        exg_message_digest_begin(&digest, rows[r].kind);
        for (size_t left = 1000000, piece = 1; left > 0; left -= piece) {
            piece = (piece * 7 + 3) % sizeof(data);
            piece = piece < left ? piece : left;
            exg_message_digest_add(&digest, data, piece);
        }
        exg_message_digest_finish(&digest, text);
        assert_string_equal(text, rows[r].text);
    }
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (unsigned char)((i * 2654435761u) >> 13);
    }
    exg_sha256_blocks(a, data, 50);
    exg_sha256_blocks_plain(b, data, 50);
    assert_memory_equal(a, b, sizeof(a));
}

static void it_knows_its_checksums(void **state)
{
    static const struct {
        exg_checksum_kind kind;
        const char *text;
    } rows[] = {
        {EXG_CHECKSUM_CRC32, "352441c2"},
        {EXG_CHECKSUM_SHA1, "a9993e364706816aba3e25717850c26c9cd0d89d"},
        {EXG_CHECKSUM_MD5, "900150983cd24fb0d6963f7d28e17f72"},
        {EXG_CHECKSUM_SHA256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {EXG_CHECKSUM_XXH3_64, "78af5f94892f3950"},
        {EXG_CHECKSUM_XXH3_128, "06b05ab6733a618578af5f94892f3950"},
    };
    char text[EXG_CHECKSUM_TEXT_MAX];
    exg_hasher *h;

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        h = exg_hasher_create(rows[r].kind);
        exg_hasher_add(h, "a", 1);
        exg_hasher_add(h, "bc", 2);
        exg_hasher_finish(h, text);
        assert_string_equal(text, rows[r].text);
    }
    h = exg_hasher_create(EXG_CHECKSUM_SHA256); /* 56 bytes: padding takes a second block */
    exg_hasher_add(h, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56);
    exg_hasher_finish(h, text);
    assert_string_equal(text, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_null(exg_hasher_create(EXG_CHECKSUM_UNKNOWN));
}

static void it_reads_external_storages_below_its_folder_only(void **state)
{
    static const struct {
        const char *location;
        uint64_t offset, length;
        exg_status status;
    } rows[] = {
        {"inside.bin", 2, 4, EXG_OK},
        {"sub/deep.bin", 0, 4, EXG_OK},
        {"inside.bin", 8, 4, EXG_MALFORMED},
        {"inside.bin", UINT64_MAX, 4, EXG_MALFORMED},
        {"absent.bin", 0, 4, EXG_IO},
        {"../inside.bin", 0, 4, EXG_MALFORMED},
        {"/etc/passwd", 0, 4, EXG_MALFORMED},
        {"sub/../inside.bin", 0, 4, EXG_MALFORMED},
        {"", 0, 4, EXG_MALFORMED},
        {"sub//deep.bin", 0, 4, EXG_MALFORMED},
        {"out.link", 0, 4, EXG_UNSUPPORTED},
        {"sub", 0, 4, EXG_UNSUPPORTED},
    };
    char path[256];

    (void)state;
    put_file("inside.bin", "0123456789");
    snprintf(path, sizeof(path), "%s/sub", folder);
    mkdir(path, 0700);
    put_file("sub/deep.bin", "deep");
    snprintf(path, sizeof(path), "%s/out.link", folder);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_weights *w = NULL;
        exg_storage storage = {.kind = EXG_STORAGE_EXTERNAL,
                               .location = rows[r].location,
                               .offset = rows[r].offset,
                               .length = rows[r].length};
        char text[4];
        const uint8_t *data;
        uint32_t index;
        exg_error err;

        assert_int_equal(exg_weights_create(NULL, &w, NULL), EXG_OK);
        assert_int_equal(exg_weights_set_directory(w, folder, NULL), EXG_OK);
        assert_int_equal(exg_weights_add_storage(w, &storage, &index, NULL), EXG_OK);
        if (exg_storage_read(w, index, 0, 4, text, &err) != rows[r].status) {
            fail_msg("%s: %s %s", rows[r].location, exg_status_name(err.status), err.message);
        }
        if (rows[r].status == EXG_OK) {
            assert_memory_equal(text, rows[r].offset == 2 ? "2345" : "deep", 4);
            assert_int_equal(exg_storage_map(w, index, &data, &err), EXG_OK);
            assert_memory_equal(data, text, 4);
            assert_int_equal(exg_storage_read(w, index, 1, 4, text, &err), EXG_USAGE);
        }
        exg_weights_release(w);
    }
}

static void count_release(void *user)
{
    ++*(int *)user;
}

static void it_goes_with_the_last_reference(void **state)
{
    exg_weights *w = NULL;
    int released = 0;

    (void)state;
    assert_int_equal(exg_weights_create(NULL, &w, NULL), EXG_OK);
    assert_int_equal(exg_weights_own(w, count_release, &released, NULL), EXG_OK);
    assert_ptr_equal(exg_weights_retain(w), w);
    exg_weights_release(w);
    assert_int_equal(released, 0);
    exg_weights_release(w);
    assert_int_equal(released, 1);
    exg_weights_release(NULL);
}

static void it_writes_files_whole_or_not_at_all(void **state)
{
    char path[256];
    char text[64] = {0};
    exg_writer *w = NULL;
    exg_error err;
    unsigned before = count_entries();
    char *large = calloc(1, 200000);
    FILE *f;

    (void)state;
    snprintf(path, sizeof(path), "%s/new.bin", folder);
    assert_int_equal(exg_writer_open(path, &w, &err), EXG_OK);
    assert_int_equal(exg_writer_write(w, "hello", 5, &err), EXG_OK);
    exg_writer_abort(w);
    assert_int_equal(count_entries(), before);
    exg_writer_abort(NULL);
    assert_int_equal(exg_writer_open(path, &w, &err), EXG_OK);
    assert_int_equal(exg_writer_write(w, "hello", 5, &err), EXG_OK);
    assert_int_equal(exg_writer_align(w, 16, &err), EXG_OK);
    assert_int_equal(exg_writer_position(w), 16);
    assert_int_equal(exg_writer_write(w, large, 200000, &err), EXG_OK);
    assert_int_equal(exg_writer_write(w, "end", 3, &err), EXG_OK);
    assert_int_equal(exg_writer_patch(w, 1, "EL", 2, &err), EXG_OK);
    assert_int_equal(access(path, F_OK), -1); /* not there before the commit */
    assert_int_equal(exg_writer_commit(w, &err), EXG_OK);
    assert_int_equal(count_entries(), before + 1);
    f = fopen(path, "rb");
    assert_int_equal(fread(text, 1, 16, f), 16);
    assert_memory_equal(text, "hELlo\0\0\0\0\0\0\0\0\0\0\0", 16);
    fseek(f, 0, SEEK_END);
    assert_int_equal(ftell(f), 200019);
    fclose(f);
    free(large);
    assert_int_equal(exg_writer_open("/nonexistent/folder/x", &w, &err), EXG_IO);
    assert_null(w);
    assert_int_equal(exg_writer_open(folder, &w, &err), EXG_USAGE);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    char command[256];

    (void)state;
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    return system(command);
}

static void it_lists_what_is_skipped_or_refuses_it(void **state)
{
    exg_weights *weights = NULL;
    exg_weights *stripped = NULL;
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_weights_create(NULL, &weights, &err), EXG_OK);
    assert_int_equal(exg_weights_skip(weights, "args", "argparse.Namespace", &err), EXG_OK);
    assert_int_equal(exg_weights_skip(weights, "x", "F6_E2M3", &err), EXG_OK);
    assert_int_equal(exg_weights_strip(weights, &stripped, &err), EXG_OK);
    assert_int_equal(stripped->skipped_count, 2);
    assert_string_equal(stripped->skipped[0].name, "args");
    assert_string_equal(stripped->skipped[1].kind, "F6_E2M3");
    exg_weights_refuse_skipping(weights);
    assert_int_equal(exg_weights_skip(weights, "y", "F4", &err), EXG_UNSUPPORTED);
    assert_string_equal(err.code, "WGT-SKIP");
    assert_int_equal(weights->skipped_count, 2);
    exg_weights_release(stripped);
    exg_weights_release(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_gathers_views_row_by_row),
        cmocka_unit_test(it_swaps_by_element_and_by_half),
        cmocka_unit_test(it_knows_its_checksums),
        cmocka_unit_test(it_hashes_long_texts_with_and_without_instructions),
        cmocka_unit_test(it_reads_external_storages_below_its_folder_only),
        cmocka_unit_test(it_goes_with_the_last_reference),
        cmocka_unit_test(it_writes_files_whole_or_not_at_all),
        cmocka_unit_test(it_lists_what_is_skipped_or_refuses_it),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
