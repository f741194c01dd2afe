"""Mutants that a model proposes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from regauge.judges.model._response import ResponseError
from regauge.mutate._model import NOTE
from regauge.mutate._operators import Mutation, MutationPlace, texts_of
from regauge.refine.edits import EditError, PromptText, apply
from regauge.refine.proposers._model import (
    ModelForm,
    build_request,
    edit_in,
    load_packaged,
    number_lines,
    object_in,
)

if TYPE_CHECKING:
    from regauge.prompts import Prompt
    from regauge.providers import CompletionRequest, ModelId
    from regauge.refine.proposers import ModelCaller

_MUTANTS_MAX: Final = 20


async def model_changes(prompt: Prompt, model: ModelId, call_model: ModelCaller) -> list[Mutation]:
    """Return the changes that a model proposes in one call; those that do not fit are left out.

    Raises:
        UnmeasuredError: The model cannot be called.
        ResponseError: The response cannot be read.
    """
    texts = {"prompt": number_lines(PromptText(messages=prompt.messages))}
    request = build_request(load_packaged("regauge.mutate", "mutant_writer"), model, texts, NOTE)

    def compose(without: int) -> CompletionRequest | None:
        return None if without else request

    return await ModelForm().read(
        compose, lambda response: changes_in(response, prompt), call_model
    )


def changes_in(response: str, prompt: Prompt) -> list[Mutation]:
    """Parse the changes of a response.

    Raises:
        ResponseError: It has no list of mutants, or none that fits the prompt.
    """
    mutants = object_in(response, "mutants").get("mutants")
    if not isinstance(mutants, list):
        raise ResponseError("`mutants` is not a list")
    text = PromptText(messages=prompt.messages)
    changes: list[Mutation] = []
    errors: list[str] = []
    for mutant in mutants[:_MUTANTS_MAX]:
        ops = mutant.get("ops") if isinstance(mutant, dict) else None
        try:
            edit = edit_in(json.dumps({"ops": ops}), text, proposer="model")
            after = apply(text, edit.ops)
        except (ResponseError, EditError) as error:
            errors.append(str(error))
            continue
        change = _change(prompt, after)
        if change is not None:
            changes.append(change)
    if errors and not changes:
        raise ResponseError(errors[0])
    return changes


def _change(prompt: Prompt, after: PromptText) -> Mutation | None:
    """Return the change that leads to another text, at the first message that it edits."""
    for text in texts_of(prompt):
        old, new = text.tree.text, after.messages[text.number].content
        if old == new:
            continue
        start, end = _find_differing(old, new)
        tail = len(old) - end
        row = min(old.count("\n", 0, start), len(text.lines) - 1)
        place = MutationPlace(
            part=f"messages[{text.number}]", start=start, end=end, line=text.lines[row]
        )
        return Mutation(
            place=place,
            text=f"{old[start:end].strip()} -> {new[start : len(new) - tail].strip()}",
            prompt=replace(prompt, messages=after.messages),
        )
    return None


def _find_differing(old: str, new: str) -> tuple[int, int]:
    """Return the range of characters, in whole lines, in which a text differs from another."""
    before, after = old.split("\n"), new.split("\n")
    prefix_lines = 0
    while (
        prefix_lines < min(len(before), len(after)) and before[prefix_lines] == after[prefix_lines]
    ):
        prefix_lines += 1
    tail = 0
    while (
        tail < min(len(before), len(after)) - prefix_lines and before[-1 - tail] == after[-1 - tail]
    ):
        tail += 1
    start = min(sum(len(line) + 1 for line in before[:prefix_lines]), len(old))
    end = len(old) - sum(len(line) + 1 for line in before[len(before) - tail :])
    return start, max(start, end)
