"""A model as the source of mutants: it proposes edits that no operator makes."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from regauge.judges.model._delimited import delimited, nonce_of, with_note
from regauge.judges.model._reply import ReplyFault
from regauge.mutate._case_writer import NOTE
from regauge.mutate._operators import Change, Place, texts_of
from regauge.providers import CompletionRequest
from regauge.refine.edits import EditError, PromptText, apply
from regauge.refine.proposers._calls import ModelForm
from regauge.refine.proposers._model import edit_in, numbered, object_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.digests import JSON
    from regauge.prompts import Prompt
    from regauge.providers import ModelId
    from regauge.refine.proposers import Ask

_MUTANTS_MAX: Final = 20


async def model_changes(prompt: Prompt, model: ModelId, ask: Ask) -> list[Change]:
    """The changes that a model proposes, by one call; those that do not fit are left out.

    Raises:
        UnmeasuredError: The model cannot be called.
        ReplyFault: Its reply cannot be read.
    """
    request = _request(prompt, model)

    def compose(without: int) -> CompletionRequest | None:
        return None if without else request

    return await ModelForm().read(compose, lambda reply: changes_in(reply, prompt), ask)


def changes_in(reply: str, prompt: Prompt) -> list[Change]:
    """The changes of a reply.

    Raises:
        ReplyFault: It has no list of mutants, or none that fits the prompt.
    """
    given = object_in(reply, "mutants").get("mutants")
    if not isinstance(given, list):
        raise ReplyFault("`mutants` is not a list")
    text = PromptText(messages=prompt.messages)
    changes: list[Change] = []
    faults: list[str] = []
    for one in given[:_MUTANTS_MAX]:
        ops = one.get("ops") if isinstance(one, dict) else None
        try:
            edit = edit_in(json.dumps({"ops": ops}), text, by="model")
            after = apply(text, edit.ops)
        except (ReplyFault, EditError) as error:
            faults.append(str(error))
            continue
        change = _change(prompt, after)
        if change is not None:
            changes.append(change)
    if faults and not changes:
        raise ReplyFault(faults[0])
    return changes


def _change(prompt: Prompt, after: PromptText) -> Change | None:
    """The change that leads to another text, at the first message that it edits."""
    for text in texts_of(prompt):
        old, new = text.tree.text, after.messages[text.number].content
        if old == new:
            continue
        start, end = _differing(old, new)
        tail = len(old) - end
        row = min(old.count("\n", 0, start), len(text.lines) - 1)
        place = Place(part=f"messages[{text.number}]", start=start, end=end, line=text.lines[row])
        return Change(
            place=place,
            text=f"{old[start:end].strip()} -> {new[start : len(new) - tail].strip()}",
            prompt=replace(prompt, messages=after.messages),
        )
    return None


def _differing(old: str, new: str) -> tuple[int, int]:
    """The characters of a text, in whole lines, in which another one differs."""
    before, after = old.split("\n"), new.split("\n")
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    tail = 0
    while tail < min(len(before), len(after)) - same and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    start = sum(len(line) + 1 for line in before[:same])
    end = len(old) - sum(len(line) + 1 for line in before[len(before) - tail :])
    return min(start, len(old)), max(start, end)


def _request(prompt: Prompt, model: ModelId) -> CompletionRequest:
    writer = mutant_writer()
    texts = {"prompt": numbered(PromptText(messages=prompt.messages))}
    nonce = nonce_of(texts)
    return CompletionRequest(
        model=model.model,
        provider=model.provider,
        messages=with_note(
            writer.render(cast("Mapping[str, JSON]", delimited(texts, nonce))),
            NOTE.format(nonce=nonce),
        ),
        parameters=writer.parameters,
        response_format=writer.response_format,
    )


@cache
def mutant_writer() -> Prompt:
    """The prompt of the model that proposes mutants."""
    from regauge.prompts import load_prompt

    return load_prompt(Path(__file__).parent / "prompts" / "mutant_writer.prompt.yml")
