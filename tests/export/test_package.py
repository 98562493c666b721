"""An exported package, used where there is no Kernelwright."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import torch

from kernelwright.export.loading import open_exported
from kernelwright.export.package import STANDALONE, Exported, export
from kernelwright.export.standalone.kernel import LoadedKernel
from tests.export import making
from tests.export.test_load import EPS, drawn, reference

pytestmark = pytest.mark.usefixtures("host_side")

HEAD = """
import importlib.util, sys, warnings
assert importlib.util.find_spec("kernelwright") is None, "Kernelwright is here"
warnings.simplefilter("error")
import torch
torch.set_num_threads(1)
from rms_kernel import rmsnorm

def reference(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight

x, weight = torch.randn(64, 256, requires_grad=True), torch.nn.Parameter(torch.randn(256))
"""


@pytest.fixture(scope="module")
def elsewhere(exported: Exported, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a second environment with the wheel, this one's torch, and no Kernelwright."""
    folder = tmp_path_factory.mktemp("elsewhere") / "env"
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next((folder / "lib").glob("python*/site-packages"))
    installed = [Path(torch.__file__).parents[1]]
    for place in installed:
        for path in place.iterdir():
            named = path.name.lower()
            if "kernelwright" not in named and not named.endswith(".pth") and not (packages / path.name).exists():
                (packages / path.name).symlink_to(path)
    with zipfile.ZipFile(exported.wheel or "") as wheel:
        wheel.extractall(packages)  # what an installer does with a wheel, without an installer
    return folder / "bin" / "python"


def run(python: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(python), "-P", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=python.parent,
        env={**kept, "OMP_NUM_THREADS": "1", **environment},
    )


def test_it_computes_differentiates_and_passes_opcheck_without_kernelwright(elsewhere: Path) -> None:
    done = run(
        elsewhere,
        "-c",
        HEAD
        + """
torch.testing.assert_close(rmsnorm(x, weight, 1e-6), reference(x, weight))
got = torch.autograd.grad(rmsnorm(x, weight).square().sum(), (x, weight))
wanted = torch.autograd.grad(reference(x, weight).square().sum(), (x, weight))
torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
assert rmsnorm.counts == {"kernel": 2}, rmsnorm.counts
warnings.simplefilter("ignore")
for given in ((x, weight), (x.detach(), weight.detach()), (torch.randn(3, 5), torch.randn(5))):
    torch.library.opcheck(rmsnorm.operator, (*given, 1e-6))
assert rmsnorm(torch.randn(2, 2).double(), torch.ones(2).double()).dtype == torch.float64
print(rmsnorm.counts)
""",
    )
    assert done.returncode == 0, done.stderr
    assert "no kernel was proved for these dtypes" in done.stdout


def test_selftest_and_benchmark_run(elsewhere: Path) -> None:
    tested = run(elsewhere, "-m", "rms_kernel.selftest")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert tested.stdout.count("right, by the kernel") == 2 and "gradients" in tested.stdout
    timed = run(elsewhere, "-m", "rms_kernel.benchmark")
    assert timed.returncode == 0 and timed.stdout.count("×") == 2


@pytest.mark.slow
def test_a_package_can_carry_the_fast_path(fast_build: Path, tmp_path: Path, host_side: str) -> None:
    made = export(making.rmsnorm(tmp_path), tmp_path / "out", "rms_kernel", fast_path=True)
    code = (
        f"import sys; sys.path.insert(0, {str(made.folder)!r})\n"
        "import torch; torch.set_num_threads(1); from rms_kernel import rmsnorm\n"
        "x, weight = torch.randn(64, 256, requires_grad=True), torch.randn(256)\n"
        "for _ in range(3): rmsnorm(x, weight).sum().backward()\n"
        "assert rmsnorm.counts == {'kernel': 3}; print(rmsnorm.fast and (rmsnorm.fast.plans, rmsnorm.fast.used))"
    )
    elsewhere = str(tmp_path / "empty")
    done = run(Path(sys.executable), "-c", code, KERNELWRIGHT_HOME=elsewhere, XDG_CACHE_HOME=elsewhere)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ("((1, 1), 2)" if host_side == "fast path" else "None")
    with zipfile.ZipFile(made.wheel or "") as wheel:
        assert f"rms_kernel/_runtime/built/{fast_build.name}" in wheel.namelist()
    altered = made.folder / "rms_kernel" / "_runtime" / "built" / fast_build.name
    altered.write_bytes(b"not a library")
    stranger = open_exported(made.folder / "rms_kernel" / "kernel.json")
    assert stranger(*drawn()).shape == (64, 256), "nothing of a folder's own runtime is loaded here"


@pytest.mark.slow
def test_more_threads_than_proved_are_said_and_can_be_allowed(elsewhere: Path) -> None:
    threaded = run(elsewhere, "-m", "rms_kernel.selftest", OMP_NUM_THREADS="2")
    assert threaded.returncode == 3 and "proved with 1 thread" in threaded.stdout
    allowed = run(elsewhere, "-m", "rms_kernel.selftest", OMP_NUM_THREADS="2", KERNELWRIGHT_ALLOW="threads")
    assert allowed.returncode == 0, allowed.stdout


def test_a_library_that_was_exchanged_is_not_loaded(exported: Exported, tmp_path: Path) -> None:
    with zipfile.ZipFile(exported.wheel or "") as wheel:
        wheel.extractall(tmp_path)
    library = tmp_path / "rms_kernel" / exported.manifest.forward[0].file
    library.write_bytes(library.read_bytes() + b"\0")
    done = run(Path(sys.executable), "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
               "import torch; torch.set_num_threads(1); from rms_kernel import rmsnorm\n"
               "rmsnorm(torch.randn(64, 256), torch.randn(256))")  # fmt: skip
    assert done.returncode == 1 and "is not the library that was proved" in done.stderr


@pytest.mark.slow
@pytest.mark.compile
def test_the_installed_package_compiles_both_ways(elsewhere: Path) -> None:
    done = run(
        elsewhere,
        "-c",
        HEAD
        + """
warnings.simplefilter("ignore")
compiled = torch.compile(lambda x, w: rmsnorm(x, w, 1e-6) * 2, fullgraph=True)
got = torch.autograd.grad(compiled(x, weight).square().sum(), (x, weight))
wanted = torch.autograd.grad((2 * reference(x, weight)).square().sum(), (x, weight))
torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-3)
assert rmsnorm.counts["kernel"] >= 1, rmsnorm.counts
""",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.compile
def test_compiled_calls_of_other_sizes_do_not_compile_again(kernel: LoadedKernel) -> None:
    @torch.compile(fullgraph=True, dynamic=True)
    def called(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return kernel(x, weight, EPS) + 1

    leaves = tuple(one.requires_grad_() for one in drawn())
    called(*leaves).sum().backward()
    with torch.compiler.set_stance("fail_on_recompile"):
        for rows, cols in ((64, 256), (32, 512), (70, 200), (9, 65), (300, 2000)):
            given = tuple(one.requires_grad_() for one in drawn(rows, cols))
            got = torch.autograd.grad(called(*given).square().sum(), given)
            wanted = torch.autograd.grad((reference(*given) + 1).square().sum(), given)
            torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-2)
    assert kernel.counts["kernel"] >= 3 and any("sizes" in reason for reason in kernel.counts)


@pytest.mark.slow
@pytest.mark.compile
def test_what_is_not_proved_is_compiled_as_the_reference(kernel: LoadedKernel) -> None:
    compiled = torch.compile(lambda x, w: kernel(x, w), fullgraph=True)
    x, weight = (one.double() for one in drawn())
    torch.testing.assert_close(compiled(x, weight), reference(x, weight))
    assert kernel.counts == {"kernel": 0}, "nothing was called: the compiler saw inside of the reference"


def test_the_runtime_imports_torch_and_the_standard_library_alone() -> None:
    for path in STANDALONE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            else:
                continue
            for name in names:
                top = name.partition(".")[0]
                assert top == "torch" or top in sys.stdlib_module_names, f"{path.name} imports {name}"


def test_the_layout_of_hugging_face(tmp_path: Path) -> None:
    made = export(making.rmsnorm(tmp_path), tmp_path / "hub", "rms_kernel", "hf")
    build = tomllib.loads((made.folder / "build.toml").read_text())
    assert build["general"]["name"] == "rms-kernel" and build["general"]["edition"] == 5 and made.wheel is None
    for name in ("CARD.md", "torch-ext/rms_kernel/__init__.py", "tests/test_rms_kernel.py", "benchmarks/benchmark.py"):
        assert (made.folder / name).is_file()
    done = run(Path(sys.executable), "-c", f"import sys; sys.path.insert(0, {str(made.folder / 'torch-ext')!r})\n"
               "from rms_kernel import rmsnorm; print(rmsnorm.operator)")  # fmt: skip
    assert done.returncode == 0 and "rms_kernel_" in done.stdout, done.stderr


def test_two_exports_live_in_one_process(tmp_path: Path) -> None:
    """Names of operators are unique, so that two versions of a kernel do not meet."""
    first = export(making.rmsnorm(tmp_path), tmp_path / "a", "rms_kernel").manifest
    second = export(making.rmsnorm(tmp_path, backward=False), tmp_path / "b", "rms_kernel").manifest
    assert first.namespace != second.namespace


def test_one_that_is_nowhere_faster_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="not proved faster"):
        export(making.rmsnorm(tmp_path, public=[0.9, 0.9]), tmp_path / "out")
    assert not (tmp_path / "out").exists()
