/* autograd.h - gradients of what a dispatcher computed.
 *
 * A DTensor whose gradient is wanted (exg_dtensor_set_requires_grad) is a leaf. What is computed
 * of it by exg_dispatch or a step below remembers how; exg_backward goes all that back, by the
 * derivatives of the operators, which run on DTensors like anything else, and leaves each leaf
 * its gradient (exg_dtensor_grad). Operators that are made of others are differentiated part by
 * part.
 *
 * Plain tensors that have gradients are DTensors of the mesh of this rank alone
 * (exg_dispatcher_self): modules on plain tensors, from_local, modules on DTensors and to_local
 * are one history.
 *
 * What is remembered shares memory with what was computed, and lets it go with the last DTensor
 * that was computed of it. Memory that is only borrowed (exg_dtensor_from_local, and plain tensors
 * of several elements) must stay as it is till then. What is overwritten by an operator in between
 * is noticed: USAGE TAP-003.
 *
 * Collective as dispatch.h says. Meaning: torch/autograd, torch/distributed/tensor/_api.py.
 */
#ifndef EXG_AUTOGRAD_H
#define EXG_AUTOGRAD_H

#include <exg/dispatch.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- modes --------------------------------- */

/* Is anything remembered (at first: yes)? Sets it and gives what it was. */
bool exg_grad_enabled(const exg_dispatcher *d);
bool exg_set_grad_enabled(exg_dispatcher *d, bool enabled);

/* The mesh of calls without any DTensor and of steps below that are given none, until it is popped.
 * LIMIT TAP-005 of more than 16; pop gives it, NULL where none was pushed. */
EXG_NODISCARD exg_status exg_dispatcher_push_mesh(exg_dispatcher *d, exg_device_mesh *mesh,
                                                  exg_error *err);
exg_device_mesh *exg_dispatcher_pop_mesh(exg_dispatcher *d);

/* The mesh of this rank alone, of the dispatcher: what is there is a plain tensor. */
EXG_NODISCARD exg_status exg_dispatcher_self(exg_dispatcher *d, exg_device_mesh **self,
                                             exg_error *err);

/* ---- steps that have gradients --------------------------------- */

typedef struct exg_step_options {
    size_t size; /* sizeof(exg_step_options) */
    /* to_local and full_tensor: how the gradient that will come is placed; from_local: how the one
     * that is given back shall lie. At first as the DTensor does, whole where that is Partial. */
    const exg_placement *grad_placements;
    uint32_t grad_placement_count;
    /* redistribute. What is sent, and the result, in the one; the gradient that is sent in the
     * other, and given back in that of the tensor. What is no floating dtype, as 0: that of the
     * tensor. */
    exg_dtype forward_dtype, backward_dtype;
    const exg_device_mesh *mesh; /* NULL, or that of the tensor: UNSUPPORTED TAP-006 of another */
    bool async;                  /* the result may still be on its way: exg_dtensor_wait */
} exg_step_options;

/* DTensor.from_local: exg_dtensor_from_local of a plain tensor, which is `local` and may have a
 * history; its gradient is wanted where that of `local` is. USAGE TAP-004 of what is no plain
 * tensor. */
EXG_NODISCARD exg_status exg_from_local(exg_dispatcher *d, const exg_dtensor *local,
                                        exg_device_mesh *mesh, const exg_placement *placements,
                                        uint32_t count, const exg_from_local_options *how,
                                        const exg_step_options *options, exg_dtensor **t,
                                        exg_error *err);

/* DTensor.to_local: this rank's part as a plain tensor over the same memory. */
EXG_NODISCARD exg_status exg_to_local(exg_dispatcher *d, const exg_dtensor *t,
                                      const exg_step_options *options, exg_dtensor **local,
                                      exg_error *err);

/* DTensor.redistribute, with its way back. */
EXG_NODISCARD exg_status exg_redistribute(exg_dispatcher *d, const exg_dtensor *t,
                                          const exg_placement *placements, uint32_t count,
                                          const exg_step_options *options, exg_dtensor **out,
                                          exg_error *err);

/* DTensor.full_tensor: the whole as a plain tensor. */
EXG_NODISCARD exg_status exg_full_tensor(exg_dispatcher *d, const exg_dtensor *t,
                                         const exg_step_options *options, exg_dtensor **whole,
                                         exg_error *err);

/* distribute_tensor: exg_distribute_tensor of a plain tensor: a leaf, whose gradient is wanted
 * where that of `tensor` is. `tensor` must be a leaf (USAGE TAP-004) and is not remembered. A
 * DTensor that is placed so already is given as it is, *t == tensor; one that does not is USAGE
 * TAP-004.
 */
EXG_NODISCARD exg_status exg_distribute(exg_dispatcher *d, exg_dtensor *tensor,
                                        exg_device_mesh *mesh, const exg_placement *placements,
                                        uint32_t count, uint32_t source, exg_dtensor **t,
                                        exg_error *err);

/* ---- going back --------------------------------- */

typedef struct exg_backward_options {
    size_t size;       /* sizeof(exg_backward_options) */
    bool create_graph; /* gradients have histories, and gradients: take them from their leaves
                          (exg_dtensor_take_grad), or both hold each other */
} exg_backward_options;

/* torch.autograd.backward. Collective. From `roots` to the leaves. gradients[i] is what roots[i]
 * counts, of its sizes and dtype; with `gradients` NULL, or NULL there, 1 for a tensor of one
 * element. May be repeated: leaves add up. USAGE TAP-004 of a root without history or a gradient
 * that does not fit, TAP-003; UNSUPPORTED TAP-001 of an operator without a derivative; and as
 * exg_dispatch. */
EXG_NODISCARD exg_status exg_backward(exg_dispatcher *d, exg_dtensor *const *roots,
                                      const exg_dtensor *const *gradients, uint32_t count,
                                      const exg_backward_options *options, exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
