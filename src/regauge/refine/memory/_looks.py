"""How often the held-out cases decided about revisions of a prompt, over all runs.

Every look lets a little of the holdout into what is kept, even if nobody reads it; a holdout that
has decided too often tells no longer whether an edit generalises.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from regauge.atomic import write_whole
from regauge.digests import digest_of
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.project import Project

__all__ = ["LookLedger"]

_KEPT = 50


class LookLedger:
    """The looks at a prompt's holdout, over all runs.

    Args:
        project: Whose state directory keeps it.
        prompt: The prompt.
        holdout: The ids of the held-out cases; other cases are another holdout, with looks of
            its own.
    """

    def __init__(self, project: Project, prompt: str, holdout: Iterable[str]) -> None:
        self._project = project
        self._path = project.state_dir / "refine" / f"{prompt}.looks.json"
        self._key = digest_of(sorted(holdout))
        self._known: frozenset[str] = frozenset()

    def read(self) -> frozenset[str]:
        """The looks so far; none where the ledger cannot be read."""
        self._known = frozenset(self._all().get(self._key, ()))
        return self._known

    def add(self, looks: frozenset[str]) -> None:
        """Write down further looks; saying one twice changes nothing."""
        if looks <= self._known:
            return
        self._known |= looks
        ledger = self._all()
        ledger[self._key] = sorted({*ledger.pop(self._key, ()), *looks})
        kept = dict([*ledger.items()][-_KEPT:])
        self._project.prepare_state_dir("refine")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, (json.dumps(kept, indent=1) + "\n").encode())

    def _all(self) -> dict[str, list[str]]:
        try:
            found: Any = read_json(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(found, dict):
            return {}
        holdouts = cast("dict[str, Any]", found)
        return {
            key: [str(look) for look in cast("list[object]", looks)]
            for key, looks in holdouts.items()
            if isinstance(looks, list)
        }
