"""The evidence of a decision as JSON: cases with histories of the base, policy, trials."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from regauge.digests import digest_of
from regauge.errors import MissingOutputError, MissingRecordingError, UsageError
from regauge.evidence import Count
from regauge.gate._policy import GatePolicy
from regauge.gate._types import GateCase, History, TrialFacts
from regauge.providers import shown_messages, shown_output
from regauge.stats import CasePolicy, CriticalPolicy, NetPolicy, SuitePolicy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from regauge.gate._types import NotRecorded
    from regauge.runner import Trial

__all__ = [
    "case_from_json",
    "case_to_json",
    "facts_of_row",
    "facts_of_trial",
    "policy_from_json",
    "policy_to_json",
]

_NOT_RECORDED = frozenset({MissingOutputError.__name__, MissingRecordingError.__name__})


def case_to_json(case: GateCase) -> dict[str, Any]:
    """A case as plain JSON values."""
    history = case.history
    # Written out: of ten thousand cases `asdict` takes seconds.
    return {
        "prompt": case.prompt,
        "case": case.case,
        "checks": [*case.checks],
        "history": None
        if history is None
        else {
            "checks": {check: _count_json(count) for check, count in history.checks.items()},
            "whole": _count_json(history.whole),
            "scores": {check: [*scores] for check, scores in history.scores.items()},
            "sessions": [*history.sessions],
            "distinct_answers": history.distinct_answers,
        },
        "state": case.state,
        "tier": case.tier,
        "strict": case.strict,
        "accepted": case.accepted,
        "broke_before": case.broke_before,
        "recorded": case.recorded,
    }


def _count_json(count: Count) -> dict[str, int]:
    return {"passed": count.passed, "trials": count.trials}


def case_from_json(document: Mapping[str, Any]) -> GateCase:
    """Read the document that `case_to_json` writes.

    Raises:
        UsageError: It is something else.
    """
    try:
        values: dict[str, Any] = {**document, "checks": tuple(document["checks"])}
        history = values.pop("history")
        return GateCase(**values, history=_history(history) if history is not None else None)
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable("a case", error) from error


def policy_to_json(policy: GatePolicy) -> dict[str, Any]:
    """A policy as plain JSON values."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(policy)))
    return plain


def policy_from_json(document: Mapping[str, Any]) -> GatePolicy:
    """Read the document that `policy_to_json` writes.

    Raises:
        UsageError: It is something else.
    """
    try:
        values: dict[str, Any] = {**document}
        values["case"] = CasePolicy(**_tuples(document["case"]))
        values["suite"] = SuitePolicy(**_tuples(document["suite"]))
        values["net"] = NetPolicy(**_tuples(document["net"]))
        values["critical"] = CriticalPolicy(**document["critical"])
        return GatePolicy(**values)
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable("its policy", error) from error


def facts_of_trial(
    trial: Trial, checks: Iterable[str], *, graded: Collection[str]
) -> TrialFacts | None:
    """The checks that must pass, as one judged trial showed them; None if it is unmeasured.

    Args:
        trial: Of either arm.
        checks: The names of the judges that must pass.
        graded: Those of them whose scores are compared, next to whether they pass.
    """
    if trial.error is not None or trial.answer is None:
        return None
    completion = trial.answer.completion
    return _facts(
        {judged.judge: (judged.verdict.outcome, judged.verdict.score) for judged in trial.verdicts},
        checks,
        graded,
        answer=shown_output(completion.text, completion.refusal, shown_messages(completion)),
    )


def facts_of_row(
    row: Mapping[str, Any], checks: Iterable[str], *, graded: Collection[str]
) -> TrialFacts | NotRecorded | None:
    """The same of a row of a run record."""
    if row["cause"] is not None and row["cause"]["kind"] in _NOT_RECORDED:
        return "not-recorded"
    if row["cause"] is not None or row["source"] is None:
        return None
    return _facts(
        {verdict["judge"]: (verdict["outcome"], verdict["score"]) for verdict in row["verdicts"]},
        checks,
        graded,
        answer=shown_output(row["answer"], row["refusal"], row.get("messages", ())),
    )


def _facts(
    verdicts: Mapping[str, tuple[str, float]],
    checks: Iterable[str],
    graded: Collection[str],
    *,
    answer: str | None,
) -> TrialFacts | None:
    bits: dict[str, bool | None] = {}
    scores: dict[str, float] = {}
    for check in checks:
        if check not in verdicts:
            return None
        outcome, score = verdicts[check]
        bits[check] = None if outcome == "abstain" else outcome == "pass"
        if outcome != "abstain" and check in graded:
            scores[check] = score
    return TrialFacts(checks=bits, scores=scores, answer=digest_of(answer))


def _tuples(document: Mapping[str, Any]) -> dict[str, Any]:
    lists: dict[str, list[Any]] = {k: v for k, v in document.items() if isinstance(v, list)}
    return {**document, **{name: tuple(values) for name, values in lists.items()}}


def _history(document: Mapping[str, Any]) -> History:
    return History(
        checks={check: Count(**count) for check, count in document["checks"].items()},
        whole=Count(**document["whole"]),
        scores={check: tuple(scores) for check, scores in document["scores"].items()},
        sessions=tuple(document["sessions"]),
        distinct_answers=document["distinct_answers"],
    )


def _unreadable(what: str, error: Exception) -> UsageError:
    return UsageError(
        f"the decision of this run cannot be read: {what}: {error}\n"
        "  fix: read it with the regauge that wrote it"
    )
