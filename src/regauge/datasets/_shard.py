"""A shard: the part of every dataset's cases that one of several machines runs."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from regauge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


ShardBy: TypeAlias = Literal["id", "time"]

SHARDS_MAX: Final = 10_000
"""The most shards of a run."""


def shard_of(case_id: str, count: int) -> int:
    """The shard of a case, from 1: stable on every machine, and when other cases are added.

    The first 8 bytes of SHA-256 over the text `regauge-shard`, a zero byte and the id in UTF-8,
    read as a big-endian number, are multiplied by `count` and divided by 2**64, rounded down.

    >>> shard_of("KubeletDown", 4), shard_of("Watchdog", 4)
    (1, 1)
    """
    text = f"regauge-shard\0{case_id}".encode("utf-8", "backslashreplace")
    return (int.from_bytes(hashlib.sha256(text).digest()[:8], "big") * count >> 64) + 1


def deal_by_time(seconds: Mapping[str, float], *, count: int, first: str) -> list[set[str]]:
    """Deal cases to shards so that all take about as long: the longest first, to the shortest.

    Args:
        seconds: What each case takes.
        count: The number of shards.
        first: A text whose hash names the shard that the first case goes to, so that the longest
            cases of several datasets are on several machines.

    >>> [sorted(part) for part in deal_by_time({"a": 3, "b": 2, "c": 1}, count=2, first="x")]
    [['a'], ['b', 'c']]
    """
    start = shard_of(first, count) - 1
    parts: list[set[str]] = [set() for _ in range(count)]
    loads = [(0.0, number) for number in range(count)]
    heapify(loads)
    for case in sorted(seconds, key=lambda case: (-seconds[case], case)):
        load, number = loads[0]
        parts[(start + number) % count].add(case)
        # Cases without a duration are dealt evenly, too.
        heapreplace(loads, (load + max(seconds[case], 1e-9), number))
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One of several parts of the cases.

    Attributes:
        number: From 1.
        count: The number of shards.
        by: How cases are dealt: by a hash of their id, or by the time that recordings state.
        dealt: Of a dataset that is dealt by time: the ids of this shard's cases.
        plan: The digest of what every shard got then; empty elsewhere.
    """

    number: int
    count: int
    by: ShardBy = "id"
    dealt: Collection[str] | None = field(default=None, repr=False)
    plan: str = ""

    @classmethod
    def parse(cls, text: str, *, by: ShardBy = "id") -> Shard:
        """The shard that `3/20` names.

        Raises:
            UsageError: It names none.
        """
        number, _, count = text.partition("/")
        plain = re.fullmatch(r"[0-9]{1,6}/[0-9]{1,6}", text)
        if not (plain and 1 <= int(number) <= int(count) <= SHARDS_MAX):
            raise UsageError(
                f"--shard takes the number of a shard and their count, up to {SHARDS_MAX:,}, not"
                f" {text!r}\n  fix: write it as 3/20"
            )
        return cls(number=int(number), count=int(count), by=by)

    def __str__(self) -> str:
        return f"shard {self.number} of {self.count}"

    def holds(self, case_id: str) -> bool:
        """Return whether a case is of this shard."""
        if self.dealt is not None:
            return case_id in self.dealt
        return shard_of(case_id, self.count) == self.number
