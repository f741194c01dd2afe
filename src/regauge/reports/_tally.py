"""The counts of a run, row by row: cases, trials, judges, labels, reasons for unmeasured ones."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, repeat, zip_longest
from sys import intern
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from regauge.model_id import is_simulated
from regauge.reports._documents import CallUsage, EvalSummary, JudgeName, LabelRow, ModelComparison
from regauge.wording import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from regauge.reports._documents import RunRecord

    # Passed and measured trials of a case; of several requests for a case, by their number.
    CaseCounts = Mapping[tuple[str, int], tuple[int, int]]


# A wider table of labels does not fit on a screen, and longer values are texts.
_LABELS_MAX: Final = 12
_LABEL_CHARS_MAX: Final = 40
# With fewer outputs per label on average, the values are unlikely to be classes.
_EACH_MIN: Final = 2
_NONE: Final = "(no label)"
_OTHER: Final = "(other)"


@dataclass(slots=True)
class LabelCounts:
    """The number of each output for each expected label.

    Attributes:
        counts: By expected label and output.
        usable: Whether all values are short enough for labels.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    usable: bool = True

    def add(self, verdict: Mapping[str, Any]) -> bool:
        """Count a verdict that compares labels; return False for any other."""
        if not verdict.get("labels") or verdict["outcome"] == "abstain" or not self.usable:
            return False
        expected = _label(verdict.get("expected"))
        if not expected:
            self.usable = False
            return False
        passed = verdict["outcome"] == "pass"
        actual = verdict.get("actual")
        output = expected if passed else _NONE if actual is None else _label(actual) or _OTHER
        self.counts[expected, output] += 1
        # An eval on free texts must not keep them all.
        self.usable = len({label for label, _ in self.counts}) <= _LABELS_MAX * _LABEL_CHARS_MAX
        return True

    def join(self, other: LabelCounts) -> None:
        """Add the counts of other cases."""
        self.counts += other.counts
        self.usable = self.usable and other.usable

    def rows(self) -> list[LabelRow]:
        """A row per expected label; empty if the values are not labels."""
        labels = sorted({expected for expected, _ in self.counts})
        total = self.counts.total()
        if not self.usable or not 2 <= len(labels) <= _LABELS_MAX:  # noqa: PLR2004 - two are distinguished
            return []
        if total < _EACH_MIN * len(labels):
            return []
        known_labels = {*labels, _NONE}
        merged: Counter[tuple[str, str]] = Counter()
        for (expected, output), count in self.counts.items():
            merged[expected, output if output in known_labels else _OTHER] += count
        totals = {column: sum(merged[other, column] for other in labels) for column in labels}
        rows: list[LabelRow] = []
        for label in labels:
            outputs = {
                output: merged[label, output]
                for output in (*labels, _OTHER, _NONE)
                if merged[label, output]
            }
            count = sum(outputs.values())
            right = outputs.get(label, 0)
            rows.append(
                LabelRow(
                    label=label,
                    count=count,
                    precision=right / totals[label] if totals[label] else None,
                    recall=right / count,
                    outputs=outputs,
                )
            )
        return rows


def _label(value: Any) -> str:
    """A value as a label; empty for other values."""
    values: list[Any] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
    value = values[0] if len(values) == 1 else ""
    if isinstance(value, bool | int):
        return str(value).lower()
    if not isinstance(value, str) or "\n" in value or len(value) > _LABEL_CHARS_MAX:
        return ""
    return value.strip()


def label_table(judge: JudgeName) -> list[list[str]]:
    """The confusion matrix of a judge with labels: precision and recall, headings first."""
    rows = judge.labels
    outputs = [row.label for row in rows]
    outputs += [word for word in (_OTHER, _NONE) if any(word in row.outputs for row in rows)]
    return [
        ["expected", *map(printable, outputs), "precision", "recall"],
        *(
            [
                printable(row.label),
                *(str(row.outputs.get(output, 0)) for output in outputs),
                "-" if row.precision is None else f"{row.precision:.2f}",
                f"{row.recall:.2f}",
            ]
            for row in rows
        ),
    ]


def wrong_labels(eval_: EvalSummary) -> list[JudgeName]:
    """The judges of an eval with wrong labels; empty for a gate run.

    The matrices of a gate run are in its HTML and JSON reports only.
    """
    if eval_.side is not None:
        return []
    return [judge for judge in eval_.judges if any(row.recall < 1 for row in judge.labels)]


_CHECKS = "checks"  # the judge for `checks` of golden cases
# Kinds whose messages contain names and sums that differ between cases.
_SAME_CAUSE = frozenset({"MissingRecordingError", "BudgetError"})


@dataclass(slots=True)
class CauseGroup:
    """Cases that are unmeasured for one cause, with the message of the first case.

    Attributes:
        traceback: The traceback of the first case; empty unless a judge raised.
        cases: The ids of the cases, by item.
        prompts: The prompts of the cases, in order.
    """

    kind: str
    message: str
    traceback: str = ""
    cases: dict[str, str] = field(default_factory=dict[str, str])
    prompts: dict[str, None] = field(default_factory=dict[str, None])


# Fields of a verdict row on its model calls.
_CALL_COUNTS: Final = ("calls", "live", "retries", "input_tokens", "output_tokens")
# Amounts whose sum does not depend on their order, 8 bytes each; NaN is an unknown one.
Amounts: TypeAlias = "array[float]"


_NO_AMOUNTS = cast("Callable[[], Amounts]", partial(array, "d"))


def _add(amounts: Amounts, amount: float | None) -> None:
    if amount != 0:
        amounts.append(math.nan if amount is None else amount)


def _total(amounts: Iterable[float]) -> float | None:
    """The sum; None where an amount is unknown."""
    total = math.fsum(amounts)
    return None if math.isnan(total) else total


@dataclass(slots=True)
class _Usage:
    """The usage of calls: counts by name, and the amounts of each call."""

    counts: Counter[str] = field(default_factory=Counter[str])
    costs_usd: Amounts = field(default_factory=_NO_AMOUNTS)
    spent_usd: Amounts = field(default_factory=_NO_AMOUNTS)
    latencies_s: Amounts = field(default_factory=_NO_AMOUNTS)

    def add_calls(self, calls: Mapping[str, Any]) -> None:
        """Add the model calls of a judgement."""
        _add(self.costs_usd, calls["cost_usd"])
        _add(self.spent_usd, calls["spent_usd"])
        _add(self.latencies_s, calls["latency_s"])
        self.counts["judgements"] += calls["calls"] > 0
        self.counts.update({name: calls[name] for name in _CALL_COUNTS})

    def join(self, other: _Usage) -> None:
        self.counts += other.counts
        self.costs_usd += other.costs_usd
        self.spent_usd += other.spent_usd
        self.latencies_s += other.latencies_s


@dataclass(slots=True)
class _JudgeCount:
    """The running counts of one judge of an eval.

    Attributes:
        usage: Verdicts by outcome, `judgements` with calls, and the usage of these calls.
        labelled: Items whose label is counted.
    """

    first: Mapping[str, Any]
    usage: _Usage = field(default_factory=_Usage)
    labels: LabelCounts = field(default_factory=LabelCounts)
    labelled: set[str] = field(default_factory=set[str])

    def add(self, verdict: Mapping[str, Any], *, node: str) -> None:
        usage = self.usage
        usage.counts[verdict["outcome"]] += 1
        # A gate re-runs suspicious cases; one trial per case keeps the counts unbiased.
        if node not in self.labelled and self.labels.add(verdict):
            self.labelled.add(node)
        if calls := verdict.get("usage"):
            usage.add_calls(calls)

    def join(self, other: _JudgeCount) -> None:
        self.usage.join(other.usage)
        self.labels.join(other.labels)

    def to_document(self) -> JudgeName:
        return JudgeName(
            name=self.first["judge"],
            digest=self.first["judge_digest"],
            criterion=self.first.get("criterion", ""),
            blocking=self.first.get("blocking", True),
            status_reason=self.first.get("status_reason", ""),
            passed=self.usage.counts["pass"],
            failed=self.usage.counts["fail"],
            abstained=self.usage.counts["abstain"],
            labels=self.labels.rows(),
        )


# The worst outcome decides on a completion that several evals judge: it is one trial.
WORST_FIRST: Final = ("failed", "unmeasured", "passed")
_UNMEASURED, _PASSED = "1", "2"  # places in `WORST_FIRST`, as text, which is small


class _Node(NamedTuple):
    """The trials of one item so far: a hash of the request, and the outcome of each."""

    case: str
    outcome: str
    request: int = 0
    trials: str = ""


@dataclass(slots=True)
class _EvalCount:
    """The running counts of one eval.

    Attributes:
        case_counts: Passed and measured trials of each settled case, to compare models.
        usage: Trials, sources of completions, and the usage of calls.
        without_verdict: The usage of judges' calls that ended without a verdict.
    """

    first: Mapping[str, Any]
    nodes: dict[str, _Node] = field(default_factory=dict[str, "_Node"])
    tracked: set[str] = field(default_factory=set[str])
    not_blocking: dict[str, str] = field(default_factory=dict[str, str])
    case_counts: dict[tuple[str, int], tuple[int, int]] = field(
        default_factory=dict[tuple[str, int], tuple[int, int]]
    )
    judges: dict[str, _JudgeCount] = field(default_factory=dict[str, "_JudgeCount"])
    usage: _Usage = field(default_factory=_Usage)
    without_verdict: _Usage = field(default_factory=_Usage)
    settled_outcomes: Counter[str] = field(default_factory=Counter[str])
    settled_cases: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])

    def add(self, row: Mapping[str, Any]) -> None:
        before = self.nodes.get(row["node"]) or _Node("", "")
        self.nodes[row["node"]] = _Node(
            row["case"],
            row["case_outcome"],
            hash(row["request_digest"]),
            f"{before.trials}{WORST_FIRST.index(row['outcome'])}",
        )
        if row["tier"] == "tracked":
            self.tracked.add(row["node"])
        elif row.get("not_blocking"):
            self.not_blocking[row["node"]] = f"{row['case']}  {row['not_blocking']}"
        for verdict in row["verdicts"]:
            judge = self.judges.get(verdict["judge"])
            if judge is None:
                judge = self.judges[verdict["judge"]] = _JudgeCount(verdict)
            judge.add(verdict, node=row["node"])
            for check in _advisory_checks(verdict) if verdict["judge"] == _CHECKS else ():
                count = self.judges.setdefault(check["judge"], _JudgeCount(check))
                count.add(check, node=row["node"])
        for calls in row.get("lost_usage", ()):
            self.without_verdict.add_calls(calls)
        usage = self.usage
        usage.counts["trials"] += 1
        usage.counts["cut_off"] += row["outcome"] == "passed" and row["finish_reason"] == "length"
        usage.counts["input_tokens"] += row["input_tokens"]
        usage.counts["output_tokens"] += row["output_tokens"]
        source = row["source"]
        if source is None:
            return
        _add(usage.costs_usd, row["cost_usd"])
        if source == "live":
            usage.counts["live"] += 1
            usage.counts["retries"] += max(0, row["attempts"] - 1)
            _add(usage.spent_usd, row["cost_usd"] or 0.0)
        else:
            usage.counts["replayed"] += 1
        if row["latency_s"] is not None:
            usage.latencies_s.append(row["latency_s"])

    def counts_of_cases(self) -> dict[tuple[str, int], tuple[int, int]]:
        """The passed and measured trials of each case."""
        return self.case_counts | self._count_nodes()[1]

    def settle(self, *, compares_models: bool) -> None:
        """Keep the counts of the cases so far, and forget the cases.

        Args:
            compares_models: Whether models are compared by case, which needs counts per case.
        """
        outcomes, counts = self._count_nodes()
        self.settled_outcomes += outcomes
        self.settled_cases.update(counts.values())
        if compares_models:
            self.case_counts |= counts
        self.nodes, self.tracked = {}, set()
        for judge in self.judges.values():
            judge.labelled.clear()

    def join(self, other: _EvalCount) -> None:
        """Add the counts of other, settled cases."""
        self.usage.join(other.usage)
        self.without_verdict.join(other.without_verdict)
        self.settled_outcomes += other.settled_outcomes
        self.settled_cases += other.settled_cases
        self.not_blocking |= other.not_blocking
        self.case_counts |= other.case_counts
        for name, judge in other.judges.items():
            if name in self.judges:
                self.judges[name].join(judge)
            else:
                self.judges[name] = judge

    def _count_nodes(self) -> tuple[Counter[str], dict[tuple[str, int], tuple[int, int]]]:
        """The number of items by outcome, and the passed and measured trials of each case.

        `tracked` counts failed tracked cases.
        """
        outcomes = Counter(node.outcome for node in self.nodes.values())
        outcomes["tracked"] = sum(self.nodes[node].outcome == "failed" for node in self.tracked)
        trials_of_request: dict[tuple[str, int], str] = {}
        for case, _, request, trials in self.nodes.values():
            before = trials_of_request.get(key := (case, request), "")
            worst = map(min, zip_longest(before, trials, fillvalue=_PASSED))
            trials_of_request[key] = "".join(worst)
        counts: dict[tuple[str, int], tuple[int, int]] = {}
        numbers = Counter[str]()
        for (case, _), trials in trials_of_request.items():
            if measured := len(trials) - trials.count(_UNMEASURED):
                counts[case, numbers[case]] = (trials.count(_PASSED), measured)
            numbers[case] += 1
        return outcomes, counts

    def summary(self) -> EvalSummary:
        first, usage = self.first, self.usage
        outcomes, cases = self._count_nodes()
        outcomes += self.settled_outcomes
        tracked_failed = outcomes.pop("tracked", 0)
        latencies = sorted(usage.latencies_s)
        cost_usd = _total(usage.costs_usd)
        # Advisory checks, which differ by case, come last by name.
        order = {name: name if name.startswith(f"{_CHECKS}: ") else "" for name in self.judges}
        judges = [self.judges[name] for name in sorted(order, key=order.__getitem__)]
        of_judges = _Usage()
        of_judges.join(self.without_verdict)
        for judge in judges:
            of_judges.join(judge.usage)
        judge_latency_s, judgements = _total(of_judges.latencies_s), of_judges.counts["judgements"]
        # The passed and all trials of each case; none in a gate run.
        counts = Counter[tuple[int, int]]()
        if first.get("side") is None:
            counts = self.settled_cases + Counter(cases.values())
        several = all(trials > 1 for _, trials in counts)
        return EvalSummary(
            prompt=first["prompt"],
            version=first["version"],
            prompt_digest=first["prompt_digest"],
            dataset=first["dataset"],
            eval=eval_of(first["node"]),
            model=first["model"],
            simulated=is_simulated(first["model"]),
            judges=[judge.to_document() for judge in judges],
            cases=outcomes.total(),
            passed=outcomes["passed"],
            failed=outcomes["failed"] - tracked_failed - len(self.not_blocking),
            tracked_failed=tracked_failed,
            not_blocking=len(self.not_blocking),
            unmeasured=outcomes["unmeasured"],
            trials=usage.counts["trials"],
            replays=usage.counts["replayed"],
            live=usage.counts["live"],
            retries=usage.counts["retries"],
            cut_off=usage.counts["cut_off"],
            input_tokens=usage.counts["input_tokens"],
            output_tokens=usage.counts["output_tokens"],
            cost_usd=cost_usd,
            spent_usd=None
            if cost_usd is None and usage.counts["live"]
            else math.fsum(usage.spent_usd),
            latency_p50_s=_percentile(latencies, 0.50),
            latency_p95_s=_percentile(latencies, 0.95),
            side=first.get("side"),
            all_of_k=all_of_k(counts) if several else [],
            one_of_k=one_of_k(counts) if several else [],
            judge_usage=CallUsage(
                **{name: of_judges.counts[name] for name in _CALL_COUNTS},
                cost_usd=_total(of_judges.costs_usd),
                spent_usd=_total(of_judges.spent_usd),
                latency_s=judge_latency_s,
            ),
            judge_latency_s=None
            if judge_latency_s is None or not judgements
            else judge_latency_s / judgements,
        )


def all_of_k(counts: Counter[tuple[int, int]]) -> list[float]:
    """The mean over cases of the probability that k trials all pass, for k = 1, 2, ...

    The unbiased estimate C(c, k) / C(n, k) for c of n trials that pass: pass^k in Yao et al. 2024,
    "tau-bench", arXiv:2406.12045, section 3.

    Args:
        counts: The number of cases by passed trials and measured trials.

    >>> all_of_k(Counter({(4, 4): 1, (2, 4): 1}))
    [0.75, 0.5833333333333334, 0.5, 0.5]
    """
    return _over_k(counts, lambda c, n, k: math.comb(c, k) / math.comb(n, k))


def one_of_k(counts: Counter[tuple[int, int]]) -> list[float]:
    """The mean over cases of the probability that one of k trials passes, for k = 1, 2, ...

    The unbiased estimate 1 - C(n - c, k) / C(n, k) for c of n trials that pass: pass@k in Chen et
    al. 2021, "Evaluating Large Language Models Trained on Code", arXiv:2107.03374, equation 1.

    Args:
        counts: The number of cases by passed trials and measured trials.

    >>> one_of_k(Counter({(4, 4): 1, (1, 4): 1}))
    [0.625, 0.75, 0.875, 1.0]
    """
    return _over_k(counts, lambda c, n, k: 1 - math.comb(n - c, k) / math.comb(n, k))


def _over_k(
    counts: Counter[tuple[int, int]], rate: Callable[[int, int, int], float]
) -> list[float]:
    """The rate for each k up to the fewest trials of a case."""
    fewest = min((trials for _, trials in counts), default=0)
    return [
        math.fsum(
            chain.from_iterable(
                repeat(rate(passed, trials, k), cases) for (passed, trials), cases in counts.items()
            )
        )
        / counts.total()
        for k in range(1, fewest + 1)
    ]


@dataclass(slots=True)
class RunTally:
    """The counts of a run, row by row."""

    _evals: dict[tuple[str | None, ...], _EvalCount] = field(
        default_factory=dict[tuple[str | None, ...], _EvalCount]
    )
    _causes: dict[tuple[str, str], CauseGroup] = field(
        default_factory=dict[tuple[str, str], CauseGroup]
    )

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one row, in the shape of `TrialRow`."""
        names = (row["prompt"], row["version"], row["dataset"], row["model"], row.get("side"))
        key = (*names, eval_of(row["node"]))
        eval_ = self._evals.get(key)
        if eval_ is None:
            eval_ = self._evals[key] = _EvalCount(row)
        eval_.add(row)
        cause = row["cause"]
        if cause is not None and not _left_to_gate(row):
            group = self._causes.setdefault(
                (cause["kind"], _without_case(cause, row["case"])),
                CauseGroup(cause["kind"], cause["message"], cause.get("traceback") or ""),
            )
            group.cases[row["node"]] = row["case"]
            group.prompts[row["prompt"]] = None

    def fail_cases(self, nodes: Iterable[str]) -> bool:
        """Count passed cases as failed.

        Returns:
            Whether one of these items had passed.
        """
        passed = [
            (eval_, node, eval_.nodes[node])
            for node in nodes
            for eval_ in self._evals.values()
            if node in eval_.nodes and eval_.nodes[node].outcome == "passed"
        ]
        for eval_, node, counts in passed:
            eval_.nodes[node] = counts._replace(outcome="failed")
        return bool(passed)

    def settle(self, *, compares_models: bool) -> None:
        """Forget the cases so far, once all of their rows are counted.

        Args:
            compares_models: Whether models are compared by case.
        """
        for eval_ in self._evals.values():
            eval_.settle(compares_models=compares_models)

    def join(self, other: RunTally) -> None:
        """Add the counts of other, settled cases of the same run."""
        for key, eval_ in other._evals.items():
            if key in self._evals:
                self._evals[key].join(eval_)
            else:
                self._evals[key] = eval_
        for key, group in other._causes.items():
            cause = self._causes.setdefault(key, group)
            cause.cases |= group.cases
            cause.prompts |= group.prompts

    def not_blocking(self) -> dict[str, list[str]]:
        """Failed cases that do not fail the run, with the reason, by prompt."""
        cases: dict[str, list[str]] = {}
        for eval_ in self._evals.values():
            if eval_.not_blocking:
                cases.setdefault(eval_.first["prompt"], []).extend(eval_.not_blocking.values())
        return cases

    def evals(
        self, models: Sequence[str] = (), *, across_versions: bool = False
    ) -> list[EvalSummary]:
        """A summary per eval, in order of appearance.

        Args:
            models: The run's models; the others are compared with the first.
            across_versions: Whether to compare versions of a prompt, too.
        """
        ranks = {model: number for number, model in enumerate(models)}
        groups: dict[tuple[Any, ...], list[_EvalCount]] = {}
        evals = Counter(key[:-1] for key in self._evals)
        several = {(key[0], key[2]) for key, count in evals.items() if count > 1}
        for eval_ in self._evals.values():
            first = eval_.first
            side_key = id(eval_) if first.get("side") else None  # a gate compares its sides itself
            version = None if across_versions else first["version"]
            # A renamed eval is compared, too, unless its dataset has several.
            pair = (first["prompt"], first["dataset"])
            key = (*pair, version, eval_of(first["node"]) if pair in several else "", side_key)
            groups.setdefault(key, []).append(eval_)
        for group in groups.values():
            group.sort(key=lambda eval_: ranks.get(eval_.first["model"], len(ranks)))
        summaries: list[EvalSummary] = []
        for group in groups.values():
            of_group = [eval_.summary() for eval_ in group]
            if len(group) > 1:
                comparisons = compare_models([eval_.counts_of_cases() for eval_ in group])
                of_group = [
                    summary.model_copy(update={"comparison": comparison})
                    for summary, comparison in zip(of_group, comparisons, strict=True)
                ]
            summaries += of_group
        return summaries

    def causes(self) -> list[CauseGroup]:
        """The reasons for unmeasured trials, the largest group first."""
        return sorted(self._causes.values(), key=lambda group: -len(group.cases))


def eval_of(node: str) -> str:
    """The eval of an item; the rest of the node id names the case and the model.

    >>> eval_of("evals/test_a.py::test_a[c::1[x]"), eval_of("evals/a.prompt.yml::c0")
    ('evals/test_a.py::test_a', 'evals/a.prompt.yml')
    """
    function, bracket, _ = node.partition("[")
    return intern(function if bracket else node.partition("::")[0])


def _advisory_checks(verdict: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The advisory checks of a case, as verdicts of advisory judges."""
    for check in verdict.get("details", {}).get("checks", ()):
        if check.get("advisory"):
            yield {
                **verdict,
                "judge": f"{verdict['judge']}: {check['check']}",
                "outcome": check["outcome"],
                "blocking": False,
                "status_reason": check["advisory"],
                "usage": None,  # counted with the verdict on all checks
            }


def _left_to_gate(row: Mapping[str, Any]) -> bool:
    """Return whether to ignore a trial without a recording: of base, or of a measured case.

    A replayed gate plans more trials than are recorded; its decision names unmeasured cases.
    """
    if row["cause"]["kind"] not in {"MissingOutputError", "MissingRecordingError"}:
        return False
    return row.get("side") == "base" or row["case_outcome"] != "unmeasured"


def _without_case(cause: Mapping[str, str], case: str) -> str:
    """The text of a cause without the case's name, to group equal causes."""
    if cause["kind"] in _SAME_CAUSE:
        return ""
    message = re.sub(rf"(?<![\w-]){re.escape(case)}(?![\w-])", "", cause["message"])
    return re.sub(r"(\([^()\n]+):\d+\)", r"\1)", message)  # the line of the case


def _percentile(values: list[float], share: float) -> float | None:
    """The nearest-rank percentile of a sorted list; None for an empty list."""
    if not values:
        return None
    return values[max(0, math.ceil(share * len(values)) - 1)]


# The usual level: comparisons of models are informative and block nothing.
_LEVEL = 0.05


def compare_models(models: Sequence[CaseCounts]) -> list[ModelComparison]:
    """Compare models with the first, case by case.

    The rate is the mean over cases. The two-sided p-value comes from the gate's exact test within
    cases, with equal weights, times the number of models compared with the first.

    Args:
        models: The counts of each model, without cases that have no measured trial.
    """
    return [
        _compare(model, models[0] if number else None, tests=len(models) - 1)
        for number, model in enumerate(models)
    ]


def _compare(counts: CaseCounts, first: CaseCounts | None, *, tests: int) -> ModelComparison:
    # Loads numpy, which a run of one model does not need.
    from regauge.stats import rate_difference, suite_p_value, wilson

    rates = [passed / trials for passed, trials in counts.values()]
    interval = wilson(sum(rates), len(rates))
    rate = sum(rates) / len(rates) if rates else None
    result = ModelComparison(rate=rate, low=interval.low, high=interval.high)
    shared_cases = [key for key in first or () if key in counts]
    if first is None or not shared_cases:
        return result
    sides = [
        [tallies[key][place] for key in shared_cases]
        for tallies in (first, counts)
        for place in (0, 1)
    ]
    comparison = rate_difference(*sides)
    assert comparison is not None, "every case has trials of both"
    worse, better = (
        float(suite_p_value(*sides, weights=1, direction=direction))
        for direction in ("worse", "better")
    )
    p_value = min(1.0, 2 * tests * min(worse, better))
    significant = p_value <= _LEVEL
    return result.model_copy(
        update={
            "cases": len(shared_cases),
            "difference": comparison.value,
            "difference_low": comparison.low,
            "difference_high": comparison.high,
            "p_value": p_value,
            "outcome": ("worse" if worse < better else "better") if significant else "not shown",
        }
    )


def models_of(record: RunRecord) -> dict[str, list[str]]:
    """The models that a run compares, in order, by prompt."""
    models: dict[str, dict[str, None]] = {}
    for eval_ in record.evals:
        if eval_.comparison is not None:
            models.setdefault(eval_.prompt, {})[eval_.model] = None
    return {prompt: list(names) for prompt, names in models.items()}


def rate_text(comparison: ModelComparison) -> str:
    """A pass rate with its 95 % interval."""
    if comparison.rate is None:
        return "-"
    return (
        f"{100 * comparison.rate:.0f} % ({100 * comparison.low:.0f} to {100 * comparison.high:.0f})"
    )


def difference_text(comparison: ModelComparison) -> str:
    """The difference to the first model in points, with its 95 % interval and p-value."""
    if comparison.difference is None:
        return "-"
    low, high = 100 * comparison.difference_low, 100 * comparison.difference_high
    points = f"{100 * comparison.difference:+.1f} points ({low:.1f} to {high:.1f})"
    word = f"{comparison.outcome}, " if comparison.outcome != "not shown" else ""
    p_value = "p < 0.001" if comparison.p_value < 0.001 else f"p = {comparison.p_value:.2g}"  # noqa: PLR2004 - in the text
    return f"{points}, {word}{p_value}"
