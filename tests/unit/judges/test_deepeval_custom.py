"""Metrics that a project writes itself: awaiting, blocking, nested, badly behaved."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from regauge.errors import JudgeError
from regauge.judges import deepeval
from regauge.judges._deepeval import _installed
from tests.unit.judges.deepeval_replies import Calls, bound, case, completion, judge, prompt_of

_installed.load()

from deepeval.metrics import AnswerRelevancyMetric, BaseMetric, FaithfulnessMetric, GEval  # noqa: E402 - quiet by now
from deepeval.models import DeepEvalBaseLLM  # noqa: E402


class Words(BaseMetric):
    """Asks nobody, and blocks."""

    def __init__(self, threshold: float = 0.5, most: int = 4) -> None:
        self.threshold = threshold
        self.most = most

    def measure(self, test_case):
        self.score = min(1.0, self.most / len(test_case.actual_output.split()))
        self.reason = f"{len(test_case.actual_output.split())} words"
        return self.score

    @property
    def __name__(self):
        return "Words"


class Errors(Words):
    """As deepeval's scores were before 4.2: the fewer the better."""

    def measure(self, test_case):  # noqa: ARG002 - the contract
        self.score = 0.25
        return self.score

    def is_successful(self):
        return self.score <= self.threshold


class Blocking(Words):
    """Asks without awaiting, as the documentation of deepeval shows it."""

    def __init__(self, model: Any = None) -> None:
        super().__init__()
        self.model = model

    def measure(self, test_case):
        said = self.model.generate(f"Grade: {test_case.actual_output}")
        self.score = json.loads(said)["grade"]
        return self.score

    async def a_measure(self, test_case, _show_indicator=True):  # noqa: FBT002 - the contract
        return self.measure(test_case)


class Both(Words):
    """Runs two of deepeval's metrics, in the blocking way."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = [AnswerRelevancyMetric(), FaithfulnessMetric()]

    def measure(self, test_case):
        for part in self.parts:
            part.measure(test_case, _show_indicator=False)
        self.score = min(part.score for part in self.parts)
        return self.score

    async def a_measure(self, test_case):
        return self.measure(test_case)


class Awaiting(Words):
    async def a_measure(self, test_case):
        part = GEval(name="part", evaluation_steps=["Look."], evaluation_params=self.about)
        await part.a_measure(test_case, _show_indicator=False)
        self.score = part.score
        return self.score

    def __init__(self) -> None:
        super().__init__()
        from deepeval.test_case import SingleTurnParams

        self.about = [SingleTurnParams.ACTUAL_OUTPUT]


class Swallowing(Words):
    """Takes whatever goes wrong for a good answer."""

    async def a_measure(self, test_case):
        try:
            part = FaithfulnessMetric()
            await part.a_measure(test_case, _show_indicator=False)
        except Exception:  # noqa: BLE001 - as one should not
            self.score = 1.0
        return self.score


SOURCE = {"retrieval_context": "inputs.report"}


def test_a_metric_that_blocks_is_measured_in_a_thread():
    verdict = judge(deepeval(Words, most=2), Calls(), answer="four words in it")
    assert (verdict.score, verdict.outcome) == (0.5, "pass")
    assert "4 words" in verdict.reason
    assert (
        judge(deepeval(Words(threshold=0.6, most=2)), Calls(), answer="a b c d").outcome == "fail"
    )


def test_a_score_that_should_be_low_is_held_to_a_ceiling():
    verdict = judge(deepeval(Errors, threshold=0.3), Calls())
    assert (verdict.outcome, verdict.score) == ("pass", 0.75)
    assert "at most 0.3 wanted" in verdict.reason
    assert judge(deepeval(Errors, threshold=0.2), Calls()).code == "above_threshold"


def test_a_metric_may_ask_without_awaiting_many_at_a_time():
    """A pool of threads as large as the machine is small would be a queue."""
    blocking = bound(deepeval(Blocking, name="blocking"))

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


@pytest.mark.parametrize("metric", [Both, Awaiting])
def test_metrics_within_metrics_ask_through_the_run(metric):
    calls = Calls()
    verdict = judge(deepeval(metric, name="nested", fields=SOURCE), calls)
    assert verdict.outcome in {"pass", "fail"}
    assert calls.asked


def test_loops_of_the_process_are_never_patched():
    """deepeval makes a loop re-entrant for all when a metric blocks inside one."""
    before = asyncio.run.__module__, asyncio.BaseEventLoop.run_until_complete.__module__
    judge(deepeval(Both, name="nested", fields=SOURCE), Calls())
    assert (asyncio.run.__module__, asyncio.BaseEventLoop.run_until_complete.__module__) == before
    assert not hasattr(asyncio, "_nest_patched")


def test_a_metric_object_with_parts_shares_none_of_them():
    class Own(DeepEvalBaseLLM):
        def load_model(self):
            return None

        def generate(self, prompt):  # noqa: ARG002 - the contract
            raise AssertionError

        a_generate = generate

        def get_model_name(self):
            return "own"

    metric = Words()
    metric.part = FaithfulnessMetric(model=Own())  # type: ignore[attr-defined]  # a project's own
    judge(deepeval(metric), Calls())
    assert metric.part.score is None  # type: ignore[attr-defined]
    assert metric.score is None


def test_a_failure_that_a_metric_swallows_is_no_score():
    calls = Calls(lambda *_: "no json at all")
    with pytest.raises(JudgeError, match="no reply that can be read"):
        judge(deepeval(Swallowing, fields=SOURCE), calls)


@pytest.mark.parametrize("score", [None, float("nan"), float("inf"), "good", 1.5, -0.1])
def test_what_is_no_score_from_0_to_1_is_an_error(score):
    class Odd(Words):
        def measure(self, test_case):  # noqa: ARG002 - the contract
            self.score = score

    with pytest.raises(JudgeError, match="cannot be trusted"):
        judge(deepeval(Odd), Calls())


def test_a_metric_that_breaks_is_named_with_the_case():
    class Broken(Words):
        def measure(self, test_case):  # noqa: ARG002 - the contract
            raise ZeroDivisionError("no words")

    with pytest.raises(
        JudgeError, match="Broken broke on case 'disk': ZeroDivisionError: no words"
    ):
        judge(deepeval(Broken), Calls())


def test_what_makes_no_metric_is_said():
    with pytest.raises(JudgeError, match="which is none"):
        judge(deepeval(lambda: 3, name="three"), Calls())


def test_the_digest_follows_the_source_and_the_settings_of_a_metric():
    digests = {
        bound(declared).measurement_digest
        for declared in (
            deepeval(Words),
            deepeval(Words, most=2),
            deepeval(Words(most=2)),
            deepeval(Words(most=3)),
            deepeval(Blocking),
            deepeval(lambda: Words(most=2)),
            deepeval(lambda: Words(most=3)),
        )
    }
    assert len(digests) == 7
    assert (
        bound(deepeval(Words(threshold=0.1))).measurement_digest
        == bound(deepeval(Words(threshold=0.9))).measurement_digest
    )


def test_a_cancelled_measurement_leaves_no_thread_behind():
    """The thread of a blocking metric would otherwise wait for a reply that never comes."""
    import threading

    async def never(*_: Any) -> Any:
        await asyncio.Event().wait()

    calls = Calls()
    calls.complete = never  # type: ignore[method-assign]  # a model that never answers

    async def main() -> None:
        task = asyncio.create_task(
            bound(deepeval(Blocking, name="b")).judge_with(completion("x"), case(), calls)
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
