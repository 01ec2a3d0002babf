/* local.h - DTensors to local tensors, the plan of one node, and back. */
#ifndef EXG_LIBEXEC_DISPATCH_LOCAL_H
#define EXG_LIBEXEC_DISPATCH_LOCAL_H

#include "libexec/dispatch/propagate.h"
#include "libexec/dtensor/spec.h"
#include "libexec/executor/plan_executor.h"

/* Collective. A DTensor placed as `to` says, one that is Partial too where it was not:
 * the first rank along that mesh dim keeps the value of a sum. Where nothing changes, over
 * the same memory. */
exg_status exg_dtensor_bring(const exg_dtensor *t, const exg_placement *to, exg_dtensor **out,
                             exg_error *err);

/* Another DTensor over the same local memory. */
exg_status exg_dtensor_alias(const exg_dtensor *t, exg_dtensor **out, exg_error *err);

/* A result: its spec, and where the local part is in the memory of the plan's output. */
typedef struct exg_local_result {
    bool absent;
    exg_dtensor_spec spec; /* its mesh is that of the call */
    exg_tensor local;      /* sizes and strides */
    uint64_t bytes;        /* of the output's memory */
    int64_t byte_offset;
    uint64_t byte_end; /* of a view: what it reaches, from the operand's first byte */
} exg_local_result;

/* One call for this rank's parts. */
typedef struct exg_local_call {
    const exg_operators *operators;
    const exg_operator *op;   /* what computes it */
    exg_weight_store *memory; /* for what is made once */
    exg_accelerator *device;  /* that computes; NULL: the host */
    exg_object *const *at;    /* by position: values, fitted to the local part */
    const exg_operand_slot *operands;
    const exg_tensor *tensors; /* by operand: sizes and strides; of absent ones and numbers unset */
    uint32_t operand_count;
    exg_dtype number_dtype; /* beside which numbers are tensors */
    bool in_place;          /* operand 0 is written */
} exg_local_call;

/* The plan bound to memory, operands being inputs and results outputs in their order (absent
 * ones and numbers left out). *results, of `arena`, are what the kernels give, *count of them; in
 * place there is none. */
exg_status exg_local_plan(const exg_local_call *call, exg_arena *arena, exg_plan_executor **rank,
                          exg_local_result **results, uint32_t *count, exg_error *err);

#endif
