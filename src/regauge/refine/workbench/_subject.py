"""A prompt that is to be refined, with its cases and its past."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.errors import GitError, PromptError, UsageError
from regauge.gate.baselines import accepted_since
from regauge.prompts import (
    Repository,
    load_version,
    parse_prompt,
    set_contents,
    text_at,
    version_records,
)
from regauge.refine.edits import PromptText
from regauge.refine.feedback import Heard
from regauge.refine.loop import Release
from regauge.refine.proposers import load_examples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.judges import Judge
    from regauge.project import Project
    from regauge.prompts import Message, Prompt
    from regauge.refine.proposers import Example
    from regauge.runner import PlannedCase, Suite

__all__ = ["Member", "Subject", "cases_of", "subject_of"]


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
        releases: What it said before: its base branch and its releases, the newest first.
        examples: The pool that a prompt's examples may be taken from; never golden cases.
        heard: What people said of its answers; of labels only those of train cases.
    """

    prompt: Prompt
    source: str
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
        tracked: Whether tracked cases count, and those that the changelog accepts as broken: what
            a release accepted on purpose is not repaired away.

    Raises:
        UsageError: None of the cases must pass.
    """
    members: dict[str, Member] = {}
    accepted = accepted_since(planned[0].suite.prompt, "")
    for one in planned:
        if one.error is not None:
            raise one.error
        watched = one.case.tier == "tracked" or one.case.id in accepted
        if watched and not tracked:
            continue
        name = one.case.id
        if name in members and members[name].suite is not one.suite:
            name = f"{one.suite.dataset.name}/{name}#{len(members)}"
        members[name] = Member(one.suite, one.case)
    if not members:
        raise UsageError(
            "no case of the prompt has to pass: all are tracked or accepted in the changelog\n"
            "  fix: --tracked"
        )
    prompt = planned[0].suite.prompt
    return Subject(
        prompt=prompt,
        source=prompt.source,
        members=members,
        releases=_releases(project, prompt),
        examples=load_examples(
            project.fixtures_dir / "examples" / f"{prompt.name}.jsonl",
            golden=[one.case.id for one in planned],
        ),
    )


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
            add(parse_prompt(text_at(path, ref), path=path), ref, ref)
    with suppress(GitError, PromptError):
        for record in version_records(path, Repository.find(path.parent)):
            if record.released and record.commit:
                with suppress(GitError, PromptError):
                    old = load_version(path, record.version)
                    add(old, f"version {record.version}", record.commit[:12])
    return tuple(found.values())
