"""`rubric("name")`: a judge that asks a model by a prompt file of the project."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from regauge.digests import digest_of
from regauge.errors import UsageError
from regauge.judges._declared import Declared
from regauge.judges._evidence import number
from regauge.judges._types import Verdict
from regauge.judges.model._ask import ask, together
from regauge.judges.model._declared import another_kind, check_parameters, load_rubric, model_of
from regauge.judges.model._delimited import PROTOCOL, question
from regauge.judges.model._inputs import judged_text, texts_for
from regauge.judges.model._logprobs import expected_score
from regauge.judges.model._model_judge import OneModelJudge
from regauge.judges.model._reply import read_completion
from regauge.judges.model._reply_form import reply_form
from regauge.judges.model._votes import check_reducer, count

if TYPE_CHECKING:
    from regauge.criteria import Criterion
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._answer import Expected
    from regauge.judges._asking import JudgeCalls, JudgeContext
    from regauge.judges.model._reply import Reply
    from regauge.judges.model._votes import Reducer
    from regauge.prompts import Prompt, RubricSpec
    from regauge.providers import Completion

__all__ = ["RubricJudge", "UnboundRubric", "rubric"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnboundRubric(Declared):
    """A rubric as an eval declares it.

    Attributes:
        rubric: The name of its prompt file, or its path.
        version: Which version of the file; None for the file as it is.
        at_least: The score that passes; None for what the file says.
        votes: How often the question is asked.
        reducer: How the votes make one score.
        model: Who is asked, as `provider:model`; None for what the file or the project says.
        field: The part of the answer that is judged; empty for all of it.
        reference: What `{{reference}}` stands for; None for `expected.reference`.
        criterion: What it is about.
    """

    rubric: str
    version: str | None
    at_least: float | None
    votes: int
    reducer: Reducer
    model: str | None
    field: str
    reference: Expected | None
    criterion: Criterion = "relevance"

    def bind(self, context: JudgeContext) -> RubricJudge:
        """The judge, with its rubric read.

        Raises:
            UsageError: Nothing says which model judges.
            PromptError: The rubric cannot be loaded, or is none.
        """
        prompt, spec = load_rubric(self.rubric, context, version=self.version, judge=self.name)
        if spec.kind == "pair":
            raise another_kind(
                prompt,
                "this rubric compares two answers",
                fix=f'judge by it with pairwise("{prompt.name}")',
            )
        return RubricJudge(
            name=self.name,
            criterion=self.criterion,
            prompt=prompt,
            spec=spec,
            asked=model_of(self.model, prompt, context, judge=self.name),
            at_least=spec.pass_at if self.at_least is None else self.at_least,
            votes=self.votes,
            reducer=self.reducer,
            field=self.field,
            reference=self.reference,
        )


def rubric(
    name: str,
    *,
    at_least: float | None = None,
    votes: int = 1,
    reducer: Reducer = "median",
    model: str | None = None,
    field: str = "",
    reference: Expected | None = None,
    version: str | None = None,
) -> UnboundRubric:
    """Judge by a rubric, `prompts/judges/<name>.prompt.yml`.

    Args:
        name: The name of the rubric.
        at_least: The score from 0 to 1 that passes; by default the rubric's `pass_at`.
        votes: How often the model is asked about one answer.
        reducer: What makes one score of several votes: `median`, `mean`, `majority`, `min`, `all`.
        model: Who judges, as `provider:model`; by default what the rubric names, else the judge
            model of the project.
        field: Which part of a JSON answer is judged, such as `summary`.
        reference: What the rubric's `{{reference}}` stands for; by default `expected.reference`,
            or `expected` where that is a text.
        version: An older version of the rubric.

    Raises:
        UsageError: A parameter makes no sense.

    >>> rubric("incident-faithfulness", at_least=0.7).name
    'incident-faithfulness'
    """
    check_parameters(
        name, at_least=at_least, field=field, model=model, declared=f"rubric({name!r})"
    )
    if votes < 1:
        raise UsageError(f"{name}: votes must be at least 1, not {votes!r}")
    check_reducer(reducer, judge=name)
    return UnboundRubric(
        rubric=name,
        version=version,
        at_least=at_least,
        votes=votes,
        reducer=reducer,
        model=model,
        field=field,
        reference=reference,
        name=name.rpartition("/")[2],
    )


@dataclass(frozen=True, kw_only=True)
class RubricJudge(OneModelJudge):
    """A rubric that is ready to judge.

    Attributes:
        prompt: The rubric's file.
        spec: What verdict it asks for.
    """

    prompt: Prompt
    spec: RubricSpec
    votes: int
    reducer: Reducer
    reference: Expected | None

    @property
    def measurement_digest(self) -> str:
        """Over what may change a score; what passes is not part of it."""
        return self._measurement_digest

    @cached_property
    def _measurement_digest(self) -> str:
        return digest_of(
            {
                "kind": "rubric",
                "protocol": PROTOCOL,
                "messages": [{"role": m.role, "content": m.content} for m in self.prompt.messages],
                "parameters": self.prompt.parameters,
                "rubric": {**self.spec.to_json(), "pass_at": None},
                "reply": self.prompt.response_format,
                "model": str(self.asked),
                "votes": self.votes,
                "reducer": self.reducer,
                "field": self.field,
                "reference": str(self.reference) if self.reference else None,
            }
        )

    def _made_of(self) -> dict[str, JSON]:
        return {"measurement": self.measurement_digest, "at_least": self.at_least}

    async def judge_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Verdict:
        """Ask for every vote, and compare what they make with what passes.

        Raises:
            JudgeError: A reply cannot be read, or the case lacks what the rubric needs.
            UnmeasuredError: The model could not be asked.
        """
        text = judged_text(completion, case, self.field)
        if isinstance(text, Verdict):
            return text
        replies = await self.replies(text, case, calls)
        return self._verdict(replies)

    async def replies(self, text: str, case: GoldenCase, calls: JudgeCalls) -> list[Reply]:
        """What the model says of a text, once for each vote.

        Raises:
            JudgeError: As `judge_with`.
            UnmeasuredError: As `judge_with`.
        """
        texts = texts_for(
            self.prompt, case, {"answer": text}, judge=self.name, reference=self.reference
        )
        request = question(
            self.prompt,
            texts,
            model=self.asked,
            trial=calls.trial * self.votes,
            reply=reply_form(self.spec),
        )

        def read(completion: Completion) -> Reply:
            reply = read_completion(completion, self.spec, judged=texts.values())
            return expected_score(reply, completion, self.spec)

        return await together(
            ask(request.for_trial(request.trial + vote), read, calls=calls, judge=self.name)
            for vote in range(self.votes)
        )

    def _verdict(self, replies: list[Reply]) -> Verdict:
        scores = [reply.score for reply in replies]
        ballot = count(scores, self.reducer, at_least=self.at_least)
        # The vote that stands nearest to what all of them say speaks for them.
        nearest = min(replies, key=lambda reply: abs(reply.score - ballot.score))
        details: dict[str, JSON] = {
            "code": "ok" if ballot.passes else "below_threshold",
            "rubric": str(self.prompt.id),
            "votes": [
                {"value": reply.value, "score": reply.score, "reasoning": reply.reasoning}
                for reply in replies
            ],
            "agreement": ballot.agreement,
        }
        stated = ", ".join(_shown(reply.value) for reply in replies)
        reason = " ".join(nearest.reasoning.split())
        return Verdict(
            outcome="pass" if ballot.passes else "fail",
            score=ballot.score,
            reason=f"{self.spec.verdict_key} {stated}: {reason}" if reason else stated,
            expected=self.at_least,
            actual=ballot.score,
            details=details,
        )


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else number(value)
