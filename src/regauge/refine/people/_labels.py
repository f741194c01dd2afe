"""Labels of people as evidence: only those of cases that proposers may learn of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.refine.people._evidence import Evidence
from regauge.refine.people._words import cut

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from regauge.project import Project

__all__ = ["labels_of"]

_ANSWER_CHARS = 600


def labels_of(
    project: Project, judges: Iterable[str], train: Collection[str]
) -> tuple[Evidence, ...]:
    """What people said of answers to some golden cases, judge by judge.

    Labels that compare two answers say nothing of either, and are left out.

    Args:
        project: Where labels are.
        judges: Whose labels count.
        train: The ids of the cases; a label of any other case is not even kept.

    Raises:
        DatasetError: A file of labels cannot be used.
    """
    from regauge.judges.calibration import labels_path, load_labels

    found: list[Evidence] = []
    for judge in judges:
        if not labels_path(judge, project).is_file():
            continue
        labels = load_labels(judge, project)
        if labels.kind == "pairs":
            continue
        found += [
            Evidence(
                kind="label",
                text=cut(label.why),
                by=label.by,
                verdict=label.says if isinstance(label.says, str) else f"{label.says:g} of 1",
                case=label.case,
                judge=judge,
                answer=cut(label.answers[0], _ANSWER_CHARS),
                at=label.at,
            )
            for label in labels.labels
            if label.case in train
        ]
    return tuple(found)
