/* common.h - what kernel texts are written in: the common part of C11 and CUDA C++, and
 * names for what differs. NVRTC compiles a text for a device; a C compiler makes of the same
 * text what the tests' emulator runs, each thread a fibre.
 *
 * A kernel has one parameter, a struct by value that begins with the addresses of its
 * operands (params.h). Blocks of threads are of one dimension. A warp is 32 threads, and
 * all of them take part in a shuffle.
 */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_COMMON_H
#define EXG_LIBEXEC_KERNELS_CUDA_COMMON_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
#define EXG_HALVES_ELSEWHERE /* element.h has none of these three then */

static inline uint16_t exg_f32_to_bf16(float x)
{
    uint16_t half;

    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}

static inline uint16_t exg_f32_to_f16(float x)
{
    uint16_t half;

    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}

static inline float exg_f16_to_f32(uint16_t half)
{
    float x;

    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
}
#endif

#include "libexport/base/element.h"

#ifdef __CUDACC__

/* A multiprocessor is to have at least 1024 threads, so one has 64 registers at most. */
#ifdef BLOCK_THREADS
#define BOUNDS __launch_bounds__(BLOCK_THREADS, BLOCK_THREADS < 1024 ? 1024 / BLOCK_THREADS : 1)
#else
#define BOUNDS
#endif
/* PAIRED: two launches as one, of which each block of the third dimension is one. */
#ifdef PAIRED
#define KERNEL(name, params)                                                                       \
    typedef struct name##_pair {                                                                   \
        params of[2];                                                                              \
    } name##_pair;                                                                                 \
    static inline void name##_one(const params &p);                                                \
    extern "C" __global__ void BOUNDS name(const __grid_constant__ name##_pair both)               \
    {                                                                                              \
        name##_one(both.of[BLOCK_Z]);                                                              \
    }                                                                                              \
    static inline void name##_one(const params &p)
#else
#define KERNEL(name, params)                                                                       \
    extern "C" __global__ void BOUNDS name(const __grid_constant__ params p)
#endif
#define SHARED                 __shared__
#define BARRIER()              __syncthreads()
#define WARP_BARRIER()         __syncwarp()
#define THREAD                 ((int)threadIdx.x)
#define BLOCK_X                ((int)blockIdx.x)
#define BLOCK_Y                ((int)blockIdx.y)
#define BLOCK_Z                ((int)blockIdx.z)
#define BLOCKS_X               ((int)gridDim.x)
#define SWAP_IF(at, old, new_) atomicCAS(at, old, new_)
#define ADD_TO(at, more)       atomicAdd(at, more)
#define UNROLL                 _Pragma("unroll")
#define NO_UNROLL              _Pragma("unroll 1")
#define ALWAYS_INLINE          __forceinline__

#define DEFINE_SHUFFLE(name, type)                                                                 \
    static inline type shuffle_##name(type x, int lanes)                                           \
    {                                                                                              \
        return __shfl_xor_sync(0xffffffffu, x, lanes);                                             \
    }

static inline int bits_in(uint32_t word)
{
    return __popc(word);
}

static inline uint32_t warp_equal(int x, int bits)
{
    uint32_t equal = 0xffffffffu;

    UNROLL
    for (int b = 0; b < bits; b++) {
        const uint32_t set = __ballot_sync(0xffffffffu, x >> b & 1);

        equal &= (x >> b & 1) != 0 ? set : ~set;
    }
    return equal;
}

#else

/* What the emulator puts at the disposal of the thread that it runs now. */
typedef struct exg_emulator {
    int thread, threads;
    int block[3], blocks[3];
    void (*barrier)(void);
    void (*shuffle)(void *value, int bytes, int lanes);
    void (*gather)(void *all, const void *own, int bytes); /* of a warp's threads, in order */
} exg_emulator;

exg_emulator *exg_emulated;

/* Where shared variables are: one block runs at a time. */
extern char __start_exg_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_exg_shared[] __attribute__((weak, visibility("hidden")));

void exg_shared_range(char **first, char **end);
void exg_shared_range(char **first, char **end)
{
    *first = __start_exg_shared;
    *end = __stop_exg_shared;
}

#define KERNEL(name, params)                                                                       \
    static void name##_of(const params p);                                                         \
    void name(const void *bytes);                                                                  \
    void name(const void *bytes)                                                                   \
    {                                                                                              \
        name##_of(((const params *)bytes)[PAIR]);                                                  \
    }                                                                                              \
    static void name##_of(const params p)
#ifdef PAIRED
#define PAIR BLOCK_Z
#else
#define PAIR 0
#endif
#define SHARED    static __attribute__((section("exg_shared")))
#define BARRIER() exg_emulated->barrier()
#define WARP_BARRIER()                                                                             \
    do {                                                                                           \
        int none = 0;                                                                              \
                                                                                                   \
        exg_emulated->shuffle(&none, (int)sizeof(none), 0);                                        \
    } while (0)
#define THREAD   (exg_emulated->thread)
#define BLOCK_X  (exg_emulated->block[0])
#define BLOCK_Y  (exg_emulated->block[1])
#define BLOCK_Z  (exg_emulated->block[2])
#define BLOCKS_X (exg_emulated->blocks[0])
#define UNROLL
#define NO_UNROLL
#define ALWAYS_INLINE          inline

static inline int exg_swap_if(int *at, int old, int new_)
{
    int found = *at;

    *at = found == old ? new_ : found;
    return found;
}
#define SWAP_IF(at, old, new_) exg_swap_if(at, old, new_)

static inline int exg_add_to(int *at, int more)
{
    int found = *at;

    *at += more;
    return found;
}
#define ADD_TO(at, more)       exg_add_to(at, more)

#define DEFINE_SHUFFLE(name, type)                                                                 \
    static inline type shuffle_##name(type x, int lanes)                                           \
    {                                                                                              \
        exg_emulated->shuffle(&x, (int)sizeof(x), lanes);                                          \
        return x;                                                                                  \
    }

static inline int bits_in(uint32_t word)
{
    return __builtin_popcount(word);
}

static inline uint32_t warp_equal(int x, int bits)
{
    int all[32];
    uint32_t equal = 0;

    (void)bits;
    exg_emulated->gather(all, &x, (int)sizeof(x));
    for (int lane = 0; lane < 32; lane++) {
        equal |= (uint32_t)(all[lane] == x) << lane;
    }
    return equal;
}

#endif

/* bits_in(word): how many are set. warp_equal(x, bits): a bit for each thread of the warp whose x,
 * of so many bits, is the same. shuffle_f32(x, lanes): the x of the thread whose number in the warp
 * differs in the bits of `lanes`. */
DEFINE_SHUFFLE(f32, float)
DEFINE_SHUFFLE(f64, double)
DEFINE_SHUFFLE(i32, int32_t)
DEFINE_SHUFFLE(i64, int64_t)

#define WARP 32

/* BLOCK_THREADS: the threads of a block, where the text is told, so that what goes over them is
 * unrolled. */
#ifdef BLOCK_THREADS
#define THREADS BLOCK_THREADS
#elif defined(__CUDACC__)
#define THREADS ((int)blockDim.x)
#else
#define THREADS (exg_emulated->threads)
#endif

/* Every i below count, shared out over all threads of the launch. */
#define FOR_EACH(i, count)                                                                         \
    NO_UNROLL                                                                                      \
    for (int64_t i = (int64_t)BLOCK_X * THREADS + THREAD; i < (count);                             \
         i += (int64_t)BLOCKS_X * THREADS)

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

/* ---- elements ------------------------------------------------------------------------- */

#define EXG_CONVERT(id, storage, compute, widen, narrow)                                           \
    typedef storage storage_##id;                                                                  \
    typedef compute compute_##id;                                                                  \
    static inline compute widen_##id(storage x)                                                    \
    {                                                                                              \
        return (compute)(widen);                                                                   \
    }                                                                                              \
    static inline storage narrow_##id(compute x)                                                   \
    {                                                                                              \
        return (storage)(narrow);                                                                  \
    }                                                                                              \
    static inline compute load_##id(const void *memory, int64_t i)                                 \
    {                                                                                              \
        return widen_##id(((const storage *)memory)[i]);                                           \
    }                                                                                              \
    static inline void store_##id(void *memory, int64_t i, compute x)                              \
    {                                                                                              \
        ((storage *)memory)[i] = narrow_##id(x);                                                   \
    }                                                                                              \
    /* what storing and loading it would give */                                                   \
    static inline compute round_##id(compute x)                                                    \
    {                                                                                              \
        return widen_##id(narrow_##id(x));                                                         \
    }
#include "libexec/kernels/convert.def"
#undef EXG_CONVERT

/* Memory that is only moved, by bytes an element. */
typedef uint8_t element_1;
typedef uint16_t element_2;
typedef uint32_t element_4;
typedef uint64_t element_8;
typedef struct element_16 {
    uint64_t words[2];
} element_16;

#define ALIGNED_16 __attribute__((aligned(16)))

/* `bytes` of 1, 2, 4, 8 or 16, aligned by as many, in one move. */
static inline void move_word(void *to, const void *from, int bytes)
{
#ifdef __CUDACC__
    if (bytes == 16) {
        *(uint4 *)to = *(const uint4 *)from;
    } else if (bytes == 8) {
        *(uint2 *)to = *(const uint2 *)from;
    } else if (bytes == 4) {
        *(uint32_t *)to = *(const uint32_t *)from;
    } else if (bytes == 2) {
        *(uint16_t *)to = *(const uint16_t *)from;
    } else {
        *(uint8_t *)to = *(const uint8_t *)from;
    }
#else
    memcpy(to, from, (size_t)bytes);
#endif
}

/* `count` of the `length` elements of a vector, all in one move if `is_whole`. */
static inline void move_vector(void *to, const void *from, int bytes, int length, int count,
                               int is_whole)
{
    if (is_whole) {
        move_word(to, from, bytes * length);
        return;
    }
    UNROLL
    for (int e = 0; e < length; e++) {
        if (e < count) {
            move_word((char *)to + e * bytes, (const char *)from + e * bytes, bytes);
        }
    }
}

/* A dtype given as a macro's value: LOAD(DTYPE)(memory, i). */
#define STORAGE(dtype)  JOIN(storage_, dtype)
#define COMPUTE(dtype)  JOIN(compute_, dtype)
#define LOAD(dtype)     JOIN(load_, dtype)
#define STORE(dtype)    JOIN(store_, dtype)
#define ROUND_TO(dtype) JOIN(round_, dtype)

/* ---- faults ------------------------------------------------------------------------------ */

/* exg_fault and exg_fault_note of kernel.h. */
#define FAULT_INDEX          1
#define FAULT_DIVIDE_BY_ZERO 2
#define FAULT_PARAMETER      4

typedef struct fault_note {
    int fault;
    int64_t index, size;
} fault_note;

static inline void raise_fault(void *note, int fault, int64_t index, int64_t size)
{
    fault_note *to = (fault_note *)note;

    if (SWAP_IF(&to->fault, 0, fault) == 0) {
        to->index = index;
        to->size = size;
    }
}

#endif
