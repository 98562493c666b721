"""The whole pipeline over HTTP: a server on loopback that answers well, wrongly, slowly, dishonestly or not at all.

Prompts, answers, retries, typed opinions, money and recordings go the real way; the judge is the toy's.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest

from kernelwright.llm.config import EnsembleConfig
from kernelwright.llm.ensemble import Ensemble
from kernelwright.llm.ledger import BudgetLedger
from kernelwright.llm.model import RecordingFailed
from kernelwright.llm.recordings import NearestReplayer
from kernelwright.proposers.model import USD
from kernelwright.search.core.events import ModelCalled, Proposed, Refused
from kernelwright.search.core.policies import policy_named
from kernelwright.search.core.state import State
from kernelwright.search.driver import Driver
from kernelwright.search.journal import read
from kernelwright.search.models import keep_account
from kernelwright.search.pool import JudgePool
from kernelwright.search.run import create, take_up
from tests.llm.asking import opened, scripted_member
from tests.llm.scripted import BadBody, Behaviour, Good, Refusing, Seen, Server, Status, Truncated, serving
from tests.proposers.llm import acting
from tests.search import toy

WRONG = (1, 1, 1, 0, 0, 0, 0, 0)


def well(seen: Seen) -> Behaviour:
    return Good(lambda seen: acting.act(seen.prompt, seen.body["seed"]))


def badly(seen: Seen) -> Behaviour:
    """Every kind of answer there is, by the seed of the call; opinions are always given."""
    seed = seen.body["seed"]
    if "`passes`" in seen.prompt or "`issue`" in seen.prompt or "one of launching" in seen.prompt:
        return well(seen)
    tried = sum(one.body["seed"] == seed for one in seen_before)
    seen_before.append(seen)
    kinds: list[Behaviour] = [
        well(seen),
        Good(acting.answer(WRONG, f"// {seed}\nint n{seed % 97};\n")),
        Good(lambda seen: acting.act(seen.prompt, seed), delay=0.05),
        Good("```cpp\nstatic int kept; int m" + str(seed) + ";\n" + toy.source_of((5,) * 8) + "```"),
        Truncated(),
        Refusing(),
        Status(429, retry_after=0) if not tried else well(seen),
        BadBody() if not tried else well(seen),
        Good("Here you are: no code at all, but ../../etc/passwd and $(reboot)."),
        Good("<<<<<<< SEARCH\nnot in the parent\n=======\nint a;\n>>>>>>> REPLACE"),
        Status(500),
        Good("Idea: \x1b[2J \ud800 half a character\n```cpp\nint a; // \ud800\n" + toy.source_of((4,) * 8) + "```"),
        Refusing("no \x1b[31m \ud800"),
        well(seen),
    ]
    return kinds[seed % len(kinds)]


seen_before: list[Seen] = []


def member(server: Server, **given: object) -> object:
    return scripted_member(server.url, concurrency=8, attempts=3, **given)


def drive(folder: Path, models: Ensemble, budget: str = "40evals", judge: toy.ToyJudge | None = None) -> State:
    run = take_up(folder, budget, time.time())
    try:
        proposer = acting.proposer(models, names=("scripted",))
        keep_account(run, models, read(folder))
        driver = Driver(run, proposer, JudgePool([judge or toy.ToyJudge()]), policy_named("islands"), reviewer=proposer)
        return driver.go()
    finally:
        run.close()


def begin(root: Path) -> Path:
    return create(
        root, toy.started("islands", proposer="llm", repairs=3, proposals_per_generation=8, judged_per_generation=4)
    )


def test_good_answers_make_a_best(tmp_path: Path) -> None:
    with serving(well) as server, opened(member(server)) as models:
        state = drive(begin(tmp_path), models)
        assert state.best is not None and state.calls == len(server.seen)
        assert state.spent.usd == pytest.approx(models.spent) and models.spent > 0
        assert server.most_at_once > 1


def test_answers_of_every_kind_end_nothing_and_are_all_accounted_for(tmp_path: Path) -> None:
    seen_before.clear()
    with serving(badly) as server, opened(member(server), record=tmp_path / "tape") as models:
        state = drive(begin(tmp_path), models, "60evals")
    events = list(read(tmp_path / "toy-1"))
    outcomes = Counter(event.call.outcome for event in events if isinstance(event, ModelCalled))
    assert {"ok", "truncated", "refused", "unavailable"} <= set(outcomes)
    assert any(event.call.attempts > 1 and event.call.ok for event in events if isinstance(event, ModelCalled))
    refused = " ".join(event.why for event in events if isinstance(event, Refused))
    for said in ("cut off", "cannot help", "has no block of code", "500"):
        assert said in refused
    assert "\x1b" not in refused
    assert state.best is not None and state.stopped is not None
    best = state.entries[state.best]
    assert "static int kept" not in best.proposal.candidate.source  # the fastest of all, and not honest
    suspects = [entry for entry in state.entries.values() if entry.review is not None and entry.review.suspected]
    assert all("static int kept" in entry.proposal.candidate.source for entry in suspects)


def test_a_recorded_run_is_replayed_without_anybody(tmp_path: Path) -> None:
    tape = tmp_path / "tape"
    with serving(well) as server, opened(member(server), record=tape) as models:
        first = drive(begin(tmp_path / "a"), models)
        config = models.config
    asked = len(server.seen)
    replayed = Ensemble(config, NearestReplayer(tape), BudgetLedger(None), keep_pauses=False)
    second = drive(begin(tmp_path / "b"), replayed)
    assert toy.essence(second) == toy.essence(first) and len(server.seen) == asked
    assert second.spent.usd == 0.0 < first.spent.usd and paid(tmp_path / "b") == paid(tmp_path / "a") > 0
    assert not [path for path in tape.iterdir() if b"sk-" in path.read_bytes()]


def test_a_run_whose_recordings_cannot_be_written_ends_with_every_call_in_its_journal(tmp_path: Path) -> None:
    tape = tmp_path / "tape"

    def script(seen: Seen) -> Behaviour:
        if seen.number == 20:
            tape.rename(tmp_path / "gone")
        return well(seen)

    folder = begin(tmp_path)
    with serving(script) as server, opened(member(server), record=tape) as models:
        with pytest.raises(RecordingFailed, match="recordings cannot be kept there"):
            drive(folder, models)
        spent = models.spent
    calls = [event.call for event in read(folder) if isinstance(event, ModelCalled)]
    assert len(calls) >= len(server.seen) > 20
    assert sum(call.usd or 0.0 for call in calls) == pytest.approx(spent) and spent > 0


def paid(root: Path) -> float:
    """What the bandit was told that answers cost."""
    genes = [event.genes for event in read(root / "toy-1") if isinstance(event, Proposed)]
    return sum(float(one[USD]) for one in genes)


def test_a_replay_on_another_machine_takes_the_same_answers(tmp_path: Path) -> None:
    """Times differ, hence prompts do; answers are found by their seeds, and are judged anew."""
    tape = tmp_path / "tape"
    with serving(well) as server, opened(member(server), record=tape) as models:
        first = drive(begin(tmp_path / "a"), models, "20evals")
        config = models.config
    replayed = Ensemble(config, NearestReplayer(tape), BudgetLedger(None), keep_pauses=False)
    second = drive(begin(tmp_path / "b"), replayed, "20evals", toy.ToyJudge(noise=0.02))
    translated = [
        [entry.proposal.candidate.id for entry in state.entries.values() if entry.proposal.origin == "llm translate"]
        for state in (first, second)
    ]
    assert translated[0] and translated[0] == translated[1]
    assert second.entries[1].estimate != first.entries[1].estimate


def test_money_is_kept_before_a_call(tmp_path: Path) -> None:
    with serving(well) as server:
        config = EnsembleConfig(members=(member(server, max_output_tokens=2000),))  # type: ignore[arg-type]
        with opened(*config.members, limit_usd=0.2) as models:
            state = drive(begin(tmp_path), models, "500evals,0.2usd")
    assert state.spent.usd <= 0.2 and state.stopped is not None and state.stopped.reason == "budget"


def test_a_hostile_opinion_is_only_an_opinion(tmp_path: Path) -> None:
    """Opinions of the wrong type, of any length, or that object to everything: the judge decides all the same."""

    def script(seen: Seen) -> Behaviour:
        if "`passes`" in seen.prompt:
            return Good(json.dumps({**acting.FAILS, "reason": "x" * 10_000, "verdict": "accepted", "rm": "-rf /"}))
        return well(seen)

    with serving(script) as server, opened(member(server)) as models:
        state = drive(begin(tmp_path), models, "30evals")
    accepted = [entry for entry in state.entries.values() if entry.standing == "accepted"]
    assert accepted and state.best is None
    assert all(len(entry.review.reason) <= 300 for entry in accepted if entry.review)
