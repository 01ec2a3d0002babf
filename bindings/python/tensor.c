/* tensor.c - tensors in and out, by DLPack (https://dmlc.github.io/dlpack): compiled into the
 * module, after the public headers. Memory that is given away is malloc'ed and freed in C, so that
 * it may outlive the interpreter. */
#include <stdlib.h>
#include <string.h>

static const struct {
    exg_dtype dtype;
    uint8_t code, bits;
} dlpack_dtypes[] = {
    {EXG_DTYPE_U8, 1, 8},      {EXG_DTYPE_U16, 1, 16},        {EXG_DTYPE_U32, 1, 32},
    {EXG_DTYPE_U64, 1, 64},    {EXG_DTYPE_I8, 0, 8},          {EXG_DTYPE_I16, 0, 16},
    {EXG_DTYPE_I32, 0, 32},    {EXG_DTYPE_I64, 0, 64},        {EXG_DTYPE_F16, 2, 16},
    {EXG_DTYPE_F32, 2, 32},    {EXG_DTYPE_F64, 2, 64},        {EXG_DTYPE_BF16, 4, 16},
    {EXG_DTYPE_C32, 5, 32},    {EXG_DTYPE_C64, 5, 64},        {EXG_DTYPE_C128, 5, 128},
    {EXG_DTYPE_B8, 6, 8},      {EXG_DTYPE_F8E4M3FN, 10, 8},   {EXG_DTYPE_F8E4M3FNUZ, 11, 8},
    {EXG_DTYPE_F8E5M2, 12, 8}, {EXG_DTYPE_F8E5M2FNUZ, 13, 8}, {EXG_DTYPE_F8E8M0FNU, 14, 8},
};

enum {
    DLPACK_DTYPES = sizeof(dlpack_dtypes) / sizeof(dlpack_dtypes[0]),
    DLPACK_CPU = 1,
    DLPACK_CUDA = 2
};

/* Elements of `from`, row by row, to `to`. */
static void gather(char *to, const char *from, const exg_tensor *t, uint32_t dim, size_t bytes)
{
    size_t row = bytes;

    if (dim == t->rank) {
        memcpy(to, from, bytes);
        return;
    }
    for (uint32_t d = dim + 1; d < t->rank; d++) {
        row *= (size_t)t->sizes[d];
    }
    for (int64_t i = 0; i < t->sizes[dim]; i++) {
        gather(to + (size_t)i * row, from + i * t->strides[dim] * (int64_t)bytes, t, dim + 1,
               bytes);
    }
}

/* A copy, row by row, malloc'ed; NULL: out of memory. */
static void *tensor_copy(const exg_tensor *t)
{
    const size_t bytes = exg_dtype_bytes(t->dtype);
    const size_t all = (size_t)exg_tensor_numel(t) * bytes;
    void *data = aligned_alloc(64, (all + 64) / 64 * 64 + 64);

    if (data != NULL && exg_tensor_is_contiguous(t)) {
        memcpy(data, t->data, all);
    } else if (data != NULL && all > 0) {
        gather(data, t->data, t, 0, bytes);
    }
    return data;
}

typedef struct exported {
    DLManagedTensor managed;
    int64_t sizes[EXG_RANK_MAX], strides[EXG_RANK_MAX];
    int *users; /* of the memory; the last frees it and this */
} exported;

/* Memory with a count, so that a Tensor and what was made of it by DLPack may go in any order. */
static int *tensor_users(void)
{
    int *users = malloc(sizeof(*users));

    if (users != NULL) {
        *users = 1;
    }
    return users;
}

static void tensor_release(void *data, int *users)
{
    if (__atomic_sub_fetch(users, 1, __ATOMIC_ACQ_REL) == 0) {
        free(data);
        free(users);
    }
}

static void delete_exported(DLManagedTensor *managed)
{
    exported *e = managed->manager_ctx;

    tensor_release(managed->dl_tensor.data, e->users);
    free(e);
}

/* For a consumer; NULL: out of memory, or of a dtype that DLPack has not. Calls its deleter, or
 * tensor_capsule_free() does. */
static DLManagedTensor *tensor_export(const exg_tensor *t, int *users)
{
    exported *e = calloc(1, sizeof(*e));
    int i = 0;

    while (i < DLPACK_DTYPES && dlpack_dtypes[i].dtype != t->dtype) {
        i++;
    }
    if (e == NULL || i == DLPACK_DTYPES) {
        free(e);
        return NULL;
    }
    memcpy(e->sizes, t->sizes, sizeof(e->sizes));
    memcpy(e->strides, t->strides, sizeof(e->strides));
    e->users = users;
    (void)__atomic_add_fetch(users, 1, __ATOMIC_ACQ_REL);
    e->managed.dl_tensor.data = t->data;
    e->managed.dl_tensor.device.device_type = DLPACK_CPU;
    e->managed.dl_tensor.ndim = (int32_t)t->rank;
    e->managed.dl_tensor.dtype.code = dlpack_dtypes[i].code;
    e->managed.dl_tensor.dtype.bits = dlpack_dtypes[i].bits;
    e->managed.dl_tensor.dtype.lanes = 1;
    e->managed.dl_tensor.shape = e->sizes;
    e->managed.dl_tensor.strides = e->strides;
    e->managed.manager_ctx = e;
    e->managed.deleter = delete_exported;
    return &e->managed;
}

/* A PyCapsule's destructor: one that nobody took is called "dltensor" to the end. */
static void tensor_capsule_free(void *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        DLManagedTensor *managed = PyCapsule_GetPointer(capsule, "dltensor");

        managed->deleter(managed);
    }
}

/* 0, or what is wrong: 1 another device, 2 a dtype that exg has not, 3 too many dimensions. */
static int tensor_import(const DLManagedTensor *managed, exg_tensor *t)
{
    const DLTensor *from = &managed->dl_tensor;
    int i = 0;

    while (i < DLPACK_DTYPES && (dlpack_dtypes[i].code != from->dtype.code ||
                                 dlpack_dtypes[i].bits != from->dtype.bits)) {
        i++;
    }
    if (from->device.device_type != DLPACK_CPU && from->device.device_type != DLPACK_CUDA) {
        return 1;
    }
    if (i == DLPACK_DTYPES || from->dtype.lanes != 1) {
        return 2;
    }
    if (from->ndim > EXG_RANK_MAX) {
        return 3;
    }
    memset(t, 0, sizeof(*t));
    t->dtype = dlpack_dtypes[i].dtype;
    t->rank = (uint32_t)from->ndim;
    for (int32_t d = 0; d < from->ndim; d++) {
        t->sizes[d] = from->shape[d];
    }
    exg_tensor_set_contiguous(t);
    for (int32_t d = 0; from->strides != NULL && d < from->ndim; d++) {
        t->strides[d] = from->strides[d];
    }
    t->data = (char *)from->data + from->byte_offset;
    return 0;
}

static void tensor_import_end(DLManagedTensor *managed)
{
    if (managed->deleter != NULL) {
        managed->deleter(managed);
    }
}
