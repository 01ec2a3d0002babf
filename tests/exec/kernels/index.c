/* Kernels that read or write by index tensors, against plain loops. */
#include "tests/exec/kernels/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The same indices as i32. */
static exg_tensor narrowed(exg_tensor t)
{
    exg_tensor n = make_tensor(EXG_DTYPE_I32, t.rank, t.sizes);

    for (int64_t i = 0; i < exg_tensor_numel(&t); i++) {
        set(&n, i, get(&t, i));
    }
    return n;
}

static void embedding_and_index_select_pick_whole_rows(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < COUNT(all_dtypes); k++) {
        exg_argument embedding[] = {arg_tensor(), arg_tensor(), arg_int(-1), arg_bool(false),
                                    arg_bool(false)};
        exg_argument select[] = {arg_tensor(), arg_int(-2), arg_tensor()};
        kernel_case c = {.kernel = &exg_kernel_embedding,
                         .args = embedding,
                         .arg_count = 5,
                         .input_count = 2,
                         .output_count = 1};
        exg_tensor weight = make_random(all_dtypes[k], 2, SIZES(50, 33), -9, 9);
        exg_tensor self = make_random(all_dtypes[k], 3, SIZES(3, 50, 4), -9, 9);
        exg_tensor ids = make_indices(2, SIZES(4, 7), 0, 50);
        double want[3 * 28 * 33];

        c.inputs[0] = weight;
        c.inputs[1] = k % 2 == 0 ? ids : narrowed(ids);
        c.outputs[0] = make_tensor(all_dtypes[k], 3, SIZES(4, 7, 33));
        for (int64_t i = 0; i < 28 * 33; i++) {
            want[i] = get_at(&weight, SIZES((int64_t)get(&ids, i / 33), i % 33));
        }
        expect_kernel(&c, 0, want, 0);
        c.kernel = &exg_kernel_index_select;
        c.args = select;
        c.arg_count = 3;
        ids.rank = 1;
        ids.sizes[0] = 28;
        ids.strides[0] = 1;
        c.inputs[0] = self;
        c.inputs[1] = ids;
        c.outputs[0] = make_tensor(all_dtypes[k], 3, SIZES(3, 28, 4));
        for (int64_t i = 0; i < 3 * 28 * 4; i++) {
            want[i] = get_at(&self, SIZES(i / 112, (int64_t)get(&ids, i / 4 % 28), i % 4));
        }
        expect_kernel(&c, 0, want, 0);
        free_tensors();
    }
}

static void an_index_outside_raises_and_reads_zero(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_tensor(), arg_int(-1), arg_bool(false),
                           arg_bool(false)};
    exg_argument along[] = {arg_tensor(), arg_int(0), arg_tensor(), arg_bool(false)};
    exg_argument index[] = {arg_tensor(), arg_none()};
    kernel_case c = {.kernel = &exg_kernel_embedding,
                     .args = args,
                     .arg_count = 5,
                     .input_count = 2,
                     .output_count = 1,
                     .fault = EXG_FAULT_INDEX};
    const double want[] = {3, 4, 0, 0, 0, 0};
    const double one_column[] = {3, 0, 0};

    (void)state;
    c.inputs[0] = make_tensor(EXG_DTYPE_F32, 2, SIZES(3, 2));
    for (int64_t i = 0; i < 6; i++) {
        set(&c.inputs[0], i, (double)i + 1);
    }
    c.inputs[1] = make_tensor(EXG_DTYPE_I64, 1, SIZES(3));
    set(&c.inputs[1], 0, 1);
    set(&c.inputs[1], 1, 3);
    set(&c.inputs[1], 2, -4);
    c.outputs[0] = make_tensor(EXG_DTYPE_F32, 2, SIZES(3, 2));
    expect_kernel(&c, 0, want, 0);
    c.kernel = &exg_kernel_index; /* negative indices count from the end, -4 is outside */
    c.args = index;
    c.arg_count = 2;
    expect_kernel(&c, 0, want, 0);
    c.kernel = &exg_kernel_gather;
    c.args = along;
    c.arg_count = 4;
    c.inputs[1].rank = 2;
    c.inputs[1].sizes[1] = c.inputs[1].strides[1] = 1;
    c.outputs[0] = make_tensor(EXG_DTYPE_F32, 2, SIZES(3, 1));
    expect_kernel(&c, 0, one_column, 0);
    free_tensors();
}

static void index_copy_writes_rows_the_last_of_equal_ones_wins(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_int(1), arg_tensor(), arg_tensor()};

    (void)state;
    for (uint32_t k = 0; k < COUNT(all_dtypes); k++) {
        kernel_case c = {.kernel = &exg_kernel_index_copy,
                         .args = args,
                         .arg_count = 4,
                         .input_count = 3,
                         .output_count = 1};
        double *want;

        c.inputs[0] = make_random(all_dtypes[k], 3, SIZES(3, 9, 5), -9, 9);
        c.inputs[1] = make_indices(1, SIZES(12), 0, 9);
        c.inputs[2] = make_random(all_dtypes[k], 3, SIZES(3, 12, 5), -9, 9);
        c.outputs[0] = make_tensor(all_dtypes[k], 3, SIZES(3, 9, 5));
        want = values_of(&c.inputs[0]);
        for (int64_t i = 0; i < 180; i++) {
            int64_t row = (int64_t)get(&c.inputs[1], i / 5 % 12);

            want[(i / 60 * 9 + row) * 5 + i % 5] = get(&c.inputs[2], i);
        }
        expect_kernel(&c, 0, want, 0);
        c.outputs[0] = c.inputs[0];
        expect_kernel(&c, 0, want, 0);
        free(want);
        free_tensors();
    }
}

/* ---- gather, scatter ------------------------------------------------------------------- */

/* Calls visit for each index element with the positions of it and of what it names. */
static void for_each_indexed(const exg_tensor *self, const exg_tensor *index, uint32_t dim,
                             void (*visit)(void *context, int64_t self_at, int64_t index_at,
                                           const int64_t *coordinates),
                             void *context)
{
    for (int64_t i = 0; i < exg_tensor_numel(index); i++) {
        int64_t at[3];
        int64_t rest = i;
        int64_t position = 0;

        for (uint32_t d = 3; d-- > 0; rest /= index->sizes[d]) {
            at[d] = rest % index->sizes[d];
        }
        for (uint32_t d = 0; d < 3; d++) {
            position = position * self->sizes[d] + (d == dim ? (int64_t)get(index, i) : at[d]);
        }
        visit(context, position, i, at);
    }
}

typedef struct scattering {
    double *want;
    const exg_tensor *from; /* self of gather, src of scatter */
    bool gathers, adds;
    double value;
} scattering;

static void scatter_one(void *context, int64_t self_at, int64_t index_at, const int64_t *at)
{
    scattering *s = context;
    double v = s->gathers        ? get(s->from, self_at)
               : s->from != NULL ? get_at(s->from, at)
                                 : s->value;

    if (s->gathers) {
        s->want[index_at] = v;
    } else {
        s->want[self_at] = s->adds ? s->want[self_at] + v : v;
    }
}

static void gather_and_scatter_go_element_by_element_along_each_dimension(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 2 * COUNT(real_dtypes); k++) {
        for (uint32_t dim = 0; dim < 3; dim++) {
            bool alike = k % 2 == 1 && dim < 2; /* places of whole rows, as expand gives them */
            exg_dtype d = real_dtypes[k / 2];
            exg_argument args[] = {arg_tensor(), arg_int((int64_t)dim - 3), arg_tensor(),
                                   arg_int(1)};
            int64_t n[3] = {4, 5, 6};
            exg_tensor self = make_random(d, 3, SIZES(6, 7, 8), 1, 3);
            exg_tensor src = make_random(d, 3, SIZES(9, 9, 9), 1, 3);
            exg_tensor index;
            kernel_case c = {.kernel = &exg_kernel_gather,
                             .args = args,
                             .arg_count = 4,
                             .input_count = 2,
                             .output_count = 1};
            scattering s = {.from = &self, .gathers = true};

            n[dim] = 9;
            index = make_indices(3, SIZES(n[0], n[1], alike ? 1 : n[2]), 0, self.sizes[dim]);
            index = alike ? expanded(index, 3, n) : index;
            c.inputs[0] = self;
            c.inputs[1] = index;
            c.outputs[0] = make_tensor(d, 3, n);
            s.want = values_of(&c.outputs[0]);
            for_each_indexed(&self, &index, dim, scatter_one, &s);
            expect_kernel(&c, 0, s.want, 0);
            free(s.want);

            c.outputs[0] = make_tensor(d, 3, self.sizes);
            for (int kind = 0; kind < 3; kind++) {
                static const exg_kernel *const kernels[] = {
                    &exg_kernel_scatter_src, &exg_kernel_scatter_value, &exg_kernel_scatter_add};

                if (kind == 2 && d == EXG_DTYPE_B8) {
                    continue;
                }
                c.kernel = kernels[kind];
                c.input_count = kind == 1 ? 2 : 3;
                c.inputs[2] = src;
                s = (scattering){.from = kind == 1 ? NULL : &src, .adds = kind == 2, .value = 1};
                s.want = values_of(&self);
                for_each_indexed(&self, &index, dim, scatter_one, &s);
                expect_kernel(&c, 0, s.want, kind == 2 ? 8 * tolerance_of(d, 9) : 0);
                free(s.want);
            }
            free_tensors();
        }
    }
}

/* ---- index, index_put --------------------------------------------------------------------- */

/* self (5, 6, 7) with indices on dimensions 0 and 1 (neighbours), 0 and 2 (not), or 1. */
typedef struct indexing {
    exg_tensor index[3]; /* absent: the whole dimension */
    uint32_t rank;       /* of the result */
    int64_t sizes[4];
    /* result dimension that walks dimension d of self, or, indexed, its positions */
    int walks[3];
    int positions[2]; /* result dimensions of the two position coordinates, -1: none */
} indexing;

static int64_t self_position(const indexing *x, const int64_t *at)
{
    static const int64_t n[3] = {5, 6, 7};
    int64_t position = 0;

    for (uint32_t d = 0; d < 3; d++) {
        int64_t i;

        if (exg_tensor_is_absent(&x->index[d])) {
            i = at[x->walks[d]];
        } else {
            int64_t p[2] = {0, 0};

            for (uint32_t k = 0; k < x->index[d].rank; k++) {
                uint32_t from = k + 2 - x->index[d].rank;

                p[k] = x->index[d].sizes[k] == 1 ? 0 : at[x->positions[from]];
            }
            i = (int64_t)get_at(&x->index[d], p);
            i = i < 0 ? i + n[d] : i;
        }
        position = position * n[d] + i;
    }
    return position;
}

static void check_indexing(exg_dtype dtype, const indexing *x)
{
    exg_argument args[] = {arg_tensor(), arg_none(), arg_tensor(), arg_bool(false)};
    exg_tensor self = make_random(dtype, 3, SIZES(5, 6, 7), 1, 3);
    exg_tensor values = make_random(dtype, x->rank, x->sizes, 1, 3);
    kernel_case c = {.kernel = &exg_kernel_index,
                     .args = args,
                     .arg_count = 2,
                     .input_count = 4,
                     .output_count = 1};
    double *want = values_of(&values);

    c.inputs[0] = self;
    memcpy(&c.inputs[1], x->index, sizeof(x->index));
    c.outputs[0] = make_tensor(dtype, x->rank, x->sizes);
    for (int pass = 0; pass < 3; pass++) {
        double *all = values_of(&self);

        for (int64_t i = 0; i < exg_tensor_numel(&values); i++) {
            int64_t at[4];
            int64_t rest = i;
            int64_t where;

            for (uint32_t d = x->rank; d-- > 0; rest /= x->sizes[d]) {
                at[d] = rest % x->sizes[d];
            }
            where = self_position(x, at);
            if (pass == 0) {
                want[i] = get(&self, where);
            } else {
                all[where] = get(&values, i) + (pass == 2 ? all[where] : 0);
            }
        }
        if (pass == 0) {
            expect_kernel(&c, 0, want, 0);
        } else if (pass == 1 || dtype != EXG_DTYPE_B8) {
            args[3] = arg_bool(pass == 2);
            expect_kernel(&c, 0, all, pass == 2 ? 8 * tolerance_of(dtype, 9) : 0);
        }
        free(all);
        c.kernel = &exg_kernel_index_put;
        c.arg_count = 4;
        c.input_count = 5;
        c.inputs[4] = values;
        c.outputs[0] = make_tensor(dtype, 3, self.sizes);
    }
    free(want);
}

/* Indices without repetition, so that the order of writing does not matter. */
static exg_tensor distinct(uint32_t rank, const int64_t *sizes, int64_t first)
{
    exg_tensor t = make_tensor(EXG_DTYPE_I64, rank, sizes);

    for (int64_t i = 0; i < exg_tensor_numel(&t); i++) {
        set(&t, i, (double)(first + i));
    }
    return t;
}

static void index_and_index_put_follow_the_rules_of_advanced_indexing(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < COUNT(real_dtypes); k++) {
        indexing neighbours = {
            .rank = 3, .sizes = {2, 3, 7}, .walks = {-1, -1, 2}, .positions = {0, 1}};
        indexing apart = {.rank = 2, .sizes = {3, 6}, .walks = {-1, 1, -1}, .positions = {-1, 0}};
        indexing middle = {
            .rank = 3, .sizes = {5, 4, 7}, .walks = {0, -1, 2}, .positions = {-1, 1}};

        neighbours.index[0] = distinct(2, SIZES(2, 1), -3);
        neighbours.index[1] = distinct(1, SIZES(3), 2);
        neighbours.index[2] = absent_tensor();
        apart.index[0] = distinct(1, SIZES(3), 1);
        apart.index[1] = absent_tensor();
        apart.index[2] = distinct(1, SIZES(3), -7);
        middle.index[0] = absent_tensor();
        middle.index[1] = distinct(1, SIZES(4), -5);
        middle.index[2] = absent_tensor();
        check_indexing(real_dtypes[k], &neighbours);
        check_indexing(real_dtypes[k], &apart);
        check_indexing(real_dtypes[k], &middle);
        free_tensors();
    }
}

/* Rows of few bytes are moved as words. */
static void index_takes_rows_of_any_width(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_none()};

    (void)state;
    for (uint32_t k = 0; k < COUNT(all_dtypes) * 9; k++) {
        int64_t width = k % 9 + 1;
        kernel_case c = {.kernel = &exg_kernel_index,
                         .args = args,
                         .arg_count = 2,
                         .input_count = 2,
                         .output_count = 1};
        double want[20 * 9];

        c.inputs[0] = make_random(all_dtypes[k / 9], 2, SIZES(15, width), -9, 9);
        c.inputs[1] = make_indices(1, SIZES(20), 0, 15);
        c.outputs[0] = make_tensor(all_dtypes[k / 9], 2, SIZES(20, width));
        for (int64_t i = 0; i < 20 * width; i++) {
            want[i] = get_at(&c.inputs[0], SIZES((int64_t)get(&c.inputs[1], i / width), i % width));
        }
        expect_kernel(&c, 0, want, 0);
        free_tensors();
    }
}

/* One element a position, some from the end; a bad index leaves its place zero alone. */
static void index_takes_single_elements(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < COUNT(all_dtypes); k++) {
        exg_argument args[] = {arg_tensor(), arg_tensor()};
        kernel_case c = {.kernel = &exg_kernel_index,
                         .args = args,
                         .arg_count = 2,
                         .input_count = 3,
                         .output_count = 1};
        double want[3 * 211];

        c.inputs[0] = make_random(all_dtypes[k], 2, SIZES(40, 50), -9, 9);
        c.inputs[1] = make_indices(2, SIZES(3, 211), -40, 40);
        c.inputs[2] = make_indices(2, SIZES(3, 211), -50, 50);
        c.inputs[2] = k % 2 == 0 ? c.inputs[2] : narrowed(c.inputs[2]);
        c.outputs[0] = make_tensor(all_dtypes[k], 2, SIZES(3, 211));
        for (int64_t i = 0; i < 3 * 211; i++) {
            const int64_t row = (int64_t)get(&c.inputs[1], i);
            const int64_t column = (int64_t)get(&c.inputs[2], i);

            want[i] = get_at(&c.inputs[0], SIZES((row + 40) % 40, (column + 50) % 50));
        }
        expect_kernel(&c, 0, want, 0);
        set(&c.inputs[1], 300, 40);
        set(&c.inputs[2], 600, -51);
        want[300] = want[600] = 0;
        c.fault = EXG_FAULT_INDEX;
        expect_kernel(&c, 0, want, 0);
        free_tensors();
    }
}

/* A row of a cache, as a decoder writes it: by its place, from the end, outside. */
static void one_row_goes_where_its_index_says(void **state)
{
    static const struct {
        double index;
        int row[2]; /* of index_copy, which counts from the start alone; of index_put. -1: none */
    } rows[] = {{0, {0, 0}},   {6, {6, 6}},   {-1, {-1, 6}},
                {-7, {-1, 0}}, {7, {-1, -1}}, {-8, {-1, -1}}};
    exg_argument copy[] = {arg_tensor(), arg_int(1), arg_tensor(), arg_tensor()};
    exg_argument put[] = {arg_tensor(), arg_none(), arg_tensor(), arg_bool(false)};

    (void)state;
    for (uint32_t k = 0; k < 2 * COUNT(rows) * COUNT(real_dtypes); k++) {
        exg_dtype dtype = real_dtypes[k / 2 % COUNT(real_dtypes)];
        uint32_t which = k / 2 / COUNT(real_dtypes);
        bool puts = k % 2 == 1;
        int row = rows[which].row[puts];
        kernel_case c = {.kernel = puts ? &exg_kernel_index_put : &exg_kernel_index_copy,
                         .args = puts ? put : copy,
                         .arg_count = 4,
                         .input_count = puts ? 4 : 3,
                         .output_count = 1,
                         .fault = row < 0 ? EXG_FAULT_INDEX : EXG_FAULT_NONE};
        exg_tensor index = make_tensor(EXG_DTYPE_I64, 1, SIZES(1));
        exg_tensor source = make_random(dtype, 3, SIZES(3, 1, 5), 1, 3);
        double *want;

        set(&index, 0, rows[which].index);
        c.inputs[0] = make_random(dtype, 3, SIZES(3, 7, 5), 1, 3);
        c.inputs[1] = puts ? absent_tensor() : which % 2 == 0 ? index : narrowed(index);
        c.inputs[2] = puts ? which % 2 == 0 ? index : narrowed(index) : source;
        c.inputs[3] = source;
        c.outputs[0] = make_tensor(dtype, 3, SIZES(3, 7, 5));
        want = values_of(&c.inputs[0]);
        for (int i = 0; i < 15 && row >= 0; i++) {
            want[(i / 5 * 7 + row) * 5 + i % 5] = get(&source, i);
        }
        expect_kernel(&c, 0, want, 0);
        free(want);
        free_tensors();
    }
}

static void index_put_accumulates_equal_indices(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_none(), arg_tensor(), arg_bool(true)};
    kernel_case c = {.kernel = &exg_kernel_index_put,
                     .args = args,
                     .arg_count = 4,
                     .input_count = 3,
                     .output_count = 1};
    const double want[] = {0, 300, 0};

    (void)state;
    c.inputs[0] = make_tensor(EXG_DTYPE_F32, 1, SIZES(3));
    c.inputs[1] = make_tensor(EXG_DTYPE_I64, 1, SIZES(100));
    for (int64_t i = 0; i < 100; i++) {
        set(&c.inputs[1], i, i % 2 == 0 ? 1 : -2);
    }
    c.inputs[2] = make_tensor(EXG_DTYPE_F32, 0, NULL); /* broadcast */
    set(&c.inputs[2], 0, 3);
    c.outputs[0] = make_tensor(EXG_DTYPE_F32, 1, SIZES(3));
    expect_kernel(&c, 0, want, 0);
    free_tensors();
}

/* ---- searchsorted ------------------------------------------------------------------------- */

/* How many of `size` edges from `first` on lie before x: each is asked. */
static double edges_before(const exg_tensor *edges, int64_t first, int64_t size, double x,
                           bool right)
{
    double before = 0;

    for (int64_t i = first; i < first + size; i++) {
        before += right ? get(edges, i) <= x : get(edges, i) < x;
    }
    return before;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Lines of `size` sorted numbers, many of them equal. */
static exg_tensor make_edges(exg_dtype dtype, uint32_t rank, const int64_t *sizes)
{
    exg_tensor edges = make_random(dtype, rank, sizes, -40, 40);
    int64_t size = sizes[rank - 1];
    double *values = values_of(&edges);

    for (int64_t i = 0; i < exg_tensor_numel(&edges); i++) {
        values[i] = (double)(int64_t)values[i];
    }
    for (int64_t line = 0; size > 0 && line < exg_tensor_numel(&edges) / size; line++) {
        qsort(values + line * size, (size_t)size, sizeof(*values), ascending);
    }
    for (int64_t i = 0; i < exg_tensor_numel(&edges); i++) {
        set(&edges, i, values[i]);
    }
    free(values);
    return edges;
}

/* Values (2, 3, 700) among edges (size), or (2, 3, size) of their own. */
static void search(exg_dtype dtype, int64_t size, bool own, bool right)
{
    exg_argument args[] = {arg_tensor(), arg_tensor(), arg_bool(right),
                           arg_dtype(own ? EXG_DTYPE_I32 : EXG_DTYPE_I64)};
    kernel_case c = {.kernel = &exg_kernel_searchsorted,
                     .args = args,
                     .arg_count = 4,
                     .input_count = 2,
                     .output_count = 1};
    double *want = calloc(4200, sizeof(*want));

    c.inputs[0] = own ? make_edges(dtype, 3, SIZES(2, 3, size)) : make_edges(dtype, 1, &size);
    c.inputs[1] = make_random(dtype, 3, SIZES(2, 3, 700), -45, 45);
    c.outputs[0] = make_tensor(own ? EXG_DTYPE_I32 : EXG_DTYPE_I64, 3, SIZES(2, 3, 700));
    assert_non_null(want);
    for (int64_t i = 0; i < 4200; i++) {
        if (i % 3 == 0) { /* no few equal an edge */
            set(&c.inputs[1], i, (double)(i % 81 - 40));
        }
        want[i] =
            edges_before(&c.inputs[0], own ? i / 700 * size : 0, size, get(&c.inputs[1], i), right);
    }
    expect_kernel(&c, 0, want, 0);
    free(want);
    free_tensors();
}

static void searchsorted_counts_the_edges_before_each_value(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_F32, EXG_DTYPE_F64, EXG_DTYPE_I32, EXG_DTYPE_I64};
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 64, 1001};

    (void)state;
    for (uint32_t k = 0; k < COUNT(dtypes) * COUNT(sizes) * 4; k++) {
        search(dtypes[k / 4 % COUNT(dtypes)], sizes[k / 4 / COUNT(dtypes)], k % 2 == 1, k % 4 > 1);
    }
}

/* What PyTorch 2.13 answers. */
static void searchsorted_among_what_is_no_number_and_in_no_order_is_as_pytorchs(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_tensor(), arg_bool(false), arg_dtype(EXG_DTYPE_I64)};
    kernel_case c = {.kernel = &exg_kernel_searchsorted,
                     .args = args,
                     .arg_count = 4,
                     .input_count = 2,
                     .output_count = 1};
    const double values[] = {(double)NAN, 0, 1, 2.5, 3, 9};
    const double edges[] = {1, 2, 3, (double)NAN, (double)NAN};
    const double unsorted[] = {3, 1, 2};
    const double left[] = {5, 0, 0, 2, 2, 5};
    const double right[] = {5, 0, 1, 2, 5, 5};
    const double right_of_unsorted[] = {3, 0, 2, 3, 3, 3};

    (void)state;
    c.inputs[0] = make_tensor(EXG_DTYPE_F32, 1, SIZES(5));
    c.inputs[1] = make_tensor(EXG_DTYPE_F32, 1, SIZES(6));
    c.outputs[0] = make_tensor(EXG_DTYPE_I64, 1, SIZES(6));
    for (int64_t i = 0; i < 6; i++) {
        set(&c.inputs[1], i, values[i]);
    }
    for (int64_t i = 0; i < 5; i++) {
        set(&c.inputs[0], i, edges[i]);
    }
    expect_kernel(&c, 0, left, 0);
    args[2] = arg_bool(true);
    expect_kernel(&c, 0, right, 0);
    c.inputs[0] = make_tensor(EXG_DTYPE_F32, 1, SIZES(3));
    for (int64_t i = 0; i < 3; i++) {
        set(&c.inputs[0], i, unsorted[i]);
    }
    expect_kernel(&c, 0, right_of_unsorted, 0);
    free_tensors();
}

static void checked_passes_what_it_is_given_and_raises_unless_all_holds(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_tensor(), arg_none()};
    kernel_case c = {.kernel = &exg_kernel_checked,
                     .args = args,
                     .arg_count = 3,
                     .input_count = 2,
                     .output_count = 1};

    (void)state;
    for (uint32_t k = 0; k < COUNT(all_dtypes) * 2; k++) {
        double *want;

        c.inputs[0] = make_random(all_dtypes[k / 2], 2, SIZES(3, 50), -9, 9);
        c.inputs[1] = make_tensor(EXG_DTYPE_B8, 1, SIZES(3));
        c.outputs[0] = make_tensor(all_dtypes[k / 2], 2, SIZES(3, 50));
        c.fault = k % 2 == 0 ? EXG_FAULT_NONE : EXG_FAULT_PARAMETER;
        for (int64_t i = 0; i < 3; i++) {
            set(&c.inputs[1], i, k % 2 == 0 || i != 2);
        }
        want = values_of(&c.inputs[0]);
        expect_kernel(&c, 0, want, 0);
        free(want);
        free_tensors();
    }
}

static void places_are_those_of_a_mask_in_order_and_as_many_as_were_counted(void **state)
{
    static const int64_t shapes[][3] = {{1, 1, 1}, {3, 5, 7}, {2, 0, 3}, {9, 30, 11}};
    kernel_case c = {.kernel = &exg_kernel_places, .input_count = 1, .output_count = 1};

    (void)state;
    for (uint32_t s = 0; s < COUNT(shapes); s++) {
        exg_tensor mask = make_tensor(EXG_DTYPE_B8, 3, shapes[s]);
        int64_t numel = exg_tensor_numel(&mask);
        double *want = calloc((size_t)numel * 3 + 1, sizeof(double));
        int64_t count = 0;

        assert_non_null(want);
        for (int64_t i = 0; i < numel; i++) {
            bool is_set = i * 7 % 5 < 2;

            set(&mask, i, is_set);
            if (is_set) {
                want[3 * count] = (double)(i / (shapes[s][1] * shapes[s][2]));
                want[3 * count + 1] = (double)(i / shapes[s][2] % shapes[s][1]);
                want[3 * count + 2] = (double)(i % shapes[s][2]);
                count++;
            }
        }
        c.inputs[0] = mask;
        c.outputs[0] = make_tensor(EXG_DTYPE_I64, 2, SIZES(count, 3));
        c.fault = EXG_FAULT_NONE;
        expect_kernel(&c, 0, want, 0);
        memset(want, 0, ((size_t)numel * 3 + 1) * sizeof(double));
        c.outputs[0] = make_tensor(EXG_DTYPE_I64, 2, SIZES(count + 1, 3));
        c.fault = EXG_FAULT_INDEX;
        if (numel >= count + 1) {
            expect_kernel(&c, 0, want, 0);
        }
        free(want);
        free_tensors();
    }
}

/* Bags in their order or not, some places in none of them; more bags than have any. */
static void rows_are_added_up_in_bags(void **state)
{
    static const int64_t sizes[][3] = {{3, 5, 1}, {40, 9, 33}, {2500, 300, 64}, {9, 4, 1500}};

    (void)state;
    for (uint32_t d = 0; d < COUNT(float_dtypes); d++) {
        for (uint32_t s = 0; s < 4 * COUNT(sizes); s++) {
            const int64_t count = sizes[s / 4][0], bags = sizes[s / 4][1], width = sizes[s / 4][2];
            const bool is_sorted = s % 2 == 0, is_scaled = s / 2 % 2 == 1;
            const exg_dtype wide = float_dtypes[d] == EXG_DTYPE_F64 ? EXG_DTYPE_F64 : EXG_DTYPE_F32;
            exg_argument args[] = {arg_tensor(), arg_tensor(), arg_tensor(),
                                   is_scaled ? arg_tensor() : arg_none(), arg_int(bags)};
            kernel_case c = {.kernel = &exg_kernel_add_rows,
                             .args = args,
                             .arg_count = 5,
                             .input_count = 4,
                             .output_count = 1};
            exg_tensor into = make_indices(1, SIZES(count), 0, bags + 2);
            double *want = calloc((size_t)(bags * width), sizeof(double));

            for (int64_t i = 0; i < count && is_sorted; i++) {
                set(&into, i, (double)(i * bags / count + (i == count - 1 ? 1 : 0)));
            }
            c.inputs[0] = make_random(float_dtypes[d], 2, SIZES(50, width), -1, 1);
            c.inputs[1] = make_indices(1, SIZES(count), 0, 50);
            c.inputs[2] = s % 3 == 0 ? narrowed(into) : into;
            c.inputs[3] = is_scaled ? make_random(wide, 1, SIZES(count), -1, 1) : absent_tensor();
            for (int64_t i = 0; i < count * width; i++) {
                const int64_t bag = (int64_t)get(&into, i / width);
                const int64_t row = (int64_t)get(&c.inputs[1], i / width);

                if (bag < bags) {
                    want[bag * width + i % width] += get_at(&c.inputs[0], SIZES(row, i % width)) *
                                                     (is_scaled ? get(&c.inputs[3], i / width) : 1);
                }
            }
            c.outputs[0] = make_tensor(wide, 2, SIZES(bags, width));
            expect_kernel(&c, 0, want, tolerance_of(wide, 40));
            free(want);
            free_tensors();
        }
    }
}

static void a_row_outside_the_table_raises(void **state)
{
    exg_argument args[] = {arg_tensor(), arg_tensor(), arg_tensor(), arg_none(), arg_int(2)};
    kernel_case c = {.kernel = &exg_kernel_add_rows,
                     .args = args,
                     .arg_count = 5,
                     .input_count = 4,
                     .output_count = 1,
                     .fault = EXG_FAULT_INDEX};

    (void)state;
    for (int64_t bad = -1; bad < 6; bad += 6) {
        c.inputs[0] = make_random(EXG_DTYPE_F32, 2, SIZES(5, 3), -1, 1);
        c.inputs[1] = make_tensor(EXG_DTYPE_I64, 1, SIZES(4));
        set(&c.inputs[1], 2, (double)bad);
        c.inputs[2] = make_tensor(EXG_DTYPE_I64, 1, SIZES(4));
        c.inputs[3] = absent_tensor();
        c.outputs[0] = make_tensor(EXG_DTYPE_F32, 2, SIZES(2, 3));
        run_everywhere(&c);
        free_tensors();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding_and_index_select_pick_whole_rows),
        cmocka_unit_test(an_index_outside_raises_and_reads_zero),
        cmocka_unit_test(index_copy_writes_rows_the_last_of_equal_ones_wins),
        cmocka_unit_test(gather_and_scatter_go_element_by_element_along_each_dimension),
        cmocka_unit_test(index_and_index_put_follow_the_rules_of_advanced_indexing),
        cmocka_unit_test(index_takes_rows_of_any_width),
        cmocka_unit_test(index_takes_single_elements),
        cmocka_unit_test(one_row_goes_where_its_index_says),
        cmocka_unit_test(index_put_accumulates_equal_indices),
        cmocka_unit_test(rows_are_added_up_in_bags),
        cmocka_unit_test(a_row_outside_the_table_raises),
        cmocka_unit_test(places_are_those_of_a_mask_in_order_and_as_many_as_were_counted),
        cmocka_unit_test(checked_passes_what_it_is_given_and_raises_unless_all_holds),
        cmocka_unit_test(searchsorted_counts_the_edges_before_each_value),
        cmocka_unit_test(searchsorted_among_what_is_no_number_and_in_no_order_is_as_pytorchs),
    };

    return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
