"""The results side by side, as a page of the documentation shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["table"]

_HEAD = ("task", "by", "fixed", "lost", "calls", "leaks", "healthy: worse", "leaky: leaks")
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
        row = found[scenario]
        match of:
            case "leaks":  # counted in runs
                return f"{row['leaks'] / row['runs']:.0%}"
            case "lossy":
                return f"{row['lossy']} of {round(row['changed'] * row['runs'])}"
            case "calls":
                return f"{row[of]:.0f}"
            case _:
                return f"{row[of]:.0%}"

    single = ("repaired", "lossy", "calls", "leaks")
    return (
        task,
        _NAMES.get(by, by),
        *(cell("single", of) for of in single),
        cell("healthy", "worse"),
        cell("leaky", "leaks"),
    )
