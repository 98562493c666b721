"""The confined process that compiles a candidate's kernels: it reads hostile text and returns bytes.

It is started ahead of need and warms up on text of ours, serves one candidate, and ends.

    python compiler.py CHANNEL FOLDER-OF-KERNELWRIGHT
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from typing import Any


def _prelude(headers: list[str]) -> str:
    return "".join(f"#include <{header}>\n" for header in headers) + "#pragma nv_hdrstop\n"


def _definitions(pairs: list[list[str]]) -> str:
    """Behind the prelude and not on the command line, which has to stay the same for a precompiled header."""
    return "".join(f"#define {name} {value}\n" for name, value in pairs)


class Compiler:
    def __init__(self, start: dict[str, Any]) -> None:
        from kernelwright.contracts.nvrtc import CompileError, compile_cuda

        self._compile, self._error = compile_cuda, CompileError
        self._headers: list[str] = start["headers"]
        self._options: list[str] = start["options"]
        self._header_file = ""
        compile_cuda('extern "C" __global__ void warm(float* x) { x[0] = 0; }', "warm.cu", self._options, [])
        if self._headers:
            self._precompile(f"{start['scratch']}/headers.pch")

    def _precompile(self, path: str) -> None:
        with suppress(self._error):  # without it everything works, only slower
            self._compile(_prelude(self._headers), "kernel.cu", [*self._options, f"--create-pch={path}"], [])
            self._header_file = path

    def answer(self, request: dict[str, Any], product: int) -> dict[str, Any]:
        body = f'{_definitions(request["definitions"])}#line 1 "kernel.cu"\n{request["source"]}'
        options, kernels = [*self._options, *request["options"]], request["kernels"]
        if self._header_file and any(header in request["source"] for header in self._headers):
            ready = [*options, f"--use-pch={self._header_file}"]
            with suppress(self._error):  # the prelude may clash with names of the candidate's
                return self._made(self._compile(_prelude(self._headers) + body, "kernel.cu", ready, kernels), product)
        try:
            return self._made(self._compile(body, "kernel.cu", options, kernels), product)
        except self._error as error:
            return {"failure": error.log[: 1 << 16]}

    def _made(self, compiled: Any, product: int) -> dict[str, Any]:
        os.ftruncate(product, 0)
        os.pwrite(product, compiled.cubin, 0)
        return {"names": compiled.names, "log": compiled.log[: 1 << 16]}


def main() -> None:
    sys.path.append(sys.argv[2])
    from kernelwright.isolation.channel import Channel, ChannelClosed

    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    with suppress(ChannelClosed):
        start, _ = channel.receive()
        compiler = Compiler(start)
        channel.send({"ready": True})
        while True:
            request, (product,) = channel.receive()
            answer = compiler.answer(request, product)
            os.close(product)
            channel.send(answer)
    os._exit(0)


if __name__ == "__main__":
    main()
