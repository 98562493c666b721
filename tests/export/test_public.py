"""The public certificate: signed, checked by others, and without anything that is hidden."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import kernelwright
from kernelwright.errors import KernelwrightError
from kernelwright.export.package import Exported, export
from kernelwright.export.portable import write_portable
from kernelwright.export.public import verified
from kernelwright.export.region import regions_of
from kernelwright.export.standalone import host
from kernelwright.judge.certificate import CertificateError
from kernelwright.judge.strangers import trusted
from tests import forgery
from tests.export import making


def _numbers(value: Any) -> set[int]:
    if isinstance(value, dict):
        return set().union(*map(_numbers, value.values()), set())
    if isinstance(value, list):
        return set().union(*map(_numbers, value), set())
    return {value} if isinstance(value, int) and not isinstance(value, bool) else set()


def test_nothing_hidden_leaves(tmp_path: Path) -> None:
    """Compares every file that leaves with all hidden sizes, labels, keys and times."""
    proofs = making.rmsnorm(tmp_path, hidden=(1.234567, 1.345678, 1.456789))
    made = export(proofs, tmp_path / "package", "rms_kernel")
    files = [path for path in made.folder.rglob("*") if path.suffix in (".json", ".md", ".py", ".toml")]
    texts = [path.read_text() for path in files]
    declared = {8, 256, 64, 1024, 32, 512}
    for proof in proofs:
        issued = proof.certificates[0]
        secrets = [issued.subkey, issued.checks, json.dumps(issued.model_dump(mode="json")["hidden"])]
        for one in proof.verdict.workloads:
            if one.hidden:
                secrets += [one.label, str(one.seconds), str(one.baselines[0].speedup.mid), json.dumps(one.sizes)]
                sizes = set(one.sizes.values()) - declared
                for path in files:
                    if path.suffix == ".json":
                        assert not sizes & _numbers(json.loads(path.read_text())), path
        for secret in filter(None, secrets):
            assert not any(secret in text for text in texts), secret


def test_hidden_workloads_are_told_in_aggregate_alone(exported: Exported) -> None:
    place = exported.folder / exported.name / exported.manifest.forward[0].certificate
    issued = verified(place.read_bytes(), "it")
    assert (issued.hidden.timed, issued.hidden.faster, issued.hidden.least_speedup) == (3, 3, 1.47)
    assert [one.sizes for one in issued.workloads] == [{"rows": 64, "cols": 256}, {"rows": 32, "cols": 512}]
    assert issued.domain.sizes == {"rows": (8, 256), "cols": (64, 1024)} and issued.judge == trusted.own_key()


def test_a_region_depends_on_hidden_workloads_in_one_bit(tmp_path: Path) -> None:
    """Whatever the hidden sizes and speeds are, there are two regions at most: all faster, or not."""
    reference = making.task_file(tmp_path)
    source = making.source("rmsnorm", "simd.cpp")
    found = {}
    for hidden in ((1.5, 1.5, 1.5), (9.0, 1.1, 1.2), (1.5,), (0.9, 1.5, 1.5), (0.5, 0.5, 0.5)):
        proof = making.proved(reference, source, hidden=hidden)
        found[hidden] = regions_of(proof.task, proof.verdict, "float32")
    faster = [found[one] for one in list(found)[:3]]
    slower = [found[one] for one in list(found)[3:]]
    assert faster[0] == faster[1] == faster[2] and slower[0] == slower[1] != faster[0]
    assert all(region.exactly for region in slower[0]) and not faster[0][0].exactly


def test_an_unchecked_domain_leaves_the_timed_sizes_alone(tmp_path: Path) -> None:
    proof = making.proved(making.task_file(tmp_path), making.source("rmsnorm", "simd.cpp"), domain=None)
    assert all(region.exactly for region in regions_of(proof.task, proof.verdict, "float32"))


def _manifest(folder: Path) -> Path:
    return folder / "kernel.json"


def _change(path: Path, change: Callable[[Any], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def _wider(content: Any) -> None:
    content["forward"][0]["regions"][0]["most"] = 1 << 40


def _escaping(content: Any) -> None:
    content["forward"][0]["certificate"] = "../../../etc/passwd"


def _faster(content: Any) -> None:
    content["certificate"]["hidden"]["least_speedup"] = 9.0


def _other_key(content: Any) -> None:
    content["certificate"]["judge"] = "ab" * 32


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("manifest", "is not what the judge signed for"),
        ("escape", "names a file outside of its folder"),
        ("certificate", "was altered after it was signed"),
        ("key", "was altered after it was signed"),
        ("library", "is not the library that the judge signed for"),
        ("reference", "is not the reference that the judge signed for"),
        ("truncated", "cannot be understood"),
        ("gone", "No such file"),
    ],
)
def test_what_was_altered_is_refused_in_one_line(exported: Exported, tmp_path: Path, what: str, said: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(exported.folder / exported.name, folder)
    variant = exported.manifest.forward[0]
    match what:
        case "manifest":
            _change(_manifest(folder), _wider)
        case "escape":
            _change(_manifest(folder), _escaping)
        case "certificate":
            _change(folder / variant.certificate, _faster)
        case "key":
            _change(folder / variant.certificate, _other_key)
        case "library":
            (folder / variant.file).write_bytes((folder / variant.file).read_bytes() + b"\0")
        case "reference":
            (folder / "reference.py").write_text("raise SystemExit('it was run')\n")
        case "truncated":
            _manifest(folder).write_text(_manifest(folder).read_text()[:100])
        case "gone":
            (folder / variant.certificate).unlink()
    with pytest.raises(KernelwrightError, match=said) as caught:
        kernelwright.load(folder)
    assert "\n" not in str(caught.value)


def _copied(exported: Exported, tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    shutil.copytree(exported.folder / exported.name, folder)
    return folder


@pytest.mark.parametrize("name", ["reference.py", "certificate"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_not_a_plain_file_is_not_read(exported: Exported, tmp_path: Path, name: str, kind: str) -> None:
    """A pipe would be waited for, and a device read until memory ends."""
    folder = _copied(exported, tmp_path)
    path = folder / (exported.manifest.forward[0].certificate if name == "certificate" else name)
    path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
    with pytest.raises(KernelwrightError, match=r"is not a file|Is a directory|outside of its folder") as caught:
        kernelwright.load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"certificate": 5},
        {"certificate": "certificates/\0.json"},
        {"certificate": "certificates/\x1b[2J\nTHE SAME"},
        {"file": ["kernels"]},
        {"speedup": float("inf")},
        {"speedup": float("nan")},
        {"domain": {"rows": [1, float("inf")]}},
        {"regions": [{"ranges": {"rows": [1, 1e400]}}]},
        {"device": {}},
    ],
    ids=str,
)
def test_whatever_a_manifest_says_costs_one_line(exported: Exported, tmp_path: Path, change: dict[str, Any]) -> None:
    folder = _copied(exported, tmp_path)
    _change(_manifest(folder), lambda content: content["forward"][0].update(change))
    with pytest.raises(KernelwrightError) as caught:
        kernelwright.load(folder)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 600


def test_what_is_loaded_is_what_was_looked_at(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that changes behind the last look at it is not what runs."""
    folder = _copied(exported, tmp_path)
    library = folder / exported.manifest.forward[0].file
    kernel = kernelwright.load(folder)
    digest = hashlib.sha256

    def swapped(content: bytes = b"") -> Any:
        if content.startswith(b"\x7fELF"):
            library.write_bytes(b"another")
        return digest(content)

    monkeypatch.setattr(hashlib, "sha256", swapped)
    kernel.warm_up()
    monkeypatch.undo()
    assert library.read_bytes() == b"another"
    x, weight = torch.randn(64, 256), torch.randn(256)
    wanted = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
    torch.testing.assert_close(kernel(x, weight), wanted)
    assert kernel.counts == {"kernel": 1}


def test_libraries_that_are_loaded_one_after_the_other_are_each_their_own(tmp_path: Path) -> None:
    """Descriptors are used again, and the loader goes by paths."""
    reference = making.task_file(tmp_path)
    found = []
    for name in ("simd.cpp", "naive.cpp"):
        content = making.built(making.source("rmsnorm", name), reference).library.read_bytes()
        path = tmp_path / name
        path.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        library = host.HostLibrary(path, digest, threads=1, openmp=False, stateless=True)
        library.load()
        found.append(ctypes.cast(library._run, ctypes.c_void_p).value)
    assert found[0] != found[1]


def test_a_strangers_kernel_counts_once_its_key_is_trusted(exported: Exported, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(exported.folder / exported.name, folder)
    for path in (folder / "certificates").iterdir():
        path.write_bytes(forgery.sign(json.loads(path.read_text())["certificate"]))
    with pytest.raises(CertificateError, match="signed by an unknown key"):
        kernelwright.load(folder)
    key = json.loads(next((folder / "certificates").iterdir()).read_text())["certificate"]["judge"]
    trusted.add(key, "a stranger")
    try:
        assert kernelwright.load(folder).operation.name == "rmsnorm"
    finally:
        trusted.remove(key)


def test_what_is_built_otherwise_than_it_was_judged_is_refused(tmp_path: Path) -> None:
    proof = making.proved(making.task_file(tmp_path), making.source("rmsnorm", "simd.cpp"), artefact="code:" + "0" * 64)
    with pytest.raises(KernelwrightError, match="what is built here is not what was judged"):
        write_portable([proof], tmp_path / "folder", "any")
