/* costs_file.c - a table of costs, as a file:
 *   {"ns_per_flop": 0.02, "ns_per_touched": 0.1, ... as in costs.def,
 *    "links": [{"message_ns": 6000, "ns_per_byte": 0.12}]}
 * and a "note", which says where the numbers come from; one link a mesh dim; the last stands for
 * all that follow. What is absent is built in; an unknown member is refused, and so is a table of
 * none. */
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/formats/json.h"

#include <exg/formats.h>
#include <exg/partition.h>
#include <exg/text.h>
#include <stdio.h>
#include <string.h>

/* A member, if it is there. */
static exg_status read_number(exg_json object, const char *key, double *number, exg_error *err)
{
    exg_json value;
    int64_t whole;

    if (!exg_json_find(object, key, &value)) {
        return EXG_OK;
    }
    if (exg_json_type_of(value) == EXG_JSON_INT) {
        EXG_TRY_IN(err, exg_json_int(value, &whole, err), "%s", key);
        *number = (double)whole;
    } else {
        EXG_TRY_IN(err, exg_json_double(value, number, err), "%s", key);
    }
    return *number >= 0 ? EXG_OK : EXG_FAIL(err, USAGE, "CLI-004", "'%s' is below 0", key);
}

/* Every member is one of `known`, which ends in NULL: a misspelt one would go unseen. */
static exg_status check_members(exg_json object, const char *const *known, exg_error *err)
{
    exg_json_walk walk = {0};
    exg_text names = EXG_TEXT_EMPTY;
    exg_status status;
    exg_json value;
    const char *key;
    uint32_t length;

    EXG_TRY(exg_json_object(object, &walk, err));
    while (exg_json_next_member(&walk, &key, &length, &value)) {
        uint32_t k = 0;

        while (known[k] != NULL &&
               (strlen(known[k]) != length || memcmp(known[k], key, length) != 0)) {
            k++;
        }
        if (known[k] != NULL) {
            continue;
        }
        for (k = 0; known[k] != NULL; k++) {
            exg_text_printf(&names, "%s%s", k > 0 ? ", " : "", known[k]);
        }
        status = exg_error_fix(err,
                               EXG_FAIL(err, USAGE, "CLI-004", "an unknown member \"%.*s\"",
                                        length > 40 ? 40 : (int)length, key),
                               "the members are %s", names.failed ? "" : names.data);
        exg_text_free(&names);
        return status;
    }
    return EXG_OK;
}

static exg_status read_links(exg_json links, exg_costs *costs, exg_error *err)
{
    exg_json_walk walk;
    exg_json link;
    static const char *const of_link[] = {"message_ns", "ns_per_byte", NULL};
    uint32_t d = 0;

    EXG_TRY(exg_json_array(links, &walk, err));
    while (d < EXG_MESH_DIMS_MAX && exg_json_next(&walk, &link)) {
        if (exg_json_type_of(link) != EXG_JSON_OBJECT) {
            return EXG_FAIL(err, USAGE, "CLI-004", "links[%u] is not an object", d);
        }
        EXG_TRY_IN(err, check_members(link, of_link, err), "links[%u]", d);
        EXG_TRY_IN(err, read_number(link, "message_ns", &costs->links[d].message_ns, err),
                   "links[%u]", d);
        EXG_TRY_IN(err, read_number(link, "ns_per_byte", &costs->links[d].ns_per_byte, err),
                   "links[%u]", d);
        d++;
    }
    for (uint32_t rest = d; d > 0 && rest < EXG_MESH_DIMS_MAX; rest++) {
        costs->links[rest] = costs->links[d - 1];
    }
    return EXG_OK;
}

static exg_status read_all(exg_json root, exg_costs *costs, exg_error *err)
{
    static const char *const known[] = {"note",
#define EXG_COST(member, built_in) #member,
#include "libexec/sharding/costs.def"
#undef EXG_COST
                                        "links", NULL};
    exg_json links, note;

    if (exg_json_type_of(root) != EXG_JSON_OBJECT) {
        return EXG_FAIL(err, USAGE, "CLI-004", "a table of costs is an object");
    }
    EXG_TRY(check_members(root, known, err));
    if (exg_json_find(root, "note", &note) && exg_json_type_of(note) != EXG_JSON_STRING) {
        return EXG_FAIL(err, USAGE, "CLI-004", "'note' is a text: where the numbers come from");
    }
    if (exg_json_count(root) == (exg_json_find(root, "note", &note) ? 1u : 0u)) {
        return EXG_FAIL(err, USAGE, "CLI-004", "the table of costs is empty");
    }
#define EXG_COST(member, built_in) EXG_TRY(read_number(root, #member, &costs->member, err));
#include "libexec/sharding/costs.def"
#undef EXG_COST
    return exg_json_find(root, "links", &links) ? read_links(links, costs, err) : EXG_OK;
}

exg_status exg_costs_open(const char *path, exg_costs *costs, exg_error *err)
{
    EXG_REQUIRE(err, path, costs);
    exg_costs own;
    exg_json_doc *doc;
    exg_status status;

    EXG_TRY(EXG_READ_OPTIONS(exg_costs, &own, costs, err));
    exg_costs_init(&own, sizeof(own));
    EXG_TRY(exg_json_open(path, &doc, err));
    status = read_all(exg_json_root(doc), &own, err);
    exg_json_free(doc);
    if (status != EXG_OK) {
        return exg_error_within(err, status, "%s:", path);
    }
    EXG_WRITE_OPTIONS(exg_costs, costs, &own);
    return EXG_OK;
}

exg_status exg_costs_save(const exg_costs *costs, const char *path, exg_error *err)
{
    EXG_REQUIRE(err, costs, path);
    exg_costs own;
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    exg_costs_init(&own, sizeof(own));
    EXG_TRY(EXG_READ_OPTIONS(exg_costs, &own, costs, err));
    exg_text_puts(&text, "{");
#define EXG_COST(member, built_in) exg_text_printf(&text, "\"" #member "\": %.6g,\n ", own.member);
#include "libexec/sharding/costs.def"
#undef EXG_COST
    exg_text_printf(&text, "\"links\": [{\"message_ns\": %.0f, \"ns_per_byte\": %.6g}]}\n",
                    own.links[0].message_ns, own.links[0].ns_per_byte);
    status =
        text.failed ? EXG_OUT_OF_MEMORY(err) : exg_file_write(path, text.data, text.length, err);
    exg_text_free(&text);
    return status;
}
