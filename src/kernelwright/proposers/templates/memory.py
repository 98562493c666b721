"""Which buffers of a plan share memory: one that is no longer read makes room for one that is written later."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

FEW = 6  # buffers that all get memory of their own, so that steps stay free to run side by side


def homes(uses: Sequence[Collection[str]], buffers: Sequence[str]) -> dict[str, str]:
    """For each buffer the one whose memory it lies in. `uses` are the tensors that each step touches, in order."""
    if len(buffers) <= FEW:
        return {name: name for name in buffers}
    last = {name: number for number, names in enumerate(uses) for name in names}
    found: dict[str, str] = {}
    free: list[str] = []  # what was given back first is taken first
    for number, names in enumerate(uses):
        for name in buffers:
            if name in names and name not in found:
                found[name] = free.pop(0) if free else name
        free += [found[name] for name in buffers if name in names and last[name] == number]
    return {name: found.get(name, name) for name in buffers}


def residents(homes_of: Mapping[str, str]) -> dict[str, list[str]]:
    """The buffers that lie in each piece of memory."""
    found: dict[str, list[str]] = {}
    for name, home in homes_of.items():
        found.setdefault(home, []).append(name)
    return found
