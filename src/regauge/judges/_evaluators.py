"""`testData` and `evaluators` of `.prompt.yml` files as golden cases and judges."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from regauge.digests import digest_of
from regauge.errors import Diagnostic, JudgeError, PromptError, UsageError
from regauge.judges._registry import judge_from_spec
from regauge.judges._rule import Rule
from regauge.judges._types import DeclaredJudge
from regauge.judges.rules._combine import all_of
from regauge.judges.rules._text import contains, ends_with, equals, starts_with
from regauge.lexicon import Lexicon
from regauge.strict_json import is_mapping, is_sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Set as AbstractSet

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._types import Judge, JudgeContext, UnboundJudge, Verdict
    from regauge.judges.model._rubric import RubricJudge
    from regauge.judges.output import JudgedOutput
    from regauge.prompts import Evaluator, Prompt


_SLOT: Final = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_KEYS: Final = frozenset({"modelId", "prompt", "choices", "systemPrompt"})
_GRADES: Final[Mapping[str, float]] = {"1": 0.0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1.0}

_BUILT_IN: Final = Lexicon("regauge.judges", file="data/evaluators.toml")
_AGAINST_FACTS: Final = frozenset({"similarity", "groundedness"})


def llm_evaluator(evaluator: Evaluator, prompt: Prompt) -> DeclaredJudge[RubricJudge]:
    """Build the judge of an `llm` evaluator.

    `{{completion}}` is the output; other names are keys of the `testData` row. The last choice in
    the response counts, and passes with a score above 0.

    Raises:
        ValueError: The evaluator is invalid.
    """
    body = evaluator.body
    if not isinstance(body, Mapping):
        raise ValueError(f"the evaluator {evaluator.name!r} has no keys")  # noqa: TRY004 - an error in a file
    for key in body:
        if key not in _KEYS:
            raise ValueError(
                f"the evaluator {evaluator.name!r} has no {key!r}; there are"
                f" {', '.join(sorted(_KEYS))}"
            )
    template, system, model = (body.get(key) for key in ("prompt", "systemPrompt", "modelId"))
    if not isinstance(template, str) or not template.strip():
        raise ValueError(f"the evaluator {evaluator.name!r} has no `prompt`")
    if not isinstance(system, (str, type(None))) or not isinstance(model, (str, type(None))):
        reason = "systemPrompt and modelId are texts"
        raise ValueError(f"the evaluator {evaluator.name!r}: {reason}")  # noqa: TRY004 - as above
    choices = _choices(body.get("choices"), evaluator.name)
    return _choice_judge(
        evaluator.name, prompt, template=template, system=system or "", choices=choices, model=model
    )


def _choice_judge(
    name: str,
    prompt: Prompt,
    *,
    template: str,
    choices: Mapping[str, float],
    system: str = "",
    model: str | None = None,
) -> DeclaredJudge[RubricJudge]:
    from regauge.prompts import Message, Prompt, RubricSpec

    question = Message(role="user", content=_rename_slots(template, prompt.variables))
    opening = (Message(role="system", content=_rename_slots(system, prompt.variables)),)
    judge_prompt = Prompt(
        name=f"{prompt.name}-{name}",
        path=prompt.path,
        messages=(*(opening if system.strip() else ()), question),
        parameters={"temperature": 0.0},
    )
    pass_at = min(score for score in choices.values() if score > 0)
    spec = RubricSpec(kind="choice", choices=choices, pass_at=pass_at)

    def make(judge_name: str, context: JudgeContext) -> RubricJudge:
        from regauge.judges.model._rubric import RubricJudge
        from regauge.judges.model.requests import model_of

        return RubricJudge(
            name=judge_name,
            prompt=judge_prompt,
            spec=spec,
            judge_model=model_of(model, None, context, judge=judge_name),
            at_least=pass_at,
        )

    return DeclaredJudge(name=name, criterion="relevance", make=make)


def _rename_slots(template: str, variables: AbstractSet[str]) -> str:
    """Rename placeholders for a judge: keys that no message uses are of `expected`."""

    def slot(match: re.Match[str]) -> str:
        name = match[1]
        if name == "completion":
            return "{{answer}}"
        return match[0] if name in variables or name == "input" else f"{{{{expected.{name}}}}}"

    return _SLOT.sub(slot, template)


def _choices(document: JSON, name: str) -> dict[str, float]:
    """The score of each choice.

    Raises:
        ValueError: There are fewer than two choices, or a score is invalid.
    """
    problem = f"the evaluator {name!r}: `choices` is a list of two or more {{choice, score}}"
    if not is_sequence(document):
        raise ValueError(problem)
    choices: dict[str, float] = {}
    for entry in document:
        if not is_mapping(entry) or {*entry} != {"choice", "score"}:
            raise ValueError(problem)
        label, score = entry["choice"], entry["score"]
        if type(score) not in {int, float} or not 0 <= float(score) <= 1:
            raise ValueError(f"the evaluator {name!r}: a score is from 0 to 1, not {score!r}")
        if isinstance(label, bool):
            reason = "put the choice in quotes, as in choice: 'yes'"
            raise ValueError(f"the evaluator {name!r}: {reason}")  # noqa: TRY004 - as above
        if not isinstance(label, (str, int, float)) or str(label).casefold() in map(
            str.casefold, choices
        ):
            raise ValueError(f"the evaluator {name!r}: {label!r} is not a choice, or one twice")
        choices[str(label)] = float(score)
    if len(choices) < 2 or not math.fsum(choices.values()):  # noqa: PLR2004 - one is not a choice
        raise ValueError(f"{problem}, one of them with a score above 0")
    return choices


_STRING_RULES: Mapping[str, Callable[[str], Rule]] = {
    "equals": equals,
    "contains": lambda text: contains(text, ignore_case=True),
    "startsWith": lambda text: starts_with(text, ignore_case=True),
    "endsWith": lambda text: ends_with(text, ignore_case=True),
}


def judges_from_evaluators(prompt: Prompt) -> tuple[Judge | UnboundJudge, ...]:
    """Build the judges of a prompt file's `evaluators`, in their order.

    `string` compares with a template: `equals` exactly, `contains`, `startsWith` and `endsWith`
    in any case; several must all hold. `llm` lets a model choose, as does `uses: github/...` with
    regauge's rubric. `judge` is a judge of `regauge judges list`.

    Raises:
        PromptError: Invalid evaluators, all of them.
    """
    judges: list[Judge | UnboundJudge] = []
    diagnostics: list[Diagnostic] = []
    names: set[str] = set()
    for evaluator in prompt.evaluators:
        if evaluator.name in names:
            message = f"two evaluators are called {evaluator.name!r}"
            diagnostics.append(Diagnostic(path=prompt.path, line=evaluator.line, message=message))
        names.add(evaluator.name)
        try:
            judges.append(_judge(evaluator, prompt))
        except (ValueError, LookupError) as error:
            diagnostics.append(
                Diagnostic(path=prompt.path, line=evaluator.line, message=str(error))
            )
    if diagnostics:
        raise PromptError(diagnostics)
    return tuple(judges)


def _judge(evaluator: Evaluator, prompt: Prompt) -> Judge | UnboundJudge:
    match evaluator.kind:
        case "string":
            return _string_judge(evaluator)
        case "llm":
            return llm_evaluator(evaluator, prompt)
        case "uses":
            vendor, _, plugin = str(evaluator.body).partition("/")
            if vendor == "github" and plugin in _BUILT_IN.entries():
                template = _BUILT_IN.entry(plugin)
                graded = _choice_judge(evaluator.name, prompt, template=template, choices=_GRADES)
                return graded.with_criterion("correctness") if plugin in _AGAINST_FACTS else graded
            names = ", ".join(f"github/{name}" for name in sorted(_BUILT_IN.entries()))
            raise ValueError(f"no evaluator {evaluator.body!r}; there are {names}")
        case "judge":
            try:
                judge = judge_from_spec(evaluator.body)
            except UsageError as error:
                raise ValueError(f"the evaluator {evaluator.name!r}: {error}") from error
            with_name = getattr(judge, "with_name", None)
            return with_name(evaluator.name) if with_name else judge
        case _:
            raise ValueError(
                f"the evaluator {evaluator.name!r} is a {evaluator.kind!r}; "
                "there are string, judge, llm and uses"
            )


def _string_judge(evaluator: Evaluator) -> Rule:
    """Build a rule of templates, filled with the values of each case."""
    body = evaluator.body
    if not isinstance(body, Mapping) or not body:
        raise ValueError(f"the evaluator {evaluator.name!r} compares with nothing")
    comparisons: list[tuple[str, str]] = []
    for key, value in body.items():
        if key not in _STRING_RULES:
            names = ", ".join(_STRING_RULES)
            raise ValueError(f"the evaluator {evaluator.name!r} has no {key!r}; there are {names}")
        if value is None or isinstance(value, (Mapping, list)) or value == "":
            raise ValueError(f"the evaluator {evaluator.name!r}: {key} compares with {value!r}")
        comparisons.append((key, value if isinstance(value, str) else json.dumps(value)))
    name = evaluator.name

    def examine(output: JudgedOutput) -> Verdict:
        texts = [_fill(template, output, name) for _, template in comparisons]
        return _rule(comparisons, texts, name).examine(output)

    params: dict[str, JSON] = dict(comparisons)
    digest = digest_of({"kind": "string", "version": 1, "params": params})
    return Rule(
        kind="string", params=params, name=name, digest=digest, examine=examine, compose=_advise
    )


def _advise(judge: Rule, *, field: str | None, negated: bool) -> str:
    """The advice of a `string` evaluator; empty for a template with values of the case."""
    del field
    rules = (_STRING_RULES[key](str(text)) for key, text in judge.params.items())
    return " ".join(filter(None, (rule.advice(negated=negated) for rule in rules)))


def _rule(comparisons: list[tuple[str, str]], texts: Sequence[str], name: str) -> Rule:
    rules: list[Rule] = []
    for (key, _), text in zip(comparisons, texts, strict=True):
        if not text and key != "equals":
            raise JudgeError(f"{name}: {key} compares with an empty text", judge=name)
        rules.append(_STRING_RULES[key](text))
    return rules[0] if len(rules) == 1 else all_of(*rules)


def _fill(template: str, output: JudgedOutput, name: str) -> str:
    def fill_slot(slot: re.Match[str]) -> str:
        value = dict(_values(output)).get(slot[1])
        if value is None:
            location = f" of case {output.case.id!r}" if output.case else ""
            raise JudgeError(f"{name}: no value for {{{{{slot[1]}}}}}{location}", judge=name)
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return _SLOT.sub(fill_slot, template)


def _values(output: JudgedOutput) -> Iterator[tuple[str, JSON]]:
    expected = output.expected_at(())
    if isinstance(expected, Mapping):
        yield from expected.items()
    elif isinstance(expected, str):
        yield "expected", expected
    yield from output.inputs.items()


def cases_from_test_data(prompt: Prompt) -> tuple[GoldenCase, ...]:
    """Convert the rows of a prompt file's `testData` to golden cases.

    Keys that the messages use are inputs; all others, even `expected`, are keys of `expected`.
    """
    from regauge.datasets import GoldenCase

    line = prompt.lines.get("testData")
    location = f"{prompt.path}:{line}" if line else str(prompt.path)
    return tuple(
        GoldenCase(
            id=f"testData-{number}",
            inputs={key: value for key, value in row.items() if key in prompt.variables},
            expected={key: value for key, value in row.items() if key not in prompt.variables},
            split="train",
            location=location,
        )
        for number, row in enumerate(prompt.test_data, start=1)
    )
