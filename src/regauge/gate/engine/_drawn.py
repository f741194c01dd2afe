"""The trials of one case in this run, and how they count."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from regauge.evidence import NONE_DRAWN, Count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from regauge.gate._types import Arm, GateCase, History, NotRecorded, TrialFacts

# A trial that was requested and has not come yet.
_WAITING = "waiting"


class Request(NamedTuple):
    """All trials of one arm of a case below a number.

    Attributes:
        paired: Whether the trials run next to those of the other arm in the same wave.
    """

    drawn: Drawn
    arm: Arm
    stop: int
    paired: bool = False


class Drawn:
    """The trials of one case, by arm and number.

    Attributes:
        case: Whose trials they are.
        first: Trials of the candidate in the first round.
        seeds: How many of main's first trials replace a history that is missing.
        replay: Whether trials of the first round may be missing where some are recorded.
        pairs: Numbers of trials that the case test drew side by side: the candidate's and main's.
        own: How many trials of the candidate belong to the case itself, before those for the
            suite; None while that is open.
    """

    __slots__ = (
        "_arms",
        "_kept",
        "_kept_varies",
        "_new",
        "case",
        "first",
        "own",
        "pairs",
        "replay",
        "seeds",
    )

    def __init__(self, case: GateCase, *, first: int, seeds: int, replay: bool = False) -> None:
        kept = case.history
        self.case = case
        self._kept = kept if kept is not None and trials_of(kept) else None
        self.first = first
        self.seeds = seeds if self._kept is None and case.state == "changed" else 0
        self.replay = replay
        self.pairs: list[tuple[range, range]] = []
        self._kept_varies = (
            kept is not None
            and kept.distinct_answers > 1
            and varies(kept.distinct_answers, trials_of(kept))
        )
        self.own: int | None = None
        self._arms: dict[Arm, list[TrialFacts | NotRecorded | str | None]] = {
            "candidate": [],
            "main": [],
        }
        self._new: dict[Arm, frozenset[int]] | None = None

    def ask(self, arm: Arm, stop: int) -> range:
        """Request all trials below a number; those not requested before are returned."""
        trials = self._arms[arm]
        new = range(len(trials), max(stop, len(trials)))
        trials.extend([_WAITING] * len(new))
        return new

    def more(self, trials: int, *, pairs: bool) -> list[Request]:
        """Further trials of the candidate for the case test, with main's next to them or not."""
        start, of_main = self.asked("candidate"), self.asked("main")
        if not pairs:
            return [Request(self, "candidate", start + trials)]
        self.pairs.append((range(start, start + trials), range(of_main, of_main + trials)))
        return self.side_by_side(trials)

    def side_by_side(self, trials: int) -> list[Request]:
        """As many further trials of both arms, next to each other."""
        return [
            Request(self, "candidate", self.asked("candidate") + trials, paired=True),
            Request(self, "main", self.asked("main") + trials, paired=True),
        ]

    def settle(self) -> None:
        """Note that trials from now on belong to the suite."""
        self.own = len(self._arms["candidate"])

    def asked(self, arm: Arm) -> int:
        """The number of requested trials of an arm."""
        return len(self._arms[arm])

    def waits_for(self, arm: Arm, number: int) -> bool:
        """Return whether a trial was requested and has not come."""
        trials = self._arms[arm]
        return 0 <= number < len(trials) and trials[number] is _WAITING

    def take(self, arm: Arm, number: int, facts: TrialFacts | NotRecorded | None) -> None:
        """Keep one trial."""
        self._arms[arm][number] = facts
        self._new = None

    def gaps(self) -> tuple[int, int]:
        """The number of unmeasured trials of the case, and of unrecorded ones.

        A trial that is still awaited counts as not measured. Trials for the suite and the lamp do
        not count, nor does a replay's shorter first round, where any of it is recorded.
        """
        stop = self.asked("candidate") if self.own is None else self.own
        start = self.first if self.replay and any(self.facts("candidate", 0, self.first)) else 0
        candidate = self.missing("candidate", [range(start, stop)])
        main = self.missing("main", [range(self.seeds), *(main for _, main in self.pairs)])
        lost = self.missing("candidate", [range(start)])[0]
        return candidate[0] + main[0] + lost, candidate[1] + main[1]

    def missing(self, arm: Arm, numbers: Iterable[range]) -> tuple[int, int]:
        """The number of unmeasured trials among some, and of unrecorded ones."""
        trials = self._arms[arm]
        unmeasured = not_recorded = 0
        for number in chain.from_iterable(numbers):
            trial = trials[number] if number < len(trials) else _WAITING
            not_recorded += trial == "not-recorded"
            unmeasured += trial is None or trial is _WAITING
        return unmeasured, not_recorded

    def facts(self, arm: Arm, start: int = 0, stop: int | None = None) -> Iterator[TrialFacts]:
        """The measured trials of an arm, by number."""
        for trial in self._arms[arm][start:stop]:
            if trial is not None and not isinstance(trial, str):
                yield trial

    def candidate(self, check: str | None = None, stop: int | None = None) -> Count:
        """The candidate's trials that count, of one check or of all together."""
        stop = self.asked("candidate") if stop is None else stop
        return self.count("candidate", [range(stop)], check)

    def paired(self, arm: Arm, check: str | None = None) -> Count:
        """The trials of an arm that the case test drew side by side."""
        side = 0 if arm == "candidate" else 1
        return self.count(arm, [pair[side] for pair in self.pairs], check)

    def count(self, arm: Arm, numbers: Iterable[range], check: str | None = None) -> Count:
        """Some trials that count, of one check or of all together.

        A completion out of a cache is the same trial and counts once.
        """
        trials = self._arms[arm]
        new = self._uncached(arm)
        passed = drawn = 0
        for number in chain.from_iterable(numbers):
            facts = trials[number] if number < len(trials) else None
            if facts is None or isinstance(facts, str) or (new is not None and number not in new):
                continue
            verdict = facts.passed if check is None else facts.checks.get(check)
            if verdict is not None:
                drawn += 1
                passed += verdict
        return Count(passed=passed, trials=drawn) if drawn else NONE_DRAWN

    def history(self, check: str | None = None) -> Count:
        """Main's trials before today's, of one check or of all together."""
        kept = self._kept
        if kept is None:
            return self.count("main", [range(self.seeds)], check)
        if check is None:
            return kept.whole
        return kept.checks.get(check, NONE_DRAWN)

    def history_scores(self, check: str) -> Sequence[float]:
        """Main's scores before today's."""
        kept = self._kept
        if kept is None:
            return self.scores("main", check, [range(self.seeds)])
        return kept.scores.get(check, ())

    def scores(self, arm: Arm, check: str, numbers: Iterable[range]) -> list[float]:
        """The scores of measured trials, by number."""
        found = (
            facts.scores.get(check)
            for part in numbers
            for facts in self.facts(arm, part.start, part.stop)
        )
        return [score for score in found if score is not None]

    @property
    def stored(self) -> bool:
        """Return whether main has a history from before this run."""
        return self._kept is not None

    @property
    def repeated(self) -> int:
        """The candidate's own trials that repeat a completion and do not count."""
        new = self._uncached("candidate")
        if new is None:
            return 0
        stop = self.asked("candidate") if self.own is None else self.own
        measured = sum(1 for _ in self.facts("candidate", 0, stop))
        return measured - sum(number < stop for number in new)

    def _uncached(self, arm: Arm) -> frozenset[int] | None:
        """The trials whose completion no earlier one of the arm has; None where all count."""
        if not self._kept_varies:
            return None
        if self._new is None:
            self._new = (
                {"candidate": self._first_of("candidate"), "main": self._first_of("main")}
                if self._cached()
                else {}
            )
        return self._new.get(arm)

    def _first_of(self, arm: Arm) -> frozenset[int]:
        seen: set[str] = set()
        new: set[int] = set()
        for number, facts in enumerate(self._arms[arm]):
            if facts is None or isinstance(facts, str):
                continue
            if not facts.answer or facts.answer not in seen:
                new.add(number)
            seen.add(facts.answer)
        return frozenset(new)

    def _cached(self) -> bool:
        """Return whether completions repeat today that hardly ever did.

        Main's completions show it: a broken prompt may well return the same every time, and a
        label is the same by nature. Main runs again before a case is named, so this is known in
        time.
        """
        answers = [facts.answer for facts in self.facts("main", self.seeds) if facts.answer]
        return len(answers) > 1 and not varies(len({*answers}), len(answers))


def trials_of(history: History) -> int:
    """The number of trials in a history: that of its most often judged check."""
    return max([history.whole.trials, *(count.trials for count in history.checks.values())])


def varies(distinct: int, trials: int) -> bool:
    """Return whether most completions were different.

    >>> varies(12, 12), varies(2, 12), varies(1, 2)
    (True, False, False)
    """
    return 2 * distinct > trials
