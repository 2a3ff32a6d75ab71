"""The operators of torch that a program from elsewhere may name: arithmetic on tensors, lists, texts and numbers.

Names of ATen, without overloads. What is not listed is refused, whatever it does: torch gains operators with every
version, and some of them open files, seed generators, print, or switch gradients off for a whole process.
"""

from __future__ import annotations

_ELEMENTWISE = """
abs absolute acos acosh add addcdiv addcmul angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan
atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max
clamp_min clip copysign cos cosh deg2rad digamma div divide eq erf erfc erfinv exp exp2 expm1 fix float_power floor
floor_divide fmax fmin fmod frac ge greater greater_equal gt heaviside hypot isclose isfinite isinf isnan isneginf
isposinf isreal le lerp less less_equal lgamma log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not
logical_or logical_xor logit lt maximum minimum mul multiply nan_to_num ne neg negative nextafter not_equal positive pow
rad2deg real imag conj reciprocal remainder round rsqrt rsub sgn sigmoid sign signbit sin sinc sinh softplus special_erf
special_erfinv special_expit special_exp2 special_expm1 special_log1p special_logit special_softmax special_log_softmax
sqrt square sub subtract tan tanh true_divide trunc where xlogy __and__ __or__ __xor__ __lshift__ __rshift__
"""
_ACTIVATIONS = """
celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu log_sigmoid log_softmax mish prelu _prelu_kernel
relu relu6 rrelu selu silu softmax _softmax _log_softmax _safe_softmax softmin softshrink softsign tanhshrink threshold
"""
_LAYERS = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d
adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm
native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training _batch_norm_impl_index bilinear
channel_shuffle native_channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
convolution _convolution _convolution_mode cosine_similarity dropout dropout1d embedding embedding_bag _embedding_bag
feature_alpha_dropout feature_dropout native_dropout fractional_max_pool2d fractional_max_pool3d grid_sampler
grid_sampler_2d grid_sampler_3d affine_grid_generator group_norm native_group_norm gru gru_cell lstm lstm_cell rnn_tanh
rnn_relu rnn_tanh_cell rnn_relu_cell im2col col2im instance_norm layer_norm native_layer_norm rms_norm linear
local_response_norm lp_pool1d lp_pool2d max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices
max_pool3d_with_indices max_unpool2d max_unpool3d mkldnn_convolution multi_head_attention_forward
_native_multi_head_attention _transformer_encoder_layer_fwd pairwise_distance pixel_shuffle pixel_unshuffle
scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu unfold fold upsample_bicubic2d
_upsample_bicubic2d_aa upsample_bilinear2d _upsample_bilinear2d_aa upsample_linear1d upsample_nearest1d
upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
upsample_trilinear3d normalize weight_norm _weight_norm _weight_norm_interface
"""
_PRODUCTS = """
addbmm addmm addmv addr baddbmm bmm chain_matmul cross cdist dot einsum inner kron linalg_cross linalg_matmul
linalg_matrix_norm linalg_multi_dot linalg_norm linalg_vecdot linalg_vector_norm linalg_inv linalg_solve linalg_det
linalg_eigh linalg_eigvalsh linalg_svd linalg_svdvals linalg_qr linalg_cholesky matmul matrix_power mm mv outer ger
tensordot trace triu tril trilinear vdot
"""
_REDUCTIONS = """
all amax amin aminmax any argmax argmin argsort bincount count_nonzero cummax cummin cumprod cumsum diff dist histc
kthvalue logcumsumexp logsumexp max mean median min mode msort nanmean nanmedian nansum norm frobenius_norm nuclear_norm
prod quantile nanquantile renorm sort std std_mean sum sum_to_size topk unique_consecutive unique_dim _unique2 var
var_mean bucketize searchsorted
"""
_SHAPES = """
alias alias_copy as_strided atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors broadcast_to cat chunk clone
column_stack combinations concat concatenate constant_pad_nd contiguous copy copy_ detach detach_ diag diag_embed
diagonal diagonal_copy dsplit dstack expand expand_as expand_copy flatten flip fliplr flipud gather hsplit hstack
index index_add index_copy index_fill index_put _index_put_impl_ _unsafe_index index_select lift_fresh lift_fresh_copy
lift masked_fill masked_scatter masked_select meshgrid moveaxis movedim narrow narrow_copy new_empty new_full new_ones
new_tensor new_zeros nonzero nonzero_numpy numpy_T matrix_H mT mH pad _pad_circular _pad_enum permute permute_copy
ravel reflection_pad1d reflection_pad2d reflection_pad3d repeat repeat_interleave replication_pad1d replication_pad2d
replication_pad3d reshape reshape_as _reshape_alias resolve_conj resolve_neg roll rot90 row_stack scatter scatter_add
scatter_reduce select select_copy select_scatter slice slice_copy slice_scatter split split_copy split_with_sizes
split_with_sizes_copy squeeze squeeze_copy stack swapaxes swapdims t t_copy take take_along_dim tensor_split tile
transpose transpose_copy unbind unbind_copy unflatten unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze
unsqueeze_copy view _unsafe_view view_as view_copy vsplit vstack fill zero
"""
_MAKING = """
arange asarray as_tensor empty empty_like empty_permuted eye full full_like linspace logspace ones ones_like
scalar_tensor tensor zeros zeros_like tril_indices triu_indices cartesian_prod one_hot hann_window hamming_window
blackman_window bartlett_window kaiser_window view_as_complex view_as_real complex polar
fft_fft fft_ifft fft_fft2 fft_ifft2 fft_fftn fft_ifftn fft_rfft fft_irfft fft_rfft2 fft_irfft2 fft_rfftn fft_irfftn
fft_fftshift fft_ifftshift
rand rand_like randn randn_like randint randint_like randperm bernoulli normal multinomial uniform poisson exponential
"""
_TYPES = """
to type_as _to_copy cpu cuda float double half int long bool Bool Float Int Char Byte Complex Scalar ScalarImplicit
IntImplicit FloatImplicit item _local_scalar_dense is_floating_point is_complex is_nonzero is_same_size is_contiguous
is_conj is_neg is_pinned can_cast result_type promote_types numel size stride dim ndimension storage_offset
sym_size sym_stride sym_numel sym_storage_offset sym_constrain_range sym_constrain_range_for_size
_assert_async _assert_scalar _assert_tensor_metadata _functional_assert_async _functional_sym_constrain_range
_functional_sym_constrain_range_for_size equal allclose device dtype layout is_grad_enabled is_autocast_enabled
is_autocast_cpu_enabled requires_grad_ get_device nbytes element_size is_inference
"""
_LISTS_TEXTS_NUMBERS = """
append extend insert pop clear reverse sort remove list dict keys values items get setdefault update popitem Delete
_set_item __getitem__ __contains__ __len__ len index count copy sorted __is__ __isnot__ __not__ __range_length
__derive_index floordiv mod divmod neg factorial gcd isqrt degrees radians ldexp modf frexp fabs gamma hex oct bin ord
chr bit_length mathremainder round ceil floor percentFormat format str join lower upper strip lstrip rstrip startswith
endswith replace find rfind split splitlines isdigit isalpha isalnum isspace islower isupper istitle isidentifier
capitalize title center ljust rjust zfill partition rpartition swapcase casefold expandtabs slice
add mul __round_to_zero_floordiv warn IntImplicit cos sin
"""
_IN_PLACE_TOO = set((_ELEMENTWISE + _ACTIVATIONS + _SHAPES + _REDUCTIONS + _LAYERS + _PRODUCTS).split())
_ALONE = set((_MAKING + _TYPES + _LISTS_TEXTS_NUMBERS).split())
_DRAWN = {"bernoulli_", "normal_", "uniform_", "exponential_", "random_", "log_normal_", "geometric_", "cauchy_"}

ATEN = frozenset({*_IN_PLACE_TOO, *_ALONE, *_DRAWN, *(f"{name}_" for name in _IN_PLACE_TOO if not name.endswith("_"))})
"""Names of ATen, in place too."""

_PRIM = """
NumToTensor RaiseException abs data device dtype is_cpu is_cuda is_mkldnn is_mps is_nested is_quantized is_sparse
is_meta is_xpu itemsize layout max min name nbytes ndim rangelist requires_grad shape type unchecked_unwrap_optional
"""
PRIM = frozenset(_PRIM.split())
"""Names of torch's own namespace `prim`, as programs are written with them."""
