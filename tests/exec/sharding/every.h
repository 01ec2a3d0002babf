/* every.h - a program under every sharding of its inputs, beside itself unsharded. */
#ifndef EXG_TESTS_EXEC_SHARDING_EVERY_H
#define EXG_TESTS_EXEC_SHARDING_EVERY_H

#include <exg/exec.h>

/* At most so many shardings of one program: all, where inputs are few. */
#define SHARDINGS_MAX 96

typedef struct tried {
    uint32_t right, wrong, failed;
    uint32_t kept;     /* of those right: an output lies in shards */
    uint32_t summands; /* none does, but one is summands */
    char why[400];     /* the first that is not right, and under which sharding */
} tried;

/* Every tensor input whole, or split along any dim, over `ranks` ranks, in every combination
 * but that in which nothing is split. False: it does not run unsharded (`why`). */
bool try_every_sharding(const exg_verified *verified, const exg_session_input *inputs,
                        uint32_t count, uint32_t ranks, tried *t);

#endif
