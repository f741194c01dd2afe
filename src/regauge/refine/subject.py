"""A prompt that is to be refined: its cases, its past, and the goals declared for it."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from regauge.errors import ConfigError, Fault, GitError, PromptError, RegaugeError, UsageError
from regauge.gate.baselines import accepted_since
from regauge.judges import criterion_of
from regauge.project import HttpTarget, RecordedTarget
from regauge.prompts import (
    Repository,
    find_prompt,
    load_version,
    parse_prompt,
    prompt_at,
    set_contents,
    version_records,
)
from regauge.refine.edits import PromptText
from regauge.refine.feedback import Heard
from regauge.refine.loop._goals import Goal
from regauge.refine.loop._state import Release
from regauge.refine.proposers._rules import load_examples
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.criteria import Criterion
    from regauge.datasets import GoldenCase
    from regauge.judges import Judge
    from regauge.project import GoalSettings, Project, TargetSettings
    from regauge.prompts import Message, Prompt
    from regauge.refine.proposers._protocol import Example
    from regauge.runner import PlannedCase, Suite


@dataclass(frozen=True, slots=True)
class Member:
    """One golden case of one eval of the prompt."""

    suite: Suite
    case: GoldenCase


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A prompt that is to be refined.

    Attributes:
        members: Its cases, by the names that the run gives them.
        model: The model that answers it; empty where a target does, and neither the prompt nor the
            project names one.
        examples: The pool that a prompt's examples may be taken from; never golden cases.
        heard: What people said of its answers; of labels only those of train cases.
    """

    prompt: Prompt
    source: str
    model: str
    members: Mapping[str, Member]
    releases: tuple[Release, ...]
    examples: tuple[Example, ...] = ()
    heard: Heard = field(default_factory=Heard)

    @property
    def text(self) -> PromptText:
        """Its messages."""
        return PromptText(messages=self.prompt.messages)

    @property
    def released(self) -> tuple[str, ...]:
        """The messages of each earlier version, one after the other."""
        return tuple(known.text.whole for known in self.releases)

    def written(self, text: PromptText) -> str:
        """The prompt's file with other messages."""
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
    project: Project,
    planned: Sequence[PlannedCase],
    *,
    name: str | None = None,
    tracked: bool = False,
) -> Subject:
    """The prompt that planned evals are about, with their cases.

    Args:
        project: Where it is.
        planned: All of one prompt, those of targets that load it among them.
        name: The prompt's name; by default what the evals name.
        tracked: Whether tracked cases count, and those that the changelog accepts as broken: what
            a release accepted on purpose is not repaired away.
    """
    members: dict[str, Member] = {}
    prompt, *_ = [_refined_prompt(one.suite, name) for one in planned]
    accepted = accepted_since(prompt, "")
    for one in planned:
        if one.error is not None:
            raise one.error
        watched = one.case.tier == "tracked" or one.case.id in accepted
        if watched and not tracked:
            continue
        case = one.case.id
        if case in members and members[case].suite is not one.suite:
            case = f"{one.suite.dataset.name}/{case}#{len(members)}"
        members[case] = Member(one.suite, one.case)
    if not members:
        raise UsageError(
            "no case of the prompt has to pass: all are tracked or accepted in the changelog\n"
            "  fix: --include-tracked"
        )
    asked = (str(one.suite.model) for one in planned if one.suite.target is None)
    return Subject(
        prompt=prompt,
        source=prompt.source,
        model=next(asked, prompt.model or project.settings.model or ""),
        members=members,
        releases=_releases(project, prompt),
        examples=load_examples(
            project.fixtures_dir / "examples" / f"{prompt.name}.jsonl",
            golden=[one.case.id for one in planned],
        ),
    )


def check_editable(name: str, settings: TargetSettings) -> None:
    """See that a target can load an edited text.

    Raises:
        UsageError: It cannot.
    """
    if isinstance(settings, HttpTarget):
        why = "is an HTTP endpoint, and an edited text does not reach the process behind it"
    elif isinstance(settings, RecordedTarget):
        why = "is a file of recorded outputs, which stay the same whatever a prompt says"
    else:
        return
    raise UsageError(
        f"the target {name!r} {why}\n"
        '  fix: test the code with a target of kind "python" or "command" that declares the prompt,'
        "\n       and name the file of its eval: --evals evals/test_NAME.py"
    )


def _refined_prompt(suite: Suite, name: str | None) -> Prompt:
    """The prompt of an eval: its own, or one that its target loads.

    Raises:
        UsageError: Its target loads no such prompt, or an edited text cannot reach it.
    """
    target = suite.target
    if target is None:
        return suite.prompt
    check_editable(target.name, target.settings)
    name = name or suite.prompt.name
    prompt = next((prompt for prompt in target.prompts if prompt.name == name), None)
    if prompt is None:
        loaded = ", ".join(prompt.name for prompt in target.prompts) or "none"
        raise UsageError(
            f"the eval {suite.prompt.name} tests the target {target.name!r}, which declares no"
            f" prompt {name!r}; it declares: {loaded}\n"
            f"  fix: name one of its prompts, or declare `prompts` in"
            f" [tool.regauge.targets.{target.name}]"
        )
    return prompt


def cases_of(members: Mapping[str, Member], split: str) -> dict[str, GoldenCase]:
    """The cases of a split by their ids; an id that any dataset holds out is no train case."""
    held = {one.case.id for one in members.values() if one.case.split == "holdout"}
    cases = {one.case.id: one.case for one in members.values() if one.case.split == split}
    return {id_: case for id_, case in cases.items() if split == "holdout" or id_ not in held}


def _releases(project: Project, prompt: Prompt) -> tuple[Release, ...]:
    """Earlier versions with other words in the same messages; none where git has none."""
    path = prompt.path
    roles = [message.role for message in prompt.messages]
    found: dict[tuple[Message, ...], Release] = {}

    def add(old: Prompt, name: str, ref: str) -> None:
        same_roles = [message.role for message in old.messages] == roles
        if same_roles and old.messages != prompt.messages:
            text = PromptText(messages=old.messages)
            command = f"git checkout {ref} -- {shlex.quote(place)}"
            found.setdefault(old.messages, Release(name=name, text=text, command=command))

    place = str(project.relative(path))
    for ref in (project.settings.gate.ref, "HEAD"):
        with suppress(GitError, PromptError):
            add(prompt_at(path, ref), ref, ref)
    with suppress(GitError, PromptError):
        for record in version_records(path, Repository.find(path.parent)):
            if record.released and record.commit:
                with suppress(GitError, PromptError):
                    old = load_version(path, record.version)
                    add(old, f"version {record.version}", record.commit[:12])
    return tuple(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredGoal:
    """One of `[[tool.regauge.refine.loop._goals]]`.

    Attributes:
        number: Its place among all goals of the project, from 0.
        judge: A judge's name or kind; None is every judge that decides.
    """

    number: int
    pass_rate: float
    judge: str | None = None
    criterion: Criterion | None = None
    tag: str | None = None

    @property
    def name(self) -> str:
        """The name in reports."""
        said = [self.judge or "", f"criterion {self.criterion}" if self.criterion else ""]
        what = " of ".join(filter(None, said)) or "every check"
        where = f" on tag {self.tag}" if self.tag else ""
        return f"{what}{where} at {100 * self.pass_rate:g} %"

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> DeclaredGoal:
        """The options that a run has kept."""
        return cls(**document)


def declared_goals(project: Project, prompt: str) -> tuple[DeclaredGoal, ...]:
    """The goals of a prompt."""
    found: list[DeclaredGoal] = []
    faults: list[Fault] = []
    for number, goal in enumerate(project.settings.refine.goals):
        if goal.prompt in {None, prompt}:
            found.append(_declared(number, goal))
        elif (fault := _no_prompt(project, number, goal)) is not None:
            faults.append(fault)
    if faults:
        raise ConfigError(faults)
    return tuple(found)


def bound_goals(
    declared: Sequence[DeclaredGoal], subject: Subject, project: Project
) -> tuple[Goal, ...]:
    """The checks and cases that goals speak of."""
    bound = [_bound(one, subject, project) for one in declared]
    faults = [one for one in bound if isinstance(one, Fault)]
    if faults and tuple(declared) == declared_goals(project, subject.prompt.name):
        raise ConfigError(faults)
    return tuple(one for one in bound if isinstance(one, Goal))


def goal_faults(project: Project, planned: Iterable[PlannedCase]) -> list[Fault]:
    """Errors in the goals of a project.

    A goal that names no prompt has to fit one of those that have evals.
    """
    goals = project.settings.refine.goals
    subjects = _subjects(project, planned if goals else ())
    found: list[Fault] = []
    for number, goal in enumerate(goals):
        fault = _no_prompt(project, number, goal)
        if fault is not None:
            found.append(fault)
            continue
        bound = [
            _bound(_declared(number, goal), subject, project)
            for name, subject in subjects.items()
            if goal.prompt in {None, name}
        ]
        faults = [one for one in bound if isinstance(one, Fault)]
        if len(faults) == len(bound):
            found += faults
    return found


def _subjects(project: Project, planned: Iterable[PlannedCase]) -> Mapping[str, Subject]:
    """The prompts of planned evals; without those that cannot be refined, whatever goals say."""
    by_prompt: dict[str, list[PlannedCase]] = {}
    for one in planned:
        by_prompt.setdefault(one.suite.prompt.name, []).append(one)
    found: dict[str, Subject] = {}
    for name, cases in by_prompt.items():
        with suppress(RegaugeError):
            found[name] = subject_of(project, cases, tracked=True)
    return found


def _declared(number: int, goal: GoalSettings) -> DeclaredGoal:
    return DeclaredGoal(
        number=number,
        pass_rate=goal.pass_rate,
        judge=goal.judge,
        criterion=goal.criterion,
        tag=goal.tag,
    )


def _no_prompt(project: Project, number: int, goal: GoalSettings) -> Fault | None:
    """The fault of a goal for a prompt that is not there."""
    if goal.prompt is None:
        return None
    try:
        find_prompt(goal.prompt, root=project.root)
    except PromptError as error:
        (fault,) = error.faults
        where = ("refine", "goals", number, "prompt")
        return project.setting_fault(where, fault.message, fix=fault.fix)
    return None


def _bound(declared: DeclaredGoal, subject: Subject, project: Project) -> Goal | Fault:
    """The checks and cases of a goal, or why it has none."""
    prompt, members, deciding = subject.prompt.name, subject.members, subject.judges()

    def fault(key: str, message: str, fix: str) -> Fault:
        return project.setting_fault(("refine", "goals", declared.number, key), message, fix=fix)

    advisory = {
        judge.name: (criterion_of(judge), member.suite.standing(judge).reason)
        for member in members.values()
        for judge in member.suite.judges
        if judge.name not in deciding
    }
    words = {name: {name, *_kinds(name, judge)} for name, judge in deciding.items()}
    checks = [name for name in deciding if declared.judge in {None, *words[name]}]
    counted = [n for n in checks if declared.criterion in {None, criterion_of(deciding[n])}]
    if not counted:
        key, under = "judge", ""
        if checks:
            key, under = "criterion", f", which counts under {declared.criterion},"
        for name, (criterion, reason) in advisory.items():
            is_meant = declared.judge is None and criterion == declared.criterion
            if reason and (is_meant if checks else name == declared.judge):
                message = f"the judge {name!r}{under} informs and does not decide: {reason}"
                calibrate = (
                    f"label answers or improve the judge, then: regauge judges calibrate {name}"
                )
                return fault(key, message, calibrate)
        if checks:
            known = ", ".join(f"{name} ({criterion_of(deciding[name])})" for name in checks)
            message = f"no judge that decides about {prompt} counts under {declared.criterion}"
            count = f"count one under it: .judging({declared.criterion!r}), or remove the goal"
            return fault(key, f"{message}: {known}", count)
        message = f"the evals of {prompt} have no judge {declared.judge!r}"
        known_words = {*advisory}.union(*words.values())
        return fault(key, message, _nearest(declared.judge, known_words))
    tags = {tag for member in members.values() for tag in member.case.tags}
    if declared.tag is not None and declared.tag not in tags:
        message = f"no case of {prompt} has the tag {declared.tag!r}"
        return fault("tag", message, _nearest(declared.tag, tags))
    return Goal(
        name=declared.name,
        checks=tuple(counted),
        cases=tuple(
            name
            for name, member in members.items()
            if (declared.tag is None or declared.tag in member.case.tags)
            and any(judge.name in counted for judge in member.suite.judges)
        ),
        pass_rate=declared.pass_rate,
    )


def _nearest(given: str | None, known: Iterable[str]) -> str:
    """The known word that is meant, or all of them."""
    known = sorted(set(known))
    there = f"there are {', '.join(known)}" if known else "there are none"
    other = f"{there}; a goal of another prompt says so: `prompt = ...`"
    return did_you_mean(str(given), known) or other


def _kinds(name: str, judge: Judge) -> Iterator[str]:
    """The words a judge can be named by besides its name: what it is, without parameters."""
    yield name.partition("(")[0]
    kind = getattr(judge, "kind", "")
    if kind and kind != "function":
        yield str(kind)


def deciding_judges(suite: Suite, check: str | None = None) -> tuple[Judge, ...]:
    """The judges of a suite that decide.

    Args:
        check: The only check whose LLM judge is wanted; None wants them all. A suite without
            rules keeps all its judges: a trial has to have a verdict.
    """
    judges = tuple(judge for judge in suite.judges if suite.standing(judge).gates)
    if check is None:
        return judges
    models = {judge.name for judge in suite.model_judges}
    return tuple(one for one in judges if one.name == check or one.name not in models) or judges
