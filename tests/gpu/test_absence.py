"""Without CUDA packages everything imports, and what needs them says so in one line."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "cuda" or name.startswith("cuda."):
            raise ImportError(f"No module named {name!r}")

sys.meta_path.insert(0, Absent())
import kernelwright.contracts.cuda, kernelwright.judge.gpu, kernelwright.judge.launcher, kernelwright.runtime
parts = kernelwright.contracts.cuda, kernelwright.judge.gpu, kernelwright.judge.launcher, kernelwright.runtime
for package in parts:
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
from kernelwright.contracts import nvrtc
from kernelwright.devices import driver
print(nvrtc.available())
try:
    driver.driver()
except Exception as error:
    print(type(error).__name__, error)
"""


def test_everything_imports_and_the_extra_is_named() -> None:
    made = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    nvrtc, bindings = made.stdout.strip().splitlines()
    assert nvrtc.startswith("NVRTC is missing") and nvrtc.endswith("pip install -e '.[cuda]' in the clone")
    assert bindings.startswith("CannotDecide the CUDA bindings are missing")


def test_the_launcher_brings_neither_torch_nor_numpy_nor_pydantic() -> None:
    program = (
        "import sys, kernelwright.judge.launcher.launcher\n"
        "print(sorted({'torch', 'numpy', 'pydantic'} & set(sys.modules)))"
    )
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert made.stdout.strip() == "[]", made.stderr
