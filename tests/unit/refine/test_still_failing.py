"""Which open failures a revision leaves: by independent trials of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from regauge.gate import Count
from regauge.refine._policy import AcceptancePolicy
from regauge.refine.analysis import FailureMode
from regauge.refine.delivery import _still_failing


def modes_left(counts: dict[str, tuple[int, int]], *edited: str) -> list[FailureMode]:
    """The modes that are left of one of check `a`, with edits for some checks."""
    fresh = {case: Count(passed=passed, trials=trials) for case, (passed, trials) in counts.items()}
    state: Any = SimpleNamespace(
        test=AcceptancePolicy(),
        text=SimpleNamespace(digest="d"),
        open_modes=(FailureMode(check="a", cases=tuple(counts), failures=9, trials=9),),
        fresh=SimpleNamespace(count=lambda _text, case, _check: fresh[case]),
        accepted=[SimpleNamespace(mode=FailureMode(check=check)) for check in edited],
    )
    return _still_failing(state)


@pytest.mark.parametrize(
    ("counts", "edited", "is_left"),
    [
        ({"x": (20, 20), "y": (20, 20)}, (), False),
        ({"x": (19, 20), "y": (20, 20)}, (), True),
        ({"x": (19, 20), "y": (20, 20)}, ("b",), True),
        ({"x": (19, 20), "y": (20, 20)}, ("a",), False),
        ({"x": (19, 20), "y": (20, 20)}, ("a", "b"), False),
        ({"x": (10, 20), "y": (20, 20)}, ("a", "b"), True),
    ],
)
def test_failures_at_chance_do_not_stay_under_an_edit_of_their_check(
    counts: dict[str, tuple[int, int]], edited: tuple[str, ...], *, is_left: bool
):
    left = modes_left(counts, *edited)
    assert bool(left) is is_left
    for mode in left:
        failed = 20 - counts["x"][0]
        assert (mode.failing, mode.failures, mode.trials) == (("x",), failed, 40)


def test_a_mode_without_independent_trials_stays_as_it_is():
    (mode,) = modes_left({"x": (0, 0)}, "a")
    assert (mode.failures, mode.trials) == (9, 9)
