"""The values a run is made of, ready-made for tests of what is done with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regauge.datasets import Dataset, GoldenCase
from regauge.errors import ProviderError
from regauge.judges import Verdict
from regauge.prompts import parse_prompt
from regauge.providers import Completion, ModelId, Usage
from regauge.runner import Eval, EvalResult, JudgedVerdict, SourcedCompletion, Trial

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["EvalParts"]

_MESSAGES = "  - role: user\n    content: 'How severe? {{text}}'\n"


class EvalParts:
    """Makes the values a run is made of."""

    def case(self, number: int = 0, **more: Any) -> GoldenCase:
        given: dict[str, Any] = {
            "id": f"c{number}",
            "inputs": {"text": f"disk {number} is full"},
            "expected": {"severity": "critical"},
            "tags": ("disk",),
            "tier": "required",
            "split": "train",
            "source": "",
            "licence": "",
            "location": f"fixtures/golden/alert.jsonl:{number + 1}",
        }
        return GoldenCase(**(given | more))

    def suite(self, *, trials: int = 1, pass_rate: float = 1.0, name: str = "alert") -> Eval:
        text = f"name: Alert\nversion: 1.0.0\nmodel: sim:clerk-1\nmessages:\n{_MESSAGES}"
        return Eval(
            prompt=parse_prompt(text, path=Path(f"prompts/{name}.prompt.yml")),
            dataset=Dataset(
                name=name, path=Path(f"fixtures/golden/{name}.jsonl"), cases=(self.case(),)
            ),
            judges=(),
            model=ModelId(provider="sim", model="clerk-1"),
            trials=trials,
            pass_rate=pass_rate,
            origin=f"prompts/{name}.prompt.yml",
        )

    def trial(self, number: int = 0, outcome: str = "passed", **more: Any) -> Trial:
        if outcome == "unmeasured":
            error = ProviderError("local cannot be reached", kind="connection", attempts=3)
            return Trial(number=number, request_digest="d", sourced_completion=None, error=error)
        completion = Completion(
            text='{"severity": "critical"}',
            finish_reason="stop",
            usage=Usage(input_tokens=100, output_tokens=10),
            model="clerk-1",
            provider="sim",
            latency_s=0.25,
            cost_usd=0.5,
            attempts=2,
        )
        verdict = Verdict(
            outcome="pass" if outcome == "passed" else "fail",
            score=1.0 if outcome == "passed" else 0.0,
            reason="it is\nas it is",
            expected={"severity": "none"},
            actual="critical",
            cost_usd=0.01,
            details={"words": 3},
        )
        return Trial(
            number=number,
            request_digest="d",
            sourced_completion=SourcedCompletion(
                completion=completion, source=more.pop("source", "live")
            ),
            verdicts=(JudgedVerdict(judge="severity", judge_digest="j", verdict=verdict),),
        )

    def result(self, trials: Sequence[Trial], pass_rate: float = 1.0, **more: Any) -> EvalResult:
        """`suite`, `case` and `node_id` may be given; a short id is one of the eval `test_alert`."""
        node_id = more.pop("node_id", "c0")
        given: dict[str, Any] = {
            "eval": self.suite(trials=len(trials), pass_rate=pass_rate),
            "case": self.case(),
            "node_id": node_id if "[" in node_id else f"evals/test_alert.py::test_alert[{node_id}]",
        }
        return EvalResult(trials=tuple(trials), **(given | more))
