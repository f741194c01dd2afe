"""Baselines: pass counts of the base per case, and the key they belong to."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from regauge.errors import Diagnostic, GitError, InvalidFileError, UsageError, find_errors
from regauge.evidence import Count
from regauge.files import read_regular, write_whole
from regauge.gate._trials import BASELINE_FIRST, CONTROL_FIRST
from regauge.gate._types import BaseTrials
from regauge.judges import check_versions, is_case_checks
from regauge.prompts import Repository
from regauge.strict_json import (
    DuplicateKeyError,
    explain_format,
    read_json,
    syntax_problem,
    unique,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pydantic_core import ErrorDetails

    from regauge.digests import JSON
    from regauge.gate._types import TrialFacts
    from regauge.judges import Judge
    from regauge.project import Project
    from regauge.runner import Eval


# Hexadecimal digits: 64 bits for a case, whose trials depend on them, and 32 bits to tell outputs
# of one case apart. More lengthen every line of a baseline.
CASE_DIGITS = 16
_OUTPUT_DIGITS = 8
_SCORE_DIGITS = 4

KeyPart: TypeAlias = Literal["prompt", "parameters", "model", "judge", "dataset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDifference:
    """One part in which two keys differ.

    Attributes:
        name: Name of the judge; empty for other parts.
        stored_value: Value of the stored trials; None if there was no such judge.
        current_value: Value now; None if the judge was removed.
        rules: Rule versions of the stored trials, as in `BaselineKey`.
    """

    part: KeyPart
    name: str = ""
    stored_value: str | None
    current_value: str | None
    rules: Mapping[str, int] = field(default_factory=dict[str, int], compare=False)

    def __str__(self) -> str:
        which = f"judge {self.name!r}" if self.part == "judge" else self.part
        if self.stored_value is None:
            return f"{which} is new"
        if self.current_value is None:
            return f"{which} is gone"
        return f"{which}: {_shorten(self.stored_value)} then, {_shorten(self.current_value)} now"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineKey:
    """Everything but the case that can change a result; each key has its own baseline.

    Attributes:
        prompt: Digest of the prompt.
        model: Model as `provider:model`.
        parameters: Sampling parameters; the prompt's digest covers them too.
        dataset: Name of the golden dataset.
        judges: Digest of each blocking judge, by name.
        rules: Versions of regauge's rules in the digest of checks; empty without checks.
    """

    prompt: str
    model: str
    parameters: Mapping[str, JSON] = field(default_factory=dict[str, "JSON"])
    dataset: str
    judges: Mapping[str, str]
    rules: Mapping[str, int] = field(default_factory=dict[str, int], compare=False)

    def differences(self, key: BaselineKey) -> tuple[KeyDifference, ...]:
        """The differences between this key and another."""
        parts: list[tuple[KeyPart, str, str | None, str | None]] = [
            ("prompt", "", self.prompt, key.prompt),
            ("dataset", "", self.dataset, key.dataset),
            ("model", "", self.model, key.model),
        ]
        if self.prompt == key.prompt and dict(self.parameters) != dict(key.parameters):
            parameters = (str(dict(self.parameters)), str(dict(key.parameters)))
            parts.append(("parameters", "", *parameters))
        parts.extend(
            ("judge", name, self.judges.get(name), key.judges.get(name))
            for name in sorted({*self.judges, *key.judges})
        )
        return tuple(
            KeyDifference(
                part=part, name=name, stored_value=value, current_value=other, rules=self.rules
            )
            for part, name, value, other in parts
            if value != other
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session of trials of the base.

    Attributes:
        id: Start in UTC, such as `2026-11-21T09:30:00Z`.
        first: First trial number.
        last: Last trial number.
        models: Models and fingerprints that providers reported, sorted.
    """

    id: str
    first: int
    last: int
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrials:
    """The stored trials of one case.

    Attributes:
        digest: First 16 digits of the case's digest.
        numbers: Trial numbers, rising.
        passed: Trials that passed every judge without an abstention.
        silent: Trials in which all judges abstained: they count neither way.
        checks: Passes and trials of each judge, without abstentions.
        scores: Scores of each judge, lowest first, without abstentions.
        output_digests: First digits of the digests of different outputs, sorted.
    """

    digest: str
    numbers: tuple[int, ...] = ()
    passed: int = 0
    silent: int = 0
    checks: Mapping[str, Count] = field(default_factory=dict[str, Count])
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    output_digests: tuple[str, ...] = ()

    @property
    def total(self) -> Count:
        """The passed trials, of those with a verdict."""
        return Count(passed=self.passed, trials=len(self.numbers) - self.silent)

    def add(self, number: int, facts: TrialFacts) -> StoredTrials:
        """The case with one more trial; unchanged if it has the number already."""
        if number in self.numbers:
            return self
        if self.numbers and number < self.numbers[-1]:
            raise ValueError(f"trial {number} comes after {self.numbers[-1]}")
        checks, scores = dict(self.checks), dict(self.scores)
        for name, outcome in facts.checks.items():
            count = checks.get(name, Count(passed=0, trials=0))
            if outcome is not None:
                count = Count(passed=count.passed + outcome, trials=count.trials + 1)
                score = round(facts.scores.get(name, float(outcome)), _SCORE_DIGITS)
                scores[name] = tuple(sorted((*scores.get(name, ()), score)))
            checks[name] = count
        digests = {*self.output_digests}
        if facts.passed is not None:
            digests.add(facts.output_digest[:_OUTPUT_DIGITS])
        return replace(
            self,
            numbers=(*self.numbers, number),
            passed=self.passed + bool(facts.passed),
            silent=self.silent + (facts.passed is None),
            checks=checks,
            scores=scores,
            output_digests=tuple(sorted(digests)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBaseline:
    """The trials of the base under one key.

    Attributes:
        version: Version of the prompt at that time; empty if it has none.
        sessions: Sessions, oldest first, with rising trial numbers.
        cases: Trials by case id.
        graded: Judges that ever gave a score strictly between 0 and 1.
        audit_digest: Digest of the recorded trials of the last audit; empty without any.
        drawn_for: Digest of the prompt version that the trials of an anchor were re-run alongside;
            empty if they are older.
    """

    key: BaselineKey
    version: str = ""
    sessions: tuple[Session, ...] = ()
    cases: Mapping[str, StoredTrials] = field(default_factory=dict[str, StoredTrials])
    audit_digest: str = ""
    drawn_for: str = ""
    # Computed once, as every case uses it.
    graded: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        graded = frozenset(
            name
            for case in self.cases.values()
            for name, scores in case.scores.items()
            if any(0 < score < 1 for score in scores)
        )
        object.__setattr__(self, "graded", graded)

    def find_trials(self, case_id: str, digest: str) -> BaseTrials | None:
        """The baseline of a case for the engine; None without one.

        Args:
            digest: Digest of the current case; stored trials of an older state do not count.
        """
        case = self.cases.get(case_id)
        if case is None or not case.numbers or case.digest != digest[:CASE_DIGITS]:
            return None
        graded = self.graded
        return BaseTrials(
            checks=case.checks,
            total=case.total,
            scores={name: scores for name, scores in case.scores.items() if name in graded},
            sessions=self.sessions_of(case),
            distinct_outputs=len(case.output_digests),
        )

    def sessions_of(self, case: StoredTrials) -> tuple[str, ...]:
        """The sessions that ran a case."""
        return tuple(
            session.id
            for session in self.sessions
            if any(session.first <= number <= session.last for number in case.numbers)
        )

    @property
    def models(self) -> frozenset[str]:
        """The models and fingerprints of all sessions."""
        return frozenset(name for session in self.sessions for name in session.models)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The baseline of one prompt: `fixtures/baselines/<prompt>.json`.

    Attributes:
        baselines: Baseline of each eval of the prompt on the base.
        previous: Baselines of the version before, kept until the new ones are complete.
        anchors: Trials of the anchor version, for each eval.
    """

    prompt: str
    baselines: tuple[StoredBaseline, ...] = ()
    previous: tuple[StoredBaseline, ...] = ()
    anchors: tuple[StoredBaseline, ...] = ()

    def find(self, key: BaselineKey) -> StoredBaseline | None:
        """The baseline under a key, of the current version or the one before."""
        return next(
            (baseline for baseline in self._all_baselines() if not baseline.key.differences(key)),
            None,
        )

    def find_nearest(
        self, key: BaselineKey, *, without: Sequence[Mapping[str, str]] = ()
    ) -> StoredBaseline | None:
        """The baseline of the same prompt text and dataset that differs least from a key.

        Args:
            without: Judges of baselines to leave out.
        """
        baselines = [
            baseline
            for baseline in self._all_baselines()
            if (baseline.key.prompt, baseline.key.dataset) == (key.prompt, key.dataset)
            and baseline.key.judges not in without
        ]
        return min(baselines, key=lambda baseline: len(baseline.key.differences(key)), default=None)

    def find_previous(self, key: BaselineKey) -> StoredBaseline | None:
        """The baseline of another prompt version under an otherwise equal key."""
        return next(
            (
                baseline
                for baseline in self._all_baselines()
                if {part.part for part in baseline.key.differences(key)} == {"prompt"}
            ),
            None,
        )

    def with_dataset(self, before: str, now: str) -> Baseline:
        """The baseline after a dataset was renamed; unchanged if it has the new name already."""
        if self.has_dataset(now):
            return self

        def rename(baseline: StoredBaseline) -> StoredBaseline:
            if baseline.key.dataset != before:
                return baseline
            return replace(baseline, key=replace(baseline.key, dataset=now))

        return replace(
            self,
            baselines=tuple(map(rename, self.baselines)),
            previous=tuple(map(rename, self.previous)),
            anchors=tuple(map(rename, self.anchors)),
        )

    def has_dataset(self, name: str) -> bool:
        """Return whether any of the baselines is of a dataset."""
        return any(baseline.key.dataset == name for baseline in self._all_baselines())

    def _all_baselines(self) -> Iterable[StoredBaseline]:
        yield from self.baselines
        yield from self.previous


def _shorten(value: str) -> str:
    digest = len(value) == 64 and not set(value) - set("0123456789abcdef")  # noqa: PLR2004  # SHA-256
    return value[:12] if digest else value


def blocking_judges(eval_: Eval) -> tuple[Judge, ...]:
    """The judges whose verdicts decide: all but LLM judges without a passing calibration."""
    return tuple(judge for judge in eval_.judges if eval_.status_of(judge).blocking)


def key_of(eval_: Eval) -> BaselineKey:
    """The key of an eval's trials in a baseline.

    Raises:
        UsageError: All judges are advisory.
    """
    judges = blocking_judges(eval_)
    if not judges:
        names = ", ".join(judge.name for judge in eval_.judges)
        raise UsageError(
            f"{eval_.prompt.name}: no judge decides, all of them only inform: {names}\n"
            "  fix: add a rule, or calibrate a judge: regauge judges calibrate"
        )
    return BaselineKey(
        prompt=eval_.prompt.digest,
        model=str(eval_.model),
        parameters=eval_.prompt.parameters,
        dataset=eval_.dataset.name,
        judges={judge.name: judge.digest for judge in judges},
        rules=check_versions() if any(map(is_case_checks, judges)) else {},
    )


SCHEMA_VERSION: Final = 1


def baseline_text(baseline: Baseline) -> str:
    """The text of a baseline file: every case and session on a line of its own."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "prompt": baseline.prompt,
        "baselines": _documents(baseline.baselines),
        "previous": _documents(baseline.previous),
        **_nonempty(anchors=_documents(baseline.anchors)),
    }
    return f"{_nested_text(document)}\n"


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
    """The rising numbers of a text such as `100-103,105`, at least one.

    Raises:
        ValueError: It has no numbers, or they do not rise.
    """
    numbers: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match is None:
            raise ValueError(f"{text!r} are not trial numbers such as 100-103,105")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or (numbers and first <= numbers[-1]):
            raise ValueError(f"trial numbers {text!r} do not rise")
        numbers += range(first, last + 1)
    return tuple(numbers)


def plain_scores(count: Count) -> tuple[float, ...]:
    """The scores of a judge that only passes and fails: they are not written."""
    return (0.0,) * count.failed + (1.0,) * count.passed


def _documents(baselines: Iterable[StoredBaseline]) -> list[JSON]:
    sorted_baselines = sorted(
        baselines, key=lambda baseline: (baseline.key.dataset, baseline.key.model, str(baseline))
    )
    return [_stored_document(baseline) for baseline in sorted_baselines]


def _stored_document(baseline: StoredBaseline) -> dict[str, JSON]:
    key = baseline.key
    return {
        "prompt_digest": key.prompt,
        "version": baseline.version,
        **_nonempty(drawn_for=baseline.drawn_for),
        "model": key.model,
        "parameters": json.loads(json.dumps(dict(key.parameters), sort_keys=True)),
        "dataset": key.dataset,
        "judges": dict(sorted(key.judges.items())),
        **_nonempty(rules=dict(sorted(key.rules.items())), audit_digest=baseline.audit_digest),
        "sessions": [
            {
                "id": session.id,
                "trials": ranges_text(range(session.first, session.last + 1)),
                **_nonempty(models=[*session.models]),
            }
            for session in baseline.sessions
        ],
        "cases": {name: _case_document(case) for name, case in sorted(baseline.cases.items())},
    }


def _case_document(case: StoredTrials) -> dict[str, JSON]:
    trials, checks = len(case.numbers), sorted(case.checks.items())
    return {
        "digest": case.digest,
        "trials": trials,
        "passed": case.passed,
        "numbers": ranges_text(case.numbers),
        "outputs": [*case.output_digests],
        **_nonempty(
            silent=case.silent,
            failed=_nonempty(**{name: count.failed for name, count in checks}),
            abstained=_nonempty(**{name: trials - count.trials for name, count in checks}),
            scores={
                name: [*scores]
                for name, count in checks
                if (scores := case.scores.get(name)) and scores != plain_scores(count)
            },
        ),
    }


def _nonempty(**values: JSON) -> dict[str, JSON]:
    """The values that are neither empty nor zero."""
    return {name: value for name, value in values.items() if value}


# Cases and sessions, in `baselines` of the file, are this deep.
_LINE_DEPTH = 4


def _nested_text(value: JSON, depth: int = 0) -> str:
    """JSON with an entry per line; deeper values are on one line."""
    if depth == _LINE_DEPTH or not value or not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    parts = [
        _nested_text(part, depth + 1)
        for part in (value.values() if isinstance(value, dict) else value)
    ]
    keys = (
        [f"{json.dumps(key, ensure_ascii=False)}: " for key in value]
        if isinstance(value, dict)
        else [""] * len(parts)
    )
    lines = ",".join(
        f"\n{'  ' * (depth + 1)}{key}{part}" for key, part in zip(keys, parts, strict=True)
    )
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}{lines}\n{'  ' * depth}{end}"


class _BaselineDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _SessionDocument(_BaselineDocument):
    id: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")
    trials: str
    models: list[str] = []

    def value(self) -> Session:
        numbers = numbers_of(self.trials)
        return Session(
            id=self.id, first=numbers[0], last=numbers[-1], models=tuple(sorted(self.models))
        )


class _CaseDocument(_BaselineDocument):
    digest: str = Field(pattern=rf"^[0-9a-f]{{{CASE_DIGITS}}}$")
    trials: int
    passed: int
    silent: int = 0
    numbers: str
    outputs: list[str] = []
    failed: dict[str, int] = {}
    abstained: dict[str, int] = {}
    scores: dict[str, list[float]] = {}

    @model_validator(mode="after")
    def _check_counts(self) -> _CaseDocument:
        number_count = len(numbers_of(self.numbers))
        if self.trials != number_count:
            raise ValueError(f"trials is {self.trials}, but {number_count} numbers are listed")
        if not 0 <= self.silent <= self.trials:
            raise ValueError(f"{self.silent} of {self.trials} trials cannot be without an opinion")
        if not 0 <= self.passed <= self.trials - self.silent:
            judged_trials = self.trials - self.silent
            raise ValueError(f"{self.passed} of {judged_trials} trials cannot have passed")
        for name in {*self.failed, *self.abstained}:
            failed, abstained = self.failed.get(name, 0), self.abstained.get(name, 0)
            if min(failed, abstained) < 0 or failed + abstained > self.trials:
                raise ValueError(f"{name!r} failed and abstained more often than it judged")
        if self.passed > self.trials - max(self.failed.values(), default=0):
            raise ValueError("a trial that a judge failed has not passed")
        for name, scores in self.scores.items():
            if len(scores) != self.trials - self.abstained.get(name, 0):
                raise ValueError(f"{name!r} has not one score for each trial")
            if not all(0 <= score <= 1 for score in scores):
                raise ValueError(f"scores of {name!r} are not all between 0 and 1")
        return self

    def value(self, judges: Iterable[str]) -> StoredTrials:
        checks: dict[str, Count] = {}
        scores: dict[str, tuple[float, ...]] = {}
        for name in judges:
            trials = self.trials - self.abstained.get(name, 0)
            failed = self.failed.get(name, 0)
            checks[name] = Count(passed=trials - failed, trials=trials)
            own_scores = self.scores.get(name)
            if trials:
                scores[name] = (
                    tuple(sorted(own_scores)) if own_scores else plain_scores(checks[name])
                )
        return StoredTrials(
            digest=self.digest,
            numbers=numbers_of(self.numbers),
            passed=self.passed,
            silent=self.silent,
            checks=checks,
            scores=scores,
            output_digests=tuple(sorted(self.outputs)),
        )


class _StoredDocument(_BaselineDocument):
    prompt_digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    version: str = ""
    model: str
    parameters: dict[str, Any] = {}
    dataset: str
    judges: dict[str, str]
    rules: dict[str, int] = {}
    audit_digest: str = ""
    drawn_for: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    sessions: list[_SessionDocument]
    cases: dict[str, _CaseDocument]

    @model_validator(mode="after")
    def _check_trials(self) -> _StoredDocument:
        end = BASELINE_FIRST
        for session in self.sessions:
            numbers = numbers_of(session.trials)
            if not end <= numbers[0] <= numbers[-1] < CONTROL_FIRST:
                message = (
                    f"trials {session.trials} of session {session.id} do not follow those before;"
                    f" they go from {BASELINE_FIRST} to {CONTROL_FIRST - 1}"
                )
                raise _contradiction(message, key="sessions")
            end = numbers[-1] + 1
        session_numbers = {n for session in self.sessions for n in numbers_of(session.trials)}
        for name, case in self.cases.items():
            if not session_numbers.issuperset(numbers_of(case.numbers)):
                message = f"case {name!r} has trials of no session"
                raise _contradiction(message, key=name)
            unknown = {*case.failed, *case.abstained, *case.scores}.difference(self.judges)
            if unknown:
                message = f"case {name!r} names {min(unknown)!r}, which is not a judge here"
                raise _contradiction(message, key=name)
            if any(case.abstained.get(judge, 0) < case.silent for judge in self.judges):
                message = (
                    f"case {name!r} has {case.silent} silent trials, and a judge spoke in some"
                )
                raise _contradiction(message, key=name)
        return self

    def value(self) -> StoredBaseline:
        return StoredBaseline(
            key=BaselineKey(
                prompt=self.prompt_digest,
                model=self.model,
                parameters=self.parameters,
                dataset=self.dataset,
                judges=self.judges,
                rules=self.rules,
            ),
            version=self.version,
            audit_digest=self.audit_digest,
            drawn_for=self.drawn_for,
            sessions=tuple(session.value() for session in self.sessions),
            cases={name: case.value(self.judges) for name, case in self.cases.items()},
        )


class BaselineDocument(_BaselineDocument):
    """The file of a baseline."""

    schema_version: Literal[1]
    prompt: str
    baselines: list[_StoredDocument] = []
    previous: list[_StoredDocument] = []
    anchors: list[_StoredDocument] = []

    def value(self) -> Baseline:
        """The baseline in the file."""
        return Baseline(
            prompt=self.prompt,
            baselines=tuple(baseline.value() for baseline in self.baselines),
            previous=tuple(baseline.value() for baseline in self.previous),
            anchors=tuple(anchor.value() for anchor in self.anchors),
        )


def _contradiction(message: str, *, key: str) -> PydanticCustomError:
    """An error in a whole baseline, with the key whose line shows it best."""
    return PydanticCustomError("contradiction", "{message}", {"message": message, "key": key})


# The types of errors of values that contradict each other.
_CONTRADICTIONS = frozenset({"value_error", "contradiction"})
# The lists of baselines after the first one.
_LATER_LISTS = frozenset({"previous", "anchors"})
_KEY = re.compile(r'^\s*(?:\{\s*)?("(?:[^"\\]|\\.)*")\s*:')


def _rebuild(path: Path) -> str:
    """The command that rebuilds every baseline, also if the base's copy is broken."""
    return (
        "take the last copy that was whole from git, or delete the file; then run:"
        f" regauge baseline update {quote(path.stem)}"
    )


class BaselineError(InvalidFileError):
    """A baseline that cannot be read or written."""


@lru_cache(maxsize=256)  # commits and evals share the file of a prompt
def parse_baseline(data: bytes, *, place: Path) -> Baseline:
    """Read the content of a baseline.

    Args:
        data: Content of the file, now or in a commit.
        place: Path of the file in messages.

    Raises:
        BaselineError: It is not a baseline; every error is listed with its line.
    """
    document, text = _document(data, place)
    schema_version = document.get("schema_version") if isinstance(document, dict) else None
    if isinstance(schema_version, int) and schema_version != SCHEMA_VERSION:
        newer = schema_version > SCHEMA_VERSION
        fix = "use the regauge that wrote it, or a newer one" if newer else _rebuild(place)
        message = f"schema version {schema_version}; this regauge reads version {SCHEMA_VERSION}"
        raise BaselineError.at_place(place, message, fix)
    try:
        return BaselineDocument.model_validate(document).value()
    except ValidationError as error:
        places = _KeyLines(text)
        errors = error.errors()
        # Of another format every line is wrong, so the first one is enough.
        other_format = [item for item in errors if item["type"] not in _CONTRADICTIONS][:1]
        diagnostics = [
            Diagnostic(
                path=place,
                line=places.line((*item["loc"], *_shown_key(item))),
                message=explain_format(item)
                if other_format
                else f"{_dotted_path(item['loc'])}: {item['msg'].removeprefix('Value error, ')}",
            )
            for item in other_format or errors
        ]
        *earlier, last = sorted(diagnostics, key=lambda diagnostic: diagnostic.line or 0)
        raise BaselineError([*earlier, replace(last, fix=_rebuild(place))]) from error


def load_baseline(path: Path, *, place: Path) -> Baseline | None:
    """Read a baseline; None if there is no such file.

    Args:
        place: Path of the file in messages.

    Raises:
        BaselineError: It cannot be read; every error is listed with its line.
    """
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BaselineError([Diagnostic.unreadable(place, error)]) from error
    return parse_baseline(data, place=place)


def baseline_errors(project: Project) -> list[Diagnostic]:
    """Errors in the baselines of a project, of any prompt."""
    return find_errors(
        lambda path: load_baseline(path, place=project.relative(path)),
        sorted((project.fixtures_dir / "baselines").glob("[!.]*.json")),
    )


def save_baseline(path: Path, baseline: Baseline) -> bool:
    """Write a baseline in one step; return whether the file changed."""
    content = baseline_text(baseline).encode()
    if path.is_file() and path.read_bytes() == content:
        return False
    write_whole(path, content)
    return True


def _document(data: bytes, place: Path) -> tuple[JSON, str]:
    """The JSON of a baseline, and its text."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _broken_error(place, None, f"not UTF-8: {error.reason}") from error
    try:
        return cast("JSON", read_json(text, object_pairs_hook=unique)), text
    except json.JSONDecodeError as error:
        conflict = re.search(r"^(<{7}|={7}|>{7})", text, re.MULTILINE)
        line = text[: conflict.start()].count("\n") + 1 if conflict else error.lineno
        problem = f"not JSON: {syntax_problem(error)}"
        message = "a merge conflict was left here" if conflict else problem
        raise _broken_error(place, line, message) from error
    except DuplicateKeyError as error:
        lines = [n for n, line in enumerate(text.splitlines(), 1) if _key_of(line) == error.key]
        raise _broken_error(
            place, lines[-1] if lines else None, f"{error.key!r} appears twice"
        ) from error
    except ValueError as error:
        raise _broken_error(place, None, f"not JSON: {error}") from error


def _broken_error(path: Path, line: int | None, message: str) -> BaselineError:
    return BaselineError.at_place(path, message, fix=_rebuild(path), line=line)


def _shown_key(item: ErrorDetails) -> tuple[str, ...]:
    key = item.get("ctx", {}).get("key")
    return (key,) if isinstance(key, str) else ()


def _dotted_path(place: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in place) or "the file"


def _key_of(line: str) -> str | None:
    match = _KEY.match(line)
    return cast("str", json.loads(match[1])) if match else None


class _KeyLines:
    """The lines of the keys in a baseline file."""

    def __init__(self, text: str) -> None:
        self._keys: list[tuple[int, int, str]] = []
        self._starts: dict[str, int] = {}
        baseline = -1
        for number, line in enumerate(text.splitlines(), 1):
            key = _key_of(line)
            if key is None:
                continue
            if key == "prompt_digest":
                baseline += 1
            elif key in _LATER_LISTS:
                self._starts[key] = baseline + 1
            self._keys.append((baseline, number, key))

    def line(self, place: tuple[int | str, ...]) -> int | None:
        """The line of the innermost key of a path that begins a line."""
        keys = [part for part in place if isinstance(part, str)]
        index = next((part for part in place if isinstance(part, int)), None)
        if index is not None:
            index += self._starts.get(keys[0], 0)
        for name in reversed(keys):
            for baseline, number, key in self._keys:
                if key == name and index in {None, baseline}:
                    return number
        return None


def baseline_of(
    project: Project, eval_: Eval, *, read: Callable[[Path], Baseline | None] | None = None
) -> tuple[Baseline | None, Path | None]:
    """The baseline of an eval's prompt under current names, and the path of its older file.

    Either is None without any.

    Args:
        read: Reads the baseline at a path; None for the current file.

    Raises:
        BaselineError: It cannot be read.
    """

    def load(path: Path) -> Baseline | None:
        return load_baseline(path, place=project.relative(path)) if read is None else read(path)

    name, dataset = eval_.prompt.name, eval_.dataset.name
    baseline, older_path = load(project.baseline_path(name)), None
    if baseline is None:
        namesake = eval_.prompt if eval_.target is None else eval_.dataset
        for older in older_names(project, namesake.path):
            before = project.baseline_path(older)
            baseline = load(before)
            if baseline is not None:
                older_path = before
                break
    if baseline is None:
        return None, None
    for older in _older_datasets(project, eval_, baseline):
        baseline = baseline.with_dataset(older, dataset)
    return replace(baseline, prompt=name), older_path


def older_names(project: Project, path: Path) -> list[str]:
    """The earlier names of a file in git that are free now, newest first."""
    try:
        repository = Repository.find(project.root)
        commits = repository.history(repository.inside(path)) if repository is not None else []
    except GitError:
        return []
    older = dict.fromkeys(
        Path(commit.path).name.split(".", maxsplit=1)[0]
        for commit in commits
        if repository is not None and not (repository.top / commit.path).exists()
    )
    return list(older)


def _older_datasets(project: Project, eval_: Eval, baseline: Baseline) -> list[str]:
    datasets = {
        stored_baseline.key.dataset for stored_baseline in (*baseline.baselines, *baseline.previous)
    }
    if eval_.dataset.name in datasets:
        return []
    return older_names(project, eval_.dataset.path)
