"""Whether calls lead anywhere, found out before any is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import UsageError
from regauge.refine.loop import MoreCalls, advance, calls_wanted, floor_calls
from regauge.wording import plural

if TYPE_CHECKING:
    from regauge.refine.loop import Setting, State

__all__ = ["check_calls", "check_more"]


def check_calls(setting: Setting, prompt: str) -> None:
    """See that a run's calls pay for one repair.

    Raises:
        UsageError: They do not.
    """
    calls, floor = setting.policy.limits.calls, floor_calls(setting)
    if calls < floor:
        raise UsageError(
            f"{calls} calls do not pay for one repair of {prompt}, which takes {floor} or more, so"
            " nothing was asked\n"
            "  fix: raise --budget-calls, or `budget_calls` in [tool.regauge.refine]; `--estimate`"
            " shows what it takes"
        )


def check_more(setting: Setting, state: State, told: MoreCalls, *, run: str, prompt: str) -> State:
    """Where a run goes on with more calls.

    Raises:
        UsageError: The run is over, and calls are not what it lacked; or these are too few for
            its next step.
    """
    if state.stop is not None and state.stop.reason != "calls":
        raise UsageError(
            f"run {run} is over ({state.stop.reason}), and not for want of calls\n"
            f"  fix: begin a new run: regauge refine {prompt}"
        )
    after = advance(setting, state, told)
    if after.stop is not None and after.stop.reason == "calls":
        calls = calls_wanted(setting, state)
        raise UsageError(
            f"{plural(told.calls, 'call')} more lead nowhere: {after.stop.text};"
            " nothing was asked\n"
            f"  fix: regauge refine resume {run} --budget-calls {calls}"
        )
    return after
