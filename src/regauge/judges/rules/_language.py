"""The language an answer is written in."""

from __future__ import annotations

import functools
from typing import Any, Literal

from regauge.errors import UsageError
from regauge.judges._evidence import number, quote
from regauge.judges._rule import Check, on_text, rule
from regauge.judges._types import Verdict, failed, passed

__all__ = ["is_language"]


@functools.cache
def _factory() -> Any:
    from langdetect.detector_factory import (  # type: ignore[import-untyped]  # it brings no types
        PROFILES_DIRECTORY,
        DetectorFactory,
    )

    factory: Any = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    return factory


def detect_language(text: str) -> tuple[str, float]:
    """The language of a text as an ISO 639-1 code, with its probability; "" when none shows.

    The detector draws at random; a fixed seed makes the same text give the same answer.
    """
    from langdetect.lang_detect_exception import (  # type: ignore[import-untyped]  # no types
        LangDetectException,
    )

    detector = _factory().create()
    detector.seed = 0
    try:
        detector.append(text)
        ranked: list[Any] = detector.get_probabilities()
    except LangDetectException:
        return "", 0.0
    return (str(ranked[0].lang), float(ranked[0].prob)) if ranked else ("", 0.0)


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
