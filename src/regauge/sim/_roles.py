"""Parts that the simulated model can play besides following a prompt on a document.

A role looks at a conversation and says whether it is meant; the first that answers wins. Roles
are tried in order, before the ordinary reading of the prompt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from regauge.sim.judging import judge
from regauge.sim.refining import refine

if TYPE_CHECKING:
    from regauge.providers import CompletionRequest
    from regauge.sim._rules import Dice

__all__ = ["ROLES", "Role", "play"]


class Role(Protocol):
    """One part, as a function."""

    def __call__(self, request: CompletionRequest, dice: Dice) -> str | None:
        """The answer, or None when the conversation is not meant for this role.

        Args:
            request: What is asked.
            dice: Chance; a role says itself what its document is.
        """
        ...


ROLES: Final[tuple[Role, ...]] = (refine, judge)


def play(request: CompletionRequest, dice: Dice) -> str | None:
    """What the first role that feels addressed says, or None."""
    for role in ROLES:
        text = role(request, dice)
        if text is not None:
            return text
    return None
