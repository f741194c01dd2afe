"""Trials of any case, planned or not, under any number."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from regauge import JudgeError, Message, Verdict
from regauge.judges import JudgeContext, JudgeStatus, min_chars
from regauge.project import Project, RecordedTarget
from regauge.providers import Completion, CompletionRequest
from regauge.runner import (
    EvalSession,
    PlannedCase,
    PlannedTrial,
    RunOptions,
    Trial,
    golden,
    spec_of,
)
from regauge.runner._completions import (
    _EVALS_TRIALS,
    PURPOSE_TRIALS,
    Completions,
    IndependentTrials,
)
from regauge.runner._plan import CaseRequest
from regauge.runner._trials import TrialRunner
from regauge.targets import WorkingFiles, load_target

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.datasets import GoldenCase
    from regauge.judges import JudgeCalls

PROMPT = """\
name: Echo
version: 1.0.0
model: sim:clerk-1
messages:
  - role: user
    content: 'Say how severe it is, in one word: {{text}}'
"""


class Told:
    """A judge that asks the simulated model whatever it is told to, and passes."""

    name = "told"
    digest = "told"
    models = ("sim:clerk-1",)

    def bind(self, context: JudgeContext) -> Told:
        del context
        return self

    async def judge(self, completion: Completion, case: GoldenCase) -> Verdict:
        del completion, case
        raise JudgeError("only in a run", judge=self.name)

    async def judge_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Verdict:
        del case
        reply = await calls.complete(
            CompletionRequest(
                provider="sim",
                model="clerk-1",
                messages=(Message(role="user", content=f"Is this right? {completion.text}"),),
                parameters={},
                trial=calls.trial,
            )
        )
        return Verdict(outcome="pass", score=1.0, reason=str(reply.text)[:20])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in {
        "prompts/echo.prompt.yml": PROMPT,
        "fixtures/golden/echo.jsonl": '{"id": "c1", "inputs": {"text": "critical: disk"}}\n',
    }.items():
        target = tmp_path / path
        target.parent.mkdir(parents=True)
        target.write_text(text, encoding="utf-8")
    return tmp_path


@golden("echo", judges=[min_chars(1), Told()])
def evaluated(result: Any) -> None: ...


def planned_in(session: EvalSession, partner: str = "") -> PlannedCase:
    spec = spec_of(evaluated)
    assert spec is not None
    (suite,) = session.bind(spec, evaluated)
    return PlannedCase(suite, suite.dataset.cases[0], partner=partner)


def made(
    root: Path, numbers: list[int], *, record: Any, partner: str = ""
) -> tuple[list[Trial], EvalSession]:
    session = EvalSession(Project(root=root), RunOptions(record=record), environ={})
    planned = planned_in(session, partner)

    async def make() -> list[Trial]:
        async with session.open_trials() as trials:
            return await asyncio.gather(*[trials.run(PlannedTrial(planned, n)) for n in numbers])

    return asyncio.run(make()), session


def test_trials_of_any_number_are_made_recorded_and_replayed(root: Path):
    numbers = [0, 7, 1003]
    live, session = made(root, numbers, record="missing")
    assert [trial.number for trial in live] == numbers
    assert {trial.outcome for trial in live} == {"passed"}
    assert all(
        trial.sourced_completion and trial.sourced_completion.source == "live" for trial in live
    )
    session.finish(complete=True)
    (root / ".regauge/store.sqlite3").unlink()

    replayed, session = made(root, numbers, record="none")
    session.finish(complete=True)
    assert [trial.outcome for trial in replayed] == ["passed"] * 3
    for before, after in zip(live, replayed, strict=True):
        assert before.sourced_completion
        assert after.sourced_completion
        assert after.sourced_completion.completion.text == before.sourced_completion.completion.text
        assert [one.verdict for one in after.verdicts] == [one.verdict for one in before.verdicts]
    assert [one.blocking for one in replayed[0].verdicts] == [True, False]


def test_stored_trials_and_what_judges_said_of_them_belong_to_one_partner(root: Path):
    def sources(partner: str) -> list[tuple[str, int]]:
        trials, session = made(root, [1000, 1001], record="missing", partner=partner)
        session.close()
        return [
            (trial.sourced_completion.source, judged.calls.live)
            for trial in trials
            for judged in trial.verdicts
            if trial.sourced_completion and judged.calls
        ]

    assert sources("first version") == [("live", 1)] * 2
    assert sources("second version") == [("live", 1)] * 2
    assert sources("first version") == [("store", 0)] * 2


def test_what_is_not_recorded_is_an_unmeasured_trial(root: Path):
    [missing], session = made(root, [4], record="none")
    session.finish(complete=True)
    assert (missing.outcome, missing.sourced_completion) == ("unmeasured", None)
    assert type(missing.error).__name__ == "MissingRecordingError"


def test_a_case_that_cannot_be_rendered_is_an_unmeasured_trial(root: Path):
    path = root / "fixtures/golden/echo.jsonl"
    path.write_text('{"id": "c1", "inputs": {"txet": "?"}}\n', encoding="utf-8")
    [trial], session = made(root, [0], record="missing")
    session.finish(complete=True)
    assert trial.outcome == "unmeasured"
    assert "input 'text' is missing" in str(trial.error)


def test_a_suite_with_another_prompt_keeps_what_its_judges_count_for(root: Path):
    session = EvalSession(Project(root=root), RunOptions(record="none"), environ={})
    spec = spec_of(evaluated)
    assert spec is not None
    (suite,) = session.bind(spec, evaluated)
    asking = suite.model_judges
    assert [judge.name for judge in asking] == ["told"]
    assert not suite.status_of(asking[0]).blocking
    assert suite.status_of(suite.judges[0]) == JudgeStatus(blocking=True, reason="")


class _Counted(TrialRunner):
    """Makes trials that wait for each other, and counts those under way."""

    def __init__(self) -> None:
        self.under_way = self.most = 0

    async def run(self, draw: PlannedTrial) -> Trial:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.001 * (draw.trial % 3))
        self.under_way -= 1
        return Trial(number=draw.trial, request_digest="", sourced_completion=None)


def test_of_many_trials_a_part_is_under_way_and_all_come_in_their_order():
    trials, landed = _Counted(), list[int]()
    planned: Any = None
    draws = [PlannedTrial(planned, number) for number in range(10_000)]
    made = asyncio.run(trials.run_all(draws, on_trial=lambda: landed.append(1)))
    assert [trial.number for trial in made] == list(range(10_000))
    assert len(landed) == 10_000
    assert 1000 < trials.most < 5000


def test_a_stored_completion_is_copied_once_to_another_number(root: Path):
    def key(number: int) -> Any:
        return CaseRequest.of_trial(PlannedTrial(planned, number)).completion_key

    session = EvalSession(Project(root=root), RunOptions(record="missing"), environ={})
    planned = planned_in(session)
    completions = session.completions
    assert completions.copy(key(1000), key(2000)) is None

    async def make() -> None:
        async with session.open_trials() as trials:
            await trials.run(PlannedTrial(planned, 1000))

    asyncio.run(make())
    copy = completions.copy(key(1000), key(2000))
    found = completions.find(key(1000))
    assert copy is not None
    assert found is not None
    assert (copy.source, copy.completion) == ("store", found.completion)
    assert completions.copy(key(1000), key(2000)) is None
    assert completions.copy(key(1000), key(1000)) is None
    assert completions.find(key(2000)) is not None
    session.close()


def test_trials_of_a_recorded_target_are_those_of_its_file_for_each_purpose(root: Path):
    path = root / "fixtures/outputs/app.jsonl"
    path.parent.mkdir()
    path.write_text("".join(f'{{"case": "c1", "trial": {n}, "text": "{n}"}}\n' for n in range(2)))
    settings = RecordedTarget(path="outputs/app.jsonl")
    target = load_target("app", settings, root=root, files=WorkingFiles(root))
    session = EvalSession(Project(root=root), RunOptions(record="none"), environ={})
    planned = planned_in(session)
    planned = replace(planned, eval=replace(planned.eval, target=target))

    def text(trial: int) -> str | None:
        completion = session.completions._output(planned, trial)
        return None if completion is None else completion.text

    purpose = PURPOSE_TRIALS
    assert [text(n) for n in (0, 1, 2, purpose, purpose + 1)] == ["0", "1", None, "0", "1"]
    assert [text(n) for n in (_EVALS_TRIALS, purpose - 1)] == [None, None]
    session.close()


INDEPENDENT = IndependentTrials(first=1000, unpublished=range(0), store="gate.sqlite3")


@pytest.mark.parametrize(
    ("mode", "independent", "kept", "sources"),
    [
        ("none", None, {"recordings", "store"}, ["recording", "recording"]),
        ("none", None, {"store"}, ["store", "store"]),
        ("none", None, {"recordings"}, ["recording", "recording"]),
        ("none", None, set[str](), [None, None]),
        ("missing", None, {"recordings"}, ["recording", "recording"]),
        ("missing", None, {"store"}, ["store", "store"]),
        ("none", INDEPENDENT, {"recordings", "store"}, ["recording", "recording"]),
        ("missing", INDEPENDENT, {"recordings", "store"}, ["recording", None]),
        ("missing", INDEPENDENT, {"store"}, ["store", None]),
        ("all", None, {"recordings", "store"}, [None, None]),
    ],
)
def test_a_trial_is_present_where_a_run_of_that_mode_reads_its_completion(
    root: Path, mode: Any, independent: Any, kept: set[str], sources: list[str | None]
):
    _, session = made(root, [0, 1000], record="missing")
    session.finish(complete=True)
    planned = planned_in(session)
    planned.plan()
    (recordings,) = (root / "fixtures").rglob("*recordings*/*.jsonl")
    for name, path in {"recordings": recordings, "store": root / ".regauge/store.sqlite3"}.items():
        if name not in kept:
            path.unlink()
    completions = Completions(Project(root=root), mode, environ={}, independent=independent)
    trials = [PlannedTrial(planned, number) for number in (0, 1000)]
    read = [completions.find_trial(trial) for trial in trials]
    assert [sourced and sourced.source for sourced in read] == sources
    present = [completions.has(trial.planned_case, trial.key) for trial in trials]
    assert present == [source is not None for source in sources]
    completions.finish(complete=False, publish=False)


@pytest.mark.parametrize(("mode", "left"), [("none", "store"), ("missing", None), ("all", None)])
def test_a_run_that_may_call_forgets_a_completion_of_its_store(root: Path, mode: Any, left: Any):
    _, session = made(root, [0], record="missing")
    session.close()
    planned = planned_in(session)
    planned.plan()
    call = CaseRequest.of_trial(PlannedTrial(planned, 0))
    Completions(Project(root=root), mode, environ={}).forget(call)
    sourced = Completions(Project(root=root), "none", environ={}).find_call(call)
    assert (sourced and sourced.source) == left
