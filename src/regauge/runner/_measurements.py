"""Where measurements of judges are looked for and kept."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.digests import digest_of
from regauge.recordings import MeasurementsFile, map_texts
from regauge.runner._opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping
    from pathlib import Path

    from regauge.datasets import GoldenCase
    from regauge.judges import MemoisedJudge
    from regauge.project import Project, RecordMode
    from regauge.providers import Completion
    from regauge.recordings import MeasurementLine

__all__ = ["Measurements", "measurement_key"]


class Measurements:
    """The measurements a run may use, one file per prompt; for several threads.

    Args:
        project: Whose recordings.
        mode: `none` only reads; `all` finds only what this run measured.
        redact: Takes secrets out of a text.
        unpublished: Trials whose measurements `finish` does not write.
    """

    def __init__(
        self,
        project: Project,
        mode: RecordMode,
        *,
        redact: Callable[[str], str],
        unpublished: Container[int] = (),
    ) -> None:
        self._directory = project.recordings_dir / "verdicts"
        self._mode = mode
        self._redact = redact
        self._unpublished = unpublished
        self._files = Opened(lambda name: MeasurementsFile(self._directory / f"{name}.jsonl"))
        self._fresh: set[str] = set()
        self._lock = threading.Lock()

    def file(self, prompt: str) -> MeasurementsFile:
        """The committed measurements of answers to a prompt.

        Raises:
            RecordingError: Lines of it cannot be read.
        """
        return self._files.file(prompt)

    def find(self, prompt: str, key: str, *, anew: bool) -> MeasurementLine | None:
        """What was measured, or None.

        Args:
            prompt: Whose answer.
            key: See `measurement_key`.
            anew: Whether only what this run measured counts.
        """
        if (anew or self._mode == "all") and key not in self._fresh:
            return None
        return self.file(prompt).get(key)

    def keep(self, prompt: str, line: MeasurementLine) -> MeasurementLine:
        """Keep a measurement for `finish` to write.

        Returns:
            The line as a replay will find it, that is without secrets.

        Raises:
            ValueError: The measurement holds what JSON has no word for.
        """
        clean = map_texts(line.measurement, self._redact)
        told = replace(line, measurement=clean)
        kept = replace(told, measurement=json.loads(told.encode())["measurement"])
        with self._lock:
            self._fresh.add(line.key)
        self.file(prompt).put(kept, replace=True)
        return kept

    def finish(self) -> Mapping[Path, int]:
        """Write new measurements; returns how many lines of each file changed.

        Raises:
            RecordingError: A file cannot be written.
        """
        if self._mode == "none":
            return {}
        for file in self._files if self._unpublished else ():
            file.prune({x.key for x in file.unused(()) if x.trial not in self._unpublished})
        return {file.path: changed for file in self._files if (changed := file.save())}


def measurement_key(
    judge: MemoisedJudge, completion: Completion, case: GoldenCase, *, trial: int
) -> str:
    """What a measurement is found by: judge, case, what was answered, and which draw it was.

    How fast and at what price the answer came does not count.
    """
    return digest_of(
        {
            "judge": judge.measurement_digest,
            "case": case.digest,
            "text": completion.text,
            "refusal": completion.refusal,
            "finish_reason": completion.finish_reason,
            "tool_calls": [[call.name, call.arguments] for call in completion.tool_calls],
            "trial": trial,
        }
    )
