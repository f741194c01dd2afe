"""Checks of the targets in the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import Diagnostic, InvalidFileError, ProviderError, UsageError
from regauge.project import CommandTarget, HttpTarget, PythonTarget
from regauge.targets._callable import inputs_of_callable
from regauge.targets._python import find_modules
from regauge.targets._target import WorkingFiles, digests_of, load_target

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from regauge.project import Project


def lint_targets(
    project: Project, environ: Mapping[str, str], names: Collection[str]
) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """The errors and the warnings of the targets in the settings and in evals.

    A callable with `files` is imported in another process, to find modules missing from `files`.

    Args:
        project: The project.
        environ: The environment of that process.
        names: The targets of the evals; callables among them are checked, too.
    """
    errors = [*_errors_in_evals(project, names)]
    warnings: list[Diagnostic] = []
    files = WorkingFiles(project.root)
    for name, settings in project.settings.targets.items():
        declared_digests = digests_of(files, settings.files or ())
        errors += [
            project.setting_error(
                ("targets", name, "files"), f"there is no {path}", fix="correct the path"
            )
            for path, digest in declared_digests.items()
            if digest is None
        ]
        try:
            load_target(name, settings, root=project.root, files=files, missing_ok=True)
        except InvalidFileError as invalid:
            errors += invalid.diagnostics
        if isinstance(settings, PythonTarget):
            place = ("targets", name, "callable")
            error = _callable_error(settings.callable, project)
            if error is not None:
                errors.append(project.setting_error(place, str(error)))
            elif settings.files is not None:
                try:
                    loaded = find_modules(settings, root=project.root, environ=environ)
                    warnings += _not_declared(project, name, loaded, declared_digests)
                except ProviderError as failure:
                    warnings.append(project.setting_error(place, str(failure)))
        elif isinstance(settings, (CommandTarget, HttpTarget)):
            errors += _unknown_base(project, name, settings)
            warnings += _loose_ends(project, name, settings)
    return errors, warnings


def _unknown_base(
    project: Project, name: str, settings: CommandTarget | HttpTarget
) -> Iterator[Diagnostic]:
    base = settings.base if isinstance(settings, HttpTarget) else None
    if base is not None and base not in project.settings.targets:
        yield project.setting_error(("targets", name, "base"), f"there is no target {base!r}")


def _loose_ends(
    project: Project, name: str, settings: CommandTarget | HttpTarget
) -> Iterator[Diagnostic]:
    """Warnings of a target whose requests or recordings depend on nothing."""
    table = ("targets", name)
    sends_all = isinstance(settings, CommandTarget) or (
        settings.body is None and settings.method != "GET"
    )
    if not sends_all and "{{" not in settings.model_dump_json(include={"url", "body"}):
        message = "`url` and `body` name no input, so all cases send the same request"
        fix = "write {{name}} where the input `name` goes"
        yield project.setting_error(table, message, fix=fix)
    if settings.files is None and settings.version is None:
        message = "it has neither `files` nor `version`, so its recordings never become stale"
        fix = "set `version`, or name the files that its outputs depend on"
        yield project.setting_error(table, message, fix=fix)


def _callable_error(name: str, project: Project) -> UsageError | None:
    """The error of a callable that is not in its module; None without one."""
    try:
        inputs_of_callable(name, project)
    except UsageError as error:
        return error
    return None


def _errors_in_evals(project: Project, names: Collection[str]) -> Iterator[Diagnostic]:
    """The errors of callables that evals name, as `module:function`."""
    for name in sorted({*names} - project.settings.targets.keys()):
        if (error := _callable_error(name, project)) is not None:
            path, line = _find_text(name, project)
            yield Diagnostic(path=path, line=line, message=error.message, fix=error.fix)


def _find_text(text: str, project: Project) -> tuple[Path, int | None]:
    """The first line of the evals that has a text; else their directory."""
    directory = project.root / "evals"
    for path in sorted(directory.rglob("*.py")):
        lines = path.read_bytes().splitlines() if path.is_file() else []
        for number, line in enumerate(lines, 1):
            if text.encode() in line:
                return path, number
    return directory, None


def _not_declared(
    project: Project, name: str, loaded: list[str], declared_digests: Mapping[str, str | None]
) -> Iterator[Diagnostic]:
    missing = [path for path in loaded if path not in declared_digests]
    if missing:
        message = f"the callable loads {', '.join(missing)}, which `files` leaves out"
        fix = "add them, or leave `files` out: all loaded modules count then"
        yield project.setting_error(("targets", name, "files"), message, fix=fix)
