"""Labels of people: what is read, and what one bad file says."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from inline_snapshot import snapshot

from regauge.errors import DatasetError
from regauge.judges.calibration import cases_of_labels, file_stem, load_labels

texts = st.text(st.characters(codec="utf-8"), max_size=20)
common = {
    "id": st.text(st.characters(codec="utf-8"), min_size=1, max_size=12),
    "case": st.text("abc-", min_size=1, max_size=6),
}
notes = {"author": texts, "reason": texts, "origin": texts, "split": texts, "note": texts}
rows_of = {
    "outcomes": st.fixed_dictionaries(
        common | {"output": texts, "label": st.sampled_from(["pass", "fail"])}, optional=notes
    ),
    "scores": st.fixed_dictionaries(
        common | {"output": texts, "score": st.floats(0, 1) | st.sampled_from([0, 1])},
        optional=notes,
    ),
    "pairs": st.fixed_dictionaries(
        common | {"a": texts, "b": texts, "label": st.sampled_from(["a", "b", "tie"])},
        optional=notes,
    ),
}
files = st.sampled_from(sorted(rows_of)).flatmap(
    lambda kind: st.tuples(
        st.just(kind),
        st.lists(rows_of[kind], min_size=1, max_size=5, unique_by=lambda row: row["id"]),
    )
)


def row(number, **more):
    return {"id": f"l{number}", "case": "c", "output": f"answer {number}", "label": "pass"} | more


@given(files)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_what_is_read(load, written):
    kind, rows = written
    labels = load(rows)
    assert labels.kind == kind
    assert len(labels) == len(rows)
    for number, (label, row) in enumerate(zip(labels.labels, rows, strict=True), 1):
        answers = (row["a"], row["b"]) if kind == "pairs" else (row["output"],)
        says = row["score"] if kind == "scores" else row["label"]
        assert (label.id, label.case, label.outputs, label.value) == (
            row["id"],
            row["case"],
            answers,
            says,
        )
        assert (label.author, label.reason) == (row.get("author", ""), row.get("reason", ""))
        assert (label.origin, label.split) == (row.get("origin", ""), row.get("split", ""))
        assert label.location == f"fixtures/labels/tone.jsonl:{number}"


@given(files, st.randoms(use_true_random=False))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_order_and_reasons_change_no_digest_and_what_is_labelled_does(load, written, random):
    kind, rows = written
    before = load(rows).digest
    shuffled = [{**row, "reason": "another reason", "author": "someone"} for row in rows]
    random.shuffle(shuffled)
    assert load(shuffled).digest == before
    key = "a" if kind == "pairs" else "output"
    changed = [{**rows[0], key: rows[0][key] + "."}, *rows[1:]]
    assert load(changed).digest != before


def test_a_label_may_bring_its_own_case(load):
    label = load([{"id": "l", "output": "x", "label": "fail", "inputs": {"q": 1}, "expected": 2}])
    assert (label.labels[0].inputs, label.labels[0].expected) == ({"q": 1}, 2)


def test_every_label_has_its_case_or_is_named(load, made):
    labels = load(
        [
            row(1),
            row(2, case="own", inputs={"q": 1}, expected=2),
            {"id": "l3", "output": "x", "label": "fail", "inputs": {}},
        ]
    )
    known = made.case(0)
    cases = cases_of_labels(labels, {"c": known})
    assert list(cases) == ["l1", "l2", "l3"]
    assert cases["l1"] is known
    own, bare = cases["l2"], cases["l3"]
    assert (own.id, own.inputs, own.expected, own.split) == ("own", {"q": 1}, 2, "train")
    assert own.location == labels.labels[1].location
    assert (bare.id, bare.inputs, bare.expected) == ("l3", {}, None)
    with pytest.raises(DatasetError) as caught:
        cases_of_labels(load([row(1), row(2, case="gone"), row(3, case="lost")]), {"c": known})
    first, second = caught.value.diagnostics
    assert (first.line, second.line) == (2, 3)
    assert [first.message, second.message] == [
        "there is no golden case 'gone'",
        "there is no golden case 'lost'",
    ]
    assert "--dataset NAME" in first.fix


@given(st.binary(max_size=80))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_labels_or_errors(project, content):
    (project.labels_dir / "tone.jsonl").write_bytes(content)
    with pytest.raises(DatasetError) as caught:
        load_labels("tone", project)
    assert caught.value.diagnostics


def test_every_error_is_said_with_its_line(load):
    bad = "\n".join(
        [
            json.dumps(row(1)),
            json.dumps(row(1)),
            json.dumps(row(3, lable="fail")),
            json.dumps({"id": "l4", "case": "c", "output": "x"}),
            json.dumps({"id": "", "output": 7, "label": "good"}),
            json.dumps({"id": "l6", "case": "c", "output": "x", "score": 2}),
            json.dumps({"id": "l7", "case": "c", "a": "x", "output": "x", "label": "tie"}),
            json.dumps(row(8, score=0.5)),
            json.dumps(row(9, expected="x")),
            json.dumps(row(10, inputs=["x"])),
            json.dumps({"id": "l11", "case": "c", "output": "x", "score": True}),
            "[1]",
            "{",
        ]
    )
    with pytest.raises(DatasetError) as caught:
        load(bad)
    assert str(caught.value) == snapshot("""\
fixtures/labels/tone.jsonl:2: the id 'l1' is taken: line 1 has it too
  fix: every label needs an id of its own
fixtures/labels/tone.jsonl:3: unknown key 'lable'
  fix: did you mean 'label'?
fixtures/labels/tone.jsonl:4: a label without a value: `label` is pass or fail
fixtures/labels/tone.jsonl:5: `output` is not text but '7'
  fix: put it in quotes
fixtures/labels/tone.jsonl:5: the id is empty
fixtures/labels/tone.jsonl:5: the label is 'good', not pass or fail
fixtures/labels/tone.jsonl:5: a label without a case
  fix: name a golden case: `case`, or give `inputs` and `expected`
fixtures/labels/tone.jsonl:6: the score is '2', not a number from 0 to 1
fixtures/labels/tone.jsonl:6: another kind of label than line 1: there `label` is pass or fail
  fix: keep one kind of label per file
fixtures/labels/tone.jsonl:7: a label without `b`
fixtures/labels/tone.jsonl:7: `output` next to `a` and `b`
  fix: keep the one or the others
fixtures/labels/tone.jsonl:7: another kind of label than line 1: there `label` is pass or fail
  fix: keep one kind of label per file
fixtures/labels/tone.jsonl:8: `label` next to `score`
  fix: keep one of them
fixtures/labels/tone.jsonl:9: `expected` without `inputs`
  fix: the golden case has its own
fixtures/labels/tone.jsonl:10: `inputs` is not a mapping of names to values
fixtures/labels/tone.jsonl:11: the score is 'True', not a number from 0 to 1
fixtures/labels/tone.jsonl:11: another kind of label than line 1: there `label` is pass or fail
  fix: keep one kind of label per file
fixtures/labels/tone.jsonl:12: a label is a JSON object, not [1]
  fix: write a label as one {"key": "value"} object on a line of its own
fixtures/labels/tone.jsonl:13: not JSON: expecting property name enclosed in double quotes at column 2\
""")


OF_KINDS = {
    "`label` is pass or fail": {"output": "x", "label": "pass"},
    "`score` is a number from 0 to 1": {"output": "x", "score": 0.5},
    "`label` is a, b or tie": {"a": "x", "b": "y", "label": "tie"},
}


@pytest.mark.parametrize("form", OF_KINDS)
def test_one_file_has_one_kind_of_label(load, form):
    rows = [OF_KINDS[form], *(label for other, label in OF_KINDS.items() if other != form)]
    with pytest.raises(DatasetError) as caught:
        load([{"id": f"l{number}", "case": "c", **label} for number, label in enumerate(rows)])
    message = f"another kind of label than line 1: there {form}"
    assert [(error.line, error.message) for error in caught.value.diagnostics] == [
        (2, message),
        (3, message),
    ]


@pytest.mark.parametrize(
    ("label", "error"),
    [
        ({"output": "x"}, "a label without a value: `label` is pass or fail"),
        ({"a": "x", "b": "y"}, "a label without a value: `label` is a, b or tie"),
        ({"output": "x", "label": "tie"}, "the label is 'tie', not pass or fail"),
        ({"a": "x", "b": "y", "label": "pass"}, "the label is 'pass', not a or b or tie"),
        ({"output": "x", "score": -0.1}, "the score is '-0.1', not a number from 0 to 1"),
        ({"output": "x", "score": "0.5"}, "the score is '0.5', not a number from 0 to 1"),
    ],
)
def test_a_label_has_a_value_of_its_kind(load, label, error):
    with pytest.raises(DatasetError) as caught:
        load([{"id": "l1", "case": "c", **label}])
    assert [found.message for found in caught.value.diagnostics] == [error]


def test_a_judge_without_labels_is_told_how_to_write_some(project, write):
    write([row(1)], "incident-tone")
    with pytest.raises(DatasetError) as caught:
        load_labels("incident-tones", project)
    assert str(caught.value) == snapshot("""\
fixtures/labels/incident-tones.jsonl: no labels of judge 'incident-tones'
  fix: regauge judges calibrate incident-tones --from-run latest lists outputs to label; or write one label a line: {"id": ..., "case": ..., "output": ..., "label": "pass", "author": ..., "reason": ...}
  or did you mean 'incident-tone'?\
""")


def test_an_empty_file_is_no_labels(load):
    with pytest.raises(DatasetError, match=r"fixtures/labels/tone\.jsonl: no line has a label yet"):
        load("\n\n")


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("plain-name", "plain-name"),
        ("deepeval(GEval, name=Kurz & gut)", "deepeval-GEval-name-Kurz-gut"),
        ("../../etc/passwd", "etc-passwd"),
        ("größe", "größe"),
    ],
)
def test_the_name_of_a_judge_becomes_a_file_name(name, stem):
    assert file_stem(name) == stem
