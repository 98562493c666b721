"""The formulas of the corpus, each written once and carried out by any arithmetic.

All compute in float32 whatever the storage dtype, as a kernel does; the caller rounds the results.
"""

from __future__ import annotations

import math

import torch

from corpus.arithmetic import Arithmetic, Tensor

EPS = 1e-5


# --- normalisation ------------------------------------------------------------------------------------------


def rmsnorm(a: Arithmetic, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    x, w = a.load(x), a.load(w)
    r = a.rsqrt(a.sum(x * x, -1) / x.shape[-1] + EPS)
    return (x * r * w,)


def rmsnorm_scaled(a: Arithmetic, x: Tensor, w: Tensor, scale: Tensor) -> tuple[Tensor, ...]:
    return (a.divide(rmsnorm(a, x, w)[0], scale),)


def scaled_product(a: Arithmetic, x: Tensor, w: Tensor, scale: Tensor) -> tuple[Tensor, ...]:
    return (a.multiply(a.load(x), a.load(w).T) * scale,)


def rmsnorm_backward(a: Arithmetic, x: Tensor, w: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    x, w, g = a.load(x), a.load(w), a.load(g)
    r = a.rsqrt(a.sum(x * x, -1) / x.shape[-1] + EPS)
    gw = g * w
    dot = a.sum(gw * x, -1) / x.shape[-1]
    return r * (gw - x * (r * r * dot)), a.sum(g * x * r, 0).squeeze(0)


def layernorm(a: Arithmetic, x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    x, w, b = a.load(x), a.load(w), a.load(b)
    centred, r = _centred(a, x)
    return (centred * r * w + b,)


def layernorm_one_pass(a: Arithmetic, x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    """The variance as the mean of squares less the square of the mean."""
    x, w, b = a.load(x), a.load(w), a.load(b)
    mean = a.sum(x, -1) / x.shape[-1]
    r = a.rsqrt(a.sum(x * x, -1) / x.shape[-1] - mean * mean + EPS)
    return ((x - mean) * r * w + b,)


def layernorm_shifted(a: Arithmetic, x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    """One pass over the distances from the mean of the row's first values; a single one may be far from all others."""
    x, w, b = a.load(x), a.load(w), a.load(b)
    n = x.shape[-1]
    moved = x - x[..., :64].mean(-1, keepdim=True)
    mean = a.sum(moved, -1) / n
    r = a.rsqrt(a.sum(moved * moved, -1) / n - mean * mean + EPS)
    return ((moved - mean) * r * w + b,)


def layernorm_welford(a: Arithmetic, x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    """Mean and squares of tiles, merged as Chan and Welford do."""
    x, w, b = a.load(x), a.load(w), a.load(b)
    count, mean, squares = 0, torch.zeros_like(x[..., :1]), torch.zeros_like(x[..., :1])
    for tile in x.split(64, -1):
        size = tile.shape[-1]
        inner = a.sum(tile, -1) / size
        moved = inner - mean
        squares = squares + a.sum((tile - inner).square(), -1) + moved.square() * (count * size / (count + size))
        mean = mean + moved * (size / (count + size))
        count += size
    return ((x - mean) * a.rsqrt(squares / count + EPS) * w + b,)


def layernorm_scale_shift(a: Arithmetic, x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    """x * scale + shift with both folded, which subtracts large terms late."""
    x, w, b = a.load(x), a.load(w), a.load(b)
    mean = a.sum(x, -1) / x.shape[-1]
    _, r = _centred(a, x)
    scale = r * w
    return (x * scale + (b - mean * scale),)


def layernorm_backward(a: Arithmetic, x: Tensor, w: Tensor, b: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    x, w, g = a.load(x), a.load(w), a.load(g)
    centred, r = _centred(a, x)
    normed, gw = centred * r, g * w
    n = x.shape[-1]
    dx = r * (gw - a.sum(gw, -1) / n - normed * (a.sum(gw * normed, -1) / n))
    return dx, a.sum(g * normed, 0).squeeze(0), a.sum(g, 0).squeeze(0)


def _centred(a: Arithmetic, x: Tensor) -> tuple[Tensor, Tensor]:
    n = x.shape[-1]
    centred = x - a.sum(x, -1) / n
    return centred, a.rsqrt(a.sum(centred * centred, -1) / n + EPS)


# --- softmax and cross entropy ------------------------------------------------------------------------------


def softmax(a: Arithmetic, x: Tensor) -> tuple[Tensor, ...]:
    x = a.load(x)
    e = a.exp(a.inner(x - x.amax(-1, keepdim=True)))
    return (a.divide(e, a.sum(e, -1)),)


def softmax_exp2(a: Arithmetic, x: Tensor) -> tuple[Tensor, ...]:
    """exp2 of inputs scaled beforehand, as attention kernels do."""
    x = a.load(x) * (1 / math.log(2))
    e = torch.exp2(a.inner(x - x.amax(-1, keepdim=True)))
    return (a.divide(e, a.sum(e, -1)),)


def softmax_online(a: Arithmetic, x: Tensor) -> tuple[Tensor, ...]:
    """Maximum and sum in one pass over tiles; the sum is rescaled whenever the maximum grows."""
    x = a.load(x)
    top = torch.full_like(x[..., :1], -torch.inf)
    total = torch.zeros_like(top)
    for tile in x.split(64, -1):
        new = torch.maximum(top, tile.amax(-1, keepdim=True))
        total = total * a.exp(top - new) + a.sum(a.exp(tile - new), -1)
        top = new
    return (a.divide(a.exp(x - top), total),)


def softmax_backward(a: Arithmetic, x: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    (y,) = softmax(a, x)
    g = a.load(g)
    return (y * (g - a.sum(g * y, -1)),)


def cross_entropy(a: Arithmetic, x: Tensor, target: Tensor) -> tuple[Tensor, ...]:
    x = a.load(x)
    top = x.amax(-1, keepdim=True)
    lse = a.log(a.sum(a.exp(a.inner(x - top)), -1)) + top
    losses = lse - x.gather(-1, target.unsqueeze(-1))
    return (a.sum(losses, 0).reshape(()) / x.shape[0],)


def cross_entropy_backward(a: Arithmetic, x: Tensor, target: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    (y,) = softmax(a, x)
    hot = torch.nn.functional.one_hot(target, x.shape[-1]).to(y.dtype)
    return ((y - hot) * (a.load(g) / x.shape[0]),)


# --- products -----------------------------------------------------------------------------------------------


def linear_relu(a: Arithmetic, x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    x, w, b = a.load(x), a.load(w), a.load(b)
    return ((a.multiply(x, w.t()) + b).clamp_min(0),)


def linear_relu_backward(a: Arithmetic, x: Tensor, w: Tensor, b: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    x, w, b, g = a.load(x), a.load(w), a.load(b), a.load(g)
    masked = torch.where(a.multiply(x, w.t()) + b > 0, g, 0)
    return a.multiply(masked, w), a.multiply(masked.t(), x), a.sum(masked, 0).squeeze(0)


def conv3x3(a: Arithmetic, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    x, w = a.load(x), a.load(w)
    n, c, height, width = x.shape
    columns = torch.nn.functional.unfold(x, 3, padding=1).movedim(1, 0).reshape(c * 9, -1)
    y = a.multiply(w.reshape(w.shape[0], -1), columns)
    return (y.view(w.shape[0], n, height, width).movedim(0, 1),)


_F2 = (
    torch.tensor([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], dtype=torch.float32),
    torch.tensor([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], dtype=torch.float32),
    torch.tensor([[1, 1, 1, 0], [0, 1, -1, -1]], dtype=torch.float32),
)
_F4 = (
    torch.tensor(
        [
            [4, 0, -5, 0, 1, 0],
            [0, -4, -4, 1, 1, 0],
            [0, 4, -4, -1, 1, 0],
            [0, -2, -1, 2, 1, 0],
            [0, 2, -1, -2, 1, 0],
            [0, 4, 0, -5, 0, 1],
        ],
        dtype=torch.float32,
    ),
    torch.tensor(
        [
            [1 / 4, 0, 0],
            [-1 / 6, -1 / 6, -1 / 6],
            [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6],
            [1 / 24, -1 / 12, 1 / 6],
            [0, 0, 1],
        ],
        dtype=torch.float32,
    ),
    torch.tensor(
        [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
        dtype=torch.float32,
    ),
)


def conv3x3_winograd(a: Arithmetic, x: Tensor, w: Tensor, tile: int) -> tuple[Tensor, ...]:
    """Winograd F(tile x tile, 3x3): fewer products, larger intermediate values."""
    into, kernel, out = _F2 if tile == 2 else _F4
    x, w = a.load(x), a.load(w)
    n, c, height, width = x.shape
    rows, cols = -(-height // tile), -(-width // tile)
    padded = torch.nn.functional.pad(x, (1, cols * tile - width + 1, 1, rows * tile - height + 1))
    tiles = padded.unfold(2, tile + 2, tile).unfold(3, tile + 2, tile)
    v = (into @ tiles @ into.t()).permute(4, 5, 1, 0, 2, 3).reshape((tile + 2) ** 2, c, -1)
    u = (kernel @ w @ kernel.t()).permute(2, 3, 0, 1).reshape((tile + 2) ** 2, w.shape[0], c)
    products = torch.stack([a.multiply(left, right) for left, right in zip(u, v, strict=True)])
    m = products.view(tile + 2, tile + 2, w.shape[0], n, rows, cols).permute(3, 2, 4, 5, 0, 1)
    y = (out @ m @ out.t()).transpose(3, 4).reshape(n, w.shape[0], rows * tile, cols * tile)
    return (y[..., :height, :width],)


# --- pooling ------------------------------------------------------------------------------------------------


def moved(a: Arithmetic, x: Tensor) -> tuple[Tensor, ...]:
    return (a.load(x).t().flip(0),)


def maxpool(a: Arithmetic, x: Tensor) -> tuple[Tensor, ...]:
    return (torch.nn.functional.max_pool2d(a.load(x), 2),)


def maxpool_backward(a: Arithmetic, x: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    """Each gradient goes to the first of the largest in its window."""
    x, g = a.load(x), a.load(g)
    n, c, height, width = x.shape
    windows = x[..., : height // 2 * 2, : width // 2 * 2].unfold(2, 2, 2).unfold(3, 2, 2).flatten(-2)
    hot = torch.nn.functional.one_hot(windows.argmax(-1), 4).to(g.dtype) * g.unsqueeze(-1)
    inside = hot.unflatten(-1, (2, 2)).transpose(3, 4).reshape(n, c, height // 2 * 2, width // 2 * 2)
    return (torch.nn.functional.pad(inside, (0, width % 2, 0, height % 2)),)
