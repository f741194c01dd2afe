"""Facts of languages: common words, negation, abbreviations. Scripts need no list.

A language without a list is treated with care: no word of it is taken for common, and whether a
sentence of it is negated is unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ABBREVIATIONS",
    "content_words",
    "guess_language",
    "has_ordinal_dots",
    "is_negated",
    "negations",
    "stem",
]


@dataclass(frozen=True, slots=True)
class _Language:
    common: frozenset[str]
    negation: str


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


def _language(negation: str, common: str) -> _Language:
    return _Language(_words(common), negation)


# Function words, as far as instructions use them; and what negates a sentence, as a pattern.
_LANGUAGES = {
    "en": _language(
        r"\b(?:never|no|not|none|don't|do not|mustn't|cannot|can't|shouldn't|without|skip|avoid"
        r"|omit|forbid\w*|except|unless)\b",
        "a an all always and any are as at be but by can could do does each either every for from"
        " give has have he i if in include into is it its may more must my never no not of on one"
        " only or other our out please should so some such than that the their them then there"
        " these they this those through to too up use was we were what when where which while who"
        " whose why will with within without would write you your",
    ),
    "de": _language(
        r"\b(?:nie|niemals|nicht|kein\w*|ohne|weder|nichts|vermeide\w*|verzichte\w*|außer"
        r"|unterlass\w*|verboten)\b",
        "aber alle alles als also am an auch auf aus bei bis da damit dann das dass dein deine dem"
        " den der des die dies diese diesem diesen dieser dieses du durch ein eine einem einen"
        " einer eines er es falls für gib hat hier ihr im immer in ins ist jede jeden jeder jedes"
        " kann kein keine man mit muss nach nicht nie nur ob oder ohne sein sie sind so soll"
        " sollen sondern über um und unter vom von vor was wenn werden wie wird wo zu zum zur",
    ),
    "fr": _language(
        r"\b(?:ne|n'|jamais|pas|aucune?|sans|ni|évite\w*|interdit\w*|sauf)\b",
        "a à au aux avec ce ces cette chaque dans de des donne du elle en es est et être il ils je"
        " l la le les leur lui mais n ne non nos notre nous on ou où par pas pour qu que qui sa"
        " sans ses si son sont sur ta te tes toi ton toujours tous tout toute tu un une vos votre"
        " vous y d s",
    ),
    "es": _language(
        r"\b(?:no|nunca|jamás|ningun[oa]?|ningún|sin|ni|evita\w*|prohibid\w*|salvo)\b",
        "a al cada como con da de del e el ella en entre es esta este esto la las lo los más muy"
        " ni no nunca o para pero por que se si sí siempre sin sobre son su sus todo todos tu tus"
        " un una usa y",
    ),
    "pt": _language(
        r"\b(?:não|nunca|jamais|nenhum\w*|sem|nem|evite\w*|proibid\w*|exceto)\b",
        "a ao as à às cada com como da das de do dos e é em entre esta este isso mais mas na nas"
        " não nem nos o os ou para pela pelo por que se sem sempre seu sua são sobre todo todos um"
        " uma use você",
    ),
    "it": _language(
        r"\b(?:non|mai|nessun\w*|senza|né|evita\w*|vietat\w*|tranne)\b",
        "a ad al alla anche che chi ci come con da dal dalla dei del della delle di e ed è gli ha i"
        " il in la le lo ma nel nella non o ogni per più se sempre senza si solo sono su sul sulla"
        " tra tu tutti tutto un una uno usa",
    ),
    "nl": _language(
        r"\b(?:nooit|niet|geen|zonder|noch|niets|vermijd\w*|verboden|behalve)\b",
        "aan al alle als altijd bij dan dat de deze die dit door een elk elke en er geef geen het"
        " hij ik in is je kan met moet naar niet of om ook op over te tot uit uw van voor wat wie"
        " wordt zij zijn zo",
    ),
    "ru": _language(
        r"\b(?:не|нет|ни|никогда|нельзя|без|кроме|запрещ\w*|избегай\w*)\b",
        "а без бы в вы все всегда где да для до его ее если же за и из или их как к каждый когда"
        " ли мы на не но о об он она они от по при с так то только ты у что чтобы это",
    ),
    "tr": _language(
        r"\b(?:değil|asla|hiç|yok|olmadan|\w+m[ae]y[ıi]n|\w+m[ae])\b",
        "bir bu da de en gibi her için ile ise ki mi olan olarak sadece şu tüm ve veya ya",
    ),
    "ar": _language(r"(?:^|\s)(?:و|ف)?(?:لا|لم|لن|ليس|بدون|غير|ممنوع|أبد[اً]+)(?:\s|$)",
                    "في من على إلى عن أن هذا هذه التي الذي كل أو ثم مع ما هو هي كما إذا"),
    "hi": _language(r"(?:^|\s)(?:नहीं|न|मत|बिना|कभी नहीं|ना)(?:\s|$)",
                    "और का की के को में से पर है हैं यह वह एक हर जो तो भी या कि"),
    "ja": _language(r"ない|ません|ずに|せず|禁止|無く|なし|避け|不要|するな", ""),
    "zh": _language(r"不|没有|勿|别|禁止|无需|避免|切忌|絕不|沒有", ""),
    "ko": _language(r"않|지 ?마|말 ?것|금지|없이|없[이는다]|못|안 ", ""),
}  # fmt: skip
_NEGATIONS = {name: re.compile(one.negation, re.IGNORECASE) for name, one in _LANGUAGES.items()}
_LATIN = ("en", "de", "fr", "es", "pt", "it", "nl", "tr")
# Languages that write "3." for "third"; Slavic, Nordic and Hungarian ones have no list here.
_ORDINAL_DOTS = frozenset({"de", "tr", ""})
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("zh", re.compile(r"[\u3400-\u9fff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
)
_WORD = re.compile(r"[^\W_]+(?:[\u0300-\u036f\u0900-\u0dff\u0e31-\u0e4e]+[^\W_]*)*")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f\uac00-\ud7af]")
# Grammar of Japanese; content is written in the other two scripts or in longer runs of this one.
_KANA = re.compile(r"[\u3040-\u309f]")

ABBREVIATIONS = _words(
    "e.g i.e etc vs cf approx dr mr mrs ms prof st no nr fig figs vol pp ca max min incl excl resp"
    " z z.b b d d.h h u u.a a bzw usw ggf evtl abs art inkl exkl vgl s p p.ex ex núm pág sr sra"
    " dra ud uds ecc dott sig jr inc ltd co est al bijv enz o.ä o.g str tel mind bspw sog"
    " т.е т.д т.п др г стр рис"
)
"""Abbreviations that end in a full stop within a sentence."""


def guess_language(text: str) -> str:
    """The language of a text as its code, such as `de`; empty where it is unknown.

    >>> guess_language("Answer in one sentence."), guess_language("Antworte in einem Satz.")
    ('en', 'de')
    """
    letters = sum(sign.isalpha() for sign in text)
    for name, script in _SCRIPTS:
        if letters and 4 * len(script.findall(text)) >= letters:
            return name
    if not letters:
        return ""
    words = [word.casefold() for word in _WORD.findall(text)]
    found = {name: sum(word in _LANGUAGES[name].common for word in words) for name in _LATIN}
    best = max(found, key=lambda name: found[name])
    # One word in eight is a function word in any text of a language, and two are no accident.
    return best if found[best] >= max(1, len(words) / 8) else ""


def has_ordinal_dots(text: str) -> bool:
    """Return whether a full stop after a number may mean an ordinal, as in German."""
    return guess_language(text) in _ORDINAL_DOTS


def is_negated(text: str) -> bool | None:
    """Return whether a sentence forbids or negates; None for an unknown language."""
    language = guess_language(text)
    if language:
        return bool(_NEGATIONS[language].search(text))
    # Short texts have too few function words; a negation of any language is still one.
    return True if any(_NEGATIONS[name].search(text) for name in _LATIN) else None


def negations(text: str) -> Iterator[re.Match[str]]:
    """The words of a text that negate, in its language."""
    language = guess_language(text)
    return _NEGATIONS[language].finditer(text) if language else iter(())


@cache
def _common() -> frozenset[str]:
    return frozenset(word for one in _LANGUAGES.values() for word in one.common)


def content_words(text: str) -> frozenset[str]:
    """The words of a text that tell its subject, without endings such as a plural's.

    Scripts that put no space between words give pairs of signs.

    >>> sorted(content_words("Write every timestamp in `UTC`; timestamps end in Z."))
    ['end', 'timestamp', 'utc', 'z']
    >>> sorted(content_words("Wohngebäude in 東京都"))
    ['wohngebäud', '京都', '東京']
    """
    language = guess_language(text)
    common = _LANGUAGES[language].common if language in _LATIN else _common()
    found: set[str] = set()
    for match in _WORD.findall(text):
        if _UNSPACED.search(match):
            pairs = [match[n : n + 2] for n in range(max(1, len(match) - 1))]
            found |= {pair for pair in pairs if not all(map(_KANA.match, pair))}
        elif not match.isdigit() and (word := match.casefold()) not in common:
            found.add(stem(word))
    return frozenset(found)


def stem(word: str) -> str:
    """A word without its commonest endings; crude, and the same for both sides of a comparison."""
    # The plural's first, so that "greetings" and "greeting" end up the same.
    for endings in (("ies", "es", "s"), ("ing", "ed")):
        for ending in endings:
            if word.endswith(ending) and len(word) - len(ending) >= 3:  # noqa: PLR2004 - a stem
                word = word[: -len(ending)] + ("y" if ending == "ies" else "")
                break
    # "value" has to meet "values", and "close" "closed".
    return word[:-1] if word.endswith("e") and len(word) > 3 else word  # noqa: PLR2004 - a stem
