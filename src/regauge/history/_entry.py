"""Turns a run's record and rows into what the history holds of it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from regauge.digests import digest_of
from regauge.history._types import MeasuredSuite, RunEntry, TrialEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from regauge.reports import RunRecord, SuiteSummary

__all__ = ["run_entry"]


def run_entry(record: RunRecord, rows: Iterable[Mapping[str, Any]]) -> RunEntry:
    """What the history holds of a run.

    Args:
        record: Of the run.
        rows: All of its rows, in the shape of `TrialRow`.
    """
    kept = list(rows)
    by_suite: defaultdict[tuple[str | None, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in kept:
        by_suite[
            row["prompt"], row["version"], row["dataset"], row["model"], row.get("arm")
        ].append(row)
    return RunEntry(
        id=record.id,
        started_at=record.started_at,
        finished_at=record.finished_at,
        # ASCII: no database has trouble with it, whatever a model answered.
        document=json.dumps(record.model_dump(mode="json")),
        suites=[
            _suite(
                record,
                suite,
                by_suite[suite.prompt, suite.version, suite.dataset, suite.model, suite.arm],
            )
            for suite in record.suites
        ],
        trials=[_trial(number, row) for number, row in enumerate(kept)],
    )


def _suite(
    record: RunRecord, suite: SuiteSummary, rows: Sequence[Mapping[str, Any]]
) -> MeasuredSuite:
    first: dict[str, Mapping[str, Any]] = {}
    drawn: Counter[str] = Counter()
    for row in rows:
        drawn[row["node"]] += 1
        known = first.get(row["node"])
        if known is None or row["trial"] < known["trial"]:
            first[row["node"]] = row
    # A gate draws again what failed, so there the first trials are what is like other runs.
    outcome = "case_outcome" if suite.arm is None else "outcome"
    outcomes = [row[outcome] for row in first.values()]
    return MeasuredSuite(
        run=record.id,
        started_at=record.started_at,
        commit=record.git.commit if record.git else None,
        dirty=record.git.dirty if record.git else False,
        prompt=_plain(suite.prompt),
        version=suite.version,
        prompt_digest=suite.prompt_digest,
        dataset=_plain(suite.dataset),
        model=_plain(suite.model),
        arm=suite.arm,
        cases=len(outcomes),
        measured=len(outcomes) - outcomes.count("unmeasured"),
        passed=outcomes.count("passed"),
        trials=max(drawn.values(), default=0) if suite.arm is None else 1,
        answers=suite.replayed + suite.live,
        cost_usd=suite.cost_usd,
        latency_p50_s=suite.latency_p50_s,
        judges_digest=digest_of(sorted(judge.digest for judge in suite.judges if judge.gates)),
        cases_digest=digest_of(sorted([row["case"], row["case_digest"]] for row in first.values())),
    )


def _trial(number: int, row: Mapping[str, Any]) -> TrialEntry:
    return TrialEntry(
        number=number,
        prompt=_plain(row["prompt"]),
        case=_plain(row["case"]),
        arm=row.get("arm"),
        trial=row["trial"],
        outcome=row["outcome"],
        row=json.dumps(row),
    )


def _plain(text: str) -> str:
    """A name without what PostgreSQL cannot hold."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
