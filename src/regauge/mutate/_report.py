"""The result of a measurement as a document, and the committed file of a prompt's mutants."""

from __future__ import annotations

import json
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from regauge.digests import digest_of
from regauge.errors import Diagnostic, InvalidFileError, UsageError, find_errors
from regauge.files import read_regular, write_whole
from regauge.gate.baselines import blocking_judges
from regauge.mutate._operators import MODEL
from regauge.mutate._types import MutantClass  # noqa: TC001 - pydantic reads it
from regauge.stats import wilson
from regauge.strict_json import explain_format, read_json

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
        line: The line in the prompt file, from 1.
        kind: Its class; the key is `class`.
        cases: The broken cases of a killed mutant, the changed cases of a survivor, or the fixed
            cases of a harmful mutant.
        judges: The judges that failed.
        evidence: Counts, p-values and e-values. A survivor has `outputs`, up to three pairs of
            outputs of base and mutant. `block` is the larger text whose deletion changed nothing.
        reason: The reason if it is equivalent or undecided.
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


class EvalFacts(_MutationDocument):
    """The cases of a suite, by their trials in the baseline without any mutant.

    Attributes:
        able: Cases that can guard an instruction: they block, and the base passes most trials.
        tracked: Cases that do not block, including accepted ones.
        failing: Blocking cases that the base fails in half of its trials or more.
    """

    cases: int
    able: int
    tracked: int
    failing: int


class UnmeasuredMutants(_MutationDocument):
    """The mutants without any trial, and an estimate for them.

    Attributes:
        cost_usd: Null if a price is unknown.
        eval: The cases, which are known without a call.
    """

    mutants: int
    calls: int
    cost_usd: float | None
    eval: EvalFacts


class Score(_MutationDocument):
    """Killed mutants, as a share of all but equivalent ones.

    Attributes:
        value: Between 0 and 1; null without any mutant.
        low: Lower end of the 95 % interval, with every undecided mutant not killed.
        high: Upper end, with every undecided mutant killed.
        total: Number of mutants without equivalent ones.
    """

    value: float | None
    low: float | None
    high: float | None
    killed: int
    total: int


class MutationReport(_MutationDocument):
    """The classes of a prompt's mutants.

    Attributes:
        digest: The digest of the prompt.
        model: The model that completed, as `provider:model`.
        calls: Trials behind the classes, including replayed ones.
        missing: The unmeasured mutants; left out if there are none, and in a committed file.
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
        key: A digest of the cases and judges of the measurement.
        guards: The first digits of the digests of cases and judges that guard an instruction.
    """

    key: str
    guards: Guards = Guards()

    def holds_for(self, digest: str, key: str, model: str) -> bool:
        """Return whether the classes are valid for a prompt, its cases and judges, and a model.

        Args:
            digest: The digest of the prompt.
            key: The key of the subject.
            model: As `provider:model`.
        """
        return (self.digest, self.key, self.model) == (digest, key, model)


UNSCORED = "order-in-input"
"""The operator whose mutants are reported apart from all others."""
_DIGITS = 4
_DIGEST_DIGITS = 12


def score_of(rows: Iterable[MutantRow], unscored: Iterable[str] = (UNSCORED, MODEL)) -> Score:
    """Return the mutation score of some mutants.

    Args:
        rows: The mutants.
        unscored: Operators that are reported apart.
    """
    left_out = {*unscored}
    kinds = [row.kind for row in rows if row.kind != "equivalent" and row.operator not in left_out]
    killed, total = kinds.count("killed"), len(kinds)
    if not total:
        return Score(value=None, low=None, high=None, killed=0, total=0)
    # An undecided mutant may be either.
    killed_max = killed + kinds.count("undecided")
    return Score(
        value=round(killed / total, _DIGITS),
        low=round(wilson(killed, total).low, _DIGITS),
        high=round(wilson(killed_max, total).high, _DIGITS),
        killed=killed,
        total=total,
    )


def report_of(
    subject: MutationSubject, measurement: MeasuredClasses, *, earlier: MutantsFile | None = None
) -> MutationReport:
    """Return the report of a measurement.

    Args:
        earlier: The committed file. If the same texts, cases and judges were measured, its classes
            replace undecided ones.
    """
    subject_key = subject.prompt.digest, subject.key, subject.model
    is_same_subject = earlier is not None and earlier.holds_for(*subject_key)
    earlier_rows = {row.id: row for row in earlier.mutants} if earlier and is_same_subject else {}
    rows = [_row_of(result) for result in measurement.results]
    replaced_ids = {row.id for row in rows if row.kind == "undecided"} & earlier_rows.keys()
    rows = [earlier_rows[row.id] if row.id in replaced_ids else row for row in rows]
    calls = measurement.calls + measurement.base_calls
    if earlier is not None and replaced_ids:
        calls = max(calls, earlier.calls)
    version = subject.prompt.version
    unscored = {
        result.mutant.operator for result in measurement.results if not result.mutant.scored
    }
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


def eval_facts(cases: Sequence[Case]) -> EvalFacts:
    """Count the cases of a suite, by their trials in the baseline."""
    blocking = [case for case in cases if case.blocks]
    failing = [
        case
        for case in blocking
        if case.baseline is not None and case.baseline.total.passed <= case.baseline.total.failed
    ]
    return EvalFacts(
        cases=len(cases),
        able=len(blocking) - len(failing),
        tracked=len(cases) - len(blocking),
        failing=len(failing),
    )


def mutants_path(project: Project, prompt: str) -> Path:
    """Return the path of the committed file of a prompt's mutants."""
    return project.fixtures_dir / "mutants" / f"{prompt}.json"


class MutantsFileError(InvalidFileError):
    """A committed file of mutants cannot be read."""


def load_mutants(project: Project, prompt: str) -> MutantsFile | None:
    """Load the committed classes and marks of a prompt; None without any.

    Raises:
        MutantsFileError: The file is malformed.
    """
    path = mutants_path(project, prompt)
    try:
        text = read_regular(path).decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MutantsFileError([Diagnostic.unreadable(path, error)]) from error
    return parse_mutants(text, path, prompt)


def mutants_errors(project: Project) -> list[Diagnostic]:
    """The errors of all committed files of mutants."""
    paths = sorted((project.fixtures_dir / "mutants").glob("[!.]*.json"))
    return find_errors(lambda path: load_mutants(project, path.stem), paths)


def parse_mutants(text: str, path: Path, prompt: str) -> MutantsFile:
    """Parse a committed file of classes and marks.

    Args:
        path: The path, for errors.

    Raises:
        MutantsFileError: The file is malformed.
    """
    fix = f"correct it, or delete it and run: regauge mutate {quote(prompt)}"
    try:
        document = MutantsFile.model_validate(read_json(text))
    except ValidationError as error:
        messages = [explain_format(error.errors()[0])]
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
        [Diagnostic(path=path, line=None, message=message, fix=fix) for message in messages]
    )


def save_mutants(
    project: Project,
    report: MutationReport,
    key: str,
    earlier: MutantsFile | None,
    *,
    digests: Guards | None = None,
) -> Path:
    """Write the committed file; unmeasured mutants stay if they are still valid.

    Marks stay as long as their text does.

    Args:
        key: The key of the subject.
        digests: The digests of all cases and judges of the subject.
    """
    measured_ids = {row.id for row in report.mutants}
    kept_rows: list[MutantRow] = []
    if earlier is not None:
        is_same_subject = earlier.holds_for(report.digest, key, report.model)
        kept_rows = [
            row
            for row in earlier.mutants
            if row.id not in measured_ids and (is_same_subject or row.kind == "equivalent")
        ]
    rows = sorted([*report.mutants, *kept_rows], key=lambda row: (row.line, row.span.start, row.id))
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
    """Return the digests of all cases and judges of a subject."""
    return Guards(
        cases={key: short_digest(member.case.digest) for key, member in subject.members.items()},
        judges=judge_digests(member.eval for member in subject.members.values()),
    )


def judge_digests(evals: Iterable[Eval]) -> dict[str, str]:
    """Return the blocking judges of a prompt's evals by name, with a digest per name."""
    digests_by_name: dict[str, set[str]] = {}
    for eval_ in evals:
        for judge in blocking_judges(eval_):
            digests_by_name.setdefault(judge.name, set()).add(judge.digest)
    return {name: short_digest(*sorted(digests)) for name, digests in digests_by_name.items()}


def short_digest(*digests: str) -> str:
    """Return the first digits of a digest; several digests are combined first."""
    return (digests[0] if len(digests) == 1 else digest_of([*digests]))[:_DIGEST_DIGITS]


def mark_equivalent(project: Project, prompt: str, ids: Sequence[str], reason: str) -> Path:
    """Mark mutants as equivalent in the committed file.

    Raises:
        UsageError: The file has no such mutant.
    """
    document = load_mutants(project, prompt)
    if document is None:
        fix = f"regauge mutate {quote(prompt)}"
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
    """Return the report as plain JSON values."""
    left_out = {"missing"} if report.missing is None else set[str]()
    return report.model_dump(mode="json", by_alias=True, exclude=left_out)
