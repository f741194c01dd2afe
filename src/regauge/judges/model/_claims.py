"""`verified_claims(...)`: checks an output claim by claim against its source.

Four steps, after chain of verification (Dhuliawala et al., ACL 2024): extract claims, write a
question for each, look each up in the source without the claim, compare.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast, get_args

from regauge.errors import UsageError
from regauge.judges._rule_factory import parameter_json
from regauge.judges._types import DeclaredJudge, Verdict, abstained, quote_list
from regauge.judges.model.requests import (
    PROTOCOL,
    OneModelJudge,
    build_request,
    case_text,
    check_parameters,
    gather_all,
    judged_text,
    model_of,
    request_response,
    text_of_value,
    texts_for,
)
from regauge.judges.model.response import ResponseError, json_object, text_of
from regauge.judges.output import Expected, JudgedOutput
from regauge.strict_json import mapping_of
from regauge.wording import plural, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._types import JudgeCalls, JudgeContext
    from regauge.prompts import Prompt
    from regauge.providers import Completion


T = TypeVar("T")
Support = Literal["supported", "contradicted", "not stated"]

_SUPPORT: Final[tuple[Support, ...]] = get_args(Support)
_STEPS: Final = ("claims-extract", "claims-question", "claims-answer", "claims-compare")
# Each claim is a call: the maximum bounds the cost of a response that lists words. The usual number
# is for estimates: a wrong one makes `--dry-run` wrong until calls are recorded.
_CLAIMS_MAX: Final = 60
_CLAIMS_USUAL: Final = 5


def verified_claims(
    source: str | Expected, *, at_least: float = 0.8, model: str | None = None, field: str = ""
) -> DeclaredJudge[ClaimsJudge]:
    """Check every claim of the output against a source; the score is the supported share.

    Args:
        source: The input with the source, such as `report`, or `expected(...)`.
        at_least: The least that passes.
        model: The judge model, as `provider:model`; by default the project's.
        field: Judge this part of a JSON output.

    Raises:
        UsageError: A parameter is invalid.

    >>> verified_claims("report", field="summary").name
    'verified_claims(report, field=summary)'
    """
    name = "verified_claims"
    check_parameters(name, at_least=at_least, field=field, model=model, declaration=name)
    if type(source) not in {str, Expected} or not source:
        raise UsageError(f"{name}: {source!r} names no input", fix=f'write {name}("report")')
    part = f", field={field}" if field else ""

    def make(judge_name: str, context: JudgeContext) -> ClaimsJudge:
        return ClaimsJudge(
            name=judge_name,
            source=source,
            prompts={step: _prompt(step, context) for step in _STEPS},
            judge_model=model_of(model, None, context, judge=judge_name),
            at_least=at_least,
            field=field,
        )

    return DeclaredJudge(name=f"{name}({source}{part})", criterion="correctness", make=make)


@dataclass(frozen=True, kw_only=True)
class ClaimsJudge(OneModelJudge):
    """A judge of claims, bound to a project.

    Attributes:
        source: The source, as the eval declares it.
        prompts: The prompt of each step.
    """

    source: str | Expected
    prompts: Mapping[str, Prompt]

    @property
    def usual_calls(self) -> int:
        """Three steps, and one call per expected claim."""
        return 3 + _CLAIMS_USUAL

    def _identity(self) -> dict[str, JSON]:
        return {
            "kind": "verified_claims",
            "version": 1,
            "protocol": PROTOCOL,
            "prompts": {name: prompt.digest for name, prompt in self.prompts.items()},
            "model": str(self.judge_model),
            "source": parameter_json(self.source, of="verified_claims"),
            "field": self.field,
            "at_least": self.at_least,
        }

    async def judge_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Verdict:
        """Extract claims, write questions, look them up in the source, compare.

        Raises:
            JudgeError: A response cannot be read or does not match the claims, or the case has no
                source.
            UnmeasuredError: The model could not be called.
        """
        text = judged_text(completion, case, self.field)
        if isinstance(text, Verdict):
            return text
        source = self._source(case)

        async def step(
            name: str, values: Mapping[str, str], read: Callable[[dict[str, JSON]], T]
        ) -> T:
            texts = texts_for(self.prompts[name], case, values, judge=self.name)
            return await request_response(
                build_request(self.prompts[name], texts, model=self.judge_model, trial=calls.trial),
                lambda completion: read(json_object(text_of(completion))),
                calls=calls,
                judge=f"{self.name}, {name}",
            )

        claims = await step("claims-extract", {"answer": text}, _claims)
        if not claims:
            return abstained("the output has no claims to verify", code="no_claims")
        claims_text = json.dumps(claims, ensure_ascii=False, indent=1)
        questions = await step(
            "claims-question",
            {"claims": claims_text},
            lambda response: _questions(response, len(claims)),
        )
        answers = await gather_all(
            step("claims-answer", {"source": source, "question": question}, _parse_answer)
            for question in questions
        )
        rows: list[dict[str, JSON]] = [
            {
                "number": number,
                "claim": claim,
                "question": question,
                "answer": text,
                "quote": words,
            }
            for number, (claim, question, (text, words)) in enumerate(
                zip(claims, questions, answers, strict=True), start=1
            )
        ]
        verdicts = await step(
            "claims-compare",
            {"findings": json.dumps(rows, ensure_ascii=False, indent=1)},
            lambda response: _verdicts(response, len(claims)),
        )
        for finding, (support, reasoning) in zip(rows, verdicts, strict=True):
            finding["verdict"] = support
            finding["reasoning"] = reasoning
        return self._verdict(rows)

    def _source(self, case: GoldenCase) -> str:
        if isinstance(self.source, Expected):
            return text_of_value(
                JudgedOutput(None, case=case).resolve(self.source, judge=self.name)
            )
        return case_text(self.source, case, judge=self.name)

    def _verdict(self, rows: list[dict[str, JSON]]) -> Verdict:
        unsupported = [finding for finding in rows if finding["verdict"] != "supported"]
        score = 1 - len(unsupported) / len(rows)
        reason = f"{len(rows) - len(unsupported)} of {plural(len(rows), 'claim')} supported"
        if unsupported:
            first = unsupported[0]
            reason += f"; {first['verdict']}: {quote(str(first['claim']))}"
        return self.grade(score, reason, code="unsupported", details={"claims": rows})


def _prompt(name: str, context: JudgeContext) -> Prompt:
    """The prompt of a step: the project's, if it has one of that name."""
    from regauge.prompts import load_prompt

    file = Path("judges", f"{name}.prompt.yml")
    path = context.project.prompts_dir / file
    return load_prompt(path if path.is_file() else Path(__file__).parent / "prompts" / file.name)


def _claims(response: dict[str, JSON]) -> list[str]:
    claims = [claim.strip() for claim in _texts(response, "claims")]
    unique = list(dict.fromkeys(claim for claim in claims if claim))
    if len(unique) > _CLAIMS_MAX:
        raise ResponseError(f"the response lists {len(unique)} claims, more than {_CLAIMS_MAX}")
    return unique


def _questions(response: dict[str, JSON], count: int) -> list[str]:
    questions = _texts(response, "questions")
    if len(questions) != count or not all(question.strip() for question in questions):
        raise ResponseError(
            f"the response has {plural(len(questions), 'question')} for {count} claims"
        )
    return questions


def _parse_answer(response: dict[str, JSON]) -> tuple[str, str]:
    answer, words = response.get("answer"), response.get("quote", "")
    if not isinstance(answer, str) or not isinstance(words, str):
        raise ResponseError(f"the response needs the texts {quote_list(['quote', 'answer'])}")
    return answer, words


def _verdicts(response: dict[str, JSON], count: int) -> list[tuple[Support, str]]:
    """The verdict on each claim with its reasoning, in the order of the claims."""
    verdicts: dict[int, tuple[Support, str]] = {}
    for entry in _list(response, "verdicts"):
        row = mapping_of(entry)
        number, support, reasoning = row.get("number"), row.get("verdict"), row.get("reasoning", "")
        if type(number) is not int or support not in _SUPPORT or not isinstance(reasoning, str):
            raise ResponseError(
                f"the response has a verdict that is none: {quote(json.dumps(entry))}"
            )
        if number in verdicts:
            raise ResponseError(f"the response gives claim {number} two verdicts")
        verdicts[number] = (support, reasoning)
    if sorted(verdicts) != list(range(1, count + 1)):
        raise ResponseError(
            f"the response has {plural(len(verdicts), 'verdict')} for {count} claims"
        )
    return [verdicts[number] for number in sorted(verdicts)]


def _texts(response: dict[str, JSON], key: str) -> list[str]:
    items = _list(response, key)
    if not all(isinstance(item, str) for item in items):
        raise ResponseError(f"the response has {key!r} that are no texts")
    return cast("list[str]", items)


def _list(response: dict[str, JSON], key: str) -> list[JSON]:
    items = response.get(key)
    if not isinstance(items, list):
        raise ResponseError(f"the response has no list {key!r}")
    return items
