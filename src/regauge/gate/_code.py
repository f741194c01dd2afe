"""The code that a change reaches: files of evals, judges and targets, and what they import."""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
import tomllib
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path, PurePosixPath
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.project import CommandTarget, PythonTarget
from regauge.runner import declared_evals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from regauge.gate._commit import BaseCommit
    from regauge.runner import Eval
    from regauge.targets import Target


_FOR_TYPES: Final = frozenset({"TYPE_CHECKING", "typing.TYPE_CHECKING"})

_WORD: Final = re.compile(r"[\w-]+")

# Files for readers, which no code reads.
_FOR_READERS: Final = (".md", ".rst")

# Files that configure pytest, the environment of a gate, or the program that starts it.
_SET_UP_FILES: Final = (
    *("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg"),
    *("requirements*.txt", "constraints*.txt", "requirements.lock", "uv.lock", "poetry.lock"),
    *("pdm.lock", "Pipfile*", "setup.py", "sitecustomize.py", "usercustomize.py", "*.pth"),
    *("entry_points.txt", "noxfile.py", "Makefile", "Dockerfile", ".gitlab-ci.yml", ".gitmodules"),
)

# Keys of tables in pyproject.toml that do the same.
_SET_UP_TABLES: Final = {
    "build-system": ("requires", "build-backend", "backend-path"),
    "dependency-groups": ("dev", "test", "tests"),
    "project": ("dependencies", "optional-dependencies", "entry-points", "requires-python"),
    "tool": ("pdm", "pytest", "uv"),
}


def edited_code(base_commit: BaseCommit, evals: Sequence[Eval]) -> list[str]:
    """The changed files that this gate or its workflow runs, reads or is configured by."""
    programs = {name for eval_ in evals for name in files_of_judges(base_commit, eval_)}
    files = code_of_evals(base_commit).union(
        programs, _files_in_reach(base_commit, evals, programs)
    )
    return [
        name
        for name in sorted(base_commit.changed)
        if name in files or is_set_up(base_commit, name)
    ]


def _files_in_reach(
    base_commit: BaseCommit, evals: Sequence[Eval], programs: Collection[str]
) -> Iterator[str]:
    """Changed files that code of evals and judges can read or import without naming them whole.

    They are in a directory of that code, or in one that it names, or a program has their name.
    """
    project, inside = base_commit.project, base_commit.repository.inside
    code = with_imports(
        base_commit,
        files_of_code(base_commit, *(judge for eval_ in evals for judge in eval_.judges)).union(
            programs, map(inside, [*base_commit.eval_files, project.root / "conftest.py"])
        ),
    )
    directories = {PurePosixPath(name).parent.as_posix() for name in code}
    directories |= base_commit.eval_places
    directories -= {".", base_commit.prefix}
    names = {text.strip("./") for text in literals_in(base_commit, code)}
    words = {word for name in programs for word in _words_in(base_commit.repository.top / name)}
    files = code | files_named_in(base_commit, code)
    compared_directories = {
        inside(directory)
        for directory in (
            project.prompts_dir,
            project.golden_dir,
            project.labels_dir,
            project.recordings_dir,
            project.fixtures_dir / "baselines",
        )
    }
    # Evals name the directories of targets, whose code and data trials measure.
    target_code = {
        name
        for eval_ in evals
        if eval_.target is not None
        for name in files_of_target(base_commit, eval_.target)
    }
    measured = target_code | files_named_in(base_commit, target_code)
    for path, name in base_commit.changed_paths.items():
        above = {parent.as_posix() for parent in PurePosixPath(path).parents}
        is_reached = not files.isdisjoint((name, *above)) or not directories.isdisjoint(above)
        is_named = not names.isdisjoint(PurePosixPath(path).parts[:-1])
        is_named = (is_named and name not in measured) or PurePosixPath(path).stem in words
        is_read = not path.endswith(_FOR_READERS) and above.isdisjoint(compared_directories)
        if is_read and (is_reached or is_named):
            yield name


def _words_in(path: Path) -> Iterable[str]:
    """The words of a program, such as the names of scripts that it includes."""
    try:
        return _WORD.findall(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ()


def code_of_evals(base_commit: BaseCommit) -> frozenset[str]:
    """The changed files that are code of evals, or imported by it.

    Of `conftest.py`, those in directories above the evals.
    """
    top = f"{base_commit.repository.top}/"
    loaded = {str(vars(module).get("__file__")) for module in [*sys.modules.values()]}
    above = {
        (parent / "conftest.py").as_posix()
        for place in base_commit.eval_places
        for parent in PurePosixPath(place).parents
    }
    return frozenset(
        name
        for name in base_commit.changed
        if name.endswith(".py")
        and (
            top + name in loaded
            or name in above
            or base_commit.is_eval_code(name)
            or base_commit.evals.get(name)
        )
    )


def files_of_judges(base_commit: BaseCommit, eval_: Eval) -> frozenset[str]:
    """Files of the project that judges use, such as the program of a command."""
    names: set[str] = set()
    for judge in eval_.judges:
        names |= {*cast("Mapping[str, str]", getattr(judge, "files", {}))}
    return frozenset(
        base_commit.repository.inside(base_commit.project.root / name) for name in names
    )


def is_set_up(base_commit: BaseCommit, name: str) -> bool:
    """Return whether a file is part of a workflow, or configures pytest or its environment."""
    path = PurePosixPath(name)
    if path.name == "pyproject.toml":
        now = base_commit.repository.top / name
        head = now.read_bytes() if now.is_file() else None
        return _set_up(head) != _set_up(base_commit.repository.read(base_commit.commit, name))
    return path.parts[0] == ".github" or any(path.match(pattern) for pattern in _SET_UP_FILES)


def _set_up(data: bytes | None) -> object:
    """The tables of `pyproject.toml` on packages and pytest."""
    try:
        document = tomllib.loads((data or b"").decode("utf-8", "replace"))
    except tomllib.TOMLDecodeError:
        return None
    tables = {name: document.get(name) for name in _SET_UP_TABLES}
    return [
        cast("dict[str, Any]", table).get(key) if isinstance(table, dict) else None
        for name, table in tables.items()
        for key in _SET_UP_TABLES[name]
    ]


def files_of_code(base_commit: BaseCommit, *judges: object) -> frozenset[str]:
    """Return the files that define judges and the judges inside them, and the modules they import.

    Only files of the repository count, apart from regauge and the environment.
    """
    files = (file for judge in judges for file in _files(judge))
    return with_imports(base_commit, _files_of_project(base_commit, files))


def with_imports(base_commit: BaseCommit, names: Iterable[str]) -> frozenset[str]:
    """Return files of the repository with the modules that they import, also inside functions."""
    files: set[str] = set()
    remaining = {*names}
    while remaining:
        files |= remaining
        remaining = _files_of_project(base_commit, _find_imported(base_commit, remaining)) - files
    return frozenset(files)


def files_of_target(base_commit: BaseCommit, target: Target) -> frozenset[str]:
    """Return the code of a target: its modules or programs, with what these import."""
    match target.settings:
        case PythonTarget(callable=name):
            return _files_of_callable(base_commit, name)
        case CommandTarget(argv=argv):
            inside = base_commit.repository.inside
            files = {inside(target.root / word) for word in argv if (target.root / word).is_file()}
            modules = (word for option, word in pairwise(argv) if option == "-m")
            for name in modules:
                files |= _files_of_callable(base_commit, name)
                files |= _files_of_callable(base_commit, f"{name}.__main__")
            return with_imports(base_commit, files)
        case _:
            return frozenset()


def _files_of_callable(base_commit: BaseCommit, name: str) -> frozenset[str]:
    """Return the modules of a callable, as `module:function`, below the root or `src`."""
    root = base_commit.project.root
    files = _files_of_module(base_commit, name.partition(":")[0], root, root / "src")
    return with_imports(base_commit, _files_of_project(base_commit, files))


def files_named_in(base_commit: BaseCommit, files: Iterable[str]) -> frozenset[str]:
    """Return the changed files, apart from code, that string literals of some files name.

    A symbolic link names the changed file that it leads to.
    """
    changed = {
        path: name for path, name in base_commit.changed_paths.items() if not path.endswith(".py")
    }
    if not changed:
        return frozenset()
    texts = literals_in(base_commit, files)
    return frozenset(
        name
        for path, name in changed.items()
        if any(text.endswith(PurePosixPath(path).name) for text in texts)
    )


def literals_in(base_commit: BaseCommit, files: Iterable[str]) -> frozenset[str]:
    """Return the string literals in the code of some files."""
    return frozenset(
        node.value
        for name in files
        for node in ast.walk(_tree(base_commit, name))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def count_values(source: bytes) -> int:
    """Return the number of values that the lists, sets and mappings of some code display.

    Code that does not parse has none.
    """
    try:
        tree = _parse(source)
    except (SyntaxError, ValueError):
        return 0
    return sum(
        len(node.values if isinstance(node, ast.Dict) else node.elts)
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict | ast.List | ast.Set)
    )


def _files(judge: object) -> Iterator[str]:
    """The files of the classes and functions of a judge."""
    seen: set[int] = set()
    remaining: list[object] = [judge]
    while remaining:
        value = remaining.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        remaining += _parts(value)
        if isinstance(value, FunctionType):
            yield value.__code__.co_filename
        elif _is_code(value):
            yield from _files_of_class(type(value))


def _parts(value: object) -> Iterable[object]:
    """The objects inside a judge or inside one of its parts."""
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
    """Return whether a value is an object that judges or is callable."""
    return not isinstance(value, type) and (callable(value) or hasattr(value, "judge"))


def _files_of_class(kind: type) -> Iterator[str]:
    """The modules of a class and its bases, and the files of methods, which may be replaced."""
    for base in kind.__mro__:
        module = sys.modules.get(base.__module__)
        yield str(vars(module).get("__file__")) if module is not None else ""
        for method in vars(base).values():
            if isinstance(method, FunctionType):
                yield method.__code__.co_filename


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _find_imported(base_commit: BaseCommit, names: Iterable[str]) -> Iterator[str]:
    """Find the files of imported modules; for modules that are not loaded, changed files too."""
    for name in names:
        parents = (base_commit.repository.top / name).parents
        for node in _nodes_that_run(_tree(base_commit, name)):
            match node:
                case ast.Import():
                    for alias in node.names:
                        yield from _files_of_module(base_commit, alias.name)
                case ast.ImportFrom():
                    package = parents[node.level - 1 : node.level] if node.level else ()
                    module = node.module or ""
                    for imported in (module, *(f"{module}.{alias.name}" for alias in node.names)):
                        yield from _files_of_module(base_commit, imported, *package)
                case _:
                    pass


def _nodes_that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree, without imports for type checkers."""
    remaining: list[ast.AST] = [tree]
    while remaining:
        node = remaining.pop()
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test) in _FOR_TYPES:
            remaining += node.orelse
        else:
            remaining += ast.iter_child_nodes(node)


def _files_of_module(base_commit: BaseCommit, name: str, *package: Path) -> Iterator[str]:
    """Find the file of a module; with a package, of a relative import."""
    module = name.strip(".")
    loaded = sys.modules.get(module) if not package else None
    if loaded is not None:
        yield str(vars(loaded).get("__file__"))
        return
    path = module.replace(".", "/")
    ends = (f"{path}.py", f"{path}/__init__.py") if path else ("__init__.py",)
    root = base_commit.project.root
    # Targets import from the root, evals with `--import-mode=importlib` do not.
    for directory in package or (*map(Path, sys.path), root, root / "src"):
        yield from (str(directory / end) for end in ends if (directory / end).is_file())
    for changed in base_commit.changed if path and not package else ():
        if f"/{changed}".endswith(tuple(f"/{end}" for end in ends)):
            yield str(base_commit.repository.top / changed)


def _files_of_project(base_commit: BaseCommit, files: Iterable[str]) -> set[str]:
    top, outside = base_commit.repository.top, (Path(sys.prefix), Path(__file__).parents[1])
    return {
        base_commit.repository.inside(path)
        for path in map(Path, {*files})
        if path.is_relative_to(top)
        and not any(path.is_relative_to(directory) for directory in outside)
    }


def _tree(base_commit: BaseCommit, name: str) -> ast.Module:
    path = base_commit.repository.top / name
    try:
        return _parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


@lru_cache(maxsize=200)
def _parse(source: bytes) -> ast.Module:
    """The tree of a source; many walks visit the same files, and none changes a tree."""
    return ast.parse(source)


def files_not_loaded(base_commit: BaseCommit, files: Iterable[str]) -> frozenset[str]:
    """Return the files of modules that functions import when they are called."""
    loaded = {str(vars(module).get("__file__")) for module in [*sys.modules.values()]}
    return frozenset(name for name in files if str(base_commit.repository.top / name) not in loaded)


def is_other_code(base_commit: BaseCommit, name: str) -> bool:
    """Return whether a file differs from the base's; of Python, its code without evals."""
    path = base_commit.repository.top / name
    head = path.read_bytes() if path.is_file() else b""
    base = base_commit.repository.read(base_commit.commit, base_commit.renamed.get(name, name))
    return _code(base) != _code(head) if name.endswith(".py") else base != head


def is_reformatted(base_commit: BaseCommit, name: str) -> bool:
    """Return whether only the format or comments of a Python file differ from the base's."""
    base = base_commit.repository.read(base_commit.commit, base_commit.renamed.get(name, name))
    path = base_commit.repository.top / name
    if base is None or not name.endswith(".py") or not path.is_file():
        return False
    try:
        return ast.dump(ast.parse(base)) == ast.dump(ast.parse(path.read_bytes()))
    except (SyntaxError, ValueError):
        return False


def _code(source: bytes | None) -> str | None:
    """Return the code of a file without evals, docstrings and names imported from regauge."""
    try:
        tree = ast.parse(source or b"")
    except (SyntaxError, ValueError):
        return None
    evals = {declared_eval.function for declared_eval in declared_evals(source or b"")}
    tree.body = [node for node in tree.body if getattr(node, "name", None) not in evals]
    own_names = {"*", *_own_names(tree)}
    for node in ast.walk(tree):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                if ast.get_docstring(node) is not None:
                    node.body = node.body[1:]
            case ast.ImportFrom() if _is_of_regauge(node):
                node.names = [a for a in node.names if a.asname or a.name in own_names]
            case _:
                pass
    return "\n".join(ast.dump(node) for node in tree.body if getattr(node, "names", True))


def _own_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a file binds itself or imports from elsewhere than regauge."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Import() | ast.ImportFrom() if not _is_of_regauge(node):
                yield from (alias.asname or alias.name for alias in node.names)
            case _:
                pass


def _is_of_regauge(node: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("regauge.")
