"""Renders a generic step in CUDA: a thread for each element, or a team of threads for each result of a reduction."""

from __future__ import annotations

from kernelwright.proposers.templates.cuda.kernels import HEADERS, STORED, Kernel, KernelWriter, python_number
from kernelwright.proposers.templates.genes import Gene, GenePool, Genes
from kernelwright.proposers.templates.graph import Extent, Graph, Number, Reduce, total
from kernelwright.proposers.templates.nests.nest_bodies import element_body, fold_of, functions
from kernelwright.proposers.templates.nests.nest_code import NestCode, NestTarget, computed
from kernelwright.proposers.templates.patterns.nests import NestStep
from kernelwright.proposers.templates.sizes import Sizes

FUNCTIONS = functions("__device__ inline", "INF", "::")
PLAN = """\
def team(results, terms):
    # Threads for one result of a generic reduction: one where results alone fill the device.
    if results >= 65536 or terms <= 64:
        return 1
    return 256 if terms >= 8192 and results < 4096 else 32


def double_literal(value):
    return repr(value) if abs(value) < math.inf else f"static_cast<double>({literal(value)})"
"""


def gene_pool(step: NestStep) -> GenePool:
    genes = [Gene("threads", (128, 256, 512), (256, 128, 512))]
    if step.reduces:
        genes.append(Gene("team", (0, 1, 32, 128), (0, 1, 32)))
    return GenePool(tuple(genes))


def describe(step: NestStep, genes: Genes) -> str:
    team = genes.get("team", 1)
    shared = "" if team == 1 else f", {team or 'as the size asks'} for each result"
    return f"loops over index maps, {genes['threads']} threads a block{shared}"


def render(step: NestStep, genes: Genes, sizes: Sizes, graph: Graph, number: int) -> list[Kernel]:
    return [NestWriter(step, KernelWriter(genes=genes, sizes=sizes, graph=graph, step=number)).kernel()]


class NestWriter:
    def __init__(self, step: NestStep, writer: KernelWriter) -> None:
        self.step, self.writer = step, writer
        self.tag = writer.step
        self.index = f"INDEX_{self.tag}"
        self.names: dict[object, str] = {}

    def kernel(self) -> Kernel:
        step, tag, genes = self.step, self.tag, self.writer.genes
        add = self.writer.setup.append
        add(f"results_{tag} = {self._product(step.space)}")
        add(f"terms_{tag} = {self._product(step.reduced)}")
        self._define_index()
        self.writer.define(f"RESULTS_{tag}", f"results_{tag}")
        self.writer.define(f"TERMS_{tag}", f"terms_{tag}")
        chosen = genes.get("team", 1) or f"min(team(results_{tag}, terms_{tag}), {genes['threads']})"
        self.writer.set("team", str(chosen))
        body = self._body()
        dtypes = {step.root.dtype, *(step.graph.nodes[place].dtype for place in step.reads)}
        headers = tuple(text for dtype, text in HEADERS.items() if dtype in dtypes)
        threads = int(genes["threads"])
        return Kernel(
            f"nest_{tag}",
            tuple(self.writer.parameters.values()),
            body,
            self.writer.plan_lines,
            f"ceil(results_{tag} * team_{tag}, {threads})",
            str(threads),
            needs=(*headers, FUNCTIONS),
            helpers=(PLAN,),
        )

    def _define_index(self) -> None:
        largest = ", ".join(["0", *(self.writer.size(one) for one in self.step.totals)])
        self.writer.define(self.index, f'"int" if 8 * max({largest}) < 2 ** 31 else "long long"')

    def element_lines(self, number: str) -> list[str]:
        """What makes one element, for a kernel that has its number."""
        self._define_index()
        code = self._code()
        element_body(code, self.step, code.split(number, self.step.space), number, self._store)
        return code.lines

    def _product(self, shape: tuple[Extent, ...]) -> str:
        return self.writer.size(total(shape)) if shape else "1"

    def _body(self) -> str:
        alone = self._code()
        threads = self.writer.genes["threads"]
        where = f"(static_cast<long long>(block) * {threads} + threadIdx.x)"
        alone.lines.append(f"const long long number = {where};")
        with alone.block(f"if (number < RESULTS_{self.tag})"):
            alone.lines.append(f"const {self.index} o = number;")
            element_body(alone, self.step, alone.split("o", self.step.space), "o", self._store)
        lines = alone.lines
        if self.step.reduces:
            lines = [f"#if TEAM_{self.tag} == 1", *lines, "#else", *self._shared(where), "#endif"]
        return "".join(f"{line}\n" if line.startswith("#") else f"  {line}\n" for line in lines)

    def _shared(self, where: str) -> list[str]:
        """A team takes turns through the terms of its result and meets in shared memory."""
        root, fold, code = self.step.root, fold_of(self.step), self._code()
        assert isinstance(root, Reduce)
        tag, threads = self.tag, self.writer.genes["threads"]
        code.lines.append(f"const long long number = {where} / TEAM_{tag};")
        code.lines.append(f"const int lane = threadIdx.x % TEAM_{tag};")
        names = fold.begin(code, "s")
        with code.block(f"if (number < RESULTS_{tag})"):
            code.lines.append(f"const {self.index} o = number;")
            at = code.split("o", root.shape)
            with code.block(f"for ({self.index} r = lane; r < TERMS_{tag}; r += TEAM_{tag})"):
                inner = code.split("r", self.step.reduced)
                code.take_term(root, fold, names, at, inner)
        last = fold.end(code, names)
        kind = fold.kind
        code.lines.append(f"__shared__ {kind} slots_{tag}[{threads}];")
        if fold.places:
            code.lines.append(f"__shared__ long long places_{tag}[{threads}];")
            code.lines.append(f"slots_{tag}[threadIdx.x] = {names[0]}, places_{tag}[threadIdx.x] = {names[1]};")
        else:
            code.lines.append(f"slots_{tag}[threadIdx.x] = {last};")
        code.lines.append("__syncthreads();")
        with code.block(f"for (int d = TEAM_{tag} / 2; d; d /= 2)"):
            with code.block("if (lane < d)"):
                code.lines += self._met(f"slots_{tag}", f"places_{tag}")
            code.lines.append("__syncthreads();")
        result = f"{'places' if fold.places else 'slots'}_{tag}[threadIdx.x]"
        code.lines.append(f"if (lane == 0 && number < RESULTS_{tag}) {self._store('number', result)}")
        return code.lines

    def _met(self, slots: str, places: str) -> list[str]:
        fold = fold_of(self.step)
        own, other = f"{slots}[threadIdx.x]", f"{slots}[threadIdx.x + d]"
        if not fold.places:
            return [f"{own} = {fold.join(own, other)};"]
        mine, theirs = f"{places}[threadIdx.x]", f"{places}[threadIdx.x + d]"
        equal = f"(({own} == {other} || ({own} != {own} && {other} != {other})) && {theirs} < {mine})"
        better = f"{theirs} >= 0 && ({mine} < 0 || {fold.better(other, own)} || {equal})"
        return [f"if ({better}) {own} = {other}, {mine} = {theirs};"]

    def _code(self) -> NestCode:
        return NestCode(self.step.graph, self.step.reads, NestTarget(self._load, self._size, self._number, self.index))

    def _load(self, place: int, at: str) -> str:
        dtype = self.step.graph.nodes[place].dtype
        pointer = self.writer.pointer(self.step.reads[place], kind=STORED[dtype])
        return f"static_cast<{computed(dtype)}>({pointer}[{at}])"

    def _store(self, at: str, value: str) -> str:
        kind = STORED[self.step.root.dtype]
        pointer = self.writer.pointer(self.step.output, written=True, read=False, kind=kind)
        return f"{pointer}[{at}] = static_cast<{kind}>({value});"

    def _size(self, extent: Extent) -> str:
        if extent.literal is not None:
            return str(extent.literal)
        return self._defined(extent, f"E{len(self.names)}", self.writer.size(extent))

    def _number(self, value: Number, kind: str) -> str:
        if kind == "bool":
            return "true" if value else "false"
        python = python_number(value, self.writer.sizes)
        made = {"float": f"literal(float({python}))", "double": f"double_literal(float({python}))"}.get(
            kind, f'f"{{int({python})}}LL"'
        )
        return self._defined((value, type(value), kind), f"K{len(self.names)}", made)

    def _defined(self, key: object, name: str, python: str) -> str:
        if key not in self.names:
            self.names[key] = f"{name}_{self.tag}"
            self.writer.define(self.names[key], python)
        return self.names[key]
