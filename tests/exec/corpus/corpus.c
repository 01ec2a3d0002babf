/* corpus.c - every case of the operator corpus (fixtures/operators): decoded, verified,
 * run, compared with PyTorch's answer. A case that does not pass must be listed in
 * tests/exec/corpus/known.txt with its reason, and a listed case that passes fails
 * the run, so the list can only shrink.
 *
 *   test_corpus [FILE ...]     --list prints the cases that fail, for known.txt
 *   Under EXG_CORPUS_MESH=n every case runs on n ranks, inputs split along dim 0. With
 *   EXG_CORPUS_EAGER=PLACEMENT... too, operator by operator, on inputs that lie so; "pairs": in
 *   every way in which two of them may lie, the others whole. Under
 *   EXG_CORPUS_SHARDS=n beside itself, with every input whole or split along any dim.
 */
#include "libexport/base/arena.h"
#include "libexport/formats/json.h"
#include "libexport/formats/pt2/decode.h"

#include "tests/exec/corpus/corpus.h"

#include <exg/operator_id_new.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libexport/base/element.h"
#include "tests/exec/sharding/every.h"

#ifdef EXG_NO_LAPACK
#define LACKS_LAPACK true
#else
#define LACKS_LAPACK false
#endif

typedef struct tally {
    uint32_t passed, failed, known, stale, lapack;
    bool list;
    char *known_text;
    exg_mesh_shape mesh;
    const char *eager; /* placements, or NULL */
    uint32_t shards;   /* ranks; 0: not this way */
    tried tried;       /* of all cases */
    bool *seen;        /* rows, by id; or NULL */
    uint32_t *set;     /* parameters, a bit each, by id */
} tally;

/* 0: one device. */
static uint32_t ranks_of(const exg_mesh_shape *mesh)
{
    uint32_t ranks = mesh->ndim > 0;

    for (uint32_t d = 0; d < mesh->ndim; d++) {
        ranks *= mesh->sizes[d];
    }
    return ranks;
}

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);

    if (f != NULL && text != NULL) {
        text[fread(text, 1, (1 << 20) - 1, f)] = '\0';
    }
    if (f != NULL) {
        fclose(f);
    }
    return text;
}

double number_at(exg_dtype dtype, const void *data, int64_t i)
{
#define AT(type) (double)((const type *)data)[i]
    switch (dtype) {
    case EXG_DTYPE_F32:
        return AT(float);
    case EXG_DTYPE_F64:
        return AT(double);
    case EXG_DTYPE_I64:
        return AT(int64_t);
    case EXG_DTYPE_I32:
        return AT(int32_t);
    case EXG_DTYPE_I16:
        return AT(int16_t);
    case EXG_DTYPE_I8:
        return AT(int8_t);
    case EXG_DTYPE_U8:
    case EXG_DTYPE_B8:
        return AT(uint8_t);
    case EXG_DTYPE_F16:
        return (double)exg_f16_to_f32(((const uint16_t *)data)[i]);
    case EXG_DTYPE_BF16:
        return (double)exg_bf16_to_f32(((const uint16_t *)data)[i]);
    default:
        return NAN;
    }
}

/* Over a mesh each rank rounds its partial sum once, before they are added: half a unit in the
 * last place of the largest partial sum per rank, which is at most a few times the result. */
static double mesh_rounding(const one_case *c, const exg_named_tensor *want, int64_t numel)
{
    double unit = want->dtype == EXG_DTYPE_BF16  ? 1.0 / 128
                  : want->dtype == EXG_DTYPE_F16 ? 1.0 / 1024
                                                 : 0;
    double largest = 0;

    for (int64_t i = 0; unit > 0 && i < numel; i++) {
        largest = fmax(largest, fabs(number_at(want->dtype, want->data, i)));
    }
    return isfinite(largest) ? c->mesh * unit * largest : 0;
}

bool equal_tensors(const one_case *c, const exg_tensor *got, const exg_named_tensor *want,
                   char *why)
{
    int64_t numel = exg_tensor_numel(got);
    double atol;
    bool same = got->dtype == want->dtype && got->rank == want->rank;

    for (uint32_t d = 0; same && d < got->rank; d++) {
        same = got->sizes[d] == want->shape[d];
    }
    if (!same) {
        snprintf(why, 200, "dtype or shape: %s rank %u, PyTorch %s rank %u",
                 exg_dtype_name(got->dtype), got->rank, exg_dtype_name(want->dtype), want->rank);
        return false;
    }
    atol = c->atol + mesh_rounding(c, want, numel);
    for (int64_t i = 0; i < numel; i++) {
        double a = number_at(got->dtype, got->data, i);
        double b = number_at(want->dtype, want->data, i);

        bool is_nan = isnan(a) && (isnan(b) || (c->in_parts && isinf(b)));

        if (!(a == b || is_nan || fabs(a - b) <= atol + c->rtol * fabs(b))) {
            snprintf(why, 200, "element %lld is %.9g, PyTorch has %.9g", (long long)i, a, b);
            return false;
        }
    }
    return true;
}

const exg_named_tensor *case_tensor(const one_case *c, const char *kind, const char *name)
{
    char key[300];

    snprintf(key, sizeof(key), "%s/%s/%s", c->name, kind, name);
    return exg_tensor_file_find(c->tensors, key);
}

static bool gather_inputs(const one_case *c, exg_session_input *inputs, uint32_t *count, char *why)
{
    const exg_program *p = c->program;

    *count = 0;
    for (uint32_t i = 0; i < p->signature.input_count; i++) {
        const exg_named_tensor *t;
        exg_session_input *in = &inputs[*count];

        if (p->signature.inputs[i].kind != EXG_INPUT_USER ||
            p->graph->inputs[i].kind != EXG_ARGUMENT_TENSOR) {
            continue;
        }
        t = case_tensor(c, "in", p->signature.inputs[i].arg.name);
        if (t == NULL || *count == 32 || t->rank > EXG_RANK_MAX) {
            snprintf(why, 200, "no input '%s'", p->signature.inputs[i].arg.name);
            return false;
        }
        memset(in, 0, sizeof(*in));
        in->name = p->signature.inputs[i].arg.name;
        in->tensor.dtype = t->dtype;
        in->tensor.rank = t->rank;
        memcpy(in->tensor.sizes, t->shape, t->rank * sizeof(int64_t));
        exg_tensor_set_contiguous(&in->tensor);
        in->tensor.data = malloc(t->bytes + 1); /* exact, so that a sanitizer sees overreads */
        memcpy(in->tensor.data, t->data, t->bytes);
        (*count)++;
    }
    return true;
}

static bool compare_outputs(const one_case *c, const exg_session *session, char *why)
{
    for (uint32_t o = 0; o < exg_session_output_count(session); o++) {
        const exg_session_output *out = exg_session_output_at(session, o);
        const exg_named_tensor *want;
        char position[12];

        snprintf(position, sizeof(position), "%u", o);
        want = case_tensor(c, "out", position);
        if (want != NULL && out->constant.kind != EXG_ARGUMENT_TENSOR) {
            snprintf(why, 200, "output %u is no tensor", o);
            return false;
        }
        if (want != NULL && !equal_tensors(c, &out->tensor, want, why)) {
            return false;
        }
    }
    return true;
}

/* Of what has run, exg_operator_describe() says so. Complex numbers and floats of eight bits run
 * by other operators, and where dtypes differ what is computed in follows from all. */
static bool is_described(const one_case *c, const exg_operators *operators, char *why)
{
    const exg_graph *graph = c->program->graph;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];
        const exg_operator *op = exg_operators_find(operators, node->target);
        exg_operator_support support = {.size = sizeof(support)};
        exg_dtype dtype = EXG_DTYPE_UNKNOWN;
        bool differ = false;

        for (uint32_t i = 0; i < node->input_count; i++) {
            if (node->inputs[i].arg.kind == EXG_ARGUMENT_TENSOR) {
                exg_dtype one = graph->values[node->inputs[i].arg.as_tensor].tensor->dtype;

                differ = differ || (dtype != EXG_DTYPE_UNKNOWN && dtype != one);
                dtype = dtype == EXG_DTYPE_UNKNOWN ? one : dtype;
            }
        }
        if (op == NULL || dtype == EXG_DTYPE_UNKNOWN || exg_dtype_is_complex(dtype) ||
            (exg_dtype_is_float(dtype) && exg_dtype_bytes(dtype) == 1) ||
            (differ && op->pointwise != EXG_POINTWISE_NOT)) {
            continue;
        }
        if (exg_operator_describe(op, &support, NULL) != EXG_OK ||
            (support.dtypes != 0 && (support.dtypes >> dtype & 1) == 0)) {
            snprintf(why, 200, "%.100s is not said to take %s", node->target,
                     exg_dtype_name(dtype));
            return false;
        }
    }
    return true;
}

static bool run_session(const one_case *c, const exg_operators *operators,
                        const exg_mesh_shape *mesh, char *why)
{
    exg_session_options options = {.size = sizeof(options),
                                   .thread_count = 1,
                                   .mesh = *mesh,
                                   .device = getenv("EXG_TEST_DEVICE")};
    exg_session_input inputs[32];
    uint32_t count = 0;
    exg_verified verified;
    exg_session *session = NULL;
    exg_error err;
    bool right = false;
    exg_partition_options place[EXG_MESH_DIMS_MAX];

    for (uint32_t d = 0; d < mesh->ndim; d++) {
        place[d] = (exg_partition_options){
            .size = sizeof(place[d]), .mode = d == 0 ? EXG_PARTITION_DATA : EXG_PARTITION_TENSOR};
    }
    options.partition = place;
    if (exg_verify(c->program, operators, &verified, NULL, &err) != EXG_OK ||
        exg_session_create(&verified, &options, &session, &err) != EXG_OK) {
        snprintf(why, 200, "%s %.180s", err.code, err.message);
    } else if (gather_inputs(c, inputs, &count, why)) {
        if (exg_session_run(session, inputs, count, &err) != EXG_OK) {
            snprintf(why, 200, "%s %.180s", err.code, err.message);
        } else {
            right = compare_outputs(c, session, why) && is_described(c, operators, why);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        const exg_named_tensor *after = case_tensor(c, "after", inputs[i].name);

        right = right && (after == NULL || equal_tensors(c, &inputs[i].tensor, after, why));
        free(inputs[i].tensor.data);
    }
    exg_session_destroy(session);
    return right;
}

/* Tensor constants of the program come from the case's own tensors. */
static void add_constants(const one_case *c)
{
    const exg_signature *s = &c->program->signature;
    exg_error err;

    for (uint32_t i = 0; i < s->input_count; i++) {
        const exg_named_tensor *t;
        exg_storage storage = {.kind = EXG_STORAGE_MEMORY};
        exg_weight weight = {.table = EXG_TABLE_CONSTANTS};
        exg_argument *input = &c->program->graph->inputs[i];

        if (s->inputs[i].kind != EXG_INPUT_CONSTANT_TENSOR || s->inputs[i].target == NULL) {
            continue;
        }
        t = case_tensor(c, "constant", s->inputs[i].target);
        if (t != NULL && input->kind == EXG_ARGUMENT_TENSOR) {
            storage.data = t->data;
            storage.length = t->bytes;
            weight.fqn = s->inputs[i].target;
            weight.meta = c->program->graph->values[input->as_tensor].tensor;
            exg_ignore(
                exg_weights_add_storage(c->program->weights, &storage, &weight.storage, &err));
            exg_ignore(exg_weights_add(c->program->weights, &weight, &err));
        }
    }
}

/* Beside itself unsharded. What does not run at all is another mode's fault. */
static bool run_shards(const one_case *c, const exg_operators *operators, tally *t, char *why)
{
    exg_session_input inputs[32];
    tried one = {0};
    uint32_t count = 0;
    exg_verified verified;
    bool right = true;
    exg_error err;

    if (exg_verify(c->program, operators, &verified, NULL, &err) == EXG_OK &&
        gather_inputs(c, inputs, &count, why) &&
        try_every_sharding(&verified, inputs, count, t->shards, &one)) {
        right = one.wrong + one.failed == 0;
        snprintf(why, 400, "%.390s", one.why);
    }
    for (uint32_t i = 0; i < count; i++) {
        free(inputs[i].tensor.data);
    }
    t->tried.right += one.right;
    t->tried.wrong += one.wrong;
    t->tried.failed += one.failed;
    t->tried.kept += one.kept;
    t->tried.summands += one.summands;
    return right;
}

static bool is_known(const tally *t, const one_case *c)
{
    char line[400];

    snprintf(line, sizeof(line), "\n%s %s ", c->file, c->name);
    return t->known_text != NULL && strstr(t->known_text, line) != NULL;
}

/* By a session, over ranks, or operator by operator on DTensors (run_eager), against PyTorch's
 * answer; the latter also finds specs that a call changed. S000-13, S001-01, S001-05, S001-36,
 * S001-38 */
static void run_case(one_case *c, exg_json json, const exg_operators *operators, tally *t)
{
    char why[400] = "";
    exg_json program_json;
    exg_error err;
    bool right = false;
    bool known = is_known(t, c);

    exg_error_clear(&err);
    if (exg_program_create(NULL, UINT64_MAX, &c->program, &err) != EXG_OK) {
        exit(1);
    }
    if (!exg_json_find(json, "program", &program_json) ||
        exg_decode_program(program_json, c->program, &err) != EXG_OK) {
        snprintf(why, sizeof(why), "%s %.150s [%.150s]", err.code, err.message, err.where);
    } else {
        add_constants(c);
        mark_arguments(c->program, operators, t->set);
        if (t->seen != NULL) {
            mark_rows(c->program, operators, t->seen);
        }
        right = t->shards > 0      ? run_shards(c, operators, t, why)
                : t->eager == NULL ? run_session(c, operators, &t->mesh, why)
                                   : run_eager(c, operators, &t->mesh, t->eager, why);
        known = known && t->shards == 0;
    }
    exg_program_destroy(c->program);
    if (!right && LACKS_LAPACK && strstr(why, "KRN-012") != NULL) {
        t->lapack++;
        return;
    }
    t->passed += right;
    t->known += !right && known;
    t->failed += !right && !known;
    t->stale += right && known;
    if ((!right && !known) || t->list) {
        if (!right) {
            printf("%s %s %s\n", c->file, c->name, why);
        }
    } else if (right && known) {
        printf("%s %s passes, but known.txt lists it\n", c->file, c->name);
    }
}

static void run_cases(const char *file, const exg_tensor_file *tensors, exg_json list,
                      const exg_operators *operators, tally *t)
{
    exg_json_walk walk;
    exg_json json;
    exg_error err;

    if (exg_json_array(list, &walk, &err) != EXG_OK) {
        printf("%s: %s\n", file, err.message);
        t->failed++;
        return;
    }
    while (exg_json_next(&walk, &json)) {
        one_case c = {.file = file, .tensors = tensors, .mesh = ranks_of(&t->mesh)};
        exg_json field;
        const char *text = "";
        size_t length = 0;
        char name[200];

        if (exg_json_find(json, "name", &field)) {
            (void)exg_json_string(field, &text, &length, &err);
        }
        snprintf(name, sizeof(name), "%.*s", (int)length, text);
        c.name = name;
        if (exg_json_find(json, "rtol", &field) &&
            exg_json_double(field, &c.rtol, &err) != EXG_OK) {
            c.rtol = 0;
        }
        if (exg_json_find(json, "atol", &field) &&
            exg_json_double(field, &c.atol, &err) != EXG_OK) {
            c.atol = 0;
        }
        run_case(&c, json, operators, t);
    }
}

static void run_file(const char *path, const exg_operators *operators, tally *t)
{
    const char *base = strrchr(path, '/') == NULL ? path : strrchr(path, '/') + 1;
    exg_tensor_file *tensors;
    exg_json_doc *doc;
    exg_error err;
    const char *cases = NULL;

    if (exg_tensor_file_open(path, &tensors, &err) != EXG_OK) {
        printf("%s: %s\n", path, err.message);
        t->failed++;
        return;
    }
    for (uint32_t i = 0; i < tensors->metadata.count; i++) {
        if (strcmp(tensors->metadata.items[i].key, "cases") == 0) {
            cases = tensors->metadata.items[i].value;
        }
    }
    if (cases == NULL ||
        exg_json_parse(cases, strlen(cases), 0, EXG_JSON_KEYS_NOW, &doc, &err) != EXG_OK) {
        printf("%s: no cases\n", path);
        t->failed++;
    } else {
        run_cases(base, tensors, exg_json_root(doc), operators, t);
        exg_json_free(doc);
    }
    exg_tensor_file_close(tensors);
}

int main(int argc, char **argv)
{
    tally t = {0};
    const char *mesh = getenv("EXG_CORPUS_MESH");
    exg_operators *operators;
    exg_error err;
    glob_t files = {0};

    t.known_text = read_text("tests/exec/corpus/known.txt");
    t.eager = getenv("EXG_CORPUS_EAGER");
    for (char *at = (char *)(uintptr_t)mesh; at != NULL && *at != '\0'; at += *at == 'x') {
        t.mesh.sizes[t.mesh.ndim++] = (uint32_t)strtoul(at, &at, 10); /* "2x2" */
    }
    t.shards = getenv("EXG_CORPUS_SHARDS") == NULL
                   ? 0
                   : (uint32_t)strtoul(getenv("EXG_CORPUS_SHARDS"), NULL, 10);
    t.seen = t.eager != NULL && strcmp(t.eager, "pairs") == 0
                 ? calloc(EXG_OPERATOR_COUNT, sizeof(bool))
                 : NULL;
    t.set = calloc(EXG_OPERATOR_COUNT, sizeof(*t.set));
    t.list = argc > 1 && strcmp(argv[1], "--list") == 0;
    if (exg_operators_create(&operators, &err) != EXG_OK) {
        return 1;
    }
    if (argc > 1 + t.list) {
        for (int i = 1 + t.list; i < argc; i++) {
            run_file(argv[i], operators, &t);
        }
    } else if (glob("fixtures/operators/*.safetensors", 0, NULL, &files) == 0) {
        for (size_t i = 0; i < files.gl_pathc; i++) {
            run_file(files.gl_pathv[i], operators, &t);
        }
        t.failed += count_unset_arguments(operators, t.set);
        t.failed += t.seen != NULL ? count_unseen_rows(operators, t.seen) : 0;
    }
    globfree(&files);
    exg_operators_destroy(operators);
    free(t.known_text);
    free(t.seen);
    free(t.set);
    printf("%u passed, %u failed\n", t.passed, t.failed + t.stale);
    if (LACKS_LAPACK) {
        printf("%u want LAPACK, which this build is without\n", t.lapack);
    }
    if (t.shards > 0) {
        printf(
            "shardings over %u ranks: %u right, %u wrong, %u failed; %u keep shards, %u summands\n",
            t.shards, t.tried.right, t.tried.wrong, t.tried.failed, t.tried.kept, t.tried.summands);
    }
    if (t.known > 0) {
        printf("%u cases are listed in known.txt\n", t.known);
    }
    return t.failed + t.stale > 0 || t.passed == 0;
}
