"""Runs the loop on the evals of a real prompt, and writes down all that it does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.digests import digest_of
from regauge.gate import policy_of
from regauge.prompts import parse_prompt
from regauge.providers import parse_model_id
from regauge.refine.attempts import LookLedger, Memory, Tried, strategy_prior
from regauge.refine.conduct._about import about, changes
from regauge.refine.conduct._again import as_it_was, keep_known
from regauge.refine.conduct._calls import check_calls, check_more
from regauge.refine.conduct._driver import drive
from regauge.refine.conduct._estimate import Estimate, expected_trial
from regauge.refine.conduct._finished import write_down
from regauge.refine.conduct._hearing import heard_by, heard_of
from regauge.refine.conduct._key import check_key
from regauge.refine.goals import least_trials
from regauge.refine.loop import (
    Interrupted,
    MoreCalls,
    advance,
    begin,
    calls_max,
    cost_of_trials,
    enough_calls,
    floor_calls,
    out_of_reach,
)
from regauge.refine.proposers import Looks, ProposerContext, load_proposers
from regauge.refine.runs import edits_of_runs, read_whole, remember
from regauge.refine.trail import TrailError, TrailFile, cut_back, read_trail, retell
from regauge.refine.workbench import RunOptions, SuiteBench, bound_goals, setting_of, subject_of
from regauge.runner import endpoint_of
from regauge.stop_signals import held, run_stoppable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.refine.conduct._driver import Trail
    from regauge.refine.feedback import Heard
    from regauge.refine.loop import Note, Observation, Setting, State
    from regauge.refine.runs import Run
    from regauge.refine.trail import Event
    from regauge.refine.workbench import Subject
    from regauge.runner import EvalSession, PlannedCase

__all__ = ["BY_SIGNAL", "Refinement"]

BY_SIGNAL = "stopped by Ctrl-C, SIGTERM or SIGHUP"


class Refinement:
    """A refinement of one prompt, ready to run.

    Args:
        evals: Makes and keeps trials.
        planned: The cases of the prompt's evals.
        options: How to run.
        memory: What earlier runs found.
        earlier: A run to tell again: the prompt, its releases and what people said are taken as
            they were then.
        cut_off: A run to go on with: what people said is taken as it was then.
        heard: What people said of the prompt's answers, besides their labels.
    """

    def __init__(
        self,
        evals: EvalSession,
        planned: Sequence[PlannedCase],
        options: RunOptions,
        memory: Callable[[str], Memory] | Memory | None = None,
        *,
        earlier: Run | None = None,
        cut_off: Run | None = None,
        heard: Heard | None = None,
    ) -> None:
        self._evals = evals
        self.options = options
        self.subject: Subject = subject_of(evals.project, planned, tracked=options.tracked)
        if earlier is not None:
            self.subject = as_it_was(self.subject, earlier)
        model = options.model or str(next(iter(self.subject.members.values())).suite.model)
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
        critics = frozenset(name for name, one in self._proposers.items() if one.asks_model)
        began = earlier or cut_off
        known = (
            heard_by(began)
            if began is not None
            else heard_of(evals.project, self.subject, heard, critics=bool(critics))
        )
        self.subject = replace(self.subject, heard=known)
        self._expected = expected_trial(evals, self.subject)
        setting = setting_of(self.subject, options, critics=critics, judging=self._expected.judging)
        remote = endpoint_of(evals.project.settings, self.refiner.provider) is not None
        looks = [name for name, one in self._proposers.items() if isinstance(one, Looks)]
        self._ledger = LookLedger(evals.project, self.subject.prompt.name, setting.holdout)
        earlier_edits = () if memory is None else edits_of_runs(evals.project)
        self.setting: Setting = replace(
            setting,
            looked_before=self._ledger.read(),
            goals=bound_goals(options.goals, self.subject, evals.project),
            prior=strategy_prior(earlier_edits),
            # A model in this process needs no look: nothing between it and its replies can fail.
            look=looks[0] if looks and remote and evals.options.record != "none" else "",
        )
        said = memory(self.memory_key) if callable(memory) else memory
        self.memory = said or Memory()
        self.replayed = 0

    @property
    def memory_key(self) -> str:
        """Of what findings depend on: what was found with other cases or judges may not hold."""
        about = self._about()
        return digest_of([about["cases"], about["judges"], about["models"]])

    def estimate(self) -> Estimate:
        """What the run takes; nobody is asked."""
        setting = self.setting
        first_look = setting.policy.test.baseline_trials * len(setting.train)
        return Estimate(
            train=len(setting.train),
            holdout=len(setting.holdout),
            first_look=cost_of_trials(setting, first_look) + bool(setting.look),
            least=floor_calls(setting),
            one_repair=enough_calls(setting),
            most=setting.policy.limits.calls,
            judged=bool(setting.judging),
            goals=tuple((goal.name, least_trials(goal.pass_rate)) for goal in setting.goals),
            out_of_reach=out_of_reach(setting),
            steadying=(-(-first_look // 3), first_look) if setting.variance else None,
            call_usd=self._expected.call_usd,
        )

    def check_calls(self) -> None:
        """See that the calls pay for one repair; a UsageError says what they are short of."""
        check_calls(self.setting, self.subject.prompt.name)

    def check_key(self, environ: Mapping[str, str]) -> None:
        """Look for the key of the model that proposes, where one may be asked.

        Raises:
            UsageError: Nothing says where its provider is.
            ProviderError: Its key is not there.
        """
        asks = any(one.asks_model for one in self._proposers.values())
        if asks and self.options.model_calls and self._evals.options.record != "none":
            check_key(self._evals.project.settings, self.refiner, environ)

    def run(self, run: Run, listen: Callable[[Note], None]) -> State:
        """Run from the beginning.

        Args:
            run: Where everything is written.
            listen: Told every decision.
        """
        run.before.write_bytes(self.subject.source.encode())
        keep_known(run, self.subject)
        trail = TrailFile.begin(run.trail, self._about())
        return self._drive(begin(self.setting, self.memory), trail, listen)

    def resume(
        self, run: Run, listen: Callable[[Note], None], *, more_calls: int | None = None
    ) -> State:
        """Go on where a run was cut off; what it paid for is not paid again.

        Args:
            run: Where everything is written.
            listen: Told every decision.
            more_calls: How many calls it may make from here on; None is what it may anyway.

        Raises:
            TrailError: The trail cannot be read, or the prompt, its cases or its judges are no
                longer what they were.
            UsageError: The run is over, and calls are not what it lacked; or so few lead nowhere.
        """
        cut_back(run.trail)
        events = read_trail(run.trail)
        state, trail = self._retold(run, events), TrailFile(run.trail, events)
        if more_calls is not None:
            told, prompt = MoreCalls(calls=more_calls), self.subject.prompt.name
            state = check_more(self.setting, state, told, run=run.id, prompt=prompt)
            trail.add(told, state)
            for note in state.notes:
                listen(note)
        return self._drive(state, trail, listen)

    def verify(self, run: Run) -> int:
        """Decide everything in a trail once more, from what was observed; nobody is asked.

        Returns:
            How many decisions came out as they are written down.

        Raises:
            TrailError: One comes out differently, the run proposes another text than they lead
                to, or cases, judges or settings are no longer what they were.
        """
        events = read_whole(run)
        state = self._retold(run, events)
        if run.revision.is_file():
            text = run.revision.read_bytes().decode()
            proposed = parse_prompt(text, path=run.revision).messages
            if state.stop is None or not state.stop.proposal or proposed != state.text.messages:
                raise TrailError(
                    f"{run.revision} is not what the decisions of {run.trail.name} lead to\n"
                    "  fix: do not apply it, and refine anew:"
                    f" regauge refine {self.subject.prompt.name}"
                )
        return sum(len(event.body.get("decisions", ())) for event in events[1:])

    def _retold(self, run: Run, events: Sequence[Event]) -> State:
        """The state a trail leads to, with every decision made once more.

        Raises:
            TrailError: It cannot be told again, or not to the same end.
        """
        began = events[0].body
        self.memory = Memory(tuple(Tried.from_json(entry) for entry in began["memory"]))
        looked = frozenset(map(str, began.get("holdout_looks", ())))
        prior = dict(began.get("prior", {}))
        policy = self.setting.policy
        limits = policy.limits
        if self.options.calls is None:  # what a verdict takes was estimated as the run began
            limits = replace(limits, calls=int(began["calls_max"]))
        self.setting = replace(
            self.setting,
            looked_before=looked,
            prior=prior,
            judging=dict(began.get("judging", {})),
            policy=replace(policy, limits=limits),
        )
        if len(events) > 1:
            first = events[1].body.get("observation", {})
            look = str(first["proposer"]) if first.get("kind") == "Looked" else ""
            self.setting = replace(self.setting, look=look)
        changed = changes(began, self._about())
        if changed:
            raise TrailError(
                f"run {run.id} cannot go on: {', '.join(changed)} changed since it began\n"
                "  fix: put it back as it was, or begin a new run"
            )
        return retell(self.setting, begin(self.setting, self.memory), events, run.trail)

    def finish(self, run: Run, state: State, *, date: str) -> dict[str, JSON]:
        """Write down what came of a run: result, rationale, and the file it proposes.

        Args:
            run: Where everything is written.
            state: Its last state.
            date: For the changelog, such as `2025-06-30`.

        Returns:
            The result as a document.
        """
        replayed = int(run.facts().get("replayed", 0)) + self.replayed
        run.note(replayed=replayed)
        result = write_down(
            run,
            self.subject,
            self.setting,
            state,
            date=date,
            memory_key=self.memory_key,
            replayed=replayed,
        )
        remember(self._evals.project, self.subject.prompt.name, self.memory_key, state.memory)
        return result

    def _about(self) -> dict[str, JSON]:
        memory = getattr(self, "memory", Memory())
        return about(self.subject, self.setting, self.options, memory)

    def _drive(self, state: State, file: TrailFile, listen: Callable[[Note], None]) -> State:
        def kept(state: State) -> None:
            self._ledger.add(state.looked)
            for note in state.notes:
                listen(note)

        # The loop plans with what calls take on average; this holds whatever they take.
        left = calls_max(self.setting, state) - state.spent.total
        self._evals.budget.limit_calls = max(0, left)
        trail = _Listening(file, state, kept)
        try:
            return run_stoppable(self._driven(state, trail))
        except KeyboardInterrupt:
            if trail.state.stop is not None:  # it was over already
                return trail.state
            told = Interrupted(reason="interrupted", text=BY_SIGNAL)
            with held():
                trail.add(told, advance(self.setting, trail.state, told))
            return trail.state

    async def _driven(self, state: State, trail: Trail) -> State:
        async with self._evals.making() as trials:
            bench = SuiteBench(
                self.subject,
                self.setting,
                self.options,
                trials=trials,
                proposers=self._proposers,
                policy=policy_of(self._evals.project.settings.gate),
            )
            try:
                return await drive(self.setting, state, bench, trail)
            finally:
                self.replayed += bench.replayed


class _Listening:
    """A trail that tells what is decided as soon as it is on disk, and knows where the run is."""

    def __init__(self, file: TrailFile, state: State, listen: Callable[[State], None]) -> None:
        self._file = file
        self._listen = listen
        self.state = state

    def add(self, observation: Observation, state: State) -> None:
        """Keep, then tell."""
        self._file.add(observation, state)
        self.state = state
        self._listen(state)
