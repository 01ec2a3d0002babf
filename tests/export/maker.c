/* maker.c - see maker.h. */
#include "tests/export/maker.h"

#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void put(zip_maker *zip, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        exg_text_putc(&zip->out, (char)(i < 8 ? value >> (8 * i) : 0));
    }
}

static void add(zip_maker *zip, const char *name, const void *data, size_t stored, size_t plain,
                uint32_t crc, uint16_t method)
{
    zip_member *m = &zip->members[zip->count++];

    assert_true(zip->count <= 64 && strlen(name) < sizeof(m->name));
    strcpy(m->name, name);
    m->name_length = (uint16_t)strlen(name);
    m->crc = crc;
    m->stored = (uint32_t)stored;
    m->plain = (uint32_t)plain;
    m->offset = (uint32_t)zip->out.length;
    m->method = method;
    m->flags = 0x0800;
    put(zip, 0x04034b50, 4);
    put(zip, 20, 2);
    put(zip, m->flags, 2);
    put(zip, method, 2);
    put(zip, 0, 4);
    put(zip, crc, 4);
    put(zip, stored, 4);
    put(zip, plain, 4);
    put(zip, m->name_length, 2);
    put(zip, 0, 2);
    exg_text_add(&zip->out, name, m->name_length);
    exg_text_add(&zip->out, data, stored);
}

void zip_add(zip_maker *zip, const char *name, const void *data, size_t length)
{
    add(zip, name, data, length, length, libdeflate_crc32(0, data, length), 0);
}

void zip_add_deflated(zip_maker *zip, const char *name, const void *data, size_t length)
{
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
    size_t bound = libdeflate_deflate_compress_bound(c, length);
    char *out = malloc(bound);

    assert_non_null(out);
    add(zip, name, out, libdeflate_deflate_compress(c, data, length, out, bound), length,
        libdeflate_crc32(0, data, length), 8);
    free(out);
    libdeflate_free_compressor(c);
}

void zip_finish(zip_maker *zip)
{
    size_t start = zip->out.length;

    for (uint32_t i = 0; i < zip->count; i++) {
        const zip_member *m = &zip->members[i];

        put(zip, 0x02014b50, 4);
        put(zip, 20, 2);
        put(zip, 20, 2);
        put(zip, m->flags, 2);
        put(zip, m->method, 2);
        put(zip, 0, 4);
        put(zip, m->crc, 4);
        put(zip, m->stored, 4);
        put(zip, m->plain, 4);
        put(zip, m->name_length, 2);
        put(zip, 0, 2 + 2 + 2 + 2 + 4);
        put(zip, m->offset, 4);
        exg_text_add(&zip->out, m->name, m->name_length);
    }
    put(zip, 0x06054b50, 4);
    put(zip, 0, 4);
    put(zip, zip->count, 2);
    put(zip, zip->count, 2);
    put(zip, zip->out.length - start - 12, 4);
    put(zip, start, 4);
    put(zip, 0, 2);
    assert_false(zip->out.failed);
}

void zip_free(zip_maker *zip)
{
    exg_text_free(&zip->out);
    memset(zip, 0, sizeof(*zip));
}

/* ---- the smallest program ------------------------------------------------------------------ */

#define META(sizes, strides)                                                                       \
    "{\"dtype\": 7, \"sizes\": [" sizes "], \"requires_grad\": false, \"device\": {\"type\": "     \
    "\"cpu\", \"index\": null}, \"strides\": [" strides                                            \
    "], \"storage_offset\": {\"as_int\": 0}, \"layout\": 7}"
#define TWO META("{\"as_int\": 2}", "{\"as_int\": 1}")

static const char smallest[] =
    "{\"graph_module\": {\"graph\": {\"inputs\": [{\"as_tensor\": {\"name\": \"p_w\"}}, "
    "{\"as_tensor\": {\"name\": \"x\"}}], \"outputs\": [{\"as_tensor\": {\"name\": \"add\"}}], "
    "\"nodes\": [{\"target\": \"torch.ops.aten.add.Tensor\", \"inputs\": [{\"name\": \"self\", "
    "\"arg\": {\"as_tensor\": {\"name\": \"x\"}}, \"kind\": 1}, {\"name\": \"other\", \"arg\": "
    "{\"as_tensor\": {\"name\": \"p_w\"}}, \"kind\": 1}, {\"name\": \"alpha\", \"arg\": "
    "{\"as_int\": 1}, \"kind\": 2}], \"outputs\": [{\"as_tensor\": {\"name\": \"add\"}}], "
    "\"metadata\": {}, \"is_hop_single_tensor_return\": null, \"name\": \"add\"}], "
    "\"tensor_values\": {\"p_w\": " TWO ", \"x\": " TWO ", \"add\": " TWO "}, "
    "\"sym_int_values\": {}, \"sym_bool_values\": {}, \"is_single_tensor_return\": false, "
    "\"custom_obj_values\": {}, \"sym_float_values\": {}}, \"signature\": {\"input_specs\": "
    "[{\"parameter\": {\"arg\": {\"name\": \"p_w\"}, \"parameter_name\": \"w\"}}, "
    "{\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": \"x\"}}}}], \"output_specs\": "
    "[{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": \"add\"}}}}]}, "
    "\"module_call_graph\": [{\"fqn\": \"\", \"signature\": null}], \"metadata\": {}, "
    "\"treespec_namedtuple_fields\": {}}, \"opset_version\": {\"aten\": 10}, "
    "\"range_constraints\": {\"s0\": {\"min_val\": 0, \"max_val\": null}}, \"schema_version\": "
    "{\"major\": 8, \"minor\": 20}, \"verifiers\": [\"ATEN\"], \"torch_version\": \"2.13.0\", "
    "\"guards_code\": []}";

static const char weights_config[] =
    "{\"config\": {\"w\": {\"path_name\": \"weight_0\", \"is_param\": true, \"use_pickle\": "
    "false, \"tensor_meta\": " TWO "}}}";

static const char *replaced(const char *text, const char *from, const char *to)
{
    static char buffer[16384];
    const char *at = from == NULL ? NULL : strstr(text, from);

    if (from == NULL) {
        return text;
    }
    assert_non_null(at);
    snprintf(buffer, sizeof(buffer), "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return buffer;
}

const char *program_json(const char *from, const char *to)
{
    return replaced(smallest, from, to);
}

const char *weights_json(const char *from, const char *to)
{
    return replaced(weights_config, from, to);
}

void make_program(zip_maker *zip, const record *changes, size_t count)
{
    const record good[] = {
        {"data/weights/weight_0", "\0\0\x80\x3f\0\0\0\x40", 8}, /* 1, 2 */
        {"data/weights/model_weights_config.json", weights_config, SIZE_MAX},
        {"data/constants/model_constants_config.json", "{\"config\": {}}", SIZE_MAX},
        {"models/model.json", smallest, SIZE_MAX},
        {"data/sample_inputs/model.pt", "", 0},
        {"archive_format", "pt2", 3},
        {"archive_version", "0", 1},
        {".data/version", "6\n", 2},
        {"byteorder", "little", 6},
    };
    bool used[16] = {false};
    char name[700];

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        const record *r = &good[i];

        for (size_t c = 0; c < count; c++) {
            if (strcmp(changes[c].name, r->name) == 0) {
                used[c] = true;
                r = &changes[c];
                break;
            }
        }
        if (r->data != NULL) {
            snprintf(name, sizeof(name), "m/%s", r->name);
            zip_add(zip, name, r->data, r->length == SIZE_MAX ? strlen(r->data) : r->length);
        }
    }
    for (size_t c = 0; c < count; c++) {
        if (!used[c] && changes[c].data != NULL) {
            snprintf(name, sizeof(name), "m/%s", changes[c].name);
            zip_add(zip, name, changes[c].data,
                    changes[c].length == SIZE_MAX ? strlen(changes[c].data) : changes[c].length);
        }
    }
    zip_finish(zip);
}

/* ---- opening ----------------------------------------------------------------------------------
 */

exg_program *open_copy(const void *data, size_t length, exg_error *err)
{
    char *copy = malloc(length == 0 ? 1 : length);
    exg_program *program = NULL;
    exg_error local;

    assert_non_null(copy);
    if (length > 0) {
        memcpy(copy, data, length);
    }
    exg_error_clear(&local);
    if (exg_open_memory(copy, length, NULL, &program, NULL, &local) == EXG_OK) {
        assert_int_equal(exg_weights_own(program->weights, free, copy, NULL), EXG_OK);
    } else {
        assert_null(program);
        assert_true(local.code[0] != '\0' && local.message[0] != '\0');
        free(copy);
    }
    if (err != NULL) {
        *err = local;
    }
    return program;
}

void expect_refused(zip_maker *zip, exg_status status, const char *code)
{
    exg_error err;
    exg_program *program = open_copy(zip->out.data, zip->out.length, &err);

    assert_null(program);
    if (err.status != status || strcmp(err.code, code) != 0) {
        fail_msg("expected %s %s, got %s %s: %s (%s)", exg_status_name(status), code,
                 exg_status_name(err.status), err.code, err.message, err.where);
    }
    zip_free(zip);
}
