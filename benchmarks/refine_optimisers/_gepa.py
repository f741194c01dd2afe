"""gepa's own search, as its users would run it on such a task."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.refine_optimisers._world import World

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.refine_optimisers._world import Answer, Found
    from benchmarks.refine_tasks._bench import Trial
    from benchmarks.refine_tasks._task import Task

__all__ = ["SETTINGS", "by_gepa"]

# Everything else is as gepa comes.
SETTINGS = {"max_metric_calls": 600}
_PROMPT = "prompt"


def by_gepa(task: Task, trial: Trial, settings: Mapping[str, Any]) -> Found:
    """The candidate that gepa finds best: train cases to learn from, holdout cases to choose by."""
    world = World(task, trial)
    result = import_module("gepa").optimize(
        seed_candidate={_PROMPT: trial.prompt},
        trainset=list(trial.train),
        valset=list(trial.holdout),
        adapter=_Adapter(world),
        reflection_lm=lambda request: f"```\n{world.reflect(str(request))}\n```",
        seed=trial.seed,
        logger=_Silent(),
        **settings,
    )
    return world.found(result.best_candidate[_PROMPT])


class _Adapter:
    """Answers and feedback in the form that gepa asks for."""

    propose_new_texts = None

    def __init__(self, world: World) -> None:
        self._world = world

    def evaluate(
        self,
        batch: Sequence[Any],
        candidate: Mapping[str, str],
        capture_traces: bool = False,  # noqa: FBT001, FBT002 - gepa calls it so
    ) -> Any:
        """Scores for cases under a prompt."""
        answers = [self._world.answer(candidate[_PROMPT], case) for case in batch]
        return import_module("gepa.core.adapter").EvaluationBatch(
            outputs=[answer.text for answer in answers],
            scores=[answer.score for answer in answers],
            trajectories=list(zip(batch, answers, strict=True)) if capture_traces else None,
        )

    def make_reflective_dataset(
        self, candidate: Mapping[str, str], evaluated: Any, components: Sequence[str]
    ) -> dict[str, list[dict[str, str]]]:
        """What the reflection model is told of the cases."""
        del candidate
        told = [_told(case, answer) for case, answer in evaluated.trajectories]
        return dict.fromkeys(components, told)


def _told(case: Any, answer: Answer) -> dict[str, str]:
    return {
        "Inputs": case.input,
        "Generated Outputs": answer.text,
        "Feedback": f"{answer.said}\nExpected: {case.golden}",
    }


class _Silent:
    def log(self, *_: object, **__: object) -> None:
        return None
