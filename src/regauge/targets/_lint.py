"""Checks of the targets in the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import InvalidFileError, ProviderError
from regauge.project import CommandTarget, HttpTarget, PythonTarget
from regauge.targets._python import find_modules
from regauge.targets._target import WorkingFiles, digests_of, load_target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.errors import Diagnostic
    from regauge.project import Project


def lint_targets(
    project: Project, environ: Mapping[str, str]
) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """The errors and the warnings of the targets in the settings.

    A callable with `files` is imported in another process, to find modules missing from `files`.
    """
    errors: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    files = WorkingFiles(project.root)
    for name, settings in project.settings.targets.items():
        table = ("targets", name)
        declared_digests = digests_of(files, settings.files or ())
        errors += [
            project.setting_error((*table, "files"), f"there is no {path}", fix="correct the path")
            for path, digest in declared_digests.items()
            if digest is None
        ]
        try:
            load_target(name, settings, root=project.root, files=files, missing_ok=True)
        except InvalidFileError as error:
            errors += error.diagnostics
        if isinstance(settings, HttpTarget):
            base = settings.base
            if base is not None and base not in project.settings.targets:
                message = f"there is no target {base!r}"
                errors.append(project.setting_error((*table, "base"), message))
            placeholders_text = settings.model_dump_json(include={"url", "body"})
            sends_all = settings.body is None and settings.method != "GET"
            if not sends_all and "{{" not in placeholders_text:
                message = "`url` and `body` name no input, so all cases send the same request"
                fix = "write {{name}} where the input `name` goes"
                warnings.append(project.setting_error(table, message, fix=fix))
        unknown = settings.files is None and settings.version is None
        if isinstance(settings, (CommandTarget, HttpTarget)) and unknown:
            message = "it has neither `files` nor `version`, so its recordings never become stale"
            fix = "set `version`, or name the files that its outputs depend on"
            warnings.append(project.setting_error(table, message, fix=fix))
        if isinstance(settings, PythonTarget) and settings.files is not None:
            try:
                loaded = find_modules(settings, root=project.root, environ=environ)
            except ProviderError as error:
                message, _, fix = str(error).partition("\n  fix: ")
                warnings.append(project.setting_error((*table, "callable"), message, fix=fix))
            else:
                warnings += _not_declared(project, name, loaded, declared_digests)
    return errors, warnings


def _not_declared(
    project: Project, name: str, loaded: list[str], declared_digests: Mapping[str, str | None]
) -> Iterator[Diagnostic]:
    missing = [path for path in loaded if path not in declared_digests]
    if missing:
        message = f"the callable loads {', '.join(missing)}, which `files` leaves out"
        fix = "add them, or leave `files` out: all loaded modules count then"
        yield project.setting_error(("targets", name, "files"), message, fix=fix)
