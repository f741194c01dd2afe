"""Where answers and vectors are looked for and kept: committed recordings, then the local store."""

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
from regauge.runner._plan import AnswerKey, Draw, save_file
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
    from regauge.runner._plan import CaseRequest, PartFiles, PlannedCase

_File = TypeVar("_File")
# How long a caller of vectors waits, in seconds, before it looks whether another is done.
_LOCK_POLL_S = 0.005


class FileCache(Generic[_File]):
    """Opens files by name, for several threads; iterates over those that could be read.

    Args:
        read: Reads the file of a name.
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
_PURPOSE_TRIALS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class IndependentTrials:
    """Trials that are a run's own evidence: committed recordings do not stand in for them.

    Where models may be called, they come from the store that keeps them, or from the model. In
    mode `none` committed recordings serve where the store has none. Another endpoint finds none of
    them in the store.

    Attributes:
        first: Trials of this number and above.
        unpublished: Those of them that stay in the store; the others are written to the committed
            recordings as well.
        store: The file that keeps them and the judges' calls about them, below `.regauge`.
    """

    first: int
    unpublished: range
    store: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRecordings:
    """The committed recordings that a run wrote.

    Attributes:
        written: Per file, how many of its lines are new or differ.
        stored: Per file, the completions that the local store had and the file had not. A replay
            only counts them.
    """

    written: Mapping[Path, int] = field(default_factory=dict["Path", int])
    stored: Mapping[Path, int] = field(default_factory=dict["Path", int])


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
        independent: The trials that committed recordings do not stand in for; None for a run
            without such trials.
        part: What a shard runs, and where its recordings go; None for a whole run.

    Attributes:
        redact: Takes secrets out of a text.
        session: The store's session of this run; only in mode `all`.
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
        part: PartFiles | None = None,
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
                in_shard=part.own if part is not None else None,
            )
        )
        self._part = part
        self._stores: dict[str, LocalStore | RecordingError] = {}
        self.session: int | None = None
        # New answers by file, and whether the local store had them before the run.
        self._new: dict[str, dict[RecordingKey, tuple[AnswerKey, bool]]] = {}
        self._environ = environ
        self._endpoints: dict[str, str] = {}
        self._lock = threading.RLock()

    def file(self, name: str) -> RecordingsFile:
        """The committed recordings of a prompt; of its judges' calls as `judges/<prompt>`.

        Raises:
            RecordingError: Lines of it cannot be read.
        """
        return self._files.file(name)

    def knows(self, key: RecordingKey) -> bool:
        """Return whether a completion is in the local store or in a file of this run."""
        return key in self._local() or any(key in file for file in self._files)

    def independent(self, trial: int) -> bool:
        """Return whether a trial is one that committed recordings do not stand in for."""
        return self._independent is not None and trial >= self._independent.first

    def endpoint(self, provider: str) -> str:
        """The digest of a provider's endpoint; see `endpoint_digest`."""
        digest = self._endpoints.get(provider)
        if digest is None:
            digest = endpoint_digest(self._project.settings, self._environ, provider)
            self._endpoints[provider] = digest
        return digest

    def has(self, planned: PlannedCase, key: RecordingKey) -> bool:
        """Return whether `find` would find an answer of the prompt."""
        if planned.suite.target is not None and planned.suite.target.outputs is not None:
            return self._output(planned, key.trial) is not None
        if planned.converses:
            try:
                return self._conversation(Draw(planned, key.trial)) is not None
            except UnmeasuredError:
                return True  # it has its reason: a recording changes nothing
        suite = planned.suite
        answer = AnswerKey(suite.prompt.name, key, key.trial, suite.model.provider)
        file = self._committed_file(answer)
        if file is not None and key in file:
            return True
        return self._stored_may_serve and self._is_stored(answer)

    def has_older(self, planned: PlannedCase) -> bool:
        """Return whether an answer to an older request of the case is recorded."""
        digest = planned.digest
        if planned.converses:
            digest = ""  # its first call is a request of its own
            if calls_of(Draw(planned, 0), self.find_call)[1]:
                return False
        file = self.file(planned.suite.prompt.name)
        return file.cases_with_other_digest(planned.case.id, digest, model=str(planned.suite.model))

    def find_draw(self, draw: Draw) -> SourcedCompletion | None:
        """The answer of a draw, or None."""
        suite = draw.planned.suite
        if suite.target is not None and suite.target.outputs is not None:
            output = self._output(draw.planned, draw.trial)
            return (
                None if output is None else SourcedCompletion(completion=output, source="recording")
            )
        if draw.planned.converses:
            return self._conversation(draw)
        return self.find(draw.answer_key)

    def note_stored(self, draw: Draw) -> None:
        """Have `finish` write the completion of a draw if only the local store has it.

        Raises:
            UnmeasuredError: A conversation cannot continue.
            RecordingError: Recordings cannot be read.
        """
        planned = draw.planned
        # Nothing is decoded for the many draws that are committed.
        if planned.converses or draw.key not in self.file(planned.suite.prompt.name):
            self.find_draw(draw)

    def find_call(self, question: CaseRequest) -> SourcedCompletion | None:
        """The answer to a question, or None."""
        return self.find(question.answer_key)

    def _conversation(self, draw: Draw) -> SourcedCompletion | None:
        return replay(draw, self.find_call)

    def find(self, answer: AnswerKey) -> SourcedCompletion | None:
        """The answer to one request and trial, or None."""
        committed = self._committed_file(answer)
        recording = committed.get(answer.key) if committed is not None else None
        if recording is not None:
            return SourcedCompletion(completion=recording.completion, source="recording")
        recording = self._find_stored(answer) if self._stored_may_serve else None
        if recording is None:
            return None
        self._publish_later(answer, stored=True)
        # A worker judges what another one of its run has just paid for.
        from_this_run = self._run_owner is not None and recording.recorded_at >= self._run_started
        return SourcedCompletion(
            completion=recording.completion, source="live" if from_this_run else "store"
        )

    def copy(self, answer: AnswerKey, to: AnswerKey) -> SourcedCompletion | None:
        """Keep an answer under another number as well; None where there is none, or no need."""
        if to.key in self.file(to.file) or self._is_stored(to):
            return None
        recording = self._find_stored(answer)
        if recording is None:
            return None
        copied = self._local(to.trial).put(replace(recording, key=self._stored_key(to)))
        self._publish_later(to, stored=True)
        return SourcedCompletion(completion=copied.completion, source="store")

    def begin(self, plan_digest: str) -> None:
        """Begin to draw; in mode `all` this resumes a run of the same plan that was cut off."""
        if self._mode == "all":
            self.session = self._local().begin(plan_digest, self._mode, owner=self._run_owner)

    def together(self, trial: int | None = None) -> AbstractContextManager[None]:
        """Keep what is kept in the block in one go, when it ends.

        Args:
            trial: One of those that are kept; by default what a run keeps most of.
        """
        if trial is None:
            trial = self._independent.first if self._independent is not None else 0
        return self._local(trial).transaction()

    def claim(self, question: CaseRequest) -> Claim:
        """Ask to be the only one who asks the model for this answer."""
        return self._local(question.trial).claim(self._stored_key(question.answer_key))

    def check_writable(self, question: CaseRequest) -> None:
        """Raise where the store takes no answer any more, such as on a full disk.

        Raises:
            RecordingError: It does not.
        """
        self._local(question.trial).check_writable()

    def release(self, question: CaseRequest) -> None:
        """Give a claim back without an answer."""
        self._local(question.trial).release(self._stored_key(question.answer_key))

    def keep(self, question: CaseRequest, completion: Completion) -> Completion:
        """Keep a new answer; once this returns, killing the process does not lose it.

        Returns:
            The answer as a replay will find it, that is without secrets.
        """
        stored_recording = self._local(question.trial).put(
            Recording(
                key=self._stored_key(question.answer_key),
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
        self._publish_later(question.answer_key, stored=False)
        return stored_recording.completion

    def forget(self, question: CaseRequest) -> None:
        """Drop an answer from the local store."""
        if self._mode != "none":
            self._local(question.trial).drop(self._stored_key(question.answer_key))

    def end_session(self, session: int) -> None:
        """Say that a session is complete: the next run of the same plan draws again."""
        self._local().finish(session)

    def finish(self, *, complete: bool, publish: bool = True) -> WrittenRecordings:
        """Write new answers to the committed recordings and close the store.

        Args:
            complete: Whether the run reached its end; one that did not can be resumed. A process
                that shares the run with others leaves the session to their owner.
            publish: Whether the committed recordings get the new answers; the store has them.

        Raises:
            RecordingError: A file cannot be written; the answers are safe in the local store.
        """
        written: dict[Path, int] = {}
        stored: dict[Path, int] = {}
        try:
            for name, fresh in self._new.items() if publish else ():
                file = self.file(name)
                new = [
                    (answer, stored_before)
                    for answer, stored_before in fresh.values()
                    if self._independent is None
                    or answer.trial not in self._independent.unpublished
                ]
                only_stored = sum(before and answer.key not in file for answer, before in new)
                if only_stored:
                    stored[file.path] = only_stored
                if self._mode == "none":
                    continue
                recordings = (
                    recording
                    for answer, _ in new
                    if (recording := self._find_stored(answer)) is not None
                )
                file.merge(recordings, replace=self._mode == "all")
                if changed := save_file(file, self._part):
                    written[file.path] = changed
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
        return WrittenRecordings(written=written, stored=stored)

    def _gate_lines(self) -> Iterator[bytes]:
        """The independent trials that this run found or made, as the store keeps them."""
        for fresh in self._new.values():
            for answer, _ in fresh.values():
                if self.independent(answer.trial):
                    stored = self._local(answer.trial).get(self._stored_key(answer))
                    if stored is not None:
                        # A judge's calls have numbers of their own.
                        line = {"about": answer.trial, "recording": stored.to_json()}
                        yield json.dumps(line, ensure_ascii=True).encode()

    @staticmethod
    def _output(planned: PlannedCase, trial: int) -> Completion | None:
        """An output that a target recorded elsewhere; each purpose counts its trials from 0."""
        target = planned.suite.target
        assert target is not None
        assert target.outputs is not None
        if _EVALS_TRIALS <= trial < _PURPOSE_TRIALS:
            return None  # those of a baseline: the gate has the outputs of the base themselves
        return target.outputs.find(planned.case.id, trial % _PURPOSE_TRIALS)

    @property
    def _stored_may_serve(self) -> bool:
        """Return whether an answer of the local store is one of this run."""
        return self._mode != "all" or self.session is not None

    def _committed_file(self, answer: AnswerKey) -> RecordingsFile | None:
        """The committed recordings, where they may serve."""
        if self._mode == "all":
            return None
        if self.independent(answer.trial) and (self._mode != "none" or self._is_stored(answer)):
            return None
        return self.file(answer.file)

    def _publish_later(self, answer: AnswerKey, *, stored: bool) -> None:
        with self._lock:
            # What this run has kept is found in the store as well.
            self._new.setdefault(answer.file, {}).setdefault(answer.key, (answer, stored))

    def _stored_key(self, answer: AnswerKey) -> RecordingKey:
        """The key of a completion in the store: trials of one endpoint only."""
        key = answer.key
        endpoint = self.endpoint(answer.provider) if self.independent(answer.trial) else ""
        return replace(key, digest=digest_of([key.digest, endpoint])) if endpoint else key

    def _is_stored(self, answer: AnswerKey) -> bool:
        return self._stored_key(answer) in self._local(answer.trial)

    def _find_stored(self, answer: AnswerKey) -> Recording | None:
        """The answer in the store, under the key of its request."""
        recording = self._local(answer.trial).get(self._stored_key(answer))
        if recording is None or recording.key == answer.key:
            return recording
        return replace(recording, key=answer.key)

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
    """The vectors a run may use; one thread at a time reads and requests them.

    Args:
        project: Whose recordings and providers.
        mode: `none` only reads; `missing` asks for and keeps what is not recorded; `all` asks
            again, for every text once.
        environ: Where keys are.
        part: Where a shard's vectors go; None for a whole run.

    Attributes:
        asked: How many texts an embedding model was asked for.
    """

    def __init__(
        self,
        project: Project,
        mode: RecordMode,
        *,
        environ: Mapping[str, str],
        part: PartFiles | None = None,
    ) -> None:
        self._mode: RecordMode = mode
        self._part = part
        self.asked = 0
        self._project = project
        self._environ = environ
        self._files = FileCache(self._read)
        self._fresh: set[tuple[str, str]] = set()
        self._base: Callable[[Path], bytes | None] | None = None
        self._lock = threading.Lock()

    def trust(self, base: Callable[[Path], bytes | None]) -> None:
        """Use recorded vectors only as the base has them; request the others.

        A replay uses every recorded vector. To be called before any vector is used.

        Args:
            base: Reads the base's version of a file.
        """
        self._base = None if self._mode == "none" else base

    def give(self, judges: Sequence[Judge], *, prompt: str) -> tuple[Judge, ...]:
        """The judges of a prompt, with recorded vectors for those that name an embedding model.

        Raises:
            UsageError: The model may be asked, and nothing declares its provider.
        """
        give = partial(self._with_vectors, prompt=prompt)
        return tuple(
            give(judge)
            if is_semantic(judge)
            else judge.with_vectors(give)
            if isinstance(judge, CaseChecks)
            else judge
            for judge in judges
        )

    def _with_vectors(self, judge: SemanticJudge, prompt: str) -> SemanticJudge:
        from regauge.judges import EmbeddingModel

        if not isinstance(judge.embedder, EmbeddingModel):
            return judge
        return replace(judge, embedder=self._open_embedder(judge.embedder.model, prompt))

    def served(self, judges: Sequence[Judge], case: GoldenCase) -> list[SemanticJudge]:
        """The judges of a case whose vectors are recorded, those of its checks among them."""
        semantic = [judge for judge in judges if is_semantic(judge)]
        for judge in judges:
            if isinstance(judge, CaseChecks):
                semantic += judge.semantic_judges(case.id)
        return [judge for judge in semantic if isinstance(judge.embedder, _RecordedEmbedder)]

    async def vectors(
        self, model: str, texts: Sequence[str], *, prompt: str
    ) -> Sequence[Sequence[float]]:
        """The vector of each text, live or not as a replay will find it.

        Raises:
            ProviderError: There are no vectors; its kind is `not-recorded` in a replay.
            RecordingError: Recorded vectors cannot be read.
        """
        # Callers are in one event loop or in several: to block here would stop the one that asks.
        while not self._lock.acquire(blocking=False):  # noqa: ASYNC110 - an event has one loop
            await asyncio.sleep(_LOCK_POLL_S)
        try:
            file = self._files.file(model)
            lacking = [text for text in dict.fromkeys(texts) if not self._has(file, model, text)]
            if lacking and self._mode == "none":
                raise ProviderError(
                    f"vectors of {model} are not recorded for these answers and references\n"
                    f"  record them: regauge record {shlex.quote(prompt)}",
                    kind="not-recorded",
                )
            if lacking:
                await self._ask(file, model, lacking)
            return [vector for text in texts if (vector := file.get(text)) is not None]
        finally:
            self._lock.release()

    def finish(self) -> Mapping[Path, int]:
        """Write new vectors to the committed recordings; returns how many lines of each changed.

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
            self._open(model)  # a provider that nothing declares is found before any is asked
        return _RecordedEmbedder(model=model, prompt=prompt, embeddings=self)

    def _open(self, model: str) -> OpenAIEmbedder:
        """Open a connection to a model; the caller closes it.

        Raises:
            UsageError: Nothing declares its provider, or it gives no vectors.
        """
        asked = parse_model_id(model)
        settings = self._project.settings
        endpoint = endpoint_of(settings, asked.provider)
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
            name=asked.provider,
            model=asked.model,
            environ=self._environ,
        )

    def _has(self, file: VectorsFile, model: str, text: str) -> bool:
        return (model, text) in self._fresh if self._mode == "all" else text in file

    async def _ask(self, file: VectorsFile, model: str, texts: Sequence[str]) -> None:
        # Every verdict has an event loop of its own, and connections do not outlive theirs.
        embedder = self._open(model)
        try:
            vectors = await embedder.embed(texts)
        finally:
            await embedder.aclose()
        self.asked += len(texts)
        replace = self._mode == "all" or self._base is not None
        for text, vector in zip(texts, vectors, strict=True):
            try:
                file.put(text, vector, replace=replace)
            except ValueError as error:
                raise ProviderError(f"{model} gave {error}", kind="malformed") from error
            self._fresh.add((model, text))


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordedEmbedder:
    """The vectors of one model for a judge of one prompt."""

    model: str
    prompt: str
    embeddings: Embeddings

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """The vector of each text."""
        return await self.embeddings.vectors(self.model, texts, prompt=self.prompt)
