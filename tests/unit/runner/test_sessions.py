"""Recordings that a run can use, judges that it prepares, and evals that it cannot bind."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from regauge.datasets import Script, Turn
from regauge.errors import JudgeError, ProviderError, RecordingError, RenderError, UsageError
from regauge.judges import EmbeddingModel, means_like, min_chars
from regauge.project import Project
from regauge.prompts import parse_prompt
from regauge.providers import Completion
from regauge.recordings import Recording, RecordingKey, RecordingsFile
from regauge.runner import (
    EvalSession,
    PlannedCase,
    PlannedTrial,
    RunOptions,
    SourcedCompletion,
    golden,
    spec_of,
)
from regauge.runner._conversation import replay
from regauge.runner._judging import ModelJudging, _prepare, no_network
from regauge.runner._providers import endpoint_digest
from regauge.runner._session import needed_keys, recorded_trials
from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def recording(key: RecordingKey, *, case: str = "c0", model: str = "sim:clerk-1") -> Recording:
    return Recording(
        key=key,
        prompt="alert",
        version="1.0.0",
        case=case,
        model=model,
        completion=Completion(text=model, finish_reason="stop", provider="sim", model="m"),
        recorded_at="2026-01-01T00:00:00Z",
        request={},
    )


def test_the_digest_of_an_endpoint_is_the_same_whenever_it_is_asked_for(tmp_path: Path):
    endpoint = '[tool.regauge.providers.x]\nbase_url = "http://127.0.0.1:9/v1"\n'
    (tmp_path / "pyproject.toml").write_text(endpoint, "utf-8")
    project = Project(root=tmp_path)
    completions = EvalSession(project, RunOptions(record="none"), environ={}).completions
    digest = endpoint_digest(project.settings, {}, "x")
    assert digest
    assert [completions.endpoint("x"), completions.endpoint("x")] == [digest, digest]


def test_recordings_of_any_trial_and_model_of_a_case_are_needed(made: Any, tmp_path: Path):
    suite = made.suite()
    case, changed = PlannedCase(suite, made.case(0)), PlannedCase(suite, made.case(1))
    broken = PlannedCase(suite, made.case(2, inputs={}))
    with pytest.raises(RenderError) as caught:
        broken.plan()
    broken = replace(broken, error=caught.value)
    digest, other = case.plan(), replace(case.request(0), model="clerk-2").digest
    recordings = [
        recording(RecordingKey(digest, 0)),
        recording(RecordingKey(digest, 7)),
        recording(RecordingKey(other, 0), model="sim:clerk-2"),
        recording(RecordingKey("a" * 64, 0), case="c1"),
        recording(RecordingKey("b" * 64, 0), case="c2"),
        recording(RecordingKey("c" * 64, 0), case="gone", model="odd"),
    ]
    file = RecordingsFile.load(tmp_path / "alert.jsonl")
    file.merge(recordings, replace=False)
    cases = [case, changed, broken]
    assert needed_keys(file, cases) == {recordings[n].key for n in (0, 1, 2, 4)}
    found = [
        (trial.planned_case.case.id, trial.trial, sourced.completion.text)
        for trial, sourced in recorded_trials(file, cases)
    ]
    assert sorted(found) == [
        ("c0", 0, "sim:clerk-1"),
        ("c0", 0, "sim:clerk-2"),
        ("c0", 7, "sim:clerk-1"),
    ]
    assert recorded_trials(file, [changed, broken]) == []


def test_recorded_conversations_are_needed_as_far_as_they_go(made: Any, tmp_path: Path):
    script = Script(turns=(Turn(user="Hi"), Turn(user="Bye")))
    text = "version: 1.0.0\nmodel: sim:clerk-1\nmessages:\n  - role: system\n    content: Help.\n"
    suite = replace(
        made.suite(), prompt=parse_prompt(text, path=tmp_path / "prompts/talk.prompt.yml")
    )
    case = PlannedCase(suite, made.case(0, inputs={}, script=script))
    keys: list[RecordingKey] = []

    def completion_of(request: Any) -> Any:
        keys.append(request.key)
        completion = Completion(text=str(len(keys)), finish_reason="stop")
        return SourcedCompletion(completion=completion, source="live")

    whole = replay(PlannedTrial(case, 2), completion_of)
    assert whole is not None
    file = RecordingsFile.load(tmp_path / "talk.jsonl")
    for number, key in enumerate(keys, start=1):
        done = Completion(text=str(number), finish_reason="stop", provider="sim", model="m")
        file.merge([replace(recording(key), completion=done)], replace=False)
        assert needed_keys(file, [case]) == {*keys[:number]}
    odd = replace(recording(RecordingKey("d" * 64, 2), model="odd"), case="c0")
    file.merge([odd], replace=False)
    assert needed_keys(file, [case]) == {*keys}
    ((trial, sourced),) = recorded_trials(file, [case])
    assert (trial.trial, sourced.completion.text) == (2, "2")


class Prepared:
    """A judge whose measurements are recorded, with something to load."""

    name = "tone"

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.calls = 0

    def prepare(self) -> None:
        self.calls += 1
        if self.error is not None:
            raise self.error

    async def measure_with(self) -> None: ...


class Plain:
    """A judge with nothing to load."""

    name = "plain"


def judging() -> ModelJudging:
    unused: Any = None
    return ModelJudging(get_response=unused, measurements=unused, rejudge=unused)


@pytest.mark.parametrize("in_this_thread", [False, True])
def test_a_judge_is_prepared_once_and_its_error_goes_to_all_callers(*, in_this_thread: bool):
    judges, fine, plain = judging(), Prepared(), Plain()
    given: Any = fine
    future = judges.prepare(given, in_this_thread=in_this_thread)
    assert future.result(5) is None
    assert judges.prepare(given, in_this_thread=in_this_thread) is future
    assert fine.calls == 1
    given = plain
    assert judges.prepare(given).result(5) is None
    given = Prepared(ValueError("no model"))
    failed = judges.prepare(given, in_this_thread=in_this_thread)
    with pytest.raises(ValueError, match="no model"):
        failed.result(5)


def test_an_interrupt_while_a_judge_loads_ends_the_run():
    future: Future[None] = Future()
    given: Any = Prepared(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        _prepare(given, future)
    assert isinstance(future.exception(0), KeyboardInterrupt)


def test_the_network_is_restored_unless_other_code_replaced_it(monkeypatch: pytest.MonkeyPatch):
    lookup, before = socket.getaddrinfo, dict(vars(socket.socket))
    with no_network("tone", active=True), no_network("tone", active=True):
        assert socket.getaddrinfo is not lookup
    assert socket.getaddrinfo is lookup
    assert dict(vars(socket.socket)) == before
    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    other = lambda *_: []  # noqa: E731
    with no_network("tone", active=True):
        socket.getaddrinfo = other
    assert socket.getaddrinfo is other
    monkeypatch.undo()
    with (
        pytest.raises(
            JudgeError, match=r"^tone opens a connection to 127.0.0.1:9, and a run with --"
        ),
        no_network("tone", active=True),
    ):
        socket.create_connection(("127.0.0.1", 9))
    with pytest.raises(OSError, match="refused"), no_network("tone", active=False):
        socket.create_connection(("127.0.0.1", 9))


@golden("alert", target="app:run", judges=[min_chars(1)], model="sim:clerk-1")
def with_model(result: Any) -> None: ...


@golden("alert", target="app:run", judges=[min_chars(1)], version="1.0.0")
def with_version(result: Any) -> None: ...


@pytest.mark.parametrize(("function", "name"), [(with_model, "model"), (with_version, "version")])
def test_a_model_or_version_is_of_a_prompt_and_not_of_a_target(
    tmp_path: Path, function: Any, name: str
):
    golden_file = tmp_path / "fixtures/golden/alert.jsonl"
    golden_file.parent.mkdir(parents=True)
    golden_file.write_text('{"id": "a", "inputs": {}}\n')
    session = EvalSession(Project(root=tmp_path), RunOptions(record="none"), environ={})
    with pytest.raises(UsageError) as caught:
        session.bind(spec_of(function), function)
    assert f": {name} changes a prompt, and alert tests the target 'app:run'\n" in str(caught.value)
    session.close()


def test_a_store_that_cannot_be_used_leaves_the_cases_unmeasured(made: Any, tmp_path: Path):
    (tmp_path / ".regauge/store.sqlite3").mkdir(parents=True)
    session = EvalSession(Project(root=tmp_path), RunOptions(record="all"), environ={})
    cases = [PlannedCase(made.suite(), made.case(number)) for number in range(2)]
    plan = session.prepare(cases)
    assert plan.missing == []
    assert all(isinstance(case.error, RecordingError) for case in plan.cases)
    session.close()


class Atlas:
    """An embedder of the user's own."""

    model = "atlas:places-1"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [[1.0] for _ in texts]


class Vectors(Served):
    """Gives one vector for every text."""

    vector = [0.25, 1.0]  # noqa: RUF012 - a test replaces it

    def __init__(self) -> None:
        self.inputs: list[list[str]] = []
        server = self

        class Handler(JsonHandler):
            def answer(self) -> None:
                texts = self.given()["input"]
                server.inputs.append(texts)
                data = [
                    {"object": "embedding", "index": place, "embedding": server.vector}
                    for place, _ in enumerate(texts)
                ]
                usage = {"prompt_tokens": 1, "total_tokens": 1}
                self.say({"object": "list", "model": "small", "data": data, "usage": usage})

        super().__init__(Handler)


@pytest.fixture
def served(socket_enabled: None) -> Iterator[Vectors]:
    with Vectors() as server:
        yield server


def embeddings(root: Path, served: Vectors, mode: Any) -> Any:
    (root / "pyproject.toml").write_text(
        f'[tool.regauge.providers.local]\nbase_url = "{served.address}/v1"\nmax_attempts = 1\n'
    )
    return EvalSession(Project.find(root), RunOptions(record=mode), environ={}).embeddings


def test_vectors_are_recorded_and_an_embedder_of_the_user_is_left_alone(
    made: Any, tmp_path: Path, served: Vectors
):
    own, model = means_like(Atlas()), means_like(EmbeddingModel("local:small"))
    given = embeddings(tmp_path, served, "missing")
    suite = replace(made.suite(), judges=(own, model, min_chars(1)))
    (bound,) = given.bind([suite])
    assert bound.judges[0] is own
    assert bound.judges[2] is suite.judges[2]
    embedder = bound.judges[1].embedder
    assert asyncio.run(embedder.embed(["a", "b", "a"])) == [(0.25, 1.0)] * 3
    assert asyncio.run(embedder.embed(["b", "c"])) == [(0.25, 1.0)] * 2
    assert served.inputs == [["a", "b"], ["c"]]
    assert given.requested_texts == 3
    assert [*given.finish().values()] == [3]
    replayed = embeddings(tmp_path, served, "none")
    assert asyncio.run(replayed.vectors("local:small", ["a"], prompt="alert")) == [(0.25, 1.0)]
    with pytest.raises(
        ProviderError, match=r"are not recorded .*\n  record them: regauge record al"
    ):
        asyncio.run(replayed.vectors("local:small", ["d"], prompt="alert"))
    assert len(served.inputs) == 2


def test_judges_that_need_a_text_at_once_request_it_once(tmp_path: Path, served: Vectors):
    given = embeddings(tmp_path, served, "missing")

    async def main() -> Any:
        calls = (given.vectors("local:small", texts, prompt="alert") for texts in ("ab", "bc"))
        return await asyncio.gather(*calls)

    assert asyncio.run(main()) == [[(0.25, 1.0)] * 2] * 2
    assert served.inputs == [["a", "b"], ["c"]]


def test_a_run_that_records_all_requests_each_text_once_again(tmp_path: Path, served: Vectors):
    def vectors(given: Any, texts: Sequence[str]) -> Any:
        return asyncio.run(given.vectors("local:small", texts, prompt="alert"))

    given = embeddings(tmp_path, served, "missing")
    vectors(given, ["a", "b"])
    given.finish()
    served.vector = [0.5, 0.5]
    given = embeddings(tmp_path, served, "all")
    assert [vectors(given, ["a"]) for _ in range(2)] == [[(0.5, 0.5)]] * 2
    assert served.inputs == [["a", "b"], ["a"]]
    assert [*given.finish().values()] == [1]
    replayed = embeddings(tmp_path, served, "none")
    assert vectors(replayed, ["a", "b"]) == [(0.5, 0.5), (0.25, 1.0)]
    assert replayed.finish() == {}


@pytest.mark.parametrize(
    ("mode", "on_base", "requested"),
    [
        ("missing", True, 0),
        ("missing", False, 1),
        ("none", False, 0),  # a replay uses all recordings
    ],
)
def test_a_gate_uses_only_the_vectors_that_the_base_has(
    tmp_path: Path, served: Vectors, mode: str, on_base: Any, requested: int
):
    given = embeddings(tmp_path, served, "missing")
    asyncio.run(given.vectors("local:small", ["a"], prompt="alert"))
    (path,) = given.finish()
    before = path.read_bytes()
    served.vector = [0.5, 0.5]
    given = embeddings(tmp_path, served, mode)
    given.trust(lambda file: before if on_base and file == path else None)
    vector = tuple(served.vector) if requested else (0.25, 1.0)
    assert asyncio.run(given.vectors("local:small", ["a"], prompt="alert")) == [vector]
    assert given.requested_texts == requested
    assert [*given.finish().values()] == [1] * requested


def test_what_is_no_vector_is_an_error_of_its_model(tmp_path: Path, served: Vectors):
    served.vector = [1e39]
    given = embeddings(tmp_path, served, "missing")
    with pytest.raises(ProviderError, match=r"^local:small gave ") as caught:
        asyncio.run(given.vectors("local:small", ["a"], prompt="alert"))
    assert caught.value.kind == "malformed"
    for model, words in (("sim:clerk-1", "the simulated model"), ("x:m", "no provider 'x'")):
        with pytest.raises(UsageError, match=words):
            asyncio.run(given.vectors(model, ["a"], prompt="alert"))
