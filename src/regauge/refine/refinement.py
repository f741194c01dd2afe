"""A refinement of a real prompt: its options, configuration, run and files."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import TypeAdapter

from regauge.digests import digest_of
from regauge.errors import PromptError, ProviderError, UsageError
from regauge.files import write_whole
from regauge.gate import REVISION_FIRST, policy_of
from regauge.judges import criterion_of
from regauge.project import GoalSettings  # noqa: TC001 - pydantic reads annotations
from regauge.prompts import (
    check_links,
    content_errors,
    fix_messages,
    lock_of,
    parse_prompt,
    replaceable_errors,
)
from regauge.providers import parse_model_id
from regauge.providers.registry import endpoint_of
from regauge.refine._policy import RefinePolicy, RunLimits
from regauge.refine.analysis import Check, FailureMode
from regauge.refine.attempts import HoldoutLedger, Memory
from regauge.refine.delivery import build_revision, markdown_of, result_of
from regauge.refine.edits import Edit, PromptText, ops_between
from regauge.refine.feedback import Feedback, describe_feedback, labels_of
from regauge.refine.guards import CaseText, Guard
from regauge.refine.loop._loop import advance, begin, drive
from regauge.refine.loop._plan import (
    calls_max,
    calls_wanted,
    cost_of_trials,
    enough_calls,
    floor_calls,
    goals_digest,
)
from regauge.refine.loop._state import Accepted, Interrupted, LoopConfig, MoreCalls, Release
from regauge.refine.proposers._protocol import ProposerContext, load_proposers
from regauge.refine.runs import (
    TrailError,
    TrailFile,
    load_memory,
    memory_key,
    now,
    read_events,
    read_verified,
    replay_trail,
    save_memory,
    seal,
    status_of,
    truncate_trail,
)
from regauge.refine.subject import (
    cases_of,
    deciding_judges,
    public_texts,
    resolve_goals,
    subject_of,
)
from regauge.refine.trials import EvalWorkbench
from regauge.runner import PlannedCase, PlannedTrial
from regauge.statements import delete, parse
from regauge.stop_signals import ignore_signals, run_stoppable
from regauge.wording import cut, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.judges import Judge
    from regauge.project import Project
    from regauge.refine.document import RefinementResult
    from regauge.refine.loop._loop import Trail
    from regauge.refine.loop._state import LoopState, Note
    from regauge.refine.runs import Run, TrailEvent
    from regauge.refine.subject import Subject
    from regauge.runner import EvalSession

Removal: TypeAlias = "tuple[int, int, int]"
"""A message, and the characters in it where the text begins and ends."""

# The beginning of a removed text names it in a line of the trail.
_CHARS = 40


def removals_of(base: PromptText, places: Iterable[Removal]) -> tuple[Accepted, ...]:
    """One edit for each text, from the end of the prompt; each builds on the one before.

    Only the gate decides, as no check fails.
    """
    text, accepted = base, list[Accepted]()
    for number, start, end in places:
        tree = parse(text.messages[number].content)
        node = next(
            (part for part in tree.root.walk() if (part.start, part.end) == (start, end)), None
        )
        if node is None:
            continue
        after = text.with_content(number, delete(tree, node))
        removed = " ".join(tree.text_of(node).split())
        edit = Edit(
            ops=ops_between(text, after),
            strategy="remove-unused",
            proposer="mutate",
            rationale=f"no case depends on {removed!r}",
        )
        mode = FailureMode(check=f"unused text {cut(removed, _CHARS)!r}")
        accepted.append(Accepted(edit=edit, mode=mode, text=after))
        text = after
    return tuple(accepted)


# Each seed has numbers of its own, behind those of the gate.
_TRIALS_PER_SEED = 10_000
# The budget of the benchmark; three repairs, where one takes more than 200 calls.
_CALLS_MIN = 600
_CALLS_PER_FLOOR = 3


_LIMITS = RunLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefineOptions:
    """The options of a run, from the project and the command line.

    Attributes:
        proposers: Proposers, cheapest first.
        model: The refiner model as `provider:model`; empty for the prompt's own.
        calls: The most calls of all models; None for three times the least of one fix.
        fix_flaky: Whether an edit may be accepted because it makes a flaky check steady.
        goals: Pass rates to reach; without goals, no reproducible failure.
        temperature: The temperature of refiner requests; None for the default of each step.
        removals: Text without effect to remove; nothing is fixed then.
    """

    proposers: tuple[str, ...] = ("rules", "model")
    model: str = ""
    cycles: int = _LIMITS.cycles
    calls: int | None = None
    model_calls: int = _LIMITS.model_calls
    usd: float | None = None
    seed: int = 0
    frozen: tuple[str, ...] = ()
    show_expected: bool = False
    include_tracked: bool = False
    fix_flaky: bool = False
    goals: tuple[GoalSettings, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    context_tokens: int | None = None
    removals: tuple[Removal, ...] = ()

    def to_json(self) -> dict[str, JSON]:
        """A plain document of the options that differ from the defaults."""
        document: dict[str, JSON] = TypeAdapter(RefineOptions).dump_python(
            self, mode="json", exclude_defaults=True
        )
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RefineOptions:
        """Read the document that `to_json` writes."""
        return TypeAdapter(cls).validate_python(document)


def loop_config(
    subject: Subject,
    options: RefineOptions,
    *,
    critics: frozenset[str],
    judging: Mapping[str, float] | None = None,
) -> LoopConfig:
    """The configuration of a run."""
    mark_errors = replaceable_errors(subject.prompt)
    if mark_errors:
        raise PromptError(mark_errors)
    base = subject.text
    by_split = {
        split: tuple(name for name, member in subject.members.items() if member.case.split == split)
        for split in ("train", "holdout")
    }
    if not by_split["train"]:
        raise UsageError(
            "every golden case is held out, so none is left for training\n"
            "  fix: give some of them `split: train`, or lower `holdout` in [tool.regauge]"
        )
    checks = {name: _check(judge) for name, judge in subject.judges().items()}
    policy = RefinePolicy(
        limits=RunLimits(
            calls=options.calls or _CALLS_MIN,
            model_calls=options.model_calls,
            usd=options.usd,
            cycles=options.cycles,
        )
    )
    guard = Guard(
        base,
        [CaseText.from_case(member.case) for member in subject.members.values()],
        public_texts(subject, checks.values()),
        policy.guard,
        frozen=options.frozen,
        released=subject.released_texts,
        replaceable=subject.prompt.replaceable,
        feedback=[evidence.text for evidence in subject.feedback.evidence],
    )

    def errors_in(text: PromptText) -> tuple[str, ...]:
        errors = content_errors(text.messages, subject.prompt.response_format)
        return tuple(f"{error.text}; {error.fix}" for error in errors)

    config = LoopConfig(
        base=base,
        train=by_split["train"],
        holdout=by_split["holdout"],
        checks=checks,
        guard=guard,
        policy=policy,
        proposers=options.proposers,
        critics=critics,
        fix_flaky=options.fix_flaky,
        first_trial=REVISION_FIRST + _TRIALS_PER_SEED * options.seed,
        releases=(*subject.releases, *_without_errors(subject)),
        errors_in=errors_in,
        feedback=describe_feedback(subject.feedback) if critics else "",
        judging=judging or {},
        removals=removals_of(base, options.removals),
    )
    if options.calls is None:
        calls = max(_CALLS_MIN, _CALLS_PER_FLOOR * floor_calls(config))
        limits = replace(policy.limits, calls=calls)
        config = replace(config, policy=replace(policy, limits=limits))
    return config


def _without_errors(subject: Subject) -> tuple[Release, ...]:
    """The prompt without the errors that `regauge lint` warns about, tried like a release."""
    messages = fix_messages(subject.prompt.messages, subject.prompt.response_format)
    if messages == subject.prompt.messages:
        return ()
    text = PromptText(messages=messages)
    command = "undo what `regauge lint` warns about"
    return (Release(name="the prompt without lint warnings", text=text, command=command),)


def _check(judge: Judge) -> Check:
    """A judge as a check of the loop, with its advice if it has any."""
    advice = getattr(judge, "advice", None)
    return Check(
        name=judge.name,
        criterion=criterion_of(judge),
        advice=str(advice()) if callable(advice) else "",
        description=str(getattr(judge, "description", "") or ""),
    )


def expected_trial(
    evals: EvalSession, subject: Subject
) -> tuple[Mapping[str, float], float | None]:
    """The average calls of each LLM judge for a trial, and the cost of a call; None if unknown."""
    draws: list[PlannedTrial] = []
    for member in subject.members.values():
        eval_ = replace(member.eval, judges=deciding_judges(member.eval))
        draws.append(PlannedTrial(PlannedCase(eval_, member.case), REVISION_FIRST))
    answers = evals.missing_completions(draws)
    verdicts = evals.missing_judgements(draws)
    costs = [*(answer.cost_usd for answer in answers), *(verdict.cost_usd for verdict in verdicts)]
    calls = len(draws) + sum(verdict.calls for verdict in verdicts)
    costs_known = [cost for cost in costs if cost is not None]
    judging = {verdict.judge: round(verdict.calls / len(draws), 4) for verdict in verdicts}
    return judging, sum(costs_known) / calls if len(costs_known) == len(costs) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEstimate:
    """The estimate of a run, before any cost.

    Attributes:
        first_look_calls: Calls of all models for a diagnosis.
        least_calls: The fewest calls to begin with.
        one_repair_calls: Approximate calls to find a failure, fix it and verify the fix.
        calls_max: The limit of calls.
    """

    train: int
    holdout: int
    first_look_calls: int
    least_calls: int
    one_repair_calls: int
    calls_max: int
    has_llm_judges: bool
    call_usd: float | None


def feedback_of(
    project: Project, subject: Subject, feedback: Feedback | None, *, critics: bool
) -> Feedback:
    """Labels and feedback; pull requests are only read for a refiner model."""
    if critics:
        judges = [judge.name for member in subject.members.values() for judge in member.eval.judges]
        labels = labels_of(project, dict.fromkeys(judges), cases_of(subject.members, "train"))
        return Feedback(evidence=labels) + (feedback or Feedback())
    if feedback is not None and feedback.evidence:
        raise UsageError(
            "feedback is for a refiner model, and none of the proposers calls one\n"
            "  fix: --proposers rules,model"
        )
    return Feedback()


def load_inputs(run: Run) -> tuple[str, tuple[Release, ...], Feedback]:
    """The prompt's file, the releases and the feedback at the start of a run."""
    began = read_events(run)[0].body
    try:
        source = run.before.read_bytes().decode()
        releases = TypeAdapter(tuple[Release, ...]).validate_python(began["releases"])
        feedback = TypeAdapter(Feedback).validate_python(began["feedback"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise TrailError(
            f"run {run.id} cannot be recomputed: its inputs cannot be read: {error}"
        ) from error
    return source, releases, feedback


def run_inputs(
    subject: Subject, config: LoopConfig, options: RefineOptions, memory: Memory
) -> dict[str, JSON]:
    """The first line of an audit trail: all inputs of a run."""
    goals: dict[str, JSON] = {
        "digest": goals_digest(config),
        "goals": [goal.to_json() for goal in config.goals],
    }
    refiner = options.model or subject.model
    return {
        "prompt": subject.prompt.name,
        "version": str(subject.prompt.version or ""),
        "prompt_digest": subject.prompt.digest,
        **_judging_inputs(subject),
        "train": len(config.train),
        "holdout": len(config.holdout),
        "holdout_looks": sorted(config.holdout_looks_before),
        "calls_max": config.policy.limits.calls,
        **({"judging": dict(config.judging)} if config.judging else {}),
        "criteria": {
            "test": asdict(config.policy.test),
            "guard": asdict(config.policy.guard),
            "checks": {name: check.criterion for name, check in config.checks.items()},
        },
        **({"goals": goals} if config.goals else {}),
        "options": options.to_json(),
        "warnings": list(warnings_of(subject.judges(), refiner, critics=bool(config.critics))),
        "replaceable": [
            [mark.section, mark.message, mark.words] for mark in subject.prompt.replaceable
        ],
        "feedback": TypeAdapter(Feedback).dump_python(subject.feedback, mode="json"),
        "releases": TypeAdapter(tuple[Release, ...]).dump_python(subject.releases, mode="json"),
        "examples": digest_of([[e.id, e.input, e.output] for e in subject.examples]),
        "memory": [asdict(entry) for entry in memory.attempts],
    }


def _judging_inputs(subject: Subject) -> dict[str, JSON]:
    """The inputs that results depend on."""
    members = subject.members
    return {
        "models": sorted({str(member.eval.model) for member in members.values()}),
        "judges": {name: judge.digest for name, judge in subject.judges().items()},
        "cases": digest_of([[name, member.case.digest] for name, member in members.items()]),
    }


def warnings_of(judges: Mapping[str, Judge], refiner: str, *, critics: bool) -> tuple[str, ...]:
    """Warnings for readers of the evidence."""
    self_judging = [
        name for name, judge in judges.items() if refiner in getattr(judge, "models", ())
    ]
    if not critics or not self_judging:
        return ()
    names = ", ".join(self_judging)
    return (f"{refiner} proposes and judges ({names}): a model may favour its own words",)


def changed_inputs(began: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The inputs that changed since a run began; a run may continue with another budget."""

    def value_of(run_inputs: Mapping[str, Any], key: str) -> Any:
        return {**run_inputs[key], "usd": None} if key == "options" else run_inputs.get(key)

    # The trail itself has the results of earlier runs.
    changed = [k for k in now if k != "holdout_looks" and value_of(began, k) != value_of(now, k)]
    if not {"judges", "cases"} & {*changed}:
        return changed
    # Checks and goals follow from judges and cases, so they are not named in addition.
    is_same_policy = all(
        began["criteria"].get(key) == now["criteria"][key] for key in ("test", "guard")
    )
    return [k for k in changed if k != "goals" and not (k == "criteria" and is_same_policy)]


def _command(facts: Mapping[str, Any]) -> str:
    """The command that began a run, with its options; empty for another one."""
    words = [str(word) for word in facts.get("command", ())]
    if words[:2] != ["regauge", "refine"]:
        return ""
    command = shlex.join(words)
    if "--record=none" not in facts["words"]:
        return command
    # Without calls, no run measures a new edit.
    return re.sub(r" --record[= ]none\b", "", command) + " --record=missing"


BY_SIGNAL = "stopped by Ctrl-C, SIGTERM or SIGHUP"


class Refinement:
    """A refinement of one prompt, ready to run.

    Args:
        use_attempts: Whether it uses the results of earlier runs.
        earlier: A run to decide again, with its prompt.
        interrupted_run: A run to continue.
    """

    def __init__(
        self,
        evals: EvalSession,
        planned_cases: Sequence[PlannedCase],
        options: RefineOptions,
        *,
        use_attempts: bool = False,
        name: str | None = None,
        earlier: Run | None = None,
        interrupted_run: Run | None = None,
        feedback: Feedback | None = None,
    ) -> None:
        self._evals = evals
        self.options = options
        self.subject: Subject = subject_of(
            evals.project, planned_cases, name=name, include_tracked=options.include_tracked
        )
        began = earlier or interrupted_run
        if began is None:
            path = self.subject.prompt.path
            check_links(evals.project.root, [path, lock_of(path).path])
            self.subject.check_file()
        feedback_or_none = feedback or Feedback()
        if began is not None:
            source, releases, feedback_or_none = load_inputs(began)
            self.subject = replace(self.subject, releases=releases)
            if earlier is not None:
                as_it_was = parse_prompt(source, path=self.subject.prompt.path)
                self.subject = replace(self.subject, prompt=as_it_was)
        model = options.model or self.subject.model
        if not model:
            raise UsageError(
                f"no refiner model is set for {self.subject.prompt.name}\n"
                "  fix: --refiner-model provider:model, or set `model` in [tool.regauge.refine]"
            )
        self.refiner = parse_model_id(model)
        self._proposers = load_proposers(
            options.proposers,
            ProposerContext(
                model=self.refiner,
                seed=options.seed,
                temperature=options.temperature,
                max_tokens=options.max_tokens,
                context_tokens=options.context_tokens,
            ),
        )
        critics = frozenset(
            name for name, proposer in self._proposers.items() if proposer.calls_model
        )
        if began is None:
            feedback_or_none = feedback_of(
                evals.project, self.subject, feedback, critics=bool(critics)
            )
        self.subject = replace(self.subject, feedback=feedback_or_none)
        judging, self._call_usd = expected_trial(evals, self.subject)
        config = loop_config(self.subject, options, critics=critics, judging=judging)
        self._ledger = HoldoutLedger(evals.project, self.subject.prompt.name, config.holdout)
        self.config: LoopConfig = replace(
            config,
            holdout_looks_before=self._ledger.read(),
            goals=resolve_goals(options.goals, self.subject, evals.project),
        )
        self.memory = Memory()
        if use_attempts:
            self.memory = load_memory(evals.project, self.subject.prompt.name, self.memory_key)
        self.replayed_calls = 0

    @property
    def memory_key(self) -> str:
        """The digest of all inputs that results depend on."""
        return memory_key(_judging_inputs(self.subject))

    def estimate(self) -> RunEstimate:
        """The cost of the run, without any call."""
        config = self.config
        first_look = config.policy.test.baseline_trials * len(config.train)
        return RunEstimate(
            train=len(config.train),
            holdout=len(config.holdout),
            first_look_calls=cost_of_trials(config, first_look),
            least_calls=floor_calls(config),
            one_repair_calls=enough_calls(config),
            calls_max=config.policy.limits.calls,
            has_llm_judges=bool(config.judging),
            call_usd=self._call_usd,
        )

    def check_calls(self) -> None:
        """Check that the calls are enough for one fix.

        Raises:
            UsageError: They are not.
        """
        calls, floor = self.config.policy.limits.calls, floor_calls(self.config)
        if calls < floor:
            raise UsageError(
                f"{calls} calls do not pay for one fix of {self.subject.prompt.name}, which"
                f" takes {floor} or more, so no call was made\n"
                "  fix: raise --budget-calls, or `budget_calls` in [tool.regauge.refine];"
                " `--dry-run` shows what it takes"
            )

    def check_key(self, environ: Mapping[str, str]) -> None:
        """Check the key of the refiner model, if it may be called."""
        from regauge.providers import Endpoint

        calls_model = bool(self.config.critics and self.options.model_calls)
        if not calls_model or self.options.removals or self._evals.options.record == "none":
            return
        provider = self.refiner.provider
        settings = endpoint_of(self._evals.project.settings, provider)
        if settings is None:
            return
        try:
            Endpoint(name=provider, settings=settings, environ=environ).check()
        except ProviderError as error:
            raise ProviderError(
                f"{self.refiner}, the refiner model, cannot be called: {error}\n"
                "  or: let another model propose, with --refiner-model, or none, with"
                " --proposers=rules",
                kind=error.kind,
            ) from error

    def run(self, run: Run, listen: Callable[[Note], None]) -> LoopState:
        """Run from the beginning."""
        run.before.write_bytes(self.subject.prompt.source.encode())
        trail = TrailFile.begin(run.trail, self._describe_run())
        return self._drive(begin(self.config, self.memory), trail, listen)

    def resume(
        self, run: Run, listen: Callable[[Note], None], *, more_calls: int | None = None
    ) -> LoopState:
        """Continue an interrupted run; earlier calls are not repeated."""
        truncate_trail(run.trail)
        events = read_events(run)
        state, trail = self._replay(run, events), TrailFile(run.trail, events)
        if more_calls is not None:
            grant = MoreCalls(calls=more_calls)
            state = self._grant(run, state, grant)
            trail.add(grant, state)
            for note in state.notes:
                listen(note)
        return self._drive(state, trail, listen)

    def _grant(self, run: Run, state: LoopState, grant: MoreCalls) -> LoopState:
        """The state of a run with more calls."""
        if state.stop is not None and state.stop.reason != "calls":
            raise UsageError(
                f"run {run.id} is over ({state.stop.reason}), and not for want of calls\n"
                f"  fix: begin a new run: regauge refine {shlex.quote(self.subject.prompt.name)}"
            )
        after = advance(state, grant)
        if after.stop is not None and after.stop.reason == "calls":
            calls = calls_wanted(state)
            raise UsageError(
                f"{plural(grant.calls, 'more call')} cannot finish the run: {after.stop.text};"
                " no call was made\n"
                f"  fix: regauge refine resume {run.id} --budget-calls {calls}"
            )
        return after

    def verify(self, run: Run) -> int:
        """Replay every decision of a trail, without calls."""
        events = read_verified(run)
        state = self._replay(run, events)
        if run.revision.is_file():
            text = run.revision.read_bytes().decode()
            proposed = parse_prompt(text, path=run.revision).messages
            if state.stop is None or not state.stop.proposal or proposed != state.text.messages:
                raise TrailError(
                    f"{run.revision} is not what the decisions of {run.trail.name} lead to\n"
                    "  fix: do not apply it; start a new run:"
                    f" regauge refine {shlex.quote(self.subject.prompt.name)}"
                )
        return sum(len(event.body.get("decisions", ())) for event in events[1:])

    def _replay(self, run: Run, events: Sequence[TrailEvent]) -> LoopState:
        """The state that a trail leads to, with every decision made again."""
        began = events[0].body
        self.memory = Memory.from_json(began["memory"])
        policy = self.config.policy
        if self.options.calls is None:  # the calls of a verdict were estimated at the start
            limits = replace(policy.limits, calls=int(began["calls_max"]))
            policy = replace(policy, limits=limits)
        self.config = replace(
            self.config,
            holdout_looks_before=frozenset(map(str, began.get("holdout_looks", ()))),
            judging=dict(began.get("judging", {})),
            policy=policy,
        )
        changed = changed_inputs(began, self._describe_run())
        if changed:
            raise TrailError(
                f"run {run.id} cannot go on: {', '.join(changed)} changed since it began\n"
                "  fix: put it back as it was, or begin a new run"
            )
        return replay_trail(begin(self.config, self.memory), events, run.trail)

    def finish(self, run: Run, state: LoopState) -> RefinementResult:
        """Write the result of a run: document, rationale, the proposed file, and the status."""
        replayed_calls = int(run.facts().get("replayed", 0)) + self.replayed_calls
        subject, stop, finished = self.subject, state.stop, now()
        revision = None
        if stop is not None and stop.proposal:
            revision = build_revision(subject, state.text, state.accepted, date=finished[:10])
            write_whole(run.revision, revision.text.encode())
            if revision.lock:
                write_whole(run.directory / "prompts.lock", revision.lock.encode())
        events = read_events(run)
        result = result_of(
            run.id,
            subject,
            state,
            events=events,
            revision=revision,
            replayed_calls=replayed_calls,
            command=_command(run.facts()),
        )
        if result.revision is not None:
            write_whole(run.diff, result.revision.diff.encode())
        document = json.dumps(result.model_dump(mode="json"), indent=1)
        write_whole(run.result, f"{document}\n".encode())
        write_whole(run.markdown, markdown_of(result).encode())
        seal(run)
        save_memory(self._evals.project, subject.prompt.name, self.memory_key, state.memory)
        status = status_of(state)
        if status == "proposed" and run.facts().get("status") == "rejected":
            status = "rejected"  # a resumed run proposes the same
        facts = {"status": status, "stop": result.stop.reason}
        run.note(**facts, next=result.next, replayed=replayed_calls, finished=finished)
        return result

    def _describe_run(self) -> dict[str, JSON]:
        return run_inputs(self.subject, self.config, self.options, self.memory)

    def _drive(
        self, state: LoopState, trail: TrailFile, listen: Callable[[Note], None]
    ) -> LoopState:
        last = state

        def on_state(state: LoopState) -> None:
            nonlocal last
            last = state
            self._ledger.add(state.holdout_looks)
            for note in state.notes:
                listen(note)

        # The loop plans with average calls; this limit is exact.
        left = calls_max(state) - state.spending.total
        self._evals.budget.limit(max(0, left))
        try:
            return run_stoppable(self._drive_to_end(state, trail, on_state))
        except KeyboardInterrupt:
            if last.stop is None:  # else it was over already
                interrupted = Interrupted(reason="interrupted", text=BY_SIGNAL)
                with ignore_signals():
                    state = advance(last, interrupted)
                    trail.add(interrupted, state)
                    on_state(state)
            return last

    async def _drive_to_end(
        self, state: LoopState, trail: Trail, on_state: Callable[[LoopState], None]
    ) -> LoopState:
        async with self._evals.open_trials() as trials:
            bench = EvalWorkbench(
                subject=self.subject,
                config=self.config,
                show_expected=self.options.show_expected,
                trials=trials,
                proposers=self._proposers,
                policy=policy_of(self._evals.project.settings.gate),
            )
            try:
                return await drive(state, bench, trail, on_state)
            finally:
                self.replayed_calls += bench.replayed_calls
                bench.close()
