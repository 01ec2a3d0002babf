/* report.c - what the partitioner decided: a line for each node that is split or moves
 * something, or as JSON an object for each node. */
#include "libexec/sharding/partitioner.h"

#include <inttypes.h>

static void put_key(exg_text *text, const char *before, const char *value)
{
    exg_text_puts(text, before);
    exg_text_json_string(text, value == NULL ? "" : value);
}

void exg_report_move(exg_partitioner *p, exg_value_id id, exg_placement from, exg_placement to)
{
    const exg_value *value = &p->r.in->graph->values[id];
    double bytes = exg_meta_bytes(value->tensor);
    double moved = exg_move_bytes(from, to, bytes, p->n);
    double ns = exg_move_cost(&p->costs->links[p->mesh_dim], from, to, bytes, p->n);
    char a[EXG_PLACEMENT_TEXT];
    char b[EXG_PLACEMENT_TEXT];

    if (p->report == NULL) {
        return;
    }
    (void)exg_placement_print(from, a);
    (void)exg_placement_print(to, b);
    if (!p->json) {
        exg_text_printf(&p->moves, "  move %s: %s -> %s, %.0f bytes, %.0f ns: %s\n", value->name, a,
                        b, moved, ns, p->why);
        return;
    }
    put_key(&p->moves, p->moves.length == 0 ? "{\"value\": " : ", {\"value\": ", value->name);
    exg_text_printf(&p->moves, ", \"from\": \"%s\", \"to\": \"%s\", \"bytes\": %.0f, \"ns\": %.0f",
                    a, b, moved, ns);
    put_key(&p->moves, ", \"why\": ", p->why);
    exg_text_puts(&p->moves, "}");
}

static void put_placements(exg_text *text, const exg_placement *placements, uint32_t count,
                           const char *quote)
{
    char word[EXG_PLACEMENT_TEXT];

    for (uint32_t i = 0; i < count; i++) {
        exg_text_printf(text, "%s%s%s%s", i > 0 ? ", " : "", quote,
                        exg_placement_print(placements[i], word), quote);
    }
}

static bool is_plain(const exg_strategy *strategy, uint32_t operands, uint32_t results)
{
    bool plain = true;

    for (uint32_t i = 0; i < operands; i++) {
        plain = plain && strategy->operands[i].kind == EXG_REPLICATE;
    }
    for (uint32_t i = 0; i < results; i++) {
        plain = plain && strategy->results[i].kind == EXG_REPLICATE;
    }
    return plain;
}

void exg_report_node(exg_partitioner *p, const char *name, const char *target,
                     const exg_strategy *strategy, uint32_t operands, uint32_t results, double ns)
{
    bool plain = is_plain(strategy, operands, results);
    exg_text *text = p->report;
    const char *moves = exg_text_string(&p->moves);

    p->summary.split_count += !plain;
    if (text == NULL) {
        return;
    }
    if (p->json) {
        put_key(text, p->reported++ > 0 ? ",\n{\"node\": " : "{\"node\": ", name);
        put_key(text, ", \"target\": ", target);
        exg_text_puts(text, ", \"results\": [");
        put_placements(text, strategy->results, results, "\"");
        exg_text_puts(text, "], \"operands\": [");
        put_placements(text, strategy->operands, operands, "\"");
        exg_text_printf(text, "], \"ns\": %.0f, \"moves\": [%s]}", ns, moves == NULL ? "" : moves);
    } else {
        exg_text_puts(text, moves == NULL ? "" : moves);
        if (!plain && results > 0) {
            exg_text_printf(text, "%s: ", name == NULL ? "" : name);
            put_placements(text, strategy->results, results, "");
            exg_text_printf(text, " <- %s(", target);
            put_placements(text, strategy->operands, operands, "");
            exg_text_puts(text, ")\n");
        }
    }
    exg_text_free(&p->moves);
}
