"""Golden cases: reads and checks records of any format."""

from __future__ import annotations

import codecs
import errno
import hashlib
import re
import unicodedata
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from sys import intern
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, cast, get_args

from regauge.datasets._script import (
    COUNT_MAX,
    STEPS_DEFAULT,
    TURNS_DEFAULT,
    Script,
    Turn,
)
from regauge.digests import JSON, digest_of
from regauge.errors import Diagnostic
from regauge.files import read_regular
from regauge.strict_json import list_of
from regauge.wording import closest, did_you_mean
from regauge.yaml_document import Keywords

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from regauge.datasets._dataset import Shard
    from regauge.datasets._formats import ToolFiles


_MARKS_OF_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


Tier: TypeAlias = Literal["critical", "required", "tracked"]
Split: TypeAlias = Literal["train", "holdout"]
_ID_PATTERN = "[A-Za-z0-9_][A-Za-z0-9_.+/-]{0,199}"
# `-k` reads these words as operators, so such a case could not be selected.
_OPERATORS = ("and", "or", "not")
_Id: TypeAlias = Annotated[
    str, Keywords({"pattern": f"^{_ID_PATTERN}$", "not": {"enum": list(_OPERATORS)}})
]
_Tag: TypeAlias = Annotated[str, Keywords({"pattern": r"^[^;\s]([^;]*[^;\s])?$"})]
_Checks: TypeAlias = Annotated[list[str | dict[str, Any]], Keywords({"minItems": 1})]
_Limit: TypeAlias = Annotated[int, Keywords({"minimum": 1, "maximum": COUNT_MAX})]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnKeys:
    """The keys of a turn.

    Attributes:
        user: The user's message: a text, {"file": "..."}, or a list of texts and {"image": "..."}
            or {"pdf": "..."}.
        expected: The value that judges of this turn compare with.
        checks: Judges of this turn alone.
    """

    user: str | dict[str, Any] | list[Any] = ""
    expected: Any = None
    checks: _Checks | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseKeys:
    """The keys of a golden case.

    Attributes:
        id: Unique in its dataset, and stable.
        inputs: By variable of the prompt; {"file": "..."} for a long text.
        expected: The value that judges compare with.
        tags: Words to select and group cases.
        tier: The weight of a failure; by default `required`.
        split: By default the id decides.
        source: The source of the material.
        licence: The licence of the material.
        note: A note for readers.
        checks: Judges of this case alone: names, or names with parameters; `weight`, `tier` and
            `metric` may be next to the name.
        pass_at: The weighted share of the checks that must pass; by default all.
        turns: The messages of the user.
        persona: The prompt of the model that plays the user.
        max_turns: The limit of the persona's messages; by default 10.
        tools: The results of tools: NAME for fixtures/tools/NAME.yml.
        max_steps: The limit of the model's calls in one turn; by default 8.
    """

    id: _Id
    inputs: dict[str, Any]
    expected: Any = None
    tags: list[_Tag] | None = None
    tier: Tier | None = None
    split: Split | None = None
    source: str | None = None
    licence: str | None = None
    note: str | None = None
    checks: _Checks | None = None
    pass_at: Annotated[float, Keywords({"exclusiveMinimum": 0, "maximum": 1})] | None = None
    turns: Annotated[list[TurnKeys], Keywords({"minItems": 1})] | None = None
    persona: str | None = None
    max_turns: _Limit | None = None
    tools: str | None = None
    max_steps: _Limit | None = None


KEYS: Final = CaseKeys.__dataclass_fields__


@dataclass(slots=True, kw_only=True)
class Record:
    """The values of one case in a file, unchecked.

    Attributes:
        line: Its first line, from 1; the row of a parquet file.
        values: The values by key.
        lines: The line of each key, if the format shows it.
    """

    line: int
    values: dict[str, object]
    lines: dict[str, int] = field(default_factory=dict[str, int])

    def line_of(self, key: str) -> int:
        """The line of a key for error messages."""
        return self.lines.get(key, self.line)


@dataclass(slots=True, kw_only=True)
class Source:
    """A file that is being read, with its errors.

    Attributes:
        path: The path on this machine.
        place: The path in error messages.
        unit: The unit of places in the file: `line`, or `row` for parquet.
        record_noun: The word for one record, with its article.
        shard: Only its cases are read; None reads all.
        excluded: The number of cases of other shards.
    """

    path: Path
    place: Path
    unit: str = "line"
    record_noun: str = "a case"
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    shard: Shard | None = None
    excluded: int = 0

    def excludes(self, case_id: object) -> bool:
        """Return whether a case is of another shard, and count it if so."""
        if self.shard is None or not isinstance(case_id, str) or self.shard.includes(case_id):
            return False
        self.excluded += 1
        return True

    def add_error(self, line: int | None, message: str, fix: str = "") -> None:
        """Add an error at a line."""
        self.diagnostics.append(Diagnostic(path=self.place, line=line, message=message, fix=fix))


def decode_lines(source: Source) -> str | None:
    """The text of the file, without byte order mark; None, with errors added, if not UTF-8.

    Line ends stay as they are.
    """
    data = read_regular(source.path)
    if not data.startswith(_MARKS_OF_UTF16):
        with suppress(UnicodeDecodeError):
            return data.decode("utf-8-sig")
    for number, raw in enumerate(data.split(b"\n"), 1):
        if decode_line(source, number, raw) is None:
            break
    return None


def decode_line(source: Source, number: int, raw: bytes) -> str | None:
    """The text of a line; empty, with an error, if not UTF-8; None if no line can be read."""
    if number == 1:
        if raw.startswith(_MARKS_OF_UTF16):
            source.add_error(1, "the file is UTF-16, not UTF-8", "save it as UTF-8")
            return None
        raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        source.add_error(
            number,
            f"not UTF-8: byte 0x{raw[error.start]:02x} at column {error.start + 1}",
            "save the file as UTF-8",
        )
        return ""


def is_known(key: str, source: Source, line: int | None, *, word: str = "key") -> bool:
    """Return whether a case can have this key; add an error with the nearest known key if not."""
    if key in KEYS:
        return True
    labels = {name: name for name in KEYS}
    if word == "column":
        labels["inputs"] = "inputs.<name>"
    near = closest(key, KEYS)
    choices = f"known {word}s: {', '.join(labels.values())}"
    fix = f"did you mean {labels[near]!r}?" if near else choices
    if word == "column" and key.startswith("__"):
        fix = "import a test file of promptfoo with its configuration: regauge import promptfoo"
    elif word == "column" and not near:
        fix = f"call a column of inputs 'inputs.{key}'; {choices}"
    source.add_error(line, f"unknown {word} {key!r}", fix)
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenCase:
    """Inputs of a prompt, with the expected output.

    Attributes:
        id: Unique in its dataset, and stable.
        inputs: The values of the prompt's variables, with files read.
        expected: The value that judges compare the output with.
        tier: `critical` and `required` cases must pass; `tracked` cases do not block.
        split: `holdout` cases are not used for refinement.
        source: The origin of the material; empty if invented.
        location: File and line, as `fixtures/golden/x.jsonl:12`; the row in parquet files.
        note: A remark, such as the reason for its tier.
        checks: Further judges of this case, as in YAML.
        pass_at: The weighted share of `checks` that must pass, 0 to 1; None for all.
        script: The conversation; None if the case is one completion.
    """

    id: str
    inputs: Mapping[str, JSON]
    expected: JSON = None
    tags: tuple[str, ...] = ()
    tier: Tier = "required"
    split: Split
    source: str = ""
    licence: str = ""
    location: str = ""
    note: str = ""
    checks: tuple[JSON, ...] = ()
    pass_at: float | None = None
    script: Script | None = None

    def __hash__(self) -> int:
        # Inputs are plain dictionaries, which have no hash; equal cases have equal ids.
        return hash(self.id)

    @property
    def digest(self) -> str:
        """The SHA-256 of id, inputs and expected, and of checks, `pass_at` and script if set."""
        content: dict[str, JSON] = {
            "id": self.id,
            "inputs": self.inputs,
            "expected": self.expected,
        }
        if self.checks:
            content |= {"checks": self.checks, "pass_at": self.pass_at}
        if self.script is not None:
            content |= {"script": self.script.to_json(), "of_turns": self.script.golden}
        return digest_of(content)

    @property
    def golden(self) -> JSON:
        """The expected values that judges compare with; they must stay out of prompts."""
        of_turns = [turn for turn in self.script.golden if turn] if self.script is not None else []
        if not self.checks and not of_turns:
            return self.expected
        return {
            "expected": self.expected,
            "checks": [*self.checks],
            **({"turns": of_turns} if of_turns else {}),
        }


def split_of(case_id: str, *, salt: str = "", holdout: float = 0.3) -> Split:
    """The split of a case, by a hash of its id: the same on every machine.

    The first 8 bytes of SHA-256 over `salt`, a zero byte and the id are read as a big-endian
    fraction of 2**64. A case is held out if that is below `holdout`. So a larger `holdout` only
    moves cases from train to holdout, and new cases move none.

    Args:
        case_id: The id of the case.
        salt: Any text; another salt reshuffles the cases.
        holdout: The share to hold out, from 0 (none) to 1 (all).

    Raises:
        ValueError: `holdout` is not a share.

    >>> split_of("KubeletDown"), split_of("Watchdog")
    ('holdout', 'train')
    """
    if not 0 <= holdout <= 1:
        raise ValueError(f"holdout is a share from 0 to 1, not {holdout!r}")
    head = hashlib.sha256(f"{salt}\0{case_id}".encode("utf-8", "backslashreplace")).digest()[:8]
    return "holdout" if int.from_bytes(head, "big") < holdout * 2**64 else "train"


# Names that are searched for a similar one, and the characters of a path in an error.
_LISTED_MAX = 500
_SHOWN_MAX = 100
# No model takes a text of this size: 64 MiB.
_BYTES_MAX = 64 * 1024 * 1024
# Base64 makes a third more of it; the APIs take requests of 32 MB.
_ATTACHED_BYTES_MAX = 20 * 1024 * 1024
_MAGIC: Mapping[str, Mapping[str, bytes]] = {
    "image": {
        ".png": rb"\x89PNG\r\n",
        ".jpg": rb"\xff\xd8\xff",
        ".jpeg": rb"\xff\xd8\xff",
        ".gif": rb"GIF8",
        ".webp": rb"RIFF....WEBP",
    },
    "pdf": {".pdf": rb"%PDF-"},
}


def file_reference(value: object) -> str | None:
    """The path in `{"file": "path"}`; None for every other value."""
    if isinstance(value, dict) and len(mapping := cast("dict[str, object]", value)) == 1:
        path = mapping.get("file")
        return path if isinstance(path, str) else None
    return None


def _shorten(reference: str) -> str:
    return repr(reference) if len(reference) <= _SHOWN_MAX else f"{reference[:_SHOWN_MAX]!r}..."


class Texts:
    """Reads the files that cases refer to, each once, from the fixtures folder alone."""

    def __init__(self, fixtures_dir: Path) -> None:
        self._home_name = fixtures_dir.name
        self._root = fixtures_dir.resolve()
        # Cases share files.
        self.text = cache(self._text)
        self.digest = cache(self._digest)

    def _text(self, reference: str) -> str:
        r"""The text of a file, without byte order mark and with `\n` for every line end.

        So the digest of a case does not depend on how git checks files out.

        Args:
            reference: The path from the fixtures folder, with `/` between its parts.

        Raises:
            ValueError: The path leaves the folder, names no file, or the file is not UTF-8.
        """
        data = self._bytes(reference, bytes_max=_BYTES_MAX)
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise ValueError(f"the file {reference!r} is not UTF-8, see its line {line}") from error
        return text.replace("\r\n", "\n")

    def _digest(self, reference: str, kind: str) -> str:
        """The SHA-256 of an image or a PDF file.

        Raises:
            ValueError: The path leaves the folder, or names no file of this kind.
        """
        data = self._bytes(reference, bytes_max=_ATTACHED_BYTES_MAX)
        formats = _MAGIC[kind].get(PurePosixPath(reference).suffix.lower())
        if formats is None:
            suffixes = ", ".join(_MAGIC[kind])
            raise ValueError(f"the {kind} {reference!r} does not end in {suffixes}")
        if not re.match(formats, data, re.DOTALL):
            raise ValueError(f"the content of {reference!r} is not {kind} data of this file type")
        return hashlib.sha256(data).hexdigest()

    def _bytes(self, reference: str, *, bytes_max: int) -> bytes:
        inner = PurePosixPath(reference)
        if not reference.strip() or "\\" in reference or "\0" in reference:
            raise ValueError(
                f"{reference!r} is not a path: write it with / from the folder {self._home_name!r}"
            )
        if inner.is_absolute() or ".." in inner.parts or ":" in "".join(inner.parts[:1]):
            raise ValueError(
                f"the file {reference!r} is not named by its path inside the folder"
                f" {self._home_name!r}"
            )
        try:
            path = (self._root / inner).resolve()
            if not path.is_relative_to(self._root):
                raise ValueError(
                    f"the file {reference!r} is a link that leaves the folder {self._home_name!r}"
                )
            return read_regular(path, bytes_max=bytes_max)
        except FileNotFoundError:
            raise ValueError(self._missing(reference, inner)) from None
        except RuntimeError as error:
            raise ValueError(f"the file {reference!r} is a link to itself") from error
        except OSError as error:
            # Until Python 3.12 a loop of links is a RuntimeError, from 3.13 on it is this.
            if error.errno == errno.ELOOP:
                raise ValueError(f"the file {reference!r} is a link to itself") from error
            reason = error.strerror or str(error)
            reason = reason[:1].lower() + reason[1:]
            raise ValueError(f"the file {_shorten(reference)} cannot be read: {reason}") from error

    def _missing(self, reference: str, inner: PurePosixPath) -> str:
        folder = self._root / inner.parent
        names: list[str] = []
        if folder.is_dir():
            names = sorted(path.name for path in folder.iterdir())[:_LISTED_MAX]
        near = closest(inner.name, names)
        hint = f"; did you mean {str(inner.parent / near)!r}?" if near else ""
        return f"there is no file {reference!r} in the folder {self._home_name!r}{hint}"


_ID = re.compile(_ID_PATTERN)
_ID_RULE = "a-z, A-Z, 0-9 and _ . + / - only, at most 200"
_TIERS: tuple[str, ...] = get_args(Tier)
_SPLITS: tuple[str, ...] = get_args(Split)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Settings for turning the records of a file into cases.

    Attributes:
        texts: Reads the files that cases refer to.
        tools: Reads the results of tools.
        salt: See `split_of`.
        holdout: See `split_of`.
    """

    texts: Texts
    tools: ToolFiles
    salt: str
    holdout: float


def read_cases(records: Iterable[Record], source: Source, reading: Reading) -> list[GoldenCase]:
    """Read the cases of a file; errors are added to `source`."""
    first: dict[str, int] = {}
    cases: list[GoldenCase] = []
    for record in records:
        if source.excludes(record.values.get("id")):
            continue
        case = _CaseReader(record, record.values, source, reading).read_case(first)
        if case is not None:
            cases.append(case)
    return cases


@dataclass(frozen=True, slots=True)
class _CaseReader:
    """Reads one record as a case; errors are added to its source."""

    _record: Record
    _values: Mapping[str, object]
    _source: Source
    _reading: Reading

    def read_case(self, first: dict[str, int]) -> GoldenCase | None:
        """Read the case; None if it has an error.

        Args:
            first: The first line of each id so far.
        """
        record, source, reading = self._record, self._source, self._reading
        diagnostics = len(source.diagnostics)
        case_id = self._read_id(first)
        for key in record.values:
            if key not in KEYS:
                is_known(key, source, record.line_of(key))
        inputs, expected = self._read_inputs(), self._read_expected()
        tier = self._word("tier", _TIERS) or "required"
        split = self._word("split", _SPLITS)
        tags = self._tags()
        origin, licence, note = map(self._text, ("source", "licence", "note"))
        checks = self._checks("checks", self._values.get("checks"))
        script = self._script()
        pass_at = self._pass_at(script)
        if len(source.diagnostics) > diagnostics:
            return None
        return GoldenCase(
            id=case_id,
            inputs=inputs,
            expected=expected,
            tags=tags,
            tier=cast("Tier", tier),
            split=cast("Split", split)
            or split_of(case_id, salt=reading.salt, holdout=reading.holdout),
            source=origin,
            licence=licence,
            location=f"{source.place.as_posix()}:{record.line}",
            note=note,
            checks=checks,
            pass_at=pass_at,
            script=script,
        )

    def _add_error(self, key: str, message: str, fix: str = "") -> None:
        self._source.add_error(self._record.line_of(key), message, fix)

    def _read_id(self, first: dict[str, int]) -> str:
        value = self._values.get("id")
        if value is None:
            self._add_error("id", "a case without an id", 'give it one: "id": "a-unique-name"')
            return ""
        if not isinstance(value, str):
            self._add_error("id", f"the id {_format_value(value)} is not text", "put it in quotes")
            return ""
        if not _ID.fullmatch(value) or value in _OPERATORS:
            plain = _slug(value)
            fix = f"{_ID_RULE}" + (f", such as {plain!r}" if plain else "")
            if value in _OPERATORS:
                fix = "pytest -k reads this word as an operator; choose another id"
            self._add_error("id", f"the id {_format_value(value)} cannot be the id of a test", fix)
        if value in first:
            place = f"{self._source.unit} {first[value]}"
            message = f"the id {_format_value(value)} is taken: {place} has it too"
            self._add_error("id", message, "every case needs an id of its own")
        else:
            first[value] = self._record.line_of("id")
        return value

    def _read_inputs(self) -> Mapping[str, JSON]:
        value = self._values.get("inputs")
        if isinstance(value, dict):
            return self._with_texts("inputs", cast("Mapping[str, JSON]", value))
        if "inputs" in self._values:
            fix = 'name each value, as in "inputs": {"name": "..."}'
            message = f"inputs is {_kind(value)}, not a mapping of names to values"
            self._add_error("inputs", message, fix)
        else:
            fix = 'name what the prompt needs: "inputs": {"name": "..."}'
            self._add_error("inputs", "a case without inputs", fix)
        return {}

    def _read_expected(self) -> JSON:
        value = cast("JSON", self._values.get("expected"))
        if (reference := file_reference(value)) is not None:
            return self._text_of("expected", "expected", reference)
        return self._with_texts("expected", value) if isinstance(value, dict) else value

    def _with_texts(self, key: str, values: Mapping[str, JSON]) -> Mapping[str, JSON]:
        """The mapping, with the text of the file for each `{"file": ...}` value."""
        if not any(isinstance(item, dict | list) for item in values.values()):
            return values
        changed = dict(values)
        for name, item in values.items():
            place = f"{key}.{name}"
            if isinstance(item, list) and key == "inputs":
                changed[name] = [
                    self._message(f"{place}[{number}]", message)
                    for number, message in enumerate(item)
                ]
            elif (reference := file_reference(item)) is not None:
                changed[name] = self._text_of(key, place, reference)
            elif isinstance(item, dict) and key == "inputs":
                changed[name] = self._part(key, place, item)
        return changed

    def _message(self, place: str, message: JSON) -> JSON:
        """A message with the files that its content names; any other value unchanged."""
        if not isinstance(message, dict) or not isinstance(message.get("content"), list | dict):
            return message
        content = message["content"]
        parts = content if isinstance(content, list) else [content]
        read = [self._part("inputs", f"{place}.content", part) for part in parts]
        return {**message, "content": read}

    def _part(self, key: str, place: str, part: JSON) -> JSON:
        """A part of a message: a file's text, an attachment with its digest, or unchanged."""
        if (reference := file_reference(part)) is not None:
            return self._text_of(key, place, reference)
        if isinstance(part, dict) and (kind := _attached_kind(part)):
            path = str(part[kind])
            try:
                return {kind: path, "sha256": self._reading.texts.digest(path, kind)}
            except ValueError as error:
                self._add_error(key, f"{place}: {error}")
        return part

    def _text_of(self, key: str, place: str, reference: str) -> str:
        try:
            return self._reading.texts.text(reference)
        except ValueError as error:
            self._add_error(key, f"{place}: {error}")
            return ""

    def _tags(self) -> tuple[str, ...]:
        value = self._values.get("tags")
        if value is None:
            return ()
        tags = cast("list[object]", value) if isinstance(value, list) else []
        words = [tag for tag in tags if isinstance(tag, str) and tag.strip() == tag != ""]
        sound = isinstance(value, list) and len(words) == len(tags)
        if sound and not any(";" in word for word in words):
            return tuple(map(intern, words))
        fix = 'a list of words without ";": "tags": ["storage", "night"]'
        self._add_error("tags", f"tags is {_format_value(self._values['tags'])}", fix)
        return ()

    def _checks(self, key: str, value: object) -> tuple[JSON, ...]:
        """The judges that a case or a turn names; the run resolves them."""
        if value is None:
            return ()
        checks = list_of(value)
        if checks and all(isinstance(check, str | dict) for check in checks):
            return tuple(cast("list[JSON]", checks))
        fix = 'a list of judges: "checks": [{"contains": "Berlin"}, "json_parses"]'
        self._add_error(key, f"checks is {_format_value(value)}", fix)
        return ()

    def _script(self) -> Script | None:
        """The conversation of a case; None for a single request."""
        keys = ("turns", "persona", "max_turns", "tools", "max_steps")
        set_keys = {key for key in keys if self._values.get(key) is not None}
        if not set_keys:
            return None
        turns = self._turns()
        persona, tools = self._text("persona"), self._text("tools")
        for key in ("persona", "tools"):
            if self._values.get(key) == "":
                self._add_error(key, f"{key} is empty", f"name a file, or remove `{key}`")
        if set_keys >= {"turns", "persona"}:
            self._add_error("persona", "a case with `turns` and a `persona`", "remove one of them")
        if "max_turns" in set_keys and "persona" not in set_keys:
            fix = "name a `persona`, or remove `max_turns`"
            self._add_error("max_turns", "max_turns without a persona", fix)
        if set_keys == {"max_steps"}:
            fix = "add `tools`, `turns` or `persona`"
            self._add_error("max_steps", "max_steps without a conversation", fix)
        line = self._record.line_of("tools")
        return Script(
            turns=turns,
            persona=persona,
            max_turns=self._limit("max_turns", TURNS_DEFAULT),
            tools=self._reading.tools.read(tools, self._source, line) if tools else None,
            max_steps=self._limit("max_steps", STEPS_DEFAULT),
        )

    def _limit(self, key: str, default: int) -> int:
        value = self._values.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= COUNT_MAX:
            return value
        if value is not None:
            self._add_error(
                key, f"{key} is {_format_value(value)}", f"write a number from 1 to {COUNT_MAX}"
            )
        return default

    def _turns(self) -> tuple[Turn, ...]:
        value = self._values.get("turns")
        fix = '"turns": [{"user": "Where is my order?"}]'
        if value is not None and not list_of(value):
            self._add_error("turns", f"turns is {_format_value(value)}", f"a list of turns: {fix}")
        keys = TurnKeys.__dataclass_fields__
        turns: list[Turn] = []
        for number, item in enumerate(list_of(value), start=1):
            if not isinstance(item, dict):
                self._add_error("turns", f"turn {number} is {_kind(item)}, not a mapping", fix)
                continue
            fields = cast("dict[str, JSON]", item)
            for key in fields:
                if key not in keys:
                    hint = did_you_mean(key, keys) or f"known keys: {', '.join(keys)}"
                    self._add_error("turns", f"turn {number} has no key {key!r}", hint)
            user = self._user(fields.get("user", ""), number)
            if user is None:
                message = f"the user of turn {number} is {_kind(fields['user'])}, not text"
                self._add_error("turns", message, fix)
                continue
            if not user and number > 1:
                fix_user = "only the first turn can omit `user`: the prompt itself may end with it"
                self._add_error("turns", f"turn {number} has no message of the user", fix_user)
            checks = self._checks("turns", fields.get("checks"))
            turns.append(Turn(user=user, expected=fields.get("expected"), checks=checks))
        return tuple(turns)

    def _user(self, value: JSON, number: int) -> JSON:
        """The message of a turn: a text, or a list of texts and attachments; None if neither."""
        parts = [
            self._part("turns", f"turns[{number}].user", part)
            for part in (value if isinstance(value, list) else [value])
        ]
        if all(isinstance(part, str) for part in parts):
            return "".join(map(str, parts))
        is_content = all(isinstance(part, str) or _attached_kind(part) for part in parts)
        return parts if is_content else None

    def _pass_at(self, script: Script | None) -> float | None:
        value = self._values.get("pass_at")
        if value is None:
            return None
        if isinstance(value, str):  # a cell of a CSV file
            with suppress(ValueError):
                value = float(value)
        of_turns = script is not None and any(turn.checks for turn in script.turns)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            self._add_error(
                "pass_at", f"pass_at is {_format_value(value)}", "a share above 0 and up to 1"
            )
        elif not self._values.get("checks") and not of_turns:
            self._add_error(
                "pass_at", "pass_at without checks", "add `checks`, or remove `pass_at`"
            )
        else:
            return float(value)
        return None

    def _word(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self._values.get(key)
        if isinstance(value, str) and value in allowed:
            return value
        if value is not None:
            near = did_you_mean(str(value), allowed)
            fix = f"one of {', '.join(allowed)}" + (f"; {near}" if near else "")
            self._add_error(key, f"no such {key}: {_format_value(value)}", fix)
        return ""

    def _text(self, key: str) -> str:
        value = self._values.get(key)
        if value is not None and not isinstance(value, str):
            self._add_error(key, f"{key} is {_kind(value)}, not text")
        # Many cases have the same.
        return intern(value) if isinstance(value, str) else ""


def _attached_kind(value: JSON) -> str:
    """`image` or `pdf` if the value names such a file, with or without its digest; else empty."""
    if isinstance(value, dict):
        for kind in _MAGIC:
            if isinstance(value.get(kind), str) and not value.keys() - {kind, "sha256"}:
                return kind
    return ""


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, dict) else _format_value(value)


def _format_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004 - the width of a line


def _slug(value: str) -> str:
    """The allowed characters of an id, short enough for a message."""
    letters = unicodedata.normalize("NFKD", value.replace("ß", "ss"))
    plain = letters.encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_.+/-]+", "-", plain).strip("-+./")[:40]
