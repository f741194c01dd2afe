"""The checks of `regauge doctor`: datasets, prompts, models, endpoints and evals."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.datasets import load_dataset
from regauge.errors import FaultyFileError, ProviderError, RegaugeError, UsageError
from regauge.gate.baselines import baseline_faults
from regauge.maintenance.calibrations import lint_labels, standings
from regauge.maintenance.collection import NotCollectedError, judges_in, with_evals
from regauge.maintenance.stale import recording_faults, unreported_reasons
from regauge.model_id import SIMULATED, ModelId, parse_model_id
from regauge.prompts import load_prompt, prompt_files
from regauge.providers._endpoint import Endpoint
from regauge.providers.listing import SOON, LastDay, find_last_day, list_models
from regauge.providers.registry import APIS, endpoint_of, load_provider
from regauge.refine.subject import goal_faults
from regauge.wording import first_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import date
    from pathlib import Path

    from regauge.datasets import Dataset, GoldenCase
    from regauge.digests import JSON
    from regauge.errors import Fault
    from regauge.project import EndpointSettings, Project, Settings
    from regauge.prompts import Prompt
    from regauge.runner import EvalSession

Level: TypeAlias = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """One result of `doctor`.

    Attributes:
        check: What was looked at, in a word or two.
        level: `ok`, `warning` (it works, but not as it could) or `error` (it does not work, or
            what it measures means nothing).
        message: What was found.
        fix: What to do about it.
    """

    check: str
    level: Level
    message: str
    fix: str = ""

    def __str__(self) -> str:
        return self.message + (f"\n  fix: {self.fix}" if self.fix else "")

    def to_json(self) -> dict[str, JSON]:
        """A plain document."""
        return {
            "check": self.check,
            "level": self.level,
            "message": self.message,
            "fix": self.fix,
        }


def findings_of(
    faults: Iterable[Fault], project: Project, *, check: str, level: Level = "error"
) -> Iterator[DoctorFinding]:
    """One finding per fault of a file."""
    for fault in faults:
        place = project.relative(fault.path).as_posix()
        place += f":{fault.line}" if fault.line is not None else ""
        yield DoctorFinding(
            check=check,
            level=level,
            message=f"{place}: {project.shorten(fault.message)}",
            fix=fault.fix,
        )


# A shorter text is in a prompt by chance: a name, a label, a number.
_LEAK_CHARS_MIN = 24
_LEAK_WORDS_MIN = 5
_SHOWN_MAX = 5


def duplicates(datasets: Iterable[Dataset]) -> Iterator[DoctorFinding]:
    """Cases of one dataset with the same inputs, but for case and white space."""
    for dataset in datasets:
        first: dict[str, GoldenCase] = {}
        twins: list[str] = []
        contrary: list[str] = []
        for case in dataset:
            other = first.setdefault(_key(case), case)
            if other is case:
                continue
            pair = f"{case.id} ({case.at}) is {other.id}"
            (twins if other.expected == case.expected else contrary).append(pair)
        kinds: list[tuple[Level, list[str], str]] = [
            ("error", contrary, "the same inputs, and expect something else"),
            ("warning", twins, "the same inputs"),
        ]
        for level, pairs, what in kinds:
            if pairs:
                yield DoctorFinding(
                    check="duplicate cases",
                    level=level,
                    message=f"{dataset.name}: {len(pairs)} with {what}:"
                    f" {first_of(pairs, _SHOWN_MAX)}",
                    fix="keep one of each pair",
                )


def leaks(prompt: Prompt, dataset: Dataset) -> Iterator[DoctorFinding]:
    """Cases whose text stands in the prompt: the model need not know, only copy."""
    prompt_text = _plain(" ".join(message.content for message in prompt.messages))
    sources: dict[str, list[str]] = {"holdout": [], "train": []}
    for case in dataset:
        if any(_tellable(text) and text in prompt_text for text in map(_plain, _texts(case))):
            sources[case.split].append(f"{case.id} ({case.at})")
    if sources["holdout"]:
        yield DoctorFinding(
            check="leaking cases",
            level="error",
            message=f"{prompt.name}: its text holds {_count(sources['holdout'])} held out:"
            f" {first_of(sources['holdout'], _SHOWN_MAX)}",
            fix="take them out of the prompt, or out of the dataset",
        )
    if sources["train"]:
        yield DoctorFinding(
            check="leaking cases",
            level="warning",
            message=f"{prompt.name}: its text holds {_count(sources['train'])}:"
            f" {first_of(sources['train'], _SHOWN_MAX)}",
            fix="write examples of your own: these cases pass whatever the prompt is worth",
        )


def _key(case: GoldenCase) -> str:
    plain = {
        name: _plain(value) if isinstance(value, str) else value
        for name, value in case.inputs.items()
    }
    return json.dumps(plain, sort_keys=True)


def _texts(case: GoldenCase) -> Iterator[str]:
    yield from (value for value in case.inputs.values() if isinstance(value, str))
    expected = case.expected
    values = expected.values() if isinstance(expected, dict) else [expected]
    yield from (value for value in values if isinstance(value, str))


def _tellable(text: str) -> bool:
    return len(text) >= _LEAK_CHARS_MIN and text.count(" ") + 1 >= _LEAK_WORDS_MIN


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _count(cases: list[str]) -> str:
    return "a case" if len(cases) == 1 else f"{len(cases)} cases"


def model_findings(
    models: Iterable[str], settings: Settings, environ: Mapping[str, str], *, offline: bool
) -> Iterator[DoctorFinding]:
    """One finding per provider, and one per model with a problem."""
    by_provider: dict[str, set[str]] = {}
    for text in sorted(set(models)):
        try:
            model = parse_model_id(text)
        except UsageError as error:
            yield DoctorFinding(check="models", level="error", message=error.message, fix=error.fix)
            continue
        by_provider.setdefault(model.provider, set()).add(model.model)
    for provider, names_asked in sorted(by_provider.items()):
        if provider == SIMULATED:
            names = ", ".join(sorted(names_asked))
            yield DoctorFinding(
                check="models", level="ok", message=f"{names}: simulated, needs no key; no LLM"
            )
            continue
        try:
            declared = endpoint_of(settings, provider)
        except UsageError as error:
            yield DoctorFinding(
                check="endpoints", level="error", message=error.message, fix=error.fix
            )
            continue
        if declared is not None:
            endpoint_findings = [
                *_of_endpoint(provider, names_asked, declared, environ, offline=offline)
            ]
            yield from endpoint_findings
            if not any(finding.check == "models" for finding in endpoint_findings):
                yield from _announce(provider, names_asked)


def _announce(provider: str, models: set[str]) -> Iterator[DoctorFinding]:
    """Models that are shut down, or soon, by what their vendors announce."""
    today = datetime.now(UTC).date()
    for name in sorted(models):
        model = ModelId(provider=provider, model=name)
        last = find_last_day(model)
        if last is not None and last.day - today <= SOON:
            yield _of_last_day(str(model), last, today)


def _of_endpoint(
    provider: str,
    models: set[str],
    endpoint: EndpointSettings,
    environ: Mapping[str, str],
    *,
    offline: bool,
) -> Iterator[DoctorFinding]:
    if endpoint.api not in APIS:
        try:
            load_provider(endpoint.api)
        except UsageError as error:
            message, _, fix = str(error).partition("\n  fix: ")
            yield DoctorFinding(check="endpoints", level="error", message=message, fix=fix)
            return
    if endpoint.api_key_command:
        program = endpoint.api_key_command[0]
        is_installed = shutil.which(program) is not None
        yield DoctorFinding(
            check="keys",
            level="ok" if is_installed else "warning",
            message=f"{program} prints the key for {provider}; it runs before a request only"
            if is_installed
            else f"there is no program {program!r}, the api_key_command of {provider}",
            fix="" if is_installed else f"install {program}, or correct api_key_command",
        )
        return
    variable = Endpoint(name=provider, settings=endpoint, environ=environ).key_env
    if variable is not None and not environ.get(variable, "").strip():
        yield DoctorFinding(
            check="keys",
            level="warning",
            message=f"{variable} is not set: {provider} can be replayed, not asked",
            fix=f"export {variable}=...",
        )
        return
    if variable is not None:
        yield DoctorFinding(check="keys", level="ok", message=f"{variable} is set, for {provider}")
    if offline or endpoint.api not in APIS:
        return
    try:
        listed = list_models(provider, endpoint, environ)
    except ProviderError as error:
        yield DoctorFinding(
            check="endpoints",
            level="error",
            message=f"{provider}: {error}",
            fix="check base_url and key; regauge doctor --offline asks no endpoint",
        )
        return
    message = f"{provider} lists {plural(len(listed), 'model')}"
    yield DoctorFinding(check="endpoints", level="ok", message=message)
    today = datetime.now(UTC).date()
    for name in sorted(models):
        yield _of_model(ModelId(provider=provider, model=name), listed, today)


def _of_model(model: ModelId, listed: Mapping[str, date | None], today: date) -> DoctorFinding:
    if model.model not in listed:
        return DoctorFinding(
            check="models",
            level="error",
            message=f"{model} is not among the models its endpoint lists",
            fix="name one of those, or the snapshot that replaced it",
        )
    day = listed[model.model]
    last = find_last_day(model) if day is None else LastDay(day=day, source="its endpoint's list")
    if last is None:
        return DoctorFinding(check="models", level="ok", message=f"{model} is listed")
    return _of_last_day(str(model), last, today)


def _of_last_day(model: str, last: LastDay, today: date) -> DoctorFinding:
    left = last.day - today
    level: Level = "error" if left < timedelta(0) else "warning" if left <= SOON else "ok"
    words = "was shut down" if level == "error" else "is shut down"
    return DoctorFinding(
        check="models",
        level=level,
        message=f"{model} {words} on {last.day}, by {last.source}",
        fix=""
        if level == "ok"
        else "compare the next one: regauge migrate --to PROVIDER:MODEL --dry-run",
    )


class EvalDiagnostics:
    """The results of collecting the evals.

    Attributes:
        findings: In the order in which they are shown.
        models: Every model that evals ask, as `provider:model`.
    """

    def __init__(self) -> None:
        self.findings: list[DoctorFinding] = []
        self.models: set[str] = set()

    def look(self, evals: EvalSession, project: Project, path: Path) -> None:
        """Look at evals that are planned."""
        suites = list({id(case.suite): case.suite for case in evals.plan.cases}.values())
        used = judges_in(evals)
        prompted = [suite for suite in suites if suite.target is None]
        self.models.update(str(suite.model) for suite in prompted)
        for judge in used.values():
            self.models.update(judge.judge.models)
        count = len(evals.plan.cases)
        prompts = len({suite.prompt.name for suite in suites})
        words = f"cases: {count}, prompts: {prompts}"
        self.findings.append(DoctorFinding(check="evals", level="ok", message=words))
        self.findings += _broken_cases(evals)
        self.findings += findings_of(recording_faults(evals, project), project, check="recordings")
        self.findings += findings_of(goal_faults(project, evals.plan.cases), project, check="goals")
        for row in standings(project, used):
            if row.gates:
                words = " ".join(str(row).split())
                self.findings.append(DoctorFinding(check="judges", level="ok", message=words))
                continue
            fix = (
                f"regauge judges calibrate {shlex.quote(row.judge)}" if row.prompts else "remove it"
            )
            if row.measured:
                # To calibrate the same judge with the same labels again says the same again.
                fix = f"label more answers or improve the judge, then {fix}"
            check = "uncalibrated judges" if row.prompts else "unused judges"
            message = f"{row.judge}: {row.reason}"
            self.findings.append(
                DoctorFinding(check=check, level="warning", message=message, fix=fix)
            )
        self.findings += _find_unused(
            project,
            path,
            prompts={
                *(suite.prompt.path.resolve() for suite in suites),
                *(
                    prompt.path.resolve()
                    for suite in suites
                    if suite.target is not None
                    for prompt in suite.target.prompts
                ),
            },
            datasets={suite.dataset.path.resolve() for suite in suites},
        )
        self.findings += duplicates(
            {suite.dataset.path: suite.dataset for suite in suites}.values()
        )
        for suite in prompted:
            self.findings += leaks(suite.prompt, suite.dataset)


def look_at_evals(project: Project, path: Path, *, reported: Sequence[str]) -> EvalDiagnostics:
    """Collect the evals, run none of them, and report errors.

    Args:
        project: Whose evals.
        path: Where they are.
        reported: Faults of prompt files, which are findings already, with their fixes.
    """
    seen = EvalDiagnostics()
    seen.findings += findings_of(lint_labels(project), project, check="labels")
    seen.findings += findings_of(baseline_faults(project), project, check="baselines")
    try:
        with_evals(
            project,
            path,
            lambda evals: seen.look(evals, project, path),
            options=["--record=none"],
            draw=False,
            warn=None,
        )
    except RegaugeError as error:
        seen.findings.append(_not_collected(error, project, path, reported))
    return seen


def _not_collected(
    error: RegaugeError, project: Project, path: Path, reported: Sequence[str]
) -> DoctorFinding:
    if isinstance(error, NotCollectedError):
        unreported = unreported_reasons(error, reported, project)
        if not unreported:
            message = "the evals cannot be collected before the prompts above are corrected"
            return DoctorFinding(check="evals", level="error", message=message)
        error = NotCollectedError(unreported)
    fix = error.fix
    if not path.exists():
        fix = "regauge init writes a first one; --evals names another directory"
    message = f"the evals cannot be collected: {project.shorten(error.message)}"
    return DoctorFinding(check="evals", level="error", message=message, fix=fix)


def _broken_cases(evals: EvalSession) -> Iterator[DoctorFinding]:
    """Cases that cannot be asked at all: an input is missing, or no message uses it."""
    for case in evals.plan.cases:
        if case.error is not None:
            yield DoctorFinding(check="inputs", level="error", message=str(case.error))


def _find_unused(
    project: Project, evals: Path, *, prompts: set[Path], datasets: set[Path]
) -> Iterator[DoctorFinding]:
    source = "\n".join(
        file.read_text(encoding="utf-8", errors="replace") for file in sorted(evals.rglob("*.py"))
    )
    for path in prompt_files(project.prompts_dir):
        try:
            prompt = load_prompt(path, root=project.root)
        except RegaugeError:
            continue  # the prompt files have findings of their own
        relative = project.relative(path).as_posix()
        named = f'"{prompt.name}"' in source or f"'{prompt.name}'" in source
        if prompt.rubric is not None and not named:
            fix = f'use it: rubric("{prompt.name}") in an eval; or remove it'
            yield DoctorFinding(
                check="unused judges",
                level="warning",
                message=f"{relative}: no eval uses it",
                fix=fix,
            )
        elif prompt.rubric is None and path.resolve() not in prompts and not prompt.evaluators:
            fix = f"regauge new eval {prompt.name}"
            yield DoctorFinding(
                check="unused prompts", level="warning", message=f"{relative} has no eval", fix=fix
            )
    for path in sorted(project.golden_dir.glob("*")):
        hidden = path.name.startswith(".")
        if path.is_file() and not hidden and path.resolve() not in datasets:
            yield _unused_dataset(project, path)


def _unused_dataset(project: Project, path: Path) -> DoctorFinding:
    relative = project.relative(path).as_posix()
    try:
        count = len(load_dataset(path, fixtures_dir=project.fixtures_dir))
    except FaultyFileError as error:
        return DoctorFinding(check="cases", level="error", message=str(error))
    words = f"{relative}: no eval uses it; cases: {count}"
    fix = f"regauge new eval {path.stem}"
    return DoctorFinding(check="unused cases", level="warning", message=words, fix=fix)
