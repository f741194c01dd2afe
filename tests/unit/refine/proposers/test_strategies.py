"""The kinds of edits are documented."""

from __future__ import annotations

import re
from pathlib import Path

from regauge.refine.delivery import _NOTES

ROOT = Path(__file__).parents[4]


def test_every_kind_of_edit_is_documented():
    sources = (ROOT / "src/regauge/refine").rglob("*.py")
    written = re.findall(r'strategy="([a-z-]+)"', "\n".join(path.read_text() for path in sources))
    page = (ROOT / "docs/how-to/fix-a-prompt.md").read_text()
    assert {"restore", "add-rule"} <= {*written, *_NOTES}
    assert not [one for one in {*written, *_NOTES} if f"`{one}`" not in page]
