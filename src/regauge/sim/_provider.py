"""The embedded provider of the simulated model: no key, no network."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from regauge.errors import ProviderError
from regauge.sim._answer import answer
from regauge.sim._rules import CLERK_1, Rules

if TYPE_CHECKING:
    from regauge.providers import Completion, CompletionRequest

__all__ = ["SimulatedProvider"]


class SimulatedProvider:
    """Answers `sim:clerk-1` in this process; what it reports as latency is its own thinking."""

    def __init__(self, *, rules: Rules = CLERK_1) -> None:
        self._rules = rules

    async def complete(self, request: CompletionRequest) -> Completion:
        """Answer one request.

        Raises:
            ProviderError: The model has another name, or a parameter is out of range.
        """
        if request.model != self._rules.model:
            place = f" ({request.origin})" if request.origin else ""
            raise ProviderError(
                f"there is no simulated model {request.model!r}{place}\n  fix: write "
                f"sim:{self._rules.model}",
                kind="bad-request",
                status=404,
            )
        started = time.perf_counter()
        completion = answer(request, rules=self._rules)
        return dataclasses.replace(completion, latency_s=round(time.perf_counter() - started, 6))

    async def aclose(self) -> None:
        """Nothing to give back."""
