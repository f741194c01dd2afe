"""A mutation report as terminal lines and Markdown."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, assert_never

from regauge.markdown import escape_markdown, fold_lines, table_lines
from regauge.mutate import UNSCORED, score_of
from regauge.reports._console import StyledLine, money
from regauge.reports._documents import GuardChangeDocument, GuardsDocument
from regauge.wording import first_of, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from regauge.mutate import ChangedGuards, GuardChange, MutantClass, MutantRow, MutationReport
    from regauge.prompts import Prompt
    from regauge.reports._console import Tone


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClassWords:
    """The presentation of a class of mutants.

    Attributes:
        word: The word for it.
        tone: The tone of its lines.
        meaning: The cause and what is missing; empty if there is nothing to do.
        unguarded: The reason why no case guards an instruction; empty for other classes.
        obeyed: What the model does with an order in the input; empty for other classes.
    """

    word: str
    tone: Tone
    meaning: str = ""
    unguarded: str = ""
    obeyed: str = ""


CLASSES: dict[MutantClass, _ClassWords] = {
    "killed": _ClassWords(word="guarded", tone="good", obeyed="the model obeys, and a check fails"),
    "survived": _ClassWords(
        word="survived",
        tone="bad",
        meaning="outputs changed and no check failed: a judge or an expectation is missing",
        unguarded="outputs change without it, and no check fails",
        obeyed="outputs change, and no check fails",
    ),
    "no-effect": _ClassWords(
        word="no effect",
        tone="warn",
        meaning="no output changed: a case is missing, or the text does nothing",
        unguarded="no output changes without it",
        obeyed="outputs stay as they are",
    ),
    "harmful": _ClassWords(
        word="harmful",
        tone="bad",
        meaning="without the text, cases get better",
        unguarded="cases get better without it",
    ),
    "undecided": _ClassWords(word="undecided", tone="quiet", meaning="not enough trials"),
    "equivalent": _ClassWords(word="equivalent", tone="quiet"),
}
# The class of a line is the first of these among its mutants.
WORST_FIRST: tuple[MutantClass, ...] = (
    "harmful",
    "survived",
    "no-effect",
    "undecided",
    "killed",
    "equivalent",
)
NOT_MEASURED = "not measured"
# With class and place, a row fits into a line of a wide terminal.
_CASES_SHOWN = 2
_TEXT_SHOWN = 70


def mutation_headline(report: MutationReport) -> str:
    """The result in one line."""
    version = f" {report.version}" if report.version else ""
    model = f"{report.model} (simulated)" if report.simulated else report.model
    return f"{report.prompt}{version} on {model}: {score_text(report)}"


def score_text(report: MutationReport) -> str:
    """The number of guarded instructions, in words."""
    score = report.score
    if score.value is None or score.low is None or score.high is None:
        return "no mutants"
    if report.missing is not None and report.missing.mutants == len(report.mutants):
        return f"{plural(score.total, 'instruction')}, none measured"
    return (
        f"{score.killed} of {score.total} instructions guarded, {100 * score.value:.0f} %"
        f" (95 % interval {100 * score.low:.0f} to {100 * score.high:.0f} %)"
    )


def mutation_lines(report: MutationReport, prompt: Prompt) -> Iterator[StyledLine]:
    """The prompt with a mark on each line, then scores, then the next step."""
    scored = [row for row in report.mutants if row.operator != UNSCORED]
    yield StyledLine(mutation_headline(report))
    yield StyledLine("")
    if scored:
        yield from _marked_lines(scored, prompt.source.split("\n"))
        yield StyledLine("")
    yield from map(StyledLine, score_lines(report))
    for kind, words in CLASSES.items():
        rows = [row for row in scored if row.kind == kind and row.measured and words.meaning]
        if rows:
            text = f"{words.word}: {plural(len(rows), 'mutant')}; {words.meaning}"
            yield StyledLine(text, words.tone)
        for row in rows:
            note = f"  ({row.reason})" if row.reason else _example(row)
            yield StyledLine(f"  {row.id}  line {row.line}  {_cut(row.text)}{note}")
    yield from (StyledLine(line, "warn") for line in missing_lines(report))
    for row in report.mutants:
        if row.operator == UNSCORED:
            obeyed = CLASSES[row.kind].obeyed or row.kind
            yield StyledLine(f"order in the input, line {row.line}: {obeyed}")
    yield StyledLine(f"{plural(report.calls, 'trial')}; {_next(report)}")


def _marked_lines(rows: Sequence[MutantRow], source: Sequence[str]) -> Iterator[StyledLine]:
    """The lines of the prompt file from the first mutant to the last, with marks."""
    by_line: dict[int, list[MutantRow]] = {}
    for row in rows:
        by_line.setdefault(row.line, []).append(row)
    width = max(map(len, [*(words.word for words in CLASSES.values()), *map(class_words, rows)]))
    for number in range(min(by_line), max(by_line) + 1):
        text = source[number - 1] if number <= len(source) else ""
        if number not in by_line:
            yield StyledLine(f"{'':{width}}  {number:4}  {text}".rstrip(), "quiet")
            continue
        worst = min(by_line[number], key=lambda row: WORST_FIRST.index(row.kind))
        count = len(by_line[number])
        count_note = f" ({count} mutants)" if count > 1 else ""
        mark = f"{class_words(worst):{width}}  {number:4}  "
        cases = f"   [{first_of(worst.cases, _CASES_SHOWN)}]" if worst.cases else ""
        yield StyledLine(f"{mark}{text}{count_note}{cases}", CLASSES[worst.kind].tone)


def class_words(row: MutantRow) -> str:
    """The words for a mutant's class; `not measured` without trials."""
    return CLASSES[row.kind].word if row.measured else NOT_MEASURED


def missing_lines(report: MutationReport) -> Iterator[str]:
    """Lines on unmeasured mutants, with facts from recordings; empty if all is measured."""
    missing = report.missing
    if missing is None:
        return
    eval_ = missing.eval
    reasons = dict.fromkeys(row.reason for row in report.mutants if not row.measured)
    yield f"not measured: {plural(missing.mutants, 'mutant')} ({'; '.join(reasons)})"
    yield (
        f"known from recordings: {eval_.able} of {plural(eval_.cases, 'case')} can guard an"
        f" instruction; {eval_.tracked} tracked, {eval_.failing} failing on the base"
    )
    cost = "cost unknown" if missing.cost_usd is None else money(missing.cost_usd)
    yield (
        f"not known without a key: which instructions these cases guard; about"
        f" {plural(missing.calls, 'call')}, {cost}"
    )


def _example(row: MutantRow) -> str:
    return f"  changed: {', '.join(row.cases[:_CASES_SHOWN])}" if row.kind == "survived" else ""


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_SHOWN else f"{text[: _TEXT_SHOWN - 3]}..."


def score_lines(report: MutationReport) -> Iterator[str]:
    """Scores by section and operator, and the instructions that each judge guards."""

    def grouped(title: str, group: Callable[[MutantRow], str]) -> Iterator[str]:
        measured = [row for row in report.mutants if row.measured]
        groups = sorted({group(row) for row in measured})
        if len(groups) < 2:  # noqa: PLR2004 - one group is the whole
            return
        for name in groups:
            score = score_of(row for row in measured if group(row) == name)
            if score.total:
                yield f"{title} {_cut(name)}: {score.killed} of {score.total} guarded"

    def section(row: MutantRow) -> str:
        return str(row.evidence.get("section", "")).rstrip(": ") or "none"

    yield from grouped("section", section)
    yield from grouped("operator", lambda row: row.operator)
    killed = Counter(
        judge for row in report.mutants if row.kind == "killed" for judge in row.judges
    )
    for judge, count in killed.most_common():
        yield f"judge {judge}: guards {plural(count, 'instruction')}"


def _next(report: MutationReport) -> str:
    kinds = {row.kind for row in report.mutants}
    if report.missing is not None:
        return f"next: with a key, regauge mutate {quote(report.prompt)} --record=missing"
    if "undecided" in kinds:
        return "next: run the same command again; it continues with the mutants that are undecided"
    if kinds & {"survived", "no-effect", "harmful"}:
        return (
            "next: add a golden case or a judge for each, delete the text, or mark it: regauge"
            f" mutate {report.prompt} --mark ID --reason ..."
        )
    return f"{'every measured' if 'killed' in kinds else 'no'} instruction is guarded"


def mutation_markdown(report: MutationReport) -> str:
    """The report as Markdown: mutants that need work first, guarded ones folded."""
    lines = [f"### {escape_markdown(mutation_headline(report))}", ""]
    lines += [f"- {escape_markdown(line)}" for line in missing_lines(report)]
    measured = [row for row in report.mutants if row.measured]
    work = [row for row in measured if row.kind not in {"killed", "equivalent"}]
    rest = [row for row in measured if row.kind in {"killed", "equivalent"}]
    if work:
        work.sort(key=lambda row: (WORST_FIRST.index(row.kind), row.line))
        lines += _table(work)
    if rest:
        lines += ["", *fold_lines(f"{len(rest)} guarded or equivalent", _table(rest))]
    scores = list(score_lines(report))
    if scores:
        lines += ["", *(f"- {escape_markdown(line)}" for line in scores)]
    lines += ["", f"{plural(report.calls, 'trial')}."]
    return "\n".join(lines) + "\n"


def _table(rows: Iterable[MutantRow]) -> Iterator[str]:
    heads = ("class", "line", "operator", "text", "cases", "judges or reason")
    cells = (
        (
            CLASSES[row.kind].word,
            str(row.line),
            row.operator,
            _cut(row.text),
            first_of(row.cases, _CASES_SHOWN),
            row.reason or ", ".join(row.judges),
        )
        for row in rows
    )
    return table_lines(heads, (map(escape_markdown, texts) for texts in cells), numbers=slice(1, 2))


# Shares of guarded instructions from which a badge has a color.
_BADGE_COLORS = ((0.9, "brightgreen"), (0.75, "green"), (0.5, "yellow"), (0.25, "orange"))


def mutation_badge(report: MutationReport, mutants: int) -> dict[str, Any]:
    """The score as an endpoint of shields.io.

    Args:
        mutants: The number of all mutants; a report on fewer is marked as a sample.
    """
    score = report.score
    message, color = "not measured", "lightgrey"
    if score.value is not None:
        sample = " (sample)" if len(report.mutants) < mutants else ""
        message = f"{score.killed} of {score.total}{sample}"
        color = next((name for least, name in _BADGE_COLORS if score.value >= least), "red")
    return {
        "schemaVersion": 1,
        "label": "instructions guarded",
        "message": message,
        "color": color,
    }


def guards_document(guards: ChangedGuards, ref: str) -> GuardsDocument:
    """The document of guarded instructions under a change; lost guards come first.

    Args:
        ref: The base as named in the command.
    """
    now, base = guards.now, guards.base
    of = f" of {guards.prompt}" if guards.prompt != guards.eval else ""
    message = f"instructions{of} guarded: {now.guarded} of {now.total}"
    if base is not None:
        message += f" ({base.guarded} of {base.total} on {ref})"
    if now.open:
        message += f", {now.open} not measured"
    changes = sorted(
        guards.changes, key=lambda change: (_is_guarded(change), _KINDS.index(change.kind))
    )
    return GuardsDocument(
        prompt=guards.prompt,
        guarded=now.guarded,
        total=now.total,
        open=now.open,
        base_guarded=base.guarded if base is not None else None,
        base_total=base.total if base is not None else None,
        changes=[
            GuardChangeDocument(
                **{name: value for name, value in asdict(change).items() if name != "reason"},
                message=_change_words(change, ref),
            )
            for change in changes
        ],
        trials=guards.trials,
        notes=[*guards.notes],
        floor=guards.floor,
        below=guards.below,
        message=message,
    )


_KINDS = ("unguarded", "deleted", "edited", "added", "guarded")


def _is_guarded(change: GuardChange) -> bool:
    return "killed" in {change.after, change.before if change.kind == "deleted" else None}


def _change_words(change: GuardChange, ref: str) -> str:
    line = f'line {change.line} "{_cut(change.text)}"'
    match change.kind:
        case "deleted":
            return f"deletes {line} of {ref}, {_deleted_words(change)}"
        case "unguarded":
            return f"{line}: this change {_lost_words(change)}"
        case "guarded":
            return f"{line}: now guarded by {_names(change.cases)}"
        case "added" | "edited":
            verb = "adds" if change.kind == "added" else "edits"
            return f"{verb} {line}: {_after_words(change)}"
        case _:
            assert_never(change.kind)


def _deleted_words(change: GuardChange) -> str:
    match change.before:
        case "killed":
            return f"guarded by {_names(change.cases)}"
        case None | "undecided":
            return "which was not measured there"
        case "equivalent":
            return "which is marked equivalent"
        case "harmful":
            return "without which cases get better"
        case _:
            return "which no case guards: the gate cannot see the loss"


def _lost_words(change: GuardChange) -> str:
    causes = " and ".join(change.causes)
    if change.after == "killed":
        return f"{causes}; still guarded by {_names(change.cases)}"
    only = "the only one" if len(change.causes) == 1 else "the only ones"
    if change.after is None:
        return f"{causes}, {only} known to guard it; not measured again: {change.reason}"
    return f"{causes}, {only} to guard it: {CLASSES[change.after].unguarded or change.after}"


def _after_words(change: GuardChange) -> str:
    if change.after is None:
        return f"not measured: {change.reason}"
    if change.after == "killed":
        return f"guarded by {_names(change.cases)}"
    return f"not guarded: {CLASSES[change.after].unguarded or change.after}"


def _names(cases: Sequence[str]) -> str:
    return first_of(cases, _CASES_SHOWN) if cases else "the suite as a whole"
