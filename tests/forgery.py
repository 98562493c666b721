"""Certificates that a test makes up and signs, as a stranger can: one of the repository's, with other values."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kernelwright.archives import read_archive
from kernelwright.contracts import Candidate
from kernelwright.judge.certificate import folder
from kernelwright.judge.keys import derive, judge_key
from kernelwright.judge.verdict import Verdict

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
STRANGER = b"x" * 32


@cache
def _issued() -> dict[str, Any]:
    """The certificate of maxpool2d, the smallest of them."""
    files = read_archive(RESULTS / "optimized_cpu.tar.xz").files
    name = next(name for name in sorted(files) if name.startswith("maxpool2d/") and name.endswith(".json"))
    body: dict[str, Any] = json.loads(files[name])["certificate"]
    return body


def body(**changes: Any) -> dict[str, Any]:
    """With other values, by `place__field`."""
    made = copy.deepcopy(_issued())
    for path, value in changes.items():
        *above, field = path.split("__")
        place = made
        for part in above:
            place = place[part]
        place[field] = value
    return made


def sign(content: dict[str, Any], key: bytes = STRANGER) -> bytes:
    """A certificate's file, signed as the judge with this key signs; whatever the content is."""
    signer = Ed25519PrivateKey.from_private_bytes(derive(key, "certificates"))
    whole = {**content, "judge": signer.public_key().public_bytes_raw().hex()}
    signature = signer.sign(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode())
    return json.dumps({"certificate": whole, "signature": signature.hex()}).encode()


def forged(**changes: Any) -> bytes:
    return sign(body(**changes))


def of_final(verdict: Verdict, candidate: Candidate, task: str, digest: str) -> dict[str, Any]:
    """A full judging of this candidate, as a certificate has it."""
    said = json.loads(verdict.model_copy(update={"task": task, "certificate": None}).model_dump_json())
    hidden = []
    for result in said["workloads"]:
        if result["hidden"]:  # named by its sizes, as a judge does
            result["label"], result["sizes"] = f"{result['label']}=1", {result["label"]: 1}
            hidden.append({"sizes": list(result["sizes"].items()), "dtype": result["dtype"]})
    return body(
        candidate={
            "contract": candidate.contract,
            "name": candidate.name,
            "source": candidate.source,
            "id": candidate.id,
        },
        task={"reference": task, "name": task, "digest": digest},
        terms__threads=verdict.conditions.threads,
        verdict=said,
        hidden=hidden,
    )


def keep(name: str, content: dict[str, Any], key: bytes | None = None) -> None:
    """Where this installation keeps its own."""
    place = folder() / f"{name}.json"
    place.write_bytes(sign(content, judge_key() if key is None else key))
