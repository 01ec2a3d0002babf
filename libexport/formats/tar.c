/* tar.c - headers of 512 bytes, each before its member. */
#include "libexport/formats/tar.h"

#include <string.h>

#define BLOCK 512u

static uint64_t octal(const uint8_t *text, size_t length)
{
    uint64_t value = 0;
    size_t i = 0;

    while (i < length && text[i] == ' ') {
        i++;
    }
    for (; i < length && text[i] >= '0' && text[i] <= '7'; i++) {
        value = value << 3 | (uint64_t)(text[i] - '0');
    }
    return value;
}

/* Of more than 8 GiB in base 256, with the first bit set. */
static uint64_t size_of(const uint8_t *header)
{
    uint64_t value = 0;

    if ((header[124] & 0x80) == 0) {
        return octal(header + 124, 12);
    }
    for (int i = 128; i < 136; i++) {
        value = value << 8 | header[i];
    }
    return value;
}

bool exg_tar_sniff(const uint8_t *data, uint64_t length)
{
    uint64_t sum = 0;

    if (length < BLOCK || data[0] == 0) {
        return false;
    }
    for (size_t i = 0; i < BLOCK; i++) {
        sum += i >= 148 && i < 156 ? ' ' : data[i];
    }
    return octal(data + 148, 8) == sum;
}

/* The value of "path" among records of pax ("27 path=a/name\n"); NULL: none. */
static const char *pax_path(const char *text, size_t length, size_t *bytes)
{
    for (size_t at = 0; at < length;) {
        const char *space = memchr(text + at, ' ', length - at);
        size_t record = 0;

        for (size_t i = at; i < length && text[i] >= '0' && text[i] <= '9' && record < length;
             i++) {
            record = record * 10 + (size_t)(text[i] - '0');
        }
        if (space == NULL || record == 0 || record > length - at ||
            (size_t)(space - text) + 1 >= at + record) {
            return NULL;
        }
        if (at + record - (size_t)(space + 1 - text) > 6 && memcmp(space + 1, "path=", 5) == 0) {
            *bytes = at + record - (size_t)(space + 6 - text) - 1;
            return space + 6;
        }
        at += record;
    }
    return NULL;
}

bool exg_tar_next(const uint8_t *data, uint64_t length, uint64_t *at, exg_tar_member *member)
{
    const char *name = NULL;
    size_t name_length = 0;

    while (*at < length && exg_tar_sniff(data + *at, length - *at)) {
        const uint8_t *header = data + *at;
        uint64_t bytes = size_of(header);
        uint64_t begin = *at + BLOCK;
        char type = (char)header[156];

        uint64_t padding = (BLOCK - bytes % BLOCK) % BLOCK;

        if (bytes > length - begin) {
            return false;
        }
        *at = padding > length - begin - bytes ? length : begin + bytes + padding;
        if (type == 'L') { /* the name of the next */
            name = (const char *)data + begin;
            name_length = strnlen(name, (size_t)bytes);
            continue;
        }
        if (type == 'x') {
            name = pax_path((const char *)data + begin, (size_t)bytes, &name_length);
            continue;
        }
        *member = (exg_tar_member){.name = name == NULL ? (const char *)header : name,
                                   .name_length = name == NULL ? strnlen((const char *)header, 100)
                                                               : name_length,
                                   .is_file = type == '0' || type == '\0' || type == '7',
                                   .offset = begin,
                                   .bytes = bytes};
        return true;
    }
    return false;
}
