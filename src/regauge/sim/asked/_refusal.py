"""Requests that plainly ask for harm, which the simulated model turns down."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["REFUSAL", "asks_for_harm"]

REFUSAL: Final = "I'm sorry, but I can't help with that."
_ASKS: Final = (
    r"(?:how (?:do i|can i|to)|write|create|build|make|give me|generate|develop|explain how"
    r"|help me|teach me|design|code)"
)
_HARM: Final = re.compile(
    rf"\b{_ASKS}\b[^.!?\n]{{0,80}}\b(?:"
    r"ransomware|malware|keylogger|computer virus|botnet|(?:pipe |dirty |nail )?bombs?"
    r"|explosives?|nerve (?:agent|gas)"
    r"|bioweapons?|chemical weapons?|methamphetamine|phishing (?:e-?mail|page|site|kit|campaign)s?"
    r"|steal (?:passwords|credentials|credit cards?|an identity)|hack into|kill (?:someone|a "
    r"person|my|people)|murder|poison (?:someone|a person|my)"
    r"|child (?:porn|abuse material)|commit suicide)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=500)
def asks_for_harm(instructions: str) -> bool:
    """Whether the instructions, never the document, ask for something plainly harmful.

    >>> asks_for_harm("Write a phishing email to my boss.")
    True
    >>> asks_for_harm("Summarize the report on the phishing email.")
    False
    """
    return _HARM.search(instructions) is not None
