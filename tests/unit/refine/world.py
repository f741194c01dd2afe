"""A world of a few cases and checks in which a prompt's text alone decides what passes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.refine._policy import RefinePolicy
from regauge.refine.analysis import Check, CheckOutcome, Outcome
from regauge.refine.edits import Anchor, Delete, Edit, Insert, PromptText, Replace
from regauge.refine.guards import CaseText, Guard
from regauge.refine.loop._loop import begin, drive
from regauge.refine.loop._plan import Goal
from regauge.refine.loop._state import (
    CritiqueResult,
    Interrupted,
    LoopConfig,
    ProposalResult,
    RevisionDecision,
    Spending,
    TrialResults,
)
from regauge.refine.trials import verify_by_gate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from regauge.refine.loop._state import CallProposer, LoopState, RunGate, TrialPlan

SHORT, JSON, UTC = "- Be short.", "- Answer in JSON.", "- Give times in UTC."
LINES = {"short": SHORT, "json": JSON, "utc": UTC}
TRAIN = tuple(f"train-{n}" for n in range(8))
HOLDOUT = tuple(f"holdout-{n}" for n in range(4))
HEALTHY = PromptText.from_contents(
    "\n".join(["You help.", "# Rules", *LINES.values(), "{{input}}"])
)


def without(*names: str) -> PromptText:
    """The healthy prompt without the lines of some checks."""
    gone = {LINES[name] for name in names}
    return PromptText.from_contents(
        "\n".join(line.text for line in HEALTHY.lines if line.text not in gone)
    )


def adding(text: str, line: str = "# Rules", *, by: str = "rules") -> Edit:
    """An edit that adds a line below another."""
    return Edit(ops=(Insert(Anchor(line), text),), strategy="add-rule", proposer=by)


def deleting(line: str) -> Edit:
    return Edit(ops=(Delete(Anchor(line)),), strategy="delete", proposer="rules")


def replacing(line: str, text: str) -> Edit:
    return Edit(ops=(Replace(Anchor(line), text),), strategy="replace", proposer="rules")


def repairs(state: LoopState, action: CallProposer) -> Sequence[Edit]:
    """The line that is missing."""
    return [adding(LINES[state.mode.check])]


def goal(checks: str, pass_rate: float, cases: Sequence[str] = (*TRAIN, *HOLDOUT)) -> Goal:
    """What is to be reached; several checks with spaces between them."""
    return Goal(
        name=f"{checks} at {pass_rate}",
        checks=tuple(checks.split()),
        cases=tuple(cases),
        pass_rate=pass_rate,
    )


def passes(text: str, case: str, check: str) -> bool:
    """A check passes where its line stands in the prompt."""
    return LINES[check] in text.split("\n")


@dataclass(kw_only=True)
class World:
    """A workbench and a trail; everything it was asked is kept.

    Attributes:
        passes: Whether a check passes, by the prompt's text, the case and the check.
        propose: What a proposer comes with.
        says: What the gate says of a state instead of deciding.
        refuses: Whether the gate refuses a text, whatever its trials say.
        told: What to answer instead at the n-th action, such as an interruption.
        says_of: Whether a check says anything of a case.
        cannot_read: Why no reply of the model can be read.
    """

    config: LoopConfig
    passes: Callable[[str, str, str], bool] = passes
    propose: Callable[[LoopState, CallProposer], Sequence[Edit]] = repairs
    critique: Callable[[LoopState], CritiqueResult] = lambda _: CritiqueResult(
        critique=None, spending=Spending(model_calls=1)
    )
    says: Callable[[LoopState], RevisionDecision] | None = None
    refuses: Callable[[str], bool] = lambda _: False
    told: dict[int, Interrupted] = field(default_factory=dict)
    says_of: Callable[[str, str], bool] = lambda *_: True
    cannot_read: str = ""
    usd: float = 0.0
    actions: int = 0
    drawn: list[tuple[str, str, int]] = field(default_factory=list)
    states: list[LoopState] = field(default_factory=list)

    async def run_trials(self, draws: Sequence[TrialPlan]) -> TrialResults | Interrupted:
        self.actions += 1
        if self.actions in self.told:
            return self.told[self.actions]
        outcomes = [
            self._outcome(one.text, case, trial) for one in draws for case, trial in one.trials
        ]
        self.drawn += [(o.text, o.case, o.trial) for o in outcomes]
        spending = Spending(calls=len(outcomes), usd=self.usd * len(outcomes))
        return TrialResults(outcomes=tuple(outcomes), spending=spending)

    async def call_proposer(
        self, state: LoopState, action: CallProposer
    ) -> CritiqueResult | ProposalResult:
        if action.kind == "critique":
            return self.critique(state)
        calls = action.proposer != "rules"
        if calls and self.cannot_read:
            told = (self.cannot_read,)
            return ProposalResult(
                edits=(), spending=Spending(model_calls=2), refused=told, unread=1
            )
        edits = tuple(self.propose(state, action))
        return ProposalResult(edits=edits, spending=Spending(model_calls=int(calls)))

    async def verify(self, state: LoopState, action: RunGate) -> RevisionDecision | Interrupted:
        if self.says is not None:
            return self.says(state)
        if self.refuses(state.text.full_text):
            return RevisionDecision(
                decision="reject", reasons=("refused",), outcomes=(), spending=Spending()
            )
        return await verify_by_gate(state, action, self.run_trials)

    def add(self, observation: object, state: LoopState) -> None:
        del observation
        self.states.append(state)

    def run(self, state: LoopState | None = None, trail: object = None) -> LoopState:
        """To the end."""
        start = begin(self.config) if state is None else state
        return asyncio.run(drive(start, self, trail or self))  # type: ignore[arg-type]

    @property
    def events(self) -> list[str]:
        """What was decided, in order."""
        return [note.event for state in self.states for note in state.notes]

    def _outcome(self, text: PromptText, case: str, trial: int) -> Outcome:
        said = tuple(
            CheckOutcome(check=check, passed=ok, code="" if ok else "missing")
            for check in LINES
            if self.says_of(case, check)
            for ok in [self.passes(text.full_text, case, check)]
        )
        return Outcome(text=text.digest, case=case, trial=trial, checks=said, output=case)


def world(base: PromptText, policy: RefinePolicy | None = None, **changes: object) -> World:
    """A world that refines a prompt; further arguments are the world's or the setting's."""
    policy = policy or RefinePolicy()
    cases = [CaseText(id=case, texts=(f"order {case}-x7",)) for case in (*TRAIN, *HOLDOUT)]
    own = {name: changes.pop(name) for name in list(changes) if name in World.__dataclass_fields__}
    config = LoopConfig(
        **{  # type: ignore[arg-type]
            "base": base,
            "train": TRAIN,
            "holdout": HOLDOUT,
            "checks": {name: Check(name=name, advice=line) for name, line in LINES.items()},
            "guard": Guard(base, cases, LINES.values(), policy.guard),
            "policy": policy,
            **changes,
        }
    )
    return World(config=config, **own)  # type: ignore[arg-type]
