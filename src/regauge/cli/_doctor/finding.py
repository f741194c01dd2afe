"""One thing that `regauge doctor` has looked at, and how it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from regauge.digests import JSON
    from regauge.errors import Fault
    from regauge.project import Project

__all__ = ["Finding", "Level", "findings_of"]

Level: TypeAlias = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found.

    Attributes:
        check: What was looked at, in a word or two.
        level: `ok`, `warning` (it works, but not as it could) or `error` (it does not work, or
            what it measures means nothing).
        message: What was found.
        fix: What to do about it.
    """

    check: str
    level: Level
    message: str
    fix: str = ""

    def __str__(self) -> str:
        return self.message + (f"\n  fix: {self.fix}" if self.fix else "")

    def to_json(self) -> dict[str, JSON]:
        """A plain document."""
        return {
            "check": self.check,
            "level": self.level,
            "message": self.message,
            "fix": self.fix,
        }


def findings_of(
    faults: Iterable[Fault], project: Project, *, check: str, level: Level = "error"
) -> Iterator[Finding]:
    """One finding per fault of a file."""
    for fault in faults:
        place = project.relative(fault.path).as_posix()
        place += f":{fault.line}" if fault.line is not None else ""
        yield Finding(check=check, level=level, message=f"{place}: {fault.message}", fix=fault.fix)
