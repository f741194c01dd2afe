"""The pages that answers are taken from, and their retrieval by shared words."""

import re

PAGES = {
    "refunds": "Refunds are paid within 14 days of the return.",
    "delivery": "A parcel takes 2 to 4 working days to be delivered.",
    "invoice": "Every invoice is in your account under Orders.",
    "warranty": "The warranty lasts 24 months from the day of delivery.",
    "password": "Reset your password with the link Forgot password.",
    "address": "Change the address of an order until it is shipped.",
    "vouchers": "Vouchers are valid for one year and for one order.",
    "opening": "The phone line is open from 8 to 18 on working days.",
}
_WORDS = {
    "refunds": "refund money back return",
    "delivery": "delivery deliver parcel long arrive",
    "invoice": "invoice bill receipt",
    "warranty": "warranty guarantee broken defect",
    "password": "password login log sign",
    "address": "address moved street",
    "vouchers": "voucher gift code",
    "opening": "phone open call hours",
}


def retrieve(question: str) -> str | None:
    """The name of the page that shares most words with a question; None where none does."""
    asked = set(re.findall(r"[a-z]+", question.lower()))
    scores = {name: len(asked & set(words.split())) for name, words in _WORDS.items()}
    best = max(scores, key=scores.__getitem__)
    return best if scores[best] else None
