"""Judges groups of candidates on an NVIDIA GPU and writes benchmarks/results/verdicts_gpu.json, row by row as it goes.

    python benchmarks/gpu/verdicts.py GROUP ... [--seconds 500] [--robust-kbench CHECKOUT] [--again]
        [--solutions FOLDER ... --problems KERNELBENCH]

| group | candidates |
|---|---|
| triton | the Triton modules of tests/kernels_triton, in full |
| extension | every distinct .cu of a robust-kbench checkout, in full |
| modelnew | ModelNew modules of the tests, honest ones and those that a GPU tells, and solutions in a FOLDER, in full |
| sizes | templates with sizes as definitions and as arguments: what the arguments cost |
| products, convolutions, attention | templates at their default genes, beside eager and the libraries |

Groups take turns by the seconds that are left. Rows of the same commit are not judged again, so that a run may be
continued. Tasks of the last three groups are written here. The paths of solutions say level and number, as for
`benchmarks/kernelbench/modelnew_coverage.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.gpu.gpu_run import CUDA, in_short  # noqa: E402
from benchmarks.kernelbench.modelnew_coverage import solutions  # noqa: E402
from benchmarks.robust_kbench.extension_coverage import distinct, task_of  # noqa: E402
from benchmarks.shared.common import temporary_home  # noqa: E402
from benchmarks.shared.record import RESULTS, gpu_facts, load, provenance, save  # noqa: E402
from benchmarks.triton_modules.coverage import modules  # noqa: E402

from kernelwright.contracts import Candidate  # noqa: E402
from kernelwright.contracts.registry import read_source  # noqa: E402
from kernelwright.devices import nvidia  # noqa: E402
from kernelwright.devices.names import require  # noqa: E402
from kernelwright.errors import KernelwrightError  # noqa: E402
from kernelwright.judge.controller import Judge  # noqa: E402
from kernelwright.judge.settings import Settings  # noqa: E402
from kernelwright.judge.timing.measure import Sampling  # noqa: E402
from kernelwright.proposers.templates import make  # noqa: E402
from kernelwright.proposers.templates.genes import Genes  # noqa: E402
from kernelwright.tasks.resolve import resolve  # noqa: E402

TRITON = ROOT / "tests" / "kernels_triton"
MODELNEW, TRICKS = ROOT / "tests" / "kernels_modelnew", ROOT / "tests" / "exploits_modelnew"
QUICK = Settings(("eager",), effort=Sampling(seconds=4.0), public_only=True, safety=False, device=CUDA)
FULL = Settings(("eager",), effort=Sampling(seconds=4.0), device=CUDA)
SIZED = (
    *("rmsnorm@rows=16384,cols=4096", "rmsnorm:backward@rows=16384,cols=4096", "softmax@rows=8192,cols=2048"),
    *("softmax:backward@rows=8192,cols=2048", "cross_entropy@rows=4096,classes=32000"),
    *("layernorm@rows=8192,cols=1024", "linear@rows=4096,features=4096,units=4096"),
    "linear@rows=1023,features=1023,units=1023",
)


@dataclass(frozen=True)
class Entry:
    """One judging: the task, what writes the candidate, and how it is judged."""

    name: str
    task: str
    candidate: Callable[[], Candidate]
    settings: Settings


def triton(_: argparse.Namespace, __: Path) -> Iterator[Entry]:
    for path, task in modules(TRITON, TRITON / "kernels.toml"):
        name = f"{path.relative_to(TRITON)} for {Path(task).name}"
        yield Entry(name, task, lambda path=path: read_source(path, "triton"), FULL)  # type: ignore[misc]


def extension(options: argparse.Namespace, _: Path) -> Iterator[Entry]:
    if options.robust_kbench is None:
        raise SystemExit("verdicts.py: the group extension needs --robust-kbench CHECKOUT")
    for path in distinct(options.robust_kbench):
        name = path.relative_to(options.robust_kbench)
        task = task_of(name)
        if task is not None:
            yield Entry(str(name), task, lambda path=path: read_source(path, "extension"), FULL)  # type: ignore[misc]


def modelnew(options: argparse.Namespace, _: Path) -> Iterator[Entry]:
    tricks = tomllib.loads((TRICKS / "exploits.toml").read_text())
    told = [f"{name}.py" for name, about in tricks.items() if "on_gpu" in about]
    paths = [MODELNEW / name for name in tomllib.loads((MODELNEW / "kernels.toml").read_text())]
    paths += [TRICKS / name for name in (*told, "copies_result.twin.py")]
    ours = [(path.name, MODELNEW / "scaled_linear.py", path) for path in paths]
    if options.solutions and options.problems is None:
        raise SystemExit("verdicts.py: --solutions needs --problems KERNELBENCH")
    theirs = [one for folder in options.solutions for one in solutions(folder, options.problems)]
    for name, problem, path in [*((f"{one.corpus}: {one.name}", one.problem, one.path) for one in theirs), *ours]:
        yield Entry(name, str(problem), lambda path=path: read_source(path, "modelnew"), FULL)  # type: ignore[misc]


def sizes(_: argparse.Namespace, __: Path) -> Iterator[Entry]:
    for task in SIZED:
        for kind in ("fixed", "dynamic"):
            yield Entry(f"{task} {kind}", task, lambda task=task, kind=kind: written(task, sizes=kind), QUICK)  # type: ignore[misc]


def products(_: argparse.Namespace, folder: Path) -> Iterator[Entry]:
    for dtype in ("float32", "bfloat16"):
        for m, n, k in ((4096, 4096, 4096), (4095, 4097, 4095), (1024, 1024, 1024), (256, 14336, 4096)):
            task = _task(folder, f"product_{dtype}", "a @ b", {"a": "m,k", "b": "k,n"}, dtype, {"m": m, "n": n, "k": k})
            yield _template(f"product {dtype} {m}x{n}x{k}", task, ("eager", "cublaslt"))
    stack = {"b": 64, "m": 512, "n": 512, "k": 64}
    task = _task(folder, "stack", "torch.bmm(x, y)", {"x": "b,m,k", "y": "b,k,n"}, "float32", stack)
    yield _template("stack of products 64x512x512x64", task, ("eager", "cublaslt"))


CONVOLUTIONS = {
    "3x3": ("conv2d(x, w, padding=1)", "n,c,h,v", "f,c,3,3", {"n": 16, "c": 64, "f": 128, "h": 56, "v": 56}),
    "3x3 of few channels": ("conv2d(x, w)", "n,c,h,v", "f,c,3,3", {"n": 128, "c": 3, "f": 16, "h": 32, "v": 32}),
    "1x1": ("conv2d(x, w)", "n,c,h,v", "f,c,1,1", {"n": 16, "c": 256, "f": 256, "h": 28, "v": 28}),
    "strided": ("conv2d(x, w, stride=2)", "n,c,h,v", "f,c,3,3", {"n": 16, "c": 64, "f": 128, "h": 56, "v": 56}),
    "1-d": ("conv1d(x, w)", "n,c,h", "f,c,5", {"n": 32, "c": 64, "f": 128, "h": 4096}),
    "3-d": ("conv3d(x, w)", "n,c,d,h,v", "f,c,3,3,3", {"n": 8, "c": 16, "f": 32, "d": 16, "h": 32, "v": 32}),
    "transposed": ("conv_transpose2d(x, w, stride=2)", "n,c,h,h", "c,f,4,4", {"n": 16, "c": 64, "f": 64, "h": 32}),
    "dilated": ("conv2d(x, w, dilation=2)", "n,c,h,v", "f,c,3,3", {"n": 16, "c": 64, "f": 64, "h": 56, "v": 56}),
}  # fmt: skip


def convolutions(_: argparse.Namespace, folder: Path) -> Iterator[Entry]:
    for name, (call, image, filters, numbers) in CONVOLUTIONS.items():
        for dtype in ("float32", "bfloat16"):
            inputs = {"x": image, "w": filters}
            stem = f"conv_{name.replace(' ', '_').replace('-', '_')}_{dtype}"
            task = _task(folder, stem, f"torch.nn.functional.{call}", inputs, dtype, numbers)
            for direction in ("", ":backward"):
                yield _template(f"{name} {dtype}{direction}", task + direction, ("eager", "cudnn-benchmark"))


def attention(_: argparse.Namespace, folder: Path) -> Iterator[Entry]:
    call = "torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal={causal})"
    for dtype in ("bfloat16", "float32"):
        for head in (32, 64, 80, 128, 256):
            for causal in (False, True):
                numbers = {"b": 4, "h": 16, "s": 2048, "d": head}
                stem = f"attention_{dtype}_{head}_{causal}"
                expression, inputs = call.format(causal=causal), dict.fromkeys(("q", "k", "v"), "b,h,s,d")
                task = _task(folder, stem, expression, inputs, dtype, numbers)
                baselines = ("eager", "sdpa-flash", "sdpa-efficient", "sdpa-cudnn")
                yield _template(f"attention {dtype} head {head}{' causal' if causal else ''}", task, baselines)


SOURCE = """import torch
from kernelwright.tasks import Task, tensor


def reference({names}):
    return {expression}


task = Task(reference, inputs={{{inputs}}}, public=[{public}], hidden={{{hidden}}}, dtypes=({dtype!r},))
"""


def _task(folder: Path, stem: str, expression: str, inputs: dict[str, str], dtype: str, numbers: dict[str, int]) -> str:
    """A task file. Dimensions are names of sizes, or whole numbers as they are."""
    path = folder / f"{stem}_{'_'.join(map(str, numbers.values()))}.py"
    declared = []
    for name, dimensions in inputs.items():
        parts = (part if part.isdigit() else repr(part) for part in dimensions.split(","))
        declared.append(f"{name!r}: tensor({', '.join(parts)})")
    hidden = ", ".join(f"{name!r}: ({max(1, size // 2)}, {size})" for name, size in numbers.items())
    given = {"inputs": ", ".join(declared), "public": numbers, "hidden": hidden, "dtype": dtype}
    path.write_text(SOURCE.format(names=", ".join(inputs), expression=expression, **given))
    return str(path)


def _template(name: str, task: str, baselines: tuple[str, ...]) -> Entry:
    chosen = Settings(baselines, effort=QUICK.effort, public_only=True, safety=False, device=CUDA)
    return Entry(name, task, lambda: written(task), chosen)


def written(task: str, **genes: str) -> Candidate:
    """By the templates at their default genes, but for those that are given."""
    templates = make(resolve(task, "cuda"), "cuda")
    pool = templates.renderer.gene_pool(templates.plan)
    default = pool.default()
    asked: Genes = {name: genes.get(name.rstrip("0123456789"), value) for name, value in default.items()}
    source = templates.renderer.render(templates.plan, pool.legal(asked), templates.signatures)
    return Candidate("cuda", source, "templates")


GROUPS: dict[str, Callable[[argparse.Namespace, Path], Iterator[Entry]]] = {
    "triton": triton,
    "extension": extension,
    "modelnew": modelnew,
    "sizes": sizes,
    "products": products,
    "convolutions": convolutions,
    "attention": attention,
}


def main() -> int:
    options = _options()
    path = RESULTS / f"{options.save}.json"
    try:
        require(CUDA)
    except KernelwrightError as error:
        raise SystemExit(f"verdicts.py: {error}") from None
    gpu = nvidia.probe(CUDA.index)
    came, report = provenance(gpu), load(path)
    report["gpu"] = gpu_facts(gpu)
    until, left = time.monotonic() + options.seconds, 0
    with temporary_home("triton", "peaks", "native"), tempfile.TemporaryDirectory() as folder, Judge(QUICK) as judge:
        for number, group in enumerate(options.groups):
            now = time.monotonic()
            ends = now + (until - now) / (len(options.groups) - number)
            rows = report.setdefault("groups", {}).setdefault(group, {})
            for entry in GROUPS[group](options, Path(folder)):
                done = rows.get(entry.name, {}).get("commit") == came["commit"]
                if done and not options.again:
                    continue
                if time.monotonic() > ends:
                    left += 1
                    continue
                rows[entry.name] = {**_judged(judge, entry), "commit": came["commit"], "command": came["command"]}
                save(path, report)
                print(f"{group}: {entry.name}: {_line(rows[entry.name])}", flush=True)
    print(f"{left} were left out: no time" if left else "all were judged")
    return int(left > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="+", choices=list(GROUPS), metavar="GROUP")
    parser.add_argument("--seconds", type=float, default=500.0, help="after these no judging begins")
    parser.add_argument("--robust-kbench", type=Path, default=None, metavar="CHECKOUT")
    parser.add_argument("--solutions", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--problems", type=Path, default=None, metavar="KERNELBENCH")
    parser.add_argument("--save", default="verdicts_gpu", help="the file's name: one each for runs side by side")
    parser.add_argument("--again", action="store_true", help="judge again what has a row of this commit")
    return parser.parse_args()


def _judged(judge: Judge, entry: Entry) -> dict[str, Any]:
    """A fault of the task or of the machine is a row too."""
    began = time.perf_counter()
    try:
        verdict = judge.judge(entry.task, entry.candidate(), settings=entry.settings)
    except KernelwrightError as error:
        return {"verdict": "not judged", "why": str(error).replace(entry.task, Path(entry.task).name)}
    return {**in_short(verdict), "seconds": round(time.perf_counter() - began, 2)}


def _line(row: dict[str, Any]) -> str:
    times = [
        f"{one['us']:.1f} µs"
        + "".join(f", {value['mid']:.2f}x over {name}" for name, value in one["speedup"].items())
        + f" ({one['speed']})"
        for one in row.get("workloads", ())
        if one["us"] is not None and not one["hidden"]
    ]
    return f"{row['verdict']} {row.get('why') or row.get('reason') or ''} {'; '.join(times)}"


if __name__ == "__main__":
    sys.exit(main())
