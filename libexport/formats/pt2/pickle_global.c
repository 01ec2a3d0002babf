/* pickle_global.c - the names a pickle may use: what they stand for, and what loading them in
 * Python would mean. */
#include "libexport/formats/pt2/pickle.h"

#include <string.h>

#define UNTYPED EXG_DTYPE_COUNT

static const exg_pickle_global global_rows[] = {
#define EXG_PICKLE_GLOBAL(module, name, tag, dtype, encoding, is_strict)                           \
    {module, name, EXG_TAG_##tag, dtype, encoding, EXG_CODE_NONE, is_strict, false, NULL},
#include "libexport/formats/pt2/pickle_global.def"
#undef EXG_PICKLE_GLOBAL
#define EXG_DTYPE(id, number, early, torch, safetensors, numpy, bytes, kind)                       \
    {"torch", torch, EXG_TAG_DTYPE, EXG_DTYPE_##id, NULL, EXG_CODE_NONE, true, false, NULL},
#include <exg/dtype.def>
#undef EXG_DTYPE
};

static const struct {
    const char *module;
    const char *name;
    exg_skipped_code code;
} code_rows[] = {
#define EXG_PICKLE_CODE(module, name, code) {module, name, EXG_CODE_##code},
#include "libexport/formats/pt2/pickle_code.def"
#undef EXG_PICKLE_CODE
};

/* ---- one name for what has several ------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);

    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

/* As Python 3 calls the module, PyTorch since 1.8, NumPy before 2. */
static const char *common_module(const char *module, const char *name)
{
    static const char *const pairs[][2] = {{"__builtin__", "builtins"},
                                           {"copy_reg", "copyreg"},
                                           {"torch.tensor", "torch._tensor"},
                                           {"numpy._core.multiarray", "numpy.core.multiarray"},
                                           {"numpy._core.numeric", "numpy.core.numeric"}};

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        if (strcmp(module, pairs[i][0]) == 0) {
            return pairs[i][1];
        }
    }
    return (strcmp(module, "torch.cuda") == 0 || strcmp(module, "torch.sparse") == 0 ||
            strcmp(module, "torch.cuda.sparse") == 0) &&
                   (ends_with(name, "Storage") || ends_with(name, "Tensor"))
               ? "torch"
               : module;
}

static const exg_pickle_global *find_row(const char *module, const char *name)
{
    static const exg_pickle_global tensor = {.tag = EXG_TAG_TYPE, .dtype = UNTYPED};

    for (size_t i = 0; i < sizeof(global_rows) / sizeof(global_rows[0]); i++) {
        if (strcmp(global_rows[i].name, name) == 0 && strcmp(global_rows[i].module, module) == 0) {
            return &global_rows[i];
        }
    }
    /* torch.FloatTensor and its kin */
    return strcmp(module, "torch") == 0 && ends_with(name, "Tensor") && strchr(name, '.') == NULL
               ? &tensor
               : NULL;
}

/* ---- what loading it means --------------------------------------------------------------- */

static bool fits_module(const char *pattern, const char *module)
{
    size_t length = strlen(pattern);

    if (length < 2 || strcmp(pattern + length - 2, ".*") != 0) {
        return strcmp(pattern, module) == 0;
    }
    length -= 2;
    return strncmp(pattern, module, length) == 0 &&
           (module[length] == '\0' || module[length] == '.');
}

static bool fits_name(const char *pattern, const char *name)
{
    if (strcmp(pattern, "*") == 0) {
        return true;
    }
    if (strcmp(pattern, "A*") == 0) {
        return name[0] >= 'A' && name[0] <= 'Z' && strchr(name, '.') == NULL;
    }
    return strcmp(pattern, name) == 0;
}

static exg_skipped_code find_code(const char *module, const char *name)
{
    for (size_t i = 0; i < sizeof(code_rows) / sizeof(code_rows[0]); i++) {
        if (fits_module(code_rows[i].module, module) && fits_name(code_rows[i].name, name)) {
            return code_rows[i].code;
        }
    }
    return EXG_CODE_FOREIGN;
}

/* A dotted name reaches what a module of it imported: torch.nn's "os.system" is os.system. Each
 * part of it counts as a module, the worst one decides. */
static exg_skipped_code worst_code(const char *module, char *dotted)
{
    exg_skipped_code worst = find_code(module, dotted);

    if (worst == EXG_CODE_NONE && strchr(dotted, '.') != NULL) {
        worst = EXG_CODE_FOREIGN;
    }
    for (char *dot = strchr(dotted, '.'); dot != NULL; dot = strchr(dotted, '.')) {
        exg_skipped_code code;

        *dot = '\0';
        code = find_code(common_module(dotted, dot + 1), dot + 1);
        worst = code > worst ? code : worst;
        *dot = '.';
        dotted = dot + 1;
    }
    return worst;
}

exg_status exg_pickle_find_global(const char *module, const char *name, bool strict,
                                  exg_arena *arena, exg_pickle_global **global, exg_error *err)
{
    const char *common = common_module(module, name);
    const exg_pickle_global *row = find_row(common, name);
    exg_pickle_global *made;
    char *dotted;

    if (strict && row != NULL && !row->is_strict) {
        return EXG_FAIL(err, UNSUPPORTED, "PKL-GLOBAL", "the pickle needs %s.%s", module, name);
    }
    if (strict && row == NULL) {
        return exg_error_fix(err,
                             EXG_FAIL(err, UNSUPPORTED, "PKL-GLOBAL",
                                      "the pickle names %s.%s, which loading it would run; "
                                      "nothing was run",
                                      module, name),
                             "do not load the file in Python unless you trust who made it");
    }
    made = EXG_NEW(arena, exg_pickle_global);
    dotted = exg_arena_strdup(arena, name);
    if (made == NULL || dotted == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *made = (exg_pickle_global){.module = common, .name = name, .dtype = UNTYPED};
    if (row == NULL) {
        made->code = worst_code(common, dotted);
        *global = made;
        return EXG_OK;
    }
    made->tag = row->tag;
    made->code = row->tag == EXG_TAG_GETATTR ? EXG_CODE_DANGEROUS : EXG_CODE_NONE;
    made->dtype = row->dtype;
    made->encoding = row->encoding;
    made->is_strict = row->is_strict;
    *global = made;
    return EXG_OK;
}

const exg_pickle_global *exg_pickle_storage_class(exg_dtype dtype)
{
    const exg_pickle_global *untyped = NULL;

    for (size_t i = 0; i < sizeof(global_rows) / sizeof(global_rows[0]); i++) {
        const exg_pickle_global *row = &global_rows[i];

        if (row->tag == EXG_TAG_STORAGE && row->encoding == NULL) {
            untyped = untyped == NULL && row->dtype == UNTYPED ? row : untyped;
            if (row->dtype == dtype) {
                return row;
            }
        }
    }
    return untyped;
}
