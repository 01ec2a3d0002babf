/* fuzz_zero.c - any bytes as one file of a folder of DeepSpeed, beside the others of
 * fixtures/weights/zero. The first byte says of which folder and which file. */
#include "libexport/formats/weights_file.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES   6
#define FOLDERS 3

static const char *const folders[FOLDERS] = {"stage2/global_step2", "stage3/global_step2",
                                             "tensor2/global_step1"};

static const char *const names[FOLDERS][FILES] = {
    {"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt",
     "zero_pp_rank_1_mp_rank_00_optim_states.pt", "zero_pp_rank_1_mp_rank_00_optim_states.pt"},
    {"zero_pp_rank_0_mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt",
     "zero_pp_rank_1_mp_rank_00_optim_states.pt", "zero_pp_rank_1_mp_rank_00_model_states.pt"},
    {"mp_rank_00_model_states.pt", "mp_rank_01_model_states.pt",
     "zero_pp_rank_0_mp_rank_00_optim_states.pt", "zero_pp_rank_0_mp_rank_01_optim_states.pt",
     "zero_pp_rank_1_mp_rank_00_optim_states.pt", "zero_pp_rank_1_mp_rank_01_optim_states.pt"}};

static char folder[64];

static void empty_folder(void)
{
    for (size_t f = 0; f < FOLDERS; f++) {
        for (size_t i = 0; i < FILES && names[f][i] != NULL; i++) {
            char path[200];

            snprintf(path, sizeof(path), "%s/%s", folder, names[f][i]);
            (void)unlink(path);
        }
    }
}

static void remove_folder(void)
{
    empty_folder();
    (void)rmdir(folder);
}

/* The files of a folder, but for one, which are linked, and the bytes in its place. */
static void fill(int from, int replaced, const uint8_t *data, size_t size)
{
    char here[1000];

    empty_folder();

    if (getcwd(here, sizeof(here)) == NULL) {
        abort();
    }
    for (int i = 0; i < FILES && names[from][i] != NULL; i++) {
        char path[200];
        char target[1400];

        snprintf(path, sizeof(path), "%s/%s", folder, names[from][i]);
        snprintf(target, sizeof(target), "%s/fixtures/weights/zero/%s/%s", here, folders[from],
                 names[from][i]);
        if (strcmp(names[from][i], names[from][replaced]) != 0) {
            if (symlink(target, path) != 0 && errno != EEXIST) {
                abort();
            }
        } else {
            FILE *file = fopen(path, "wb");

            if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
                abort();
            }
        }
    }
}

static void read_weight(exg_weights *weights, const exg_weight *weight)
{
    uint64_t bytes = 0;
    uint8_t out[4096];
    exg_error err;

    exg_error_clear(&err);
    if (exg_tensor_meta_bytes(weight->meta, &bytes, &err) == EXG_OK && bytes <= sizeof(out) &&
        exg_weight_read(weights, weight, out, bytes, &err) != EXG_OK && err.code[0] == '\0') {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const exg_open_options options = {.size = sizeof(options), .follow_links = true};
    exg_weights *weights = NULL;
    exg_error err;

    if (folder[0] == '\0') {
        snprintf(folder, sizeof(folder), "/tmp/exg-fuzz-XXXXXX");
        if (mkdtemp(folder) == NULL || atexit(remove_folder) != 0) {
            abort();
        }
    }
    if (size == 0) {
        return 0;
    }
    if ((data[0] & 0x80) == 0) {
        fill(data[0] & 1, data[0] >> 1 & 3, data + 1, size - 1);
    } else {
        fill(2, (data[0] & 0x7F) % FILES, data + 1, size - 1);
    }
    exg_error_clear(&err);
    if (exg_weights_open(folder, &options, &weights, NULL, &err) != EXG_OK) {
        if (weights != NULL || err.code[0] == '\0') {
            abort();
        }
        return 0;
    }
    for (uint32_t i = 0; i < weights->count; i++) {
        read_weight(weights, &weights->items[i]);
    }
    exg_weights_release(weights);
    return 0;
}
