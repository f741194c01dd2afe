"""README's pictures show the comment that is written today."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.docs.screenshots import (
    DIGESTS,
    PICTURES,
    ROOT,
    covered,
    digest,
    rejected,
    shown_prompt,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_the_pictures_show_the_pages_of_today(tmp_path: Path) -> None:
    comment, report = rejected(tmp_path)
    assert "regauge gate: rejected" in comment
    assert report.stat().st_size > 10_000
    stored = json.loads(DIGESTS.read_text(encoding="utf-8"))
    now = {"comment": digest(comment), "coverage": digest(shown_prompt(covered(tmp_path)))}
    assert stored == now, "write: python -m tests.docs.screenshots"


def test_the_readme_shows_all_pictures() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("comment", "coverage", "report"):
        for scheme in ("light", "dark"):
            path = PICTURES / f"{name}-{scheme}.png"
            assert path.stat().st_size < 400_000
            assert path.relative_to(ROOT).as_posix() in readme
