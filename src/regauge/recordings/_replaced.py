"""Recorded completions that were replaced more often than the others: a selection shows in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Collection

    from regauge.recordings._file import RecordingsFile

__all__ = ["Replacements", "replacements_in"]

_NAMED_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacements:
    """Completions of one version that were replaced more often than others of it.

    Attributes:
        version: Of the prompt; None where it has none.
        recorded: How many completions of it are recorded under the same trial number.
        cases: How often more than the least replaced one, by case; more than 0.
    """

    version: str | None
    recorded: int
    cases: dict[str, int]

    def __str__(self) -> str:
        most = max(self.cases.values())
        names = sorted(self.cases, key=lambda case: (-self.cases[case], case))
        more = ", ..." if len(names) > _NAMED_MAX else ""
        were = "was" if len(names) == 1 else "were"
        return (
            f"{len(names)} of {plural(self.recorded, 'completion')} of"
            f" {self.version or 'this prompt'} {were} replaced more often than the others, up to"
            f" {plural(most, 'time')} more: {', '.join(names[:_NAMED_MAX])}{more}"
        )


def replacements_in(
    file: RecordingsFile, *, digests: Collection[str] | None = None
) -> list[Replacements]:
    """What was replaced unevenly in the recordings of a prompt, by version and trial number.

    Args:
        file: The recordings.
        digests: Only completions of these requests.
    """
    if not file.any_replaced:
        return []
    counts: dict[tuple[str | None, int], dict[str, int]] = {}
    for recording in file:
        if digests is None or recording.key.digest in digests:
            of_version = counts.setdefault((recording.version, recording.key.trial), {})
            known = of_version.get(recording.case, 0)
            of_version[recording.case] = max(known, recording.replaced)
    return [
        Replacements(
            version=version,
            recorded=len(cases),
            cases={case: count - least for case, count in cases.items() if count > least},
        )
        for (version, _), cases in counts.items()
        if (least := min(cases.values())) < max(cases.values())
    ]
