"""The recordings of the shards of a run: checked, and merged into the committed ones."""

from __future__ import annotations

import json
import os
import stat
from contextlib import ExitStack
from dataclasses import replace
from heapq import merge as merge_sorted
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from regauge.errors import Diagnostic, InvalidFileError
from regauge.recordings import (
    MeasurementLine,
    Recording,
    encode_line,
    lock_file,
    map_texts,
    parse_vector,
    read_lines,
)
from regauge.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.recordings import Redactor


# A shard of 10,000 cases writes some tens of megabytes; files of the project itself may grow.
_BYTES_MAX: Final = 512 * 1024 * 1024
_OWN_BYTES_MAX: Final = 64 * 1024 * 1024 * 1024
_FOLDERS: Final = frozenset({"judges", "verdicts", "embeddings"})


class _OrderedLine(NamedTuple):
    """A line with its place in the order of its file."""

    key: tuple[Any, ...]
    source: int
    raw: bytes


def refused_error(
    path: Path, message: str, fix: str = "", *, line: int | None = None
) -> InvalidFileError:
    """The error of a file of a shard."""
    return InvalidFileError([Diagnostic(path=path, line=line, message=message, fix=fix)])


def untrusted_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a shard's file, with their numbers; empty without the file.

    Raises:
        InvalidFileError: It is a link or no regular file, is too large, or cannot be read.
    """
    if path.is_symlink():
        raise refused_error(path, "a link; a shard has a file there")
    for number, _, raw in read_lines(path, bytes_max=_BYTES_MAX):
        yield number, raw


def refuse_secret(document: Mapping[str, Any], redactor: Redactor, path: Path, line: int) -> None:
    """Check the document of a line.

    Raises:
        InvalidFileError: It contains a secret.
    """
    if map_texts(document, redactor.redact) is not document:
        fix = "find out how it got there; run the shard again where `redact` covers it"
        raise refused_error(path, "holds what looks like a secret", fix, line=line)


def merge_recordings(
    files: Mapping[Path, Sequence[Path]], target: Path, *, replaces: bool
) -> tuple[Mapping[Path, int], int]:
    """Merge the recordings of shards into the committed ones.

    Args:
        files: From `read_recordings`.
        target: The directory of committed recordings.
        replaces: Whether they replace committed recordings.

    Returns:
        The number of new or different lines per file, and the number of requests with different
        completions in several shards.

    Raises:
        RecordingError: A file cannot be written.
    """
    changed_lines: dict[Path, int] = {}
    shared = 0
    for name, of_shards in sorted(files.items()):
        changed, differing = _merge_file(of_shards, target, name, replaces=replaces)
        shared += differing
        if changed:
            changed_lines[target / name] = changed
    return changed_lines, shared


def _merge_file(
    files: Sequence[Path], directory: Path, name: Path, *, replaces: bool
) -> tuple[int, int]:
    changed = shared = 0
    target, folder = directory / name, name.parts[0]
    with ExitStack() as stack:
        stack.enter_context(lock_file(target))
        draft = target.parent / f".{target.name}.{os.getpid()}.tmp"
        stack.callback(draft.unlink, missing_ok=True)
        out = stack.enter_context(draft.open("wb"))
        sources = [_sorted_lines(path, number, folder) for number, path in enumerate(files, 1)]
        lines_of_all = merge_sorted(_read_own(target, folder), *sources)
        for _, group in groupby(lines_of_all, key=lambda line: line.key):
            lines = [*group]
            new = [line for line in lines if line.source]
            if new[1:]:
                shared += len({_comparable_text(line.raw) for line in new}) > 1
            merged_line = lines[0]
            if replaces and new and not merged_line.source:
                merged_line = _choose_line(merged_line, new[0])
            changed += bool(merged_line.source)
            out.write(merged_line.raw + b"\n")
        out.flush()
        os.fsync(out.fileno())
        if changed:
            draft.replace(target)
    return changed, shared


def read_recordings(
    directories: Sequence[Path], scratch: Path, *, redactor: Redactor
) -> dict[Path, list[Path]]:
    """Check and sort the recordings of shards, with one file in memory at a time.

    Args:
        directories: The recordings of each shard, in the order of the shards.
        scratch: A directory for checked files.
        redactor: Detects secrets.

    Returns:
        By file name, the checked file of each shard, in the order of the shards.

    Raises:
        InvalidFileError: A file of a shard is invalid.
    """
    files: dict[Path, list[Path]] = {}
    for number, directory in enumerate(directories):
        for path in _files(directory):
            name = path.relative_to(directory)
            lines = _read_checked(path, name.parts[0], redactor)
            checked = scratch / str(number) / name
            checked.parent.mkdir(parents=True, exist_ok=True)
            checked.write_bytes(b"".join([line.raw + b"\n" for line in lines]))
            files.setdefault(name, []).append(checked)
    return files


def _read_checked(path: Path, folder: str, redactor: Redactor) -> list[_OrderedLine]:
    """The checked lines of a file, sorted."""
    lines: list[_OrderedLine] = []
    for number, raw in untrusted_lines(path):
        try:
            key, document = _parse_line(raw, folder)
        except (ValueError, RecursionError) as error:
            message = f"not a recording: {printable(str(error))[:300]}"
            raise refused_error(path, message, line=number) from error
        if document is not None:
            refuse_secret(document, redactor, path, number)
        lines.append(_OrderedLine(key, 0, raw))
    return sorted(lines)


def _files(directory: Path) -> list[Path]:
    """The files of a shard's recordings.

    Raises:
        InvalidFileError: There is a link, or a file of another kind.
    """
    if directory.is_symlink():
        raise refused_error(directory, "a link; a shard has a directory there")
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
                raise refused_error(path, "no file of recordings", "remove it")
        paths += [Path(folder) / name for name in files]
    return sorted(paths)


def _parse_line(raw: bytes, folder: str) -> tuple[tuple[Any, ...], Any]:
    """The sort key of a line and its document; None for a vector, which has no texts.

    Args:
        raw: The line.
        folder: `verdicts` or `embeddings`; any other name is of recordings.
    """
    if folder == "embeddings":
        return parse_vector(raw)[:1], None
    document = json.loads(raw)
    if folder == "verdicts":
        line = MeasurementLine.decode(raw)
        return (line.case, line.judge, line.trial, line.key), document
    recording = Recording.from_json(document)
    return (recording.case, recording.key.trial, recording.key.digest), document


def _sorted_lines(path: Path, source: int, folder: str) -> Iterator[_OrderedLine]:
    with path.open("rb") as file:
        for line in file:
            raw = line.rstrip(b"\n")
            yield _OrderedLine(_parse_line(raw, folder)[0], source, raw)


def _read_own(target: Path, folder: str) -> Iterator[_OrderedLine]:
    """The committed lines, sorted; only a file edited by hand needs to be."""

    def read() -> Iterator[_OrderedLine]:
        for _, _, raw in read_lines(target, bytes_max=_OWN_BYTES_MAX):
            yield _OrderedLine(_parse_line(raw, folder)[0], 0, raw)

    is_sorted = all(before.key <= line.key for before, line in pairwise(read()))
    yield from read() if is_sorted else sorted(read())


_UNCOMPARED: Final = frozenset({"recorded_at", "replaced"})
_TIMES: Final = frozenset({"latency_s", "cost_usd", "attempts"})


def _comparable_text(raw: bytes) -> str:
    """A line as text, without times and prices."""
    document: dict[str, Any] = json.loads(raw)
    fields = {key: value for key, value in document.items() if key not in _UNCOMPARED}
    if "completion" in fields:
        completion: dict[str, Any] = fields["completion"]
        fields["completion"] = {key: completion[key] for key in completion.keys() - _TIMES}
    return json.dumps(fields, sort_keys=True)


def _choose_line(old: _OrderedLine, new: _OrderedLine) -> _OrderedLine:
    """The line of a request that was recorded again; the old line for an equal completion.

    A recording counts how often its completion was replaced.
    """
    if _comparable_text(old.raw) == _comparable_text(new.raw):
        return old
    document = json.loads(new.raw)
    if "completion" not in document:
        return new
    before = Recording.from_json(json.loads(old.raw))
    recording = replace(Recording.from_json(document), replaced=before.replaced + 1)
    return new._replace(raw=encode_line(recording))
