"""How many trials a measurement takes: by operators, cases, and what is known of its mutants."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.evidence import Count
from regauge.gate import BaseTrials
from regauge.mutate import Case, choose_operators, mutants_of
from regauge.mutate._run import estimate_calls
from regauge.prompts import parse_prompt
from tests.transcripts import DATA, assert_as_written

if TYPE_CHECKING:
    from regauge.prompts import Prompt

CLASSES = ("killed", "survived", "no-effect", "undecided", "harmful", "equivalent")
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look an alert up.",
        "parameters": {
            "type": "object",
            "properties": {"name": {"type": "string", "description": "Its name."}},
        },
    },
}


def prompt_of() -> Prompt:
    path = DATA / "project/commits/3/prompts/alert-severity.prompt.yml"
    text = path.read_text("utf-8")
    return replace(parse_prompt(text, path=path), source=text, tools=(TOOL,))


def test_estimates_are_those_that_were_written_down():
    prompt = prompt_of()
    lines: list[str] = []
    for operators in (
        "delete-field",
        "delete-tool",
        "delete-parameter",
        "delete-description",
        "negate",
    ):
        mutants = [*mutants_of(prompt, choose_operators(operators))]
        kinds = {mutant.id: CLASSES[n % len(CLASSES)] for n, mutant in enumerate(mutants)}
        for count in (0, 1, 12, 48):
            texts = ("a certificate expires", "a namespace quota", "nothing of it")
            cases = [
                Case(key=f"c{n}", text=texts[n % 3], checks=("right", "short"), repeats=1)
                for n in range(count)
            ]
            count_of_base = Count(passed=9, trials=10)
            baseline = BaseTrials(checks={"right": count_of_base}, total=count_of_base)
            varying = [
                replace(case, baseline=baseline, repeats=n % 2 * 10) for n, case in enumerate(cases)
            ]
            numbers = [
                estimate_calls(prompt, mutants, cases),
                estimate_calls(prompt, mutants, cases, kinds),
                estimate_calls(prompt, mutants, cases, recorded_calls=7),
                estimate_calls(prompt, mutants[:3], cases),
                estimate_calls(prompt, mutants, varying),
                estimate_calls(prompt, mutants[:3], varying, recorded_calls=7),
            ]
            lines.append(f"{operators} {len(mutants)} mutants, {count} cases: {numbers}")
    assert_as_written("\n".join([*lines, ""]), "mutants/estimates")
