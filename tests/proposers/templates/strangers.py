"""Operations as people write them who do not know the templates: functions and modules with example inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Example = tuple[Any, ...]


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return scores.masked_fill(mask, float("-inf")).softmax(-1)


def bf16_gate(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(gate)


def gelu_gate(x: torch.Tensor) -> torch.Tensor:
    value, gate = x.chunk(2, dim=-1)
    return value * F.gelu(gate)


def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Block(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        query, key, value = self.attention(self.norm1(x)).split(width, dim=2)
        query, key, value = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in (query, key, value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def swish_of_groups(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.silu(F.group_norm(x, 4, weight, bias))


def expert_gates(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scores, experts = torch.topk(x @ weight.t(), 2, dim=-1)
    return torch.softmax(scores, -1), experts


def running_logsumexp(x: torch.Tensor) -> torch.Tensor:
    return torch.logcumsumexp(x, dim=1)


def average_in_space(x: torch.Tensor) -> torch.Tensor:
    return F.avg_pool3d(x, 3, stride=2, padding=1, count_include_pad=False)


def shuffled_up(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.pixel_shuffle(F.conv2d(x, weight, bias, padding=1), 2)


def biased_scores(query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.einsum("bhqd,bhkd->bhqk", query, key) / math.sqrt(query.shape[-1]) + bias


def causal_scores(scores: torch.Tensor) -> torch.Tensor:
    length = scores.shape[-1]
    mask = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
    return torch.softmax(scores.masked_fill(mask, float("-inf")), dim=-1)


def divergence(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.kl_div(F.log_softmax(logits, -1), F.softmax(target, -1), reduction="batchmean")


def huber(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.huber_loss(x, y, delta=0.7)


def instances(x: torch.Tensor) -> torch.Tensor:
    return F.instance_norm(x)


def bag(index: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(index, table, mode="mean")


def scattered_mean(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(8, values.shape[1]).index_add(0, index, values)
    count = torch.zeros(8).index_add(0, index, torch.ones_like(values[:, 0]))
    return total / count.clamp(min=1).unsqueeze(1)


def local_response(x: torch.Tensor) -> torch.Tensor:
    return F.local_response_norm(x, 3)


def enlarged(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, size=(13, 9), mode="bilinear", align_corners=True)


class NormedLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.utils.weight_norm(nn.Linear(12, 20))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def alibi(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
    length = query.shape[2]
    place = torch.arange(length)
    away = (place[None, :] - place[:, None]).clamp(max=0)
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5 + slopes[:, None, None] * away
    scores = scores.masked_fill(place[None, :] > place[:, None], float("-inf"))
    return scores.softmax(-1) @ value


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


def sampled(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    return F.grid_sample(x, grid, align_corners=False, padding_mode="zeros")


def masked_mean(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    kept = mask.unsqueeze(-1).to(x.dtype)
    return (x * kept).sum(1) / kept.sum(1).clamp(min=1e-9)


def windows_of_image(x: torch.Tensor) -> torch.Tensor:
    return F.unfold(x, 3, padding=1, stride=2)


def put_rows(base: torch.Tensor, index: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    made = base.clone()
    made[index] = rows
    return made


def added_rows(base: torch.Tensor, index: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return base.index_put((index,), rows, accumulate=True)


def distances(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cdist(x, y)


def quantised(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x @ (weight.to(x.dtype) * scale[:, None]).t()


def label_smoothing(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits, target, label_smoothing=0.1)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape) + sum(shape))).to(dtype)


def whole(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(high))


def encoder_layer(*, train: bool) -> nn.Module:
    made = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    return made.train(train)


BF16 = torch.bfloat16
ASKED: dict[str, Callable[[], tuple[Callable[..., Any], Example]]] = {
    "masked_softmax": lambda: (masked_softmax, (normal(4, 9, 33), normal(4, 9, 33) > 0.8)),
    "bf16_gate": lambda: (bf16_gate, (normal(12, 64, dtype=BF16), normal(12, 64, dtype=BF16))),
    "gelu_gate": lambda: (gelu_gate, (normal(6, 11, 32),)),
    "rotary": lambda: (rotary, (normal(2, 3, 10, 16), normal(10, 16), normal(10, 16))),
    "transformer_block": lambda: (Block(), (normal(2, 10, 32),)),
    "encoder_layer": lambda: (encoder_layer(train=False), (normal(2, 7, 32),)),
    "encoder_layer_train": lambda: (encoder_layer(train=True), (normal(2, 7, 32),)),
}
KEPT_BACK: dict[str, Callable[[], tuple[Callable[..., Any], Example]]] = {
    "swish_of_groups": lambda: (swish_of_groups, (normal(3, 8, 5, 6), normal(8), normal(8))),
    "expert_gates": lambda: (expert_gates, (normal(14, 16), normal(6, 16))),
    "running_logsumexp": lambda: (running_logsumexp, (normal(5, 21),)),
    "average_in_space": lambda: (average_in_space, (normal(2, 3, 7, 8, 9),)),
    "shuffled_up": lambda: (shuffled_up, (normal(2, 3, 6, 7), normal(8, 3, 3, 3), normal(8))),
    "biased_scores": lambda: (biased_scores, (normal(2, 3, 7, 8), normal(2, 3, 9, 8), normal(3, 7, 9))),
    "causal_scores": lambda: (causal_scores, (normal(2, 3, 12, 12),)),
    "divergence": lambda: (divergence, (normal(7, 19), normal(7, 19))),
    "huber": lambda: (huber, (normal(9, 13), 2 * normal(13, 9).t().contiguous())),
    "instances": lambda: (instances, (normal(2, 3, 4, 5, 6),)),
    "bag": lambda: (bag, (whole(11, 6, 4), normal(11, 8))),
    "scattered_mean": lambda: (scattered_mean, (normal(15, 6), whole(8, 15))),
    "local_response": lambda: (local_response, (normal(2, 6, 5, 7),)),
    "enlarged": lambda: (enlarged, (normal(2, 3, 6, 5),)),
    "normed_linear": lambda: (NormedLinear(), (normal(5, 12),)),
    "alibi": lambda: (alibi, (normal(2, 3, 8, 4), normal(2, 3, 8, 4), normal(2, 3, 8, 4), normal(3))),
    "rms_norm_bf16": lambda: (rms_norm, (normal(9, 40, dtype=BF16), normal(40, dtype=BF16))),
    "sampled": lambda: (sampled, (normal(2, 3, 6, 7), normal(2, 4, 5, 2).tanh())),
    "masked_mean": lambda: (masked_mean, (normal(3, 9, 8), normal(3, 9) > 0)),
    "windows_of_image": lambda: (windows_of_image, (normal(2, 3, 8, 9),)),
    "put_rows": lambda: (put_rows, (normal(12, 5), torch.randperm(12)[:4], normal(4, 5))),
    "added_rows": lambda: (added_rows, (normal(12, 5), whole(12, 7), normal(7, 5))),
    "distances": lambda: (distances, (normal(6, 5), normal(7, 5))),
    "quantised": lambda: (quantised, (normal(6, 16), whole(255, 10, 16).to(torch.int8), normal(10))),
    "label_smoothing": lambda: (label_smoothing, (normal(9, 14), whole(14, 9))),
    "lstm": lambda: (nn.LSTM(6, 8, 2, batch_first=True, bidirectional=True), (normal(3, 5, 6),)),
    "gru": lambda: (nn.GRU(6, 8, 1), (normal(5, 3, 6),)),
}
