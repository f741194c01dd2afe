"""Which judgements a run could not replay, and about what recording them takes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.providers import CompletionRequest, Usage, approximate_tokens, cost_of, parse_model_id
from regauge.runner._missing import record_command
from regauge.runner._providers import SIMULATED, price_for
from regauge.runner._question import judges_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.judges import ModelJudge
    from regauge.project import Settings
    from regauge.recordings import Recording
    from regauge.runner._answers import Answers
    from regauge.runner._options import RunOptions
    from regauge.runner._plan import Draw

__all__ = ["Misses", "MissingJudgements"]

_REPLY_TOKENS = 300
_RUBRIC_TOKENS = 300


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


@dataclass(slots=True)
class _OfJudge:
    """What one judge misses on one prompt."""

    judge: ModelJudge
    draws: dict[tuple[str, int], Draw] = field(default_factory=dict[tuple[str, int], "Draw"])
    questions: dict[tuple[str, int], CompletionRequest] = field(
        default_factory=dict[tuple[str, int], CompletionRequest]
    )


class Misses:
    """Collects what judges would have asked, where nothing may be asked."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], _OfJudge] = {}

    def note(self, judge: ModelJudge, draw: Draw, request: CompletionRequest | None) -> None:
        """Remember a judgement that cannot be replayed.

        Args:
            judge: Whose.
            draw: What it would judge.
            request: What it asked in vain; None when there is no answer to ask about.
        """
        key = (draw.planned.suite.prompt.name, judge.name)
        found = self._found.setdefault(key, _OfJudge(judge))
        at = (draw.planned.case.id, draw.trial)
        found.draws.setdefault(at, draw)
        if request is not None:
            found.questions.setdefault((request.digest, request.trial), request)

    def summary(
        self, answers: Answers, settings: Settings, *, options: RunOptions
    ) -> list[MissingJudgements]:
        """What each judge lacks, in the order in which it was met."""
        return [
            _of_judge(prompt, found, answers=answers, settings=settings, options=options)
            for (prompt, _), found in self._found.items()
        ]


def _of_judge(
    prompt: str, found: _OfJudge, *, answers: Answers, settings: Settings, options: RunOptions
) -> MissingJudgements:
    judge = found.judge
    earlier = [one for one in answers.file(judges_file(prompt)) if one.judge == judge.name]
    draws = list(found.draws.values())
    calls = max(len(found.questions), round(len(draws) * _calls_per_judgement(earlier)))
    before = [one.completion.usage for one in earlier]
    output = sum(u.output_tokens for u in before) / len(before) if before else _REPLY_TOKENS
    sizes = [approximate_tokens(request) for request in found.questions.values()] or [
        # It reads what the prompt's model read, the answer, and its own instructions.
        approximate_tokens(draw.planned.request(draw.trial)) + _REPLY_TOKENS + _RUBRIC_TOKENS
        for draw in draws
    ]
    usage = Usage(
        input_tokens=round(calls * sum(sizes) / len(sizes)), output_tokens=round(calls * output)
    )
    cases = {case for case, _ in found.draws}
    return MissingJudgements(
        prompt=prompt,
        judge=judge.name,
        models=", ".join(judge.models),
        simulated=all(model.split(":")[0] == SIMULATED for model in judge.models),
        judgements=len(draws),
        cases=len(cases),
        stale=len(cases & {one.case for one in earlier}),
        calls=calls,
        tokens=usage.input_tokens + usage.output_tokens,
        cost_usd=_cost_usd(judge, usage, settings),
        command=record_command(draws[0].planned.suite, settings, options),
    )


def _calls_per_judgement(earlier: Sequence[Recording]) -> float:
    """How many calls a judgement took so far; 1 where there was none."""
    per_case: dict[tuple[str, int], int] = defaultdict(int)
    for one in earlier:
        per_case[one.case, one.key.trial] += 1
    return sum(per_case.values()) / len(per_case) if per_case else 1.0


def _cost_usd(judge: ModelJudge, usage: Usage, settings: Settings) -> float | None:
    """What it costs if each of the judge's models takes an equal part; None if one is unpriced."""
    total = 0.0
    for model in judge.models:
        asked = parse_model_id(model)
        request = CompletionRequest(
            provider=asked.provider, model=asked.model, messages=(), parameters={}
        )
        cost = cost_of(usage, price_for(settings, request))
        if cost is None:
            return None
        total += cost
    return total / max(1, len(judge.models))
