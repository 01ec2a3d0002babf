/* beam.h - a search for strategies of all nodes together: what beam.c keeps, and what it takes ways
 * to owe. */
#ifndef EXG_LIBEXEC_SHARDING_BEAM_H
#define EXG_LIBEXEC_SHARDING_BEAM_H

#include "libexec/sharding/candidate.h"
#include "libexec/sharding/partitioner.h"

#define EXG_BEAM_WIDTH_MAX  128
#define EXG_BEAM_CANDIDATES 4 /* of ways to go on, for each that is gone on with */

/* Placements as bits. */
typedef uint64_t exg_form_bits;
#define EXG_FORM_WHOLE        ((exg_form_bits)1)
#define EXG_FORM_SPLIT(dim)   ((exg_form_bits)2 << (dim))
#define EXG_FORM_SHARED(dim)  ((exg_form_bits)2 << (EXG_SHAPE_RANK_MAX + (dim)))
#define EXG_FORM_SHARED_ALL   (EXG_FORM_SUMMANDS(0) - EXG_FORM_SHARED(0))
#define EXG_FORM_SUMMANDS(op) ((exg_form_bits)1 << (40 + (int)(op)))
#define EXG_NO_SLOT           UINT32_MAX

typedef struct exg_beam_option {
    uint32_t strategy;
    double cost; /* of the node itself */
} exg_beam_option;

typedef struct exg_beam_stage {
    exg_node_call n;
    exg_beam_option *options;
    uint32_t count;
} exg_beam_stage;

typedef struct exg_beam_way {
    double cost;
    double debt;            /* what is at hand, and is not as it is needed, will cost at least */
    exg_form_bits *at_hand; /* by slot; 0: the slot is free */
} exg_beam_way;

typedef struct exg_beam_step {
    uint16_t parent[EXG_BEAM_WIDTH_MAX], option[EXG_BEAM_WIDTH_MAX];
} exg_beam_step;

/* So many elements of a weight along one of its dims. */
typedef struct exg_beam_weight_part {
    struct exg_beam_weight_part *next;
    exg_value_id id;
    int8_t dim;
    int64_t first, length;
} exg_beam_weight_part;

typedef struct exg_beam {
    exg_partitioner *p;
    const exg_graph *graph;
    exg_arena *arena;
    exg_beam_stage *stages;
    exg_beam_step *steps;
    bool *is_weight;                    /* by value: a weight, or a view of one */
    bool *is_made;                      /* by value: made of weights alone, once */
    bool *is_gathered;                  /* by value: of pieces, every time that it is read */
    exg_value_id *base;                 /* by value: of a weight, whose view it is */
    int8_t (*dims)[EXG_SHAPE_RANK_MAX]; /* by value: of a weight, the base's dims */
    exg_beam_weight_part **parts;       /* by value: of a weight, those that are read apart */
    uint32_t *products;                 /* by value: of a weight, the products that read it */
    uint32_t *last;                     /* by value: the node that reads it last */
    uint32_t *slot;                     /* by value */
    bool *is_closed;                    /* by value: its slot is free again */
    uint32_t *free_slots;
    uint32_t free_count, slots;
    double *bytes;        /* by value */
    exg_form_bits *taken; /* by value: in which the node that reads it takes it; 0: nobody knows */
    double *owed; /* by value: bytes that are moved at least where it takes it in no such form */
    exg_candidate candidates[EXG_BEAM_CANDIDATES * EXG_BEAM_WIDTH_MAX];
    uint32_t *trial; /* as p->chosen */
    bool splits;     /* weights must be split */
    double moves_count;
    uint32_t width; /* ways that are gone on with */
    exg_beam_way ways[2][EXG_BEAM_WIDTH_MAX];
    exg_form_bits *covered[EXG_BEAM_WIDTH_MAX]; /* by way that is kept, and slot */
    uint32_t count;
} exg_beam;

exg_form_bits exg_form_of(exg_placement p);

/* What it costs to move so many bytes in so many messages. */
double exg_beam_moved(const exg_beam *b, double bytes, double messages);

/* Sets b->taken, from the options of all nodes. */
void exg_beam_find_takers(exg_beam *b);

/* What a value that is at hand so will cost at least: a way that puts it off is no cheaper. */
double exg_beam_debt(const exg_beam *b, exg_value_id id, exg_form_bits at_hand);

#endif
