"""A project's prompt under mutation: its cases, their baseline, and the trials of its evals."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import yaml

from regauge.digests import digest_of
from regauge.errors import DatasetError, UsageError
from regauge.gate import (
    CONTROL_FIRST,
    CRITICAL_TRIALS,
    EVALS_FIRST,
    NO_TRIALS,
    REVISION_FIRST,
    accepted_since,
    facts_of_trial,
    tier_held,
)
from regauge.gate.baselines import baseline_of, blocking_judges, key_of
from regauge.judges import JudgeContext, build_checks_judge, is_case_checks
from regauge.mutate._suggest import keeps_checks
from regauge.mutate._types import Case, JudgedTrial
from regauge.prompts import parse_prompt
from regauge.providers import shown_messages, shown_output
from regauge.refine.subject import CandidateTargets, edited_prompt
from regauge.runner import PlannedCase, PlannedTrial

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.gate.baselines import StoredBaseline
    from regauge.mutate._suggest import Draft
    from regauge.prompts import Prompt
    from regauge.runner import Eval, EvalSession, Trial, TrialRunner
    from regauge.targets import Target


# More than are measured at once, so that no process in use is ended.
_PROCESSES_MAX = 16


class MutantTargets(CandidateTargets):
    """The targets of a prompt under its mutants, with the processes that run them."""

    def __init__(self, trials: TrialRunner) -> None:
        super().__init__()
        self._trials = trials
        self._running: dict[str, Target] = {}

    def written_prompt(self, prompt: Prompt) -> Prompt:
        """The mutant with a source of its own, as its text is edited in messages only.

        Raises:
            UsageError: The file would be another prompt.
        """
        return replace(prompt, source=prompt_file(prompt))

    async def use(self, target: Target) -> None:
        """Note a call of a target, and end the process that was idle for the longest time.

        Raises:
            UsageError: The target did not load the text.
        """
        is_running = self._running.pop(target.digest, None) is not None
        self._running[target.digest] = target
        if not is_running:
            target.check_candidate_loaded()
            if len(self._running) > _PROCESSES_MAX:
                await self._trials.end_target(self._running.pop(next(iter(self._running))))


def prompt_file(prompt: Prompt) -> str:
    """Return the text of a file with the messages, format and tools of a mutant.

    Raises:
        UsageError: The file would be another prompt.
    """
    document: dict[str, Any] = yaml.safe_load(prompt.source)
    for message, edited in zip(document["messages"], prompt.messages, strict=False):
        if isinstance(message.get("content"), str):
            message["content"] = edited.content
    for key in ("responseFormat", "jsonSchema"):
        document.pop(key, None)
    if prompt.response_format is not None:
        document["responseFormat"] = prompt.response_format["type"]
        if "json_schema" in prompt.response_format:
            document["jsonSchema"] = prompt.response_format["json_schema"]
    document.pop("tools", None)
    if prompt.tools:
        document["tools"] = [*prompt.tools]
    text = json.dumps(document, ensure_ascii=False, default=str)
    if parse_prompt(text, path=prompt.path).digest != prompt.digest:
        raise UsageError(f"a mutant of {prompt.name} cannot be written as a prompt file")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationSubject:
    """A prompt and the golden cases of its evals.

    Attributes:
        members: The planned case of each key.
        key: A digest of the cases and judges: classes are only valid for one key.
    """

    prompt: Prompt
    members: Mapping[str, PlannedCase]
    cases: tuple[Case, ...]
    dataset: str
    model: str
    key: str


def subject_of(
    session: EvalSession, planned_cases: Sequence[PlannedCase], name: str = ""
) -> MutationSubject:
    """Return the subject of planned evals, which share a prompt or targets that load it.

    Args:
        name: The prompt's name; by default that of the evals.

    Raises:
        UsageError: They run on several models, or a target that cannot load an edited prompt, or no
            judge blocks.
        RegaugeError: A case does not fit the prompt, or the baseline cannot be read.
    """
    members: dict[str, PlannedCase] = {}
    cases: list[Case] = []
    baselines: dict[int, StoredBaseline | None] = {}
    evals = {id(member.eval): member.eval for member in planned_cases}
    prompt, *_ = [edited_prompt(eval_, name or None) for eval_ in evals.values()]
    models = {str(eval_.model): eval_.target is None for eval_ in evals.values()}
    prompt_models = [model for model, is_model in models.items() if is_model] or [*models][:1]
    if len(prompt_models) > 1:
        raise UsageError(
            f"evals of {prompt.name} run on several models: {', '.join(prompt_models)}\n"
            "  fix: name one with --model"
        )
    for member in planned_cases:
        if member.error is not None:
            raise member.error
        eval_ = member.eval
        accepted_ids = accepted_since(eval_.prompt, "")
        if id(eval_) not in baselines:
            baseline = baseline_of(session.project, eval_)[0]
            baselines[id(eval_)] = baseline.find(key_of(eval_)) if baseline is not None else None
        name = member_key(member.case, eval_, members)
        judges = blocking_judges(eval_)
        members[name] = PlannedCase(replace(eval_, judges=judges), member.case)
        cases.append(
            _case(name, member, baselines[id(eval_)], accepted=member.case.id in accepted_ids)
        )
    datasets = dict.fromkeys(eval_.dataset.name for eval_ in evals.values())
    return MutationSubject(
        prompt=prompt,
        members=members,
        cases=tuple(cases),
        dataset=", ".join(datasets),
        model=prompt_models[0],
        key=digest_of(
            [
                sorted(
                    [member.case.id, member.case.digest, member.case.tier]
                    for member in planned_cases
                ),
                sorted({j.digest for s in evals.values() for j in blocking_judges(s)}),
            ]
        ),
    )


def member_key(case: GoldenCase, eval_: Eval, earlier: Collection[str]) -> str:
    """Return the key of a case of a prompt: its id, unless an earlier eval has it.

    Args:
        earlier: The keys of the cases before it.
    """
    name, number = case.id, 1
    while name in earlier:
        number += 1
        name = f"{eval_.dataset.name}/{case.id}#{number}"
    return name


def _case(
    name: str, planned_case: PlannedCase, baseline: StoredBaseline | None, *, accepted: bool
) -> Case:
    case = planned_case.case
    stored_baseline = baseline.find_trials(case.id, case.digest) if baseline is not None else None
    stored_case = baseline.cases.get(case.id) if baseline is not None else None
    checks = tuple(judge.name for judge in blocking_judges(planned_case.eval))
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
        tier=tier_held(
            case.tier,
            stored_baseline.total if stored_baseline is not None else NO_TRIALS,
            CRITICAL_TRIALS,
        ),
        blocks=case.tier != "tracked" and not accepted,
    ).with_baseline(stored_baseline, stored_case.output_digests if stored_case else ())


def base_number(planned_case: PlannedCase, nth: int) -> int:  # noqa: ARG001 - as `EvalBench` calls it
    """Return the stored number of the n-th trial of the base, from 0.

    The first one is that of the evals; others are those of the base in a comparison.
    """
    return nth if nth == EVALS_FIRST else CONTROL_FIRST + nth


class EvalBench:
    """The trials of a subject's cases under any text of its prompt.

    Completions are found by the digest of their request, in recordings and the local store.

    Args:
        numbers: Called with a case and n; returns the stored number of its n-th trial under the
            unedited prompt.
        targets: The targets under mutants, if other benches share them.
    """

    def __init__(
        self,
        subject: MutationSubject,
        trials: TrialRunner,
        numbers: Callable[[PlannedCase, int], int] = base_number,
        targets: MutantTargets | None = None,
    ) -> None:
        self._subject = subject
        self._trials = trials
        self._numbers = numbers
        self._planned_cases: dict[tuple[str, str], PlannedCase] = {}
        self._evals: dict[tuple[str, int], Eval] = {}
        self._targets = targets or MutantTargets(trials)

    def close(self) -> None:
        """Remove the prompt files that were written for targets."""
        self._targets.close()

    async def run_trials(
        self, prompt: Prompt | None, trials: Sequence[tuple[str, int]]
    ) -> list[JudgedTrial | Exception]:
        """Run trials; see `Bench`."""
        return list(await asyncio.gather(*(self._run_trial(prompt, *trial) for trial in trials)))

    async def _run_trial(
        self, prompt: Prompt | None, key: str, number: int
    ) -> JudgedTrial | Exception:
        member = self._subject.members[key]
        if prompt is None:
            draw = PlannedTrial(member, self._numbers(member, number))
            return _judged_trial(await self._trials.run(draw), member)
        planned_case = self._planned_case(prompt, key)
        draw = PlannedTrial(planned_case, REVISION_FIRST + number)
        if planned_case.eval.model_judges:
            base = await self._run_trial(None, key, 0)
            trial = await self._trials.run(
                PlannedTrial(self._without_llm_judges(planned_case), draw.trial)
            )
            if (
                isinstance(base, JudgedTrial)
                and trial.error is None
                and _output(trial) == base.output
            ):
                # LLM judges have already judged this output for the base.
                return base
        trial = await self._trials.run(draw)
        target = planned_case.eval.target
        if (
            target is not None
            and trial.sourced_completion is not None
            and trial.sourced_completion.source == "live"
        ):
            await self._targets.use(target)
        return _judged_trial(trial, planned_case)

    def _planned_case(self, prompt: Prompt, key: str) -> PlannedCase:
        """Return a case under another text; its request is rendered once."""
        case_key = (prompt.digest, key)
        if case_key not in self._planned_cases:
            member = self._subject.members[key]
            eval_key = (prompt.digest, id(member.eval))
            if eval_key not in self._evals:
                self._evals[eval_key] = self._targets.with_prompt(member.eval, prompt)
            self._planned_cases[case_key] = PlannedCase(self._evals[eval_key], member.case)
        return self._planned_cases[case_key]

    def _without_llm_judges(self, planned_case: PlannedCase) -> PlannedCase:
        models = {judge.name for judge in planned_case.eval.model_judges}
        rules = tuple(judge for judge in planned_case.eval.judges if judge.name not in models)
        return PlannedCase(
            replace(planned_case.eval, judges=rules, judge_statuses={}), planned_case.case
        )


def _judged_trial(trial: Trial, planned_case: PlannedCase) -> JudgedTrial | Exception:
    if trial.error is not None:
        cause = trial.error.__cause__
        return cause if isinstance(cause, UsageError) else trial.error
    checks = [judge.name for judge in planned_case.eval.judges]
    facts = facts_of_trial(trial, checks, graded=())
    if facts is None:
        return UsageError(f"case {planned_case.case.id!r} has no verdict")
    return JudgedTrial(facts=facts, output=_output(trial))


def _output(trial: Trial) -> str:
    assert trial.sourced_completion is not None
    completion = trial.sourced_completion.completion
    text = shown_output(completion.text, completion.refusal, shown_messages(completion))
    return text or ""


class DraftBenches:
    """The benches of suggested cases, one per draft."""

    def __init__(self, evals: EvalSession, subject: MutationSubject, trials: TrialRunner) -> None:
        self._evals = evals
        self._subject = subject
        self._trials = trials
        self._targets = MutantTargets(trials)
        self._benches: dict[str, EvalBench] = {}

    def close(self) -> None:
        """Remove the prompt files that were written for targets."""
        self._targets.close()

    def __call__(self, draft: Draft) -> EvalBench:
        """Return the bench of a draft, under the key of the case that it is like.

        Raises:
            UsageError: Its checks are invalid.
        """
        if draft.digest not in self._benches:
            member = self._planned_case(draft)
            subject = replace(self._subject, members={draft.like: member})
            self._benches[draft.digest] = EvalBench(subject, self._trials, targets=self._targets)
        return self._benches[draft.digest]

    def _planned_case(self, draft: Draft) -> PlannedCase:
        like = self._subject.members[draft.like]
        eval_, project = like.eval, self._evals.project
        case = replace(
            like.case,
            inputs=draft.inputs,
            expected=draft.expected,
            checks=draft.checks,
            pass_at=like.case.pass_at if draft.existing or keeps_checks(draft, like.case) else None,
        )
        model = self._evals.options.judge_model or project.settings.judge_model
        context = JudgeContext(project=project, model=model, prompt=eval_.prompt)
        try:
            checks = build_checks_judge([case], context)
        except DatasetError as error:
            raise UsageError(error.diagnostics[0].message) from error
        judges = [judge for judge in eval_.judges if not is_case_checks(judge)]
        if checks is not None:
            judges.append(checks)
        if not judges:
            raise UsageError("it has no checks, and its eval has no judges")
        return PlannedCase(replace(eval_, judges=tuple(judges)), case)
