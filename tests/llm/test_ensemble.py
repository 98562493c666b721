"""An ensemble against a scripted server: every way in which an answer can fail, limits, order, money."""

from __future__ import annotations

import json
import threading
import time

import pytest

from kernelwright.llm.attempts import AttemptRequest, AttemptResult
from kernelwright.llm.config import EnsembleConfig, EnsembleError, Member, parse_member
from kernelwright.llm.ensemble import Ensemble, open_ensemble
from kernelwright.llm.ledger import BudgetLedger
from kernelwright.llm.model import CallFailed, CallRecord, FailureKind, ModelReply
from tests.llm.asking import Review, asking, opened, scripted_member
from tests.llm.scripted import BadBody, Behaviour, Dropped, Good, Refusing, Seen, Server, Status, Truncated, serving

REVIEW = '{"cheats": false, "why": "plain loads"}'


def test_a_good_answer_and_what_is_kept_of_it() -> None:
    told: list[CallRecord] = []
    with serving(Good(lambda seen: f"echo {seen.prompt}")) as server, opened(scripted_member(server.url)) as ensemble:
        ensemble.on_called = told.append
        ask = asking("hello")
        reply = ensemble.ask(ask)
    assert (reply.text, reply.value) == ("echo hello", None)
    called = reply.called
    assert told == [called]
    assert (called.stage, called.member, called.model, called.outcome) == ("evolve", "scripted", "m", "ok")
    assert (called.attempts, called.usage.input_tokens, called.usage.output_tokens) == (1, 100, 50)
    assert called.usd == pytest.approx((100 * 1 + 50 * 10) / 1e6) == ensemble.spent
    assert called.prompt_sha256 == ask.prompt.sha256
    assert CallRecord.model_validate_json(called.model_dump_json()) == called
    sent = server.seen[0].body
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    assert (sent["seed"], sent["max_tokens"]) == (1, 16_384)


@pytest.mark.parametrize(
    ("behaviour", "kind", "attempts", "detail"),
    [
        (Truncated(), FailureKind.truncated, 1, "cut off at 16384 tokens"),
        (Refusing(), FailureKind.refused, 1, "I cannot help with that"),
        (Refusing(finish="content_filter"), FailureKind.refused, 1, "content_filter"),
        (Status(429), FailureKind.rate_limited, 3, "429"),
        (Status(429, kind="insufficient_quota"), FailureKind.rate_limited, 1, "quota is used up"),
        (Status(429, retry_after=1000), FailureKind.rate_limited, 1, "429"),
        (Status(500), FailureKind.unavailable, 3, "500"),
        (Status(503), FailureKind.unavailable, 3, "503"),
        (Status(400, message="no such option"), FailureKind.refused, 1, "no such option"),
        (Status(401), FailureKind.unauthorised, 1, "key_env"),
        (Status(404), FailureKind.unavailable, 1, "has no model 'm'"),
        (BadBody(), FailureKind.malformed, 3, "JSON"),
        (BadBody("busy", "text/plain"), FailureKind.malformed, 3, "JSON"),
        (BadBody("[]"), FailureKind.malformed, 3, ""),
        (BadBody('{"choices": []}'), FailureKind.malformed, 3, ""),
        (Dropped(), FailureKind.unavailable, 3, "Connection"),
        (Good(delay=0.5), FailureKind.timed_out, 3, "within 0.1 s"),
        (Good("  \n"), FailureKind.malformed, 1, "empty"),
    ],
)
def test_what_goes_wrong_has_a_name(behaviour: Behaviour, kind: FailureKind, attempts: int, detail: str) -> None:
    told: list[CallRecord] = []
    with serving(behaviour) as server:
        member = scripted_member(server.url, attempts=3, timeout=0.1 if kind == FailureKind.timed_out else 5.0)
        with opened(member) as ensemble, pytest.raises(CallFailed) as failed:
            ensemble.on_called = told.append
            ensemble.ask(asking())
    assert failed.value.kind == kind
    called = failed.value.called
    assert called is not None
    assert told == [called]
    assert (called.outcome, called.attempts, len(server.seen)) == (kind, attempts, attempts)
    assert detail in called.detail
    assert "\n" not in str(failed.value)


def test_nobody_is_there() -> None:
    member = scripted_member("http://127.0.0.1:9/v1", attempts=2)
    with opened(member) as ensemble, pytest.raises(CallFailed) as failed:
        ensemble.ask(asking())
    assert failed.value.kind == FailureKind.unavailable
    assert failed.value.called is not None
    assert failed.value.called.usd == 0.0  # nothing was sent, so nothing can be billed


def test_an_attempt_that_was_cut_off_counts_at_its_upper_end() -> None:
    """A provider may bill an answer that nobody waited for."""
    with serving([Good(delay=0.5), Good()]) as server, opened(scripted_member(server.url, timeout=0.1)) as ensemble:
        called = ensemble.ask(asking()).called
        upper = ensemble.estimate([asking()]).usd
    assert called.attempts == 2
    assert upper is not None
    assert called.usd == pytest.approx(upper + 0.0006)


def test_retries_until_it_works() -> None:
    script = [Status(500), Dropped(), Status(429, retry_after=0.2), Good("at last")]
    with serving(script) as server, opened(scripted_member(server.url)) as ensemble:
        began = time.monotonic()
        reply = ensemble.ask(asking())
    assert (reply.text, reply.called.attempts) == ("at last", 4)
    assert time.monotonic() - began > 0.2


def test_retry_after_holds_all_calls_of_the_member() -> None:
    """Four calls, one of which is limited: the others wait with it instead of being limited too."""
    arrived: list[float] = []

    def script(seen: Seen) -> Behaviour:
        arrived.append(time.monotonic())
        return Status(429, retry_after=1) if seen.number == 0 else Good(delay=0.01)

    with serving(script) as server, opened(scripted_member(server.url, concurrency=1)) as ensemble:
        outcomes = ensemble.ask_all([asking(seed=seed) for seed in range(4)])
    assert all(isinstance(outcome, ModelReply) for outcome in outcomes)
    assert arrived[1] - arrived[0] >= 1


def test_a_typed_answer() -> None:
    with serving(Good(REVIEW)) as server, opened(scripted_member(server.url)) as ensemble:
        reply = ensemble.ask(asking(answer=Review))
    assert reply.value == Review(cheats=False, why="plain loads")
    wanted = server.seen[0].body["response_format"]
    assert wanted["type"] == "json_schema"
    assert set(wanted["json_schema"]["schema"]["properties"]) == {"cheats", "why"}


def test_a_typed_answer_asked_for_in_words() -> None:
    with (
        serving(Good(f"Here:\n```json\n{REVIEW}\n```")) as server,
        opened(scripted_member(server.url, typed="prompted")) as ensemble,
    ):
        reply = ensemble.ask(asking(answer=Review))
    assert reply.value == Review(cheats=False, why="plain loads")
    assert "response_format" not in server.seen[0].body
    assert '"cheats"' in server.seen[0].body["messages"][0]["content"]


def test_a_wrong_type_is_asked_again_once_with_what_is_wrong() -> None:
    with (
        serving([Good('{"cheats": "maybe"}'), Good(REVIEW)]) as server,
        opened(scripted_member(server.url)) as ensemble,
    ):
        reply = ensemble.ask(asking(answer=Review))
    assert reply.value == Review(cheats=False, why="plain loads")
    assert (reply.called.attempts, reply.called.usage.input_tokens) == (2, 200)
    roles = [message["role"] for message in server.seen[1].body["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert "why: Field required" in server.seen[1].prompt


def test_a_wrong_type_twice_is_malformed() -> None:
    with (
        serving(Good("I would rather not say.")) as server,
        opened(scripted_member(server.url)) as ensemble,
        pytest.raises(CallFailed) as failed,
    ):
        ensemble.ask(asking(answer=Review))
    assert failed.value.kind == FailureKind.malformed
    assert len(server.seen) == 2


def test_together_up_to_the_limit_and_in_order() -> None:
    four = threading.Barrier(4, timeout=60)  # nobody is answered before four have asked

    def script(seen: Seen) -> Behaviour:
        four.wait()
        return Good(seen.prompt, delay=0.05)

    with serving(script) as server, opened(scripted_member(server.url, concurrency=4)) as ensemble:
        outcomes = ensemble.ask_all([asking(str(number)) for number in range(8)])
    assert [outcome.text for outcome in outcomes if isinstance(outcome, ModelReply)] == [str(n) for n in range(8)]
    assert server.most_at_once == 4


def test_one_failure_leaves_the_others() -> None:
    def script(seen: Seen) -> Behaviour:
        return Refusing() if seen.prompt == "1" else Good(seen.prompt)

    with serving(script) as server, opened(scripted_member(server.url)) as ensemble:
        outcomes = ensemble.ask_all([asking(str(number)) for number in range(3)])
    assert [type(outcome) for outcome in outcomes] == [ModelReply, CallFailed, ModelReply]


def test_a_budget_is_kept_before_a_call() -> None:
    """As many at once as it may be: together they never spend more than the limit, and use what there is."""
    with serving(Good(tokens=(1000, 1000), delay=0.005)) as server:
        member = scripted_member(server.url, max_output_tokens=2000, concurrency=8)
        with opened(member, limit_usd=0.1) as ensemble:
            outcomes = ensemble.ask_all([asking(seed=seed) for seed in range(30)])
            spent = ensemble.spent
    answered = [outcome for outcome in outcomes if isinstance(outcome, ModelReply)]
    refused = [outcome for outcome in outcomes if isinstance(outcome, CallFailed)]
    assert {failed.kind for failed in refused} == {FailureKind.over_budget}
    assert len(server.seen) == len(answered)
    assert 0.07 < spent <= 0.1
    assert spent == pytest.approx(0.011 * len(answered))
    called = refused[0].called
    assert called is not None
    assert (called.attempts, called.usd) == (0, 0.0)
    assert "is left" in called.detail


def test_a_server_that_counts_cached_tokens_apart_pays_nothing_back() -> None:
    """Or a limit would be kept by calls that are said to have earned money."""
    counted = Good(tokens=(100, 50), cached=90_000)
    with serving(counted) as server, opened(scripted_member(server.url), limit_usd=0.3) as ensemble:
        called = ensemble.ask(asking()).called
        assert called.usd == pytest.approx((90_100 * 1 + 50 * 10) / 1e6) == ensemble.spent
        assert called.usage.input_tokens == 90_100
        outcomes = ensemble.ask_all([asking(seed=seed) for seed in range(2, 9)])
    assert {one.kind for one in outcomes if isinstance(one, CallFailed)} == {FailureKind.over_budget}


def test_what_was_spent_before_counts() -> None:
    with serving(Good()) as server:
        config = EnsembleConfig(members=(scripted_member(server.url),))
        with (
            open_ensemble(config, limit_usd=1.0, spent=0.99) as ensemble,
            pytest.raises(CallFailed, match="over budget"),
        ):
            ensemble.ask(asking())
    assert server.seen == []


def test_an_unknown_price_and_a_limit_do_not_go_together() -> None:
    config = EnsembleConfig(members=(parse_member("http://example.org/v1#m"),))
    with pytest.raises(EnsembleError, match="m: its price is unknown"):
        open_ensemble(config, limit_usd=1.0)
    with open_ensemble(config) as ensemble:
        assert ensemble.estimate([asking()]).usd is None


def test_an_estimate_takes_the_dearest_that_may_be_chosen() -> None:
    cheap = scripted_member("http://127.0.0.1:9/v1", name="cheap", max_output_tokens=10)
    dear = scripted_member("http://127.0.0.1:9/v1", name="dear", max_output_tokens=1000)
    with opened(cheap, dear) as ensemble:
        estimate = ensemble.estimate([asking(), asking(), asking(member="cheap")])
    assert {name: one.calls for name, one in estimate.members.items()} == {"dear": 2, "cheap": 1}
    assert estimate.output_tokens == 2010
    assert estimate.usd is not None
    assert 0.02 < estimate.usd < 0.03


def test_the_bandit_learns_from_rewards_and_obeys_names() -> None:
    with serving(Good()) as server:
        members = [scripted_member(server.url, name=name, model=name) for name in ("a", "b")]
        with opened(*members) as ensemble:
            for _ in range(30):
                ensemble.reward("a", 0.2, 0.01)
                ensemble.reward("b", 0.0, 0.01)
            outcomes = ensemble.ask_all([asking(seed=seed) for seed in range(20)])
            named = ensemble.ask(asking(member="b"))
            with pytest.raises(EnsembleError, match="'c' is not a member"):
                ensemble.ask(asking(member="c"))
    asked = [outcome.called.member for outcome in outcomes if isinstance(outcome, ModelReply)]
    assert asked.count("a") >= 18
    assert named.called.member == "b"


def test_a_key_goes_into_the_header_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", "sk-very-secret")
    script = [Good("your key is sk-very-secret"), Status(400, message="key sk-very-secret"), Status(401)]
    with serving(script) as server, opened(scripted_member(server.url, key_env="SCRIPTED_KEY")) as ensemble:
        reply = ensemble.ask(asking())
        failures = ensemble.ask_all([asking(seed=2), asking(seed=3)])
    assert server.seen[0].headers["authorization"] == "Bearer sk-very-secret"
    assert reply.text == "your key is ***"
    assert "secret" not in f"{reply} {failures}"
    assert "the key in SCRIPTED_KEY" in f"{failures}"


def test_no_key_is_taken_from_the_environment_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with serving(Good()) as server, opened(scripted_member(server.url)) as ensemble:
        ensemble.ask(asking())
    assert "secret" not in json.dumps(server.seen[0].headers)


def test_closing_ends_what_is_under_way() -> None:
    with serving([Good(delay=60), Status(429, retry_after=60)]) as server:
        ensemble = opened(scripted_member(server.url, timeout=60.0))
        threading.Timer(0.2, ensemble.close).start()
        began = time.monotonic()
        outcomes = ensemble.ask_all([asking(seed=seed) for seed in range(3)])
    assert time.monotonic() - began < 30
    assert all(isinstance(outcome, CallFailed) for outcome in outcomes)


def test_what_the_end_cuts_off_counts_at_its_upper_end_and_what_was_not_sent_at_nothing() -> None:
    with serving(Good(delay=60)) as server:
        ensemble = opened(scripted_member(server.url, timeout=60.0, concurrency=1), limit_usd=5.0)
        told: list[CallRecord] = []
        ensemble.on_called = told.append
        threading.Thread(target=_close_once_asked, args=(server, ensemble)).start()
        ensemble.ask_all([asking(seed=seed) for seed in range(2)])
        upper = ensemble.estimate([asking()]).usd
    assert upper and sorted(call.usd or 0.0 for call in told) == [0.0, pytest.approx(upper)]
    assert {(call.outcome, call.detail) for call in told} == {(FailureKind.unavailable, "stopped")}
    assert ensemble.spent == pytest.approx(upper)


def test_an_interrupted_call_has_cost_what_it_may() -> None:
    class Interrupted:
        def send(self, member: Member, request: AttemptRequest) -> AttemptResult:
            raise KeyboardInterrupt

        def close(self) -> None: ...

    ensemble = Ensemble(
        EnsembleConfig(members=(scripted_member("http://127.0.0.1:9/v1"),)), Interrupted(), BudgetLedger(5.0)
    )
    with pytest.raises(KeyboardInterrupt):
        ensemble.ask(asking())
    assert ensemble.spent == pytest.approx(ensemble.estimate([asking()]).usd)


def _close_once_asked(server: Server, ensemble: Ensemble) -> None:
    while not server.seen:
        time.sleep(0.01)
    ensemble.close()
