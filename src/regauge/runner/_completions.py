"""Completions and embeddings of a run, from the recordings or the local store, and new ones."""

from __future__ import annotations

import asyncio
import json
import shlex
import threading
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from regauge.digests import digest_of
from regauge.errors import ProviderError, RecordingError, UnmeasuredError, UsageError
from regauge.judges import CaseChecks, is_semantic
from regauge.providers import parse_model_id
from regauge.providers.registry import endpoint_of
from regauge.recordings import (
    LocalStore,
    Recording,
    RecordingKey,
    RecordingsFile,
    VectorsFile,
    append_lines,
    redactor_for,
    utc_now,
)
from regauge.runner._conversation import calls_of, replay
from regauge.runner._plan import CompletionKey, PlannedTrial, save_file
from regauge.runner._providers import endpoint_digest
from regauge.runner._result import SourcedCompletion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from regauge.datasets import GoldenCase
    from regauge.judges import Judge, SemanticJudge
    from regauge.project import Project, RecordMode
    from regauge.providers import Completion
    from regauge.providers.embeddings import OpenAIEmbedder
    from regauge.recordings import Claim
    from regauge.runner._eval import Eval
    from regauge.runner._plan import CaseRequest, PlannedCase, ShardFiles

_File = TypeVar("_File")
# Seconds between two tries for the lock of the embeddings.
_LOCK_POLL_S = 0.005


class FileCache(Generic[_File]):
    """Files by name, read once, for several threads; iteration yields the readable ones.

    Args:
        read: Called with the name of a file; returns its contents.
    """

    def __init__(self, read: Callable[[str], _File]) -> None:
        self._read = read
        self._files: dict[str, _File | RecordingError] = {}
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[_File]:
        with self._lock:
            files = tuple(self._files.values())
        return (file for file in files if not isinstance(file, RecordingError))

    def file(self, name: str) -> _File:
        """The file of a name.

        Raises:
            RecordingError: It cannot be read.
        """
        with self._lock:
            cached = self._files.get(name)
            if cached is None:
                try:
                    cached = self._read(name)
                except RecordingError as error:
                    cached = error
                self._files[name] = cached
        if isinstance(cached, RecordingError):
            raise cached.with_traceback(None)
        return cached


_STORE = "store.sqlite3"
# The numbers of trials begin at 0 for evals, at 100 for baselines, and at 1000, 2000 and 3000 in
# the gate and in refinements.
_EVALS_TRIALS = 100
PURPOSE_TRIALS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class IndependentTrials:
    """Trials that committed recordings cannot replace, as they are evidence of the run itself.

    They come from the local store or from the model. With `--record=none`, recordings replace
    missing ones. The store keeps the trials of each endpoint apart.

    Attributes:
        first: The first number of such trials.
        unpublished: The numbers that stay in the store; the others are recorded as well.
        store: The file of the trials and of their judges' calls, below `.regauge`.
    """

    first: int
    unpublished: range
    store: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRecordings:
    """The committed recordings that a run wrote.

    Attributes:
        changed_lines: The number of new or changed lines, by file.
        stored_counts: The number of completions that only the local store had, by file. A replay
            counts them and writes nothing.
    """

    changed_lines: Mapping[Path, int] = field(default_factory=dict["Path", int])
    stored_counts: Mapping[Path, int] = field(default_factory=dict["Path", int])


class Completions:
    """The completions of a run: finds recorded ones, keeps new ones.

    Used by the thread that judges and by the one that calls models.

    Args:
        project: The project with the recordings and the local store.
        mode: `none` only reads; `missing` keeps new completions; `all` finds only the completions
            of its own session, so that every completion is new.
        environ: The environment with the API keys, which are redacted.
        run_owner: The process that owns the run; None if no other process shares the run.
        run_started: The start of the run, in the format of recordings.
        independent: The trials that recordings cannot replace; None for a run without any.
        part: The shard, with the files it writes; None for a run of all cases.

    Attributes:
        redact: Removes secrets from a text.
        file: Reads the committed recordings of a prompt, once; `judges/<prompt>` for calls of its
            judges. Raises a `RecordingError` for lines that cannot be read.
        session: The store's session of this run; None except in mode `all`.
    """

    def __init__(
        self,
        project: Project,
        mode: RecordMode,
        *,
        environ: Mapping[str, str],
        run_owner: str | None = None,
        run_started: str = "",
        independent: IndependentTrials | None = None,
        part: ShardFiles | None = None,
    ) -> None:
        self._project = project
        self._mode = mode
        self._independent = independent
        self._redactor = redactor_for(project.settings, environ)
        self.redact = self._redactor.redact
        self._run_owner = run_owner
        self._run_started = run_started
        self._files = FileCache(
            lambda name: RecordingsFile.load(
                project.recordings_path(name),
                redactor=self._redactor,
                in_shard=part.may_hold if part is not None else None,
            )
        )
        self.file = self._files.file
        self._part = part
        self._stores: dict[str, LocalStore | RecordingError] = {}
        self.session: int | None = None
        # The keys of new completions, by file, then by trial and provider; and whether the local
        # store had them before the run.
        self._new: dict[str, dict[tuple[int, str], dict[RecordingKey, bool]]] = {}
        self._environ = environ
        self._endpoints: dict[str, str] = {}
        self._lock = threading.RLock()

    def knows(self, key: RecordingKey) -> bool:
        """Return whether a completion is in the local store or in a file of this run."""
        return key in self._local() or any(key in file for file in self._files)

    def independent(self, trial: int) -> bool:
        """Return whether committed recordings cannot replace a trial."""
        return self._independent is not None and trial >= self._independent.first

    def endpoint(self, provider: str) -> str:
        """The digest of a provider's endpoint; see `endpoint_digest`."""
        digest = self._endpoints.get(provider)
        if digest is None:
            digest = endpoint_digest(self._project.settings, self._environ, provider)
            self._endpoints[provider] = digest
        return digest

    def has(self, planned_case: PlannedCase, key: RecordingKey) -> bool:
        """Return whether a completion of the prompt is recorded or stored."""
        if planned_case.eval.target is not None and planned_case.eval.target.outputs is not None:
            return self._output(planned_case, key.trial) is not None
        if planned_case.converses:
            try:
                return self._conversation(PlannedTrial(planned_case, key.trial)) is not None
            except UnmeasuredError:
                return True  # it has its reason: a recording changes nothing
        eval_ = planned_case.eval
        completion_key = CompletionKey(eval_.prompt.name, key, key.trial, eval_.model.provider)
        file = self._committed_file(completion_key)
        if file is not None and key in file:
            return True
        return self._stored_may_serve and self._is_stored(completion_key)

    def has_older(self, planned_case: PlannedCase) -> bool:
        """Return whether a completion of an older request of the case is recorded."""
        digest = planned_case.digest
        if planned_case.converses:
            digest = ""  # its first call is a request of its own
            if calls_of(PlannedTrial(planned_case, 0), self.find_call)[1]:
                return False
        file = self.file(planned_case.eval.prompt.name)
        return file.cases_with_other_digest(
            planned_case.case.id, digest, model=str(planned_case.eval.model)
        )

    def find_trial(self, planned_trial: PlannedTrial) -> SourcedCompletion | None:
        """The recorded or stored completion of a trial, or None."""
        eval_ = planned_trial.planned_case.eval
        if eval_.target is not None and eval_.target.outputs is not None:
            output = self._output(planned_trial.planned_case, planned_trial.trial)
            return (
                None if output is None else SourcedCompletion(completion=output, source="recording")
            )
        if planned_trial.planned_case.converses:
            return self._conversation(planned_trial)
        return self.find(planned_trial.completion_key)

    def note_stored(self, planned_trial: PlannedTrial) -> None:
        """Have `finish` record the completion of a trial that only the local store has.

        Raises:
            UnmeasuredError: A conversation cannot continue.
            RecordingError: Recordings cannot be read.
        """
        planned_case = planned_trial.planned_case
        # Most trials are committed, and need no decoding.
        if planned_case.converses or planned_trial.key not in self.file(
            planned_case.eval.prompt.name
        ):
            self.find_trial(planned_trial)

    def find_call(self, case_request: CaseRequest) -> SourcedCompletion | None:
        """The recorded or stored completion of a call, or None."""
        return self.find(case_request.completion_key)

    def _conversation(self, planned_trial: PlannedTrial) -> SourcedCompletion | None:
        return replay(planned_trial, self.find_call)

    def find(self, completion_key: CompletionKey) -> SourcedCompletion | None:
        """The recorded or stored completion of one request and trial, or None."""
        committed = self._committed_file(completion_key)
        recording = committed.get(completion_key.key) if committed is not None else None
        if recording is not None:
            return SourcedCompletion(completion=recording.completion, source="recording")
        recording = self._find_stored(completion_key) if self._stored_may_serve else None
        if recording is None:
            return None
        self._publish_later(completion_key, was_stored=True)
        # Another worker of this run may have just paid for it.
        from_this_run = self._run_owner is not None and recording.recorded_at >= self._run_started
        return SourcedCompletion(
            completion=recording.completion, source="live" if from_this_run else "store"
        )

    def copy(
        self, completion_key: CompletionKey, target_key: CompletionKey
    ) -> SourcedCompletion | None:
        """Store a completion under another number, too; None if it is missing or recorded there."""
        if target_key.key in self.file(target_key.file) or self._is_stored(target_key):
            return None
        recording = self._find_stored(completion_key)
        if recording is None:
            return None
        copy = self._local(target_key.trial).put(
            replace(recording, key=self._stored_key(target_key))
        )
        self._publish_later(target_key, was_stored=True)
        return SourcedCompletion(completion=copy.completion, source="store")

    def begin(self, plan_digest: str) -> None:
        """Start a session in mode `all`; it resumes an interrupted run of the same plan."""
        if self._mode == "all":
            self.session = self._local().begin(plan_digest, self._mode, owner=self._run_owner)

    def together(self, trial: int | None = None) -> AbstractContextManager[None]:
        """Write the completions of a block in one transaction.

        Args:
            trial: The number of one of the trials; None for the most common store of the run.
        """
        if trial is None:
            trial = self._independent.first if self._independent is not None else 0
        return self._local(trial).transaction()

    def claim(self, case_request: CaseRequest) -> Claim:
        """Claim the only call for this completion."""
        return self._local(case_request.trial).claim(self._stored_key(case_request.completion_key))

    def check_writable(self, case_request: CaseRequest) -> None:
        """Check that the store is writable.

        Raises:
            RecordingError: It is not, such as on a full disk.
        """
        self._local(case_request.trial).check_writable()

    def release(self, case_request: CaseRequest) -> None:
        """Release a claim without a completion."""
        self._local(case_request.trial).release(self._stored_key(case_request.completion_key))

    def keep(self, case_request: CaseRequest, completion: Completion) -> Completion:
        """Store a new completion, safe from the end of the process.

        Returns:
            The completion as a replay will find it, without secrets.
        """
        stored_recording = self._local(case_request.trial).put(
            Recording(
                key=self._stored_key(case_request.completion_key),
                prompt=case_request.prompt,
                version=case_request.version,
                case=case_request.case,
                model=case_request.model,
                completion=completion,
                recorded_at=utc_now(),
                request=case_request.summary,
                judge=case_request.judge,
            )
        )
        self._publish_later(case_request.completion_key, was_stored=False)
        return stored_recording.completion

    def forget(self, case_request: CaseRequest) -> None:
        """Remove a completion from the local store."""
        if self._mode != "none":
            self._local(case_request.trial).drop(self._stored_key(case_request.completion_key))

    def end_session(self, session: int) -> None:
        """Mark a session complete, so that the next run of the same plan makes new calls."""
        self._local().finish(session)

    def finish(self, *, complete: bool, publish: bool = True) -> WrittenRecordings:
        """Write new completions to the committed recordings and close the store.

        Args:
            complete: Whether the run reached its end; an incomplete one can be resumed. A process
                that shares the run leaves the session to the run's owner.
            publish: Whether to write the recordings; the store has the completions anyway.

        Raises:
            RecordingError: A file cannot be written; the completions are in the local store.
        """
        changed_lines: dict[Path, int] = {}
        stored_counts: dict[Path, int] = {}
        try:
            for name in self._new if publish else ():
                file = self.file(name)
                only_stored = sum(
                    was_stored and completion_key.key not in file
                    for completion_key, was_stored in self._published(name)
                )
                if only_stored:
                    stored_counts[file.path] = only_stored
                if self._mode == "none":
                    continue
                recordings = (
                    recording
                    for completion_key, _ in self._published(name)
                    if (recording := self._find_stored(completion_key)) is not None
                )
                file.merge(recordings, replace=self._mode == "all")
                if changed := save_file(file, self._part):
                    changed_lines[file.path] = changed
            writes = publish and self._mode != "none"
            if self._part is not None and self._independent is not None and writes:
                append_lines(self._part.trials, [*self._gate_lines()])
            if self.session is not None and complete and self._run_owner is None:
                self.end_session(self.session)
        finally:
            for store in self._stores.values():
                if isinstance(store, LocalStore):
                    store.close()
            self._stores.clear()
        return WrittenRecordings(changed_lines=changed_lines, stored_counts=stored_counts)

    def _new_completions(self, name: str) -> Iterator[tuple[CompletionKey, bool]]:
        """The new completions of a file, and whether the store had them before the run."""
        for (trial, provider), fresh in self._new[name].items():
            for key, was_stored in fresh.items():
                yield CompletionKey(name, key, trial, provider), was_stored

    def _published(self, name: str) -> Iterator[tuple[CompletionKey, bool]]:
        """The new completions of a file that are recorded."""
        unpublished = self._independent.unpublished if self._independent is not None else ()
        return (fresh for fresh in self._new_completions(name) if fresh[0].trial not in unpublished)

    def _gate_lines(self) -> Iterator[bytes]:
        """The independent trials of this run, as lines of JSON."""
        for name in self._new:
            for completion_key, _ in self._new_completions(name):
                if self.independent(completion_key.trial):
                    recording = self._local(completion_key.trial).get(
                        self._stored_key(completion_key)
                    )
                    if recording is not None:
                        # A judge's calls have numbers of their own.
                        line = {"about": completion_key.trial, "recording": recording.to_json()}
                        yield json.dumps(line, ensure_ascii=True).encode()

    @staticmethod
    def _output(planned_case: PlannedCase, trial: int) -> Completion | None:
        """The output of a `recorded` target; each purpose counts its trials from 0."""
        target = planned_case.eval.target
        assert target is not None
        assert target.outputs is not None
        if _EVALS_TRIALS <= trial < PURPOSE_TRIALS:
            return None  # trials of a baseline: the gate reads the outputs of the base
        return target.outputs.find(planned_case.case.id, trial % PURPOSE_TRIALS)

    @property
    def _stored_may_serve(self) -> bool:
        """Return whether the run may use completions of the local store."""
        return self._mode != "all" or self.session is not None

    def _committed_file(self, completion_key: CompletionKey) -> RecordingsFile | None:
        """The committed recordings of a completion; None if the run may not use them."""
        if self._mode == "all":
            return None
        if self.independent(completion_key.trial) and (
            self._mode != "none" or self._is_stored(completion_key)
        ):
            return None
        return self.file(completion_key.file)

    def _publish_later(self, completion_key: CompletionKey, *, was_stored: bool) -> None:
        with self._lock:
            # A completion of this run is found in the store later; it stays new.
            by_trial = self._new.setdefault(completion_key.file, {})
            fresh = by_trial.setdefault((completion_key.trial, completion_key.provider), {})
            fresh.setdefault(completion_key.key, was_stored)

    def _stored_key(self, completion_key: CompletionKey) -> RecordingKey:
        """The key of a completion in the store, which keeps independent trials per endpoint."""
        key = completion_key.key
        endpoint = (
            self.endpoint(completion_key.provider) if self.independent(completion_key.trial) else ""
        )
        return replace(key, digest=digest_of([key.digest, endpoint])) if endpoint else key

    def _is_stored(self, completion_key: CompletionKey) -> bool:
        return self._stored_key(completion_key) in self._local(completion_key.trial)

    def _find_stored(self, completion_key: CompletionKey) -> Recording | None:
        """The completion in the store, under the key of its request."""
        recording = self._local(completion_key.trial).get(self._stored_key(completion_key))
        return None if recording is None else replace(recording, key=completion_key.key)

    def _local(self, trial: int = 0) -> LocalStore:
        """The store of a trial."""
        independent = self._independent if self.independent(trial) else None
        name = independent.store if independent is not None else _STORE
        with self._lock:
            store = self._stores.get(name)
            if store is None:
                try:
                    store = LocalStore(
                        self._project.state_dir / name,
                        redactor=self._redactor,
                        read_only=self._mode == "none",
                    )
                except RecordingError as error:
                    store = error
                self._stores[name] = store
            if isinstance(store, RecordingError):
                raise store.with_traceback(None)
            return store


class Embeddings:
    """The embeddings of a run; one thread at a time reads and requests them.

    Args:
        project: The project with the recordings and providers.
        mode: `none` only reads; `missing` requests and records missing embeddings; `all` requests
            each text once again.
        environ: The environment with the API keys.
        part: The shard, with the files it writes; None for a run of all cases.

    Attributes:
        requested_texts: The number of texts sent to an embedding model.
    """

    def __init__(
        self,
        project: Project,
        mode: RecordMode,
        *,
        environ: Mapping[str, str],
        part: ShardFiles | None = None,
    ) -> None:
        self._mode: RecordMode = mode
        self._part = part
        self.requested_texts = 0
        self._project = project
        self._environ = environ
        self._files = FileCache(self._read)
        self._new_completions: set[tuple[str, str]] = set()
        self._base: Callable[[Path], bytes | None] | None = None
        self._lock = threading.Lock()

    def trust(self, base: Callable[[Path], bytes | None]) -> None:
        """Use only recorded embeddings that the base has; request the others.

        A replay uses all recordings. Call this before the first use of an embedding.

        Args:
            base: Called with the path of a file; returns the base's version of it.
        """
        self._base = None if self._mode == "none" else base

    def bind(self, evals: Sequence[Eval]) -> tuple[Eval, ...]:
        """The evals of one prompt, whose judges use recorded embeddings instead of models.

        Raises:
            UsageError: Models may be called, and the provider of one is not declared.
        """
        give = partial(self._with_vectors, prompt=evals[0].prompt.name)
        judges = tuple(
            give(judge)
            if is_semantic(judge)
            else judge.with_vectors(give)
            if isinstance(judge, CaseChecks)
            else judge
            for judge in evals[0].judges
        )
        return tuple(replace(eval_, judges=judges) for eval_ in evals)

    def _with_vectors(self, judge: SemanticJudge, prompt: str) -> SemanticJudge:
        from regauge.judges import EmbeddingModel

        if not isinstance(judge.embedder, EmbeddingModel):
            return judge
        return replace(judge, embedder=self._open_embedder(judge.embedder.model, prompt))

    def judges_with_vectors(self, judges: Sequence[Judge], case: GoldenCase) -> list[SemanticJudge]:
        """The judges of a case, and of its checks, that use recorded embeddings."""
        semantic = [judge for judge in judges if is_semantic(judge)]
        for judge in judges:
            if isinstance(judge, CaseChecks):
                semantic += judge.semantic_judges(case.id)
        return [judge for judge in semantic if isinstance(judge.embedder, _RecordedEmbedder)]

    async def vectors(
        self, model: str, texts: Sequence[str], *, prompt: str
    ) -> Sequence[Sequence[float]]:
        """The embedding of each text, rounded as a recording has it.

        Raises:
            ProviderError: An embedding is missing; the kind is `not-recorded` in a replay.
            RecordingError: Recorded embeddings cannot be read.
        """
        # Callers are in one event loop or in several; a blocking lock would stop a whole loop.
        while not self._lock.acquire(blocking=False):  # noqa: ASYNC110 - an event has one loop
            await asyncio.sleep(_LOCK_POLL_S)
        try:
            file = self._files.file(model)
            missing_texts = [
                text for text in dict.fromkeys(texts) if not self._has(file, model, text)
            ]
            if missing_texts and self._mode == "none":
                raise ProviderError(
                    f"vectors of {model} are not recorded for these outputs and references\n"
                    f"  record them: regauge record {shlex.quote(prompt)}",
                    kind="not-recorded",
                )
            if missing_texts:
                await self._request_vectors(file, model, missing_texts)
            return [vector for text in texts if (vector := file.get(text)) is not None]
        finally:
            self._lock.release()

    def finish(self) -> Mapping[Path, int]:
        """Write new embeddings to the recordings; returns the number of changed lines by file.

        Raises:
            RecordingError: A file cannot be written.
        """
        return {
            file.path: changed for file in self._files if (changed := save_file(file, self._part))
        }

    def _read(self, model: str) -> VectorsFile:
        file = VectorsFile.for_model(self._project.recordings_dir, model)
        if self._base is not None:
            file.drop_absent(self._base(file.path))
        return file

    def _open_embedder(self, model: str, prompt: str) -> _RecordedEmbedder:
        if self._mode != "none":
            self._open(model)  # an undeclared provider is an error before the first call
        return _RecordedEmbedder(model=model, prompt=prompt, embeddings=self)

    def _open(self, model: str) -> OpenAIEmbedder:
        """Open a connection to a model; the caller closes it.

        Raises:
            UsageError: The provider is not declared, or has no embeddings.
        """
        model_id = parse_model_id(model)
        settings = self._project.settings
        endpoint = endpoint_of(settings, model_id.provider)
        if endpoint is None or endpoint.api not in {"openai", "responses"}:
            gives_none = "the simulated model" if endpoint is None else f"api = {endpoint.api!r}"
            raise UsageError(
                f"{model}: {gives_none} gives no vectors\n"
                "  fix: name a model that does, such as openai:text-embedding-3-small"
            )
        from regauge.providers.embeddings import OpenAIEmbedder

        timeout_s = endpoint.timeout_s or settings.timeout_s
        return OpenAIEmbedder(
            endpoint.model_copy(update={"timeout_s": timeout_s}),
            name=model_id.provider,
            model=model_id.model,
            environ=self._environ,
        )

    def _has(self, file: VectorsFile, model: str, text: str) -> bool:
        return (model, text) in self._new_completions if self._mode == "all" else text in file

    async def _request_vectors(self, file: VectorsFile, model: str, texts: Sequence[str]) -> None:
        # Each verdict has its own event loop, and a connection belongs to one loop.
        embedder = self._open(model)
        try:
            vectors = await embedder.embed(texts)
        finally:
            await embedder.aclose()
        self.requested_texts += len(texts)
        replace = self._mode == "all" or self._base is not None
        for text, vector in zip(texts, vectors, strict=True):
            try:
                file.put(text, vector, replace=replace)
            except ValueError as error:
                raise ProviderError(f"{model} gave {error}", kind="malformed") from error
            self._new_completions.add((model, text))


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordedEmbedder:
    """The embeddings of one model, for a judge of one prompt."""

    model: str
    prompt: str
    embeddings: Embeddings

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """The embedding of each text."""
        return await self.embeddings.vectors(self.model, texts, prompt=self.prompt)
