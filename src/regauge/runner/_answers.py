"""Where answers are looked for and kept: committed recordings, then the local store."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.errors import RecordingError
from regauge.recordings import (
    LocalStore,
    Recording,
    RecordingKey,
    RecordingsFile,
    Redactor,
    utc_now,
)
from regauge.runner._opened import Opened
from regauge.runner._trial import SourcedCompletion

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from regauge.project import Project, RecordMode, Settings
    from regauge.providers import Completion
    from regauge.recordings import Claim
    from regauge.runner._plan import PlannedCase
    from regauge.runner._question import Question

__all__ = ["Answers", "Published"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a run wrote to the committed recordings.

    Attributes:
        written: Per file, how many of its lines are new or differ.
    """

    written: Mapping[Path, int] = field(default_factory=dict["Path", int])


class Answers:
    """The answers a run may use, in the order of look-up, and where it keeps new ones.

    Used by the thread that judges and by the one that draws.

    Args:
        project: Whose recordings and local store.
        mode: `none` only reads; `missing` keeps new answers; `all` finds only those of its own
            session, so that every answer is a fresh one.
        environ: Where the values of API keys are, so that none is ever written.
        run_owner: Who owns the run, when this process shares it with others.
        run_started: When the run began, as recordings write times.
    """

    def __init__(
        self,
        project: Project,
        mode: RecordMode,
        *,
        environ: Mapping[str, str],
        run_owner: str | None = None,
        run_started: str = "",
    ) -> None:
        self._project = project
        self._mode = mode
        self._redactor = Redactor(
            project.settings.redact, environ, names=_key_variables(project.settings)
        )
        self._run_owner = run_owner
        self._run_started = run_started
        self._files = Opened(
            lambda name: RecordingsFile.load(
                project.recordings_dir / f"{name}.jsonl", redactor=self._redactor
            )
        )
        self._store: LocalStore | RecordingError | None = None
        self._session: int | None = None
        self._new: dict[str, dict[RecordingKey, None]] = {}
        self._lock = threading.RLock()

    @property
    def session(self) -> int | None:
        """The store's session of this run; only in mode `all`."""
        return self._session

    def redact(self, text: str) -> str:
        """`text` without secrets."""
        return self._redactor.redact(text)

    def file(self, name: str) -> RecordingsFile:
        """The committed recordings of a prompt; of its judges' calls as `judges/<prompt>`.

        Raises:
            RecordingError: Lines of it cannot be read.
        """
        return self._files.file(name)

    def has(self, planned: PlannedCase, key: RecordingKey) -> bool:
        """Whether `find` would find an answer."""
        if self._mode != "all" and key in self.file(planned.suite.prompt.name):
            return True
        return (self._mode != "all" or self._session is not None) and (key in self._local())

    def committed(self, planned: PlannedCase) -> bool:
        """Whether `find` would find answers to all trials of a case in the recordings."""
        if planned.error is not None or self._mode == "all":
            return False
        file = self.file(planned.suite.prompt.name)
        return all(
            RecordingKey(planned.digest, trial) in file for trial in range(planned.suite.trials)
        )

    def has_older(self, planned: PlannedCase) -> bool:
        """Whether an answer to an older request of the case is recorded."""
        file = self.file(planned.suite.prompt.name)
        return file.cases_with_other_digest(
            planned.case.id, planned.digest, model=str(planned.suite.model)
        )

    def find(self, file: str, key: RecordingKey) -> SourcedCompletion | None:
        """The answer to one request and trial, or None.

        Args:
            file: The recordings it belongs to, as for `file`.
            key: The request and trial.
        """
        if self._mode != "all":
            recording = self.file(file).get(key)
            if recording is not None:
                return SourcedCompletion(completion=recording.completion, source="recording")
        if self._mode == "all" and self._session is None:
            return None
        recording = self._local().get(key)
        if recording is None:
            return None
        self._publish_later(file, key)
        # A worker judges what another one of its run has just paid for.
        ours = self._run_owner is not None and recording.recorded_at >= self._run_started
        return SourcedCompletion(
            completion=recording.completion, source="live" if ours else "store"
        )

    def recorded_at(self, file: str, key: RecordingKey) -> str | None:
        """When the answer that `find` would find was given, in UTC; None without one."""
        recording = self.file(file).get(key) if self._mode != "all" else None
        if recording is None and (self._mode != "all" or self._session is not None):
            recording = self._local().get(key)
        return recording.recorded_at if recording is not None else None

    def begin(self, plan_digest: str) -> None:
        """Begin to draw; in mode `all` this resumes a run of the same plan that was cut off."""
        if self._mode == "all":
            self._session = self._local().begin(plan_digest, self._mode, owner=self._run_owner)

    def together(self) -> AbstractContextManager[None]:
        """Keep what is kept in the block in one go, when it ends."""
        return self._local().together()

    def claim(self, key: RecordingKey) -> Claim:
        """Ask to be the only one who asks the model for this answer."""
        return self._local().claim(key)

    def release(self, key: RecordingKey) -> None:
        """Give a claim back without an answer."""
        self._local().release(key)

    def keep(self, question: Question, completion: Completion) -> Completion:
        """Keep a new answer; once this returns, killing the process does not lose it.

        Returns:
            The answer as a replay will find it, that is without secrets.
        """
        kept = self._local().put(
            Recording(
                key=question.key,
                prompt=question.prompt,
                version=question.version,
                case=question.case,
                model=question.model,
                completion=completion,
                recorded_at=utc_now(),
                request=question.summary,
                judge=question.judge,
            )
        )
        self._publish_later(question.file, question.key)
        return kept.completion

    def end_session(self, session: int) -> None:
        """Say that a session is complete: the next run of the same plan draws anew."""
        self._local().finish(session)

    def finish(
        self, *, complete: bool, publish: bool = True, trials_below: int | None = None
    ) -> Published:
        """Write new answers to the committed recordings and close the store.

        Args:
            complete: Whether the run reached its end; one that did not can be resumed. A process
                that shares the run with others leaves the session to their owner.
            publish: Whether the committed recordings get the new answers; the store has them.
            trials_below: Answers of this trial number and above stay in the store; None
                publishes all.

        Raises:
            RecordingError: A file cannot be written; the answers are safe in the local store.
        """
        written: dict[Path, int] = {}
        try:
            for name, fresh in self._new.items() if publish else ():
                keys = [key for key in fresh if trials_below is None or key.trial < trials_below]
                file = self.file(name)
                recordings = self._local().export(keys)
                file.merge(recordings, replace=self._mode == "all")
                if changed := file.save():
                    written[file.path] = changed
            if self._session is not None and complete and self._run_owner is None:
                self.end_session(self._session)
        finally:
            if isinstance(self._store, LocalStore):
                self._store.close()
                self._store = None
        return Published(written=written)

    def _publish_later(self, file: str, key: RecordingKey) -> None:
        if self._mode != "none":
            with self._lock:
                self._new.setdefault(file, {})[key] = None

    def _local(self) -> LocalStore:
        with self._lock:
            if self._store is None:
                try:
                    self._store = LocalStore(
                        self._project.state_dir / "store.sqlite3",
                        redactor=self._redactor,
                        read_only=self._mode == "none",
                    )
                except RecordingError as error:
                    self._store = error
            if isinstance(self._store, RecordingError):
                raise self._store.with_traceback(None)
            return self._store


def _key_variables(settings: Settings) -> set[str]:
    """The environment variables that hold keys, by the settings and by default."""
    names = {"OPENAI_API_KEY"}
    for endpoint in settings.providers.values():
        names.update(endpoint.headers_env.values())
        if endpoint.api_key_env is not None:
            names.add(endpoint.api_key_env)
    return names
