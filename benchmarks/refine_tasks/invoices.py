# ruff: noqa: E501 - a table of requirements, one to a line
"""Invoices read into fields: of two lines on the same subject the model follows the last one.

A seeded contradiction therefore may be cured by saying it again further down, and a rule that was
put above it does nothing. Half the judges' names say nothing about their subject.
"""

from __future__ import annotations

from benchmarks.refine_tasks._simulated import Requirement, SimulatedTask

__all__ = ["TASK"]

_MONEY, _NAMES = "<amounts>", "<parties>"


# fmt: off
_NEEDS = (
    Requirement("schema", _MONEY, "- Fill every key of the schema; use null where the invoice says nothing.", (r"every key", r"null"), "- Leave keys out when unsure.", r"leave keys out", 0.30, "a required key is missing"),
    Requirement("c2", _MONEY, "- Give amounts as numbers with two decimals and no currency sign.", (r"amounts?", r"two decimals"), "- Copy amounts exactly as printed.", r"amounts exactly as printed", 0.25, "amount is not a number with two decimals"),
    Requirement("c3", _MONEY, "- Put the currency into `currency` as a three-letter code.", (r"`currency`", r"three-letter"), "- Write the currency as its symbol.", r"currency as its symbol", 0.35, "`currency` is not an ISO code"),
    Requirement("c4", _MONEY, "- Report the tax rate in percent in `tax_rate`, not the tax itself.", (r"`tax_rate`", r"percent"), "- Report only the tax amount.", r"only the tax amount", 0.15, "`tax_rate` is not a percentage"),
    Requirement("c5", _MONEY, "- Add credit notes as negative totals.", (r"credit notes?", r"negative"), "- Treat credit notes like invoices.", r"credit notes like invoices", 0.20, "credit note with a positive total"),
    Requirement("supplier", _NAMES, "- Take the supplier from the letterhead, not from the footer.", (r"supplier", r"letterhead"), "- Take the supplier from the footer.", r"supplier from the footer", 0.45, "supplier was read from the wrong place"),
    Requirement("dates", _NAMES, "- Write dates as year-month-day.", (r"dates?", r"year-month-day"), "- Write dates in the style of the invoice.", r"dates in the style", 0.25, "date is not year-month-day"),
    Requirement("iban", _NAMES, "- Group no digits of the account number; write it without spaces.", (r"account number", r"without spaces"), "- Space the account number in groups of four.", r"groups of four", 0.10, "account number holds spaces"),
    Requirement("orders", _NAMES, "- List all order references, sorted, in `orders`.", (r"order references", r"`orders`"), "- Name just the first order.", r"just the first order", 0.40, "order references are missing or unsorted"),
)
# fmt: on


TASK = SimulatedTask(
    name="invoices",
    requirements=_NEEDS,
    sections=(_MONEY, _NAMES),
    opening=("Read an invoice and give its fields as JSON.",),
    closing=("<invoice>", "{{invoice}}", "</invoice>"),
    golden=lambda number, group, token: (
        f'{{"total": {1204 + 37 * number}.50, "supplier": "{group.title()} {token[:5]} GmbH",'
        f' "iban": "DE{int(token, 16) % 10**8:08d}", "tax_rate": {5 + number % 15}}}'
    ),
    text_of=lambda case, group, token: f"Invoice {case} of {group} {token[:5]}, scanned",
    style="last-wins",
    groups=("paper", "timber", "steel", "glass", "cloth", "leather", "rubber"),
    near=0.95,
    spread=0.4,
    unwatched={
        _MONEY: (
            "- Add up discounts before the total.",
            "- Round cash payments to five cents.",
            "- Ignore stamps and notes by hand.",
            "- Treat shipping as an item.",
            "- Keep reverse charge apart.",
        ),
        _NAMES: (
            "- Leave out the contact person.",
            "- Read faxes from top to bottom.",
            "- Keep the town of the buyer.",
            "- Mark copies as such.",
        ),
    },
)
