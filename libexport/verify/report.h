/* report.h - findings, and where in the model they are. */
#ifndef EXG_LIBEXPORT_VERIFY_REPORT_H
#define EXG_LIBEXPORT_VERIFY_REPORT_H

#include <exg/verify.h>

typedef struct exg_verifier exg_verifier;

/* Where in the model: `within`.part[index], .part["key"] or .part alone. Paths are on the stack of
 * the rules and become texts only where something is found. */
typedef struct exg_model_path {
    const struct exg_model_path *within; /* NULL: the outermost */
    const char *part;
    const char *key;      /* NULL: none */
    uint32_t index;       /* EXG_NO_INDEX: none */
    const exg_node *node; /* the node that is here, or NULL */
} exg_model_path;

#define EXG_NO_INDEX UINT32_MAX
#define EXG_AT(outer, part_)                                                                       \
    (&(const exg_model_path){.within = (outer), .part = (part_), .index = EXG_NO_INDEX})
#define EXG_AT_INDEX(outer, part_, index_)                                                         \
    (&(const exg_model_path){.within = (outer), .part = (part_), .index = (index_)})
#define EXG_AT_KEY(outer, part_, key_)                                                             \
    (&(const exg_model_path){                                                                      \
        .within = (outer), .part = (part_), .key = (key_), .index = EXG_NO_INDEX})

/* Writes "graph.nodes[3].inputs[1]"; cut when `length` does not suffice. */
void exg_model_path_text(const exg_model_path *path, char *text, size_t length);

/* A finding of rule `code`; the message is formatted. */
void exg_found(exg_verifier *v, const char *code, const exg_model_path *path, const char *format,
               ...) __attribute__((format(printf, 4, 5)));

#endif
