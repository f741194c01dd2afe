"""Whether main is still as its baseline: a few fresh trials, compared with the stored ones.

Main of today takes the place of a candidate, and its record is all there is: each case is tested by
its e-value, with further trials while that decides nothing, and all cases together by permutation.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

from regauge.digests import digest_of
from regauge.gate._outcome import RoundReport
from regauge.gate._types import NONE_DRAWN, Count
from regauge.gate.baselines._compare import CellChange
from regauge.stats import e_bh, expected_failures, log_e_value, score_p_value, suite_p_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from regauge.gate._policy import GatePolicy
    from regauge.gate._types import History, TrialFacts
    from regauge.gate.baselines._baseline import StoredHistory
    from regauge.stats import Direction

__all__ = ["Drift", "Redraw"]

# The error rate of calling all cases together worse, in one night.
_SUITE_ALPHA = 0.005
_SINCE = "when the baseline was drawn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What fresh trials of main say of its history.

    Attributes:
        changes: The cells that surely fare otherwise than their history.
        before: All trials of the history, together.
        now: The first fresh trials of every case, together.
        suite: How likely so many failures are if nothing changed; None where there is nothing to
            hold them against.
        served: Who answers now, where nobody of them ever answered before; empty else.
    """

    changes: tuple[CellChange, ...]
    before: Count
    now: Count
    suite: RoundReport | None
    served: tuple[str, ...] = ()

    @property
    def worse(self) -> bool:
        """Whether main surely fares worse than its history, by a case or by all together."""
        return self.suite_worse or any(change.direction == "worse" for change in self.changes)

    @property
    def suite_worse(self) -> bool:
        """Whether all cases together, or their scores, surely fare worse."""
        if self.suite is None:
            return False
        by_scores = any(p <= self.suite.bound for p in self.suite.scores.values())
        return self.suite.p_value <= self.suite.bound or by_scores

    @property
    def stale(self) -> bool:
        """Whether the history says nothing of main of today any more."""
        return self.worse or bool(self.changes) or bool(self.served)


class Redraw:
    """The trials that one history asks for, wave by wave, and what they come to.

    Args:
        history: A complete one.
        digests: The digest of each case as it is now, by its id.
        policy: What a change of the prompt would be held to.
        prompt: Its name.
        trials: How many of each case are drawn at first; suspects are drawn on.
        prompts: How many are tested together; they share the error rate of the suite.
    """

    def __init__(
        self,
        history: StoredHistory,
        digests: Mapping[str, str],
        policy: GatePolicy,
        *,
        prompt: str,
        trials: int,
        prompts: int = 1,
    ) -> None:
        self._history = history
        self._policy = policy
        self._prompt = prompt
        self._first = trials
        self._prompts = prompts
        self._checks = tuple(sorted(history.key.judges))
        known = {case: history.history(case, digest) for case, digest in sorted(digests.items())}
        self._kept = {case: kept for case, kept in known.items() if kept is not None}
        self._trials: dict[str, list[TrialFacts | None]] = {case: [] for case in self._kept}
        self._changes: tuple[CellChange, ...] = ()

    def waves(self) -> Iterator[list[tuple[str, int]]]:
        """Cases and numbers of trials, from 0; each wave is taken before the next is requested."""
        yield self._ask(self._kept, self._first)
        suspects = self._suspects()
        least = self._policy.case.suspect
        for step in self._policy.case.steps:
            self._changes, suspects = self._weigh(suspects, least=least)
            least = self._policy.case.clear
            if not suspects:
                return
            yield self._ask(dict.fromkeys(case for case, _, _ in suspects), step)
        self._changes, _ = self._weigh(suspects, least=least)

    def take(self, case: str, number: int, facts: TrialFacts | None) -> None:
        """Take in a trial; None where it could not be measured."""
        self._trials[case][number] = facts

    def drift(self, *, served: Collection[str]) -> Drift:
        """What all trials came to.

        Args:
            served: Who answered, as the provider says it.
        """
        known = self._history.served
        another = bool(known and served) and known.isdisjoint(served)
        now = [self._count(case, None, stop=self._first) for case in self._kept]
        return Drift(
            changes=self._changes,
            before=sum((kept.whole for kept in self._kept.values()), NONE_DRAWN),
            now=sum(now, NONE_DRAWN),
            suite=self._suite(now) if any(count.trials for count in now) else None,
            served=tuple(sorted(served)) if another else (),
        )

    def _ask(self, cases: Collection[str], trials: int) -> list[tuple[str, int]]:
        wave: list[tuple[str, int]] = []
        for case in cases:
            start = len(self._trials[case])
            self._trials[case] += [None] * trials
            wave += [(case, number) for number in range(start, start + trials)]
        return wave

    def _suspects(self) -> list[tuple[str, str, Direction]]:
        found: list[tuple[str, str, Direction]] = []
        for case, kept in self._kept.items():
            for check in self._checks:
                before, now = kept.checks.get(check, NONE_DRAWN), self._count(case, check)
                if now.failed and before.passed:
                    found.append((case, check, "worse"))
                elif now.trials and not now.failed and self._seldom(before):
                    found.append((case, check, "better"))
        return found

    def _seldom(self, before: Count) -> bool:
        return before.trials > 0 and before.rate <= self._policy.improved_at_most

    def _weigh(
        self, suspects: Sequence[tuple[str, str, Direction]], *, least: float
    ) -> tuple[tuple[CellChange, ...], list[tuple[str, str, Direction]]]:
        """What has changed for certain so far, and which suspects need further trials."""
        changes = list(self._changes)
        left: list[tuple[str, str, Direction]] = []
        family = max(1, len(self._kept) * len(self._checks))
        directions: tuple[Direction, ...] = ("worse", "better")
        for direction in directions:
            own = [one for one in suspects if one[2] == direction]
            if not own:
                continue
            before = [self._kept[case].checks.get(check, NONE_DRAWN) for case, check, _ in own]
            now = [self._count(case, check) for case, check, _ in own]
            evidence = log_e_value(
                [count.passed for count in before],
                [count.trials for count in before],
                [count.passed for count in now],
                [count.trials for count in now],
                direction=direction,
            )
            named = [log(c.e_value) for c in changes if c.direction == direction]
            together = np.concatenate([named, evidence])
            bound = float(
                e_bh(together, alpha=self._policy.case.alpha, cells=family).log_bound.item()
            )
            for one, old, new, log_e in zip(own, before, now, evidence.tolist(), strict=True):
                case, check, _ = one
                if log_e >= bound:
                    changes.append(
                        CellChange(
                            case=case,
                            check=check,
                            direction=direction,
                            before=old,
                            now=new,
                            e_value=exp(min(log_e, 700.0)),
                            bound=round(exp(bound), 6),
                            since=_SINCE,
                        )
                    )
                elif log_e >= log(least) and None not in self._trials[case]:
                    left.append(one)
        return tuple(changes), left

    def _suite(self, now: Sequence[Count]) -> RoundReport:
        kept = list(self._kept.values())
        main = [one.whole.passed for one in kept], [one.whole.trials for one in kept]
        candidate = [count.passed for count in now], [count.trials for count in now]
        graded = sorted(
            check
            for check in self._checks
            if any(0 < score < 1 for one in kept for score in one.scores.get(check, ()))
        )
        return RoundReport(
            trials=self._first,
            drawn=sum(candidate[1]),
            fails=sum(count.failed for count in now),
            expected=float(expected_failures(*main, candidate[1])),
            p_value=float(suite_p_value(*main, *candidate)),
            bound=_SUITE_ALPHA / self._prompts / (1 + len(graded)),
            scores={check: self._score_p_value(check, kept) for check in graded},
        )

    def _score_p_value(self, check: str, kept: Sequence[History]) -> float:
        seed = int(digest_of({"prompt": self._prompt, "check": check})[:8], 16)
        now = [
            [
                facts.scores[check]
                for facts in self._trials[case][: self._first]
                if facts is not None and check in facts.scores
            ]
            for case in self._kept
        ]
        before = [one.scores.get(check, ()) for one in kept]
        return score_p_value(before, now, seed=seed, min_effect=self._policy.min_effect)

    def _count(self, case: str, check: str | None, *, stop: int | None = None) -> Count:
        verdicts = [
            facts.passed if check is None else facts.checks.get(check)
            for facts in self._trials[case][:stop]
            if facts is not None
        ]
        passed = verdicts.count(True)
        return Count(passed=passed, trials=len(verdicts) - verdicts.count(None))
