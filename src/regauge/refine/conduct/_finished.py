"""What a run leaves behind: its result, its rationale, and the file it proposes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from regauge.atomic import write_whole
from regauge.refine.attempts import Tried
from regauge.refine.delivery import revised
from regauge.refine.edits import changed_places, changed_statements
from regauge.refine.report import markdown_of
from regauge.refine.result import diff_of, result_of
from regauge.refine.runs import seal
from regauge.refine.trail import read_trail

if TYPE_CHECKING:
    from regauge.digests import JSON
    from regauge.refine.loop import Setting, State
    from regauge.refine.runs import Run
    from regauge.refine.workbench import Subject

__all__ = ["write_down"]


def write_down(
    run: Run,
    subject: Subject,
    setting: Setting,
    state: State,
    *,
    date: str,
    memory_key: str,
    replayed: int,
) -> dict[str, JSON]:
    """Write down what came of a run.

    Args:
        run: Where everything is written.
        subject: The prompt it was about.
        setting: What it was about besides.
        state: Its last state.
        date: For the changelog, such as `2025-06-30`.
        memory_key: Of what findings depend on.
        replayed: How many of its calls the local store or recordings had.

    Returns:
        The result as a document.
    """
    stop = state.stop
    revision = None
    if stop is not None and stop.proposal:
        revision = revised(subject, state.text, state.accepted, date=date)
        write_whole(run.revision, revision.text.encode())
        if revision.lock:
            write_whole(run.directory / "prompts.lock", revision.lock.encode())
    events = read_trail(run.trail)
    result = result_of(
        run.id, subject, setting, state, events=events, revision=revision, replayed=replayed
    )
    if revision is not None:
        write_whole(run.diff, diff_of(result).encode())
        seal(run)
    write_whole(run.result, (json.dumps(result, indent=1) + "\n").encode())
    write_whole(run.markdown, markdown_of(result).encode())
    if revision is not None:
        edits = [entry.to_json() for entry in _accepted(setting, state)]
        document = {"key": memory_key, "edits": edits}
        write_whole(run.directory / "accepted.json", json.dumps(document).encode())
    return result


def _accepted(setting: Setting, state: State) -> list[Tried]:
    """What is remembered of the edits that are proposed, in their order."""
    texts = (setting.base, *(one.text for one in state.accepted))
    entries: list[Tried] = []
    for before, one in zip(texts, state.accepted, strict=False):
        added, removed = changed_statements(before, one.text)
        entries.append(
            Tried(
                before=before.shape,
                after=one.text.shape,
                cluster=one.cluster.key,
                added=added,
                removed=removed,
                places=changed_places(before, one.text),
                finding="accepted",
            )
        )
    return entries
