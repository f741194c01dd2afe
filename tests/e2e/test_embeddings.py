"""Judges of meaning under pytest: vectors are recorded once and replayed by everybody after."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.test_plugin_records import NO_SOCKETS
from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from tests.conftest import EvalProject

JUDGE = 'means_like(to=expected("meaning"), model="vectors:small", at_least=0.8)'


class Embeddings(Served):
    """An endpoint for vectors on 127.0.0.1: the shares of letters a text is made of.

    Attributes:
        texts: What it was asked for, in the order it was asked.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        texts = self.texts

        class Handler(JsonHandler):
            def answer(self) -> None:
                asked = self.given()
                assert self.path == "/v1/embeddings"
                assert asked["model"] == "small"
                texts.extend(asked["input"])
                data = [
                    {"object": "embedding", "index": index, "embedding": vector_of(text)}
                    for index, text in enumerate(asked["input"])
                ]
                usage = {"prompt_tokens": 1, "total_tokens": 1}
                document = {"object": "list", "model": "small", "data": data, "usage": usage}
                self.say(document)

        super().__init__(Handler)
        self.base_url = f"{self.address}/v1"


def vector_of(text: str) -> list[float]:
    counts = [text.lower().count(chr(letter)) for letter in range(ord("a"), ord("z") + 1)]
    length = math.hypot(*counts) or 1.0
    return [count / length for count in counts]


def cosine(one: str, other: str) -> float:
    return math.fsum(a * b for a, b in zip(vector_of(one), vector_of(other), strict=True))


@pytest.fixture
def vectors() -> Any:
    with Embeddings() as served:
        yield served


@pytest.fixture
def meant(live: EvalProject, vectors: Embeddings) -> EvalProject:
    """Five answers, each of which means what is expected of it."""
    table = f'[tool.regauge.providers.vectors]\nbase_url = "{vectors.base_url}"\nmax_attempts = 1\n'
    live.settings(provider=f"\n{table}")
    live.golden(
        live.case(number) | {"expected": {"meaning": f"critical severity: it says so, {number}"}}
        for number in range(5)
    )
    live.judged_by(JUDGE)
    return live


def recorded(project: EvalProject) -> bytes:
    path = project.root / "fixtures/recordings/embeddings/vectors.small.jsonl"
    return path.read_bytes() if path.exists() else b""


def forget_store(project: EvalProject) -> None:
    for store in project.root.glob(".regauge/store.sqlite3*"):
        store.unlink()


def verdicts(project: EvalProject) -> list[Any]:
    return [(row["case"], row["verdicts"][0]) for row in project.rows()]


def test_vectors_are_recorded_and_replayed_without_the_server(
    meant: EvalProject, vectors: Embeddings
):
    result = meant.run()
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(
        ["recorded: 6 vectors in fixtures/recordings/embeddings/vectors.small.jsonl;*"]
    )
    asked, lines, live = sorted(vectors.texts), recorded(meant), verdicts(meant)
    assert len(asked) == len(set(asked)) == 6  # all five cases have one answer
    answer = next(text for text in asked if text.startswith("{"))
    for _, verdict in live:
        assert verdict["reason"].startswith("vectors:small: cosine 0.")
        number = verdict["reason"].split("so, ")[1][0]
        exact = cosine(answer, f"critical severity: it says so, {number}")
        assert abs(verdict["score"] - exact) < 1e-6
    vectors.stop()
    forget_store(meant)
    meant.write("evals/conftest.py", NO_SOCKETS)
    result = meant.run("--record=none")
    result.assert_outcomes(passed=5)
    assert result.ret == 0
    assert verdicts(meant) == live
    assert recorded(meant) == lines


def test_a_vector_that_is_not_recorded_is_unmeasured_in_a_replay(
    meant: EvalProject, vectors: Embeddings
):
    meant.run()
    del vectors.texts[:]
    meant.golden(
        meant.case(number) | {"expected": {"meaning": f"another text {number}"}}
        for number in range(5)
    )
    meant.write("evals/conftest.py", NO_SOCKETS)
    result = meant.run("--record=none")
    assert result.ret == 1
    assert result.parseoutcomes() == {"unmeasured": 5}
    result.stdout.fnmatch_lines(
        [
            "unmeasured: 5 cases of triage (not-recorded)",
            "  vectors of vectors:small are not recorded for these outputs and references",
            "    record them: regauge record triage",
        ]
    )
    assert vectors.texts == []


def test_the_command_that_a_replay_names_records_what_is_missing(
    meant: EvalProject, vectors: Embeddings
):
    dry = meant.command("record", "triage", "--dry-run")
    assert "needs recording: triage, 5 cases" in dry.stdout
    done = meant.command("record", "triage")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["5 of 5 completions recorded", "6 vectors recorded"]
    assert meant.command("record", "triage").stdout == "nothing is missing\n"
    assert len(vectors.texts) == 6
    vectors.stop()
    meant.run("--record=none").assert_outcomes(passed=5)
    (meant.root / "fixtures/recordings/embeddings/vectors.small.jsonl").unlink()
    dry = meant.command("record", "triage", "--dry-run")
    assert dry.stdout.startswith("5 completions without vectors: vectors of vectors:small are not")
    failed = meant.command("record", "triage")
    assert failed.returncode == 3
    assert "5 completions without vectors: vectors (http://127.0.0.1" in failed.stderr


def test_all_asks_anew_once_for_each_text(meant: EvalProject, vectors: Embeddings):
    meant.judged_by(f'{JUDGE}, {JUDGE}.with_name("once more")')
    meant.run()
    lines = recorded(meant)
    del vectors.texts[:]
    meant.run("--record=all").assert_outcomes(passed=5)
    assert len(vectors.texts) == len(set(vectors.texts)) == 6
    assert recorded(meant) == lines


def test_two_workers_write_one_file(meant: EvalProject):
    meant.run("-n2").assert_outcomes(passed=5)
    lines = recorded(meant).splitlines()
    assert len(lines) == 6
    assert lines == sorted(lines)
    forget_store(meant)
    meant.run("-n2", "--record=none").assert_outcomes(passed=5)


def test_a_lexical_measure_judges_only_where_it_is_asked_to(
    meant: EvalProject, vectors: Embeddings
):
    meant.run()
    vectors.stop()
    (meant.root / "fixtures/recordings/embeddings/vectors.small.jsonl").unlink()
    meant.judged_by(JUDGE[:-1] + ', fallback="chrf", fallback_at_least=0.01)')
    meant.run("--record=none").assert_outcomes(passed=5)
    for _, verdict in verdicts(meant):
        assert verdict["reason"].startswith(
            "vectors:small could not be called (not-recorded), lexical fallback: chrf 0."
        )


def test_a_provider_that_nothing_declares_ends_collection(meant: EvalProject, vectors: Embeddings):
    meant.judged_by('means_like(model="nowhere:small")')
    result = meant.run()
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*there is no provider 'nowhere'*"])
    meant.judged_by('means_like(model="sim:clerk-1")')
    result = meant.run()
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*the simulated model gives no vectors*"])
    assert vectors.texts == []


def test_a_broken_line_is_named(meant: EvalProject):
    meant.run()
    path = meant.root / "fixtures/recordings/embeddings/vectors.small.jsonl"
    path.write_bytes(b"<<<<<<< ours\n" + path.read_bytes())
    result = meant.run("--record=none")
    assert result.parseoutcomes() == {"unmeasured": 5}
    result.stdout.fnmatch_lines(["*embeddings/vectors.small.jsonl:1: not a recorded vector: *"])


def test_a_check_of_a_case_compares_meanings(meant: EvalProject, vectors: Embeddings):
    check = {"means_like": {"to": {"expected": "meaning"}, "model": "vectors:small"}}
    rows = [
        meant.case(number)
        | {
            "expected": {"meaning": f"critical severity: it says so, {number}"},
            "checks": [check | {"weight": 3}, {"contains": "no such text"}],
            "pass_at": 0.75,
        }
        for number in range(3)
    ]
    meant.golden(rows)
    meant.judged_by("")
    meant.run().assert_outcomes(passed=3)
    assert len(vectors.texts) == len(set(vectors.texts)) == 4
    live = verdicts(meant)
    vectors.stop()
    forget_store(meant)
    meant.write("evals/conftest.py", NO_SOCKETS)
    meant.run("--record=none").assert_outcomes(passed=3)
    assert verdicts(meant) == live
    (meant.root / "fixtures/recordings/embeddings/vectors.small.jsonl").unlink()
    result = meant.run("--record=none")
    assert result.parseoutcomes() == {"unmeasured": 3}
    result.stdout.fnmatch_lines(["*record them: regauge record triage"])


def test_record_finds_the_vectors_that_checks_need(meant: EvalProject, vectors: Embeddings):
    check = {"means_like": {"to": "critical severity", "model": "vectors:small"}}
    meant.golden(meant.case(number) | {"checks": [check]} for number in range(3))
    meant.judged_by("")
    done = meant.command("record", "triage")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["3 of 3 completions recorded", "2 vectors recorded"]
    vectors.stop()
    meant.run("--record=none").assert_outcomes(passed=3)
