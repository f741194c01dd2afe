"""A decision on a terminal: its reasons, its cases in groups, and output diffs."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from typing import TYPE_CHECKING

from regauge.reports._console import StyledLine, money
from regauge.strict_json import read_json
from regauge.wording import first_of, plural, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from regauge.evidence import CaseStatus, RateDifference
    from regauge.gate import GateProgress
    from regauge.reports._console import Tone
    from regauge.reports._documents import (
        AnswerDocument,
        CaseDocument,
        DecisionDocument,
        GuardsDocument,
        PromptDocument,
    )

# A longer value is no label that a message can quote.
_VALUE_CHARS_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseGroup:
    """Cases of one kind.

    Attributes:
        kind: The check with what it expected and got, or why cases are unmeasured; empty where no
            output shows it.
        cases: At least one, in the order of the decision.
    """

    kind: str
    cases: Sequence[CaseDocument]

    @property
    def title(self) -> str:
        """One line: how many cases, and their kind."""
        counted = plural(len(self.cases), "case")
        return f"{counted}: {self.kind}" if self.kind else counted


def groups_of(cases: Iterable[CaseDocument]) -> list[CaseGroup]:
    """The cases by kind, the largest group first; groups of one size keep their order."""
    groups: dict[str, list[CaseDocument]] = {}
    for case in cases:
        groups.setdefault(_kind(case), []).append(case)
    listed = [CaseGroup(kind=kind, cases=members) for kind, members in groups.items()]
    return sorted(listed, key=lambda group: -len(group.cases))


def _kind(case: CaseDocument) -> str:
    if case.verdict == "unmeasured":
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
    """A value that many cases can share, on one line; empty where it is longer than that."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= _VALUE_CHARS_MAX else ""


# A difference of outputs stays on one screen.
_ANSWER_CHARS_MAX = 2000
_CONTEXT_LINES = 2


def answer_diff(case: CaseDocument) -> list[str]:
    """One passing and one failing answer of a case as a unified diff, then what the judge said.

    Where there is but one of them, that answer; nothing where there is none.
    """
    passing, failing = case.passing, case.failing
    if passing is None or failing is None:
        only = passing or failing
        if only is None:
            return []
        label = "passed" if only is passing else "failed"
        return [f"{label} ({_who(only)}):", *answer_lines(only.text), *_reason(only)]
    first, second = (failing, passing) if case.verdict == "fixed" else (passing, failing)
    labels = ("failed", "passed") if case.verdict == "fixed" else ("passed", "failed")
    lines = list(
        unified_diff(
            answer_lines(first.text),
            answer_lines(second.text),
            f"{labels[0]} ({_who(first)})",
            f"{labels[1]} ({_who(second)})",
            lineterm="",
            n=_CONTEXT_LINES,
        )
    )
    lines = [line for line in lines if not line.startswith("@@ ")]
    return [*(lines or ["both answers are the same text"]), *_reason(failing)]


def _who(answer: AnswerDocument) -> str:
    return f"{answer.side}, trial {answer.trial}"


def _reason(answer: AnswerDocument) -> list[str]:
    if not answer.reason:
        return []
    return [f"{answer.judge}: {printable(' '.join(answer.reason.split()))}"]


def answer_lines(text: str) -> list[str]:
    """The lines of an answer; JSON with a line per value, so that a diff shows which differ."""
    if len(text) <= _ANSWER_CHARS_MAX and text.lstrip()[:1] in {"{", "["}:
        with suppress(ValueError, RecursionError):
            text = json.dumps(read_json(text), ensure_ascii=False, indent=2)
    if len(text) > _ANSWER_CHARS_MAX:
        text = f"{text[:_ANSWER_CHARS_MAX]}\n… {len(text) - _ANSWER_CHARS_MAX} more characters"
    return printable(text).splitlines() or ["(empty)"]


# As git abbreviates in repositories of this size.
_SHORT_HASH = 9
_PROVISIONAL = "provisional, by answers that the author of the change recorded"
# The decision stays on one screen; the comment and the report have the rest.
_DIFFS_MAX = 3
_DIFF_LINES_MAX = 12
_GROUPS_MAX = 10
_GROUP_CASES_MAX = 1
_NAMES_MAX = 20
_GUARDS_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _VerdictWords:
    """The words for a verdict.

    Attributes:
        title: Above its cases.
        column: In a table, and after a count.
        listed: Whether its cases are listed.
        diff: Whether their answers are.
        most: So many of its cases are listed, and the others counted.
    """

    title: str
    column: str
    tone: Tone = "plain"
    listed: bool = True
    diff: bool = False
    most: int = 20


VERDICTS: Mapping[CaseStatus, _VerdictWords] = {
    "broken": _VerdictWords(title="Broken", column="broken", tone="bad", diff=True),
    "unmeasured": _VerdictWords(title="Unmeasured", column="unmeasured", tone="bad", diff=True),
    "undecided": _VerdictWords(title="Undecided", column="undecided", tone="bad", diff=True),
    "removed": _VerdictWords(title="Removed", column="removed", tone="bad"),
    "drifted": _VerdictWords(title="Drifted", column="drifted", tone="bad"),
    "fixed": _VerdictWords(title="Fixed", column="fixed", tone="good", diff=True),
    "new": _VerdictWords(title="New", column="new"),
    "mixed": _VerdictWords(title="Mixed", column="mixed"),
    "flaky": _VerdictWords(title="Flaky", column="flaky"),
    "known-failing": _VerdictWords(
        title="Known failing", column="known failing", tone="quiet", most=3
    ),
    "passed": _VerdictWords(title="Passed", column="passed", listed=False),
    "unchanged": _VerdictWords(title="Unchanged", column="unchanged", listed=False),
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
    """The decision in a few words, with what it was compared with.

    Args:
        document: What was decided.
        name: Formats the reference and the commit of the base.
        words: Formats other text that the document brings.
    """
    against = "with" if document.decision == "refused" else "against"
    named = f"{_DECISIONS[document.decision]} {against} {name(document.ref)}"
    if document.base_commit and not document.base_commit.startswith(document.ref):
        named += f" ({name(document.base_commit[:_SHORT_HASH])})"
    counts = _balance(document)
    text = f"{named}: {counts}" if counts else named
    text += words(_allowed(document))
    if document.looser_options:
        text += f" (with {words(', '.join(document.looser_options))})"
    if document.caveats and document.decision == "accept":
        text += f"; review also: {words(', '.join(document.caveats))}"
    if document.base_unavailable:
        text += f"; the base of {words(', '.join(document.base_unavailable))} could not be called,"
        text += " so its history alone decided"
    return f"{text}; {_PROVISIONAL}" if document.provisional else text


def reasons_beside(document: DecisionDocument) -> list[str]:
    """The reasons that neither the headline nor a refusal states."""
    summed = _add_up(document)
    stated = broke_words(summed.get("broken", 0), sum(summed.values()))
    elsewhere = {stated, *(refusal.message for refusal in document.refusals)}
    return [reason for reason in document.reasons if reason not in elsewhere]


def broke_words(count: int, total: int) -> str:
    """The number of broken cases.

    >>> broke_words(2, 24)
    '2 of 24 cases broke'
    """
    return f"{count} of {plural(total, 'case')} broke"


def _balance(document: DecisionDocument) -> str:
    """The changes, the overall direction first: `+14.4 points: 15 fixed, 5 broken`.

    Without broken or fixed cases, points are stated where their interval excludes 0.
    """
    summed = _add_up(document)
    tests = [prompt.test for prompt in document.prompts if prompt.test is not None]
    differences = [test.difference for test in tests if test.difference is not None]
    change = differences[0].candidate - differences[0].base if len(differences) == 1 else None
    order: list[CaseStatus] = ["broken", "fixed"]
    if change is not None and change > 0:
        order.reverse()
    parts = [f"{summed[name]} {name}" for name in order if summed.get(name)]
    if parts:
        parts[-1] += f" of {plural(sum(summed.values()), 'case')}"
    rest = _counts(summed, only={"undecided", "unmeasured"})
    counts = ", ".join([*parts, *([rest] if rest else [])])
    certain = change is not None and not differences[0].low <= 0 <= differences[0].high
    if change is None or not (parts or certain) or accepted_cases(document):
        return counts
    return f"{100 * change:+.1f} points{': ' if counts else ''}{counts}"


def _allowed(document: DecisionDocument) -> str:
    """The reason why broken cases pass; empty without one."""
    broken = [case for case in document.cases if case.verdict == "broken" and not case.blocks]
    if document.decision != "accept" or not broken:
        return ""
    accepted = sum(bool(case.accepted) for case in broken)
    tracked = sum(case.tier == "tracked" for case in broken)
    parts: list[str] = []
    if accepted:
        of = f"{accepted} of {len(document.cases)} {'case' if accepted == 1 else 'cases'}"
        parts.append(f"{of} accepted by the author's word")
    if left := len(broken) - accepted - tracked:
        weighed = any(prompt.test is not None and prompt.test.net for prompt in document.prompts)
        policy = document.policy.get("on_broken")
        parts.append(
            "outweighed by fixed cases side by side"
            if policy == "net" and weighed
            else f"{left} allowed by on_broken = {policy}"
        )
    return f" ({'; '.join(parts)})"


def difference_words(difference: RateDifference, *, left_out: int = 0) -> str:
    """Points up or down, with the interval.

    Args:
        difference: Over the compared cases.
        left_out: Broken cases that the changelog accepts: they are not compared.

    >>> from regauge.evidence import RateDifference
    >>> difference_words(RateDifference(base=0.9, candidate=0.82, low=-0.12, high=-0.04))
    '-8.0 points (95 % interval -12.0 to -4.0)'
    """
    value = difference.candidate - difference.base
    points = (f"{100 * each:+.1f}" for each in (value, difference.low, difference.high))
    words = "{} points (95 % interval {} to {})".format(*points)
    return f"{words}, without {plural(left_out, 'accepted case')}" if left_out else words


def accepted_cases(document: DecisionDocument, prompt: str | None = None) -> int:
    """Broken cases, of one prompt or all, that the changelog accepts."""
    return sum(
        case.verdict == "broken" and bool(case.accepted)
        for case in document.cases
        if prompt in {None, case.prompt}
    )


def verdict_words(verdict: CaseStatus) -> str:
    """A verdict as people read it.

    >>> verdict_words("broken"), verdict_words("known-failing")
    ('broken', 'known failing')
    """
    return VERDICTS[verdict].column


def gate_progress_line(progress: GateProgress) -> str:
    """The progress of this wave of trials, the cost of the run, and the time left."""
    remaining = progress.remaining_s
    left = f", about {remaining:.0f} s left of it" if remaining is not None else ""
    return (
        f"regauge gate: wave {progress.wave}, {progress.finished_trials} of"
        f" {progress.requested_trials} trials, {money(progress.spent_usd)}{left}"
    )


def decision_lines(document: DecisionDocument) -> list[StyledLine]:
    """The end of a run for users, the decision first."""
    return list(_lines(document))


def _lines(document: DecisionDocument) -> Iterator[StyledLine]:
    tone: Tone = "good" if document.decision == "accept" else "bad"
    yield StyledLine(printable(f"gate: {headline(document)}"), tone)
    for refusal in document.refusals:
        yield StyledLine(printable(f"  {refusal.message}"), tone)
        yield from (
            StyledLine(printable(f"    {detail}"), tone) for detail in refusal.details[:_NAMES_MAX]
        )
        if more := len(refusal.details[_NAMES_MAX:]):
            yield StyledLine(f"    and {more} more", tone)
        yield StyledLine(printable(f"    fix: {refusal.fix}"))
    for reason in reasons_beside(document):
        yield StyledLine(printable(f"  {reason}"), tone)
    for omission in document.unmeasured:
        if omission.fix:
            yield StyledLine(printable(f"  fix of {omission.path}: {omission.fix}"))
    for prompt in document.prompts:
        nothing = "not run" if document.not_run else "nothing to compare"
        yield from _prompt_lines(document, prompt, nothing)
        yield from _prompt_diff(prompt, document.ref)
    yield from _cases(document)
    for note in document.notes:
        yield StyledLine(printable(f"note: {note}"), "quiet")
    yield StyledLine(calls_line(document))
    if document.operating_line:
        yield StyledLine(document.operating_line)
    yield StyledLine(printable(f"decide again: {document.rerun_command}"))
    if document.next.text:
        yield StyledLine(printable(f"next: {document.next}"))


def _prompt_lines(
    document: DecisionDocument, prompt: PromptDocument, nothing: str
) -> Iterator[StyledLine]:
    counts = _counts(prompt.counts) or nothing
    if prompt.test is not None and prompt.test.difference is not None:
        left_out = accepted_cases(document, prompt.prompt)
        counts = f"{difference_words(prompt.test.difference, left_out=left_out)}; {counts}"
    yield StyledLine(printable(f"{prompt.prompt} {version_step(prompt)}: {counts}"))
    if prompt.anchor is not None:
        yield StyledLine(printable(f"  {prompt.anchor.message}"))
    for guards in prompt.guards:
        yield StyledLine(printable(f"  {guards.message}"), "bad" if guards.below else "plain")
        yield from (StyledLine(printable(f"    {line}")) for line in guard_lines(guards))
    for rule in prompt.rules:
        yield StyledLine(printable(f"  {rule.message}"), "bad")
        if rule.fix:
            yield StyledLine(printable(f"  fix: {rule.fix}"))


def guard_lines(guards: GuardsDocument) -> list[str]:
    """Changed guards, a line each; then notes."""
    messages = [change.message for change in guards.changes[:_GUARDS_MAX]]
    more = len(guards.changes) - len(messages)
    return [*messages, *([f"and {more} more"] if more else []), *guards.notes]


def _prompt_diff(prompt: PromptDocument, ref: str) -> Iterator[StyledLine]:
    """The changed lines of a prompt file, without their context."""
    changed = [
        line
        for line in prompt.diff.splitlines()
        if line[:1] in {"+", "-"} and not line.startswith(("+++", "---"))
    ]
    yield from (StyledLine(printable(f"  {line}"), "quiet") for line in changed[:_DIFF_LINES_MAX])
    more = len(changed) - _DIFF_LINES_MAX
    if more > 0:
        command = f"regauge diff {prompt.prompt} {ref}"
        yield StyledLine(
            printable(f"  and {plural(more, 'changed line')} more: {command}"), "quiet"
        )


def _cases(document: DecisionDocument) -> Iterator[StyledLine]:
    diffs_left = _DIFFS_MAX
    for verdict, words in VERDICTS.items():
        cases = [case for case in document.cases if case.verdict == verdict]
        if not words.listed or not cases:
            continue
        yield StyledLine(f"{words.title.lower()}:", "quiet")
        groups = groups_of(cases) if words.diff else [CaseGroup(kind="", cases=cases)]
        for group in groups[:_GROUPS_MAX]:
            joined = words.diff and len(group.cases) > 1
            most = _GROUP_CASES_MAX if joined else words.most
            if joined:
                yield StyledLine(printable(f"  {group.title}"), words.tone)
            for number, case in enumerate(group.cases[:most]):
                indent = "    " if joined else "  "
                yield StyledLine(printable(f"{indent}{case.message}"), words.tone)
                diff = words.diff and not number and diffs_left > 0
                diffs_left -= diff
                yield from _details(case, diff=diff)
            if joined and group.cases[most:]:
                # Ids of several datasets may be equal.
                several = len({case.prompt for case in group.cases}) > 1
                others = first_of(
                    (
                        f"{case.prompt}/{case.case}" if several else case.case
                        for case in group.cases[most:]
                    ),
                    _NAMES_MAX,
                )
                yield StyledLine(printable(f"    also {others}"), "quiet")
            elif len(group.cases) > most:
                yield StyledLine(f"  and {len(group.cases) - most} more", "quiet")
        if rest := sum(len(group.cases) for group in groups[_GROUPS_MAX:]):
            yield StyledLine(f"  and {plural(rest, 'case')} of other kinds", "quiet")


def _details(case: CaseDocument, *, diff: bool) -> Iterator[StyledLine]:
    if case.accepted:
        yield StyledLine(printable(f"    accepted by the changelog: {case.accepted}"), "quiet")
    if diff:
        yield from (StyledLine(f"    {line}", "quiet") for line in answer_diff(case))


def calls_line(document: DecisionDocument) -> str:
    """The trials of the decision, by kind, and their cost."""
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
    """From which version to which, or which model."""
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
        f"{counts[verdict]} {words.column}"
        for verdict, words in VERDICTS.items()
        if counts.get(verdict) and (only is None or verdict in only)
    )
