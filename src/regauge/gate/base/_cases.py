"""The cases of a suite for the engine: those of today, and those that are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import RegaugeError
from regauge.gate._types import GateCase
from regauge.gate.base._changes import case_state
from regauge.gate.base._refusal import proven_tier

if TYPE_CHECKING:
    from regauge.datasets import Dataset, GoldenCase
    from regauge.gate._types import CaseState, CaseTier
    from regauge.gate.base._changes import Acknowledged
    from regauge.gate.baselines import StoredHistory
    from regauge.runner import Suite

__all__ = ["gate_cases", "states_of"]


def states_of(suite: Suite, main: Suite | None, before: Dataset | None) -> dict[str, CaseState]:
    """What becomes of each case of today: by its id, whether what is asked or expected changed."""
    states: dict[str, CaseState] = {}
    for case in suite.dataset:
        asked = _request(suite, case)
        base = _request(main, case) if main is not None else None
        states[case.id] = case_state(case, before=before, request=asked or "", base_request=base)
    return states


def _request(suite: Suite, case: GoldenCase) -> str | None:
    """The digest of what is asked; None where the prompt cannot be rendered with the case."""
    try:
        return suite.request(case, 0).digest
    except RegaugeError:
        return None


def _tier_on_base(case: GoldenCase, before: Dataset | None) -> CaseTier:
    """The tier that a change is held to: a change cannot lower its own bar."""
    then = before.get(case.id) if before is not None else None
    return case.tier if then is None else then.tier


def gate_cases(
    suite: Suite,
    states: dict[str, CaseState],
    *,
    before: Dataset | None,
    said: Acknowledged,
    judges: tuple[str, ...],
    history: StoredHistory | None,
) -> list[GateCase]:
    """The cases of today in their order, then those that are gone.

    Args:
        before: The base version's golden cases, where they are others than today's.
        said: What the changelog acknowledges.
        judges: The names of the judges that decide.
        history: What is known of main.
    """
    name = suite.prompt.name
    found = [
        GateCase(
            prompt=name,
            case=case.id,
            checks=judges,
            history=history.history(case.id, case.digest)
            if history is not None and states[case.id] != "new"
            else None,
            state=states[case.id],
            tier=proven_tier(case, history, tier=_tier_on_base(case, before)),
            accepted=said.accepted.get(case.id, ""),
            broke_before=said.broke_before.get(case.id, 0),
        )
        for case in suite.dataset
    ]
    found += [
        GateCase(
            prompt=name,
            case=case.id,
            checks=judges,
            state="removed",
            tier=case.tier,
            accepted=said.removed.get(case.id, ""),
        )
        for case in before or ()
        if case.id not in suite.dataset
    ]
    return found
