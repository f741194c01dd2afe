"""What the baselines of a base version know of main, and what of its files cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from regauge.errors import FaultyFileError
from regauge.gate.baselines import baseline_path, key_of, older_names, parse_baseline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from regauge.gate.base._commit import BaseCommit
    from regauge.gate.baselines import Baseline, KeyDifference, StoredHistory
    from regauge.prompts import Prompt
    from regauge.runner import Suite

__all__ = ["Known", "committed_baselines", "known_of", "readable"]

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the baseline says under a key, or else in what the nearest history differs.

    Attributes:
        judges: In which judges another version's history differs, where this one has none.
    """

    history: StoredHistory | None = None
    differences: tuple[KeyDifference, ...] = ()
    judges: tuple[KeyDifference, ...] = ()


def known_of(main: Suite, known: Sequence[Baseline]) -> Known:
    """What baselines, the newest first, know of a suite of main.

    Raises:
        UsageError: None of the suite's judges decides.
    """
    key = key_of(main)
    for one in known:
        if (history := one.find(key)) is not None:
            return Known(history=history)
    nearest = next((near for one in known if (near := one.nearest(key)) is not None), None)
    if nearest is not None:
        return Known(differences=nearest.key.differences(key))
    older = [
        one.key.differences(key)
        for baseline in known
        for one in baseline.histories
        if one.key.dataset == key.dataset
    ]
    judges = (part for part in (older[0] if older else ()) if part.part == "judge")
    return Known(judges=tuple(judges))


def committed_baselines(
    head: Prompt, prompt: Prompt, at: BaseCommit, unreadable: list[str]
) -> list[Baseline]:
    """The committed baselines of a prompt, newest first; under older names where there are none."""

    def read(name: str) -> list[Baseline]:
        path = baseline_path(at.project, name)
        shown = at.project.relative(path)
        read = (
            readable(partial(parse_baseline, data, shown=shown), at, unreadable)
            for data in at.read_newest(path)
        )
        return [one for one in read if one is not None]

    found = [one for name in dict.fromkeys((head.name, prompt.name)) for one in read(name)]
    if not found:
        found = [one for name in older_names(at.project, head.path) for one in read(name)]
    return found


def readable(read: Callable[[], Read], at: BaseCommit, unreadable: list[str]) -> Read | None:
    """What a file of main says; None, with a note, where it cannot be read.

    Args:
        unreadable: The notes so far; each stands there once.
    """
    try:
        return read()
    except FaultyFileError as error:
        fault = error.faults[0]
        place = at.project.relative(fault.path)
        line = f":{fault.line}" if fault.line is not None else ""
        note = f"{place}{line} of {at.ref} cannot be read and is left out: {fault.message}"
        if note not in unreadable:
            unreadable.append(note)
        return None
