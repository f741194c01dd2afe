"""`regauge import` of the formats that are smaller than promptfoo's, and runs of what it wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from regauge.importers import importer_names
from regauge.importers.openai_evals import fuzzy_match
from tests.place import Place
from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DATA = Path(__file__).parents[1] / "data/imports"


class Model(Served):
    """A model that answers by a part of the last message, and `ok` to anything else."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        served = self

        class Handler(JsonHandler):
            def answer(self) -> None:
                text = str(self.given()["messages"][-1]["content"])
                found = (a for part, a in served.answers.items() if part in text)
                message = {"role": "assistant", "content": next(found, "ok")}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
                self.say({"id": "1", "model": "m", "choices": [choice], "usage": usage})

        super().__init__(Handler)


@pytest.fixture
def model(socket_enabled: None) -> Iterator[Model]:
    with Model() as served:
        yield served


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "shop").mkdir()
    return Place(tmp_path / "shop")


def cases(place: Place, name: str) -> list[dict[str, Any]]:
    text = (place.root / f"fixtures/golden/{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def checks(place: Place, name: str) -> list[Any]:
    return cases(place, name)[0]["checks"]


def prompt(place: Place, name: str) -> dict[str, Any]:
    return yaml.safe_load((place.root / f"prompts/{name}.prompt.yml").read_text(encoding="utf-8"))


def report(place: Place) -> str:
    return (place.root / "IMPORT.md").read_text(encoding="utf-8")


def bring(place: Place, *parts: str, where: str = "source") -> None:
    """Copy files of public repositories into the project."""
    for part in parts:
        source, target = DATA / part, place.root / where
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / source.name)


def run(place: Place, model: Model, *arguments: str, code: int) -> str:
    """Run the evals against the model, whatever model the prompts name."""
    settings = place.root / "pyproject.toml"
    table = f'\n[tool.regauge.providers.here]\nbase_url = "{model.address}/v1"\n'
    settings.write_text(settings.read_text(encoding="utf-8") + table, encoding="utf-8")
    return place.evals("--model", "here:m", *arguments, code=code)


def write_json(place: Place, path: str, document: object) -> None:
    place.write(path, json.dumps(document))


def test_the_help_names_every_format(place: Place):
    words = set(place.regauge("import", "--help").replace(",", " ").replace(".", " ").split())
    assert set(importer_names()) <= words


# OpenAI Evals


def test_the_registry_is_imported_and_judged_as_its_classes_do(place: Place, model: Model):
    bring(place, "openai+evals")
    out = place.regauge("import", "openai-evals", "source")
    assert "4 evals, 12 golden cases, 12 assertions, 0 of them unmeasured" in out
    assert prompt(place, "test-match")["messages"] == [
        {"role": "system", "content": "Complete the phrase as concisely as possible."},
        {"role": "user", "content": "{{input}}"},
    ]
    assert [m["role"] for m in prompt(place, "test-fuzzy-match")["messages"]] == [
        "system", "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip
    assert cases(place, "test-match")[0] == {
        "id": "once-upon-a",
        "inputs": {"input": "Once upon a "},
        "expected": "time",
        "tags": ["test-match"],
        "checks": [{"starts_with": ["time"]}],
    }
    text = report(place)
    assert "test_modelgraded/joke_fruits.jsonl is a pointer of Git LFS; run git lfs pull" in text
    assert "a meta-evaluation is the calibration of a judge here" in text
    assert "system messages named example_user and example_assistant became user" in text
    model.answers = {
        "Once upon a": "time",
        "US president": "The first was George Washington.",
        "eleven": "millie-bobby brown!",
        "derek": "It is season 11, I think.",
        "girl elf": "EVANGELINE LILLY",
    }
    out = run(place, model, "-rA", code=1)
    assert "10 errors" not in out
    outcomes = {
        line.split("::")[1].split(" ")[0]: line.split(" ")[0]
        for line in out.splitlines()
        if line.startswith(("PASSED", "FAILED"))
    }
    failed = [name for name, outcome in outcomes.items() if outcome == "FAILED"]
    assert "test_test_match[once-upon-a]" not in failed
    assert "test_test_match[the-first-us-president-was]" in failed
    assert "test_test_fuzzy_match" not in " ".join(
        name for name in failed if "who-is-the-girl" not in name
    )
    assert "test_test_includes[who-played-the-girl-elf-in-the-hobbit]" in failed
    assert "test_test_includes_ignore_case[who-played-the-girl-elf-in-the-hobbit]" not in failed


@pytest.mark.parametrize(
    ("output", "expected", "passes"),
    [
        ("The Season 11.", ["x", "season 11"], 1),
        ("11", "Season 11", 1),
        ("", "b", 0),
        ("12", "Season 11", 0),
        ("U.S.", "us", 1),
    ],
)
def test_fuzzy_match_ignores_case_articles_and_punctuation(
    output: str, expected: object, passes: int
):
    class Case:
        def __init__(self) -> None:
            self.expected = expected

    assert fuzzy_match(output, Case()) == passes  # type: ignore[arg-type]


def registry(place: Place, args: Mapping[str, object], cls: str, *samples: object) -> None:
    body = {"class": f"evals.elsuite.{cls}", "args": {"samples_jsonl": "s.jsonl", **args}}
    place.write("reg/evals/one.yaml", yaml.safe_dump({"one.v0": body}))
    place.write("reg/data/s.jsonl", "".join(json.dumps(sample) + "\n" for sample in samples))


def test_chats_of_different_forms_become_one_input(place: Place, model: Model):
    long = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    last = {"role": "user", "content": "{{x}} and c?"}
    registry(
        place,
        {"max_tokens": 9},
        "basic.json_match:JsonMatch",
        {"input": "one {{y}}", "ideal": '{"a": 1}'},
        {"input": [*long, last], "ideal": ['{"a": 2}', "[1]"]},
    )
    place.regauge("import", "openai-evals", "reg/evals/one.yaml")
    assert prompt(place, "one")["messages"] == [{"history": "messages"}]
    assert prompt(place, "one")["modelParameters"] == {"temperature": 0, "maxTokens": 9}
    assert cases(place, "one")[1]["inputs"] == {"messages": [*long, last]}
    model.answers = {"one {{y}}": '{"a": 1.0}', "and c?": "[1]"}
    assert "2 passed" in run(place, model, code=0)


def test_a_model_graded_eval_becomes_a_rubric_that_runs(place: Place, model: Model):
    registry(
        place,
        {"modelgraded_spec": "meets"},
        "modelgraded.classify:ModelBasedClassify",
        {"input": "Capital of France?", "criteria": "names {it}"},
    )
    spec = {
        "prompt": "{input} -> {completion}, {criteria}, {{literal}}",
        "choice_strings": "YN",
        "choice_scores": {"Y": 1, "N": 0},
    }
    place.write("reg/modelgraded/meets.yaml", yaml.safe_dump({"meets": spec}))
    out = place.regauge("import", "openai-evals", "reg")
    assert "0 of them unmeasured" in out
    rubric = prompt(place, "judges/one-meets")
    assert rubric["rubric"] == {"kind": "choice", "choices": {"Y": 1.0, "N": 0.0}}
    assert rubric["messages"][0]["content"] == (
        "{{input}} -> {{answer}}, {{expected.criteria}}, {literal}"
    )
    model.answers = {"Capital of France?": '{"reasoning": "r", "choice": "Y"}'}
    assert "1 unmeasured" in run(place, model, "--judge-model", "here:m", code=1)


@pytest.mark.parametrize(
    ("cls", "args", "sample", "why"),
    [
        ("own.eval:Own", {}, {"input": "a", "ideal": "b"}, "its class is Python, which is not run"),
        ("basic.match:Match", {}, {"input": "a", "ideal": 3}, "`ideal` is no text"),
        ("basic.match:Match", {}, {"input": "a", "ideal": ""}, "contains the empty text"),
        ("basic.json_match:JsonMatch", {}, {"input": "a", "ideal": "{"}, "`ideal` is no JSON"),
        ("modelgraded.classify:ModelBasedClassify", {"modelgraded_spec": "../x"}, {"input": "a"}, "the definition ../x of its judge is missing"),
    ],
)  # fmt: skip
def test_a_class_without_counterpart_is_unmeasured(
    place: Place, cls: str, args: Mapping[str, object], sample: object, why: str
):
    registry(place, args, cls, sample)
    assert "1 of them unmeasured" in place.regauge("import", "openai-evals", "reg")
    assert why in report(place)
    assert "1 unmeasured" in place.evals(code=1)


def test_an_export_of_the_api_is_imported(place: Place):
    bring(place, "openai+openai-openapi")
    out = place.regauge("import", "openai-evals", "source")
    assert "1 eval, 15 golden cases" in out
    written = prompt(place, "external-data-eval")
    assert written["model"] == "openai:gpt-4o-mini"
    assert written["modelParameters"] == {
        "seed": 42, "temperature": 1.0, "topP": 1.0, "maxTokens": 2048,
    }  # fmt: skip
    assert [message["role"] for message in written["messages"]] == ["developer", "user"]
    assert cases(place, "external-data-eval")[1]["expected"] == {"ground_truth": "Markets"}
    text = report(place)
    assert "its `input` is more than the output, or another field" in text
    assert "'Push Notification Summary Grader' has no data items" in text
    assert "15 unmeasured" in place.evals("--model", "sim:clerk-1", code=1)


CRITERIA: list[dict[str, Any]] = [
    {"type": "string_check", "name": "label", "input": "{{sample.output_text}}", "operation": "eq", "reference": "{{item.label}}"},
    {"type": "string_check", "input": "{{ sample.output_text }}", "operation": "ilike", "reference": "HARD"},
    {"type": "string_check", "input": "{{sample.output_text}}", "operation": "ne", "reference": "Other"},
    {"type": "text_similarity", "input": "{{sample.output_text}}", "reference": "{{item.label}}", "evaluation_metric": "rouge_2", "pass_threshold": 0.5},
    {"type": "string_check", "input": "{{sample.output_json.a.b}}", "operation": "eq", "reference": "{{item.n}}"},
    {"type": "score_model", "name": "polite", "model": "gpt-4o", "range": [1, 5], "pass_threshold": 4, "input": [{"role": "system", "content": "Grade {{item.label}}."}, {"role": "user", "content": "{{item.ticket}}: {{sample.output_text}}"}]},
    {"type": "label_model", "name": "kind", "model": "o3-mini", "labels": ["good", "bad"], "passing_labels": ["good"], "input": [{"role": "user", "content": {"type": "input_text", "text": "{{sample.output_text}}"}}]},
    {"type": "python", "name": "own", "source": "raise SystemExit(9)"},
    {"type": "multi", "name": "all"},
    {"type": "text_similarity", "input": "{{sample.output_text}}", "reference": "x", "evaluation_metric": "bleu"},
    {"type": "score_model", "range": [5, 1], "input": [{"role": "user", "content": "{{sample.output_text}}"}]},
]  # fmt: skip


def export(place: Place, criteria: list[dict[str, Any]], run_: object, *lines: object) -> None:
    write_json(
        place,
        "out/evals/eval_1/eval.json",
        {"id": "eval_1", "name": "Tickets", "testing_criteria": criteria},
    )
    if run_ is not None:
        write_json(place, "out/evals/eval_1/runs/r/run.json", run_)
    place.write("out/files/file-1.content", "".join(json.dumps(one) + "\n" for one in lines))


RUN = {
    "model": "gpt-4.1",
    "data_source": {
        "type": "completions",
        "input_messages": {
            "type": "template",
            "template": [{"role": "user", "content": "Sort {{ item.ticket }} {{ item.more.of }}"}],
        },
        "source": {"type": "file_id", "id": "file-1"},
    },
}


def test_every_criterion_becomes_a_check(place: Place):
    item = {"ticket": "dead screen", "label": "Hardware", "n": 3, "more": {"of": "it"}}
    export(place, CRITERIA, RUN, {"item": item})
    place.regauge("import", "openai-evals", "out")
    (case,) = cases(place, "tickets")
    assert case["inputs"] == {"more.of": "it", "ticket": "dead screen"}
    assert [c for c in case["checks"] if "unmeasured" not in c] == [
        {"equals": {"value": "Hardware"}, "metric": "label"},
        {"contains": {"text": "HARD", "ignore_case": True}},
        {"not": {"equals": {"value": "Other"}}},
        {"rouge_n": {"to": "Hardware", "n": 2, "at_least": 0.5}},
        {"equals": {"value": 3, "field": "a.b"}},
        {"rubric": {"name": "polite", "model": "openai:gpt-4o"}, "metric": "polite"},
        {"rubric": {"name": "kind", "model": "openai:o3-mini"}, "metric": "kind"},
    ]
    assert prompt(place, "judges/polite")["messages"] == [
        {"role": "system", "content": "Grade {{expected.label}}."},
        {"role": "user", "content": "{{ticket}}: {{answer}}"},
    ]
    text = report(place)
    assert "out/evals/eval_1/eval.json" in text
    for why in ("Python code, which is not run", "computed from other graders",
                "no `pass_threshold`", "no pair of numbers"):  # fmt: skip
        assert why in text
    assert "0 errors" in place.regauge("lint")


def test_texts_that_an_item_holds_are_the_outputs_of_a_target(place: Place):
    criteria = [
        {"type": "string_check", "input": "{{item.said}}", "operation": "like", "reference": "{{item.truth}}"}
    ]  # fmt: skip
    export(place, criteria, None)
    place.write(
        "out/evals/eval_1/data.jsonl",
        '{"item": {"q": "2+2", "said": "It is 4", "truth": "4"}}\n{"item": {"q": "1+1", "said": "3", "truth": "2"}}\n',
    )
    place.regauge("import", "openai-evals", "out")
    out = place.evals(code=1)
    assert "1 failed" in out
    assert "1 passed" in out


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.json": "{}"}, "a.json is no eval of OpenAI's API"),
        ({"a.json": '{"testing_criteria": [],\n'}, "a.json:2: not YAML"),
        ({"a.json": '{"testing_criteria": []}', "d.jsonl": '{"item": {}}\n{"item": NaN}'}, "d.jsonl:2: not JSON: NaN is no JSON number"),
        ({"a.yaml": "x: 1\n"}, "a.yaml defines no eval"),
        ({"a.yaml": "x:\n  class: evals.elsuite.basic.match:Match\n  args: {samples_jsonl: ../../../etc/passwd}\n"}, "is outside of the repository"),
        ({"a.yaml": "x:\n  class: evals.elsuite.basic.match:Match\n  args: {samples_jsonl: s.jsonl}\n"}, "s.jsonl is missing"),
    ],
)  # fmt: skip
def test_what_is_no_suite_of_openai_evals_is_refused(
    place: Place, files: dict[str, str], message: str
):
    for path, text in files.items():
        place.write(path, text)
    assert message in place.regauge("import", "openai-evals", next(iter(files)), code=2)
    assert place.files() == sorted(files)


def test_a_link_in_an_export_is_not_followed(place: Place):
    export(place, [CRITERIA[0]], RUN, {"item": {"ticket": "a", "label": "b"}})
    content = place.root / "out/files/file-1.content"
    (place.root.parent / "secret").write_text('{"item": {"ticket": "TOP"}}\n', encoding="utf-8")
    content.unlink()
    content.symlink_to(place.root.parent / "secret")
    out = place.regauge("import", "openai-evals", "out", code=2)
    assert "leads over a link, which is not followed" in out
    assert "TOP" not in out
