"""Which line of a prompt carries which check: each line is left out in turn, within a budget.

What comes of it is for people: a line that nothing needs is dead, or no golden case tests it. No
line is ever taken out for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from regauge.refine._edits import Anchor, Delete, apply
from regauge.refine._evidence import worse_p
from regauge.refine._state import Draws, Interrupted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.refine._state import Setting, TrialsDone
    from regauge.refine._tally import Tally
    from regauge.refine._text import Line, PromptText

__all__ = ["Carrier", "LineDrawer", "carriers", "lines_to_leave_out", "localise"]


class LineDrawer(Protocol):
    """Whatever draws and judges trials."""

    async def draw(self, draws: Sequence[Draws]) -> TrialsDone | Interrupted:
        """Draw and judge; what could not be measured is missing from the answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """What a line is needed for, as far as the trials tell.

    Attributes:
        checks: The checks that fail more often without it, with the p-values that they do not.
        trials: How many trials were drawn without it.
    """

    line: Line
    checks: Mapping[str, float]
    trials: int

    @property
    def is_needed(self) -> bool:
        """Whether any check fails more often without it."""
        return bool(self.checks)


def lines_to_leave_out(text: PromptText) -> tuple[Line, ...]:
    """The lines that say something by themselves: rules and plain text without an input."""
    return tuple(
        line for line in text.lines if line.kind in {"rule", "text"} and "{{" not in line.text
    )


async def localise(
    setting: Setting,
    text: PromptText,
    tally: Tally,
    drawer: LineDrawer,
    *,
    calls_max: int,
    p_max: float = 0.05,
) -> tuple[tuple[Carrier, ...], Tally]:
    """Leave out one line after the other and see which checks suffer.

    Lines are taken in their order until the next one cannot be paid; those that are missing from
    the answer were not tried.

    Args:
        setting: What the run is about; only its train cases are drawn.
        text: The prompt.
        tally: What is known of it; it is compared with this.
        drawer: Draws the trials.
        calls_max: How many trials may be drawn at the most.
        p_max: Below this p-value, shared among all lines, a check needs a line.
    """
    lines = lines_to_leave_out(text)[: calls_max // max(1, len(setting.train))]
    tried: list[Line] = []
    for line in lines:
        leaner = _without(text, line)
        trials = tuple(
            (case, max(setting.first_trial, tally.next_trial(leaner.digest, case)))
            for case in setting.train
        )
        done = await drawer.draw([Draws(text=leaner, trials=trials)])
        if isinstance(done, Interrupted):
            break
        tally = tally.with_outcomes(done.outcomes)
        tried.append(line)
    return carriers(setting, text, tally, tried, p_max=p_max), tally


def carriers(
    setting: Setting, text: PromptText, tally: Tally, lines: Sequence[Line], *, p_max: float
) -> tuple[Carrier, ...]:
    """What each of some lines carries, from trials that were drawn before."""
    found: list[Carrier] = []
    for line in lines:
        leaner = _without(text, line).digest
        p_values = {
            check: worse_p(tally, leaner, text.digest, setting.train, check)
            for check in tally.checks(text.digest, setting.train)
        }
        bound = p_max / len(lines)
        found.append(
            Carrier(
                line=line,
                checks={check: p for check, p in p_values.items() if p <= bound},
                trials=sum(tally.trials(leaner, case) for case in setting.train),
            )
        )
    return tuple(found)


def _without(text: PromptText, line: Line) -> PromptText:
    return apply(text, [Delete(Anchor(line.text, line.occurrence, line.message))])
