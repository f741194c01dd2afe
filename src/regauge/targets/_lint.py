"""Checks of the targets in the settings, and inputs that the source of a function names."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from regauge.errors import Diagnostic, InvalidFileError, ProviderError, UsageError
from regauge.project import CommandTarget, HttpTarget, PythonTarget
from regauge.targets._python import find_modules
from regauge.targets._target import WorkingFiles, digests_of, load_target, settings_of_target
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from regauge.project import Project
# Names that the source of a module does not spell out.
_MADE_LATER = re.compile(r"import \*|\b(?:__getattr__|globals|setattr|exec)\b")
_INPUT = re.compile(r"\{\{\s*(\w+)\s*\}\}")


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
            base = settings.base if isinstance(settings, HttpTarget) else None
            if base is not None and base not in project.settings.targets:
                place = ("targets", name, "base")
                errors.append(project.setting_error(place, f"there is no target {base!r}"))
            warnings += _loose_ends(project, name, settings)
    return errors, warnings


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


def inputs_of_target(target: str, project: Project) -> list[str]:
    """The inputs that a target names in its settings or source.

    Raises:
        UsageError: There is no such target, or its module has no such function.
    """
    _, settings = settings_of_target(target, project.settings)
    if not isinstance(settings, PythonTarget):
        return list(dict.fromkeys(_INPUT.findall(settings.model_dump_json())))
    return inputs_of_callable(settings.callable, project)


def inputs_of_callable(name: str, project: Project) -> list[str]:
    """The parameters without a default of a callable `module:function`; empty if not certain.

    Raises:
        UsageError: Its module is not a file of the project, or has no such function.
    """
    module, _, function = name.partition(":")
    roots = [root for root in (project.root, project.root / "src") if root.is_dir()]
    path = Path(*module.split("."))
    # Python imports the package if there are both.
    files = [root / file for root in roots for file in (path / "__init__.py", f"{path}.py")]
    file = next((path for path in files if path.is_file()), None)
    if file is None:
        siblings = (file for root in roots for file in (root / path.parent).glob("*.py"))
        if len(path.parts) > 1 and any(siblings):
            raise UsageError(f"there is no {project.relative(files[1])}", fix=f"correct {name!r}")
        return []  # of an installed package, or of another directory of `sys.path`
    place = project.relative(file)
    try:
        source = file.read_bytes()
        body = ast.parse(source).body
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise UsageError(f"{place}:{line}: not Python: {error}", fix="correct it") from error
    functions = _functions_in(body)
    if function in functions:
        return _find_required(functions[function].args)
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    class_name, _, method = function.partition(".")
    text = source.decode("utf-8", "replace")
    if class_name in classes and not re.search(rf"(?m)^{class_name}\b.*=", text):
        return _inputs_of_method(classes[class_name], method, name)
    if _MADE_LATER.search(text) or class_name in re.findall(r"\w+", text):
        return []
    hint = did_you_mean(function, functions)
    names = ", ".join(functions) or "none"
    raise UsageError(
        f"{place} has no function {function!r}; functions: {names}",
        fix=hint or "name one of them",
    )


def _functions_in(body: Sequence[ast.stmt]) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    return {
        node.name: node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _inputs_of_method(class_: ast.ClassDef, method: str, target: str) -> list[str]:
    """The inputs of a static or class method.

    Raises:
        UsageError: It is the class itself, an instance method, or no method.
    """
    fix = "name a function that makes the instance and calls it"
    if not method:
        raise UsageError(f"{target!r} is a class", fix=fix)
    methods = _functions_in(class_.body)
    if method not in methods:
        sources = class_.bases, class_.keywords, class_.decorator_list
        if any(sources) or method.partition(".")[0] in ast.dump(class_):
            return []  # inherited, added or assigned
        names = ", ".join(methods) or "none"
        raise UsageError(
            f"class {class_.name} has no method {method!r}; methods: {names}",
            fix=did_you_mean(method, methods) or "name one of them",
        )
    marks = {node.id for node in methods[method].decorator_list if isinstance(node, ast.Name)}
    if not methods[method].decorator_list:
        raise UsageError(f"{target!r} is a method that needs an instance", fix=fix)
    return _find_required(methods[method].args)["classmethod" in marks :]


def _find_required(arguments: ast.arguments) -> list[str]:
    """The parameters without a default; empty for `case` alone, the golden case."""
    positional = [*arguments.posonlyargs, *arguments.args]
    required = positional[: len(positional) - len(arguments.defaults)]
    required += [
        argument
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    names = [argument.arg for argument in required]
    return [] if names == ["case"] else names
