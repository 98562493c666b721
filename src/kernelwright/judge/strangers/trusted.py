"""Which judges' signatures the user trusts: this installation's own, and keys that the user added by hand.

A trusted key makes a certificate count as that judge's word. It does not make anything that the certificate names run.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path

from pydantic import Field, TypeAdapter, ValidationError

from kernelwright.errors import KernelwrightError
from kernelwright.judge.certificate import HEX, Certificate, public_key
from kernelwright.judge.keys import judge_key
from kernelwright.judge.verdict import VerdictPart
from kernelwright.paths import state_dir, write_whole

MAX_KEYS, MAX_NAME, MAX_BYTES = 256, 40, 1 << 18


class TrustError(KernelwrightError):
    """A key that is not one, a name that is taken, or a file of keys that cannot be read."""


class TrustedKey(VerdictPart):
    key: str = Field(pattern=HEX, min_length=64, max_length=64)
    name: str = Field(min_length=1, max_length=MAX_NAME)


_KEYS = TypeAdapter(tuple[TrustedKey, ...])


class Signer(StrEnum):
    here = "here"
    trusted = "trusted"
    unknown = "unknown"


class SignedBy(VerdictPart):
    """Who signed a certificate. `name` is the one that the user gave the key; empty where it is not a trusted one."""

    signer: Signer
    key: str
    name: str = ""

    @property
    def trusted(self) -> bool:
        return self.signer is not Signer.unknown

    def __str__(self) -> str:
        match self.signer:
            case Signer.here:
                return "signed here"
            case Signer.trusted:
                return f"signed by {self.name} (trusted)"
            case Signer.unknown:
                return f"signed by an unknown key ({self.key[:16]}…)"


def own_key() -> str:
    return public_key(judge_key())


def signature_of(issued: Certificate) -> SignedBy:
    if issued.judge == own_key():
        return SignedBy(signer=Signer.here, key=issued.judge)
    name = next((one.name for one in trusted_keys() if one.key == issued.judge), None)
    if name is None:
        return SignedBy(signer=Signer.unknown, key=issued.judge)
    return SignedBy(signer=Signer.trusted, key=issued.judge, name=name)


def trusted_keys() -> tuple[TrustedKey, ...]:
    """Those that the user added; one's own is not among them."""
    path = _path()
    try:
        raw = path.read_bytes() if path.stat().st_size <= MAX_BYTES else b""
        return _KEYS.validate_json(raw)
    except FileNotFoundError:
        return ()
    except (OSError, ValidationError):
        raise TrustError(
            f"{path}: cannot be read as a list of trusted keys; remove it and add the keys again"
        ) from None


def add(key: str, name: str = "") -> TrustedKey:
    key = key.strip().lower()
    name = name or key[:16]
    if not name.isprintable() or len(name) > MAX_NAME or name != name.strip():
        raise TrustError(f"a name has at most {MAX_NAME} printable letters, and no blanks around them")
    try:
        new = TrustedKey(key=key, name=name)
    except ValidationError:
        raise TrustError("a key has 64 hexadecimal digits; `kernelwright trust show` prints a judge's own") from None
    known = trusted_keys()
    if key == own_key():
        raise TrustError("this is the key of this installation, which is always trusted")
    if any(one.name == name and one.key != key for one in known):
        raise TrustError(f"{name}: is the name of another key; choose another with --name")
    others = tuple(one for one in known if one.key != key)
    if len(others) >= MAX_KEYS:
        raise TrustError(f"at most {MAX_KEYS} keys are kept; remove one first")
    _store((*others, new))
    return new


def remove(given: str) -> TrustedKey:
    """By key or by name."""
    known = trusted_keys()
    found = next((one for one in known if given in (one.key, one.name)), None)
    if found is None:
        raise TrustError(f"{given}: is not the name or the key of a trusted one; `kernelwright trust list` has them")
    _store(tuple(one for one in known if one != found))
    return found


def _path() -> Path:
    return state_dir() / "trusted.json"


def _store(keys: tuple[TrustedKey, ...]) -> None:
    text = json.dumps([one.model_dump() for one in keys], indent=1)
    write_whole(_path(), text.encode(), mode=0o600)
