"""Which recordings no eval asks for any more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.errors import RegaugeError
from regauge.providers import parse_model_id
from regauge.runner._plan import Draw
from regauge.runner._trial import SourcedCompletion

if TYPE_CHECKING:
    from collections.abc import Collection

    from regauge.recordings import RecordingKey, RecordingsFile
    from regauge.runner._plan import PlannedCase

__all__ = ["needed_keys", "recorded_draws"]


def needed_keys(file: RecordingsFile, cases: Collection[PlannedCase]) -> set[RecordingKey]:
    """The recordings of a file that some eval can replay.

    A recording of any trial is needed while its request is one that an eval makes, with the
    model that the recording names: answers of `--trials 5` and of `--model` stay.

    Args:
        file: The recordings of one prompt.
        cases: The planned cases of the evals of that prompt.
    """
    models = {recording.model for recording in file}
    digests = {
        digest for planned in cases for model in models if (digest := _digest(planned, model))
    }
    # What a case that cannot be rendered just now will ask for is not known.
    unclear = {planned.case.id for planned in cases if planned.error is not None}
    return {
        recording.key
        for recording in file
        if recording.key.digest in digests or recording.case in unclear
    }


def recorded_draws(
    file: RecordingsFile, cases: Collection[PlannedCase]
) -> list[tuple[Draw, SourcedCompletion]]:
    """Every recorded answer that a planned case can have, with the draw it is of."""
    models = {recording.model for recording in file}
    asked: dict[str, list[PlannedCase]] = {}
    for planned in cases:
        for model in models:
            if digest := _digest(planned, model):
                asked.setdefault(digest, []).append(planned)
    return [
        (
            Draw(planned, recording.key.trial),
            SourcedCompletion(completion=recording.completion, source="recording"),
        )
        for recording in file
        for planned in asked.get(recording.key.digest, ())
    ]


def _digest(planned: PlannedCase, model: str) -> str | None:
    if planned.error is not None:
        return None
    try:
        asked = parse_model_id(model)
        request = planned.request(0)
    except RegaugeError:
        return None
    return replace(request, provider=asked.provider, model=asked.model).digest
