"""Retries, the breaker, prices and estimates: decisions without a clock or a network."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from regauge.project import PriceSettings
from regauge.prompts import Attachment, Message
from regauge.providers import (
    CompletionRequest,
    Usage,
    approximate_tokens,
    cost_of,
    price_of,
)
from regauge.providers._cost import ListPrice, batch_cost_of
from regauge.providers._failure import (
    AttemptError,
    Ledger,
    read_error_response,
    retry_after_s,
    wait_s,
)
from regauge.providers.remote import Breaker

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
chances = st.floats(0, 1)


def failure(kind="server", *, transient=True, retry_after_s=None):
    return AttemptError("no", kind=kind, transient=transient, retry_after_s=retry_after_s)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e99"}, 3600),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 -0000"}, 30),
        ({"retry-after": "Thu, 01 Jan 2025 12:00:30 GMT"}, 0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers, seconds):
    assert retry_after_s(headers, now=NOW) == seconds


@given(st.text())
def test_retry_after_of_any_text_is_a_sane_number_or_none(value):
    seconds = retry_after_s({"retry-after": value, "retry-after-ms": value}, now=NOW)
    assert seconds is None or 0 <= seconds <= 3600


@given(st.text())
def test_an_error_body_of_any_text_is_read(body):
    assert len(read_error_response(body).message) <= 303


@given(st.integers(1, 100), chances, st.none() | st.floats(0, 3600))
def test_a_wait_is_never_shorter_than_asked_for_nor_much_longer(attempt, chance, asked):
    wait = wait_s(attempt, asked, chance=chance)
    assert 0 < wait <= (8 if asked is None else max(asked, 8) + 1)
    assert asked is None or wait >= asked


@given(st.lists(st.sampled_from(["server", "timeout", "rate-limit"]), max_size=60), chances)
def test_a_ledger_ends_by_attempts_or_by_the_deadline(kinds, chance):
    ledger = Ledger(max_attempts=4, deadline_s=30)
    for kind in kinds:
        ledger.attempts += 1
        if ledger.wait_after(failure(kind), chance=chance) is None:
            break
    assert sum(kind != "rate-limit" for kind in kinds[: ledger.attempts]) <= 4
    assert ledger.spent_s <= 30


@pytest.mark.parametrize("retry_after_s", [None, 1])
def test_rate_limits_use_up_the_deadline_only(retry_after_s):
    ledger = Ledger(max_attempts=2, deadline_s=20)
    waits = 0
    while ledger.wait_after(failure("rate-limit", retry_after_s=retry_after_s), chance=0):
        waits += 1
        ledger.attempts += 1
    assert waits >= 5
    assert ledger.spent_s <= 20


def test_an_outage_uses_up_the_deadline_only_and_is_looked_after_often():
    ledger = Ledger(max_attempts=2, deadline_s=20)
    error = failure("connection")
    error.outage = True
    waits = []
    while (wait := ledger.wait_after(error, chance=0)) is not None:
        waits.append(wait)
        ledger.attempts += 1
    assert 19 <= sum(waits) <= 20
    assert max(waits) <= 2


def test_a_lasting_failure_and_a_stranger_end_it_at_once():
    ledger = Ledger(max_attempts=9, deadline_s=99)
    assert ledger.wait_after(failure(transient=False), chance=0) is None
    assert ledger.wait_after(ValueError(), chance=0) is None


def fail(breaker, *times, kind="connection", gave_up=False):
    for now in times:
        error = AttemptError("m", kind=kind, transient=True)
        breaker = breaker.after_failure(now, error, gave_up=gave_up)
    return breaker


def test_failures_of_one_moment_do_not_trip():
    assert fail(Breaker(), *[1.0] * 64).trip is None


def test_lasting_failures_trip_a_provider_that_never_answered():
    breaker = fail(Breaker(), *[n / 3 for n in range(10)])
    assert breaker.trip is not None
    assert breaker.trip.kind == "connection"


def test_a_provider_that_answered_gets_more_patience():
    warm = Breaker().after_success()
    assert fail(warm, *range(100)).trip is None
    assert fail(warm, *range(130)).trip is not None


def test_a_server_that_only_refuses_is_given_up_after_the_deadline():
    breaker = Breaker(patience_s=30)
    assert fail(breaker, 0, 29, kind="rate-limit").trip is None
    trip = fail(breaker, 0, 29, 31, kind="rate-limit").trip
    assert trip is not None
    assert trip.kind == "rate-limit"
    answered = fail(breaker, 0, 29, kind="rate-limit").after_success()
    assert fail(answered, 31, 60, kind="rate-limit").trip is None


@pytest.mark.parametrize("status", [None, 502, 503, 504])
def test_an_outage_is_many_failures_of_a_server_that_answered(status):
    kind = "server" if status else "connection"
    error = AttemptError("", kind=kind, status=status, transient=True)

    def after(breaker, count):
        for _ in range(count):
            breaker = breaker.after_failure(0, error, gave_up=False)
        return breaker

    assert not after(Breaker(), 20).outage
    assert not after(Breaker().after_success(), 7).outage
    assert after(Breaker().after_success(), 8).outage


def test_a_refused_key_trips_at_once_and_an_answer_mends():
    breaker = fail(Breaker(), 0.0, kind="authentication")
    assert breaker.trip is not None
    assert breaker.after_success().trip is None


def test_three_requests_given_up_without_any_answer_trip():
    assert fail(Breaker(), 1, 2, kind="server", gave_up=True).trip is None
    assert fail(Breaker(), 1, 2, 3, kind="server", gave_up=True).trip is not None
    assert fail(Breaker().after_success(), 1, 2, 3, kind="server", gave_up=True).trip is None
    assert fail(Breaker(), 1, 2, 3, kind="malformed", gave_up=True).trip is None


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1.9)), max_size=50))
def test_two_seconds_of_anything_do_not_trip(events):
    breaker = Breaker()
    for answered, now in sorted(events, key=lambda event: event[1]):
        breaker = breaker.after_success() if answered else fail(breaker, now)
    assert breaker.trip is None


PRICES = {
    "gpt-9": PriceSettings(input_per_million=2, output_per_million=8),
    "gpt-9-mini": PriceSettings(
        input_per_million=1, output_per_million=4, cached_input_per_million=0.1
    ),
}


@pytest.mark.parametrize(
    ("model", "reported", "found"),
    [
        ("gpt-9", None, "gpt-9"),
        ("gpt-9-2031-02-03", None, "gpt-9"),
        ("gpt-9-mini-20310203", None, "gpt-9-mini"),
        ("alias", "gpt-9-mini", "gpt-9-mini"),
        ("alias", "gpt-9-2031-02-03", "gpt-9"),
        ("alias", None, None),
        ("gpt-9-max", "gpt-9-max", None),
    ],
)
def test_a_price_is_found_by_name_without_its_date(model, reported, found):
    assert price_of(PRICES, model, reported_model=reported) == (PRICES[found] if found else None)


def test_cached_input_costs_its_own_price_or_that_of_input():
    usage = Usage(input_tokens=1000, output_tokens=10, cached_input_tokens=400)
    assert cost_of(usage, PRICES["gpt-9"]) == pytest.approx(2000e-6 + 80e-6)
    assert cost_of(usage, PRICES["gpt-9-mini"]) == pytest.approx(600e-6 + 40e-6 + 40e-6)
    assert cost_of(usage, None) is None


def test_cached_input_is_part_of_the_input_and_may_be_free():
    price = PriceSettings(input_per_million=2, output_per_million=8, cached_input_per_million=0)
    assert cost_of(Usage(input_tokens=10, cached_input_tokens=10), price) == 0
    # Some servers count more cached tokens than input.
    assert cost_of(Usage(input_tokens=10, cached_input_tokens=30), PRICES["gpt-9"]) == 20e-6
    assert cost_of(Usage(), PRICES["gpt-9"]) == 0
    # A billionth of a dollar is the least.
    tiny = PriceSettings(input_per_million=0.00123456, output_per_million=0)
    assert cost_of(Usage(input_tokens=1), tiny) == 1e-9
    assert cost_of(Usage(input_tokens=10), tiny) == 12e-9


@given(
    tokens=st.integers(0, 10**9),
    output=st.integers(0, 10**9),
    share=st.floats(0, 1),
    price=st.builds(
        PriceSettings,
        input_per_million=st.floats(0, 100),
        output_per_million=st.floats(0, 100),
        cached_input_per_million=st.none() | st.floats(0, 100),
    ),
)
def test_a_cost_is_that_of_its_tokens_apart(tokens, output, share, price):
    hits = int(share * tokens)
    parts = [
        cost_of(Usage(input_tokens=tokens - hits), price),
        cost_of(Usage(input_tokens=hits, cached_input_tokens=hits), price),
        cost_of(Usage(output_tokens=output), price),
    ]
    usage = Usage(input_tokens=tokens, output_tokens=output, cached_input_tokens=hits)
    assert cost_of(usage, price) == pytest.approx(sum(parts), abs=5e-9)
    assert parts[2] == pytest.approx(output * price.output_per_million / 1e6, abs=1e-9)


def test_a_price_for_short_inputs_holds_up_to_its_longest_input():
    price = ListPrice(input_per_million=1, output_per_million=1, input_tokens_max=200)
    assert cost_of(Usage(input_tokens=200), price) == 200e-6
    assert cost_of(Usage(input_tokens=201), price) is None


@pytest.mark.parametrize(
    ("cost", "url", "share", "batch_cost"),
    [
        (2.0, "https://api.openai.com/v1", None, 1.0),
        (2.0, "https://api.anthropic.com/v1", None, 1.0),
        (2.0, "https://me.openai.azure.com/openai/v1", None, 1.0),
        (2.0, "https://me.services.ai.azure.com:443/models", None, 1.0),
        (2.0, "https://api.openai.com", 0.25, 0.5),
        (2.0, "https://api.openai.com.evil.example/v1", None, None),
        (2.0, "http://127.0.0.1:8000/v1", None, None),
        (2.0, "http://127.0.0.1:8000/v1", 1.0, 2.0),
        (2.0, "http://127.0.0.1:8000/v1", 0.0, 0.0),
        (0.0, "http://127.0.0.1:8000/v1", None, 0.0),
        (None, "https://api.openai.com/v1", 0.5, None),
    ],
)
def test_calls_in_a_batch_cost_the_share_of_the_settings_or_of_the_vendor(
    cost, url, share, batch_cost
):
    assert batch_cost_of(cost, url=url, share=share) == batch_cost


def request(text="x" * 401, **parameters):
    message = Message(role="user", content=text)
    return CompletionRequest(
        model="gpt-9", provider="p", messages=(message,), parameters=parameters
    )


def test_an_estimate_counts_four_characters_per_token_and_a_thousand_tokens_per_file():
    assert approximate_tokens(request()) == 101
    assert [approximate_tokens(request("x" * length)) for length in (0, 1, 4, 5)] == [0, 1, 1, 2]
    files = (Attachment(kind="image", path="a.png", sha256="0" * 64),) * 2
    message = Message(role="user", content="see", attachments=files)
    assert approximate_tokens(replace(request(), messages=(message, message))) == 2 + 4_000
