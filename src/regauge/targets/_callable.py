"""The callables of targets, read from their source without an import."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from regauge.errors import UsageError
from regauge.project import PythonTarget
from regauge.targets._target import settings_of_target
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.project import Project

# Names that the source of a module does not spell out.
_MADE_LATER = re.compile(r"import \*|\b(?:__getattr__|globals|setattr|exec)\b")
_INPUT = re.compile(r"\{\{\s*(\w+)\s*\}\}")


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
        UsageError: Its module is no file of the project, or has no such function.
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
