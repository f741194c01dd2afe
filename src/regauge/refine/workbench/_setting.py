"""What a run is about, out of a project's files: the prompt, its cases, its judges, its past."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from regauge.errors import GitError, PromptError, UsageError
from regauge.gate import REVISION_FIRST
from regauge.judges import criterion_of
from regauge.prompts import (
    Repository,
    load_version,
    parse_prompt,
    replaceable_faults,
    set_contents,
    text_at,
    version_records,
)
from regauge.refine._policy import Limits, RefinePolicy
from regauge.refine.edits import PromptText
from regauge.refine.evidence import Check
from regauge.refine.guards import Guard
from regauge.refine.loop import Setting, floor_calls
from regauge.refine.people import Heard, heard_in_words, labels_of
from regauge.refine.proposers import load_examples
from regauge.refine.workbench._case_text import case_text
from regauge.refine.workbench._goals import DeclaredGoal
from regauge.refine.workbench._hints import hints_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges import Judge
    from regauge.project import Project
    from regauge.prompts import Prompt
    from regauge.refine.people import Evidence
    from regauge.refine.proposers import Example
    from regauge.runner import PlannedCase, Suite

__all__ = [
    "Member",
    "RunOptions",
    "Subject",
    "hints_for",
    "public_of",
    "setting_of",
    "subject_of",
]

# Each seed has numbers of its own.
_TRIALS_PER_SEED = 1000
_CALLS_MIN = 600
_CALLS_PER_FLOOR = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to run, as the project and the command line say.

    Attributes:
        proposers: Who is asked for edits, the cheapest first.
        model: Who criticises and proposes, as `provider:model`; empty is the prompt's own.
        calls: The most trials; None is three times what one repair takes.
        seed: Another one draws other trials.
        strategies: Only edits thought of in these ways; all when empty.
        localise: Calls that may tell which sentence carries which check.
        variance: Whether an edit may be accepted because it makes a flaky check steady.
        goals: What is to be reached; without any, that nothing fails reproducibly.
    """

    proposers: tuple[str, ...] = ("rules", "model")
    model: str = ""
    cycles: int = 5
    calls: int | None = None
    model_calls: int = 40
    usd: float | None = None
    seed: int = 0
    frozen: tuple[str, ...] = ()
    show_goldens: bool = False
    strategies: tuple[str, ...] = ()
    tracked: bool = False
    localise: int = 0
    variance: bool = False
    goals: tuple[DeclaredGoal, ...] = ()

    def to_json(self) -> dict[str, JSON]:
        """A plain document; runs without goals say nothing of them."""
        document: dict[str, JSON] = json.loads(json.dumps(asdict(self)))
        if not self.goals:
            del document["goals"]
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunOptions:
        """What `to_json` wrote."""
        given: dict[str, Any] = dict(document)
        for key in ("proposers", "frozen", "strategies"):
            given[key] = tuple(given[key])
        given["goals"] = tuple(map(DeclaredGoal.from_json, given.get("goals", ())))
        return cls(**given)


@dataclass(frozen=True, slots=True)
class Member:
    """One golden case of one eval of the prompt."""

    suite: Suite
    case: GoldenCase


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A prompt that is to be refined.

    Attributes:
        source: The whole text of its file.
        members: Its cases, by the names that the run gives them.
        released: What it said before: its releases and its base branch, the newest first.
        examples: The pool that a prompt's examples may be taken from; never golden cases.
        heard: What people said of its answers; of labels only those of train cases.
    """

    prompt: Prompt
    source: str
    members: Mapping[str, Member]
    released: tuple[str, ...]
    examples: tuple[Example, ...] = ()
    heard: Heard = field(default_factory=Heard)

    @property
    def text(self) -> PromptText:
        """Its messages."""
        return PromptText(messages=self.prompt.messages)

    def written(self, text: PromptText) -> str:
        """The prompt's file with other messages.

        Raises:
            PromptError: The file would not be the same prompt with other words.
        """
        contents = [message.content for message in text.messages]
        return set_contents(self.source, contents, path=self.prompt.path)

    def prompt_with(self, text: PromptText) -> Prompt:
        """The prompt with other messages, read back from what its file would say."""
        return parse_prompt(self.written(text), path=self.prompt.path)

    def judges(self) -> Mapping[str, Judge]:
        """The judges that decide, by name."""
        suites = {id(member.suite): member.suite for member in self.members.values()}
        return {
            judge.name: judge
            for suite in suites.values()
            for judge in suite.judges
            if suite.standing(judge).gates
        }


def subject_of(
    project: Project, planned: Sequence[PlannedCase], *, tracked: bool = False
) -> Subject:
    """The prompt that planned evals are about, with their cases.

    Args:
        project: Where it is.
        planned: All of one prompt.
        tracked: Whether cases that are only watched count.

    Raises:
        UsageError: None of the cases must pass.
    """
    members: dict[str, Member] = {}
    for one in planned:
        if one.error is not None:
            raise one.error
        if one.case.tier == "tracked" and not tracked:
            continue
        name = one.case.id
        if name in members and members[name].suite is not one.suite:
            name = f"{one.suite.dataset.name}/{name}#{len(members)}"
        members[name] = Member(one.suite, one.case)
    if not members:
        raise UsageError(
            "no case of the prompt has to pass: all are only tracked\n  fix: --tracked"
        )
    prompt = planned[0].suite.prompt
    return Subject(
        prompt=prompt,
        source=prompt.source,
        members=members,
        released=_released(project, prompt),
        examples=load_examples(
            project.fixtures_dir / "examples" / f"{prompt.name}.jsonl",
            golden=[one.case.id for one in planned],
        ),
        heard=Heard(said=labels_of(project, _judges(members), _ids(members, "train"))),
    )


def setting_of(subject: Subject, options: RunOptions, *, critics: frozenset[str]) -> Setting:
    """The setting of a run.

    Raises:
        UsageError: There is no case that proposers may learn of.
        PromptError: The prompt marks a section as replaceable that it does not have.
    """
    marked = replaceable_faults(subject.prompt)
    if marked:
        raise PromptError(marked)
    base = subject.text
    by_split = {
        split: tuple(name for name, member in subject.members.items() if member.case.split == split)
        for split in ("train", "holdout")
    }
    if not by_split["train"]:
        raise UsageError(
            "every golden case is held out, so nothing may be learned of any\n"
            "  fix: give some of them `split: train`, or lower `holdout` in [tool.regauge]"
        )
    checks = {name: _check(judge) for name, judge in subject.judges().items()}
    policy = RefinePolicy(
        limits=Limits(
            calls=options.calls or _CALLS_MIN,
            model_calls=options.model_calls,
            usd=options.usd,
            cycles=options.cycles,
            localise_calls=options.localise,
        )
    )
    guard = Guard(
        base,
        [case_text(member.case) for member in subject.members.values()],
        public_of(subject, checks.values()),
        policy.guard,
        frozen=options.frozen,
        released=subject.released,
        replaceable=subject.prompt.replaceable,
        people=[one.text for one in subject.heard.said],
    )
    setting = Setting(
        base=base,
        train=by_split["train"],
        holdout=by_split["holdout"],
        checks=checks,
        guard=guard,
        policy=policy,
        proposers=options.proposers,
        critics=critics,
        strategies=options.strategies,
        variance=options.variance,
        first_trial=REVISION_FIRST + _TRIALS_PER_SEED * options.seed,
        heard=heard_in_words(subject.heard) if critics else "",
    )
    if options.calls is None:
        calls = max(_CALLS_MIN, _CALLS_PER_FLOOR * floor_calls(setting)) + options.localise
        limits = replace(policy.limits, calls=calls)
        setting = replace(setting, policy=replace(policy, limits=limits))
    return setting


def hints_for(
    subject: Subject, setting: Setting, *, show_goldens: bool = False
) -> tuple[Evidence, ...]:
    """What people said of a prompt's answers, as far as proposers may know of it."""
    return hints_of(
        subject.heard.said,
        _ids(subject.members, "train"),
        _ids(subject.members, "holdout"),
        public=(setting.base.whole, *public_of(subject, setting.checks.values())),
        policy=setting.policy.guard,
        show_goldens=show_goldens,
    )


def _judges(members: Mapping[str, Member]) -> list[str]:
    """All judges, those that only inform among them: people may have labelled for each."""
    return list(dict.fromkeys(judge.name for one in members.values() for judge in one.suite.judges))


def _ids(members: Mapping[str, Member], split: str) -> dict[str, GoldenCase]:
    """The cases of a split by their ids; an id that any dataset holds out is no train case."""
    held = {one.case.id for one in members.values() if one.case.split == "holdout"}
    cases = {one.case.id: one.case for one in members.values() if one.case.split == split}
    return {id_: case for id_, case in cases.items() if split == "holdout" or id_ not in held}


def public_of(subject: Subject, checks: Iterable[Check]) -> tuple[str, ...]:
    """What a proposal may say besides the prompt's messages, whatever cases say.

    The schema of the answer is part of it: its labels are given to the model as it is.
    """
    return (
        *(text for check in checks for text in (check.advice, check.description)),
        *subject.released,
        *(f"{one.input} {one.output}" for one in subject.examples),
        json.dumps(subject.prompt.response_format, ensure_ascii=False),
    )


def _released(project: Project, prompt: Prompt) -> tuple[str, ...]:
    """The messages of earlier versions that say something else; none where git has none."""
    path = prompt.path
    found: list[tuple[str, ...]] = []

    def add(old: Prompt) -> None:
        contents = tuple(message.content for message in old.messages)
        if contents not in found and old.messages != prompt.messages:
            found.append(contents)

    for ref in (project.settings.gate.ref, "HEAD"):
        with suppress(GitError, PromptError):
            add(parse_prompt(text_at(path, ref), path=path))
    with suppress(GitError, PromptError):
        for record in version_records(path, Repository.find(path.parent)):
            if record.released:
                with suppress(GitError, PromptError):
                    add(load_version(path, record.version))
    return tuple("\n".join(contents) for contents in found)


def _check(judge: Judge) -> Check:
    """A judge as the loop knows it; one that gives no advice of its own has none."""
    advice = getattr(judge, "advice", None)
    return Check(
        name=judge.name,
        criterion=criterion_of(judge),
        advice=str(advice()) if callable(advice) else "",
        description=str(getattr(judge, "description", "") or ""),
    )
