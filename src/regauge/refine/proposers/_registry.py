"""Proposers by name: those of regauge, and those other packages register."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from regauge.errors import UsageError
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.refine.proposers._problem import Proposer, ProposerContext

__all__ = ["ENTRY_POINTS", "MakesProposer", "load_proposers", "proposer_names"]

ENTRY_POINTS = "regauge.proposers"
"""The entry point group in which other packages register what makes a proposer."""


MakesProposer: TypeAlias = "Callable[[ProposerContext], Proposer]"


def proposer_names() -> tuple[str, ...]:
    """All that can be asked for."""
    return (*_own(), *sorted(set(_registered()) - set(_own())))


def load_proposers(names: Sequence[str], context: ProposerContext) -> Mapping[str, Proposer]:
    """Proposers by name, in the given order.

    Raises:
        UsageError: There is none of a name, or it cannot be loaded.
    """
    found: dict[str, Proposer] = {}
    for name in names:
        own = _own().get(name)
        found[name] = own(context) if own is not None else _loaded(name)(context)
    return found


def _own() -> Mapping[str, MakesProposer]:
    from regauge.refine.proposers._asking import ModelForm
    from regauge.refine.proposers._examples import ExampleProposer
    from regauge.refine.proposers._gepa import gepa_proposer
    from regauge.refine.proposers._model import ModelProposer
    from regauge.refine.proposers._rules import RuleProposer

    return {
        "rules": lambda _: RuleProposer(),
        "model": lambda context: ModelProposer(
            model=context.model,
            seed=context.seed,
            verify=context.verify,
            form=ModelForm(
                temperature=context.temperature,
                max_tokens=context.max_tokens,
                context_tokens=context.context_tokens,
            ),
        ),
        "examples": lambda _: ExampleProposer(),
        "gepa": gepa_proposer,
    }


def _registered() -> Mapping[str, object]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _loaded(name: str) -> MakesProposer:
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS):
        if point.name == name:
            try:
                made: MakesProposer = point.load()
            except (ImportError, AttributeError) as error:
                raise UsageError(
                    f"proposer {name!r} ({point.value}) cannot be loaded: {error}"
                ) from error
            return made
    names = proposer_names()
    hint = did_you_mean(name, names) or f"there are {', '.join(names)}"
    raise UsageError(f"no proposer {name!r}; {hint}")
