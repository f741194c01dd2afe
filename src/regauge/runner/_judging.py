"""Applies judges to answers and turns what goes wrong into an unmeasured trial."""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from regauge.errors import JudgeError, RegaugeError, UnmeasuredError
from regauge.judges import Answer, Rule, Verdict, criterion_of
from regauge.runner._no_network import no_network
from regauge.runner._trial import JudgedVerdict, Trial

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from regauge.datasets import GoldenCase
    from regauge.judges import Judge
    from regauge.providers import Completion
    from regauge.runner._suite import Suite
    from regauge.runner._trial import SourcedCompletion

__all__ = [
    "Said",
    "broken_judge",
    "checked_verdict",
    "judge_trial",
    "judge_trial_now",
    "passes_through",
]

Said: TypeAlias = "Mapping[str, JudgedVerdict | UnmeasuredError]"
_NOTHING: Said = MappingProxyType({})
_COMPARE_LABELS = frozenset({"choice_is", "equals", "field_equals"})
_ELSEWHERE = (
    str(Path("_pytest", "outcomes.py")),
    str(Path("regauge", "judges", "_types.py")),
    "<string>",  # the `__init__` of a dataclass
)


async def judge_trial(
    number: int,
    request_digest: str,
    answer: SourcedCompletion,
    *,
    suite: Suite,
    case: GoldenCase,
    said: Said = _NOTHING,
    offline: bool = False,
) -> Trial:
    """Let every judge say its verdict; one that cannot makes the trial unmeasured.

    Args:
        number: Of the trial.
        request_digest: Of what was asked.
        answer: What is judged.
        suite: Whose judges judge.
        case: The case.
        said: What judges that ask a model have said already, by name.
        offline: Whether functions of users are kept off the network.
    """
    verdicts: list[JudgedVerdict] = []
    error: UnmeasuredError | None = None
    judged = Answer.of(answer.completion, case)  # rules share it: its JSON is parsed once
    for judge in suite.judges:
        try:
            given = said.get(judge.name) or JudgedVerdict(
                judge=judge.name,
                judge_digest=judge.digest,
                verdict=await _verdict(judge, judged, answer.completion, case, offline=offline),
                criterion=criterion_of(judge),
                labels=isinstance(judge, Rule) and judge.kind in _COMPARE_LABELS,
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
    offline: bool = False,
) -> Trial:
    """The same, for a thread without an event loop."""
    judging = judge_trial(
        number, request_digest, answer, suite=suite, case=case, said=said, offline=offline
    )
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
        why = [
            f"\n  {one.judge}: {one.verdict.details.get('why')}"
            for one in deciding
            if one.verdict.code == "all_advisory"
        ]
        return JudgeError(f"every judge abstained: {names}{''.join(why)}", judge=names)
    return None


async def _verdict(
    judge: Judge, answer: Answer, completion: Completion, case: GoldenCase, *, offline: bool
) -> Verdict:
    """One verdict; a judge that breaks is an error, never a fail and never a pass."""
    try:
        if not isinstance(judge, Rule):
            with no_network(judge.name, active=offline):
                return checked_verdict(judge.name, await judge.judge(completion, case))
        if judge.own or not offline:
            return checked_verdict(judge.name, judge.examine(answer))
        with no_network(judge.name, active=True):
            return checked_verdict(judge.name, judge.examine(answer))
    except UnmeasuredError:
        raise
    except RegaugeError as error:
        raise JudgeError(f"judge {judge.name}: {error}", judge=judge.name) from error
    except BaseException as error:
        if passes_through(error):
            raise
        raise broken_judge(judge.name, error) from error


def checked_verdict(judge: str, given: object) -> Verdict:
    """The verdict, if it is one; its values were checked when it was made.

    Raises:
        JudgeError: It is none.
    """
    if isinstance(given, Verdict):
        return given
    raise JudgeError(f"judge {judge}: it returned {given!r:.400}, not a Verdict", judge=judge)


def broken_judge(judge: str, error: BaseException) -> JudgeError:
    """The error of a judge that raised something else than regauge's own errors."""
    frames = traceback.extract_tb(error.__traceback__)
    # `pytest.skip` and its like raise inside pytest, and a bad `Verdict` where its values are
    # checked: neither is where to look.
    own = [one for one in frames if not one.filename.endswith(_ELSEWHERE)] or [*frames]
    return JudgeError(
        f"judge {judge} broke: {type(error).__name__}: {error}\n"
        f"  at {own[-1].filename}:{own[-1].lineno}",
        judge=judge,
    )


def passes_through(error: BaseException) -> bool:
    """Whether an exception ends more than a judge: Ctrl-C, or the end of the run's own tasks.

    Everything else that is no `Exception`, such as `pytest.skip` or `sys.exit`, is a judge that
    broke.
    """
    if isinstance(error, asyncio.CancelledError):
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no event loop runs, so nothing can be cancelled
            return False
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)
