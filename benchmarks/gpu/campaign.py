"""Every measurement that needs a GPU, one after another: what can be claimed on this one, in as many goes as it takes.

    python benchmarks/gpu/campaign.py --out DIR [--seconds 560] [--kernelbench CHECKOUT] [--robust-kbench CHECKOUT]
    python benchmarks/gpu/campaign.py --list

Each step is a command of its own with a time limit. It says what it printed in DIR/STEP.txt, and the results that it
wrote come to DIR/results. DIR/campaign.json tells which steps are over, so that the same command goes on where the last
one ended: a step whose limit does not fit into the seconds that are left waits for the next go. A step that fails or
runs out of time is begun again in the next go, twice at most; the others go on meanwhile. Steps without their checkout
are left out. The order is by what would be found first: does everything work here, is it right, how fast is it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.shared.record import RESULTS, load, provenance, save  # noqa: E402

TRIES = 3
SPARE = 5.0  # seconds for what comes between steps
ENOUGH = frozenset({"passed", "given up"})


@dataclass(frozen=True)
class Step:
    """`command` with the checkouts that it names in braces. `seconds` is its limit; {seconds} in the command is less,
    for what ends by itself. A step with a `piece` goes on where it ended, and is worth beginning for so many seconds.
    """

    name: str
    shows: str
    command: str
    seconds: float
    piece: float | None = None

    @property
    def least(self) -> float:
        return self.seconds if self.piece is None else self.piece


CLI = "-m kernelwright.cli.main"
BENCH = f"{CLI} bench {{kernelbench}}/%s --proposer templates --budget 60s --device cuda -o {{out}}/%s.jsonl"
VERDICTS = "benchmarks/gpu/verdicts.py --seconds {seconds}"
JUDGE = "benchmarks/gpu/judge_gpu.py --seconds {seconds} --only"
HOPPER = "benchmarks/gpu/hopper_under_tools.py --only"
EAGER = "benchmarks/kernelbench/eager_itself.py {kernelbench} --draw 40 --seed 1 --seconds {seconds}"
HONEST = "benchmarks/shared/honest_judgings.py --device cuda --judgings 400 --seconds {seconds}"
STEPS = (
    Step("doctor", "the device, its isolation, and fourteen cheats", f"{CLI} doctor --self-test", 150),
    Step("tests", "the tests that need a GPU", "-m pytest -q -m gpu", 500),
    Step("hopper_judged", "ten Hopper kernels in full", f"{HOPPER} judged", 900, piece=300),
    Step("hopper_tools", "what each sanitizer says of them, two ways", f"{HOPPER} tools", 1800, piece=300),
    Step("hopper_waiting", "a caller behind a slow sanitizer", f"{HOPPER} waiting", 540),
    Step("triton", "Triton modules by replay", f"{VERDICTS} triton", 300),
    Step(
        "extension",
        "extensions of robust-kbench by replay",
        f"{VERDICTS} extension --robust-kbench {{robust_kbench}}",
        300,
    ),
    Step("modelnew", "ModelNew modules with steps of torch, and modules that cheat", f"{VERDICTS} modelnew", 300),
    Step("many_tasks", "the judge's memory over 50 tasks", "benchmarks/gpu/many_tasks.py --device cuda", 240),
    Step("eager_itself", "eager against itself on 40 problems of KernelBench", EAGER, 500),
    Step("sizes", "what sizes as arguments cost", f"{VERDICTS} sizes", 150),
    Step("libraries", "products, convolutions, attention", f"{VERDICTS} products convolutions attention", 540),
    Step("product_variants", "products by method, tile and stages", "benchmarks/gpu/product_variants.py", 90),
    Step("commands", "one warm call", f"{JUDGE} commands", 150),
    Step("batch", "candidates a minute", f"{JUDGE} batch", 150),
    Step("noise", "A/A by duration", f"{JUDGE} noise", 150),
    Step(
        "optimize",
        "templates on 12 problems of level 1, a minute each",
        f"{BENCH} --sample 12 --seed 2" % ("level1", "optimize"),
        900,
        piece=120,
    ),
    Step("honest", "how often an honest kernel is rejected", HONEST, 400),
    Step("replay", "committed certificates", f"{CLI} replay --all benchmarks/results --seconds 400", 540),
    *(
        Step(level, f"templates on 40 problems of {level}", f"{BENCH} --sample 40 --seed 3" % (level, level), 3000, 120)
        for level in ("level1", "level2")
    ),
)


def main() -> int:
    options = _options()
    if options.list:
        for step in STEPS:
            print(f"{step.name:22} {step.seconds:5.0f} s  {step.shows}")
        return 0
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    states, until = _loaded(out), time.monotonic() + options.seconds
    for step in STEPS:
        if options.only and step.name not in options.only:
            continue
        known = states.get(step.name, {})
        if known.get("state") in ENOUGH:
            continue
        command = _command(step, options, until)
        left = until - time.monotonic() - SPARE
        if command is None:
            print(f"{step.name}: left out, its checkout was not named")
        elif left < step.least:
            print(f"{step.name}: no time in this go")
        else:
            states[step.name] = _run(step, command, min(left, step.seconds), known, out)
            _keep(out, states)
            print(f"{step.name}: {states[step.name]['state']}, {states[step.name]['seconds']} s", flush=True)
    waiting = [step.name for step in STEPS if states.get(step.name, {}).get("state") not in ENOUGH]
    print(f"waiting: {', '.join(waiting)}" if waiting else "all is done")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "campaign")
    parser.add_argument("--seconds", type=float, default=560.0, help="for this go")
    parser.add_argument("--kernelbench", type=Path, help="the folder with level1, level2, …")
    parser.add_argument("--robust-kbench", type=Path)
    parser.add_argument("--only", nargs="*", choices=[step.name for step in STEPS], default=[], metavar="STEP")
    parser.add_argument("--list", action="store_true", help="print the steps and end")
    return parser.parse_args()


def _loaded(out: Path) -> dict[str, Any]:
    return dict(load(out / "campaign.json").get("steps", {}))


def _keep(out: Path, states: dict[str, Any]) -> None:
    save(out / "campaign.json", {**provenance(), "steps": states})
    for path in RESULTS.glob("*.json"):
        if path.stat().st_mtime > _STARTED:
            (out / "results").mkdir(exist_ok=True)
            shutil.copy(path, out / "results" / path.name)


_STARTED = time.time()


def _command(step: Step, options: argparse.Namespace, until: float) -> list[str] | None:
    """None where a checkout is missing. What ends by itself is given a tenth less than its limit."""
    given = {"kernelbench": options.kernelbench, "robust_kbench": options.robust_kbench, "out": options.out}
    needed = {name for name in given if f"{{{name}}}" in step.command}
    if any(given[name] is None for name in needed):
        return None
    seconds = int(0.9 * min(step.seconds, until - time.monotonic()))
    words = [word.format(**given, seconds=seconds) for word in step.command.split()]
    return [sys.executable, *words]


def _run(step: Step, command: list[str], seconds: float, before: dict[str, Any], out: Path) -> dict[str, Any]:
    began, tries = time.monotonic(), before.get("tries", 0) + 1
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with (out / f"{step.name}.txt").open("a") as log:
        print(f"$ {' '.join(command[1:])}", file=log, flush=True)
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
    state = _state(step, code, tries)
    return {"state": state, "exit_code": code, "seconds": round(time.monotonic() - began, 1), "tries": tries}


def _state(step: Step, code: int | None, tries: int) -> str:
    if code == 0:
        return "passed"
    if code is None and step.piece is not None:
        return "goes on"
    return "given up" if tries >= TRIES else "out of time" if code is None else "failed"


if __name__ == "__main__":
    sys.exit(main())
