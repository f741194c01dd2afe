"""Unites the files of recordings that shards leave, line by line and in the order of the files."""

from __future__ import annotations

import json
import os
import stat
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from heapq import merge as merge_sorted
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from regauge.errors import Fault, FaultyFileError
from regauge.printable import printable
from regauge.recordings import (
    MeasurementLine,
    Recording,
    check_vector,
    encode_line,
    placed_lines_of,
    rewriting,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from regauge.recordings import Redactor

# A shard of 10,000 cases writes some tens of megabytes; files of the project itself may grow.
_BYTES_MAX: Final = 512 * 1024 * 1024
_OWN_BYTES_MAX: Final = 64 * 1024 * 1024 * 1024
# Texts that were searched for secrets and repeat, such as names of models.
_CLEAN_TEXTS_MAX: Final = 1000
_FOLDERS: Final = frozenset({"judges", "verdicts", "embeddings"})


class _Line(NamedTuple):
    """A line with its place in the order of its file."""

    key: tuple[Any, ...]
    source: int
    raw: bytes


def untrusted_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a shard's file, which may be a link or too large; none where it is not there.

    Raises:
        FaultyFileError: It is no regular file, is too large, or cannot be read.
    """
    if path.is_symlink():
        fault = Fault(path=path, line=None, message="a link; a shard has a file there")
        raise FaultyFileError([fault])
    for number, _, raw in placed_lines_of(path, bytes_max=_BYTES_MAX):
        yield number, raw


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSearch:
    """Refuses documents of a file that hold what looks like a key or a password.

    Attributes:
        redactor: Finds secrets.
        path: The file.
    """

    redactor: Redactor
    path: Path
    _clean: set[str] = field(default_factory=set[str])

    def check(self, document: Mapping[str, Any], line: int) -> None:
        """Check the document of a line.

        Raises:
            FaultyFileError: It holds a secret.
        """
        if self._is_clean(document.values()):
            return
        message = "holds what looks like a secret"
        fix = "find out how it got there; run the shard again where `redact` covers it"
        raise FaultyFileError([Fault(path=self.path, line=line, message=message, fix=fix)])

    def _is_clean(self, values: Iterable[object]) -> bool:
        for value in values:
            if isinstance(value, str):
                # Names of judges, verdicts and models are in every row.
                if value in self._clean:
                    continue
                if self.redactor.redact(value) != value:
                    return False
                if len(self._clean) < _CLEAN_TEXTS_MAX:
                    self._clean.add(value)
            elif isinstance(value, dict):
                if not self._is_clean(cast("dict[str, object]", value).values()):
                    return False
            elif isinstance(value, list) and not self._is_clean(cast("list[object]", value)):
                return False
        return True


_Read: TypeAlias = "Callable[[bytes], tuple[tuple[Any, ...], Any]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRecordings:
    """The recordings of shards, checked and sorted in a scratch directory.

    Attributes:
        files: By file, where the lines of each shard are, in the order of the shards.
        replaces: Whether they replace the committed ones.
    """

    files: Mapping[Path, Sequence[Path]]
    replaces: bool

    def merge(self, target: Path) -> tuple[Mapping[Path, int], int]:
        """Unite them with the committed recordings.

        Returns:
            Per file, how many of its lines are new or differ; and how many requests got different
            completions from several shards.

        Raises:
            RecordingError: A file cannot be written.
        """
        written: dict[Path, int] = {}
        shared = 0
        for name, files in sorted(self.files.items()):
            changed, differing = self._merge(files, target / name, _reader(name))
            shared += differing
            if changed:
                written[target / name] = changed
        return written, shared

    def _merge(self, files: Sequence[Path], target: Path, read: _Read) -> tuple[int, int]:
        changed = shared = 0
        with ExitStack() as stack:
            stack.enter_context(rewriting(target))
            draft = target.parent / f".{target.name}.{os.getpid()}.tmp"
            stack.callback(draft.unlink, missing_ok=True)
            out = stack.enter_context(draft.open("wb"))
            sources = [_sorted_lines(path, number, read) for number, path in enumerate(files, 1)]
            lines_of_all = merge_sorted(_own(target, read), *sources)
            for _, same in groupby(lines_of_all, key=lambda line: line.key):
                lines = [*same]
                new = [line for line in lines if line.source]
                if new[1:]:
                    shared += len({_answer(line.raw, read) for line in new}) > 1
                kept = lines[0]
                if self.replaces and new and not kept.source:
                    kept = _replacing(kept, new[0], read)
                changed += bool(kept.source)
                out.write(kept.raw + b"\n")
            out.flush()
            os.fsync(out.fileno())
            if changed:
                draft.replace(target)
        return changed, shared


def read_recordings(
    directories: Sequence[Path], scratch: Path, *, redactor: Redactor, replaces: bool
) -> ShardRecordings:
    """Check the recordings of shards; the memory it takes is that of the largest file.

    Args:
        directories: The recordings of each shard, in the order of the shards.
        scratch: A directory for what was checked.
        redactor: Finds secrets.
        replaces: Whether they replace the committed ones.

    Raises:
        FaultyFileError: A file of a shard cannot be used.
    """
    files: dict[Path, list[Path]] = {}
    for number, directory in enumerate(directories):
        for path in _files(directory):
            name = path.relative_to(directory)
            lines = _checked(path, _reader(name), redactor)
            checked = scratch / str(number) / name
            checked.parent.mkdir(parents=True, exist_ok=True)
            checked.write_bytes(b"".join([line.raw + b"\n" for line in lines]))
            files.setdefault(name, []).append(checked)
    return ShardRecordings(files=files, replaces=replaces)


def _checked(path: Path, read: _Read, redactor: Redactor) -> list[_Line]:
    """The lines of a file in their order."""
    lines: list[_Line] = []
    search = SecretSearch(redactor=redactor, path=path)
    for number, raw in untrusted_lines(path):
        try:
            key, document = read(raw)
        except (ValueError, RecursionError) as error:
            message = f"not a recording: {printable(str(error))[:300]}"
            raise FaultyFileError([Fault(path=path, line=number, message=message)]) from error
        if document is not None:
            search.check(document, number)
        lines.append(_Line(key, 0, raw))
    return sorted(lines)


def _files(directory: Path) -> list[Path]:
    """The files of a shard's recordings.

    Raises:
        FaultyFileError: There is a link, or what recordings do not have.
    """
    if directory.is_symlink():
        fault = Fault(path=directory, line=None, message="a link; a shard has a directory there")
        raise FaultyFileError([fault])
    paths: list[Path] = []
    for folder, folders, files in os.walk(directory):
        inside = Path(folder).relative_to(directory)
        for name in [*folders, *files]:
            path = Path(folder) / name
            mode = path.lstat().st_mode
            regular = (
                (stat.S_ISDIR(mode) and (inside.parts or name in _FOLDERS))
                or (stat.S_ISREG(mode) and name.endswith(".jsonl"))
            ) and not name.startswith(".")
            if not regular:
                fault = Fault(
                    path=path, line=None, message="no file of recordings", fix="remove it"
                )
                raise FaultyFileError([fault])
        paths += [Path(folder) / name for name in files]
    return sorted(paths)


def _reader(name: Path) -> _Read:
    """The reader of a line: its place in the order of its file, and its document."""
    return {"verdicts": _measurement, "embeddings": _vector}.get(name.parts[0], _recording)


def _recording(raw: bytes) -> tuple[tuple[Any, ...], Any]:
    document = json.loads(raw)
    recording = Recording.from_json(document)
    return (recording.case, recording.key.trial, recording.key.digest), document


def _measurement(raw: bytes) -> tuple[tuple[Any, ...], Any]:
    line = MeasurementLine.decode(raw)
    return (line.case, line.judge, line.trial, line.key), json.loads(raw)


def _vector(raw: bytes) -> tuple[tuple[Any, ...], Any]:
    return (check_vector(raw),), None


def _sorted_lines(path: Path, source: int, read: _Read) -> Iterator[_Line]:
    with path.open("rb") as file:
        for ended in file:
            raw = ended.rstrip(b"\n")
            yield _Line(read(raw)[0], source, raw)


def _own(target: Path, read: _Read) -> Iterator[_Line]:
    """The committed lines in their order; a file that was edited by hand is sorted first."""
    last: tuple[Any, ...] = ()
    for _, _, raw in placed_lines_of(target, bytes_max=_OWN_BYTES_MAX):
        key = read(raw)[0]
        if key < last:
            break
        last = key
    else:
        for _, _, raw in placed_lines_of(target, bytes_max=_OWN_BYTES_MAX):
            yield _Line(read(raw)[0], 0, raw)
        return
    yield from sorted(_Line(read(raw)[0], 0, raw) for _, _, raw in placed_lines_of(target))


_UNCOMPARED: Final = frozenset({"recorded_at", "replaced"})
_TIMES: Final = frozenset({"latency_s", "cost_usd", "attempts"})


def _answer(raw: bytes, read: _Read) -> str:
    """A line as a text, without times and prices."""
    document = read(raw)[1]
    if not isinstance(document, dict):
        return raw.decode("utf-8", "replace")
    fields = cast("dict[str, Any]", document)
    kept = {key: value for key, value in fields.items() if key not in _UNCOMPARED}
    if isinstance(completion := kept.get("completion"), dict):
        fields = cast("dict[str, Any]", completion)
        kept["completion"] = {key: fields[key] for key in fields.keys() - _TIMES}
    return json.dumps(kept, sort_keys=True)


def _replacing(old: _Line, new: _Line, read: _Read) -> _Line:
    """The line of a request that was recorded again: the old one where the completion is the same.

    A recording counts how often its completion was replaced.
    """
    if _answer(old.raw, read) == _answer(new.raw, read):
        return old
    document = read(new.raw)[1]
    if not isinstance(document, dict) or "completion" not in document:
        return new
    recording = Recording.from_json(cast("dict[str, Any]", document))
    before = Recording.from_json(read(old.raw)[1])
    return new._replace(raw=encode_line(replace(recording, replaced=before.replaced + 1)))
