/* convert.c - contiguous, to and its kin: the tensor itself where nothing changes, else a copy.
 * Whether anything does is up to the strides the tensor has in PyTorch. */
#include "libexport/base/checked.h"
#include "libexport/operators/lower.h"

#define EXG_ROWS "libexport/operators/view.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

/* Do the dims, from the fastest to the slowest, follow each other without gaps? */
static bool lie_in_order(const exg_tensor_meta *meta, const uint32_t *order)
{
    int64_t expected = 1;

    for (uint32_t i = 0; i < meta->rank; i++) {
        uint32_t d = order[i];

        if (meta->sizes[d].value != 1 && meta->strides[d].value != expected) {
            return false;
        }
        expected *= meta->sizes[d].value;
    }
    return true;
}

/* Channels next to each other, then places: of images and of volumes. */
static const uint32_t channels_last[] = {1, 3, 2, 0};
static const uint32_t channels_last_3d[] = {1, 4, 3, 2, 0};

static bool is_contiguous_as(exg_builder *b, exg_ref x, const exg_argument *format)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, x);
    exg_memory_format asked = format->kind == EXG_ARGUMENT_MEMORY_FORMAT
                                  ? format->as_memory_format
                                  : EXG_MEMORY_FORMAT_CONTIGUOUS;

    if (meta == NULL || exg_lower_numel(b, x) == 0) {
        return true;
    }
    return asked == EXG_MEMORY_FORMAT_CHANNELS_LAST
               ? meta->rank == 4 && lie_in_order(meta, channels_last)
           : asked == EXG_MEMORY_FORMAT_CHANNELS_LAST_3D
               ? meta->rank == 5 && lie_in_order(meta, channels_last_3d)
               : exg_lower_is_contiguous(b, x);
}

/* Strides that grow in this order, with or without gaps (is_channels_last_strides_2d_s4). */
static bool strides_grow(const exg_tensor_meta *meta, const uint32_t *order)
{
    int64_t least = 0;

    if (meta->strides[1].value == 0) {
        return false;
    }
    for (uint32_t i = 0; i < meta->rank; i++) {
        uint32_t d = order[i];

        if (meta->sizes[d].value == 0 || meta->strides[d].value < least ||
            (d == 0 && least == meta->strides[1].value)) {
            return false;
        }
        least = meta->strides[d].value;
        if (meta->sizes[d].value > 1 && !exg_mul_i64(least, meta->sizes[d].value, &least)) {
            return false;
        }
    }
    return true;
}

static exg_memory_format suggested_format(const exg_tensor_meta *meta)
{
    return meta->rank == 4 && strides_grow(meta, channels_last) ? EXG_MEMORY_FORMAT_CHANNELS_LAST
           : meta->rank == 5 && strides_grow(meta, channels_last_3d)
               ? EXG_MEMORY_FORMAT_CHANNELS_LAST_3D
               : EXG_MEMORY_FORMAT_CONTIGUOUS;
}

void exg_lower_contiguous(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] =
        exg_arg_ref(is_contiguous_as(b, SELF, &args[1]) ? EMIT(b, alias_default, SELF)
                                                        : EMIT(b, clone_default, SELF, args[1]));
}

/* to(): the tensor itself when nothing changes, else a copy. A format that is asked for is that of
 * the tensor where its strides suggest no other (to_will_alias, Tensor::suggest_memory_format). */
static exg_ref to(exg_builder *b, exg_ref x, exg_dtype dtype, bool copy, const exg_argument *format)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, x);
    bool asks = format != NULL && format->kind == EXG_ARGUMENT_MEMORY_FORMAT &&
                format->as_memory_format != EXG_MEMORY_FORMAT_PRESERVE;

    if (meta == NULL || meta->dtype != dtype) {
        return EMIT(b, _to_copy_default, x, DTYPE(dtype));
    }
    return copy || (asks && suggested_format(meta) != format->as_memory_format)
               ? EMIT(b, clone_default, x)
               : EMIT(b, alias_default, x);
}

void exg_lower_to_dtype(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(to(b, SELF, args[1].as_scalar_type, exg_get_bool(&args[3]), &args[4]));
}

void exg_lower_to_dtype_layout(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, SELF);
    exg_dtype dtype = exg_dtype_argument(&args[1], meta == NULL ? EXG_DTYPE_F32 : meta->dtype);

    results[0] = exg_arg_ref(to(b, SELF, dtype, exg_get_bool(&args[6]), &args[7]));
}

void exg_lower_to_device(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(to(b, SELF, args[2].as_scalar_type, exg_get_bool(&args[4]), &args[5]));
}

static exg_dtype dtype_of_other(const exg_builder *b, const exg_argument *args)
{
    const exg_tensor_meta *other = exg_ref_meta(b, exg_get_ref(&args[1]));

    return other == NULL ? EXG_DTYPE_F32 : other->dtype;
}

void exg_lower_to_other(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] =
        exg_arg_ref(to(b, SELF, dtype_of_other(b, args), exg_get_bool(&args[3]), &args[4]));
}

void exg_lower_type_as(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(to(b, SELF, dtype_of_other(b, args), false, NULL));
}
