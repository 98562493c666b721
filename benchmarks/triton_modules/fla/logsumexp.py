"""The log-sum-exp of flash-linear-attention."""

from fla.ops.utils.logsumexp import logsumexp_fwd


def forward(x):
    return logsumexp_fwd(x)
