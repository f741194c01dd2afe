"""deepeval's four optimisers, as its users would run them on such a task."""

from __future__ import annotations

import inspect
import random
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from uuid import UUID

from benchmarks.refine_optimisers._world import World
from regauge.judges._deepeval._judge import import_quietly

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from benchmarks.refine_optimisers._world import Answer, Found
    from benchmarks.refine_tasks._bench import Trial
    from benchmarks.refine_tasks._task import Task

__all__ = ["SETTINGS", "by_deepeval"]

# They have no budget of calls; with these they take about 600. The rest is as deepeval comes.
SETTINGS: dict[str, dict[str, int]] = {
    "GEPA": {"iterations": 25, "patience": 25, "pareto_size": 10},
    "SIMBA": {"iterations": 5},
    "COPRO": {"depth": 9},
    "MIPROV2": {"num_trials": 21},
}


def by_deepeval(task: Task, trial: Trial, algorithm: str, settings: Mapping[str, Any]) -> Found:
    """The prompt that an optimiser of deepeval returns; it splits the cases by itself."""
    import_quietly()
    optimiser = import_module("deepeval.optimizer")
    goldens = import_module("deepeval.dataset")
    configs = import_module("deepeval.optimizer.configs")
    prompts = import_module("deepeval.prompt")
    made = getattr(import_module("deepeval.optimizer.algorithms"), algorithm)
    world = World(task, trial)
    cases = {case.input: case for case in (*trial.train, *trial.holdout)}
    answers: dict[str, Answer] = {}

    def answered(prompt: Any, golden: Any) -> str:
        answer = world.answer(prompt.text_template, cases[golden.input])
        answers[answer.text] = answer
        return answer.text

    # GEPA would ask OpenAI's models, were it not told to ask the optimiser's.
    own = {"reflection_model": None, "mutation_model": None} if algorithm == "GEPA" else {}
    seed = {"random_seed" if algorithm == "GEPA" else "random_state": trial.seed}
    run = optimiser.PromptOptimizer(
        model_callback=answered,
        metrics=[_metric(answers)],
        optimizer_model=_model(world),
        algorithm=made(**settings, **own, **seed),
        async_config=configs.AsyncConfig(run_async=False),
        display_config=configs.DisplayConfig(show_indicator=False),
    )
    with _same_each_time(trial.seed):
        found = run.optimize(
            prompt=prompts.Prompt(text_template=trial.prompt),
            goldens=[
                goldens.Golden(input=case.input, expected_output=case.golden)
                for case in cases.values()
            ],
        )
    return world.found(found.text_template)


@contextmanager
def _same_each_time(seed: int) -> Generator[None, None, None]:
    """Make random ids from a seed: candidates are told apart, and put into order, by theirs.

    Signatures are remembered, which are looked up for each answer and take most of the time.
    """
    rng = random.Random(seed)
    ids = patch("uuid.uuid4", lambda: UUID(int=rng.getrandbits(128), version=4))
    with ids, patch("inspect.signature", cache(inspect.signature)):
        yield


def _model(world: World) -> Any:
    """The simulated reflection model behind deepeval's interface."""
    base: Any = import_module("deepeval.models").DeepEvalBaseLLM

    class Simulated(base):  # type: ignore[misc]  # its type is not known here
        def load_model(self) -> Any:
            return self

        def get_model_name(self) -> str:
            return "simulated"

        def generate(self, prompt: str, schema: Any) -> Any:
            fields = schema.model_fields
            if "guidelines" in fields:
                world.model_calls += 1
                return schema(guidelines=[world.guideline(prompt, n) for n in range(20)])
            rewrites = [name for name in fields if name.startswith("revised_")]
            if (
                not rewrites
            ):  # a diagnosis, or a summary of the cases: the failures are in the request
                world.model_calls += 1
                return schema(**dict.fromkeys(fields, "as the results say"))
            return schema(
                **dict.fromkeys(fields, "as asked") | {rewrites[0]: world.reflect(prompt)}
            )

        async def a_generate(self, prompt: str, schema: Any) -> Any:
            return self.generate(prompt, schema)

    return Simulated()


def _metric(answers: Mapping[str, Answer]) -> Any:
    """The judges of the task as one metric; the score is the share of requirements met."""
    base: Any = import_module("deepeval.metrics").BaseMetric

    class Requirements(base):  # type: ignore[misc]  # its type is not known here
        threshold = 1.0
        async_mode = False

        def measure(self, test_case: Any) -> float:
            answer = answers[test_case.actual_output]
            self.score, self.reason = answer.score, answer.said
            self.success = answer.score >= self.threshold
            return answer.score

        async def a_measure(self, test_case: Any) -> float:
            return self.measure(test_case)

        def is_successful(self) -> bool:
            return bool(self.success)

        @property
        def __name__(self) -> str:
            return "Requirements"

    return Requirements()
