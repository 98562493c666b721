"""KernelBench's problems at sizes that a CPU does in milliseconds, as files for `kernelwright bench`.

    python benchmarks/kernelbench/small_suite.py CHECKOUT FOLDER --levels 1 2 --draw 8 4 --seed 3
    kernelwright bench FOLDER --proposer templates --budget 90s --baseline eager -o results.jsonl

CHECKOUT is KernelBench's own folder with `level1`, `level2`, …; FOLDER gets folders of the same names. The numbers of
a problem are made smaller as in `shrinking.py`: the largest rewriting that runs and is small enough is taken. Problems
that have none, or take more than a minute to try, are left out, and are named. `--draw` takes so many of each level;
rewriting is slow, so that they are drawn before it.
"""

from __future__ import annotations

import argparse
import ast
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.kernelbench.shrinking import LIMITS, SmallerNumbers, TooLargeError, made  # noqa: E402

MOST_SECONDS = 60


def main() -> None:
    options = _options()
    if options.one is not None:
        print(smaller_source(options.one), end="")
        return
    draw = random.Random(options.seed)
    for index, level in enumerate(options.levels):
        paths = sorted((options.checkout / f"level{level}").glob("*.py"))
        for path in draw.sample(paths, options.draw[index]) if options.draw else paths:
            source = _in_a_process(path)
            if source is None:
                print(f"left out: {path.parent.name}/{path.name}", flush=True)
                continue
            target = options.folder / path.parent.name / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(source)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--levels", nargs="*", default=["1", "2"])
    parser.add_argument("--draw", type=int, nargs="*", help="So many of each level.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", type=Path, help="Print one problem; for the process that runs it.")
    return parser.parse_args()


def _in_a_process(path: Path) -> str | None:
    """A problem is a stranger's code and may ask for any amount of memory."""
    command = ["prlimit", "--as=8589934592", sys.executable, __file__, "--one", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 and done.stdout else None


def smaller_source(path: Path) -> str:
    source = path.read_text()
    for limit in reversed(LIMITS):
        for everywhere in (False, True):
            tree = ast.fix_missing_locations(SmallerNumbers(limit, everywhere=everywhere).visit(ast.parse(source)))
            try:
                made(compile(tree, str(path), "exec"), limit)
            except Exception:  # whatever a rewritten model raises, another rewriting may do
                continue
            return ast.unparse(tree) + "\n"
    raise TooLargeError(path.name)


if __name__ == "__main__":
    main()
