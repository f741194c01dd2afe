"""`panel([...])`: several LLM judges with one verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

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
    check_at_least,
    check_reducer,
    gather_all,
    reduce_scores,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._types import JudgeCalls, JudgeContext, Outcome
    from regauge.judges.model.requests import Reducer
    from regauge.project import Criterion
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
