"""Count the checks of a project's golden cases that reach a verdict on a canned output."""

from __future__ import annotations

import json
import os
from pathlib import Path

from regauge.datasets import load_dataset
from regauge.errors import RegaugeError
from regauge.judges import Rule, judge_from_spec
from regauge.judges.output import JudgedOutput
from regauge.providers import Completion, Usage

OPTIONS = ("weight", "tier", "metric")


def main() -> None:
    fixtures = Path("fixtures")
    completion = Completion(
        text='{"answer": "The answer is 42."}', provider="local", model="any", finish_reason="stop",
        usage=Usage(input_tokens=1, output_tokens=1), latency_s=0.1, cost_usd=0.0,
    )  # fmt: skip
    checks = good = 0
    reason = ""
    for file in sorted((fixtures / "golden").glob("*.jsonl")):
        for case in load_dataset(file, fixtures_dir=fixtures):
            answer = JudgedOutput.from_completion(completion, case)
            for check in case.checks:
                spec = (
                    {k: v for k, v in check.items() if k not in OPTIONS}
                    if isinstance(check, dict)
                    else check
                )
                checks += 1
                try:
                    judge = judge_from_spec(spec)
                    if isinstance(judge, Rule):
                        judge.examine(answer)
                    good += 1
                except RegaugeError as error:
                    reason = reason or str(error).splitlines()[0][:160]
    print(json.dumps({"checks": checks, "measured": good, "reason": reason}))


if __name__ == "__main__":
    os.environ.setdefault("NO_COLOR", "1")
    main()
