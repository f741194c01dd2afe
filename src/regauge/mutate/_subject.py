"""A project's prompt under mutation: its cases, their baseline, and the trials of its evals."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regauge.digests import digest_of
from regauge.errors import UsageError
from regauge.gate import (
    CONTROL_FIRST,
    NONE_DRAWN,
    REVISION_FIRST,
    facts_of_trial,
    tier_held,
)
from regauge.gate.baselines import (
    CRITICAL_TRIALS,
    accepted_since,
    baseline_of,
    gating_judges,
    key_of,
)
from regauge.mutate._types import Case, Observed
from regauge.providers import shown_messages, shown_output
from regauge.runner import Draw, PlannedCase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.gate.baselines import StoredHistory
    from regauge.prompts import Prompt
    from regauge.runner import EvalSession, Suite, Trial, Trials

_BASE_FIRST = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A prompt and the golden cases of its evals.

    Attributes:
        members: The planned case of each key.
        key: A digest of the cases and judges: another key may have other classes.
    """

    prompt: Prompt
    members: Mapping[str, PlannedCase]
    cases: tuple[Case, ...]
    dataset: str
    model: str
    key: str


def subject_of(evals: EvalSession, planned: Sequence[PlannedCase]) -> Subject:
    """The subject of planned evals of one prompt.

    Raises:
        UsageError: They put cases to a target, run on several models, or no judge blocks.
        RegaugeError: A case cannot be put to the prompt, or the baseline cannot be read.
    """
    members: dict[str, PlannedCase] = {}
    cases: list[Case] = []
    known: dict[int, StoredHistory | None] = {}
    accepted = accepted_since(planned[0].suite.prompt, "")
    suites = {id(one.suite): one.suite for one in planned}
    for suite in suites.values():
        if suite.target is not None:
            raise UsageError(
                f"evals of {suite.prompt.name} run a target, whose prompt is not known\n"
                "  fix: mutate a prompt that an eval puts to a model"
            )
    models = dict.fromkeys(str(suite.model) for suite in suites.values())
    if len(models) > 1:
        raise UsageError(
            f"evals of {planned[0].suite.prompt.name} run on several models: {', '.join(models)}\n"
            "  fix: name one with --model"
        )
    for one in planned:
        if one.error is not None:
            raise one.error
        suite = one.suite
        if id(suite) not in known:
            stored = baseline_of(evals.project, suite)[0]
            known[id(suite)] = stored.find(key_of(suite)) if stored is not None else None
        name = one.case.id
        if name in members:
            name = f"{suite.dataset.name}/{name}#{len(members)}"
        judges = gating_judges(suite)
        members[name] = PlannedCase(replace(suite, judges=judges), one.case)
        cases.append(_case(name, one, known[id(suite)], accepted=one.case.id in accepted))
    datasets = dict.fromkeys(suite.dataset.name for suite in suites.values())
    return Subject(
        prompt=planned[0].suite.prompt,
        members=members,
        cases=tuple(cases),
        dataset=", ".join(datasets),
        model=str(planned[0].suite.model),
        key=digest_of(
            [
                sorted([one.case.id, one.case.digest, one.case.tier] for one in planned),
                sorted({j.digest for s in suites.values() for j in gating_judges(s)}),
            ]
        ),
    )


def _case(name: str, planned: PlannedCase, known: StoredHistory | None, *, accepted: bool) -> Case:
    case = planned.case
    history = known.history(case.id, case.digest) if known is not None else None
    answers = known.cases[case.id].answers if known is not None and history is not None else ()
    trials = history.whole.trials if history is not None else 0
    checks = tuple(judge.name for judge in gating_judges(planned.suite))
    texts = [
        *(value if isinstance(value, str) else json.dumps(value) for value in case.inputs.values()),
        json.dumps(case.expected, ensure_ascii=False) if case.expected is not None else "",
        json.dumps(case.checks, ensure_ascii=False) if case.checks else "",
        *case.tags,
        *checks,
        case.id,
    ]
    return Case(
        key=name,
        text="\n".join(texts),
        checks=checks,
        history=history,
        repeats=trials if len(answers) == 1 else 0,
        answer=answers[0] if len(answers) == 1 else "",
        tier=tier_held(
            case.tier, history.whole if history is not None else NONE_DRAWN, CRITICAL_TRIALS
        ),
        blocks=case.tier != "tracked" and not accepted,
    )


class EvalBench:
    """Draws trials of a subject's cases under any text of its prompt.

    Completions are looked up by the digest of their request, in recordings and the local store.
    """

    def __init__(self, subject: Subject, trials: Trials) -> None:
        self._subject = subject
        self._trials = trials
        self._planned: dict[tuple[str, str], PlannedCase] = {}
        self._suites: dict[tuple[str, int], Suite] = {}

    async def draw(
        self, prompt: Prompt | None, trials: Sequence[tuple[str, int]]
    ) -> list[Observed | Exception]:
        """As `Bench` has it."""
        return list(await asyncio.gather(*(self._one(prompt, *trial) for trial in trials)))

    async def _one(self, prompt: Prompt | None, key: str, number: int) -> Observed | Exception:
        member = self._subject.members[key]
        if prompt is None:
            # Trial 0 is that of the evals; more are those of main in a comparison.
            stored = number if number == _BASE_FIRST else CONTROL_FIRST + number
            return _observed(await self._trials.make(Draw(member, stored)), member)
        planned = self._under(prompt, key)
        draw = Draw(planned, REVISION_FIRST + number)
        if planned.suite.model_judges:
            base = await self._one(None, key, 0)
            made = await self._trials.make(Draw(self._by_rules(planned), draw.trial))
            if isinstance(base, Observed) and made.error is None and _output(made) == base.output:
                # LLM judges judged this very output of the base.
                return base
        return _observed(await self._trials.make(draw), planned)

    def _under(self, prompt: Prompt, key: str) -> PlannedCase:
        """A case under another text; its request is worked out once."""
        found = self._planned.get((prompt.digest, key))
        if found is None:
            member = self._subject.members[key]
            at = (prompt.digest, id(member.suite))
            if at not in self._suites:
                self._suites[at] = replace(member.suite, prompt=prompt)
            found = PlannedCase(self._suites[at], member.case)
            self._planned[prompt.digest, key] = found
        return found

    def _by_rules(self, planned: PlannedCase) -> PlannedCase:
        models = {judge.name for judge in planned.suite.model_judges}
        rules = tuple(judge for judge in planned.suite.judges if judge.name not in models)
        return PlannedCase(replace(planned.suite, judges=rules, standings={}), planned.case)


def _observed(trial: Trial, planned: PlannedCase) -> Observed | Exception:
    if trial.error is not None:
        cause = trial.error.__cause__
        return cause if isinstance(cause, UsageError) else trial.error
    checks = [judge.name for judge in planned.suite.judges]
    facts = facts_of_trial(trial, checks, graded=())
    if facts is None:
        return UsageError(f"case {planned.case.id!r} has no verdict")
    return Observed(facts=facts, output=_output(trial))


def _output(trial: Trial) -> str:
    assert trial.answer is not None
    completion = trial.answer.completion
    shown = shown_output(completion.text, completion.refusal, shown_messages(completion))
    return shown or ""
