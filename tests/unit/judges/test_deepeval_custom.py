"""Metrics that a project writes itself: awaiting, blocking, nested, badly behaved."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import JudgeError
from regauge.judges import deepeval
from tests.unit.judges.deepeval_responses import Calls, bound, case, completion, judge, prompt_of

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture(scope="module")
def own() -> ModuleType:
    """Metrics of a project; not loaded where these tests are only collected."""
    return importlib.import_module("tests.unit.judges.deepeval_own")


SOURCE = {"retrieval_context": "inputs.report"}


def test_a_metric_that_blocks_is_measured_in_a_thread(own):
    verdict = judge(deepeval(own.Words, most=2), Calls(), answer="four words in it")
    assert (verdict.score, verdict.outcome) == (0.5, "pass")
    assert "4 words" in verdict.reason
    assert (
        judge(deepeval(own.Words(threshold=0.6, most=2)), Calls(), answer="a b c d").outcome
        == "fail"
    )


def test_a_score_that_should_be_low_is_held_to_a_ceiling(own):
    verdict = judge(deepeval(own.Errors, threshold=0.3), Calls())
    assert (verdict.outcome, verdict.score) == ("pass", 0.75)
    assert "at most 0.3 wanted" in verdict.reason
    assert judge(deepeval(own.Errors, threshold=0.2), Calls()).code == "above_threshold"


def test_a_metric_may_ask_without_awaiting_many_at_a_time(own):
    """A pool of threads as large as the machine is small would be a queue."""
    blocking = bound(deepeval(own.Blocking, name="blocking"))

    def grade(schema: str, request: Any) -> Any:
        return json.dumps({"grade": float(re.findall(r"answer ([0-9.]+)", prompt_of(request))[0])})

    async def main() -> list[Any]:
        return await asyncio.gather(
            *(
                blocking.judge_with(completion(f"answer {i / 20}"), case(), Calls(grade))
                for i in range(20)
            )
        )

    assert [verdict.score for verdict in asyncio.run(main())] == [i / 20 for i in range(20)]


@pytest.mark.parametrize("metric", ["Both", "Awaiting"])
def test_metrics_within_metrics_ask_through_the_run(own, metric):
    calls = Calls()
    verdict = judge(deepeval(getattr(own, metric), name="nested", fields=SOURCE), calls)
    assert verdict.outcome in {"pass", "fail"}
    assert calls.asked


def test_loops_of_the_process_are_never_patched(own):
    """deepeval makes a loop re-entrant for all when a metric blocks inside one."""
    before = asyncio.run.__module__, asyncio.BaseEventLoop.run_until_complete.__module__
    judge(deepeval(own.Both, name="nested", fields=SOURCE), Calls())
    assert (asyncio.run.__module__, asyncio.BaseEventLoop.run_until_complete.__module__) == before
    assert not hasattr(asyncio, "_nest_patched")


def test_a_metric_object_with_parts_shares_none_of_them(own):
    metric = own.Words()
    metric.part = own.FaithfulnessMetric(model=own.Own())
    judge(deepeval(metric), Calls())
    assert metric.part.score is None
    assert metric.score is None


def test_a_failure_that_a_metric_swallows_is_no_score(own):
    calls = Calls(lambda *_: "no json at all")
    with pytest.raises(JudgeError, match="no response of"):
        judge(deepeval(own.Swallowing, fields=SOURCE), calls)


@pytest.mark.parametrize("score", [None, float("nan"), float("inf"), "good", 1.5, -0.1])
def test_what_is_no_score_from_0_to_1_is_an_error(own, score):
    class Odd(own.Words):
        def measure(self, test_case):  # noqa: ARG002 - the contract
            self.score = score

    with pytest.raises(JudgeError, match="cannot be trusted"):
        judge(deepeval(Odd), Calls())


def test_a_metric_that_breaks_is_named_with_the_case(own):
    class Broken(own.Words):
        def measure(self, test_case):  # noqa: ARG002 - the contract
            raise ZeroDivisionError("no words")

    with pytest.raises(
        JudgeError, match="Broken broke on case 'disk': ZeroDivisionError: no words"
    ):
        judge(deepeval(Broken), Calls())


def test_what_makes_no_metric_is_said():
    with pytest.raises(JudgeError, match="which is not a metric"):
        judge(deepeval(lambda: 3, name="three"), Calls())


def test_the_digest_follows_the_source_and_the_settings_of_a_metric(own):
    digests = {bound(declared).measurement_digest for declared in own.declare_metrics()}
    assert len(digests) == 7
    assert (
        bound(deepeval(own.Words(threshold=0.1))).measurement_digest
        == bound(deepeval(own.Words(threshold=0.9))).measurement_digest
    )


def test_a_cancelled_measurement_leaves_no_thread_behind(own):
    """The thread of a blocking metric would otherwise wait for a reply that never comes."""
    import threading

    async def never(*_: Any) -> Any:
        await asyncio.Event().wait()

    calls = Calls()
    calls.complete = never  # type: ignore[method-assign]  # a model that never answers

    async def main() -> None:
        task = asyncio.create_task(
            bound(deepeval(own.Blocking, name="b")).judge_with(completion("x"), case(), calls)
        )
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(100):
            if not any("deepeval" in thread.name for thread in threading.enumerate()):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(threading.enumerate())

    asyncio.run(main())
