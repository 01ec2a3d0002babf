/* amx.c - tile instructions, done by hand: Intel's "Architecture Instruction Set Extensions", the
 * chapter on AMX. */
#include "tests/standin/amx.h"

#include "libexec/kernels/isa.h"

#if defined(__x86_64__) && defined(__linux__)
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>

#define TILES     8
#define ROWS_MAX  16
#define BYTES_MAX 64

typedef struct tile {
    int rows, row_bytes;
    uint8_t data[ROWS_MAX][BYTES_MAX];
} tile;

static _Thread_local struct {
    bool is_configured;
    tile tiles[TILES];
} file;

static bool stands_in;
static _Atomic uint64_t done;

/* ---- decoding -------------------------------------------------------------------------- */

enum { PREFIX_NONE, PREFIX_66, PREFIX_F3, PREFIX_F2 };

typedef struct instruction {
    int opcode, prefix;
    int mod, reg, rm, vvvv;
    uint8_t *address; /* of its memory, if it has some */
    int64_t stride;   /* its index register, scaled */
    int length;
} instruction;

static uint64_t register_of(const ucontext_t *context, int number)
{
    static const int of[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                             REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                             REG_R12, REG_R13, REG_R14, REG_R15};

    return (uint64_t)context->uc_mcontext.gregs[of[number]];
}

/* The operand in memory: a base, a scaled index, a distance, or from the next instruction. */
static void decode_memory(instruction *i, const ucontext_t *context, const uint8_t *code,
                          int base_high, int index_high)
{
    uint64_t address = 0;
    bool has_base = true;
    int distance_bytes = i->mod == 1 ? 1 : i->mod == 2 ? 4 : 0;
    int8_t near = 0;
    int32_t far = 0;

    if (i->rm == 4) {
        int sib = code[i->length++];
        int index = (sib >> 3 & 7) | index_high << 3;

        has_base = i->mod != 0 || (sib & 7) != 5;
        distance_bytes = has_base ? distance_bytes : 4;
        address = has_base ? register_of(context, (sib & 7) | base_high << 3) : 0;
        i->stride = index == 4 ? 0 : (int64_t)register_of(context, index) << (sib >> 6);
    } else if (i->mod == 0 && i->rm == 5) {
        has_base = false;
        distance_bytes = 4;
    } else {
        address = register_of(context, i->rm | base_high << 3);
    }
    if (distance_bytes == 1) {
        memcpy(&near, code + i->length, 1);
        address += (uint64_t)(int64_t)near;
    } else if (distance_bytes == 4) {
        memcpy(&far, code + i->length, 4);
        address += (uint64_t)(int64_t)far;
    }
    i->length += distance_bytes;
    if (!has_base && i->rm == 5) {
        address += (uint64_t)(uintptr_t)(code + i->length);
    }
    i->address = (uint8_t *)(uintptr_t)address;
}

/* Three bytes of VEX, map 0F38, 128 bits, W0: what all tile instructions have. */
static bool decode(const ucontext_t *context, instruction *i)
{
    const uint8_t *code = (const uint8_t *)(uintptr_t)context->uc_mcontext.gregs[REG_RIP];

    if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || (code[2] & 0x84) != 0) {
        return false;
    }
    *i = (instruction){.opcode = code[3], .prefix = code[2] & 3, .length = 5};
    i->vvvv = ~code[2] >> 3 & 15;
    i->mod = code[4] >> 6;
    i->reg = code[4] >> 3 & 7;
    i->rm = code[4] & 7;
    if (i->mod != 3) {
        decode_memory(i, context, code, ~code[1] >> 5 & 1, ~code[1] >> 6 & 1);
    }
    return true;
}

/* ---- what they do ------------------------------------------------------------------------ */

static bool configure(const uint8_t *from)
{
    memset(&file, 0, sizeof(file));
    if (from[0] != 1 || from[1] != 0) {
        return from[0] == 0;
    }
    for (int t = 0; t < TILES; t++) {
        uint16_t row_bytes;

        memcpy(&row_bytes, from + 16 + 2 * t, 2);
        file.tiles[t].row_bytes = row_bytes;
        file.tiles[t].rows = from[48 + t];
        if (row_bytes > BYTES_MAX || from[48 + t] > ROWS_MAX ||
            (row_bytes == 0) != (from[48 + t] == 0)) {
            return false;
        }
    }
    file.is_configured = true;
    return true;
}

static bool has_tile(int t)
{
    return file.is_configured && t < TILES && file.tiles[t].rows > 0;
}

static void load(tile *t, const instruction *i)
{
    memset(t->data, 0, sizeof(t->data));
    for (int r = 0; r < t->rows; r++) {
        memcpy(t->data[r], i->address + r * i->stride, (size_t)t->row_bytes);
    }
}

static void store(const tile *t, const instruction *i)
{
    for (int r = 0; r < t->rows; r++) {
        memcpy(i->address + r * i->stride, t->data[r], (size_t)t->row_bytes);
    }
}

/* Denormals are zeros. */
static float flushed(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, 4);
    bits &= (bits & 0x7f800000) != 0 ? UINT32_MAX : 0x80000000;
    memcpy(&x, &bits, 4);
    return x;
}

/* A tile of bf16 in f32. */
typedef struct wide {
    float data[ROWS_MAX][BYTES_MAX / 2];
} wide;

static void widen(wide *to, const tile *from)
{
    for (int r = 0; r < from->rows; r++) {
        for (int k = 0; k < from->row_bytes / 2; k++) {
            uint16_t half;
            uint32_t bits;

            memcpy(&half, from->data[r] + 2 * k, 2);
            bits = (uint32_t)half << 16;
            memcpy(&to->data[r][k], &bits, 4);
            to->data[r][k] = flushed(to->data[r][k]);
        }
    }
}

/* Even and odd elements of the depth have sums of their own, which are added at the end. */
__attribute__((target("fma"))) static void add_bf16(uint8_t *to, const wide *a, const wide *b,
                                                    int pairs, int row, int column)
{
    float sums[2] = {0, 0};
    float c;

    for (int k = 0; k < pairs; k++) {
        for (int half = 0; half < 2; half++) {
            sums[half] = flushed(__builtin_fmaf(a->data[row][2 * k + half],
                                                b->data[k][2 * column + half], sums[half]));
        }
    }
    memcpy(&c, to, 4);
    c = flushed(flushed(c) + flushed(sums[0] + sums[1]));
    memcpy(to, &c, 4);
}

static void add_bytes(uint8_t *to, const tile *a, const tile *b, int row, int column,
                      bool a_is_signed, bool b_is_signed)
{
    uint32_t sum;

    memcpy(&sum, to, 4);
    for (int k = 0; k < a->row_bytes; k++) {
        uint8_t x = a->data[row][k];
        uint8_t y = b->data[k / 4][4 * column + k % 4];

        sum += (uint32_t)((a_is_signed ? (int8_t)x : x) * (b_is_signed ? (int8_t)y : y));
    }
    memcpy(to, &sum, 4);
}

static bool multiply(const instruction *i)
{
    tile *c = &file.tiles[i->reg];
    const tile *a = &file.tiles[i->rm];
    const tile *b = &file.tiles[i->vvvv & 7];
    wide a_wide;
    wide b_wide;

    if (i->mod != 3 || i->vvvv >= TILES || i->reg == i->rm || i->reg == i->vvvv ||
        i->rm == i->vvvv || !has_tile(i->reg) || !has_tile(i->rm) || !has_tile(i->vvvv) ||
        c->rows != a->rows || c->row_bytes != b->row_bytes || a->row_bytes / 4 != b->rows) {
        return false;
    }
    if (i->opcode == 0x5c) {
        widen(&a_wide, a);
        widen(&b_wide, b);
    }
    for (int row = 0; row < c->rows; row++) {
        for (int column = 0; column < c->row_bytes / 4; column++) {
            uint8_t *to = c->data[row] + 4 * column;

            if (i->opcode == 0x5c) {
                add_bf16(to, &a_wide, &b_wide, b->rows, row, column);
            } else {
                add_bytes(to, a, b, row, column, i->prefix == PREFIX_F2 || i->prefix == PREFIX_F3,
                          i->prefix == PREFIX_F2 || i->prefix == PREFIX_66);
            }
        }
    }
    return true;
}

/* False: no instruction of AMX, or one that faults. */
static bool carry_out(const instruction *i)
{
    bool is_memory = i->mod != 3;
    bool is_sib = is_memory && i->rm == 4 && i->vvvv == 0;

    switch (i->opcode << 4 | i->prefix) {
    case 0x49 << 4 | PREFIX_NONE: /* ldtilecfg, tilerelease */
        if (!is_memory) {
            memset(&file, 0, sizeof(file));
            return i->reg == 0 && i->rm == 0;
        }
        return configure(i->address);
    case 0x49 << 4 | PREFIX_F2: /* tilezero */
        if (is_memory || !has_tile(i->reg)) {
            return false;
        }
        memset(file.tiles[i->reg].data, 0, sizeof(file.tiles[i->reg].data));
        return true;
    case 0x4b << 4 | PREFIX_F2: /* tileloadd, tileloaddt1 */
    case 0x4b << 4 | PREFIX_66:
        if (!is_sib || !has_tile(i->reg)) {
            return false;
        }
        load(&file.tiles[i->reg], i);
        return true;
    case 0x4b << 4 | PREFIX_F3: /* tilestored */
        if (!is_sib || !has_tile(i->reg)) {
            return false;
        }
        store(&file.tiles[i->reg], i);
        return true;
    case 0x5c << 4 | PREFIX_F3: /* tdpbf16ps */
        return multiply(i);
    default: /* tdpbssd, tdpbsud, tdpbusd, tdpbuud */
        return i->opcode == 0x5e && multiply(i);
    }
}

/* The one that was refused and those that follow it: a signal costs more than they do. */
static void refused(int number, siginfo_t *info, void *context_)
{
    ucontext_t *context = context_;
    instruction i;
    uint64_t count = 0;

    (void)info;
    for (; decode(context, &i) && carry_out(&i); count++) {
        context->uc_mcontext.gregs[REG_RIP] += i.length;
    }
    if (count == 0) {
        signal(number, SIG_DFL); /* it comes again, and is the end */
    }
    atomic_fetch_add_explicit(&done, count, memory_order_relaxed);
}

bool amx_stand_in(void)
{
    struct sigaction action = {.sa_sigaction = refused, .sa_flags = SA_SIGINFO};

    if (!stands_in && exg_isa_has(EXG_ISA_AMX)) {
        return true;
    }
    if (!exg_isa_has(EXG_ISA_BF16) || sigaction(SIGILL, &action, NULL) != 0) {
        return false;
    }
    stands_in = true;
    exg_isa_assume(EXG_ISA_AMX);
    return true;
}

void amx_stand_down(void)
{
    stands_in = false;
    exg_isa_assume(EXG_ISA_GENERIC);
}

bool amx_stands_in(void)
{
    return stands_in && exg_isa_current() == EXG_ISA_AMX;
}

bool amx_is_configured(void)
{
    return file.is_configured;
}

uint64_t amx_instructions(void)
{
    return atomic_load_explicit(&done, memory_order_relaxed);
}
#else
bool amx_stand_in(void)
{
    return false;
}

void amx_stand_down(void)
{
}

bool amx_stands_in(void)
{
    return false;
}

bool amx_is_configured(void)
{
    return false;
}

uint64_t amx_instructions(void)
{
    return 0;
}
#endif
