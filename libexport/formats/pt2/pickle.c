/* pickle.c - the opcodes: containers, names, calls. */
#include "libexport/formats/pt2/pickle_machine.h"

#include <stdlib.h>
#include <string.h>

/* ---- containers ------------------------------------------------------------------------------ */

static exg_status append(exg_machine *m, exg_pickle_items *list, exg_pickle_value **items,
                         uint32_t count)
{
    if (count > UINT32_MAX / 2 - list->count) {
        return exg_machine_no_memory(m);
    }
    if (list->count + count > list->capacity) {
        uint32_t doubled = list->capacity * 2;
        uint32_t capacity = list->count + count > doubled ? list->count + count : doubled;
        exg_pickle_value **moved = EXG_NEW_ARRAY(m->arena, exg_pickle_value *, capacity);

        if (moved == NULL) {
            return exg_machine_no_memory(m);
        }
        if (list->count > 0) {
            memcpy(moved, list->items, list->count * sizeof(exg_pickle_value *));
        }
        list->items = moved;
        list->capacity = capacity;
    }
    if (count > 0) {
        memcpy(list->items + list->count, items, count * sizeof(exg_pickle_value *));
    }
    list->count += count;
    return EXG_OK;
}

static exg_status push_tuple(exg_machine *m, exg_pickle_value **items, uint32_t count)
{
    exg_pickle_value *value = exg_machine_new(m, EXG_PICKLE_TUPLE);

    if (value == NULL) {
        return exg_machine_no_memory(m);
    }
    EXG_TRY(append(m, &value->as_items, items, count));
    return exg_machine_push(m, value);
}

static exg_status push_short_tuple(exg_machine *m, uint32_t count)
{
    if (m->depth - exg_machine_floor(m) < count) {
        return exg_machine_damaged(m, "takes from an empty stack");
    }
    m->depth -= count;
    return push_tuple(m, m->stack + m->depth, count);
}

static exg_status push_marked_tuple(exg_machine *m)
{
    exg_pickle_value **items = NULL;
    uint32_t count = 0;

    EXG_TRY(exg_machine_pop_mark(m, &items, &count));
    return push_tuple(m, items, count);
}

/* A LIST, SET or DICT of `count` items. */
static exg_status push_marked(exg_machine *m, exg_pickle_kind kind)
{
    exg_pickle_value *value = exg_machine_new(m, kind);
    exg_pickle_value **items = NULL;
    uint32_t count = 0;

    EXG_TRY(exg_machine_pop_mark(m, &items, &count));
    if (value == NULL) {
        return exg_machine_no_memory(m);
    }
    if (kind == EXG_PICKLE_DICT && count % 2 != 0) {
        return exg_machine_damaged(m, "makes a dict of a key without a value");
    }
    EXG_TRY(append(m, &value->as_items, items, count));
    return exg_machine_push(m, value);
}

/* Items into the container below them. */
static exg_status add_items(exg_machine *m, exg_pickle_kind kind, exg_pickle_value **items,
                            uint32_t count)
{
    exg_pickle_value *container = NULL;

    EXG_TRY(exg_machine_top(m, &container));
    if (kind == EXG_PICKLE_DICT && count % 2 != 0) {
        return exg_machine_damaged(m, "adds a key without a value");
    }
    if (container->kind == EXG_PICKLE_OBJECT) {
        return append(m,
                      kind == EXG_PICKLE_DICT ? &container->as_object->entries
                                              : &container->as_object->list,
                      items, count);
    }
    if (container->kind != kind) {
        return exg_machine_damaged(m, "adds items to the wrong thing");
    }
    return append(m, &container->as_items, items, count);
}

static exg_status add_marked(exg_machine *m, exg_pickle_kind kind)
{
    exg_pickle_value **items = NULL;
    uint32_t count = 0;

    EXG_TRY(exg_machine_pop_mark(m, &items, &count));
    return add_items(m, kind, items, count);
}

static exg_status add_top(exg_machine *m, exg_pickle_kind kind, uint32_t count)
{
    if (m->depth - exg_machine_floor(m) < count + 1) {
        return exg_machine_damaged(m, "takes from an empty stack");
    }
    m->depth -= count;
    return add_items(m, kind, m->stack + m->depth, count);
}

/* ---- names and calls ------------------------------------------------------------------------- */

/* The name, one struct however often it comes. */
static exg_status find_global(exg_machine *m, const char *module, const char *name,
                              exg_pickle_global **global)
{
    exg_pickle *p = m->pickle;
    const char *key = exg_arena_printf(m->arena, "%s\n%s", module, name);
    uint32_t at;

    if (key == NULL) {
        return exg_machine_no_memory(m);
    }
    at = exg_map_find(&m->names, key);
    if (at != EXG_MAP_NONE) {
        *global = p->globals[at];
        return EXG_OK;
    }
    EXG_TRY(exg_pickle_find_global(module, name, m->options->strict, m->arena, global, m->err));
    if (!exg_arena_reserve(m->arena, &p->globals, p->global_count, &p->global_capacity,
                           sizeof(exg_pickle_global *)) ||
        !exg_map_put(&m->names, key, p->global_count)) {
        return exg_machine_no_memory(m);
    }
    p->globals[p->global_count++] = *global;
    return EXG_OK;
}

static exg_status push_global(exg_machine *m, const char *module, const char *name)
{
    exg_pickle_value value = {.kind = EXG_PICKLE_GLOBAL};

    EXG_TRY(find_global(m, module, name, &value.as_global));
    return exg_machine_push_new(m, &value);
}

static exg_status run_global(exg_machine *m)
{
    const char *module = "";
    const char *name = "";

    EXG_TRY(exg_machine_take_line(m, &module));
    EXG_TRY(exg_machine_take_line(m, &name));
    return push_global(m, module, name);
}

static exg_status run_stack_global(exg_machine *m)
{
    exg_pickle_value *name = NULL;
    exg_pickle_value *module = NULL;

    EXG_TRY(exg_machine_pop(m, &name));
    EXG_TRY(exg_machine_pop(m, &module));
    if (name->kind != EXG_PICKLE_STRING || module->kind != EXG_PICKLE_STRING) {
        return exg_machine_damaged(m, "names a thing without text");
    }
    return push_global(m, module->as_text.data, name->as_text.data);
}

static exg_status push_object(exg_machine *m, exg_pickle_value *callee, exg_pickle_value *arguments)
{
    exg_pickle_value value = {.kind = EXG_PICKLE_OBJECT};

    value.as_object = EXG_NEW(m->arena, exg_pickle_object);
    if (value.as_object == NULL) {
        return exg_machine_no_memory(m);
    }
    value.as_object->callee = callee;
    value.as_object->arguments = arguments;
    return exg_machine_push_new(m, &value);
}

/* getattr(name, "part"): a longer name. */
static exg_status push_part(exg_machine *m, exg_pickle_global *of, const char *part)
{
    const char *name = exg_arena_printf(m->arena, "%s.%s", of->name, part);

    of->told = true; /* by the longer name */
    return name == NULL ? exg_machine_no_memory(m) : push_global(m, of->module, name);
}

static exg_status call(exg_machine *m, exg_pickle_value *callee, exg_pickle_value *arguments);

/* A tensor's class around what is no plain tensor: (what builds it, the class, its arguments,
 * the state) is an object of the class around what is built. */
static exg_status push_subclass(exg_machine *m, exg_pickle_value *callee,
                                exg_pickle_value *arguments)
{
    exg_pickle_value **a = arguments->as_items.items;
    exg_pickle_value *inner = NULL;
    exg_pickle_value *made = NULL;

    if (arguments->kind != EXG_PICKLE_TUPLE || arguments->as_items.count != 4 ||
        a[0]->kind != EXG_PICKLE_GLOBAL || a[1]->kind != EXG_PICKLE_GLOBAL ||
        a[0]->as_global->tag == EXG_TAG_REBUILD_FROM_TYPE) {
        return push_object(m, callee, arguments);
    }
    EXG_TRY(call(m, a[0], a[2]));
    EXG_TRY(exg_machine_pop(m, &inner));
    EXG_TRY(push_tuple(m, &inner, 1));
    EXG_TRY(exg_machine_pop(m, &made));
    EXG_TRY(push_object(m, a[1], made));
    m->stack[m->depth - 1]->as_object->state = a[3];
    return EXG_OK;
}

static exg_status call(exg_machine *m, exg_pickle_value *callee, exg_pickle_value *arguments)
{
    exg_pickle_value **a = arguments->as_items.items;
    exg_pickle_value result = {.kind = EXG_PICKLE_NONE};
    exg_pickle_global *global = callee->as_global;
    exg_status status;

    if (callee->kind == EXG_PICKLE_OBJECT && !m->options->strict) {
        return push_object(m, callee, arguments);
    }
    if (callee->kind != EXG_PICKLE_GLOBAL) {
        return exg_machine_damaged(m, "calls what is no name");
    }
    if (global->arguments == NULL) {
        global->arguments = arguments;
    }
    if (global->tag == EXG_TAG_GETATTR && arguments->kind == EXG_PICKLE_TUPLE &&
        arguments->as_items.count == 2 && a[0]->kind == EXG_PICKLE_GLOBAL &&
        exg_pickle_is_name(a[1])) {
        return push_part(m, a[0]->as_global, a[1]->as_text.data);
    }
    if (global->tag == EXG_TAG_RECONSTRUCTOR && arguments->kind == EXG_PICKLE_TUPLE &&
        arguments->as_items.count > 0 && a[0]->kind == EXG_PICKLE_GLOBAL) {
        return push_object(m, a[0], NULL);
    }
    status = exg_pickle_call(global, arguments, m->arena, &result, m->err);
    if (status == EXG_UNSUPPORTED && !m->options->strict) {
        exg_error_clear(m->err);
        return global->tag == EXG_TAG_REBUILD_FROM_TYPE ? push_subclass(m, callee, arguments)
                                                        : push_object(m, callee, arguments);
    }
    EXG_TRY(status);
    return exg_machine_push_new(m, &result);
}

static exg_status run_call(exg_machine *m)
{
    exg_pickle_value *arguments = NULL;
    exg_pickle_value *callee = NULL;

    EXG_TRY(exg_machine_pop(m, &arguments));
    EXG_TRY(exg_machine_pop(m, &callee));
    return call(m, callee, arguments);
}

/* (class, arguments, arguments by name) */
static exg_status run_new_with_names(exg_machine *m)
{
    exg_pickle_value *named = NULL;

    EXG_TRY(exg_machine_pop(m, &named));
    EXG_TRY(run_call(m));
    if (named->kind == EXG_PICKLE_DICT && named->as_items.count > 0) {
        exg_pickle_value *made = m->stack[m->depth - 1];

        if (made->kind != EXG_PICKLE_OBJECT) {
            return exg_machine_damaged(m, "names arguments of what takes none");
        }
        return append(m, &made->as_object->entries, named->as_items.items, named->as_items.count);
    }
    return EXG_OK;
}

/* OBJ: a class and its arguments above a mark. */
static exg_status run_marked_call(exg_machine *m)
{
    exg_pickle_value **items = NULL;
    exg_pickle_value *arguments = exg_machine_new(m, EXG_PICKLE_TUPLE);
    uint32_t count = 0;

    EXG_TRY(exg_machine_pop_mark(m, &items, &count));
    if (arguments == NULL) {
        return exg_machine_no_memory(m);
    }
    if (count == 0) {
        return exg_machine_damaged(m, "makes an object of no class");
    }
    EXG_TRY(append(m, &arguments->as_items, items + 1, count - 1));
    return call(m, items[0], arguments);
}

/* INST: its class in two lines, its arguments above a mark. */
static exg_status run_named_call(exg_machine *m)
{
    exg_pickle_value *arguments = NULL;
    exg_pickle_value *callee = NULL;

    EXG_TRY(push_marked_tuple(m));
    EXG_TRY(run_global(m));
    EXG_TRY(exg_machine_pop(m, &callee));
    EXG_TRY(exg_machine_pop(m, &arguments));
    return call(m, callee, arguments);
}

/* A number of the writer's own table of classes. */
static exg_status run_extension(exg_machine *m, unsigned width)
{
    uint64_t number = 0;
    const char *name;

    EXG_TRY(exg_machine_take_unsigned(m, width, &number));
    name = exg_arena_printf(m->arena, "extension %llu", (unsigned long long)number);
    return name == NULL ? exg_machine_no_memory(m) : push_global(m, "copyreg", name);
}

static exg_status persist(exg_machine *m, exg_pickle_value *id)
{
    exg_pickle_value result = {.kind = EXG_PICKLE_NONE};
    exg_pickle_persistent_fn *persistent =
        m->options->persistent == NULL ? exg_pickle_persistent : m->options->persistent;

    EXG_TRY(persistent(m->options->user, id, m->arena, &result, m->err));
    return exg_machine_push_new(m, &result);
}

static exg_status run_persistent(exg_machine *m)
{
    exg_pickle_value *id = NULL;

    EXG_TRY(exg_machine_pop(m, &id));
    return persist(m, id);
}

static exg_status run_line_persistent(exg_machine *m)
{
    EXG_TRY(exg_machine_push_line_text(m, false));
    return run_persistent(m);
}

static exg_status run_build(exg_machine *m)
{
    exg_pickle_value *state = NULL;
    exg_pickle_value *object = NULL;

    EXG_TRY(exg_machine_pop(m, &state));
    EXG_TRY(exg_machine_top(m, &object));
    return exg_pickle_build(object, state, m->options->strict, m->arena, m->err);
}

/* ---- the loop -----------------------------------------------------------------------------------
 */

static exg_status with_unsigned(exg_machine *m, unsigned width,
                                exg_status (*run)(exg_machine *, uint32_t))
{
    uint64_t value = 0;

    EXG_TRY(exg_machine_take_unsigned(m, width, &value));
    return run(m, (uint32_t)value);
}

static exg_status push_signed(exg_machine *m, unsigned width)
{
    int64_t value = 0;

    EXG_TRY(exg_machine_take_signed(m, width, &value));
    return exg_machine_push_int(m, value);
}

static exg_status push_unsigned(exg_machine *m, unsigned width)
{
    uint64_t value = 0;

    EXG_TRY(exg_machine_take_unsigned(m, width, &value));
    return exg_machine_push_int(m, (int64_t)value);
}

static exg_status push_container(exg_machine *m, exg_pickle_kind kind)
{
    return exg_machine_push_new(m, &(exg_pickle_value){.kind = kind});
}

static exg_status run_pop(exg_machine *m)
{
    exg_pickle_value *value = NULL;

    if (m->mark_count > 0 && m->depth == exg_machine_floor(m)) {
        m->mark_count--; /* a mark is an item of the stack, too */
        return EXG_OK;
    }
    return exg_machine_pop(m, &value);
}

static exg_status run_pop_mark(exg_machine *m)
{
    exg_pickle_value **items = NULL;
    uint32_t count = 0;

    return exg_machine_pop_mark(m, &items, &count);
}

static exg_status run_duplicate(exg_machine *m)
{
    exg_pickle_value *value = NULL;

    EXG_TRY(exg_machine_top(m, &value));
    return exg_machine_push(m, value);
}

static exg_status skip(exg_machine *m, unsigned width)
{
    const uint8_t *bytes = NULL;

    return exg_machine_take(m, width, &bytes);
}

static exg_status unknown_opcode(exg_machine *m, uint8_t opcode)
{
    m->at--;
    return exg_error_at(m->err,
                        EXG_FAIL(m->err, UNSUPPORTED, "PKL-OPCODE",
                                 "the pickle uses opcode 0x%02x, which is not read", opcode),
                        m->at);
}

/* clang-format off */
/* Opcodes that PyTorch does not write by itself; the names are pickletools'. */
static exg_status step_further(exg_machine *m, uint8_t opcode)
{
    switch (opcode) {
    case 'I': return exg_machine_push_line_int(m);                          /* INT */
    case 'L': return exg_machine_push_line_int(m);                          /* LONG */
    case 'F': return exg_machine_push_line_float(m);                        /* FLOAT */
    case 'S': return exg_machine_push_line_text(m, true);                   /* STRING */
    case 'V': return exg_machine_push_line_text(m, false);                  /* UNICODE */
    case 0x8b: return exg_machine_push_long(m, 4);                          /* LONG4 */
    case 'T': return exg_machine_push_text(m, EXG_PICKLE_STRING, 4);        /* BINSTRING */
    case 0x8e: return exg_machine_push_text(m, EXG_PICKLE_BYTES, 8);        /* BINBYTES8 */
    case 0x96: return exg_machine_push_text(m, EXG_PICKLE_BYTES, 8);        /* BYTEARRAY8 */
    case 0x98: return EXG_OK;                                   /* READONLY_BUFFER */
    case '0': return run_pop(m);                                /* POP */
    case '1': return run_pop_mark(m);                           /* POP_MARK */
    case '2': return run_duplicate(m);                          /* DUP */
    case 'l': return push_marked(m, EXG_PICKLE_LIST);           /* LIST */
    case 'd': return push_marked(m, EXG_PICKLE_DICT);           /* DICT */
    case 0x91: return push_marked(m, EXG_PICKLE_SET);           /* FROZENSET */
    case 'p': return exg_machine_with_line(m, exg_machine_memo_put);                    /* PUT */
    case 'g': return exg_machine_with_line(m, exg_machine_memo_get);                    /* GET */
    case 'P': return run_line_persistent(m);                    /* PERSID */
    case 0x82: return run_extension(m, 1);                      /* EXT1 */
    case 0x83: return run_extension(m, 2);                      /* EXT2 */
    case 0x84: return run_extension(m, 4);                      /* EXT4 */
    case 'i': return run_named_call(m);                         /* INST */
    case 'o': return run_marked_call(m);                        /* OBJ */
    case 0x92: return run_new_with_names(m);                    /* NEWOBJ_EX */
    default: break;
    }
    return unknown_opcode(m, opcode);
}

/* One opcode. */
static exg_status step(exg_machine *m, uint8_t opcode)
{
    switch (opcode) {
    case 0x80: return skip(m, 1);                               /* PROTO */
    case 0x95: return skip(m, 8);                               /* FRAME */
    case 'N': return exg_machine_push_constant(m, 0);                       /* NONE */
    case 0x88: return exg_machine_push_constant(m, 2);                      /* NEWTRUE */
    case 0x89: return exg_machine_push_constant(m, 1);                      /* NEWFALSE */
    case 'J': return push_signed(m, 4);                         /* BININT */
    case 'K': return push_unsigned(m, 1);                       /* BININT1 */
    case 'M': return push_unsigned(m, 2);                       /* BININT2 */
    case 0x8a: return exg_machine_push_long(m, 1);                          /* LONG1 */
    case 'G': return exg_machine_push_float(m);                             /* BINFLOAT */
    case 'X': return exg_machine_push_text(m, EXG_PICKLE_STRING, 4);        /* BINUNICODE */
    case 0x8c: return exg_machine_push_text(m, EXG_PICKLE_STRING, 1);       /* SHORT_BINUNICODE */
    case 0x8d: return exg_machine_push_text(m, EXG_PICKLE_STRING, 8);       /* BINUNICODE8 */
    case 'U': return exg_machine_push_text(m, EXG_PICKLE_STRING, 1);        /* SHORT_BINSTRING */
    case 'C': return exg_machine_push_text(m, EXG_PICKLE_BYTES, 1);         /* SHORT_BINBYTES */
    case 'B': return exg_machine_push_text(m, EXG_PICKLE_BYTES, 4);         /* BINBYTES */
    case ')': return exg_machine_push_constant(m, 3);                       /* EMPTY_TUPLE */
    case ']': return push_container(m, EXG_PICKLE_LIST);        /* EMPTY_LIST */
    case '}': return push_container(m, EXG_PICKLE_DICT);        /* EMPTY_DICT */
    case 0x8f: return push_container(m, EXG_PICKLE_SET);        /* EMPTY_SET */
    case 0x85: return push_short_tuple(m, 1);                   /* TUPLE1 */
    case 0x86: return push_short_tuple(m, 2);                   /* TUPLE2 */
    case 0x87: return push_short_tuple(m, 3);                   /* TUPLE3 */
    case '(': return exg_machine_push_mark(m);                              /* MARK */
    case 't': return push_marked_tuple(m);                      /* TUPLE */
    case 'a': return add_top(m, EXG_PICKLE_LIST, 1);            /* APPEND */
    case 'e': return add_marked(m, EXG_PICKLE_LIST);            /* APPENDS */
    case 's': return add_top(m, EXG_PICKLE_DICT, 2);            /* SETITEM */
    case 'u': return add_marked(m, EXG_PICKLE_DICT);            /* SETITEMS */
    case 0x90: return add_marked(m, EXG_PICKLE_SET);            /* ADDITEMS */
    case 'q': return with_unsigned(m, 1, exg_machine_memo_put);             /* BINPUT */
    case 'r': return with_unsigned(m, 4, exg_machine_memo_put);             /* LONG_BINPUT */
    case 'h': return with_unsigned(m, 1, exg_machine_memo_get);             /* BINGET */
    case 'j': return with_unsigned(m, 4, exg_machine_memo_get);             /* LONG_BINGET */
    case 0x94: return exg_machine_memo_put(m, m->memo_count);               /* MEMOIZE */
    case 'c': return run_global(m);                             /* GLOBAL */
    case 0x93: return run_stack_global(m);                      /* STACK_GLOBAL */
    case 'Q': return run_persistent(m);                         /* BINPERSID */
    case 'R': return run_call(m);                               /* REDUCE */
    case 0x81: return run_call(m);                              /* NEWOBJ */
    case 'b': return run_build(m);                              /* BUILD */
    default: break;
    }
    return m->options->strict ? unknown_opcode(m, opcode) : step_further(m, opcode);
}
/* clang-format on */

/* What is below the last object is left; so is what comes after the end. */
static exg_status run(exg_machine *m)
{
    for (;;) {
        uint8_t opcode;

        if (m->at >= m->length) {
            return exg_machine_damaged(m, "does not end");
        }
        opcode = m->data[m->at++];
        if (opcode == '.') { /* STOP */
            break;
        }
        EXG_TRY(step(m, opcode));
    }
    m->pickle->length = m->at;
    return exg_machine_top(m, &m->pickle->root);
}

exg_status exg_pickle_read(const uint8_t *data, size_t length, const exg_pickle_options *options,
                           exg_arena *arena, exg_pickle *pickle, exg_error *err)
{
    static const exg_pickle_options plain = {0};
    exg_machine m = {.data = data,
                     .length = length,
                     .options = options == NULL ? &plain : options,
                     .pickle = pickle,
                     .arena = arena,
                     .err = err};

    *pickle = (exg_pickle){0};
    exg_map_init(&m.names, arena);
    EXG_TRY(run(&m));
    return m.options->strict && (m.depth != 1 || m.mark_count != 0 || m.at != length)
               ? exg_machine_damaged(&m, "leaves more or less than one object")
               : EXG_OK;
}
