/* report.c - what the partitioner decided: a line for each node that is split or moves
 * something, or as JSON an object for each node. */
#include "libexec/sharding/partitioner.h"
#include "libexport/transform/origin.h"

#include <exg/json_writer.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *or_none(const char *text)
{
    return text == NULL ? "" : text;
}

/* "S(1)"; "S(1)/2": in two parts, each of which several ranks have. */
static char *place_text(const exg_partitioner *p, exg_placement place, char *text)
{
    size_t length = strlen(exg_placement_print(place, text));

    if (exg_sharers(place) > 1) {
        snprintf(text + length, EXG_PLACEMENT_TEXT - length, "/%u", p->n / exg_sharers(place));
    }
    return text;
}

void exg_report_move(exg_partitioner *p, exg_value_id id, exg_placement from, exg_placement to)
{
    const exg_value *value = &p->r.in->graph->values[id];
    double bytes = exg_bytes_to_lie_so(value->tensor, to, exg_meta_bytes(value->tensor), p->n);
    double moved = exg_move_bytes(from, to, bytes, p->n);
    double ns = exg_move_cost(&p->costs->links[p->mesh_dim], from, to, bytes, p->n);
    char a[EXG_PLACEMENT_TEXT];
    char b[EXG_PLACEMENT_TEXT];

    if (p->report == NULL) {
        return;
    }
    (void)place_text(p, from, a);
    (void)place_text(p, to, b);
    if (!p->json) {
        exg_text_printf(&p->moves, "  move %s: %s -> %s, ", value->name, a, b);
        exg_text_bytes(&p->moves, (uint64_t)moved);
        exg_text_puts(&p->moves, ", ");
        exg_text_ns(&p->moves, ns);
        exg_text_printf(&p->moves, ": %s\n", p->why);
        return;
    }
    exg_json_put_open(&p->moves, '{');
    exg_json_member_text(&p->moves, "value", or_none(value->name));
    exg_json_member_text(&p->moves, "from", a);
    exg_json_member_text(&p->moves, "to", b);
    exg_json_member_fixed(&p->moves, "bytes", moved, 0);
    exg_json_member_fixed(&p->moves, "ns", ns, 0);
    exg_json_member_text(&p->moves, "why", or_none(p->why));
    exg_json_put_close(&p->moves, '}');
}

static void put_placements(const exg_partitioner *p, exg_text *text,
                           const exg_placement *placements, uint32_t count)
{
    char word[EXG_PLACEMENT_TEXT];

    for (uint32_t i = 0; i < count; i++) {
        exg_text_printf(text, "%s%s", i > 0 ? ", " : "", place_text(p, placements[i], word));
    }
}

static void member_placements(const exg_partitioner *p, exg_text *text, const char *key,
                              const exg_placement *placements, uint32_t count)
{
    char word[EXG_PLACEMENT_TEXT];

    exg_json_member_open(text, key, '[');
    for (uint32_t i = 0; i < count; i++) {
        exg_json_put_text(text, place_text(p, placements[i], word));
    }
    exg_json_put_close(text, ']');
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

/* An object a line. */
static void put_node(exg_partitioner *p, const exg_node *placed, const exg_strategy *strategy,
                     uint32_t operands, uint32_t results, double ns)
{
    const char *origin = exg_node_origin(placed);
    exg_text node = EXG_TEXT_EMPTY;

    exg_json_put_open(&node, '{');
    exg_json_member_text(&node, "node", or_none(placed->name));
    exg_json_member_text(&node, "origin", origin == NULL ? "" : origin);
    exg_json_member_text(&node, "target", or_none(placed->target));
    member_placements(p, &node, "results", strategy->results, results);
    member_placements(p, &node, "operands", strategy->operands, operands);
    exg_json_member_fixed(&node, "ns", ns, 0);
    exg_json_member_open(&node, "moves", '[');
    exg_text_puts(&node, exg_text_part(&node, &p->moves));
    exg_json_put_close(&node, ']');
    exg_json_put_close(&node, '}');
    exg_text_puts(p->report, p->reported++ > 0 ? ",\n" : "");
    exg_text_puts(p->report, exg_text_part(p->report, &node));
    exg_text_free(&node);
}

void exg_report_node(exg_partitioner *p, const exg_node *node, const exg_strategy *strategy,
                     uint32_t operands, uint32_t results, double ns)
{
    bool plain = is_plain(strategy, operands, results);
    exg_text *text = p->report;

    p->summary.split_count += !plain;
    if (text == NULL) {
        return;
    }
    if (p->json) {
        put_node(p, node, strategy, operands, results, ns);
    } else {
        exg_text_puts(text, exg_text_part(text, &p->moves));
        if (!plain && results > 0) {
            exg_text_printf(text, "%s: ", or_none(node->name));
            put_placements(p, text, strategy->results, results);
            exg_text_printf(text, " <- %s(", node->target);
            put_placements(p, text, strategy->operands, operands);
            exg_text_puts(text, ")\n");
        }
    }
    exg_text_free(&p->moves);
}

const char *exg_why_unsplit(exg_partition_mode mode)
{
    static const char *const words[] = {
        [EXG_PARTITION_DATA] = "no input has 2 rows or more along dim 0 to compute by",
        [EXG_PARTITION_TENSOR] = "no matrix, table or filter of weights has a dim that products "
                                 "can be split by",
        [EXG_PARTITION_FSDP] = "no input has 2 rows or more along dim 0, no parameter is a matrix",
        [EXG_PARTITION_SEQUENCE] = "no input has 2 positions or more along dim 1 to compute by",
        [EXG_PARTITION_EXPERT] =
            "no weight of several experts, (E, d, f), and no other that products "
            "can be split by",
        [EXG_PARTITION_CONTEXT] = "no input has 2 positions or more along dim 1 to compute by",
        [EXG_PARTITION_PATTERNS] = "all that is named is whole",
        [EXG_PARTITION_PIPELINE] = NULL,
        [EXG_PARTITION_AUTO] = NULL,
    };

    return words[mode];
}
