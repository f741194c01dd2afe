"""Targets in `regauge show`, `log` and `diff`: identity and pass rates, now and in commits."""

from __future__ import annotations

import json
import os
from itertools import islice, zip_longest
from typing import TYPE_CHECKING

import click

from regauge.cli._terminal import echo, echo_diff, echo_json
from regauge.errors import RegaugeError
from regauge.maintenance.target_states import diff_states, digests_in, find_changed
from regauge.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.digests import JSON
    from regauge.history import TrendLine, TrendPoint
    from regauge.maintenance.target_states import TargetHistory, TargetState
    from regauge.project import Project

_BLOCKS = "▁▂▃▄▅▆▇█"
_BAR_WIDTH = 24


def sparkline(rates: Sequence[float | None]) -> str:
    """Rates from 0 to 1 as blocks; a dot for None.

    >>> sparkline([0.0, 0.5, None, 1.0])
    '▁▅·█'
    """
    top = len(_BLOCKS) - 1
    return "".join("·" if rate is None else _BLOCKS[round(rate * top + 0.001)] for rate in rates)


def interval_bar(point: TrendPoint) -> str:
    """A bar from 0 to 100 % with the rate and its interval."""
    last = _BAR_WIDTH - 1
    cells = [" "] * _BAR_WIDTH
    low, high = round(point.interval.low * last), round(point.interval.high * last)
    if point.eval.rate is not None:
        cells[low : high + 1] = "─" * (high - low + 1)
        cells[round(point.eval.rate * last)] = "●"
    return f"│{''.join(cells)}│"


def measured_lines(project: Project, names: Iterable[str]) -> list[TrendLine]:
    """Trend lines of evals from the run history; empty if it cannot be read."""
    from regauge.history import History, trend_lines

    try:
        history = History.open(project, os.environ)
        return [line for name in names for line in trend_lines(history.evals(name))]
    except RegaugeError as error:
        click.echo(printable(f"{error}\nso there are no pass rates here"), err=True)
        return []


def rate_text(point: TrendPoint) -> str:
    """A pass rate with counts."""
    if point.eval.rate is None:
        return "unmeasured"
    return f"{100 * point.eval.rate:.1f} % ({point.eval.passed}/{point.eval.measured})"


class TargetCommands:
    """The commands `show`, `log` and `diff` of one target."""

    def __init__(self, history: TargetHistory) -> None:
        self._history = history
        self._name, self.evals = history.name, history.evals

    def show(self, ref: str, *, as_json: bool) -> None:
        """Show its identity in a commit, or in the working files."""
        state = self._history.state_at(ref) if ref else self._history.current
        target = state.target
        base = None if ref else self._history.base()
        changed = None if base is None else find_changed(base.target, target)
        if as_json:
            document: dict[str, JSON] = {
                "name": self._name,
                "kind": target.settings.kind,
                "commit": ref or None,
                "version": target.version or None,
                "evals": list(self.evals),
                "identity": target.identity,
                "digest": self._history.digest(state),
                "base": base.place if base is not None else None,
                "changed_since_base": changed,
            }
            echo_json(document)
            return
        place = f" at {ref}" if ref else ""
        echo(f"{self._name} {target.version or '(no version)'}{place}", bold=True)
        rows = [
            (key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            for key, value in target.identity.items()
            if key not in {"version", "files", "prompts"}
        ]
        prompts = (
            f"{prompt.name} {prompt.version or prompt.digest[:12]}" for prompt in target.prompts
        )
        rows += [
            ("evals", ", ".join(self.evals)),
            ("prompts", ", ".join(prompts)),
            ("digest", self._history.digest(state)),
        ]
        if base is not None:
            rows.append((f"since {base.place}", ", ".join(changed or ()) or "unchanged"))
        width = max(len(label) for label, text in rows if text)
        for label, text in rows:
            if text:
                echo(f"  {label:<{width}}  {text}")
        digests = digests_in(target, "files")
        if digests:
            echo("files", bold=True)
        for path, digest in digests.items():
            echo(f"  {str(digest or '(missing)')[:12]}  {path}")

    def log(self, limit: int, *, as_json: bool) -> None:
        """List the states of its identity with pass rates, newest first.

        Args:
            limit: The most states.
            as_json: Whether to print JSON.
        """
        states = [*islice(self._history.states(), limit + 1)]
        older = [state.target for _, state in states[1:]]
        rows = [
            (commit, state, find_changed(before, state.target) if before is not None else [])
            for (commit, state), before in zip_longest(states, older)
        ][:limit]
        current = self._history.current.target
        uncommitted = find_changed(states[0][1].target, current) if states else []
        points = self._points()
        if as_json:
            state_rows: list[dict[str, object]] = [
                {
                    "version": state.target.version or None,
                    "date": commit.date[:10],
                    "commit": commit.hash,
                    "digest": self._history.digest(state),
                    "changed": changed,
                    "measured": [
                        {"eval": point.eval.prompt, **point.to_json()}
                        for point in self._points_of(state, points)
                    ],
                }
                for commit, state, changed in rows
            ]
            document = {"name": self._name, "uncommitted": uncommitted, "states": state_rows}
            echo_json(document)
            return
        for commit, state, changed in rows:
            line = (
                f"{state.target.version or '-':<12}{commit.date[:10]:<12}"
                f"{self._history.digest(state)[:12]:<14}{commit.hash[:9]:<11}"
            )
            if points:
                several = len(self.evals) > 1
                rates = (
                    f"{point.eval.prompt if several else ''} {rate_text(point)}".strip()
                    for point in self._points_of(state, points)
                )
                line += f"{', '.join(rates) or '-':<20}"
            echo(f"{line}{', '.join(changed) or commit.subject}".rstrip())
        if not states:
            echo(f"{self._name} is in no commit yet")
        elif uncommitted:
            echo(f"not committed: {', '.join(uncommitted)}", style="yellow")

    def diff(self, a: str | None, b: str | None, *, as_json: bool) -> None:
        """Show changes of its settings, files and prompts between commits, or since one."""
        a = a or "HEAD"
        old = self._history.state_at(a)
        new = self._history.state_at(b) if b is not None else self._history.current
        lines = [*diff_states(old, new)]
        if as_json:
            changed = find_changed(old.target, new.target)
            document = {"name": self._name, "a": a, "b": b, "changed": changed, "lines": lines}
            echo_json(document)
            return
        after = f"{self._name}@{b}" if b is not None else "the files"
        echo_diff(lines, f"{self._name}@{a}", after)

    def _points(self) -> list[TrendPoint]:
        """The measurements of its evals, those of lines with most runs first."""
        lines = measured_lines(self._history.project, self.evals)
        return [point for line in lines for point in line.points if point.eval.rate is not None]

    def _points_of(self, state: TargetState, points: Iterable[TrendPoint]) -> list[TrendPoint]:
        """The measurement of a state by each eval."""
        digest = self._history.digest(state)
        by_digest: dict[str, TrendPoint] = {}
        for point in points:
            if point.eval.prompt_digest == digest:
                by_digest.setdefault(point.eval.prompt, point)
        return [*by_digest.values()]
