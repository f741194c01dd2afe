from __future__ import annotations

from regauge import EvalResult, golden


# Every case brings its own checks: what its snippet must declare, or which tool it must call.
@golden("infrastructure-snippet", judges=[])
def test_infrastructure_snippet(result: EvalResult) -> None:
    result.check()
