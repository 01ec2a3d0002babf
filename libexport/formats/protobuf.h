/* protobuf.h - a message of Protocol Buffers that lies in memory, field by field.
 *
 * Strict: a field that does not end in its message, a number 0 and groups are damage. Nothing is
 * copied; memory and depth are the caller's.
 */
#ifndef EXG_LIBEXPORT_FORMATS_PROTOBUF_H
#define EXG_LIBEXPORT_FORMATS_PROTOBUF_H

#include <stdbool.h>
#include <stdint.h>

typedef enum exg_protobuf_wire {
    EXG_PROTOBUF_VARINT = 0,
    EXG_PROTOBUF_FIXED64 = 1,
    EXG_PROTOBUF_BYTES = 2, /* also a message, a text, packed numbers */
    EXG_PROTOBUF_FIXED32 = 5
} exg_protobuf_wire;

typedef struct exg_protobuf {
    const uint8_t *at, *end;
    bool damaged;
} exg_protobuf;

typedef struct exg_protobuf_field {
    uint32_t number;
    exg_protobuf_wire wire;
    uint64_t value;      /* of numbers */
    const uint8_t *data; /* of BYTES */
    uint64_t length;
} exg_protobuf_field;

static inline exg_protobuf exg_protobuf_of(const void *data, uint64_t length)
{
    const uint8_t *at = data;
    exg_protobuf made = {at, at + length, false};

    return made;
}

/* The next field; false at the end, and where the message is damaged. */
bool exg_protobuf_next(exg_protobuf *message, exg_protobuf_field *field);

/* A number of packed ones: of any width, or of 4 or 8 bytes. */
bool exg_protobuf_varint(exg_protobuf *message, uint64_t *value);
bool exg_protobuf_fixed(exg_protobuf *message, uint32_t bytes, uint64_t *value);

#endif
