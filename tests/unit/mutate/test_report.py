"""The report, its score, and the committed file with its marks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regauge.errors import InvalidFileError, UsageError
from regauge.mutate import (
    MutantRow,
    MutationReport,
    load_mutants,
    mark_equivalent,
    mutants_path,
    report_json,
    save_mutants,
    score_of,
)
from regauge.mutate._report import Span, judge_digests
from regauge.project import Project
from regauge.prompts import Message, Prompt
from regauge.reports.mutants import mutation_lines, mutation_markdown


def row(number: int, kind: str, **more) -> MutantRow:
    known = {
        "id": f"delete-entry-{number}",
        "operator": "delete-entry",
        "line": number,
        "span": Span(part="messages[0]", start=number, end=number + 1),
        "text": f"- line {number} | <b>",
        "class": kind,
    }
    return MutantRow.model_validate(known | more)


def report(*rows: MutantRow, digest: str = "d1") -> MutationReport:
    return MutationReport(
        prompt="triage",
        version="1.0.0",
        digest=digest,
        dataset="triage",
        model="sim:clerk-1",
        simulated=True,
        calls=12,
        score=score_of(rows),
        mutants=list(rows),
    )


@pytest.fixture
def home(tmp_path: Path) -> Project:
    (tmp_path / "pyproject.toml").write_text("[tool.regauge]\n")
    (tmp_path / "fixtures").mkdir()
    return Project.find(tmp_path)


def test_equivalent_mutants_and_orders_in_inputs_do_not_count_in_the_score():
    rows = [row(1, "killed"), row(2, "survived"), row(3, "equivalent", reason="so")]
    score = score_of([*rows, row(4, "survived", operator="order-in-input")])
    assert (score.killed, score.total, score.value) == (1, 2, 0.5)
    assert score_of([rows[2]]).value is None


def test_an_undecided_mutant_widens_the_interval_upwards_only():
    known = [row(n, "killed") for n in range(5)] + [row(n, "survived") for n in range(5, 10)]
    decided = score_of([*known, row(11, "survived")])
    undecided = score_of([*known, row(11, "undecided")])
    assert undecided.low == decided.low
    assert undecided.high > decided.high


def test_the_json_has_the_documented_shape():
    document = report_json(report(row(1, "killed", cases=["a"], judges=["j"])))
    assert list(document) == [
        "schema_version",
        "prompt",
        "version",
        "digest",
        "dataset",
        "model",
        "simulated",
        "calls",
        "score",
        "mutants",
    ]
    assert list(document["score"]) == ["value", "low", "high", "killed", "total"]
    assert list(document["mutants"][0]) == [
        "id",
        "operator",
        "line",
        "span",
        "text",
        "class",
        "cases",
        "judges",
        "evidence",
        "reason",
    ]


def test_marks_stay_and_a_partial_measurement_keeps_the_rest(home: Project):
    save_mutants(home, report(row(1, "survived"), row(2, "killed")), "k1", None)
    mark_equivalent(home, "triage", ["delete-entry-1"], "The schema says it too.")
    before = load_mutants(home, "triage")
    assert before is not None
    assert before.score.total == 1
    save_mutants(home, report(row(3, "no-effect")), "k1", before)
    same = load_mutants(home, "triage")
    assert same is not None
    assert [one.kind for one in same.mutants] == ["equivalent", "killed", "no-effect"]
    save_mutants(home, report(row(3, "killed"), digest="d2"), "k1", same)
    other = load_mutants(home, "triage")
    assert other is not None
    assert [(one.kind, one.reason) for one in other.mutants] == [
        ("equivalent", "The schema says it too."),
        ("killed", ""),
    ]


def test_only_a_known_mutant_can_be_marked(home: Project):
    with pytest.raises(UsageError, match="regauge mutate triage"):
        mark_equivalent(home, "triage", ["x"], "why")
    save_mutants(home, report(row(1, "survived")), "k", None)
    with pytest.raises(UsageError, match="no mutant 'x'"):
        mark_equivalent(home, "triage", ["x"], "why")


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda text: text[:-9], "not JSON"),
        (lambda text: text.replace('"class": "killed"', '"class": "x"'), "class"),
        (lambda text: text.replace('"schema_version": 1', '"schema_version": 9'), "schema_version"),
        (
            lambda text: text.replace('"class": "killed"', '"class": "equivalent"'),
            "without a reason",
        ),
    ],
)
def test_a_file_that_was_edited_badly_is_an_error_with_its_fix(home: Project, edit, words: str):
    path = save_mutants(home, report(row(1, "killed")), "k", None)
    path.write_text(edit(path.read_text()))
    with pytest.raises(InvalidFileError, match=words):
        load_mutants(home, "triage")
    assert load_mutants(home, "other") is None
    assert mutants_path(home, "triage") == path


def test_the_terminal_marks_each_line_and_markdown_escapes_texts():
    rows = [
        row(2, "killed", cases=["a", "b", "c"], judges=["exact"]),
        row(3, "survived", cases=["d"]),
        row(3, "killed"),
        row(5, "harmful"),
    ]
    source = "messages:\n  - one\n  - two\n\n  - four"
    prompt = Prompt(
        name="triage",
        path=Path("triage.prompt.yml"),
        messages=(Message(role="system", content="x"),),
        source=source,
    )
    lines = [text for text, _ in mutation_lines(report(*rows), prompt)]
    assert lines[0].startswith(
        "triage 1.0.0 on sim:clerk-1 (simulated): 2 of 4 instructions guarded"
    )
    assert lines[2:6] == [
        "guarded        2    - one   [a, b and 1 more]",
        "survived       3    - two (2 mutants)   [d]",
        "               4",
        "harmful        5    - four",
    ]
    assert "judge exact: guards 1 instruction" in lines
    text = mutation_markdown(report(*rows))
    assert "<b>" not in text
    assert "- line 3 &#124;" in text
    assert text.index("harmful") < text.index("survived") < text.index("<details>")


def judged_by(**digests: str) -> Any:
    """An eval with judges of these digests; `advisory` decides nothing."""
    judges = tuple(SimpleNamespace(name=name, digest=digest) for name, digest in digests.items())
    return SimpleNamespace(
        judges=judges, status_of=lambda judge: SimpleNamespace(blocking=judge.name != "advisory")
    )


def test_the_digest_of_a_judge_follows_all_evals_that_have_it():
    """Two evals may have judges of one name with different parameters."""
    one, other = (
        judged_by(tone="1" * 64, advisory="3" * 64),
        judged_by(tone="2" * 64, json="4" * 64),
    )
    alone = judge_digests([one])
    assert alone.keys() == {"tone"}
    assert alone["tone"].ljust(64, "1") == "1" * 64
    assert judge_digests([one, one]) == alone
    both = judge_digests([one, other])
    assert both.keys() == {"tone", "json"}
    assert both == judge_digests([other, one])
    assert both["tone"] not in {alone["tone"], judge_digests([other])["tone"]}
    assert len(both["tone"]) == len(alone["tone"])
