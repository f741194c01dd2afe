"""The language an answer is written in."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any, Literal

from regauge.errors import UsageError
from regauge.judges._evidence import number, quote
from regauge.judges._rule import Check, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, abstained, failed, passed

__all__ = ["is_language"]


# What every language gets for every letter sequence, as langdetect sets it.
_FLOOR = 0.5 / 10_000
_DRAWS = 50


@functools.cache
def _factory() -> Any:
    from langdetect.detector_factory import (  # type: ignore[import-untyped]  # it brings no types
        PROFILES_DIRECTORY,
        DetectorFactory,
    )

    factory: Any = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    return factory


def _grams(text: str) -> list[str]:
    """The letter sequences of a text that tell languages apart."""
    from langdetect.lang_detect_exception import (  # type: ignore[import-untyped]  # no types
        LangDetectException,
    )

    detector = _factory().create()
    try:
        detector.append(text)
        detector.cleaning_text()
        # The package's own loop over them takes 5 to 25 ms an answer, ours about 1.
        grams: list[str] = detector._extract_ngrams()  # noqa: SLF001 - see above
    except LangDetectException:
        return []
    return grams


@functools.cache
def _weights() -> dict[str, Any]:
    """How much each letter sequence speaks for each language, as arrays made on first use."""
    return {}


def language_chances(text: str) -> dict[str, float]:
    """The probability of each language, by its ISO 639-1 code; empty when none shows.

    langdetect draws letter sequences at random and stops when it is sure; this is where those
    draws tend to: all sequences count, so the same text always gives the same result.
    """
    import numpy as np

    grams = Counter(_grams(text))
    if not grams:
        return {}
    factory, weights = _factory(), _weights()
    for gram in grams.keys() - weights.keys():
        weights[gram] = np.log(_FLOOR + np.array(factory.word_lang_prob_map[gram]))
    counts = np.fromiter(grams.values(), dtype=float)
    logs = counts @ np.stack([weights[gram] for gram in grams])
    # As many draws as langdetect takes before it is sure of a clear text.
    chances = np.exp((logs - logs.max()) * min(1.0, _DRAWS / counts.sum()))
    chances /= chances.sum()
    return dict(zip(factory.langlist, chances.tolist(), strict=True))


_LANGUAGE_CODES = """
af ar bg bn ca cs cy da de el en es et fa fi fr gu he hi hr hu id it ja kn ko lt lv mk ml mr ne nl
no pa pl pt ro ru sk sl so sq sv sw ta te th tl tr uk ur vi zh zh-cn zh-tw
"""
_LANGUAGES = frozenset(_LANGUAGE_CODES.split())
_ALIASES = {
    "nb": "no",
    "nn": "no",
    "iw": "he",
    "in": "id",
    "fil": "tl",
    "zh-hans": "zh-cn",
    "zh-sg": "zh-cn",
    "zh-hant": "zh-tw",
    "zh-hk": "zh-tw",
}
# A text of fewer letters is judged only where the evidence is strong.
_LETTERS_MIN = 20
_SURE = 0.9
_UNLIKELY = 1e-3


def _language(code: str) -> str:
    """The language that a code names, without its region.

    Raises:
        UsageError: It cannot be recognised.
    """
    full = code.lower().replace("_", "-")
    bare = full.partition("-")[0]
    for name in (full, _ALIASES.get(full), bare, _ALIASES.get(bare)):
        if name in _LANGUAGES:
            return name
    raise UsageError(
        f"is_language: {code!r} cannot be recognised; there are {', '.join(sorted(_LANGUAGES))}"
    )


@rule(codes=("wrong_language", "no_language"), version=2)
def is_language(
    code: str,
    *,
    unclear: Literal["abstain", "pass", "fail"] = "abstain",
    field: str | None = None,
) -> Check:
    """The answer is written in a language, as far as its letter sequences tell.

    The first 10,000 characters decide. A text of fewer than 20 letters is unclear where the
    evidence is weak, as in "OK, done.". Texts of names, numbers or code are easily mistaken.

    Args:
        code: The language by its ISO 639-1 code, such as `en` or `pt-br`, whose region does not
            count; `zh` is Chinese in any script, `zh-cn` and `zh-tw` are one each.
        unclear: What to do with a text that shows no language, such as "42", or is too short.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(is_language("de").check_text("Die Platte ist voll und der Dienst steht."))
    pass: written in 'de'
    """
    wanted = _language(code)
    if unclear not in {"abstain", "pass", "fail"}:
        raise UsageError(f"is_language: unclear is abstain, pass or fail, not {unclear!r}")

    def undecided(reason: str) -> Verdict:
        if unclear == "pass":
            return passed(reason)
        if unclear == "fail":
            return failed(reason, code="no_language", expected=wanted)
        return abstained(reason, code="no_language")

    def check(text: str) -> Verdict:
        chances = language_chances(text)
        if not chances:
            return undecided("no language shows")
        if wanted == "zh":
            chances["zh"] = chances.pop("zh-cn") + chances.pop("zh-tw")
        found = max(chances, key=lambda name: chances[name])
        is_short = sum(map(str.isalpha, text[: 10 * _LETTERS_MIN])) < _LETTERS_MIN
        is_sure = chances[found] >= _SURE and (found == wanted or chances[wanted] < _UNLIKELY)
        if is_short and not is_sure:
            return undecided(f"too short to recognise its language: {quote(text)}")
        if found == wanted:
            return passed(f"written in {quote(found)}")
        return failed(
            f"written in {quote(found)} (probability {number(chances[found])}),"
            f" not {quote(wanted)}",
            code="wrong_language",
            expected=wanted,
            actual=found,
        )

    return on_text(field, check)
