"""The content of the page: cases as plain documents, prompts, and the plot of versions."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from regauge.providers import sum_if_known, transcript
from regauge.reports._console import failed_test_lines, failed_tests_text
from regauge.reports._gate_console import (
    STATUSES,
    calls_line,
    groups_of,
    headline,
    reasons_beside,
    status_words,
    version_step,
)
from regauge.reports._gate_markdown import pass_rates
from regauge.reports._markdown import run_headline
from regauge.reports._tally import difference_text, eval_of, label_table, models_of, rate_text
from regauge.reports.html._source import golden_of
from regauge.stats import wilson

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.reports._documents import (
        CaseDocument,
        DecisionDocument,
        EvalSummary,
        JudgeName,
        OutputDocument,
        PromptDocument,
        RunRecord,
    )
    from regauge.reports._gate_console import CaseGroup
    from regauge.reports.html._source import PassRate, ReportSource

# The status of a failed case of the tier `tracked`.
TRACKED = "failed (tracked)"
# The status of another failed case that does not fail the run.
NOT_BLOCKING = "failed (not blocking)"

_WORST = ("", "passed", NOT_BLOCKING, TRACKED, "unmeasured", "failed")

# Fields of a trial that keep their names on the page; `_trial` has the others.
_SAME = (
    *("outcome", "output", "refusal", "finish_reason", "source", "response_model", "fingerprint"),
    *("input_tokens", "output_tokens", "latency_s", "cost_usd", "attempts", "cause"),
    *("request_digest", "model", "version", "prompt_digest"),
)


@dataclass(slots=True)
class _Case:
    """The trials of one case by side; `word` is the status, with several models the worst."""

    first: Mapping[str, Any]
    word: str = ""
    trials: list[dict[str, JSON]] = field(default_factory=list[dict[str, "JSON"]])
    counts: dict[str, list[int]] = field(default_factory=dict[str, list[int]])


def cases_by_prompt(source: ReportSource) -> dict[str, list[dict[str, JSON]]]:
    """The cases of each prompt with their trials, in the order of the run.

    A case with a second item in an eval is named `<case>~2`. Several models share a case, with a
    side each.
    """
    sides = model_sides(source.record)
    gate = source.record.decision
    decided = {(case.prompt, case.case): case for case in gate.cases} if gate else {}
    cases: dict[tuple[str, str], _Case] = {}
    for row in source.rows:
        of_prompt = sides.get(row["prompt"], {})
        side = "base" if row.get("side") == "base" else of_prompt.get(row["model"], "candidate")
        _add(cases, row, side, merged=bool(of_prompt))
    run_cases = {(case.first["prompt"], case.first["case"]) for case in cases.values()}
    for row in source.against_rows:
        if (row["prompt"], row["case"]) in run_cases and row.get("side") != "base":
            _add(cases, row, "base", merged=row["prompt"] in sides, only_known=True)
    by_prompt: dict[str, list[dict[str, JSON]]] = {}
    ids: dict[tuple[str, str], int] = {}
    for case in cases.values():
        name = (case.first["prompt"], case.first["case"])
        ids[name] = ids.get(name, 0) + 1
        document = _document(case, decided.get(name), source)
        if ids[name] > 1:
            document["id"] = f"{name[1]}~{ids[name]}"
        by_prompt.setdefault(name[0], []).append(document)
    for name, decision in decided.items():
        if name not in run_cases:
            by_prompt.setdefault(name[0], []).append(_case_without_trials(decision))
    return by_prompt


def model_sides(record: RunRecord) -> dict[str, dict[str, str]]:
    """The side of each compared model, by prompt; the first is the candidate."""
    return {
        prompt: {
            model: f"model-{number}" if number else "candidate"
            for number, model in enumerate(models)
        }
        for prompt, models in models_of(record).items()
    }


def _add(
    cases: dict[tuple[str, str], _Case],
    row: Mapping[str, Any],
    side: str,
    *,
    merged: bool,
    only_known: bool = False,
) -> None:
    key = (eval_of(row["node"]) if merged else row["node"], row["case"])
    if only_known and key not in cases:
        return
    case = cases.setdefault(key, _Case(first=row))
    if side == "candidate" and not any(trial["side"] == "candidate" for trial in case.trials[:1]):
        case.first = row  # the base's trials may come first
    if side != "base" or not case.word:
        case.word = max(case.word if side != "base" else "", _word(row), key=_WORST.index)
    case.trials.append(_trial(row, side))
    count = case.counts.setdefault(side, [0, 0])
    count[0] += row["outcome"] == "passed"
    count[1] += row["outcome"] != "unmeasured"


def _word(row: Mapping[str, Any]) -> str:
    if row["case_outcome"] == "failed" and row["tier"] == "tracked":
        return TRACKED
    return NOT_BLOCKING if row.get("not_blocking") else str(row["case_outcome"])


def _trial(row: Mapping[str, Any], side: str) -> dict[str, JSON]:
    fields = {name: row[name] for name in _SAME if row[name] is not None}
    if row.get("messages"):
        fields["output"] = transcript(row["messages"])
    return {"side": side, "n": row["trial"], **fields, "verdicts": row["verdicts"]}


def _document(case: _Case, decision: CaseDocument | None, source: ReportSource) -> dict[str, JSON]:
    row = case.first
    document: dict[str, JSON] = {
        "id": row["case"],
        "dataset": row["dataset"],
        "node": row["node"],
        "tier": row["tier"],
        "split": row["split"],
        "tags": row["tags"],
        "status": case.word,
        "golden": golden_of(source.golden[row["dataset"]], row["case"], row["case_digest"]),
        "trials": list(case.trials),
        "counts": {side: list(count) for side, count in case.counts.items()},
        **_sum_trials(case.trials),
    }
    if decision is not None:
        document |= _decision_fields(decision)
    return document


def _sum_trials(all_trials: Sequence[Mapping[str, Any]]) -> dict[str, JSON]:
    """The failing judges, mean latency and cost of a case, without trials of the base."""
    trials = [trial for trial in all_trials if trial["side"] != "base"]
    failed = {name: None for trial in trials for name, _ in failures_of(trial)}
    latencies = [trial["latency_s"] for trial in trials if "latency_s" in trial]
    return {
        "failed": list(failed),
        "latency": sum(latencies) / len(latencies) if latencies else None,
        "cost": sum_if_known(trial.get("cost_usd") for trial in trials if "output" in trial),
    }


def failures_of(trial: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The judges that failed a trial, with their reasons; advisory ones are marked."""
    for verdict in trial["verdicts"]:
        if verdict["outcome"] == "fail":
            advisory = " (advisory)" if verdict.get("blocking") is False else ""
            yield f"{verdict['judge']}{advisory}", verdict["reason"]


def _decision_fields(decision: CaseDocument) -> dict[str, JSON]:
    """The gate's result on a case."""
    document: dict[str, JSON] = {
        "status": status_words(decision.status),
        "state": decision.state,
        "blocks": decision.blocks,
        "message": decision.message,
        "checks": [
            {**asdict(check), "status": status_words(check.status)} for check in decision.checks
        ],
        "evidence": [
            _evidence(output) for output in (decision.passing, decision.failing) if output
        ],
    }
    if decision.accepted:
        document["accepted"] = decision.accepted
    if decision.edit_sensitive:
        document["sensitive"] = True
    if decision.before.trials:
        document["before"] = [decision.before.passed, decision.before.trials]
    return document


def _evidence(output: OutputDocument) -> dict[str, JSON]:
    return {
        "side": "base" if output.side == "base" else "candidate",
        "n": output.trial,
        "output": output.text,
        "judge": output.judge,
        "reason": output.reason,
    }


def _case_without_trials(decision: CaseDocument) -> dict[str, JSON]:
    """A case of the decision without a trial in this run."""
    return {
        "id": decision.case,
        "dataset": "",
        "node": decision.node,
        "tier": decision.tier,
        "split": "",
        "tags": [],
        "golden": {"problem": "The case has no trial in this run."},
        "trials": [],
        "counts": {},
        **_sum_trials([]),
        **_decision_fields(decision),
    }


# Pixels of the plot: half a page, with room for axis labels and five grid lines.
_WIDTH = 560
_HEIGHT = 230
_LEFT = 52
_RIGHT = 16
_TOP = 14
_BOTTOM = 40
_LINES = 4
# The axis begins at this rate, or lower if a rate needs it.
_FLOOR_MAX = 0.9
_NAME_WIDTH = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotMark:
    """One run: a dot with a bar from `low` to `high`.

    Attributes:
        name: The version's name, below the axis; empty if repeated or without room.
        begins: Whether another version begins here.
    """

    x: float
    y: float
    low: float
    high: float
    name: str
    begins: bool
    point: PassRate


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot of `width` by `height` pixels.

    Attributes:
        lines: The height and label of each grid line.
        path: The line through the dots, as `points` of a polyline.
    """

    width: int
    height: int
    left: int
    right: int
    bottom: int
    lines: tuple[tuple[float, str], ...]
    marks: tuple[PlotMark, ...]
    path: str


def plot_of(points: Sequence[PassRate]) -> Plot:
    """The plot of at least one point; its axis begins below the lowest interval."""
    lowest = min(point.low for point in points)
    floor = min(max(0.0, int(lowest * 10) / 10), _FLOOR_MAX)
    inner = _HEIGHT - _TOP - _BOTTOM
    step = (_WIDTH - _LEFT - _RIGHT) / len(points)

    def height_of(rate: float) -> float:
        return round(_TOP + inner * (1 - (rate - floor) / (1 - floor)), 1)

    marks: list[PlotMark] = []
    named_until = 0.0
    for number, point in enumerate(points):
        x = round(_LEFT + step * (number + 0.5), 1)
        begins = number == 0 or points[number - 1].digest != point.digest
        name = point.version if begins and x >= named_until else ""
        if name:
            named_until = x + _NAME_WIDTH
        marks.append(
            PlotMark(
                x=x,
                y=height_of(point.rate),
                low=height_of(point.low),
                high=height_of(point.high),
                name=name,
                begins=begins,
                point=point,
            )
        )
    rates = [floor + (1 - floor) * n / _LINES for n in range(_LINES + 1)]
    return Plot(
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        right=_WIDTH - _RIGHT,
        bottom=_HEIGHT - _BOTTOM,
        lines=tuple((height_of(rate), f"{rate * 100:.3g} %") for rate in rates),
        marks=tuple(marks),
        path=" ".join(f"{mark.x},{mark.y}" for mark in marks),
    )


# The words for a case's status, the most important first.
_WORDS = ("failed", *(words.column for words in STATUSES.values()), TRACKED, NOT_BLOCKING)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPage:
    """One prompt of a run.

    Attributes:
        step: The change of version.
        counts: The number of cases by status, the most important first.
        rate: The share of measured cases that passed, from 0 to 1; None without any.
        evals: Its evals, those of the candidate first.
        decided: The gate's result; None without a gate.
        rates: The pass rates of base and candidate with the interval of the difference, or of each
            model; empty for one model without a gate.
    """

    name: str
    step: str
    simulated: bool
    counts: tuple[tuple[str, int], ...]
    passed: int
    measured: int
    rate: float | None
    low: float
    high: float
    evals: tuple[EvalSummary, ...]
    plot: Plot | None
    decided: PromptDocument | None
    rates: str = ""

    @property
    def models(self) -> list[tuple[EvalSummary, str, str]]:
        """The compared models, each with its rate and its difference to the first."""
        return [
            (eval_, rate_text(eval_.comparison), difference_text(eval_.comparison))
            for eval_ in self.evals
            if eval_.comparison
        ]

    @property
    def judges(self) -> tuple[JudgeName, ...]:
        """The judges of the candidate, with their counts."""
        return tuple(judge for eval_ in self.evals[:1] for judge in eval_.judges)

    @property
    def label_tables(self) -> tuple[tuple[str, list[list[str]]], ...]:
        """The confusion matrix of each judge that compares labels, with the judge's name."""
        return tuple((judge.name, label_table(judge)) for judge in self.judges if judge.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The first page.

    Attributes:
        title: The result of the run, in a few words.
        tone: `good`, `bad` or `warn`.
        calls: The trials of the gate; empty without a gate.
        reasons: The decision's reasons that are not in the title.
        changed: Groups of changed cases by status, the largest first.
        columns: The statuses with cases.
    """

    title: str
    tone: str
    decision: DecisionDocument | None
    calls: str
    prompts: tuple[PromptPage, ...]
    reasons: Sequence[str]
    changed: Mapping[str, Sequence[CaseGroup]]
    columns: tuple[str, ...]


def overview_of(source: ReportSource, words: Mapping[str, Mapping[str, int]]) -> Overview:
    """The first page of a run.

    Args:
        source: The run.
        words: The number of cases by prompt and status.
    """
    record = source.record
    pages = [_page(name, source, words.get(name, {})) for name in _names(record, words)]
    used_words = {word for page in pages for word, count in page.counts if count}
    gate = record.decision
    title, tone = _headline(record)
    return Overview(
        title=source.title or title,
        tone=tone,
        decision=gate,
        calls=calls_line(gate) if gate else "",
        prompts=tuple(pages),
        reasons=(
            *(reasons_beside(gate) if gate else ()),
            *failed_test_lines(record.failed_tests),
            *source.notes,
        ),
        changed=_find_changed(gate) if gate else {},
        columns=tuple(word for word in _WORDS if word in used_words),
    )


def _find_changed(gate: DecisionDocument) -> dict[str, list[CaseGroup]]:
    cases = {
        words.column: [case for case in gate.cases if case.status == status]
        for status, words in STATUSES.items()
        if words.diff
    }
    return {word: groups_of(members) for word, members in cases.items() if members}


def _names(record: RunRecord, cases: Iterable[str]) -> list[str]:
    decided = [prompt.prompt for prompt in record.decision.prompts] if record.decision else []
    return list(dict.fromkeys([*decided, *(eval_.prompt for eval_ in record.evals), *cases]))


def _page(name: str, source: ReportSource, words: Mapping[str, int]) -> PromptPage:
    gate = source.record.decision
    evals = sorted(
        (eval_ for eval_ in source.record.evals if eval_.prompt == name),
        key=lambda eval_: eval_.side == "base",
    )
    decided = (
        next((prompt for prompt in gate.prompts if prompt.prompt == name), None) if gate else None
    )
    passed, measured = source.counts.get(name, (0, 0))
    interval = wilson(passed, measured) if measured else None
    points = source.history.get(name, ())
    return PromptPage(
        name=name,
        step=version_step(decided) if decided else _version(evals),
        simulated=any(eval_.simulated for eval_ in evals),
        counts=tuple((word, words[word]) for word in _WORDS if word in words),
        passed=passed,
        measured=measured,
        rate=passed / measured if measured else None,
        low=interval.low if interval else 0.0,
        high=interval.high if interval else 1.0,
        evals=tuple(evals),
        plot=plot_of(points) if points else None,
        decided=decided,
        rates=pass_rates(gate, decided)
        if gate and decided
        else "; ".join(rate_text(eval_.comparison) for eval_ in evals if eval_.comparison),
    )


def _version(evals: Sequence[EvalSummary]) -> str:
    if not evals:
        return ""
    version = evals[0].version or "unversioned"
    return f"{version} (simulated)" if evals[0].simulated else version


def _headline(record: RunRecord) -> tuple[str, str]:
    if record.decision is not None:
        tones = {"accept": "good", "reject": "bad"}
        text = headline(record.decision)
        tone = "bad" if record.failed_tests else tones.get(record.decision.decision, "warn")
        return text[:1].upper() + text[1:] + failed_tests_text(record.failed_tests), tone
    failed = any(eval_.failed for eval_ in record.evals)
    weak = (
        any(eval_.unmeasured for eval_ in record.evals)
        or not any(eval_.cases for eval_ in record.evals)
        or record.status == "interrupted"
        or record.awaits_decision
    )
    text = run_headline(record)
    tone = "bad" if failed or record.failed_tests else "warn" if weak else "good"
    return text[:1].upper() + text[1:], tone
