/* fibre.c - see fibre.h. */
#include "tests/standin/fibre.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifndef __x86_64__
#include <ucontext.h>
#endif

#define STACK_BYTES (256u << 10)
#define WARP        32
#define SLOT_BYTES  32 /* most of a thread in a shuffle */

typedef enum fibre_state { RUNS, AT_BARRIER, AT_WARP, ENDED } fibre_state;

typedef struct fibre {
    void *stack;
#ifdef __x86_64__
    void *at; /* stack pointer while it does not run */
#else
    ucontext_t at;
#endif
    void *fake_stack; /* the sanitizer's */
} fibre;

static struct {
    const fibre_launch *launch;
    fibre host;
    fibre *pool[FIBRE_THREADS_MAX]; /* those that run nothing */
    uint32_t pool_count;
    fibre *of[FIBRE_THREADS_MAX]; /* by thread */
    fibre_state states[FIBRE_THREADS_MAX];
    uint16_t ready[FIBRE_THREADS_MAX / WARP][WARP]; /* threads, by warp */
    uint32_t ready_in[FIBRE_THREADS_MAX / WARP];
    uint32_t ready_count; /* of all warps */
    uint32_t at_barrier;
    uint32_t at_warp[FIBRE_THREADS_MAX / WARP];
    char slots[2][FIBRE_THREADS_MAX][SLOT_BYTES];
    uint8_t turns[FIBRE_THREADS_MAX]; /* which slots a thread's next shuffle takes */
    uint64_t lot;
    bool by_rank;
    uint32_t ranks[FIBRE_THREADS_MAX / WARP]; /* of warps, drawn for a block */
    const void *host_bottom;
    size_t host_bytes;
    bool left_host;
} f = {.lot = 88172645463325252u};

static uint32_t draw(uint32_t count)
{
    f.lot ^= f.lot << 13;
    f.lot ^= f.lot >> 7;
    f.lot ^= f.lot << 17;
    return (uint32_t)((f.lot >> 33) % count);
}

/* ---- switching ------------------------------------------------------------------------- */

#ifdef __x86_64__
void standin_switch(void **from, void *to);
__asm__(".text\n"
        ".globl standin_switch\n"
        ".hidden standin_switch\n"
        ".type standin_switch, @function\n"
        "standin_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size standin_switch, . - standin_switch\n");
#endif

#ifdef __SANITIZE_ADDRESS__
static void land(void *fake_stack)
{
    const void *bottom;
    size_t bytes;

    __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
    if (f.left_host) {
        f.host_bottom = bottom;
        f.host_bytes = bytes;
        f.left_host = false;
    }
}
#endif

static void change(fibre *from, fibre *to)
{
#ifdef __SANITIZE_ADDRESS__
    const void *bottom = to == &f.host ? f.host_bottom : to->stack;
    size_t bytes = to == &f.host ? f.host_bytes : STACK_BYTES;

    f.left_host = from == &f.host;
    __sanitizer_start_switch_fiber(&from->fake_stack, bottom, bytes);
#endif
#ifdef __x86_64__
    standin_switch(&from->at, to->at);
#else
    (void)swapcontext(&from->at, &to->at);
#endif
#ifdef __SANITIZE_ADDRESS__
    land(from->fake_stack);
#endif
}

static void go_on(fibre *self);
static void settle(uint32_t thread, fibre_state state);

/* A fibre runs one thread after another. */
static void main_of_fibre(void)
{
#ifdef __SANITIZE_ADDRESS__
    land(NULL);
#endif
    for (;;) {
        int thread = fibre_emulator.thread;
        fibre *self = f.of[thread];

        f.launch->kernel(f.launch->params);
        settle((uint32_t)thread, ENDED);
        go_on(self);
    }
}

static fibre *new_fibre(void)
{
    static size_t count;
    fibre *made = calloc(1, sizeof(*made));

    made->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made->stack == MAP_FAILED) {
        abort();
    }
#ifdef __x86_64__
    {
        void (*start)(void) = main_of_fibre;
        /* Each begins elsewhere in its page, or all would share a few lines of the cache. */
        char *top = (char *)made->stack + STACK_BYTES - 64 - count++ % 32 * 64 * 9;

        memcpy(top, &start, sizeof(start)); /* what the switch returns to */
        made->at = top - 6 * sizeof(void *);
    }
#else
    (void)getcontext(&made->at);
    made->at.uc_stack.ss_sp = made->stack;
    made->at.uc_stack.ss_size = STACK_BYTES;
    makecontext(&made->at, main_of_fibre, 0);
#endif
    return made;
}

/* ---- what threads ask for ----------------------------------------------------------------- */

static void wait_at(fibre_state state)
{
    int thread = fibre_emulator.thread;
    fibre *self = f.of[thread];

    settle((uint32_t)thread, state);
    go_on(self);
}

static void barrier(void)
{
    wait_at(AT_BARRIER);
}

static void shuffle(void *value, int bytes, int lanes)
{
    int thread = fibre_emulator.thread;
    uint8_t turn = f.turns[thread];

    f.turns[thread] ^= 1;
    memcpy(&f.slots[turn][thread], value, (size_t)bytes);
    wait_at(AT_WARP);
    memcpy(value, &f.slots[turn][thread ^ lanes], (size_t)bytes);
}

static void gather(void *all, const void *own, int bytes)
{
    int thread = fibre_emulator.thread;
    uint8_t turn = f.turns[thread];

    f.turns[thread] ^= 1;
    memcpy(&f.slots[turn][thread], own, (size_t)bytes);
    wait_at(AT_WARP);
    for (int i = 0; i < WARP; i++) {
        memcpy((char *)all + i * bytes, &f.slots[turn][thread / WARP * WARP + i], (size_t)bytes);
    }
}

exg_emulator fibre_emulator = {.barrier = barrier, .shuffle = shuffle, .gather = gather};

/* ---- a block ---------------------------------------------------------------------------- */

static void make_ready(uint32_t first, uint32_t count)
{
    for (uint32_t t = first; t < first + count; t++) {
        f.states[t] = RUNS;
        f.ready[t / WARP][f.ready_in[t / WARP]++] = (uint16_t)t;
        f.ready_count++;
    }
}

/* A thread stops: who may go on because of it? */
static void settle(uint32_t thread, fibre_state state)
{
    uint32_t warp = thread / WARP;

    f.states[thread] = state;
    if (f.states[thread] == ENDED) {
        f.pool[f.pool_count++] = f.of[thread];
        f.of[thread] = NULL;
    } else if (f.states[thread] == AT_BARRIER && ++f.at_barrier == f.launch->threads) {
        f.at_barrier = 0;
        make_ready(0, f.launch->threads);
    } else if (f.states[thread] == AT_WARP && ++f.at_warp[warp] == WARP) {
        f.at_warp[warp] = 0;
        make_ready(warp * WARP, WARP);
    }
}

/* In every other block any thread may be next; in the rest a warp runs as far as it can before
 * others do, so that it also runs away from those that lag behind. */
static uint32_t choose(void)
{
    const uint32_t warps = f.launch->threads / WARP;
    uint32_t warp = 0;
    uint32_t k = draw(f.ready_count);
    uint32_t thread;

    if (f.by_rank) {
        for (uint32_t w = 0; w < warps; w++) {
            bool leads = f.ready_in[warp] == 0 || f.ranks[w] > f.ranks[warp];

            warp = f.ready_in[w] > 0 && leads ? w : warp;
        }
        k %= f.ready_in[warp];
    } else {
        while (k >= f.ready_in[warp]) {
            k -= f.ready_in[warp++];
        }
    }
    thread = f.ready[warp][k];
    f.ready[warp][k] = f.ready[warp][--f.ready_in[warp]];
    f.ready_count--;
    return thread;
}

/* From the thread that has stopped to the one that is next, which may be of the same fibre. */
static void go_on(fibre *self)
{
    fibre *next = &f.host;

    if (f.ready_count > 0) {
        uint32_t thread = choose();

        if (f.of[thread] == NULL) {
            f.of[thread] = f.pool_count > 0 ? f.pool[--f.pool_count] : new_fibre();
        }
        fibre_emulator.thread = (int)thread;
        next = f.of[thread];
    }
    if (next != self) {
        change(self, next);
    }
}

/* Also where the sanitizer forbids it: between variables. */
__attribute__((no_sanitize_address)) static void spoil(volatile char *bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        bytes[i] = (char)0xff;
    }
}

static const char *run_block(void)
{
    const fibre_launch *l = f.launch;

    f.ready_count = 0;
    memset(f.ready_in, 0, sizeof(f.ready_in));
    f.at_barrier = 0;
    memset(f.at_warp, 0, sizeof(f.at_warp));
    memset(f.turns, 0, sizeof(f.turns));
    spoil(l->shared, l->shared_bytes);
    f.by_rank = !f.by_rank;
    for (uint32_t w = 0; w < FIBRE_THREADS_MAX / WARP; w++) {
        f.ranks[w] = draw(1u << 30);
    }
    make_ready(0, l->threads);
    go_on(&f.host);
    for (uint32_t t = 0; t < l->threads; t++) {
        if (f.states[t] != ENDED) {
            memset(f.of, 0, sizeof(f.of)); /* their fibres are lost */
            return f.states[t] == AT_BARRIER ? "a barrier that not every thread reaches"
                                             : "a shuffle that not every thread of a warp reaches";
        }
    }
    return NULL;
}

const char *fibre_run(const fibre_launch *launch)
{
    uint64_t count = (uint64_t)launch->blocks[0] * launch->blocks[1] * launch->blocks[2];
    uint64_t first = draw((uint32_t)count);
    const char *wrong = NULL;

    if (launch->threads > FIBRE_THREADS_MAX || launch->threads % WARP != 0) {
        return "blocks are of whole warps, at most 1024 threads";
    }
    f.launch = launch;
    fibre_emulator.threads = (int)launch->threads;
    for (int d = 0; d < 3; d++) {
        fibre_emulator.blocks[d] = (int)launch->blocks[d];
    }
    for (uint64_t k = 0; k < count && wrong == NULL; k++) {
        uint64_t block = (first + k) % count;

        fibre_emulator.block[0] = (int)(block % launch->blocks[0]);
        fibre_emulator.block[1] = (int)(block / launch->blocks[0] % launch->blocks[1]);
        fibre_emulator.block[2] = (int)(block / launch->blocks[0] / launch->blocks[1]);
        wrong = run_block();
    }
    return wrong;
}
