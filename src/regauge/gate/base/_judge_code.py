"""The files of the project that a judge is made of: its code, what that imports, and its data."""

from __future__ import annotations

import ast
import dataclasses
import sys
from functools import partial
from pathlib import Path, PurePosixPath
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, cast

from regauge.judges import AsyncFunctionJudge, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from regauge.gate.base._commit import BaseCommit

__all__ = ["files_named_in", "files_of_code", "is_function_judge"]


def is_function_judge(judge: object) -> bool:
    """Whether a judge is a function, so that its digest follows the code that it uses."""
    is_rule = isinstance(judge, Rule) and judge.kind == "function"
    return is_rule or isinstance(judge, AsyncFunctionJudge)


def files_of_code(at: BaseCommit, judge: object) -> frozenset[str]:
    """The files that define a judge or a judge inside it, and the modules that they import.

    Only files of the repository count, apart from regauge and the environment.
    """
    found: set[str] = set()
    left = _files_of_project(at, _files(judge))
    while left:
        found |= left
        left = _files_of_project(at, _imported(at, left)) - found
    return frozenset(found)


def files_named_in(at: BaseCommit, files: Iterable[str]) -> frozenset[str]:
    """The changed files, apart from code, whose name is a text in the code of some files."""
    changed = {name: PurePosixPath(name).name for name in at.changed if not name.endswith(".py")}
    if not changed:
        return frozenset()
    texts = [
        node.value
        for name in files
        for node in ast.walk(_tree(at, name))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return frozenset(
        name for name, last in changed.items() if any(text.endswith(last) for text in texts)
    )


def _files(judge: object) -> Iterator[str]:
    """The files of the classes and functions that a judge consists of."""
    seen: set[int] = set()
    left: list[object] = [judge]
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        left += _parts(value)
        if isinstance(value, FunctionType):
            yield value.__code__.co_filename
        elif _is_code(value):
            yield from _files_of_class(type(value))


def _parts(value: object) -> Iterable[object]:
    """What a judge, or a part of one, consists of."""
    match value:
        case FunctionType():
            cells = value.__closure__ or ()
            inner = (cell.cell_contents for cell in cells if _is_set(cell))
            return [*inner, getattr(value, "__wrapped__", None)]
        case MethodType():
            return [value.__func__, value.__self__]
        case partial():
            return [value.func, *value.args, *value.keywords.values()]
        case dict():
            return cast("dict[Any, object]", value).values()
        case list() | tuple() | set() | frozenset():
            return cast("Iterable[object]", value)
        case _:
            return _attributes(value)


def _attributes(value: object) -> Iterable[object]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return getattr(value, "__dict__", {}).values() if _is_code(value) else ()


def _is_code(value: object) -> bool:
    """Whether a value is an object that judges or can be called."""
    return not isinstance(value, type) and (callable(value) or hasattr(value, "judge"))


def _files_of_class(kind: type) -> Iterator[str]:
    """The modules of a class and its bases, and the files of its methods: they may be replaced."""
    for one in kind.__mro__:
        module = sys.modules.get(one.__module__)
        yield str(vars(module).get("__file__")) if module is not None else ""
        for method in vars(one).values():
            if isinstance(method, FunctionType):
                yield method.__code__.co_filename


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _imported(at: BaseCommit, names: Iterable[str]) -> Iterator[str]:
    """The files of imported modules; of modules that are not loaded, changed files."""
    for name in names:
        for node in ast.walk(_tree(at, name)):
            match node:
                case ast.Import():
                    modules = [alias.name for alias in node.names]
                case ast.ImportFrom():
                    module = node.module or ""
                    modules = [module, *(f"{module}.{alias.name}" for alias in node.names)]
                case _:
                    continue
            for module in modules:
                yield from _files_of_module(at, module.strip("."))


def _files_of_module(at: BaseCommit, module: str) -> Iterator[str]:
    loaded = sys.modules.get(module)
    if loaded is not None:
        yield str(vars(loaded).get("__file__"))
        return
    path = module.replace(".", "/")
    for name in at.changed:
        if path and f"/{name}".endswith((f"/{path}.py", f"/{path}/__init__.py")):
            yield str(at.repository.top / name)


def _files_of_project(at: BaseCommit, files: Iterable[str]) -> set[str]:
    top, outside = at.repository.top, (Path(sys.prefix), Path(__file__).parents[2])
    return {
        at.repository.inside(path)
        for path in map(Path, {*files})
        if path.is_relative_to(top) and not any(path.is_relative_to(one) for one in outside)
    }


def _tree(at: BaseCommit, name: str) -> ast.Module:
    path = at.repository.top / name
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])
