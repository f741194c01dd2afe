from __future__ import annotations

from regauge import EvalResult, golden
from regauge.judges import field_equals


@golden("ruin-names", judges=[field_equals("Answer")])
def test_ruin_names(result: EvalResult) -> None:
    result.check()
