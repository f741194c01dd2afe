"""Datasets: finds and reads golden files, and assigns cases to shards."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heapreplace
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, overload

from regauge.datasets._case import Reading, Record, Source, Texts, read_cases
from regauge.datasets._formats import ToolFiles, read_jsonl, read_yaml
from regauge.datasets._table import read_csv, read_parquet
from regauge.digests import digest_of_mapping
from regauge.errors import DatasetError, Diagnostic, UsageError
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from regauge.datasets._case import GoldenCase


ShardBy: TypeAlias = Literal["id", "time"]

SHARDS_MAX: Final = 10_000
"""The most shards of a run."""


def shard_of(case_id: str, count: int) -> int:
    """The shard of a case, from 1: the same on every machine, and when cases are added.

    The first 8 bytes of SHA-256 over `regauge-shard`, a zero byte and the id in UTF-8 are read
    as a big-endian number. It is multiplied by `count` and divided by 2**64, rounded down.

    >>> shard_of("KubeletDown", 4), shard_of("Watchdog", 4)
    (1, 1)
    """
    text = f"regauge-shard\0{case_id}".encode("utf-8", "backslashreplace")
    return (int.from_bytes(hashlib.sha256(text).digest()[:8], "big") * count >> 64) + 1


def assign_by_time(seconds: Mapping[str, float], *, count: int, first: str) -> list[set[str]]:
    """Assign cases to shards of about equal duration: the longest case first, to the shortest.

    Args:
        seconds: The duration of each case, by id.
        count: The number of shards.
        first: A text whose hash selects the shard of the first case, so that the longest cases of
            several datasets are on different machines.

    >>> [sorted(part) for part in assign_by_time({"a": 3, "b": 2, "c": 1}, count=2, first="x")]
    [['a'], ['b', 'c']]
    """
    start = shard_of(first, count) - 1
    parts: list[set[str]] = [set() for _ in range(count)]
    loads = [(0.0, number) for number in range(count)]
    heapify(loads)
    for case in sorted(seconds, key=lambda case: (-seconds[case], case)):
        load, number = loads[0]
        parts[(start + number) % count].add(case)
        # Cases without a duration are spread evenly, too.
        heapreplace(loads, (load + max(seconds[case], 1e-9), number))
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One of several parts of the cases.

    Attributes:
        number: From 1.
        count: The number of shards.
        assigned_by: The rule of assignment: a hash of the id, or the latency in recordings.
        case_ids: The ids of this shard's cases, if assigned by time; None otherwise.
        plan: The digest of all shards' cases, if assigned by time; empty otherwise.
    """

    number: int
    count: int
    assigned_by: ShardBy = "id"
    case_ids: Collection[str] | None = field(default=None, repr=False)
    plan: str = ""

    @classmethod
    def parse(cls, text: str, *, assigned_by: ShardBy = "id") -> Shard:
        """Parse a shard, such as `3/20`.

        Raises:
            UsageError: The text is not a shard.
        """
        number, _, count = text.partition("/")
        plain = re.fullmatch(r"[0-9]{1,6}/[0-9]{1,6}", text)
        if not (plain and 1 <= int(number) <= int(count) <= SHARDS_MAX):
            raise UsageError(
                f"--shard {text!r} is not a shard: they are numbered from 1 to their count, which"
                f" is {SHARDS_MAX:,} at most\n  fix: write the third of 20 as 3/20"
            )
        return cls(number=int(number), count=int(count), assigned_by=assigned_by)

    def __str__(self) -> str:
        return f"shard {self.number} of {self.count}"

    def includes(self, case_id: str) -> bool:
        """Return whether this shard has a case."""
        if self.case_ids is not None:
            return case_id in self.case_ids
        return shard_of(case_id, self.count) == self.number


_READERS: dict[str, Callable[[Source], Iterable[Record]]] = {
    ".jsonl": read_jsonl,
    ".yaml": read_yaml,
    ".yml": read_yaml,
    ".csv": read_csv,
    ".parquet": read_parquet,
}
# Enough to see the problem; a file of another format has an error on every line.
_ERRORS_SHOWN_MAX = 100


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """The golden cases of one file, in the order of the file.

    Attributes:
        name: The file's stem.
        cases: At least one, except in a shard.
        fixtures_dir: The folder of images and other input files; None if cases have none.
        shard: The shard of `cases`; None if they are all cases of the file.
        excluded: The number of cases in other shards.
    """

    name: str
    path: Path
    cases: tuple[GoldenCase, ...]
    fixtures_dir: Path | None = None
    shard: Shard | None = None
    excluded: int = 0

    def __len__(self) -> int:
        return len(self.cases)

    def __iter__(self) -> Iterator[GoldenCase]:
        return iter(self.cases)

    @property
    def size(self) -> int:
        """The number of cases in all shards."""
        return len(self.cases) + self.excluded

    def __contains__(self, case_id: object) -> bool:
        return case_id in self._by_id

    @overload
    def get(self, case_id: str) -> GoldenCase | None: ...
    @overload
    def get(self, case_id: str, default: GoldenCase) -> GoldenCase: ...
    def get(self, case_id: str, default: GoldenCase | None = None) -> GoldenCase | None:
        """The case with this id, or `default`."""
        return self._by_id.get(case_id, default)

    @cached_property
    def _by_id(self) -> dict[str, GoldenCase]:
        return {case.id: case for case in self.cases}

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the digests of all cases, by id.

        The order of the file, tiers, splits, tags, sources and notes do not count: they change
        no completion and no verdict.
        """
        cases = sorted(self.cases, key=attrgetter("id"))
        return digest_of_mapping((case.id, case.digest) for case in cases)


def load_dataset(
    path: Path,
    *,
    fixtures_dir: Path,
    salt: str = "",
    holdout: float = 0.3,
    shard: Shard | None = None,
) -> Dataset:
    """Read the golden cases of a .jsonl, .yaml, .yml, .csv or .parquet file.

    Args:
        path: The file.
        fixtures_dir: The folder of all files that cases name.
        salt: Reshuffles cases without a `split`; see `split_of`.
        holdout: The share of them to hold out, from 0 to 1.
        shard: Read only its cases, and report only their errors.

    Raises:
        DatasetError: The file cannot be used; lists all errors.
    """
    project = fixtures_dir.parent
    place = path.relative_to(project) if path.is_relative_to(project) else path
    unit = "row" if path.suffix == ".parquet" else "line"
    source = Source(path=path, place=place, unit=unit, shard=shard)
    read = _READERS.get(path.suffix)
    if read is None:
        formats = ", ".join(_READERS)
        source.add_error(
            None, f"{path.suffix or 'a file without suffix'} is not a dataset format", formats
        )
        raise DatasetError(source.diagnostics)
    reading = Reading(
        texts=Texts(fixtures_dir), tools=ToolFiles(fixtures_dir), salt=salt, holdout=holdout
    )
    try:
        cases = read_cases(read(source), source, reading)
    except IsADirectoryError as error:
        raise DatasetError([Diagnostic.unreadable(place, error)]) from error
    except OSError as error:
        reason = error.strerror or str(error)
        source.add_error(None, f"cannot be read: {reason[:1].lower()}{reason[1:]}")
        raise DatasetError(source.diagnostics) from error
    if not cases and not source.diagnostics and not source.excluded:
        source.add_error(None, "no cases", "add one, or remove the file")
    if source.diagnostics:
        raise DatasetError(_first_diagnostics(source))
    return Dataset(
        name=path.stem,
        path=path,
        cases=tuple(cases),
        fixtures_dir=fixtures_dir,
        shard=shard,
        excluded=source.excluded,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _NoCase(Shard):
    """A shard without cases that collects all ids."""

    ids: dict[str, None] = field(default_factory=dict[str, None])

    def includes(self, case_id: str) -> bool:
        self.ids[case_id] = None
        return False


def case_ids(path: Path, *, fixtures_dir: Path) -> list[str]:
    """The ids of the golden cases of a file, in file order, without loading all cases.

    Raises:
        DatasetError: The file cannot be read.
    """
    no_case = _NoCase(number=1, count=1)
    load_dataset(path, fixtures_dir=fixtures_dir, shard=no_case)
    return list(no_case.ids)


def _first_diagnostics(source: Source) -> list[Diagnostic]:
    diagnostics = sorted(source.diagnostics, key=lambda diagnostic: diagnostic.line or 0)
    left = len(diagnostics) - _ERRORS_SHOWN_MAX
    if left > 0:
        message = f"and {left:,} more errors"
        diagnostics[_ERRORS_SHOWN_MAX:] = [
            Diagnostic(path=source.place, line=None, message=message)
        ]
    return diagnostics


def dataset_files(fixtures_dir: Path) -> list[Path]:
    """The golden files in a fixtures folder, in any format, sorted; hidden files are ignored."""
    golden = fixtures_dir / "golden"
    if not golden.is_dir():
        return []
    return sorted(
        path
        for path in golden.iterdir()
        if path.suffix in _READERS and not path.name.startswith(".")
    )


def _nested_files(fixtures_dir: Path) -> list[Path]:
    """The files in subdirectories of `golden` that could be golden files."""
    paths = sorted((fixtures_dir / "golden").glob("[!.]*/**/[!.]*"))
    return [path for path in paths if path.suffix in _READERS and path.is_file()]


def nested_datasets(fixtures_dir: Path) -> list[Diagnostic]:
    """Warnings about golden files in subdirectories, which no eval can name.

    Attachments of cases, such as a table as input, can be there.
    """
    nested = _nested_files(fixtures_dir)
    content = "".join(
        file.read_text("utf-8", "replace")
        for file in (dataset_files(fixtures_dir) if nested else ())
        if file.is_file()
    )
    return [
        Diagnostic(
            path=path,
            message="no eval reads a golden file in a subdirectory",
            fix=f"move it to {fixtures_dir.name}/golden/{path.name}",
        )
        for path in nested
        if path.relative_to(fixtures_dir).as_posix() not in content
    ]


def find_dataset(name: str, *, fixtures_dir: Path) -> Path:
    """The file of a dataset: `golden/<name>` in the fixtures folder, in any known format.

    Raises:
        DatasetError: No file or two files have this name.
    """
    place = (fixtures_dir / "golden").relative_to(fixtures_dir.parent)
    files = dataset_files(fixtures_dir)
    matches = [path for path in files if path.stem == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(path.name for path in matches)
        message = f"two datasets are called {name!r}: {names}"
        fix = "keep one of them, or rename one"
        raise DatasetError.at_place(place, message, fix)
    fix = did_you_mean(name, (path.stem for path in files))
    if not fix:
        fix = f"write {place.as_posix()}/{name}.jsonl"
        if files:
            fix = f"{fix}, or use one of: {', '.join(path.stem for path in files)}"
    message = f"no dataset is called {name!r}"
    stem = name.rpartition("/")[2]
    nested = next((path for path in _nested_files(fixtures_dir) if path.stem == stem), None)
    if nested is not None:
        message = f"{message}: {nested.relative_to(fixtures_dir)} is in a subdirectory"
        fix = f"move it to {place.as_posix()}, and write dataset={stem!r}"
    unread = next(
        (path for path in (fixtures_dir / "golden").glob("[!.]*") if path.stem == name), None
    )
    if unread is not None:
        message = f"{unread.name} is in no format of datasets"
        fix = f"save it as one of {', '.join(f'{name}{suffix}' for suffix in _READERS)}"
    raise DatasetError.at_place(place, message, fix)
