"""Tables of a run for other tools, through pandas."""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, Any

from regauge.extras import require

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pandas as pd

__all__ = ["trials_table", "write_csv", "write_parquet"]

# Letters and symbols of Unicode that show as blanks: Hangul fillers and the empty Braille cell.
_FILLERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")


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
    """Write the table as parquet.

    Raises:
        UsageError: The extra `parquet` is not installed.
    """
    require("pyarrow", use="a parquet file")
    trials_table(rows).to_parquet(path, index=False)


def _spreadsheet_safe(value: object) -> object:
    r"""A cell that no spreadsheet takes for a formula; model output is hostile.

    >>> _spreadsheet_safe("=1+1"), _spreadsheet_safe("text"), _spreadsheet_safe(-1)
    ("'=1+1", 'text', -1)
    >>> _spreadsheet_safe("\n \u200b\uff1d1+1").startswith("'")
    True
    """
    if isinstance(value, str):
        return f"'{value}" if _may_be_formula(value) else value
    return json.dumps(value) if isinstance(value, (dict, list)) else value


def _may_be_formula(text: str) -> bool:
    """Whether a text begins with tab, CR or a formula's sign, after what a spreadsheet may drop.

    Full-width and other forms of the signs count, and so does a sign behind blanks, line feeds
    and characters without a glyph.
    """
    if text[:1] in {"\t", "\r"}:
        return True
    seen = next((one for one in text if not _is_unseen(one)), "")
    return seen == "\u2212" or unicodedata.normalize("NFKC", seen)[:1] in {"=", "+", "-", "@"}


def _is_unseen(character: str) -> bool:
    """Whether a character is a blank, a control, a format character or a mark without a base."""
    return (
        character.isspace() or unicodedata.category(character)[0] in "CMZ" or character in _FILLERS
    )
