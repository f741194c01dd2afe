"""Rules as IFEval defines them, where its definition is not what most people mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.judges._rule import on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed
from regauge.judges._words import sentences_in
from regauge.judges.rules._counts import counted
from regauge.judges.rules._language import language_chances

if TYPE_CHECKING:
    from regauge.judges._rule import Check

__all__ = ["detected_language", "punkt_sentence_count"]


@rule(codes=("wrong_language",))
def detected_language(language: str, *, field: str | None = None) -> Check:
    """The language that langdetect finds most likely, however short the text is.

    A text without any telling letters passes.

    Args:
        language: The language by langdetect's code, such as `en` or `zh-cn`.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(detected_language("en").check_text("The disk is full."))
    pass: most likely 'en'
    """

    def check(text: str) -> Verdict:
        chances = language_chances(text)
        found = max(chances, key=lambda name: chances[name], default=language)
        if found == language:
            return passed(f"most likely {found!r}")
        return failed(
            f"most likely {found!r}, not {language!r}", code="wrong_language", actual=found
        )

    return on_text(field, check)


@rule(codes=("too_few", "too_many"))
def punkt_sentence_count(
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
    field: str | None = None,
) -> Check:
    """The answer has so many sentences as the Punkt tokenizer of English counts them.

    The number of a list item ("1. Item") counts as one; line ends, headings and the marks of other
    scripts end none.

    Args:
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(punkt_sentence_count(exactly=2).check_text("1. Look at the disk."))
    pass: 2 sentences, exactly 2 wanted
    """
    return counted(
        "punkt_sentence_count",
        lambda text: len(sentences_in(text)),
        "sentence",
        at_least=at_least,
        at_most=at_most,
        exactly=exactly,
        field=field,
    )
