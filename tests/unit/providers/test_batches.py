"""Lines of files of results, and the keys in them: untrusted text."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, strategies as st

from regauge.maintenance.batches import key_of, result_id
from regauge.project import EndpointSettings
from regauge.providers.batches import BatchClient, ResultLine
from regauge.recordings import RecordingKey
from tests.served import JsonHandler, Served

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(
    ["custom_id", "response", "status_code", "body", "error", "result", "type", "message", "code"]
)
_LINES = st.recursive(
    _JSON | st.sampled_from(["succeeded", "errored", "expired", 200, 400]),
    lambda inner: st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(
    digest=st.binary(min_size=32, max_size=32).map(bytes.hex),
    trial=st.integers(min_value=0, max_value=10**15 - 1),
)
def test_a_key_goes_through_its_id(digest: str, trial: int):
    """Anthropic takes 64 characters of this alphabet."""
    custom_id = result_id(RecordingKey(digest, trial))
    assert len(custom_id) <= 64
    assert set(custom_id) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert key_of(custom_id) == RecordingKey(digest, trial)


@given(st.text())
def test_other_ids_are_no_keys(text: str):
    key = key_of(text)
    assert key is None or result_id(key)[:42] == text[:42]


@given(st.binary() | _LINES.map(lambda line: json.dumps(line).encode()))
def test_any_line_is_a_result_or_is_refused(line: bytes):
    with suppress(ValueError):
        result = ResultLine.parse(line)
        assert result.custom_id
        assert bool(result.body) != bool(result.problem)


def batch(number: int, created_at: int) -> dict[str, Any]:
    return {"id": f"b{number}", "status": "completed", "created_at": created_at}


class Account(Served):
    """Lists the batches of an account, page by page."""

    def __init__(self, *pages: object) -> None:
        self.after: list[str] = []
        account = self

        class Handler(JsonHandler):
            def answer(self) -> None:
                account.after.append(parse_qs(urlsplit(self.path).query).get("after", [""])[0])
                self.say(pages[min(len(account.after), len(pages)) - 1])

        super().__init__(Handler)


def listed(account: Account, since: float) -> list[str]:
    async def ask() -> list[str]:
        settings = EndpointSettings(base_url=f"{account.address}/v1")
        client = BatchClient(settings, name="x", environ={})
        try:
            return [found.id for found in await client.list_since(since)]
        finally:
            await client.aclose()

    return asyncio.run(ask())


MORE = {"has_more": True}


@pytest.mark.parametrize(
    ("pages", "after", "ids"),
    [
        ([{"data": [batch(1, 90), batch(2, 50)]}], [""], ["b1", "b2"]),
        ([{"data": [batch(1, 90), batch(2, 49)]}], [""], ["b1"]),
        ([[batch(1, 90)]], [""], ["b1"]),
        ([{"data": []} | MORE], [""], []),
        (
            [{"data": [batch(1, 90)]} | MORE, {"data": [batch(2, 80)]}],
            ["", "b1"],
            ["b1", "b2"],
        ),
        (
            [{"data": [batch(1, 90)], "last_id": "x"} | MORE, {"data": [batch(2, 80)]}],
            ["", "x"],
            ["b1", "b2"],
        ),
        ([{"data": [batch(1, 90), batch(2, 40)]} | MORE, {"data": [batch(3, 30)]}], [""], ["b1"]),
        (
            [{"data": [batch(1, 90)]} | MORE, {"data": [batch(1, 90)]} | MORE],
            ["", "b1"],
            ["b1"] * 2,
        ),
    ],
)
def test_batches_are_listed_until_they_are_too_old(
    socket_enabled: None, pages: list[object], after: list[str], ids: list[str]
):
    with Account(*pages) as account:
        assert listed(account, 50) == ids
    assert account.after == after


def test_an_account_with_very_many_batches_is_listed_in_part(socket_enabled: None):
    pages = [{"data": [batch(number, 90)]} | MORE for number in range(30)]
    with Account(*pages) as account:
        assert len(listed(account, 50)) == 20


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"custom_id": "a", "response": {"status_code": 200, "body": {"id": "x"}}}, ({"id": "x"}, "")),
        ({"custom_id": "a", "response": {"body": {"id": "x"}}}, ({"id": "x"}, "")),
        ({"custom_id": "a", "response": {"status_code": 299, "body": {}}}, ({}, "")),
        ({"custom_id": "a", "response": {"status_code": 300, "body": {"error": {"message": "m", "code": "c"}}}}, (None, "300: c: m")),
        ({"custom_id": "a", "response": {"status_code": 199, "body": {}}}, (None, '199: {"error": {}}')),
        ({"custom_id": "a", "error": {"message": "m", "code": "c"}}, (None, "c: m")),
        ({"custom_id": "a", "error": {"error": {"message": "the code c", "code": "c"}}}, (None, "the code c")),
        ({"custom_id": "a", "result": {"type": "succeeded", "message": {"id": "x"}}}, ({"id": "x"}, "")),
        ({"custom_id": "a", "result": {"type": "errored", "error": {"type": "t", "message": "m"}}}, (None, "t: m")),
        ({"custom_id": "a", "result": {"type": "expired"}}, (None, "batch_expired")),
        ({"custom_id": "a", "result": {"type": "canceled"}}, (None, "batch_canceled")),
        ({"custom_id": "a", "result": {"type": "succeeded", "message": {}}}, "a line without a message"),
        ({"custom_id": "a", "result": {"type": "odd", "message": {"id": "x"}}}, "a line without a message"),
        ({"custom_id": "a", "response": {"body": "x"}}, "a line without a response"),
        ({"custom_id": "a"}, "a line without a response"),
        ({"custom_id": ""}, "a line without custom_id"),
        ({"custom_id": 3}, "a line without custom_id"),
        ([], "a line without custom_id"),
    ],
)  # fmt: skip
def test_a_line_of_either_form_is_a_body_or_a_problem(line: object, expected: Any):
    data = json.dumps(line).encode()
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            ResultLine.parse(data)
        return
    result = ResultLine.parse(data)
    body = json.loads(result.body) if result.body else None
    assert (result.custom_id, body, result.problem) == ("a", *expected)
