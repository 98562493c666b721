"""The launcher with torch beside it: for programs that leave some of their steps to torch's own operators.

Torch and the candidate's kernels share a context and a stream, and nothing else is here: no answers, no key, no clock
that counts, no host code of the candidate's.

    python -m kernelwright.judge.launcher.with_torch CHANNEL DEVICE
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from typing import Any

import torch

from kernelwright.contracts.program import Program
from kernelwright.isolation.channel import Channel, ChannelClosed
from kernelwright.judge.launcher.launcher import serve
from kernelwright.judge.launcher.torch_steps import TorchSteps
from kernelwright.judge.oracle.flags import strict_flags

MOST_MEMORY = 0.5  # of what is free when a workload is opened: the oracle and the baselines need theirs meanwhile


def main() -> None:
    os.environ["CUDA_CACHE_DISABLE"] = "1"
    index = int(sys.argv[2])
    if torch.cuda.is_available():
        torch.cuda.set_device(index)
        torch.zeros((), device="cuda")  # torch makes the context, which the launcher then shares
    elif torch.version.cuda is not None:  # one without CUDA meets a driver that is played, whose memory is the host's
        raise SystemExit("torch finds no GPU here")

    def steps(program: Program, stream: Any) -> TorchSteps:
        if torch.cuda.is_available():
            cuda: Any = torch.cuda
            cuda.set_stream(cuda.ExternalStream(int(stream), device=index))
            free, total = cuda.mem_get_info(index)
            cuda.set_per_process_memory_fraction(MOST_MEMORY * free / total, index)
        return TorchSteps(program, stream)

    with suppress(ChannelClosed), torch.no_grad(), strict_flags():  # the controller is done, or gone
        serve(Channel(socket.socket(fileno=int(sys.argv[1]))), index, steps)


if __name__ == "__main__":
    main()
