"""A prompt that is to be refined, with its cases and its past."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.errors import GitError, PromptError, UsageError
from regauge.prompts import (
    Repository,
    load_version,
    parse_prompt,
    set_contents,
    text_at,
    version_records,
)
from regauge.refine.edits import PromptText
from regauge.refine.people import Heard
from regauge.refine.proposers import load_examples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.judges import Judge
    from regauge.project import Project
    from regauge.prompts import Prompt
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
    )


def cases_of(members: Mapping[str, Member], split: str) -> dict[str, GoldenCase]:
    """The cases of a split by their ids; an id that any dataset holds out is no train case."""
    held = {one.case.id for one in members.values() if one.case.split == "holdout"}
    cases = {one.case.id: one.case for one in members.values() if one.case.split == split}
    return {id_: case for id_, case in cases.items() if split == "holdout" or id_ not in held}


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
