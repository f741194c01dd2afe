"""Packages that load the module of a name when the name is first used."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def names_of(
    package: str, modules: Mapping[str, str], *, whole: Sequence[str] = ()
) -> Callable[[str], Any]:
    """The `__getattr__` of a package, which loads the module of a name and no other.

    With `whole`, it knows `__all__`, too.

    Args:
        package: Its full name.
        modules: By module of the package, the names that the package offers from it, with spaces
            between them.
        whole: Modules of the package whose `__all__` it offers. They are searched in this order, so
            name those first that are used most.
    """
    home = {name: module for module, names in modules.items() for name in names.split()}

    def load(name: str) -> Any:
        if name in home:
            return getattr(import_module(f"{package}.{home[name]}"), name)
        public = not name.startswith("_")
        names = sorted(home)
        for module in whole if public or name == "__all__" else ():
            loaded = import_module(f"{package}.{module}")
            if name in loaded.__all__:
                return getattr(loaded, name)
            names += loaded.__all__
        if whole and name == "__all__":
            return names
        raise AttributeError(
            f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package]
        )

    return load
