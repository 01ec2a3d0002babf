/* weight_store.h - the weights and the state of a session, shared by all of its plans: found in
 * their files, checked, mapped or read, kept, and evicted. */
#ifndef EXG_LIBEXEC_EXECUTOR_WEIGHT_STORE_H
#define EXG_LIBEXEC_EXECUTOR_WEIGHT_STORE_H

#include "libexec/executor/scratch.h"
#include "libexec/executor/weight_pages.h"
#include "libexec/plan/plan_internal.h"

#include <exg/weights.h>

typedef struct exg_weight_store exg_weight_store;

/* `pool` (may be NULL) reads and copies what is long, and must stay. */
exg_status exg_weight_store_create(exg_weights *weights, exg_pool *pool, exg_weight_store **store,
                                   exg_error *err);
void exg_weight_store_destroy(exg_weight_store *store); /* NULL is allowed */

/* Checksums are compared when weights are first read: of storages that are read as a whole,
 * and of those in one of `shares` shares of all bytes, the others being compared elsewhere;
 * without this call, of all; with 0 shares, of none. */
void exg_weight_store_compare(exg_weight_store *store, uint32_t share, uint32_t shares);

/* What is counted of them, and of all plans: without a limit at first. */
exg_memory_budget *exg_weight_store_budget(exg_weight_store *store);

/* The memory that all plans take turns in. */
exg_scratch *exg_weight_store_scratch(exg_weight_store *store);

/* Bytes of a storage. */
typedef struct exg_range {
    uint64_t first, end;
} exg_range;

/* The first byte of the storage behind a weight input, aligned for its dtype: on the host
 * (`device` NULL) mapped where possible, else kept in memory; on a device a copy. Of that only
 * `range` is there to be read, and what was asked for before: the rest is not even read from
 * the file. It `stays` with the memory, or until exg_weight_store_forget(). */
exg_status exg_weight_store_weight(exg_weight_store *store, struct exg_accelerator *device,
                                   const exg_plan_input *input, exg_range range, bool stays,
                                   const void **data, exg_error *err);

/* Is there such a weight, with the bytes of `range`? SIG-005, WGT-005, WGT-012. */
exg_status exg_weight_store_check(const exg_weight_store *store, const exg_plan_input *input,
                                  exg_range range, exg_error *err);

/* A rank's own row-major copy of a weight that the program writes, made from the
 * weight's view on first use. */
exg_status exg_weight_store_state(exg_weight_store *store, struct exg_accelerator *device,
                                  uint32_t rank, const exg_plan_input *input, void **data,
                                  exg_error *err);

/* A constant that a plan computes once from a weight (constant folding), for every plan that asks
 * with the same key. */
typedef struct exg_folded_constant {
    void *data;
    bool is_computed;
} exg_folded_constant;

/* The constant of `key`: of the same step of the same weight. A new one is not filled. */
exg_status exg_weight_store_folded(exg_weight_store *store, struct exg_accelerator *device,
                                   uint64_t key, uint64_t bytes, exg_folded_constant **folded,
                                   exg_error *err);

/* The plan that asked without a key is gone; constants with a key stay for the next plan. */
void exg_weight_store_drop(exg_weight_store *store, const exg_folded_constant *folded);

/* The pages of the mapped weight that are read next. */
void exg_weight_store_expect(exg_weight_store *store, const exg_plan_input *input,
                             const exg_page_rows *rows);

/* What names the bytes of a weight input's storage. */
uint64_t exg_weight_store_weight_key(const exg_weight_store *store, const exg_plan_input *input);

/* Who asked for the weight's own bytes has read them: mapped pages go back to the system, and
 * what was read or copied and need not stay goes. */
void exg_weight_store_forget(exg_weight_store *store, struct exg_accelerator *device,
                             const exg_plan_input *input, uint64_t bytes);

/* The states of rank 0: equal on every rank. Of one on a device a copy, whose data is NULL
 * when the device does not give it any more. */
uint32_t exg_weight_store_state_count(const exg_weight_store *store);
const char *exg_weight_store_state_name(const exg_weight_store *store, uint32_t index);
const char *exg_weight_store_state_at(exg_weight_store *store, uint32_t index, exg_tensor *tensor);

/* Makes the state what `data` holds, all of it and row-major, on every rank here. DEVICE. */
exg_status exg_weight_store_set_state(exg_weight_store *store, uint32_t index, const void *data,
                                      exg_error *err);

#endif
