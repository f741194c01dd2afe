"""Which judgements a run could not replay, and about what recording them takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.runner._missing import record_command
from regauge.runner._providers import SIMULATED
from regauge.runner._question import judges_file

if TYPE_CHECKING:
    from regauge.judges import ModelJudge
    from regauge.project import Settings
    from regauge.runner._answers import Answers
    from regauge.runner._expected_judging import ExpectedJudging
    from regauge.runner._options import RunOptions
    from regauge.runner._plan import Draw

__all__ = ["Misses", "MissingJudgements"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingJudgements:
    """The judgements of one judge on answers to one prompt that lack recorded replies.

    Attributes:
        models: Who would be asked.
        stale: How many cases have replies to an older request of the judge, as when its rubric
            or its model changed.
        calls: About how many calls they take; those that follow from replies are an estimate.
        tokens: About how many tokens the calls would use, in and out.
        cost_usd: About what they would cost; None when no price is declared.
        command: What records them.
    """

    prompt: str
    judge: str
    models: str
    simulated: bool
    judgements: int
    cases: int
    stale: int
    calls: int
    tokens: int
    cost_usd: float | None
    command: str

    def plus(self, other: MissingJudgements) -> MissingJudgements:
        """Of two processes that each judged cases of their own."""
        known = self.cost_usd is not None and other.cost_usd is not None
        return MissingJudgements(
            prompt=self.prompt,
            judge=self.judge,
            models=self.models,
            simulated=self.simulated,
            judgements=self.judgements + other.judgements,
            cases=self.cases + other.cases,
            stale=self.stale + other.stale,
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            cost_usd=(self.cost_usd or 0) + (other.cost_usd or 0) if known else None,
            command=self.command,
        )


class Misses:
    """Collects the judgements that would need a model, where none may be called."""

    def __init__(self) -> None:
        self._judges: dict[tuple[str, str], ModelJudge] = {}
        self._draws: dict[tuple[str, str], dict[tuple[str, int], Draw]] = {}

    def note(self, judge: ModelJudge, draw: Draw) -> None:
        """Remember a judgement that cannot be replayed."""
        key = (draw.planned.suite.prompt.name, judge.name)
        self._judges.setdefault(key, judge)
        self._draws.setdefault(key, {}).setdefault((draw.planned.case.id, draw.trial), draw)

    def summary(
        self,
        judging: ExpectedJudging,
        answers: Answers,
        settings: Settings,
        *,
        options: RunOptions,
    ) -> list[MissingJudgements]:
        """What each judge is missing, in the order in which it was noted."""
        found: list[MissingJudgements] = []
        for (prompt, name), judge in self._judges.items():
            draws = list(self._draws[prompt, name].values())
            cases = {draw.planned.case.id for draw in draws}
            recorded = {x.case for x in answers.file(judges_file(prompt)) if x.judge == name}
            expected = judging.of_draws(judge, draws)
            found.append(
                MissingJudgements(
                    prompt=prompt,
                    judge=name,
                    models=", ".join(judge.models),
                    simulated=all(model.split(":")[0] == SIMULATED for model in judge.models),
                    judgements=len(draws),
                    cases=len(cases),
                    stale=len(cases & recorded),
                    calls=round(expected.calls),
                    tokens=round(expected.tokens),
                    cost_usd=None if expected.cost_usd is None else round(expected.cost_usd, 9),
                    command=record_command(draws[0].planned.suite, settings, options),
                )
            )
        return found
