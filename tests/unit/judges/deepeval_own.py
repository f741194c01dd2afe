"""Metrics as a project writes them. Imported, it has deepeval loaded, which takes seconds."""

from __future__ import annotations

import json
from typing import Any

from regauge.judges import deepeval
from regauge.judges._deepeval import _judge

_judge.load()

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


class Own(DeepEvalBaseLLM):
    def load_model(self):
        return None

    def generate(self, prompt):  # noqa: ARG002 - the contract
        raise AssertionError

    a_generate = generate

    def get_model_name(self):
        return "own"


def declare_metrics() -> list[Any]:
    """Metrics that differ in their source or settings."""
    return [
        deepeval(Words),
        deepeval(Words, most=2),
        deepeval(Words(most=2)),
        deepeval(Words(most=3)),
        deepeval(Blocking),
        deepeval(lambda: Words(most=2)),
        deepeval(lambda: Words(most=3)),
    ]
