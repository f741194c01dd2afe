"""Compare runs case by case: outcomes and outputs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from struct import Struct
from sys import intern
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from regauge.reports import WORST_FIRST, RunTally, eval_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet

    from regauge.reports import EvalSummary, RunRecord

__all__ = [
    "CaseChange",
    "CaseSide",
    "Change",
    "EvalComparison",
    "LabelledRun",
    "RunOutline",
    "compare_runs",
    "find_differing",
    "join_runs",
    "label_row",
    "labelled_rows",
]

Change = Literal["worse", "unmeasured", "better", "measured", "removed", "added", "output"]
_CHANGES: tuple[Change, ...] = get_args(Change)
# The fields of a row that a comparison shows.
_COPIED_FIELDS: Final = ("trial", "request_digest", "outcome", "output", "refusal", "verdicts",
                         "cause", "case_digest", "failed_test")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSide:
    """One case in one run.

    Attributes:
        passed: The number of passed trials.
        measured: The number of trials with an outcome.
        trials: The number of all trials.
        output: The output of the trial that shows the change: a passed one next to a failed one,
            or the first with another text.
        judge: The judge that failed this trial, or `test`; empty without one.
        reason: The judge's reason.
    """

    passed: int
    measured: int
    trials: int
    output: str | None
    judge: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseChange:
    """A case that differs between two runs.

    Attributes:
        change: The kind of change; `output` if only the output differs.
        before: The case in the first run; None if missing, or if rows were not read.
        after: The case in the second run; None as for `before`.
        differing: The judges that are not the same in both runs, and `the golden case` if it is
            not.
    """

    case: str
    change: Change
    before: CaseSide | None
    after: CaseSide | None
    differing: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalComparison:
    """One prompt on one dataset in two runs.

    Attributes:
        eval: The file and function; empty unless a run has several evals of the dataset.
        before: Version, digest and model in the first run; None if the suite is missing.
        after: Version, digest and model in the second run; None if the suite is missing.
        changes: The changed cases, the worst first.
        unchanged: The number of cases with the same outcome and output.
    """

    prompt: str
    dataset: str
    eval: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    changes: Sequence[CaseChange]
    unchanged: int

    def count(self, change: Change) -> int:
        """The number of cases with this change."""
        return sum(case_change.change == change for case_change in self.changes)


# A packed trial: its number, the digest of its request, its place in `WORST_FIRST`, and the digest
# of its text.
_TRIAL: Final = Struct("<d8sB8s")
# Prompt, dataset, model and eval; the last two are empty where runs match without them.
_Eval: TypeAlias = tuple[str, ...]
_Several: TypeAlias = "AbstractSet[tuple[str, str, int]]"
_Read: TypeAlias = "Callable[[], Iterable[Mapping[str, Any]]]"


@dataclass(slots=True)
class _EvalOutline:
    """One eval of a prompt on one dataset with one model.

    Attributes:
        first: Values of the first row.
        cases: Packed trials by case.
    """

    first: Mapping[str, Any]
    cases: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def trials(self, case: str) -> list[_Trial]:
        """The trials of a case, in order; items that share a completion share a trial."""
        packed = sorted(_TRIAL.iter_unpack(self.cases.get(case, b"")), reverse=True)
        worst = {(number, request): (place, text) for number, request, place, text in packed}
        return [
            _Trial(number, WORST_FIRST[place], text)
            for (number, _), (place, text) in reversed(worst.items())
        ]


class _Trial(NamedTuple):
    number: float
    outcome: str
    text: bytes


@dataclass(slots=True)
class RunOutline:
    """The outcomes of a run and digests of its texts, about 200 bytes per case.

    It excludes the base's trials of a gate.
    """

    evals: dict[_Eval, _EvalOutline] = field(default_factory=dict[_Eval, _EvalOutline])

    def add(self, row: Mapping[str, Any]) -> None:
        """Add one row, in the shape of `TrialRow`."""
        if row.get("side") == "base":
            return
        key = _eval_of(row)
        eval_ = self.evals.get(key)
        if eval_ is None:
            first = {name: row[name] for name in ("version", "prompt_digest", "model")}
            eval_ = self.evals[key] = _EvalOutline(first)
        place = WORST_FIRST.index(row["outcome"])
        trial = _TRIAL.pack(
            row["trial"], _digest(row["request_digest"]), place, _digest(repr(_text(row)))
        )
        case = intern(row["case"])
        eval_.cases[case] = eval_.cases.get(case, b"") + trial

    def count_cases(self, several: _Several) -> dict[_Eval, tuple[int, int]]:
        """The passed and measured trials by prompt, dataset, eval and case, over all models."""
        counts: dict[_Eval, tuple[int, int]] = {}
        for eval_key, eval_ in self.evals.items():
            prompt, dataset, _, eval_node = _identity(eval_key, several)
            for case in eval_.cases:
                passed, measured = counts.get(key := (prompt, dataset, eval_node, case), (0, 0))
                more_passed, trials = _counts(eval_.trials(case))
                counts[key] = (passed + more_passed, measured + trials)
        return counts


def _eval_of(row: Mapping[str, Any]) -> _Eval:
    return row["prompt"], row["dataset"], row["model"], eval_of(row["node"])


def _find_several(outlines: Iterable[RunOutline]) -> _Several:
    """The prompts and datasets of which a run has several models or evals.

    Returns:
        Each with the place of the model or eval in the eval.
    """
    names = [
        {(key[0], key[1], place, key[place]) for key in outline.evals for place in (2, 3)}
        for outline in outlines
    ]
    counts = (Counter(name[:3] for name in of_run) for of_run in names)
    return {key for of_run in counts for key, count in of_run.items() if count > 1}


def _identity(eval_: _Eval, several: _Several) -> _Eval:
    """The part of an eval that is the same in both runs."""
    prompt, dataset, *names = eval_
    parts = [
        name if (prompt, dataset, place) in several else "" for place, name in enumerate(names, 2)
    ]
    return (prompt, dataset, *parts)


def compare_runs(
    before: tuple[RunOutline, _Read],
    after: tuple[RunOutline, _Read],
    *,
    with_outputs: bool,
) -> list[EvalComparison]:
    """Compare the evals of two runs, case by case.

    Evals are matched by prompt and dataset, so two models can be compared. If a run has several
    models or evals for them, these must match, too.

    Args:
        before: The first run, and a function that reads its rows again.
        after: The second run, with such a function.
        with_outputs: Whether to read rows of cases in which only the output changed.
    """
    outlines = before[0], after[0]
    several = _find_several(outlines)
    old, new = (
        {_identity(key, several): eval_ for key, eval_ in outline.evals.items()}
        for outline in outlines
    )
    changes: dict[_Eval, dict[str, Change]] = {}
    unchanged: Counter[_Eval] = Counter()
    for key in dict.fromkeys([*old, *new]):
        sides = [side.get(key) or _EvalOutline({}) for side in (old, new)]
        of_eval = changes[key] = {}
        for case in {**sides[0].cases, **sides[1].cases}:
            change = _change(*(side.trials(case) for side in sides))
            if change is None:
                unchanged[key] += 1
            else:
                of_eval[case] = change
    changed_rows = [
        _changed_rows(changes, several, read, with_outputs=with_outputs)
        for _, read in (before, after)
    ]
    return [
        EvalComparison(
            prompt=key[0],
            dataset=key[1],
            eval=key[3],
            before=old[key].first if key in old else None,
            after=new[key].first if key in new else None,
            changes=[
                _case_change(case, change, *(side.get((key, case), []) for side in changed_rows))
                for case, change in sorted(
                    of_eval.items(), key=lambda changed: _CHANGES.index(changed[1])
                )
            ],
            unchanged=unchanged[key],
        )
        for key, of_eval in changes.items()
    ]


def _changed_rows(
    changes: Mapping[_Eval, Mapping[str, Change]],
    several: _Several,
    read: _Read,
    *,
    with_outputs: bool,
) -> dict[tuple[_Eval, str], list[Mapping[str, Any]]]:
    """The rows of the changed cases of a run."""
    identities = {
        (key, case)
        for key, of_eval in changes.items()
        for case, change in of_eval.items()
        if with_outputs or change != "output"
    }
    rows_by_case: dict[tuple[_Eval, str], list[Mapping[str, Any]]] = {}
    for row in read() if identities else ():
        eval_ = _identity(_eval_of(row), several)
        if (eval_, row["case"]) in identities and row.get("side") != "base":
            rows_by_case.setdefault((eval_, row["case"]), []).append(
                {name: row[name] for name in _COPIED_FIELDS if name in row}
            )
    return rows_by_case


def _case_change(
    case: str, change: Change, old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> CaseChange:
    """A change with the trials that show it; without rows, the change alone."""
    old, new = _in_order(old), _in_order(new)
    sides: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
    if change == "output":
        pairs = zip(old, new, strict=False)
        sides = next((pair for pair in pairs if _text(pair[0]) != _text(pair[1])), (None, None))
    else:
        sides = (
            _first_row(old, "failed" if change == "better" else "passed"),
            _first_row(new, "passed" if change == "better" else "failed"),
        )
    return CaseChange(
        case=case,
        change=change,
        before=_side(old, sides[0]),
        after=_side(new, sides[1]),
        differing=_differences(old, new) if change in {"worse", "better"} else (),
    )


def _differences(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[str]:
    """The judges, and the golden case, that differ between the measured trials of two runs."""
    digests = [
        {
            identity
            for row in rows
            if row["outcome"] != "unmeasured"
            for identity in (
                ("the golden case", row["case_digest"]),
                *((verdict["judge"], verdict["judge_digest"]) for verdict in row["verdicts"]),
            )
        }
        for rows in (old, new)
    ]
    return sorted({name for name, _ in digests[0] ^ digests[1]})


def _change(old: Sequence[_Trial], new: Sequence[_Trial]) -> Change | None:
    """The change of a case; None without one."""
    if not old:
        return "added"
    if not new:
        return "removed"
    (passed, measured), (passes, measures) = _counts(old), _counts(new)
    if not measured or not measures:
        if measured:
            return "unmeasured"
        return "measured" if measures else None
    # Integers, so that 1/3 equals 2/6.
    gain = passes * measured - passed * measures
    if gain:
        return "better" if gain > 0 else "worse"
    # One run may have more trials than the other.
    pairs = zip(old, new, strict=False)
    return "output" if any(before.text != after.text for before, after in pairs) else None


def _side(rows: Sequence[Mapping[str, Any]], identity: Mapping[str, Any] | None) -> CaseSide | None:
    if identity is None:
        return None
    judge, reason = _failure(identity)
    outcomes = [row["outcome"] for row in rows]
    return CaseSide(
        passed=outcomes.count("passed"),
        measured=len(outcomes) - outcomes.count("unmeasured"),
        trials=len(rows),
        output=_text(identity),
        judge=judge,
        reason=reason,
    )


def _in_order(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows by trial; of several items that share a completion, the row of the worst outcome."""
    worst_last = sorted(rows, key=lambda row: WORST_FIRST.index(row["outcome"]), reverse=True)
    worst = {(row["trial"], row["request_digest"]): row for row in worst_last}
    return [worst[key] for key in sorted(worst)]


def _first_row(rows: Sequence[Mapping[str, Any]], outcome: str) -> Mapping[str, Any] | None:
    """The first row with this outcome, else the first row; None without rows."""
    return next(iter([*(row for row in rows if row["outcome"] == outcome), *rows]), None)


def _counts(trials: Sequence[_Trial]) -> tuple[int, int]:
    """The numbers of passed and measured trials."""
    outcomes = [trial.outcome for trial in trials]
    return outcomes.count("passed"), len(outcomes) - outcomes.count("unmeasured")


def _text(row: Mapping[str, Any]) -> str | None:
    output: str | None = row["output"]
    return output if output is not None else row["refusal"]


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).digest()


def _failure(row: Mapping[str, Any]) -> tuple[str, str]:
    """The judge that failed a trial or left it unmeasured, or its test, with the reason."""
    for verdict in row["verdicts"]:
        if verdict["outcome"] == "fail" and verdict.get("blocking", True):
            return verdict["judge"], verdict["reason"]
    if "failed_test" in row:
        return "test", row["failed_test"]
    cause = row["cause"]
    return (cause["kind"], cause["message"]) if cause else ("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledRun:
    """One of the compared runs.

    Attributes:
        label: A, B, C and so on.
        read: Reads its rows, with the label.
        outline: Its outcomes.
    """

    label: str
    record: RunRecord
    read: Callable[[], Iterable[dict[str, Any]]]
    outline: RunOutline = field(default_factory=RunOutline)

    def evals_in(self, joint_record: RunRecord) -> list[EvalSummary]:
        """Its evals in the record of all compared runs."""
        return [eval_ for eval_ in joint_record.evals if eval_.model.endswith(f" {self.label}")]


def labelled_rows(
    read: Callable[[], Iterable[dict[str, Any]]],
    label: str,
    prompt: str | None,
    failed_tests: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    """The rows of a run, or of one prompt in it, with the label of the run.

    Trials of the base in a gate are left out. Passed trials of a test that failed after its judges
    are failed.
    """
    for row in read():
        if row.get("side") != "base" and prompt in {None, row["prompt"]}:
            message = failed_tests.get(row["node"])
            if message and row["outcome"] == "passed" and row["case_outcome"] == "failed":
                row |= {"outcome": "failed", "failed_test": message}
            yield row | {"side": None, "run": label}


def label_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Add the run to the model of a row; the runs share the names of their cases."""
    return {**row, "case": intern(row["case"]), "model": f"{row['model']} {row['run']}"}


def join_runs(runs: Sequence[LabelledRun]) -> RunRecord:
    """Join runs to one, with separate models for each run; fill their outlines."""
    tally = RunTally()
    for run in runs:
        for row in run.read():
            tally.add(label_row(row))
            run.outline.add(row)
        tally.settle(compares_models=True)
    # Before the decision of a gate, its trials have outcomes, and its cases have none.
    undecided = tuple(f" {run.label}" for run in runs if run.record.awaits_decision)
    return runs[0].record.model_copy(
        update={
            "id": " ".join(run.record.id for run in runs),
            "evals": [
                eval_.model_copy(update={"side": "candidate"})
                if eval_.model.endswith(undecided)
                else eval_
                for eval_ in tally.evals(across_versions=True)
            ],
            "decision": None,
            "suggestions": [],
            "failed_tests": {
                f"{run.label} {node}": message
                for run in runs
                for node, message in run.record.failed_tests.items()
            },
        }
    )


def find_differing(runs: Sequence[LabelledRun]) -> tuple[list[dict[str, Any]], int]:
    """Find cases whose pass rate differs between runs.

    Returns:
        These, with passed and measured trials by run, and the number of other cases.
    """
    outlines = {run.label: run.outline for run in runs if run.outline.evals}
    several = _find_several(outlines.values())
    all_counts = {label: outline.count_cases(several) for label, outline in outlines.items()}
    differing: list[dict[str, Any]] = []
    cases = {key: None for counts in all_counts.values() for key in counts}
    for key in cases:
        prompt, dataset, eval_node, case = key
        case_counts = {
            label: list(counts[key]) for label, counts in all_counts.items() if key in counts
        }
        shares = {
            passed / measured if measured else None for passed, measured in case_counts.values()
        }
        if len(case_counts) < len(all_counts):
            shares.add(None)
        if len(shares) > 1:
            differing.append(
                {
                    "prompt": prompt,
                    "dataset": dataset,
                    "eval": eval_node,
                    "case": case,
                    "counts": case_counts,
                }
            )
    return differing, len(cases) - len(differing)
