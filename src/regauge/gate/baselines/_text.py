"""A baseline as text: one line for each case, sorted, the same bytes every time."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.gate._types import Count
    from regauge.gate.baselines._baseline import (
        Baseline,
        CaseTrials,
        Session,
        StoredHistory,
    )

__all__ = ["SCHEMA_VERSION", "baseline_text", "numbers_of", "plain_scores", "ranges_text"]

SCHEMA_VERSION: Final = 1


def baseline_text(baseline: Baseline) -> str:
    """A baseline as its file has it."""
    head = [f'  "schema_version": {SCHEMA_VERSION}', f'  "prompt": {_json(baseline.prompt)}']
    head += [
        f'  "{name}": {_listed([(history, "") for history in histories])}'
        for name, histories in (
            ("histories", baseline.histories),
            ("previous", baseline.previous),
        )
    ]
    if baseline.anchors:
        kept = [(anchor.history, anchor.drawn_for) for anchor in baseline.anchors]
        head.append(f'  "anchors": {_listed(kept)}')
    return "{\n" + ",\n".join(head) + "\n}\n"


def ranges_text(numbers: Iterable[int]) -> str:
    """Rising numbers as text: `100-103,105`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{a}-{b}" if a != b else f"{a}" for a, b in parts)


def numbers_of(text: str) -> tuple[int, ...]:
    """The rising numbers that a text such as `100-103,105` names, at least one.

    Raises:
        ValueError: It names none, or not in rising order.
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match is None:
            raise ValueError(f"{text!r} are no trial numbers such as 100-103,105")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or (found and first <= found[-1]):
            raise ValueError(f"trial numbers {text!r} do not rise")
        found += range(first, last + 1)
    return tuple(found)


def plain_scores(count: Count) -> tuple[float, ...]:
    """The scores of a judge that only passes and fails: these are not written."""
    return (0.0,) * count.failed + (1.0,) * count.passed


def _listed(histories: Sequence[tuple[StoredHistory, str]]) -> str:
    if not histories:
        return "[]"
    ordered = sorted(histories, key=_order)
    return "[\n" + ",\n".join(_history_text(*known) for known in ordered) + "\n  ]"


def _order(known: tuple[StoredHistory, str]) -> tuple[str, str, str]:
    history, _ = known
    return history.key.dataset, history.key.model, str(history)


def _history_text(history: StoredHistory, drawn_for: str) -> str:
    key = history.key
    lines = [
        f'      "prompt_digest": {_json(key.prompt)}',
        f'      "version": {_json(history.version)}',
        *([f'      "drawn_for": {_json(drawn_for)}'] if drawn_for else []),
        f'      "model": {_json(key.model)}',
        f'      "parameters": {_json(key.parameters, ordered=True)}',
        f'      "dataset": {_json(key.dataset)}',
        _block(
            "judges", [f"{_json(name)}: {_json(key.judges[name])}" for name in sorted(key.judges)]
        ),
        *([f'      "audited": {_json(history.audited)}'] if history.audited else []),
        _block("sessions", [_session_text(session) for session in history.sessions], ends="[]"),
        _block(
            "cases",
            [f"{_json(name)}: {_case_text(history.cases[name])}" for name in sorted(history.cases)],
        ),
    ]
    return "    {\n" + ",\n".join(lines) + "\n    }"


def _block(name: str, lines: Sequence[str], *, ends: str = "{}") -> str:
    if not lines:
        return f'      "{name}": {ends}'
    inner = ",\n".join(f"        {line}" for line in lines)
    return f'      "{name}": {ends[0]}\n{inner}\n      {ends[1]}'


def _session_text(session: Session) -> str:
    document: dict[str, Any] = {
        "id": session.id,
        "trials": ranges_text(range(session.first, session.last + 1)),
    }
    if session.served:
        document["served"] = list(session.served)
    return _json(document)


def _case_text(case: CaseTrials) -> str:
    trials = len(case.drawn)
    document: dict[str, Any] = {
        "digest": case.digest,
        "trials": trials,
        "passed": case.passed,
        "drawn": ranges_text(case.drawn),
        "answers": list(case.answers),
    }
    names = sorted(case.checks)
    document |= {"silent": case.silent} if case.silent else {}
    failed = {name: case.checks[name].failed for name in names if case.checks[name].failed}
    silent = {name: trials - case.checks[name].trials for name in names}
    document |= {"failed": failed} if failed else {}
    document |= {"abstained": given} if (given := _above_zero(silent)) else {}
    scores = {
        name: list(case.scores[name])
        for name in names
        if name in case.scores and case.scores[name] != plain_scores(case.checks[name])
    }
    document |= {"scores": scores} if scores else {}
    return _json(document)


def _above_zero(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _json(value: Any, *, ordered: bool = False) -> str:
    """One line; keys stand as they are given, unless they have no order of their own."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=dict, sort_keys=ordered)
