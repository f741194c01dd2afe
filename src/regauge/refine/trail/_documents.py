"""What a run was told, as plain documents and back: the audit trail is made of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from regauge.refine.edits import Edit, PromptText
from regauge.refine.evidence import CheckOutcome, Outcome
from regauge.refine.loop import (
    Critique,
    Critiqued,
    Interrupted,
    Looked,
    MoreCalls,
    Observation,
    Proposed,
    Spent,
    SuiteSaid,
    TrialsDone,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.digests import JSON

__all__ = [
    "observation_from_json",
    "observation_to_json",
    "text_to_json",
]


def observation_to_json(observation: Observation) -> dict[str, JSON]:
    """A document with the key `kind`, which `observation_from_json` reads."""
    kind = type(observation).__name__
    match observation:
        case Looked():
            told: dict[str, JSON] = {"proposer": observation.proposer, "fault": observation.fault}
        case TrialsDone():
            told = {"outcomes": [_outcome_json(o) for o in observation.outcomes]}
        case Critiqued():
            critique = observation.critique
            told = {
                "critique": None if critique is None else _plain(asdict(critique)),
                **({"refused": observation.refused} if observation.refused else {}),
            }
        case Proposed():
            told = {
                "edits": [edit.to_json() for edit in observation.edits],
                "refused": list(observation.refused),
                **({"unread": observation.unread} if observation.unread else {}),
            }
        case SuiteSaid():
            told = {
                "decision": observation.decision,
                "reasons": list(observation.reasons),
                "outcomes": [_outcome_json(o) for o in observation.outcomes],
                **({"short": True} if observation.short else {}),
            }
        case Interrupted():
            return {"kind": kind, "reason": observation.reason, "text": observation.text}
        case MoreCalls():
            return {"kind": kind, "calls": observation.calls}
    return {"kind": kind, **told, "spent": _plain(asdict(observation.spent))}


def observation_from_json(document: Mapping[str, Any]) -> Observation:
    """What `observation_to_json` wrote.

    Raises:
        ValueError: The document is none.
    """
    try:
        return _observation(document)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not something a run can be told: {error}") from error


def text_to_json(text: PromptText) -> list[JSON]:
    """The messages of a text."""
    return [{"role": message.role, "content": message.content} for message in text.messages]


def _observation(document: Mapping[str, Any]) -> Observation:
    kind = document["kind"]
    if kind in {"Interrupted", "MoreCalls"}:
        told = {name: value for name, value in document.items() if name != "kind"}
        return Interrupted(**told) if kind == "Interrupted" else MoreCalls(**told)
    spent = Spent(**document["spent"])
    if kind == "Looked":
        return Looked(proposer=document["proposer"], fault=document["fault"], spent=spent)
    match kind:
        case "TrialsDone":
            return TrialsDone(outcomes=_outcomes(document), spent=spent)
        case "Critiqued":
            said = document["critique"]
            critique = None
            if said is not None:
                critique = Critique(
                    kind=said["kind"],
                    hypothesis=said["hypothesis"],
                    quotes=tuple(said["quotes"]),
                    by=said["by"],
                )
            refused = str(document.get("refused", ""))
            return Critiqued(critique=critique, spent=spent, refused=refused)
        case "Proposed":
            return Proposed(
                edits=tuple(Edit.from_json(edit) for edit in document["edits"]),
                refused=tuple(document["refused"]),
                spent=spent,
                unread=int(document.get("unread", 0)),
            )
        case "SuiteSaid":
            return SuiteSaid(
                decision=document["decision"],
                reasons=tuple(document["reasons"]),
                outcomes=_outcomes(document),
                spent=spent,
                short=bool(document.get("short", False)),
            )
        case _:
            raise ValueError(f"a run cannot be told {kind!r}")


def _outcomes(document: Mapping[str, Any]) -> tuple[Outcome, ...]:
    return tuple(
        Outcome(
            text=given["text"],
            case=given["case"],
            trial=given["trial"],
            answer=given["answer"],
            checks=tuple(CheckOutcome(**said) for said in given["checks"]),
        )
        for given in document["outcomes"]
    )


def _outcome_json(outcome: Outcome) -> dict[str, JSON]:
    return cast("dict[str, JSON]", _plain(asdict(outcome)))


def _plain(value: Any) -> JSON:
    """Tuples as lists, so that a document read back equals the one written."""
    if isinstance(value, dict):
        return {key: _plain(held) for key, held in cast("dict[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(held) for held in cast("list[Any]", value)]
    return cast("JSON", value)
