/* recurrent.c - lowerings of recurrent.def. The input's products of all steps are one; the
 * steps are one operator, but in narrow dtypes and with projections, where they are written
 * out one after the other. */
#include "libexport/operators/lower.h"

#define EXG_ROWS "libexport/operators/recurrent.def"
#include "libexport/operators/rows.h"

#define GATES_LSTM 4
#define GATES_GRU  3

typedef enum cell { CELL_TANH, CELL_RELU, CELL_LSTM, CELL_GRU } cell;

typedef struct weights {
    exg_ref input, state;           /* (gates hidden, in), (gates hidden, hidden) */
    exg_ref input_bias, state_bias; /* or EXG_NO_REF */
    exg_ref projection;             /* of an LSTM with proj_size, or EXG_NO_REF */
} weights;

static exg_argument optional(exg_ref x)
{
    return x.id == EXG_NO_VALUE ? exg_arg_none() : exg_arg_ref(x);
}

static exg_ref gate(exg_builder *b, exg_ref gates, uint32_t index, int64_t hidden)
{
    return exg_lower_slice(b, gates, 1, (int64_t)index * hidden, hidden);
}

/* in, forget, cell, out; `c` is replaced. */
static exg_ref lstm_step(exg_builder *b, exg_ref gates, int64_t hidden, exg_ref *c)
{
    exg_ref in = EMIT(b, sigmoid_default, gate(b, gates, 0, hidden));
    exg_ref forget = EMIT(b, sigmoid_default, gate(b, gates, 1, hidden));
    exg_ref fresh = EMIT(b, tanh_default, gate(b, gates, 2, hidden));
    exg_ref out = EMIT(b, sigmoid_default, gate(b, gates, 3, hidden));

    *c = EMIT(b, add_Tensor, EMIT(b, mul_Tensor, forget, *c), EMIT(b, mul_Tensor, in, fresh));
    return EMIT(b, mul_Tensor, out, EMIT(b, tanh_default, *c));
}

/* reset, update, new; the state's part of "new" is reset, its bias too. */
static exg_ref gru_step(exg_builder *b, exg_ref from_input, exg_ref from_state, int64_t hidden,
                        exg_ref h)
{
    exg_ref reset =
        EMIT(b, sigmoid_default,
             EMIT(b, add_Tensor, gate(b, from_input, 0, hidden), gate(b, from_state, 0, hidden)));
    exg_ref update =
        EMIT(b, sigmoid_default,
             EMIT(b, add_Tensor, gate(b, from_input, 1, hidden), gate(b, from_state, 1, hidden)));
    exg_ref fresh = EMIT(b, tanh_default,
                         EMIT(b, add_Tensor, gate(b, from_input, 2, hidden),
                              EMIT(b, mul_Tensor, reset, gate(b, from_state, 2, hidden))));

    return EMIT(b, add_Tensor, fresh, EMIT(b, mul_Tensor, update, EMIT(b, sub_Tensor, h, fresh)));
}

static exg_ref step(exg_builder *b, cell kind, const weights *w, exg_ref from_input, int64_t hidden,
                    exg_ref h, exg_ref *c)
{
    exg_ref from_state = EMIT(b, linear_default, h, w->state, optional(w->state_bias));

    if (kind == CELL_GRU) {
        return gru_step(b, from_input, from_state, hidden, h);
    }
    from_state = EMIT(b, add_Tensor, from_input, from_state);
    if (kind == CELL_LSTM) {
        h = lstm_step(b, from_state, hidden, c);
        return w->projection.id == EXG_NO_VALUE
                   ? h
                   : EMIT(b, linear_default, h, w->projection, exg_arg_none());
    }
    return kind == CELL_TANH ? EMIT(b, tanh_default, from_state)
                             : EMIT(b, relu_default, from_state);
}

/* The output of all steps, the state after the last one, and an LSTM's cell. */
exg_status exg_shape_recurrent(exg_shape_call *call, exg_error *err)
{
    const exg_tensor_meta *x = exg_shape_input(call, 0);
    const exg_tensor_meta *weight = exg_shape_input(call, 1);
    const exg_tensor_meta *states[2] = {exg_shape_input(call, 3), exg_shape_input(call, 4)};
    int64_t gates = exg_get_int(&call->args[5]) == CELL_LSTM  ? GATES_LSTM
                    : exg_get_int(&call->args[5]) == CELL_GRU ? GATES_GRU
                                                              : 1;
    exg_dims out;
    exg_dims state;

    EXG_TRY(exg_dims_of(x, &out, err));
    if (x->rank != 3 || weight->rank != 2 || weight->dtype != x->dtype ||
        x->sizes[2].value != weight->sizes[0].value ||
        weight->sizes[0].value != gates * weight->sizes[1].value ||
        (exg_get_int(&call->args[5]) == CELL_LSTM) != (states[1] != NULL)) {
        return EXG_SHAPE_FAIL(err, "a recurrent layer whose weights do not fit");
    }
    out.n[2] = weight->sizes[1].value;
    state = (exg_dims){.rank = 2, .n = {out.n[1], out.n[2]}};
    for (uint32_t i = 0; i < 2; i++) {
        if (states[i] != NULL &&
            (states[i]->rank != 2 || states[i]->dtype != x->dtype ||
             states[i]->sizes[0].value != state.n[0] || states[i]->sizes[1].value != state.n[1])) {
            return EXG_SHAPE_FAIL(err, "a recurrent layer whose state does not fit");
        }
    }
    if (exg_shape_input(call, 2) != NULL &&
        (exg_shape_input(call, 2)->rank != 1 || exg_shape_input(call, 2)->dtype != x->dtype ||
         exg_shape_input(call, 2)->sizes[0].value != weight->sizes[0].value)) {
        return EXG_SHAPE_FAIL(err, "a recurrent layer whose bias does not fit");
    }
    EXG_TRY(exg_shape_result(call, 0, x->dtype, &out, err));
    EXG_TRY(exg_shape_result(call, 1, x->dtype, &state, err));
    return exg_shape_result(call, 2, x->dtype, &state, err);
}

/* All steps as one operator. */
static exg_ref all_steps(exg_builder *b, cell kind, const weights *w, exg_ref from_input,
                         bool backward, exg_ref *h, exg_ref *c)
{
    exg_argument made[3] = {exg_arg_none(), exg_arg_none(), exg_arg_none()};

    (void)EMIT_ALL(b, recurrent, made, from_input, w->state, optional(w->state_bias), *h,
                   kind == CELL_LSTM ? exg_arg_ref(*c) : exg_arg_none(), (int)kind, backward);
    *h = exg_get_ref(&made[1]);
    *c = kind == CELL_LSTM ? exg_get_ref(&made[2]) : *c;
    return exg_get_ref(&made[0]);
}

/* x (T, N, in) -> (T, N, out); h and c become those after the last step. */
static exg_ref direction(exg_builder *b, cell kind, const weights *w, exg_ref x, bool backward,
                         exg_ref *h, exg_ref *c)
{
    int64_t steps = exg_lower_dims(b, x).n[0];
    int64_t gates = kind == CELL_LSTM ? GATES_LSTM : kind == CELL_GRU ? GATES_GRU : 1;
    int64_t hidden = exg_lower_dims(b, w->state).n[0] / gates;
    exg_ref from_input = EMIT(b, linear_default, x, w->input, optional(w->input_bias));
    exg_dtype dtype = exg_lower_dtype(b, from_input);
    exg_ref *out;

    if (w->projection.id == EXG_NO_VALUE && (dtype == EXG_DTYPE_F32 || dtype == EXG_DTYPE_F64)) {
        return all_steps(b, kind, w, from_input, backward, h, c);
    }
    out = exg_lower_new_refs(b, steps);
    for (int64_t i = 0; out != NULL && i < steps; i++) {
        int64_t t = backward ? steps - 1 - i : i;
        exg_ref now = EMIT(b, select_int, from_input, 0, exg_arg_int(t));

        *h = step(b, kind, w, now, hidden, *h, c);
        out[t] = EMIT(b, unsqueeze_default, *h, 0);
    }
    return out == NULL ? x : EMIT(b, cat_default, exg_arg_refs(b, out, (uint32_t)steps), 0);
}

typedef struct shape {
    bool has_biases, bidirectional, batch_first;
    int64_t layers;
    double dropout; /* between layers */
} shape;

/* Parameters of one direction of one layer, in torch's order. */
static weights weights_at(const exg_argument *params, const shape *s, uint32_t per, uint32_t index)
{
    uint32_t at = index * per;
    weights w = {exg_lower_item(params, at), exg_lower_item(params, at + 1), EXG_NO_REF, EXG_NO_REF,
                 EXG_NO_REF};

    if (s->has_biases) {
        w.input_bias = exg_lower_item(params, at + 2);
        w.state_bias = exg_lower_item(params, at + 3);
    }
    if (per == (s->has_biases ? 5u : 3u)) {
        w.projection = exg_lower_item(params, at + per - 1);
    }
    return w;
}

/* results: output, h of all layers, and with an LSTM c of all layers. */
static void recurrent(exg_builder *b, cell kind, exg_ref x, exg_ref h0, exg_ref c0,
                      const exg_argument *params, const shape *s, exg_argument *results)
{
    uint32_t directions = s->bidirectional ? 2 : 1;
    uint32_t parts = (uint32_t)s->layers * directions;
    uint32_t per = parts == 0 ? 0 : params->count / parts;
    bool flat = exg_lower_dims(b, x).rank == 2; /* no batch */
    exg_ref *h = exg_lower_new_refs(b, parts);
    exg_ref *c = exg_lower_new_refs(b, parts);

    if (h == NULL || c == NULL || parts == 0 || per < 2 || per * parts != params->count) {
        exg_lower_refuse(b, "a recurrent network's parameters do not fit its layers");
        return;
    }
    if (flat) {
        x = EMIT(b, unsqueeze_default, x, 1);
        h0 = EMIT(b, unsqueeze_default, h0, 1);
        c0 = kind == CELL_LSTM ? EMIT(b, unsqueeze_default, c0, 1) : c0;
    } else if (s->batch_first) {
        x = exg_lower_swapped(b, x, 0, 1);
    }
    for (uint32_t layer = 0; layer < (uint32_t)s->layers; layer++) {
        exg_ref sides[2] = {EXG_NO_REF, EXG_NO_REF};

        for (uint32_t d = 0; d < directions; d++) {
            uint32_t k = layer * directions + d;
            weights w = weights_at(params, s, per, k);

            h[k] = EMIT(b, select_int, h0, 0, (int)k);
            c[k] = kind == CELL_LSTM ? EMIT(b, select_int, c0, 0, (int)k) : EXG_NO_REF;
            sides[d] = direction(b, kind, &w, x, d == 1, &h[k], &c[k]);
        }
        x = directions == 1 ? sides[0] : EMIT(b, cat_default, exg_arg_refs(b, sides, 2), 2);
        if (s->dropout > 0 && layer + 1 < (uint32_t)s->layers) {
            x = EMIT(b, dropout_default, x, s->dropout, true);
        }
    }
    x = flat             ? EMIT(b, squeeze_dims, x, INTS(b, 1))
        : s->batch_first ? exg_lower_swapped(b, x, 0, 1)
                         : x;
    results[0] = exg_arg_ref(x);
    for (uint32_t r = 1; r < (kind == CELL_LSTM ? 3u : 2u); r++) {
        exg_ref all = EMIT(b, stack_default, exg_arg_refs(b, r == 1 ? h : c, parts), 0);

        results[r] = exg_arg_ref(flat ? EMIT(b, squeeze_dims, all, INTS(b, 1)) : all);
    }
}

/* (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) */
static shape shape_of(const exg_argument *args)
{
    return (shape){.dropout = exg_get_bool(&args[6]) ? exg_get_float(&args[5]) : 0,
                   .has_biases = exg_get_bool(&args[3]),
                   .layers = exg_get_int(&args[4]),
                   .bidirectional = exg_get_bool(&args[7]),
                   .batch_first = exg_get_bool(&args[8])};
}

void exg_lower_lstm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    shape s = shape_of(args);

    if (args[1].count != 2) {
        exg_lower_refuse(b, "an lstm has two states");
        return;
    }
    recurrent(b, CELL_LSTM, exg_get_ref(&args[0]), exg_lower_item(&args[1], 0),
              exg_lower_item(&args[1], 1), &args[2], &s, results);
}

static void plain(exg_builder *b, cell kind, const exg_argument *args, exg_argument *results)
{
    shape s = shape_of(args);

    recurrent(b, kind, exg_get_ref(&args[0]), exg_get_ref(&args[1]), EXG_NO_REF, &args[2], &s,
              results);
}

void exg_lower_gru(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    plain(b, CELL_GRU, args, results);
}

void exg_lower_rnn_tanh(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    plain(b, CELL_TANH, args, results);
}

void exg_lower_rnn_relu(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    plain(b, CELL_RELU, args, results);
}

/* (input, hx, w_ih, w_hh, b_ih?, b_hh?): one step */
static void one_cell(exg_builder *b, cell kind, const exg_argument *args, exg_ref h, exg_ref c,
                     exg_argument *results)
{
    weights w = {exg_get_ref(&args[2]), exg_get_ref(&args[3]), exg_get_ref(&args[4]),
                 exg_get_ref(&args[5]), EXG_NO_REF};
    int64_t gates = kind == CELL_LSTM ? GATES_LSTM : kind == CELL_GRU ? GATES_GRU : 1;
    int64_t hidden = exg_lower_dims(b, w.state).n[0] / gates;
    exg_ref now = EMIT(b, linear_default, exg_get_ref(&args[0]), w.input, optional(w.input_bias));

    results[0] = exg_arg_ref(step(b, kind, &w, now, hidden, h, &c));
    if (kind == CELL_LSTM) {
        results[1] = exg_arg_ref(c);
    }
}

void exg_lower_lstm_cell(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    if (args[1].count != 2) {
        exg_lower_refuse(b, "an lstm has two states");
        return;
    }
    one_cell(b, CELL_LSTM, args, exg_lower_item(&args[1], 0), exg_lower_item(&args[1], 1), results);
}

/* What the gates get from input and state, with the bias each may have. */
static exg_ref with_bias(exg_builder *b, const exg_argument *gates, const exg_argument *bias)
{
    return exg_lower_given(bias) ? EMIT(b, add_Tensor, *gates, *bias) : exg_get_ref(gates);
}

/* (input_gates, hidden_gates, cx, input_bias?, hidden_bias?) -> h, c, the gates for the way back */
void exg_lower_fused_lstm_cell(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref gates =
        EMIT(b, add_Tensor, with_bias(b, &args[0], &args[3]), with_bias(b, &args[1], &args[4]));
    exg_ref c = exg_get_ref(&args[2]);
    int64_t hidden = exg_lower_dims(b, c).n[1];
    exg_ref open[GATES_LSTM];

    results[0] = exg_arg_ref(lstm_step(b, gates, hidden, &c));
    results[1] = exg_arg_ref(c);
    for (uint32_t i = 0; i < GATES_LSTM; i++) {
        exg_ref x = gate(b, gates, i, hidden);

        open[i] = i == 2 ? EMIT(b, tanh_default, x) : EMIT(b, sigmoid_default, x);
    }
    results[2] = exg_arg_ref(EMIT(b, cat_default, exg_arg_refs(b, open, GATES_LSTM), 1));
}

/* (input_gates, hidden_gates, hx, input_bias?, hidden_bias?) -> h, and for the way back reset,
 * update, new, the state, and its part of new */
void exg_lower_fused_gru_cell(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref from_input = with_bias(b, &args[0], &args[3]);
    exg_ref from_state = with_bias(b, &args[1], &args[4]);
    exg_ref h = exg_get_ref(&args[2]);
    int64_t hidden = exg_lower_dims(b, h).n[1];
    exg_ref kept[5];

    results[0] = exg_arg_ref(gru_step(b, from_input, from_state, hidden, h));
    for (uint32_t i = 0; i < 2; i++) {
        kept[i] =
            EMIT(b, add_Tensor, gate(b, from_input, i, hidden), gate(b, from_state, i, hidden));
        kept[i] = EMIT(b, sigmoid_default, kept[i]);
    }
    kept[3] = h;
    kept[4] = gate(b, from_state, 2, hidden);
    kept[2] =
        EMIT(b, add_Tensor, gate(b, from_input, 2, hidden), EMIT(b, mul_Tensor, kept[0], kept[4]));
    kept[2] = EMIT(b, tanh_default, kept[2]);
    results[1] = exg_arg_ref(EMIT(b, cat_default, exg_arg_refs(b, kept, 5), 1));
}

void exg_lower_gru_cell(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    one_cell(b, CELL_GRU, args, exg_get_ref(&args[1]), EXG_NO_REF, results);
}

void exg_lower_rnn_tanh_cell(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    one_cell(b, CELL_TANH, args, exg_get_ref(&args[1]), EXG_NO_REF, results);
}

void exg_lower_rnn_relu_cell(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    one_cell(b, CELL_RELU, args, exg_get_ref(&args[1]), EXG_NO_REF, results);
}
