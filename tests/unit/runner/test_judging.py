"""The verdicts of all judges on one trial, and trials that none of them decides."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from regauge.errors import JudgeError
from regauge.judges import JudgeStatus, Verdict, abstained, failed, passed
from regauge.providers import Completion
from regauge.runner import JudgedVerdict, PlannedCase, PlannedTrial, SourcedCompletion
from regauge.runner._judging import judge_trial, passes_through
from regauge.runner._result import MissingVerdict

VERDICTS: dict[str, Verdict] = {
    "pass": passed("good"),
    "fail": failed("bad", code="x"),
    "abstain": abstained("no opinion", code="none"),
    "advisory": replace(abstained("no", code="all_advisory"), details={"code": "all_advisory", "why": "calibrate"}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("pass fail", ""),
        ("pass abstain", ""),
        ("abstain fail", ""),
        ("(pass) abstain fail", ""),
        ("abstain advisory", "every judge abstained: 0-abstain, 1-advisory\n  1-advisory: calibrate"),
        ("(pass) abstain", "every judge abstained: 1-abstain"),
        ("(pass) (fail)", "a case without blocking judges: 0-pass (new); 1-fail (new)\n  fix: add a rule,"),
        ("broken pass", "no response"),
        ("pass broken late", "no response"),
    ],
)  # fmt: skip
def test_a_trial_is_decided_by_judges_that_block_and_have_an_opinion(
    made: Any, words: str, error: str
):
    model_verdicts: dict[str, Any] = {}
    statuses: dict[str, JudgeStatus] = {}
    for number, word in enumerate(words.split()):
        kind = word.strip("()")
        name = f"{number}-{kind}"
        blocking = kind == word
        statuses[name] = JudgeStatus(blocking=blocking, reason="" if blocking else "new")
        model_verdicts[name] = (
            JudgedVerdict(
                judge=name, judge_digest="d", verdict=VERDICTS[kind], blocking=blocking,
                status_reason="" if blocking else "new",
            )
            if kind in VERDICTS
            else MissingVerdict(
                error=JudgeError("no response" if kind == "broken" else "later", judge=name)
            )
        )  # fmt: skip
    judges: Any = tuple(SimpleNamespace(name=name, digest="d") for name in statuses)
    suite = replace(made.suite(), judges=judges, judge_statuses=statuses)
    case = PlannedCase(suite, made.case())
    case.plan()
    sourced = SourcedCompletion(
        completion=Completion(text="ok", finish_reason="stop"), source="live"
    )
    trial = asyncio.run(
        judge_trial(PlannedTrial(case, 3), sourced, model_verdicts=model_verdicts, offline=False)
    )
    assert (trial.number, trial.request_digest) == (3, case.digest)
    measured = [verdict.judge for verdict in trial.verdicts]
    assert measured == [name for name in statuses if name.split("-")[1] in VERDICTS]
    assert (trial.error is None) == (not error)
    assert error in str(trial.error)


def test_a_cancelled_run_ends_and_errors_of_judges_do_not_end_it():
    """A judge may raise anything, even what asyncio raises when a task is cancelled."""
    seen: list[bool] = []

    async def judge() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            seen.append(passes_through(error))
            raise

    async def cancel() -> None:
        seen.append(passes_through(asyncio.CancelledError()))  # no one cancels this task
        task = asyncio.create_task(judge())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert seen == [False, True]
    assert not passes_through(asyncio.CancelledError())  # without an event loop
    for error in (SystemExit(1), pytest.skip.Exception("x"), ValueError("x"), MemoryError()):
        assert not passes_through(error)
    assert passes_through(KeyboardInterrupt())
    assert passes_through(GeneratorExit())
