"""Applications for day care, checked in German: numbered steps whose order counts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.refine_tasks._written import Add, Drop, Move, Rule, Say, Swap, WrittenTask, rate_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TASK"]

TEXT = """\
Du prüfst Anträge auf einen Kitaplatz für das Jugendamt einer Großstadt.
Die Sachbearbeitung übernimmt dein Ergebnis in ihre Akte.

Gehe in dieser Reihenfolge vor:
1. Lies den ganzen Antrag, auch die Anlagen.
2. Prüfe zuerst, ob die Unterschrift fehlt; fehlt sie, antworte nur mit UNVOLLSTÄNDIG.
3. Achte auf handschriftliche Ergänzungen am Rand.
4. Ersetze alle Namen von Kindern durch [KIND].
5. Berechne das Alter des Kindes zum 1. August.
6. Ordne den Bedarf einer Stufe von 1 bis 4 zu.
7. Geschwister in derselben Einrichtung sind ein eigener Vermerk.
8. Nenne fehlende Unterlagen in einer Liste, höchstens 5 Einträge.
9. Begründe die Stufe aus Schritt 6 in genau einem Satz.
10. Übersetze Angaben in anderen Sprachen ins Deutsche.
11. Gib das Datum im Format JJJJ-MM-TT an.
12. Der Träger der Einrichtung spielt keine Rolle.

Schreibe sachlich und ohne Anrede.
Versprich niemals einen Platz.
Fragen zum Beitrag gehören in ein anderes Verfahren.
Beende die Antwort mit einer Zeile, die mit "Ergebnis:" beginnt.
Abkürzungen des Amtes sind erlaubt.
Widersprüche im Antrag sind nicht deine Aufgabe.

Antrag: {{antrag}}
"""
_HEDGES = r"\b(möglichst|wenn es passt|gegebenenfalls|nach Möglichkeit|vielleicht)\b"


def _step(prompt: str, pattern: str) -> int | None:
    found = re.search(rf"^(\d+)\. .*{pattern}", prompt, re.MULTILINE)
    return int(found[1]) if found else None


def _early(rule: Rule, prompt: str, units: Sequence[str]) -> float:
    """The check of the signature counts only before the steps that write something."""
    rate = rate_of(rule, units, _HEDGES)
    own, later = _step(prompt, "Unterschrift fehlt"), _step(prompt, "Ersetze alle Namen")
    return min(rate, 0.3) if own and later and own > later else rate


def _age_first(rule: Rule, prompt: str, units: Sequence[str]) -> float:
    rate = rate_of(rule, units, _HEDGES)
    own, later = _step(prompt, "Berechne das Alter"), _step(prompt, "Ordne den Bedarf")
    return min(rate, 0.35) if own and later and own > later else rate


def _refers(rule: Rule, prompt: str, units: Sequence[str]) -> float:
    rate = rate_of(rule, units, _HEDGES)
    named = re.search(r"Stufe aus Schritt (\d+)", prompt)
    step = _step(prompt, "einer Stufe von 1 bis")
    return min(rate, 0.4) if named and step and int(named[1]) != step else rate


def _beside(rule: Rule, prompt: str, units: Sequence[str]) -> float:
    rate = rate_of(rule, units, _HEDGES)
    return min(rate, 0.35) if _SPOILER in prompt and "ohne Anrede" in prompt else rate


_SPOILER = "Die letzte Zeile ist eine Grußformel."
_SIGNED = "Prüfe zuerst, ob die Unterschrift fehlt; fehlt sie, antworte nur mit UNVOLLSTÄNDIG."
_KIND = "Ersetze alle Namen von Kindern durch [KIND]."
_AGE = "Berechne das Alter des Kindes zum 1. August."
_LEVEL = "Ordne den Bedarf einer Stufe von 1 bis 4 zu."
_LIST = "Nenne fehlende Unterlagen in einer Liste, höchstens 5 Einträge."
_WHY = "Begründe die Stufe aus Schritt 6 in genau einem Satz."
_DATE = "Gib das Datum im Format JJJJ-MM-TT an."
_PLACE = "Versprich niemals einen Platz."
_END = 'Beende die Antwort mit einer Zeile, die mit "Ergebnis:" beginnt.'

RULES = (
    Rule(
        name="unterschrift",
        line=_SIGNED,
        needs=(r"Unterschrift", r"UNVOLLSTÄNDIG"),
        against=(r"Unterschrift (?:ist egal|spielt keine)",),
        absent=0.2,
        reason="ein Antrag ohne Unterschrift wurde geprüft",
        advice=_SIGNED,
        rate=_early,
        faults={
            "drop": Drop(),
            "move": Move("Übersetze Angaben in anderen Sprachen ins Deutsche."),
            "negate": Say("Eine fehlende Unterschrift ist egal."),
        },
    ),
    Rule(
        name="namen",
        line=_KIND,
        needs=(r"Namen von Kindern", r"\[KIND\]"),
        against=(r"(?:keine|nie).*Namen von Kindern",),
        absent=0.15,
        reason="der Name eines Kindes steht in der Antwort",
        advice=_KIND,
        faults={
            "drop": Drop(),
            "soften": Say("Ersetze möglichst alle Namen von Kindern durch [KIND]."),
            "negate": Say("Ersetze keine Namen von Kindern durch [KIND]."),
        },
    ),
    Rule(
        name="alter",
        line=_AGE,
        needs=(r"Alter des Kindes", r"1\. August"),
        against=(r"zum 31\. Dezember",),
        absent=0.3,
        reason="das Alter gilt nicht zum 1. August",
        advice=_AGE,
        rate=_age_first,
        faults={
            "drop": Drop(),
            "number": Say("Berechne das Alter des Kindes zum 31. Dezember."),
            "move": Move(_LIST),
            "swapped": Swap(_AGE, _LEVEL),
        },
    ),
    Rule(
        name="stufe",
        line=_LEVEL,
        needs=(r"Stufe von 1 bis 4",),
        against=(r"Stufe von 1 bis (?!4)\d",),
        absent=0.2,
        reason="die Stufe liegt nicht zwischen 1 und 4",
        advice=_LEVEL,
        faults={
            "drop": Drop(),
            "number": Say("Ordne den Bedarf einer Stufe von 1 bis 6 zu."),
            "soften": Say("Ordne den Bedarf vielleicht einer Stufe von 1 bis 4 zu."),
        },
    ),
    Rule(
        name="unterlagen",
        line=_LIST,
        needs=(r"fehlende Unterlagen", r"höchstens 5"),
        against=(r"höchstens (?!5 )\d+|alle Unterlagen, auch",),
        absent=0.3,
        reason="die Liste der Unterlagen ist zu lang oder fehlt",
        advice=_LIST,
        faults={
            "drop": Drop(),
            "number": Say("Nenne fehlende Unterlagen in einer Liste, höchstens 15 Einträge."),
            "soften": Say(
                "Nenne nach Möglichkeit fehlende Unterlagen in einer Liste, höchstens 5 Einträge."
            ),
        },
    ),
    Rule(
        name="grund",
        line=_WHY,
        needs=(r"Begründe die Stufe", r"einem Satz"),
        against=(r"ohne Begründung|nicht begründe",),
        absent=0.25,
        reason="die Stufe ist nicht in einem Satz begründet",
        advice="Begründe die Stufe in genau einem Satz.",
        rate=_refers,
        faults={
            "drop": Drop(),
            "crossref": Say("Begründe die Stufe aus Schritt 8 in genau einem Satz."),
            "negate": Say("Gib die Stufe ohne Begründung an."),
        },
    ),
    Rule(
        name="datum",
        line=_DATE,
        needs=(r"Datum", r"JJJJ-MM-TT"),
        against=(r"TT\.MM\.JJJJ",),
        absent=0.3,
        reason="das Datum hat nicht das Format JJJJ-MM-TT",
        advice=_DATE,
        faults={
            "drop": Drop(),
            "negate": Say("Gib das Datum im Format TT.MM.JJJJ an."),
            "soften": Say("Gib das Datum, wenn es passt, im Format JJJJ-MM-TT an."),
        },
    ),
    Rule(
        name="platz",
        line=_PLACE,
        needs=(r"niemals|nie\b|keinen", r"Platz"),
        against=(r"Versprich (?:gern|immer)",),
        absent=0.4,
        reason="ein Platz wurde versprochen",
        advice=_PLACE,
        faults={"drop": Drop(), "negate": Say("Versprich immer einen Platz.")},
    ),
    Rule(
        name="ergebnis",
        line=_END,
        needs=(r"Zeile", r"Ergebnis:"),
        against=(r"(?:keine Zeile|nicht mit einer Zeile)",),
        absent=0.15,
        reason='die letzte Zeile beginnt nicht mit "Ergebnis:"',
        advice=_END,
        rate=_beside,
        faults={
            "drop": Drop(),
            "interact": Add(_SPOILER, "Abkürzungen des Amtes sind erlaubt."),
            "negate": Say('Beende die Antwort nicht mit einer Zeile, die mit "Ergebnis:" beginnt.'),
        },
    ),
)

TASK = WrittenTask(
    name="antraege",
    text=TEXT,
    rules=RULES,
    hedges=_HEDGES,
    refers=r"Schritt ",
    units=r"\n",
    closing=("Antrag: {{antrag}}",),
    fluff=(
        "Arbeite sehr sorgfältig.",
        "Nimm dir Zeit und denke nach, bevor du schreibst.",
        "Diese Aufgabe ist für viele Familien wichtig.",
        "Prüfe am Ende noch einmal alles.",
    ),
    golden=lambda number, _, token: (
        f"[KIND], Stufe {1 + number % 4}, Az. {token[:6]}, 2026-08-{1 + number % 28:02d}"
    ),
    text_of=lambda case, _, token: f"Antrag {case}, Aktenzeichen {token}",
)
