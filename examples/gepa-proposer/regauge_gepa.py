"""gepa's search as a proposer: its best text becomes an edit, guarded and tested as any other."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gepa
from gepa.core.adapter import EvaluationBatch

from regauge.prompts import Message
from regauge.refine.proposers import (
    EditError,
    Ideas,
    NoEditError,
    PromptText,
    TrialResults,
    apply,
    edit_of_text,
    load_proposers,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from regauge.refine.proposers import Critique, ModelCaller, Outcome, Problem, ProposerContext

__all__ = ["GepaProposer"]

_COMPONENT = "prompt"
_TRIALS_MAX = 60
_MINIBATCH = 3


class GepaProposer:
    """gepa selects among the model's edits, with a few trials.

    Its cache and its state on disk are off: the cache assumes that completions never vary, and the
    state is pickled.
    """

    name = "gepa"
    calls_model = True

    def __init__(self, context: ProposerContext) -> None:
        self.model = load_proposers(["model"], context)["model"]
        self.seed = context.seed

    async def criticise(self, problem: Problem, call_model: ModelCaller) -> Critique | None:
        """The critique of the refiner model."""
        return await self.model.criticise(problem, call_model)

    async def propose(self, problem: Problem, call_model: ModelCaller) -> Ideas:
        """gepa's best text, as an edit of the prompt."""
        if problem.run_trials is None or problem.calls < 2 * len(problem.cases):
            return Ideas(refused=("gepa: no trials left for a search",))
        loop = asyncio.get_running_loop()
        search = _Search(self, problem, call_model, loop)
        text = await asyncio.to_thread(search.run)
        refused = list(search.refused)
        if text is None or text == search.seed_text:
            return Ideas(refused=(*refused, "gepa: it found nothing better"))
        try:
            edit = edit_of_text(text, problem.text, proposer=self.name, rationale="found by gepa")
        except NoEditError as diagnostic:
            return Ideas(refused=(*refused, f"gepa: {diagnostic}"))
        return Ideas(edits=(edit,), refused=tuple(refused))


class _Search:
    """One search, in its own thread; model calls and trials run on the event loop."""

    def __init__(
        self,
        proposer: GepaProposer,
        problem: Problem,
        call_model: ModelCaller,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._proposer = proposer
        self._problem = problem
        self._call_model = call_model
        self._loop = loop
        self._calls = 0
        self.refused: list[str] = []
        self.seed_text = problem.text.messages[0].content

    def run(self) -> str | None:
        """The best text; None if the search failed."""
        cases = list(self._problem.cases)
        # gepa checks its budget between steps only, and exceeds it by up to one trial of all cases.
        calls = min(self._problem.calls, _TRIALS_MAX) - len(cases) - 2 * _MINIBATCH
        if calls <= len(cases):
            self.refused.append("gepa: too few trials left for a search")
            return None
        try:
            result: Any = gepa.optimize(
                seed_candidate={_COMPONENT: self.seed_text},
                trainset=cases,
                valset=cases,
                adapter=self,
                max_metric_calls=calls,
                reflection_minibatch_size=min(_MINIBATCH, len(cases)),
                seed=self._proposer.seed,
                logger=_Silent(),
                raise_on_exception=True,
            )
        except _StoppedError as error:
            self.refused.append(f"gepa: {error}")
            return None
        best: str = result.best_candidate[_COMPONENT]
        return best

    def evaluate(
        self,
        batch: Sequence[str],
        candidate: Mapping[str, str],
        capture_traces: bool = False,  # noqa: FBT001, FBT002 - gepa calls it so
    ) -> Any:
        """Scores for cases under a text: the share of their checks that pass."""
        run_trials = self._problem.run_trials
        assert run_trials is not None
        done = self._await(run_trials(self._text(candidate), tuple(batch)))
        if not isinstance(done, TrialResults):
            raise _StoppedError(done.text or done.reason)
        by_case = {outcome.case: outcome for outcome in done.outcomes}
        outcomes = [by_case.get(case) for case in batch]
        return EvaluationBatch(
            outputs=[outcome.output if outcome else "" for outcome in outcomes],
            scores=[_score(outcome) for outcome in outcomes],
            trajectories=list(outcomes) if capture_traces else None,
        )

    def make_reflective_dataset(
        self, candidate: Mapping[str, str], eval_batch: Any, components_to_update: Sequence[str]
    ) -> dict[str, list[dict[str, str]]]:
        """Rows that gepa requires; the refiner model reads the masked problem instead."""
        del candidate
        rows = [{"score": str(score)} for score in eval_batch.scores] or [{"score": "0"}]
        return dict.fromkeys(components_to_update, rows)

    def propose_new_texts(
        self,
        candidate: Mapping[str, str],
        reflective_dataset: Mapping[str, Any],
        components_to_update: Sequence[str],
    ) -> dict[str, str]:
        """The text with the model's next edit; unchanged if the edit cannot be applied."""
        del reflective_dataset
        text = self._text(candidate)
        self._calls += 1
        problem = replace(
            self._problem, text=text, candidates=1, cycle=self._problem.cycle * 100 + self._calls
        )
        ideas = self._await(self._proposer.model.propose(problem, self._call_model))
        self.refused += ideas.refused
        if any("used up" in refusal for refusal in ideas.refused):
            raise _StoppedError("the model calls of this run are used up")
        for edit in ideas.edits:
            try:
                after = apply(text, edit.ops)
            except EditError as error:
                self.refused.append(f"gepa: {error}")
            else:
                return dict.fromkeys(components_to_update, after.messages[0].content)
        return {component: candidate[component] for component in components_to_update}

    def _text(self, candidate: Mapping[str, str]) -> PromptText:
        first, *rest = self._problem.text.messages
        return PromptText(messages=(Message(role=first.role, content=candidate[_COMPONENT]), *rest))

    def _await(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class _StoppedError(Exception):
    """The budget of trials or calls is used up."""


class _Silent:
    """A logger that replaces gepa's output on standard output."""

    def log(self, message: str) -> None:
        """Log at debug level."""
        logging.getLogger("regauge.refine").debug("gepa: %s", message)


def _score(outcome: Outcome | None) -> float:
    if outcome is None or not outcome.checks:
        return 0.0
    return sum(check.passed for check in outcome.checks) / len(outcome.checks)
