"""Headers that state limits: the documented forms of providers, hostile ones, and their use."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from regauge.providers._failure import retry_after_s
from regauge.providers._rate import Pace, Quota, quotas_in

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
    pace = Pace(sent=95).after_quotas((quota,), in_flight=in_flight, now=0.0)
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
    pace = Pace(sent=sent).after_quotas(quotas, in_flight=in_flight, now=100.0)
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
    assert talk.provider.calls.answered == 60
    assert talk.provider.calls.failures["rate-limit"] <= 15
