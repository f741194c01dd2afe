"""Where the marks of a plot of pass rates stand, in the units of its picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.reports.html._history import Point

__all__ = ["Mark", "Plot", "plot_of"]

_WIDTH = 560
_HEIGHT = 230
_LEFT = 52
_RIGHT = 16
_TOP = 14
_BOTTOM = 40
_LINES = 4
_FLOOR_MAX = 0.9
_NAME_WIDTH = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One run: a dot with a bar from `low` to `high`.

    Attributes:
        name: Of the version, below the axis; empty where the one before has the same or there is
            no room.
        begins: Whether another version begins here.
    """

    x: float
    y: float
    low: float
    high: float
    name: str
    begins: bool
    point: Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A picture of `width` by `height`.

    Attributes:
        lines: Height and words of each line across.
        path: The line through the dots, as `points` of a polyline.
    """

    width: int
    height: int
    left: int
    right: int
    bottom: int
    lines: tuple[tuple[float, str], ...]
    marks: tuple[Mark, ...]
    path: str


def plot_of(points: Sequence[Point]) -> Plot:
    """The plot of at least one point; its axis begins below the lowest interval."""
    lowest = min(point.low for point in points)
    floor = min(max(0.0, int(lowest * 10) / 10), _FLOOR_MAX)
    inner = _HEIGHT - _TOP - _BOTTOM
    step = (_WIDTH - _LEFT - _RIGHT) / len(points)

    def y(rate: float) -> float:
        return round(_TOP + inner * (1 - (rate - floor) / (1 - floor)), 1)

    marks: list[Mark] = []
    named_until = 0.0
    for number, point in enumerate(points):
        x = round(_LEFT + step * (number + 0.5), 1)
        begins = number == 0 or points[number - 1].digest != point.digest
        name = point.version if begins and x >= named_until else ""
        if name:
            named_until = x + _NAME_WIDTH
        marks.append(
            Mark(
                x=x,
                y=y(point.rate),
                low=y(point.low),
                high=y(point.high),
                name=name,
                begins=begins,
                point=point,
            )
        )
    rates = [floor + (1 - floor) * n / _LINES for n in range(_LINES + 1)]
    return Plot(
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        right=_WIDTH - _RIGHT,
        bottom=_HEIGHT - _BOTTOM,
        lines=tuple((y(rate), f"{rate * 100:.3g} %") for rate in rates),
        marks=tuple(marks),
        path=" ".join(f"{mark.x},{mark.y}" for mark in marks),
    )
