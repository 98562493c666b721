"""Prints the errors of products and convolutions on real tensor cores: the rule of probe rows rests on them.

    python benchmarks/gpu/products_precision.py

1. Products of a few schemes (float32, split-K, TF32, 2xTF32, 3xTF32, parts of bf16 and fp16): the largest error in
   units of roundoff of the terms, on rows of one and of two terms, of one term on wide scales, and on ordinary rows.
2. The share of predicted errors of shortened factors in the errors of each scheme.
3. Convolutions as cuDNN chooses, on images of single pixels and on ordinary ones, in units of the terms and of the
   largest products of the plane.

What an H200 printed is in results/products_precision_h200.txt, and docs/precision.md quotes it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

Tensor = torch.Tensor
Product = Callable[[Tensor, Tensor], Tensor]
Draw = Callable[[int, int, int], tuple[Tensor, Tensor]]

CUDA = torch.device("cuda")
U = 2.0**-24
TF32_BITS = 11
DRAWS = 5
SIZES = ((48, 512, 48), (256, 4096, 512), (1000, 1003, 77))
SHARED = ((256, 64, 256), (256, 512, 256), (256, 4096, 512))
IMAGES = ((8, 64, 64, 56, 3), (32, 128, 128, 28, 3), (8, 16, 16, 18, 3), (4, 64, 64, 64, 5), (8, 64, 64, 56, 1))


def to_tf32(x: Tensor) -> Tensor:
    drop = 24 - TF32_BITS
    words = x.contiguous().view(torch.int32)
    words = words + ((words >> drop) & 1) + ((1 << (drop - 1)) - 1)
    return (words >> drop << drop).view(torch.float32)


def to_bf16(x: Tensor) -> Tensor:
    return x.bfloat16().float()


def to_fp16(x: Tensor) -> Tensor:
    return x.half().float()


def tf32_product(a: Tensor, b: Tensor) -> Tensor:
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return a @ b
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def narrow_product(form: torch.dtype, a: Tensor, b: Tensor) -> Tensor:
    return torch.mm(a.to(form), b.to(form), out_dtype=torch.float32)


def split(x: Tensor, parts: int, shorten: Callable[[Tensor], Tensor]) -> list[Tensor]:
    found = []
    for _ in range(parts):
        found.append(shorten(x))
        x = x - found[-1]
    return found


def in_parts(
    shorten: Callable[[Tensor], Tensor],
    multiply: Product,
    parts: tuple[int, int],
    most: int,
    chunk: int | None = None,
) -> Product:
    """The products of part i of one factor and part j of the other with i + j at most `most`, small ones first. With
    `chunk`, sums of so many terms are added outside of the tensor core."""

    def product(a: Tensor, b: Tensor) -> Tensor:
        left, right = split(a, parts[0], shorten), split(b, parts[1], shorten)
        pairs = [(p, q) for i, p in enumerate(left) for j, q in enumerate(right) if i + j <= most]
        total = torch.zeros(a.shape[0], b.shape[1], device=a.device)
        step = chunk or a.shape[1]
        for k in range(0, a.shape[1], step):
            inside = torch.zeros_like(total)
            for p, q in reversed(pairs):
                inside = inside + multiply(p[:, k : k + step].contiguous(), q[k : k + step].contiguous())
            total += inside
        return total

    return product


def split_k(a: Tensor, b: Tensor) -> Tensor:
    total = torch.zeros(a.shape[0], b.shape[1], device=a.device)
    for p, q in zip(a.split(128, 1), b.split(128, 0), strict=True):
        total += p @ q
    return total


_bf16, _fp16 = partial(narrow_product, torch.bfloat16), partial(narrow_product, torch.float16)
SCHEMES: dict[str, Product] = {
    "eager f32": torch.matmul,
    "splitk f32": split_k,
    "TF32": tf32_product,
    "2xTF32 left": in_parts(to_tf32, tf32_product, (2, 1), 1),
    "2xTF32 right": in_parts(to_tf32, tf32_product, (1, 2), 1),
    "3xTF32 nopromo": in_parts(to_tf32, tf32_product, (2, 2), 1),
    "3xTF32 promo32": in_parts(to_tf32, tf32_product, (2, 2), 1, 32),
    "3xTF32 promo128": in_parts(to_tf32, tf32_product, (2, 2), 1, 128),
    "bf16x3": in_parts(to_bf16, _bf16, (2, 2), 1),
    "bf16x4": in_parts(to_bf16, _bf16, (2, 2), 2),
    "bf16x6": in_parts(to_bf16, _bf16, (3, 3), 2),
    "bf16x6 promo": in_parts(to_bf16, _bf16, (3, 3), 2, 64),
    "bf16x9": in_parts(to_bf16, _bf16, (3, 3), 4),
    "fp16x3": in_parts(to_fp16, _fp16, (2, 2), 1),
}


def full(*shape: int, octaves: float = 0.0) -> Tensor:
    """Full mantissas, on scales of up to 2^+-octaves."""
    return torch.randn(shape, device=CUDA) * torch.exp2((torch.rand(shape, device=CUDA) * 2 - 1) * octaves)


def one_term(m: int, k: int, n: int, octaves: float = 0.0, wide_right: bool = False) -> tuple[Tensor, Tensor]:
    a = torch.zeros(m, k, device=CUDA)
    a[torch.arange(m, device=CUDA), torch.randint(k, (m,), device=CUDA)] = full(m, octaves=octaves)
    return a, full(k, n, octaves=octaves if wide_right else 0.0)


def two_terms(m: int, k: int, n: int) -> tuple[Tensor, Tensor]:
    """The second cancels most of the first in one column."""
    a, b = one_term(m, k, n)
    rows = torch.arange(m, device=CUDA)
    first = a.abs().argmax(1)
    second = (first + 1 + torch.randint(k - 1, (m,), device=CUDA)) % k
    column = rows % n
    a[rows, second] = -a[rows, first] * b[first, column] / b[second, column]
    return a, b


def ordinary(m: int, k: int, n: int) -> tuple[Tensor, Tensor]:
    return full(m, k), full(k, n)


def positive(m: int, k: int, n: int) -> tuple[Tensor, Tensor]:
    return full(m, k).abs(), full(k, n).abs()


DRAWN: dict[str, Draw] = {
    "one": one_term,
    "one x30": partial(one_term, octaves=30.0),
    "one ab30": partial(one_term, octaves=30.0, wide_right=True),
    "two": two_terms,
    "normal": ordinary,
    "positive": positive,
}


def largest_error(product: Product, draw: Draw, size: tuple[int, int, int]) -> float:
    worst = 0.0
    for seed in range(DRAWS):
        torch.manual_seed(100 + seed)
        a, b = draw(*size)
        error = (product(a, b).double() - a.double() @ b.double()).abs()
        terms = (a.abs().double() @ b.abs().double()).clamp_min(1e-300)
        worst = max(worst, float((error / terms / U).nan_to_num(nan=float("inf")).max()))
    return worst


def products() -> None:
    for size in SIZES:
        for name, product in SCHEMES.items():
            row = "".join(f"{kind} {largest_error(product, draw, size):10.3g}  " for kind, draw in DRAWN.items())
            print(size, f"{name:18}", row, flush=True)


def share(error: Tensor, predicted: Tensor, exact: Tensor) -> float:
    size = predicted.abs()
    weight = (size + size.mean()).square().reciprocal() * (size > U * exact.abs())
    return float((error * predicted * weight).sum() / (predicted.square() * weight).sum())


def shares() -> None:
    for m, k, n in SHARED:
        torch.manual_seed(5)
        a, b = full(m, k), full(k, n)
        exact = a.double() @ b.double()
        (ah, al), (bh, bl) = ([part.double() for part in split(x, 2, to_bf16)] for x in (a, b))
        predicted = {
            "tf32": to_tf32(a).double() @ to_tf32(b).double() - exact,
            "bf16x3": ah @ bh + ah @ bl + al @ bh - exact,
            "2xl": a.double() @ to_tf32(b).double() - exact,
            "2xr": to_tf32(a).double() @ b.double() - exact,
        }
        for name, product in SCHEMES.items():
            error = product(a, b).double() - exact
            held = {form: round(share(error, one, exact), 4) for form, one in predicted.items()}
            print("share", (m, k, n), f"{name:18}", held, flush=True)


def image_errors(size: tuple[int, int, int, int, int], pixels: bool) -> tuple[float, float]:
    """In units of the terms, and of the largest products of the plane."""
    n, c, o, height, window = size
    torch.manual_seed(3)
    w, x = full(o, c, window, window), full(n, c, height, height)
    if pixels:
        kept, step = torch.zeros_like(x), max(window, 3)
        for image, channel in enumerate(torch.randint(c, (n,)).tolist()):
            kept[image, channel, 1::step, 1::step] = 1
        x = x * kept
    pad = window // 2
    error = (F.conv2d(x, w, padding=pad).double() - F.conv2d(x.double(), w.double(), padding=pad)).abs()
    terms = F.conv2d(x.double().abs(), w.double().abs(), padding=pad)
    plane = (x.abs().amax((2, 3)).double().unsqueeze(1) * w.abs().amax((2, 3)).double().unsqueeze(0)).sum(2)
    by_terms = (error / terms.clamp_min(1e-30))[terms > 0].max()
    return round(float(by_terms) / U, 1), round(float((error / plane[:, :, None, None]).max()) / U, 2)


def convolutions() -> None:
    for size in IMAGES:
        for tried in (False, True):
            for tf32 in (False, True):
                torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = tried, tf32
                pixel, normal = (image_errors(size, pixels) for pixels in (True, False))
                how = f"{'benchmark' if tried else 'default'} {'tf32' if tf32 else 'fp32'}"
                print("conv", size, how, "pixel(terms,plane)", pixel, "normal", normal, flush=True)


def main() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    print(torch.cuda.get_device_name())
    products()
    shares()
    convolutions()


if __name__ == "__main__":
    main()
