from __future__ import annotations

from regauge import EvalResult, golden
from regauge.judges import field_equals


@golden("navigate", judges=[field_equals("Answer")])
def test_navigate(result: EvalResult) -> None:
    result.check()
