"""What a CPU's memory reaches, by how it is asked: the three figures whose best is the peak. For decision 20.

    python benchmarks/cpu/copies_cpu.py [--rounds 20]

Rounds are a few seconds apart, and the best of each counts: a machine that others use is quiet now and then.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.shared.record import RESULTS, provenance, save

from kernelwright.devices.cpu import COPIED_BYTES, plain_copy, reading, streaming_copy
from kernelwright.devices.lock import measuring

PAUSE = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    where = provenance()
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
    report = {"threads": threads, "unit": "GB/s", "best": best, "rounds": found}
    save(RESULTS / "copies_cpu.json", {**where, **report})
    for way, rate in best.items():
        print(f"{way:15} {rate:6.1f} GB/s")


if __name__ == "__main__":
    main()
