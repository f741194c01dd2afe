"""`panel([...])`: several judges that ask different models, and the one verdict they make."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from regauge.errors import UsageError
from regauge.judges._asking import Declared, ModelJudge, UnboundJudge, criterion_of, usual_calls
from regauge.judges._types import Verdict, abstained
from regauge.judges.model._ask import RunOnlyJudge, check_at_least, check_reducer, count, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.criteria import Criterion
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._asking import JudgeCalls, JudgeContext
    from regauge.judges._types import Outcome
    from regauge.judges.model._ask import Reducer
    from regauge.providers import Completion

__all__ = ["PanelJudge", "UnboundPanel", "panel"]

_MEMBERS_MIN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class UnboundPanel(Declared):
    """A panel as an eval declares it.

    Attributes:
        criterion: What it is about; None for what its members are, where they agree.
    """

    members: tuple[UnboundJudge | ModelJudge, ...]
    reducer: Reducer
    at_least: float
    criterion: Criterion | None = None

    def bind(self, context: JudgeContext) -> PanelJudge:
        """The panel, with its members bound.

        Raises:
            UsageError: A member asks no model, two members are the same, or nothing says which
                model one of them asks.
            PromptError: The rubric of a member cannot be loaded.
        """
        bound: list[ModelJudge] = []
        for member in self.members:
            judge = member.bind(context) if isinstance(member, UnboundJudge) else member
            if not isinstance(judge, ModelJudge):
                raise UsageError(
                    f"{self.name}: {judge.name!r} asks no model\n"
                    "  fix: list rules beside the panel, not in it"
                )
            twin = next((other for other in bound if other.digest == judge.digest), None)
            if twin is not None:
                models = ", ".join(judge.models)
                raise UsageError(
                    f"{self.name}: two members are {judge.name!r} asking {models}, so they would"
                    " always agree\n  fix: give them different models, or one of them votes=2"
                )
            bound.append(judge)
        kinds: set[Criterion] = {criterion_of(member) for member in bound}
        return PanelJudge(
            name=self.name,
            criterion=self.criterion or (kinds.pop() if len(kinds) == 1 else "relevance"),
            members=tuple(bound),
            reducer=self.reducer,
            at_least=self.at_least,
        )


def panel(
    judges: Sequence[UnboundJudge | ModelJudge],
    reducer: Reducer = "majority",
    *,
    at_least: float = 0.5,
) -> UnboundPanel:
    """Let several LLM judges decide together.

    Args:
        judges: At least two, best with models of different vendors.
        reducer: `majority` or `all` of verdicts; `median`, `mean` or `min` of scores.
        at_least: The least that passes.

    Raises:
        UsageError: A parameter makes no sense.

    >>> from regauge.judges import panel, rubric
    >>> panel([rubric("tone", model=f"openai:{name}") for name in ("gpt-5.4-mini", "gpt-5")]).name
    'panel(tone)'
    """
    members = tuple(judges)
    names = dict.fromkeys(str(getattr(member, "name", "?")) for member in members)
    name = f"panel({', '.join(names)})"
    if len(members) < _MEMBERS_MIN:
        raise UsageError(f"{name}: a panel has at least two judges, not {len(members)}")
    for member in cast("tuple[object, ...]", members):  # an eval may say anything
        if not isinstance(member, (UnboundJudge, ModelJudge)):
            raise UsageError(
                f"{name}: {member!r} is no judge that asks a model\n"
                '  fix: list judges such as rubric("name", model="openai:gpt-5.4-mini")'
            )
    check_reducer(reducer, judge=name)
    check_at_least(name, at_least)
    return UnboundPanel(members=members, reducer=reducer, at_least=at_least, name=name)


@dataclass(frozen=True, kw_only=True)
class PanelJudge(RunOnlyJudge):
    """A panel that is ready to judge."""

    members: tuple[ModelJudge, ...]
    reducer: Reducer

    @property
    def models(self) -> tuple[str, ...]:
        """The models of all members, each once."""
        return tuple(dict.fromkeys(model for member in self.members for model in member.models))

    @property
    def usual_calls(self) -> int:
        """Those of all members."""
        return sum(usual_calls(member) for member in self.members)

    def _made_of(self) -> dict[str, JSON]:
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
        """Ask all members; those that abstain do not count.

        Raises:
            JudgeError: A member came to no verdict.
            UnmeasuredError: A member's model could not be asked.
        """
        verdicts = await together(
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
        heard = [verdict for verdict in verdicts if verdict.outcome != "abstain"]
        if not heard:
            return replace(
                abstained("every member abstained", code="all_abstained"),
                details={"code": "all_abstained", "members": rows},
            )
        return self._verdict(heard, rows)

    def _verdict(self, heard: list[Verdict], rows: list[JSON]) -> Verdict:
        if self.reducer in {"majority", "all"}:
            scores = [1.0 if verdict.outcome == "pass" else 0.0 for verdict in heard]
            ballot = count(scores, self.reducer, at_least=0.5)
        else:
            ballot = count(
                [verdict.score for verdict in heard], self.reducer, at_least=self.at_least
            )
        outcome: Outcome = "pass" if ballot.passes else "fail"
        passing = sum(verdict.outcome == "pass" for verdict in heard)
        # Whoever sees it as the panel does says why.
        speaker = next((verdict for verdict in heard if verdict.outcome == outcome), heard[0])
        return Verdict(
            outcome=outcome,
            score=ballot.score,
            reason=f"{passing} of {len(heard)} pass ({self.reducer}); {speaker.reason}",
            actual=ballot.score,
            details={
                "code": "ok" if ballot.passes else "outvoted",
                "agreement": max(passing, len(heard) - passing) / len(heard),
                "members": rows,
            },
        )
