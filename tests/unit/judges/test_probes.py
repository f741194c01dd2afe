"""Judges, declared as in YAML, give the verdicts that users expect on many probes.

Each probe in `tests/data/judge_probes` has a judge, an output and the expected verdict. `unmeasured`
means that the judge abstains or raises a JudgeError, `refused` that it is refused when it is made.
A probe with `differs` documents where regauge decides in another way, and why.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from regauge.datasets import GoldenCase
from regauge.errors import JudgeError, UsageError
from regauge.judges import as_judge
from regauge.judges._registry import judge_from_spec
from regauge.providers import Completion, ToolCall, Usage

PROBES = Path(__file__).parents[2] / "data" / "judge_probes"


def read_areas(name: str) -> dict[str, list[dict[str, Any]]]:
    """The probes of each area of a file."""
    areas = yaml.load((PROBES / f"{name}.yml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    return {f"{name}-{area}": probes for area, probes in areas.items()}


def run_probe(probe: dict[str, Any]) -> str:
    """The verdict of a probe in one word."""
    given = probe["output"]
    text = given if isinstance(given, str) else "".join(part * count for part, count in given)
    calls = tuple(
        ToolCall(id=str(place), name=call["name"], arguments=call["arguments"])
        for place, call in enumerate(probe.get("tools", ()))
    )
    completion = Completion(
        text=None if calls and not text else text,
        finish_reason=probe.get("finish_reason", "stop"),
        usage=Usage(input_tokens=10, output_tokens=20),
        model="m",
        provider="p",
        latency_s=probe.get("latency_s", 0.2),
        tool_calls=calls,
    )
    case = GoldenCase(
        id="probe",
        inputs=probe.get("inputs", {}),
        expected=probe.get("expected"),
        split="train",
        location="fixtures/golden/probes.jsonl:1",
    )
    try:
        judge = make_judge(probe["judge"])
    except UsageError:
        return "refused"
    except Exception as error:  # noqa: BLE001 - an error of ours, and not of the author's declaration
        return f"raised {type(error).__name__}"
    try:
        verdict = asyncio.run(judge.judge(completion, case))
    except JudgeError:
        return "unmeasured"
    except Exception as error:  # noqa: BLE001
        return f"raised {type(error).__name__}"
    return "unmeasured" if verdict.outcome == "abstain" else str(verdict.outcome)


def make_judge(spec: Any) -> Any:
    """The judge of a probe: a declaration, or a function as its author writes it."""
    if set(spec) == {"python"}:
        names: dict[str, Any] = {}
        exec(spec["python"], names)
        return as_judge(names["j"])
    return judge_from_spec(spec)


def as_expected(probe: dict[str, Any]) -> bool:
    """Compare a probe's verdict with the expected one."""
    return run_probe(probe) in probe["verdict"].split("|")


AREAS = {
    area: probes
    for name in (
        "known",
        "seen",
        "unseen",
        "fresh",
        "newest",
        "formats",
        "blind",
        "review",
        "scripts",
    )
    for area, probes in read_areas(name).items()
}


# A test for each of the thousands of probes takes longer than the probe.
@pytest.mark.parametrize("area", AREAS)
def test_a_probe_is_judged_as_a_user_expects(area: str):
    surprises = [
        f"{area}-{number}: {run_probe(probe)}: {probe['why']}"
        for number, probe in enumerate(AREAS[area], start=1)
        if as_expected(probe) is ("differs" in probe)
    ]
    assert not surprises, "\n".join(surprises)
