"""General operations knowledge, by the kind of thing that is in trouble: never by alert."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from regauge.sim.text import stems

if TYPE_CHECKING:
    from regauge.sim.document._alert_facts import AlertFacts

__all__ = ["Resource", "resources_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What to look at and what to do for one kind of thing.

    Attributes:
        words: The words, comma by comma, that name it in an alert.
        consequence: What its trouble means for users; ends in a full stop.
        commands: How to look at it; `{label}` stands for a label of the alert.
        causes: Usual reasons, as short phrases.
        remedies: What usually helps, as imperatives.
    """

    words: str
    consequence: str
    commands: tuple[str, ...]
    causes: tuple[str, ...]
    remedies: tuple[str, ...]


_NAMED_SCORE: Final = 1.0
_LABEL_SCORE: Final = 0.4


@lru_cache(maxsize=1)
def _known() -> tuple[Resource, ...]:
    """All kinds; the last is the general one, which names nothing."""
    import yaml

    text = resources.files("regauge.sim.document").joinpath("_resources.yml").read_text("utf-8")
    kinds: list[dict[str, Any]] = yaml.safe_load(text)
    return tuple(
        Resource(
            words=kind["words"],
            consequence=kind["consequence"],
            commands=tuple(kind["commands"]),
            causes=tuple(kind["causes"]),
            remedies=tuple(kind["remedies"]),
        )
        for kind in kinds
    )


@lru_cache(maxsize=1)
def _known_words() -> tuple[frozenset[str], ...]:
    return tuple(frozenset(stems(kind.words.replace(",", " "))) for kind in _known()[:-1])


def resources_of(facts: AlertFacts) -> tuple[Resource, ...]:
    """The kinds of thing that an alert is about, the most likely first; never empty."""
    weights: dict[str, float] = {}
    for text, weight in (
        (facts.subject, 3.0),
        (facts.summary, 1.5),
        (facts.description, 0.6),
        (" ".join(facts.metrics), 0.6),
        (" ".join(facts.labels), 0.4),
    ):
        for word in stems(text):
            weights[word] = max(weights.get(word, 0.0), weight)
    scored = sorted(
        (-sum(weights.get(word, 0.0) for word in words), index)
        for index, words in enumerate(_known_words())
    )
    # A word of the name or the summary names the thing; else a label of the alert has to do.
    floor = _NAMED_SCORE if -scored[0][0] > _NAMED_SCORE else _LABEL_SCORE
    known = _known()
    return (*(known[index] for score, index in scored[:2] if -score >= floor), known[-1])
