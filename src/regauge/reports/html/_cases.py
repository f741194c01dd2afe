"""The cases of a run as plain documents, which the page looks through."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from regauge.reports._gate_console import VERDICTS, verdict_words
from regauge.reports.html._golden import golden_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.digests import JSON
    from regauge.reports._decision import AnswerDocument, CaseDocument
    from regauge.reports.html._source import ReportSource

__all__ = ["TRACKED", "cases_by_prompt"]

# Of a case of the tier `tracked`: it blocks nothing.
TRACKED = "failed (tracked)"
# Of another case whose failure does not fail the run.
NOT_BLOCKING = "failed (not blocking)"

# What the page shows of a trial under the same name; the rest is in `_trial`.
_SAME = (
    *("outcome", "answer", "refusal", "finish_reason", "source", "answered_by", "fingerprint"),
    *("input_tokens", "output_tokens", "latency_s", "cost_usd", "attempts", "cause"),
    *("request_digest", "model", "version", "prompt_digest"),
)


@dataclass(slots=True)
class _Case:
    """The trials of one case, by arm."""

    first: Mapping[str, Any]
    trials: list[dict[str, JSON]] = field(default_factory=list[dict[str, "JSON"]])
    counts: dict[str, list[int]] = field(default_factory=dict[str, list[int]])


def cases_by_prompt(source: ReportSource) -> dict[str, list[dict[str, JSON]]]:
    """By prompt, its cases with their trials, in the order of the run.

    Where two evals have the same case of a prompt, the second is called `<case>~2`.
    """
    gate = source.record.decision
    decided = {(case.prompt, case.case): case for case in gate.cases} if gate else {}
    cases: dict[tuple[str, str], _Case] = {}
    for row in source.rows:
        _add(cases, row, "base" if row.get("arm") == "main" else "candidate")
    met = {(case.first["prompt"], case.first["case"]) for case in cases.values()}
    for row in source.against_rows:
        if (row["prompt"], row["case"]) in met and row.get("arm") != "main":
            _add(cases, row, "base", only_known=True)
    by_prompt: dict[str, list[dict[str, JSON]]] = {}
    ids: dict[tuple[str, str], int] = {}
    for case in cases.values():
        name = (case.first["prompt"], case.first["case"])
        ids[name] = ids.get(name, 0) + 1
        document = _document(case, decided.get(name), source)
        if ids[name] > 1:
            document["id"] = f"{name[1]}~{ids[name]}"
        by_prompt.setdefault(name[0], []).append(document)
    for name, said in decided.items():
        if name not in met:
            by_prompt.setdefault(name[0], []).append(_unrun(said))
    return by_prompt


def _add(
    cases: dict[tuple[str, str], _Case],
    row: Mapping[str, Any],
    arm: str,
    *,
    only_known: bool = False,
) -> None:
    key = (row["node"], row["case"])
    if only_known and key not in cases:
        return
    case = cases.setdefault(key, _Case(first=row))
    if arm == "candidate" and not any(trial["arm"] == "candidate" for trial in case.trials[:1]):
        case.first = row  # main's trials may stand first
    case.trials.append(_trial(row, arm))
    count = case.counts.setdefault(arm, [0, 0])
    count[0] += row["outcome"] == "passed"
    count[1] += row["outcome"] != "unmeasured"


def _trial(row: Mapping[str, Any], arm: str) -> dict[str, JSON]:
    shown = {name: row[name] for name in _SAME if row[name] is not None}
    return {"arm": arm, "n": row["trial"], **shown, "verdicts": row["verdicts"]}


def _document(case: _Case, said: CaseDocument | None, source: ReportSource) -> dict[str, JSON]:
    row = case.first
    verdict = row["case_outcome"]
    if verdict == "failed" and row["tier"] == "tracked":
        verdict = TRACKED
    elif row.get("not_blocking"):
        verdict = NOT_BLOCKING
    document: dict[str, JSON] = {
        "id": row["case"],
        "dataset": row["dataset"],
        "node": row["node"],
        "tier": row["tier"],
        "split": row["split"],
        "tags": row["tags"],
        "verdict": verdict,
        "golden": golden_of(source.golden[row["dataset"]], row["case"], row["case_digest"]),
        "trials": list(case.trials),
        "counts": {arm: list(count) for arm, count in case.counts.items()},
    }
    if said is not None:
        document |= _said(said)
    return document


def _said(said: CaseDocument) -> dict[str, JSON]:
    """What the gate says of a case."""
    document: dict[str, JSON] = {
        "verdict": verdict_words(said.verdict),
        "state": said.state,
        "blocks": said.blocks,
        "message": said.message,
        "checks": [
            {**check.model_dump(mode="json"), "verdict": _words(check.verdict)}
            for check in said.checks
        ],
        "evidence": [_evidence(one) for one in (said.passing, said.failing) if one],
    }
    if said.accepted:
        document["accepted"] = said.accepted
    if said.edit_sensitive:
        document["sensitive"] = True
    if said.before.trials:
        document["before"] = [said.before.passed, said.before.trials]
    return document


def _words(verdict: str) -> str:
    return VERDICTS[verdict].column if verdict in VERDICTS else verdict


def _evidence(answer: AnswerDocument) -> dict[str, JSON]:
    return {
        "arm": "base" if answer.arm == "main" else "candidate",
        "n": answer.trial,
        "answer": answer.text,
        "judge": answer.judge,
        "reason": answer.reason,
    }


def _unrun(said: CaseDocument) -> dict[str, JSON]:
    """A case that the gate speaks of and that has no trial in this run."""
    return {
        "id": said.case,
        "dataset": "",
        "node": said.node,
        "tier": said.tier,
        "split": "",
        "tags": [],
        "golden": {"problem": "The case has no trial in this run."},
        "trials": [],
        "counts": {},
        **_said(said),
    }
