"""The anchor of a base version: what its baseline keeps of an old version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.gate.baselines import (
    Anchor,
    AnchorComparison,
    accepted_since,
    anchor_version,
    compare_histories,
    key_of,
    stored_anchor,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.gate.base._commit import BaseCommit
    from regauge.gate.baselines import Baseline, StoredHistory
    from regauge.prompts import Prompt, PromptLock
    from regauge.runner import Suite

__all__ = ["BaseAnchor", "anchor_of_base"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseAnchor:
    """An old version that the candidate is also compared with.

    Attributes:
        version: The anchor's.
        anchor: Its trials; None where the baseline keeps none that can be compared.
        base: The base's own record next to it; None where nothing can be compared.
        accepted: Cases that changelogs accept since the anchor.
    """

    version: str
    anchor: Anchor | None
    base: AnchorComparison | None
    accepted: frozenset[str]


def anchor_of_base(
    candidate: Suite,
    main: Suite,
    prompt: Prompt,
    at: BaseCommit,
    lock: PromptLock,
    *,
    known: Sequence[Baseline],
    history: StoredHistory | None,
) -> BaseAnchor | None:
    """The anchor; None where the base's settings name none, or it is the base version itself.

    Args:
        candidate: The eval as it is.
        main: The same with the base's prompt.
        prompt: The base's prompt under the name it has there.
        lock: Of the base.
        known: Baselines of the prompt, the newest first.
        history: The base's own.
    """
    released = [entry.version for entry in lock.of(prompt.name)]
    version = anchor_version(at.newest.settings.gate.anchor, released, current=prompt.version)
    if version is None:
        return None
    anchor = stored_anchor(known, str(version), key_of(main))
    accepted = accepted_since(candidate.prompt, str(version))
    base = None
    if anchor is not None and history is not None:
        base = compare_histories(anchor, history, accepted=accepted)
    return BaseAnchor(version=str(version), anchor=anchor, base=base, accepted=accepted)
