/* pickle_machine.c - the machine's stack, marks and memo, and the operands of its opcodes. */
#include "libexport/formats/pt2/pickle_machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

exg_status exg_machine_damaged(exg_machine *m, const char *what)
{
    return exg_error_at(m->err, EXG_FAIL(m->err, MALFORMED, "PKL-001", "the pickle %s", what),
                        m->at);
}

/* The system has no more, or the pickle may have no more. */
exg_status exg_machine_no_memory(exg_machine *m)
{
    return exg_arena_is_dry(m->arena) ? EXG_OUT_OF_MEMORY(m->err)
                                      : EXG_FAIL(m->err, LIMIT, "PKL-LIMIT",
                                                 "the pickle builds more than its size allows");
}

/* ---- stack, marks, memo ------------------------------------------------------------------ */

exg_status exg_machine_push(exg_machine *m, exg_pickle_value *value)
{
    if (!exg_arena_reserve(m->arena, &m->stack, m->depth, &m->stack_capacity,
                           sizeof(exg_pickle_value *))) {
        return exg_machine_no_memory(m);
    }
    m->stack[m->depth++] = value;
    return EXG_OK;
}

/* The lowest place that may be taken: marks protect what is below. */
uint32_t exg_machine_floor(const exg_machine *m)
{
    return m->mark_count == 0 ? 0 : m->marks[m->mark_count - 1];
}

exg_status exg_machine_pop(exg_machine *m, exg_pickle_value **value)
{
    if (m->depth <= exg_machine_floor(m)) {
        return exg_machine_damaged(m, "takes from an empty stack");
    }
    *value = m->stack[--m->depth];
    return EXG_OK;
}

exg_status exg_machine_top(exg_machine *m, exg_pickle_value **value)
{
    if (m->depth <= exg_machine_floor(m)) {
        return exg_machine_damaged(m, "looks at an empty stack");
    }
    *value = m->stack[m->depth - 1];
    return EXG_OK;
}

exg_status exg_machine_push_mark(exg_machine *m)
{
    if (!exg_arena_reserve(m->arena, &m->marks, m->mark_count, &m->mark_capacity,
                           sizeof(uint32_t))) {
        return exg_machine_no_memory(m);
    }
    m->marks[m->mark_count++] = m->depth;
    return EXG_OK;
}

/* Everything above the last mark, which goes; the items stay valid until a push. */
exg_status exg_machine_pop_mark(exg_machine *m, exg_pickle_value ***items, uint32_t *count)
{
    if (m->mark_count == 0) {
        return exg_machine_damaged(m, "misses a mark");
    }
    m->mark_count--;
    *items = m->stack == NULL ? NULL : m->stack + m->marks[m->mark_count];
    *count = m->depth - m->marks[m->mark_count];
    m->depth = m->marks[m->mark_count];
    return EXG_OK;
}

/* Picklers number their memo in order, optimisers leave gaps; no number passes the bytes. */
exg_status exg_machine_memo_put(exg_machine *m, uint32_t index)
{
    exg_pickle_value *value = NULL;

    EXG_TRY(exg_machine_top(m, &value));
    if (index >= m->length) {
        return exg_machine_damaged(m, "skips places of its memo");
    }
    while (m->memo_count <= index) {
        if (!exg_arena_reserve(m->arena, &m->memo, m->memo_count, &m->memo_capacity,
                               sizeof(exg_pickle_value *))) {
            return exg_machine_no_memory(m);
        }
        m->memo[m->memo_count++] = NULL;
    }
    m->memo[index] = value;
    return EXG_OK;
}

exg_status exg_machine_memo_get(exg_machine *m, uint32_t index)
{
    if (index >= m->memo_count || m->memo[index] == NULL) {
        return exg_machine_damaged(m, "reads an empty place of its memo");
    }
    return exg_machine_push(m, m->memo[index]);
}

/* ---- operands ------------------------------------------------------------------------------ */

exg_status exg_machine_take(exg_machine *m, uint64_t length, const uint8_t **bytes)
{
    if (length > m->length - m->at) {
        return exg_machine_damaged(m, "is cut short");
    }
    *bytes = m->data + m->at;
    m->at += (size_t)length;
    return EXG_OK;
}

exg_status exg_machine_take_unsigned(exg_machine *m, unsigned width, uint64_t *value)
{
    const uint8_t *bytes = NULL;

    EXG_TRY(exg_machine_take(m, width, &bytes));
    *value = 0;
    for (unsigned i = 0; i < width; i++) {
        *value |= (uint64_t)bytes[i] << (8 * i);
    }
    return EXG_OK;
}

/* `width` little-endian bytes, at most 8, as two's complement. */
exg_status exg_machine_take_signed(exg_machine *m, unsigned width, int64_t *value)
{
    uint64_t bits = 0;

    EXG_TRY(exg_machine_take_unsigned(m, width, &bits));
    if (width > 0 && width < 8 && (bits >> (8 * width - 1)) != 0) {
        bits |= UINT64_MAX << (8 * width);
    }
    memcpy(value, &bits, sizeof(bits));
    return EXG_OK;
}

/* A line of text, without its newline. */
exg_status exg_machine_take_line(exg_machine *m, const char **line)
{
    const uint8_t *start = m->data + m->at;
    const uint8_t *end = memchr(start, '\n', m->length - m->at);

    if (end == NULL) {
        return exg_machine_damaged(m, "is cut short");
    }
    m->at += (size_t)(end - start) + 1;
    *line = exg_arena_strndup(m->arena, (const char *)start, (size_t)(end - start));
    return *line == NULL ? exg_machine_no_memory(m) : EXG_OK;
}

exg_pickle_value *exg_machine_new(exg_machine *m, exg_pickle_kind kind)
{
    exg_pickle_value *value = EXG_NEW(m->arena, exg_pickle_value);

    if (value != NULL) {
        value->kind = kind;
    }
    return value;
}

exg_status exg_machine_push_new(exg_machine *m, const exg_pickle_value *made)
{
    exg_pickle_value *value = exg_machine_new(m, made->kind);

    if (value == NULL) {
        return exg_machine_no_memory(m);
    }
    *value = *made;
    return exg_machine_push(m, value);
}

exg_status exg_machine_push_int(exg_machine *m, int64_t number)
{
    return exg_machine_push_new(m, &(exg_pickle_value){.kind = EXG_PICKLE_INT, .as_int = number});
}

exg_status exg_machine_push_constant(exg_machine *m, unsigned which)
{
    static const exg_pickle_value constants[] = {{.kind = EXG_PICKLE_NONE},
                                                 {.kind = EXG_PICKLE_BOOL},
                                                 {.kind = EXG_PICKLE_BOOL, .as_bool = true},
                                                 {.kind = EXG_PICKLE_TUPLE}};

    if (m->constants[which] == NULL) {
        m->constants[which] = exg_arena_memdup(m->arena, &constants[which], 1, sizeof(*constants));
        if (m->constants[which] == NULL) {
            return exg_machine_no_memory(m);
        }
    }
    return exg_machine_push(m, m->constants[which]);
}

exg_status exg_machine_push_float(exg_machine *m)
{
    const uint8_t *bytes = NULL;
    exg_pickle_value value = {.kind = EXG_PICKLE_FLOAT};
    uint64_t bits = 0;

    EXG_TRY(exg_machine_take(m, 8, &bytes));
    for (int i = 0; i < 8; i++) {
        bits = bits << 8 | bytes[i];
    }
    memcpy(&value.as_float, &bits, sizeof(bits));
    return exg_machine_push_new(m, &value);
}

/* A counted text; `width` bytes hold the count. */
exg_status exg_machine_push_text(exg_machine *m, exg_pickle_kind kind, unsigned width)
{
    exg_pickle_value value = {.kind = kind};
    const uint8_t *bytes = NULL;
    uint64_t length = 0;

    EXG_TRY(exg_machine_take_unsigned(m, width, &length));
    EXG_TRY(exg_machine_take(m, length, &bytes));
    value.as_text = (exg_pickle_text){(const char *)bytes, (size_t)length};
    if (kind == EXG_PICKLE_STRING) {
        value.as_text.data = exg_arena_strndup(m->arena, (const char *)bytes, (size_t)length);
    }
    return value.as_text.data == NULL ? exg_machine_no_memory(m) : exg_machine_push_new(m, &value);
}

/* An integer whose count of bytes takes `width` bytes. */
exg_status exg_machine_push_long(exg_machine *m, unsigned width)
{
    exg_pickle_value value = {.kind = EXG_PICKLE_LONG};
    const uint8_t *bytes = NULL;
    uint64_t length = 0;
    int64_t number = 0;

    EXG_TRY(exg_machine_take_unsigned(m, width, &length));
    if (length <= 8) {
        EXG_TRY(exg_machine_take_signed(m, (unsigned)length, &number));
        return exg_machine_push_int(m, number);
    }
    if (m->options->strict) {
        return EXG_FAIL(m->err, UNSUPPORTED, "PKL-LIMIT",
                        "the pickle holds an integer of %llu bytes", (unsigned long long)length);
    }
    EXG_TRY(exg_machine_take(m, length, &bytes));
    value.as_text = (exg_pickle_text){(const char *)bytes, (size_t)length};
    return exg_machine_push_new(m, &value);
}

/* ---- operands as lines: protocols 0 and 1 ---------------------------------------------------- */

#define DIGITS_MAX 400 /* the work grows with their square */

/* An integer of more than 64 bits: its bytes, the lowest first, in two's complement. */
static exg_status push_line_long(exg_machine *m, const char *line)
{
    exg_pickle_value value = {.kind = EXG_PICKLE_LONG};
    bool negative = *line == '-';
    const char *digits = line + negative;
    size_t count = strspn(digits, "0123456789");
    const char *end = digits + count;
    uint8_t *bytes;
    size_t length = 0;
    unsigned carry;

    if (count == 0 || count > DIGITS_MAX || m->options->strict ||
        (*end != '\0' && strcmp(end, "L") != 0)) {
        return exg_machine_damaged(m, "has a number that is none, or of very many digits");
    }
    bytes = EXG_NEW_ARRAY(m->arena, uint8_t, count / 2 + 2);
    if (bytes == NULL) {
        return exg_machine_no_memory(m);
    }
    for (; digits < end; digits++) {
        carry = (unsigned)(*digits - '0');
        for (size_t i = 0; i < length || carry > 0; i++) {
            carry += bytes[i] * 10u;
            bytes[i] = (uint8_t)carry;
            carry >>= 8;
            length = i < length ? length : i + 1;
        }
    }
    length += length == 0 || bytes[length - 1] >= 0x80; /* of the sign */
    carry = 1;
    for (size_t i = 0; negative && i < length; i++) {
        carry += (uint8_t)~bytes[i];
        bytes[i] = (uint8_t)carry;
        carry >>= 8;
    }
    value.as_text = (exg_pickle_text){(const char *)bytes, length};
    return exg_machine_push_new(m, &value);
}

exg_status exg_machine_push_line_int(exg_machine *m)
{
    const char *line = "";
    char *end = NULL;
    long long number;

    EXG_TRY(exg_machine_take_line(m, &line));
    if (strcmp(line, "00") == 0 || strcmp(line, "01") == 0) { /* INT's booleans */
        return exg_machine_push_constant(m, line[1] == '0' ? 1 : 2);
    }
    errno = 0;
    number = strtoll(line, &end, 10);
    if (end == line || errno != 0 || (*end != '\0' && strcmp(end, "L") != 0)) {
        return push_line_long(m, line);
    }
    return exg_machine_push_int(m, number);
}

exg_status exg_machine_push_line_float(exg_machine *m)
{
    exg_pickle_value value = {.kind = EXG_PICKLE_FLOAT};
    const char *line = "";
    char *end = NULL;

    EXG_TRY(exg_machine_take_line(m, &line));
    value.as_float = exg_text_to_double(line, &end);
    if (end == line || *end != '\0') {
        return exg_machine_damaged(m, "has a number that is none");
    }
    return exg_machine_push_new(m, &value);
}

/* STRING in quotes and UNICODE: escapes stay as they are written. */
exg_status exg_machine_push_line_text(exg_machine *m, bool quoted)
{
    exg_pickle_value value = {.kind = EXG_PICKLE_STRING};
    const char *line = "";
    size_t length;

    EXG_TRY(exg_machine_take_line(m, &line));
    length = strlen(line);
    if (quoted && (length < 2 || line[0] != line[length - 1] || strchr("'\"", line[0]) == NULL)) {
        return exg_machine_damaged(m, "has a text without quotes");
    }
    value.as_text.length = quoted ? length - 2 : length;
    value.as_text.data =
        exg_arena_strndup(m->arena, quoted ? line + 1 : line, value.as_text.length);
    return value.as_text.data == NULL ? exg_machine_no_memory(m) : exg_machine_push_new(m, &value);
}

exg_status exg_machine_with_line(exg_machine *m, exg_status (*run)(exg_machine *, uint32_t))
{
    const char *line = "";
    char *end = NULL;
    unsigned long number;

    EXG_TRY(exg_machine_take_line(m, &line));
    number = strtoul(line, &end, 10);
    if (end == line || *end != '\0' || number > UINT32_MAX || line[0] == '-') {
        return exg_machine_damaged(m, "names a place of its memo that is none");
    }
    return run(m, (uint32_t)number);
}
