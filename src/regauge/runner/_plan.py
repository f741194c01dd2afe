"""The plan of a run: questions with the keys of their completions, trials, and gaps."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from regauge.datasets import assign_by_time, case_ids
from regauge.digests import digest_of
from regauge.errors import GitError, RegaugeError
from regauge.git import run_git, work_tree
from regauge.recordings import RecordingKey, append_lines, read_lines, request_summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from regauge.datasets import Dataset, GoldenCase, Shard
    from regauge.digests import JSON
    from regauge.judges import ModelJudge
    from regauge.project import Project
    from regauge.prompts import Prompt
    from regauge.providers import CompletionRequest
    from regauge.runner._suite import Eval
    from regauge.targets import Target


PART_RECORDINGS: Final = "recordings"
"""The directory of a shard's recordings in the record of its run."""
PART_TRIALS: Final = "gate-trials.jsonl"
"""The file of a shard's trials of the gate in the record of its run."""

# Trials of baselines and gates say little of how long an eval takes.
_EVAL_TRIALS: Final = 100


class _Savable(Protocol):
    """A file of recordings that keeps changes in memory."""

    path: Path

    def new_lines(self) -> list[bytes]: ...
    def save(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFiles:
    """A shard of a run, and the files that it leaves.

    Attributes:
        shard: The shard.
        recordings_dir: The committed recordings; a shard reads them only.
        directory: The record of the run.
    """

    shard: Shard
    recordings_dir: Path
    directory: Path
    _dealt: set[str] = field(default_factory=set[str])

    def add(self, dataset: Dataset) -> None:
        """Note the cases of a dataset that is dealt by time."""
        if dataset.shard is not None and dataset.shard.case_ids is not None:
            self._dealt.update(dataset.shard.case_ids)

    def own(self, case_id: str) -> bool:
        """Return whether a case may be of this shard."""
        return (
            case_id in self._dealt
            if self.shard.assigned_by == "time"
            else self.shard.includes(case_id)
        )

    @property
    def trials(self) -> Path:
        """The file of the gate's trials."""
        return self.directory / PART_TRIALS

    def path_of(self, path: Path) -> Path:
        """The file for the new lines of a file of recordings."""
        return self.directory / PART_RECORDINGS / path.relative_to(self.recordings_dir)


def save_file(file: _Savable, part: PartFiles | None) -> int:
    """Save a file, or leave its new lines with a shard's; returns how many lines changed.

    Raises:
        RecordingError: It cannot be written.
    """
    return file.save() if part is None else append_lines(part.path_of(file.path), file.new_lines())


def count_lines(directory: Path) -> dict[str, int]:
    """The lines of each file that a shard left, by its path in the directory of the run."""
    paths = [
        directory / "trials.jsonl",
        directory / PART_TRIALS,
        *sorted((directory / PART_RECORDINGS).rglob("*.jsonl")),
    ]
    return {
        path.relative_to(directory).as_posix(): sum(1 for _ in read_lines(path))
        for path in paths
        if path.exists()
    }


def deal_dataset(shard: Shard, path: Path, *, prompt: str, project: Project) -> Shard:
    """The shard of one dataset that is dealt by time, with its cases.

    Every shard deals alike: by the golden file, and by recordings as they are committed.

    Args:
        shard: Of the run.
        path: The golden file.
        prompt: The prompt that its cases are put to.
        project: Whose recordings.

    Raises:
        DatasetError: The golden file cannot be read.
    """
    ids = case_ids(path, fixtures_dir=project.fixtures_dir)
    seconds: defaultdict[str, float] = defaultdict(float)
    for name in (f"{prompt}.jsonl", f"judges/{prompt}.jsonl"):
        for case, took_s in _read_latencies(project, project.recordings_dir / name):
            seconds[case] += took_s
    known_seconds = [seconds[case] for case in ids if case in seconds]
    mean = sum(known_seconds) / len(known_seconds) if known_seconds else 1.0
    parts = assign_by_time(
        {case: seconds.get(case, mean) for case in ids}, count=shard.count, first=path.stem
    )
    plan = digest_of([sorted(part) for part in parts])
    return replace(shard, case_ids=frozenset(parts[shard.number - 1]), plan=plan)


def _read_latencies(project: Project, path: Path) -> Iterator[tuple[str, float]]:
    """The case and the seconds of every call of evals in a file, as it is committed."""
    for raw in _committed_lines(project, path):
        try:
            document = json.loads(raw)
            if document["trial"] < _EVAL_TRIALS or "judge" in document:
                yield document["case"], float(document["completion"]["latency_s"])
        except (ValueError, KeyError, TypeError):
            continue  # where the file is read for its completions, it is refused


def _committed_lines(project: Project, path: Path) -> Iterator[bytes]:
    try:
        same = run_git(project.root, "diff", "--quiet", "HEAD", "--", str(path.resolve()))
        if same.returncode == 1:
            name = path.resolve().relative_to(work_tree(project.root) or project.root).as_posix()
            committed = run_git(project.root, "show", f"HEAD:{name}")
            yield from committed.stdout.splitlines()
            return
    except GitError:
        pass  # outside a repository the file is what every shard was given
    for _, _, raw in read_lines(path):
        yield raw


def judges_file(prompt: str) -> str:
    """The recordings file of the calls of judges of a prompt, as `Answers.file` takes it."""
    return f"judges/{prompt}"


class AnswerKey(NamedTuple):
    """The key that an answer is found and kept by.

    Attributes:
        file: The recordings it belongs to, as `Answers.file` takes it.
        key: Its request and number.
        trial: The trial of the prompt that it is about; a judge's calls have numbers of their own.
        provider: Who gives it.
    """

    file: str
    key: RecordingKey
    trial: int
    provider: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRequest:
    """A request to a model for one case.

    Attributes:
        file: The recordings the answer belongs to, as `Answers.file` takes it.
        prompt: The prompt that is evaluated.
        version: Its version, or None where it has none.
        asker_digest: Of the prompt, or of the judge that asks.
        case: The id of the case.
        case_at: Its file and line; empty where it has none.
        judge: The judge that asks; None when it is the prompt.
        key: What the answer is found by.
        trial: The trial of the prompt that it belongs to; a judge's calls have numbers of their
            own.
        target: What answers instead of a model.
    """

    request: CompletionRequest
    key: RecordingKey
    file: str
    prompt: str
    version: str | None
    asker_digest: str
    case: str
    case_at: str = ""
    trial: int = 0
    judge: str | None = None
    target: Target | None = None

    @classmethod
    def of_draw(cls, draw: Draw, *, request: CompletionRequest | None = None) -> Self:
        """The request of the prompt itself."""
        prompt = draw.planned.suite.prompt
        return cls(
            request=draw.planned.request(draw.trial) if request is None else request,
            key=draw.key if request is None else draw.planned.key_of(request.digest, draw.trial),
            file=prompt.name,
            prompt=prompt.name,
            version=str(prompt.version) if prompt.version else None,
            asker_digest=prompt.digest,
            case=draw.planned.case.id,
            case_at=draw.planned.case.location,
            trial=draw.trial,
            target=draw.planned.suite.target,
        )

    @classmethod
    def of_judge(cls, request: CompletionRequest, *, draw: Draw, judge: ModelJudge) -> Self:
        """The request of a judge about a completion."""
        return replace(
            cls.of_draw(draw, request=request),
            key=draw.planned.key_of(request.digest, request.trial),
            file=judges_file(draw.planned.suite.prompt.name),
            asker_digest=judge.digest,
            judge=judge.name,
            target=None,
        )

    @classmethod
    def of_refiner(cls, request: CompletionRequest, *, prompt: Prompt, command: str) -> Self:
        """The request of a command to its refiner model, recorded in a file of the command."""
        return cls(
            request=request,
            key=RecordingKey.from_request(request),
            file=f"{command}/{prompt.name}",
            prompt=prompt.name,
            version=str(prompt.version) if prompt.version else None,
            asker_digest=prompt.digest,
            case=command,
        )

    @property
    def answer_key(self) -> AnswerKey:
        """The key of its answer."""
        return AnswerKey(self.file, self.key, self.trial, self.request.provider)

    @property
    def model(self) -> str:
        """The model, as `provider:model`."""
        return f"{self.request.provider}:{self.request.model}"

    @property
    def summary(self) -> Mapping[str, JSON]:
        """The facts of the request for readers of the recording."""
        summary = request_summary(self.request, prompt_digest=self.asker_digest)
        if self.judge is None:
            return summary
        return {"judge_digest": summary.pop("prompt_digest"), **summary}


@dataclass(slots=True, eq=False)
class PlannedCase:
    """One pytest item: a case of a suite.

    Attributes:
        digest: The digest of the case's request, once planned; every trial shares it.
        error: Why the case cannot be asked at all, such as a missing input.
        partner: What alone its trials are compared with, such as a request of another version;
            trials that are stored for another partner are not its own.
    """

    suite: Eval
    case: GoldenCase
    digest: str = ""
    error: RegaugeError | None = None
    partner: str = ""

    def plan(self) -> str:
        """The digest of the request, worked out once.

        Raises:
            RegaugeError: The case cannot be asked.
        """
        if self.error is not None:
            raise self.error
        self.digest = self.digest or self.request(0).digest
        return self.digest

    def key_of(self, digest: str, trial: int) -> RecordingKey:
        """The key of the completion of a request in one of its trials."""
        return RecordingKey(digest_of([digest, self.partner]) if self.partner else digest, trial)

    def request(self, trial: int) -> CompletionRequest:
        """The request to the model for one trial."""
        return self.suite.request(self.case, trial)

    @property
    def converses(self) -> bool:
        """Return whether a trial is a conversation that the run leads."""
        target = self.suite.target
        return self.case.script is not None and (target is None or target.outputs is None)


@dataclass(frozen=True, slots=True)
class Draw:
    """One answer to get: a trial of a planned case."""

    planned: PlannedCase
    trial: int

    @property
    def id(self) -> tuple[int, int]:
        """The id of this trial within the plan."""
        return (id(self.planned), self.trial)

    @property
    def key(self) -> RecordingKey:
        """The key of the trial's recording."""
        return self.planned.key_of(self.planned.digest, self.trial)

    @property
    def answer_key(self) -> AnswerKey:
        """The key of its answer."""
        suite = self.planned.suite
        return AnswerKey(suite.prompt.name, self.key, self.trial, suite.model.provider)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The cases of a run in the order they will be judged, and the draws without a completion.

    Attributes:
        ahead: Whether models are called ahead of the cases that are judged.
    """

    cases: Sequence[PlannedCase]
    missing: Sequence[Draw] = field(default_factory=list[Draw])
    ahead: bool = True

    @property
    def digest(self) -> str:
        """Tells this plan from another: the same command on the same files has the same."""
        return digest_of([[planned.digest, planned.suite.trials] for planned in self.cases])

    @property
    def asks(self) -> Sequence[Draw]:
        """The draws that may take a model: those without an answer, and those that one judges."""
        if not self.ahead:
            return ()
        if not any(planned.suite.standings for planned in self.cases):
            return self.missing
        missing = {draw.id for draw in self.missing}
        return [
            draw
            for draw in self.draws()
            if draw.id in missing
            or (draw.planned.suite.model_judges and draw.planned.error is None)
        ]

    def draws(self) -> Iterator[Draw]:
        """Every draw of the plan, missing or not."""
        for planned in self.cases:
            for trial in range(planned.suite.trials):
                yield Draw(planned, trial)


def plan_cases(
    cases: Sequence[PlannedCase], *, answered: Callable[[PlannedCase, RecordingKey], bool]
) -> Plan:
    """Work out the key of every case, and which draws have no answer yet.

    Args:
        cases: In the order they will be judged.
        answered: Whether there is an answer for a key; where that cannot be found out, the case
            cannot be asked.
    """
    missing: list[Draw] = []
    for planned in cases:
        if planned.error is not None:
            continue
        try:
            planned.digest = planned.request(0).digest
            missing += [
                Draw(planned, trial)
                for trial in range(planned.suite.trials)
                if not answered(planned, RecordingKey(planned.digest, trial))
            ]
        except RegaugeError as error:
            planned.error = error
    return Plan(cases=cases, missing=missing)
