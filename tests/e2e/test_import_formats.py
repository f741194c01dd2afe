"""`regauge import` of the formats that are smaller than promptfoo's, and runs of what it wrote."""

from __future__ import annotations

import json
import shutil
import zipfile
from importlib.metadata import version
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
    assert "4 evals, 12 golden cases, 12 assertions\n" in out
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
    assert "joke_fruits.jsonl cannot be read: it is a pointer of Git LFS" in text
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
    assert "without a counterpart" not in out
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
        ("basic.match:Match", {}, {"input": "a", "ideal": 3}, "`ideal` is not text"),
        ("basic.match:Match", {}, {"input": "a", "ideal": ""}, "contains the empty text"),
        ("basic.json_match:JsonMatch", {}, {"input": "a", "ideal": "{"}, "`ideal` is not JSON"),
        ("modelgraded.classify:ModelBasedClassify", {"modelgraded_spec": "../x"}, {"input": "a"}, "the definition ../x of its judge is missing"),
    ],
)  # fmt: skip
def test_a_class_without_counterpart_is_unmeasured(
    place: Place, cls: str, args: Mapping[str, object], sample: object, why: str
):
    registry(place, args, cls, sample)
    assert "1 without a counterpart" in place.regauge("import", "openai-evals", "reg")
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
                "no `pass_threshold`", "not a pair of numbers"):  # fmt: skip
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
        ({"a.json": "{}"}, "a.json is not an eval of OpenAI's API"),
        ({"a.json": '{"testing_criteria": [],\n'}, "a.json:1: not YAML"),
        ({"a.json": '{"testing_criteria": []}', "d.jsonl": '{"item": {}}\n{"item": NaN}'}, "d.jsonl:2: not JSON: NaN is not a JSON number"),
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


# deepeval

METRICS = """
from deepeval import assert_test
from deepeval.dataset import EvaluationDataset
from deepeval.metrics import AnswerRelevancyMetric, ExactMatchMetric, GEval
from deepeval.metrics import FaithfulnessMetric as Faithful
from deepeval.test_case import LLMTestCase, SingleTurnParams

raise SystemExit("this file was run")
"""


@pytest.mark.parametrize("name", ["goldens.json", "goldens.jsonl", "goldens.csv"])
def test_goldens_are_the_same_in_every_form(place: Place, model: Model, name: str):
    bring(place, f"deepeval/{name}")
    out = place.regauge("import", "deepeval", f"source/{name}")
    assert "1 eval, 3 golden cases, 0 assertions" in out
    assert cases(place, "goldens") == [
        {
            "id": "which-pod-was-restarted",
            "inputs": {"input": "Which pod was restarted?"},
            "expected": {
                "expected_output": "api-7",
                "context": ["api-7 restarted twice.", "db-1 is healthy."],
                "retrieval_context": ["Events of the night"],
            },
        },
        {
            "id": "how-many-nodes-are-down",
            "inputs": {"input": "How many nodes are down?"},
            "expected": {
                "expected_output": "3",
                "context": ["Nodes 1, 4 and 5 are down."],
                "expected_tools": [{"name": "kubectl", "type": "FUNCTION"}],
            },
            "note": 'easy; {"level": "easy"}',
        },
        {
            "id": "explain-eviction-in-one-line",
            "inputs": {"input": "Explain 'eviction',\nin one line"},
            "expected": {"expected_output": "A pod is removed from its node"},
        },
    ]
    assert "the data has no prompt" in report(place)
    assert "3 unmeasured" in run(place, model, code=1)


def test_metrics_of_a_test_file_judge_the_goldens_that_it_names(place: Place, model: Model):
    bring(place, "deepeval/goldens.json")
    place.write(
        "source/test_bot.py",
        METRICS
        + """
dataset = EvaluationDataset()
dataset.add_goldens_from_json_file(file_path="goldens.json")
LIMIT = 0.6
relevancy = AnswerRelevancyMetric(threshold=LIMIT, model="gpt-4o", include_reason=True)

def test_bot(golden):
    case = LLMTestCase(input=golden.input, actual_output=bot(golden.input))
    tone = GEval(name="Tone", criteria="It is polite.", threshold=limit(),
                 evaluation_params=[SingleTurnParams.ACTUAL_OUTPUT])
    assert_test(case, [relevancy, Faithful(), tone, Own(api_key="none"), ExactMatchMetric()])
""",
    )
    place.regauge("import", "deepeval", "source")
    assert "LLM judges call judge_model of pyproject.toml" in report(place)
    text = (place.root / "evals/test_source.py").read_text(encoding="utf-8")
    for spec in (
        "{'deepeval': {'metric': 'AnswerRelevancy', 'threshold': 0.6, 'include_reason': True}}",
        "{'deepeval': {'metric': 'Faithfulness'}}",
        "'name': 'Tone', 'criteria': 'It is polite.', 'evaluation_params': ['actual_output']",
        "{'deepeval': {'metric': 'ExactMatch'}}",
    ):
        assert spec in text
    assert "`threshold` of GEval is made by code: write it in the eval" in report(place)
    assert "`Own` is unmeasured: its class is Python" in report(place)
    assert "left out" not in report(place)
    model.answers = {"Which pod": "api-7"}
    place.loaded = ("quiet_deepeval",)
    out = run(place, model, "-k", "which-pod", "--judge-model", "here:m", "-rA", code=1)
    assert "ExactMatch" in out


def test_an_unknown_metric_is_unmeasured_with_a_near_name(place: Place):
    metrics = METRICS.replace("AnswerRelevancyMetric", "AnswerRelevanceMetric")
    test = "    assert_test(LLMTestCase(input='Hi'), [AnswerRelevanceMetric()])\n"
    place.write("source/test_bot.py", f"{metrics}\ndef test_hi():\n{test}")
    place.regauge("import", "deepeval", "source/test_bot.py")
    line = metrics.count("\n") + 3
    assert (
        f"`source/test_bot.py:{line}`: `AnswerRelevanceMetric` is unmeasured:"
        f" deepeval {version('deepeval')} has no metric 'AnswerRelevance'; did you mean"
        " 'AnswerRelevancy'?"
    ) in report(place)
    assert [*map(list, cases(place, "test-bot")[0]["checks"])] == [["unmeasured"]]


def test_metrics_of_one_name_are_checks_of_the_cases(place: Place):
    metrics = "strict = ExactMatchMetric()\nlax = ExactMatchMetric(threshold=0.5)\n"
    place.write("source/test_bot.py", METRICS + metrics)
    place.write("source/goldens.json", '[{"input": "Hi", "expected_output": "Hello"}]')
    place.regauge("import", "deepeval", "source")
    checks = [{"metric": "ExactMatch"}, {"metric": "ExactMatch", "threshold": 0.5}]
    assert [check["deepeval"] for check in cases(place, "goldens")[0]["checks"]] == checks
    assert "0 errors" in place.regauge("lint")


def test_each_test_has_its_own_metrics_and_outputs_become_a_target(place: Place):
    place.write(
        "source/test_bot.py",
        METRICS
        + """
exact = ExactMatchMetric()
QUESTION = "2+2?"

def test_sum():
    assert_test(LLMTestCase(input=QUESTION, actual_output="4", expected_output="4"), [exact])

async def test_style():
    case = LLMTestCase(input="Hello", actual_output="Hi", expected_output=f"Hi{1 + 1}",
                       tools_called=[ToolCall(name="greet")])
    assert_test(case, [ExactMatchMetric(), OwnMetric(strictness=3)])

def test_talk():
    talk = ConversationalTestCase(turns=[Turn(role="user", content="Hi")])
    assert_test(talk, [ExactMatchMetric()])
""",
    )
    out = place.regauge("import", "deepeval", "source/test_bot.py")
    first_line = METRICS.count("\n") + 2
    for line, loss in (
        (7, "`expected_output` of a test case is made by code: write it in the case"),
        (7, "`tools_called` of a test case is made by code: write it in the case"),
        (12, "a conversation: write `turns` or a persona, see test-a-conversation"),
    ):
        assert f"- `source/test_bot.py:{first_line + line}`: {loss}" in report(place)
    assert "LLM judges call judge_model" not in report(place)
    assert "2 golden cases" in out
    first, second = cases(place, "test-bot")
    assert first["inputs"] == {"input": "2+2?"}
    assert first["checks"] == [{"deepeval": {"metric": "ExactMatch"}}]
    assert [*map(list, second["checks"])] == [["deepeval"], ["unmeasured"]]
    assert "existing outputs became target test-bot" in report(place)
    place.loaded = ("quiet_deepeval",)
    out = place.evals(code=1)
    assert "this file was run" not in out
    assert "2 unmeasured" in out


# LangSmith and Braintrust

LANGSMITH = [
    {
        "id": "5f1c", "created_at": "2026-01-01T00:00:00Z",
        "inputs": {"messages": [{"type": "human", "data": {"content": "Is api-7 up?"}}]},
        "outputs": {"output": {"type": "ai", "content": "Yes."}},
        "metadata": {"dataset_split": ["test"], "source": "night"}, "split": ["test"],
    },
    {
        "inputs": {"messages": [{"role": "user", "content": "And db-1?"}], "the region": "eu"},
        "outputs": None,
        "metadata": None,
    },
]  # fmt: skip


def test_examples_of_langsmith_are_imported(place: Place, model: Model):
    place.write("source/pods.jsonl", "".join(json.dumps(row) + "\n" for row in LANGSMITH))
    assert "2 golden cases" in place.regauge("import", "langsmith", "source/pods.jsonl")
    assert prompt(place, "pods")["messages"] == [
        {"history": "messages"},
        {"role": "user", "content": "{{the_region}}"},
    ]
    first, second = cases(place, "pods")
    assert first["inputs"] == {"messages": [{"role": "user", "content": "Is api-7 up?"}]}
    assert (first["tags"], first["note"]) == (["test"], '{"source": "night"}')
    assert "Yes." in str(first["expected"])
    assert "expected" not in second
    assert "2 unmeasured" in run(place, model, code=1)


def test_rows_of_braintrust_are_imported(place: Place, model: Model):
    rows = [
        {"input": "2+2", "expected": "4", "tags": ["sum"], "metadata": {"level": 1}},
        {"input": {"question": "1+1", "unit": 3}, "expected": {"answer": 2}},
        {"output": "no input"},
    ]
    place.write("source/rows.json", json.dumps(rows))
    assert "2 golden cases" in place.regauge("import", "braintrust", "source")
    first, second = cases(place, "rows")
    assert first["expected"] == "4"
    assert second["inputs"] == {"question": "1+1", "unit": 3}
    assert "a row without `input`: left out" in report(place)
    assert "0 errors" in place.regauge("lint")
    assert "2 unmeasured" in run(place, model, code=1)


# Prompty and Dotprompt


def test_prompts_of_prompty_are_imported_with_their_samples(place: Place, model: Model):
    bring(place, "microsoft+prompty")
    out = place.regauge("import", "prompty", "source")
    assert "3 evals, 3 golden cases" in out
    assert prompt(place, "functions")["model"] == "azure:gpt-35-turbo"
    names = [tool["name"] for tool in prompt(place, "functions")["tools"]]
    assert names == ["get_current_weather", "create_a_picture"]
    assert cases(place, "functions")[0]["inputs"]["firstName"] == "Seth"
    assert prompt(place, "threaded")["messages"] == [
        {"role": "system", "content": "You are a helpful assistant."},
        {"history": "conversation"},
        {"role": "user", "content": "{{question}}"},
    ]
    assert cases(place, "threaded")[0]["inputs"] == {"question": "Hello"}
    assert prompt(place, "chat")["messages"][1] == {"history": "chat_history"}
    assert "the endpoint of Azure is missing" in report(place)
    assert "3 unmeasured" in run(place, model, code=1)


PROMPTY = """---
name: Triage
model:
  api: chat
  configuration:
    type: azure_openai
    azure_deployment: gpt-4o
    azure_endpoint: https://shop.openai.azure.com
    api_key: 0123456789abcdef
  parameters: {max_tokens: 9, response_format: "${file:form.json}"}
sample: ${file:sample.json}
---
Sort 0123456789abcdef.
user:
{% for pod in pods %}
{{ pod.name }}
{% endfor %}
{{question}}
"""


def test_an_endpoint_that_the_environment_names_leaves_the_settings_readable(
    place: Place, model: Model
):
    for name in ("one", "two"):
        text = PROMPTY.replace("https://shop.openai.azure.com", "${ENV:AZURE_ENDPOINT}")
        place.write(f"source/{name}.prompty", text)
    place.write("source/form.json", '{"type": "text"}')
    place.write("source/sample.json", '{"question": "Why?", "pods": []}')
    out = place.regauge("import", "prompty", "source")
    assert "ENV:" not in (place.root / "pyproject.toml").read_text()
    noted = "the environment variable AZURE_ENDPOINT is `azure_endpoint`, and is not read"
    [line] = [one for one in report(place).splitlines() if noted in one]
    assert "source/one.prompty:8" in line
    assert "source/two.prompty:8" in line
    # A text with several places is one line of the report.
    manual = report(place).partition("## Needs manual work")[2].partition("\n## ")[0]
    assert f"{manual.count(chr(10) + '- ')} lines of IMPORT.md need manual work" in out
    assert "2 unmeasured" in run(place, model, code=1)


UNREAD_PROMPTY = """---
name: Triage
authors: [ada]
model:
  id: openai:gpt-4o
  response: first
  connection:
    kind: key
  options:
    temperature: 0
    logit_bias: {}
inputs:
  - name: pod
    sample: api-7
    enumValues: [api-7]
template:
  format: jinja2
  strict: true
---
Restart {{pod}}
"""
UNREAD_DOTPROMPT = """---
name: restart
input:
  default: {pod: api-7}
  foo: 1
output:
  format: csv
  bar: 2
config:
  temperature: 0
  safety: {}
tools.own: 3
---
Restart {{pod}}
"""


@pytest.mark.parametrize(
    ("form", "file", "text", "lines"),
    [
        ("prompty", "a.prompty", UNREAD_PROMPTY, {3: "`authors`", 6: "`model.response`", 8: "`model.connection.kind`", 11: "setting of the provider: logit_bias", 15: "`inputs.pod.enumValues`", 18: "`template.strict`"}),
        ("dotprompt", "a.prompt", UNREAD_DOTPROMPT, {2: "`name`", 5: "`input.foo`", 7: "`output.format`", 8: "`output.bar`", 11: "setting of the provider: safety", 12: "`tools.own`"}),
        ("dotprompt", "a.prompt", "---\ninput: pod\nconfig: 3\n---\nHi", {2: "`input`, which is not a mapping", 3: "`config`, which is not a mapping"}),
    ],
)  # fmt: skip
def test_each_key_without_counterpart_has_its_line_in_the_report(
    place: Place, form: str, file: str, text: str, lines: dict[int, str]
):
    place.write(f"source/{file}", text)
    place.regauge("import", form, f"source/{file}")
    dropped = report(place).partition("## Dropped\n")[2].partition("\n## ")[0]
    expected = [f"- `source/{file}:{line}`: {note}" for line, note in lines.items()]
    assert sorted(dropped.strip().splitlines()) == sorted(expected)


def test_the_files_of_a_prompty_are_read_and_its_loops_rendered(place: Place, model: Model):
    place.write("source/triage.prompty", PROMPTY)
    form = {"name": "kind", "schema": {"type": "object", "required": ["kind"]}}
    write_json(place, "source/form.json", {"type": "json_schema", "json_schema": form})
    write_json(
        place, "source/sample.json", {"pods": [{"name": "a"}, {"name": "b"}], "question": "?"}
    )
    place.regauge("import", "prompty", "source/triage.prompty")
    written = prompt(place, "triage")
    assert written["jsonSchema"] == form
    assert written["messages"] == [
        {"role": "system", "content": "Sort [key not copied]."},
        {"role": "user", "content": "{{part2_1}}\n{{question}}"},
    ]
    assert cases(place, "triage")[0]["inputs"]["part2_1"].split() == ["a", "b"]
    text = report(place)
    assert "a key is in the file; it was not copied" in text
    assert "0123456789abcdef" not in text
    settings = (place.root / "pyproject.toml").read_text(encoding="utf-8")
    assert 'base_url = "https://shop.openai.azure.com/openai/v1"' in settings
    model.answers = {"?": '{"kind": "x"}'}
    assert "1 passed" in run(place, model, code=0)


def test_images_of_a_prompty_are_named(place: Place):
    place.write(
        "source/look.prompty", "---\nname: Look\n---\nuser:\n![a chart](chart.png)\nWhat?\n"
    )
    place.regauge("import", "prompty", "source/look.prompty")
    note = "`![a chart](chart.png)`: an image for Prompty, copied as text"
    manual = report(place).partition("## Needs manual work")[2].partition("\n## ")[0]
    assert note in manual


def test_prompts_of_dotprompt_are_imported(place: Place):
    bring(place, "firebase+genkit")
    place.regauge("import", "dotprompt", "source")
    robot = prompt(place, "recipe-robot")
    assert robot["messages"][0]["content"].startswith(
        "Adopt the personality of someone who is robot.\n\nBEEP BOOP!"
    )
    schema = robot["jsonSchema"]["schema"]
    assert schema["required"] == ["title", "ingredients", "steps"]
    assert schema["properties"]["steps"] == {"type": "array", "items": {"type": "string"}}
    assert prompt(place, "product-generator")["responseFormat"] == "json_object"
    text = report(place)
    assert "recipe.robot.prompt`: it has no sample inputs" in text
    assert "product_generator.prompt:5`: the schema of the output is elsewhere" in text
    assert "`{% if personality %}Write in the style" in text
    assert not (place.root / "prompts/-style.prompt.yml").exists()


DOTPROMPT = """---
model: googleai/gemini-2.5-flash
config: {temperature: 0.3, topK: 3}
input:
  schema:
    food: string, the dish
    parts?(array): string
  default:
    food: soup
    parts: [salt, water]
output:
  format: json
  schema:
    title: string
    kind(enum, of dish): [soup, cake]
---
{{role "system"}}
You cook. {% not a tag %} {{! a comment }}
{{history}}
{{role "user"}}
{{#each parts}}
- {{@index}} {{this}} for {{../food}}
{{else}}
none
{{/each}}
{{food}} {{json parts}}
"""


def test_a_dotprompt_with_deerrors_runs(place: Place, model: Model):
    place.write("source/dish.prompt", DOTPROMPT)
    place.regauge("import", "dotprompt", "source/dish.prompt")
    written = prompt(place, "dish")
    assert written["modelParameters"] == {"temperature": 0.3}
    assert written["inputs"][0] == {"name": "history", "required": False}
    assert written["messages"][:2] == [
        {"role": "system", "content": "You cook. {% not a tag %}"},
        {"history": "history"},
    ]
    (case,) = cases(place, "dish")
    assert "- 0 salt for soup\n- 1 water for soup\n" in case["inputs"].values()
    assert "dish.prompt:3`: setting of the provider: topK" in report(place)
    model.answers = {"soup": '{"title": "Soup", "kind": "soup"}'}
    assert "1 passed" in run(place, model, code=0)


@pytest.mark.parametrize(
    ("name", "path", "text", "message"),
    [
        ("prompty", "a.prompty", "Hello", "a.prompty has no front matter"),
        ("prompty", "a.prompty", "---\nname: a\n", "a.prompty:1: its front matter has no end"),
        ("prompty", "a.prompty", "---\n- a\n---\n", "its front matter is not a mapping"),
        ("prompty", "a.prompty", "---\nname: [\n---\nHi", "a.prompty:2: not YAML"),
        ("prompty", "a.prompty", "---\nmodel: {api: embedding}\n---\nHi", "a prompt of embedding"),
        ("prompty", "a.prompty", "---\nname: a\nsample: ${file:../../etc/passwd}\n---\nHi", "outside of the repository"),
        ("prompty", "a.prompty", "---\nname: a\n---\n{% for x in xs %}", "its template cannot be imported"),
        ("prompty", "a.prompty", "---\nname: a\n---\n{{ x.__class__.__mro__() }}", "its template cannot be imported"),
        ("dotprompt", "a.prompt", "", "it has no message"),
        ("dotprompt", "a.prompt", "{{#if x}}a", "{{#if}} has no end"),
        ("dotprompt", "a.prompt", "{{/if}}", "{{/if}} ends no block"),
        ("dotprompt", "a.prompt", "{{shout x}}", "the helper {{shout x}} has no counterpart"),
        ("dotprompt", "a.prompt", "{{>a}}", "_a.prompt does not exist"),
        ("dotprompt", "a.prompt", "{{>../../../etc/a}}", "outside of the repository"),
        ("dotprompt", "a.prompt", '{{role "narrator"}}Hi', "the role 'narrator' has no counterpart"),
    ],
)  # fmt: skip
def test_a_prompt_without_counterpart_is_refused(
    place: Place, name: str, path: str, text: str, message: str
):
    place.write("pyproject.toml", "")
    place.write(path, text)
    out = place.regauge("import", name, path, code=2)
    assert message in out
    assert "fix: " in out
    assert place.files() == [path, "pyproject.toml"]


def test_a_directory_without_a_prompt_to_import_is_refused_with_the_reasons_first(place: Place):
    for name in ("a", "b"):
        text = f"---\ntools: [x]\nweird: 1\n---\n{{{{shout {name}}}}}"
        place.write(f"source/{name}.prompt", text)
    out = place.regauge("import", "dotprompt", "source", code=2)
    reasons = out.partition("as Dotprompt: ")[2]
    assert reasons.startswith("source/a.prompt: not imported: ")
    assert "source/b.prompt: not imported: " in reasons
    assert place.files() == ["source/a.prompt", "source/b.prompt"]


# Inspect


@pytest.mark.parametrize("name", ["capitals.eval", "capitals.json"])
def test_a_log_is_judged_as_its_scorers_did(place: Place, name: str):
    bring(place, f"inspect/{name}")
    out = place.regauge("import", "inspect", f"source/{name}")
    assert "1 eval, 2 golden cases, 4 assertions\n" in out
    first = {case["id"]: case for case in cases(place, "capitals")}["france"]
    assert first["inputs"] == {"input": "Name the capital of France."}
    assert first["expected"] == "Paris"
    epochs = 2 if name.endswith(".eval") else 1
    place.evals("--trials", str(epochs), "--report", "out", code=1)
    lines = (place.root / "out/trials.jsonl").read_text(encoding="utf-8").splitlines()
    failed = {
        (trial["case"], trial["trial"]): len(trial["verdicts"][0]["details"].get("failed", []))
        for trial in map(json.loads, lines)
    }
    scored = {("france", 0): 0, ("2", 0): 1, ("france", 1): 2, ("2", 1): 0}  # as in the log
    assert failed == {key: count for key, count in scored.items() if key[1] < epochs}


def test_datasets_of_inspect_are_imported(place: Place, model: Model):
    bring(place, "UKGovernmentBEIS+inspect_ai")
    place.regauge("import", "inspect", "source")
    (case,) = cases(place, "samples-mcq")
    assert case["expected"] == "A"
    assert case["inputs"]["choices"].startswith("A) 1\nB) 2\n")
    assert "samples.json:2`: `sandbox`: a target runs in its own environment" in report(place)
    assert "2 unmeasured" in run(place, model, code=1)


def test_metadata_of_inspect_becomes_a_note_up_to_500_characters(place: Place):
    rows = [
        {"input": f"Is {length} long?", "target": "A", "metadata": "x" * length}
        for length in (500, 501)
    ]
    place.write("source/notes.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    place.regauge("import", "inspect", "source")
    kept, dropped = cases(place, "notes")
    assert kept["note"] == "x" * 500
    assert "note" not in dropped
    assert "notes.jsonl:2`: `metadata`, which is long" in report(place)


def eval_log(place: Place, members: Mapping[str, object]) -> Path:
    place.root.mkdir(exist_ok=True)
    with zipfile.ZipFile(place.root / "a.eval", "w", zipfile.ZIP_DEFLATED) as file:
        for name, value in members.items():
            file.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return place.root / "a.eval"


HEADER = {"status": "error", "eval": {"task": "own/task", "scorers": [{"name": "own"}]}}


def test_a_log_of_another_run_is_read_as_far_as_it_goes(place: Place):
    sample = {"id": 1, "epoch": 1, "input": "attachment://x", "target": "", "choices": None,
              "attachments": {"x": "a long text", "y": "Yes"}}  # fmt: skip
    part = {
        "message": {"role": "assistant", "content": [{"type": "text", "text": "attachment://y"}]}
    }
    eval_log(
        place,
        {
            "_journal/start.json": HEADER,
            "samples/1_epoch_1.json": {**sample, "output": {"choices": [part]}},
            "samples/2_epoch_1.json": {**sample, "id": 2, "error": {"message": "Timeout"}},
            "../../samples/3_epoch_1.json": sample,
            "samples/../../4.json": sample,
        },
    )
    place.regauge("import", "inspect", "a.eval")
    first, second = cases(place, "task")
    assert first["inputs"] == second["inputs"] == {"input": "a long text"}
    outputs = (place.root / "fixtures/outputs/task.jsonl").read_text(encoding="utf-8")
    assert outputs == '{"case": "1", "text": "Yes"}\n'
    text = report(place)
    assert "the run of the log has the status error" in text
    assert "sample 2 ended in an error: Timeout" in text
    assert "`own` is unmeasured" in text
    assert "2 unmeasured" in place.evals(code=1)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "a.eval has no header.json"),
        ({"header.json": b"{"}, "a.eval is damaged: header.json"),
        ({"header.json": {"eval": {}}}, "a.eval has no sample"),
        ({"header.json": {"eval": {}}, "samples/1_epoch_1.json": b"0" * (65 << 20)}, "a.eval holds too much"),
        ({"header.json": {}, **{f"samples/{n}.json": 1 for n in range(10_001)}}, "more than 10,000 samples"),
    ],
)  # fmt: skip
def test_a_log_that_cannot_be_read_is_refused(
    place: Place, members: Mapping[str, object], message: str
):
    file = eval_log(place, members)
    assert message in place.regauge("import", "inspect", "a.eval", code=2)
    file.write_bytes(file.read_bytes()[:-9])
    assert "a.eval is not a whole zip file" in place.regauge("import", "inspect", "a.eval", code=2)
    assert place.files() == ["a.eval"]


@pytest.mark.parametrize("start", [60, 200])
def test_a_damaged_log_in_zstandard_is_refused(place: Place, start: int):
    data = bytearray((DATA / "inspect/capitals.eval").read_bytes())
    data[start:5000] = bytes(5000 - start)
    (place.root / "a.eval").write_bytes(data)
    assert "a.eval is damaged" in place.regauge("import", "inspect", "a.eval", code=2)


# Bad inputs of every format


@pytest.mark.parametrize(
    ("name", "path", "text", "message"),
    [
        ("deepeval", "a.json", '[{"input": "a"},', "a.json:1: not JSON"),
        ("deepeval", "a.json", '[{"question": "a"}]', "a.json has no golden with `input`"),
        ("deepeval", "a.csv", "input,expected_output\na,b,c\n", "a.csv:2: the row has more cells"),
        ("deepeval", "a.csv", 'input\n"b', "a.csv:1: not CSV: unexpected end of data"),
        ("deepeval", "a.json", '[{"scenario": "s"}]', "a.json:1: a conversation: write `turns`"),
        ("deepeval", "a.py", "def f(:\n", "a.py:1: not Python"),
        ("deepeval", "a.py", "(" * 5000, "a.py:1: not Python"),
        ("deepeval", "a.txt", "input", "a.txt is not JSON, JSON Lines, CSV or Python file"),
        ("langsmith", "a.jsonl", '{"inputs": {}}\n{"inputs"', "a.jsonl:2: not JSON"),
        ("langsmith", "a.jsonl", "[" * 100_000, "a.jsonl:1: not JSON"),
        ("langsmith", "a.json", '{"input": "a"}', "a.json has no row with `inputs`"),
        ("braintrust", "a.jsonl", "", "a.jsonl has no row with `input`"),
        (
            "braintrust",
            "a.csv",
            "input,expected\nx,y\n",
            "a.csv is CSV, which this format does not read",
        ),
        ("inspect", "a.jsonl", '{"input": "a"}\n{', "a.jsonl:2: not JSON"),
        ("inspect", "a.csv", "target\nb\n", "a.csv has no sample with `input`"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_and_nothing_is_written(
    place: Place, name: str, path: str, text: str, message: str
):
    place.write(path, text)
    out = place.regauge("import", name, path, code=2)
    assert message in out
    assert "fix: " in out
    assert place.files() == [path]


@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("deepeval", "a.json", '[{"input": "é"}]'),
        ("langsmith", "a.jsonl", '{"inputs": {"a": "é"}}'),
        ("braintrust", "a.jsonl", '{"input": "é"}'),
        ("inspect", "a.json", '[{"input": "é"}]'),
        ("prompty", "a.prompty", "é"),
        ("dotprompt", "a.prompt", "é"),
    ],
)
def test_other_encodings_and_huge_files_are_refused(place: Place, name: str, path: str, text: str):
    file = place.root / path
    file.write_bytes(text.encode("latin-1"))
    assert f"{path}:1 is not UTF-8" in place.regauge("import", name, path, code=2)
    with file.open("wb") as stream:
        stream.truncate(17 * 1024 * 1024)
    assert "16 MiB is the limit" in place.regauge("import", name, path, code=2)


KEY = "ghp_" + "R4nD0mV4lu3sF0rT3st1ngOnlyAbCdEfGhIjk"[:36]


def test_a_key_in_data_is_named_and_not_copied(place: Place):
    place.write("a.jsonl", json.dumps({"input": f"curl -H {KEY}", "expected": "x"}) + "\n")
    place.regauge("import", "braintrust", "a.jsonl")
    assert "a.jsonl:1`: a key was not copied (GitHub token)" in report(place)
    for path in place.files():
        if path != "a.jsonl":
            assert KEY not in (place.root / path).read_text(encoding="utf-8")


def test_a_data_file_outside_of_the_repository_is_not_read(place: Place):
    (place.root.parent / "secret.json").write_text('[{"input": "TOP"}]', encoding="utf-8")
    place.write("pyproject.toml", "")
    place.write("t/.deepeval/.deepeval-cache.json", '{"cases": {"input actual_output": {}}}')
    place.write(
        "t/test_a.py",
        METRICS + 'd = EvaluationDataset()\nd.add_goldens_from_json_file("../../secret.json")\n'
        'd.add_test_cases_from_csv_file(file_path="missing.csv")\nm = ExactMatchMetric()\n',
    )
    out = place.regauge("import", "deepeval", "t", code=2)
    assert "is outside of the repository" in out
    assert "missing.csv is missing" in out
    assert "give their eval these judges:\n{'deepeval': {'metric': 'ExactMatch'}},\n" in out
    assert "deepeval-cache" not in out
    assert "TOP" not in out
