"""Where vectors are looked for and kept: committed recordings, then the embedding model."""

from __future__ import annotations

import shlex
import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from regauge.errors import ProviderError, UsageError
from regauge.judges import CaseChecks, is_semantic
from regauge.providers import parse_model_id
from regauge.recordings import VectorsFile
from regauge.runner._opened import Opened
from regauge.runner._providers import endpoint_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from regauge.datasets import GoldenCase
    from regauge.judges import Judge, SemanticJudge
    from regauge.project import Project, RecordMode
    from regauge.providers.embeddings import OpenAIEmbedder

__all__ = ["Embeddings"]


class Embeddings:
    """The vectors a run may use; one thread at a time reads and requests them.

    Args:
        project: Whose recordings and providers.
        mode: `none` only reads; `missing` asks for and keeps what is not recorded; `all` asks
            anew, for every text once.
        environ: Where keys are.

    Attributes:
        asked: How many texts an embedding model was asked for.
    """

    def __init__(self, project: Project, mode: RecordMode, *, environ: Mapping[str, str]) -> None:
        self._mode: RecordMode = mode
        self.asked = 0
        self._project = project
        self._environ = environ
        self._files = Opened(self._read)
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
        give = partial(self._given, prompt=prompt)
        return tuple(
            give(judge)
            if is_semantic(judge)
            else judge.with_vectors(give)
            if isinstance(judge, CaseChecks)
            else judge
            for judge in judges
        )

    def _given(self, judge: SemanticJudge, prompt: str) -> SemanticJudge:
        from regauge.judges import EmbeddingModel

        if not isinstance(judge.embedder, EmbeddingModel):
            return judge
        return replace(judge, embedder=self._recorded(judge.embedder.model, prompt))

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
        # Each caller has an event loop of its own, so that none waits for itself.
        with self._lock:
            file = self._file(model)
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

    def finish(self) -> Mapping[Path, int]:
        """Write new vectors to the committed recordings; returns how many lines of each changed.

        Raises:
            RecordingError: A file cannot be written.
        """
        return {file.path: changed for file in self._files if (changed := file.save())}

    def _read(self, model: str) -> VectorsFile:
        file = VectorsFile.of(self._project.recordings_dir, model)
        if self._base is not None:
            file.keep_only(self._base(file.path))
        return file

    def _recorded(self, model: str, prompt: str) -> _RecordedEmbedder:
        if self._mode != "none":
            self._open(model)  # a provider that nothing declares is found before any is asked
        return _RecordedEmbedder(model=model, prompt=prompt, embeddings=self)

    def _file(self, model: str) -> VectorsFile:
        """The committed vectors of a model.

        Raises:
            RecordingError: Lines of it cannot be read.
        """
        return self._files.file(model)

    def _open(self, model: str) -> OpenAIEmbedder:
        """What asks a model; to be closed by who opens it.

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
    """What a judge of one prompt asks for the vectors of one model."""

    model: str
    prompt: str
    embeddings: Embeddings

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """The vector of each text."""
        return await self.embeddings.vectors(self.model, texts, prompt=self.prompt)
