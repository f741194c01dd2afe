"""The report, its score, and the committed file with its marks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regauge.errors import InvalidFileError, UsageError
from regauge.gate import BaseTrials, Count
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
from regauge.mutate._operators import Mutant, MutationPlace
from regauge.mutate._report import (
    EvalFacts,
    MutantsFile,
    Span,
    UnmeasuredMutants,
    eval_facts,
    judge_digests,
    report_of,
)
from regauge.mutate._types import Case, Classification, Result
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


def test_unmeasured_mutants_are_in_the_document_of_a_report_that_has_some():
    suite = EvalFacts(cases=3, able=2, tracked=1, failing=0)
    missing = UnmeasuredMutants(mutants=4, calls=9, cost_usd=None, eval=suite)
    complete = report(row(1, "killed"))
    partial = complete.model_copy(update={"missing": missing})
    assert report_json(partial) == {**report_json(complete), "missing": missing.model_dump()}
    assert "missing" not in report_json(complete)


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
    lines = [line.text for line in mutation_lines(report(*rows), prompt)]
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


def result(
    number: int, kind: Any, *, operator: str = "delete-entry", scored=True, **more
) -> Result:
    return Result(
        mutant=Mutant(
            id=f"delete-entry-{number}",
            operator=operator,
            place=MutationPlace(part="messages[0]", line=number, start=number, end=number + 1),
            text=f"- line {number} | <b>",
            section=more.pop("section", ""),
            scored=scored,
            prompt=Prompt(name="triage", title="T", messages=(), path=Path("t.yml")),
        ),
        outcome=Classification(kind=kind, **more),
    )


def report_of_results(
    *results: Result, earlier: MutantsFile | None = None, **more
) -> MutationReport:
    prompt = SimpleNamespace(name="triage", version=more.pop("version", None), digest="d1")
    subject = SimpleNamespace(prompt=prompt, dataset="cases", model="sim:clerk-1", key="k1")
    subject.__dict__.update(more)
    measurement: Any = SimpleNamespace(results=results, calls=9, base_calls=3)
    made: Any = subject
    return report_of(made, measurement, earlier=earlier)


def test_a_report_has_a_row_for_each_result_with_its_evidence():
    killed = result(
        1, "killed", cases=("a",), judges=("tone",), evidence={"p": 0.01}, section="# Rules"
    )
    unmeasured = result(2, "undecided", reason="no calls left", unmeasured=True)
    made = report_of_results(killed, unmeasured, version="1.2.0")
    assert (made.prompt, made.version, made.digest) == ("triage", "1.2.0", "d1")
    assert (made.dataset, made.model, made.simulated) == ("cases", "sim:clerk-1", True)
    assert made.calls == 12
    assert made.mutants == [
        row(1, "killed", cases=["a"], judges=["tone"], evidence={"section": "# Rules", "p": 0.01}),
        row(2, "undecided", reason="no calls left", evidence={"unmeasured": True}),
    ]
    assert [one.measured for one in made.mutants] == [True, False]
    assert (made.score.killed, made.score.total) == (1, 2)
    other = report_of_results(killed, model="local:clerk")
    assert (other.version, other.simulated) == (None, False)


def test_mutants_of_operators_apart_from_the_others_are_in_no_score():
    apart = result(2, "survived", operator="order-in-input")
    of_model = result(3, "survived", operator="model-words", scored=False)
    made = report_of_results(result(1, "killed"), apart, of_model)
    assert [len(made.mutants), made.score.total] == [3, 1]


@pytest.mark.parametrize(
    ("change", "kind", "calls"),
    [({}, "killed", 50), ({"calls": 5}, "killed", 12), ({"key": "k2"}, "undecided", 12),
     ({"digest": "d2"}, "undecided", 12), ({"model": "sim:clerk-2"}, "undecided", 12)],
)  # fmt: skip
def test_an_undecided_mutant_keeps_its_class_while_nothing_else_changed(
    change: dict[str, Any], kind: str, calls: int
):
    rows = [row(1, "killed"), row(2, "survived")]
    known = report(*rows).model_dump(by_alias=True) | {"key": "k1", "calls": 50} | change
    earlier = MutantsFile.model_validate(known)
    results = (result(1, "undecided"), result(2, "equivalent"), result(3, "undecided"))
    made = report_of_results(*results, earlier=earlier)
    assert [one.kind for one in made.mutants] == [kind, "equivalent", "undecided"]
    assert made.calls == calls
    decided = report_of_results(result(1, "survived"), earlier=earlier)
    assert ([one.kind for one in decided.mutants], decided.calls) == (["survived"], 12)


def test_cases_of_a_suite_are_able_to_guard_where_the_base_passes_most_trials():
    def case(passed: int | None, total: int = 4, *, blocks: bool = True) -> Case:
        count = None if passed is None else Count(passed=passed, trials=total)
        baseline = None if count is None else BaseTrials(checks={}, total=count)
        return Case(key="c", text="", checks=(), baseline=baseline, blocks=blocks)

    cases = [case(None), case(4), case(3), case(2), case(0), case(0, blocks=False)]
    assert eval_facts(cases) == EvalFacts(cases=6, able=3, tracked=1, failing=2)
    assert eval_facts([]) == EvalFacts(cases=0, able=0, tracked=0, failing=0)
