"""The test of one prompt's whole suite in one run: rounds, main's control, head to head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.digests import digest_of
from regauge.gate._outcome import ControlReport, HeadToHead, RoundReport, SuiteReport
from regauge.gate._types import NONE_DRAWN, Count
from regauge.gate.engine._drawn import Request
from regauge.gate.engine._suite_test import goes_on, main_drifted, round_bound
from regauge.stats import expected_failures, score_p_value, sign_flip_p_value, suite_p_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from regauge.gate._outcome import SuiteVerdict
    from regauge.gate._policy import GatePolicy
    from regauge.gate._types import Arm
    from regauge.gate.engine._drawn import Drawn


class SuiteStage:
    """All cases of one prompt that main has trials of, taken together."""

    def __init__(
        self, prompt: str, drawn: Sequence[Drawn], policy: GatePolicy, *, prompts: int
    ) -> None:
        """Begin once the first trials are in.

        Args:
            drawn: The changed cases of the prompt.
            prompts: How many prompts changed; they share the error rate.
        """
        self.prompt = prompt
        self._policy = policy
        self._prompts = prompts
        self._drawn = [one for one in drawn if one.history().trials and not one.case.accepted]
        self._graded = _graded(self._drawn)
        self._rounds: list[RoundReport] = []
        self._control: ControlReport | None = None
        self._head_to_head: HeadToHead | None = None
        self._verdict: SuiteVerdict = "untested"
        self._missing = (0, 0)

    def waves(self, *, blocked: bool) -> Iterator[list[Request]]:
        """The trials each round needs; the rounds are weighed between them.

        Args:
            blocked: Whether single cases have already decided, so that nothing more is spent.
        """
        if not self._drawn:
            return
        policy = self._policy.suite
        for number in range(1, policy.rounds + 1):
            trials = self._policy.first_draws + number - 1
            if number > 1:
                yield self._next_round(trials)
            weighed = self._weigh(number, trials)
            self._rounds.append(weighed)
            self._note_missing("candidate", trials)
            found = _found(weighed)
            if blocked:
                # Worse or not, nothing was drawn to tell the candidate from the model of the day.
                smallest = min([weighed.p_value, *weighed.scores.values()])
                self._verdict = "untested" if smallest <= policy.extend else "pass"
                return
            if found is not None:
                yield from self._before_blocking(found, trials)
                return
            p_values = [weighed.p_value, *weighed.scores.values()]
            if not goes_on(policy, number, min(p_values)):
                break
        self._end("pass")

    def report(self) -> SuiteReport:
        """What was found."""
        last = self._rounds[-1].trials if self._rounds else 0
        stable = sum(
            1 for one in self._drawn if not one.history().failed and one.candidate(stop=last).failed
        )
        return SuiteReport(
            prompt=self.prompt,
            verdict=self._verdict,
            cases=len(self._drawn),
            rounds=tuple(self._rounds),
            control=self._control,
            head_to_head=self._head_to_head,
            stable_failed=stable,
            needs=self._missing[1],
        )

    def _next_round(self, trials: int) -> list[Request]:
        """One more trial of every case; none of those that could not be drawn before."""
        return [
            Request(one, "candidate", trials)
            for one in self._drawn
            if not any(one.gaps("candidate"))
        ]

    def _weigh(self, number: int, trials: int) -> RoundReport:
        candidate = [one.candidate(stop=trials) for one in self._drawn]
        main = [one.history() for one in self._drawn]
        bound = round_bound(
            self._policy.suite, number, prompts=self._prompts, tests=1 + len(self._graded)
        )
        drawn = [count.trials for count in candidate]
        return RoundReport(
            trials=trials,
            fails=sum(count.failed for count in candidate),
            expected=float(
                expected_failures(
                    [count.passed for count in main], [count.trials for count in main], drawn
                )
            ),
            p_value=_p_value(main, candidate),
            bound=bound,
            scores={
                check: self._score_p_value(
                    check,
                    [one.history_scores(check) for one in self._drawn],
                    [one.scores("candidate", check, 0, trials) for one in self._drawn],
                    min_effect=self._policy.min_effect,
                )
                for check in self._graded
            },
            score_bound=bound if self._graded else 0.0,
        )

    def _before_blocking(self, found: str, trials: int) -> Iterator[list[Request]]:
        """Main's control round, and what follows if main itself has changed."""
        if not any(one.stored for one in self._drawn):
            # All of main's trials are of today: there is nothing that could have drifted.
            self._verdict = "regressed"
            return
        yield [Request(one, "main", one.seeds + trials) for one in self._drawn]
        self._control = self._controlled(found, trials)
        self._missing = (0, 0)
        self._note_missing("main", trials)
        if any(self._missing):
            self._end("regressed")
        elif not main_drifted(
            self._policy.suite,
            p_history=self._control.p_history,
            p_candidate=self._control.p_candidate,
        ):
            self._verdict = "regressed"
        else:
            yield from self._side_by_side(found)

    def _controlled(self, found: str, trials: int) -> ControlReport:
        main = [one.history() for one in self._drawn]
        today = [one.today(stop=trials) for one in self._drawn]
        candidate = [one.candidate(stop=trials) for one in self._drawn]
        if not found:
            p_history, p_candidate = _p_value(main, today), _p_value(today, candidate)
        else:
            before = [one.history_scores(found) for one in self._drawn]
            now = [one.scores("main", found, one.seeds, one.seeds + trials) for one in self._drawn]
            ours = [one.scores("candidate", found, 0, trials) for one in self._drawn]
            p_history = self._score_p_value(found, before, now)
            p_candidate = self._score_p_value(found, now, ours)
        return ControlReport(
            check=found,
            main=sum(today, NONE_DRAWN),
            p_history=p_history,
            p_candidate=p_candidate,
        )

    def _side_by_side(self, found: str) -> Iterator[list[Request]]:
        """Fresh trials of both arms, for main's history tells nothing any more."""
        each = self._policy.head_to_head
        starts = [(one, one.asked("candidate"), one.asked("main")) for one in self._drawn]
        wave: list[Request] = []
        for one, candidate, main in starts:
            wave.append(Request(one, "candidate", candidate + each))
            wave.append(Request(one, "main", main + each))
        yield wave
        pairs: list[tuple[Count, Count]] = []
        unmeasured = not_recorded = 0
        for one, candidate, main in starts:
            gaps = (one.gaps("candidate", candidate), one.gaps("main", main))
            unmeasured += sum(gap[0] for gap in gaps)
            not_recorded += sum(gap[1] for gap in gaps)
            both = (
                _raw(one, "main", main, main + each),
                _raw(one, "candidate", candidate, candidate + each),
            )
            if both[0].trials == both[1].trials:
                pairs.append(both)
        if found:
            p_value = self._score_p_value(
                found,
                [one.scores("main", found, main, main + each) for one, _, main in starts],
                [one.scores("candidate", found, start, start + each) for one, start, _ in starts],
                min_effect=self._policy.min_effect,
            )
        else:
            ours, theirs = [main.passed for main, _ in pairs], [new.passed for _, new in pairs]
            p_value = float(sign_flip_p_value(ours, theirs))
        self._head_to_head = HeadToHead(
            check=found,
            main=sum((main for main, _ in pairs), NONE_DRAWN),
            candidate=sum((new for _, new in pairs), NONE_DRAWN),
            p_value=p_value,
            bound=self._policy.suite.alpha / self._prompts,
        )
        self._missing = (unmeasured, not_recorded)
        if p_value <= self._head_to_head.bound:
            self._verdict = "regressed"
        else:
            self._end("drifted")

    def _end(self, verdict: SuiteVerdict) -> None:
        """Keep a verdict, unless trials are missing that it needs."""
        unmeasured, not_recorded = self._missing
        self._verdict = "unmeasured" if unmeasured else "undecided" if not_recorded else verdict

    def _note_missing(self, arm: Arm, trials: int) -> None:
        unmeasured = not_recorded = 0
        for one in self._drawn:
            start = one.seeds if arm == "main" else 0
            gaps = one.gaps(arm, start, start + trials)
            unmeasured, not_recorded = unmeasured + gaps[0], not_recorded + gaps[1]
        self._missing = (unmeasured, not_recorded)

    def _score_p_value(
        self,
        check: str,
        main: Sequence[Sequence[float]],
        candidate: Sequence[Sequence[float]],
        *,
        min_effect: float = 0.0,
    ) -> float:
        seed = int(digest_of({"prompt": self.prompt, "check": check})[:8], 16)
        return score_p_value(main, candidate, seed=seed, min_effect=min_effect)


def _found(weighed: RoundReport) -> str | None:
    """Which test says that the suite is worse: a check with scores, or all cases as the empty text.

    None where none does.
    """
    if weighed.p_value <= weighed.bound:
        return ""
    lower = [check for check, p in weighed.scores.items() if p <= weighed.score_bound]
    return min(lower, key=weighed.scores.__getitem__, default=None)


def _graded(drawn: Sequence[Drawn]) -> tuple[str, ...]:
    """Checks whose scores on main say more than pass or fail, by name."""
    checks = {check for one in drawn for check in one.case.checks}
    return tuple(
        sorted(
            check
            for check in checks
            if any(0 < score < 1 for one in drawn for score in one.history_scores(check))
        )
    )


def _p_value(main: Sequence[Count], candidate: Sequence[Count]) -> float:
    return float(
        suite_p_value(
            [count.passed for count in main],
            [count.trials for count in main],
            [count.passed for count in candidate],
            [count.trials for count in candidate],
        )
    )


def _raw(one: Drawn, arm: Arm, start: int, stop: int) -> Count:
    """Every measured trial, repeated or not."""
    verdicts = [facts.passed for facts in one.facts(arm, start, stop)]
    return Count(passed=verdicts.count(True), trials=len(verdicts) - verdicts.count(None))
