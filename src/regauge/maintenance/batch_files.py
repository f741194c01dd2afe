"""The files of batches in `.regauge/batches`, and the ids of the calls in them.

For each batch, NAME.json has its state, NAME.jsonl its requests, and NAME.results-N.jsonl its
results once there are any.
"""

from __future__ import annotations

import base64
import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regauge.errors import UsageError
from regauge.files import write_whole
from regauge.recordings import RecordingKey
from regauge.wording import printable

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.project import Project
    from regauge.providers.batches import ResultLine

DIRECTORY: Final = "batches"
"""The directory below `.regauge`."""
NAME_PATTERN: Final = r"^\d{8}T\d{6}Z-[0-9a-f]{6}-\d{1,6}$"
"""The names of batches: the time of their start, a random number, a number in their command."""
_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}-\d{1,15}")


def result_id(key: RecordingKey) -> str:
    """The `custom_id` of a call: its key, in the 64 characters that providers accept.

    >>> result_id(RecordingKey("00" * 31 + "ff", 2))
    'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP8-2'
    """
    digest = base64.urlsafe_b64encode(bytes.fromhex(key.digest)).decode().rstrip("=")
    return f"{digest}-{key.trial}"


def key_of(custom_id: str) -> RecordingKey | None:
    """The key in a `custom_id`; None if regauge did not make it.

    >>> key_of("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP8-2") == RecordingKey("00" * 31 + "ff", 2)
    True
    >>> key_of("request-1") is None
    True
    """
    if not _ID.fullmatch(custom_id):
        return None
    digest = base64.urlsafe_b64decode(f"{custom_id[:43]}=").hex()
    return RecordingKey(digest, int(custom_id[44:]))


_Status: TypeAlias = Literal["written", "starting", "started", "ended", "collected", "by-hand"]


class BatchState(BaseModel):
    """The document NAME.json.

    Attributes:
        model: `provider:model`; without a model if the batch was found at its provider.
        status: `written` is not uploaded, and `starting` may have started. `collected` has no
            further results. In `by-hand`, the user runs the file.
        failed: Reasons for missing completions by `custom_id`, from files of `--collect`.
        cut: The size of truncated results at the last download; None if complete.
        is_complete: Whether all results arrived.
    """

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    model: str
    requests: int
    status: _Status
    batch_id: str = ""
    created_at: float
    failed: dict[str, str] = {}
    problems: list[str] = []
    cut: int | None = None
    is_complete: bool = True
    provider_status: str = ""

    @property
    def provider(self) -> str:
        """The name of the provider."""
        return self.model.partition(":")[0]

    def add_request(self) -> None:
        """Count one more request."""
        self.requests += 1

    def note_progress(self, provider_status: str, problems: list[str]) -> None:
        """Note the provider's status of a batch, and its problems."""
        self.provider_status, self.problems = provider_status, problems

    def note_results(self, cut: int | None) -> None:
        """Note downloaded results; those whose truncated size did not grow are complete."""
        self.is_complete = cut is None or self.cut == cut
        self.cut = cut

    @property
    def problem(self) -> str:
        """The reason why a call of a batch that has ended has no result."""
        if self.provider_status in {"completed", "ended", ""}:
            return f"no result in batch {self.name}"
        return ": ".join([f"batch {self.provider_status}", *self.problems])


@dataclass(frozen=True, slots=True)
class ResultPlace:
    """The place of a result in a file."""

    path: Path
    offset: int
    length: int

    def read(self) -> ResultLine:
        """The result."""
        from regauge.providers.batches import ResultLine

        with self.path.open("rb") as file:
            file.seek(self.offset)
            return ResultLine.parse(file.read(self.length))


@dataclass(slots=True, kw_only=True)
class ResultLines:
    """The lines of result files.

    Attributes:
        places: The place of the first completion by call.
        problems: The failure by call, for calls without a completion.
        unreadable: Lines that are not a result or contradict one, with file, number and reason.
        cut: Whether the last line of a file is truncated.
        lines: The number of lines.
    """

    places: dict[str, ResultPlace] = field(default_factory=dict[str, ResultPlace])
    problems: dict[str, str] = field(default_factory=dict[str, str])
    unreadable: list[str] = field(default_factory=list[str])
    cut: bool = False
    lines: int = 0

    def add(self, path: Path, place: str) -> None:
        """Read one file."""
        from regauge.providers.batches import LINE_MAX, ResultLine

        with path.open("rb") as file:
            number = offset = 0
            while line := file.readline(LINE_MAX + 1):
                number, start = number + 1, offset
                offset += len(line)
                long = len(line) > LINE_MAX
                while len(line) > LINE_MAX and not line.endswith(b"\n"):
                    line = file.readline(LINE_MAX + 1)
                    offset += len(line)
                if not line.strip() and not long:
                    continue
                self.lines += 1
                problem = f"longer than {LINE_MAX} bytes" if long else ""
                try:
                    if not long:
                        problem = self._add_result(
                            ResultLine.parse(line), ResultPlace(path, start, len(line))
                        )
                except (ValueError, RecursionError) as error:
                    cut = not line.endswith(b"\n")
                    self.cut = self.cut or cut
                    reason = "not JSON" if isinstance(error, json.JSONDecodeError) else str(error)
                    problem = "cut off" if cut else printable(reason)[:80]
                if problem:
                    self.unreadable.append(f"{place}:{number}: {problem}")

    def _add_result(self, result: ResultLine, place: ResultPlace) -> str:
        """Add a result; return the reason for ignoring it, or an empty text."""
        if result.body:
            first = self.places.setdefault(result.custom_id, place)
            if first is not place and first.read().body != result.body:
                return f"contradicts an earlier result of {result.custom_id}"
        else:
            self.problems.setdefault(result.custom_id, result.problem)
        return ""


class BatchDirectory:
    """The batches of a project as files.

    Args:
        project: The project.

    Attributes:
        path: The directory.
        batches: The known batches, the oldest first.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self.path = project.state_dir / DIRECTORY
        self.batches: list[BatchState] = []

    def requests_path(self, name: str) -> Path:
        """The file of requests of a batch."""
        return self.path / f"{name}.jsonl"

    def result_path(self, state: BatchState, number: int) -> Path:
        """The path of a file of results, by its number from 0."""
        return self.path / f"{state.name}.results-{number}.jsonl"

    def result_paths(self, state: BatchState) -> list[Path]:
        """The files of results of a batch."""
        return sorted(self.path.glob(f"{state.name}.results-*.jsonl"))

    def save(
        self, state: BatchState, status: _Status | None = None, *, batch_id: str | None = None
    ) -> None:
        """Write the state of a batch, with its new status and id if there are any."""
        state.status = status or state.status
        state.batch_id = batch_id or state.batch_id
        text = json.dumps(state.model_dump(mode="json"), indent=2, ensure_ascii=False)
        write_whole(self.path / f"{state.name}.json", f"{text}\n".encode())

    def remove(self, state: BatchState, *, keep_state: bool = False) -> None:
        """Remove the files of a batch."""
        for path in (self.requests_path(state.name), *self.result_paths(state)):
            path.unlink(missing_ok=True)
        if not keep_state:
            (self.path / f"{state.name}.json").unlink(missing_ok=True)

    def load(self) -> None:
        """Read the states, and remove files without one.

        Raises:
            UsageError: A state cannot be read.
        """
        for path in sorted(self.path.glob("*.json")):
            try:
                state = BatchState.model_validate_json(path.read_bytes())
            except (OSError, ValidationError) as error:
                message = f"{self._project.relative(path)} cannot be read: {type(error).__name__}"
                fix = "remove it; the batch is found again at its provider"
                raise UsageError(message, fix=fix) from error
            has_results = state.status in {"ended", "collected"}
            if not has_results and not self.requests_path(state.name).exists():
                # The user removed the file of requests; a started batch is found again.
                path.unlink()
                continue
            self.batches.append(state)
        names = {state.name for state in self.batches}
        for path in self.path.glob("*.jsonl"):
            name = path.name.partition(".")[0]
            if name not in names and re.fullmatch(NAME_PATTERN, name):
                path.unlink()  # the command was killed before it had noted the batch

    def ids_of(self, state: BatchState) -> list[str]:
        """The calls of a batch; empty if not known yet."""
        try:
            content = self.requests_path(state.name).read_bytes()
        except FileNotFoundError:
            return []
        ids: list[str] = []
        for line in content.splitlines():
            # The id comes first in a line of ours; a file from a provider may order its keys.
            match = re.match(rb'\{"custom_id":"([A-Za-z0-9_-]{45,60})"', line)
            if match is not None:
                ids.append(match[1].decode())
                continue
            with suppress(ValueError, TypeError, KeyError):
                ids.append(str(json.loads(line)["custom_id"]))
        return ids

    def results_of(self, state: BatchState) -> ResultLines:
        """The downloaded results of a batch."""
        results = ResultLines()
        for path in self.result_paths(state):
            results.add(path, self._project.relative(path).as_posix())
        return results
