/* factory.c - DTensors made where they are: constants, ranges, random numbers. */
#include "libexec/dtensor/region.h"
#include "libexec/dtensor/spec.h"
#include "libexec/kernels/kernels.h"
#include "libexec/kernels/random.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TWO_PI 6.283185307179586

/* ---- shapes ------------------------------------------------------------------------------ */

/* What the ranks have to say alike. */
typedef struct request {
    int64_t dtype, rank, sizes[EXG_RANK_MAX];
    exg_rng rng;
} request;

static exg_status check_agreement(exg_device_mesh *mesh, const exg_dtensor_like *like,
                                  const exg_rng *rng, exg_error *err)
{
    request own = {.dtype = like->dtype, .rank = like->rank};
    request *all = calloc(mesh->size, sizeof(*all));
    exg_status status;

    if (all == NULL) {
        exg_communicator_abort(mesh->communicator, EXG_NO_MEMORY);
        return EXG_OUT_OF_MEMORY(err);
    }
    memcpy(own.sizes, like->sizes, like->rank * sizeof(own.sizes[0]));
    if (rng != NULL) {
        own.rng = *rng;
    }
    status = exg_mesh_gather(mesh, &own, all, sizeof(own), err);
    for (uint32_t r = 1; status == EXG_OK && r < mesh->size; r++) {
        if (memcmp(&all[r], &all[0], sizeof(own)) != 0) {
            status = EXG_FAIL(err, USAGE, "DTN-013",
                              "rank %u asks for another dtype, other sizes or random numbers than "
                              "rank 0",
                              r);
        }
    }
    free(all);
    return status;
}

/* What is asked for, with a dtype: that of the value it is filled with, if any, where none is
 * given. */
static exg_status read_like(const exg_dtensor_like *given, const exg_scalar *value,
                            exg_dtensor_like *like, exg_error *err)
{
    static const int64_t no_sizes[1] = {0};

    *like = (exg_dtensor_like){0};
    EXG_TRY(EXG_READ_OPTIONS(exg_dtensor_like, like, given, err));
    like->sizes = like->rank == 0 ? no_sizes : like->sizes;
    if (like->dtype == EXG_DTYPE_UNKNOWN) {
        like->dtype = exg_dtype_for(value, EXG_DTYPE_F32);
    }
    return EXG_OK;
}

static exg_status make(exg_device_mesh *mesh, const exg_dtensor_like *like, const exg_rng *rng,
                       exg_dtensor **t, exg_error *err)
{
    exg_placement to[EXG_MESH_DIMS_MAX];
    exg_status status;

    *t = NULL;
    EXG_TRY(exg_spec_sizes(like->dtype, like->rank, like->sizes, err));
    if (like->layout != EXG_LAYOUT_UNKNOWN && like->layout != EXG_LAYOUT_STRIDED) {
        return EXG_FAIL(err, UNSUPPORTED, "DTN-020", "a layout that is not strided");
    }
    EXG_TRY(exg_spec_placements(mesh, like->placement_count == 0 ? NULL : like->placements,
                                like->placement_count, like->rank, to, err));
    if (like->run_check && mesh->communicator != NULL) {
        EXG_TRY(check_agreement(mesh, like, rng, err));
    }
    for (uint32_t m = 0; m < mesh->ndim; m++) {
        if (to[m].kind == EXG_PARTIAL) {
            return EXG_FAIL(err, USAGE, "DTN-009",
                            "nothing is made as Partial: the sum of all parts would be another");
        }
    }
    EXG_TRY(exg_dtensor_make_owned(mesh, to, like->dtype, like->rank, like->sizes, t, err));
    status = exg_dtensor_set_requires_grad(*t, like->requires_grad, err);
    if (status != EXG_OK) {
        exg_dtensor_destroy(*t);
        *t = NULL;
    }
    return status;
}

exg_status exg_dtensor_empty(exg_device_mesh *mesh, const exg_dtensor_like *given, exg_dtensor **t,
                             exg_error *err)
{
    EXG_REQUIRE(err, given, t);
    exg_dtensor_like like;

    *t = NULL;
    EXG_TRY(read_like(given, NULL, &like, err));
    return make(mesh, &like, NULL, t, err);
}

/* ---- one value ---------------------------------------------------------------------------- */

#define ELEMENT_BYTES 16 /* of the widest dtype */

/* With an element's bits, on the device, as an integer's. UNSUPPORTED of elements of two words. */
static exg_status fill_there(const exg_dtensor *t, const uint8_t *element, exg_error *err)
{
    static const exg_dtype integers[] = {
        [1] = EXG_DTYPE_I8, [2] = EXG_DTYPE_I16, [4] = EXG_DTYPE_I32, [8] = EXG_DTYPE_I64};
    exg_argument args[] = {{.kind = EXG_ARGUMENT_NONE}, {.kind = EXG_ARGUMENT_INT}};
    exg_tensor out = t->local;
    exg_kernel_call call = {.args = args, .arg_count = 2, .outputs = &out, .output_count = 1};
    uint32_t bytes = exg_dtype_bytes(out.dtype);

    if (bytes > sizeof(args[1].as_int)) {
        return EXG_FAIL(err, UNSUPPORTED, "KRN-001", "elements of two words");
    }
    memcpy(&args[1].as_int, element, sizeof(args[1].as_int));
    out.dtype = integers[bytes];
    return exg_shared_device_compute(t->mesh->shared_device, &exg_kernel_full, &call, err);
}

static exg_status fill(const exg_dtensor *t, const uint8_t *element, exg_error *err)
{
    uint32_t bytes = exg_dtype_bytes(t->local.dtype);
    size_t length = (size_t)exg_tensor_numel(&t->local) * bytes;
    exg_status status;
    exg_host_copy m;

    if (length == 0) {
        return EXG_OK;
    }
    status = t->mesh->device != NULL ? fill_there(t, element, err) : EXG_UNSUPPORTED;
    if (status != EXG_UNSUPPORTED) {
        return status;
    }
    exg_error_clear(err);
    EXG_TRY(exg_dtensor_host_copy(t, false, &m, err));
    memcpy(m.here.data, element, bytes);
    for (size_t done = bytes; done < length; done *= 2) {
        memcpy((uint8_t *)m.here.data + done, m.here.data,
               done < length - done ? done : length - done);
    }
    status = exg_host_copy_write(&m, err);
    exg_host_copy_close(&m);
    return status;
}

/* What was made is the caller's, or nothing is. */
static exg_status give(exg_status status, exg_dtensor **t)
{
    if (status != EXG_OK) {
        exg_dtensor_destroy(*t);
        *t = NULL;
    }
    return status;
}

exg_status exg_dtensor_full(exg_device_mesh *mesh, const exg_dtensor_like *given, exg_scalar value,
                            exg_dtensor **t, exg_error *err)
{
    EXG_REQUIRE(err, given, t);
    uint8_t element[ELEMENT_BYTES] = {0};
    exg_dtensor_like like;

    *t = NULL;
    EXG_TRY(read_like(given, &value, &like, err));
    EXG_TRY(exg_spec_sizes(like.dtype, like.rank, like.sizes, err));
    EXG_TRY(exg_scalar_store(like.dtype, element, value, err));
    EXG_TRY(make(mesh, &like, NULL, t, err));
    return give(fill(*t, element, err), t);
}

/* Of every dtype, those without a zero too: no bit is set. */
exg_status exg_dtensor_zeros(exg_device_mesh *mesh, const exg_dtensor_like *given, exg_dtensor **t,
                             exg_error *err)
{
    EXG_REQUIRE(err, given, t);
    const uint8_t element[ELEMENT_BYTES] = {0};

    EXG_TRY(exg_dtensor_empty(mesh, given, t, err));
    return give(fill(*t, element, err), t);
}

exg_status exg_dtensor_ones(exg_device_mesh *mesh, const exg_dtensor_like *given, exg_dtensor **t,
                            exg_error *err)
{
    EXG_REQUIRE(err, given, t);
    exg_dtensor_like like;

    *t = NULL;
    EXG_TRY(read_like(given, NULL, &like, err));
    return exg_dtensor_full(mesh, &like, exg_scalar_int(1), t, err);
}

/* ---- values by their place in the whole --------------------------------------------------- */

typedef double value_fn(const void *user, uint64_t index);

/* Of a complex one both parts, which have numbers of their own. */
static void store_at(exg_dtype dtype, uint8_t *at, value_fn *value, const void *user,
                     uint64_t place)
{
    if (exg_dtype_is_complex(dtype)) {
        exg_ignore(exg_scalar_store(
            dtype, at, exg_scalar_complex(value(user, 2 * place), value(user, 2 * place + 1)),
            NULL));
    } else {
        exg_element_store(dtype, at, value(user, place));
    }
}

/* Fills the local part, which the host has at `at`: each element by its row-major number in the
 * whole. */
static void fill_at(const exg_dtensor *t, uint8_t *at, value_fn *value, const void *user)
{
    int64_t index[EXG_RANK_MAX] = {0};
    const int64_t *sizes = t->local.sizes;
    int64_t numel = t->mesh->communicator == NULL ? 0 : exg_tensor_numel(&t->local);
    uint32_t me = exg_device_mesh_rank(t->mesh);
    int64_t run;

    for (int64_t i = 0; i < numel; i++) {
        uint64_t place = 0;

        for (uint32_t d = 0; d < t->rank; d++) {
            place = place * (uint64_t)t->sizes[d] +
                    (uint64_t)exg_local_place(t->mesh, me, t->placements, t->sizes[d], d, index[d],
                                              &run);
        }
        store_at(t->local.dtype, at, value, user, place);
        at += exg_dtype_bytes(t->local.dtype);
        for (uint32_t d = t->rank; d-- > 0 && ++index[d] == sizes[d];) {
            index[d] = 0;
        }
    }
}

static exg_status make_filled(exg_device_mesh *mesh, const exg_dtensor_like *like,
                              const exg_rng *rng, value_fn *value, const void *user,
                              exg_dtensor **t, exg_error *err)
{
    exg_host_copy m;
    exg_status status;

    EXG_TRY(make(mesh, like, rng, t, err));
    status = exg_dtensor_host_copy(*t, false, &m, err);
    if (status == EXG_OK) {
        fill_at(*t, m.here.data, value, user);
        status = exg_host_copy_write(&m, err);
        exg_host_copy_close(&m);
    }
    return give(status, t);
}

static double on_line(const void *user, uint64_t index)
{
    const double *line = user;

    return line[0] + line[1] * (double)index;
}

exg_status exg_dtensor_arange(exg_device_mesh *mesh, const exg_dtensor_like *given, double start,
                              double step, exg_dtensor **t, exg_error *err)
{
    EXG_REQUIRE(err, given, t);
    const double line[2] = {start, step};
    exg_dtensor_like like;

    *t = NULL;
    EXG_TRY(read_like(given, NULL, &like, err));
    if (like.rank != 1 || exg_dtype_is_complex(like.dtype)) {
        return EXG_FAIL(err, USAGE, "DTN-009", "a range of %u dims, of %s", like.rank,
                        exg_dtype_name(like.dtype));
    }
    return make_filled(mesh, &like, NULL, on_line, line, t, err);
}

/* ---- random numbers ---------------------- */

typedef struct drawing {
    exg_random_source source;
    uint64_t offset;
    uint32_t bits; /* of the dtype's fraction: what is below 1 stays so when it is stored */
} drawing;

/* Two words for each element, whatever is drawn of them. */
static void draw(const drawing *d, uint64_t index, uint32_t words[2])
{
    uint32_t block[4];
    uint64_t at = d->offset + index;

    exg_random_block(&d->source, 0, at / 2, block);
    words[0] = block[at % 2 * 2];
    words[1] = block[at % 2 * 2 + 1];
}

static double uniform(const void *user, uint64_t index)
{
    const drawing *d = user;
    uint32_t words[2];
    uint64_t whole;

    draw(d, index, words);
    whole = (uint64_t)words[0] << 32 | words[1];
    return ldexp((double)(whole >> (64 - d->bits)), -(int)d->bits);
}

/* Box and Muller's transform; the logarithm's argument is never 0. */
static double normal(const void *user, uint64_t index)
{
    uint32_t words[2];

    draw(user, index, words);
    return sqrt(-2 * log(((double)words[0] + 1) * 0x1p-32)) *
           cos(TWO_PI * (double)words[1] * 0x1p-32);
}

/* Of parts of a complex number, whose square is 1 in the mean. */
static double half_normal(const void *user, uint64_t index)
{
    return normal(user, index) * sqrt(0.5);
}

static uint32_t fraction_bits(exg_dtype dtype)
{
    switch (dtype) {
    case EXG_DTYPE_F64:
    case EXG_DTYPE_C128:
        return 53;
    case EXG_DTYPE_F32:
    case EXG_DTYPE_C64:
        return 24;
    case EXG_DTYPE_F16:
    case EXG_DTYPE_C32:
        return 11;
    case EXG_DTYPE_BF16:
        return 8;
    default:
        return 0;
    }
}

static exg_status make_random(exg_device_mesh *mesh, const exg_dtensor_like *given, exg_rng *rng,
                              bool is_normal, exg_dtensor **t, exg_error *err)
{
    drawing d = {.source = {.seed = rng->seed}, .offset = rng->offset};
    uint64_t drawn;
    exg_dtensor_like like;
    bool is_complex;

    *t = NULL;
    EXG_TRY(read_like(given, NULL, &like, err));
    is_complex = exg_dtype_is_complex(like.dtype);
    d.bits = fraction_bits(like.dtype);
    if (d.bits == 0) {
        return EXG_FAIL(err, USAGE, "DTN-009", "random numbers of %s", exg_dtype_name(like.dtype));
    }
    EXG_TRY(make_filled(mesh, &like, rng,
                        !is_normal   ? uniform
                        : is_complex ? half_normal
                                     : normal,
                        &d, t, err));
    drawn = is_complex ? 2 : 1;
    for (uint32_t k = 0; k < (*t)->rank; k++) {
        drawn *= (uint64_t)(*t)->sizes[k];
    }
    rng->offset += (drawn + 3) / 4 * 4;
    return EXG_OK;
}

exg_status exg_dtensor_rand(exg_device_mesh *mesh, const exg_dtensor_like *like, exg_rng *rng,
                            exg_dtensor **t, exg_error *err)
{
    EXG_REQUIRE(err, like, rng, t);
    return make_random(mesh, like, rng, false, t, err);
}

exg_status exg_dtensor_randn(exg_device_mesh *mesh, const exg_dtensor_like *like, exg_rng *rng,
                             exg_dtensor **t, exg_error *err)
{
    EXG_REQUIRE(err, like, rng, t);
    return make_random(mesh, like, rng, true, t, err);
}
