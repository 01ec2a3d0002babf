/* print_lines.h - a graph as the lines that PyTorch prints of it.
 *
 * FX has nodes the schema does not: a getitem for each element of a result and a
 * get_attr for each subgraph. Here they come back as lines.
 */
#ifndef EXG_LIBEXPORT_PROGRAM_PRINT_LINES_H
#define EXG_LIBEXPORT_PROGRAM_PRINT_LINES_H

#include "libexport/base/map.h"

#include <exg/program.h>
#include <exg/text.h>

#define EXG_NEVER     UINT32_MAX
#define EXG_AT_OUTPUT (UINT32_MAX - 1)

typedef enum exg_line_kind { EXG_LINE_CALL, EXG_LINE_ITEM, EXG_LINE_GRAPH } exg_line_kind;

/* Inputs that Python cannot call so, under their names inside. */
typedef struct exg_renamed {
    exg_graph graph; /* the graph with other names for its values */
    const char **from;
    const char **to;
    uint32_t count;
} exg_renamed;

typedef struct exg_printed_line {
    exg_line_kind kind;
    const exg_node *node;
    const char *name;
    const exg_value *value; /* for the annotation, or NULL */
    const char *of;         /* ITEM: the tuple; GRAPH: the attribute */
    uint32_t id;            /* what it defines */
    uint32_t element;       /* ITEM */
    uint32_t first_use;     /* in printer.uses */
    uint32_t use_count;
} exg_printed_line;

typedef struct exg_printer {
    exg_text *out;
    const exg_graph *graph;
    exg_arena *arena;
    exg_map names;   /* of values, for objects that are named by text */
    exg_map defined; /* names of lines so far, for those FX makes up */
    exg_printed_line *lines;
    uint32_t *uses;    /* ids, line after line */
    uint32_t *used_by; /* by id: the number of lines when it was noted last */
    uint32_t used_by_capacity;
    const char **id_names;
    uint32_t *last_use; /* line, by id */
    uint32_t line_count, line_capacity;
    uint32_t use_count, use_capacity;
    uint32_t id_count, id_capacity;
    exg_renamed inside;
    bool failed;
} exg_printer;

/* The lines of the graph; what it needs goes with exg_printer_end. `renames`: inputs that Python
 * cannot call so have other names inside. False, and `failed` set, when memory ran out. */
bool exg_printer_begin(exg_printer *p, exg_text *out, const exg_graph *graph, bool renames);
void exg_printer_end(exg_printer *p);

/* The value an output names, or EXG_NO_VALUE. */
exg_value_id exg_output_value(const exg_argument *output);

#endif
