/* exg_frames.c - byte planes: any range comes back, every plane is plain or stock zstd. */
#include "libexport/weights/frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static uint64_t random_state = 88172645463325252u;

static uint64_t random_number(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

typedef struct packed {
    exg_frames frames;
    uint8_t *stored;
} packed;

static packed pack(const uint8_t *plain, uint64_t length, uint32_t width)
{
    packed made = {.frames = {.plain_length = length, .element_bytes = width}};
    exg_packer *packer;

    assert_int_equal(exg_packer_create(&packer, NULL), EXG_OK);
    made.frames.count = (uint32_t)exg_frame_count(length);
    made.frames.items = calloc(made.frames.count + 1, sizeof(exg_frame));
    made.stored = malloc(length + 1);
    for (uint32_t i = 0; i < made.frames.count; i++) {
        uint64_t at = (uint64_t)i * EXG_FRAME_BYTES;
        uint64_t left = length - at;
        uint32_t count = exg_packer_pack(
            packer, width, plain + at, left < EXG_FRAME_BYTES ? (uint32_t)left : EXG_FRAME_BYTES,
            &made.frames.items[i], made.stored + made.frames.stored_length);

        made.frames.items[i].offset = made.frames.stored_length;
        made.frames.stored_length += count;
    }
    exg_packer_destroy(packer);
    assert_int_equal(exg_frames_check_index(&made.frames, NULL), EXG_OK);
    return made;
}

static void unpack(packed *p)
{
    free(p->frames.items);
    free(p->stored);
}

/* Elements whose last byte is of few values, as exponents are. */
static uint8_t *weights_like(uint64_t length, uint32_t width)
{
    uint8_t *plain = malloc(length + 1);

    for (uint64_t i = 0; i < length; i++) {
        uint64_t r = random_number();

        plain[i] = (uint8_t)(i % width == width - 1 ? 0x3c + (r & r >> 8 & 7) : r);
    }
    return plain;
}

static void it_gives_any_range(void **state)
{
    static const uint32_t widths[] = {1, 2, 4, 8};
    static const uint64_t lengths[] = {0, 1, 3, 7, 1000, EXG_FRAME_BYTES, 3 * EXG_FRAME_BYTES + 13};
    uint8_t *out = malloc(4 * EXG_FRAME_BYTES);

    (void)state;
    for (size_t w = 0; w < 4; w++) {
        for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
            uint64_t length = lengths[l];
            uint8_t *plain = weights_like(length, widths[w]);
            packed p = pack(plain, length, widths[w]);

            for (int i = 0; i < 40; i++) {
                uint64_t offset = random_number() % (length + 1);
                uint64_t count = i == 0 ? length : random_number() % (length - offset + 1);

                offset = i == 0 ? 0 : offset;
                assert_int_equal(
                    exg_frames_read(&p.frames, p.stored, offset, count, out, NULL, NULL), EXG_OK);
                assert_memory_equal(out, plain + offset, count);
            }
            assert_int_equal(exg_frames_read(&p.frames, p.stored, length, 1, out, NULL, NULL),
                             EXG_USAGE);
            unpack(&p);
            free(plain);
        }
    }
    free(out);
}

static void it_stores_mantissas_raw_and_exponents_as_stock_zstd(void **state)
{
    uint8_t *plain = weights_like(EXG_FRAME_BYTES, 4);
    packed p = pack(plain, EXG_FRAME_BYTES, 4);
    uint32_t plane = EXG_FRAME_BYTES / 4;
    uint8_t *out = malloc(plane);

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(p.frames.items[0].planes[i], plane);
    }
    assert_true(p.frames.items[0].planes[3] < plane / 2);
    assert_int_equal(ZSTD_decompress(out, plane, p.stored + 3 * plane, p.frames.items[0].planes[3]),
                     plane);
    for (uint32_t i = 0; i < plane; i++) {
        assert_int_equal(out[i], plain[4 * i + 3]);
    }
    free(out);
    unpack(&p);
    free(plain);
}

static void it_sees_damage_only_where_it_reads(void **state)
{
    uint64_t length = 2 * EXG_FRAME_BYTES;
    uint8_t *plain = weights_like(length, 2);
    packed p = pack(plain, length, 2);
    uint8_t byte;
    exg_error err;

    (void)state;
    p.stored[p.frames.items[1].offset + 3] ^= 1;
    assert_int_equal(exg_frames_read(&p.frames, p.stored, 5, 1, &byte, NULL, &err), EXG_OK);
    assert_int_equal(exg_frames_read(&p.frames, p.stored, length - 1, 1, &byte, NULL, &err),
                     EXG_MALFORMED);
    assert_string_equal(err.code, "EXG-022");
    p.frames.items[1].offset++;
    assert_int_equal(exg_frames_check_index(&p.frames, &err), EXG_MALFORMED);
    p.frames.items[1].offset--;
    p.frames.items[0].planes[5] = 1;
    assert_int_equal(exg_frames_check_index(&p.frames, &err), EXG_MALFORMED);
    p.frames.items[0].planes[5] = 0;
    p.frames.stored_length++;
    assert_int_equal(exg_frames_check_index(&p.frames, &err), EXG_MALFORMED);
    unpack(&p);
    free(plain);
}

/* The program zstd unpacks the plane of exponents as it lies in the file. */
static void it_is_unpacked_by_the_command_zstd(void **state)
{
    char path[] = "/tmp/exg-plane-XXXXXX";
    uint8_t *plain = weights_like(EXG_FRAME_BYTES, 2);
    packed p = pack(plain, EXG_FRAME_BYTES, 2);
    const exg_frame *frame = &p.frames.items[0];
    uint8_t *got = malloc(EXG_FRAME_BYTES);
    char command[200];
    FILE *f;

    (void)state;
    if (system("zstd --version > /dev/null 2>&1") != 0) {
        skip();
    }
    close(mkstemp(path));
    f = fopen(path, "wb");
    assert_int_equal(fwrite(p.stored + frame->planes[0], 1, frame->planes[1], f), frame->planes[1]);
    fclose(f);
    snprintf(command, sizeof(command), "zstd -dcq %s", path);
    f = popen(command, "r");
    assert_int_equal(fread(got, 1, EXG_FRAME_BYTES, f), EXG_FRAME_BYTES / 2);
    assert_int_equal(pclose(f), 0);
    for (uint32_t i = 0; i < EXG_FRAME_BYTES / 2; i++) {
        assert_int_equal(got[i], plain[2 * i + 1]);
    }
    unlink(path);
    free(got);
    free(plain);
    unpack(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_unpacked_by_the_command_zstd),
        cmocka_unit_test(it_gives_any_range),
        cmocka_unit_test(it_stores_mantissas_raw_and_exponents_as_stock_zstd),
        cmocka_unit_test(it_sees_damage_only_where_it_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
