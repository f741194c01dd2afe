"""Whether the cases of a run can confirm any edit at all, said before further trials are paid."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING

from regauge.wording import plural

if TYPE_CHECKING:
    from regauge.refine.analysis import Cluster
    from regauge.refine.loop._state import Setting, State

# Checks that pass less often than this show a prompt that is broken, not one that is noisy.
_NOISY_FROM = 0.5
_STEPS = 20
_CASES_MAX = 200


def can_confirm(setting: Setting, state: State, cluster: Cluster) -> bool:
    """Whether an edit that makes the check as good as other ones would be confirmed."""
    return _p_at(setting, state, cluster, _ceiling(setting, state, cluster)) <= _bound(setting)


def underpowered_text(setting: Setting, state: State, cluster: Cluster) -> str:
    """What cannot be confirmed, and what would help."""
    now = 1 - cluster.failures / cluster.trials
    best = _ceiling(setting, state, cluster)
    least = _least_gain(setting, state, cluster)
    gain = f"at least {100 * least:.0f} points" if least is not None else "more than there are"
    more = _cases_needed(setting, state, cluster, best)
    help_ = f"about {more} train cases with this check" if more else "a steadier check"
    return (
        f"{cluster.check} passes {100 * now:.0f} % of trials and at best about {100 * best:.0f} %;"
        f" with {plural(len(cluster.cases), 'train case')} no edit that gains"
        f" {100 * max(0.0, best - now):.0f} points can be confirmed, it takes {gain};"
        f" {help_} would do"
    )


def _bound(setting: Setting) -> float:
    """The p-value that the first edit has to reach at one look."""
    test = setting.policy.test
    return test.alpha * 6 / math.pi**2 / test.looks


def _ceiling(setting: Setting, state: State, cluster: Cluster) -> float:
    """How often the check may pass at best: as often as the better half of the others."""
    digest = state.text.digest
    rates = [
        count.rate
        for name in state.tally.checks(digest, setting.train)
        if name != cluster.check and (count := state.tally.over(digest, setting.train, name)).trials
    ]
    better = sorted(rates)[len(rates) // 2 :]
    best = fmean(better) if better else 1.0
    now = 1 - cluster.failures / cluster.trials
    return best if len(rates) > 1 and best >= _NOISY_FROM and now < best else 1.0


def _p_at(
    setting: Setting, state: State, cluster: Cluster, rate: float, times: float = 1.0
) -> float:
    """The p-value of the last look at an edit that passes this share of the trials.

    Args:
        setting: With the trials of a look.
        state: With what the cases did so far.
        cluster: What fails.
        rate: The share that passes with the edit.
        times: How many times as many cases there would be.
    """
    from regauge.stats import suite_p_value

    test, digest = setting.policy.test, state.text.digest
    counts = [state.tally.check(digest, case, cluster.check) for case in cluster.cases]
    counts = [count for count in counts if count.trials]
    if not counts:
        return 1.0
    counts = (counts * math.ceil(times))[: max(1, round(len(counts) * times))]
    old = max(test.baseline_trials, counts[0].trials) + test.looks - 1
    new = test.looks * test.look_trials
    passed = _spread(rate * new * len(counts), len(counts), new)
    return float(
        suite_p_value(
            [round(count.rate * old) for count in counts],
            [old] * len(counts),
            passed,
            [new] * len(counts),
            direction="better",
            weights=1,
        )
    )


def _spread(total: float, cases: int, each: int) -> list[int]:
    """So many passes, dealt evenly to the cases."""
    whole, more = divmod(min(round(total), cases * each), cases)
    return [whole + (n < more) for n in range(cases)]


def _least_gain(setting: Setting, state: State, cluster: Cluster) -> float | None:
    """The smallest gain that would be confirmed; None where not even a perfect edit would."""
    now = 1 - cluster.failures / cluster.trials
    for step in range(1, _STEPS + 1):
        gain = (1 - now) * step / _STEPS
        if _p_at(setting, state, cluster, now + gain) <= _bound(setting):
            return gain
    return None


def _cases_needed(setting: Setting, state: State, cluster: Cluster, rate: float) -> int:
    """How many cases like these would confirm it; 0 where so many as are tried would not."""
    times = 1.0
    while len(cluster.cases) * times <= _CASES_MAX:
        times *= 1.5
        if _p_at(setting, state, cluster, rate, times) <= _bound(setting):
            return math.ceil(len(cluster.cases) * times)
    return 0
