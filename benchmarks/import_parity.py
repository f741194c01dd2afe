"""Agreement of imported checks with promptfoo: `python -m benchmarks.import_parity`.

The suites of `tests/data/promptfoo_verdicts` are imported with `regauge import promptfoo`, and
each check judges the outputs that promptfoo judged.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regauge.datasets import GoldenCase
from regauge.errors import JudgeError
from regauge.importers import load_importer
from regauge.judges import judge_from_spec
from regauge.providers import Completion, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

DATA = Path(__file__).parents[1] / "tests" / "data" / "promptfoo_verdicts" / "verdicts.jsonl"
OPTIONS = {"weight", "tier", "metric"}


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One assertion on one output: what promptfoo decided, and the imported check."""

    suite: str
    assertion: Mapping[str, Any]
    output: str
    promptfoo: str
    ours: str
    reason: str

    @property
    def decided(self) -> bool:
        return self.ours in {"pass", "fail"}

    @property
    def equal(self) -> bool:
        return self.ours == self.promptfoo

    def __str__(self) -> str:
        shown = json.dumps(self.assertion, ensure_ascii=False)[:300]
        return (
            f"{self.suite}: promptfoo {self.promptfoo}, ours {self.ours}: {self.reason[:200]}\n"
            f"  {shown}\n  {self.output[:200]!r}"
        )


def tests_by_suite() -> dict[str, list[dict[str, Any]]]:
    lines = DATA.read_text(encoding="utf-8").splitlines()[1:]
    suites: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        test = json.loads(line)
        suites.setdefault(test["suite"], []).append(test)
    return suites


def imported_cases(tests: Sequence[Mapping[str, Any]], root: Path) -> list[Any]:
    """The golden cases that the importer makes of a suite, one for each test."""
    config: dict[str, Any] = {
        "prompts": ["Answer."],
        "providers": ["openai:gpt-5.4-mini"],
        "tests": [
            {"description": f"test {number}", "vars": test["vars"], "assert": test["assert"]}
            for number, test in enumerate(tests)
        ],
    }
    path = root / "promptfooconfig.yaml"
    path.write_text(json.dumps(config, ensure_ascii=False), encoding="utf-8")
    imported = load_importer("promptfoo")(path, root=root, name="suite")
    (cases,) = imported.datasets.values()
    if len(cases) != len(tests):
        raise AssertionError(f"{len(tests)} tests became {len(cases)} cases")
    return [case.document for case in cases]


def verdict_of(check: Any, output: str, case: Mapping[str, Any]) -> tuple[str, str]:
    spec = check
    if isinstance(check, dict):
        spec = {key: value for key, value in check.items() if key not in OPTIONS}
    golden = GoldenCase(
        id=case["id"], inputs=case["inputs"], expected=case.get("expected"), split="train"
    )
    completion = Completion(
        text=output,
        usage=Usage(input_tokens=10, output_tokens=20),
        latency_s=0.001,
        cost_usd=0.0004,
        model="m",
        provider="p",
    )
    try:
        judge = judge_from_spec(spec)
        verdict = judge.check(completion, golden)  # type: ignore[union-attr]
    except JudgeError as error:
        return "unmeasured", str(error)
    return verdict.outcome, verdict.reason


def compare() -> Iterator[Compared]:
    for suite, tests in tests_by_suite().items():
        with tempfile.TemporaryDirectory() as place:
            cases = imported_cases(tests, Path(place))
        for test, case in zip(tests, cases, strict=True):
            for output, verdicts in test["outputs"]:
                rows = zip(test["assert"], case["checks"], verdicts, strict=True)
                for assertion, check, theirs in rows:
                    if theirs == "-":  # the same assertion on the same output is in another test
                        continue
                    ours, reason = verdict_of(check, output, case)
                    yield Compared(
                        suite=suite,
                        assertion=assertion,
                        output=output,
                        promptfoo={"p": "pass", "f": "fail"}[theirs],
                        ours=ours,
                        reason=reason,
                    )


def main() -> None:
    rows = [*compare()]
    decided = [row for row in rows if row.decided]
    equal = [row for row in decided if row.equal]
    for row in decided:
        if not row.equal and "-v" in sys.argv:
            print(row)
    table: dict[str, Counter[str]] = {}
    for row in rows:
        word = "unmeasured" if not row.decided else "equal" if row.equal else "different"
        table.setdefault(str(row.assertion["type"]), Counter())[word] += 1
    print("assertion            equal  different  unmeasured")
    for kind, counted in sorted(table.items()):
        cells = [counted[word] for word in ("equal", "different", "unmeasured")]
        print(f"{kind:<20} {cells[0]:>5} {cells[1]:>10} {cells[2]:>11}")
    suites = len({row.suite for row in rows})
    print(
        f"{len(rows)} verdicts of {suites} suites: {len(decided)} decided by both, "
        f"{len(equal) / len(decided):.2%} equal"
    )


if __name__ == "__main__":
    main()
