/* exg_fortran.c - what exg.f90 calls: a program with its session and inputs, arrays of Fortran by
 * their descriptors (ISO_Fortran_binding.h), so that any rank, kind and section is one function.
 * exg.f90 declares them. */
#include <ISO_Fortran_binding.h>
#include <exg/exec.h>
#include <stdlib.h>
#include <string.h>

typedef struct exg_fortran {
    exg_program *program;
    exg_operators *operators;
    exg_verified verified;
    exg_session *session;
    exg_session_input *inputs;
    uint32_t input_count;
} exg_fortran;

static const struct {
    CFI_type_t type;
    exg_dtype dtype;
} types[] = {
    {CFI_type_float, EXG_DTYPE_F32},         {CFI_type_double, EXG_DTYPE_F64},
    {CFI_type_int8_t, EXG_DTYPE_I8},         {CFI_type_int16_t, EXG_DTYPE_I16},
    {CFI_type_int32_t, EXG_DTYPE_I32},       {CFI_type_int64_t, EXG_DTYPE_I64},
    {CFI_type_float_Complex, EXG_DTYPE_C64}, {CFI_type_double_Complex, EXG_DTYPE_C128},
    {CFI_type_Bool, EXG_DTYPE_B8},
};

/* A tensor over the memory of an array: the same indices, so strides of a column-major one. */
static exg_status tensor_of(const CFI_cdesc_t *array, const char *name, exg_tensor *t,
                            exg_error *err)
{
    size_t i = 0;

    while (i < sizeof(types) / sizeof(types[0]) && types[i].type != array->type) {
        i++;
    }
    if (i == sizeof(types) / sizeof(types[0]) ||
        (size_t)array->elem_len != exg_dtype_bytes(types[i].dtype)) {
        return EXG_FAIL(err, USAGE, "INP-003", "the array for '%s' is of a type that no tensor has",
                        name);
    }
    *t = (exg_tensor){array->base_addr, types[i].dtype, (uint32_t)array->rank, {0}, {0}};
    for (int d = 0; d < array->rank; d++) {
        t->sizes[d] = array->dim[d].extent;
        t->strides[d] = array->dim[d].sm / (int64_t)array->elem_len;
        if (array->dim[d].sm % (int64_t)array->elem_len != 0) {
            return EXG_FAIL(err, USAGE, "INP-003",
                            "the array for '%s' is a part of a derived type: copy it first", name);
        }
    }
    return EXG_OK;
}

/* From one tensor to another of the same sizes, element by element in the order of `to`'s memory or
 * not. */
static void copy(const exg_tensor *to, const exg_tensor *from, size_t bytes)
{
    int64_t at[EXG_RANK_MAX] = {0};
    const int64_t count = exg_tensor_numel(from);

    for (int64_t i = 0; i < count; i++) {
        int64_t a = 0;
        int64_t b = 0;
        uint32_t d = from->rank;

        for (uint32_t k = 0; k < from->rank; k++) {
            a += at[k] * to->strides[k];
            b += at[k] * from->strides[k];
        }
        memcpy((char *)to->data + a * (int64_t)bytes, (const char *)from->data + b * (int64_t)bytes,
               bytes);
        while (d > 0 && ++at[d - 1] == from->sizes[d - 1]) {
            at[--d] = 0;
        }
    }
}

void exg_fortran_close(exg_fortran *model)
{
    if (model == NULL) {
        return;
    }
    for (uint32_t i = 0; i < model->input_count; i++) {
        free((char *)model->inputs[i].name);
        free(model->inputs[i].tensor.data);
    }
    free(model->inputs);
    exg_session_destroy(model->session);
    exg_operators_destroy(model->operators);
    exg_program_destroy(model->program);
    free(model);
}

/* `device` is "" for the host. */
exg_status exg_fortran_open(const char *path, int threads, const char *device, exg_fortran **model,
                            exg_error *err)
{
    exg_fortran *m = calloc(1, sizeof(*m));
    const exg_session_options options = {.size = sizeof(options),
                                         .thread_count = (uint32_t)threads,
                                         .device = device[0] == '\0' ? NULL : device};
    exg_status status = EXG_OK;

    *model = NULL;
    exg_error_clear(err);
    if (m == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (threads < 0) {
        status = EXG_FAIL(err, USAGE, "ARG-001", "%d threads", threads);
    }
    status = status == EXG_OK ? exg_open(path, NULL, &m->program, NULL, err) : status;
    status = status == EXG_OK ? exg_operators_create(&m->operators, err) : status;
    status = status == EXG_OK ? exg_operators_load_for(m->operators, m->program, err) : status;
    status =
        status == EXG_OK ? exg_verify(m->program, m->operators, &m->verified, NULL, err) : status;
    status =
        status == EXG_OK ? exg_session_create(&m->verified, &options, &m->session, err) : status;
    if (status == EXG_OK) {
        *model = m;
    } else {
        exg_fortran_close(m);
    }
    return status;
}

static exg_status add_input(exg_fortran *model, const char *name, exg_session_input **input,
                            exg_error *err)
{
    for (uint32_t i = 0; i < model->input_count; i++) {
        if (strcmp(model->inputs[i].name, name) == 0) {
            *input = &model->inputs[i];
            return EXG_OK;
        }
    }
    exg_session_input *more = realloc(model->inputs, (model->input_count + 1) * sizeof(*more));
    char *own = strdup(name);

    if (more != NULL) {
        model->inputs = more;
    }
    if (more == NULL || own == NULL) {
        free(own);
        return EXG_OUT_OF_MEMORY(err);
    }
    *input = &more[model->input_count++];
    **input = (exg_session_input){.name = own};
    return EXG_OK;
}

exg_status exg_fortran_input(exg_fortran *model, const char *name, CFI_cdesc_t *array,
                             exg_error *err)
{
    exg_session_input *input = NULL;
    exg_tensor from;
    exg_tensor to;

    exg_error_clear(err);
    if (model == NULL) {
        return EXG_FAIL(err, USAGE, "ARG-001", "the model is not open");
    }
    EXG_TRY(exg_session_find_input(model->session, name, &name, err));
    EXG_TRY(tensor_of(array, name, &from, err));
    EXG_TRY(add_input(model, name, &input, err));
    to = from;
    exg_tensor_set_contiguous(&to);
    const size_t bytes = exg_dtype_bytes(from.dtype);
    void *data = realloc(input->tensor.data, (size_t)exg_tensor_numel(&from) * bytes + 1);

    if (data == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    to.data = data;
    input->tensor = to;
    copy(&to, &from, bytes);
    return EXG_OK;
}

exg_status exg_fortran_run(exg_fortran *model, exg_error *err)
{
    exg_error_clear(err);
    return model == NULL ? EXG_FAIL(err, USAGE, "ARG-001", "the model is not open")
                         : exg_session_run(model->session, model->inputs, model->input_count, err);
}

/* The sizes of output `index`, from 1 on; the rank, or -1: no tensor. */
int exg_fortran_output_shape(const exg_fortran *model, int index, int64_t *sizes)
{
    const exg_session_output *o = model == NULL || index < 1
                                      ? NULL
                                      : exg_session_output_at(model->session, (uint32_t)index - 1);

    if (o == NULL || o->constant.kind != EXG_ARGUMENT_TENSOR) {
        return -1;
    }
    memcpy(sizes, o->tensor.sizes, sizeof(o->tensor.sizes));
    return (int)o->tensor.rank;
}

exg_status exg_fortran_output(const exg_fortran *model, int index, CFI_cdesc_t *array,
                              exg_error *err)
{
    exg_tensor to;
    exg_error_clear(err);
    if (model == NULL) {
        return EXG_FAIL(err, USAGE, "ARG-001", "the model is not open");
    }
    if (index < 1 || (uint32_t)index > exg_session_output_count(model->session)) {
        return EXG_FAIL(err, USAGE, "RUN-002", "there is no output %d: there are %u", index,
                        exg_session_output_count(model->session));
    }
    const exg_session_output *o = exg_session_output_at(model->session, (uint32_t)index - 1);

    EXG_TRY(tensor_of(array, "output", &to, err));
    if (o->constant.kind != EXG_ARGUMENT_TENSOR || o->tensor.data == NULL ||
        to.dtype != o->tensor.dtype || to.rank != o->tensor.rank ||
        memcmp(to.sizes, o->tensor.sizes, to.rank * sizeof(to.sizes[0])) != 0) {
        return EXG_FAIL(
            err, USAGE, "RUN-003",
            "output %d is %s of %u dimensions, the array %s of %u, or their sizes differ", index,
            exg_dtype_name(o->tensor.dtype), o->tensor.rank, exg_dtype_name(to.dtype), to.rank);
    }
    copy(&to, &o->tensor, exg_dtype_bytes(to.dtype));
    return EXG_OK;
}
