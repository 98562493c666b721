"""One call of a candidate under Nsight Compute, in a launcher of its own: our code and its kernels, as elsewhere.

Nothing else is launched between opening and ending, so that every launch in the report is the candidate's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from kernelwright.contracts.model import GpuBuilt
from kernelwright.judge.gpu.client import END_SECONDS, LauncherProcess
from kernelwright.judge.gpu.ncu import NOT_INSTALLED, NOT_PERMITTED, ncu, parse, profiling
from kernelwright.judge.verdict import Profile

SECONDS = 60.0  # every launch is repeated for each group of counters
MOST_KNOWN = 1024


class Profiler:
    """Knows what it has seen: a search judges the same candidate several times, and its counters stay the same."""

    def __init__(self, helpers: bytes, index: int) -> None:
        self._helpers, self._index = helpers, index
        self._known: dict[str, Profile] = {}
        self._refused: Profile | None = None

    def known(self, built: GpuBuilt) -> Profile | None:
        """What needs no profiling: it was done before, or cannot be done here."""
        if ncu() is None:
            return Profile(missing=NOT_INSTALLED)
        return self._refused or self._known.get(_name(built))

    def profile(self, built: GpuBuilt, descriptors: Sequence[int], word: int) -> Profile:
        """The arena holds the values. Raises Faulted where the call does not end well."""

        def call(launcher: LauncherProcess) -> None:
            launcher.open(built.program, built.modules, descriptors, exact=True)
            launcher.run(word, SECONDS)

        told = _profiled(self._helpers, self._index, call, [kernel.name for kernel in built.kernels])
        if told.missing == NOT_PERMITTED and why_not(self._helpers, self._index) == NOT_PERMITTED:
            self._refused = told  # a kernel of our own has asked, too: no candidate can take it from the next one
        return self.remember(built, told)

    def remember(self, built: GpuBuilt, told: Profile) -> Profile:
        """A failure, too, which may have taken a minute."""
        while len(self._known) >= MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[_name(built)] = told
        return told


def why_not(helpers: bytes, index: int = 0) -> str:
    """Why there are no counters here, or empty: a kernel of our own is profiled."""

    def call(launcher: LauncherProcess) -> None:
        launcher.well(SECONDS)

    return _profiled(helpers, index, call, ["kw_well"]).missing


def _profiled(helpers: bytes, index: int, call: Callable[[LauncherProcess], None], kernels: Sequence[str]) -> Profile:
    path = ncu()
    if path is None:
        return Profile(missing=NOT_INSTALLED)
    with LauncherProcess(helpers, index, tooling=profiling(path)) as launcher:
        call(launcher)
        launcher.end(END_SECONDS)
        return parse(launcher.reported(), kernels)


def _name(built: GpuBuilt) -> str:
    """Of the module and of how it is launched; two workloads may share a module."""
    return hashlib.sha256(f"{built.digest} {built.program}".encode()).hexdigest()
