"""Tables of a run for other tools, through pandas."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pandas as pd

__all__ = ["trials_table", "write_csv", "write_parquet"]


def trials_table(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """One line per trial; `score.<judge>` and `outcome.<judge>` are columns of their own.

    Judges that ask a model have more: whether they gate, their calls, cost and latency.

    Args:
        rows: In the shape of `TrialRow`.
    """
    import pandas as pd

    flat: list[dict[str, Any]] = []
    for row in rows:
        line = {key: value for key, value in row.items() if key not in {"verdicts", "cause"}}
        line["tags"] = ";".join(row["tags"])
        cause = row["cause"]
        line["cause"] = f"{cause['kind']}: {cause['message']}" if cause else None
        for verdict in row["verdicts"]:
            judge = verdict["judge"]
            line[f"outcome.{judge}"] = verdict["outcome"]
            line[f"score.{judge}"] = verdict["score"]
            line[f"reason.{judge}"] = verdict["reason"]
            if verdict.get("standing"):  # it asks a model
                line[f"gates.{judge}"] = verdict.get("gates", True)
                for key in ("calls", "cost_usd", "latency_s"):
                    line[f"{key}.{judge}"] = verdict.get(key)
        flat.append(line)
    return pd.DataFrame(flat)


def write_csv(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Write the table as CSV: UTF-8, a heading, one line per trial."""
    trials_table(rows).map(_spreadsheet_safe).to_csv(path, index=False)


def write_parquet(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Write the table as parquet."""
    trials_table(rows).to_parquet(path, index=False)


def _spreadsheet_safe(value: object) -> object:
    """A cell that no spreadsheet takes for a formula; model output is hostile.

    >>> _spreadsheet_safe("=1+1"), _spreadsheet_safe("text"), _spreadsheet_safe(-1)
    ("'=1+1", 'text', -1)
    """
    if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"}:
        return f"'{value}"
    return value if not isinstance(value, (dict, list)) else json.dumps(value)
