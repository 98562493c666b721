"""`kernelwright trust`, and how replays name who signed."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator

import pytest
from tests import forgery
from typer.testing import CliRunner, Result

from kernelwright.cli.main import assembled
from kernelwright.judge import certificate
from kernelwright.judge.keys import judge_key
from kernelwright.judge.strangers import trusted
from kernelwright.judge.strangers.trusted import Signer, TrustError, signature_of
from kernelwright.paths import state_dir

KEY = certificate.public_key(forgery.STRANGER)


def trust(*arguments: str) -> Result:
    return CliRunner().invoke(assembled(["trust"]), ["trust", *arguments])


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    yield
    (state_dir() / "trusted.json").unlink(missing_ok=True)


def test_a_key_is_added_listed_and_removed() -> None:
    assert trust("add", KEY, "--name", "colleague").exit_code == 0
    told = json.loads(trust("list", "--json").stdout)
    assert told["keys"] == [{"key": KEY, "name": "colleague"}] and told["own"] == trust("show").stdout.strip()
    assert "colleague" in trust("list").stdout and KEY in trust("list").stdout
    assert stat.S_IMODE((state_dir() / "trusted.json").stat().st_mode) == 0o600
    assert trust("remove", "colleague").exit_code == 0 and trusted.trusted_keys() == ()


def test_who_signed_is_told() -> None:
    foreign = certificate.parse(forgery.forged(), "x")
    assert str(signature_of(foreign)) == f"signed by an unknown key ({KEY[:16]}…)"
    trusted.add(KEY, "colleague")
    assert str(signature_of(foreign)) == "signed by colleague (trusted)" and signature_of(foreign).trusted
    own = certificate.parse(forgery.sign(forgery.body(), judge_key()), "x")
    assert signature_of(own).signer is Signer.here and str(signature_of(own)) == "signed here"


@pytest.mark.parametrize(
    ("key", "name", "why"),
    [
        ("abc", "", "64 hexadecimal digits"),
        ("g" * 64, "", "64 hexadecimal digits"),
        (KEY, "x" * 41, "at most 40 printable"),
        (KEY, "\x1b[2J", "at most 40 printable"),
        (KEY, "\u202eowner", "at most 40 printable"),
        (KEY, "taken", "is the name of another key"),
    ],
)
def test_what_is_not_a_key_or_a_name_is_refused(key: str, name: str, why: str) -> None:
    trusted.add("a" * 64, "taken")
    with pytest.raises(TrustError, match=why):
        trusted.add(key, name)


def test_ones_own_key_is_always_trusted_and_others_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TrustError, match="always trusted"):
        trusted.add(trusted.own_key())
    with pytest.raises(TrustError, match="is not the name or the key"):
        trusted.remove(trusted.own_key())
    monkeypatch.setattr(trusted, "MAX_KEYS", 1)
    trusted.add("a" * 64)
    with pytest.raises(TrustError, match="at most 1 keys"):
        trusted.add("b" * 64)


def test_a_damaged_file_of_keys_trusts_nothing() -> None:
    (state_dir() / "trusted.json").write_text('[{"key": "zz", "name": ""}]')
    with pytest.raises(TrustError, match="cannot be read as a list of trusted keys"):
        trusted.trusted_keys()
