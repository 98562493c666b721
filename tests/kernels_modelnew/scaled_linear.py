"""A problem in KernelBench's form."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_features, out_features, scale):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = scale

    def forward(self, x):
        return torch.relu(self.linear(x)) * self.scale


batch_size = 32


def get_inputs():
    return [torch.rand(batch_size, 48)]


def get_init_inputs():
    return [48, 40, 0.5]
