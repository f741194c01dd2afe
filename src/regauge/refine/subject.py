"""A prompt to refine, with its cases, earlier releases and goals."""

from __future__ import annotations

import json
import shlex
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from regauge.errors import ConfigError, Diagnostic, GitError, PromptError, RegaugeError, UsageError
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
from regauge.refine.loop._plan import Goal
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
    from regauge.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A prompt to refine.

    Attributes:
        members: Its cases, by their names in the run.
        model: Its model; empty for a target if neither the prompt nor the project names one.
        examples: The pool of examples for its text, without golden cases.
        feedback: Human feedback on its outputs; labels of train cases only.
    """

    prompt: Prompt
    model: str
    members: Mapping[str, PlannedCase]
    releases: tuple[Release, ...]
    examples: tuple[Example, ...] = ()
    feedback: Feedback = field(default_factory=Feedback)

    @property
    def text(self) -> PromptText:
        """The messages of the prompt."""
        return PromptText(messages=self.prompt.messages)

    @property
    def released_texts(self) -> tuple[str, ...]:
        """The messages of each earlier version, one after the other."""
        return tuple(release.text.full_text for release in self.releases)

    def file_with(self, text: PromptText) -> str:
        """The prompt's file with other messages."""
        contents = [message.content for message in text.messages]
        return set_contents(self.prompt.source, contents, path=self.prompt.path)

    def prompt_with(self, text: PromptText) -> Prompt:
        """The prompt with other messages, read back from the text of its file."""
        return parse_prompt(self.file_with(text), path=self.prompt.path)

    def check_file(self) -> None:
        """Check that the file can have another text.

        Raises:
            PromptError: None of its messages can be edited.
        """
        contents = [message.content for message in self.prompt.messages]
        longer = [content and f"{content}\n-" for content in contents]
        texts = [[*contents[:n], longer[n], *contents[n + 1 :]] for n in range(len(contents))]
        errors: list[PromptError] = []
        for text in (*texts, longer):  # messages that share a text change together
            if text != contents:
                try:
                    set_contents(self.prompt.source, text, path=self.prompt.path)
                except PromptError as error:
                    errors.append(error)
                else:
                    return
        raise errors[0]

    def judges(self) -> Mapping[str, Judge]:
        """The blocking judges, by name."""
        evals = {id(member.eval): member.eval for member in self.members.values()}
        return {judge.name: judge for eval_ in evals.values() for judge in deciding_judges(eval_)}


def subject_of(
    project: Project,
    planned_cases: Sequence[PlannedCase],
    *,
    name: str | None = None,
    include_tracked: bool,
) -> Subject:
    """The prompt of planned evals, with their cases.

    Args:
        project: The project of the evals.
        planned_cases: All cases of one prompt, with those of targets that load it.
        name: The prompt's name; by default the one of the evals.
        include_tracked: Count tracked cases, and cases that the changelog accepts as broken.
    """
    members: dict[str, PlannedCase] = {}
    prompt, *_ = [edited_prompt(case.eval, name) for case in planned_cases]
    accepted = accepted_since(prompt, "")
    evals = _joined_evals(planned_cases)
    for planned_case in planned_cases:
        if planned_case.error is not None:
            raise planned_case.error
        is_tracked = planned_case.case.tier == "tracked" or planned_case.case.id in accepted
        if is_tracked and not include_tracked:
            continue
        case, eval_ = planned_case.case.id, evals[id(planned_case.eval)]
        if case in members and members[case].eval is not eval_:
            case = f"{eval_.dataset.name}/{case}#{len(members)}"
        members[case] = PlannedCase(eval_, planned_case.case)
    if not members:
        raise UsageError(
            "no case of the prompt has to pass: all are tracked or accepted in the changelog\n"
            "  fix: --include-tracked"
        )
    models = (str(case.eval.model) for case in planned_cases if case.eval.target is None)
    return Subject(
        prompt=prompt,
        model=next(models, prompt.model or project.settings.model or ""),
        members=members,
        releases=_releases(project, prompt),
        examples=load_examples(
            project.fixtures_dir / "examples" / f"{prompt.name}.jsonl",
            golden=[case.case.id for case in planned_cases],
        ),
    )


def _joined_evals(planned_cases: Sequence[PlannedCase]) -> dict[int, Eval]:
    """Each eval by its `id`, with the judges of all evals that judge the same completions.

    A completion that two evals judge is one trial: it must not count twice as evidence.

    Raises:
        UsageError: Two judges of them have one name.
    """
    evals = {id(case.eval): case.eval for case in planned_cases}
    groups: list[list[Eval]] = []
    for eval_ in evals.values():
        group = next((group for group in groups if _calls(group[0]) == _calls(eval_)), [])
        if not group:
            groups.append(group)
        group.append(eval_)
    eval_of: dict[int, Eval] = {}
    for group in groups:
        judges = _join_judges(group)
        statuses = {
            name: status for eval_ in group for name, status in eval_.judge_statuses.items()
        }
        joined_eval = group[0]
        if len(group) > 1:
            joined_eval = replace(
                joined_eval,
                judges=judges,
                judge_statuses=statuses,
                trials=max(eval_.trials for eval_ in group),
                pass_rate=max(eval_.pass_rate for eval_ in group),
            )
        eval_of |= {id(eval_): joined_eval for eval_ in group}
    return eval_of


def _join_judges(evals: Sequence[Eval]) -> tuple[Judge, ...]:
    judges: dict[str, Judge] = {}
    for judge in chain.from_iterable(eval_.judges for eval_ in evals):
        if judges.setdefault(judge.name, judge).digest != judge.digest:
            raise UsageError(
                f"two evals of {evals[0].dataset.name} have different judges that are called"
                f" {judge.name!r}, and their verdicts could not be distinguished",
                fix="give one a name of its own with .with_name(...)",
            )
    return tuple(judges.values())


def _calls(eval_: Eval) -> tuple[object, ...]:
    """The parts of an eval that its completions depend on."""
    target = eval_.target.name if eval_.target is not None else None
    return eval_.prompt.path, eval_.dataset.path, eval_.model, target, eval_.partners


def check_editable(name: str, settings: TargetSettings) -> None:
    """Check that a target can load an edited text.

    Raises:
        UsageError: The target cannot load it.
    """
    if isinstance(settings, HttpTarget):
        reason = "is an HTTP endpoint, and an edited text does not reach the process behind it"
    elif isinstance(settings, RecordedTarget):
        reason = "is a file of recorded outputs, which an edited prompt cannot change"
    else:
        return
    raise UsageError(
        f"the target {name!r} {reason}\n"
        '  fix: test the code with a target of kind "python" or "command" that declares the prompt,'
        "\n       and name the file of its eval: --evals evals/test_NAME.py"
    )


def edited_prompt(eval_: Eval, name: str | None) -> Prompt:
    """The prompt of an eval: its own, or one that its target loads.

    Raises:
        UsageError: Its target loads no such prompt, or cannot load an edited text.
    """
    target = eval_.target
    if target is None:
        return eval_.prompt
    check_editable(target.name, target.settings)
    name = name or eval_.prompt.name
    prompt = next((prompt for prompt in target.prompts if prompt.name == name), None)
    if prompt is None:
        loaded = ", ".join(prompt.name for prompt in target.prompts) or "none"
        table = f"in [tool.regauge.targets.{target.name}]"
        if ":" in target.name:
            table = f"and callable = {target.name!r} in a [tool.regauge.targets.NAME] of the eval"
        raise UsageError(
            f"the eval {eval_.prompt.name} tests the target {target.name!r}, which declares no"
            f" prompt {name!r}; it declares: {loaded}\n"
            f"  fix: name one of its prompts, or declare `prompts` {table}"
        )
    return prompt


def prompt_of_target(project: Project, name: str, *, command: str) -> str:
    """The one prompt that a target of this name loads; any other name is returned.

    Args:
        command: The command in the error, such as `regauge refine`.

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


class CandidateTargets:
    """Evals under other texts of their prompt; targets load these from temporary files."""

    def __init__(self) -> None:
        self._targets: dict[tuple[str, str], Target] = {}
        self._directories = ExitStack()

    def close(self) -> None:
        """Remove the written prompt files."""
        self._directories.close()

    def written_prompt(self, prompt: Prompt) -> Prompt:
        """The prompt whose source is written for a target."""
        return prompt

    def with_prompt(self, eval_: Eval, prompt: Prompt) -> Eval:
        """An eval with another text: in its prompt, or loaded by its target.

        Raises:
            UsageError: The text cannot be written as a prompt file.
        """
        if eval_.target is None:
            return replace(eval_, prompt=prompt)
        key = (prompt.digest, eval_.target.name)
        target = self._targets.get(key)
        if target is None:
            temporary = TemporaryDirectory(prefix="regauge-candidate-")
            directory = Path(self._directories.enter_context(temporary))
            candidate = self.written_prompt(prompt)
            target = self._targets[key] = eval_.target.with_candidate(candidate, directory)
        subject = target.describe_subject(eval_.prompt.name, path=eval_.prompt.path)
        return replace(eval_, prompt=subject, target=target)


def cases_of(members: Mapping[str, PlannedCase], split: str) -> dict[str, GoldenCase]:
    """The cases of a split by their ids; an id that any dataset holds out is not a train case."""
    held_out = {member.case.id for member in members.values() if member.case.split == "holdout"}
    cases = {
        member.case.id: member.case for member in members.values() if member.case.split == split
    }
    return {id_: case for id_, case in cases.items() if split == "holdout" or id_ not in held_out}


def _releases(project: Project, prompt: Prompt) -> tuple[Release, ...]:
    """Earlier versions with other text in the same messages; empty if git has none."""
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
    judged_part = " of ".join(filter(None, parts)) or "every check"
    tag_part = f" on tag {goal.tag}" if goal.tag else ""
    return f"{judged_part}{tag_part} at {100 * goal.pass_rate:g} %"


def goals_for(project: Project, prompt: str) -> tuple[GoalSettings, ...]:
    """The goals of a prompt."""
    goals = project.settings.refine.goals
    other_goals = [goal for goal in goals if goal.prompt not in {None, prompt}]
    if diagnostics := [
        diagnostic for goal in other_goals if (diagnostic := _no_prompt(project, goal)) is not None
    ]:
        raise ConfigError(diagnostics)
    return tuple(goal for goal in goals if goal.prompt in {None, prompt})


def resolve_goals(
    goals: Sequence[GoalSettings], subject: Subject, project: Project
) -> tuple[Goal, ...]:
    """Goals with their checks and cases."""
    bound = [_resolve_goal(goal, subject, project) for goal in goals]
    diagnostics = [goal for goal in bound if isinstance(goal, Diagnostic)]
    if diagnostics and tuple(goals) == goals_for(project, subject.prompt.name):
        raise ConfigError(diagnostics)
    return tuple(goal for goal in bound if isinstance(goal, Goal))


def goal_errors(project: Project, planned_cases: Iterable[PlannedCase]) -> list[Diagnostic]:
    """Errors in the goals of a project.

    A goal without a prompt has to fit one of the prompts with evals.
    """
    goals = project.settings.refine.goals
    subjects = _subjects(project, planned_cases if goals else ())
    problems: list[Diagnostic] = []
    for goal in goals:
        diagnostic = _no_prompt(project, goal)
        if diagnostic is not None:
            problems.append(diagnostic)
            continue
        bound = [
            _resolve_goal(goal, subject, project)
            for name, subject in subjects.items()
            if goal.prompt in {None, name}
        ]
        diagnostics = [goal for goal in bound if isinstance(goal, Diagnostic)]
        if len(diagnostics) == len(bound):
            problems += diagnostics
    return problems


def _subjects(project: Project, planned_cases: Iterable[PlannedCase]) -> Mapping[str, Subject]:
    """The prompts of planned evals that can be refined."""
    by_prompt: dict[str, list[PlannedCase]] = {}
    for case in planned_cases:
        by_prompt.setdefault(case.eval.prompt.name, []).append(case)
    subjects: dict[str, Subject] = {}
    for name, cases in by_prompt.items():
        with suppress(RegaugeError):
            subjects[name] = subject_of(project, cases, include_tracked=True)
    return subjects


def _error(project: Project, goal: GoalSettings, key: str, message: str, fix: str) -> Diagnostic:
    # A goal of a stored run may have left the project.
    goals = [*project.settings.refine.goals, goal]
    return project.setting_error(("refine", "goals", goals.index(goal), key), message, fix=fix)


def _no_prompt(project: Project, goal: GoalSettings) -> Diagnostic | None:
    """The error of a goal for a missing prompt."""
    if goal.prompt is None:
        return None
    try:
        find_prompt(goal.prompt, root=project.root)
    except PromptError as error:
        (diagnostic,) = error.diagnostics
        return _error(project, goal, "prompt", diagnostic.message, diagnostic.fix)
    return None


def _resolve_goal(settings: GoalSettings, subject: Subject, project: Project) -> Goal | Diagnostic:
    """A goal with its checks and cases, or the error if it has none."""
    prompt, members, deciding = subject.prompt.name, subject.members, subject.judges()

    diagnostic = partial(_error, project, settings)
    advisory = {
        judge.name: (criterion_of(judge), member.eval.status_of(judge).reason)
        for member in members.values()
        for judge in member.eval.judges
        if judge.name not in deciding
    }
    words = {name: {name, *_kinds(name, judge)} for name, judge in deciding.items()}
    checks = [name for name in deciding if settings.judge in {None, *words[name]}]
    matching_judges = [n for n in checks if settings.criterion in {None, criterion_of(deciding[n])}]
    if not matching_judges:
        # Either no judge matches, or none of the matching ones has the criterion.
        key = "criterion" if checks else "judge"
        under = f", which counts under {settings.criterion}," if checks else ""
        for name, (criterion, reason) in advisory.items():
            is_meant = settings.judge is None and criterion == settings.criterion
            if reason and (is_meant if checks else name == settings.judge):
                message = f"the judge {name!r}{under} is advisory: {reason}"
                improve = "label outputs or improve the judge, then: regauge judges calibrate"
                return diagnostic(key, message, f"{improve} {name}")
        if checks:
            names = ", ".join(f"{name} ({criterion_of(deciding[name])})" for name in checks)
            message = f"no judge that decides about {prompt} counts under {settings.criterion}"
            count = (
                f"count one under it: .with_criterion({settings.criterion!r}), or remove the goal"
            )
            return diagnostic(key, f"{message}: {names}", count)
        message = f"the evals of {prompt} have no judge {settings.judge!r}"
        return diagnostic(
            key, message, _nearest(settings.judge, {*advisory}.union(*words.values()))
        )
    tags = {tag for member in members.values() for tag in member.case.tags}
    if settings.tag is not None and settings.tag not in tags:
        message = f"no case of {prompt} has the tag {settings.tag!r}"
        return diagnostic("tag", message, _nearest(settings.tag, tags))
    return Goal(
        name=goal_name(settings),
        checks=tuple(matching_judges),
        cases=tuple(
            name
            for name, member in members.items()
            if (settings.tag is None or settings.tag in member.case.tags)
            and any(judge.name in matching_judges for judge in member.eval.judges)
        ),
        pass_rate=settings.pass_rate,
    )


def _nearest(name: str | None, names: Iterable[str]) -> str:
    """A correction of a misspelt name, or the list of all names."""
    names = sorted(set(names))
    choices = f"there are {', '.join(names)}" if names else "there are none"
    other = f"{choices}; set `prompt = ...` for a goal of another prompt"
    return did_you_mean(str(name), names) or other


def _kinds(name: str, judge: Judge) -> Iterator[str]:
    """Further words for a judge: its kind, and its name without parameters."""
    yield name.partition("(")[0]
    kind = getattr(judge, "kind", "")
    if kind and kind != "function":
        yield str(kind)


def public_texts(subject: Subject, checks: Iterable[Check]) -> tuple[str, ...]:
    """Texts that an edit may contain although cases do, besides the prompt's messages.

    The output schema is one of them: the model sees its labels anyway.
    """
    return (
        *(text for check in checks for text in (check.advice, check.description)),
        *subject.released_texts,
        *(f"{example.input} {example.output}" for example in subject.examples),
        json.dumps(subject.prompt.response_format, ensure_ascii=False),
    )


def deciding_judges(eval_: Eval, check: str | None = None) -> tuple[Judge, ...]:
    """The blocking judges of an eval.

    Args:
        check: The only check whose LLM judge is needed; None for all. An eval without rules keeps
            all its judges, as a trial needs a verdict.
    """
    judges = tuple(judge for judge in eval_.judges if eval_.status_of(judge).blocking)
    if check is None:
        return judges
    models = {judge.name for judge in eval_.model_judges}
    return (
        tuple(judge for judge in judges if judge.name == check or judge.name not in models)
        or judges
    )
