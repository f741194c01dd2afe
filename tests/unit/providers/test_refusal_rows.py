"""What is said of each refusal of a server, and how long is waited: rows of statuses, bodies and headers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from regauge.prompts import Message
from regauge.providers import CompletionRequest
from regauge.providers._failure import retry_after_s, status_error, wait_s
from tests.transcripts import DATA, held_rows

ROWS = DATA / "refusals.jsonl"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BODIES: list[Any] = [
    {"error": {"message": "No such model", "code": "model_not_found", "param": "model"}},
    {"error": {"message": "Unsupported parameter: 'temperature'", "param": "temperature"}},
    {"error": {"message": "Unknown name 'max_tokens' in the request", "type": "invalid"}},
    {"error": {"message": "bad schema", "param": "response_format.json_schema"}},
    {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}},
    {"error": {"message": "You exceeded your current quota, please retry in 7s"}},
    {"error": {"message": "the model clerk-1 does not exist"}},
    {"error": "plain"},
    {"error": {"code": 5}},
    {"detail": "not here"},
    {"message": "top"},
    [{"error": {"message": "in a list"}}],
    [1, 2],
    [],
    "text",
    None,
    "<html><b>Bad</b> gateway</html>",
    "x" * 400,
    "",
]
STATUSES = (301, 307, 400, 401, 402, 403, 404, 407, 408, 409, 413, 422, 425, 429, 500, 501, 502, 503, 529)  # fmt: skip
HEADERS: list[dict[str, str]] = [
    {},
    {"retry-after": "7", "location": "https://other/x"},
    {"retry-after-ms": "1500", "x-ratelimit-limit": "5", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "3"},
]  # fmt: skip
REQUESTS = [
    CompletionRequest(
        model="clerk-1",
        provider="acme",
        messages=(Message(role="user", content="Hi."),),
        parameters={"temperature": 0, "max_tokens": 5},
        **more,
    )
    for more in ({}, {"origin": "prompts/a.prompt.yml", "named_by": "--model"})
]
PLACES = ("acme (https://host)", "acme (http://host/v1)")


def refusal_rows() -> list[dict[str, Any]]:
    rows = []
    for number, (status, body) in enumerate((s, b) for s in STATUSES for b in BODIES):
        text = body if isinstance(body, str) else json.dumps(body)
        error = status_error(
            REQUESTS[number % 2],
            status=status,
            body=text,
            headers=HEADERS[number % 3],
            endpoint=PLACES[number // 2 % 2],
            key_fix="set ACME_KEY",
            status_text="a redirect" if number % 5 == 0 else "",
        )
        rows.append(
            {
                "status": status,
                "body": text,
                "says": str(error),
                "is": [error.kind, error.status, error.transient, error.retry_after_s, error.param],
                "quotas": len(error.quotas),
            }
        )
    return rows


def test_each_refusal_is_explained_as_its_row_has_it():
    assert refusal_rows() == held_rows(ROWS, refusal_rows)


@pytest.mark.parametrize(
    ("attempt", "asked", "chance", "waits"),
    [
        (1, None, 0.0, 0.25),
        (1, None, 1.0, 0.125),
        (1, None, 0.5, 0.1875),
        (2, None, 0.0, 0.5),
        (5, None, 0.0, 4.0),
        (6, None, 0.0, 8.0),
        (40, None, 0.0, 8.0),
        (5000, None, 1.0, 4.0),
        (1, 7.0, 1.0, 7.5),
        (1, 3.0, 1.0, 3.3),
        (1, 0.0, 0.0, 0.05),
        (3, 0.0, 0.0, 0.2),
        (3, 0.0, 1.0, 0.22),
        (90, 0.0, 0.0, 8.0),
        (1, 7.0, 0.0, 7.0),
    ],
)
def test_waits_double_up_to_the_longest(
    attempt: int, asked: float | None, chance: float, waits: float
):
    assert wait_s(attempt, asked, chance=chance) == pytest.approx(waits)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3600"}, 3600),
        ({"retry-after": "3601"}, 3600),
        ({"retry-after": "1m30s"}, 90),
        ({"retry-after-ms": "-1"}, 0),
        ({"retry-after-ms": "x", "retry-after": "2"}, 2),
        ({"retry-after-ms": "nan", "retry-after": "2"}, 2),
        ({"x-ratelimit-timeremaining": "5"}, 5),
        ({"x-ratelimit-timeremaining": "5", "retry-after": "4"}, 4),
        ({"retry-after": "Thu, 01 Jan 2026 13:00:01 GMT"}, 3600),
        ({"retry-after": "Thu, 01 Jan 2026 14:00:30 +0200"}, 30),
    ],
)
def test_the_delay_that_a_server_names(headers: dict[str, str], seconds: float):
    assert retry_after_s(headers, now=NOW) == seconds


@pytest.mark.parametrize(
    ("origin", "fix"),
    [
        ("prompts/a.prompt.yml", "another model with --model"),
        ("rubrics/tone.rubric.yml", "another model"),
        ("the embedding judge", "another model"),
    ],
)
@pytest.mark.parametrize("status", [400, 403])
def test_the_option_is_named_only_where_it_sets_the_model(origin: str, fix: str, status: int):
    error = status_error(
        CompletionRequest(model="m", provider="acme", messages=(), parameters={}, origin=origin),
        status=status,
        body="",
        headers={},
        endpoint="acme (https://host)",
        key_fix="",
    )
    assert str(error).endswith(fix)
