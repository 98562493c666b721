"""The judge's secret, and everything drawn from it. One subkey never reveals another."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from kernelwright.errors import CannotDecide
from kernelwright.paths import state_dir, write_whole

KEY_BYTES = 32


def judge_key() -> bytes:
    """This installation's key, made on first use. Whoever knows it knows the hidden workloads."""
    try:
        path = state_dir() / "judge.key"
        if not path.exists():
            write_whole(path, secrets.token_bytes(KEY_BYTES), mode=0o600)
        key = Path(path).read_bytes()
    except OSError as error:
        raise CannotDecide(f"cannot keep the judge's key: {error.strerror}: {error.filename}") from error
    if len(key) != KEY_BYTES:
        raise CannotDecide(f"{path}: is not a judge key; delete it to have a new one made")
    return key


def derive(key: bytes, *parts: str | int) -> bytes:
    """A subkey for one purpose. Parts are separated, so that ("a", "bc") and ("ab", "c") differ."""
    message = b"".join(len(text).to_bytes(4, "big") + text for text in (str(part).encode() for part in parts))
    return hmac.new(key, message, hashlib.sha256).digest()


def candidate_key(key: bytes, task_digest: str, task: str, candidate: str) -> bytes:
    """What a judging of one candidate is drawn from; its certificate may tell it, for it tells nothing else."""
    return derive(key, "candidate", task_digest, task, candidate)


def seed(key: bytes, *parts: str | int) -> int:
    """A subkey as a number, for generators that take one."""
    return int.from_bytes(derive(key, *parts)[:8], "big") >> 1
