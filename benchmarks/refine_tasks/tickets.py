# ruff: noqa: E501 - a table of requirements, one to a line
"""Replies to support tickets: an instruction counts in full under its own heading only.

Cases differ in how hard they are, and the hard ones are hard in every respect. Train cases come
from three products more often than others do, so an edit may help these alone.
"""

from __future__ import annotations

from benchmarks.refine_tasks._simulated import Requirement, SimulatedTask

__all__ = ["TASK"]

_FORM, _FACTS, _TONE = "## Form of the reply", "## What to say", "## How to say it"
_PRODUCTS = ("router", "billing", "mailbox", "cloud", "phone", "tablet", "camera", "printer")
_PEOPLE = (
    "Anouk", "Bastian", "Chidera", "Dagny", "Eamon", "Farida", "Gustav", "Hanneke", "Imre",
    "Jolanta", "Kwabena", "Liora", "Matthis", "Nadezhda", "Oisin", "Priyanka", "Quirin", "Rosalba",
    "Svetlana", "Tadhg",
)  # fmt: skip
_REMEDIES = (
    "replaced the faulty adapter", "refunded the duplicate charge", "restored the archived folder",
    "unlocked the suspended account", "rescheduled the missed visit", "reversed the late surcharge",
    "migrated the stuck contacts",
)  # fmt: skip


# fmt: off
_NEEDS = (
    Requirement("greeting", _FORM, "- Open with a greeting that names the customer.", (r"greeting|salutation", r"customer"), "- Skip greetings and start with the facts.", r"skip greetings", 0.35, "the reply does not greet the customer by name"),
    Requirement("length", _FORM, "- Keep the reply to at most 120 words.", (r"120 words",), "- Write as long a reply as you like.", r"as long a reply", 0.30, "the reply is longer than 120 words"),
    Requirement("steps", _FORM, "- Number the steps the customer has to take.", (r"number", r"steps"), "- Put all steps into one paragraph.", r"all steps into one paragraph", 0.20, "steps are not a numbered list"),
    Requirement("signature", _FORM, "- Sign as the support team, never with a person's name.", (r"sign", r"support team"), "- Sign with a made-up first name.", r"made-up first name", 0.25, "the signature names a person"),
    Requirement("ticket", _FACTS, "- Quote the ticket number in the first paragraph.", (r"ticket number",), "- Leave ticket numbers out.", r"leave ticket numbers out", 0.15, "the ticket number is missing from the first paragraph"),
    Requirement("refund", _FACTS, "- Promise no refund; say that billing decides on refunds.", (r"refund", r"billing decides"), "- Promise a full refund at once.", r"promise a full refund", 0.40, "a refund was promised"),
    Requirement("deadline", _FACTS, "- Name the working day by which the customer hears back.", (r"working day", r"hears? back"), "- Give no dates.", r"give no dates", 0.10, "no working day is named for the answer"),
    Requirement("secrets", _FACTS, "- Do not ask for a password or a full card number.", (r"password", r"card number"), "- Request the account password for faster help.", r"request the account password", 0.50, "the reply asks for a secret"),
    Requirement("blame", _TONE, "- Blame neither the customer nor a colleague.", (r"blame", r"neither|never|nobody"), "- Say clearly whose fault it was.", r"whose fault it was", 0.45, "the reply puts blame on somebody"),
    Requirement("jargon", _TONE, "- Explain every abbreviation when it first occurs.", (r"abbreviation", r"explain"), "- Use technical abbreviations freely.", r"abbreviations freely", 0.20, "an abbreviation is not explained"),
)
# fmt: on


def _golden(number: int, group: str, token: str) -> str:
    person = _PEOPLE[int(token[:4], 16) % len(_PEOPLE)]
    remedy = _REMEDIES[int(token[4:], 16) % len(_REMEDIES)]
    ticket = 4100 + int(token[:3], 16)
    return (
        f"Dear {person}, ticket {ticket}: we {remedy} for your {group} within {31 + number} hours."
    )


TASK = SimulatedTask(
    name="tickets",
    requirements=_NEEDS,
    sections=(_FORM, _FACTS, _TONE),
    opening=("You answer support tickets of a telephone company.", ""),
    closing=("<ticket>", "{{ticket}}", "</ticket>"),
    golden=_golden,
    text_of=lambda case, group, token: (
        f"{case}: a customer writes about the {group}, contract {token}"
    ),
    style="section",
    groups=_PRODUCTS,
    spread=0.8,
    near=0.9,
    unwatched={
        _FORM: (
            "- Put links on a line of their own.",
            "- Use short paragraphs.",
            "- Leave attachments unmentioned.",
            "- Repeat the subject of the mail as it is.",
        ),
        _FACTS: (
            "- Mention known outages in the area.",
            "- Point to the status page for mobile networks.",
            "- Treat several questions one after the other.",
            "- Recommend the shop in town for spare parts.",
        ),
        _TONE: ("- Write as you would speak on the telephone.", "- Thank for photos."),
    },
)
