"""What a contract owns: everything about candidates of one form. A new contract subclasses one of two classes here.

`HostContract`: a host compiler builds a library for one signature at a time, and a runner calls it.
`GpuContract`: a toolchain makes programs (contracts/program.py), and the launcher carries them out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kernelwright.contracts.candidate import Candidate, CandidateError, read_candidate
from kernelwright.contracts.craft import Craft
from kernelwright.contracts.tunable_syntax import TunableSyntax
from kernelwright.devices import lock
from kernelwright.devices.names import Kind
from kernelwright.errors import KernelwrightError
from kernelwright.paths import printable

if TYPE_CHECKING:  # a command that only reads sources has no use for the rest
    from kernelwright.contracts.portable import PortableKernel
    from kernelwright.contracts.program import Program
    from kernelwright.contracts.symbolic import SymbolicSignature
    from kernelwright.contracts.target import Target
    from kernelwright.tasks.model import Signature

Files = tuple[tuple[str, str], ...]
"""Names and texts."""


@dataclass(frozen=True)
class BuildPlan:
    """What the host builder does: the files it finds, and the compiler's arguments.

    The compiler is always the g++ of `devices/compiler.py`; a language other than C++ is one of the arguments (`-x c`).
    `{source}` in an argument stands for the folder with the files and `{output}` for the file to make. `layouts` are
    further arguments that lay the same code out otherwise, to be tried in order while it has the bytes of a system call
    (decision 87).
    """

    files: Files
    arguments: tuple[str, ...]
    layouts: tuple[tuple[str, ...], ...] = ()


def host_abi() -> tuple[str, str]:
    """The header `abi.h`, for the files of a build plan: what the runner hands to the library of any host contract."""
    return "abi.h", (Path(__file__).parent / "host_abi.h").read_text(encoding="utf-8")


def float8_header() -> tuple[str, str]:
    """The header `float8.h`, with the conversions of 8-bit floats."""
    return "float8.h", (Path(__file__).parent / "float8.h").read_text(encoding="utf-8")


@dataclass(frozen=True)
class BuildFailure:
    """Why a candidate cannot be built; the lines say where the fault is."""

    lines: tuple[str, ...]
    timed_out: bool = False


@dataclass(frozen=True)
class InterpretedPlan:
    """A candidate that an interpreter runs as it is. The process maps the arena and speaks the runner's protocol
    (isolation/native_sources/runner.cpp).

    In the command `{source}` stands for the folder with the files, and `{go}`, `{done}` and `{layout}` for numbers of
    descriptors.
    """

    files: Files
    command: tuple[str, ...]
    visible: tuple[str | Path, ...]
    variables: Mapping[str, str]
    start_seconds: float
    library: tuple[str, ...] = ()  # operators that torch carries out for the candidate
    without_kernels: tuple[str, ...] = ()  # the command that leaves out the candidate's own kernels


@dataclass(frozen=True)
class LaunchedKernel:
    """The kernel of one launch: the name that its author gave it, and what the assembler reports, where it does. It is
    not the author's `own` where a kernel of ours does what host code asks of torch."""

    name: str
    spill_stores: int = 0
    spill_loads: int = 0
    own: bool = True


@dataclass(frozen=True)
class GpuBuilt:
    """A program for one workload and the modules that it loads. `digest` names the modules."""

    program: Program
    modules: tuple[bytes, ...]
    digest: str
    kernels: tuple[LaunchedKernel, ...]  # one for each launch of the program, in order
    cached: bool


@dataclass(frozen=True)
class GpuBuild:
    built: tuple[GpuBuilt, ...]  # one for each signature, in order
    seconds: float


class GpuToolchain(Protocol):
    """Makes programs for one kind of GPU. It may keep processes warm, which `close` ends."""

    @property
    def compiler(self) -> str:
        """What compiles, with its version, as a verdict names it."""

    def build(self, candidate: Candidate, signatures: tuple[Signature, ...]) -> GpuBuild | BuildFailure:
        """A program for every signature. A failure may quote the sizes of any of them. The caller holds the CPU's lock
        for work, so that nothing here may ask for it: with a process that waits to measure, that is a deadlock."""

    def refill(self) -> None:
        """Starts what the last build used up, so that the next one need not wait."""

    def close(self) -> None: ...


class NotEmulatedError(KernelwrightError):
    """What a candidate needs and the emulator does not have; in one line."""


class Emulation(Protocol):
    """One GPU candidate as host code, so that it can be checked where there is no GPU."""

    def builds(
        self, signatures: tuple[Signature, ...], target: Target, *, sanitized: bool
    ) -> Iterator[BuildPlan | InterpretedPlan | BuildFailure]:
        """How to build or interpret it for each signature, in order. Raises NotEmulatedError."""

    def advice(self, lines: Sequence[str]) -> tuple[str, ...]:
        """What to add to the compiler's lines for an author who did not write for this compiler."""


@dataclass(frozen=True)
class Part:
    """Something that a contract needs on this machine, for `doctor`: what was found, or how to get it."""

    what: str
    found: str
    missing: bool = False
    fix: str = ""
    needed: bool = True  # without it no candidate can be built


@dataclass(frozen=True)
class PortableRequest:
    """What is to leave: a task's signature over sizes, the sizes that must be covered, and for which kind of GPU.

    Every listed pair is a choice of sizes and the signature there. A host contract takes no notice of the target.
    `listed_only`: nothing is proved elsewhere, so that a contract need not look for how it runs there.
    """

    task: str
    symbolic: SymbolicSignature
    listed: tuple[tuple[Mapping[str, int], Signature], ...]
    target: Target
    listed_only: bool = False


@dataclass(frozen=True)
class PortableBuild:
    """A portable kernel and its binaries by digest. `note` says in one line why it holds at listed sizes only."""

    kernel: PortableKernel
    binaries: Mapping[str, bytes]
    note: str = ""


class Contract(ABC):
    """The form of a candidate. What has no default below, a contract must give."""

    name: str
    device: Kind  # the kind of device that candidates run on
    language: str  # a sentence for an author
    form: str  # the files it takes, as an error names them: "a .cu file or ..."
    suffixes: tuple[str, ...]  # of a file with a whole source; the first is the usual one
    source_name: str  # the file that holds the kernels, among those that `split` gives; reports name it, too
    fence: str = ""  # the language of a source in Markdown
    emulated: bool = False  # whether `emulation` gives something
    sizes_at_run_time: bool  # whether what is built for one signature holds for other sizes, whatever the candidate
    tunable_syntax: tuple[TunableSyntax, ...] = ()  # none: a source declares no tunables

    @property
    def brief_fence(self) -> str:
        """The language of a signature and a skeleton in Markdown."""
        return self.fence

    @property
    def craft(self) -> Craft:
        """What prompts say of this contract beyond its rules."""
        return Craft()

    @abstractmethod
    def signature_text(self, signatures: tuple[Signature, ...]) -> str:
        """The exact declaration that a candidate must define."""

    @abstractmethod
    def skeleton(self, signatures: tuple[Signature, ...], task_name: str) -> str:
        """A source that builds and does nothing yet."""

    @abstractmethod
    def rules(self) -> tuple[str, ...]:
        """What an author has to know, a sentence each."""

    def takes(self, path: Path) -> bool:
        """Whether a path shows by its form that a candidate of this contract is, or should be, there."""
        return path.suffix in self.suffixes and not path.is_dir()

    def read(self, path: Path) -> Candidate:
        """The candidate at a path. An error names the path and the fix."""
        candidate = read_candidate(path, self.name)
        try:
            self.check_source(candidate.source)
        except CandidateError as error:
            raise CandidateError(f"{printable(str(path))}: {error}") from None
        return candidate

    def check_source(self, source: str) -> None:
        """Raises CandidateError, one line, for a source that has not this form at all. It costs next to nothing."""
        self.split(source)

    def split(self, source: str) -> Files:
        """The files that an author would keep. Raises CandidateError where the source has not this form."""
        return ((self.source_name, source),)

    def file_names(self, source: str) -> tuple[str, ...]:
        """How compilers and sanitizers name the author's code."""
        return tuple(name for name, _ in self.split(source))

    def join(self, files: Mapping[str, str]) -> str:
        """The source of which `split` makes these files; a candidate's identity is this text."""
        return files[self.source_name]

    def join_blocks(self, blocks: Sequence[str]) -> str | None:
        """The source in several blocks of code of one answer, or None where the longest of them is the source."""
        return None

    def normalised(self, source: str) -> str:
        """The same text for sources that differ in comments and layout alone. Where in doubt, the source itself."""
        return source.strip()

    def implied_tunables(self, source: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Names and values of what the source leaves to be chosen without declaring it; the first value is in force
        until a declaration says another. Empty where the contract has none."""
        return ()

    def parts(self) -> tuple[Part, ...]:
        """What building needs on this machine, beside what every judging needs."""
        return ()

    @abstractmethod
    def build_failure(
        self, candidate: Candidate, signatures: tuple[Signature, ...], target: Target
    ) -> BuildFailure | None:
        """Builds a candidate, as far as this machine can, to find out whether it would build. A host contract takes
        no notice of the target."""

    @abstractmethod
    def portable(self, candidate: Candidate, request: PortableRequest) -> PortableBuild | BuildFailure:
        """The candidate as data and binaries that another process can use without its source. Where the contract
        fixes sizes when it builds, it covers the listed sizes at least, and others as far as the candidate allows;
        `PortableKernel.all_sizes` says which."""

    def emulation(self, candidate: Candidate) -> Emulation | None:
        """The candidate for the emulator. Raises CandidateError, and NotEmulatedError where it can be said already."""
        return None


class HostContract(Contract):
    """A contract whose candidates a host compiler builds, for one signature at a time."""

    device: Kind = "cpu"
    sizes_at_run_time = True

    @abstractmethod
    def build_plan(self, candidate: Candidate, signature: Signature, *, sanitized: bool) -> BuildPlan:
        """How to build the candidate for one signature (dtypes and ranks).

        The library exports, with C linkage and default visibility, `void kw_run(const kw_argument*)`, which does one
        call, and for a signature with constants `void kw_prepare(const kw_argument*)`, which the runner calls once
        before the first call. Both get one entry for each argument of the signature, in order (`host_abi`).
        """

    def build_failure(
        self, candidate: Candidate, signatures: tuple[Signature, ...], target: Target
    ) -> BuildFailure | None:
        from kernelwright.contracts.host_build import build_as

        for signature in dict.fromkeys(signatures):
            built = build_as(self.build_plan(candidate, signature, sanitized=False))
            if isinstance(built, BuildFailure):
                return built
        return None

    def portable(self, candidate: Candidate, request: PortableRequest) -> PortableBuild | BuildFailure:
        """One library: a signature's sizes reach it at run time, so any of the listed ones gives the same."""
        from kernelwright.contracts.host_build import build_as, machine

        plans = dict.fromkeys(self.build_plan(candidate, form, sanitized=False) for _, form in request.listed)
        if len(plans) != 1:
            return BuildFailure(("the listed sizes have more than one choice of dtypes: ask for each on its own",))
        built = build_as(next(iter(plans)))
        if isinstance(built, BuildFailure):
            return built
        content = built.library.read_bytes()
        constants = any(tensor.role == "constant" for tensor in request.listed[0][1].tensors)
        from kernelwright.contracts.portable import Library, PortableKernel, digest_of

        library = Library(digest_of(content), machine(), prepare="kw_prepare" if constants else "")
        shapes, arguments = request.symbolic.portable()
        kernel = PortableKernel(
            request.task, self.name, request.symbolic.sizes, shapes, arguments, libraries=(library,)
        )
        return PortableBuild(kernel, {library.digest: content})


class GpuContract(Contract):
    """A contract whose candidates become programs for an NVIDIA GPU."""

    device: Kind = "cuda"
    sizes_at_run_time = False

    @abstractmethod
    def toolchain(self, target: Target, spare: int = 0) -> GpuToolchain:
        """A toolchain that keeps so many spare compilers warm. The judge asks for one when it starts."""

    def build_failure(
        self, candidate: Candidate, signatures: tuple[Signature, ...], target: Target
    ) -> BuildFailure | None:
        toolchain = self.toolchain(target)
        try:
            with lock.working():
                made = toolchain.build(candidate, signatures)
        finally:
            toolchain.close()
        return made if isinstance(made, BuildFailure) else None


def varying_dtypes(signatures: tuple[Signature, ...]) -> frozenset[str]:
    """The names of tensors whose dtype differs between workloads."""
    dtypes: dict[str, set[str]] = {}
    for signature in signatures:
        for tensor in signature.tensors:
            dtypes.setdefault(tensor.name, set()).add(tensor.dtype)
    return frozenset(name for name, found in dtypes.items() if len(found) > 1)
