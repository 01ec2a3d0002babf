/* ranks.h - a thread for every rank of a local mesh, of the host or of devices of the kind
 * EXG_TEST_DEVICE.
 */
#ifndef EXG_TESTS_EXEC_DTENSOR_RANKS_H
#define EXG_TESTS_EXEC_DTENSOR_RANKS_H

#include <exg/dtensor.h>

typedef struct rank_context {
    exg_device_mesh *mesh;
    const void *user;
    uint32_t faults;
    char what[200]; /* of the first */
} rank_context;

/* Notes a fault of this rank: cmocka's asserts belong to the main thread. */
#define EXPECT(c, condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition) && (c)->faults++ == 0) {                                                  \
            snprintf((c)->what, sizeof((c)->what), __VA_ARGS__);                                   \
        }                                                                                          \
    } while (0)

/* Of cases that differ in what is computed, not in who waits for whom, one in so many is run:
 * EXG_ONE_IN, else 4 where threads are watched, which takes ten times as long, else 1. */
uint32_t one_in(void);

/* Runs `body` on every rank of a mesh "AxBxC"; fails the test when one of them found a
 * fault, or left memory behind: where some stays, body is run once more, and none may then.
 * Gives the exchanges that rank 0 did. */
uint64_t on_mesh(const char *shape, void (*body)(rank_context *c), const void *user);

exg_mesh_shape mesh_shape(const char *text);

/* This rank's part as the host can read it: on a mesh of the host the part itself, else a
 * row-major copy, which goes when the rank's body has ended. */
const exg_tensor *on_host(const exg_dtensor *t);
/* Is this its memory? On a mesh of devices: it is not, but was brought over. */
bool borrows(const exg_dtensor *t, const void *data);
/* What was written to what that gave. */
void to_device(exg_dtensor *t, const exg_tensor *part);

/* "S(0) R P(max)" */
uint32_t placements_of(const char *text, exg_placement *placements);

#endif
