"""`regauge mutate NAME --suggest`: golden cases for instructions that no case guards."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from regauge.cli._options import STDOUT, write_output
from regauge.cli._terminal import Meter, echo, short_path
from regauge.errors import DatasetError, MissingRecordingError, UnmeasuredError, UsageError
from regauge.judges.model._response import ResponseError
from regauge.model_id import is_simulated
from regauge.mutate import (
    MODEL,
    PROVING_TRIALS,
    DraftBenches,
    ModelCaseProposer,
    MutationProgress,
    VariantProposer,
    add_cases,
    find_unguarded,
    model_changes,
    suggest,
)
from regauge.providers import parse_model_id
from regauge.refine.proposers._model import ProposerCalls
from regauge.reports import money
from regauge.runner import CaseRequest
from regauge.scaffold._files import append_case, redact_case
from regauge.stop_signals import run_stoppable
from regauge.wording import cut, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.digests import JSON
    from regauge.mutate import (
        GuardSuggestion,
        Mutant,
        MutantRow,
        MutantsFile,
        Mutation,
        MutationSubject,
        Operator,
    )
    from regauge.project import Project
    from regauge.prompts import Prompt
    from regauge.providers import Completion, CompletionRequest
    from regauge.runner import EvalSession, TrialRunner

# Measured on simulated suites, see the reference.
_CALLS = 60
# Of the single deletions of this repository's prompts.
_OPEN_SHARE = 0.3
_PROPOSERS = ("model", "rules")
_SHOWN = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestOptions:
    """The options of `--suggest`.

    Attributes:
        model: The refiner model; empty for that of `regauge refine`.
    """

    apply: bool
    proposers: tuple[str, ...]
    model: str

    @classmethod
    def from_options(
        cls, options: dict[str, Any], output: str | None, *, has_model: bool
    ) -> SuggestOptions | None:
        """Remove the options from those of a command; None without `--suggest`.

        Args:
            has_model: Whether a model proposes mutants, so that `--refiner-model` is used.

        Raises:
            UsageError: An option needs `--suggest`, or a proposer is unknown.
        """
        is_requested = options.pop("suggesting")
        settings = {
            name: options.pop(name.removeprefix("--").replace("-", "_"))
            for name in ("--apply", "--proposers", "--refiner-model")
        }
        if not is_requested:
            for name, value in settings.items():
                if value and not (has_model and name == "--refiner-model"):
                    raise UsageError(
                        f"{name} needs --suggest", fix=f"add --suggest, or leave {name} out"
                    )
            return None
        if output is not None and output != STDOUT and not output.endswith(".json"):
            raise UsageError(f"{output}: suggestions are JSON", fix="end the name in .json")
        proposers_text = settings["--proposers"] or ""
        names = tuple(filter(None, (word.strip() for word in proposers_text.split(","))))
        for name in names:
            if name not in _PROPOSERS:
                fix = f"choose from: {', '.join(_PROPOSERS)}"
                raise UsageError(f"there is no proposer {name!r} of golden cases", fix=fix)
        return cls(
            apply=settings["--apply"],
            proposers=names or _PROPOSERS,
            model=settings["--refiner-model"] or "",
        )

    def decided_rows(
        self, earlier: MutantsFile | None, subject: MutationSubject
    ) -> dict[str, MutantRow]:
        """Committed results that are still valid, by the id of the mutant.

        Raises:
            UsageError: With `--apply`, a dataset is no JSONL file.
        """
        if self.apply:
            _check_appendable(subject)
        digest, key, model = subject.prompt.digest, subject.key, subject.model
        if earlier is None or not earlier.holds_for(digest, key, model):
            return {}
        return {row.id: row for row in earlier.mutants if row.kind != "undecided"}


class GuardSearch:
    """The search for cases that guard the instructions of a prompt.

    Args:
        mutants: The mutants to find cases for.
        rows: The results of these and of other mutants.
    """

    def __init__(
        self,
        evals: EvalSession,
        subject: MutationSubject,
        mutants: Sequence[Mutant],
        rows: Sequence[MutantRow],
        options: SuggestOptions,
    ) -> None:
        self._evals = evals
        self._subject = subject
        self._options = options
        self._golden = {key: member.case for key, member in subject.members.items()}
        self._problems = find_unguarded(subject.prompt, mutants, rows, subject.cases, self._golden)
        self._suggestions: list[GuardSuggestion] = []

    def estimate(self, unknown: int) -> int:
        """Estimate the calls of the search.

        Args:
            unknown: The number of mutants without a result.
        """
        return round(_CALLS * (len(self._problems) + _OPEN_SHARE * unknown))

    def run(self) -> None:
        """Search for cases; completions in the local store are used first."""
        subject = self._subject
        model = _refiner(self._evals, subject, self._options.model)
        names = self._options.proposers
        if "model" in names and (not model or is_simulated(model)):
            reason = f"{model} is simulated and writes no cases" if model else "no model is named"
            echo(f"note: {reason}; rules vary cases", err=True)
            names = ("rules",)
        progress = MutationProgress()
        judges = dict.fromkeys(check for case in subject.cases for check in case.checks)
        unread: list[str] = []

        async def search() -> list[GuardSuggestion]:
            async with self._evals.open_trials() as trials:
                proposers = [
                    ModelCaseProposer(
                        model=parse_model_id(model, location="--refiner-model"),
                        call_model=_calls(trials, subject),
                        judges=list(judges),
                        unreadable=unread,
                    )
                    if name == "model"
                    else VariantProposer()
                    for name in names
                ]
                with DraftBenches(self._evals, subject, trials) as benches:
                    return await suggest(self._problems, proposers, benches, progress)

        with Meter(lambda: progress_text(progress, "instruction", self._evals)):
            suggestions = run_stoppable(search())
        if unread:
            count = plural(len(unread), "response")
            echo(f"note: {count} of {model} cannot be read: {unread[0]}", err=True)
        ids = {case.id for member in subject.members.values() for case in member.suite.dataset}
        self._suggestions = add_cases(suggestions, self._golden, ids)

    def show(self, *, as_json: bool, output: str | None) -> None:
        """Print or write the suggestions; with `--apply`, add their cases.

        Raises:
            UsageError: A case cannot be added.
            UnmeasuredError: Trials are missing, for another reason than the budget.
        """
        suggestions = self._suggestions
        _show(suggestions, self._subject, as_json=as_json, output=output)
        if self._options.apply:
            _apply(self._evals.project, self._subject, suggestions, as_json=as_json)
        elif any(suggestion.case is not None for suggestion in suggestions) and not as_json:
            name = self._subject.prompt.name
            echo(f"next: regauge mutate {name} --suggest --apply", err=True)
        missing = [suggestion.reason for suggestion in suggestions if suggestion.unmeasured]
        if missing:
            message = f"{plural(len(missing), 'instruction')} could not be tried: {missing[0]}"
            raise UnmeasuredError(message, fix="run it with a key, and with --record=missing")


def progress_text(progress: MutationProgress, noun: str, evals: EvalSession) -> str:
    """The state of a search on one line."""
    done = f"{progress.done} of {plural(progress.mutants, noun)}"
    cost = money(evals.budget.spent_usd)
    return f"regauge: {done}, {plural(progress.calls, 'trial')}, {cost}"


def _refiner(evals: EvalSession, subject: MutationSubject, name: str) -> str:
    """The refiner model; empty if only a target runs the prompt, and no setting names a model."""
    settings = evals.project.settings
    has_target = any(member.suite.target is not None for member in subject.members.values())
    default = subject.prompt.model or settings.model or "" if has_target else subject.model
    return name or settings.refine.model or default


def with_model_mutants(
    evals: EvalSession,
    subject: MutationSubject,
    operators: Sequence[Operator],
    *,
    model: str,
    is_counted: bool,
) -> list[Operator]:
    """The operators; the operator `model` gets changes from the refiner model.

    Args:
        model: The refiner model; empty for that of `regauge refine`.
        is_counted: Whether its mutants count in the score.
    """
    if all(operator.name != MODEL for operator in operators):
        return list(operators)
    refiner = _refiner(evals, subject, model)
    if not refiner or is_simulated(refiner):
        reason = f"{refiner} is simulated and" if refiner else "no model is named, which"
        echo(f"note: {reason} proposes no mutants", err=True)
        return list(operators)

    async def propose() -> list[Mutation]:
        async with evals.open_trials() as trials:
            model_id = parse_model_id(refiner, location="--refiner-model")
            return await model_changes(subject.prompt, model_id, _calls(trials, subject))

    try:
        changes = run_stoppable(propose())
    except (MissingRecordingError, ResponseError) as error:
        note = f"the response of {refiner} cannot be read: {error}"
        if isinstance(error, MissingRecordingError):
            note = f"{refiner} was not called yet, so its mutants are unknown"
        echo(f"note: {note}", err=True)
        changes = []

    def proposed(prompt: Prompt) -> Iterable[Mutation]:
        del prompt
        return changes

    def fill(operator: Operator) -> Operator:
        if operator.name != MODEL:
            return operator
        return replace(operator, mutate=proposed, scored=is_counted)

    return [*map(fill, operators)]


def _calls(trials: TrialRunner, subject: MutationSubject) -> ProposerCalls:
    def question(request: CompletionRequest) -> CaseRequest:
        return CaseRequest.of_refiner(request, prompt=subject.prompt, command="mutate")

    async def send(request: CompletionRequest) -> Completion:
        return (await trials.complete(question(request))).completion

    return ProposerCalls(send, sys.maxsize, lambda request: trials.forget(question(request)))


def _show(
    suggestions: Sequence[GuardSuggestion],
    subject: MutationSubject,
    *,
    as_json: bool,
    output: str | None,
) -> None:
    """Print or write the suggestions."""
    document = {
        "schema_version": 1,
        "prompt": subject.prompt.name,
        "digest": subject.prompt.digest,
        "model": subject.model,
        "simulated": is_simulated(subject.model),
        "calls": sum(suggestion.calls for suggestion in suggestions),
        "suggestions": [_row(suggestion) for suggestion in suggestions],
    }
    text = json.dumps(document, ensure_ascii=False, indent=1)
    if output is not None:
        write_output(f"{text}\n", output)
    if as_json:
        click.echo(text)
    elif output != STDOUT:
        for suggestion in suggestions:
            _print_suggestion(suggestion)
        _print_total(suggestions)


def _row(suggestion: GuardSuggestion) -> dict[str, JSON]:
    draft = suggestion.draft
    trials = PROVING_TRIALS if draft is not None else 0
    added_checks: JSON = None
    if draft is not None and draft.existing:
        added_checks = {"case": draft.existing, "checks": list(draft.checks)}
    return {
        "mutant": suggestion.row.id,
        "line": suggestion.row.line,
        "text": suggestion.row.text,
        "class": suggestion.row.kind,
        "status": suggestion.status,
        "proposer": draft.proposer if draft is not None else "",
        "case": dict(suggestion.case) if suggestion.case is not None else None,
        "added_checks": added_checks,
        "passed": trials,
        "mutant_failed": trials,
        "judges": list(suggestion.judges),
        "output": suggestion.output,
        "mutant_output": suggestion.mutant_output,
        "calls": suggestion.calls,
        "reason": draft.reason if draft is not None else suggestion.reason,
    }


def _print_suggestion(suggestion: GuardSuggestion) -> None:
    echo(f"line {suggestion.row.line}  {suggestion.row.kind}  {suggestion.row.text}", bold=True)
    draft = suggestion.draft
    if draft is None:
        style = "yellow" if suggestion.status == "undecided" else ""
        echo(f"  {suggestion.status}: {suggestion.reason}", style=style)
        return
    if draft.existing:
        checks = json.dumps(list(draft.checks), ensure_ascii=False)
        echo(f"  add to case {draft.existing} by hand: checks: {checks}", style="green")
    elif suggestion.case is not None:
        echo(f"  case {suggestion.case['id']} ({draft.proposer}, like {draft.like})", style="green")
        for name, value in draft.inputs.items():
            echo(f"    {name}: {_short(value)}")
        if draft.expected is not None:
            echo(f"    expected: {_short(draft.expected)}")
        if draft.checks:
            echo(f"    checks: {_short(list(draft.checks))}")
    trials = f"{PROVING_TRIALS} of {PROVING_TRIALS}"
    judges = f" on {', '.join(suggestion.judges)}" if suggestion.judges else ""
    echo(f"  passes {trials} trials; without the text, fails {trials}{judges}")


def _short(value: JSON) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut(" ".join(text.split()), _SHOWN)


def _print_total(suggestions: Sequence[GuardSuggestion]) -> None:
    if not suggestions:
        echo("nothing to suggest: no instruction survived or had no effect")
        return
    counts = Counter(suggestion.status for suggestion in suggestions)
    calls = sum(suggestion.calls for suggestion in suggestions)
    echo(
        f"{counts['offered']} of {plural(len(suggestions), 'instruction')} without a guard got a"
        f" case; {counts['none']} without one, {counts['undecided']} undecided;"
        f" {plural(calls, 'trial')}"
    )


def _check_appendable(subject: MutationSubject) -> None:
    """Check, before any call, that cases can be added to the datasets.

    Raises:
        UsageError: A dataset is no JSONL file.
    """
    for suite in {id(member.suite): member.suite for member in subject.members.values()}.values():
        path = suite.dataset.path
        if path.suffix != ".jsonl":
            fix = "leave --apply out, and add the cases by hand"
            raise UsageError(
                f"{short_path(path)} is no JSONL file, so nothing is added to it", fix=fix
            )


def _apply(
    project: Project,
    subject: MutationSubject,
    suggestions: Sequence[GuardSuggestion],
    *,
    as_json: bool,
) -> None:
    """Append the cases to their golden datasets."""
    added_ids: set[str] = set()
    diagnostics: list[str] = []
    for suggestion in suggestions:
        case, draft = suggestion.case, suggestion.draft
        if case is None or draft is None or str(case["id"]) in added_ids:
            continue
        dataset = subject.members[draft.like].suite.dataset.name
        document = redact_case(project, dict(case))
        try:
            path, line = append_case(project, subject.prompt.name, document, dataset=dataset)
        except (UsageError, DatasetError) as error:
            diagnostics.append(f"{document['id']}: {error}")
            continue
        added_ids.add(str(case["id"]))
        place = project.relative(path).as_posix()
        echo(f"added {document['id']} to {place}:{line}", style="green", err=as_json)
    if added_ids:
        echo(
            "  next: review inputs and expectation, remove the tag `review`, then"
            " regauge baseline update",
            err=as_json,
        )
    if diagnostics:
        raise UsageError("\n".join(diagnostics))
