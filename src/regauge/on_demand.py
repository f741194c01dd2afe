"""Modules that load when a name in them is first used, and the modules of each extra."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from importlib.metadata import EntryPoint

    from regauge.errors import UsageError


EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "anthropic": ("anthropic",),
    "dask": ("distributed",),
    "infra": ("hcl2", "sqlglot"),
    "inspect": ("zstandard",),
    "js": ("py_mini_racer",),
    "otel": ("opentelemetry.exporter.otlp.proto.http",),
    "parquet": ("pyarrow",),
    "postgres": ("psycopg",),
    "text": ("langdetect", "rapidfuzz", "snowballstemmer"),
}
"""The modules of each extra of pyproject.toml."""


def find_missing(extra: str) -> list[str]:
    """The modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra] if not _is_installed(module)]


def install_command(module: str) -> str:
    """The command that installs the extra of a module, or the module if no extra has it."""
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), "")
    return f"pip install 'regauge[{extra}]'" if extra else f"pip install {module}"


def require(module: str, *, use: str) -> None:
    """Check that the module of an extra is installed; it is not imported.

    Args:
        module: Its name.
        use: What needs it, for the message.

    Raises:
        UsageError: It is not installed.
    """
    if not _is_installed(module):
        from regauge.errors import UsageError

        raise UsageError(
            f"{use} needs {module}, which is not installed", fix=install_command(module)
        )


GROUPS: Final[dict[str, str]] = {
    "judge": "regauge.judges",
    "format": "regauge.importers",
    "operator": "regauge.mutation_operators",
    "proposer": "regauge.proposers",
    "provider": "regauge.providers",
}
"""The entry point groups for other packages, by the noun for what they register."""


def registered_points(group: str) -> dict[str, EntryPoint]:
    """The entry points of all installed packages in a group, by name."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=group)}


def load_point(point: EntryPoint, noun: str, *, fix: str = "") -> Any:
    """Load the class or function of an entry point.

    Args:
        point: The entry point.
        noun: The word for what it registers, for the message.
        fix: The fix; by default another version of its package.

    Raises:
        UsageError: It cannot be loaded, or cannot be called.
    """
    from regauge.errors import UsageError

    package = point.dist.name if point.dist is not None else "its package"
    fix = fix or f"install another version of {package}, or remove it"
    subject = f"{noun} {point.name!r} ({point.value})"
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:  # code of another package
        is_import = isinstance(error, ImportError | AttributeError)
        words = " ".join(str(error).split())
        reason = words if is_import else f"{type(error).__name__}: {words}"
        raise UsageError(f"{subject} cannot be loaded: {reason}", fix=fix) from error
    if not callable(loaded):
        raise UsageError(f"{subject} is not a class or function, but {loaded!r:.60}", fix=fix)
    return loaded


def load_points(points: Iterable[EntryPoint], noun: str) -> tuple[dict[str, Any], list[UsageError]]:
    """Load entry points: what loads, by name, and the errors of the broken ones."""
    from regauge.errors import UsageError

    loaded: dict[str, Any] = {}
    errors: list[UsageError] = []
    for point in points:
        try:
            loaded[point.name] = load_point(point, noun)
        except UsageError as error:
            errors.append(error)
    return loaded, errors


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # a module without a spec, such as one that a test put there
        return True
    except ModuleNotFoundError:  # a package above it
        return False


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__`, which imports only the module of a name, and `__dir__`.

    The names are those that the package imports `if TYPE_CHECKING`, so they are declared once.
    `import *` offers the `__all__` of a module; these modules are searched in order, so the most
    used come first. The package's `__all__` is all of them.

    Args:
        package: Its full name.
    """

    def load(name: str) -> Any:
        modules, star_modules = _declared_names(package)
        if name in modules:
            return getattr(import_module(modules[name]), name)
        is_all = name == "__all__"
        names = sorted(modules)
        for module in star_modules if is_all or not name.startswith("_") else ():
            loaded = import_module(module)
            if name in loaded.__all__ and not is_all:
                return getattr(loaded, name)
            names += loaded.__all__
        if is_all:
            return names
        raise AttributeError(
            f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package]
        )

    return load, lambda: sorted({*vars(sys.modules[package]), *load("__all__")})


@cache  # threads of a target may ask at once
def _declared_names(package: str) -> tuple[dict[str, str], list[str]]:
    """The module of each name in a package or module, and the modules whose `__all__` it offers."""
    import ast  # only now: an unused package costs nothing
    from importlib.resources import files

    modules: dict[str, str] = {}
    star_modules: list[str] = []
    folder, name = package, "__init__"
    if "__path__" not in vars(sys.modules[package]):
        folder, _, name = package.rpartition(".")
    source = files(folder).joinpath(f"{name}.py").read_text("utf-8")
    for block in ast.parse(source).body:
        for node in block.body if isinstance(block, ast.If) else ():
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("regauge."):
                names = [alias.name for alias in node.names]
                if names == ["*"]:
                    star_modules.append(str(node.module))
                else:
                    modules |= dict.fromkeys(names, str(node.module))
    return modules, star_modules
