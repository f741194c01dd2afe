"""What every optimiser is given: answers, what judges say of them, and the reflection model."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.refine_tasks._bench import Trial
    from benchmarks.refine_tasks._task import Task

__all__ = ["Answer", "Found", "World"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of the simulated task.

    Attributes:
        score: The share of its requirements that it meets.
        said: What judges say of it, as an optimiser is told.
    """

    text: str
    score: float
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What an optimiser ends with, and what it took: answers drawn and requests to its model."""

    prompt: str
    calls: int
    model_calls: int


class World:
    """One run of a scenario as other tools see it; the same seed gives the same answers."""

    def __init__(self, task: Task, trial: Trial) -> None:
        self.trial = trial
        self.calls = 0
        self.model_calls = 0
        self._task = task
        self._cases = (*trial.train, *trial.holdout)
        self._drawn: Counter[tuple[str, str]] = Counter()
        self._texts = {trial.prompt}

    def answer(self, prompt: str, case: Any) -> Answer:
        """A fresh answer to a case; each one counts as a call."""
        self.calls += 1
        self._texts.add(prompt)
        drawn = (prompt, case.id)
        self._drawn[drawn] += 1
        rng = random.Random(f"{self.trial.seed} {self._drawn[drawn]} {case.id} {prompt}")
        failed = self._task.failed(prompt, case, rng)
        said = "; ".join(f"FAILED[{name}]: {self._task.reason(name)}" for name in failed)
        return Answer(
            text=f"answer {self.calls} to {case.input}",
            score=1 - len(failed) / len(case.reqs),
            said=said or "all checks passed",
        )

    def reflect(self, request: str) -> str:
        """The simulated reflection model: it rewrites the prompt that stands in a request.

        It knows what the request says: it repairs one failure of those reported in it, if any, and
        can give away the expected answers that stand in it and no others.
        """
        self.model_calls += 1
        rng = random.Random(f"{self.trial.seed} {self.model_calls} {request}")
        prompt = max((text for text in self._texts if text.strip() in request), key=len)
        shown = {case.id: case for case in self._cases if case.golden in request}
        failing = failures_in(request)
        how = self.trial.how if failing else replace(self.trial.how, p_fix=0.0, p_narrow=0.0)
        name = rng.choice(failing) if failing else self._task.names[0]
        return self._task.proposal(prompt, shown, name, how, rng.getrandbits(40))

    def guideline(self, request: str, number: int) -> str:
        """The simulated reflection model's advice of one sentence on the failures in a request."""
        failing = failures_in(request)
        if not failing:
            return f"Say it in another way ({number})."
        name = random.Random(f"{self.trial.seed} {number} {request}").choice(failing)
        return f"Repair what is reported as FAILED[{name}]: {self._task.reason(name)}."

    def found(self, prompt: str) -> Found:
        """An optimiser's end."""
        return Found(prompt=prompt, calls=self.calls, model_calls=self.model_calls)


def failures_in(request: str) -> list[str]:
    """The requirements that a request reports as failed, each once, in its order."""
    return list(dict.fromkeys(re.findall(r"FAILED\[(\w+)\]", request)))
