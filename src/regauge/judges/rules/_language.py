"""The language an answer is written in."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any, Literal

from regauge.errors import UsageError
from regauge.judges._evidence import number, quote
from regauge.judges._rule import Check, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed

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


def detect_language(text: str) -> tuple[str, float]:
    """The language of a text as an ISO 639-1 code, with its share; "" when none shows.

    langdetect draws letter sequences at random and stops when it is sure; this is where those
    draws tend to: all sequences count, so the same text always gives the same answer.
    """
    import numpy as np

    grams = Counter(_grams(text))
    if not grams:
        return "", 0.0
    factory, weights = _factory(), _weights()
    for gram in grams.keys() - weights.keys():
        weights[gram] = np.log(_FLOOR + np.array(factory.word_lang_prob_map[gram]))
    counts = np.fromiter(grams.values(), dtype=float)
    logs = counts @ np.stack([weights[gram] for gram in grams])
    # As many draws as langdetect takes before it is sure of a clear text.
    chances = np.exp((logs - logs.max()) * min(1.0, _DRAWS / counts.sum()))
    best = int(logs.argmax())
    return factory.langlist[best], float(1 / chances.sum())


@rule(codes=("wrong_language", "no_language"))
def is_language(
    code: str, *, unclear: Literal["pass", "fail"] = "fail", field: str | None = None
) -> Check:
    """The answer is written in a language, as far as its letter sequences tell.

    The first 10,000 characters decide. Short texts and texts of names, numbers or code are
    easily mistaken.

    Args:
        code: The language by its ISO 639-1 code: `en`, `de`, `pt`, `zh-cn`, `zh-tw`, ...
        unclear: What a text without any telling letters does, such as "42".
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(is_language("de").check_text("Die Platte ist voll und der Dienst steht."))
    pass: written in 'de'
    """
    wanted = code.lower()
    known: list[str] = _factory().langlist
    if wanted not in known:
        raise UsageError(f"is_language: no language {code!r}; there are {', '.join(sorted(known))}")

    def check(text: str) -> Verdict:
        found, probability = detect_language(text)
        if not found:
            if unclear == "pass":
                return passed("no language shows")
            return failed("no language shows", code="no_language", expected=wanted)
        if found == wanted:
            return passed(f"written in {quote(found)}")
        return failed(
            f"written in {quote(found)} (probability {number(probability)}), not {quote(wanted)}",
            code="wrong_language",
            expected=wanted,
            actual=found,
        )

    return on_text(field, check)
