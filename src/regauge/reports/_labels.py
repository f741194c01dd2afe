"""How labels were told apart: outputs, precision and recall for each expected label."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from regauge.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.reports._schema import JudgeName, LabelRow, SuiteSummary

__all__ = ["LabelCounts", "label_table", "wrong_labels"]

_LABELS_MAX: Final = 12
_LABEL_CHARS_MAX: Final = 40
# With fewer outputs per label on average, the values are hardly classes.
_EACH_MIN: Final = 2
_NONE: Final = "(no label)"
_OTHER: Final = "(other)"


@dataclass(slots=True)
class LabelCounts:
    """How often each output was given for each expected label.

    Attributes:
        counts: By expected label and output.
        usable: Whether all values are short enough for labels.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    usable: bool = True

    def add(self, verdict: Mapping[str, Any]) -> bool:
        """Count a verdict that compares labels; False where it does not."""
        if not verdict.get("labels") or verdict["outcome"] == "abstain" or not self.usable:
            return False
        expected = _label(verdict.get("expected"))
        if not expected:
            self.usable = False
            return False
        passed = verdict["outcome"] == "pass"
        given = verdict.get("actual")
        output = expected if passed else _NONE if given is None else _label(given) or _OTHER
        self.counts[expected, output] += 1
        # An eval on free texts must not keep them all.
        self.usable = len({one for one, _ in self.counts}) <= _LABELS_MAX * _LABEL_CHARS_MAX
        return True

    def rows(self) -> list[LabelRow]:
        """A row per expected label; none where the values are no labels."""
        from regauge.reports._schema import LabelRow

        labels = sorted({expected for expected, _ in self.counts})
        total = self.counts.total()
        if not self.usable or not 2 <= len(labels) <= _LABELS_MAX:  # noqa: PLR2004 - two are told apart
            return []
        if total < _EACH_MIN * len(labels):
            return []
        known = {*labels, _NONE}
        merged: Counter[tuple[str, str]] = Counter()
        for (expected, output), count in self.counts.items():
            merged[expected, output if output in known else _OTHER] += count
        given = {one: sum(merged[other, one] for other in labels) for one in labels}
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
                    precision=right / given[label] if given[label] else None,
                    recall=right / count,
                    outputs=outputs,
                )
            )
        return rows


def _label(value: Any) -> str:
    """A value as a label; empty where it is none."""
    values: list[Any] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
    value = values[0] if len(values) == 1 else ""
    if isinstance(value, bool | int):
        return str(value).lower()
    if not isinstance(value, str) or "\n" in value or len(value) > _LABEL_CHARS_MAX:
        return ""
    return value.strip()


def label_table(judge: JudgeName) -> list[list[str]]:
    """The confusion matrix with precision and recall, a heading first; empty without labels."""
    rows = judge.labels
    if not rows:
        return []
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


def wrong_labels(suite: SuiteSummary) -> list[JudgeName]:
    """The judges of a suite that compare labels and found a wrong one.

    A gate's own report states what it decided; its HTML and JSON reports hold the matrices.
    """
    if suite.arm is not None:
        return []
    return [judge for judge in suite.judges if any(row.recall < 1 for row in judge.labels)]
