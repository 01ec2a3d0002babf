/* sort.c - sort (stable), topk along one dimension.
 *
 *   x (outer, size, inner), contiguous; a line is the size elements of one
 *   (outer, inner).
 *
 * An element becomes a key: a 64-bit unsigned integer in the same order, NaN last,
 * -0 equal to 0; descending is ascending over inverted keys, so equal elements keep
 * their order both ways. Short lines are merge sorted, long ones dealt by the bytes in which
 * keys differ, the lowest first; topk keeps what may be among its k.
 */
#include "libexec/kernels/cpu/common.h"

#define TOPK_LIST_MAX 16
#define INSERTION_MAX 24
#define RADIX_MIN     128 /* items: fewer are merged sooner than 256 counts are added up */

typedef struct sort_item {
    uint64_t key;
    int64_t index;
} sort_item;

typedef struct sort_params {
    exg_around around;
    int64_t k; /* elements kept of a line */
    bool is_descending;
    bool is_topk;
    exg_dtype dtype;
    exg_compute compute;
    uint32_t bytes;
    int64_t lines_of_block;
    uint32_t block_count;
    uint64_t scratch_bytes; /* of a block */
    const exg_convert_loops *convert;
} sort_params;

typedef struct sort_run_context {
    const sort_params *p;
    const char *in;
    char *values;
    int64_t *indices;
    char *workspace;
} sort_run_context;

/* ---- keys ------------------------------------------------------------------------- */

static uint64_t key_of_f64(double x)
{
    uint64_t bits;

    x = x == 0 ? 0 : x;
    memcpy(&bits, &x, sizeof(bits));
    if (x != x) {
        return UINT64_MAX;
    }
    return bits >> 63 != 0 ? ~bits : bits | UINT64_C(1) << 63;
}

#define KEY_CHUNK 256

typedef union key_values {
    float f32[KEY_CHUNK];
    double f64[KEY_CHUNK];
    int32_t i32[KEY_CHUNK];
    int64_t i64[KEY_CHUNK];
} key_values;

/* Of `count` elements of a line from memory on, at most KEY_CHUNK. */
static void make_keys(const sort_params *p, const char *memory, int64_t count, uint64_t *keys)
{
    key_values v;

    p->convert->load[p->dtype]((uint32_t)count, &v, memory, p->around.inner);
    for (int64_t k = 0; k < count; k++) {
        uint64_t key = p->compute == EXG_COMPUTE_F32   ? key_of_f64((double)v.f32[k])
                       : p->compute == EXG_COMPUTE_F64 ? key_of_f64(v.f64[k])
                       : p->compute == EXG_COMPUTE_I32 ? (uint64_t)v.i32[k] ^ UINT64_C(1) << 63
                                                       : (uint64_t)v.i64[k] ^ UINT64_C(1) << 63;

        key = p->dtype == EXG_DTYPE_U64 ? (uint64_t)v.i64[k] : key;
        keys[k] = p->is_descending ? ~key : key;
    }
}

/* Keys of f32 and what it holds in 32 bits, signed, which compilers make vectors of. */
static void make_short_keys(const sort_params *p, const char *memory, int64_t count, int32_t *keys)
{
    int32_t flip = p->is_descending ? -1 : 0;

    p->convert->load[p->dtype]((uint32_t)count, keys, memory, p->around.inner);
    for (int64_t k = 0; k < count; k++) {
        int32_t magnitude = keys[k] & INT32_MAX;
        int32_t key = keys[k] < 0 ? -magnitude : magnitude;

        keys[k] = (magnitude > 0x7f800000 ? INT32_MAX : key) ^ flip;
    }
}

#define LONG_KEY(key)  ((uint64_t)((int64_t)(key)-INT32_MIN))
#define SHORT_KEY(key) ((int32_t)((int64_t)(key) + INT32_MIN))

static void make_items(const sort_params *p, const char *line, sort_item *items)
{
    for (int64_t first = 0; first < p->around.size; first += KEY_CHUNK) {
        const char *memory = line + first * p->around.inner * p->bytes;
        int64_t count = EXG_MIN(p->around.size - first, KEY_CHUNK);
        int32_t short_keys[KEY_CHUNK];
        uint64_t keys[KEY_CHUNK];

        if (p->compute == EXG_COMPUTE_F32) {
            make_short_keys(p, memory, count, short_keys);
        } else {
            make_keys(p, memory, count, keys);
        }
        for (int64_t k = 0; k < count; k++) {
            items[first + k] = (sort_item){
                p->compute == EXG_COMPUTE_F32 ? LONG_KEY(short_keys[k]) : keys[k], first + k};
        }
    }
}

/* ---- sorting ------------------------------------------------------------------------ */

static void insertion_sort(sort_item *items, int64_t count)
{
    for (int64_t i = 1; i < count; i++) {
        sort_item item = items[i];
        int64_t k = i;

        for (; k > 0 && items[k - 1].key > item.key; k--) {
            items[k] = items[k - 1];
        }
        items[k] = item;
    }
}

static void merge(sort_item *to, const sort_item *a, int64_t a_count, const sort_item *b,
                  int64_t b_count)
{
    while (a_count > 0 && b_count > 0) {
        if (b->key < a->key) {
            *to++ = *b++;
            b_count--;
        } else {
            *to++ = *a++;
            a_count--;
        }
    }
    memcpy(to, a, (size_t)a_count * sizeof(sort_item));
    memcpy(to, b, (size_t)b_count * sizeof(sort_item));
}

/* Runs of INSERTION_MAX, merged two by two between the arrays; gives the sorted one. */
static sort_item *merge_sort(sort_item *items, sort_item *other, int64_t count)
{
    for (int64_t i = 0; i < count; i += INSERTION_MAX) {
        insertion_sort(items + i, EXG_MIN(count - i, INSERTION_MAX));
    }
    for (int64_t width = INSERTION_MAX; width < count; width *= 2) {
        sort_item *kept = items;

        for (int64_t i = 0; i < count; i += 2 * width) {
            int64_t a = EXG_MIN(width, count - i);
            int64_t b = EXG_MIN(width, count - i - a);

            merge(other + i, items + i, a, items + i + a, b);
        }
        items = other;
        other = kept;
    }
    return items;
}

#define DIGIT(key, byte) ((key) >> (8 * (byte)) & 255)

/* Items in the order of one byte of their keys, equal ones as they were. */
static void deal(sort_item *to, const sort_item *items, int64_t count, int byte)
{
    int64_t places[256] = {0};
    int64_t before = 0;

    for (int64_t k = 0; k < count; k++) {
        places[DIGIT(items[k].key, byte)]++;
    }
    for (int64_t digit = 0; digit < 256; digit++) {
        int64_t of_digit = places[digit];

        places[digit] = before;
        before += of_digit;
    }
    for (int64_t k = 0; k < count; k++) {
        to[places[DIGIT(items[k].key, byte)]++] = items[k];
    }
}

/* Sorts between the arrays; gives the sorted one. */
static sort_item *sort_items(sort_item *items, sort_item *other, int64_t count)
{
    uint64_t differs = 0;

    if (count < RADIX_MIN) {
        return merge_sort(items, other, count);
    }
    for (int64_t k = 1; k < count; k++) {
        differs |= items[k].key ^ items[0].key;
    }
    for (int byte = 0; byte < 8; byte++) {
        if (DIGIT(differs, byte) != 0) {
            sort_item *kept = items;

            deal(other, items, count, byte);
            items = other;
            other = kept;
        }
    }
    return items;
}

/* ---- the least ------------------------------------------------------------------------- */

/* The k least so far and what may be among them, kept while elements come by: a sorted list where
 * k is small, else items that are sorted when there is no room for more. */
typedef struct least {
    sort_item *items, *other;
    int64_t count, k, room;
    uint64_t limit; /* of what still comes, once there are k */
    bool is_full;
} least;

static void shrink(least *l)
{
    sort_item *sorted = sort_items(l->items, l->other, l->count);

    l->other = sorted == l->items ? l->other : l->items;
    l->items = sorted;
    l->count = EXG_MIN(l->count, l->k);
    l->is_full = true;
    l->limit = l->items[l->count - 1].key;
}

static void take(least *l, uint64_t key, int64_t index)
{
    int64_t at = l->count;

    if (l->k > TOPK_LIST_MAX) {
        l->items[l->count++] = (sort_item){key, index};
        if (l->count == l->room) {
            shrink(l);
        }
    } else {
        at -= l->count == l->k;
        l->count = at + 1;
        for (; at > 0 && l->items[at - 1].key > key; at--) {
            l->items[at] = l->items[at - 1];
        }
        l->items[at] = (sort_item){key, index};
        l->is_full = l->count == l->k;
        l->limit = l->items[l->count - 1].key;
    }
}

#define FILTER 16 /* keys of which none may matter */

static void take_short(least *l, const int32_t *keys, int64_t count, int64_t index)
{
    for (int64_t first = 0; first < count; first += FILTER) {
        int64_t end = EXG_MIN(first + FILTER, count);
        int32_t limit = SHORT_KEY(l->limit);
        int32_t below = !l->is_full || end - first < FILTER;

        for (int64_t k = first; k < first + FILTER; k++) {
            below |= keys[k] < limit;
        }
        for (int64_t k = first; k < end && below != 0; k++) {
            if (!l->is_full || LONG_KEY(keys[k]) < l->limit) {
                take(l, LONG_KEY(keys[k]), index + k);
            }
        }
    }
}

/* The k least of a line in order; of equal ones the first. */
static const sort_item *take_least(const sort_params *p, const char *line, sort_item *items,
                                   sort_item *other)
{
    least l = {.items = items,
               .other = other,
               .k = p->k,
               .room = EXG_MIN(p->around.size, 2 * p->k),
               .limit = LONG_KEY(INT32_MAX)};

    for (int64_t first = 0; first < p->around.size && p->k > 0; first += KEY_CHUNK) {
        int64_t count = EXG_MIN(p->around.size - first, KEY_CHUNK);
        const char *memory = line + first * p->around.inner * p->bytes;
        int32_t short_keys[KEY_CHUNK + FILTER] = {0};
        uint64_t keys[KEY_CHUNK];

        if (p->compute == EXG_COMPUTE_F32) {
            make_short_keys(p, memory, count, short_keys);
            take_short(&l, short_keys, count, first);
            continue;
        }
        make_keys(p, memory, count, keys);
        for (int64_t k = 0; k < count; k++) {
            if (!l.is_full || keys[k] < l.limit) {
                take(&l, keys[k], first + k);
            }
        }
    }
    if (l.k > TOPK_LIST_MAX) {
        shrink(&l);
    }
    return l.items;
}

/* ---- lines ------------------------------------------------------------------------------- */

static void copy_element(char *to, const char *from, uint32_t bytes)
{
    switch (bytes) {
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    default:
        *to = *from;
    }
}

static void sort_block(void *context, uint32_t block)
{
    const sort_run_context *r = context;
    const sort_params *p = r->p;
    exg_around a = p->around;
    int64_t end = EXG_MIN(((int64_t)block + 1) * p->lines_of_block, a.outer * a.inner);
    sort_item *items = (sort_item *)(void *)(r->workspace + block * p->scratch_bytes);
    sort_item *other = items + a.size;

    for (int64_t line = (int64_t)block * p->lines_of_block; line < end; line++) {
        int64_t in = line / a.inner * a.size * a.inner + line % a.inner;
        int64_t out = line / a.inner * p->k * a.inner + line % a.inner;
        const sort_item *sorted;

        if (p->is_topk) {
            sorted = take_least(p, r->in + in * p->bytes, items, other);
        } else {
            make_items(p, r->in + in * p->bytes, items);
            sorted = sort_items(items, other, a.size);
        }
        for (int64_t k = 0; k < p->k; k++) {
            r->indices[out + k * a.inner] = sorted[k].index;
            copy_element(r->values + (out + k * a.inner) * p->bytes,
                         r->in + (in + sorted[k].index * a.inner) * p->bytes, p->bytes);
        }
    }
}

static void sort_run(const exg_kernel_call *call)
{
    const sort_params *p = call->params;
    sort_run_context r = {p, call->inputs[0].data, call->outputs[0].data, call->outputs[1].data,
                          call->workspace};

    exg_pool_run(call->pool, sort_block, &r, p->block_count);
}

/* ---- prepare --------------------------------------------------------------------------- */

static exg_status plan(exg_kernel_call *call, uint32_t dim_position, bool is_descending, int64_t k,
                       exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    sort_params *p = EXG_NEW(call->arena, sort_params);
    int64_t lines;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    p->dtype = in->dtype;
    if (!exg_compute_of(p->dtype, &p->compute)) {
        return exg_unsupported_dtype("sort", p->dtype, err);
    }
    p->around = exg_around_dim(in, exg_call_dim(call, dim_position, in->rank));
    p->is_descending = is_descending;
    p->k = k < 0 ? p->around.size : k;
    p->is_topk = k >= 0;
    p->bytes = exg_dtype_bytes(p->dtype);
    lines = p->around.outer * p->around.inner;
    p->lines_of_block = exg_items_per_block(16 * p->around.size, EXG_GRAIN);
    p->lines_of_block = EXG_MAX(p->lines_of_block, exg_ceil_div(lines, 64));
    p->block_count = exg_block_count(lines, p->lines_of_block);
    p->scratch_bytes = (2 * (uint64_t)p->around.size * sizeof(sort_item) + 63) & ~UINT64_C(63);
    p->convert = EXG_LOOPS(exg_loops_convert);
    call->workspace_bytes = p->block_count * p->scratch_bytes;
    call->params = p;
    return EXG_OK;
}

static exg_status sort_prepare(exg_kernel_call *call, exg_error *err)
{
    return plan(call, 2, exg_call_bool(call, 3), -1, err);
}

static exg_status topk_prepare(exg_kernel_call *call, exg_error *err)
{
    return plan(call, 2, exg_call_bool(call, 3), exg_call_int(call, 1), err);
}

const exg_kernel exg_kernel_sort = {
    .name = "sort",
    .prepare = sort_prepare,
    .run = sort_run,
};

const exg_kernel exg_kernel_topk = {
    .name = "topk",
    .prepare = topk_prepare,
    .run = sort_run,
};
