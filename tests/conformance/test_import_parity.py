"""Imported suites of promptfoo decide as promptfoo does, on recorded verdicts of its own."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

from benchmarks.import_parity import compare

if TYPE_CHECKING:
    import pytest


def test_imported_checks_give_the_verdicts_of_promptfoo(capsys: pytest.CaptureFixture[str]):
    rows = [*compare()]
    decided = [row for row in rows if row.decided]
    different = [str(row) for row in decided if not row.equal]
    with capsys.disabled():
        sys.stdout.write(
            f"\npromptfoo: {len(decided)} verdicts, {len(decided) - len(different)} equal\n"
        )
    assert not different, "\n".join(different)
    assert len(decided) >= 0.95 * len(rows)
    by_word = Counter(row.promptfoo for row in rows)
    assert min(by_word["pass"], by_word["fail"]) > 500
