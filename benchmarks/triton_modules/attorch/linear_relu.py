"""attorch's linear layer with ReLU."""

from attorch.linear_layer import LinearAutoGrad


def forward(x, weight, bias):
    return LinearAutoGrad.apply(x, weight.t(), bias, "relu")
