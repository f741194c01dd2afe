"""What has been drawn for one case in this run, and how it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from regauge.gate._types import NONE_DRAWN, Count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from regauge.gate._types import Arm, GateCase, History, NotRecorded, TrialFacts

# A trial that was asked for and has not come yet.
_WAITING = "waiting"


class Drawn:
    """The trials of one case, by arm and number.

    Attributes:
        case: Whose trials they are.
        seeds: How many of main's first trials stand in for a history that there is none of.
        own: How many trials of each arm were drawn for the case itself, before those for the
            suite; None while that is not settled.
    """

    __slots__ = ("_arms", "_kept", "_kept_varies", "case", "own", "seeds")

    def __init__(self, case: GateCase, *, first_history: int) -> None:
        kept = case.history
        self.case = case
        self._kept = kept if kept is not None and trials_of(kept) else None
        self.seeds = first_history if self._kept is None and case.state == "changed" else 0
        self._kept_varies = (
            kept is not None
            and kept.distinct_answers > 1
            and varies(kept.distinct_answers, trials_of(kept))
        )
        self.own: dict[Arm, int] | None = None
        self._arms: dict[Arm, list[TrialFacts | NotRecorded | str | None]] = {
            "candidate": [],
            "main": [],
        }

    def ask(self, arm: Arm, stop: int) -> range:
        """Want all trials below a number; those not wanted before are returned."""
        trials = self._arms[arm]
        new = range(len(trials), max(stop, len(trials)))
        trials.extend([_WAITING] * len(new))
        return new

    def settle(self) -> None:
        """Say that what is drawn from now on is drawn for the suite."""
        self.own = {arm: len(trials) for arm, trials in self._arms.items()}

    def asked(self, arm: Arm) -> int:
        """How many trials of an arm have been asked for."""
        return len(self._arms[arm])

    def waits_for(self, arm: Arm, number: int) -> bool:
        """Whether a trial was asked for and has not come."""
        trials = self._arms[arm]
        return 0 <= number < len(trials) and trials[number] is _WAITING

    def take(self, arm: Arm, number: int, facts: TrialFacts | NotRecorded | None) -> None:
        """Keep one trial."""
        self._arms[arm][number] = facts

    def gaps(self, arm: Arm, start: int = 0, stop: int | None = None) -> tuple[int, int]:
        """How many trials could not be measured, and how many are not recorded.

        A trial that is still waited for counts as not measured.
        """
        trials = self._arms[arm][start:stop]
        not_recorded = trials.count("not-recorded")
        return trials.count(None) + trials.count(_WAITING), not_recorded

    def facts(self, arm: Arm, start: int = 0, stop: int | None = None) -> Iterator[TrialFacts]:
        """The measured trials of an arm, by number."""
        for trial in self._arms[arm][start:stop]:
            if trial is not None and not isinstance(trial, str):
                yield trial

    def candidate(self, check: str | None = None, stop: int | None = None) -> Count:
        """The candidate's trials that count, of one check or of all together."""
        return self._count(self._independent("candidate", 0, stop), check)

    def today(self, check: str | None = None, stop: int | None = None) -> Count:
        """Main's trials of this run that count, without those that stand in for a history."""
        if len(self._arms["main"]) <= self.seeds:
            return NONE_DRAWN
        upto = None if stop is None else self.seeds + stop
        return self._count(self._independent("main", self.seeds, upto), check)

    def history(self, check: str | None = None) -> Count:
        """Main's trials before today's, of one check or of all together."""
        kept = self._kept
        if kept is None:
            return self._count(self.facts("main", 0, self.seeds), check)
        if check is None:
            return kept.whole
        return kept.checks.get(check, NONE_DRAWN)

    def history_scores(self, check: str) -> Sequence[float]:
        """Main's scores before today's."""
        kept = self._kept
        if kept is None:
            return self.scores("main", check, 0, self.seeds)
        return kept.scores.get(check, ())

    def scores(
        self, arm: Arm, check: str, start: int = 0, stop: int | None = None
    ) -> Sequence[float]:
        """The scores of measured trials, by number."""
        found = (facts.scores.get(check) for facts in self.facts(arm, start, stop))
        return [score for score in found if score is not None]

    @property
    def stored(self) -> bool:
        """Whether main has a history from before this run."""
        return self._kept is not None

    def repeated(self, stop: int | None) -> int:
        """How many of the candidate's trials repeat an answer and do not count."""
        measured = sum(1 for _ in self.facts("candidate", 0, stop))
        return measured - sum(1 for _ in self._independent("candidate", 0, stop))

    def _independent(self, arm: Arm, start: int, stop: int | None) -> Iterator[TrialFacts]:
        """Measured trials; an answer out of a cache is the same trial and comes once."""
        if not self._cached():
            yield from self.facts(arm, start, stop)
            return
        seen = {facts.answer for facts in self.facts(arm, 0, start)}
        for facts in self.facts(arm, start, stop):
            if not facts.answer or facts.answer not in seen:
                yield facts
            seen.add(facts.answer)

    def _cached(self) -> bool:
        """Whether answers repeat today that hardly ever did.

        Main's answers tell: a broken prompt may well say the same every time, and a label is the
        same by nature. Nothing is named before main was drawn again, so this is known in time.
        """
        if not self._kept_varies:
            return False
        answers = [facts.answer for facts in self.facts("main", self.seeds) if facts.answer]
        return len(answers) > 1 and not varies(len({*answers}), len(answers))

    @staticmethod
    def _count(trials: Iterator[TrialFacts], check: str | None) -> Count:
        passed = drawn = 0
        for facts in trials:
            verdict = facts.passed if check is None else facts.checks.get(check)
            if verdict is not None:
                drawn += 1
                passed += verdict
        return Count(passed=passed, trials=drawn)


class Request(NamedTuple):
    """All trials of one arm of a case below a number."""

    drawn: Drawn
    arm: Arm
    stop: int


def trials_of(history: History) -> int:
    """How many trials a history has: as many as its most often judged check."""
    return max([history.whole.trials, *(count.trials for count in history.checks.values())])


def varies(distinct: int, trials: int) -> bool:
    """Whether most answers were different.

    >>> varies(12, 12), varies(2, 12), varies(1, 2)
    (True, False, False)
    """
    return 2 * distinct > trials
