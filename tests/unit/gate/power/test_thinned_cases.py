"""Of very many cases, a share is simulated."""

from __future__ import annotations

from collections import Counter

from regauge.evidence import Count
from regauge.gate.power import _thin


def test_at_most_a_thousand_cases_are_simulated_in_the_shares_of_all():
    def cases(number: int) -> list[tuple[Count, str]]:
        prompts = ("a", "a", "a", "b")
        return [(Count(passed=n % 5, trials=4 + n % 2), prompts[n % 4]) for n in range(number)]

    assert _thin(cases(1000)) == cases(1000)
    thinned = _thin(cases(4001))
    assert len(thinned) == 1000
    shares = Counter(prompt for _, prompt in thinned)
    assert abs(shares["a"] - 750) <= 1
    assert set(thinned) == set(cases(4001))
