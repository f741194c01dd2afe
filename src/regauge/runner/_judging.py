"""Applies judges to answers and turns what goes wrong into an unmeasured trial."""

from __future__ import annotations

import asyncio
import traceback
from types import MappingProxyType
from typing import TYPE_CHECKING

from regauge.errors import JudgeError, RegaugeError, UnmeasuredError
from regauge.judges import Answer, Rule, criterion_of
from regauge.runner._trial import JudgedVerdict, Trial

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from regauge.datasets import GoldenCase
    from regauge.judges import Judge, Verdict
    from regauge.providers import Completion
    from regauge.runner._suite import Suite
    from regauge.runner._trial import SourcedCompletion

__all__ = ["Said", "judge_trial", "judge_trial_now"]

Said: TypeAlias = "Mapping[str, JudgedVerdict | UnmeasuredError]"
_NOTHING: Said = MappingProxyType({})


async def judge_trial(
    number: int,
    request_digest: str,
    answer: SourcedCompletion,
    *,
    suite: Suite,
    case: GoldenCase,
    said: Said = _NOTHING,
) -> Trial:
    """Let every judge say its verdict; one that cannot makes the trial unmeasured.

    Args:
        number: Of the trial.
        request_digest: Of what was asked.
        answer: What is judged.
        suite: Whose judges judge.
        case: The case.
        said: What judges that ask a model have said already, by name.
    """
    verdicts: list[JudgedVerdict] = []
    error: UnmeasuredError | None = None
    judged = Answer.of(answer.completion, case)  # rules share it: its JSON is parsed once
    for judge in suite.judges:
        try:
            given = said.get(judge.name) or JudgedVerdict(
                judge=judge.name,
                judge_digest=judge.digest,
                verdict=await _verdict(judge, judged, answer.completion, case),
                criterion=criterion_of(judge),
            )
            if isinstance(given, UnmeasuredError):
                raise given
            verdicts.append(given)
        except UnmeasuredError as broken:
            error = error or broken
    return Trial(
        number=number,
        request_digest=request_digest,
        answer=answer,
        verdicts=tuple(verdicts),
        error=error or _undecided(suite, verdicts),
    )


def judge_trial_now(
    number: int,
    request_digest: str,
    answer: SourcedCompletion,
    *,
    suite: Suite,
    case: GoldenCase,
    said: Said = _NOTHING,
) -> Trial:
    """The same, for a thread without an event loop."""
    judging = judge_trial(number, request_digest, answer, suite=suite, case=case, said=said)
    if not all(isinstance(judge, Rule) or judge.name in said for judge in suite.judges):
        return asyncio.run(judging)
    try:
        judging.send(None)
    except StopIteration as done:  # rules wait for nothing
        trial: Trial = done.value
        return trial
    raise AssertionError("a rule waited")


def _undecided(suite: Suite, verdicts: list[JudgedVerdict]) -> UnmeasuredError | None:
    """Why the verdicts, each of them there, decide nothing; None when they do."""
    deciding = [given for given in verdicts if given.gates]
    if not deciding:
        named = "; ".join(f"{given.judge} ({given.standing})" for given in verdicts)
        return UnmeasuredError(
            f"a case without judges that gate: {named}\n"
            "  fix: add a rule, or calibrate a judge: regauge calibrate NAME"
        )
    if all(given.verdict.outcome == "abstain" for given in deciding):
        names = ", ".join(judge.name for judge in suite.judges if suite.standing(judge).gates)
        return JudgeError(f"every judge abstained: {names}", judge=names)
    return None


async def _verdict(
    judge: Judge, answer: Answer, completion: Completion, case: GoldenCase
) -> Verdict:
    """One verdict; a judge that breaks is an error, never a fail and never a pass."""
    try:
        if isinstance(judge, Rule):
            return judge.examine(answer)
        return await judge.judge(completion, case)
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
