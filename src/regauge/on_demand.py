"""Packages that load the module of a name when the name is first asked for."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["names_of"]


def names_of(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package, which loads what is asked of it and nothing else.

    Args:
        package: Its full name.
        modules: By module of the package, the names that the package offers from it, with spaces
            between them.
    """
    home = {name: module for module, names in modules.items() for name in names.split()}

    def load(name: str) -> object:
        if name not in home:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}",
                name=name,
                obj=sys.modules[package],
            )
        return getattr(import_module(f"{package}.{home[name]}"), name)

    return load
