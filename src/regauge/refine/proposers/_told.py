"""What a proposer is told of a run: of train cases only, and no more than it may know."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from regauge.refine.loop import Draws, calls_max, floor_calls, trials_for
from regauge.refine.proposers._masked import masked
from regauge.refine.proposers._problem import Problem, Shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.refine.edits import PromptText
    from regauge.refine.evidence import Cluster
    from regauge.refine.loop import (
        AskCritique,
        AskProposals,
        Interrupted,
        Setting,
        State,
        TrialsDone,
    )
    from regauge.refine.people import Evidence
    from regauge.refine.proposers._problem import Example

__all__ = ["problem_of"]

_FAILING_SHOWN = 3
_PASSING_SHOWN = 2
_LABELS_SHOWN = 4
# Trials that a search draws have numbers of their own: they choose, so they prove nothing.
_SEARCH_FROM = 500
_SEARCHED_MAX = 12
_INPUT_CHARS = 2_000
_ANSWER_CHARS = 1_000


def problem_of(
    setting: Setting,
    state: State,
    action: AskCritique | AskProposals,
    cases: Mapping[str, GoldenCase],
    *,
    released: Sequence[str] = (),
    examples: Sequence[Example] = (),
    people: Sequence[Evidence] = (),
    show_goldens: bool = False,
    draw: Callable[[Sequence[Draws]], Awaitable[TrialsDone | Interrupted]] | None = None,
) -> Problem:
    """What a proposer is told when a state asks for edits.

    Args:
        setting: What the run is about; of its cases only those to train on are shown.
        state: Where the run stands.
        action: What it asks for.
        cases: By the names that the run knows them by.
        released: Texts of earlier versions of the prompt, the newest first.
        examples: The pool.
        people: What people said, as far as proposers may know of it.
        show_goldens: Show what is expected as it is.
        draw: Draws trials, for proposers that search with some of their own.
    """
    from regauge.refine.evidence import Check
    from regauge.refine.loop import AskProposals

    cluster = action.cluster
    failing = [case for case in cluster.failing if case in setting.train and case in cases]
    passing = [
        case
        for case in cluster.cases
        if case in setting.train and case in cases and case not in failing
    ]

    def shown(case: str) -> Shown:
        return _shown(state, cluster.check, case, cases[case], show_goldens=show_goldens)

    left_calls = calls_max(setting, state) - state.spent.total
    left = setting.policy.limits.model_calls - state.spent.model_calls
    drawn: Counter[tuple[str, str]] = Counter()

    async def search(text: PromptText, wanted: Sequence[str]) -> TrialsDone | Interrupted:
        assert draw is not None
        trials: list[tuple[str, int]] = []
        for case in wanted:
            key = (text.digest, case)
            trials.append((case, setting.first_trial + _SEARCH_FROM + drawn[key]))
            drawn[key] += 1
        return await draw((Draws(text=text, trials=tuple(trials)),))

    return Problem(
        text=state.text,
        cluster=cluster,
        check=setting.checks.get(cluster.check, Check(name=cluster.check)),
        checks=setting.checks,
        failing=tuple(shown(case) for case in failing[:_FAILING_SHOWN]),
        passing=tuple(shown(case) for case in passing[:_PASSING_SHOWN]),
        lessons=state.memory.lessons(cluster.key),
        critique=action.critique if isinstance(action, AskProposals) else None,
        released=tuple(released),
        examples=tuple(examples),
        hindering=tuple(b.text for b in state.bearings if cluster.check in b.hinders),
        replaceable=setting.guard.open_sections(state.text),
        people=_bearing_on(cluster, people),
        cycle=state.cycle,
        model_calls=max(0, left),
        cases=(*failing[: _SEARCHED_MAX // 2], *passing[: _SEARCHED_MAX // 2]),
        draw=None if draw is None else search,
        calls=max(0, trials_for(setting, left_calls - floor_calls(setting))),
    )


def _bearing_on(cluster: Cluster, people: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Labels for the check or of its failing cases, the nearest first, and all that was said."""
    labels = [
        (one.judge != cluster.check, one.case not in cluster.failing, number, one)
        for number, one in enumerate(people)
        if one.kind == "label" and (one.judge == cluster.check or one.case in cluster.failing)
    ]
    nearest = [one for *_, one in sorted(labels, key=lambda entry: entry[:3])[:_LABELS_SHOWN]]
    return (*nearest, *(one for one in people if one.kind != "label"))


def _shown(state: State, check: str, name: str, case: GoldenCase, *, show_goldens: bool) -> Shown:
    from regauge.prompts import input_text

    failures = state.tally.failures(state.text.digest, name, check)
    outcomes = failures or state.tally.since(state.text.digest, name, 0)
    answer = outcomes[0].answer if outcomes else ""
    reasons = [said.reason for o in failures[:1] for said in o.checks if said.check == check]
    hide = masked(case.golden)
    if show_goldens:
        hide = masked(None)
    return Shown(
        inputs={key: _cut(input_text(value), _INPUT_CHARS) for key, value in case.inputs.items()},
        answer=_cut(hide.text(answer), _ANSWER_CHARS),
        expected=case.expected if show_goldens else masked(case.expected).shape,
        reason=hide.text("; ".join(reasons)),
    )


def _cut(text: str, most: int) -> str:
    """A text without its middle, where it is too long."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n[... {len(text) - most} characters ...]\n{text[-most // 2 :]}"
