"""Prompts that leak into answers."""

from __future__ import annotations

import re
from pathlib import Path

from regauge.errors import UsageError
from regauge.judges._evidence import quote
from regauge.judges._rule import Check, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed
from regauge.judges._words import UNSPACED

__all__ = ["no_prompt_leak"]

# A letter of a script without spaces between words counts as a word.
_WORD = re.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])\w)+")


def _prompt_text(prompt: str | Path) -> str:
    if isinstance(prompt, Path) or prompt.endswith((".prompt.yml", ".prompt.yaml")):
        from regauge.prompts import load_prompt

        return "\n".join(
            message.content for message in load_prompt(prompt).messages if message.role != "user"
        )
    return prompt


@rule(codes=("prompt_leak",), version=2)
def no_prompt_leak(prompt: str | Path, *, words: int = 8, field: str | None = None) -> Check:
    """The answer does not repeat the prompt: no run of so many words in a row.

    Args:
        prompt: The text that must not leak, or the path of a `.prompt.yml` file, whose system and
            developer messages must not.
        words: How many words in a row make a leak; case and punctuation aside. In scripts without
            spaces between words, such as Chinese, each letter counts.
        field: Judge this part of a JSON answer instead of the whole.

    >>> secret = "You are Clerk, an assistant who grades alerts for the on-call team."
    >>> print(no_prompt_leak(secret).check_text("I, an assistant who grades alerts for the on."))
    fail: repeats the prompt: 'an assistant who grades alerts for the on'
    """
    if words < 3:  # noqa: PLR2004 - any two words occur in any text
        raise UsageError(f"no_prompt_leak: words counts from 3, not {words}")
    known = _WORD.findall(_prompt_text(prompt).casefold())
    if len(known) < words:
        raise UsageError(f"no_prompt_leak: the prompt has {len(known)} words, {words} are needed")
    runs = {tuple(known[at : at + words]) for at in range(len(known) - words + 1)}

    def check(text: str) -> Verdict:
        found = list(_WORD.finditer(text))
        spoken = [word[0].casefold() for word in found]
        for at in range(len(spoken) - words + 1):
            if tuple(spoken[at : at + words]) in runs:
                leak = text[found[at].start() : found[at + words - 1].end()]
                return failed(f"repeats the prompt: {quote(leak)}", code="prompt_leak", actual=leak)
        return passed("does not repeat the prompt")

    return on_text(field, check)
