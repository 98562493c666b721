"""Serves SmolLM2 over HTTP with llama.cpp until its input ends. Says its address in one line.

A process of its own: a test must not share one with a native server.
"""

from __future__ import annotations

import sys

import xllamacpp


def main(model: str) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.n_ctx = 4096
    params.n_parallel = 2
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
