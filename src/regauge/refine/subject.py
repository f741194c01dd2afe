"""A prompt that is to be refined: its cases, its past, and the goals declared for it."""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from regauge.errors import ConfigError, Fault, GitError, PromptError, RegaugeError, UsageError
from regauge.gate import accepted_since
from regauge.judges import criterion_of
from regauge.project import HttpTarget, RecordedTarget
from regauge.prompts import (
    Repository,
    find_prompt,
    load_version,
    parse_prompt,
    prompt_at,
    prompt_name,
    set_contents,
    version_records,
)
from regauge.refine.edits import PromptText
from regauge.refine.feedback import Feedback
from regauge.refine.loop._goals import Goal
from regauge.refine.loop._state import Release
from regauge.refine.proposers._rules import load_examples
from regauge.runner import PlannedCase
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.judges import Judge
    from regauge.project import GoalSettings, Project, TargetSettings
    from regauge.prompts import Message, Prompt
    from regauge.refine.analysis import Check
    from regauge.refine.proposers._protocol import Example
    from regauge.runner import Eval


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A prompt that is to be refined.

    Attributes:
        members: Its cases, by the names that the run gives them.
        model: The model that answers it; empty where a target does, and neither the prompt nor the
            project names one.
        examples: The pool that a prompt's examples may be taken from; never golden cases.
        feedback: What people said of its answers; of labels only those of train cases.
    """

    prompt: Prompt
    source: str
    model: str
    members: Mapping[str, PlannedCase]
    releases: tuple[Release, ...]
    examples: tuple[Example, ...] = ()
    feedback: Feedback = field(default_factory=Feedback)

    @property
    def text(self) -> PromptText:
        """Its messages."""
        return PromptText(messages=self.prompt.messages)

    @property
    def released(self) -> tuple[str, ...]:
        """The messages of each earlier version, one after the other."""
        return tuple(release.text.whole for release in self.releases)

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
            if suite.status_of(judge).blocking
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
    members: dict[str, PlannedCase] = {}
    prompt, *_ = [edited_prompt(case.suite, name) for case in planned]
    accepted = accepted_since(prompt, "")
    for planned_case in planned:
        if planned_case.error is not None:
            raise planned_case.error
        watched = planned_case.case.tier == "tracked" or planned_case.case.id in accepted
        if watched and not tracked:
            continue
        case = planned_case.case.id
        if case in members and members[case].suite is not planned_case.suite:
            case = f"{planned_case.suite.dataset.name}/{case}#{len(members)}"
        members[case] = PlannedCase(planned_case.suite, planned_case.case)
    if not members:
        raise UsageError(
            "no case of the prompt has to pass: all are tracked or accepted in the changelog\n"
            "  fix: --include-tracked"
        )
    asked = (str(case.suite.model) for case in planned if case.suite.target is None)
    return Subject(
        prompt=prompt,
        source=prompt.source,
        model=next(asked, prompt.model or project.settings.model or ""),
        members=members,
        releases=_releases(project, prompt),
        examples=load_examples(
            project.fixtures_dir / "examples" / f"{prompt.name}.jsonl",
            golden=[case.case.id for case in planned],
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


def edited_prompt(suite: Eval, name: str | None) -> Prompt:
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


def prompt_of_target(project: Project, name: str, *, command: str) -> str:
    """The one prompt that a target of this name loads; any other name stays as it is.

    Args:
        command: The command that names it, such as `regauge refine`.

    Raises:
        UsageError: The target loads no prompt, or several.
    """
    target = project.settings.targets.get(name)
    if target is None:
        return name
    with suppress(PromptError):
        return prompt_name(find_prompt(name, root=project.root))
    check_editable(name, target)
    match target.prompts:
        case [prompt]:
            return prompt
        case []:
            raise UsageError(
                f"the target {name!r} declares no prompts\n"
                f"  fix: load a prompt with regauge.load_prompt, and name it in `prompts` of"
                f" [tool.regauge.targets.{name}]"
            )
        case prompts:
            raise UsageError(
                f"the target {name!r} loads {len(prompts)} prompts: {', '.join(prompts)}\n"
                f"  fix: name one of them, such as {command} {prompts[0]}"
            )


def cases_of(members: Mapping[str, PlannedCase], split: str) -> dict[str, GoldenCase]:
    """The cases of a split by their ids; an id that any dataset holds out is no train case."""
    held = {member.case.id for member in members.values() if member.case.split == "holdout"}
    cases = {
        member.case.id: member.case for member in members.values() if member.case.split == split
    }
    return {id_: case for id_, case in cases.items() if split == "holdout" or id_ not in held}


def _releases(project: Project, prompt: Prompt) -> tuple[Release, ...]:
    """Earlier versions with other words in the same messages; none where git has none."""
    path = prompt.path
    roles = [message.role for message in prompt.messages]
    releases: dict[tuple[Message, ...], Release] = {}

    def add(old: Prompt, name: str, ref: str) -> None:
        same_roles = [message.role for message in old.messages] == roles
        if same_roles and old.messages != prompt.messages:
            text = PromptText(messages=old.messages)
            command = f"git checkout {ref} -- {shlex.quote(place)}"
            releases.setdefault(old.messages, Release(name=name, text=text, command=command))

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
    return tuple(releases.values())


def goal_name(goal: GoalSettings) -> str:
    """The name of a goal in reports."""
    parts = [goal.judge or "", f"criterion {goal.criterion}" if goal.criterion else ""]
    what = " of ".join(filter(None, parts)) or "every check"
    where = f" on tag {goal.tag}" if goal.tag else ""
    return f"{what}{where} at {100 * goal.pass_rate:g} %"


def declared_goals(project: Project, prompt: str) -> tuple[GoalSettings, ...]:
    """The goals of a prompt."""
    goals = project.settings.refine.goals
    others = [goal for goal in goals if goal.prompt not in {None, prompt}]
    if faults := [fault for goal in others if (fault := _no_prompt(project, goal)) is not None]:
        raise ConfigError(faults)
    return tuple(goal for goal in goals if goal.prompt in {None, prompt})


def bound_goals(
    declared: Sequence[GoalSettings], subject: Subject, project: Project
) -> tuple[Goal, ...]:
    """The checks and cases that goals speak of."""
    bound = [_bound(goal, subject, project) for goal in declared]
    faults = [goal for goal in bound if isinstance(goal, Fault)]
    if faults and tuple(declared) == declared_goals(project, subject.prompt.name):
        raise ConfigError(faults)
    return tuple(goal for goal in bound if isinstance(goal, Goal))


def goal_faults(project: Project, planned: Iterable[PlannedCase]) -> list[Fault]:
    """Errors in the goals of a project.

    A goal that names no prompt has to fit one of those that have evals.
    """
    goals = project.settings.refine.goals
    subjects = _subjects(project, planned if goals else ())
    problems: list[Fault] = []
    for goal in goals:
        fault = _no_prompt(project, goal)
        if fault is not None:
            problems.append(fault)
            continue
        bound = [
            _bound(goal, subject, project)
            for name, subject in subjects.items()
            if goal.prompt in {None, name}
        ]
        faults = [goal for goal in bound if isinstance(goal, Fault)]
        if len(faults) == len(bound):
            problems += faults
    return problems


def _subjects(project: Project, planned: Iterable[PlannedCase]) -> Mapping[str, Subject]:
    """The prompts of planned evals; without those that cannot be refined, whatever goals say."""
    by_prompt: dict[str, list[PlannedCase]] = {}
    for case in planned:
        by_prompt.setdefault(case.suite.prompt.name, []).append(case)
    subjects: dict[str, Subject] = {}
    for name, cases in by_prompt.items():
        with suppress(RegaugeError):
            subjects[name] = subject_of(project, cases, tracked=True)
    return subjects


def _fault(project: Project, goal: GoalSettings, key: str, message: str, fix: str) -> Fault:
    # A goal that a run has kept may be none of the project any more.
    goals = [*project.settings.refine.goals, goal]
    return project.setting_fault(("refine", "goals", goals.index(goal), key), message, fix=fix)


def _no_prompt(project: Project, goal: GoalSettings) -> Fault | None:
    """The fault of a goal for a prompt that is not there."""
    if goal.prompt is None:
        return None
    try:
        find_prompt(goal.prompt, root=project.root)
    except PromptError as error:
        (fault,) = error.faults
        return _fault(project, goal, "prompt", fault.message, fault.fix)
    return None


def _bound(declared: GoalSettings, subject: Subject, project: Project) -> Goal | Fault:
    """The checks and cases of a goal, or why it has none."""
    prompt, members, deciding = subject.prompt.name, subject.members, subject.judges()

    fault = partial(_fault, project, declared)
    advisory = {
        judge.name: (criterion_of(judge), member.suite.status_of(judge).reason)
        for member in members.values()
        for judge in member.suite.judges
        if judge.name not in deciding
    }
    words = {name: {name, *_kinds(name, judge)} for name, judge in deciding.items()}
    checks = [name for name in deciding if declared.judge in {None, *words[name]}]
    counted = [n for n in checks if declared.criterion in {None, criterion_of(deciding[n])}]
    if not counted:
        # Of the judges that are meant, those with the criterion are missing, or all of them.
        key = "criterion" if checks else "judge"
        under = f", which counts under {declared.criterion}," if checks else ""
        for name, (criterion, reason) in advisory.items():
            is_meant = declared.judge is None and criterion == declared.criterion
            if reason and (is_meant if checks else name == declared.judge):
                message = f"the judge {name!r}{under} informs and does not decide: {reason}"
                improve = "label answers or improve the judge, then: regauge judges calibrate"
                return fault(key, message, f"{improve} {name}")
        if checks:
            names = ", ".join(f"{name} ({criterion_of(deciding[name])})" for name in checks)
            message = f"no judge that decides about {prompt} counts under {declared.criterion}"
            count = (
                f"count one under it: .with_criterion({declared.criterion!r}), or remove the goal"
            )
            return fault(key, f"{message}: {names}", count)
        message = f"the evals of {prompt} have no judge {declared.judge!r}"
        return fault(key, message, _nearest(declared.judge, {*advisory}.union(*words.values())))
    tags = {tag for member in members.values() for tag in member.case.tags}
    if declared.tag is not None and declared.tag not in tags:
        message = f"no case of {prompt} has the tag {declared.tag!r}"
        return fault("tag", message, _nearest(declared.tag, tags))
    return Goal(
        name=goal_name(declared),
        checks=tuple(counted),
        cases=tuple(
            name
            for name, member in members.items()
            if (declared.tag is None or declared.tag in member.case.tags)
            and any(judge.name in counted for judge in member.suite.judges)
        ),
        pass_rate=declared.pass_rate,
    )


def _nearest(name: str | None, names: Iterable[str]) -> str:
    """The known word that is meant, or all of them."""
    names = sorted(set(names))
    listed = f"there are {', '.join(names)}" if names else "there are none"
    other = f"{listed}; a goal of another prompt says so: `prompt = ...`"
    return did_you_mean(str(name), names) or other


def _kinds(name: str, judge: Judge) -> Iterator[str]:
    """The words a judge can be named by besides its name: what it is, without parameters."""
    yield name.partition("(")[0]
    kind = getattr(judge, "kind", "")
    if kind and kind != "function":
        yield str(kind)


def public_of(subject: Subject, checks: Iterable[Check]) -> tuple[str, ...]:
    """Texts that a proposal may contain besides the prompt's messages, despite the cases.

    The schema of the answer is part of it: its labels are given to the model as it is.
    """
    return (
        *(text for check in checks for text in (check.advice, check.description)),
        *subject.released,
        *(f"{example.input} {example.output}" for example in subject.examples),
        json.dumps(subject.prompt.response_format, ensure_ascii=False),
    )


def deciding_judges(suite: Eval, check: str | None = None) -> tuple[Judge, ...]:
    """The judges of a suite that decide.

    Args:
        check: The only check whose LLM judge is wanted; None wants them all. A suite without
            rules keeps all its judges: a trial has to have a verdict.
    """
    judges = tuple(judge for judge in suite.judges if suite.status_of(judge).blocking)
    if check is None:
        return judges
    models = {judge.name for judge in suite.model_judges}
    return (
        tuple(judge for judge in judges if judge.name == check or judge.name not in models)
        or judges
    )
