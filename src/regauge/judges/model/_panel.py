"""`panel([...])`: several LLM judges with one verdict; `pairwise(...)`: a comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, cast

from regauge.errors import UsageError
from regauge.judges._types import (
    DeclaredJudge,
    ModelJudge,
    RunOnlyJudge,
    UnboundJudge,
    Verdict,
    abstained,
    criterion_of,
    usual_calls,
)
from regauge.judges.model.requests import (
    PROTOCOL,
    OneModelJudge,
    build_request,
    check_at_least,
    check_parameters,
    check_reducer,
    gather_all,
    judged_text,
    load_rubric,
    model_of,
    reduce_scores,
    request_response,
    response_form,
    rubric_kind_error,
    text_of_value,
    texts_for,
    usual_reference,
)
from regauge.judges.model.response import read_response, text_of
from regauge.judges.output import Expected, JudgedOutput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._types import JudgeCalls, JudgeContext, Outcome
    from regauge.judges.model.requests import Reducer
    from regauge.judges.model.response import Response
    from regauge.project import Criterion
    from regauge.prompts import Prompt, RubricSpec
    from regauge.providers import Completion


_MEMBERS_MIN = 2


def panel(
    judges: Sequence[UnboundJudge | ModelJudge],
    reducer: Reducer = "majority",
    *,
    at_least: float = 0.5,
) -> DeclaredJudge[PanelJudge]:
    """Let several LLM judges decide together.

    Args:
        judges: At least two, best with models of different vendors.
        reducer: `majority` or `all` of verdicts; `median`, `mean` or `min` of scores.
        at_least: The least that passes.

    Raises:
        UsageError: A parameter is invalid.

    >>> from regauge.judges import panel, rubric
    >>> panel([rubric("tone", model=f"openai:{name}") for name in ("gpt-5.4-mini", "gpt-5")]).name
    'panel(tone)'
    """
    members = tuple(judges)
    names = dict.fromkeys(str(getattr(member, "name", "?")) for member in members)
    name = f"panel({', '.join(names)})"
    if len(members) < _MEMBERS_MIN:
        raise UsageError(f"{name}: a panel has at least two judges, not {len(members)}")
    for member in cast("tuple[object, ...]", members):  # evals are not type-checked
        if not isinstance(member, (UnboundJudge, ModelJudge)):
            raise UsageError(
                f"{name}: {member!r} is not an LLM judge\n"
                '  fix: list judges such as rubric("name", model="openai:gpt-5.4-mini")'
            )
    check_reducer(reducer, judge=name)
    check_at_least(name, at_least)

    def make(judge_name: str, context: JudgeContext) -> PanelJudge:
        bound: list[ModelJudge] = []
        for member in members:
            judge = member.bind(context) if isinstance(member, UnboundJudge) else member
            if not isinstance(judge, ModelJudge):
                raise UsageError(
                    f"{judge_name}: {judge.name!r} calls no model\n"
                    "  fix: list rules next to the panel, not in it"
                )
            if any(other.digest == judge.digest for other in bound):
                models = ", ".join(judge.models)
                raise UsageError(
                    f"{judge_name}: two members are {judge.name!r} with {models}, so they"
                    " would always agree\n"
                    "  fix: give them different models, or one of them votes=2"
                )
            bound.append(judge)
        kinds: set[Criterion] = {criterion_of(member) for member in bound}
        return PanelJudge(
            name=judge_name,
            criterion=kinds.pop() if len(kinds) == 1 else "relevance",
            members=tuple(bound),
            reducer=reducer,
            at_least=at_least,
        )

    return DeclaredJudge(name=name, criterion=None, make=make)


@dataclass(frozen=True, kw_only=True)
class PanelJudge(RunOnlyJudge):
    """A panel of judges, bound to a project."""

    members: tuple[ModelJudge, ...]
    reducer: Reducer
    at_least: float

    @property
    def models(self) -> tuple[str, ...]:
        """The models of all members, each once."""
        return tuple(dict.fromkeys(model for member in self.members for model in member.models))

    @property
    def usual_calls(self) -> int:
        """The expected calls of all members."""
        return sum(usual_calls(member) for member in self.members)

    def _identity(self) -> dict[str, JSON]:
        return {
            "kind": "panel",
            "version": 1,
            "members": [member.digest for member in self.members],
            "reducer": self.reducer,
            "at_least": self.at_least,
        }

    async def judge_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Verdict:
        """Let all members judge; abstentions do not count.

        Raises:
            JudgeError: A member reached no verdict.
            UnmeasuredError: A member's model could not be called.
        """
        verdicts = await gather_all(
            member.judge_with(completion, case, calls) for member in self.members
        )
        rows: list[JSON] = [
            {
                "judge": member.name,
                "models": list(member.models),
                "outcome": verdict.outcome,
                "score": verdict.score,
                "reason": verdict.reason,
            }
            for member, verdict in zip(self.members, verdicts, strict=True)
        ]
        opinions = [verdict for verdict in verdicts if verdict.outcome != "abstain"]
        if not opinions:
            verdict = abstained("every member abstained", code="all_abstained")
            return replace(verdict, details={**verdict.details, "members": rows})
        return self._verdict(opinions, rows)

    def _verdict(self, opinions: list[Verdict], rows: list[JSON]) -> Verdict:
        scores, at_least = [verdict.score for verdict in opinions], self.at_least
        if self.reducer in {"majority", "all"}:
            scores, at_least = [float(verdict.outcome == "pass") for verdict in opinions], 0.5
        ballot = reduce_scores(scores, self.reducer, at_least=at_least)
        outcome: Outcome = "pass" if ballot.passes else "fail"
        passing = sum(verdict.outcome == "pass" for verdict in opinions)
        # The reason is that of the first member with the panel's outcome.
        speaker = next((verdict for verdict in opinions if verdict.outcome == outcome), opinions[0])
        return Verdict(
            outcome=outcome,
            score=ballot.score,
            reason=f"{passing} of {len(opinions)} pass ({self.reducer}); {speaker.reason}",
            actual=ballot.score,
            details={
                "code": "ok" if ballot.passes else "outvoted",
                "agreement": max(passing, len(opinions) - passing) / len(opinions),
                "members": rows,
            },
        )


Winner = Literal["a", "b", "tie"]

_SHOWN: Final[dict[str, Winner]] = {"first": "a", "second": "b", "tie": "tie"}
_EXCHANGED: Final[dict[str, Winner]] = {"first": "b", "second": "a", "tie": "tie"}
_SCORES: Final[dict[Winner, float]] = {"a": 1.0, "b": 0.0, "tie": 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedVerdict:
    """The result of comparing two outputs in both orders.

    Attributes:
        winners: The winner with `a` shown first, and with `b` shown first.
        reasonings: The model's reasoning, in the same order.
    """

    winners: tuple[Winner, Winner]
    reasonings: tuple[str, str]

    @property
    def flips(self) -> bool:
        """Return whether the winner changed with the order."""
        return self.winners[0] != self.winners[1]

    @property
    def winner(self) -> Winner | None:
        """The winner or a stated tie; None if it depends on the order."""
        return None if self.flips else self.winners[0]

    @property
    def reason(self) -> str:
        """The reason, on one line."""
        if self.flips:
            first_winner, other = self.winners
            return (
                f"the order decides: {first_winner} wins when a is shown first, {other} when b is"
            )
        return " ".join(self.reasonings[0].split())


def pairwise(
    rubric: str,
    *,
    against: Expected | None = None,
    at_least: float | None = None,
    model: str | None = None,
    field: str = "",
    version: str | None = None,
) -> DeclaredJudge[PairJudge]:
    """Compare the output with another one in both orders; it must be at least as good.

    If the winner changes with the order, the judge abstains.

    Args:
        rubric: A rubric of kind `pair`.
        against: The other output; by default `expected.reference`, or `expected` if a text.
        at_least: 1 requires a win, 0.5 accepts a stated tie; by default the rubric's `pass_at`.
        model: The judge model, as `provider:model`; by default the project's.
        field: Judge this part of a JSON output.
        version: An older version of the rubric.

    Raises:
        UsageError: A parameter is invalid.

    >>> from regauge.judges import expected, pairwise
    >>> pairwise("better-summary", against=expected("summary")).name
    'better-summary'
    """
    check_parameters(
        rubric, at_least=at_least, field=field, model=model, declaration=f"pairwise({rubric!r})"
    )

    def make(judge_name: str, context: JudgeContext) -> PairJudge:
        prompt, spec = load_rubric(rubric, context, version=version, judge=judge_name)
        if spec.kind != "pair":
            raise rubric_kind_error(
                prompt,
                f"pairwise needs a rubric of the kind pair, and this one is {spec.kind}",
                fix=f'judge by it with rubric("{prompt.name}")',
            )
        return PairJudge(
            name=judge_name,
            prompt=prompt,
            spec=spec,
            judge_model=model_of(model, prompt, context, judge=judge_name),
            against=against,
            at_least=spec.pass_at if at_least is None else at_least,
            field=field,
        )

    return DeclaredJudge(name=rubric.rpartition("/")[2], criterion="relevance", make=make)


@dataclass(frozen=True, kw_only=True)
class PairJudge(OneModelJudge):
    """A judge that compares outputs, bound to a project.

    Attributes:
        prompt: The rubric's file.
        spec: The verdict that it requires.
        against: The other output; None for the case's reference.
    """

    prompt: Prompt
    spec: RubricSpec
    against: Expected | None

    def _identity(self) -> dict[str, JSON]:
        return {
            "kind": "pairwise",
            "version": 1,
            "protocol": PROTOCOL,
            "prompt": self.prompt.digest,
            "model": str(self.judge_model),
            "against": str(self.against) if self.against else None,
            "field": self.field,
            "at_least": self.at_least,
        }

    async def judge_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Verdict:
        """Compare the output with the other one.

        Raises:
            JudgeError: A response cannot be read, or the case has no other output.
            UnmeasuredError: The model could not be called.
        """
        text = judged_text(completion, case, self.field)
        if isinstance(text, Verdict):
            return text
        reference = self.against or usual_reference(case)
        other = JudgedOutput(None, case=case).resolve(reference, judge=self.name)
        return self._verdict(await self.compare(text, text_of_value(other), case, calls))

    async def compare(self, a: str, b: str, case: GoldenCase, calls: JudgeCalls) -> PairedVerdict:
        """Compare two outputs of one case, in both orders.

        Raises:
            JudgeError: A response cannot be read, or the case has no value for an input.
            UnmeasuredError: The model could not be called.
        """
        if a.strip() == b.strip():
            reason = "both outputs are the same text"
            return PairedVerdict(winners=("tie", "tie"), reasonings=(reason, reason))
        responses, exchanged = await gather_all(
            (self._ask_pair(a, b, case, calls), self._ask_pair(b, a, case, calls))
        )
        return PairedVerdict(
            winners=(_SHOWN[str(responses.value)], _EXCHANGED[str(exchanged.value)]),
            reasonings=(responses.reasoning, exchanged.reasoning),
        )

    async def _ask_pair(
        self, first: str, second: str, case: GoldenCase, calls: JudgeCalls
    ) -> Response:
        pair = {"first": first, "second": second}
        texts = texts_for(self.prompt, case, pair, judge=self.name)
        request = build_request(
            self.prompt,
            texts,
            model=self.judge_model,
            trial=calls.trial,
            form=response_form(self.spec),
        )
        return await request_response(
            request,
            lambda completion: read_response(
                text_of(completion), self.spec, judged_texts=texts.values()
            ),
            calls=calls,
            judge=self.name,
        )

    def _verdict(self, comparison: PairedVerdict) -> Verdict:
        """The verdict on the output, which is `a`."""
        orders: list[JSON] = [
            {"shown_first": response, "winner": winner, "reasoning": reasoning}
            for response, winner, reasoning in zip(
                ("a", "b"), comparison.winners, comparison.reasonings, strict=True
            )
        ]
        facts: dict[str, JSON] = {
            "rubric": str(self.prompt.id),
            "winner": comparison.winner,
            "flip": comparison.flips,
            "orders": orders,
        }
        if comparison.winner is None:
            return Verdict(
                outcome="abstain",
                score=0.0,
                reason=comparison.reason,
                details={"code": "order_flip", **facts},
            )
        meanings = {"a": "the output is better", "b": "the other output is better", "tie": "a tie"}
        reason = f"{meanings[comparison.winner]}, in both orders: {comparison.reason}"
        return self.grade(_SCORES[comparison.winner], reason, code="not_better", details=facts)
