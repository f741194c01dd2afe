"""The items of pytest that are evals: which case each is about, where it stands, what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from regauge.pytest_prompt_file import PromptCase
from regauge.runner import PlannedCase

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FIXTURE", "locate", "planned_case", "words_of"]

FIXTURE = "result"


def planned_case(item: pytest.Item) -> PlannedCase | None:
    """The case an item is about; None when it is no eval."""
    if isinstance(item, PromptCase):
        return item.planned
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return None
    planned = callspec.params.get(FIXTURE)
    return planned if isinstance(planned, PlannedCase) else None


def locate(items: Iterable[pytest.Item]) -> None:
    """Work out where evals stand once for all cases of a function.

    pytest looks it up in the file system for each of them, which takes a tenth of a replayed run.
    """
    places: dict[tuple[int, str], tuple[str, int | None, str]] = {}
    for item in items:
        if type(item) is not pytest.Function:
            continue  # it may have a place of its own
        function = (id(item.parent), item.originalname)
        if function in places:
            path, line, start = places[function]
            item.location = (path, line, f"{start}{item.name}")
        elif item.location[2].endswith(item.name):
            path, line, name = item.location
            places[function] = (path, line, name.removesuffix(item.name))


def words_of(excinfo: pytest.ExceptionInfo[BaseException], short: str) -> Any:
    """A report of an exception that shows its message alone, with a short form for lists."""
    words = excinfo.getrepr(style="value")
    if words.reprcrash is not None:
        words.reprcrash.message = short
    return words
