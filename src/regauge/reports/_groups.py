"""Cases of one kind: same check, expected value and output, or the same cause."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.reports._decision import CaseDocument

__all__ = ["CaseGroup", "groups_of"]

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
    found = [CaseGroup(kind=kind, cases=members) for kind, members in groups.items()]
    return sorted(found, key=lambda group: -len(group.cases))


def _kind(case: CaseDocument) -> str:
    if case.verdict == "unmeasured":
        return case.message.removeprefix(f"{case.prompt}/{case.case}: ").removesuffix(".")
    failing = case.failing
    if failing is None:
        return ""
    if failing.expected is None or failing.output is None:
        return failing.judge
    expected, output = _shortened(failing.expected), _shortened(failing.output)
    if not (expected and output):
        return failing.judge
    return f"{failing.judge}: expected {expected}, output {output}"


def _shortened(value: object) -> str:
    """A value that many cases can share, on one line; empty where it is longer than that."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= _VALUE_CHARS_MAX else ""
