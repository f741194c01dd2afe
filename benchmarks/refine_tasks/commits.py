# ruff: noqa: E501 - a table of requirements, one to a line
"""Commit messages: five terse lists for fourteen checks, some of whose entries look alike.

The reflection model is a poor one: it repairs half as often as others do, and loses an entry in
every third proposal.
"""

from __future__ import annotations

from benchmarks.refine_tasks._simulated import Proposals, Requirement
from benchmarks.refine_tasks._woven import WovenTask

__all__ = ["TASK"]

_SUBJECT, _SCOPE, _BODY, _FOOTER, _BREAKING = "subject", "scope", "body", "footer", "breaking"


# fmt: off
_NEEDS = (
    Requirement("mood", _SUBJECT, "subject: imperative", (r"subject:", r"\bimperative\b"), "subject: past tense", r"subject:.*past tense", 0.45, "the subject is not in the imperative"),
    Requirement("short", _SUBJECT, "subject: at most 50 characters", (r"subject:", r"at most 50"), "subject: as long as you like", r"subject:.*as long as you like", 0.40, "the subject has more than 50 characters"),
    Requirement("stop", _SUBJECT, "subject: no full stop", (r"subject:", r"no full stop"), "subject: end with a full stop", r"end with a full stop", 0.50, "the subject ends with a full stop"),
    Requirement("lower", _SCOPE, "scope: lower case", (r"scope:", r"lower case"), "scope: in capitals", r"scope:.*in capitals", 0.35, "the scope is not in lower case"),
    Requirement("one", _SCOPE, "scope: one word", (r"scope:", r"one word"), "scope: the full path", r"scope:.*the full path", 0.25, "the scope is not one word"),
    Requirement("why", _BODY, "body: says why", (r"body:", r"says why"), "body: only says what", r"only says what", 0.30, "the body does not say why"),
    Requirement("wrapped", _BODY, "body: lines of at most 72 characters", (r"body:", r"at most 72"), "body: one long line", r"body:.*one long line", 0.20, "a line of the body has more than 72 characters"),
    Requirement("blank", _BODY, "body: blank line before it", (r"body:", r"blank line before"), "body: right below the subject", r"right below the subject", 0.55, "no blank line before the body"),
    Requirement("prose", _BODY, "body: no lists", (r"body:", r"no lists"), "body: lists welcome", r"lists welcome", 0.50, "the body has a list"),
    Requirement("refs", _FOOTER, "footer: ticket as Refs", (r"footer:", r"ticket as refs"), "footer: no ticket", r"footer:.*no ticket", 0.10, "the footer does not refer to the ticket as Refs"),
    Requirement("folded", _FOOTER, "footer: lines of at most 72 characters", (r"footer:", r"at most 72"), "footer: one long line", r"footer:.*one long line", 0.30, "a line of the footer has more than 72 characters"),
    Requirement("unsigned", _FOOTER, "footer: no signature", (r"footer:", r"no signature"), "footer: with signature", r"with signature", 0.60, "the footer is signed"),
    Requirement("bang", _BREAKING, "breaking: ! in the subject", (r"breaking:", r"! in the subject"), "breaking: never in the subject", r"never in the subject", 0.15, "a breaking change has no ! in the subject"),
    Requirement("notice", _BREAKING, "breaking: footer BREAKING CHANGE", (r"breaking:", r"footer breaking change"), "breaking: nothing in the footer", r"nothing in the footer", 0.20, "a breaking change has no footer BREAKING CHANGE"),
)
# fmt: on

TASK = WovenTask(
    name="commits",
    layout="lists",
    requirements=_NEEDS,
    sections=(_SUBJECT, _SCOPE, _BODY, _FOOTER, _BREAKING),
    opening=("Write the commit message of this diff.",),
    closing=("{{diff}}",),
    golden=lambda number, _, token: f"fix(core): mend {token} (Refs: KEY-{number + 131})",
    text_of=lambda case, _, token: f"diff {case} of package pkg-{token}",
    clumsy=Proposals(p_fix=0.5, p_leak=0.3, p_drop=0.35, p_fluff=0.7),
    unwatched={
        _SUBJECT: ("present a single change", "quote symbols", "keep acronyms"),
        _SCOPE: ("the package", "may be missing", "never a person"),
        _BODY: (
            "links allowed",
            "mentions side effects",
            "past behaviour first",
            "names measured numbers",
        ),
        _FOOTER: ("reviewers last", "trailers only"),
        _BREAKING: ("migration described", "version named"),
    },
)
