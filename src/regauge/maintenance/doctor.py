"""The checks of `regauge doctor`: set-up, git, prompts, evals, datasets, models, endpoints."""

from __future__ import annotations

import json
import platform
import shlex
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from regauge.datasets import load_dataset
from regauge.errors import (
    ConfigError,
    GitError,
    InvalidFileError,
    ProviderError,
    RegaugeError,
    UsageError,
)
from regauge.gate.baselines import baseline_errors
from regauge.maintenance.calibrations import judge_status_rows, lint_labels
from regauge.maintenance.collection import judges_in, tests_targets, with_evals
from regauge.maintenance.lint import unreported_error
from regauge.maintenance.stale import recording_errors
from regauge.model_id import SIMULATED, ModelId, parse_model_id
from regauge.on_demand import EXTRAS, GROUPS, find_missing, load_points, registered_points
from regauge.prompts import Repository, lint_prompts, lint_warnings, load_prompt, prompt_files
from regauge.providers import Endpoint
from regauge.providers.listing import SOON, LastDay, find_last_day, list_models
from regauge.providers.registry import APIS, endpoint_of, load_provider
from regauge.recordings import check_file_sizes
from regauge.refine.subject import goal_errors
from regauge.scaffold import advise_on_pytest, find_missing_requirements
from regauge.wording import first_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import date
    from pathlib import Path

    from regauge.datasets import Dataset, GoldenCase
    from regauge.errors import Diagnostic
    from regauge.maintenance.calibrations import JudgeStatusRow
    from regauge.project import EndpointSettings, Project, Settings
    from regauge.prompts import Prompt
    from regauge.runner import EvalSession

Level: TypeAlias = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorResult:
    """One result of `doctor`.

    Attributes:
        check: The name of the check.
        level: `ok`, `warning` (works, but not as well as it could) or `error` (does not work, or
            measures nothing).
        message: The result.
        fix: The fix; empty without one.
    """

    check: str
    level: Level
    message: str
    fix: str = ""

    @classmethod
    def ok(cls, check: str, message: str) -> Self:
        """A result without a problem."""
        return cls(check=check, level="ok", message=message)

    @classmethod
    def warning(cls, check: str, message: str, fix: str) -> Self:
        """A result that works, but not as well as it could."""
        return cls(check=check, level="warning", message=message, fix=fix)

    @classmethod
    def error(cls, check: str, message: str, fix: str = "") -> Self:
        """A result that does not work."""
        return cls(check=check, level="error", message=message, fix=fix)

    def __str__(self) -> str:
        return self.message + (f"\n  fix: {self.fix}" if self.fix else "")


def _results_of_errors(
    diagnostics: Iterable[Diagnostic], project: Project, *, check: str, level: Level = "error"
) -> Iterator[DoctorResult]:
    """One result per error of a file."""
    for diagnostic in diagnostics:
        place = project.relative(diagnostic.path).as_posix()
        place += f":{diagnostic.line}" if diagnostic.line is not None else ""
        yield DoctorResult(
            check=check,
            level=level,
            message=f"{place}: {project.shorten(diagnostic.message)}",
            fix=diagnostic.fix,
        )


# Shorter texts, such as names, labels and numbers, are in a prompt by chance.
_LEAK_CHARS_MIN = 24
_LEAK_WORDS_MIN = 5
_SHOWN_MAX = 5


def find_duplicates(datasets: Iterable[Dataset]) -> Iterator[DoctorResult]:
    """Results on cases of one dataset whose inputs differ only in case and white space."""
    for dataset in datasets:
        first: dict[str, GoldenCase] = {}
        twins: list[str] = []
        contrary: list[str] = []
        for case in dataset:
            other = first.setdefault(_key(case), case)
            if other is case:
                continue
            pair = f"{case.id} ({case.location}) is {other.id}"
            (twins if other.expected == case.expected else contrary).append(pair)
        for report, pairs, problem in (
            (DoctorResult.error, contrary, "the same inputs, and expect something else"),
            (DoctorResult.warning, twins, "the same inputs"),
        ):
            if pairs:
                words = (
                    f"{dataset.name}: {len(pairs)} with {problem}: {first_of(pairs, _SHOWN_MAX)}"
                )
                yield report("duplicate cases", words, "keep one of each pair")


def find_leaks(prompt: Prompt, dataset: Dataset) -> Iterator[DoctorResult]:
    """Results on cases whose text is in the prompt, so that the model can copy it."""
    prompt_text = _plain_line(" ".join(message.content for message in prompt.messages))
    sources: dict[str, list[str]] = {"holdout": [], "train": []}
    for case in dataset:
        expected = case.expected if isinstance(case.expected, dict) else {"": case.expected}
        values = (*case.inputs.values(), *expected.values())
        texts = [_plain_line(value) for value in values if isinstance(value, str)]
        if any(
            len(text) >= _LEAK_CHARS_MIN
            and text.count(" ") + 1 >= _LEAK_WORDS_MIN
            and text in prompt_text
            for text in texts
        ):
            sources[case.split].append(f"{case.id} ({case.location})")
    own_examples = "write examples of your own: these cases pass whatever the prompt is worth"
    out = "take them out of the prompt, or out of the dataset"
    for report, cases, held_out, fix in (
        (DoctorResult.error, sources["holdout"], " held out", out),
        (DoctorResult.warning, sources["train"], "", own_examples),
    ):
        if cases:
            count = "a case" if len(cases) == 1 else f"{len(cases)} cases"
            words = f"{count}{held_out}: {first_of(cases, _SHOWN_MAX)}"
            yield report("leaking cases", f"{prompt.name}: its text holds {words}", fix)


def _key(case: GoldenCase) -> str:
    plain = {
        name: _plain_line(value) if isinstance(value, str) else value
        for name, value in case.inputs.items()
    }
    return json.dumps(plain, sort_keys=True)


def _plain_line(text: str) -> str:
    return " ".join(text.casefold().split())


def check_models(
    models: Iterable[str], settings: Settings, environ: Mapping[str, str], *, offline: bool
) -> Iterator[DoctorResult]:
    """Results per provider, and per model with a problem."""
    by_provider: dict[str, set[str]] = {}
    for text in sorted(set(models)):
        try:
            model = parse_model_id(text)
        except UsageError as error:
            yield DoctorResult.error("models", error.message, error.fix)
            continue
        by_provider.setdefault(model.provider, set()).add(model.model)
    for provider, names_asked in sorted(by_provider.items()):
        if provider == SIMULATED:
            names = ", ".join(sorted(names_asked))
            yield DoctorResult.ok("models", f"{names}: simulated, needs no key; no LLM")
            continue
        try:
            endpoint = endpoint_of(settings, provider)
        except UsageError as error:
            yield DoctorResult.error("endpoints", error.message, error.fix)
            continue
        if endpoint is not None:
            results = [*_check_endpoint(provider, names_asked, endpoint, environ, offline=offline)]
            yield from results
            if any(result.check == "models" for result in results):
                continue
            # Without a list of its endpoint, vendors announce the shutdown.
            for name in sorted(names_asked):
                model = ModelId(provider=provider, model=name)
                last = find_last_day(model)
                if last is not None and last.day - datetime.now(UTC).date() <= SOON:
                    yield _check_last_day(model, last)


def _check_endpoint(
    provider: str,
    models: set[str],
    endpoint: EndpointSettings,
    environ: Mapping[str, str],
    *,
    offline: bool,
) -> Iterator[DoctorResult]:
    if endpoint.api not in APIS:
        try:
            load_provider(endpoint.api)
        except UsageError as error:
            yield DoctorResult.error("endpoints", error.message, error.fix)
            return
    if endpoint.api_key_command:
        program = endpoint.api_key_command[0]
        if shutil.which(program) is not None:
            words = f"{program} prints the key for {provider}; it runs before a request only"
            yield DoctorResult.ok("keys", words)
        else:
            words = f"there is no program {program!r}, the api_key_command of {provider}"
            fix = f"install {program}, or correct api_key_command"
            yield DoctorResult.warning("keys", words, fix)
        return
    variable = Endpoint(name=provider, settings=endpoint, environ=environ).key_env
    if variable is not None and not environ.get(variable, "").strip():
        words = f"{variable} is not set: {provider} can be replayed, not called"
        yield DoctorResult.warning("keys", words, f"export {variable}=...")
        return
    if variable is not None:
        yield DoctorResult.ok("keys", f"{variable} is set, for {provider}")
    if offline or endpoint.api not in APIS:
        return
    try:
        listed_models = list_models(provider, endpoint, environ)
    except ProviderError as error:
        fix = "check base_url and key; regauge doctor --offline calls no endpoint"
        yield DoctorResult.error("endpoints", f"{provider}: {error}", fix)
        return
    yield DoctorResult.ok("endpoints", f"{provider} lists {plural(len(listed_models), 'model')}")
    for name in sorted(models):
        yield _check_listing(ModelId(provider=provider, model=name), listed_models)


def _check_listing(model: ModelId, listed_models: Mapping[str, date | None]) -> DoctorResult:
    if model.model not in listed_models:
        words = f"{model} is not among the models its endpoint lists"
        fix = "name one of those, or the snapshot that replaced it"
        return DoctorResult.error("models", words, fix)
    day = listed_models[model.model]
    last = LastDay(day=day, source="its endpoint's list") if day else find_last_day(model)
    return _check_last_day(model, last) if last else DoctorResult.ok("models", f"{model} is listed")


def _check_last_day(model: ModelId, last: LastDay) -> DoctorResult:
    left = last.day - datetime.now(UTC).date()
    verb = "was" if left < timedelta(0) else "is"
    words = f"{model} {verb} shut down on {last.day}, by {last.source}"
    if left > SOON:
        return DoctorResult.ok("models", words)
    report = DoctorResult.error if verb == "was" else DoctorResult.warning
    return report(
        "models", words, "compare the next one: regauge migrate --to PROVIDER:MODEL --dry-run"
    )


def _check_planned(
    session: EvalSession, project: Project, path: Path, models: set[str]
) -> Iterator[DoctorResult]:
    """The results on planned evals; adds their models to `models`."""
    evals = list({id(case.eval): case.eval for case in session.plan.cases}.values())
    used_judges = judges_in(session)
    prompted = [eval_ for eval_ in evals if eval_.target is None]
    models.update(str(eval_.model) for eval_ in prompted)
    for judge in used_judges.values():
        models.update(judge.judge.models)
    prompts = len({eval_.prompt.name for eval_ in evals})
    yield DoctorResult.ok("evals", f"cases: {len(session.plan.cases)}, prompts: {prompts}")
    for case in session.plan.cases:
        if case.error is not None:  # an input is missing, or no message uses it
            yield DoctorResult.error("inputs", str(case.error))
    yield from _results_of_errors(recording_errors(session), project, check="recordings")
    yield from _results_of_errors(goal_errors(project, session.plan.cases), project, check="goals")
    yield from map(_check_judge, judge_status_rows(project, used_judges))
    prompt_paths = {
        prompt.path.resolve()
        for eval_ in evals
        for prompt in (eval_.prompt, *(eval_.target.prompts if eval_.target else ()))
    }
    dataset_paths = {eval_.dataset.path.resolve() for eval_ in evals}
    yield from _find_unused(project, path, prompts=prompt_paths, datasets=dataset_paths)
    yield from find_duplicates({eval_.dataset.path: eval_.dataset for eval_ in evals}.values())
    for eval_ in prompted:
        yield from find_leaks(eval_.prompt, eval_.dataset)


def _check_judge(row: JudgeStatusRow) -> DoctorResult:
    """The result on the status of a judge, or on a record that no eval uses."""
    if row.blocking:
        return DoctorResult.ok("judges", " ".join(str(row).split()))
    words = f"{row.judge}: {row.reason}"
    fix = f"regauge judges calibrate {shlex.quote(row.judge)}" if row.prompts else "remove it"
    if row.measured:
        # Calibrating the same judge with the same labels again changes nothing.
        fix = f"label more outputs or improve the judge, then {fix}"
    check = "uncalibrated judges" if row.prompts else "unused judges"
    return DoctorResult.warning(check, words, fix)


def _check_evals(
    project: Project, path: Path, *, reported_errors: Sequence[str]
) -> tuple[list[DoctorResult], set[str]]:
    """Collect the evals without running them, and check them.

    Args:
        project: The project.
        path: The directory or file of the evals.
        reported_errors: Errors of prompt files that are already reported.

    Returns:
        The results, and the models of the evals.
    """
    results = [
        *_results_of_errors(lint_labels(project), project, check="labels"),
        *_results_of_errors(baseline_errors(project), project, check="baselines"),
    ]
    models: set[str] = set()

    def check(evals: EvalSession) -> None:
        # One by one, so that an error leaves the results before it.
        for result in _check_planned(evals, project, path, models):
            results.append(result)  # noqa: PERF402

    try:
        with_evals(project, path, check, options=["--record=none"], warn=None)
    except RegaugeError as error:
        results.append(_not_collected(error, project, path, reported_errors))
    return results, models


def _not_collected(
    error: RegaugeError, project: Project, path: Path, reported_errors: Sequence[str]
) -> DoctorResult:
    unreported = unreported_error(error, reported_errors, project)
    if unreported is None:
        message = "the evals cannot be collected before the prompts above are corrected"
        return DoctorResult.error("evals", message)
    fix = unreported.fix
    if not path.exists():
        fix = "regauge init writes a first one; --evals names another directory"
    message = f"the evals cannot be collected: {project.shorten(unreported.message)}"
    return DoctorResult.error("evals", message, fix)


def _find_unused(
    project: Project, evals: Path, *, prompts: set[Path], datasets: set[Path]
) -> Iterator[DoctorResult]:
    source = "\n".join(
        file.read_text(encoding="utf-8", errors="replace") for file in sorted(evals.rglob("*.py"))
    )
    for path in prompt_files(project.prompts_dir):
        try:
            prompt = load_prompt(path, root=project.root)
        except RegaugeError:
            continue  # the prompt files have findings of their own
        relative = project.relative(path).as_posix()
        is_named = f'"{prompt.name}"' in source or f"'{prompt.name}'" in source
        if prompt.rubric is not None and not is_named:
            fix = f'use it: rubric("{prompt.name}") in an eval; or remove it'
            yield DoctorResult.warning("unused judges", f"{relative}: no eval uses it", fix)
        elif prompt.rubric is None and path.resolve() not in prompts and not prompt.evaluators:
            fix = f"regauge new eval {shlex.quote(prompt.name)}"
            yield DoctorResult.warning("unused prompts", f"{relative} has no eval", fix)
    for path in sorted(project.golden_dir.glob("[!.]*")):
        if not path.is_file() or path.resolve() in datasets:
            continue
        try:
            count = len(load_dataset(path, fixtures_dir=project.fixtures_dir))
        except InvalidFileError as error:
            yield DoctorResult.error("cases", str(error))
        else:
            words = f"{project.relative(path).as_posix()}: no eval uses it; cases: {count}"
            yield DoctorResult.warning(
                "unused cases", words, f"regauge new eval {shlex.quote(path.stem)}"
            )


def check_project(
    project: Project, evals: Path, environ: Mapping[str, str], *, offline: bool
) -> Iterator[DoctorResult]:
    """The results of all checks.

    Args:
        project: The project.
        evals: The directory or file of the evals.
        environ: The environment with API keys.
        offline: Whether to make no requests.
    """
    yield DoctorResult.ok("versions", _versions())
    try:
        settings = project.settings
    except ConfigError as error:
        yield from _results_of_errors(error.diagnostics, project, check="settings")
        return
    yield DoctorResult.ok("settings", f"{project.root} loads")
    states = {extra: find_missing(extra) for extra in EXTRAS}
    extras = [
        f"{extra} (not installed: {', '.join(missing)})" if missing else extra
        for extra, missing in states.items()
    ]
    yield DoctorResult.ok("extras", ", ".join(extras))
    yield from _registered()
    # deepeval's plugin may slow every run, or pytest may not collect evals.
    for effect, fix in advise_on_pytest(project.root):
        yield DoctorResult.warning("pytest", effect, fix)
    for path, name in find_missing_requirements(project.root):
        words = f"{path} installs from {name}, and there is no such file"
        yield DoctorResult.warning("workflows", words, "correct the step that installs regauge")
    yield check_git(project)
    prompts = list(check_prompts(project))
    yield from prompts
    large = check_file_sizes(project)
    yield from _results_of_errors(large, project, check="recordings", level="warning")
    results, models = _check_evals(project, evals, reported_errors=[*map(str, prompts)])
    yield from results
    models |= {*filter(None, (settings.model, settings.judge_model, *settings.models))}
    yield from check_models(models, settings, environ, offline=offline)


def _versions() -> str:
    versions = [f"python {platform.python_version()}"]
    for tool in ("regauge", "pytest", "openai", "deepeval"):
        try:
            versions.append(f"{tool} {version(tool)}")
        except PackageNotFoundError:
            versions.append(f"{tool} (not installed)")
    return ", ".join(versions)


def _registered() -> Iterator[DoctorResult]:
    """Load the judges, formats, operators, proposers and providers of other packages."""
    names: list[str] = []
    for noun, group in GROUPS.items():
        loaded, errors = load_points(registered_points(group).values(), noun)
        names += [f"{noun} {name}" for name in loaded]
        for error in errors:
            yield DoctorResult.error("packages", error.message, error.fix)
    yield DoctorResult.ok("packages", ", ".join(names) or "none registers anything")


def check_git(project: Project) -> DoctorResult:
    """The state of the project's repository."""
    try:
        repository = Repository.find(project.root)
        if repository is None:
            words = "this is not a git repository: no older versions, no gate"
            return DoctorResult.warning("git", words, "git init")
        if not repository.has_commits():
            fix = 'git add -A && git commit -m "Evals of prompts"'
            return DoctorResult.warning("git", "nothing is committed yet", fix)
        if repository.is_shallow():
            words = "a shallow clone: older versions of prompts are not in it"
            fix = "git fetch --unshallow; in CI: fetch-depth: 0"
            return DoctorResult.warning("git", words, fix)
        state = "files differ from what is committed"
        state = state if repository.is_dirty() else "everything is committed"
        return DoctorResult.ok("git", f"a repository; {state}")
    except GitError as error:
        return DoctorResult.error("git", str(error), "install git")


def check_prompts(project: Project) -> Iterator[DoctorResult]:
    """The errors and warnings of prompt files; several warnings are counted."""
    count = len(prompt_files(project.prompts_dir))
    if not count and tests_targets(project):
        return
    if not count:
        fix = "regauge init, or regauge new prompt NAME"
        yield DoctorResult.error("prompts", "there are no prompt files", fix)
        return
    try:
        diagnostics = lint_prompts(project)
    except GitError as error:
        yield DoctorResult.error("prompts", str(error))
        return
    yield from _results_of_errors(diagnostics, project, check="prompts")
    warnings = [
        *_results_of_errors(lint_warnings(project), project, check="prompts", level="warning")
    ]
    if len(warnings) > 1:
        first = warnings[0].message.partition("\n")[0]
        message = f"{len(warnings)} warnings; the first: {first}"
        yield DoctorResult.warning("prompts", message, "regauge lint")
    else:
        yield from warnings
    if not diagnostics:
        words = f"{count} files load, and are" if count > 1 else "1 file loads, and is"
        yield DoctorResult.ok("prompts", f"{words} released")
