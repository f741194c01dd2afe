"""Baselines as files: a line for each case, read with a line for every error, written at once."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from regauge.atomic import write_whole
from regauge.errors import Fault, FaultyFileError
from regauge.evidence import Count
from regauge.gate._numbers import CONTROL_FIRST, HISTORY_FIRST
from regauge.gate.baselines._baseline import (
    CASE_DIGITS,
    Anchor,
    Baseline,
    CaseTrials,
    HistoryKey,
    Session,
    StoredHistory,
)
from regauge.regular_file import read_regular
from regauge.strict_json import TwiceError, read_json, unique

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pydantic_core import ErrorDetails

    from regauge.digests import JSON
    from regauge.project import Project

__all__ = [
    "SCHEMA_VERSION",
    "BaselineDocument",
    "BaselineError",
    "baseline_faults",
    "baseline_path",
    "baseline_text",
    "load_baseline",
    "numbers_of",
    "parse_baseline",
    "plain_scores",
    "ranges_text",
    "save_baseline",
]

SCHEMA_VERSION: Final = 1


def baseline_text(baseline: Baseline) -> str:
    """A baseline as its file has it."""
    head = [f'  "schema_version": {SCHEMA_VERSION}', f'  "prompt": {_json(baseline.prompt)}']
    head += [
        f'  "{name}": {_listed([(history, "") for history in histories])}'
        for name, histories in (
            ("histories", baseline.histories),
            ("previous", baseline.previous),
        )
    ]
    if baseline.anchors:
        kept = [(anchor.history, anchor.drawn_for) for anchor in baseline.anchors]
        head.append(f'  "anchors": {_listed(kept)}')
    return "{\n" + ",\n".join(head) + "\n}\n"


def ranges_text(numbers: Iterable[int]) -> str:
    """Rising numbers as text: `100-103,105`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{a}-{b}" if a != b else f"{a}" for a, b in parts)


def numbers_of(text: str) -> tuple[int, ...]:
    """The rising numbers that a text such as `100-103,105` names, at least one.

    Raises:
        ValueError: It names none, or not in rising order.
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match is None:
            raise ValueError(f"{text!r} are no trial numbers such as 100-103,105")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or (found and first <= found[-1]):
            raise ValueError(f"trial numbers {text!r} do not rise")
        found += range(first, last + 1)
    return tuple(found)


def plain_scores(count: Count) -> tuple[float, ...]:
    """The scores of a judge that only passes and fails: these are not written."""
    return (0.0,) * count.failed + (1.0,) * count.passed


def _listed(histories: Sequence[tuple[StoredHistory, str]]) -> str:
    if not histories:
        return "[]"
    ordered = sorted(histories, key=_order)
    return "[\n" + ",\n".join(_history_text(*known) for known in ordered) + "\n  ]"


def _order(known: tuple[StoredHistory, str]) -> tuple[str, str, str]:
    history, _ = known
    return history.key.dataset, history.key.model, str(history)


def _history_text(history: StoredHistory, drawn_for: str) -> str:
    key = history.key
    lines = [
        f'      "prompt_digest": {_json(key.prompt)}',
        f'      "version": {_json(history.version)}',
        *([f'      "drawn_for": {_json(drawn_for)}'] if drawn_for else []),
        f'      "model": {_json(key.model)}',
        f'      "parameters": {_json(key.parameters, ordered=True)}',
        f'      "dataset": {_json(key.dataset)}',
        _block(
            "judges", [f"{_json(name)}: {_json(key.judges[name])}" for name in sorted(key.judges)]
        ),
        *([f'      "rules": {_json(key.rules, ordered=True)}'] if key.rules else []),
        *([f'      "audited": {_json(history.audited)}'] if history.audited else []),
        _block("sessions", [_session_text(session) for session in history.sessions], ends="[]"),
        _block(
            "cases",
            [f"{_json(name)}: {_case_text(history.cases[name])}" for name in sorted(history.cases)],
        ),
    ]
    return "    {\n" + ",\n".join(lines) + "\n    }"


def _block(name: str, lines: Sequence[str], *, ends: str = "{}") -> str:
    if not lines:
        return f'      "{name}": {ends}'
    inner = ",\n".join(f"        {line}" for line in lines)
    return f'      "{name}": {ends[0]}\n{inner}\n      {ends[1]}'


def _session_text(session: Session) -> str:
    document: dict[str, Any] = {
        "id": session.id,
        "trials": ranges_text(range(session.first, session.last + 1)),
    }
    if session.served:
        document["served"] = list(session.served)
    return _json(document)


def _case_text(case: CaseTrials) -> str:
    trials = len(case.drawn)
    document: dict[str, Any] = {
        "digest": case.digest,
        "trials": trials,
        "passed": case.passed,
        "drawn": ranges_text(case.drawn),
        "answers": list(case.answers),
    }
    names = sorted(case.checks)
    document |= {"silent": case.silent} if case.silent else {}
    failed = {name: case.checks[name].failed for name in names if case.checks[name].failed}
    silent = {name: trials - case.checks[name].trials for name in names}
    document |= {"failed": failed} if failed else {}
    document |= {"abstained": given} if (given := _above_zero(silent)) else {}
    scores = {
        name: list(case.scores[name])
        for name in names
        if name in case.scores and case.scores[name] != plain_scores(case.checks[name])
    }
    document |= {"scores": scores} if scores else {}
    return _json(document)


def _above_zero(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _json(value: Any, *, ordered: bool = False) -> str:
    """One line; keys stand as they are given, unless they have no order of their own."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=dict, sort_keys=ordered)


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _SessionDocument(_Document):
    id: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")
    trials: str
    served: list[str] = []

    def value(self) -> Session:
        numbers = numbers_of(self.trials)
        return Session(
            id=self.id, first=numbers[0], last=numbers[-1], served=tuple(sorted(self.served))
        )


class _CaseDocument(_Document):
    digest: str = Field(pattern=rf"^[0-9a-f]{{{CASE_DIGITS}}}$")
    trials: int
    passed: int
    silent: int = 0
    drawn: str
    answers: list[str] = []
    failed: dict[str, int] = {}
    abstained: dict[str, int] = {}
    scores: dict[str, list[float]] = {}

    @model_validator(mode="after")
    def _adds_up(self) -> _CaseDocument:
        drawn = len(numbers_of(self.drawn))
        if self.trials != drawn:
            raise ValueError(f"trials is {self.trials}, but {drawn} numbers are listed")
        if not 0 <= self.silent <= self.trials:
            raise ValueError(f"{self.silent} of {self.trials} trials cannot be without an opinion")
        if not 0 <= self.passed <= self.trials - self.silent:
            judged = self.trials - self.silent
            raise ValueError(f"{self.passed} of {judged} trials cannot have passed")
        for name in {*self.failed, *self.abstained}:
            failed, abstained = self.failed.get(name, 0), self.abstained.get(name, 0)
            if min(failed, abstained) < 0 or failed + abstained > self.trials:
                raise ValueError(f"{name!r} failed and abstained more often than it was asked")
        if self.passed > self.trials - max(self.failed.values(), default=0):
            raise ValueError("a trial that a judge failed has not passed")
        for name, scores in self.scores.items():
            if len(scores) != self.trials - self.abstained.get(name, 0):
                raise ValueError(f"{name!r} has not one score for each trial")
            if not all(0 <= score <= 1 for score in scores):
                raise ValueError(f"scores of {name!r} are not all between 0 and 1")
        return self

    def value(self, judges: Iterable[str]) -> CaseTrials:
        checks: dict[str, Count] = {}
        scores: dict[str, tuple[float, ...]] = {}
        for name in judges:
            asked = self.trials - self.abstained.get(name, 0)
            failed = self.failed.get(name, 0)
            checks[name] = Count(passed=asked - failed, trials=asked)
            given = self.scores.get(name)
            if asked:
                scores[name] = tuple(sorted(given)) if given else plain_scores(checks[name])
        return CaseTrials(
            digest=self.digest,
            drawn=numbers_of(self.drawn),
            passed=self.passed,
            silent=self.silent,
            checks=checks,
            scores=scores,
            answers=tuple(sorted(self.answers)),
        )


class _HistoryDocument(_Document):
    prompt_digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    version: str = ""
    model: str
    parameters: dict[str, Any] = {}
    dataset: str
    judges: dict[str, str]
    rules: dict[str, int] = {}
    audited: str = ""
    sessions: list[_SessionDocument]
    cases: dict[str, _CaseDocument]

    @model_validator(mode="after")
    def _belongs_together(self) -> _HistoryDocument:
        end = HISTORY_FIRST
        for session in self.sessions:
            numbers = numbers_of(session.trials)
            if not end <= numbers[0] <= numbers[-1] < CONTROL_FIRST:
                message = (
                    f"trials {session.trials} of session {session.id} do not follow those before;"
                    f" they go from {HISTORY_FIRST} to {CONTROL_FIRST - 1}"
                )
                raise _contradiction(message, key="sessions")
            end = numbers[-1] + 1
        drawn = {n for session in self.sessions for n in numbers_of(session.trials)}
        for name, case in self.cases.items():
            if not drawn.issuperset(numbers_of(case.drawn)):
                message = f"case {name!r} has trials of no session"
                raise _contradiction(message, key=name)
            unknown = {*case.failed, *case.abstained, *case.scores}.difference(self.judges)
            if unknown:
                message = f"case {name!r} names {min(unknown)!r}, which is no judge here"
                raise _contradiction(message, key=name)
            if any(case.abstained.get(judge, 0) < case.silent for judge in self.judges):
                message = (
                    f"case {name!r} has {case.silent} silent trials, and a judge spoke in some"
                )
                raise _contradiction(message, key=name)
        return self

    def value(self) -> StoredHistory:
        return StoredHistory(
            key=HistoryKey(
                prompt=self.prompt_digest,
                model=self.model,
                parameters=self.parameters,
                dataset=self.dataset,
                judges=self.judges,
                rules=self.rules,
            ),
            version=self.version,
            audited=self.audited,
            sessions=tuple(session.value() for session in self.sessions),
            cases={name: case.value(self.judges) for name, case in self.cases.items()},
        )


class _AnchorDocument(_HistoryDocument):
    drawn_for: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")


class BaselineDocument(_Document):
    schema_version: Literal[1]
    prompt: str
    histories: list[_HistoryDocument] = []
    previous: list[_HistoryDocument] = []
    anchors: list[_AnchorDocument] = []

    def value(self) -> Baseline:
        return Baseline(
            prompt=self.prompt,
            histories=tuple(history.value() for history in self.histories),
            previous=tuple(history.value() for history in self.previous),
            anchors=tuple(
                Anchor(history=anchor.value(), drawn_for=anchor.drawn_for)
                for anchor in self.anchors
            ),
        )


def _contradiction(message: str, *, key: str) -> PydanticCustomError:
    """A fault of a history as a whole, with the key whose line shows it best."""
    return PydanticCustomError("contradiction", "{message}", {"message": message, "key": key})


# The lists of histories behind the first one.
_LATER_LISTS = frozenset({"previous", "anchors"})
_KEY = re.compile(r'^\s*(?:\{\s*)?("(?:[^"\\]|\\.)*")\s*:')


def _rebuild(path: Path) -> str:
    """The command that rebuilds every baseline, also if the base's copy is broken."""
    return (
        "take the last copy that was whole from git, or delete the file; then run:"
        f" regauge baseline update {path.stem}"
    )


class BaselineError(FaultyFileError):
    """A baseline that cannot be read; nothing is compared with half of it."""


def baseline_path(project: Project, prompt: str) -> Path:
    """Where the baseline of a prompt is."""
    return project.baseline_path(prompt)


def parse_baseline(data: bytes, *, shown: Path) -> Baseline:
    """Read the content of a baseline.

    Args:
        data: What the file holds, now or in a commit.
        shown: The file, as people write it.

    Raises:
        BaselineError: It is no baseline; every fault is listed with its line.
    """
    document, text = _document(data, shown)
    given = document.get("schema_version") if isinstance(document, dict) else None
    if isinstance(given, int) and given != SCHEMA_VERSION:
        newer = given > SCHEMA_VERSION
        fix = "use the regauge that wrote it, or a newer one" if newer else _rebuild(shown)
        message = f"schema version {given}; this regauge reads version {SCHEMA_VERSION}"
        raise BaselineError([Fault(path=shown, line=None, message=message, fix=fix)])
    try:
        return BaselineDocument.model_validate(document).value()
    except ValidationError as error:
        places = _Places(text)
        faults = [
            Fault(
                path=shown,
                line=places.line((*item["loc"], *_shown_key(item))),
                message=f"{_dotted(item['loc'])}: {item['msg'].removeprefix('Value error, ')}",
            )
            for item in error.errors()
        ]
        *others, last = sorted(faults, key=lambda fault: fault.line or 0)
        raise BaselineError([*others, replace(last, fix=_rebuild(shown))]) from error


class Parse(Protocol):
    """Reads the content of a baseline, as `parse_baseline` does."""

    def __call__(self, data: bytes, *, shown: Path) -> Baseline: ...


def load_baseline(path: Path, *, shown: Path, parse: Parse = parse_baseline) -> Baseline | None:
    """Read a baseline; None where there is no such file.

    Raises:
        BaselineError: It cannot be read; every fault is listed with its line.
    """
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BaselineError([Fault.unreadable(shown, error)]) from error
    return parse(data, shown=shown)


def baseline_faults(project: Project) -> list[Fault]:
    """Errors in the baselines of a project, of any prompt."""
    faults: list[Fault] = []
    for path in sorted((project.fixtures_dir / "baselines").glob("[!.]*.json")):
        try:
            load_baseline(path, shown=project.relative(path))
        except BaselineError as error:
            faults.extend(error.faults)
    return faults


def save_baseline(path: Path, baseline: Baseline) -> bool:
    """Write a baseline in one step; returns whether the file differs from what was there.

    Raises:
        BaselineError: It cannot be written.
    """
    content = baseline_text(baseline).encode()
    try:
        if path.is_file() and path.read_bytes() == content:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        message = f"cannot be written: {error.strerror or error}"
        raise BaselineError([Fault(path=path, line=None, message=message)]) from error
    return True


def _document(data: bytes, shown: Path) -> tuple[JSON, str]:
    """The JSON of a baseline, and its text."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _broken(shown, None, f"not UTF-8: {error.reason}") from error
    try:
        return cast("JSON", read_json(text, object_pairs_hook=unique)), text
    except json.JSONDecodeError as error:
        conflict = re.search(r"^(<{7}|={7}|>{7})", text, re.MULTILINE)
        line = text[: conflict.start()].count("\n") + 1 if conflict else error.lineno
        message = "a merge conflict was left here" if conflict else f"not JSON: {error.msg}"
        raise _broken(shown, line, message) from error
    except TwiceError as error:
        named = [n for n, line in enumerate(text.splitlines(), 1) if _key_of(line) == error.key]
        raise _broken(shown, named[-1] if named else None, f"{error.key!r} stands twice") from error
    except ValueError as error:
        raise _broken(shown, None, f"not JSON: {error}") from error


def _broken(path: Path, line: int | None, message: str) -> BaselineError:
    return BaselineError([Fault(path=path, line=line, message=message, fix=_rebuild(path))])


def _shown_key(item: ErrorDetails) -> tuple[str, ...]:
    key = item.get("ctx", {}).get("key")
    return (key,) if isinstance(key, str) else ()


def _dotted(place: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in place) or "the file"


def _key_of(line: str) -> str | None:
    match = _KEY.match(line)
    return cast("str", json.loads(match[1])) if match else None


class _Places:
    """On which lines the keys of a baseline stand."""

    def __init__(self, text: str) -> None:
        self._keys: list[tuple[int, int, str]] = []
        self._starts: dict[str, int] = {}
        history = -1
        for number, line in enumerate(text.splitlines(), 1):
            key = _key_of(line)
            if key is None:
                continue
            if key == "prompt_digest":
                history += 1
            elif key in _LATER_LISTS:
                self._starts[key] = history + 1
            self._keys.append((history, number, key))

    def line(self, place: tuple[int | str, ...]) -> int | None:
        """The line of the innermost key of a place that begins a line."""
        wanted = [part for part in place if isinstance(part, str)]
        index = next((part for part in place if isinstance(part, int)), None)
        if index is not None:
            index += self._starts.get(wanted[0], 0)
        for name in reversed(wanted):
            for history, number, key in self._keys:
                if key == name and index in {None, history}:
                    return number
        return None
