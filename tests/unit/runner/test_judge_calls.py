"""What the calls of judgements add up to."""

from __future__ import annotations

from hypothesis import given, strategies as st

from regauge.providers import Completion, Usage
from regauge.runner import CallTotals, SourcedCompletion

COSTS = st.none() | st.floats(0, 10, allow_nan=False)


@st.composite
def replies(draw: st.DrawFn) -> SourcedCompletion:
    return SourcedCompletion(
        completion=Completion(
            text="x",
            finish_reason="stop",
            usage=Usage(
                input_tokens=draw(st.integers(0, 999)), output_tokens=draw(st.integers(0, 999))
            ),
            model="m",
            provider="p",
            latency_s=draw(st.floats(0, 10)),
            cost_usd=draw(COSTS),
            attempts=draw(st.integers(1, 6)),
        ),
        source=draw(st.sampled_from(["recording", "store", "live"])),
    )


@given(st.lists(replies(), max_size=8))
def test_totals_are_sums_and_what_is_not_priced_is_not_known(given: list[SourcedCompletion]):
    totals = CallTotals()
    for reply in given:
        totals = totals.plus(reply.completion, live=reply.source == "live")
    live = [reply for reply in given if reply.source == "live"]
    assert totals.calls == len(given)
    assert totals.live == len(live)
    assert totals.retries == sum(reply.completion.attempts - 1 for reply in live)
    assert totals.input_tokens == sum(reply.completion.usage.input_tokens for reply in given)
    for amount, of in ((totals.cost_usd, given), (totals.spent_usd, live)):
        costs = [reply.completion.cost_usd for reply in of]
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            assert amount is None
        else:
            assert amount is not None
            assert abs(amount - sum(known)) < 1e-6


@given(st.lists(replies(), max_size=4))
def test_a_replay_finds_the_totals_less_what_the_run_paid(given: list[SourcedCompletion]):
    totals = CallTotals()
    for reply in given:
        totals = totals.plus(reply.completion, live=reply.source == "live")
    found = CallTotals.from_json(totals.to_json())
    assert (found.calls, found.cost_usd, found.latency_s) == (
        totals.calls,
        totals.cost_usd,
        totals.latency_s,
    )
    assert (found.live, found.retries, found.spent_usd) == (0, 0, 0.0)


def test_totals_that_make_no_sense_count_as_nothing():
    assert CallTotals.from_json({"calls": "many"}) == CallTotals()
    assert CallTotals.from_json({"latency_s": "long"}).latency_s is None
    assert CallTotals.from_json({"cost_usd": None}).cost_usd is None
