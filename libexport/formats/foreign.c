/* foreign.c - files of other kinds, told by name, with what to do: foreign.def. */
#include "libexport/base/files.h"
#include "libexport/formats/json.h"
#include "libexport/formats/protobuf.h"
#include "libexport/formats/pt2/zip.h"
#include "libexport/formats/tar.h"
#include "libexport/formats/weights_file.h"

#include <exg/text.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define JSON_BYTES_MAX (4u << 20)
#define NAME_BYTES     120 /* of a detail, which goes into the message */

/* What is looked at, and a detail that a shape found: "model.safetensors". */
typedef struct looked {
    const exg_source *file;
    exg_json_doc *doc; /* NULL: no object of JSON, or one that is read */
    char detail[NAME_BYTES + 1];
    bool keras, package, torch; /* what the names of a zip's members tell */
    uint32_t models;            /* of an archive */
    const char *member;         /* the first of them */
    size_t member_length;
} looked;

static bool begins(const exg_source *file, const void *bytes, uint64_t length)
{
    return file->length >= length && memcmp(file->data, bytes, (size_t)length) == 0;
}

static bool ends_in(const char *name, size_t length, const char *tail)
{
    size_t bytes = strlen(tail);

    return length >= bytes && strncasecmp(name + length - bytes, tail, bytes) == 0;
}

static bool is_called(const looked *l, const char *tail)
{
    return l->file->path != NULL && ends_in(l->file->path, strlen(l->file->path), tail);
}

static void note(char to[NAME_BYTES + 1], const char *name, size_t length)
{
    snprintf(to, NAME_BYTES + 1, "%.*s", (int)(length < NAME_BYTES ? length : NAME_BYTES), name);
}

/* ---- pages and JSON -------------------------------------------------------------------------- */

/* Where the text begins, behind a byte order mark and blanks. */
static uint64_t text_begin(const exg_source *file)
{
    uint64_t at = begins(file, "\xef\xbb\xbf", 3) ? 3 : 0;

    while (at < file->length && file->data[at] != 0 && strchr(" \t\r\n", file->data[at]) != NULL) {
        at++;
    }
    return at;
}

static bool is_html(looked *l)
{
    static const char *const tags[] = {"<!doctype html", "<html", "<head", "<body", "<!--"};
    uint64_t at = text_begin(l->file);

    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
        if (l->file->length - at >= strlen(tags[i]) &&
            strncasecmp((const char *)l->file->data + at, tags[i], strlen(tags[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* An object of JSON that is neither a program of the early form nor an index of weights. */
static void parse_object(looked *l)
{
    static const char *const read[] = {"\"graph_module\"", "\"weight_map\""};
    uint64_t at = text_begin(l->file);

    if (at == l->file->length || l->file->data[at] != '{' || l->file->length > JSON_BYTES_MAX) {
        return;
    }
    for (size_t i = 0; i < sizeof(read) / sizeof(read[0]); i++) {
        if (memmem(l->file->data, (size_t)l->file->length, read[i], strlen(read[i])) != NULL) {
            return;
        }
    }
    exg_ignore(exg_json_parse(l->file->data + at, (size_t)(l->file->length - at), at,
                              EXG_JSON_KEYS_LATER, &l->doc, NULL));
}

/* Has it one of these members? */
static bool has_key(const looked *l, const char *const *keys)
{
    exg_json member;

    while (l->doc != NULL && *keys != NULL) {
        if (exg_json_find(exg_json_root(l->doc), *keys++, &member)) {
            return true;
        }
    }
    return false;
}

static bool is_json_error(looked *l)
{
    static const char *const keys[] = {"error", "errors", "message", "detail", "Message", NULL};
    static const char *const models[] = {"model_type", "architectures", NULL};

    return has_key(l, keys) && !has_key(l, models);
}

static bool is_empty_index(looked *l)
{
    return l->doc != NULL && is_called(l, ".index.json");
}

static bool is_pipeline(looked *l)
{
    static const char *const keys[] = {"_diffusers_version", NULL};
    static const char *const parts[] = {"unet",         "vae",       "transformer",
                                        "text_encoder", "scheduler", NULL};

    return has_key(l, keys) && has_key(l, parts);
}

static bool is_configuration(looked *l)
{
    static const char *const keys[] = {"architectures",
                                       "model_type",
                                       "hidden_size",
                                       "transformers_version",
                                       "_diffusers_version",
                                       "torch_dtype",
                                       "dtype",
                                       "peft_type",
                                       "auto_map",
                                       "num_attention_heads",
                                       "eos_token_id",
                                       "quantization_config",
                                       "n_layers",
                                       "image_processor_type",
                                       "processor_class",
                                       "feature_extractor_type",
                                       "_class_name",
                                       NULL};

    return has_key(l, keys);
}

static bool is_tokenizer(looked *l)
{
    static const char *const keys[] = {"added_tokens", "pre_tokenizer", "tokenizer_class",
                                       "bos_token", NULL};

    return has_key(l, keys);
}

/* A program of the early form has some of these. */
static bool is_other_json(looked *l)
{
    static const char *const keys[] = {"name",    "graph",          "parameters",
                                       "buffers", "schema_version", NULL};

    return l->doc != NULL && !has_key(l, keys);
}

/* ---- FlatBuffers and Protocol Buffers ---------------------------------------------------------
 */

/* How often each field of the message is there, those past 31 as the last; false: it is none. */
static bool count_fields(const exg_source *file, uint32_t counts[33])
{
    exg_protobuf message = exg_protobuf_of(file->data, file->length);
    exg_protobuf_field field;

    memset(counts, 0, 33 * sizeof(counts[0]));
    while (exg_protobuf_next(&message, &field)) {
        counts[field.number < 32 ? field.number : 32]++;
    }
    return file->length > 0 && !message.damaged;
}

/* A version, a description and one of the kinds of models, whose numbers begin at 200. */
static bool is_coreml(looked *l)
{
    uint32_t counts[33];

    return count_fields(l->file, counts) && counts[1] == 1 && counts[2] == 1 && counts[32] == 1 &&
           l->file->data[0] == 0x08;
}

/* A version 1 and graphs, each with what it is of. */
static bool is_saved_model(looked *l)
{
    exg_protobuf message = exg_protobuf_of(l->file->data, l->file->length);
    exg_protobuf_field field;
    uint32_t graphs = 0;

    while (exg_protobuf_next(&message, &field)) {
        if (field.number == 1 ? field.wire != EXG_PROTOBUF_VARINT || field.value != 1
                              : field.number != 2 || field.wire != EXG_PROTOBUF_BYTES ||
                                    field.length == 0 || field.data[0] != 0x0a) {
            return false;
        }
        graphs += field.number == 2;
    }
    return graphs > 0 && !message.damaged;
}

/* Nodes, each with a name and an operator. */
static bool is_frozen_graph(looked *l)
{
    exg_protobuf message = exg_protobuf_of(l->file->data, l->file->length);
    exg_protobuf_field field;
    exg_protobuf_field part;

    if (!exg_protobuf_next(&message, &field) || field.number != 1 ||
        field.wire != EXG_PROTOBUF_BYTES) {
        return false;
    }
    message = exg_protobuf_of(field.data, field.length);
    return exg_protobuf_next(&message, &part) && part.number == 1 &&
           part.wire == EXG_PROTOBUF_BYTES && exg_protobuf_next(&message, &part) &&
           part.number == 2 && part.wire == EXG_PROTOBUF_BYTES && part.length > 0 &&
           part.data[0] >= 'A' && part.data[0] <= 'Z';
}

/* A table of LevelDB, by its end. */
static bool is_tensor_bundle(looked *l)
{
    static const char end[] = "\x57\xfb\x80\x8b\x24\x75\x47\xdb";

    return l->file->length >= 48 && memcmp(l->file->data + l->file->length - 8, end, 8) == 0;
}

/* ---- archives ------------------------------------------------------------------------------- */

/* Not of what macOS puts beside each file: "__MACOSX/._model.pt". */
static bool is_model_name(const char *name, size_t length)
{
    static const char *const tails[] = {".safetensors", ".gguf", ".pt",  ".pth", ".ckpt",
                                        ".pt2",         ".onnx", ".bin", ".npz", ".npy",
                                        ".ptd",         ".h5",   ".exg"};
    const char *slash = memrchr(name, '/', length);
    const char *base = slash == NULL ? name : slash + 1;

    if (base < name + length && *base == '.') {
        return false;
    }
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        if (ends_in(name, length, tails[i])) {
            return true;
        }
    }
    return false;
}

static void note_model(looked *l, const char *name, size_t length)
{
    if (is_model_name(name, length)) {
        l->member = l->models == 0 ? name : l->member;
        l->member_length = l->models == 0 ? length : l->member_length;
        l->models++;
    }
}

static bool note_member(void *user, const char *name, size_t length)
{
    looked *l = user;

    l->keras = l->keras || ends_in(name, length, "model.weights.h5");
    l->package = l->package || ends_in(name, length, ".data/extern_modules") ||
                 ends_in(name, length, ".data/python_version");
    l->torch = l->torch || ends_in(name, length, "data.pkl") ||
               ends_in(name, length, "archive_format") ||
               ends_in(name, length, "archive_version") ||
               ends_in(name, length, "serialized_exported_program.json") ||
               memmem(name, length, "models/", 7) != NULL;
    note_model(l, name, length);
    return true;
}

static bool is_keras(looked *l)
{
    return l->keras;
}

static bool is_torch_package(looked *l)
{
    return l->package;
}

/* The detail: "a.pt, and 2 more". */
static bool tell_models(looked *l)
{
    if (l->models == 0) {
        return false;
    }
    note(l->detail, l->member, l->member_length);
    if (l->models > 1) {
        snprintf(l->detail + strlen(l->detail), sizeof(l->detail) - strlen(l->detail),
                 ", and %" PRIu32 " more", l->models - 1);
    }
    return true;
}

static bool is_zip_of_models(looked *l)
{
    return !l->torch && tell_models(l);
}

static bool is_tar(looked *l)
{
    return exg_tar_sniff(l->file->data, l->file->length);
}

static void note_tar(looked *l)
{
    exg_tar_member member;
    uint64_t at = 0;

    l->models = 0;
    while (exg_tar_next(l->file->data, l->file->length, &at, &member)) {
        if (member.is_file) {
            note_model(l, member.name, member.name_length);
        }
    }
}

static bool is_tar_of_models(looked *l)
{
    if (!is_tar(l)) {
        return false;
    }
    note_tar(l);
    return tell_models(l);
}

bool exg_foreign_archive(const exg_source *file, const char **member, size_t *length)
{
    looked l = {.file = file};

    if (is_tar(&l)) {
        note_tar(&l);
    } else if (!exg_zip_names(file->data, file->length, note_member, &l) || l.torch || l.keras ||
               l.package) {
        return false;
    }
    *member = l.member;
    *length = l.member_length;
    return l.models == 1;
}

/* ---- pickles and msgpack ----------------------------------------------------------------------
 */

/* A map whose first key is a text and whose first value a map or an array of Flax. */
static bool is_flax(looked *l)
{
    const uint8_t *data = l->file->data;
    uint64_t at = l->file->length < 8                           ? 0
                  : (data[0] & 0xf0) == 0x80 && data[0] != 0x80 ? 1
                  : data[0] == 0xde                             ? 3
                  : data[0] == 0xdf                             ? 5
                                                                : 0;
    uint64_t text;

    if (at == 0 || ((data[at] & 0xe0) != 0xa0 && data[at] != 0xd9)) {
        return false;
    }
    text = data[at] == 0xd9 ? data[at + 1] : data[at] & 0x1f;
    at += data[at] == 0xd9 ? 2 : 1;
    if (text == 0 || text >= l->file->length - at) {
        return false;
    }
    at += text;
    return (data[at] & 0xf0) == 0x80 || data[at] == 0xde || data[at] == 0xdf ||
           (data[at] >= 0xc7 && data[at] <= 0xc9);
}

static bool is_pickle(looked *l)
{
    const exg_source *file = l->file;

    return file->length >= 4 && file->data[0] == 0x80 && file->data[1] >= 2 && file->data[1] <= 5 &&
           file->data[file->length - 1] == '.';
}

/* ---- names that say something else -------------------------------------------------------------
 */

static bool is_short_safetensors(looked *l)
{
    snprintf(l->detail, sizeof(l->detail), "%" PRIu64 " bytes", l->file->length);
    return is_called(l, ".safetensors") && l->file->length > 0 && l->file->length < 10;
}

static bool is_no_safetensors(looked *l)
{
    uint64_t header = 0;

    if (!is_called(l, ".safetensors") || l->file->length < 10) {
        return false;
    }
    for (int i = 7; i >= 0; i--) {
        header = header << 8 | l->file->data[i];
    }
    snprintf(l->detail, sizeof(l->detail), "%" PRIu64 " bytes%s", header,
             header <= 100000000 ? ", and no '{' begins it" : ", at most 100,000,000 are allowed");
    return true;
}

static bool is_no_gguf(looked *l)
{
    return is_called(l, ".gguf") && l->file->length > 0 && !begins(l->file, "GGUF", 4);
}

/* Zips and JSON are looked into by their readers, which tell more. */
static bool is_misnamed(looked *l)
{
    static const char *const tails[] = {".npy", ".npz", ".pt",   ".pth", ".ckpt", ".bin",
                                        ".ptd", ".pte", ".onnx", ".pt2", ".exg",  ".metadata"};
    uint64_t at = text_begin(l->file);
    bool read = l->file->length == 0 || begins(l->file, "PK", 2) ||
                exg_zip_sniff(l->file->data, l->file->length) ||
                (at < l->file->length && (l->file->data[at] == '{' || l->file->data[at] == '['));

    for (size_t i = 0; !read && i < sizeof(tails) / sizeof(tails[0]); i++) {
        if (is_called(l, tails[i])) {
            note(l->detail, tails[i], strlen(tails[i]));
            return true;
        }
    }
    return false;
}

/* ---- what holds nothing ------------------------------------------------------------------------
 */

#define LOOKED_BYTES 512

static bool is_zeros(looked *l)
{
    uint64_t length = l->file->length < LOOKED_BYTES ? l->file->length : LOOKED_BYTES;
    uint64_t at = 0;

    while (at < length && l->file->data[at] == 0) {
        at++;
    }
    return length >= 16 && at == length;
}

/* Its first line is the detail. JSON is none: its readers tell more. */
static bool is_text(looked *l)
{
    uint64_t begin = text_begin(l->file);
    const char *text = (const char *)l->file->data + begin;
    uint64_t length = l->file->length - begin;
    uint64_t line = 0;

    length = length < LOOKED_BYTES ? length : LOOKED_BYTES;
    if (length < 4 || *text == '{' || *text == '[') {
        return false;
    }
    for (uint64_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c == 0x7f || (c < ' ' && strchr("\t\r\n", c) == NULL) || c == 0) {
            return false;
        }
        line = line == i && c != '\r' && c != '\n' ? i + 1 : line;
    }
    line = line < NAME_BYTES / 2 ? line : NAME_BYTES / 2;
    while (line > 0 && line < length && ((unsigned char)text[line] & 0xc0) == 0x80) {
        line--; /* whole letters */
    }
    note(l->detail, text, (size_t)line);
    return length == LOOKED_BYTES || exg_text_is_utf8(text, (size_t)length);
}

/* ---- the table --------------------------------------------------------------------------------
 */

typedef struct row {
    uint64_t offset;
    const char *bytes;
    uint64_t length;
    bool (*is)(looked *l); /* NULL: told by bytes */
    const char *name, *fix;
} row;

static const row rows[] = {
#define EXG_FOREIGN_MAGIC(offset, bytes, name, fix)                                                \
    {offset, bytes, sizeof(bytes) - 1, NULL, name, fix},
#define EXG_FOREIGN_SHAPE(shape, name, fix) {0, NULL, 0, is_##shape, name, fix},
#include "libexport/formats/foreign.def"
#undef EXG_FOREIGN_MAGIC
#undef EXG_FOREIGN_SHAPE
};

static bool fits(const row *r, looked *l)
{
    l->detail[0] = '\0';
    return r->is != NULL ? r->is(l)
                         : l->file->length >= r->offset + r->length &&
                               memcmp(l->file->data + r->offset, r->bytes, (size_t)r->length) == 0;
}

/* The name, with the detail in the place of "%s". */
static void put_name(const row *r, const looked *l, char *text, size_t room)
{
    const char *gap = strstr(r->name, "%s");

    snprintf(text, room, "%.*s%s%s", gap == NULL ? (int)strlen(r->name) : (int)(gap - r->name),
             r->name, gap == NULL ? "" : l->detail, gap == NULL ? "" : gap + 2);
}

exg_status exg_foreign_check(const exg_source *file, exg_error *err)
{
    looked l = {.file = file};
    exg_status status = EXG_OK;

    parse_object(&l);
    (void)exg_zip_names(file->data, file->length, note_member, &l); /* nothing, of no zip */
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && status == EXG_OK; i++) {
        if (fits(&rows[i], &l)) {
            char name[NAME_BYTES + 200];

            put_name(&rows[i], &l, name, sizeof(name));
            status =
                exg_error_fix(err, EXG_FAIL(err, UNSUPPORTED, "FMT-FOREIGN", "this is %s", name),
                              "%s", rows[i].fix);
        }
    }
    exg_json_free(l.doc);
    return status;
}
