"""The last word on a revision: the gate, with the base's trials as its history."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from regauge.digests import digest_of
from regauge.gate import (
    CONTROL_FIRST,
    EVALS_FIRST,
    Gate,
    GateCase,
    GatePolicy,
    History,
    TrialFacts,
    tier_held,
)
from regauge.refine.loop import Draws, Spent, SuiteSaid

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from regauge.gate import Arm, CaseTier, GateOutcome
    from regauge.refine.edits import PromptText
    from regauge.refine.loop import RunSuite, Setting, State, TrialsDone
    from regauge.refine.tally import Outcome, Tally

__all__ = ["Drawer", "verify_by_gate"]

_PROMPT = "revision"


class Drawer(Protocol):
    """Whatever draws trials."""

    async def draw(self, draws: Sequence[Draws]) -> TrialsDone:
        """Draw and judge; what could not be measured is missing from the answer."""
        ...


async def verify_by_gate(
    setting: Setting,
    state: State,
    action: RunSuite,
    drawer: Drawer,
    *,
    policy: GatePolicy | None = None,
    tiers: Mapping[str, CaseTier] | None = None,
) -> SuiteSaid:
    """Compare the revision with the base, on fresh trials of train and holdout alike.

    The base's trials chose what was to be repaired and not how, so they may serve as history.
    Fresh trials that are known from an earlier comparison are not drawn again.

    Args:
        setting: What the run is about.
        state: Where it stands.
        action: What is compared, and what it may cost.
        drawer: Draws the trials.
        policy: What the project holds its gate to.
        tiers: Of cases that are not `required`. A critical one that failed in the base's trials
            is held to what a required one is, as in the gate.
    """
    cases = [
        GateCase(
            prompt=_PROMPT,
            case=case,
            checks=checks,
            history=_history(state.tally, setting.base, case, checks),
            tier=tier_held(
                (tiers or {}).get(case, "required"), state.tally.whole(setting.base.digest, case), 1
            ),
        )
        for case in (*setting.train, *setting.holdout)
        if (checks := state.tally.checks(setting.base.digest, [case]))
    ]
    gate = Gate(cases, _without_repairs(policy or GatePolicy()))
    spent = Spent()
    outcomes: list[Outcome] = []
    found = {(o.text, o.case, o.trial): o for known in state.fresh.seen.values() for o in known}
    texts: dict[Arm, PromptText] = {"candidate": action.text, "main": setting.base}
    while wanted := gate.wanted():
        trials: list[tuple[str, Arm, int]] = [
            (want.case, want.arm, number) for want in wanted for number in want.trials
        ]
        draws = [_unknown(arm, text, trials, found) for arm, text in texts.items()]
        missing = sum(len(one.trials) for one in draws)
        if spent.calls + missing > action.calls_max:
            return SuiteSaid(
                decision="undecided",
                reasons=(f"{action.calls_max} calls were left, and the gate wants more",),
                outcomes=tuple(outcomes),
                spent=spent,
                short=True,
            )
        if missing:
            done = await drawer.draw(draws)
            spent += done.spent
            outcomes += done.outcomes
            found |= {(o.text, o.case, o.trial): o for o in done.outcomes}
        for case, arm, number in trials:
            outcome = found.get((texts[arm].digest, case, _stored_number(arm, number)))
            gate.observe(_PROMPT, case, arm, number, _facts(outcome))
    said = gate.outcome()
    return SuiteSaid(
        decision=said.decision,
        reasons=_words(said),
        outcomes=tuple(outcomes),
        spent=spent,
    )


def _unknown(
    arm: Arm,
    text: PromptText,
    trials: Sequence[tuple[str, Arm, int]],
    found: Container[tuple[str, str, int]],
) -> Draws:
    """What of the trials that the gate wants of one arm was not drawn yet."""
    wanted = [(case, _stored_number(asked, n)) for case, asked, n in trials if asked == arm]
    return Draws(
        text=text,
        trials=tuple((case, n) for case, n in wanted if (text.digest, case, n) not in found),
    )


def _stored_number(arm: Arm, number: int) -> int:
    """The number of the n-th trial of an arm.

    The revision's are those that evals replay once it is taken; the gate that it then has to
    pass makes trials of its own.
    """
    return number + (CONTROL_FIRST if arm == "main" else EVALS_FIRST)


def _without_repairs(policy: GatePolicy) -> GatePolicy:
    """The same policy for what is broken: fixes were tested before, and outweigh nothing here.

    The base's trials are of this very run, so there is no outage to look for.
    """
    first = 1 if policy.first_draws == "auto" else policy.first_draws
    suite = replace(policy.suite, control=0)
    return replace(policy, improved_at_most=-1.0, on_broken="block", first_draws=first, suite=suite)


def _history(tally: Tally, base: PromptText, case: str, checks: Sequence[str]) -> History:
    known = tally.since(base.digest, case, 0)
    return History(
        checks={check: tally.check(base.digest, case, check) for check in checks},
        whole=tally.whole(base.digest, case),
        distinct_answers=len({outcome.answer for outcome in known}),
    )


def _facts(outcome: Outcome | None) -> TrialFacts | None:
    if outcome is None or not outcome.checks:
        return None
    return TrialFacts(
        checks={said.check: said.passed for said in outcome.checks},
        answer=digest_of(outcome.answer),
    )


def _words(said: GateOutcome) -> tuple[str, ...]:
    named = [
        f"{case.case}: passed {case.candidate} new trials, {case.history} before ({case.verdict})"
        for case in said.cases
        if case.verdict in {"broken", "undecided", "drifted"}
    ]
    suites = [f"all cases together: {suite.verdict}" for suite in said.suites]
    return tuple(
        named
        + [text for text in suites if not text.endswith(("passed", "untested", "unconfirmed"))]
    )
