"""What a CPU's memory reaches, by how it is asked: the three figures whose best is the peak. For decision 20.

    python benchmarks/copies_cpu.py [--rounds 20]

Rounds are a few seconds apart, and the best of each counts: a machine that others use is quiet now and then.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from kernelwright.devices.cpu import probe
from kernelwright.devices.lock import measuring
from kernelwright.devices.peaks_cpu import COPIED_BYTES, plain_copy, reading
from kernelwright.devices.streaming import streaming_copy
from revision import commit

RESULT = Path(__file__).parent / "results" / "copies_cpu.json"
PAUSE = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    threads = torch.get_num_threads()
    ways = {
        "plain copy": plain_copy,
        "reading": reading,
        "streaming copy": lambda: streaming_copy(COPIED_BYTES, threads),
    }
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, measure in ways.items():
            with measuring():
                found[way].append(round(measure() / 1e9, 2))
        time.sleep(PAUSE)
    best = {way: max(rates) for way, rates in found.items()}
    about = {"commit": commit(), "cpu": probe().model, "threads": threads}
    RESULT.write_text(json.dumps({**about, "unit": "GB/s", "best": best, "rounds": found}, indent=1) + "\n")
    for way, rate in best.items():
        print(f"{way:15} {rate:6.1f} GB/s")


if __name__ == "__main__":
    main()
