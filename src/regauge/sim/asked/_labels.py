"""Labels to choose from, and what the prompt says each of them means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from regauge.sim.asked._layout import Shot
from regauge.sim.text import Quantity, quantities, stems, without_quantities

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["Clause", "Label", "label_names", "read_labels", "shots_in_text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One cue of a definition: its content words and its numbers.

    Attributes:
        excludes: The definition says this is not the label ("not ...", "except ...").
    """

    words: frozenset[str]
    quantities: tuple[Quantity, ...]
    excludes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One label and the cues of its definition; no clause when it is not defined."""

    name: str
    clauses: tuple[Clause, ...] = ()
    is_default: bool = False


_QUOTE: Final = r"[\"'`*“”‘’_]*"  # noqa: RUF001 - texts in the wild hold this character
_ITEM: Final = rf"{_QUOTE}[A-Za-z][\w-]*(?: (?!or\b|and\b)[\w-]+)?{_QUOTE}"
_ONE_OF: Final = re.compile(
    r"\b(?:(?:one of|either|choose (?:from|between))"
    r"(?: (?:the )?(?:following|these|labels?|categories|values|words|of))*\s*:?"
    r"|(?:classes|labels?|categories|options|levels|values|severities)\s*(?:are|is|:|=))\s*[(\[]?"
    rf"(?P<list>{_ITEM}(?:\s*(?:,|/|\||\bor\b|\band\b|,\s*or\b|,\s*and\b)\s*{_ITEM})+)",
    re.IGNORECASE,
)
_PIPED: Final = re.compile(
    r"(?P<list>[\"'`][\w -]{1,30}[\"'`](?:\s*(?:\||/|,|or|, or)\s*[\"'`][\w -]{1,30}[\"'`])+)"
)
_LIST_BREAK: Final = re.compile(
    r"\s*(?:,\s*or\b|,\s*and\b|,|/|\||\bor\b|\band\b)\s*", re.IGNORECASE
)
_LIST_HEAD: Final = re.compile(
    r"^[^\n]*\b(?:labels?|severit(?:y|ies)|categor(?:y|ies)|class(?:es)?|levels?|priorit(?:y|ies)"
    r"|types?|sentiments?|options?|choices|verdicts?|buckets?|queues?|teams?)\b[^\n]*:[*_ ]*$",
    re.IGNORECASE | re.MULTILINE,
)
_BULLET: Final = re.compile(
    rf"^[ \t]*(?:[-*•+]|\d+[.)])[ \t]+{_QUOTE}(?P<name>[A-Za-z][\w-]*(?: [\w-]+)?){_QUOTE}"
    rf"[ \t]*(?::|=|—|–|-|->|→|\()",  # noqa: RUF001 - texts in the wild hold this character
    re.MULTILINE,
)
_CLAUSE_BREAK: Final = re.compile(r"[;\n]|(?<=[a-z)%])\.(?=\s|$)|(?<=[a-z)]): ")
_LONG_CLAUSE: Final = 16
_EXCLUDES: Final = re.compile(
    r"^\W*(?:and |but )?(?:not|never|except|unless|excluding)\b", re.IGNORECASE
)
_DEFAULT: Final = re.compile(
    r"\b(?:everything else|anything else|all other|all others|in doubt|unsure|unclear|by default"
    r"|otherwise|neither|none of the (?:other|above)|fits? no|the default|most alerts)\b",
    re.IGNORECASE,
)
_ARROW: Final = re.compile(
    rf"^[ \t]*(?:[-*•+]|\d+[.)])?[ \t]*(?P<input>\S.*?)[ \t]*(?:->|→|=>|⇒|=)[ \t]*"
    rf"{_QUOTE}(?P<output>[\w -]{{1,30}}?){_QUOTE}[.]?[ \t]*$",
    re.MULTILINE,
)
_PAIR: Final = re.compile(
    r"^[ \t]*[*_]*(?:input|example|alert|question|text|user|q)(?: \d+)?[*_]*:[*_]*[ "
    r"\t]*(?P<input>.+?)\n+"
    r"[ \t]*[*_]*(?:output|answer|label|response|assistant|result|severity|a)[*_]*:[*_]*[ \t]*"
    r"(?P<output>.+?)(?=\n[ \t]*\n|\n[ \t]*[*_]*(?:input|example|alert|question|text|user|q)\b|\Z)",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)


def label_names(text: str, *, not_these: Collection[str] = ()) -> tuple[str, ...]:
    """The labels that a text offers, when no schema lists them.

    >>> label_names("Classify it as one of: bug, feature or question.")
    ('bug', 'feature', 'question')
    """
    for pattern in (_ONE_OF, _PIPED):
        for match in pattern.finditer(text):
            names = [n.strip("\"'`*“”‘’_ ") for n in _LIST_BREAK.split(match["list"])]  # noqa: RUF001 - texts in the wild hold this character
            names = [n for n in names if n and n not in not_these]
            if len(names) > 1:
                return tuple(dict.fromkeys(names))
    for head in _LIST_HEAD.finditer(text):
        block = re.split(r"\n[ \t]*\n", text[head.end() :].lstrip("\n"), maxsplit=1)[0]
        names = [m["name"] for m in _BULLET.finditer(block) if m["name"] not in not_these]
        if len(names) > 1:
            return tuple(dict.fromkeys(names))
    return ()


def _definition(text: str, name: str, others: Sequence[str]) -> str:
    """Everything the text says of one label."""
    word = re.escape(name)
    stop = "|".join(re.escape(other) for other in others) or r"(?!)"
    line = re.compile(
        rf"^(?P<indent>[ \t]*)(?:[-*•+]|\d+[.)]|\#{{1,6}}|\|)?[ \t]*{_QUOTE}{word}{_QUOTE}[ \t]*"
        rf"(?:\([^)\n]*\)[ \t]*)?{_QUOTE}[ \t]*"
        r"(?::|=|—|–|-{1,2}>?|→|\||\bmeans\b|\bis\b|\bare\b|\bwhen\b|\bif\b|\bfor\b|$)"  # noqa: RUF001 - texts in the wild hold this character
        r"(?P<rest>[^\n]*(?:\n(?!"
        rf"[ \t]*(?:[-*•+]|\d+[.)]|\#{{1,6}}|\|)?[ \t]*{_QUOTE}(?:{stop}|{word})\b"
        r")(?![ \t]*\n)(?!\#)[^\n]+)*)",
        re.IGNORECASE | re.MULTILINE,
    )
    told: list[str] = []
    for match in line.finditer(text):
        rest = match["rest"].strip()
        if not rest and text[match.end() : match.end() + 2].startswith("\n"):
            # A heading: what it says stands in the paragraph below.
            rest = re.split(r"\n[ \t]*\n[^\s-]|\n#", text[match.end() :].lstrip(), maxsplit=1)[0]
        head_indent = len(match["indent"])
        kept: list[str] = []
        for index, continued in enumerate(rest.split("\n")):
            indent = len(continued) - len(continued.lstrip())
            if index and head_indent >= indent and not re.match(r"\s*[-*•]", continued):
                break
            kept.append(continued.strip(" \t-*•|"))
        told.append("\n".join(kept))
    inline = re.compile(
        rf"(?:\buse|\bchoose|\bpick|\bmark|\banswer|\bsay)?[ \t]*(?:as "
        rf")?{_QUOTE}\b{word}\b{_QUOTE}[ \t]+"
        rf"(?:means|when|if|for|covers|is for|only for)\b(?P<rest>[^.;\n]*)",
        re.IGNORECASE,
    )
    told += [match["rest"] for match in inline.finditer(text)]
    return "\n".join(dict.fromkeys(t.strip() for t in told if t.strip()))


def _clauses(definition: str) -> tuple[Clause, ...]:
    found: list[Clause] = []
    for raw in _CLAUSE_BREAK.split(definition):
        pieces = [raw]
        if len(raw.split()) > _LONG_CLAUSE:
            pieces = raw.split(", ")
        for piece in pieces:
            words = frozenset(stems(without_quantities(piece)))
            numbers = quantities(piece)
            if words or numbers:
                excludes = _EXCLUDES.match(piece) is not None
                if excludes:
                    words = frozenset(word for word in words if not word.startswith("not_"))
                found.append(Clause(words=words, quantities=numbers, excludes=excludes))
    return tuple(found)


def read_labels(text: str, names: Sequence[str]) -> tuple[Label, ...]:
    """Each label with the cues its definition gives.

    >>> read_labels("idea: a wish", ["idea"])[0].clauses[0].words
    frozenset({'wish'})
    """
    labels: list[Label] = []
    for name in names:
        told = _definition(text, name, [other for other in names if other != name])
        labels.append(
            Label(
                name=name,
                clauses=_clauses(_DEFAULT.sub(" ", told)),
                is_default=_DEFAULT.search(told) is not None,
            )
        )
    return tuple(labels)


def shots_in_text(text: str) -> tuple[Shot, ...]:
    """Examples written into the instructions: `input -> label`, or Input: and Output: lines.

    >>> shots_in_text("- disk 97 % full -> critical")[0].output
    'critical'
    """
    shots = [Shot(input=m["input"], output=m["output"]) for m in _ARROW.finditer(text)]
    shots += [
        Shot(input=m["input"].strip(), output=m["output"].strip()) for m in _PAIR.finditer(text)
    ]
    return tuple(shots)
