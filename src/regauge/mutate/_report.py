"""The result of a measurement as a document, and the committed file of a prompt's mutants."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from regauge.atomic import write_whole
from regauge.digests import digest_of
from regauge.errors import Fault, FaultyFileError, UsageError
from regauge.gate.baselines import blocking_judges
from regauge.mutate._operators import MODEL
from regauge.mutate._types import MutantClass  # noqa: TC001 - pydantic reads it
from regauge.regular_file import read_regular
from regauge.stats import wilson
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from regauge.mutate._run import MeasuredClasses
    from regauge.mutate._subject import MutationSubject
    from regauge.mutate._types import Case, Result
    from regauge.project import Project
    from regauge.runner import Eval

SCHEMA_VERSION: Literal[1] = 1


class _MutationDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Span(_MutationDocument):
    """The mutated part: offsets of characters in a message; 0 to 0 outside messages."""

    part: str
    start: int
    end: int


class MutantRow(_MutationDocument):
    """One mutant.

    Attributes:
        line: In the prompt file, from 1.
        kind: Its class; the key is `class`.
        cases: The broken cases of a killed mutant, the changed ones of a survivor, the fixed ones
            of a harmful text.
        judges: The judges that noticed.
        evidence: Counts, p-values and e-values; of a survivor also `outputs`, up to three pairs of
            outputs of the base and of the mutant. `block` names the larger text whose deletion
            changed nothing.
        reason: Why it is equivalent or undecided.
    """

    id: str
    operator: str
    line: int
    span: Span
    text: str
    kind: MutantClass = Field(
        validation_alias=AliasChoices("class", "kind"), serialization_alias="class"
    )
    cases: list[str] = []
    judges: list[str] = []
    evidence: dict[str, Any] = {}
    reason: str = ""

    @property
    def measured(self) -> bool:
        """Return whether it has trials, or was marked."""
        return not self.evidence.get("unmeasured", False)


class SuiteFacts(_MutationDocument):
    """The cases of a suite, by what the baseline has of them without any mutant.

    Attributes:
        able: Those that can guard an instruction: they block, and the base passes most trials.
        tracked: Those that block nothing, accepted ones too.
        failing: Those that block, and that the base fails in half of its trials or more.
    """

    cases: int
    able: int
    tracked: int
    failing: int


class UnmeasuredMutants(_MutationDocument):
    """The mutants without any trial, and about what they would take.

    Attributes:
        cost_usd: Null where a price is unknown.
        suite: The cases, which are known without a call.
    """

    mutants: int
    calls: int
    cost_usd: float | None
    suite: SuiteFacts


class Score(_MutationDocument):
    """Killed mutants, as a share of all but equivalent ones.

    Attributes:
        value: Between 0 and 1; null without any mutant.
        low: Where the 95 % interval begins, with every undecided mutant not killed.
        high: Where it ends, with every undecided mutant killed.
    """

    value: float | None
    low: float | None
    high: float | None
    killed: int
    counted: int


class MutationReport(_MutationDocument):
    """The classes of a prompt's mutants.

    Attributes:
        digest: Of the prompt.
        model: The model that completed, as `provider:model`.
        calls: Trials that the classes rest on, replayed ones too.
        missing: What was not measured; left out where nothing is, and in a committed file.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    prompt: str
    version: str | None
    digest: str
    dataset: str
    model: str
    simulated: bool
    calls: int
    score: Score
    missing: UnmeasuredMutants | None = None
    mutants: list[MutantRow]


class Guards(_MutationDocument):
    """The cases and judges that guard instructions, each with the first digits of its digest."""

    cases: dict[str, str] = {}
    judges: dict[str, str] = {}


class MutantsFile(MutationReport):
    """`fixtures/mutants/NAME.json`: the classes and marks of the base.

    Attributes:
        key: A digest of the cases and judges that the classes were measured with.
        guards: The first digits of the digests of cases and judges that guard an instruction.
    """

    key: str
    guards: Guards = Guards()

    def holds_for(self, digest: str, key: str, model: str) -> bool:
        """True if the classes are those of a text of the prompt, its cases and judges, and a model.

        Args:
            digest: The prompt's.
            key: The subject's.
        """
        return (self.digest, self.key, self.model) == (digest, key, model)


UNSCORED = "order-in-input"
"""The operator whose mutants are shown apart from all others."""
_DIGITS = 4
_DIGEST_DIGITS = 12


def score_of(rows: Iterable[MutantRow], unscored: Iterable[str] = (UNSCORED, MODEL)) -> Score:
    """The mutation score of some mutants.

    Args:
        unscored: Operators that are shown apart.
    """
    left_out = {*unscored}
    kinds = [row.kind for row in rows if row.kind != "equivalent" and row.operator not in left_out]
    killed, counted = kinds.count("killed"), len(kinds)
    if not counted:
        return Score(value=None, low=None, high=None, killed=0, counted=0)
    # What is not decided may be either.
    most = killed + kinds.count("undecided")
    return Score(
        value=round(killed / counted, _DIGITS),
        low=round(wilson(killed, counted).low, _DIGITS),
        high=round(wilson(most, counted).high, _DIGITS),
        killed=killed,
        counted=counted,
    )


def report_of(
    subject: MutationSubject, measured: MeasuredClasses, *, earlier: MutantsFile | None = None
) -> MutationReport:
    """The report of a measurement.

    Args:
        earlier: The committed file: its classes stay where the same texts, cases and judges were
            measured and this measurement left them undecided.
    """
    same = earlier is not None and earlier.holds_for(
        subject.prompt.digest, subject.key, subject.model
    )
    earlier_rows = {row.id: row for row in earlier.mutants} if earlier is not None and same else {}
    rows: list[MutantRow] = []
    calls = measured.calls + measured.base_calls
    for result in measured.results:
        row = _row_of(result)
        if row.kind == "undecided" and earlier is not None and row.id in earlier_rows:
            row = earlier_rows[row.id]
            calls = max(calls, earlier.calls)
        rows.append(row)
    version = subject.prompt.version
    unscored = {result.mutant.operator for result in measured.results if not result.mutant.scored}
    return MutationReport(
        prompt=subject.prompt.name,
        version=str(version) if version is not None else None,
        digest=subject.prompt.digest,
        dataset=subject.dataset,
        model=subject.model,
        simulated=subject.model.startswith("sim:"),
        calls=calls,
        score=score_of(rows, {*unscored, UNSCORED}),
        mutants=rows,
    )


def _row_of(result: Result) -> MutantRow:
    mutant, outcome = result.mutant, result.outcome
    section = {"section": mutant.section} if mutant.section else {}
    unmeasured = {"unmeasured": True} if outcome.unmeasured else {}
    return MutantRow(
        id=mutant.id,
        operator=mutant.operator,
        line=mutant.place.line,
        span=Span(part=mutant.place.part, start=mutant.place.start, end=mutant.place.end),
        text=mutant.text,
        kind=outcome.kind,
        cases=list(outcome.cases),
        judges=list(outcome.judges),
        evidence={**section, **unmeasured, **outcome.evidence},
        reason=outcome.reason,
    )


def suite_facts(cases: Sequence[Case]) -> SuiteFacts:
    """The cases of a suite, by what the baseline has of them."""
    blocking = [case for case in cases if case.blocks]
    failing = [
        case
        for case in blocking
        if case.history is not None and case.history.total.passed <= case.history.total.failed
    ]
    return SuiteFacts(
        cases=len(cases),
        able=len(blocking) - len(failing),
        tracked=len(cases) - len(blocking),
        failing=len(failing),
    )


def mutants_path(project: Project, prompt: str) -> Path:
    """The committed file of a prompt's mutants."""
    return project.fixtures_dir / "mutants" / f"{prompt}.json"


class MutantsFileError(FaultyFileError):
    """A committed file of mutants cannot be read."""


def load_mutants(project: Project, prompt: str) -> MutantsFile | None:
    """The committed classes and marks of a prompt; None where there are none.

    Raises:
        MutantsFileError: The file is not what this command writes.
    """
    path = mutants_path(project, prompt)
    try:
        text = read_regular(path).decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MutantsFileError([Fault.unreadable(path, error)]) from error
    return parse_mutants(text, path, prompt)


def parse_mutants(text: str, path: Path, prompt: str) -> MutantsFile:
    """The classes and marks that a committed file holds.

    Args:
        path: For errors.

    Raises:
        MutantsFileError: The file is not what this command writes.
    """
    fix = f"correct it, or delete it and run: regauge mutate {prompt}"
    try:
        document = MutantsFile.model_validate(read_json(text))
    except ValidationError as error:
        places = [(".".join(map(str, item["loc"])), item["msg"]) for item in error.errors()]
        messages = [f"{place}: {message}" for place, message in places]
    except ValueError as error:
        messages = [f"not JSON: {error}"]
    else:
        fix = "state why"
        messages = [
            f"mutant {row.id} is marked equivalent without a reason"
            for row in document.mutants
            if row.kind == "equivalent" and not row.reason.strip()
        ]
        if not messages:
            return document
    raise MutantsFileError(
        [Fault(path=path, line=None, message=message, fix=fix) for message in messages]
    )


def save_mutants(
    project: Project,
    report: MutationReport,
    key: str,
    earlier: MutantsFile | None,
    *,
    digests: Guards | None = None,
) -> Path:
    """Write the committed file; mutants that this measurement left out stay where they still hold.

    Marks stay as long as their text does.

    Args:
        key: Of the subject.
        digests: Those of all cases and judges of the subject.
    """
    measured = {row.id for row in report.mutants}
    kept: list[MutantRow] = []
    if earlier is not None:
        same = earlier.holds_for(report.digest, key, report.model)
        kept = [
            row
            for row in earlier.mutants
            if row.id not in measured and (same or row.kind == "equivalent")
        ]
    rows = sorted([*report.mutants, *kept], key=lambda row: (row.line, row.span.start, row.id))
    guards = _guards(digests or Guards(), [row for row in rows if row.kind == "killed"])
    fields: dict[str, Any] = {**dict(report), "score": score_of(rows), "missing": None}
    fields |= {"mutants": rows, "key": key, "guards": guards}
    return _write(project, MutantsFile(**fields))


def _guards(digests: Guards, killed: Sequence[MutantRow]) -> Guards:
    cases = {key for row in killed for key in row.cases}
    judges = {name for row in killed for name in row.judges}
    return Guards(
        cases={key: digest for key, digest in digests.cases.items() if key in cases},
        judges={name: digest for name, digest in digests.judges.items() if name in judges},
    )


def digests_of(subject: MutationSubject) -> Guards:
    """The digests of all cases and judges of a subject."""
    return Guards(
        cases={key: short_digest(member.case.digest) for key, member in subject.members.items()},
        judges=judge_digests(member.suite for member in subject.members.values()),
    )


def judge_digests(suites: Iterable[Eval]) -> dict[str, str]:
    """The blocking judges of some evals of a prompt by name, with a digest of all of that name."""
    digests_of: dict[str, set[str]] = {}
    for suite in suites:
        for judge in blocking_judges(suite):
            digests_of.setdefault(judge.name, set()).add(judge.digest)
    return {name: short_digest(*sorted(digests)) for name, digests in digests_of.items()}


def short_digest(*digests: str) -> str:
    """The first digits of a digest, or of the digest of several."""
    return (digests[0] if len(digests) == 1 else digest_of([*digests]))[:_DIGEST_DIGITS]


def mark_equivalent(project: Project, prompt: str, ids: Sequence[str], reason: str) -> Path:
    """Mark mutants equivalent in the committed file.

    Raises:
        UsageError: The file has no such mutant.
    """
    document = load_mutants(project, prompt)
    if document is None:
        fix = f"regauge mutate {prompt}"
        raise UsageError(f"{prompt} has no mutants yet, so none can be marked", fix=fix)
    known_ids = {row.id for row in document.mutants}
    unknown = [id_ for id_ in ids if id_ not in known_ids]
    if unknown:
        fix = f"name one of {project.relative(mutants_path(project, prompt))}"
        raise UsageError(f"{prompt} has no mutant {unknown[0]!r}", fix=fix)
    rows = [
        row.model_copy(update={"kind": "equivalent", "reason": reason}) if row.id in ids else row
        for row in document.mutants
    ]
    return _write(project, document.model_copy(update={"mutants": rows, "score": score_of(rows)}))


def _write(project: Project, document: MutantsFile) -> Path:
    path = mutants_path(project, document.prompt)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report_json(document), ensure_ascii=False, indent=1)
    write_whole(path, f"{text}\n".encode())
    return path


def report_json(report: MutationReport) -> dict[str, Any]:
    """The report as plain JSON values."""
    left_out = {"missing"} if report.missing is None else set[str]()
    return report.model_dump(mode="json", by_alias=True, exclude=left_out)
