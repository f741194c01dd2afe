"""The summary at the end of a run: a table with a line per eval, and unmeasured cases."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from regauge.recordings import check_file_sizes
from regauge.reports._tally import difference_text, eval_of, label_table, rate_text, wrong_labels
from regauge.wording import eval_names, first_of, percent, plural, printable, table_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from regauge.project import Project
    from regauge.reports._documents import DecisionDocument, EvalSummary, MeasuredEval, RunRecord
    from regauge.reports._tally import CauseGroup
    from regauge.runner import (
        Budget,
        MissingCompletions,
        MissingJudgements,
        MissingRecordings,
        RunProgress,
    )

Tone: TypeAlias = Literal["plain", "good", "bad", "warn", "quiet"]

# The summary stays on one screen; the report has every case.
_NAMED_CASES_MAX = 5
_FAILED_TESTS_MAX = 5
_K_SHOWN = 5
_GROUPS_MAX, _MODES_MAX, _NAMES_MAX = 5, 5, 2
_RECORDED_NOUNS = {"embeddings": "vector", "judges": "judge call", "verdicts": "measurement"}
_TEXT_COLUMNS = frozenset({"prompt", "version", "model", "completions", "difference to the first"})
# A column that only some tables need.
NOT_BLOCKING = "not blocking"
COMPARED = ("pass rate", "difference to the first")


@dataclass(frozen=True, slots=True)
class StyledLine:
    """One line for a terminal, with its tone; control characters of untrusted text are escaped."""

    text: str
    tone: Tone = "plain"

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", printable(self.text))


def prompt_of_eval(name: str) -> str:
    """The prompt in the name of an eval.

    >>> prompt_of_eval("triage (mails, 2)"), prompt_of_eval("triage")
    ('triage', 'triage')
    """
    return name.partition(" (")[0]


def eval_titles(
    evals: Iterable[EvalSummary | MeasuredEval], decision: DecisionDocument | None = None
) -> dict[tuple[str, str, str], str]:
    """The names of evals by prompt, dataset and eval; see `eval_names`.

    Args:
        evals: The evals of a run.
        decision: The decision of a gate, whose names apply; None for another run.
    """
    keys = [*dict.fromkeys((eval_.prompt, eval_.dataset, eval_.eval) for eval_ in evals)]
    if decision is None:
        names = eval_names((prompt, data, node.rpartition("::")[2]) for prompt, data, node in keys)
        return dict(zip(keys, names, strict=True))
    of_evals = {eval_of(case.node): case.prompt for case in decision.cases if case.node}
    of_pairs = {
        (prompt_of_eval(eval_.prompt), eval_.dataset): eval_.prompt for eval_ in decision.prompts
    }
    return {key: of_evals.get(key[2]) or of_pairs.get(key[:2], key[0]) for key in keys}


def named_evals(
    evals: Sequence[EvalSummary], decision: DecisionDocument | None = None
) -> list[EvalSummary]:
    """The evals with their names as prompts."""
    names = eval_titles(evals, decision)
    return [
        eval_.model_copy(update={"prompt": names[eval_.prompt, eval_.dataset, eval_.eval]})
        for eval_ in evals
    ]


def named_rows(rows: Iterable[Mapping[str, Any]], record: RunRecord) -> Iterator[dict[str, Any]]:
    """The rows of trials with eval names as prompts."""
    names = eval_titles(record.evals, record.decision)
    for row in rows:
        pair = (row["prompt"], row["dataset"])
        old = names.get((*pair, ""), row["prompt"])  # a run of an earlier release
        yield {**row, "prompt": names.get((*pair, eval_of(row["node"])), old)}


def eval_lines(evals: Sequence[EvalSummary]) -> list[StyledLine]:
    """The table of evals: headings, and a line per eval."""
    if not evals:
        return []
    eval_texts = eval_titles(evals)
    rows = [
        {**eval_cells(eval_), "prompt": eval_texts[eval_.prompt, eval_.dataset, eval_.eval]}
        for eval_ in evals
    ]
    unused = {
        NOT_BLOCKING: not any(eval_.not_blocking for eval_ in evals),
        **dict.fromkeys(COMPARED, not any(eval_.comparison for eval_ in evals)),
    }
    names = [name for name in rows[0] if not unused.get(name)]
    head, *lines = table_lines(
        [names, *([row[name] for name in names] for row in rows)],
        texts=[column for column, name in enumerate(names) if name in _TEXT_COLUMNS],
    )
    return [
        StyledLine(head, "quiet"),
        *(
            StyledLine(line, "bad" if eval_.failed or eval_.unmeasured else "good")
            for eval_, line in zip(evals, lines, strict=True)
        ),
    ]


def failed_tests_text(tests: Mapping[str, str], *, separator: str = "; ") -> str:
    """The number of tests that failed apart from their judges, after a text; empty for none."""
    return f"{separator}{plural(len(tests), 'test')} failed apart from judges" if tests else ""


def failed_test_lines(
    tests: Mapping[str, str], *, name: Callable[[str], str] = str, words: Callable[[str], str] = str
) -> list[str]:
    """The first tests that failed apart from their judges, each with its message."""
    first_tests = [*tests.items()][:_FAILED_TESTS_MAX]
    rest = [f"… and {len(tests) - len(first_tests)} more"] if len(tests) > len(first_tests) else []
    return [*(f"{name(node)}: {words(message)}" for node, message in first_tests), *rest]


def failed_test_notes(tests: Mapping[str, str]) -> list[StyledLine]:
    """Lines on the first tests that failed apart from their judges, for a terminal."""
    texts = failed_test_lines(tests)
    return [StyledLine(f"failed apart from judges: {text}", "bad") for text in texts]


def shard_lines(record: RunRecord) -> list[StyledLine]:
    """Lines on the shard or on missing shards; empty for a complete run."""
    if (part := record.shard) is not None:
        name = f"shard {part.number} of {part.count}"
        case_count = sum(eval_.selected_cases for eval_ in part.evals)
        total = sum(eval_.total for eval_ in part.evals)
        content = "no decision" if part.base else f"{case_count:,} of {total:,} cases"
        join = "  join the shards: regauge runs merge DIR..."
        return [StyledLine(f"{name}: {content}"), StyledLine(join)]
    if record.merged is None or not record.merged.missing:
        return []
    numbers = ", ".join(map(str, record.merged.missing))
    noun = "shards" if len(record.merged.missing) > 1 else "shard"
    return [StyledLine(f"unmeasured: {noun} {numbers} of {record.merged.count} missing", "bad")]


def not_blocking_lines(failed: Mapping[str, Sequence[str]]) -> list[StyledLine]:
    """Lines on failed cases that do not fail the run.

    Args:
        failed: The id of each case with the reason, by prompt.
    """
    lines: list[StyledLine] = []
    for prompt, cases in failed.items():
        lines.append(StyledLine(f"failed, not blocking: {plural(len(cases), 'case')} of {prompt}"))
        lines += [StyledLine(f"  ~ {text}", "quiet") for text in cases[:_NAMED_CASES_MAX]]
        if len(cases) > _NAMED_CASES_MAX:
            lines.append(StyledLine(f"  and {len(cases) - _NAMED_CASES_MAX} more", "quiet"))
    return lines


def failed_case_lines(
    first_cases: Mapping[str, Sequence[str]], evals: Sequence[EvalSummary]
) -> list[StyledLine]:
    """Lines on failed cases by prompt.

    Args:
        first_cases: The first ids by prompt.
        evals: The evals of the run, for the number of failed cases.
    """
    lines: list[StyledLine] = []
    for prompt, ids in first_cases.items():
        count = sum(eval_.failed for eval_ in evals if eval_.prompt == prompt)
        suffix = f" and {count - len(ids)} more" if count > len(ids) else ""
        lines.append(StyledLine(f"failed: {plural(count, 'case')} of {prompt}", "bad"))
        lines.append(StyledLine(f"  {', '.join(ids)}{suffix}", "quiet"))
    return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCase:
    """A case that failed.

    Attributes:
        version: The prompt's version; `-` without one.
        judge: The first judge that failed it.
        mode: The failure mode: expected label and output, or the judge's code.
        reason: The judge's reason, one line.
    """

    prompt: str
    version: str
    judge: str
    mode: str
    reason: str
    case: str


def failed_lines(failed: Sequence[FailedCase], evals: Sequence[EvalSummary]) -> list[StyledLine]:
    """Lines on failed cases by judge and failure mode, the largest groups first.

    Args:
        failed: The failed cases.
        evals: The evals of the run, for the number of cases.
    """
    judges: dict[tuple[str, str, str], dict[str, list[FailedCase]]] = {}
    for case in failed:
        modes = judges.setdefault((case.prompt, case.version, case.judge), {})
        modes.setdefault(case.mode, []).append(case)
    lines: list[StyledLine] = []
    by_size = sorted(judges.items(), key=lambda item: -sum(map(len, item[1].values())))
    for (prompt, version, judge), modes in by_size[:_GROUPS_MAX]:
        case_count = sum(
            eval_.cases
            for eval_ in evals
            if (eval_.prompt, eval_.version or "-") == (prompt, version)
        )
        number = sum(map(len, modes.values()))
        text = f"{prompt} {version}: {number} of {plural(case_count, 'case')} FAILED on {judge}"
        labels = ", expected -> output" if any(" -> " in mode for mode in modes) else ""
        lines.append(StyledLine(f"{text}{labels}:", "bad"))
        modes_by_size = sorted(modes.items(), key=lambda item: -len(item[1]))
        lines += [StyledLine(_mode_line(mode, cases)) for mode, cases in modes_by_size[:_MODES_MAX]]
        if len(modes_by_size) > _MODES_MAX:
            lines.append(StyledLine(f"  and {len(modes_by_size) - _MODES_MAX} more", "quiet"))
    if len(by_size) > _GROUPS_MAX:
        rest = sum(len(cases) for _, modes in by_size[_GROUPS_MAX:] for cases in modes.values())
        lines.append(StyledLine(f"and {plural(rest, 'case')} that failed on other judges", "bad"))
    if lines:
        hint = "re-run: pytest --lf     all: pytest -v     page: regauge report -o report.html"
        lines += [StyledLine(hint), StyledLine("")]
    return lines


def _mode_line(mode: str, cases: Sequence[FailedCase]) -> str:
    example = "" if " -> " in mode else f" ({cases[0].reason})"
    names = first_of((case.case for case in cases), _NAMES_MAX)
    return f"  {mode}{example}  {len(cases)}  {names}"


def cause_lines(groups: Sequence[CauseGroup], *, tracebacks: bool = False) -> list[StyledLine]:
    """Lines on unmeasured cases by cause.

    Args:
        groups: The cases by cause.
        tracebacks: Whether to show the traceback of a judge that raised.
    """
    lines: list[StyledLine] = []
    for group in groups:
        ids = sorted(set(group.cases.values()))
        examples = first_of(ids, _NAMED_CASES_MAX)
        count = plural(len(group.cases), "case")
        prompts = ", ".join(group.prompts)
        lines.append(StyledLine(f"unmeasured: {count} of {prompts} ({group.kind})", "bad"))
        lines.append(StyledLine(f"  {examples}", "quiet"))
        if group.kind != "MissingRecordingError":  # `needs recording` reports these
            words = f"{group.message}\n{group.traceback}" if tracebacks else group.message
            lines.extend(StyledLine(f"  {text}") for text in printable(words).splitlines())
    return lines


def missing_lines(missing: Sequence[MissingCompletions]) -> list[StyledLine]:
    """Lines on missing recordings: estimated cost, and the command that records them."""
    lines: list[StyledLine] = []
    for group in missing:
        model = f"{group.model}, simulated" if group.simulated else group.model
        calls = f" {group.calls} calls," if group.calls != group.completions else ""
        lines += _needed_lines(
            group,
            f"{group.prompt}, {plural(group.cases, 'case')}",
            "an older request",
            f"{plural(group.completions, 'completion')} of {model}: about{calls}",
        )
    return lines


def _needed_lines(
    group: MissingRecordings, title: str, older: str, calls: str
) -> Iterator[StyledLine]:
    stale = f", {group.stale} of them recorded for {older}" if group.stale else ""
    yield StyledLine(f"needs recording: {title}{stale}", "bad")
    cost = f"{estimated_cost(group.cost_usd)}{in_batch(group.batch_cost_usd)}"
    yield StyledLine(f"  {calls} {quantity(group.tokens)} tokens, {cost}")
    yield StyledLine(f"  record them: {group.command}")


def cut_off_note(eval_: EvalSummary, names: Mapping[tuple[str, str, str], str]) -> str:
    """The number of passed outputs that end at their token limit, in words."""
    outputs = plural(eval_.cut_off, "passed output")
    return f"cut off: {outputs} of {_full_name(eval_, names)}; raise maxTokens"


def _full_name(eval_: EvalSummary, names: Mapping[tuple[str, str, str], str]) -> str:
    """The eval, with the model if the run compares several."""
    name = names[eval_.prompt, eval_.dataset, eval_.eval]
    return f"{name} on {eval_.model}" if eval_.comparison else name


def judge_lines(evals: Sequence[EvalSummary]) -> list[StyledLine]:
    """Lines on cut-off outputs, the judges' calls, repeated trials, advisory judges and labels."""
    names = eval_titles(evals)
    lines: list[StyledLine] = []
    for eval_ in evals:
        if eval_.cut_off:
            lines.append(StyledLine(cut_off_note(eval_, names)))
        usage = eval_.judge_usage
        if usage.calls:
            live = f", {usage.live} live" if usage.live else ""
            retried = f", {usage.retries} retries" if usage.retries else ""
            tokens = quantity(usage.input_tokens + usage.output_tokens)
            lines.append(
                StyledLine(
                    f"judge calls: {_full_name(eval_, names)}, {usage.calls}{live}{retried},"
                    f" {tokens} tokens, {money(usage.cost_usd)},"
                    f" {duration(eval_.judge_latency_s)} per judgement",
                    "quiet",
                )
            )
    lines += [
        StyledLine(f"{_full_name(eval_, names)}: {rates}", "quiet")
        for eval_ in evals
        if (rates := rates_of_k(eval_))
    ]
    advisory = [(eval_, judge) for eval_ in evals for judge in eval_.judges if not judge.blocking]
    if advisory:
        lines.append(StyledLine("advisory judges:"))
        lines += [
            StyledLine(
                f"  {_full_name(eval_, names)}: {judge.name} ({judge.status_reason}),"
                f" passed {judge.passed}, failed {judge.failed}"
                + (f", abstained {judge.abstained}" if judge.abstained else "")
            )
            for eval_, judge in advisory
        ]
    for eval_ in evals:
        for judge in wrong_labels(eval_):
            lines.append(StyledLine(f"labels of {_full_name(eval_, names)} by {judge.name}:"))
            lines += [
                StyledLine(f"  {line}", "plain" if number else "quiet")
                for number, line in enumerate(table_lines(label_table(judge), texts=[0]))
            ]
    return lines


def rates_of_k(eval_: EvalSummary) -> str:
    """pass^k and pass@k of an eval; empty if its cases have one trial."""

    def format_rates(mark: str, rates: Sequence[float]) -> str:
        ks = sorted({*range(1, min(len(rates), _K_SHOWN) + 1), len(rates)})
        return ", ".join(f"pass{mark}{k} {percent(rates[k - 1], digits=0)}" for k in ks)

    if not eval_.all_of_k:
        return ""
    return (
        f"all k trials pass: {format_rates('^', eval_.all_of_k)};"
        f" at least one: {format_rates('@', eval_.one_of_k)}"
    )


def missing_judgement_lines(missing: Sequence[MissingJudgements]) -> list[StyledLine]:
    """Lines on missing judgements: estimated cost, and the command that records them."""
    lines: list[StyledLine] = []
    for group in missing:
        judgements = plural(group.judgements, "judgement")
        models = f"{group.models}, simulated" if group.simulated else group.models
        lines += _needed_lines(
            group,
            f"{group.prompt}, judge {group.judge}, {judgements} of {plural(group.cases, 'case')}",
            "an older request of the judge",
            f"about {plural(group.calls, 'call')} of {models}: about",
        )
    return lines


def recorded_lines(
    project: Project, line_counts: Mapping[str, int], *, of_shard: bool = False
) -> list[StyledLine]:
    """Lines on changed recordings, and warnings about files too large for GitHub.

    Args:
        project: The project.
        line_counts: The number of changed lines by file.
        of_shard: Whether the merge of shards is still to write the files.
    """
    place = (
        "for {}; regauge runs merge writes it" if of_shard else "in {}; commit it with the prompt"
    )
    lines = [
        StyledLine(f"recorded: {plural(count, recorded_noun(path))} {place.format(path)}")
        for path, count in line_counts.items()
    ]
    warnings = check_file_sizes(project, map(Path, line_counts)) if line_counts else ()
    return lines + [StyledLine(f"warning: {warning}", "bad") for warning in warnings]


def stored_lines(line_counts: Mapping[str, int]) -> list[StyledLine]:
    """Warnings about replayed completions in the local store only.

    Args:
        line_counts: The number of completions by recordings file.
    """
    return [
        StyledLine(
            f"warning: {plural(count, recorded_noun(path))} of {path} not committed, only in the"
            " local store; write the file: regauge record",
            "bad",
        )
        for path, count in line_counts.items()
    ]


def recorded_noun(path: str) -> str:
    """The noun for a line of a recordings file.

    >>> recorded_noun("fixtures/recordings/judges/triage.jsonl")
    'judge call'
    """
    return _RECORDED_NOUNS.get(PurePath(path).parent.name, "completion")


def progress_line(progress: RunProgress, budget: Budget, noun: str = "completions") -> str:
    """Finished completions, the cost so far, and the time left."""
    remaining = progress.remaining_s
    left = f", about {remaining:.0f} s left" if remaining is not None else ""
    failed = f", {progress.failed} without a completion" if progress.failed else ""
    failed += f", {plural(progress.judge_calls, 'judge call')}" if progress.judge_calls else ""
    return (
        f"regauge: {progress.completed} of {progress.total} {noun}{failed},"
        f" {money(budget.cost_usd)}{left}"
    )


def quantity(count: float) -> str:
    """A count with a unit prefix.

    >>> quantity(950), quantity(41_234), quantity(2_500_000)
    ('950', '41.2k', '2.5M')
    """
    for limit, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= limit:
            return f"{count / limit:.1f}{unit}"
    return f"{count:.0f}"


def money(amount_usd: float | None) -> str:
    """An amount in US dollars; `?` if the price is unknown.

    >>> money(0.0), money(0.00042), money(1.234), money(None)
    ('$0', '$0.0004', '$1.23', '?')
    """
    if amount_usd is None:
        return "?"
    if amount_usd == 0:
        return "$0"
    return f"${amount_usd:.2f}" if amount_usd >= 1 else f"${amount_usd:.4f}"


def duration(seconds: float | None) -> str:
    """A latency with a unit; `-` for None.

    >>> duration(0.0042), duration(1.26), duration(None)
    ('4 ms', '1.3 s', '-')
    """
    if seconds is None:
        return "-"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def estimated_cost(cost_usd: float | None) -> str:
    """The cost of an estimate, or that it is unknown.

    >>> estimated_cost(1.234), estimated_cost(None)
    ('$1.23', 'cost unknown (no price declared)')
    """
    return "cost unknown (no price declared)" if cost_usd is None else money(cost_usd)


def in_batch(cost_usd: float | None) -> str:
    """The part of an estimate for a batch; empty if it is free or unknown.

    >>> in_batch(0.5), in_batch(None)
    (', $0.5000 in a batch', '')
    """
    return f", {money(cost_usd)} in a batch" if cost_usd else ""


def eval_cells(eval_: EvalSummary) -> dict[str, str]:
    """The cells of an eval in the table, by heading."""
    sources = [
        f"{count} {word}" for count, word in ((eval_.replays, "replayed"), (eval_.live, "live"))
        if count
    ]  # fmt: skip
    if eval_.retries:
        sources.append(f"{eval_.retries} retries")
    comparison = eval_.comparison
    comparison_cells = (
        ("-", "-") if comparison is None else (rate_text(comparison), difference_text(comparison))
    )
    return {
        "prompt": eval_.prompt,
        "version": eval_.version or "-",
        "model": f"{eval_.model} (simulated)" if eval_.simulated else eval_.model,
        "cases": str(eval_.cases),
        # The trials of a gate decide together, not case by case.
        "passed": "-" if eval_.side else str(eval_.passed),
        "failed": "-" if eval_.side else str(eval_.failed),
        "tracked": "-" if eval_.side else str(eval_.tracked_failed),
        NOT_BLOCKING: str(eval_.not_blocking),
        "unmeasured": str(eval_.unmeasured),
        **dict(zip(COMPARED, comparison_cells, strict=True)),
        "tokens": quantity(eval_.input_tokens + eval_.output_tokens),
        "cost": money(eval_.cost_usd),
        "p50": duration(eval_.latency_p50_s),
        "p95": duration(eval_.latency_p95_s),
        "completions": ", ".join(sources) or "none",
    }
