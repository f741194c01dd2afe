"""A decision on a terminal: reasons, groups of cases, and output diffs."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from typing import TYPE_CHECKING

from regauge.reports._console import StyledLine, failed_tests_text, money, prompt_of_eval
from regauge.strict_json import read_json
from regauge.wording import first_of, plural, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from regauge.evidence import CaseStatus, RateDifference
    from regauge.reports._console import Tone
    from regauge.reports._documents import (
        CaseDocument,
        DecisionDocument,
        GuardsDocument,
        OutputDocument,
        PromptDocument,
    )
    from regauge.runner import Budget, RunProgress


# Longer values are not labels that a message can quote.
_VALUE_CHARS_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseGroup:
    """Cases of one kind.

    Attributes:
        kind: The check with expected value and output, or the reason why cases are unmeasured;
            empty without such evidence.
        cases: At least one case, in the order of the decision.
    """

    kind: str
    cases: Sequence[CaseDocument]

    @property
    def title(self) -> str:
        """The number of cases and their kind."""
        count = plural(len(self.cases), "case")
        return f"{count}: {self.kind}" if self.kind else count


def groups_of(cases: Iterable[CaseDocument]) -> list[CaseGroup]:
    """Group cases by kind, the largest group first."""
    groups: dict[str, list[CaseDocument]] = {}
    for case in cases:
        groups.setdefault(_kind(case), []).append(case)
    case_groups = [CaseGroup(kind=kind, cases=members) for kind, members in groups.items()]
    return sorted(case_groups, key=lambda group: -len(group.cases))


def _kind(case: CaseDocument) -> str:
    if case.status == "unmeasured":
        return case.message.removeprefix(f"{case.prompt}/{case.case}: ").removesuffix(".")
    failing = case.failing
    if failing is None:
        return ""
    if failing.expected is None or failing.output is None:
        return failing.judge
    expected, output = _shorten(failing.expected), _shorten(failing.output)
    if not (expected and output):
        return failing.judge
    return f"{failing.judge}: expected {expected}, output {output}"


def _shorten(value: object) -> str:
    """A value on one line; empty if too long to be shared by cases."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= _VALUE_CHARS_MAX else ""


# A difference of outputs stays on one screen.
_OUTPUT_CHARS_MAX = 2000
_CONTEXT_LINES = 2


def output_diff(case: CaseDocument) -> list[str]:
    """A unified diff of a passing and a failing output of a case, then the judge's reason.

    With only one output, that output; empty without any.
    """
    passing, failing = case.passing, case.failing
    if passing is None or failing is None:
        only = passing or failing
        if only is None:
            return []
        label = "passed" if only is passing else "failed"
        return [f"{label} ({_trial_name(only)}):", *output_lines(only.text), *_reason(only)]
    first, second = (failing, passing) if case.status == "fixed" else (passing, failing)
    labels = ("failed", "passed") if case.status == "fixed" else ("passed", "failed")
    lines = list(
        unified_diff(
            output_lines(first.text),
            output_lines(second.text),
            f"{labels[0]} ({_trial_name(first)})",
            f"{labels[1]} ({_trial_name(second)})",
            lineterm="",
            n=_CONTEXT_LINES,
        )
    )
    lines = [line for line in lines if not line.startswith("@@ ")]
    return [*(lines or ["both outputs are equal"]), *_reason(failing)]


def _trial_name(output: OutputDocument) -> str:
    return f"{output.side}, trial {output.trial}"


def _reason(output: OutputDocument) -> list[str]:
    if not output.reason:
        return []
    return [f"{output.judge}: {printable(' '.join(output.reason.split()))}"]


def output_lines(text: str) -> list[str]:
    """The lines of an output; JSON gets a line per value, for diffs."""
    if len(text) <= _OUTPUT_CHARS_MAX and text.lstrip()[:1] in {"{", "["}:
        with suppress(ValueError, RecursionError):
            text = json.dumps(read_json(text), ensure_ascii=False, indent=2)
    if len(text) > _OUTPUT_CHARS_MAX:
        text = f"{text[:_OUTPUT_CHARS_MAX]}\n… {len(text) - _OUTPUT_CHARS_MAX} more characters"
    return printable(text).splitlines() or ["(empty)"]


# As git abbreviates in repositories of this size.
_SHORT_HASH = 9
_PROVISIONAL = "provisional, from recordings by the author of the change"
# The decision stays on one screen; the comment and the HTML report have the rest.
_DIFFS_MAX = 3
_DIFF_LINES_MAX = 12
_GROUPS_MAX = 10
_GROUP_CASES_MAX = 1
_NAMES_MAX = 20
_GUARDS_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _StatusWords:
    """The presentation of a case status.

    Attributes:
        title: The heading of its cases.
        column: The word in tables and after counts.
        tone: The tone of its lines.
        is_listed: Whether to list its cases.
        diff: Whether to show their outputs.
        cases_max: The number of cases that the terminal lists; the others are counted.
    """

    title: str
    column: str
    tone: Tone = "plain"
    is_listed: bool = True
    diff: bool = False
    cases_max: int = 20


STATUSES: Mapping[CaseStatus, _StatusWords] = {
    "broken": _StatusWords(title="Broken", column="broken", tone="bad", diff=True),
    "unmeasured": _StatusWords(title="Unmeasured", column="unmeasured", tone="bad", diff=True),
    "undecided": _StatusWords(title="Undecided", column="undecided", tone="bad", diff=True),
    "removed": _StatusWords(title="Removed", column="removed", tone="bad"),
    "drifted": _StatusWords(title="Drifted", column="drifted", tone="bad"),
    "fixed": _StatusWords(title="Fixed", column="fixed", tone="good", diff=True),
    "new": _StatusWords(title="New", column="new"),
    "mixed": _StatusWords(title="Mixed", column="mixed"),
    "flaky": _StatusWords(title="Flaky", column="flaky"),
    "known-failing": _StatusWords(
        title="Known failing", column="known failing", tone="quiet", cases_max=3
    ),
    "passed": _StatusWords(title="Passed", column="passed", is_listed=False),
    "unchanged": _StatusWords(title="Unchanged", column="unchanged", is_listed=False),
}
_DECISIONS = {
    "accept": "accepted",
    "reject": "rejected",
    "refused": "refused: not compared",
    "undecided": "undecided",
    "unmeasured": "unmeasured",
}


def headline(
    document: DecisionDocument,
    *,
    name: Callable[[str], str] = str,
    words: Callable[[str], str] = str,
) -> str:
    """The decision in a few words, with the base.

    Args:
        document: The decision.
        name: Formats the reference and the commit of the base.
        words: Formats other texts of the document.
    """
    against = "with" if document.decision == "refused" else "against"
    title = f"{_DECISIONS[document.decision]} {against} {name(document.ref)}"
    if document.base_commit and not document.base_commit.startswith(document.ref):
        title += f" ({name(document.base_commit[:_SHORT_HASH])})"
    counts = _balance(document)
    text = f"{title}: {counts}" if counts else title
    if allowed := _accepted_reason(document):
        text += f" ({words(allowed)})"
    if document.looser_options:
        text += f" (with {words(', '.join(document.looser_options))})"
    if document.caveats and document.decision == "accept":
        text += f"; review also: {words(', '.join(document.caveats))}"
    if document.not_measured and document.decision == "accept":
        edits = ", ".join(edit.text for edit in document.not_measured)
        text += f"; not measured: {words(edits)}"
    if document.base_unavailable:
        text += f"; the base of {words(', '.join(document.base_unavailable))} could not be called"
    return f"{text}; {_PROVISIONAL}" if document.provisional else text


def reasons_beside(document: DecisionDocument) -> list[str]:
    """The reasons that are neither in the headline nor in a refusal."""
    counts = _add_up(document)
    sum_reason = broke_words(counts.get("broken", 0), sum(counts.values()))
    shown_reasons = {sum_reason, *(refusal.message for refusal in document.refusals)}
    return [reason for reason in document.reasons if reason not in shown_reasons]


def broke_words(count: int, total: int) -> str:
    """The number of broken cases.

    >>> broke_words(2, 24)
    '2 of 24 cases broke'
    """
    return f"{count} of {plural(total, 'case')} broke"


def _balance(document: DecisionDocument) -> str:
    """The changes, the overall direction first: `+14.4 points: 15 fixed, 5 broken`.

    Without broken or fixed cases, points appear only if their interval excludes 0.
    """
    counts = _add_up(document)
    tests = [prompt.test for prompt in document.prompts if prompt.test is not None]
    differences = [test.difference for test in tests if test.difference is not None]
    is_all = len(differences) == len(tests) == 1
    change = differences[0].candidate - differences[0].base if is_all else None
    order: list[CaseStatus] = ["broken", "fixed"]
    if change is not None and change > 0:
        order.reverse()
    parts = [f"{counts[name]} {name}" for name in order if counts.get(name)]
    if parts:
        parts[-1] += f" of {plural(sum(counts.values()), 'case')}"
    rest = _counts(counts, only={"undecided", "unmeasured"})
    counts_text = ", ".join([*parts, *([rest] if rest else [])])
    certain = change is not None and not differences[0].low <= 0 <= differences[0].high
    if change is None or not (parts or certain) or accepted_cases(document):
        return counts_text
    return f"{100 * change:+.1f} points{': ' if counts_text else ''}{counts_text}"


def _accepted_reason(document: DecisionDocument) -> str:
    """The reason why broken cases pass; empty without one."""
    broken = [case for case in document.cases if case.status == "broken" and not case.blocks]
    if document.decision != "accept" or not broken:
        return ""
    accepted = sum(bool(case.accepted) for case in broken)
    tracked = sum(case.tier == "tracked" for case in broken)
    parts: list[str] = []
    if accepted:
        parts.append(f"{accepted} of {plural(len(document.cases), 'case')} accepted by the author")
    if left := len(broken) - accepted - tracked:
        is_net = any(prompt.test is not None and prompt.test.net for prompt in document.prompts)
        policy = document.policy.on_broken
        parts.append(
            "outweighed by fixed cases side by side"
            if policy == "net" and is_net
            else f"{left} allowed by on_broken = {policy}"
        )
    return "; ".join(parts)


def difference_words(difference: RateDifference, *, left_out: int = 0) -> str:
    """A difference in points, with its interval.

    Args:
        difference: The difference over the compared cases.
        left_out: The number of accepted broken cases, which are not compared.

    >>> from regauge.evidence import RateDifference
    >>> difference_words(RateDifference(base=0.9, candidate=0.82, low=-0.12, high=-0.04))
    '-8.0 points (95 % interval -12.0 to -4.0)'
    """
    change = difference.candidate - difference.base
    points = (f"{100 * value:+.1f}" for value in (change, difference.low, difference.high))
    words = "{} points (95 % interval {} to {})".format(*points)
    return f"{words}, without {plural(left_out, 'accepted case')}" if left_out else words


def accepted_cases(document: DecisionDocument, prompt: str | None = None) -> int:
    """The number of broken cases that the changelog accepts, of one prompt or all."""
    return sum(
        case.status == "broken" and bool(case.accepted)
        for case in document.cases
        if prompt in {None, case.prompt}
    )


def status_words(status: CaseStatus) -> str:
    """The word for a case status.

    >>> status_words("broken"), status_words("known-failing")
    ('broken', 'known failing')
    """
    return STATUSES[status].column


def gate_progress_line(round_number: int, progress: RunProgress, budget: Budget) -> str:
    """Finished trials of a round, the cost of the run, and the time left."""
    remaining = progress.remaining_s
    left = f", about {remaining:.0f} s left of it" if remaining is not None else ""
    return (
        f"regauge gate: round {round_number}, {progress.completed} of {progress.total} trials,"
        f" {money(budget.cost_usd)}{left}"
    )


def decision_lines(
    document: DecisionDocument, failed_tests: Mapping[str, str] | None = None
) -> list[StyledLine]:
    """The lines of a decision, the decision first, with the number of failed tests."""
    return list(_lines(document, failed_tests_text(failed_tests or {})))


def _lines(document: DecisionDocument, tests: str) -> Iterator[StyledLine]:
    tone: Tone = "good" if document.decision == "accept" and not tests else "bad"
    yield StyledLine(f"gate: {headline(document)}{tests}", tone)
    for refusal in document.refusals:
        yield StyledLine(f"  {refusal.message}", tone)
        yield from (StyledLine(f"    {detail}", tone) for detail in refusal.details[:_NAMES_MAX])
        if hidden_count := len(refusal.details[_NAMES_MAX:]):
            yield StyledLine(f"    and {hidden_count} more", tone)
        yield StyledLine(f"    fix: {refusal.fix}")
    for reason in reasons_beside(document):
        yield StyledLine(f"  {reason}", tone)
    for omission in document.unmeasured:
        if omission.fix:
            yield StyledLine(f"  fix of {omission.path}: {omission.fix}")
    for prompt in document.prompts:
        empty_text = "not run" if document.not_run else "nothing to compare"
        yield from _prompt_lines(document, prompt, empty_text)
        yield from _prompt_diff(prompt, document.ref)
    yield from _cases(document)
    for note in document.notes:
        yield StyledLine(f"note: {note}", "quiet")
    yield StyledLine(calls_line(document))
    if document.sensitivity:
        yield StyledLine(document.sensitivity)
    yield StyledLine(f"decide again: {document.rerun_command}")
    if document.next.text:
        yield StyledLine(f"next: {document.next}")


def _prompt_lines(
    document: DecisionDocument, prompt: PromptDocument, empty_text: str
) -> Iterator[StyledLine]:
    counts = _counts(prompt.counts) or empty_text
    if prompt.test is not None and prompt.test.difference is not None:
        left_out = accepted_cases(document, prompt.prompt)
        counts = f"{difference_words(prompt.test.difference, left_out=left_out)}; {counts}"
    yield StyledLine(f"{prompt.prompt} {version_step(prompt)}: {counts}")
    if prompt.anchor is not None:
        yield StyledLine(f"  {prompt.anchor.message}")
    for guards in prompt.guards:
        yield StyledLine(f"  {guards.message}", "bad" if guards.below else "plain")
        yield from (StyledLine(f"    {line}") for line in guard_lines(guards))
    for rule in prompt.rules:
        yield StyledLine(f"  {rule.message}", "bad")
        if rule.fix:
            yield StyledLine(f"  fix: {rule.fix}")


def guard_lines(guards: GuardsDocument) -> list[str]:
    """A line per changed guard; then notes."""
    messages = [change.message for change in guards.changes[:_GUARDS_MAX]]
    hidden_count = len(guards.changes) - len(messages)
    return [*messages, *([f"and {hidden_count} more"] if hidden_count else []), *guards.notes]


def _prompt_diff(prompt: PromptDocument, ref: str) -> Iterator[StyledLine]:
    """The changed lines of a prompt file, without context."""
    changed = [
        line
        for line in prompt.diff.splitlines()
        if line[:1] in {"+", "-"} and not line.startswith(("+++", "---"))
    ]
    yield from (StyledLine(f"  {line}", "quiet") for line in changed[:_DIFF_LINES_MAX])
    hidden_count = len(changed) - _DIFF_LINES_MAX
    if hidden_count > 0:
        command = f"regauge diff {prompt_of_eval(prompt.prompt)} {ref}"
        yield StyledLine(f"  and {plural(hidden_count, 'changed line')} more: {command}", "quiet")


def _cases(document: DecisionDocument) -> Iterator[StyledLine]:
    diffs_left = _DIFFS_MAX
    for status, words in STATUSES.items():
        cases = [case for case in document.cases if case.status == status]
        if not words.is_listed or not cases:
            continue
        yield StyledLine(f"{words.title.lower()}:", "quiet")
        groups = groups_of(cases) if words.diff else [CaseGroup(kind="", cases=cases)]
        for group in groups[:_GROUPS_MAX]:
            is_group = words.diff and len(group.cases) > 1
            cases_max = _GROUP_CASES_MAX if is_group else words.cases_max
            if is_group:
                yield StyledLine(f"  {group.title}", words.tone)
            for number, case in enumerate(group.cases[:cases_max]):
                indent = "    " if is_group else "  "
                yield StyledLine(f"{indent}{case.message}", words.tone)
                diff = words.diff and not number and diffs_left > 0
                diffs_left -= diff
                yield from _details(case, diff=diff)
            if is_group and group.cases[cases_max:]:
                # Ids of several datasets may be equal.
                several = len({case.prompt for case in group.cases}) > 1
                other_names = first_of(
                    (
                        f"{case.prompt}/{case.case}" if several else case.case
                        for case in group.cases[cases_max:]
                    ),
                    _NAMES_MAX,
                )
                yield StyledLine(f"    also {other_names}", "quiet")
            elif len(group.cases) > cases_max:
                yield StyledLine(f"  and {len(group.cases) - cases_max} more", "quiet")
        if rest := sum(len(group.cases) for group in groups[_GROUPS_MAX:]):
            yield StyledLine(f"  and {plural(rest, 'case')} of other kinds", "quiet")


def _details(case: CaseDocument, *, diff: bool) -> Iterator[StyledLine]:
    if case.accepted:
        yield StyledLine(f"    accepted by the changelog: {case.accepted}", "quiet")
    if diff:
        yield from (StyledLine(f"    {line}", "quiet") for line in output_diff(case))


def calls_line(document: DecisionDocument) -> str:
    """The trials of the decision by kind, and their cost."""
    calls = document.calls
    total = calls.first + calls.follow_up + calls.base
    kinds = f"{calls.first} initial, {calls.follow_up} follow-up, {calls.base} on base"
    live = (
        f"{calls.live} {'call' if calls.live == 1 else 'calls'} now" if calls.live else "no calls"
    )
    noun = "trial" if total == 1 else "trials"
    cost = "cost unknown (no price)" if calls.cost_usd is None else money(calls.cost_usd)
    return f"{total} {noun} ({kinds}), {live}, {cost}."


def version_step(prompt: PromptDocument) -> str:
    """The change of version or model."""
    version = prompt.version or "unversioned"
    if prompt.base_version is None and prompt.base_digest is None:
        return f"{version} (new)"
    step = version
    if (prompt.base_version or "unversioned") != version:
        step = f"{prompt.base_version or 'unversioned'} → {version}"
    if prompt.base_model is not None and prompt.base_model != prompt.model:
        step += f", {prompt.base_model} → {prompt.model}"
    return step + (" (simulated)" if prompt.simulated else "")


def _add_up(document: DecisionDocument) -> Counter[CaseStatus]:
    summed: Counter[CaseStatus] = Counter()
    for prompt in document.prompts:
        summed.update(prompt.counts)
    return summed


def _counts(counts: Mapping[CaseStatus, int], *, only: set[CaseStatus] | None = None) -> str:
    return ", ".join(
        f"{counts[status]} {words.column}"
        for status, words in STATUSES.items()
        if counts.get(status) and (only is None or status in only)
    )
