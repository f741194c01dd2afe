from __future__ import annotations

from regauge import EvalResult, golden
from regauge.judges import field_equals


@golden("public-relations", judges=[field_equals("Answer")])
def test_public_relations(result: EvalResult) -> None:
    result.check()
