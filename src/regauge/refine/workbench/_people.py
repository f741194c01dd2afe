"""What people said of a prompt: its labels, and what of all that proposers may know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.refine.feedback import Heard, labels_of
from regauge.refine.workbench._hints import hints_of
from regauge.refine.workbench._setting import public_of
from regauge.refine.workbench._subject import cases_of

if TYPE_CHECKING:
    from regauge.project import Project
    from regauge.refine.feedback import Evidence
    from regauge.refine.loop import Setting
    from regauge.refine.workbench._subject import Subject

__all__ = ["hints_for", "labels_for"]


def labels_for(project: Project, subject: Subject) -> Heard:
    """The labels of people on train cases, for every judge of theirs, be it one that only informs.

    Raises:
        DatasetError: A file of labels cannot be used.
    """
    judges = [judge.name for one in subject.members.values() for judge in one.suite.judges]
    train = cases_of(subject.members, "train")
    return Heard(said=labels_of(project, dict.fromkeys(judges), train))


def hints_for(
    subject: Subject, setting: Setting, *, show_goldens: bool = False
) -> tuple[Evidence, ...]:
    """What people said of a prompt's answers, as far as proposers may know of it."""
    return hints_of(
        subject.heard.said,
        cases_of(subject.members, "train"),
        cases_of(subject.members, "holdout"),
        public=(setting.base.whole, *public_of(subject, setting.checks.values())),
        policy=setting.policy.guard,
        show_goldens=show_goldens,
    )
