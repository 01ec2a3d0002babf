/* cache_key.c - values, specs and meshes as 64-bit words. */
#include "libexec/dispatch/cache_key.h"
#include "libexec/dtensor/spec.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void exg_cache_key_empty(exg_cache_key *w)
{
    w->count = 0;
    w->failed = false;
}

void exg_cache_key_free(exg_cache_key *w)
{
    free(w->items);
    *w = (exg_cache_key){0};
}

static bool grow(exg_cache_key *w, uint32_t more)
{
    uint32_t capacity = w->capacity == 0 ? 256 : w->capacity * 2;
    uint64_t *items;

    if (w->failed) {
        return false;
    }
    while (capacity - w->count < more) {
        capacity *= 2;
    }
    items = realloc(w->items, capacity * sizeof(*items));
    if (items == NULL) {
        w->failed = true;
        return false;
    }
    w->items = items;
    w->capacity = capacity;
    return true;
}

/* Room for `more` words; NULL: out of memory. */
static uint64_t *room(exg_cache_key *w, uint32_t more)
{
    uint64_t *at;

    if (w->capacity - w->count < more && !grow(w, more)) {
        return NULL;
    }
    at = w->items + w->count;
    w->count += more;
    return at;
}

void exg_cache_key_put(exg_cache_key *w, uint64_t word)
{
    uint64_t *at = room(w, 1);

    if (at != NULL) {
        *at = word;
    }
}

static void put_bytes(exg_cache_key *w, const void *bytes, size_t length)
{
    uint32_t count = (uint32_t)((length + 7) / 8);
    uint64_t *at = room(w, count + 1);

    if (at != NULL) {
        at[0] = length;
        if (count > 0) {
            at[count] = 0;
            memcpy(at + 1, bytes, length);
        }
    }
}

static void put_string(exg_cache_key *w, const char *string)
{
    put_bytes(w, string, string == NULL ? 0 : strlen(string));
}

void exg_cache_key_put_value(exg_cache_key *w, const exg_argument *value)
{
    exg_cache_key_put(w, (uint64_t)value->kind << 32 | value->count);
    switch (value->kind) {
    case EXG_ARGUMENT_NONE:
        break;
    case EXG_ARGUMENT_BOOL:
        exg_cache_key_put(w, value->as_bool);
        break;
    case EXG_ARGUMENT_INTS:
        put_bytes(w, value->as_ints, value->count * sizeof(int64_t));
        break;
    case EXG_ARGUMENT_FLOATS:
        put_bytes(w, value->as_floats, value->count * sizeof(double));
        break;
    case EXG_ARGUMENT_BOOLS:
        put_bytes(w, value->as_bools, value->count * sizeof(bool));
        break;
    case EXG_ARGUMENT_STRING:
        put_string(w, value->as_string);
        break;
    case EXG_ARGUMENT_STRINGS:
        for (uint32_t i = 0; i < value->count; i++) {
            put_string(w, value->as_strings[i]);
        }
        break;
    case EXG_ARGUMENT_COMPLEX:
        put_bytes(w, &value->as_complex, sizeof(value->as_complex));
        break;
    case EXG_ARGUMENT_DEVICE:
        put_string(w, value->as_device.type);
        exg_cache_key_put(w, (uint64_t)value->as_device.index);
        break;
    case EXG_ARGUMENT_SCALAR_TYPE:
        exg_cache_key_put(w, value->as_scalar_type);
        break;
    case EXG_ARGUMENT_MEMORY_FORMAT:
        exg_cache_key_put(w, value->as_memory_format);
        break;
    case EXG_ARGUMENT_LAYOUT:
        exg_cache_key_put(w, value->as_layout);
        break;
    default: /* INT, FLOAT: eight bytes; others do not come here */
        exg_cache_key_put(w, (uint64_t)value->as_int);
        break;
    }
}

static uint64_t placement_word(exg_placement p)
{
    return (uint64_t)p.kind | (uint64_t)p.op << 8 | (uint64_t)(uint8_t)p.dim << 16 |
           (uint64_t)(uint32_t)p.split_factor << 32;
}

/* dtype and rank, placements, sizes, strides */
static void put_layout(exg_cache_key *w, exg_dtype dtype, uint32_t rank, uint32_t ndim,
                       const exg_placement *placements, const int64_t *sizes,
                       const int64_t *strides)
{
    uint64_t *at = room(w, 1 + ndim + 2 * rank);

    if (at == NULL) {
        return;
    }
    *at++ = (uint64_t)dtype << 32 | rank;
    for (uint32_t m = 0; m < ndim; m++) {
        *at++ = placement_word(placements[m]);
    }
    for (uint32_t d = 0; d < rank; d++) {
        *at++ = (uint64_t)sizes[d];
    }
    for (uint32_t d = 0; d < rank; d++) {
        *at++ = (uint64_t)strides[d];
    }
}

static void put_spec(exg_cache_key *w, const exg_dtensor_spec *spec)
{
    const exg_device_mesh *mesh = spec->mesh;

    exg_cache_key_put(w, mesh->ndim);
    for (uint32_t m = 0; m < mesh->ndim; m++) {
        exg_cache_key_put(w, mesh->sizes[m]);
    }
    for (uint32_t r = 0; r < mesh->size; r++) {
        exg_cache_key_put(w, exg_device_mesh_global_rank(mesh, r));
    }
    put_layout(w, spec->dtype, spec->rank, mesh->ndim, spec->placements, spec->sizes,
               spec->strides);
}

void exg_cache_key_put_object(exg_cache_key *w, const exg_object *object)
{
    exg_dtensor_spec spec;

    /* a DTensor is written as its spec */
    exg_cache_key_put(
        w, (uint64_t)(object->kind == EXG_OBJECT_DTENSOR ? EXG_OBJECT_SPEC : object->kind) << 32 |
               object->count);
    switch (object->kind) {
    case EXG_OBJECT_VALUE:
        exg_cache_key_put_value(w, &object->value);
        break;
    case EXG_OBJECT_UINT:
        exg_cache_key_put(w, object->as_uint);
        break;
    case EXG_OBJECT_DTENSOR:
        exg_dtensor_get_spec(object->dtensor, &spec);
        put_spec(w, &spec);
        break;
    case EXG_OBJECT_SPEC:
        put_spec(w, object->spec);
        break;
    case EXG_OBJECT_LIST:
    case EXG_OBJECT_TUPLE:
        for (uint32_t i = 0; i < object->count; i++) {
            exg_cache_key_put_object(w, &object->items[i]);
        }
        break;
    default:
        break;
    }
}

void exg_cache_key_put_dtensor(exg_cache_key *w, const exg_dtensor *t)
{
    put_layout(w, t->local.dtype, t->rank, t->mesh->ndim, t->placements, t->sizes, t->strides);
    for (uint32_t d = 0; d < t->local.rank; d++) {
        exg_cache_key_put(w, (uint64_t)t->local.strides[d]);
    }
}

void exg_cache_key_put_mesh(exg_cache_key *w, const exg_device_mesh *mesh)
{
    uint64_t *at = room(w, 4 + (mesh->ndim + 1) / 2);

    if (at == NULL) {
        return;
    }
    *at++ = (uint64_t)(uintptr_t)mesh->communicator;
    *at++ = (uint64_t)(uintptr_t)mesh->device;
    *at++ = (uint64_t)mesh->ndim << 32 | mesh->size;
    *at++ = exg_device_mesh_rank(mesh);
    for (uint32_t m = 0; m < mesh->ndim; m += 2) {
        *at++ = (uint64_t)mesh->sizes[m] << 32 | (m + 1 < mesh->ndim ? mesh->sizes[m + 1] : 0);
    }
}

uint64_t exg_cache_key_hash(const exg_cache_key *w)
{
    return XXH3_64bits(w->items, w->count * sizeof(*w->items));
}
