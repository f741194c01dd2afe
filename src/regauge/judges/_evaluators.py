"""The `testData` and `evaluators` of `.prompt.yml` files, as cases and judges of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from regauge.digests import digest_of
from regauge.errors import Fault, JudgeError, PromptError, UsageError
from regauge.judges._choices import BUILT_IN, built_in, llm_evaluator
from regauge.judges._registry import judge_from_spec
from regauge.judges._rule import Rule
from regauge.judges.rules._combine import all_of
from regauge.judges.rules._text import contains, ends_with, equals, starts_with

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._answer import Answer
    from regauge.judges._asking import UnboundJudge
    from regauge.judges._types import Judge, Verdict
    from regauge.prompts import Evaluator, Prompt

__all__ = ["cases_from_test_data", "judges_from_evaluators"]

_SLOT = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_STRING_RULES: Mapping[str, Callable[[str], Rule]] = {
    "equals": equals,
    "contains": lambda text: contains(text, ignore_case=True),
    "startsWith": lambda text: starts_with(text, ignore_case=True),
    "endsWith": lambda text: ends_with(text, ignore_case=True),
}


def judges_from_evaluators(prompt: Prompt) -> tuple[Judge | UnboundJudge, ...]:
    """The judges that a prompt file's `evaluators` stand for, in their order.

    `string` compares with a template: `equals` exactly, `contains`, `startsWith` and `endsWith`
    in any case; of several, all must hold. `llm` has a model choose, and so does
    `uses: github/...`, in regauge's own words. `judge` is a judge of `regauge judges`.

    Raises:
        PromptError: Evaluators that make no sense, all of them together.
    """
    judges: list[Judge | UnboundJudge] = []
    faults: list[Fault] = []
    names: set[str] = set()
    for evaluator in prompt.evaluators:
        if evaluator.name in names:
            message = f"two evaluators are called {evaluator.name!r}"
            faults.append(Fault(path=prompt.path, line=evaluator.line, message=message))
        names.add(evaluator.name)
        try:
            judges.append(_judge(evaluator, prompt))
        except (ValueError, LookupError) as error:
            faults.append(Fault(path=prompt.path, line=evaluator.line, message=str(error)))
    if faults:
        raise PromptError(faults)
    return tuple(judges)


def _judge(evaluator: Evaluator, prompt: Prompt) -> Judge | UnboundJudge:
    match evaluator.kind:
        case "string":
            return _string_judge(evaluator)
        case "llm":
            return llm_evaluator(evaluator, prompt)
        case "uses":
            vendor, _, plugin = str(evaluator.body).partition("/")
            if vendor == "github" and plugin in BUILT_IN:
                return built_in(evaluator.name, plugin, prompt)
            known = ", ".join(f"github/{name}" for name in sorted(BUILT_IN))
            raise ValueError(f"no evaluator {evaluator.body!r}; there are {known}")
        case "judge":
            return _named_judge(evaluator)
        case _:
            raise ValueError(
                f"the evaluator {evaluator.name!r} is a {evaluator.kind!r}; "
                "there are string, judge, llm and uses"
            )


def _named_judge(evaluator: Evaluator) -> Judge | UnboundJudge:
    try:
        judge = judge_from_spec(evaluator.body)
    except UsageError as error:
        raise ValueError(f"the evaluator {evaluator.name!r}: {error}") from error
    named: Callable[[str], Judge | UnboundJudge] | None = getattr(judge, "named", None)
    return named(evaluator.name) if named else judge


def _string_judge(evaluator: Evaluator) -> Rule:
    body = evaluator.body
    if not isinstance(body, Mapping) or not body:
        raise ValueError(f"the evaluator {evaluator.name!r} compares with nothing")
    wishes: list[tuple[str, str]] = []
    for key, value in body.items():
        if key not in _STRING_RULES:
            known = ", ".join(_STRING_RULES)
            raise ValueError(f"the evaluator {evaluator.name!r} has no {key!r}; there are {known}")
        if value is None or isinstance(value, (Mapping, list)) or value == "":
            raise ValueError(f"the evaluator {evaluator.name!r}: {key} compares with {value!r}")
        wishes.append((key, value if isinstance(value, str) else json.dumps(value)))
    return _templated(evaluator.name, wishes)


def _templated(name: str, wishes: list[tuple[str, str]]) -> Rule:
    """A rule whose texts are templates, filled with the values of each case."""
    made: dict[tuple[str, ...], Rule] = {}

    def examine(answer: Answer) -> Verdict:
        texts = tuple(_filled(template, answer, name) for _, template in wishes)
        if texts not in made:
            made[texts] = _rule(wishes, texts, name)
        return made[texts].examine(answer)

    params: dict[str, JSON] = dict(wishes)
    digest = digest_of({"kind": "string", "version": 1, "params": params})
    return Rule(kind="string", params=params, name=name, digest=digest, examine=examine)


def _rule(wishes: list[tuple[str, str]], texts: tuple[str, ...], name: str) -> Rule:
    rules: list[Rule] = []
    for (key, _), text in zip(wishes, texts, strict=True):
        if not text and key != "equals":
            raise JudgeError(f"{name}: {key} compares with an empty text", judge=name)
        rules.append(_STRING_RULES[key](text))
    return rules[0] if len(rules) == 1 else all_of(*rules)


def _filled(template: str, answer: Answer, name: str) -> str:
    def value(slot: re.Match[str]) -> str:
        found = dict(_values(answer)).get(slot[1])
        if found is None:
            at = f" of case {answer.case.id!r}" if answer.case else ""
            raise JudgeError(f"{name}: no value for {{{{{slot[1]}}}}}{at}", judge=name)
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)

    return _SLOT.sub(value, template)


def _values(answer: Answer) -> Iterator[tuple[str, JSON]]:
    wanted = answer.expected_at(())
    if isinstance(wanted, Mapping):
        yield from wanted.items()
    elif isinstance(wanted, str):
        yield "expected", wanted
    yield from answer.inputs.items()


def cases_from_test_data(prompt: Prompt) -> tuple[GoldenCase, ...]:
    """The rows of a prompt file's `testData` as golden cases.

    What the messages use becomes the inputs; everything else in a row, `expected` among it,
    becomes `expected`, where evaluators find it.
    """
    from regauge.datasets import GoldenCase

    line = prompt.lines.get("testData")
    at = f"{prompt.path}:{line}" if line else str(prompt.path)
    return tuple(
        GoldenCase(
            id=f"testData-{number}",
            inputs={key: value for key, value in row.items() if key in prompt.variables},
            expected={key: value for key, value in row.items() if key not in prompt.variables},
            split="train",
            at=at,
        )
        for number, row in enumerate(prompt.test_data, start=1)
    )
