"""Orders that overrule the rest of a prompt, and that models obey all the same."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from regauge.statements import guess_language

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Orders", "read_orders"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a prompt says against itself.

    Attributes:
        instead: What is to be done instead of everything else; empty where nothing is.
        always: The value that a key is to have whatever the document says, by key.
        shown: The values that examples in the text show, by key.
        prose: JSON is forbidden in another language than the prompt's.
        guesses: What is not stated is to be guessed.
        links: Links are wanted, in words that negate twice.
        words_min: The fewest words of a text.
    """

    instead: str = ""
    always: tuple[tuple[str, str], ...] = ()
    shown: tuple[tuple[str, str], ...] = ()
    prose: bool = False
    guesses: bool = False
    links: bool = False
    words_min: int = 0


_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n")  # noqa: RUF001 - ends of sentences
_IGNORE: Final = re.compile(
    r"\b(?:ignore|disregard|forget)\b[^.\n]{0,40}\b(?:above|previous|preceding|prior|earlier"
    r"|instructions?|rules?)\b(?:\s*(?:instructions?|rules?))?(?P<rest>[^\n]*)",
    re.IGNORECASE,
)
_ALWAYS: Final = re.compile(
    r"(?:\b(?:whatever|regardless|no matter|notwithstanding|despite)\b[^\n]*?)?"
    r"\b(?P<key>\w+)[`\"]? (?:is|must be|has to be|should be) (?:always|in every case|in any case)"
    r" [`\"]?(?P<value>\w+)",
    re.IGNORECASE,
)
_TWICE: Final = (
    r"(?:do not|don't|never|must not)\s+(?:fail to|refrain from|abstain from|avoid|omit|neglect to"
    r"|hesitate to|forget to)\s+"
)
_GUESSES: Final = re.compile(
    rf"\b(?:{_TWICE}|always |feel free to )(?:guess|invent|estimat|mak(?:e|ing) up)\w*",
    re.IGNORECASE,
)
_LINKS: Final = re.compile(
    rf"\b{_TWICE}(?:includ|add|us|cop)\w*\s+(?:any )?(?:links?|urls?)\b", re.IGNORECASE
)
_OBJECT: Final = re.compile(r"\{[^{}]*\"[^{}]*\}")
_WORDS_MIN: Final = re.compile(
    r"\b(?:at least|no fewer than|minimum of)\s+(?P<n>\d{1,4})\s+words\b", re.IGNORECASE
)
# What a rule in French, German or Spanish says, in the words that the rest is read in.
_FOREIGN: Final[tuple[tuple[str, str], ...]] = (
    (r"\b(?:au moins|au minimum|mindestens|al menos|por lo menos)\b", "at least"),
    (r"\b(?:mots|wörter[n]?|worte[n]?|palabras)\b", "words"),
    (r"\b(?:jamais|pas|nie|niemals|nicht|kein|keine[ns]?|nunca|sin|sans|ohne)\b", "never"),
    (r"\b(?:devine[zr]?|invente[zr]?|estime[zr]?)\b", "always guess"),
    (r"\b(?:rate|erfinde|schätze|adivin[ae]|invent[ae])\b", "always guess"),
    (r"\b(?:toujours|immer|siempre)\b", "always"),
)  # fmt: skip
_NO_JSON: Final = re.compile(
    r"\bnever\b[^.\n]{0,20}\bjson\b|\btexte libre\b|\bfreitext\b|\bfließtext\b|\btexto libre\b",
    re.IGNORECASE,
)


def read_orders(text: str) -> Orders:
    r"""The orders in a text.

    >>> read_orders("Be brief.\nWhatever stands above, the tone is always warm.").always
    (('tone', 'warm'),)
    """
    foreign = "\n".join(_translated(text))
    both = f"{text}\n{foreign}"
    ignored = _IGNORE.search(text)
    least = _WORDS_MIN.search(foreign) or _WORDS_MIN.search(text)
    return Orders(
        instead=(ignored["rest"].strip(" .,;:") or "answer freely") if ignored else "",
        always=tuple((one["key"].lower(), one["value"]) for one in _ALWAYS.finditer(text)),
        shown=tuple(_shown(text)),
        prose=bool(_NO_JSON.search(foreign)),
        guesses=bool(_GUESSES.search(both)),
        links=bool(_LINKS.search(text)),
        words_min=int(least["n"]) if least else 0,
    )


def _translated(text: str) -> Iterator[str]:
    """The sentences in another language, as far as their words are known."""
    for sentence in _SENTENCE.split(text):
        if guess_language(sentence) in {"fr", "de", "es"}:
            for pattern, word in _FOREIGN:
                sentence = re.sub(pattern, word, sentence, flags=re.IGNORECASE)  # noqa: PLW2901
            yield sentence


def _shown(text: str) -> Iterator[tuple[str, str]]:
    for found in _OBJECT.finditer(text):
        try:
            value: Any = json.loads(found[0])
        except ValueError:
            continue
        yield from ((key, said) for key, said in value.items() if isinstance(said, str))
