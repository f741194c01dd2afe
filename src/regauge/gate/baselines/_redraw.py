"""Whether main still fares as its history says: a few fresh trials, held against the stored ones.

What is tested is what the gate tests, with main of today in the place of a candidate: each case by
its e-value, drawn on while that decides nothing, and all cases together by permutation.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from math import exp, inf
from typing import TYPE_CHECKING

from regauge.gate._types import NONE_DRAWN, GateCase
from regauge.gate.baselines._compare import CellChange
from regauge.gate.engine import CaseStage, Drawn, End, Request, SuiteStage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from regauge.gate._outcome import RoundReport
    from regauge.gate._policy import GatePolicy
    from regauge.gate._types import Count, TrialFacts
    from regauge.gate.baselines._baseline import StoredHistory

__all__ = ["Drift", "Redraw"]

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
        by_scores = any(p <= self.suite.score_bound for p in self.suite.scores.values())
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
        checks = tuple(sorted(history.key.judges))
        known = {case: history.history(case, digest) for case, digest in sorted(digests.items())}
        self._history = history
        self._drawn = [
            Drawn(GateCase(prompt=prompt, case=case, checks=checks, history=kept), first_history=1)
            for case, kept in known.items()
            if kept is not None
        ]
        # Main is the candidate here, so there is nobody to be drawn beside it.
        alone = replace(policy.case, control_min=0, serious=inf)
        self._policy = replace(policy, case=alone, first_draws=trials)
        self._prompt = prompt
        self._prompts = prompts
        self._by_case = {one.case.case: one for one in self._drawn}
        self._cases: CaseStage | None = None
        self._suite: SuiteStage | None = None

    def waves(self) -> Iterator[list[tuple[str, int]]]:
        """Cases and numbers of trials, from 0; each wave is taken before the next is asked for."""
        first = self._policy.first_draws
        yield _asked([Request(one, "candidate", first) for one in self._drawn])
        self._cases = CaseStage(self._drawn, self._policy)
        for wave in self._cases.waves():
            yield _asked(wave)
        self._suite = SuiteStage(self._prompt, self._drawn, self._policy, prompts=self._prompts)
        # One round of what is there; no further ones, and no control.
        deque(self._suite.waves(blocked=True), maxlen=0)

    def take(self, case: str, number: int, facts: TrialFacts | None) -> None:
        """Take in a trial; None where it could not be measured."""
        self._by_case[case].take("candidate", number, facts)

    def drift(self, *, served: Collection[str]) -> Drift:
        """What all trials came to.

        Args:
            served: Who answered, as the provider says it.
        """
        rounds = self._suite.report().rounds if self._suite is not None else ()
        first = self._policy.first_draws
        known = self._history.served
        another = bool(known and served) and known.isdisjoint(served)
        return Drift(
            changes=tuple(self._changes()),
            before=sum((one.history() for one in self._drawn), NONE_DRAWN),
            now=sum((one.candidate(stop=first) for one in self._drawn), NONE_DRAWN),
            suite=rounds[0] if rounds else None,
            served=tuple(sorted(served)) if another else (),
        )

    def _changes(self) -> Iterator[CellChange]:
        stage = self._cases
        for one, check in stage.cells if stage is not None else ():
            assert stage is not None
            found = stage.of(one, check)
            if found is None or found[0].ends[0, found[1]] != End.NAMED:
                continue
            test, column = found
            yield CellChange(
                case=one.case.case,
                check=check,
                direction="worse" if test is stage.worse else "better",
                before=one.history(check),
                now=one.candidate(check),
                e_value=exp(min(float(test.log_e[0, column]), 700.0)),
                bound=exp(float(test.log_bound[0])),
                since=_SINCE,
            )


def _asked(wave: list[Request]) -> list[tuple[str, int]]:
    return [
        (request.drawn.case.case, number)
        for request in wave
        for number in request.drawn.ask(request.arm, request.stop)
    ]
