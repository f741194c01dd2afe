"""Words that negate, weaken or measure, by language; an unknown language has none."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from regauge.statements import content_words, guess_language, negations

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Pairs `before>after`, with `|` between them; `<>` exchanges both ways.
_OPPOSITES: Mapping[str, str] = {
    "en": "at most<>at least|no more than<>no fewer than|fewer than<>more than|less than<>more than"
    "|must not>must|must>must not|should not>should|should>should not|may not>may|do not>do"
    "|never>always|always>never|before<>after|highest<>lowest|include<>omit|required>forbidden",
    "de": "höchstens<>mindestens|weniger als<>mehr als|muss>darf nicht|müssen>dürfen nicht"
    "|soll>soll nicht|immer<>nie|vor<>nach",
    "fr": "au plus<>au moins|moins de<>plus de|doit>ne doit pas|doivent>ne doivent pas"
    "|toujours>jamais|avant<>après",
    "es": "como máximo<>como mínimo|a lo sumo<>al menos|menos de<>más de|debe>no debe"
    "|deben>no deben|siempre<>nunca|antes<>después",
    "pt": "no máximo<>no mínimo|menos de<>mais de|deve>não deve|devem>não devem|sempre<>nunca"
    "|antes<>depois",
    "it": "al massimo<>almeno|meno di<>più di|deve>non deve|devono>non devono|sempre>mai"
    "|prima<>dopo",
    "nl": "hoogstens<>minstens|maximaal<>minimaal|minder dan<>meer dan|moet>mag niet"
    "|moeten>mogen niet|altijd<>nooit",
    "ru": "не более<>не менее|меньше<>больше|должен>не должен|должна>не должна|должно>не должно"
    "|должны>не должны|всегда<>никогда",
    "tr": "en fazla<>en az|her zaman<>asla",
    "ar": "على الأكثر<>على الأقل|يجب>يجب ألا",
    "hi": "अधिकतम<>न्यूनतम|हमेशा>कभी नहीं",
    "ja": "以内>以上|以下<>以上|必ず>決して",
    "zh": "最多<>至少|必须>不得|总是>从不",
    "ko": "최대<>최소|이하<>이상|항상>절대",
}
_WEAKER: Mapping[str, str] = {
    "en": "always>usually|never>rarely|must>should|exactly>about|only>|at most>about|at least>about"
    "|every>most|all>most|required>preferred",
    "de": "immer>meist|niemals>selten|nie>selten|muss>sollte|müssen>sollten|genau>etwa|nur>"
    "|ausschließlich>|höchstens>etwa|mindestens>etwa|alle>die meisten",
    "fr": "toujours>généralement|jamais>rarement|doit>devrait|doivent>devraient"
    "|exactement>environ|uniquement>|seulement>|au plus>environ|au moins>environ",
    "es": "siempre>normalmente|nunca>rara vez|debe>debería|deben>deberían"
    "|exactamente>aproximadamente|solo>|sólo>|únicamente>|como máximo>unos",
    "pt": "sempre>geralmente|nunca>raramente|deve>deveria|devem>deveriam"
    "|exatamente>aproximadamente|apenas>|somente>|no máximo>cerca de",
    "it": "sempre>di solito|mai>raramente|deve>dovrebbe|devono>dovrebbero|esattamente>circa|solo>"
    "|soltanto>|al massimo>circa",
    "nl": "altijd>meestal|nooit>zelden|moet>zou moeten|precies>ongeveer|alleen>|hoogstens>ongeveer",
    "ru": "всегда>обычно|никогда>редко|должен>может|должны>могут|ровно>примерно|только>",
    "tr": "her zaman>genellikle|asla>nadiren|sadece>",
    "ar": "دائما>عادة|يجب>يفضل|فقط>",
    "hi": "हमेशा>आमतौर पर|केवल>|सिर्फ>",
    "ja": "必ず>できれば|常に>通常|のみ>|だけ>",
    "zh": "必须>最好|总是>通常|只>|仅>",
    "ko": "반드시>가능하면|항상>보통|오직>",
}
# Without a language: symbols and formats. By language: words.
_UNITS = (
    "YYYY-MM-DD>DD/MM/YYYY|ISO 8601>RFC 2822|UTC>local time|ms>s|°C<>°F|km<>miles|kg<>lb|USD<>EUR"
    "|GB<>MB|GiB<>MiB"
)
_UNIT_WORDS: Mapping[str, str] = {
    "en": "words>characters|characters>words|word>character|sentences>paragraphs|sentence>paragraph"
    "|seconds<>minutes|hours<>days|hour<>day|weeks<>months|percent>per mille|meters<>feet",
    "de": "Wörter>Zeichen|Wörtern>Zeichen|Worte>Zeichen|Zeichen>Wörter|Sätze>Absätze"
    "|Sätzen>Absätzen|Satz>Absatz|Sekunden<>Minuten|Stunden<>Tagen|Wochen<>Monate",
    "fr": "mots>caractères|caractères>mots|phrases>paragraphes|phrase>paragraphe"
    "|secondes<>minutes|heures<>jours",
    "es": "palabras>caracteres|caracteres>palabras|frases>párrafos|frase>párrafo"
    "|segundos<>minutos|horas<>días",
    "pt": "palavras>caracteres|caracteres>palavras|frases>parágrafos|segundos<>minutos|horas<>dias",
    "it": "parole>caratteri|caratteri>parole|frasi>paragrafi|secondi<>minuti|ore<>giorni",
    "nl": "woorden>tekens|tekens>woorden|zinnen>alinea's|seconden<>minuten|uren<>dagen",
    "ru": "слов>символов|символов>слов|секунд<>минут|часов<>дней",
    "ja": "文字>単語|分<>秒",
    "zh": "字>词|分钟<>秒|小时<>天",
}
_UNSPACED = frozenset({"ja", "zh", "ko"})


@cache
def _pairs(listed: str) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for pair in filter(None, listed.split("|")):
        before, both, after = pair.partition("<>")
        if both:
            found += [(before, after), (after, before)]
        else:
            before, _, after = pair.partition(">")
            found.append((before, after))
    return tuple(found)


def _exchanged(text: str, listed: str, *, spaced: bool = True) -> Iterator[str]:
    """The texts with one word of a list exchanged each; a longer match hides shorter ones in it."""
    edge = r"(?<!\w){}(?!\w)" if spaced else "{}"
    taken: list[tuple[int, int]] = []
    for before, after in _pairs(listed):
        found = re.search(edge.format(re.escape(before)), text, re.IGNORECASE)
        if found is None or any(
            found.start() < end and start < found.end() for start, end in taken
        ):
            continue
        taken.append(found.span())
        yield _put(text, *found.span(), after)


def _put(text: str, start: int, end: int, new: str) -> str:
    """The text with another word at a place; its first letter stays as large as it was."""
    if not new and text[end : end + 1] == " ":
        end += 1
    after = text[:start] + new + text[end:]
    if start == 0 and text[:1].isupper():
        return after[:1].upper() + after[1:]
    return after


def negated(text: str) -> Iterator[str]:
    """The text with one thing turned into its opposite.

    >>> list(negated("The summary must have at most 80 words."))
    ['The summary must have at least 80 words.', 'The summary must not have at most 80 words.']
    >>> list(negated("Schreibe nicht mehr."))
    ['Schreibe mehr.']
    """
    language = guess_language(text)
    spaced = language not in _UNSPACED
    found = list(_exchanged(text, _OPPOSITES.get(language, ""), spaced=spaced))
    if not found:
        for match in negations(text):
            found.append(_put(text, *match.span(), ""))
            break
    first = text.split(maxsplit=1)[:1]
    if not found and language == "en" and first and first[0].istitle() and content_words(first[0]):
        # An order begins with its verb.
        found.append(f"Do not {text[:1].lower()}{text[1:]}")
    yield from found


def weakened(text: str) -> Iterator[str]:
    """The text with one thing said less strictly.

    >>> list(weakened("Only answer in JSON."))
    ['Answer in JSON.']
    """
    language = guess_language(text)
    yield from _exchanged(text, _WEAKER.get(language, ""), spaced=language not in _UNSPACED)


def with_other_unit(text: str) -> Iterator[str]:
    """The text with another unit or date format.

    >>> list(with_other_unit("Write the date as YYYY-MM-DD."))
    ['Write the date as DD/MM/YYYY.']
    """
    language = guess_language(text)
    yield from _exchanged(text, _UNITS)
    if any(sign.isdigit() for sign in text):
        listed = _UNIT_WORDS.get(language, "")
        yield from _exchanged(text, listed, spaced=language not in _UNSPACED)
