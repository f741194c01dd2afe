"""Holds long texts, word for word, in files under `tests/data/transcripts`."""

from __future__ import annotations

import os
import re
from pathlib import Path

_FOLDER = Path(__file__).parent / "data/transcripts"


def assert_as_written(text: str, name: str) -> None:
    """Compare a text with the file that holds it.

    `TRANSCRIPTS=write pytest …` writes the files anew; review what changed as you would review
    the words and numbers of a report.
    """
    file_name = re.sub(r"[^\w/]+", "-", name)
    path = _FOLDER / f"{file_name}.txt"
    if os.environ.get("TRANSCRIPTS") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()
