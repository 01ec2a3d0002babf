/* protobuf.c - the wire format: tag, then what its three low bits say. */
#include "libexport/formats/protobuf.h"

bool exg_protobuf_varint(exg_protobuf *message, uint64_t *value)
{
    *value = 0;
    for (uint32_t shift = 0; shift < 64 && message->at < message->end; shift += 7) {
        uint8_t byte = *message->at++;

        if (shift == 63 && byte > 1) {
            break;
        }
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    message->damaged = true;
    return false;
}

bool exg_protobuf_fixed(exg_protobuf *message, uint32_t bytes, uint64_t *value)
{
    if ((uint64_t)(message->end - message->at) < bytes) {
        message->damaged = true;
        return false;
    }
    *value = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        *value |= (uint64_t)message->at[i] << 8 * i;
    }
    message->at += bytes;
    return true;
}

bool exg_protobuf_next(exg_protobuf *message, exg_protobuf_field *field)
{
    uint64_t tag;

    if (message->damaged || message->at == message->end || !exg_protobuf_varint(message, &tag)) {
        return false;
    }
    *field = (exg_protobuf_field){.number = (uint32_t)(tag >> 3),
                                  .data = (const uint8_t *)"",
                                  .wire = (exg_protobuf_wire)(tag & 7)};
    if (tag > UINT32_MAX || field->number == 0) {
        message->damaged = true;
        return false;
    }
    switch (field->wire) {
    case EXG_PROTOBUF_VARINT:
        return exg_protobuf_varint(message, &field->value);
    case EXG_PROTOBUF_FIXED64:
        return exg_protobuf_fixed(message, 8, &field->value);
    case EXG_PROTOBUF_FIXED32:
        return exg_protobuf_fixed(message, 4, &field->value);
    case EXG_PROTOBUF_BYTES:
        if (exg_protobuf_varint(message, &field->length) &&
            field->length <= (uint64_t)(message->end - message->at)) {
            field->data = message->at;
            message->at += field->length;
            return true;
        }
        break;
    default: /* groups, which nobody writes any more */
        break;
    }
    message->damaged = true;
    return false;
}
