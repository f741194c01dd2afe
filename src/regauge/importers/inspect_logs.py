"""Datasets of Inspect, and its logs, whose outputs become those of a target."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import UsageError
from regauge.importers._source import placed
from regauge.importers._suite import ImportedSuite, Row, chat_of, text_of
from regauge.on_demand import require
from regauge.recordings import map_texts
from regauge.strict_json import as_list, is_list, is_mapping, list_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.importers._description import Imported, SourcePlace

# Logs are untrusted archives: these bounds stop one that expands without end. The method number and
# the length of a local header are of the ZIP format.
_LOG_MAX: Final = 256 * 1024 * 1024
_MEMBER_MAX: Final = 64 * 1024 * 1024
_ALL_MAX: Final = 1024 * 1024 * 1024
_SAMPLES_MAX: Final = 10_000
_ZSTANDARD: Final = 93
_LOCAL_HEADER: Final = 30
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SAMPLE: Final = re.compile(r"samples/[^/]+\.json")
_EPOCH: Final = re.compile(r"_epoch_(\d{1,6})\.json\Z")
_HEADERS: Final = ("header.json", "_journal/start.json")
_DROPPED: Final = ("sandbox", "files", "setup")
_KEYS: Final = ("id", "input", "target", "choices", "metadata")
_NOTE_MAX: Final = 500
_FIX: Final = "name an .eval or .json log, a dataset (JSON, JSON Lines, CSV), or a directory"


def read_inspect(path: Path, /, *, root: Path, name: str = "") -> Imported:
    """Read logs with their outputs and scorers, and datasets.

    Args:
        path: A file (`.eval`, `.json`, `.jsonl`, `.csv`), or a directory.
        root: The project's root.
        name: The stem of the names of written files.

    Raises:
        UsageError: There is none, or none can be imported.
        InvalidFileError: The only one cannot be parsed.
    """
    suite = ImportedSuite(path, root=root, name=name, title="Inspect")
    files = suite.files(".eval")
    if suite.path.is_dir():
        # A dataset, or a log.
        words = ("target", '"eval"', "choices")
        files += suite.files(
            ".json", ".jsonl", ".csv",
            accepts=lambda text: "input" in text and any(word in text for word in words),
        )  # fmt: skip

    def read(file: Path) -> None:
        if file.suffix == ".eval":
            header, samples = _Archive(file, suite).read()
            _add_log(header, samples, file, suite)
            return
        document = suite.repository.read_data(file)
        if is_mapping(document) and is_mapping(document.get("eval")):
            _add_log(document, iter(list_of(document.get("samples"))), file, suite)
        else:
            _add_dataset(document, file, suite)

    suite.read(files, read)
    return suite.finish(_FIX)


# Datasets


def _add_dataset(document: Any, file: Path, suite: ImportedSuite) -> None:
    """Add the samples of a dataset, which has no scorer.

    Raises:
        UsageError: It has none.
    """
    rows: list[Row] = []
    for item, place in placed(list_of(document), suite.place(file)):
        if is_mapping(item) and item.get("input") not in (None, ""):
            rows.append(_row(item, place, suite))
        else:
            suite.imported.note("manual", place, "a sample without `input`: left out")
    if not rows:
        relative = suite.repository.relative(file)
        raise UsageError(f"{relative} has no sample with `input`", fix=_FIX)
    suite.add_dataset(suite.stem(file), rows)


def _row(sample: Mapping[str, Any], place: SourcePlace, suite: ImportedSuite) -> Row:
    """The case of a sample."""
    source = sample["input"]
    chat = chat_of(source) if is_list(source) else None
    inputs: dict[str, Any] = {"messages": chat} if chat else {"input": text_of(source)}
    choices = sample.get("choices")
    if isinstance(choices, str):
        choices = _parse(choices)
    if is_list(choices) and choices:
        lines = [f"{_letter(n)}) {text_of(choice)}" for n, choice in enumerate(choices)]
        inputs["choices"] = "\n".join(lines)
    for key in _DROPPED:
        if sample.get(key):
            suite.imported.note("dropped", place, f"`{key}`: a target runs in its own environment")
    metadata = sample.get("metadata")
    note = text_of(metadata) if metadata else ""
    if len(note) > _NOTE_MAX:
        suite.imported.note("dropped", place, "`metadata`, which is long")
    target = sample.get("target")
    return Row(
        place=place,
        inputs=inputs,
        expected=target if target not in (None, "", []) else None,
        title=str(sample.get("id") or ""),
        note=note if len(note) <= _NOTE_MAX else "",
    )


def _letter(number: int) -> str:
    return _LETTERS[number] if number < len(_LETTERS) else str(number - len(_LETTERS) + 1)


def _parse(cell: str) -> Any:
    """A cell of CSV as a list, in JSON or separated by commas."""
    try:
        return json.loads(cell)
    except ValueError:
        return [part.strip() for part in cell.split(",")]


# Logs


def _add_log(
    header: Mapping[str, Any], samples: Iterator[Any], file: Path, suite: ImportedSuite
) -> None:
    """Add the samples of a log with their outputs, one per epoch.

    Raises:
        UsageError: It has none.
    """
    rows: dict[str, Row] = {}
    outputs: dict[str, list[str]] = {}
    place = suite.place(file)
    about = mapping_of(header.get("eval"))
    scorers = _scorers(header).items()
    for sample in samples:
        if not is_mapping(sample) or sample.get("input") in (None, ""):
            suite.imported.note("manual", place, "a sample without `input`: left out")
            continue
        key = str(sample.get("id"))
        resolved = _resolve(sample)
        text = _output(resolved)
        if text is None:
            error = mapping_of(sample.get("error")).get("message")
            reason = f"ended in an error: {str(error)[:100]}" if error else "has no output"
            suite.imported.note("manual", place, f"sample {key} {reason}: left out of its trials")
        rows.setdefault(key, _row(resolved, place, suite))
        outputs.setdefault(key, []).extend([] if text is None else [text])
    if not rows:
        relative = suite.repository.relative(file)
        raise UsageError(
            f"{relative} has no sample", fix="name a log of a run that kept its samples"
        )
    name = suite.name(str(about.get("task", "")).rpartition("/")[2])
    scored = [
        replace(row, checks=[_check(scorer, options, row, suite) for scorer, options in scorers])
        for row in rows.values()
    ]
    if any(len(texts) > 1 for texts in outputs.values()):
        epochs = max(map(len, outputs.values()))
        text = f"{epochs} epochs became trials of target {name}: pytest evals --trials {epochs}"
        suite.imported.note("changed", place, text)
    if header.get("status") != "success":
        status = header.get("status", "unfinished")
        suite.imported.note("manual", place, f"the run of the log has the status {status}")
    suite.add_outputs(name, scored, list(outputs.values()))


def _resolve(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """A sample with its attachments in place."""
    attachments = mapping_of(sample.get("attachments"))

    def fill(text: str) -> str:
        return str(attachments.get(text.removeprefix("attachment://"), text))

    return map_texts({key: sample.get(key) for key in (*_KEYS, *_DROPPED, "output")}, fill)


def _output(sample: Mapping[str, Any]) -> str | None:
    """The text of a sample's completion; None where it has none."""
    output = mapping_of(sample.get("output"))
    text = output.get("completion")
    choices = list_of(output.get("choices"))
    if not isinstance(text, str) and choices:
        chat = chat_of([mapping_of(choices[0]).get("message")])
        text = chat[0].get("content") if chat else None
    return text if isinstance(text, str) and (text or choices) else None


def _scorers(header: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The options of the scorers of a log; older ones name them with the results."""
    entries = list_of(mapping_of(header.get("eval")).get("scorers"))
    entries = entries or list_of(mapping_of(header.get("results")).get("scores"))
    scorers: dict[str, Mapping[str, Any]] = {}
    for entry in map(mapping_of, entries):
        name = str(entry.get("scorer") or entry.get("name") or "").rpartition("/")[2]
        if name:
            scorers.setdefault(name, mapping_of(entry.get("options", entry.get("params"))))
    return scorers


def _check(scorer: str, options: Mapping[str, Any], row: Row, suite: ImportedSuite) -> JSON:
    """The judge of a scorer, for the target of a sample."""
    targets = [str(target) for target in as_list(row.expected)] if row.expected is not None else []
    graded = {"model_graded_qa": "closed-qa", "model_graded_fact": "factuality"}
    if rubric := graded.get(scorer):
        if options.get("template") or options.get("instructions"):
            return suite.unmeasured(scorer, "it has its own template", row.place)
        suite.need_judge_model(row.place)
        return suite.check({"rubric": {"name": rubric}}, scorer, row.place)
    make = _RULES.get(scorer)
    if make is None:
        return suite.unmeasured(scorer, "it is Python, which is not run", row.place)
    if not targets:
        return suite.unmeasured(scorer, "the sample has no target", row.place)
    spec = make(targets, options)
    if isinstance(spec, str):
        return suite.unmeasured(scorer, spec, row.place)
    return suite.check(cast("JSON", spec), scorer, row.place)


def _any_of(specs: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return specs[0] if len(specs) == 1 else {"any_of": list(specs)}


def _includes(targets: Sequence[str], options: Mapping[str, Any]) -> Mapping[str, Any]:
    ignore_case = options.get("ignore_case", True)
    return {"contains_any": {"texts": targets, "ignore_case": ignore_case}}


def _exact(targets: Sequence[str], _: Mapping[str, Any]) -> Mapping[str, Any]:
    loose = {"ignore_case": True, "ignore_space": True, "ignore_punctuation": True}
    return _any_of([{"equals": {"value": target, **loose}} for target in targets])


def _match(targets: Sequence[str], options: Mapping[str, Any]) -> Mapping[str, Any] | str:
    """The text at a place of the output, its punctuation at the end ignored."""
    location = options.get("location", "end")
    ignore_case = options.get("ignore_case", True)
    if options.get("numeric"):
        if not all(re.fullmatch(r"[-+]?\d[\d,]*(\.\d+)?", target) for target in targets):
            return "its target is not a number"
        which = {"end": "last", "begin": "first"}.get(str(location), "any")
        numbers = [float(target.replace(",", "")) for target in targets]
        return _any_of([{"number_near": {"to": number, "which": which}} for number in numbers])
    if location == "any":
        return _includes(targets, {"ignore_case": ignore_case})
    quoted = "|".join(re.escape(target.strip()) for target in targets)
    gap = r"[\s\p{P}]*"
    pattern = {
        "end": rf"(?:{quoted}){gap}\Z",
        "begin": rf"\A{gap}(?:{quoted})",
        "exact": rf"\A{gap}(?:{quoted}){gap}\Z",
    }.get(str(location))
    if pattern is None:
        return f"the location {location!r} has no counterpart"
    return {"matches": {"pattern": pattern, "ignore_case": ignore_case}}


_RULES: Final[Mapping[str, Callable[[Sequence[str], Mapping[str, Any]], Any]]] = {
    "answer": lambda targets, _: {"answer_is": {"to": targets}},
    "choice": lambda targets, _: {"choice_is": {"to": targets, "options": list(_LETTERS)}},
    "exact": _exact,
    "f1": lambda targets, _: {"rouge_n": {"to": targets, "n": 1}},
    "includes": _includes,
    "match": _match,
}


def _epoch(name: str) -> int:
    match = _EPOCH.search(name)
    return int(match[1]) if match else 0


class _Archive:
    """A log in a zip file, whose members are read one by one and within limits."""

    def __init__(self, file: Path, suite: ImportedSuite) -> None:
        self._place = suite.repository.relative(file)
        self._data = suite.repository.read_bytes(file, bytes_max=_LOG_MAX)
        self._left = _ALL_MAX
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(self._data))
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise self._faulty(f"is not a whole zip file: {error}") from error

    def read(self) -> tuple[Mapping[str, Any], Iterator[Any]]:
        """The header, and the samples in their order.

        Raises:
            UsageError: The file has no header, or too many samples.
        """
        members = {info.filename: info for info in self._zip.infolist()}
        names = sorted(filter(_SAMPLE.fullmatch, members), key=_epoch)
        if len(names) > _SAMPLES_MAX:
            raise self._faulty(f"has more than {_SAMPLES_MAX:,} samples")
        header = next((name for name in _HEADERS if name in members), None)
        if header is None:
            raise self._faulty("has no header.json")
        samples = (self._json(members[name]) for name in names)
        return mapping_of(self._json(members[header])), samples

    def _json(self, info: zipfile.ZipInfo) -> Any:
        if info.file_size > min(_MEMBER_MAX, self._left):
            raise self._faulty(f"holds too much: {info.filename} has {info.file_size:,} bytes")
        self._left -= info.file_size
        try:
            if info.compress_type == _ZSTANDARD:
                return json.loads(self._zstandard(info))
            return json.loads(self._zip.read(info))
        except (zipfile.BadZipFile, ValueError, OSError, EOFError, RuntimeError,
                NotImplementedError, RecursionError) as error:  # fmt: skip
            raise self._faulty(f"is damaged: {info.filename}: {error}") from error

    def _zstandard(self, info: zipfile.ZipInfo) -> bytes:
        """The content of a member that is compressed with Zstandard.

        Raises:
            UsageError: The package that reads it is not installed.
        """
        require("zstandard", use=f"{self._place}, compressed with Zstandard,")
        import zstandard

        offset = info.header_offset
        if self._data[offset : offset + 4] != b"PK\3\4" or info.flag_bits & 1:
            raise ValueError("it is encrypted, or its header is missing")
        lengths = struct.unpack_from("<HH", self._data, offset + _LOCAL_HEADER - 4)
        start = offset + _LOCAL_HEADER + sum(lengths)
        source = self._data[start : start + info.compress_size]
        try:
            with zstandard.ZstdDecompressor().stream_reader(source) as reader:
                return reader.read(info.file_size + 1)
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error

    def _faulty(self, reason: str) -> UsageError:
        fix = "copy it again, or convert it: inspect log convert --to json"
        return UsageError(f"{self._place} {reason}", fix=fix)
