"""A drill is many tries; each tries to break one promise and returns why it could."""

from __future__ import annotations

import math
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Drill", "Report", "SkippedTryError", "Try", "run_drill"]


class SkippedTryError(Exception):
    """This machine cannot make the try; the message names the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One attempt.

    Attributes:
        failure: Makes the attempt in an empty directory and returns what broke, or "".
        known: A documented limit, for attempts that nothing can stop; these never count as failed.
    """

    name: str
    failure: Callable[[Path], str]
    known: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """A kind of attempt.

    Attributes:
        tries: Yields the attempts; shared work is done in the directory that is passed.
        quick: The number of attempts in a quick run.
        jobs: Attempts at the same time; 1 where they need the machine to themselves.
        tolerated: The number of failures up to which the promise holds.
    """

    name: str
    about: str
    tries: Callable[[Path], Iterator[Try]]
    quick: int
    jobs: int = 2
    tolerated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of one drill."""

    drill: Drill
    tried: int
    seconds: float
    failed: dict[str, str] = field(default_factory=dict[str, str])
    known: dict[str, str] = field(default_factory=dict[str, str])
    skipped: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def holds(self) -> bool:
        return self.tried > 0 and len(self.failed) <= self.drill.tolerated

    def to_json(self) -> dict[str, object]:
        return {
            "tried": self.tried,
            "failed": self.failed,
            "tolerated": self.drill.tolerated,
            "known": self.known,
            "skipped": self.skipped,
            "holds": self.holds,
            "seconds": round(self.seconds, 1),
        }


def run_drill(
    drill: Drill, *, quick: bool, matching: str = "", seconds_max: float = math.inf
) -> Report:
    """Make the attempts of a drill, each in a directory of its own that is deleted after it.

    Args:
        quick: Whether to make a part of them.
        matching: Only attempts with this in their names.
        seconds_max: No attempt but the first begins later than this.
    """
    started = time.monotonic()
    failed: dict[str, str] = {}
    known: dict[str, str] = {}
    skipped: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="drill-", ignore_cleanup_errors=True) as shared:
        tries = list(_until(started + seconds_max, matching, drill.tries(Path(shared))))
        if quick:
            tries = _evenly_spaced(tries, drill.quick)

        def attempt(each: Try) -> str:
            if each is not tries[0] and time.monotonic() - started > seconds_max:
                raise SkippedTryError("no time is left")
            with tempfile.TemporaryDirectory(prefix="try-", ignore_cleanup_errors=True) as root:
                return each.failure(Path(root))

        with ThreadPoolExecutor(drill.jobs) as pool:
            outcomes = [(each, pool.submit(attempt, each)) for each in tries]
        for each, outcome in outcomes:
            error = outcome.exception()
            if isinstance(error, SkippedTryError):
                skipped[each.name] = str(error)
            elif error is not None:
                failed[each.name] = f"{type(error).__name__}: {error}"
            elif why := outcome.result():
                (known if each.known else failed)[each.name] = each.known or why
    return Report(
        drill=drill,
        tried=len(tries) - len(skipped),
        seconds=time.monotonic() - started,
        failed=failed,
        known=known,
        skipped=skipped,
    )


def _until(end: float, matching: str, tries: Iterator[Try]) -> Iterator[Try]:
    """The attempts with words in their names; some drills do their work while they list them."""
    for each in tries:
        if matching in each.name:
            yield each
            if time.monotonic() > end:
                return


def _evenly_spaced(tries: list[Try], count: int) -> list[Try]:
    if len(tries) <= count:
        return tries
    return [tries[number * len(tries) // count] for number in range(count)]
