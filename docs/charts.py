"""Line charts as small SVG files, readable on light and dark pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Chart", "Mark"]

_WIDTH = 660
_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 24, 46, 54
# An image has the colour scheme of the reader's system, not of the page around it: its own
# background keeps it readable on both.
_STYLE = """\
svg { --ground: #ffffff; --ink: #1f2328; --quiet: #59636e; --grid: #e4e8ec;
  --s0: #0b63ce; --s1: #c2410c; --s2: #15803d; --s3: #7c3aed; }
@media (prefers-color-scheme: dark) { svg { --ground: #151a21; --ink: #e6edf3; --quiet: #9aa5b1;
  --grid: #2b323b; --s0: #6cb0ff; --s1: #ff9a5c; --s2: #5fd08a; --s3: #b79bff; } }
text { font: 13px system-ui, "Segoe UI", Roboto, sans-serif; fill: var(--ink); }
.title { font-size: 15px; font-weight: 600; }
.tick, .axis { fill: var(--quiet); }
.grid { stroke: var(--grid); }
.level { stroke: var(--quiet); stroke-dasharray: 5 4; }
.line { fill: none; stroke-width: 2.25; stroke-linejoin: round; }
.label { font-weight: 600; paint-order: stroke; stroke: var(--ground); stroke-width: 4px; }
"""


@dataclass(frozen=True, slots=True)
class Mark:
    """A point, in the units of the axes."""

    x: float
    y: float


@dataclass(slots=True, kw_only=True)
class Chart:
    """One chart: axes with ticks, lines, points and ranges.

    Attributes:
        x: The title of the x axis.
        y: The title of the y axis.
        x_ticks: Values and labels of its ticks; the first and last are its ends.
        y_ticks: Values and labels of the ticks of the y axis.
        y_from: The lower end of the y axis; None is the lowest tick.
        y_to: The upper end of the y axis; None is the highest tick.
        legend: The place of the legend; None labels each line at its end.
    """

    title: str
    x: str
    y: str
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    height: int = 340
    y_from: float | None = None
    y_to: float | None = None
    legend: Mark | None = None
    _parts: list[str] = field(default_factory=list[str], init=False)
    _labels: list[tuple[float, float, str, int]] = field(
        default_factory=list[tuple[float, float, str, int]], init=False
    )

    def line(self, points: Sequence[Mark], label: str, *, series: int) -> None:
        """Add points joined by a line, with its label at the end or in the legend."""
        at = [f"{self._x(point.x):.1f},{self._y(point.y):.1f}" for point in points]
        self._parts.append(
            f'<polyline class="line" points="{" ".join(at)}" stroke="var(--s{series})"/>'
        )
        for point in points:
            self.mark(point, series=series)
        end = points[-1]
        self._labels.append((self._x(end.x), self._y(end.y), label, series))

    def mark(self, point: Mark, *, series: int) -> None:
        """Add one point."""
        self._parts.append(
            f'<circle cx="{self._x(point.x):.1f}" cy="{self._y(point.y):.1f}" r="3.4"'
            f' fill="var(--s{series})"/>'
        )

    def band(self, low: float, high: float, y: float, *, series: int) -> None:
        """Add a range along the x axis."""
        x, width = self._x(low), self._x(high) - self._x(low)
        self._parts.append(
            f'<rect x="{x:.1f}" y="{self._y(y) - 5:.1f}" width="{width:.1f}" height="10" rx="5"'
            f' fill="var(--s{series})" fill-opacity="0.3"/>'
        )

    def level(self, y: float, label: str) -> None:
        """Add a line across the chart, with its label below the end."""
        at = self._y(y)
        self._parts.append(
            f'<line class="level" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text class="axis" x="{_WIDTH - _RIGHT}" y="{at + 17:.1f}" text-anchor="end">'
            f"{escape(label)}</text>"
        )

    def svg(self) -> str:
        """The file."""
        lines = [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {self.height}"'
                f' width="{_WIDTH}" height="{self.height}" role="img">'
            ),
            f"<title>{escape(self.title)}</title>",
            f"<style>\n{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{self.height}" rx="8" fill="var(--ground)"/>',
            f'<text class="title" x="{_LEFT}" y="26">{escape(self.title)}</text>',
            *self._axes(),
            *self._parts,
            *self._placed_labels(),
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    def _axes(self) -> list[str]:
        bottom = self.height - _BOTTOM
        lines: list[str] = []
        for value, words in self.y_ticks:
            at = self._y(value)
            lines.append(
                f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}"'
                f' y1="{at:.1f}" y2="{at:.1f}"/>'
                f'<text class="tick" x="{_LEFT - 10}" y="{at + 4:.1f}" text-anchor="end">'
                f"{escape(words)}</text>"
            )
        for value, words in self.x_ticks:
            at = self._x(value)
            lines.append(
                f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{bottom}"/>'
                f'<text class="tick" x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">'
                f"{escape(words)}</text>"
            )
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        lines.append(
            f'<text class="axis" x="{middle:.0f}" y="{self.height - 12}" text-anchor="middle">'
            f"{escape(self.x)}</text>"
        )
        if self.y:
            across = (_TOP + bottom) / 2
            lines.append(
                f'<text class="axis" transform="translate(18 {across:.0f}) rotate(-90)"'
                f' text-anchor="middle">{escape(self.y)}</text>'
            )
        return lines

    def _placed_labels(self) -> list[str]:
        if self.legend is None:
            return [
                _label(x, max(y - 9, _TOP + 12), label, series, anchor="end")
                for x, y, label, series in self._labels
            ]
        x, y = self._x(self.legend.x), self._y(self.legend.y)
        labels: list[str] = []
        for row, (_, _, label, series) in enumerate(self._labels):
            at = y + 20 * row
            labels += [
                (
                    f'<line class="line" x1="{x:.1f}" x2="{x + 22:.1f}" y1="{at - 4:.1f}"'
                    f' y2="{at - 4:.1f}" stroke="var(--s{series})"/>'
                ),
                _label(x + 30, at, label, series, anchor="start"),
            ]
        return labels

    def _x(self, value: float) -> float:
        low, high = self.x_ticks[0][0], self.x_ticks[-1][0]
        return _LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def _y(self, value: float) -> float:
        values = [tick for tick, _ in self.y_ticks]
        low = min(values) if self.y_from is None else self.y_from
        high = max(values) if self.y_to is None else self.y_to
        return self.height - _BOTTOM - (value - low) / (high - low) * (self.height - _TOP - _BOTTOM)


def _label(x: float, y: float, words: str, series: int, *, anchor: str) -> str:
    return (
        f'<text class="label" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
        f' style="fill: var(--s{series})">{escape(words)}</text>'
    )
