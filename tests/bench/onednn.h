/* onednn.h - oneDNN on the same operands: what the kernel benchmark compares with. */
#ifndef EXG_TESTS_BENCH_ONEDNN_H
#define EXG_TESTS_BENCH_ONEDNN_H

#include "libexport/base/arena.h"

#include <oneapi/dnnl/dnnl.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void check(dnnl_status_t status)
{
    if (status != dnnl_success) {
        fprintf(stderr, "bench: oneDNN refuses\n");
        exit(1);
    }
}

typedef struct dnnl_call {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[4];
    int count;
    dnnl_primitive_t reorders[2]; /* before and after; NULL: none */
    dnnl_exec_arg_t reorder_args[2][2];
} dnnl_call;

static void run_dnnl(void *context)
{
    dnnl_call *c = context;

    if (c->reorders[0] != NULL) {
        check(dnnl_primitive_execute(c->reorders[0], stream, 2, c->reorder_args[0]));
    }
    check(dnnl_primitive_execute(c->primitive, stream, c->count, c->args));
    if (c->reorders[1] != NULL) {
        check(dnnl_primitive_execute(c->reorders[1], stream, 2, c->reorder_args[1]));
    }
    dnnl_stream_wait(stream);
}

static dnnl_memory_t memory_of(const dnnl_memory_desc_t *md, void *data)
{
    dnnl_memory_t m;

    check(dnnl_memory_create(&m, md, engine, data));
    return m;
}

/* c, of `sums`, = a times b, both of `type`; with `packs`, b lies as oneDNN likes it. */
static dnnl_call peer_product(int64_t m, int64_t n, int64_t k, dnnl_data_type_t type,
                              dnnl_data_type_t sums, void *a, void *b, bool b_is_rows, bool packs,
                              void *c)
{
    dnnl_memory_desc_t ma;
    dnnl_memory_desc_t mb;
    dnnl_memory_desc_t mc;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;
    dnnl_call call = {.count = 3};

    check(dnnl_memory_desc_init_by_strides(&ma, 2, (dnnl_dims_t){m, k}, type, (dnnl_dims_t){k, 1}));
    if (packs) {
        check(dnnl_memory_desc_init_by_tag(&mb, 2, (dnnl_dims_t){k, n}, type, dnnl_format_tag_any));
    } else {
        check(dnnl_memory_desc_init_by_strides(&mb, 2, (dnnl_dims_t){k, n}, type,
                                               b_is_rows ? (dnnl_dims_t){n, 1}
                                                         : (dnnl_dims_t){1, k}));
    }
    check(dnnl_memory_desc_init_by_strides(&mc, 2, (dnnl_dims_t){m, n}, sums, (dnnl_dims_t){n, 1}));
    check(dnnl_matmul_desc_init(&desc, &ma, &mb, NULL, &mc));
    check(dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL));
    check(dnnl_primitive_create(&call.primitive, pd));
    call.args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, memory_of(&ma, a)};
    if (packs) {
        mb = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
        b = exg_allocate(NULL, dnnl_memory_desc_get_size(&mb));
        memset(b, 0, dnnl_memory_desc_get_size(&mb));
    }
    call.args[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, memory_of(&mb, b)};
    call.args[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, memory_of(&mc, c)};
    return call;
}

static void add_reorder(dnnl_call *call, int which, const int64_t *sizes, dnnl_memory_t blocked)
{
    dnnl_memory_desc_t plain;
    const dnnl_memory_desc_t *md;
    dnnl_primitive_desc_t pd;
    void *data;
    dnnl_memory_t memory;

    check(dnnl_memory_desc_init_by_tag(&plain, 4, sizes, dnnl_f32, dnnl_nchw));
    check(dnnl_memory_get_memory_desc(blocked, &md));
    if (dnnl_memory_desc_equal(&plain, md)) {
        return;
    }
    data = exg_allocate(NULL, dnnl_memory_desc_get_size(&plain));
    memset(data, 0, dnnl_memory_desc_get_size(&plain));
    memory = memory_of(&plain, data);
    check(which == 0 ? dnnl_reorder_primitive_desc_create(&pd, &plain, engine, md, engine, NULL)
                     : dnnl_reorder_primitive_desc_create(&pd, md, engine, &plain, engine, NULL));
    check(dnnl_primitive_create(&call->reorders[which], pd));
    call->reorder_args[which][0] = (dnnl_exec_arg_t){DNNL_ARG_FROM, which == 0 ? memory : blocked};
    call->reorder_args[which][1] = (dnnl_exec_arg_t){DNNL_ARG_TO, which == 0 ? blocked : memory};
}

/* Layouts as oneDNN likes them; activations are brought there and back, the weights
 * lie there already. */
static dnnl_call peer_convolution(const int64_t *x, const int64_t *w, const int64_t *y, int64_t s,
                                  int64_t p)
{
    dnnl_memory_desc_t mx;
    dnnl_memory_desc_t mw;
    dnnl_memory_desc_t my;
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t pd;
    dnnl_call call = {.count = 3};
    const dnnl_query_t queries[] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md};
    const int args[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};

    check(dnnl_memory_desc_init_by_tag(&mx, 4, x, dnnl_f32, dnnl_format_tag_any));
    check(dnnl_memory_desc_init_by_tag(&mw, 4, w, dnnl_f32, dnnl_format_tag_any));
    check(dnnl_memory_desc_init_by_tag(&my, 4, y, dnnl_f32, dnnl_format_tag_any));
    check(dnnl_convolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_convolution_direct,
                                             &mx, &mw, NULL, &my, (dnnl_dims_t){s, s},
                                             (dnnl_dims_t){p, p}, (dnnl_dims_t){p, p}));
    check(dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL));
    check(dnnl_primitive_create(&call.primitive, pd));
    for (int i = 0; i < 3; i++) {
        const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, queries[i], 0);
        size_t bytes = dnnl_memory_desc_get_size(md);
        void *data = exg_allocate(NULL, bytes);

        memset(data, 0, bytes);
        call.args[i] = (dnnl_exec_arg_t){args[i], memory_of(md, data)};
    }
    add_reorder(&call, 0, x, call.args[0].memory);
    add_reorder(&call, 1, y, call.args[2].memory);
    return call;
}

static dnnl_call peer_softmax(int64_t rows, int64_t size, void *x, void *y)
{
    dnnl_memory_desc_t md;
    dnnl_softmax_desc_t desc;
    dnnl_primitive_desc_t pd;
    dnnl_call call = {.count = 2};

    check(dnnl_memory_desc_init_by_tag(&md, 2, (dnnl_dims_t){rows, size}, dnnl_f32, dnnl_ab));
    check(dnnl_softmax_forward_desc_init(&desc, dnnl_forward_inference, &md, 1));
    check(dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL));
    check(dnnl_primitive_create(&call.primitive, pd));
    call.args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, memory_of(&md, x)};
    call.args[1] = (dnnl_exec_arg_t){DNNL_ARG_DST, memory_of(&md, y)};
    return call;
}

#endif
