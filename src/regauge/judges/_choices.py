"""Evaluators of prompt files that ask a model to choose: `llm`, and `uses: github/...`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from regauge.judges._declared import Declared

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from regauge.criteria import Criterion
    from regauge.digests import JSON
    from regauge.judges._asking import JudgeContext, ModelJudge
    from regauge.prompts import Evaluator, Prompt, RubricSpec

__all__ = ["BUILT_IN", "UnboundChoice", "built_in", "llm_evaluator"]

_SLOT: Final = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_KEYS: Final = frozenset({"modelId", "prompt", "choices", "systemPrompt"})
_GRADES: Final[Mapping[str, float]] = {"1": 0.0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1.0}

BUILT_IN: Final[Mapping[str, str]] = {
    "similarity": (
        "Grade from 1 to 5 how far the answer means the same as the reference. 5: all of it, in"
        " whatever words. 3: the main point, with something lacking or added. 1: something else."
        "\n\nQuestion:\n{{input}}\n\nReference:\n{{expected}}\n\nAnswer:\n{{completion}}"
    ),
    "coherence": (
        "Grade from 1 to 5 how well the sentences of the answer belong together. 5: each follows"
        " from what stands before it. 3: there are leaps, yet it can be followed. 1: it is a heap"
        " of sentences.\n\nQuestion:\n{{input}}\n\nAnswer:\n{{completion}}"
    ),
    "fluency": (
        "Grade from 1 to 5 the language of the answer: grammar, choice of words, flow. 5: as a"
        " careful writer would put it. 3: faults that do not hinder. 1: hardly readable."
        "\n\nAnswer:\n{{completion}}"
    ),
    "relevance": (
        "Grade from 1 to 5 how far the answer deals with what was asked. 5: with all of it and"
        " nothing else. 3: with a part, or with much besides. 1: with something else."
        "\n\nQuestion:\n{{input}}\n\nAnswer:\n{{completion}}"
    ),
    "groundedness": (
        "Grade from 1 to 5 how far the answer rests on the context. 5: every statement is in it"
        " or follows from it. 3: some statements are not. 1: hardly any is, or it is contradicted."
        "\n\nContext:\n{{context}}\n\nAnswer:\n{{completion}}"
    ),
}
"""What `uses: github/NAME` asks, in regauge's own words."""

_AGAINST_FACTS: Final = frozenset({"similarity", "groundedness"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnboundChoice(Declared):
    """An evaluator that asks a model, before it is known which one.

    Attributes:
        name: The name the file gives it.
        prompt: What is asked, as a prompt of its own.
        spec: The choices and their scores.
        model: Who is asked, as the file states it; None for the judge model of the project.
        criterion: What it is about.
    """

    prompt: Prompt
    spec: RubricSpec
    model: str | None
    criterion: Criterion = "relevance"

    def bind(self, context: JudgeContext) -> ModelJudge:
        """The judge itself.

        Raises:
            UsageError: Nothing says which model judges, or it is not `provider:model`.
        """
        from regauge.judges.model._declared import model_of
        from regauge.judges.model._rubric import RubricJudge

        return RubricJudge(
            name=self.name,
            criterion=self.criterion,
            prompt=self.prompt,
            spec=self.spec,
            asked=model_of(self.model, None, context, judge=self.name),
            at_least=self.spec.pass_at,
            votes=1,
            reducer="median",
            field="",
            reference=None,
        )


def llm_evaluator(evaluator: Evaluator, prompt: Prompt) -> UnboundChoice:
    """The judge that an `llm` evaluator stands for.

    `{{completion}}` is the answer; other names are looked up in the row of `testData`. The last
    choice that the reply states counts, and one with a score above 0 passes.

    Raises:
        ValueError: It makes no sense.
    """
    body = evaluator.body
    if not isinstance(body, Mapping):
        raise ValueError(f"the evaluator {evaluator.name!r} asks nothing")  # noqa: TRY004 - a fault of a file
    for key in body:
        if key not in _KEYS:
            raise ValueError(
                f"the evaluator {evaluator.name!r} has no {key!r}; there are"
                f" {', '.join(sorted(_KEYS))}"
            )
    asks, system, model = (body.get(key) for key in ("prompt", "systemPrompt", "modelId"))
    if not isinstance(asks, str) or not asks.strip():
        raise ValueError(f"the evaluator {evaluator.name!r} has no `prompt`")
    if not isinstance(system, (str, type(None))) or not isinstance(model, (str, type(None))):
        why = "systemPrompt and modelId are texts"
        raise ValueError(f"the evaluator {evaluator.name!r}: {why}")  # noqa: TRY004 - as above
    choices = _choices(body.get("choices"), evaluator.name)
    return _made(
        evaluator.name, prompt, asks=asks, system=system or "", choices=choices, model=model
    )


def built_in(name: str, plugin: str, prompt: Prompt) -> UnboundChoice:
    """The judge that `uses: github/PLUGIN` stands for, asking in regauge's own words."""
    made = _made(name, prompt, asks=BUILT_IN[plugin], system="", choices=_GRADES, model=None)
    return made.judging("correctness") if plugin in _AGAINST_FACTS else made


def _made(
    name: str,
    prompt: Prompt,
    *,
    asks: str,
    system: str,
    choices: Mapping[str, float],
    model: str | None,
) -> UnboundChoice:
    from regauge.prompts import Message, Prompt, RubricSpec

    asked = Message(role="user", content=_renamed(asks, prompt.variables))
    opening = (Message(role="system", content=_renamed(system, prompt.variables)),)
    return UnboundChoice(
        name=name,
        prompt=Prompt(
            name=f"{prompt.name}-{name}",
            path=prompt.path,
            messages=(*(opening if system.strip() else ()), asked),
            parameters={"temperature": 0.0},
        ),
        spec=RubricSpec(
            kind="choice",
            choices=choices,
            pass_at=min(score for score in choices.values() if score > 0),
        ),
        model=model,
    )


def _renamed(template: str, variables: AbstractSet[str]) -> str:
    """A template in the names of judges: what no message uses is expected of the answer."""

    def slot(match: re.Match[str]) -> str:
        name = match[1]
        if name == "completion":
            return "{{answer}}"
        return match[0] if name in variables or name == "input" else f"{{{{expected.{name}}}}}"

    return _SLOT.sub(slot, template)


def _choices(given: JSON, name: str) -> dict[str, float]:
    """The score of each choice.

    Raises:
        ValueError: There are not two choices, or a score is none.
    """
    wrong = f"the evaluator {name!r}: `choices` is a list of two or more {{choice, score}}"
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ValueError(wrong)  # noqa: TRY004 - a fault of a file
    choices: dict[str, float] = {}
    entries: Sequence[JSON] = given
    for entry in entries:
        if not isinstance(entry, Mapping) or set(entry) != {"choice", "score"}:
            raise ValueError(wrong)
        label, score = entry["choice"], entry["score"]
        if type(score) not in {int, float} or not 0 <= float(cast("float", score)) <= 1:
            raise ValueError(f"the evaluator {name!r}: a score is from 0 to 1, not {score!r}")
        if isinstance(label, bool):
            why = "put the choice in quotes, as in choice: 'yes'"
            raise ValueError(f"the evaluator {name!r}: {why}")  # noqa: TRY004 - as above
        if not isinstance(label, (str, int, float)) or str(label).casefold() in map(
            str.casefold, choices
        ):
            raise ValueError(f"the evaluator {name!r}: {label!r} is no choice, or one twice")
        choices[str(label)] = float(cast("float", score))
    if len(choices) < 2 or not math.fsum(choices.values()):  # noqa: PLR2004 - one is no choice
        raise ValueError(f"{wrong}, one of them with a score above 0")
    return choices
