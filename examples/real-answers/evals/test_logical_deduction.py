from __future__ import annotations

from regauge import EvalResult, golden
from regauge.judges import field_equals


@golden("logical-deduction", judges=[field_equals("Answer")])
def test_logical_deduction(result: EvalResult) -> None:
    result.check()
