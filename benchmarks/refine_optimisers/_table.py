"""The results side by side, as a page of the documentation shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["table"]

_HEAD = (
    "task", "by", "runs of each", "one fault: repaired", "growth", "answers",
    "two faults: repaired",
    "healthy: changed", "healthy: worse",
    "unfixable: changed", "unfixable: worse", "unfixable: leaks",
    "leaky model: repaired", "leaky model: leaks",
)  # fmt: skip
_NAMES = {
    "rules": "regauge, rules",
    "model": "regauge, model",
    "deepeval-GEPA": "deepeval GEPA",
    "deepeval-SIMBA": "deepeval SIMBA",
    "deepeval-COPRO": "deepeval COPRO",
    "deepeval-MIPROV2": "deepeval MIPROv2",
}


def table(results: Mapping[str, Any]) -> str:
    """A Markdown table of a file of results: a row for each task and tool, in the file's order."""
    cells: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in results["rows"]:
        cells.setdefault((row["task"], row["by"]), {})[row["scenario"]] = row
    rows = [_row(task, by, found) for (task, by), found in cells.items()]
    lines = [_HEAD, ("---",) * len(_HEAD), *sorted(rows, key=lambda row: row[0])]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _row(task: str, by: str, found: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    def cell(scenario: str, of: str) -> str:
        if scenario not in found:
            return "-"
        value = found[scenario][of]
        match of:
            case "growth":
                return f"{value:+.1%}"
            case "leaks":  # counted in runs
                return f"{value / found[scenario]['runs']:.0%}"
            case "calls":
                return f"{value:.0f}"
            case _:
                return f"{value:.0%}"

    runs = sorted({row["runs"] for row in found.values()})
    return (
        task,
        _NAMES.get(by, by),
        " to ".join(str(count) for count in dict.fromkeys((runs[0], runs[-1]))),
        *(cell("single", of) for of in ("repaired", "growth", "calls")),
        cell("double", "repaired"),
        *(cell("healthy", of) for of in ("changed", "worse")),
        *(cell("unfixable-sloppy", of) for of in ("changed", "worse", "leaks")),
        *(cell("leaky", of) for of in ("repaired", "leaks")),
    )
