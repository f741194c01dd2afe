"""Expected tokens of calls: those of the nearest recordings, else of the request's length."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from regauge.errors import MissingRecordingError
from regauge.project import Project
from regauge.prompts import Message
from regauge.providers import (
    Completion,
    CompletionRequest,
    ModelId,
    Usage,
    approximate_tokens,
)
from regauge.recordings import Recording, RecordingKey
from regauge.runner import EvalSession, PlannedCase, PlannedTrial, RunOptions
from regauge.runner._expected import (
    ExpectedJudging,
    ExpectedUsage,
    first_requests,
    output_sample,
    unrecorded_output,
)
from regauge.runner._missing import Misses, missing_completions
from regauge.runner._plan import CaseRequest, judges_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def request_of(*schema: str, text: str = "x" * 400, **parameters: Any) -> CompletionRequest:
    """A request of 100 tokens, whose completion has these properties, if any."""
    properties = {name: {"type": "string"} for name in schema}
    form = {"type": "json_schema", "json_schema": {"schema": {"properties": properties}}}
    return CompletionRequest(
        model="clerk-1",
        provider="sim",
        messages=(Message(role="user", content=text),),
        parameters=parameters,
        response_format=form if schema else None,
    )


def call_of(request: CompletionRequest, *, case: str = "c0", **more: Any) -> CaseRequest:
    return CaseRequest(
        request=request,
        key=RecordingKey(request.digest, 0),
        file="alert",
        prompt="alert",
        version="1.0.0",
        caller_digest="a",
        case=case,
        **more,
    )


def recorded(
    call: CaseRequest, given_in: int, given_out: int, approx: object = ..., **more: Any
) -> Recording:
    usage = Usage(input_tokens=given_in, output_tokens=given_out, **more)
    return Recording(
        key=call.key,
        prompt="alert",
        version="1.0.0",
        case=call.case,
        model=call.model,
        judge=call.judge,
        completion=Completion(text="ok", finish_reason="stop", usage=usage),
        recorded_at="2026-01-01T00:00:00Z",
        request={} if approx is ... else {"approx_tokens": approx},
    )


def expected_of(
    root: Path, call: CaseRequest, recordings: Sequence[Recording], *, expected: Any = None
) -> tuple[int, int, int]:
    with closing(EvalSession(Project(root=root), RunOptions(record="none"), environ={})) as session:
        session.completions.file("alert").merge(recordings, replace=False)
        usage = ExpectedUsage(session.completions).of_request(call, expected=expected)
    return usage.input_tokens, usage.cached_input_tokens, usage.output_tokens


MINE, NEXT, FAR = (request_of(text=letter * 400) for letter in "xyz")
CALL = call_of(MINE)
SAME, SAME_CASE, OTHER_CASE = CALL, call_of(NEXT), call_of(FAR, case="c9")
OF_JUDGE = call_of(NEXT, judge="tone")
OTHER_MODEL = call_of(replace(NEXT, model="clerk-2"))


@pytest.mark.parametrize(
    ("recordings", "tokens"),
    [
        # Nothing is recorded: the length of the request, and a usual completion.
        ([], (100, 0, 300)),
        ([recorded(OF_JUDGE, 10, 10)], (100, 0, 300)),
        ([recorded(SAME, 0, 0, 100)], (100, 0, 300)),
        # The nearest recordings count: the request, then the case, then the prompt.
        ([recorded(SAME, 150, 7, 100)], (150, 0, 7)),
        ([recorded(SAME, 0, 7, 100)], (100, 0, 7)),
        ([recorded(SAME, 60, 7, 100, cached_input_tokens=30)], (60, 30, 7)),
        ([recorded(SAME, 150, 7, 100), recorded(SAME_CASE, 999, 99, 100)], (150, 0, 7)),
        ([recorded(SAME_CASE, 50, 9, 100), recorded(OTHER_CASE, 999, 99, 100)], (50, 0, 9)),
        ([recorded(OTHER_CASE, 50, 9, 200)], (25, 0, 9)),
        # Requests are compared by their length, where recordings have it, else by their tokens.
        ([recorded(SAME_CASE, 50, 9)], (100, 0, 9)),
        ([recorded(SAME_CASE, 50, 9, "many")], (100, 0, 9)),
        # The mean of several.
        (
            [
                recorded(SAME_CASE, 50, 5, 100),
                recorded(replace(SAME_CASE, key=RecordingKey("e" * 64, 0)), 150, 10, 100),
            ],
            (100, 0, 8),
        ),
        # Other models count where the model has none, judges have theirs.
        ([recorded(OTHER_MODEL, 70, 4, 100)], (70, 0, 4)),
        ([recorded(OTHER_MODEL, 70, 4, 100), recorded(OTHER_CASE, 50, 9, 100)], (50, 0, 9)),
        ([recorded(OF_JUDGE, 70, 4, 100), recorded(OTHER_CASE, 50, 9, 100)], (50, 0, 9)),
    ],
)
def test_tokens_of_a_call_are_those_of_the_nearest_recordings(
    tmp_path: Path, recordings: list[Recording], tokens: tuple[int, int, int]
):
    assert expected_of(tmp_path, CALL, recordings) == tokens


def test_a_judge_writes_less_than_a_prompt_and_none_more_than_it_may(tmp_path: Path):
    assert expected_of(tmp_path, OF_JUDGE, []) == (100, 0, 80)
    short = call_of(request_of(max_tokens=20))
    assert expected_of(tmp_path, short, []) == (100, 0, 20)
    assert expected_of(tmp_path, short, [recorded(short, 100, 400, 100)]) == (100, 0, 20)
    assert expected_of(tmp_path, call_of(request_of(max_tokens=999)), []) == (100, 0, 300)
    assert expected_of(tmp_path, CALL, [], expected="y" * 80) == (100, 0, 20)


def test_calls_of_a_conversation_have_the_mean_of_its_recorded_calls(tmp_path: Path):
    talk = replace(MINE, conversation="d")
    calls = [replace(CALL, key=RecordingKey(letter * 64, 0)) for letter in "ef"]
    first, later = recorded(calls[0], 100, 4, 100), recorded(calls[1], 300, 6, 300)
    assert expected_of(tmp_path, replace(CALL, request=talk), [first, later]) == (200, 0, 5)


def test_a_completion_of_this_run_counts_once_the_recordings_were_read(tmp_path: Path):
    made = Completion(
        text="ok", finish_reason="stop", usage=Usage(input_tokens=40, output_tokens=2)
    )
    with closing(
        EvalSession(Project(root=tmp_path), RunOptions(record="none"), environ={})
    ) as session:
        usage = ExpectedUsage(session.completions)
        usage.add(CALL, made)  # its recording is read with the others
        assert usage.of_request(CALL).output_tokens == 300
        usage.add(CALL, made)
        assert usage.of_request(CALL) == made.usage


@pytest.mark.parametrize(
    ("schema", "expected", "tokens"),
    [
        ((), None, 300),
        ((), {"severity": "x" * 4000}, 300),  # facts for judges
        ((), "", 16),
        ((), "x" * 64, 16),
        ((), "x" * 65, 17),
        ((), ["x" * 64], 17),
        (("reason",), None, 16 + 2 + 25),
        (("reason",), "critical", 16 + 2 + 25),
        (("reason",), {"reason": "x" * 8}, 16 + 6),
        (("reason", "a"), {"reason": "x" * 8, "b": "x" * 80}, 16 + 6 + 1 + 25),
    ],
)
def test_an_unrecorded_output_is_as_long_as_what_is_expected_of_it(
    schema: tuple[str, ...], expected: Any, tokens: int
):
    assert unrecorded_output(request_of(*schema), expected) == tokens


_TEXTS = st.sampled_from(["", "critical", "größer", 'a "quoted" one', "x" * 120])
_FIELDS = st.dictionaries(st.sampled_from(["severity", "reason", "é", "b"]), _TEXTS)


@settings(max_examples=20)
@given(
    schema=st.sets(st.sampled_from(["severity", "reason", "owner"])).map(sorted),
    fields=_FIELDS,
    tokens=st.integers(0, 400),
)
def test_a_sample_has_what_is_expected_and_about_the_length(
    schema: list[str], fields: dict[str, str], tokens: int
):
    sample = output_sample(request_of(*schema), fields, tokens=tokens)
    read = json.loads(sample)
    assert list(read) == [*fields, *(name for name in schema if name not in fields)]
    assert {name: read[name] for name in fields} == fields
    unknown = [read[name] for name in schema if name not in fields]
    rest = tokens - len(json.dumps(fields, ensure_ascii=False)) / 4
    assert all(abs(len(text) - 4 * max(0, rest) / len(unknown)) <= 40 for text in unknown)


@pytest.mark.parametrize("expected", [None, "critical"])
def test_a_sample_without_a_schema_is_a_text(expected: Any):
    assert output_sample(request_of(), expected, tokens=0) == "These are the words of a sample."
    for tokens in (8, 16, 100):
        assert abs(len(output_sample(request_of(), expected, tokens=tokens)) - 4 * tokens) <= 33


PRICES = """
[tool.regauge.providers.local]
base_url = "http://127.0.0.1:9/v1"
prices = { "clerk" = { input_per_million = 1.0, output_per_million = 2.0 } }
"""


class Asking:
    """A judge that makes as many calls as it is told, whose texts are those of the case or fixed.

    Attributes:
        usual_calls: As judges state it.
    """

    def __init__(
        self, name: str, *texts: str, usual: int | None = None, models: tuple[str, ...] = ("sim:m",)
    ) -> None:
        self.name, self.digest, self.models = name, f"digest of {name}", models
        self.usual_calls = len(texts) if usual is None else usual
        self._texts = texts

    async def judge_with(self, completion: Completion, case: Any, calls: Any) -> Any:
        for text in self._texts:
            content = text.format(case=case.id, output=completion.text)
            provider, _, model = self.models[0].partition(":")
            request = replace(request_of(text=content), provider=provider, model=model)
            with suppress(MissingRecordingError):
                await calls.complete(request)


class Desk:
    """A session with recordings of the prompt `alert` and of its judges."""

    def __init__(self, root: Path, made: Any, *judges: Asking, cases: int = 2) -> None:
        (root / "pyproject.toml").write_text(PRICES, encoding="utf-8")
        project = Project.find(root)
        self.session = EvalSession(project, RunOptions(record="none"), environ={})
        self.suite = replace(
            made.suite(), judges=judges, judge_statuses={judge.name: ... for judge in judges}
        )
        self.trials = [
            PlannedTrial(PlannedCase(self.suite, made.case(number)), 0) for number in range(cases)
        ]
        for trial in self.trials:
            trial.planned_case.plan()
        completions = self.session.completions
        self.judging = ExpectedJudging(completions, project.settings, ExpectedUsage(completions))

    def record(self, judge: Asking, case: int, trial: int = 0, *, version: str = "1.0.0") -> None:
        """Record a call of 30 tokens, and the trial that it is about."""
        call = CaseRequest.of_trial(self.trials[case])
        text = f"{judge.name} {case} {trial} {version}"
        key = RecordingKey(hashlib.sha256(text.encode()).hexdigest(), trial)
        provider, _, model = judge.models[0].partition(":")
        asked = replace(call.request, provider=provider, model=model)
        judged = replace(call, key=key, judge=judge.name, request=asked)
        line = replace(recorded(judged, 20, 10), version=version, request={"judge_digest": "j"})
        self.session.completions.file(judges_file("alert")).merge([line], replace=False)
        self.session.completions.file("alert").merge([recorded(call, 40, 4)], replace=False)

    def expected(self, judge: Any) -> tuple[float, float, float | None]:
        with closing(self.session):
            calls = self.judging.of_trials(judge, self.trials)
        return round(calls.calls, 6), round(calls.tokens, 6), calls.cost_usd


def test_recorded_judgements_count_on_average_those_of_the_case_first(tmp_path: Path, made: Any):
    judge = Asking("tone", "never called")
    desk = Desk(tmp_path, made, judge, cases=3)
    for case, version in ((0, "1.0.0"), (0, "1.1.0"), (1, "1.0.0")):
        desk.record(judge, case, version=version)
    desk.record(Asking("other"), 2)
    # Two judgements of the first case, one of the second, none of the third: one call each.
    assert desk.expected(judge) == (3, 90, 0)


def test_votes_of_one_trial_are_one_judgement(tmp_path: Path, made: Any):
    judge = Asking("tone", "never called")
    desk = Desk(tmp_path, made, judge, cases=1)
    for vote in range(3):
        desk.record(judge, 0, vote)
    assert desk.expected(judge) == (3, 90, 0)


@pytest.mark.parametrize(
    ("models", "usd"),
    [
        (("local:clerk",), (20 + 2 * 10) / 1e6),
        (("sim:m",), 0),
        (("local:unknown",), None),
        (("local:clerk", "sim:m"), (20 + 2 * 10) / 2e6),
    ],
)
def test_recorded_judgements_cost_what_the_models_of_the_judge_cost_now(
    tmp_path: Path, made: Any, models: tuple[str, ...], usd: float | None
):
    desk = Desk(tmp_path, made, Asking("tone", "x", models=models), cases=1)
    desk.record(Asking("tone", models=("local:gone",)), 0)
    assert desk.expected(desk.suite.judges[0]) == (1, 30, pytest.approx(usd))


EACH, LATER, FIXED = "{case:>3} " + "y" * 396, "{case:>3} " + "w" * 396, "z" * 400


@pytest.mark.parametrize(
    ("asking", "cases", "expected"),
    [
        (Asking("tone", EACH, usual=1), 2, (2, 2 * (100 + 80))),
        (Asking("tone", EACH, LATER, usual=2), 2, (4, 4 * 180)),
        (
            Asking("tone", EACH, EACH, usual=2),
            2,
            (4, 2 * 180 + 2 * (400 + 80)),
        ),  # the second is a further call
        (Asking("tone", FIXED, usual=1), 3, (1, 180)),  # a call that all cases share
        (Asking("tone", EACH, FIXED, usual=2), 3, (4, 4 * 180)),
        (
            Asking("tone", EACH, usual=3),
            2,
            (6, 2 * 180 + 4 * (400 + 80)),
        ),  # further calls, at least as long
        (Asking("tone", usual=2), 2, (4, 4 * 480)),
        (Asking("tone", EACH, usual=1), 24, (24, 24 * 180)),
        (Asking("tone", EACH, usual=1), 25, (25, 25 * 180)),
    ],
)
def test_unrecorded_judgements_are_their_first_requests_and_the_usual_further_ones(
    tmp_path: Path, made: Any, asking: Asking, cases: int, expected: Any
):
    desk = Desk(tmp_path, made, asking, cases=cases)
    calls, tokens, usd = desk.expected(desk.suite.judges[0])
    assert (calls, tokens) == expected
    assert usd == 0


def test_a_call_that_an_earlier_judge_makes_too_counts_there(tmp_path: Path, made: Any):
    first, second = Asking("first", EACH), Asking("second", EACH, LATER)
    assert Desk(tmp_path, made, first, second).expected(first)[0] == 2
    assert Desk(tmp_path, made, first, second).expected(second)[0] == 2
    assert Desk(tmp_path, made, second, first).expected(first)[0] == 0


def test_judges_see_the_recorded_completion_or_a_sample(tmp_path: Path, made: Any):
    judge: Any = Asking("tone", "{case}: {output}", "{case}: {output}", "again")
    trial = Desk(tmp_path, made, judge).trials[0]
    completion = Completion(text="ok", finish_reason="stop")
    requests = first_requests(judge, trial, completion)
    assert [request.messages[0].content for request in requests] == ["c0: ok", "again"]


def test_missing_completions_are_summed_by_prompt_and_model(tmp_path: Path, made: Any):
    desk = Desk(tmp_path, made, cases=2)
    priced = replace(desk.suite, model=ModelId(provider="local", model="clerk"))
    trials = [PlannedTrial(PlannedCase(priced, made.case(1)), number) for number in (0, 1)]
    with closing(desk.session) as session:
        completions, settings = session.completions, session.project.settings
        sim, local = missing_completions(
            [*desk.trials, *trials],
            ExpectedUsage(completions),
            completions,
            settings,
            options=RunOptions(record="none"),
        )
    tokens = approximate_tokens(desk.trials[0].planned_case.request(0)) + 300
    assert (sim.prompt, sim.model, sim.simulated) == ("alert", "sim:clerk-1", True)
    assert (sim.completions, sim.cases, sim.calls, sim.stale) == (2, 2, 2, 0)
    assert (sim.tokens, sim.cost_usd, sim.batch_cost_usd) == (2 * tokens, 0, None)
    assert sim.command == "regauge record alert"
    assert (local.model, local.simulated) == ("local:clerk", False)
    assert (local.completions, local.cases, local.tokens) == (2, 1, 2 * tokens)
    assert local.cost_usd == pytest.approx(2 * (tokens - 300 + 2 * 300) / 1e6)


def test_missing_judgements_are_summed_by_judge(tmp_path: Path, made: Any):
    first = Asking("first", EACH, models=("local:clerk",))
    second = Asking("second", FIXED, models=("sim:m", "local:other"))
    desk = Desk(tmp_path, made, first, second, cases=3)
    desk.record(Asking("first", models=("sim:m",)), 2)
    misses = Misses()
    for judge, trial in ((first, 0), (first, 0), (second, 1), (first, 2), (second, 2)):
        misses.note(judge, desk.trials[trial])  # type: ignore[arg-type] - it is not run
    with closing(desk.session) as session:
        one, other = misses.summary(
            desk.judging,
            session.completions,
            session.project.settings,
            options=RunOptions(record="none", models=("sim:clerk-1",)),
        )
    assert (one.prompt, one.judge, one.models) == ("alert", "first", "local:clerk")
    assert (one.judgements, one.cases, one.stale, one.simulated) == (2, 2, 1, False)
    assert (one.calls, one.tokens, one.cost_usd) == (2, 60, pytest.approx(2 * 40 / 1e6))
    assert one.command == "regauge record alert --model sim:clerk-1"
    assert (other.judge, other.models) == ("second", "sim:m, local:other")
    assert (other.judgements, other.cases, other.stale, other.simulated) == (2, 2, 0, False)
    assert (other.calls, other.tokens) == (1, 180)
    assert (other.cost_usd, other.batch_cost_usd) == (0, None)
