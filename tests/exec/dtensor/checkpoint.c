/* checkpoint.c - DTensors saved on one mesh and loaded on another.
 *
 *   test_exec_checkpoint               the tests
 *   test_exec_checkpoint FOLDER        saves the tensors of all cases there, for PyTorch to load
 */
#include "tests/exec/dtensor/ranks.h"

#include <exg/checkpoint.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TENSORS 5

/* Elements are 1, 2, 3, ... */
typedef struct shape {
    const char *name;
    exg_dtype dtype;
    uint32_t rank;
    int64_t sizes[3];
} shape;

static const shape shapes[TENSORS] = {
    {"layers.0.weight", EXG_DTYPE_F32, 2, {7, 6}},
    {"layers.0.bias", EXG_DTYPE_I64, 1, {13}},
    {"step", EXG_DTYPE_I32, 0, {0}},
    {"empty", EXG_DTYPE_F32, 2, {0, 4}},
    {"experts", EXG_DTYPE_F64, 3, {4, 3, 2}},
};

/* How the tensors lie, by their number of dims: of fewer than two as `vectors` say. */
typedef struct layout {
    const char *mesh, *matrices, *vectors;
} layout;

static const layout layouts[] = {
    {"2x2", "S(0) S(1)", "S(0) R"},       {"3", "S(0)", "S(0)"},
    {"2x3", "R S(1)", "R S(0)"},          {"1", "R", "R"},
    {"2x2", "_S(0,2) S(0)", "S(0) S(0)"}, {"4", "R", "R"},
    {"2x2", "S(1) S(0)", "_S(0,2) S(0)"}, {"2", "_S(0,2)", "_S(0,3)"}, /* in several pieces */
};

/* One call on every rank. */
typedef struct call {
    const layout *lies;
    const char *path;
    uint64_t split;
    bool saves;
    bool resumes;
    bool stops;       /* on rank 1, before its file */
    uint32_t without; /* of loading: a name that the file has not, before it; TENSORS: none */
    bool partial;
    uint32_t dim; /* of which there are so many more than the file has */
    int64_t longer;
    bool bare, apart; /* the second tensor is without data, on another mesh */
    bool other;       /* it is of another dtype */
    const char *code; /* what all ranks are told; NULL: it works */
} call;

static char folder[200];

static const char *in_folder(const char *name)
{
    static char path[4][300];
    static int next;

    next = (next + 1) % 4;
    snprintf(path[next], sizeof(path[next]), "%s/%s", folder, name);
    return path[next];
}

static uint64_t bytes_of(const exg_tensor *t)
{
    return (uint64_t)exg_tensor_numel(t) * exg_dtype_bytes(t->dtype);
}

static exg_tensor whole_of(const shape *s, uint32_t dim, int64_t longer, bool filled)
{
    exg_tensor t = {.dtype = s->dtype, .rank = s->rank};
    int64_t count = 1;

    memcpy(t.sizes, s->sizes, sizeof(s->sizes));
    t.sizes[dim] += s->rank > dim ? longer : 0;
    for (uint32_t d = 0; d < s->rank; d++) {
        count *= t.sizes[d];
    }
    exg_tensor_set_contiguous(&t);
    t.data = calloc((size_t)count + 1, 8);
    for (int64_t i = 0; filled && i < count; i++) {
        switch (s->dtype) {
        case EXG_DTYPE_F32:
            ((float *)t.data)[i] = (float)(i + 1);
            break;
        case EXG_DTYPE_F64:
            ((double *)t.data)[i] = (double)(i + 1);
            break;
        case EXG_DTYPE_I32:
            ((int32_t *)t.data)[i] = (int32_t)(i + 1);
            break;
        default:
            ((int64_t *)t.data)[i] = i + 1;
            break;
        }
    }
    return t;
}

/* Is the DTensor the whole, or zeros where it should have stayed? */
static void check_whole(rank_context *c, const exg_dtensor *t, const shape *s, bool filled)
{
    exg_tensor whole = whole_of(s, 0, 0, filled);
    exg_dtensor *full = NULL;
    exg_error err;

    EXPECT(c, exg_dtensor_full_tensor(t, &full, &err) == EXG_OK, "%s", err.message);
    EXPECT(c, full != NULL && memcmp(on_host(full)->data, whole.data, bytes_of(&whole)) == 0,
           "%s has other elements", s->name);
    exg_dtensor_destroy(full);
    free(whole.data);
}

static exg_status stop(void *user, const char *path, uint32_t tensors, uint64_t bytes,
                       exg_error *err)
{
    (void)user;
    (void)tensors;
    (void)bytes;
    return strstr(path, "__1_0") == NULL ? EXG_OK : EXG_FAIL(err, USAGE, "TST-001", "stopped");
}

static void on_rank(rank_context *c)
{
    const call *k = c->user;
    exg_checkpoint_tensor tensors[TENSORS] = {{NULL, NULL}};
    exg_weights_save_options save = {.size = sizeof(save),
                                     .split = k->split,
                                     .resume = k->resumes,
                                     .file = k->stops ? stop : NULL};
    uint32_t missing = 0;
    exg_checkpoint_load_options load = {
        .size = sizeof(load), .partial = k->partial, .missing = &missing};
    uint32_t rank = exg_device_mesh_rank(c->mesh);
    exg_status status = EXG_OK;
    exg_device_mesh *line = NULL;
    exg_error err = {0};

    EXPECT(c,
           !k->apart ||
               exg_device_mesh_slice(c->mesh, (const uint32_t[]){0}, 1, &line, &err) == EXG_OK,
           "%s", err.message);
    for (uint32_t i = 0; i < TENSORS; i++) {
        exg_placement to[EXG_MESH_DIMS_MAX];
        const char *text = shapes[i].rank > 1   ? k->lies->matrices
                           : shapes[i].rank > 0 ? k->lies->vectors
                                                : NULL;
        uint32_t count = text == NULL ? 0 : placements_of(text, to);
        exg_tensor whole = whole_of(&shapes[i], k->dim, k->longer, k->saves);
        bool second = i == 1;
        void *data = whole.data;

        whole.dtype = second && k->other ? EXG_DTYPE_F64 : whole.dtype;
        tensors[i].name = i == k->without ? "nowhere" : shapes[i].name;
        whole.data = second && k->bare ? NULL : data;
        EXPECT(c,
               exg_distribute_tensor(second && k->apart ? line : c->mesh, &whole,
                                     count == 0 || (second && k->apart) ? NULL : to,
                                     second && k->apart ? 0 : count, 0, &tensors[i].dtensor,
                                     &err) == EXG_OK,
               "%s", err.message);
        free(data);
    }
    if (c->faults == 0) {
        status = k->saves ? exg_checkpoint_save(c->mesh, tensors, TENSORS, k->path, &save, &err)
                          : exg_checkpoint_load(c->mesh, tensors, TENSORS, k->path, &load, &err);
        EXPECT(c, (status == EXG_OK) == (k->code == NULL), "%s", err.message);
    }
    if (k->code != NULL) {
        EXPECT(c, strcmp(err.code, k->code) == 0, "%s: %s", err.code, err.message);
        EXPECT(c, k->stops || (strncmp(err.where, "rank 0", 6) == 0) == (rank > 0), "%s",
               err.where);
    }
    for (uint32_t i = 0; i < TENSORS && status == EXG_OK && c->faults == 0 && !k->saves; i++) {
        check_whole(c, tensors[i].dtensor, &shapes[i], i != k->without);
    }
    EXPECT(c, missing == (k->partial && k->without < TENSORS), "%u are missing", missing);
    for (uint32_t i = 0; i < TENSORS; i++) {
        exg_dtensor_destroy(tensors[i].dtensor);
    }
    exg_device_mesh_destroy(line);
}

static void run(call k)
{
    k.without = k.without == 0 ? TENSORS : k.without;
    on_mesh(k.lies->mesh, on_rank, &k);
}

static void remove_all(const char *path)
{
    char command[400];

    snprintf(command, sizeof(command), "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- both ways --------------------------------------------------------------------------------
 */

/* A checkpoint of any mesh is read on any other. on_mesh() may run a body twice, so what is saved
 * makes room first. */
static void save_again(rank_context *c)
{
    const call *k = c->user;

    if (exg_device_mesh_rank(c->mesh) == 0 && strstr(k->path, "/.metadata") != NULL) {
        char path[300];

        snprintf(path, sizeof(path), "%.*s", (int)(strstr(k->path, "/.metadata") - k->path),
                 k->path);
        remove_all(path);
    }
    on_rank(c);
}

static void save(const layout *lies, const char *path, uint64_t split)
{
    on_mesh(lies->mesh, save_again,
            &(call){.lies = lies, .path = path, .split = split, .saves = true, .without = TENSORS});
}

static void what_a_mesh_saves_any_mesh_loads(void **state)
{
    size_t count = sizeof(layouts) / sizeof(layouts[0]);

    (void)state;
    for (size_t from = 0; from < count; from++) {
        save(&layouts[from], in_folder("a/.metadata"), 0);
        assert_false(is_there(in_folder("a.part")));
        /* who has nothing that the ranks before have not writes nothing */
        assert_true(is_there(in_folder("a/__0_0.distcp")));
        assert_int_equal(is_there(in_folder("a/__1_0.distcp")),
                         strcmp(layouts[from].mesh, "1") != 0 &&
                             strcmp(layouts[from].matrices, "R") != 0);
        for (size_t to = 0; to < count; to++) {
            run((call){.lies = &layouts[to], .path = in_folder(to % 2 == 0 ? "a" : "a/.metadata")});
        }
        remove_all(in_folder("a"));
    }
}

/* One model, in one file or several with an index; nothing else stays. */
static void a_mesh_saves_a_model(void **state)
{
    static const char *const names[] = {"m.safetensors", "m.pt", "m.npz"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (size_t from = 0; from < sizeof(layouts) / sizeof(layouts[0]); from += 7) {
            save(&layouts[from], in_folder(names[i]), 0);
            run((call){.lies = &layouts[1], .path = in_folder(names[i])});
            assert_int_equal(unlink(in_folder(names[i])), 0);
        }
    }
    save(&layouts[2], in_folder("m.safetensors"), 100);
    assert_true(is_there(in_folder("m.safetensors.index.json")));
    assert_false(is_there(in_folder("m.safetensors.ranks")));
    assert_false(is_there(in_folder("m.safetensors.ranks.part")));
    run((call){.lies = &layouts[1], .path = in_folder("m.safetensors.index.json")});
}

static bool is_old(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_mtim.tv_sec == 0;
}

static void make_old(const char *path)
{
    assert_int_equal(utimensat(AT_FDCWD, path, (const struct timespec[2]){{0, 0}, {0, 0}}, 0), 0);
}

/* What a rank wrote is not written again. */
static void what_was_stopped_goes_on(void **state)
{
    const layout *four = &layouts[0];
    char path[300];
    call stopped = {.lies = four,
                    .path = path,
                    .saves = true,
                    .resumes = true,
                    .stops = true,
                    .without = TENSORS,
                    .code = "TST-001"};
    call goes_on = stopped;

    (void)state;
    snprintf(path, sizeof(path), "%s/c/.metadata", folder);
    goes_on.stops = false;
    goes_on.code = NULL;
    for (int resumes = 0; resumes < 2; resumes++) {
        run(stopped);
        assert_false(is_there(in_folder("c")));
        make_old(in_folder("c.part/__0_0.distcp"));
        goes_on.resumes = resumes == 1;
        on_mesh(four->mesh, save_again, &goes_on);
        assert_int_equal(is_old(in_folder("c/__0_0.distcp")), resumes);
        assert_false(is_old(in_folder("c/__1_0.distcp")));
        assert_false(is_there(in_folder("c/__0_0.distcp.resume")));
        run((call){.lies = four, .path = in_folder("c")});
        remove_all(in_folder("c"));
    }
    snprintf(path, sizeof(path), "%s/n.safetensors", folder);
    run(goes_on);
    assert_false(is_there(in_folder("n.safetensors.ranks.part")));
    run((call){.lies = &layouts[1], .path = in_folder("n.safetensors")});
}

/* ---- faults -----------------------------------------------------------------------------------
 */

static void a_fault_of_one_rank_is_told_on_all(void **state)
{
    const layout *four = &layouts[0];

    (void)state;
    assert_int_equal(mkdir(in_folder("full"), 0777), 0);
    assert_int_equal(mkdir(in_folder("full/x"), 0777), 0);
    run((call){
        .lies = four, .path = in_folder("full/.metadata"), .saves = true, .code = "IO-KIND"});
    assert_false(is_there(in_folder("full.part")));
    run((call){.lies = four, .path = in_folder("x.what"), .saves = true, .code = "TNS-NAME"});
    run((call){.lies = four, .path = in_folder("nothing"), .code = "IO-OPEN"});
    run((call){.lies = &(layout){"2x2", "P(sum) S(0)", "S(0) R"},
               .path = in_folder("p/.metadata"),
               .saves = true,
               .code = "DTN-014"});
    for (int k = 0; k < 2; k++) {
        run((call){.lies = four,
                   .path = in_folder("p/.metadata"),
                   .saves = true,
                   .bare = k == 0,
                   .apart = k == 1,
                   .code = k == 0 ? "DTN-003" : "DTN-011"});
    }
    assert_false(is_there(in_folder("p")));
    assert_false(is_there(in_folder("p.part")));
}

static void what_does_not_fit_changes_nothing(void **state)
{
    const layout *four = &layouts[0];

    (void)state;
    save(four, in_folder("a/.metadata"), 0);
    run((call){.lies = four, .path = in_folder("a"), .without = 1, .code = "WGT-FILL"});
    run((call){.lies = four, .path = in_folder("a"), .without = 1, .partial = true});
    for (uint32_t dim = 0; dim < 3; dim++) {
        run((call){
            .lies = four, .path = in_folder("a"), .dim = dim, .longer = 1, .code = "WGT-FILL"});
    }
    run((call){.lies = four, .path = in_folder("a"), .other = true, .code = "WGT-FILL"});
    run((call){.lies = four, .path = in_folder("a"), .bare = true, .code = "DTN-003"});
    run((call){.lies = four, .path = in_folder("a"), .apart = true, .code = "DTN-011"});
    assert_int_equal(unlink(in_folder("a/__3_0.distcp")), 0);
    run((call){.lies = four, .path = in_folder("a"), .code = "DCP-MISSING"});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_mesh_saves_any_mesh_loads),
        cmocka_unit_test(a_mesh_saves_a_model),
        cmocka_unit_test(what_was_stopped_goes_on),
        cmocka_unit_test(a_fault_of_one_rank_is_told_on_all),
        cmocka_unit_test(what_does_not_fit_changes_nothing),
    };
    int failed;

    if (argc > 1) {
        snprintf(folder, sizeof(folder), "%s", argv[1]);
        for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
            char name[40];

            snprintf(name, sizeof(name), "%zu/.metadata", i);
            save(&layouts[i], in_folder(name), 0);
        }
        return 0;
    }
    snprintf(folder, sizeof(folder), "/tmp/exg-checkpoint-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_all(folder);
    return failed;
}
