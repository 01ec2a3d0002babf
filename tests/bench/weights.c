/* weights.c - repacking, reading and checking weights, as ratios to ceilings of this machine.
 *
 *   bench_weights [MIB [FILE.safetensors]]
 *
 * MIB of Gaussian weights (256), or those of a file, are saved plain and in zstd frames and
 * read again, next to what bounds each: copying a file, hashing with one core. The least
 * of five runs counts, taken in turns.
 */
#include "libexport/base/xxh3.h"

#include <exg/formats.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RUNS    5
#define WEIGHTS 8

static char folder[256];

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const char *in_folder(const char *name)
{
    static char paths[4][400];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static void must(exg_status status, const exg_error *err)
{
    if (status != EXG_OK) {
        printf("failed: %s %s %s\n", err->code, err->where, err->message);
        exit(1);
    }
}

/* ---- data ---------------------------------------------------------------------------------- */

static uint64_t random_state = 88172645463325252u;

static float gaussian(void)
{
    double sum = 0;

    for (int i = 0; i < 6; i++) { /* near enough: the exponents are what matters */
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        sum += (double)(random_state >> 11) / 9007199254740992.0 - 0.5;
    }
    return (float)(sum * 0.02 * 1.41421356);
}

static uint16_t to_bf16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* `bytes` of weights: those of a file over and over, or Gaussian ones. */
static float *make_floats(const char *path, uint64_t count)
{
    float *data = malloc(count * sizeof(float));
    exg_weights *weights = NULL;
    exg_error err;
    uint64_t at = 0;

    exg_error_clear(&err);
    if (path != NULL) {
        must(exg_weights_open(path, NULL, &weights, NULL, &err), &err);
    }
    while (weights != NULL && at < count) {
        uint64_t before = at;

        for (uint32_t i = 0; i < weights->count; i++) {
            const exg_weight *w = &weights->items[i];
            uint64_t bytes = 0;

            if (w->meta != NULL && w->meta->dtype == EXG_DTYPE_F32 && w->meta->rank > 1) {
                must(exg_tensor_meta_bytes(w->meta, &bytes, &err), &err);
                if (at + bytes / 4 <= count) {
                    must(exg_weight_read(weights, w, data + at, bytes, &err), &err);
                    at += bytes / 4;
                }
            }
        }
        if (at == before) {
            break;
        }
    }
    exg_weights_release(weights);
    for (; at < count; at++) {
        data[at] = gaussian();
    }
    return data;
}

/* A program whose large weights, WEIGHTS of them, hold `data`. */
static exg_program *program_of(const uint8_t *data, uint64_t bytes, exg_dtype dtype)
{
    static const char *const names[WEIGHTS] = {"w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"};
    exg_program *p = NULL;
    exg_storage storage = {.kind = EXG_STORAGE_MEMORY, .length = bytes / WEIGHTS};
    exg_sym_int size = exg_sym_int_of((int64_t)(storage.length / exg_dtype_bytes(dtype)));
    exg_sym_int stride = exg_sym_int_of(1);
    exg_tensor_meta meta = {.dtype = dtype,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = 1,
                            .sizes = &size,
                            .strides = &stride,
                            .device = {"cpu", -1}};
    exg_weight weight = {.table = EXG_TABLE_CONSTANTS, .meta = &meta};
    exg_error err;

    exg_error_clear(&err);
    must(exg_open("fixtures/mlp.pt2", NULL, &p, NULL, &err), &err);
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        storage.data = data + i * storage.length;
        weight.fqn = names[i];
        must(exg_weights_add_storage(p->weights, &storage, &weight.storage, &err), &err);
        must(exg_weights_add(p->weights, &weight, &err), &err);
    }
    return p;
}

/* ---- what is timed ------------------------------------------------------------------------- */

typedef struct subject {
    const uint8_t *data;
    uint64_t bytes;
    exg_program *program;
    uint32_t threads;
} subject;

static void save(const subject *s, const char *name, exg_compression compression)
{
    exg_save_options options = {
        .size = sizeof(options), .compression = compression, .threads = s->threads};
    exg_error err;

    exg_error_clear(&err);
    must(exg_save(s->program, in_folder(name), EXG_FORMAT_EXG, &options, &err), &err);
}

static void check(const subject *s, const char *path)
{
    exg_check_options options = {.size = sizeof(options), .threads = s->threads};
    exg_weights *weights = NULL;
    exg_error err;

    exg_error_clear(&err);
    must(exg_weights_open(path, NULL, &weights, NULL, &err), &err);
    must(exg_weights_check(weights, &options, &err), &err);
    exg_weights_release(weights);
}

static void save_plain(const subject *s)
{
    save(s, "plain.exg", EXG_COMPRESSION_NONE);
}

static void save_zstd(const subject *s)
{
    save(s, "zstd.exg", EXG_COMPRESSION_ZSTD);
}

static void check_plain(const subject *s)
{
    check(s, in_folder("plain.exg"));
}

static void check_zstd(const subject *s)
{
    check(s, in_folder("zstd.exg"));
}

/* Every plain byte of the compressed file into memory, a frame at a time. */
static void read_zstd(const subject *s)
{
    static uint8_t *out;
    exg_weights *weights = NULL;
    exg_error err;

    exg_error_clear(&err);
    out = out == NULL ? malloc(1u << 20) : out;
    must(exg_weights_open(in_folder("zstd.exg"), NULL, &weights, NULL, &err), &err);
    for (uint32_t i = weights->count - WEIGHTS; i < weights->count; i++) {
        for (uint64_t at = 0; at < s->bytes / WEIGHTS; at += 1u << 20) {
            uint64_t left = s->bytes / WEIGHTS - at;

            must(exg_storage_read(weights, weights->items[i].storage, at,
                                  left < 1u << 20 ? left : 1u << 20, out, &err),
                 &err);
        }
    }
    exg_weights_release(weights);
}

static void convert(const subject *s)
{
    exg_weights_save_options options = {.size = sizeof(options), .threads = s->threads};
    exg_weights *weights = NULL;
    exg_error err;

    exg_error_clear(&err);
    must(exg_weights_open(in_folder("plain.exg"), NULL, &weights, NULL, &err), &err);
    must(exg_weights_save(weights, in_folder("out.safetensors"), &options, &err), &err);
    exg_weights_release(weights);
}

static void repack(const subject *s)
{
    exg_save_options options = {
        .size = sizeof(options), .compression = EXG_COMPRESSION_NONE, .threads = s->threads};
    exg_program *p = NULL;
    exg_error err;

    exg_error_clear(&err);
    must(exg_open(in_folder("plain.exg"), NULL, &p, NULL, &err), &err);
    must(exg_save(p, in_folder("again.exg"), EXG_FORMAT_EXG, &options, &err), &err);
    exg_program_destroy(p);
}

/* cp and sync: read and write, 1 MiB at a time. */
static void copy_file(const subject *s)
{
    int from = open(in_folder("plain.exg"), O_RDONLY);
    int to = open(in_folder("copy"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    char *block = malloc(1u << 20);
    ssize_t got;

    (void)s;
    while ((got = read(from, block, 1u << 20)) > 0) {
        if (write(to, block, (size_t)got) != got) {
            exit(1);
        }
    }
    fsync(to);
    free(block);
    close(from);
    close(to);
}

static uint64_t sink;

static void hash_xxh3(const subject *s)
{
    sink ^= XXH3_128bits(s->data, (size_t)s->bytes).low64;
}

static void hash_crc(const subject *s)
{
    sink ^= libdeflate_crc32(0, s->data, (size_t)s->bytes);
}

typedef struct row {
    const char *name;
    void (*run)(const subject *s);
    int bound; /* row it is held against; -1: a ceiling itself */
} row;

enum {
    COPY,
    XXH3,
    CRC,
    SAVE_PLAIN,
    REPACK,
    CONVERT,
    CHECK_PLAIN,
    SAVE_ZSTD,
    READ_ZSTD,
    CHECK_ZSTD
};

static const row rows[] = {
    [COPY] = {"copy a file, with sync", copy_file, -1},
    [XXH3] = {"XXH3-128, one core", hash_xxh3, -1},
    [CRC] = {"CRC-32, one core", hash_crc, -1},
    [SAVE_PLAIN] = {"save plain", save_plain, COPY},
    [REPACK] = {"repack plain to plain", repack, COPY},
    [CONVERT] = {"convert to safetensors", convert, COPY},
    [CHECK_PLAIN] = {"verify --data, plain", check_plain, XXH3},
    [SAVE_ZSTD] = {"save in zstd frames", save_zstd, COPY},
    [READ_ZSTD] = {"read zstd frames, one core", read_zstd, XXH3},
    [CHECK_ZSTD] = {"verify --data, zstd", check_zstd, XXH3},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void run_all(const char *title, const void *data, uint64_t bytes, exg_dtype dtype,
                    uint32_t threads)
{
    subject s = {data, bytes, program_of(data, bytes, dtype), threads};
    double least[ROWS];
    struct stat plain;
    struct stat zstd;

    save_plain(&s);
    for (size_t r = 0; r < ROWS; r++) {
        least[r] = HUGE_VAL;
    }
    for (int i = 0; i < RUNS; i++) {
        for (size_t r = 0; r < ROWS; r++) {
            double start = now();

            rows[r].run(&s);
            least[r] = fmin(least[r], now() - start);
        }
    }
    stat(in_folder("plain.exg"), &plain);
    stat(in_folder("zstd.exg"), &zstd);
    printf("\n%s, %u threads: plain / stored = %.3f\n", title, threads,
           (double)plain.st_size / (double)zstd.st_size);
    for (size_t r = 0; r < ROWS; r++) {
        printf("  %-28s %7.2f GB/s", rows[r].name, (double)bytes / least[r] / 1e9);
        if (rows[r].bound >= 0) {
            printf("  %5.2f of '%s'", least[rows[r].bound] / least[r], rows[rows[r].bound].name);
        }
        putchar('\n');
    }
    exg_program_destroy(s.program);
}

int main(int argc, char **argv)
{
    uint64_t mib = argc > 1 ? strtoull(argv[1], NULL, 10) : 256;
    uint64_t count = mib << 18;
    const char *base = getenv("TMPDIR");
    float *floats;
    uint16_t *halves = malloc(count * 2);
    struct rusage usage;
    cpu_set_t set;
    uint32_t cores;

    sched_getaffinity(0, sizeof(set), &set);
    cores = (uint32_t)CPU_COUNT(&set);
    snprintf(folder, sizeof(folder), "%s/exg-bench-XXXXXX", base == NULL ? "/tmp" : base);
    if (mkdtemp(folder) == NULL || halves == NULL) {
        return 1;
    }
    floats = make_floats(argc > 2 ? argv[2] : NULL, count);
    for (uint64_t i = 0; i < count; i++) {
        halves[i] = to_bf16(floats[i]);
    }
    printf("%llu MiB of %s weights\n", (unsigned long long)mib, argc > 2 ? argv[2] : "Gaussian");
    for (uint32_t threads = 1; threads <= cores; threads = threads == cores ? cores + 1 : cores) {
        run_all("bfloat16", halves, count * 2, EXG_DTYPE_BF16, threads);
        run_all("float32", floats, count * 4, EXG_DTYPE_F32, threads);
    }
    getrusage(RUSAGE_SELF, &usage);
    printf("\nmost memory %ld MiB\n", usage.ru_maxrss / 1024);
    for (const char *const *name = (const char *const[]){"plain.exg", "zstd.exg", "again.exg",
                                                         "out.safetensors", "copy", NULL};
         *name != NULL; name++) {
        unlink(in_folder(*name));
    }
    rmdir(folder);
    free(floats);
    free(halves);
    return sink == 1; /* the hashes were computed */
}
