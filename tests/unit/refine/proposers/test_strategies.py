"""The kinds of edits that people may ask for are those that are proposed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from regauge.errors import UsageError
from regauge.refine.delivery import _NOTES
from regauge.refine.proposers._protocol import STRATEGIES, check_strategies

ROOT = Path(__file__).parents[4]
ALL = {one for kinds in STRATEGIES.values() for one in kinds}


def test_every_kind_that_regauge_proposes_can_be_asked_for_and_is_documented():
    sources = (ROOT / "src/regauge/refine").rglob("*.py")
    written = re.findall(r'strategy="([a-z-]+)"', "\n".join(path.read_text() for path in sources))
    assert {"restore", "add-rule"} <= set(written) | set(_NOTES) <= ALL
    page = (ROOT / "docs/how-to/fix-a-prompt.md").read_text()
    assert not [one for one in ALL if f"`{one}`" not in page]


def test_kinds_of_proposers_of_other_packages_are_their_own():
    check_strategies(["house-style"], ["rules", "house"])
    check_strategies(["restore", "rewrite"], ["rules", "model"])
    with pytest.raises(UsageError, match="--proposers examples,rules"):
        check_strategies(["restore"], ["examples"])
