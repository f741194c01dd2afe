"""Error rates of the gate, simulated on suites with known pass rates.

    python benchmarks/gate.py [--quick] [--runs 600] [--only GROUP ...] [--output FILE]
    python benchmarks/gate.py --cell typical 140 drop:5 [--runs 600] [--json]

Each run has its own suite, a baseline and a change, as defined by the scenario. The rules are the
gate's own; only the trials are simulated. Every cell of the table is printed when it is done, with
its 95 % interval and its goal.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._gate_suites import MIXES, draw_suites, lowered, lowered_by_logit, world_of
from benchmarks.real_answers import TASKS, passes_of
from regauge.gate import GatePolicy
from regauge.gate.power import RandomTrials, SimulatedRun, simulate
from regauge.stats import (
    AUDIT_STEPS,
    FULL_AUDIT,
    AnchorPolicy,
    audit_p_value,
    clopper_pearson,
    suite_p_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from regauge.stats import AuditStep

_CHUNK = 250
# Larger suites get fewer runs of a chunk, or memory grows without need.
_CELLS_AT_ONCE = 40_000
_QUICK_RUNS = 60
_SIZES = (8, 40, 140, 400)
# Net points, fixed and broken cases of three wordings of one real prompt.
_SWINGS = ((14.4, 15, 5), (1.3, 15, 14), (-11.7, 12, 21))
_OTHER_WORDING = 1 / 3
_NET_WITHIN = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured number.

    Attributes:
        goal: At most or at least what; empty where the table names none.
        met: Whether the number is within its goal; None without one.
        low: Where the 95 % interval begins; None where the number is no share.
        high: Where it ends.
    """

    group: str
    what: str
    measure: str
    value: float
    runs: int
    goal: str = ""
    met: bool | None = None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        shown = f"{100 * self.value:.1f} %" if self.low is not None else f"{self.value:.2f}"
        interval = ""
        if self.low is not None and self.high is not None:
            interval = f"{100 * self.low:.1f}-{100 * self.high:.1f}"
        mark = {True: "yes", False: "NO", None: ""}[self.met]
        cells = (self.what, self.measure, shown, interval, f"{self.runs:,}", self.goal, mark)
        return f"| {' | '.join(cells)} |"


def measured(
    mix: str,
    cases: int,
    scenario: str,
    *,
    runs: int,
    policy: GatePolicy | None = None,
    seed: int = 7,
) -> SimulatedRun:
    """Run the gate on one scenario many times; one seed gives one result."""
    held = policy or GatePolicy()
    stored = held.baseline_trials_of(cases)
    chunk = max(1, min(_CHUNK, _CELLS_AT_ONCE // cases))
    parts: list[SimulatedRun] = []
    for start in range(0, runs, chunk):
        rng = np.random.default_rng([seed, cases, start, *scenario.encode(), *mix.encode()])
        p = draw_suites(rng, mix, min(chunk, runs - start), cases)
        record = rng.binomial(stored, p)
        world = world_of(rng, scenario, p, mix)
        parts.append(
            simulate(
                held,
                (record, np.full_like(record, stored)),
                RandomTrials(rng, world.main, world.candidate),
            )
        )
    names = SimulatedRun.__dataclass_fields__
    return SimulatedRun(
        **{name: np.concatenate([getattr(one, name) for one in parts]) for name in names}
    )


def share(
    group: str,
    what: str,
    measure: str,
    hits: Sequence[bool] | np.ndarray,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Row:
    """A share of runs, with its interval and goal in percent."""
    found = np.asarray(hits)
    count, runs = int(found.sum()), int(found.size)
    interval = clopper_pearson(count, runs)
    value = count / runs
    goal, met = "", None
    if at_most is not None:
        goal, met = f"at most {at_most:g} %", 100 * value <= at_most
    elif at_least is not None:
        goal, met = f"at least {at_least:g} %", 100 * value >= at_least
    return Row(
        group=group,
        what=what,
        measure=measure,
        value=value,
        runs=runs,
        goal=goal,
        met=met,
        low=interval.low,
        high=interval.high,
    )


def _mean(group: str, what: str, measure: str, values: np.ndarray, *, at_most: float) -> Row:
    value = float(np.mean(values))
    return Row(
        group=group,
        what=what,
        measure=measure,
        value=value,
        runs=len(values),
        goal=f"at most {at_most:g}",
        met=value <= at_most,
    )


def unchanged(runs: int) -> Iterator[Row]:
    """An unchanged prompt under an unchanged provider."""
    calls = {8: 14.5, 40: 3.7, 140: 1.35}
    for mix in ("typical", "0/1", "flaky", "very flaky"):
        for cases in _SIZES:
            # The number of calls has a long tail.
            more = 3 if mix in {"typical", "flaky"} and cases <= 140 else 1
            played = measured(mix, cases, "unchanged", runs=more * runs)
            what = f"unchanged, {mix}, n = {cases}"
            yield share("unchanged", what, "rejected", played.blocked, at_most=1.5)
            bound = calls.get(cases) if mix == "typical" else None
            if (mix, cases) == ("flaky", 140):
                bound = 1.7
            if bound is not None:
                each = played.calls / cases
                yield _mean("unchanged", what, "calls per case", each, at_most=bound)


def drift(runs: int) -> Iterator[Row]:
    """An unchanged prompt under a provider that is worse today."""
    days = ("drift:2", "drift:5", "drift:10", "drift-logit:-0.3", "drift-logit:-0.5")
    days += (
        "drift-logit:-1",
        "mood:-0.5",
        "mood:-1",
        "mood:-2",
        "moods:0.3",
        "moods:0.6",
        "sag:10",
    )
    for day in days:
        for cases in _SIZES:
            played = measured("typical", cases, day, runs=runs)
            what = f"unchanged, {day}, n = {cases}"
            yield share("drift", what, "rejected", played.blocked, at_most=5)


def found(runs: int) -> Iterator[Row]:
    """Losses that are to be found."""
    goals = {
        "drop:10": ((8, 90), (40, 97), (140, 99)),
        "drop:5": ((8, None), (40, None), (140, 91)),
        "logit:5": ((40, None), (140, 84)),
        "flaky:5": ((40, None), (140, 86)),
        "drop:2": ((140, None), (400, None)),
        "broken:1": ((8, None), (140, None)),
        "half:1": ((8, None), (140, None)),
        "today:80": ((140, 97),),
        "today:60": ((140, 96),),
        "today:40": ((140, 78),),
        "today:20": ((140, None),),
        "drift+drop:10": ((140, None),),
    }
    for scenario, sizes in goals.items():
        for cases, goal in sizes:
            played = measured("typical", cases, scenario, runs=runs)
            what = f"{scenario}, n = {cases}"
            yield share("found", what, "rejected", played.blocked, at_least=goal)
            if played.undecided.any():
                yield share("found", what, "undecided", played.undecided)
    for percent in (60, 40, 20):
        played = measured("typical", 140, f"today-alike:{percent}", runs=runs)
        what = f"today-alike:{percent}, n = 140"
        yield share("found", what, "rejected", played.blocked, at_most=2)


def rewordings(runs: int) -> Iterator[Row]:
    """Rewordings of a suite of 100 cases: a third re-rolled, the net as named."""
    for points in (-14, -11, -5, -3, -1, 0, 1, 3, 8, 14):
        played = measured("exam", 100, f"reword:{points}", runs=runs)
        what = f"reword, {points:+d} points, n = 100"
        better = 85 if points >= 3 else None
        yield share("rewordings", what, "accepted", played.accepted, at_least=better)
        yield share("rewordings", what, "undecided", played.undecided)
        worse = 95 if points <= -11 else None
        yield share("rewordings", what, "rejected", played.blocked, at_least=worse)


def swings(runs: int) -> Iterator[Row]:
    """Rewordings of a suite of 100 cases that fix and break so many cases, with the net named."""
    for points, fixed, broken in _SWINGS:
        for mix in ("exam", "wavering"):
            played = measured(mix, 100, f"swing:{fixed}/{broken}/{points}", runs=runs)
            what = f"{points:+g} points, {fixed} fixed, {broken} broken, {mix}, n = 100"
            better = 85 if points > 0 else None
            yield share("swings", what, "accepted", played.accepted, at_least=better)
            yield share("swings", what, "undecided", played.undecided)
            worse = 95 if points <= -11 else None
            yield share("swings", what, "rejected", played.blocked, at_least=worse)


def real_swings(runs: int) -> Iterator[Row]:
    """The same with pass rates of recorded completions of GPT-4o, which are near 0 and 1."""
    for points in (-14, -11, 1.3, 3, 8, 14):
        rng = np.random.default_rng([5, round(10 * points) + 1000])
        pairs = [_real_pair(rng, points / 100, cases=100) for _ in range(runs)]
        p, q = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
        played = _played(rng, p, q)
        fixed, broken = ((q - p > 0.5).sum(axis=1).mean(), (p - q > 0.5).sum(axis=1).mean())
        what = f"{points:+g} points, {fixed:.0f} fixed, {broken:.0f} broken, recorded, n = 100"
        better = 85 if points > 0 else None
        yield share("real swings", what, "accepted", played.accepted, at_least=better)
        yield share("real swings", what, "undecided", played.undecided)
        worse = 95 if points <= -11 else None
        yield share("real swings", what, "rejected", played.blocked, at_least=worse)


def _played(rng: np.random.Generator, p: np.ndarray, q: np.ndarray) -> SimulatedRun:
    """The gate on suites that pass with `p` on main and with `q` in the change."""
    policy = GatePolicy()
    stored = policy.baseline_trials_of(p.shape[1])
    record = rng.binomial(stored, p)
    chances = RandomTrials(rng, lambda _: p, lambda _: q)
    return simulate(policy, (record, np.full_like(record, stored)), chances)


def _real_pair(
    rng: np.random.Generator, net: float, *, cases: int
) -> tuple[np.ndarray, np.ndarray]:
    """Two wordings: a third of the cases gets another case's rate, and more until the net fits."""
    rates = np.concatenate([passes_of(task).mean(axis=1) for task in TASKS])
    p = rng.choice(rates, cases)
    q = np.where(rng.random(cases) < _OTHER_WORDING, rng.choice(rates, cases), p)
    for case in rng.permutation(cases):
        missing = net * cases - (q - p).sum()
        if abs(missing) < _NET_WITHIN:
            break
        fits = rates[(rates > q[case]) if missing > 0 else (rates < q[case])]
        if fits.size:
            q[case] = rng.choice(fits)
    return p, q


def reruns(runs: int) -> Iterator[Row]:
    """What recording again and running again win: fresh trials are kept, undecided is no accept."""
    for cases, goal in ((8, 6.0), (40, 2.0), (140, 1.0)):
        played = measured("typical", cases, "drop:10", runs=runs)
        what = f"drop:10, recorded 5 times, then a gate with a key, n = {cases}"
        yield share("reruns", what, "accepted", played.accepted, at_most=goal)
    played = measured("typical", 140, "drop:10", runs=runs)
    what = "drop:10, same change, 5 runs, n = 140"
    yield share("reruns", what, "accepted or undecided", ~played.blocked, at_most=1)


def audits(runs: int) -> Iterator[Row]:
    """Recordings of every first trial, audited by three steps or by the first round of a gate."""
    goals = {8: 65, 40: 68, 140: 82}
    for cases in (8, 40, 140):
        for name, steps in (("three steps", AUDIT_STEPS), ("first round", FULL_AUDIT)):
            for drop, again, day in ((0, 0, 0), (0, 0, 5), (10, 5, 0)):
                hits, calls = _audited(cases, drop, again, day, steps, runs=runs)
                what = f"audit, {name}, n = {cases}: " + (
                    f"recorded {again} times at -{drop} points" if again else "honest"
                )
                what += f", provider {-day} points" if day else ""
                three = steps is AUDIT_STEPS
                if again:
                    goal = goals[cases] if three else None
                    yield share("audit", what, "found", hits, at_least=goal)
                else:
                    goal = (4 if day else 1) if three else None
                    yield share("audit", what, "accused", hits, at_most=goal)
                    if three and not day:
                        yield _mean("audit", what, "calls per recorded trial", calls, at_most=0.3)


def _audited(
    cases: int, drop: float, again: int, day: float, steps: Sequence[AuditStep], *, runs: int
) -> tuple[np.ndarray, np.ndarray]:
    """Whether recordings are accused in each run, and calls per recorded trial."""
    rng = np.random.default_rng([3, cases, int(drop), again, int(day)])
    policy = GatePolicy()
    first, stored = policy.first_trials_of(cases), policy.baseline_trials_of(cases)
    p = draw_suites(rng, "typical", runs, cases)
    q = np.repeat(lowered(p, drop), first, axis=1)
    recorded = np.logical_or.reduce([rng.random(q.shape) < q for _ in range(1 + again)])
    fresh = rng.random(q.shape) < lowered(q, day)
    order = rng.random(q.shape)
    hits, calls = np.zeros(runs, dtype=np.bool_), np.zeros(runs)
    for run in range(runs):
        drawn = np.zeros(q.shape[1], dtype=np.bool_)
        for step in steps:
            passes, fails = step.shares(q.shape[1])
            drawn = order[run] < np.where(recorded[run], float(passes), float(fails))
            worse = int((recorded[run] & ~fresh[run] & drawn).sum())
            better = int((~recorded[run] & fresh[run] & drawn).sum())
            value = audit_p_value(worse, better, passed=passes, failed=fails)
            hits[run] = value <= step.level
            if hits[run] or value > step.further:
                break
        calls[run] = drawn.mean()
    # Main once more where recordings are accused: if it is below its record, the day is to blame.
    today = rng.binomial(first, lowered(p, day))
    down = suite_p_value(rng.binomial(stored, p), stored, today, first, weights=1) <= 0.05
    return hits & ~down, calls


def erosion(runs: int) -> Iterator[Row]:
    """Ten changes of -1 point, and twenty honest updates, against one anchor."""
    for cases in (8, 40, 140):
        for name, by_logit in (("points", False), ("logit", True)):
            seen = _updated(cases, updates=10, step=1.0, by_logit=by_logit, runs=runs)
            what = f"ten changes of -1 point by {name}, n = {cases}"
            goal = 5 if cases > 8 else None
            yield share("erosion", what, "unseen", ~seen, at_most=goal)
        alarms = _updated(cases, updates=20, step=0.0, by_logit=False, runs=runs)
        yield share("erosion", f"twenty honest updates, n = {cases}", "alarm", alarms, at_most=2)


def _updated(cases: int, *, updates: int, step: float, by_logit: bool, runs: int) -> np.ndarray:
    """In which chains of updates a loss against the anchor is confirmed."""
    rng = np.random.default_rng([9, cases, int(10 * step), by_logit])
    policy = AnchorPolicy()
    trials = GatePolicy().baseline_trials_of(cases)
    p = draw_suites(rng, "typical", runs, cases)
    anchored = policy.trials_of(cases, baseline_trials=trials)
    kept = rng.binomial(anchored, p), np.full(p.shape, anchored)
    seen = np.zeros(runs, dtype=np.bool_)
    for update in range(1, updates + 1):
        q = lowered_by_logit(p, step * update) if by_logit and step else lowered(p, step * update)
        new = rng.binomial(trials, q)
        asked = (suite_p_value(*kept, new, trials) <= policy.trigger) & ~seen
        rows = np.nonzero(asked)[0]
        if rows.size:
            today = rng.binomial(trials, p[rows])
            kept[0][rows], kept[1][rows] = today, trials
            sure = suite_p_value(today, trials, new[rows], trials) <= policy.confirm
            seen[rows[sure]] = True
    return seen


GROUPS = {
    "unchanged": unchanged,
    "drift": drift,
    "found": found,
    "rewordings": rewordings,
    "swings": swings,
    "real swings": real_swings,
    "reruns": reruns,
    "audit": audits,
    "erosion": erosion,
}


def main() -> int:
    """Measure and print."""
    asked = _arguments()
    if asked.cell:
        return _one_cell(asked)
    runs = _QUICK_RUNS if asked.quick else asked.runs
    rows: list[Row] = []
    output = asked.output.open("w", encoding="utf-8") if asked.output else None
    start = time.monotonic()
    print("| what | measure | value | 95 % interval, % | runs | goal | met |", flush=True)
    print("|---|---|--:|--:|--:|---|---|", flush=True)
    for name in asked.only or GROUPS:
        for row in GROUPS[name](runs):
            rows.append(row)
            print(row, flush=True)
            if output is not None:
                output.write(json.dumps(asdict(row)) + "\n")
                output.flush()
    missed = [row for row in rows if row.met is False]
    print(
        f"\n{len(rows)} numbers, {len(missed)} beyond their goal, {time.monotonic() - start:.0f} s"
    )
    # A quick look has too few runs to hold a number against its goal.
    return 1 if missed and not asked.quick else 0


def _one_cell(asked: argparse.Namespace) -> int:
    mix, cases, scenario = asked.cell
    if mix not in MIXES:
        raise SystemExit(f"no mix {mix!r}; there are: {', '.join(MIXES)}")
    played = measured(mix, int(cases), scenario, runs=asked.runs, seed=asked.seed)
    document = {
        "mix": mix,
        "cases": int(cases),
        "scenario": scenario,
        "runs": asked.runs,
        "rejected": float(np.mean(played.blocked)),
        "undecided": float(np.mean(played.undecided)),
        "calls_per_case": float(np.mean(played.calls)) / int(cases),
    }
    if asked.json:
        print(json.dumps(document, indent=2))
        return 0
    for name in ("rejected", "undecided"):
        hits = getattr(played, "blocked" if name == "rejected" else name)
        print(share("cell", f"{scenario}, {mix}, n = {cases}", name, hits))
    print(f"calls per case: {document['calls_per_case']:.2f}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a look at everything, in few runs")
    parser.add_argument("--runs", type=int, default=600, help="of each cell")
    parser.add_argument("--only", nargs="+", choices=GROUPS, help="groups of the table")
    parser.add_argument("--output", type=Path, help="write every number as a line of JSON")
    parser.add_argument(
        "--cell", nargs=3, metavar=("MIX", "CASES", "SCENARIO"), help="one cell in place of all"
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="one cell as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
