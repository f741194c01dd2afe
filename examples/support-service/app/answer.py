"""The answer to a question: a page, or the state of an order."""

import re
from typing import Any

from app.pages import PAGES, retrieve

ORDERS = {"4711": "shipped", "4712": "in preparation", "4713": "delivered", "4714": "cancelled"}


def lookup_order(order: str) -> str:
    """The tool: the state of an order."""
    return ORDERS.get(order, "unknown")


def answer(question: str) -> dict[str, Any]:
    """The text, the pages it rests on, and the calls of the tool."""
    if number := re.search(r"\b\d{4}\b", question):
        state = lookup_order(number[0])
        calls = [{"name": "lookup_order", "arguments": {"order": number[0]}}]
        return {"text": f"Order {number[0]} is {state}.", "context": [], "tool_calls": calls}
    page = retrieve(question)
    text = PAGES[page] if page else "I do not know."
    return {"text": text, "context": [page] if page else [], "tool_calls": []}
