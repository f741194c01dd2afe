"""What judges that ask a model share: who is asked, one digest, and no verdict outside a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from regauge.digests import digest_of
from regauge.judges._asking import outside_run

if TYPE_CHECKING:
    from regauge.criteria import Criterion
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._types import Verdict
    from regauge.providers import Completion, ModelId

__all__ = ["OneModelJudge", "RunOnlyJudge"]


@dataclass(frozen=True, kw_only=True)
class RunOnlyJudge(ABC):
    """A judge that only a run can ask, known by a digest over what it is made of.

    Attributes:
        name: What people read; labels and calibration are filed under it.
        at_least: The score from 0 to 1 that passes.
        criterion: What it is about; no part of the digest.
    """

    name: str
    at_least: float
    criterion: Criterion

    @abstractmethod
    def _made_of(self) -> dict[str, JSON]:
        """Everything that may change a verdict."""

    @property
    def digest(self) -> str:
        """Over everything that may change a verdict, worked out once."""
        return self._digest

    # A property of its own: to pyright a cached one is not what the protocol asks for.
    @cached_property
    def _digest(self) -> str:
        return digest_of(self._made_of())

    async def judge(self, completion: Completion, case: GoldenCase) -> Verdict:
        """Raise, for only a run knows how to ask."""
        del completion
        raise outside_run(self.name, case)


@dataclass(frozen=True, kw_only=True)
class OneModelJudge(RunOnlyJudge):
    """A judge that asks one model about an answer, or about a part of it.

    Attributes:
        asked: Who is asked.
        field: The part of a JSON answer that is judged; empty for all of it.
    """

    asked: ModelId
    field: str

    @property
    def models(self) -> tuple[str, ...]:
        """The one model that is asked."""
        return (str(self.asked),)
