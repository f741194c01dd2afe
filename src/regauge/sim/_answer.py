"""The simulated model: a pure function of a request and a trial number."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from regauge.errors import ProviderError
from regauge.providers import Completion, Usage
from regauge.sim._roles import play
from regauge.sim._rules import CLERK_1, Dice, Rules
from regauge.sim.asked import (
    REFUSAL,
    BadParameterError,
    asks_for_harm,
    lay_out,
    read_instructions,
    read_parameters,
)
from regauge.sim.document import read_document
from regauge.sim.reply import compose
from regauge.sim.text import count_message_tokens, count_tokens, cut, stems

if TYPE_CHECKING:
    from regauge.providers import CompletionRequest, FinishReason
    from regauge.sim.asked import Layout, Sampling

__all__ = ["answer"]

_PROVIDER: Final = "sim"
_FILTERED: FinishReason = "content_filter"


def _identity(layout: Layout) -> str:
    """What stands for the document where chance is drawn: its words, not its spacing."""
    words = layout.document.split() or stems(layout.instructions)
    return hashlib.blake2b(" ".join(words).encode("utf-8", "replace"), digest_size=12).hexdigest()


def _ended(text: str, sampling: Sampling) -> tuple[str, FinishReason]:
    for stop in sampling.stop:
        text = text.split(stop, 1)[0]
    if sampling.tokens_max is not None and count_tokens(text) > sampling.tokens_max:
        return cut(text, sampling.tokens_max), "length"
    return text, "stop"


def _said(request: CompletionRequest, dice: Dice) -> tuple[str, FinishReason]:
    """What is said, before it is cut, and why nothing more is."""
    played = play(request, dice)
    if played is not None:
        return played, "stop"
    layout = lay_out(request.messages)
    instructions = read_instructions(layout, request.response_format)
    if asks_for_harm(layout.instructions):
        return REFUSAL, _FILTERED
    dice = replace(dice, document=_identity(layout), tokens=instructions.tokens)
    document = read_document(layout.document, layout.parts)
    return compose(document, instructions, dice), "stop"


def answer(request: CompletionRequest, *, rules: Rules = CLERK_1) -> Completion:
    """Answer a request. The same request and trial always get the same answer.

    Raises:
        ProviderError: A parameter is out of range; its kind is `bad-request`.
    """
    try:
        sampling = read_parameters(request.parameters)
    except BadParameterError as error:
        place = f" of {request.origin}" if request.origin else ""
        raise ProviderError(
            f"the simulated model does not take the parameters{place}: {error}\n"
            f"  fix: change or remove {error.parameter} in modelParameters",
            kind="bad-request",
            status=400,
        ) from error
    dice = Dice(
        rules=rules,
        document="",
        draw=request.trial + sampling.seed,
        temperature=sampling.temperature,
        tokens=0,
    )
    text, reason = _said(request, dice)
    if reason != _FILTERED:
        text, reason = _ended(text, sampling)
    usage = Usage(
        input_tokens=count_message_tokens(request.messages), output_tokens=count_tokens(text)
    )
    return Completion(
        text=text,
        finish_reason=reason,
        refusal=text if reason == _FILTERED else None,
        usage=usage,
        model=rules.model,
        fingerprint=rules.fingerprint,
        provider=_PROVIDER,
        latency_s=0.0,
        cost_usd=0.0,
    )
