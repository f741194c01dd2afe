"""What guards read in a text, whichever way it is written, and what they say of an edit."""

from __future__ import annotations

import random

import pytest

from regauge.refine._policy import GuardPolicy
from regauge.refine.edits import PromptText
from regauge.refine.guards import (
    Leaks,
    backwards,
    capitals_mark_names,
    decoded,
    in_digits,
    keys,
    names,
    plain,
    specific,
    text_warnings,
)
from tests.transcripts import assert_as_written
from tests.unit.refine.leak_texts import FORMS, NUMBER_FORMS, SUBJECTS, instructions, subject

TEXTS = [
    "after two hundred and forty-nine minutes, code four one seven",
    "one, six, ein, un and once; nineteen, twenty, twenty-one, ninety nine",
    "twelve hundred, three thousand and five, two thousand nineteen hundred",
    "seven million? one hundred thousand; nine ten; ten nine; twenty thirty; thirteen four",
    "zweihundertneunundvierzig minuten, einundzwanzig, hundert, neunzehn, zwanzig eins",
    "deux cent trente et un, mil doscientos treinta y cuatro, quatre vingt dix",
    "On 18 Feb at 2:13 pm host web-7 failed for 1h 5m",
    "12:30 am, 12:30 pm, 11 pm, 00:05, 3 p.m.; 2020-02-18, 18.02., 2/18, March 3rd, 3 May",
    "it took 4 hours and 9 minutes, 36m, 90s, 1,315.50 or 1_315, 007, 12, 9, 100, v1.2.3, e.g. this",
    "KubePodReloads in GitHub, WorkerHeartbeat and HTTPServerFault; a1b2, 10.0.0.7, x_y_1234z",
    "Dear Rosalba, the contract of Liora. Later it ended. No Name Here",
    "der Kunde will das Geld zurück, und der Händler die Ware",
    "reloading, réseau, 障害が発生しました, 短く",
    "cXVva2thIDc3MzE= and \\x71\\x75\\x6f\\x6b and 71 75 6f 6b 6b 61, 0x71756f6b",
    "- Mind q u o k k a. 7 7 3 1. k-e-y",
    "broken over lin-\nes and\nagain, and one more li-\nne",
]
PROMPTS = [
    "Be brief.\nBe brief.\nUse JSON.",
    "Always write the label in English.\nNever write the label in English.",
    "You must quote the exact host name.\nDo not quote the exact host name.\nUse JSON.",
    "- red: it is urgent\n- blue: it can wait\n- red: somebody has to act now\n- note: a\n- note: b",
    "",
    "xq zt vv.",
]


def test_texts_are_read_as_it_was_written_down():
    lines: list[str] = []
    for text in TEXTS:
        lines += [
            repr(text),
            f"    plain {plain(text)!r}, digits {in_digits(plain(text))!r}",
            f"    specific {sorted(specific(text))}",
            f"    keys {keys(text)}",
            f"    names {sorted(names(text))}, capitals tell {capitals_mark_names(text)}",
            f"    decoded {list(decoded(text))}",
            f"    backwards {backwards(text)!r}",
        ]
    for text in PROMPTS:
        lines += [
            repr(text),
            *(f"    {diagnostic}" for diagnostic in text_warnings(PromptText.from_contents(text))),
        ]
    assert_as_written("\n".join([*lines, ""]), "guards/readings")


@pytest.mark.parametrize("name", SUBJECTS[:2])
def test_leaks_are_named_as_it_was_written_down(name: str):
    about = subject(name)
    rng = random.Random(11)
    leaks = Leaks(about.cases, about.public, GuardPolicy())
    texts = [make(source, rng) for make in FORMS.values() for source in about.sources[:4]]
    texts += [make(number) for make in NUMBER_FORMS.values() for number in about.numbers[:4]]
    texts += instructions(name)[:25]
    lines = [f"{text!r}: {leaks.describe_leak(text)!r}, {leaks.is_public(text)}" for text in texts]
    assert_as_written("\n".join([*lines, ""]), f"guards/leaks of {name}")
