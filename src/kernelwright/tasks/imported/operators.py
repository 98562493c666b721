"""The operators that an imported graph may name: PyTorch's own, which compute and touch nothing but their arguments.

A list of names and not a rule: of the thousands of operators below `torch.ops`, many read files, take raw storage, or
trust numbers that only PyTorch itself is meant to give them. What draws random numbers is not on it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from kernelwright.tasks.dims import TaskError
from kernelwright.tasks.imported.arithmetic import CHECKED
from kernelwright.tasks.imported.recurrent import RECURRENT

_POINTWISE = """
abs absolute acos acosh add addcdiv addcmul asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not
bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp clamp_max clamp_min clip copysign cos cosh deg2rad div divide
elu eq erf erfc erfinv exp exp2 expm1 fill fix floor floor_divide fmax fmin fmod frac gcd ge gelu glu greater
greater_equal gt hardshrink hardsigmoid hardswish hardtanh heaviside hypot isclose isfinite isinf isnan isneginf
isposinf le leaky_relu lerp less less_equal lgamma log log10 log1p log2 log_sigmoid logaddexp logaddexp2
logical_and logical_not
logical_or logical_xor logit lt masked_fill maximum minimum mish mul multiply nan_to_num ne neg negative not_equal
polygamma positive pow prelu rad2deg reciprocal relu relu6 remainder round rsqrt rsub selu sgn sigmoid sign signbit silu
sin sinc sinh softplus softshrink sqrt square sub subtract tan tanh threshold true_divide trunc where xlogy digamma
special_expit special_erf special_exp2 special_expm1 special_log1p
"""
_REDUCTIONS = """
all amax amin aminmax any argmax argmin count_nonzero cummax cummin cumprod cumsum frobenius_norm kthvalue
linalg_vector_norm linalg_norm linalg_matrix_norm logcumsumexp logsumexp max mean median min mode nanmean nanmedian
nansum norm nuclear_norm prod sort argsort std std_mean sum topk trace var var_mean softmax log_softmax _softmax
_log_softmax dist cdist pairwise_distance cosine_similarity cov corrcoef histc searchsorted bucketize
"""
_PRODUCTS = """
addbmm addmm addmv addr baddbmm bilinear bmm chain_matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d
conv_transpose3d convolution cross dot einsum ger inner kron linalg_cross linalg_matmul linalg_multi_dot linalg_vecdot
linear matmul mm mv outer scaled_dot_product_attention tensordot vdot lstm gru rnn_tanh rnn_relu lstm_cell gru_cell
rnn_tanh_cell rnn_relu_cell embedding matrix_power linalg_matrix_power linalg_cholesky linalg_cholesky_ex
linalg_solve_triangular
"""
_NORMS_AND_WINDOWS = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
_adaptive_avg_pool2d _adaptive_avg_pool3d avg_pool1d avg_pool2d avg_pool3d batch_norm group_norm instance_norm
layer_norm native_layer_norm native_group_norm rms_norm max_pool1d max_pool2d
max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices unfold im2col col2im pixel_shuffle
pixel_unshuffle channel_shuffle grid_sampler affine_grid_generator upsample_nearest1d upsample_nearest2d
upsample_nearest3d upsample_bilinear2d upsample_linear1d upsample_trilinear3d upsample_bicubic2d pad constant_pad_nd
reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
"""
_LOSSES = """
binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy_loss
hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss
nll_loss nll_loss_nd nll_loss2d poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss
"""
_SHAPES = """
alias atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors broadcast_to cat chunk clone column_stack
combinations concat concatenate contiguous detach detach_ diag diag_embed diagonal diagonal_scatter diff dsplit dstack
expand expand_as flatten flip fliplr flipud gather hsplit hstack index index_add index_copy index_fill index_put
index_select lift_fresh lift_fresh_copy masked_scatter matrix_H mH mT meshgrid moveaxis movedim narrow
narrow_copy numpy_T one_hot permute put ravel repeat repeat_interleave reshape reshape_as roll rot90 row_stack scatter
scatter_add scatter_reduce select select_scatter slice slice_scatter split split_with_sizes squeeze stack swapaxes
swapdims t take take_along_dim tensor_split tile to _to_copy type_as transpose tril triu unbind unflatten unsqueeze view
view_as _unsafe_view vsplit vstack copy cartesian_prod adjoint
"""
_FACTORIES = """
arange eye full full_like linspace logspace new_full new_ones new_zeros ones ones_like scalar_tensor tril_indices
triu_indices zeros zeros_like
"""
_SIZES = "size sym_size sym_numel sym_stride numel dim"
_EMPTY = {"empty": "zeros", "new_empty": "new_zeros", "empty_like": "zeros_like"}  # memory that was never written

NAMES = frozenset(
    " ".join((_POINTWISE, _REDUCTIONS, _PRODUCTS, _NORMS_AND_WINDOWS, _LOSSES, _SHAPES, _FACTORIES, _SIZES)).split()
)
_ALSO_IN_PLACE = """
copy cumprod cumsum fill index_add index_copy index_fill index_put masked_scatter put scatter scatter_add scatter_reduce
squeeze tril triu unsqueeze zero addbmm addmm addmv addr baddbmm transpose t
"""
IN_PLACE = frozenset(_POINTWISE.split()) | frozenset(_ALSO_IN_PLACE.split())

SYMBOLIC: dict[str, Callable[..., Any]] = {
    "getitem": operator.getitem,
    **{name: getattr(operator, name) for name in ("floordiv", "truediv", "neg")},
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_")},
    **{f"sym_{name}": getattr(torch, f"sym_{name}") for name in ("max", "min", "int", "float", "not", "sum", "sqrt")},
    **{name: getattr(math, name) for name in ("ceil", "floor", "trunc")},
    **CHECKED,
}
FORBIDDEN_TYPES = ("Generator", "Storage", "Stream", "Dimname")


def is_allowed(name: str) -> bool:
    """Whether a packet of aten may be called: `add`, or in place `add_`."""
    return name in NAMES or name in _EMPTY or (name.endswith("_") and name[:-1] in IN_PLACE)


@cache
def schema_of(op: str) -> Any:
    """Of an operator of aten that `operator_named` takes."""
    _, name, overload = op.split(".")
    return getattr(getattr(torch.ops.aten, _EMPTY.get(name, name)), _overload(name, overload))._schema


@cache
def makes_of_nothing(op: str) -> bool:
    """Whether an operator takes a device and no tensor that would tell it one."""
    if not op.startswith("aten."):
        return False
    arguments = schema_of(op).arguments
    placed = any(one.name == "device" and one.kwarg_only for one in arguments)
    return placed and not any("Tensor" in str(one.real_type) for one in arguments)


@cache
def operator_named(op: str) -> Callable[..., Any]:
    """The function for `aten.add.Tensor` or `sym.mul`; TaskError where it is not on the list."""
    family, name, *rest = op.split(".")
    if family == "sym" and not rest and name in SYMBOLIC:
        return SYMBOLIC[name]
    if family != "aten" or not is_allowed(name) or len(rest) != 1:
        raise TaskError(f"it uses the operator {op}, which an imported task may not")
    found = getattr(getattr(torch.ops.aten, _EMPTY.get(name, name), None), _overload(name, rest[0]), None)
    if not isinstance(found, torch._ops.OpOverload):
        raise TaskError(f"it uses the operator {op}, which this PyTorch ({torch.__version__}) does not have")
    given = [str(argument.type) for argument in found._schema.arguments]
    seeded = torch.Tag.nondeterministic_seeded in found.tags and (name not in SEEDED or rest[0] == "data")
    if seeded or any(part in text for text in given for part in FORBIDDEN_TYPES):
        raise TaskError(f"it uses the operator {op}, which does more than compute with its arguments")
    return _guarded(name, found)


# They draw numbers only where a dropout is asked for, which the tracer takes out and `rebuild` refuses.
SEEDED = frozenset({"scaled_dot_product_attention", *RECURRENT})


def _overload(name: str, overload: str) -> str:
    return "default" if name in _EMPTY and overload == "memory_format" else overload


def attention(query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
    """torch takes keys and values of different lengths, and reads beyond the shorter ones."""
    if key.shape[-2] != value.shape[-2]:
        raise ValueError("scaled_dot_product_attention needs as many values as keys")
    return torch.ops.aten.scaled_dot_product_attention.default(query, key, value, *rest, **options)


def _guarded(name: str, found: Callable[..., Any]) -> Callable[..., Any]:
    return attention if name == "scaled_dot_product_attention" else RECURRENT.get(name, found)
