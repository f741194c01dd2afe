"""Applies judges to answers and turns what goes wrong into an unmeasured trial."""

from __future__ import annotations

import asyncio
import traceback
from typing import TYPE_CHECKING

from regauge.errors import JudgeError, RegaugeError, UnmeasuredError
from regauge.judges import Answer, Rule
from regauge.runner._trial import JudgedVerdict, Trial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.datasets import GoldenCase
    from regauge.judges import Judge, Verdict
    from regauge.providers import Completion
    from regauge.runner._trial import SourcedCompletion

__all__ = ["judge_trial"]


def judge_trial(
    number: int,
    request_digest: str,
    answer: SourcedCompletion,
    *,
    case: GoldenCase,
    judges: Sequence[Judge],
) -> Trial:
    """Let every judge say its verdict; one that cannot makes the trial unmeasured."""
    verdicts: list[JudgedVerdict] = []
    error: UnmeasuredError | None = None
    try:
        judged = Answer.of(answer.completion, case)  # rules share it: its JSON is parsed once
        for judge in judges:
            verdict = _verdict(judge, judged, answer.completion, case)
            verdicts.append(
                JudgedVerdict(judge=judge.name, judge_digest=judge.digest, verdict=verdict)
            )
    except UnmeasuredError as broken:
        error = broken
    else:
        if all(given.verdict.outcome == "abstain" for given in verdicts):
            names = ", ".join(judge.name for judge in judges)
            error = JudgeError(f"every judge abstained: {names}", judge=names)
    return Trial(
        number=number,
        request_digest=request_digest,
        answer=answer,
        verdicts=tuple(verdicts),
        error=error,
    )


def _verdict(judge: Judge, answer: Answer, completion: Completion, case: GoldenCase) -> Verdict:
    """One verdict; a judge that breaks is an error, never a fail and never a pass."""
    try:
        if isinstance(judge, Rule):
            return judge.examine(answer)
        return asyncio.run(judge.judge(completion, case))
    except UnmeasuredError:
        raise
    except RegaugeError as error:
        raise JudgeError(f"judge {judge.name}: {error}", judge=judge.name) from error
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise JudgeError(
            f"judge {judge.name} broke: {type(error).__name__}: {error}\n"
            f"  at {frame.filename}:{frame.lineno}",
            judge=judge.name,
        ) from error
