"""Judges, declared as in YAML, give the verdicts that users expect on many probes.

Each probe in `tests/data/judge_probes` has a judge, an output and the expected verdict. `unmeasured`
means that the judge abstains or raises a JudgeError, `refused` that it is refused when it is made.
A probe with `differs` documents where regauge decides in another way, and why.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from regauge.datasets import GoldenCase
from regauge.errors import JudgeError, UsageError
from regauge.judges import as_judge
from regauge.judges._registry import _builtin_rules, judge_from_spec
from regauge.providers import Completion, ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        "options",
    )
    for area, probes in read_areas(name).items()
}


# Where two verdicts are right, an output may run into a limit of time.
CERTAIN = [probe for probes in AREAS.values() for probe in probes if "|" not in probe["verdict"]]


# A test for each of the thousands of probes takes longer than the probe.
@pytest.mark.parametrize("area", AREAS)
def test_a_probe_is_judged_as_a_user_expects(area: str):
    surprises = [
        f"{area}-{number}: {run_probe(probe)}: {probe['why']}"
        for number, probe in enumerate(AREAS[area], start=1)
        if as_expected(probe) is ("differs" in probe)
    ]
    assert not surprises, "\n".join(surprises)


def parameters_of(probe: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The kind and the parameters by name of the built-in rule that a probe declares or negates."""
    spec = probe["judge"]
    if isinstance(spec, dict) and "not" in spec:
        spec = spec["not"]
    kind, value = next(iter(spec.items())) if isinstance(spec, dict) else (spec, {})
    if kind not in _builtin_rules():
        return None
    if value is None or isinstance(value, dict):
        return kind, value or {}
    return kind, {next(iter(_parameters(kind))): value}


def with_parameters(probe: dict[str, Any], kind: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """A probe whose rule has other parameters."""
    judge = {kind: parameters}
    is_negated = isinstance(probe["judge"], dict) and "not" in probe["judge"]
    return probe | {"judge": {"not": judge} if is_negated else judge}


def _parameters(kind: str) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(_builtin_rules()[kind].build).parameters


# Options that no probe can show: an error is no other word than an abstention, files and limits
# of time and memory have tests of their own, and `field` has the next one.
ELSEWHERE = {"absent", "code", "field", "file", "function", "memory_mb", "timeout_s"}


def test_every_option_of_a_rule_decides_a_probe():
    """An option that changes no verdict is one that nothing holds to its description."""
    undecided = {
        (kind, name)
        for kind in _builtin_rules()
        for name, parameter in _parameters(kind).items()
        if parameter.default is not inspect.Parameter.empty and name not in ELSEWHERE
    }
    for probe in CERTAIN:
        kind, parameters = parameters_of(probe) or ("", {})
        for option in parameters:
            if (kind, option) in undecided:
                rest = {name: value for name, value in parameters.items() if name != option}
                verdicts = {run_probe(probe), run_probe(with_parameters(probe, kind, rest))}
                if len(verdicts) > 1 and verdicts < {"pass", "fail", "unmeasured"}:
                    undecided.remove((kind, option))
    assert undecided == set()


def test_a_text_is_judged_alike_as_the_whole_output_and_as_a_field_of_it():
    surprises: list[str] = []
    examined: Counter[tuple[str, str]] = Counter()
    for probe in CERTAIN:
        kind, parameters = parameters_of(probe) or ("", {})
        of_kind = (kind, probe["verdict"])
        if not kind or "field" not in _parameters(kind).keys() - parameters:
            continue
        # Two probes of each rule and verdict are enough, and fast.
        if isinstance(probe["output"], str) and "tools" not in probe and examined[of_kind] < 2:
            examined[of_kind] += 1
            inside = with_parameters(probe, kind, {**parameters, "field": "note.text"})
            inside["output"] = json.dumps({"text": "no", "note": {"text": probe["output"]}})
            verdicts = (run_probe(probe), run_probe(inside))
            if verdicts[0] not in {"refused", verdicts[1]}:
                surprises.append(f"{kind}: {verdicts[1]} in a field: {probe}")
    assert not surprises, "\n".join(surprises)
