/* pointwise_finish.c - what a pointwise program needs once it is whole: the order of its
 * instructions, tile buffers, and how the iteration space is cut.
 */
#include "libexec/kernels/pointwise_program.h"
#include "libexec/kernels/stream.h"

#include <assert.h>
#include <string.h>

#define BLOCK_ELEMENTS       32768
#define BLOCK_ELEMENTS_HEAVY 8192
#define BLOCK_ELEMENTS_ASKED 65536 /* when operands come from memory: a fence follows each */
#define ROW_ELEMENTS_MIN     64    /* shorter rows share a tile */

static bool reads(const exg_instruction *i, uint8_t value)
{
    for (uint32_t k = 0; k < i->source_count; k++) {
        if (i->sources[k] == value) {
            return true;
        }
    }
    return (i->kind == EXG_INSTRUCTION_STORE || i->kind == EXG_INSTRUCTION_ROUND) &&
           i->target == value;
}

static uint32_t count_readers(const exg_pointwise *p, uint8_t value)
{
    uint32_t count = 0;

    for (uint8_t k = 0; k < p->instruction_count; k++) {
        count += reads(&p->instructions[k], value);
    }
    return count;
}

static const exg_instruction *load_of(const exg_pointwise *p, uint8_t value)
{
    return &p->instructions[p->values[value].made_by];
}

static bool is_load(const exg_pointwise *p, uint8_t value)
{
    return load_of(p, value)->kind == EXG_INSTRUCTION_LOAD;
}

static bool is_copy(const exg_pointwise *p, const exg_instruction *i)
{
    return i->kind == EXG_INSTRUCTION_CONVERT && !i->is_truth &&
           p->values[i->target].compute == p->values[i->sources[0]].compute;
}

/* A copy that is made to be rounded and is stored at once is not made: a store rounds. */
static void drop_copies(exg_pointwise *p)
{
    uint8_t kept = 0;

    for (uint8_t k = 0; k < p->instruction_count; k++) {
        const exg_instruction i = p->instructions[k];
        exg_instruction *reader = &p->instructions[k + 1];

        while (reader < &p->instructions[p->instruction_count] && !reads(reader, i.target)) {
            reader++;
        }
        if (is_copy(p, &i) && count_readers(p, i.target) == 1 &&
            reader->kind == EXG_INSTRUCTION_STORE) {
            reader->target = i.sources[0];
        } else {
            p->instructions[kept++] = i;
        }
    }
    p->instruction_count = kept;
}

/* Stores go last: an output may be on an input that is still to be read. */
static void move_stores_last(exg_pointwise *p)
{
    exg_instruction stores[EXG_INSTRUCTION_MAX];
    uint8_t store_count = 0;
    uint8_t kept = 0;

    for (uint8_t k = 0; k < p->instruction_count; k++) {
        if (p->instructions[k].kind == EXG_INSTRUCTION_STORE) {
            stores[store_count++] = p->instructions[k];
        } else {
            p->instructions[kept++] = p->instructions[k];
        }
    }
    memcpy(&p->instructions[kept], stores, store_count * sizeof(stores[0]));
}

/* An operand that is stored as it is is copied first, where another result may be on it. */
static void copy_what_is_stored(exg_pointwise *p)
{
    uint32_t stores = 0;

    for (uint8_t k = 0; k < p->instruction_count; k++) {
        stores += p->instructions[k].kind == EXG_INSTRUCTION_STORE;
    }
    for (uint8_t k = 0; stores > 1 && k < p->instruction_count; k++) {
        const uint8_t value = p->instructions[k].target;

        for (uint8_t l = 0; p->instructions[k].kind == EXG_INSTRUCTION_STORE && l < k; l++) {
            exg_instruction *load = &p->instructions[l];

            if (load->kind == EXG_INSTRUCTION_LOAD && load->target == value) {
                load->is_direct = false;
            }
        }
    }
}

/* Brings what is the same for every tile to the front. Rounding happens in place,
 * so an invariant value that is rounded later stays where it is. */
static void move_invariants_first(exg_pointwise *p)
{
    exg_instruction sorted[EXG_INSTRUCTION_MAX];
    uint8_t count = 0;

    for (uint8_t k = 0; k < p->instruction_count; k++) {
        exg_instruction *i = &p->instructions[k];
        bool invariant = i->kind != EXG_INSTRUCTION_STORE;

        if (i->kind == EXG_INSTRUCTION_LOAD) {
            invariant = p->operands[i->operand].is_invariant;
        } else if (i->kind == EXG_INSTRUCTION_ROUND) {
            invariant = p->values[i->target].is_invariant;
        }
        for (uint32_t s = 0; s < i->source_count; s++) {
            invariant = invariant && p->values[i->sources[s]].is_invariant;
        }
        i->is_invariant = invariant;
        if (i->kind != EXG_INSTRUCTION_STORE) {
            p->values[i->target].is_invariant = invariant;
        }
    }
    for (int pass = 1; pass >= 0; pass--) {
        for (uint8_t k = 0; k < p->instruction_count; k++) {
            if (p->instructions[k].is_invariant == (pass == 1)) {
                sorted[count++] = p->instructions[k];
            }
        }
        p->invariant_count = pass == 1 ? count : p->invariant_count;
    }
    memcpy(p->instructions, sorted, count * sizeof(sorted[0]));
}

/* What a formula gives may be its reader's first operand. */
static bool commutes(const exg_instruction *i)
{
    float factor;

    memcpy(&factor, i->scalars, sizeof(factor));
    return i->formula_id == EXG_FORMULA_mul_Tensor ||
           (i->formula_id == EXG_FORMULA_add_Tensor && factor == 1);
}

static const exg_chain_loops *chain_of(const exg_pointwise *p, const exg_instruction *i)
{
    const exg_compute compute = p->values[i->target].compute;

    return i->kind != EXG_INSTRUCTION_FORMULA ||
                   EXG_LOOPS(exg_loops_narrow)->of[i->formula_id] == NULL
               ? NULL
           : compute == EXG_COMPUTE_F32  ? EXG_LOOPS(exg_loops_chain)
           : compute == EXG_COMPUTE_BF16 ? EXG_LOOPS(exg_loops_chain_bf16)
                                         : NULL;
}

/* `next` alone reads what `i` gives, once, and in the place of its first operand. */
static bool is_followed_by(const exg_pointwise *p, const exg_instruction *i,
                           const exg_instruction *next)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < next->source_count; k++) {
        count += next->sources[k] == i->target;
    }
    return i->chain != NULL && i->chain == next->chain && count == 1 &&
           next->is_invariant == i->is_invariant && count_readers(p, i->target) == 1 &&
           (next->sources[0] == i->target || (commutes(next) && next->sources[1] == i->target));
}

/* Formulas that others follow go right before those, and run with them. */
static void make_chains(exg_pointwise *p)
{
    exg_instruction *const all = p->instructions;

    for (uint32_t k = 0; k < p->instruction_count; k++) {
        all[k].chain = chain_of(p, &all[k]);
    }
    for (uint32_t k = p->instruction_count; k-- > 0;) {
        uint32_t next = k + 1;

        while (next < p->instruction_count && !is_followed_by(p, &all[k], &all[next])) {
            next++;
        }
        if (next < p->instruction_count) {
            const exg_instruction moved = all[k];

            memmove(&all[k], &all[k + 1], (next - k - 1) * sizeof(moved));
            all[next - 1] = moved;
        }
    }
    for (uint32_t k = 0; k + 1 < p->instruction_count; k++) {
        exg_instruction *next = &all[k + 1];

        if (is_followed_by(p, &all[k], next) && all[k].chained + 2 <= EXG_CHAIN_MAX) {
            if (next->sources[0] != all[k].target) {
                next->sources[1] = next->sources[0];
                next->sources[0] = all[k].target;
            }
            all[k].is_chained = true;
            next->chained = (uint8_t)(all[k].chained + 1);
            next->takes_flow = true;
            next->is_heavy |= all[k].is_heavy;
        }
    }
}

/* `fills`: values of one element a row keep their buffers from tile to tile. */
static void find_lifetimes(exg_pointwise *p, bool fills)
{
    for (uint8_t v = 0; v < p->value_count; v++) {
        p->values[v].last_use = 0;
        for (uint8_t k = 0; k < p->instruction_count; k++) {
            const exg_instruction *i = &p->instructions[k];

            if (i->kind != EXG_INSTRUCTION_STORE && i->kind != EXG_INSTRUCTION_ROUND &&
                i->target == v) {
                p->values[v].made_by = k;
                p->values[v].last_use = k > p->values[v].last_use ? k : p->values[v].last_use;
            }
            if (reads(i, v)) {
                p->values[v].last_use = k;
            }
        }
        p->values[v].is_filled = fills && is_load(p, v) && !p->values[v].is_invariant &&
                                 p->rank > 1 &&
                                 p->operands[load_of(p, v)->operand].strides[p->rank - 1] == 0;
        if (p->values[v].is_invariant || p->values[v].is_filled) {
            p->values[v].last_use = UINT8_MAX;
        }
    }
}

/* What makes a value may write straight into its output when nothing loaded is read after it;
 * past the caches when nobody reads the value again. */
static void find_direct_stores(exg_pointwise *p)
{
    for (uint8_t k = 0; k < p->instruction_count; k++) {
        exg_instruction *store = &p->instructions[k];
        exg_instruction *maker = &p->instructions[p->values[store->target].made_by];
        bool direct =
            store->kind == EXG_INSTRUCTION_STORE && exg_value_is_storage(p, store) &&
            (!p->operands[store->operand].is_past_caches ||
             (maker->takes_flow && count_readers(p, store->target) == 1)) &&
            (maker->kind == EXG_INSTRUCTION_FORMULA || maker->kind == EXG_INSTRUCTION_CONVERT) &&
            !maker->is_invariant && !maker->is_direct;

        for (uint8_t j = p->values[store->target].made_by; direct && j < p->instruction_count;
             j++) {
            const exg_instruction *i = &p->instructions[j];

            if (j > p->values[store->target].made_by) {
                for (uint32_t s = 0; s < i->source_count; s++) {
                    direct = direct && !is_load(p, i->sources[s]);
                }
                direct = direct && !(i->kind == EXG_INSTRUCTION_STORE && is_load(p, i->target));
            }
        }
        if (direct) {
            store->is_direct = true;
            maker->is_direct = true;
            maker->operand = store->operand;
        }
    }
}

/* Deals the operands that come from memory, and the results that go there through the caches, to
 * formulas that ask for what comes next of them: to heavy ones, where there are any. Several light
 * loops fill the first cache with their tile buffers: what is asked for then waits in the second.
 */
static void deal_flows(exg_pointwise *p)
{
    uint8_t takers[EXG_INSTRUCTION_MAX];
    uint32_t count = 0;
    uint32_t loops = 0;

    for (uint8_t k = p->invariant_count; k < p->instruction_count; k++) {
        const exg_instruction *i = &p->instructions[k];

        loops += i->kind == EXG_INSTRUCTION_FORMULA && !i->is_chained;
    }
    p->asks_far = loops > 1 && !p->has_heavy;
    for (int heavy = 1; heavy >= 0 && count == 0; heavy--) {
        for (uint8_t k = p->invariant_count; k < p->instruction_count; k++) {
            const exg_instruction *i = &p->instructions[k];

            if (i->kind == EXG_INSTRUCTION_FORMULA && !i->is_chained && i->takes_flow &&
                i->is_heavy >= heavy) {
                takers[count++] = k;
            }
        }
    }
    for (uint8_t o = 0; o < p->operand_count && count > 0; o++) {
        exg_instruction *taker = &p->instructions[takers[o % count]];

        if (exg_is_asked_for(&p->operands[o]) && taker->asked_count < EXG_FLOW_ASKED_MAX) {
            taker->asked[taker->asked_count++] = o;
            p->operands[o].is_in_flow = true;
        }
    }
}

/* Gives each value a buffer for a tile of so many elements; a buffer is taken again once its value
 * is dead, by the instruction that reads it last if the widths are the same. Gives the bytes of
 * all. */
static uint32_t assign_buffers(exg_pointwise *p, uint32_t tile)
{
    struct {
        uint32_t offset;
        uint32_t bytes;
        uint8_t owner;
    } buffers[EXG_VALUE_MAX];
    uint32_t count = 0;
    uint32_t used = 0;

    p->tile_most = tile;
    for (uint8_t k = 0; k < p->instruction_count; k++) {
        const exg_instruction *i = &p->instructions[k];
        exg_tile_value *v = &p->values[i->target];
        uint32_t bytes = exg_compute_bytes(v->compute) * p->tile_most + 64;
        uint32_t b = 0;

        if (v->made_by != k || i->kind == EXG_INSTRUCTION_STORE ||
            i->kind == EXG_INSTRUCTION_ROUND) {
            continue;
        }
        for (; b < count; b++) {
            const exg_tile_value *owner = &p->values[buffers[b].owner];
            bool dies_here = owner->last_use == k && i->kind == EXG_INSTRUCTION_FORMULA &&
                             exg_compute_bytes(owner->compute) == exg_compute_bytes(v->compute);

            if (buffers[b].bytes == bytes && (owner->last_use < k || dies_here)) {
                break;
            }
        }
        if (b == count) {
            buffers[count].offset = used;
            buffers[count++].bytes = bytes;
            used += bytes;
        }
        buffers[b].owner = i->target;
        v->offset = buffers[b].offset;
    }
    return used;
}

/* Gives the values tile buffers: tiles are as large as the first cache lets them be, for each costs
 * something of its own. */
static bool choose_tile(exg_pointwise *p)
{
    uint32_t tile = EXG_TILE_MOST;
    uint32_t bytes = assign_buffers(p, tile);

    while (tile > EXG_TILE && bytes > EXG_TILE_BYTES_NEAR) {
        tile /= 2;
        bytes = assign_buffers(p, tile);
    }
    return bytes <= EXG_TILE_BYTES_MAX;
}

/* Merges neighbouring dimensions that every operand walks alike. */
static void coalesce(exg_pointwise *p)
{
    uint32_t rank = 0;

    for (uint32_t d = 0; d < p->rank; d++) {
        bool merges = rank > 0;
        int64_t size = p->sizes[d];

        if (size == 1) {
            continue;
        }
        for (uint8_t o = 0; o < p->operand_count && merges; o++) {
            const int64_t *s = p->operands[o].strides;

            merges = s[rank - 1] == s[d] * size;
        }
        if (!merges) {
            rank++;
            p->sizes[rank - 1] = 1;
        }
        p->sizes[rank - 1] *= size;
        for (uint8_t o = 0; o < p->operand_count; o++) {
            p->operands[o].strides[rank - 1] = p->operands[o].strides[d];
        }
    }
    if (rank == 0) {
        rank = 1;
        p->sizes[0] = p->numel;
        for (uint8_t o = 0; o < p->operand_count; o++) {
            p->operands[o].strides[0] = 0;
        }
    }
    p->rank = rank;
}

/* Gives the bytes of all operands and those of the widest's elements. */
static void describe_operands(exg_pointwise *p, uint64_t *bytes, uint32_t *widest)
{
    *bytes = 0;
    *widest = 1;
    for (uint8_t o = 0; o < p->operand_count; o++) {
        exg_pointwise_operand *operand = &p->operands[o];
        int64_t stride = 1;
        int64_t size;

        operand->is_dense = true;
        operand->is_invariant = !operand->is_output;
        for (uint32_t d = p->rank; d-- > 0;) {
            operand->is_dense = operand->is_dense && operand->strides[d] == stride;
            operand->is_invariant = operand->is_invariant && operand->strides[d] == 0;
            stride *= p->sizes[d];
        }
        if (p->numel == 1) {
            operand->is_dense = true;
            operand->is_invariant = false;
        }
        size = operand->is_invariant ? 0 : p->numel * operand->element_bytes;
        operand->is_past_caches =
            operand->is_output && operand->is_dense && size >= exg_past_caches_bytes();
        *bytes += (uint64_t)size;
        *widest = operand->element_bytes > *widest ? operand->element_bytes : *widest;
    }
}

/* How the iteration space is cut into blocks and tiles. */
static void cut(exg_pointwise *p, uint64_t bytes, uint32_t widest)
{
    int64_t row = p->sizes[p->rank - 1];
    int64_t block = p->has_heavy ? BLOCK_ELEMENTS_HEAVY : BLOCK_ELEMENTS;
    int64_t tile = p->tile_most;
    const uint64_t far = (uint64_t)exg_past_caches_bytes();
    bool is_all_in_flow = true;

    for (uint8_t o = 0; o < p->operand_count; o++) {
        is_all_in_flow = is_all_in_flow && !exg_is_asked_for(&p->operands[o]);
    }
    p->asks = bytes >= far; /* what a cache has, the processor brings by itself */
    if (p->asks) {
        if (!is_all_in_flow) {
            tile = EXG_TILE_ASKED / widest;
            tile = tile < p->tile_most ? tile : p->tile_most;
        }
        block = bytes > far ? BLOCK_ELEMENTS_ASKED : block;
    }
    p->copy = EXG_LOOPS(exg_loops_convert)->copy_past_caches;
    p->by_rows = p->rank > 1 && row >= ROW_ELEMENTS_MIN;
    if (p->by_rows) {
        int64_t tiles_of_row = (row + tile - 1) / tile;

        tile = (row + tiles_of_row - 1) / tiles_of_row;
        tile = (tile + 63) & ~INT64_C(63); /* parts of chains are whole */
        tile = tile > p->tile_most ? p->tile_most : tile;
        block = row >= block ? block : block / row * row;
    }
    p->tile = (uint32_t)(tile < p->numel ? tile : p->numel);
    p->block_elements = block;
    p->block_count = (uint32_t)((p->numel + block - 1) / block);
}

/* What is there, without the room for more. */
static bool keep(exg_pointwise *p)
{
    p->instructions =
        exg_arena_memdup(p->arena, p->instructions, p->instruction_count, sizeof(*p->instructions));
    p->values = exg_arena_memdup(p->arena, p->values, p->value_count, sizeof(*p->values));
    p->operands = exg_arena_memdup(p->arena, p->operands, p->operand_count, sizeof(*p->operands));
    return p->instructions != NULL && p->values != NULL && p->operands != NULL;
}

exg_status exg_pointwise_finish(exg_pointwise *p, exg_kernel_call *call, exg_error *err)
{
    uint64_t bytes;
    uint32_t widest;

    for (uint8_t o = 0; o < p->operand_count; o++) {
        exg_pointwise_operand *operand = &p->operands[o];
        const exg_tensor *t =
            operand->is_output ? &call->outputs[operand->index] : &call->inputs[operand->index];

        assert(t->rank == p->rank);
        memcpy(operand->strides, t->strides, sizeof(operand->strides));
        for (uint32_t d = 0; d < p->rank; d++) {
            operand->strides[d] = p->sizes[d] == 1 ? 0 : operand->strides[d];
        }
    }
    coalesce(p);
    describe_operands(p, &bytes, &widest);
    drop_copies(p);
    exg_pointwise_make_bytes(p);
    move_stores_last(p);
    copy_what_is_stored(p);
    move_invariants_first(p);
    make_chains(p);
    find_lifetimes(p, true);
    find_direct_stores(p);
    deal_flows(p);
    if (!choose_tile(p)) {
        find_lifetimes(p, false);
        if (!choose_tile(p)) {
            return exg_pointwise_full(err);
        }
    }
    if (p->numel / BLOCK_ELEMENTS_HEAVY >= INT32_MAX) {
        return EXG_FAIL(err, LIMIT, "PW-005", "a tensor of %lld elements is too large",
                        (long long)p->numel);
    }
    cut(p, bytes, widest);
    if (!keep(p)) {
        return EXG_OUT_OF_MEMORY(err);
    }
    call->params = p;
    call->workspace_bytes = 0;
    return EXG_OK;
}
