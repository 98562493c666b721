"""Calibration: candidates whose faults are known, what verifiers say of them, and whether that pays."""

from __future__ import annotations

import json
import random
import shutil
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.cli.main import COMMANDS, assembled
from kernelwright.contracts import Candidate
from kernelwright.errors import CannotDecide, KernelwrightError
from kernelwright.judge.verdict import Outcome, Reason
from kernelwright.llm.model import FailureKind, ModelCall
from kernelwright.proposers.llm.calibration import (
    SHIPPED,
    Calibration,
    CalibrationSettings,
    VerifierAccuracy,
    calibrated,
    default_path,
    measure_verifiers,
    read_calibration,
    sampled_questions,
    save_calibration,
    verifiers_in_use,
    worth,
)
from kernelwright.proposers.llm.labelled import (
    INJECTORS,
    Labelled,
    from_injection,
    from_pairs,
    from_verdict,
    honest,
    inject,
)
from kernelwright.proposers.llm.view import VERIFIERS, PromptStage
from tests.hostile import long, quickly
from tests.llm.scripted import Behaviour, Good, Seen, Status, serving
from tests.proposers.llm import acting, samples

app = assembled(COMMANDS)

PAIRS = Path(__file__).parents[2] / "exploits"
HONEST = """// sums squares
void kernel(kw::Tensor<const float, 2> x, double eps, kw::Tensor<float, 2> out) {
  for (long i = 0; i < x.size(0); ++i) {
    float sum = 0;
    for (long j = 0; j < x.size(1); ++j) sum += x(i, j) * x(i, j);
    float scale = 1 / sqrtf(sum + eps);
    float* to = out.data + i * x.size(1);
    for (long j = 0; j < x.size(1); ++j) to[j] = x(i, j) * scale;
  }
}
"""


def test_every_injector_changes_one_place_of_something() -> None:
    candidate = Candidate("cpp", HONEST, "a")
    cuda = Candidate("cuda", "__global__ void k() {\n  __syncthreads();\n}\n/* plan.py\nimport kw\n*/\n", "b")
    for injector in INJECTORS:
        found = inject(candidate, injector, 1) or inject(cuda, injector, 1)
        assert found is not None, injector.name
        assert found.source not in (candidate.source, cuda.source)
        assert inject(candidate, injector, 1) == inject(candidate, injector, 1)
    assert "plan.py" in inject(cuda, INJECTORS[5], 1).source  # type: ignore[union-attr]


@pytest.mark.parametrize("source", [long("for("), long(" "), long("a[")], ids=lambda source: source[:4])
def test_no_source_takes_longer_than_its_length_allows(source: str) -> None:
    for injector in INJECTORS:
        quickly(inject, Candidate("cpp", source), injector, 1)


def test_planted_bugs_are_about_the_verifier_that_should_see_them() -> None:
    found = from_injection([honest("toy", Candidate("cpp", HONEST, "a"), "b")], 1)
    kinds = {stage for one in found for stage, faulty in one.labels if faulty}
    assert kinds == set(VERIFIERS) - {PromptStage.verify_cheating} and len({one.candidate.id for one in found}) == len(
        found
    )
    assert not from_injection([found[0]], 1)  # bugs are planted into honest sources alone


def test_exploit_pairs_are_cheats_and_twins_are_honest() -> None:
    found = from_pairs(PAIRS)
    cheats = [one for one in found if (PromptStage.verify_cheating, True) in one.labels]
    twins = [one for one in found if not any(faulty for _, faulty in one.labels)]
    assert len(cheats) > 100 and len(twins) > 20 and len(cheats) + len(twins) == len(found)
    downcast = next(one for one in cheats if one.origin == "exploit downcast_tf32")
    assert (PromptStage.verify_numerics, True) in downcast.labels


def test_past_verdicts_are_labels() -> None:
    accepted = samples.parent()
    labelled = from_verdict("toy", accepted.proposal.candidate, accepted.verdict)
    assert labelled is not None and not any(faulty for _, faulty in labelled.labels)
    wrong = samples.parent(outcome=Outcome.rejected).verdict
    found = from_verdict("toy", accepted.proposal.candidate, wrong)
    assert found is not None and found.labels == ((PromptStage.verify_numerics, True),)
    late = wrong.model_copy(update={"reason": Reason.timed_out})
    assert from_verdict("toy", accepted.proposal.candidate, late) is None


def _labelled(count: int) -> list[Labelled]:
    ones = [honest("toy", Candidate("cpp", f"{HONEST}// {n}\n", str(n)), "b") for n in range(count)]
    return ones + from_injection(ones, 1)


def test_accuracy_precision_and_recall_are_counted_per_model() -> None:
    questions = sampled_questions(_labelled(10), 20, 1)

    def script(ask: ModelCall) -> str | FailureKind:
        """`one` knows everything; `two` suspects everything; `three` does not answer."""
        if ask.member == "three":
            return FailureKind.refused
        faulty = by_prompt[ask.prompt.user, ask.stage]
        return json.dumps({"passes": ask.member == "one" and not faulty, "reason": ""})

    models = acting.Played(script, names=("one", "two", "three"))
    by_prompt: dict[tuple[str, str], bool] = {}
    from kernelwright.proposers.llm.prompts import render
    from kernelwright.proposers.llm.shown import shown_source

    for one, stage, faulty in questions:
        user = render(samples.ground().about(stage, shown_source(one.candidate))).user
        by_prompt[user, stage.value] = faulty
    found = measure_verifiers(models, models.names, questions, lambda task, contract: samples.ground(), 1)
    numerics = {one.member: one for one in found if one.verifier == "verify-numerics"}
    assert (numerics["one"].accuracy, numerics["one"].precision, numerics["one"].recall) == (1.0, 1.0, 1.0)
    assert numerics["two"].recall == 1.0 and numerics["two"].accuracy == numerics["two"].precision == 0.5
    assert numerics["three"].count == 0 and numerics["three"].unanswered == 20
    assert numerics["one"].usd == pytest.approx(0.01)


def figures(**given: object) -> VerifierAccuracy:
    values = {"right_alarms": 8, "missed": 2, "false_alarms": 1, "right_passes": 9, "seconds": 4.0, "usd": 0.0}
    return VerifierAccuracy.model_validate({"verifier": "verify-numerics", "member": "m", **values, **given})


def test_a_verifier_pays_if_it_saves_more_than_it_takes() -> None:
    slow_judge = CalibrationSettings(evaluation_seconds=60.0, evaluation_usd=0.05)
    assert pays(figures(), slow_judge)
    assert not pays(figures(), CalibrationSettings(evaluation_seconds=1.0, evaluation_usd=0.05))  # judging is as quick
    assert not pays(figures(usd=1.0), slow_judge)
    assert not pays(figures(false_alarms=9, right_passes=1), slow_judge)  # it holds good ones back


def pays(one: VerifierAccuracy, settings: CalibrationSettings) -> bool:
    found = worth([one], settings)
    assert found is not None
    return found[0]


def test_nothing_is_said_of_a_verifier_that_was_not_measured_on_both_sides(tmp_path: Path) -> None:
    """As where the server died half way; the shipped choice holds for it."""
    settings = CalibrationSettings(evaluation_seconds=1.0, evaluation_usd=0.05)
    nobody = {"right_alarms": 0, "missed": 0, "false_alarms": 0, "right_passes": 0, "unanswered": 20}
    silent = figures(verifier="verify-memory", **nobody)
    one_sided = figures(verifier="verify-compilation", false_alarms=0, right_passes=0)
    found = calibrated([silent, one_sided, figures()], settings)
    assert found.pays == {"verify-numerics": False} and found.why.keys() == found.pays.keys()
    save_calibration(tmp_path / "verifiers.json", found)
    assert verifiers_in_use(tmp_path / "verifiers.json") == (PromptStage.verify_memory,)


def test_the_proposer_goes_by_the_calibration(tmp_path: Path) -> None:
    path = tmp_path / "verifiers.json"
    assert verifiers_in_use(path) == SHIPPED
    bad = figures(verifier="verify-memory", usd=1.0)
    found = calibrated([bad, figures(), figures(verifier="verify-cheating")], CalibrationSettings(60.0, 0.05))
    save_calibration(path, found)
    assert read_calibration(path) == found and verifiers_in_use(path) == (PromptStage.verify_numerics,)
    path.write_text("{}")
    with pytest.raises(KernelwrightError, match="is not a calibration"):
        verifiers_in_use(path)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "home"))
    sections = (PAIRS / "exploits.toml").read_text().split("\n\n")
    chosen = random.Random(1).sample([text for text in sections if text.startswith("[downcast_")], 3)
    folder = tmp_path / "pairs"
    folder.mkdir()
    (folder / "exploits.toml").write_text("\n".join(chosen))
    for name, about in tomllib.loads("\n".join(chosen)).items():
        for file in (f"{name}.cpp", f"{about.get('twin', name)}.twin.cpp"):
            shutil.copy(PAIRS / file, folder / file)

    def script(seen: Seen) -> Good:
        return Good(json.dumps({"passes": "undeclared_total" not in seen.prompt, "confidence": 1, "reason": "r"}))

    with serving(script) as server:
        command = ["calibrate", "verifiers", "--models", f"{server.url}#m", "--pairs", str(folder)]
        result = CliRunner().invoke(app, [*command, "--most", "4"])
        assert result.exit_code == 0, result.exception
        assert "0.82" in result.stdout and "off" in result.stdout and "compilation" in result.stdout
        again = CliRunner().invoke(app, [*command, "--most", "4", "--json", "--no-save"])
    report = json.loads(again.stdout)
    assert report["published"]["verify-numerics"] == 0.73 and report["saved"] is None
    kept = list((tmp_path / "home").rglob("verifiers.json"))
    assert len(kept) == 1 and Calibration.model_validate_json(kept[0].read_text()).measured
    bad = CliRunner().invoke(app, ["calibrate", "verifiers", "--models", "ollama:m"])
    assert isinstance(bad.exception, KernelwrightError) and "nothing to measure on" in str(bad.exception)


@pytest.mark.parametrize(
    ("behaviour", "options", "why"),
    [
        (Status(401), [], "m: unauthorised: "),
        (Status(500), [], "m: unavailable: "),
        (Good(), ["--budget", "0.0001usd"], "m: over budget: "),
    ],
)
def test_a_calibration_that_nobody_answered_replaces_none(
    behaviour: Behaviour, options: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "home"))
    save_calibration(default_path(), calibrated([figures()], CalibrationSettings(60.0, 0.05)))
    before = default_path().read_bytes()
    with serving(behaviour) as server:
        config = tmp_path / "models.toml"
        member = f'name = "m"\nprovider = "compatible"\nmodel = "m"\nbase_url = "{server.url}"\nattempts = 1\n'
        config.write_text(f"[[members]]\n{member}price = {{ input = 1.0, output = 10.0 }}\n")
        command = ["calibrate", "verifiers", "--ensemble", str(config), "--pairs", str(PAIRS), "--most", "2"]
        result = CliRunner().invoke(app, [*command, *options])
    assert isinstance(result.exception, CannotDecide) and result.exception.exit_code == 3
    assert "no model answered" in str(result.exception) and why in str(result.exception)
    assert default_path().read_bytes() == before


def test_a_recorded_calibration_is_replayed_and_not_kept(tmp_path: Path) -> None:
    """By the seed of each question: prompts tell of measured peaks, which no two machines share."""
    with serving(lambda seen: Good(text='{"passes": true}')) as server:
        command = ["calibrate", "verifiers", "--models", f"{server.url}#m"]
        options = [*command, "--pairs", str(PAIRS), "--most", "2", "--json"]
        first = CliRunner().invoke(app, [*options, "--record", str(tmp_path / "tape"), "--no-save"])
        assert first.exit_code == 0, first.output
    for path in (tmp_path / "tape").iterdir():  # as another machine would ask
        path.write_text(path.read_text().replace("# The device", "# Another device"))
        path.rename(path.with_stem(f"0{path.stem[1:]}"))
    second = CliRunner().invoke(app, [*options, "--replay", str(tmp_path / "tape")])
    assert second.exit_code == 0, second.output
    one, other = json.loads(first.stdout), json.loads(second.stdout)
    assert other["saved"] is None
    counted = ("right_alarms", "false_alarms", "missed", "right_passes", "unanswered")
    for before, after in zip(one["calibration"]["measured"], other["calibration"]["measured"], strict=True):
        assert [before[name] for name in counted] == [after[name] for name in counted]
