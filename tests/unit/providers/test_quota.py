"""Headers that state limits: the documented forms of providers, hostile ones, and their use."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from regauge.providers._failure import retry_after_s
from regauge.providers._rate import Pace, Quota, quotas_in, seconds_in

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
SPELLINGS = {
    "openai": "x-ratelimit-{}-requests",
    "anthropic": "anthropic-ratelimit-requests-{}",
    "plain": "x-ratelimit-{}",
    "draft": "ratelimit-{}",
}


def stated(spelling, reset, *, limit="60", remaining="0"):
    values = {"limit": limit, "remaining": remaining, "reset": reset}
    return {SPELLINGS[spelling].format(name): value for name, value in values.items()}


@pytest.mark.parametrize(
    ("spelling", "reset", "seconds"),
    [
        ("openai", "1s", 1.0),
        ("openai", "6m0s", 360.0),
        ("openai", "20ms", 0.02),
        ("openai", "1m30.5s", 90.5),
        ("openai", "1h2m3s", 3723.0),
        ("anthropic", "2026-11-22T12:00:30Z", 30.0),
        ("anthropic", "2026-11-22T13:00:30+01:00", 30.0),
        ("plain", "60", 60.0),
        ("plain", str(int(NOW.timestamp()) + 45), 45.0),
        ("draft", "12", 12.0),
    ],
)
def test_documented_resets_are_read(spelling, reset, seconds):
    (quota,) = quotas_in(stated(spelling, reset), now=NOW)
    assert quota == Quota(tokens=False, limit=60, remaining=0, reset_s=pytest.approx(seconds))


def test_openai_states_requests_and_tokens():
    headers = stated("openai", "1s") | {
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    requests, tokens = quotas_in(headers, now=NOW)
    assert (requests.tokens, tokens.tokens) == (False, True)
    assert tokens.rate == pytest.approx(16 / 360)


def test_azure_and_github_models_state_a_period():
    headers = {
        "x-ratelimit-limit-requests": "1000",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-renewalperiod-requests": "60",
    }
    (quota,) = quotas_in(headers, now=NOW)
    assert quota.rate == pytest.approx(1000 / 60)
    assert retry_after_s({"x-ratelimit-timeremaining": "55"}) == 55


@pytest.mark.parametrize(
    "changes",
    [
        {"reset": "soon"},
        {"reset": "-5"},
        {"reset": "nan"},
        {"reset": "2026-11-21T12:00:00Z"},
        {"reset": "9" * 400},
        {"reset": "1s", "limit": "many"},
        {"reset": "1s", "limit": "inf"},
        {"reset": "1s", "remaining": "61"},
        {"reset": "1s", "remaining": "-1"},
    ],
)
def test_what_cannot_be_read_is_left_out(changes):
    assert quotas_in(stated("openai", **changes), now=NOW) == ()


hostile = st.one_of(
    st.text(max_size=40),
    st.text("0123456789.smhd+-:TZe_ ", max_size=40),
    st.floats().map(str),
    st.integers().map(str),
    st.datetimes().map(str),
)


@pytest.mark.parametrize(
    ("tokens", "limit", "remaining", "in_flight", "rate"),
    [
        (False, 1000, 64, 64, 936 / 60),  # all in flight would use it up
        (False, 1000, 65, 64, math.inf),
        (False, 100, 10, 64, 90 / 60),  # a tenth of a small limit, however many are in flight
        (False, 100, 11, 64, math.inf),
        (True, 100_000, 5_000, 5, 95),  # 95,000 tokens in 95 requests: 1,000 for each
        (True, 100_000, 5_001, 5, math.inf),
    ],
)
def test_a_limit_is_paced_where_requests_in_flight_may_use_up_the_rest(
    tokens, limit, remaining, in_flight, rate
):
    quota = Quota(tokens=tokens, limit=limit, remaining=remaining, reset_s=60)
    each = (limit - remaining) / 95 if tokens else 1
    pace = Pace(request_count=95).after_quotas((quota,), in_flight=in_flight, now=0.0)
    paced = quota.rate / each if rate < math.inf else math.inf
    assert pace.rate == pytest.approx(paced)


@given(
    st.sampled_from(sorted(SPELLINGS)),
    hostile,
    hostile,
    hostile,
    st.integers(0, 10**6),
    st.integers(1, 64),
)
def test_hostile_headers_neither_crash_nor_stop_a_run(  # noqa: PLR0917 - as drawn
    spelling, limit, remaining, reset, sent, in_flight
):
    quotas = quotas_in(stated(spelling, reset, limit=limit, remaining=remaining), now=NOW)
    for quota in quotas:
        assert 0 <= quota.remaining <= quota.limit < math.inf
        assert quota.rate >= 0
    pace = Pace(request_count=sent).after_quotas(quotas, in_flight=in_flight, now=100.0)
    assert pace.rate >= 1 / 12 - 1e-9
    assert pace.next_at <= 112 + 1e-6
    wait_s = retry_after_s({"retry-after": reset, "retry-after-ms": limit})
    assert wait_s is None or 0 <= wait_s <= 3600


@pytest.mark.parametrize("length", [10_000, 1_000_000])
def test_long_headers_are_read_at_once(length):
    quotas_in(stated("openai", "1" * length))
    quotas_in(stated("openai", "1s" * (length // 2) + "x"))


def test_a_stated_limit_is_paced_before_the_first_429(kit):
    left, at = 10.0, time.perf_counter()

    def script(*_):
        nonlocal left, at
        now = time.perf_counter()
        left, at = min(10.0, left + (now - at) * 20), now
        granted = left >= 1
        left -= granted
        headers = {
            "x-ratelimit-limit-requests": "10",
            "x-ratelimit-remaining-requests": str(int(left)),
            "x-ratelimit-reset-requests": f"{(10 - left) / 20:.3f}s",
        }
        return kit.Reply(status=200 if granted else 429, headers=headers)

    talk = kit.talk(script, *[kit.ask(trial=n) for n in range(60)], concurrency=4)
    assert talk.provider.calls.completed == 60
    assert talk.provider.calls.failures["rate-limit"] <= 15


def requests_left(remaining, *, limit=100.0, reset_s=10.0, tokens=False):
    return Quota(tokens=tokens, limit=limit, remaining=remaining, reset_s=reset_s)


@pytest.mark.parametrize(
    ("quota", "sent", "in_flight", "rate"),
    [
        # As scarce as the requests in flight, but never scarcer than a tenth of the limit.
        (requests_left(4), 50, 4, 9.6),
        (requests_left(5), 50, 4, math.inf),
        (requests_left(10), 50, 64, 9.0),
        (requests_left(11), 50, 64, math.inf),
        (requests_left(1, limit=5), 50, 64, 0.4),
        (requests_left(2, limit=5), 50, 64, math.inf),
        (requests_left(0, reset_s=120), 50, 4, 100 / 120),
        (requests_left(0, reset_s=121), 50, 4, math.inf),
        (requests_left(0, reset_s=0), 50, 4, math.inf),
        (requests_left(0, limit=0), 50, 4, math.inf),
        # 9,000 tokens in 90 requests: 100 for each.
        (requests_left(1000, limit=10_000, tokens=True), 90, 10, 9.0),
        (requests_left(1001, limit=10_000, tokens=True), 90, 10, math.inf),
        (requests_left(1000, limit=10_000, tokens=True), 90, 64, 9.0),
        (requests_left(1001, limit=10_000, tokens=True), 90, 64, math.inf),
        (requests_left(300, limit=10_000, tokens=True), 97, 3, 9.7),
        (requests_left(0, limit=50, tokens=True), 500, 3, 5.0),
        (requests_left(0, limit=50, tokens=True), 0, 3, 0.1),
    ],
)
def test_a_limit_paces_requests_where_it_is_scarce(quota, sent, in_flight, rate):
    pace = Pace(request_count=sent).after_quotas((quota,), in_flight=in_flight, now=100.0)
    assert pace.rate == pytest.approx(rate)
    if rate < math.inf:
        assert pace.next_at == 100.0
        assert (pace.is_measured, pace.changed_number, pace.changed_at, pace.best_rate) == (
            True,
            sent,
            100.0,
            0.0,
        )
        assert (pace.last_exhausted.number, pace.last_exhausted.sent_at, pace.refusal_count) == (
            sent,
            100.0,
            0,
        )


def test_the_lowest_of_several_limits_counts_and_a_slower_pace_stays():
    quotas = (requests_left(0), requests_left(0, reset_s=100), requests_left(0, reset_s=20))
    pace = Pace(request_count=9).after_quotas(quotas, in_flight=4, now=5.0)
    assert pace.rate == pytest.approx(1.0)
    assert pace.after_quotas(quotas, in_flight=4, now=9.0) is pace
    assert pace.after_quotas((requests_left(0),), in_flight=4, now=9.0) is pace


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("86400", 86400),
        ("86401", None),
        ("1d", 86400),
        ("1d1s", None),
        ("1.5h", 5400),
        ("90s", 90),
        ("1m 2s", None),
        ("999999999", None),
        (" 7 ", 7),
        (str(int(NOW.timestamp())), 0),
        (str(int(NOW.timestamp()) - 1), None),
        ("2026-11-22T12:00:05", 5),
        ("2026-11-23T12:00:00Z", 86400),
        ("2026-11-23T12:00:01Z", None),
    ],
)
def test_a_reset_is_read_up_to_a_day(text, seconds):
    assert seconds_in(text, NOW) == seconds


def test_a_rate_is_what_was_used_by_the_time_that_it_takes_to_refill():
    assert requests_left(60).rate == 4
    assert requests_left(100).rate == math.inf
    assert requests_left(0, reset_s=0).rate == math.inf
