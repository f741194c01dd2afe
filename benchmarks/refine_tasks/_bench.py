"""The product's own loop on a simulated task: what it draws, who proposes, what came of it."""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import random
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.refine_tasks._simulated import LEAKS
from benchmarks.refine_tasks._statements import lost_statements, statements
from regauge.prompts import Replaceable, SectionError
from regauge.refine._policy import RefinePolicy, RunLimits
from regauge.refine.analysis import Check, CheckOutcome, Outcome
from regauge.refine.edits import (
    Anchor,
    Edit,
    EditError,
    PromptText,
    ReplaceSection,
    ops_between,
    section_at,
    section_text,
)
from regauge.refine.guards import CaseText, Guard
from regauge.refine.loop._loop import begin, drive
from regauge.refine.loop._state import (
    CritiqueResult,
    LoopConfig,
    ProposalResult,
    Spending,
    TrialResults,
)
from regauge.refine.proposers._rules import propose_by_rules
from regauge.refine.trials import verify_by_gate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.refine_tasks._simulated import Proposals
    from benchmarks.refine_tasks._task import Task
    from regauge.refine.loop._state import (
        CallProposer,
        GateResult,
        Interrupted,
        LoopState,
        Observation,
        RunGate,
        TrialPlan,
    )

__all__ = ["By", "Row", "SimulatedBench", "Trial", "refined", "row_of", "setting_for"]

By = Literal["rules", "model", "rules+model"]
_SHOWN = 3
# Of the lost true quality, and what counts as no difference.
_REPAIRED, _NOISE = 0.8, 0.004
_PROPOSALS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of the loop: a prompt, its cases and how proposals come about.

    Attributes:
        propose: Proposes instead of the task's own reflection model.
        inputs: Further texts that cases bring along, such as an attack.
        variance: Whether what is only flaky is worked on, too.
        sections: Headings of sections that may be replaced; then nothing else is proposed.
    """

    prompt: str
    train: Sequence[Any]
    holdout: Sequence[Any]
    seed: int
    how: Proposals
    by: By = "model"
    calls: int = 600
    propose: Callable[[LoopState], Sequence[str]] | None = None
    inputs: Sequence[str] = ()
    variance: bool = False
    sections: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one run came to. Lines and tokens are compared with the prompt it began with.

    Attributes:
        repaired: At least 80 % of the true quality that the faults cost is back; None where they
            cost nothing.
        lost: Statements of the healthy prompt that it began with and that are gone.
        lost_unwatched: Those of them that no check watches.
    """

    repaired: bool | None
    changed: bool
    worse: bool
    leak: bool
    lost: int
    lost_unwatched: int
    diff_lines: int
    growth: float
    calls: int
    model_calls: int
    overfit: float
    before: float
    after: float
    stop: str
    seconds: float
    label: str = ""
    prompt: str = field(default="", repr=False)


@dataclass(kw_only=True)
class SimulatedBench:
    """Draws answers of the simulated task; the same seed draws the same answers."""

    task: Task
    trial: Trial
    config: LoopConfig
    decisions: list[tuple[str, str]] = field(default_factory=list)
    requests: list[tuple[str, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._cases = {case.id: case for case in (*self.trial.train, *self.trial.holdout)}

    async def run_trials(self, draws: Sequence[TrialPlan]) -> TrialResults:
        outcomes = [
            self._outcome(one.text, case, number) for one in draws for case, number in one.trials
        ]
        return TrialResults(outcomes=tuple(outcomes), spending=Spending(calls=len(outcomes)))

    async def call_proposer(
        self, state: LoopState, action: CallProposer
    ) -> CritiqueResult | ProposalResult:
        if action.kind == "critique":
            return CritiqueResult(critique=None, spending=Spending())
        if action.proposer == "rules":
            edits = propose_by_rules(state.text, state.mode, self.config.checks)
            return ProposalResult(edits=edits, spending=Spending())
        shown = state.mode.cases[:_SHOWN]
        self.requests.append(shown)
        texts = (
            self.trial.propose(state)
            if self.trial.propose is not None
            else self._texts(state, shown)
        )
        edits_read: list[Edit] = []
        refused: list[str] = []
        for text in texts:
            if self.trial.sections:
                edits_read += _by_section(
                    state.text, PromptText.from_contents(text), self.trial.sections
                )
                continue
            try:
                ops = ops_between(state.text, PromptText.from_contents(text))
            except EditError as error:
                refused.append(str(error))
                continue
            if ops:
                edits_read.append(Edit(ops=ops, strategy="rewrite", proposer="model:simulated"))
        spending = Spending(model_calls=len(texts))
        return ProposalResult(edits=tuple(edits_read), refused=tuple(refused), spending=spending)

    async def verify(self, state: LoopState, action: RunGate) -> GateResult | Interrupted:
        return await verify_by_gate(state, action, self.run_trials)

    def add(self, observation: Observation, state: LoopState) -> None:
        """As a trail: keep what was decided."""
        del observation
        self.decisions += [(note.event, note.text) for note in state.notes]

    def _texts(self, state: LoopState, shown: Sequence[str]) -> list[str]:
        cases = {case: self._cases[case] for case in shown}
        return [
            self.task.proposal(
                state.text.full_text,
                cases,
                state.mode.check,
                self.trial.how,
                _number(self.trial.seed, state.text.digest, state.mode.check, state.cycle, n),
            )
            for n in range(_PROPOSALS)
        ]

    def _outcome(self, text: PromptText, case: str, number: int) -> Outcome:
        rng = random.Random(_number(self.trial.seed, text.digest, case, number))
        golden = self._cases[case]
        failed = set(self.task.failed(text.full_text, golden, rng))
        said = tuple(
            CheckOutcome(
                check=name,
                passed=name not in failed,
                code=name if name in failed else "",
                reason=self.task.reason(name) if name in failed else "",
            )
            for name in dict.fromkeys((*golden.reqs, *sorted(failed)))
        )
        answer = f"{text.digest[:12]} {case} {number}"
        return Outcome(text=text.digest, case=case, trial=number, checks=said, output=answer)


def refined(task: Task, trial: Trial) -> tuple[LoopState, SimulatedBench, float]:
    """Run the loop to its end."""
    config = setting_for(task, trial)
    bench = SimulatedBench(task=task, trial=trial, config=config)
    began = time.perf_counter()
    state = asyncio.run(drive(begin(config), bench, bench))
    return state, bench, time.perf_counter() - began


def setting_for(task: Task, trial: Trial) -> LoopConfig:
    """What the loop is told of a task."""
    base = PromptText.from_contents(trial.prompt)
    policy = RefinePolicy(limits=RunLimits(calls=trial.calls, model_calls=60))
    by_rules = "rules" in trial.by
    checks = {
        name: Check(
            name=name,
            advice=task.advice(name) if by_rules else "",
            description=task.reason(name),
        )
        for name in task.names
    }
    texts = [
        CaseText(id=c.id, texts=(c.input,), expected=c.golden)
        for c in (*trial.train, *trial.holdout)
    ]
    texts += [CaseText(id=f"input-{n}", texts=(text,)) for n, text in enumerate(trial.inputs)]
    public = [f"{task.advice(name)} {task.reason(name)}" for name in task.names]
    return LoopConfig(
        base=base,
        train=tuple(case.id for case in trial.train),
        holdout=tuple(case.id for case in trial.holdout),
        checks=checks,
        guard=Guard(
            base,
            texts,
            public,
            policy.guard,
            replaceable=[Replaceable(section=heading) for heading in trial.sections],
        ),
        policy=policy,
        proposers=tuple(trial.by.split("+")),
        critics=frozenset({"model"}),
        fix_flaky=trial.variance,
    )


def _by_section(before: PromptText, after: PromptText, headings: Sequence[str]) -> list[Edit]:
    """What a new text says in other words, section by section."""
    edits: list[Edit] = []
    for heading in headings:
        anchor = Anchor(heading)
        try:
            was = section_text(before, *section_at(before, anchor))
            now = section_text(after, *section_at(after, anchor))
        except SectionError:
            continue
        if was != now:
            ops = (ReplaceSection(anchor, now),)
            edits.append(Edit(ops=ops, strategy="replace-section", proposer="model:simulated"))
    return edits


def row_of(task: Task, trial: Trial, state: LoopState, seconds: float, *, label: str = "") -> Row:
    """What a run came to, by the true quality of what it proposes."""
    proposed = state.stop is not None and state.stop.proposal
    after = state.text.full_text if proposed else trial.prompt
    return measured(
        task, trial, after, state.spending.calls, state.spending.model_calls, seconds,
        label=label, stop=state.stop.reason if state.stop else "",
    )  # fmt: skip


def measured(  # noqa: PLR0917 - a row of numbers
    task: Task,
    trial: Trial,
    after: str,
    calls: int,
    model_calls: int,
    seconds: float,
    *,
    label: str = "",
    stop: str = "",
) -> Row:
    """What any tool made of a prompt."""
    before = trial.prompt
    healthy = task.healthy_prompt()
    was, now = task.true_quality(before), task.true_quality(after)
    seen = [*trial.train, *trial.holdout]
    golden = {case.golden for case in seen} | set(trial.inputs)
    gone = lost_statements(healthy, before, after, task.statements)
    watched = _watched(task)
    loss = task.true_quality(healthy) - was
    kept = after.splitlines()
    lines = difflib.ndiff(before.splitlines(), kept)
    return Row(
        repaired=now - was >= _REPAIRED * loss if loss > _NOISE else None,
        changed=after.strip() != before.strip(),
        worse=now < was - _NOISE,
        leak=any(text in after and text not in before for text in golden)
        or any(line.startswith(LEAKS) for line in set(kept) - set(before.splitlines())),
        lost=gone.total(),
        lost_unwatched=sum(n for one, n in gone.items() if not any(one in w for w in watched)),
        diff_lines=sum(line[:2] in {"+ ", "- "} for line in lines),
        growth=_size(after) / max(_size(before), _size(healthy)) - 1,
        calls=calls,
        model_calls=model_calls,
        overfit=task.true_quality(after, seen) - now,
        before=was,
        after=now,
        stop=stop,
        seconds=seconds,
        label=label,
        prompt=after,
    )


def _watched(task: Task) -> list[str]:
    """What the checks of a task watch, in the words of its statements."""
    line = getattr(task, "watched", task.advice)
    texts = [line(name) for name in task.names]
    return [one for text in texts for one in (*task.statements(text), *statements(text))]


def _size(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", text))


def _number(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big")
