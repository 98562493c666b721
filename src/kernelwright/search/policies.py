"""The policies by name."""

from __future__ import annotations

from kernelwright.errors import KernelwrightError
from kernelwright.search.greedy import Greedy
from kernelwright.search.islands import Islands
from kernelwright.search.policy import Policy
from kernelwright.search.uniform import Uniform

POLICIES: dict[str, Policy] = {policy.name: policy for policy in (Greedy(), Islands(), Uniform())}


def policy_named(name: str) -> Policy:
    try:
        return POLICIES[name]
    except KeyError:
        raise KernelwrightError(f"unknown policy {name!r}: choose from {', '.join(POLICIES)}") from None
