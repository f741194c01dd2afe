"""Runs the loop on the evals of a real prompt, from the first trial to the last file."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from regauge.atomic import write_whole
from regauge.digests import digest_of
from regauge.errors import UsageError
from regauge.gate import policy_of
from regauge.prompts import Message, parse_prompt
from regauge.providers import parse_model_id
from regauge.refine.attempts import LookLedger, Memory, Tried, strategy_prior
from regauge.refine.delivery import revised
from regauge.refine.edits import PromptText
from regauge.refine.feedback import Heard, labels_of
from regauge.refine.loop._goals import goals_digest
from regauge.refine.loop._loop import advance, begin, drive
from regauge.refine.loop._plan import calls_max, cost_of_trials, enough_calls, floor_calls
from regauge.refine.loop._state import Interrupted, MoreCalls, Release
from regauge.refine.proposers._protocol import Looks, ProposerContext, load_proposers
from regauge.refine.report import markdown_of
from regauge.refine.result import diff_of, result_of
from regauge.refine.runs import edits_of_runs, read_whole, remember, seal
from regauge.refine.setting import (
    Estimate,
    RunOptions,
    check_calls,
    check_key,
    check_more,
    expected_trial,
    setting_of,
)
from regauge.refine.subject import bound_goals, cases_of, subject_of
from regauge.refine.trail import TrailError, TrailFile, cut_back, read_trail, retell, text_to_json
from regauge.refine.trials import SuiteBench
from regauge.runner import endpoint_of
from regauge.stop_signals import held, run_stoppable
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.judges import Judge
    from regauge.project import Project
    from regauge.refine.loop._loop import Trail
    from regauge.refine.loop._state import Note, Observation, Setting, State
    from regauge.refine.runs import Run
    from regauge.refine.subject import Subject
    from regauge.refine.trail import Event
    from regauge.runner import EvalSession, PlannedCase


_KNOWN = "known.json"


def heard_of(project: Project, subject: Subject, told: Heard | None, *, critics: bool) -> Heard:
    """Labels, and what else a run is told; nothing is looked for where no model would hear it."""
    if critics:
        judges = [judge.name for one in subject.members.values() for judge in one.suite.judges]
        labels = labels_of(project, dict.fromkeys(judges), cases_of(subject.members, "train"))
        return Heard(said=labels) + (told or Heard())
    if told is not None and told.said:
        raise UsageError(
            "feedback is for a refiner model, and none of the proposers calls one\n"
            "  fix: --proposers rules,model"
        )
    return Heard()


def keep_known(run: Run, subject: Subject) -> None:
    """Keep the releases and the feedback of a run; later there may be others."""
    releases: list[JSON] = [
        {"name": known.name, "command": known.command, "messages": text_to_json(known.text)}
        for known in subject.releases
    ]
    document = {"releases": releases, "feedback": subject.heard.to_json()}
    text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
    write_whole(run.directory / _KNOWN, text.encode())


def known_by(run: Run) -> tuple[str, tuple[Release, ...], Heard]:
    """The prompt's file, the releases and the feedback when a run began."""
    try:
        source = run.before.read_bytes().decode()
        document: Any = read_json((run.directory / _KNOWN).read_text(encoding="utf-8"))
        releases: list[Release] = []
        for one in document["releases"]:
            messages = tuple(Message(**said) for said in one["messages"])
            text = PromptText(messages=messages)
            releases.append(Release(name=one["name"], command=one["command"], text=text))
        return source, tuple(releases), Heard.from_json(document["feedback"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise TrailError(
            f"run {run.id} cannot be recomputed: its copies cannot be read: {error}"
        ) from error


_OF_EARLIER_RUNS = frozenset({"holdout_looks", "prior"})


def about(
    subject: Subject, setting: Setting, options: RunOptions, memory: Memory
) -> dict[str, JSON]:
    """The first line of an audit trail: all that decides the course of a run."""
    goals: dict[str, JSON] = {
        "digest": goals_digest(setting),
        "goals": [goal.to_json() for goal in setting.goals],
    }
    suites = {id(member.suite): member.suite for member in subject.members.values()}
    cases: list[JSON] = [[name, m.case.digest] for name, m in subject.members.items()]
    judges: dict[str, JSON] = {name: judge.digest for name, judge in subject.judges().items()}
    refiner = options.model or subject.model
    return {
        "prompt": subject.prompt.name,
        "version": str(subject.prompt.version or ""),
        "prompt_digest": subject.prompt.digest,
        "base": text_to_json(subject.text),
        "models": sorted({str(suite.model) for suite in suites.values()}),
        "judges": judges,
        "cases": digest_of(cases),
        "train": len(setting.train),
        "holdout": len(setting.holdout),
        "holdout_looks": sorted(setting.looked_before),
        "prior": dict(setting.prior),
        "calls_max": setting.policy.limits.calls,
        **({"judging": dict(setting.judging)} if setting.judging else {}),
        "criteria": {
            "test": asdict(setting.policy.test),
            "guard": asdict(setting.policy.guard),
            "checks": {name: check.criterion for name, check in setting.checks.items()},
        },
        **({"goals": goals} if setting.goals else {}),
        "options": options.to_json(),
        "warnings": list(warnings_of(subject.judges(), refiner, critics=bool(setting.critics))),
        "replaceable": [
            [mark.section, mark.message, mark.words] for mark in subject.prompt.replaceable
        ],
        "people": _people(subject, setting),
        "released": digest_of(list(subject.released)),
        "examples": digest_of([[e.id, e.input, e.output] for e in subject.examples]),
        "memory": [entry.to_json() for entry in memory.tried],
    }


def _people(subject: Subject, setting: Setting) -> JSON:
    """The remarks of users in words; labels by their digest alone, as there may be many."""
    if not setting.heard:
        return None
    labels = [one.to_json() for one in subject.heard.said if one.kind == "label"]
    said = [one.to_json() for one in subject.heard.said if one.kind != "label"]
    return {"said": said, "labels": digest_of(labels), "left_out": list(subject.heard.left_out)}


def warnings_of(judges: Mapping[str, Judge], refiner: str, *, critics: bool) -> tuple[str, ...]:
    """Warnings for readers of the evidence."""
    same = [name for name, judge in judges.items() if refiner in getattr(judge, "models", ())]
    if not critics or not same:
        return ()
    return (f"{refiner} proposes and judges ({', '.join(same)}): a model may favour its own words",)


def changes(began: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The inputs that changed since a run began; a run may continue with another budget."""

    def told(about: Mapping[str, Any], key: str) -> Any:
        return {**about[key], "usd": None} if key == "options" else about.get(key)

    # The trail itself says what was known of earlier runs.
    found = [k for k in now if k not in _OF_EARLIER_RUNS and told(began, k) != told(now, k)]
    if not {"judges", "cases"} & {*found}:
        return found
    # Checks and goals follow from judges and cases: what was not touched is not named.
    kept = all(began["criteria"].get(key) == now["criteria"][key] for key in ("test", "guard"))
    return [k for k in found if k != "goals" and not (k == "criteria" and kept)]


BY_SIGNAL = "stopped by Ctrl-C, SIGTERM or SIGHUP"


class Refinement:
    """A refinement of one prompt, ready to run."""

    def __init__(
        self,
        evals: EvalSession,
        planned: Sequence[PlannedCase],
        options: RunOptions,
        memory: Callable[[str], Memory] | Memory | None = None,
        *,
        name: str | None = None,
        earlier: Run | None = None,
        cut_off: Run | None = None,
        heard: Heard | None = None,
    ) -> None:
        self._evals = evals
        self.options = options
        self.subject: Subject = subject_of(
            evals.project, planned, name=name, tracked=options.tracked
        )
        began = earlier or cut_off
        known = heard or Heard()
        if began is not None:
            source, releases, known = known_by(began)
            if earlier is not None:
                as_it_was = parse_prompt(source, path=self.subject.prompt.path)
                self.subject = replace(
                    self.subject, prompt=as_it_was, source=source, releases=releases
                )
        model = options.model or self.subject.model
        if not model:
            raise UsageError(
                f"nothing says which model proposes edits of {self.subject.prompt.name}\n"
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
        critics = frozenset(name for name, one in self._proposers.items() if one.asks_model)
        if began is None:
            known = heard_of(evals.project, self.subject, heard, critics=bool(critics))
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
        """The cost of the run, without any call."""
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
            call_usd=self._expected.call_usd,
        )

    def check_calls(self) -> None:
        """See that the calls pay for one repair; a UsageError says what they are short of."""
        check_calls(self.setting, self.subject.prompt.name)

    def check_key(self, environ: Mapping[str, str]) -> None:
        """Look for the key of the model that proposes, where one may be asked."""
        asks = any(one.asks_model for one in self._proposers.values())
        if asks and self.options.model_calls and self._evals.options.record != "none":
            check_key(self._evals.project.settings, self.refiner, environ)

    def run(self, run: Run, listen: Callable[[Note], None]) -> State:
        """Run from the beginning."""
        run.before.write_bytes(self.subject.source.encode())
        keep_known(run, self.subject)
        trail = TrailFile.begin(run.trail, self._about())
        return self._drive(begin(self.setting, self.memory), trail, listen)

    def resume(
        self, run: Run, listen: Callable[[Note], None], *, more_calls: int | None = None
    ) -> State:
        """Go on where a run was cut off; what it paid for is not paid again."""
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
        """Decide everything in a trail again, from what was observed; no one is asked."""
        events = read_whole(run)
        state = self._retold(run, events)
        if run.revision.is_file():
            text = run.revision.read_bytes().decode()
            proposed = parse_prompt(text, path=run.revision).messages
            if state.stop is None or not state.stop.proposal or proposed != state.text.messages:
                raise TrailError(
                    f"{run.revision} is not what the decisions of {run.trail.name} lead to\n"
                    "  fix: do not apply it; start a new run:"
                    f" regauge refine {self.subject.prompt.name}"
                )
        return sum(len(event.body.get("decisions", ())) for event in events[1:])

    def _retold(self, run: Run, events: Sequence[Event]) -> State:
        """The state a trail leads to, with every decision made again."""
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
        """Write down the result of a run: result, rationale, and the file it proposes."""
        replayed = int(run.facts().get("replayed", 0)) + self.replayed
        run.note(replayed=replayed)
        subject, setting, stop = self.subject, self.setting, state.stop
        revision = None
        if stop is not None and stop.proposal:
            revision = revised(subject, state.text, state.accepted, date=date)
            write_whole(run.revision, revision.text.encode())
            if revision.lock:
                write_whole(run.directory / "prompts.lock", revision.lock.encode())
        events = read_trail(run.trail)
        result = result_of(
            run.id, subject, setting, state, events=events, revision=revision, replayed=replayed
        )
        if revision is not None:
            write_whole(run.diff, diff_of(result).encode())
            seal(run)
        write_whole(run.result, (json.dumps(result, indent=1) + "\n").encode())
        write_whole(run.markdown, markdown_of(result).encode())
        if revision is not None:
            texts = (setting.base, *(one.text for one in state.accepted))
            edits = [
                Tried.of(before, one.text, one.cluster.key, "accepted").to_json()
                for before, one in zip(texts, state.accepted, strict=False)
            ]
            document = {"key": self.memory_key, "edits": edits}
            write_whole(run.directory / "accepted.json", json.dumps(document).encode())
        run.note_end()
        remember(self._evals.project, subject.prompt.name, self.memory_key, state.memory)
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
                bench.close()


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
