"""`verified_claims(...)`: checks an answer claim by claim against its source.

Four steps, after chain of verification (Dhuliawala et al., Findings of ACL 2024): extract claims,
pose a question for each, answer each from the source without seeing the claim, compare.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast, get_args

from regauge.judges._output import Expected, JudgedOutput
from regauge.judges._types import DeclaredJudge, JudgeDeclaration, Verdict, abstained, quote
from regauge.judges.model._ask import (
    PROTOCOL,
    OneModelJudge,
    ask,
    case_text,
    check_parameters,
    judged_text,
    model_of,
    question,
    text_of_value,
    texts_for,
    together,
)
from regauge.judges.model._reply import ReplyFault, json_object, text_of
from regauge.wording import plural

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
# Each claim is a call: the first bounds the cost of a reply that lists words. The second is for
# estimates alone: a wrong one makes `--dry-run` wrong until calls are recorded.
_CLAIMS_MAX: Final = 60
_CLAIMS_USUAL: Final = 5


def verified_claims(
    source: str | Expected, *, at_least: float = 0.8, model: str | None = None, field: str = ""
) -> DeclaredJudge[ClaimsJudge]:
    """Check every claim of the output against a source; the score is the supported share.

    Args:
        source: The input that holds the source, such as `report`, or `expected(...)`.
        at_least: The least that passes.
        model: The judge model, as `provider:model`; by default the project's.
        field: Judge this part of a JSON output.

    Raises:
        UsageError: A parameter makes no sense.

    >>> verified_claims("report", field="summary").name
    'verified_claims(report, field=summary)'
    """
    name = "verified_claims"
    check_parameters(name, at_least=at_least, field=field, model=model, declared=name)
    part = f", field={field}" if field else ""

    def bind(declared: JudgeDeclaration, context: JudgeContext) -> ClaimsJudge:
        return ClaimsJudge(
            name=declared.name,
            criterion=declared.criterion or "correctness",
            source=source,
            prompts={step: _prompt(step, context) for step in _STEPS},
            asked=model_of(model, None, context, judge=declared.name),
            at_least=at_least,
            field=field,
        )

    return DeclaredJudge(name=f"{name}({source}{part})", criterion="correctness", make=bind)


@dataclass(frozen=True, kw_only=True)
class ClaimsJudge(OneModelJudge):
    """Verified claims, ready to judge.

    Attributes:
        source: As the eval declares it.
        prompts: The prompt of each step.
    """

    source: str | Expected
    prompts: Mapping[str, Prompt]

    @property
    def usual_calls(self) -> int:
        """Three steps, and one call per claim."""
        return 3 + _CLAIMS_USUAL

    def _identity(self) -> dict[str, JSON]:
        source = (
            {"expected": self.source.path} if isinstance(self.source, Expected) else self.source
        )
        return {
            "kind": "verified_claims",
            "version": 1,
            "protocol": PROTOCOL,
            "prompts": {name: prompt.digest for name, prompt in self.prompts.items()},
            "model": str(self.asked),
            "source": source,
            "field": self.field,
            "at_least": self.at_least,
        }

    async def judge_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Verdict:
        """Extract, question, answer, compare.

        Raises:
            JudgeError: A reply cannot be read or does not fit, or the case has no source.
            UnmeasuredError: The model could not be asked.
        """
        text = judged_text(completion, case, self.field)
        if isinstance(text, Verdict):
            return text
        source = self._source(case)

        async def step(
            name: str, values: Mapping[str, str], read: Callable[[dict[str, JSON]], T]
        ) -> T:
            texts = texts_for(self.prompts[name], case, values, judge=self.name)
            return await ask(
                question(self.prompts[name], texts, model=self.asked, trial=calls.trial),
                lambda completion: read(json_object(text_of(completion))),
                calls=calls,
                judge=f"{self.name}, {name}",
            )

        claims = await step("claims-extract", {"answer": text}, _claims)
        if not claims:
            return abstained("the answer claims nothing that could be verified", code="no_claims")
        listed = json.dumps(claims, ensure_ascii=False, indent=1)
        questions = await step(
            "claims-question", {"claims": listed}, lambda reply: _questions(reply, len(claims))
        )
        answers = await together(
            step("claims-answer", {"source": source, "question": asked}, _parse_answer)
            for asked in questions
        )
        findings: list[dict[str, JSON]] = [
            {"number": number, "claim": claim, "question": asked, "answer": support, "quote": words}
            for number, (claim, asked, (support, words)) in enumerate(
                zip(claims, questions, answers, strict=True), start=1
            )
        ]
        verdicts = await step(
            "claims-compare",
            {"findings": json.dumps(findings, ensure_ascii=False, indent=1)},
            lambda reply: _verdicts(reply, len(claims)),
        )
        for finding, (support, why) in zip(findings, verdicts, strict=True):
            finding["verdict"] = support
            finding["reasoning"] = why
        return self._verdict(findings)

    def _source(self, case: GoldenCase) -> str:
        if isinstance(self.source, Expected):
            return text_of_value(
                JudgedOutput(None, case=case).resolve(self.source, judge=self.name)
            )
        return case_text(self.source, case, judge=self.name)

    def _verdict(self, findings: list[dict[str, JSON]]) -> Verdict:
        unsupported = [finding for finding in findings if finding["verdict"] != "supported"]
        score = 1 - len(unsupported) / len(findings)
        passes = score >= self.at_least
        reason = f"{len(findings) - len(unsupported)} of {plural(len(findings), 'claim')} supported"
        if unsupported:
            first = unsupported[0]
            reason += f"; {first['verdict']}: {quote(str(first['claim']))}"
        return Verdict(
            outcome="pass" if passes else "fail",
            score=score,
            reason=reason,
            expected=self.at_least,
            actual=score,
            details={"code": "ok" if passes else "unsupported", "claims": findings},
        )


def _prompt(name: str, context: JudgeContext) -> Prompt:
    """The prompt of a step: the project's own where it has one of that name."""
    from regauge.prompts import load_prompt

    file = f"{name}.prompt.yml"
    own = context.project.prompts_dir / "judges" / file
    return load_prompt(own if own.is_file() else Path(__file__).parent / "prompts" / file)


def _claims(reply: dict[str, JSON]) -> list[str]:
    claims = [claim.strip() for claim in _texts(reply, "claims")]
    unique = list(dict.fromkeys(claim for claim in claims if claim))
    if len(unique) > _CLAIMS_MAX:
        raise ReplyFault(f"the reply lists {len(unique)} claims, more than {_CLAIMS_MAX}")
    return unique


def _questions(reply: dict[str, JSON], count: int) -> list[str]:
    questions = _texts(reply, "questions")
    if len(questions) != count or not all(asked.strip() for asked in questions):
        raise ReplyFault(f"the reply has {plural(len(questions), 'question')} for {count} claims")
    return questions


def _parse_answer(reply: dict[str, JSON]) -> tuple[str, str]:
    answer, words = reply.get("answer"), reply.get("quote", "")
    if not isinstance(answer, str) or not isinstance(words, str):
        raise ReplyFault("the reply needs the texts 'quote' and 'answer'")
    return answer, words


def _verdicts(reply: dict[str, JSON], count: int) -> list[tuple[Support, str]]:
    """The verdict on each claim and why, by their numbers: each once, and no other."""
    verdicts: dict[int, tuple[Support, str]] = {}
    for entry in _list(reply, "verdicts"):
        row = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        number, support, why = row.get("number"), row.get("verdict"), row.get("reasoning", "")
        if type(number) is not int or support not in _SUPPORT or not isinstance(why, str):
            raise ReplyFault(f"the reply has a verdict that is none: {quote(json.dumps(entry))}")
        if number in verdicts:
            raise ReplyFault(f"the reply gives claim {number} two verdicts")
        verdicts[number] = (support, why)
    if sorted(verdicts) != list(range(1, count + 1)):
        raise ReplyFault(f"the reply has {plural(len(verdicts), 'verdict')} for {count} claims")
    return [verdicts[number] for number in sorted(verdicts)]


def _texts(reply: dict[str, JSON], key: str) -> list[str]:
    items = _list(reply, key)
    if not all(isinstance(item, str) for item in items):
        raise ReplyFault(f"the reply has {key!r} that are no texts")
    return cast("list[str]", items)


def _list(reply: dict[str, JSON], key: str) -> list[JSON]:
    items = reply.get(key)
    if not isinstance(items, list):
        raise ReplyFault(f"the reply has no list {key!r}")
    return items
