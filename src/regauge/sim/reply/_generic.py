"""Tasks that are neither JSON, labels nor sections: the plain things people ask for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from regauge.sim.document import alert_facts, lines_of
from regauge.sim.reply._runbook import loose_runbook
from regauge.sim.reply._summarise import summarise
from regauge.sim.reply._values import clarity_of_limit, over_limit
from regauge.sim.text import sentences, split_name, stems

if TYPE_CHECKING:
    from regauge.sim._rules import Dice
    from regauge.sim.asked import Instructions
    from regauge.sim.document import Document

__all__ = ["generic_text"]

_TRANSLATE: Final = re.compile(r"\btranslat(?:e|ion)\b", re.IGNORECASE)
_RUNBOOK: Final = re.compile(r"\b(?:runbook|playbook|operating procedure)\b", re.IGNORECASE)
_CODE: Final = re.compile(
    r"\b(?:terraform|hcl|python|bash|shell script|javascript|typescript|sql|dockerfile"
    r"|kubernetes manifest|yaml)\b",
    re.IGNORECASE,
)
_CODE_VERB: Final = re.compile(r"\b(?:write|generate|create|produce|draft|give)\b", re.IGNORECASE)
_YES_NO: Final = re.compile(
    r"\byes (?:or|/) no\b|\b[\"'`]?yes[\"'`]?\s*/\s*[\"'`]?no\b", re.IGNORECASE
)
_TITLE: Final = re.compile(
    r"\b(?:a|the|one)?\s*(?:title|headline|subject line)\b[^.]{0,40}$", re.IGNORECASE
)
_LISTING: Final = re.compile(r"\b(?:list|bullets?|bullet points?|enumerate)\b", re.IGNORECASE)
_QUESTION: Final = re.compile(r"[^.!?\n]*\?")
_REWRITE: Final = re.compile(r"\b(?:rewrite|rephrase|proofread|correct|improve)\b", re.IGNORECASE)
_SHOUT: Final = re.compile(r"\b(?:all )?(?:upper ?case|capital letters|capitals)\b", re.IGNORECASE)
_WHISPER: Final = re.compile(r"\b(?:all )?lower ?case\b", re.IGNORECASE)
_TERRAFORM: Final = {
    "bucket": "aws_s3_bucket",
    "vpc": "aws_vpc",
    "subnet": "aws_subnet",
    "databas": "aws_db_instance",
    "rol": "aws_iam_role",
    "group": "aws_security_group",
    "instanc": "aws_instance",
}
_NO_TRANSLATION: Final = (
    "I cannot translate: this is a simulated model that works with the words of the document it is"
    " given."
)
_QUESTION_WORDS: Final = 3
_TOPIC_WORD_CHARS: Final = 4
_BULLETS_SHOWN: Final = 5


def _snippet(text: str, wanted: str) -> str:
    nouns = [w for w in stems(text) if not w.startswith("not_")]
    name = "_".join(nouns[2:4]) or "example"
    low = wanted.lower()
    if low in ("terraform", "hcl"):
        kind = next((_TERRAFORM[w] for w in nouns if w in _TERRAFORM), "null_resource")
        lines = [f'resource "{kind}" "{name}" {{', "  tags = {", "    Name = var.name", "  }", "}"]
        lines += ["", 'variable "name" {', "  type = string", "}"]
        return _fenced("hcl", lines)
    if "yaml" in low or "manifest" in low:
        meta = ["metadata:", f"  name: {name.replace('_', '-')}", "data: {}"]
        return _fenced("yaml", ["apiVersion: v1", "kind: ConfigMap", *meta])
    if "sql" in low:
        return _fenced("sql", ["SELECT *", f"FROM {name}", "LIMIT 100;"])
    if "python" in low:
        return _fenced("python", [f"def {name}(value: str) -> str:", "    return value"])
    return _fenced("bash", ["#!/usr/bin/env bash", "set -euo pipefail", f'echo "{name}"'])


def _fenced(language: str, lines: list[str]) -> str:
    return "\n".join((f"```{language}", *lines, "```"))


def _best_sentences(document: Document, question: str, most: int) -> list[str]:
    wanted = set(stems(question))
    told = [s for p in document.prose for s in sentences(p)]
    scored = sorted(
        (
            (-len(wanted & set(stems(s))) / (1 + 0.02 * len(s.split())), i)
            for i, s in enumerate(told)
        ),
    )
    return [told[i] for score, i in scored[:most] if score < 0]


def _listed(document: Document, instructions: Instructions) -> str:
    count = instructions.limits.bullets or _BULLETS_SHOWN
    wanted = set(stems(instructions.text))
    for field in document.fields:
        lines = lines_of(field.value)
        if len(lines) > 1 and set(stems(field.key)) & wanted:
            return "\n".join(f"- {line}" for line in lines[:count])
    told = sentences(summarise(document, instructions.limits, words=40 * count))
    told += [s for p in document.prose for s in sentences(p) if s not in told]
    return "\n".join(f"- {line}" for line in told[:count])


def _question(document: Document, instructions: Instructions, question: str) -> str:
    best = _best_sentences(document, question, 2)
    if _YES_NO.search(instructions.text) or re.match(
        r"\W*(?:is|are|was|were|does|do|did|has|have|can|could|should|will)\b",
        question,
        re.IGNORECASE,
    ):
        wanted = set(stems(question))
        met = wanted & set(stems(best[0])) if best else set[str]()
        word = "Yes" if len(met) * 2 >= len(wanted) and met else "No"
        only = re.search(
            r"\bonly\b|\bone word\b|\bsingle word\b|\bjust\b", instructions.text, re.IGNORECASE
        )
        return word if only or not best else f"{word}. {best[0]}"
    return " ".join(best) or "The text does not say."


def _without_document(instructions: Instructions) -> str:
    """Nothing was given to work on: a short text that takes up the words of the request."""
    asked = [w for w in split_name(instructions.text) if len(w) >= _TOPIC_WORD_CHARS]
    topic = " ".join(asked[:12]).lower() or "your request"
    return (
        f"Here is what a simulated model can say to this: {topic}. It follows the rules of a "
        f"prompt on a document,"
        " and no document was given."
    )


def _task(text: str, document: Document, instructions: Instructions) -> str | None:
    """What a request in plain words asks for, when it is one of the usual things."""
    if _RUNBOOK.search(text) or alert_facts(document).expression:
        return loose_runbook(document)
    questions = [q.strip() for q in _QUESTION.findall(text) if len(q.split()) >= _QUESTION_WORDS]
    if questions or _YES_NO.search(text):
        return _question(document, instructions, questions[-1] if questions else text)
    if _TITLE.search(text.strip()) and document.title:
        return document.title
    if _LISTING.search(text) or instructions.limits.bullets:
        return _listed(document, instructions)
    if _REWRITE.search(text):
        return " ".join(s for p in document.prose for s in sentences(p)) or document.text
    return None


def _draft(document: Document, instructions: Instructions, dice: Dice) -> str:
    text = instructions.text
    if _TRANSLATE.search(text):
        return _NO_TRANSLATION
    code = _CODE.search(text)
    if code is not None and _CODE_VERB.search(text):
        return _snippet(f"{text} {document.text}", code[0])
    if not document.text.strip():
        return _without_document(instructions)
    usual = _task(text, document, instructions)
    if usual is not None:
        return usual
    limits = instructions.limits
    if limits.words_max is not None and dice.fails("too long text", clarity_of_limit(limits)):
        told = summarise(document, limits, words=4 * limits.words_max)
        return " ".join(told.split()[: over_limit(limits.words_max, dice)])
    return summarise(document, limits)


def generic_text(document: Document, instructions: Instructions, dice: Dice) -> str:
    """A sensible plain text for any request; never empty."""
    text = _draft(document, instructions, dice)
    limit = instructions.limits.chars_max
    if limit is not None and len(text) > limit:
        text = text[:limit].rsplit(" ", 1)[0]
    if _SHOUT.search(instructions.text):
        text = text.upper()
    elif _WHISPER.search(instructions.text):
        text = text.lower()
    return text.strip() or "The text does not say."
