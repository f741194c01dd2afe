"""The batches of a project at their providers: fetched, found again, downloaded, started.

A batch is found without its files: its provider keeps the name and the project's digest as
metadata, and results carry the keys of calls.
"""

from __future__ import annotations

import os
import re
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from regauge.digests import digest_of
from regauge.errors import ProviderError, RegaugeError
from regauge.maintenance.batch_files import NAME_PATTERN, BatchState, key_of
from regauge.providers import parse_model_id
from regauge.providers.registry import APIS, endpoint_of
from regauge.wording import plural, printable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from regauge.maintenance.batch_files import BatchDirectory
    from regauge.project import Project
    from regauge.providers.batches import BatchClient, RemoteBatch
    from regauge.runner import EvalSession

KEPT_S: Final = 30 * 86_400.0
"""Providers keep results for 29 or 30 days."""
_GONE: Final = frozenset({404, 410})
# A batch ends within a day.
_WINDOW_S: Final = 25 * 3600.0
_CLOCKS_S: Final = 300.0
_PEEKS_MAX: Final = 50
_PROBLEMS_MAX: Final = 5


def open_client(project: Project, provider: str) -> BatchClient:
    """A client of a provider that takes batches; writing and reading lines needs no network."""
    from regauge.providers.batches import BatchClient

    settings = endpoint_of(project.settings, provider)
    assert settings is not None
    return BatchClient(settings, name=provider, environ=os.environ)


class BatchSync:
    """The exchange of batches with providers.

    Args:
        evals: The run.
        directory: The files of the batches.
        collect_command: The command that collects results, for messages.
        now: The time, in seconds since 1970.

    Attributes:
        notes: Notes for the user.
    """

    def __init__(
        self, evals: EvalSession, directory: BatchDirectory, *, collect_command: str, now: float
    ) -> None:
        self._project = evals.project
        self._evals = evals
        self._directory = directory
        self._collect_command = collect_command
        self._tag = digest_of({"project": _project_name(evals.project)})[:16]
        self._now = now
        self._suspects: list[tuple[str, RemoteBatch]] = []
        self._peeks = 0
        self.notes: list[str] = []

    async def update_all(self) -> None:
        """Fetch the state of batches from providers, with batches of other machines."""
        states = (state for state in self._directory.batches if state.status != "by-hand")
        providers = {state.provider for state in states}
        for provider in sorted(providers | self._providers()):
            settings = endpoint_of(self._project.settings, provider)
            if settings is not None and settings.api in APIS:
                async with self._online(provider) as client:
                    await self._update_provider(provider, client)

    def _providers(self) -> set[str]:
        """The providers of the plan's models."""
        providers: set[str] = set()
        for eval_ in {id(case.eval): case.eval for case in self._evals.plan.cases}.values():
            models = [str(eval_.model)] if eval_.target is None else []
            models += [name for judge in eval_.model_judges for name in judge.models]
            for model in models:
                with suppress(RegaugeError):
                    providers.add(parse_model_id(model).provider)
        return providers

    @asynccontextmanager
    async def _online(self, provider: str) -> AsyncGenerator[BatchClient]:
        client = open_client(self._project, provider)
        try:
            yield client
        except ProviderError as error:
            # Gateways repeat the key that they refuse.
            raise error.reworded(self._evals.completions.redact(str(error))) from error
        finally:
            await client.aclose()

    async def _update_provider(self, provider: str, client: BatchClient) -> None:
        from regauge.providers.batches import NoBatchesError

        states = [state for state in self._directory.batches if state.provider == provider]
        try:
            remote_batches = await client.list_since(self._now - KEPT_S)
        except NoBatchesError:
            if any(state.status in {"starting", "started"} for state in states):
                raise
            return
        for state in states:
            await self._update_state(state, remote_batches, client)
        known_ids = {state.batch_id for state in self._directory.batches}
        names = {state.name for state in self._directory.batches}
        for batch in remote_batches:
            if batch.id not in known_ids:
                name = await self._name_of(batch, provider, client)
                if name is not None and name not in names:
                    await self._adopt(name, provider, batch, client)

    async def _update_state(
        self, state: BatchState, remote_batches: Sequence[RemoteBatch], client: BatchClient
    ) -> None:
        """Fetch the state of a batch that this machine wrote."""
        if state.status in {"written", "starting"}:
            batch = await self._find_remote(state, remote_batches, client)
            if batch is None:
                # Not started, so not paid for: calls that are still needed are written again.
                self._directory.batches.remove(state)
                self._directory.remove(state)
                return
            self._directory.save(state, "started", batch_id=batch.id)
        if state.status == "started" or (state.status == "ended" and not state.is_complete):
            by_id = {batch.id: batch for batch in remote_batches}
            try:
                batch = by_id.get(state.batch_id) or await client.fetch(state.batch_id)
            except ProviderError as error:
                if error.status not in _GONE:
                    raise
                file = self._project.relative(self._directory.requests_path(state.name))
                self.notes.append(
                    f"batch {state.name} is not at {state.provider!r}: use the key that started it,"
                    f" or remove {file} to submit its calls again"
                )
            else:
                await self._update(state, batch, client)

    async def _name_of(self, batch: RemoteBatch, provider: str, client: BatchClient) -> str | None:
        """The name of an unknown batch of this project; None for any other batch."""
        if batch.tag is not None:
            is_own = batch.tag.project == self._tag and re.fullmatch(NAME_PATTERN, batch.tag.name)
            return batch.tag.name if is_own else None
        if batch.tagged:
            return None
        if not batch.is_finished and not batch.input_file:
            self._suspects.append((provider, batch))
            return None
        self._peeks += 1
        if self._peeks > _PEEKS_MAX or not await self._is_ours(batch, client):
            return None
        return f"{format_moment(batch.created_at)}-{digest_of({'batch': batch.id})[:6]}-0"

    async def _adopt(
        self, name: str, provider: str, batch: RemoteBatch, client: BatchClient
    ) -> None:
        """Add a batch that another machine started."""
        state = BatchState(
            name=name,
            model=f"{provider}:",
            requests=batch.requests or 0,
            status="started",
            batch_id=batch.id,
            created_at=batch.created_at,
        )
        if batch.input_file:
            await client.save_requests(batch, self._directory.requests_path(name))
        self._directory.batches.append(state)
        self._directory.batches.sort(key=lambda state: state.name)
        self._directory.save(state)
        await self._update(state, batch, client)

    async def _find_remote(
        self, state: BatchState, remote_batches: Sequence[RemoteBatch], client: BatchClient
    ) -> RemoteBatch | None:
        """The remote batch of an unconfirmed start, without metadata by its requests; or None."""
        for batch in remote_batches:
            if batch.tag and batch.tag.name == state.name:
                return batch
        if state.status == "written":
            return None
        ids = {*self._directory.ids_of(state)}
        known_ids = {state.batch_id for state in self._directory.batches}
        for batch in remote_batches:
            differs = batch.tagged or batch.requests not in {None, state.requests}
            older = batch.created_at < state.created_at - _CLOCKS_S
            if differs or older or batch.id in known_ids:
                continue
            if not batch.is_finished or self._first_id(await client.first_bytes(batch)) in ids:
                return batch
        return None

    async def _is_ours(self, batch: RemoteBatch, client: BatchClient) -> bool:
        try:
            first = self._first_id(await client.first_bytes(batch))
        except ProviderError:
            return False
        return first is not None and key_of(first) is not None

    @staticmethod
    def _first_id(content: bytes) -> str | None:
        match = re.search(rb'"custom_id"\s*:\s*"([A-Za-z0-9_-]{1,64})"', content)
        return None if match is None else match[1].decode()

    async def _update(self, state: BatchState, batch: RemoteBatch, client: BatchClient) -> None:
        """Save the state of a batch, and download its results."""
        redact = self._evals.completions.redact
        problems = batch.problems[:_PROBLEMS_MAX]
        state.note_progress(batch.status, [redact(printable(text))[:300] for text in problems])
        status = state.status
        if batch.is_finished:
            trouble: str | None
            try:
                trouble = await client.download(
                    batch, lambda number: self._directory.result_path(state, number)
                )
            except ProviderError as error:
                trouble = "gone" if error.status in _GONE else None
                reason = "the provider has no such file" if trouble else redact(str(error))
                self.notes.append(
                    f"the results of batch {state.name} cannot be fetched now: {reason}"
                )
            if trouble is not None:
                self._check_completeness(state, batch, trouble)
                status = "ended"
        self._directory.save(state, status)

    def _check_completeness(self, state: BatchState, batch: RemoteBatch, trouble: str) -> None:
        """Note whether all results arrived; a download that did not grow is complete."""
        read = self._directory.results_of(state)
        short = batch.completed is not None and len(read.places) < batch.completed
        size = sum(path.stat().st_size for path in self._directory.result_paths(state))
        cut = bool(trouble) or read.cut or short
        state.note_results(size if cut else None)
        if cut:
            count = plural(read.lines, "line")
            note = f"are cut off after {count}; collect again to get the rest"
            if state.is_complete:
                note = f"stay cut off at {count}; the other calls count as failed"
            self.notes.append(f"the results of batch {state.name} {note}")

    async def start(self, states: Sequence[BatchState]) -> dict[str, list[str]]:
        """Start written batches.

        Returns:
            The calls that were not submitted, by error.
        """
        from regauge.providers.batches import NoBatchesError

        troubles: dict[str, list[str]] = {}
        for state in states:
            suspect = self._suspect(state)
            try:
                if suspect is None:
                    async with self._online(state.provider) as client:
                        await self._start_batch(state, client)
                    continue
                trouble = (
                    f"batch {suspect} at {state.provider!r} has as many and may hold them\n"
                    f"  fix: {self._collect_command} --collect when it has ended"
                )
            except NoBatchesError as error:
                self._directory.save(state, "by-hand")
                self.notes.append(str(error))
                continue
            except ProviderError as error:
                trouble = str(error)
            calls = plural(state.requests, "call")
            message = f"{calls} of {state.model} not submitted: {trouble}"
            troubles.setdefault(message, []).extend(self._directory.ids_of(state))
            if suspect is not None:
                self._directory.remove(state)
        return troubles

    async def _start_batch(self, state: BatchState, client: BatchClient) -> None:
        from regauge.providers.batches import BatchTag

        path = self._directory.requests_path(state.name)
        file_id = await client.upload(path)
        self._directory.save(state, "starting")
        try:
            batch = await client.start(path, file_id, BatchTag(project=self._tag, name=state.name))
        except ProviderError as error:
            if error.status is not None and 400 <= error.status < 500:  # noqa: PLR2004 - refused
                self._directory.save(state, "written")
                raise
            # It may have started all the same.
            remote_batches = await client.list_since(self._now - _CLOCKS_S)
            started = await self._find_remote(state, remote_batches, client)
            if started is None:
                raise
            batch = started
        self._directory.save(state, "started", batch_id=batch.id)

    def _suspect(self, state: BatchState) -> str | None:
        """A running batch of another machine that may hold the same calls; None without one."""
        for provider, batch in self._suspects:
            is_running = batch.created_at > self._now - _WINDOW_S
            has_as_many = batch.requests in {None, state.requests}
            if provider == state.provider and has_as_many and is_running:
                return batch.id
        return None


def format_moment(time_s: float) -> str:
    """A time as the names of batches begin: `20260131T235959Z`."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y%m%dT%H%M%SZ")


def _project_name(project: Project) -> str:
    """The project's name on every machine: from pyproject.toml, or of its directory."""
    import tomllib

    with suppress(OSError, ValueError, KeyError, TypeError):
        name = tomllib.loads(project.pyproject.read_text(encoding="utf-8"))["project"]["name"]
        if isinstance(name, str):
            return name
    return project.root.name
