/* operator_id_new.h - numbers that were given since operator_id.h was last put together: with a
 * release they move there. Few files include this one, so that a new row does not compile
 * everything again; who emits a new operator includes it too.
 *
 * A new operator is two lines, in the order in which they are given: a number above
 * EXG_OPERATOR_COUNT, and its name, of the type of the others:
 *
 *     EXG_NEW_square_default,
 *     #define EXG_OP_square_default ((exg_operator_id)EXG_NEW_square_default)
 */
#ifndef EXG_OPERATOR_ID_NEW_H
#define EXG_OPERATOR_ID_NEW_H

#include <exg/operator_id.h>

enum {
    EXG_OPERATOR_LAST = EXG_OP_sym_constrain_range_for_size_default, /* of operator_id.h */
    EXG_NEW_operator_pos,
    EXG_NEW_operator_lshift,
    EXG_NEW_operator_rshift,
    EXG_NEW_sym_int,
    EXG_NEW__sym_sqrt,
    EXG_NEW_math_floor,
    EXG_NEW_math_ceil,
    EXG_NEW_builtins_round,
    EXG_NEW_dim_default,
    EXG_NEW_promote_types_default,
    EXG_NEW__neg_view_default,
    EXG_NEW_exg_broadcast,
    EXG_NEW_exg_all_to_all_single,
    EXG_NEW_c10d_all_reduce,
    EXG_NEW_c10d_all_gather_into_tensor,
    EXG_NEW_c10d_reduce_scatter_tensor,
    EXG_NEW_c10d_all_to_all_single,
    EXG_NEW_c10d_broadcast,
    EXG_NEW_c10d_all_reduce_coalesced_inplace,
    EXG_NEW_dtensor_shard_dim_alltoall,
    EXG_NEW_c10d_wait_tensor,
    EXG_NEW_c10d_wrap_tensor_autograd,
    EXG_NEW_c10d_autograd_all_gather_into_tensor,
    EXG_NEW_c10d_autograd_reduce_scatter_tensor,
    EXG_NEW_c10d_autograd_all_to_all_single,
    EXG_NEW_c10d_all_reduce_coalesced,
    EXG_NEW_c10d_all_gather_into_tensor_coalesced,
    EXG_NEW_c10d_reduce_scatter_tensor_coalesced,
    EXG_NEW_c10d_all_reduce_inplace,
    EXG_NEW_c10d_broadcast_inplace,
    EXG_NEW_c10d_all_gather_into_tensor_out,
    EXG_NEW_c10d_reduce_scatter_tensor_out,
    EXG_NEW_old_c10d_all_reduce,
    EXG_NEW_old_c10d_all_reduce_coalesced,
    EXG_NEW_old_c10d_all_gather_into_tensor,
    EXG_NEW_old_c10d_all_gather_into_tensor_coalesced,
    EXG_NEW_old_c10d_reduce_scatter_tensor,
    EXG_NEW_old_c10d_reduce_scatter_tensor_coalesced,
    EXG_NEW_old_c10d_all_to_all_single,
    EXG_NEW_old_c10d_broadcast,
    EXG_NEW_old_c10d_wait_tensor,
    EXG_NEW_sparse_coo_tensor_indices_size,
    EXG_NEW__sparse_coo_tensor_unsafe_default,
    EXG_NEW__sparse_coo_tensor_with_dims_and_tensors_default,
    EXG_NEW_to_dense_default,
    EXG_NEW__to_dense_default,
    EXG_NEW_to_sparse_default,
    EXG_NEW__to_sparse_default,
    EXG_NEW_to_sparse_sparse_dim,
    EXG_NEW__to_sparse_sparse_dim,
    EXG_NEW_coalesce_default,
    EXG_NEW__coalesce_default,
    EXG_NEW__coalesced_default,
    EXG_NEW__sparse_mm_default,
    EXG_NEW_smm_default,
    EXG_NEW__sparse_addmm_default,
    EXG_NEW__sparse_sum_default,
    EXG_NEW__sparse_sum_dtype,
    EXG_NEW__sparse_sum_dim,
    EXG_NEW__sparse_sum_dim_dtype,
    EXG_NEW_set_source_Tensor,
    EXG_NEW_set__source_Tensor,
    EXG_NEW_linear_dynamic_fp16_unpacked_weight_default,
    EXG_NEW_embedding_bag_byte_prepack_default,
    EXG_NEW_embedding_bag_byte_unpack_default,
    EXG_NEW_embedding_bag_4bit_unpack_default,
    EXG_NEW_embedding_bag_2bit_unpack_default,
    EXG_NEW_embedding_bag_byte_rowwise_offsets_default,
    EXG_NEW_wrapped_quantized_linear_default,
    EXG_NEW__wrapped_linear_prepack_default,
    EXG_NEW__wrapped_quantized_linear_prepacked_default,
    EXG_NEW_weight_product,
    EXG_NEW_edge_pad,
    EXG_NEW_sum_squares,
    EXG_NEW_fft_from_real,
    EXG_NEW_fft_to_real,
    EXG_NEW_add_rows,
    EXG_NEW_distances,
    EXG_NEW_weighted_gather,
    EXG_NEW_dequantize_blocks,
    EXG_NEW_linear_blocks,
    EXG_NEW__sparse_softmax_int,
    EXG_NEW__sparse_softmax_default,
    EXG_NEW__sparse_log_softmax_int,
    EXG_NEW__sparse_log_softmax_default,
    EXG_NEW_sparse_mask_default,
    EXG_NEW__indices_default,
    EXG_NEW__values_default,
    EXG_NEW_dequantize_groups,
    EXG_NEW_embedding_groups,
    EXG_NEW__fused_adam_default,
    EXG_NEW__fused_adam_tensor_lr,
    EXG_NEW__fused_adam__default,
    EXG_NEW__fused_adam__tensor_lr,
    EXG_NEW__fused_adamw_default,
    EXG_NEW__fused_adamw_tensor_lr,
    EXG_NEW__fused_adamw__default,
    EXG_NEW__fused_adamw__tensor_lr,
    EXG_NEW__fused_sgd_default,
    EXG_NEW__fused_sgd_tensor_lr,
    EXG_NEW__fused_sgd__default,
    EXG_NEW__fused_sgd__tensor_lr,
    EXG_NEW__fused_adagrad_default,
    EXG_NEW__fused_adagrad_tensor_lr,
    EXG_NEW__fused_adagrad__default,
    EXG_NEW__fused_adagrad__tensor_lr,
    EXG_NEW__amp_foreach_non_finite_check_and_unscale_default,
    EXG_NEW__amp_foreach_non_finite_check_and_unscale__default,
    EXG_NEW__amp_update_scale_default,
    EXG_NEW__amp_update_scale__default,
    EXG_NEW__foreach_powsum_Scalar,
    EXG_NEW__unique_default,
    EXG_NEW_unique_size,
    EXG_NEW_unique_sized,
    EXG_NEW__unique_out,
    EXG_NEW_indices_default,
    EXG_NEW_values_default,
    EXG_NEW__nnz_default,
    EXG_NEW_sparse_dim_default,
    EXG_NEW_dense_dim_default,
    EXG_NEW_is_coalesced_default,
    EXG_NEW_gathered_product,
    EXG_NEW_split_copy_Tensor_out,
    EXG_NEW_split_with_sizes_copy_out,
    EXG_NEW_unbind_copy_int_out,
    EXG_NEW_unsafe_split_Tensor_out,
    EXG_NEW_unsafe_split_with_sizes_out,
    EXG_NEW_sparse_coo_tensor_size,
    EXG_NEW__sparse_coo_tensor_with_dims_default,
    EXG_NEW__sparse_sparse_matmul_default,
    EXG_NEW__sparse_broadcast_to_default,
    EXG_NEW_resample,
    EXG_OPERATOR_COUNT /* one more than the last */
};

#define EXG_OP_operator_pos                ((exg_operator_id)EXG_NEW_operator_pos)
#define EXG_OP_operator_lshift             ((exg_operator_id)EXG_NEW_operator_lshift)
#define EXG_OP_operator_rshift             ((exg_operator_id)EXG_NEW_operator_rshift)
#define EXG_OP_sym_int                     ((exg_operator_id)EXG_NEW_sym_int)
#define EXG_OP__sym_sqrt                   ((exg_operator_id)EXG_NEW__sym_sqrt)
#define EXG_OP_math_floor                  ((exg_operator_id)EXG_NEW_math_floor)
#define EXG_OP_math_ceil                   ((exg_operator_id)EXG_NEW_math_ceil)
#define EXG_OP_builtins_round              ((exg_operator_id)EXG_NEW_builtins_round)
#define EXG_OP_dim_default                 ((exg_operator_id)EXG_NEW_dim_default)
#define EXG_OP_promote_types_default       ((exg_operator_id)EXG_NEW_promote_types_default)
#define EXG_OP__neg_view_default           ((exg_operator_id)EXG_NEW__neg_view_default)
#define EXG_OP_exg_broadcast               ((exg_operator_id)EXG_NEW_exg_broadcast)
#define EXG_OP_exg_all_to_all_single       ((exg_operator_id)EXG_NEW_exg_all_to_all_single)
#define EXG_OP_c10d_all_reduce             ((exg_operator_id)EXG_NEW_c10d_all_reduce)
#define EXG_OP_c10d_all_gather_into_tensor ((exg_operator_id)EXG_NEW_c10d_all_gather_into_tensor)
#define EXG_OP_c10d_reduce_scatter_tensor  ((exg_operator_id)EXG_NEW_c10d_reduce_scatter_tensor)
#define EXG_OP_c10d_all_to_all_single      ((exg_operator_id)EXG_NEW_c10d_all_to_all_single)
#define EXG_OP_c10d_broadcast              ((exg_operator_id)EXG_NEW_c10d_broadcast)
#define EXG_OP_c10d_all_reduce_coalesced_inplace                                                   \
    ((exg_operator_id)EXG_NEW_c10d_all_reduce_coalesced_inplace)
#define EXG_OP_dtensor_shard_dim_alltoall ((exg_operator_id)EXG_NEW_dtensor_shard_dim_alltoall)
#define EXG_OP_c10d_wait_tensor           ((exg_operator_id)EXG_NEW_c10d_wait_tensor)
#define EXG_OP_c10d_wrap_tensor_autograd  ((exg_operator_id)EXG_NEW_c10d_wrap_tensor_autograd)
#define EXG_OP_c10d_autograd_all_gather_into_tensor                                                \
    ((exg_operator_id)EXG_NEW_c10d_autograd_all_gather_into_tensor)
#define EXG_OP_c10d_autograd_reduce_scatter_tensor                                                 \
    ((exg_operator_id)EXG_NEW_c10d_autograd_reduce_scatter_tensor)
#define EXG_OP_c10d_autograd_all_to_all_single                                                     \
    ((exg_operator_id)EXG_NEW_c10d_autograd_all_to_all_single)
#define EXG_OP_c10d_all_reduce_coalesced ((exg_operator_id)EXG_NEW_c10d_all_reduce_coalesced)
#define EXG_OP_c10d_all_gather_into_tensor_coalesced                                               \
    ((exg_operator_id)EXG_NEW_c10d_all_gather_into_tensor_coalesced)
#define EXG_OP_c10d_reduce_scatter_tensor_coalesced                                                \
    ((exg_operator_id)EXG_NEW_c10d_reduce_scatter_tensor_coalesced)
#define EXG_OP_c10d_all_reduce_inplace ((exg_operator_id)EXG_NEW_c10d_all_reduce_inplace)
#define EXG_OP_c10d_broadcast_inplace  ((exg_operator_id)EXG_NEW_c10d_broadcast_inplace)
#define EXG_OP_c10d_all_gather_into_tensor_out                                                     \
    ((exg_operator_id)EXG_NEW_c10d_all_gather_into_tensor_out)
#define EXG_OP_c10d_reduce_scatter_tensor_out                                                      \
    ((exg_operator_id)EXG_NEW_c10d_reduce_scatter_tensor_out)
#define EXG_OP_old_c10d_all_reduce ((exg_operator_id)EXG_NEW_old_c10d_all_reduce)
#define EXG_OP_old_c10d_all_reduce_coalesced                                                       \
    ((exg_operator_id)EXG_NEW_old_c10d_all_reduce_coalesced)
#define EXG_OP_old_c10d_all_gather_into_tensor                                                     \
    ((exg_operator_id)EXG_NEW_old_c10d_all_gather_into_tensor)
#define EXG_OP_old_c10d_all_gather_into_tensor_coalesced                                           \
    ((exg_operator_id)EXG_NEW_old_c10d_all_gather_into_tensor_coalesced)
#define EXG_OP_old_c10d_reduce_scatter_tensor                                                      \
    ((exg_operator_id)EXG_NEW_old_c10d_reduce_scatter_tensor)
#define EXG_OP_old_c10d_reduce_scatter_tensor_coalesced                                            \
    ((exg_operator_id)EXG_NEW_old_c10d_reduce_scatter_tensor_coalesced)
#define EXG_OP_old_c10d_all_to_all_single ((exg_operator_id)EXG_NEW_old_c10d_all_to_all_single)
#define EXG_OP_old_c10d_broadcast         ((exg_operator_id)EXG_NEW_old_c10d_broadcast)
#define EXG_OP_old_c10d_wait_tensor       ((exg_operator_id)EXG_NEW_old_c10d_wait_tensor)
#define EXG_OP_sparse_coo_tensor_indices_size                                                      \
    ((exg_operator_id)EXG_NEW_sparse_coo_tensor_indices_size)
#define EXG_OP__sparse_coo_tensor_unsafe_default                                                   \
    ((exg_operator_id)EXG_NEW__sparse_coo_tensor_unsafe_default)
#define EXG_OP__sparse_coo_tensor_with_dims_and_tensors_default                                    \
    ((exg_operator_id)EXG_NEW__sparse_coo_tensor_with_dims_and_tensors_default)
#define EXG_OP_to_dense_default      ((exg_operator_id)EXG_NEW_to_dense_default)
#define EXG_OP__to_dense_default     ((exg_operator_id)EXG_NEW__to_dense_default)
#define EXG_OP_to_sparse_default     ((exg_operator_id)EXG_NEW_to_sparse_default)
#define EXG_OP__to_sparse_default    ((exg_operator_id)EXG_NEW__to_sparse_default)
#define EXG_OP_to_sparse_sparse_dim  ((exg_operator_id)EXG_NEW_to_sparse_sparse_dim)
#define EXG_OP__to_sparse_sparse_dim ((exg_operator_id)EXG_NEW__to_sparse_sparse_dim)
#define EXG_OP_coalesce_default      ((exg_operator_id)EXG_NEW_coalesce_default)
#define EXG_OP__coalesce_default     ((exg_operator_id)EXG_NEW__coalesce_default)
#define EXG_OP__coalesced_default    ((exg_operator_id)EXG_NEW__coalesced_default)
#define EXG_OP__sparse_mm_default    ((exg_operator_id)EXG_NEW__sparse_mm_default)
#define EXG_OP_smm_default           ((exg_operator_id)EXG_NEW_smm_default)
#define EXG_OP__sparse_addmm_default ((exg_operator_id)EXG_NEW__sparse_addmm_default)
#define EXG_OP__sparse_sum_default   ((exg_operator_id)EXG_NEW__sparse_sum_default)
#define EXG_OP__sparse_sum_dtype     ((exg_operator_id)EXG_NEW__sparse_sum_dtype)
#define EXG_OP__sparse_sum_dim       ((exg_operator_id)EXG_NEW__sparse_sum_dim)
#define EXG_OP__sparse_sum_dim_dtype ((exg_operator_id)EXG_NEW__sparse_sum_dim_dtype)
#define EXG_OP_set_source_Tensor     ((exg_operator_id)EXG_NEW_set_source_Tensor)
#define EXG_OP_set__source_Tensor    ((exg_operator_id)EXG_NEW_set__source_Tensor)
#define EXG_OP_linear_dynamic_fp16_unpacked_weight_default                                         \
    ((exg_operator_id)EXG_NEW_linear_dynamic_fp16_unpacked_weight_default)
#define EXG_OP_embedding_bag_byte_prepack_default                                                  \
    ((exg_operator_id)EXG_NEW_embedding_bag_byte_prepack_default)
#define EXG_OP_embedding_bag_byte_unpack_default                                                   \
    ((exg_operator_id)EXG_NEW_embedding_bag_byte_unpack_default)
#define EXG_OP_embedding_bag_4bit_unpack_default                                                   \
    ((exg_operator_id)EXG_NEW_embedding_bag_4bit_unpack_default)
#define EXG_OP_embedding_bag_2bit_unpack_default                                                   \
    ((exg_operator_id)EXG_NEW_embedding_bag_2bit_unpack_default)
#define EXG_OP_embedding_bag_byte_rowwise_offsets_default                                          \
    ((exg_operator_id)EXG_NEW_embedding_bag_byte_rowwise_offsets_default)
#define EXG_OP_wrapped_quantized_linear_default                                                    \
    ((exg_operator_id)EXG_NEW_wrapped_quantized_linear_default)
#define EXG_OP__wrapped_linear_prepack_default                                                     \
    ((exg_operator_id)EXG_NEW__wrapped_linear_prepack_default)
#define EXG_OP__wrapped_quantized_linear_prepacked_default                                         \
    ((exg_operator_id)EXG_NEW__wrapped_quantized_linear_prepacked_default)
#define EXG_OP_weight_product              ((exg_operator_id)EXG_NEW_weight_product)
#define EXG_OP_edge_pad                    ((exg_operator_id)EXG_NEW_edge_pad)
#define EXG_OP_sum_squares                 ((exg_operator_id)EXG_NEW_sum_squares)
#define EXG_OP_fft_from_real               ((exg_operator_id)EXG_NEW_fft_from_real)
#define EXG_OP_fft_to_real                 ((exg_operator_id)EXG_NEW_fft_to_real)
#define EXG_OP_add_rows                    ((exg_operator_id)EXG_NEW_add_rows)
#define EXG_OP_distances                   ((exg_operator_id)EXG_NEW_distances)
#define EXG_OP_weighted_gather             ((exg_operator_id)EXG_NEW_weighted_gather)
#define EXG_OP_dequantize_blocks           ((exg_operator_id)EXG_NEW_dequantize_blocks)
#define EXG_OP_linear_blocks               ((exg_operator_id)EXG_NEW_linear_blocks)
#define EXG_OP__sparse_softmax_int         ((exg_operator_id)EXG_NEW__sparse_softmax_int)
#define EXG_OP__sparse_softmax_default     ((exg_operator_id)EXG_NEW__sparse_softmax_default)
#define EXG_OP__sparse_log_softmax_int     ((exg_operator_id)EXG_NEW__sparse_log_softmax_int)
#define EXG_OP__sparse_log_softmax_default ((exg_operator_id)EXG_NEW__sparse_log_softmax_default)
#define EXG_OP_sparse_mask_default         ((exg_operator_id)EXG_NEW_sparse_mask_default)
#define EXG_OP__indices_default            ((exg_operator_id)EXG_NEW__indices_default)
#define EXG_OP__values_default             ((exg_operator_id)EXG_NEW__values_default)
#define EXG_OP_dequantize_groups           ((exg_operator_id)EXG_NEW_dequantize_groups)
#define EXG_OP_embedding_groups            ((exg_operator_id)EXG_NEW_embedding_groups)
#define EXG_OP__fused_adam_default         ((exg_operator_id)EXG_NEW__fused_adam_default)
#define EXG_OP__fused_adam_tensor_lr       ((exg_operator_id)EXG_NEW__fused_adam_tensor_lr)
#define EXG_OP__fused_adam__default        ((exg_operator_id)EXG_NEW__fused_adam__default)
#define EXG_OP__fused_adam__tensor_lr      ((exg_operator_id)EXG_NEW__fused_adam__tensor_lr)
#define EXG_OP__fused_adamw_default        ((exg_operator_id)EXG_NEW__fused_adamw_default)
#define EXG_OP__fused_adamw_tensor_lr      ((exg_operator_id)EXG_NEW__fused_adamw_tensor_lr)
#define EXG_OP__fused_adamw__default       ((exg_operator_id)EXG_NEW__fused_adamw__default)
#define EXG_OP__fused_adamw__tensor_lr     ((exg_operator_id)EXG_NEW__fused_adamw__tensor_lr)
#define EXG_OP__fused_sgd_default          ((exg_operator_id)EXG_NEW__fused_sgd_default)
#define EXG_OP__fused_sgd_tensor_lr        ((exg_operator_id)EXG_NEW__fused_sgd_tensor_lr)
#define EXG_OP__fused_sgd__default         ((exg_operator_id)EXG_NEW__fused_sgd__default)
#define EXG_OP__fused_sgd__tensor_lr       ((exg_operator_id)EXG_NEW__fused_sgd__tensor_lr)
#define EXG_OP__fused_adagrad_default      ((exg_operator_id)EXG_NEW__fused_adagrad_default)
#define EXG_OP__fused_adagrad_tensor_lr    ((exg_operator_id)EXG_NEW__fused_adagrad_tensor_lr)
#define EXG_OP__fused_adagrad__default     ((exg_operator_id)EXG_NEW__fused_adagrad__default)
#define EXG_OP__fused_adagrad__tensor_lr   ((exg_operator_id)EXG_NEW__fused_adagrad__tensor_lr)
#define EXG_OP__amp_foreach_non_finite_check_and_unscale_default                                   \
    ((exg_operator_id)EXG_NEW__amp_foreach_non_finite_check_and_unscale_default)
#define EXG_OP__amp_foreach_non_finite_check_and_unscale__default                                  \
    ((exg_operator_id)EXG_NEW__amp_foreach_non_finite_check_and_unscale__default)
#define EXG_OP__amp_update_scale_default   ((exg_operator_id)EXG_NEW__amp_update_scale_default)
#define EXG_OP__amp_update_scale__default  ((exg_operator_id)EXG_NEW__amp_update_scale__default)
#define EXG_OP__foreach_powsum_Scalar      ((exg_operator_id)EXG_NEW__foreach_powsum_Scalar)
#define EXG_OP__unique_default             ((exg_operator_id)EXG_NEW__unique_default)
#define EXG_OP_unique_size                 ((exg_operator_id)EXG_NEW_unique_size)
#define EXG_OP_unique_sized                ((exg_operator_id)EXG_NEW_unique_sized)
#define EXG_OP__unique_out                 ((exg_operator_id)EXG_NEW__unique_out)
#define EXG_OP_indices_default             ((exg_operator_id)EXG_NEW_indices_default)
#define EXG_OP_values_default              ((exg_operator_id)EXG_NEW_values_default)
#define EXG_OP__nnz_default                ((exg_operator_id)EXG_NEW__nnz_default)
#define EXG_OP_sparse_dim_default          ((exg_operator_id)EXG_NEW_sparse_dim_default)
#define EXG_OP_dense_dim_default           ((exg_operator_id)EXG_NEW_dense_dim_default)
#define EXG_OP_is_coalesced_default        ((exg_operator_id)EXG_NEW_is_coalesced_default)
#define EXG_OP_gathered_product            ((exg_operator_id)EXG_NEW_gathered_product)
#define EXG_OP_split_copy_Tensor_out       ((exg_operator_id)EXG_NEW_split_copy_Tensor_out)
#define EXG_OP_split_with_sizes_copy_out   ((exg_operator_id)EXG_NEW_split_with_sizes_copy_out)
#define EXG_OP_unbind_copy_int_out         ((exg_operator_id)EXG_NEW_unbind_copy_int_out)
#define EXG_OP_unsafe_split_Tensor_out     ((exg_operator_id)EXG_NEW_unsafe_split_Tensor_out)
#define EXG_OP_unsafe_split_with_sizes_out ((exg_operator_id)EXG_NEW_unsafe_split_with_sizes_out)
#define EXG_OP_sparse_coo_tensor_size      ((exg_operator_id)EXG_NEW_sparse_coo_tensor_size)
#define EXG_OP__sparse_coo_tensor_with_dims_default                                                \
    ((exg_operator_id)EXG_NEW__sparse_coo_tensor_with_dims_default)
#define EXG_OP__sparse_sparse_matmul_default                                                       \
    ((exg_operator_id)EXG_NEW__sparse_sparse_matmul_default)
#define EXG_OP__sparse_broadcast_to_default ((exg_operator_id)EXG_NEW__sparse_broadcast_to_default)
#define EXG_OP_resample                     ((exg_operator_id)EXG_NEW_resample)

#endif
