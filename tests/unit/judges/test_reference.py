"""The reference page, the registry, specifications, functions, evaluators, the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from regauge import judges
from regauge.cli.judges import list_command, try_command
from regauge.errors import JudgeError, PromptError, UsageError
from regauge.judges import (
    Rule,
    UnboundJudge,
    Verdict,
    as_judge,
    cases_from_test_data,
    contains,
    describe,
    equals,
    expected,
    field,
    field_equals,
    has_sections,
    is_refusal,
    json_matches_schema,
    judge_from_spec,
    judge_kinds,
    judges_from_evaluators,
    matches,
    max_words,
    no_personal_data,
    no_secrets,
    not_,
)
from regauge.judges._deepeval import METRICS
from regauge.judges._deepeval._judge import metric_name
from regauge.prompts import load_prompt, parse_prompt
from tests.unit.judges.samples import CASE, completion

ROOT = Path(__file__).parents[3]
PROMPT_FILES = ROOT / "tests" / "data" / "prompt_files"


@pytest.mark.parametrize("name", sorted(judge_kinds()))
def test_every_parameter_is_described(name: str):
    described = describe(name, judge_kinds()[name])
    assert described.summary.endswith(".")
    assert described.example
    assert all(parameter.text for parameter in described.parameters)


def test_every_part_of_a_pattern_in_the_data_is_there():
    # These come from a rubric, a prompt or a rule.
    given = {"name", "key", "one", "count", "comma"}
    for path in Path(judges.__file__).with_name("data").glob("*.toml"):
        text = path.read_text(encoding="utf-8")
        parts = set(re.findall(r"\(\?&(\w+)", text.partition("\n\n")[2]))
        assert parts <= {*tomllib.loads(text), *given}, path.name


def test_importing_judges_loads_nothing_heavy():
    script = (
        "import sys, regauge.judges\n"
        "heavy = {'regex', 'rapidfuzz', 'sacrebleu', 'sqlglot', 'hcl2', 'jsonschema', 'langdetect',"
        " 'openai', 'pandas', 'yaml', 'pydantic', 'snowballstemmer'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("json_parses", "json_parses"),
        ({"max_words": 40}, "max_words(40)"),
        ({"max_words": {"n": 40, "field": "reason"}}, "max_words(40, field=reason)"),
        ({"contains_any": ["a", "b"]}, "contains_any(a, b)"),
        (
            {"contains_any": {"texts": ["a", "b"], "ignore_case": True}},
            "contains_any(a, b, ignore_case=True)",
        ),
        ({"field_in": ["severity", ["a", "b"]]}, "field_in(severity, [a, b])"),
        ({"one_of": ["yes", "no"]}, "one_of([yes, no])"),
        ({"equals": {"expected": "label"}}, "equals(expected.label)"),
        ({"not": {"contains": "x"}}, "not contains(x)"),
        ({"all_of": [{"max_words": 3}, "json_parses"]}, "all_of(max_words(3), json_parses)"),
        (
            {"at_least": {"k": 1, "judges": ["json_parses", {"max_words": 3}]}},
            "at_least(1, json_parses, max_words(3))",
        ),
        ({"field": ["a.b", {"contains": "x"}]}, "field(a.b, contains(x))"),
        (
            {"in_fence": {"judge": "json_parses", "languages": ["json"]}},
            "in_fence(json_parses, languages=[json])",
        ),
        ({"weighted": {"weights": [{"judge": {"contains": "x"}, "weight": 2}]}}, "weighted({…})"),
    ],
)
def test_a_specification_makes_a_judge(spec: object, name: str):
    assert judge_from_spec(spec).name == name  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("max_wrds", "did you mean 'max_words'?"),
        ({"max_words": {"m": 3}}, "missing a required argument: 'n'"),
        ({"max_words": "three"}, "n is a whole number"),
        ({"number_near": {"to": 5, "unit": ["a"]}}, "unit is a text, not ..a"),
        ({"field_in": ["kind", 5]}, "values is a list, not 5"),
        ({"equals": "expected(kind)"}, r"is a text here\n  fix: write {expected: kind}"),
        ({"contains": "expected()"}, 'write {expected: ""}'),
        ({"tool_calls_match": []}, "name at least one tool\n  fix: .*tool_call_count"),
        ({"answer_is": {"to": []}}, "name at least one right answer"),
        ({"choice_is": {"options": ["A", "a"]}}, "name the options as a list"),
        ({"bleu": {"to": ""}}, "no empty one"),
        ({"never_calls": [""]}, "names is a text that is not empty"),
        ({"calls": {"name": " "}}, "name is a text that is not empty"),
        ({"has_sections": [""]}, "titles is a text that is not empty"),
        ({"yaml_parses": {"keys": [""]}}, "keys is a list of texts that are not empty"),
        ({"csv_parses": {"min_rows": -1}}, "min_rows is a whole number from 0 up"),
        ({"detected_language": "klingon"}, "'klingon' cannot be detected; there are af, ar"),
        ({"matches": "("}, "not a regular expression"),
        ({"json_matches_schema": {"schema": {"type": "thing"}}}, "not a JSON Schema"),
        ({"json_matches_schema": {"schema": "no/such.json"}}, "cannot read"),
        ({"field_equals": "a["}, "not a path into JSON"),
        ({"word_count": {"at_least": 3, "at_most": 2}}, "exclude each other"),
        ({"word_count": {}}, "set at_least, at_most or exactly"),
        ({"contains": ""}, "every output contains the empty text"),
        (3, "not a judge"),
        ({"a": 1, "b": 2}, "not a judge"),
        ({"never_calls": {"name": "a"}}, "in YAML never_calls: [...]"),
    ],
)
def test_a_senseless_specification_is_an_error(spec: object, message: str):
    with pytest.raises(UsageError, match=message.replace("?", r"\?").replace("[", r"\[")):
        judge_from_spec(spec)  # type: ignore[arg-type]


def test_equal_parameters_give_equal_digests_however_written():
    assert max_words(40).digest == max_words(n=40, by="spaces").digest
    assert max_words(40).digest != max_words(41).digest
    assert contains("40").digest != contains("4").digest


def test_a_case_that_lacks_the_expected_value_is_an_error_and_no_verdict():
    judge = field_equals("severity")
    with pytest.raises(JudgeError, match=r"'disk-full' has no expected\.severity"):
        judge.check(completion('{"severity": "info"}'), CASE)
    mild = field_equals("severity", absent="abstain")
    assert mild.check(completion('{"severity": "info"}'), CASE).outcome == "abstain"


def test_true_is_not_one_and_one_is_one_point_zero():
    assert field_equals("a", 1).check_text('{"a": 1.0}').outcome == "pass"
    assert field_equals("a", 1).check_text('{"a": true}').outcome == "fail"
    assert field_equals("a", None).check_text('{"a": null}').outcome == "pass"
    assert field_equals("a", None).check_text("{}").code == "missing_field"


def test_a_refusal_is_named_in_the_reason():
    verdict = contains("x").check(completion(None, refusal="No."), CASE)
    assert (verdict.code, verdict.reason) == ("refused", "the model refused: 'No.'")


def test_a_pathological_pattern_is_no_verdict():
    judge = matches(r"^(a|aa)+$", timeout_s=0.05)
    with pytest.raises(JudgeError, match="took more than"):
        judge.check_text("a" * 40 + "b")
    with pytest.raises(JudgeError):
        not_(judge).check_text("a" * 40 + "b")


def test_a_schema_never_reaches_for_the_network():
    judge = json_matches_schema({"$ref": "https://example.com/schema.json"})
    with pytest.raises(JudgeError, match="leads nowhere"):
        judge.check_text("{}")


def test_expected_stands_for_a_value_of_the_case():
    judge = contains(expected("team"), ignore_case=True)
    assert judge.check_text("ask SRE", expected={"team": "sre"}).outcome == "pass"
    assert equals(expected("n")).check_text("3", expected={"n": 3}).outcome == "pass"


def test_a_field_that_is_missing_fails_and_its_negation_passes():
    inner = field("a", contains("x"))
    assert inner.check_text("{}").outcome == "fail"
    assert not_(inner).check_text("{}").outcome == "pass"
    assert field("a", not_(contains("x"))).check_text("{}").outcome == "fail"


@pytest.mark.parametrize(
    ("said", "outcome", "score"),
    [(True, "pass", 1), (False, "fail", 0), (0.75, "pass", 0.75), (0.25, "fail", 0.25)],
)
def test_a_function_is_a_judge(said: float, outcome: str, score: float):
    judge = as_judge(lambda _output, _case: said, name="mine")
    verdict = judge.check(completion("x"), CASE)
    assert (verdict.outcome, verdict.score) == (outcome, score)


def test_a_function_may_give_a_verdict_and_nothing_else():
    own = Verdict(outcome="abstain", score=0, reason="no opinion")
    assert as_judge(lambda _output, _case: own).check(completion("x"), CASE) is own
    for wrong in (None, "yes", 2, float("nan")):
        with pytest.raises(JudgeError, match="returned"):
            as_judge(lambda _output, _case, wrong=wrong: wrong).check(  # type: ignore[arg-type, misc, return-value]
                completion("x"), CASE
            )


def test_a_function_that_raises_gives_no_verdict():
    def broken(output: str, _case: object) -> bool:
        return output[99] == "x"

    with pytest.raises(JudgeError, match="broken raised IndexError on case 'disk-full'"):
        as_judge(broken).check(completion("x"), CASE)


@pytest.mark.parametrize(
    "text",
    [
        "ghp_" + "a1B2" * 9,
        "key: sk-" + "a1B2c3D4" * 5,
        "-----BEGIN RSA PRIVATE KEY-----",
        "postgres://app:s3cr3tPw@db.internal/x",
        'password = "hT7#kq92LmX"',
        "Authorization: Bearer abcDEF123456ghiJKL789",
        "xoxb-123456789012-abcdefABCDEF",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlMTIz",
    ],
)
def test_secrets_are_found_and_not_repeated(text: str):
    verdict = no_secrets().check_text(f"Use {text} now")
    assert verdict.code == "secret"
    assert text not in verdict.reason


@pytest.mark.parametrize(
    "text",
    [
        "password: <your password>",
        "token=$GITHUB_TOKEN",
        "export API_KEY=${API_KEY}",
        "AKIAIOSFODNN7EXAMPLE",
        "kubectl get secret db-credentials -o yaml",
        "The key: restart the pod. The token: none.",
        "https://user@host/path",
        "password: changeme",
        "sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "token_bucket: 100 requests per second",
    ],
)
def test_what_only_looks_like_a_secret_passes(text: str):
    assert no_secrets().check_text(text).outcome == "pass"


def test_times_versions_and_hosts_are_no_personal_data():
    text = (
        "2024-05-03 14:05:00 10.0.0.1:8080 v1.22.333.4444 id 123456789012 "
        "ops@example.com 1714745100 p99 1500-2000 ms"
    )
    assert no_personal_data().check_text(text).outcome == "pass"
    for found in ("+49 30 1234567", "(555) 010-9999", "555-010-9999", "DE89370400440532013000"):
        assert no_personal_data().check_text(f"call {found} now").outcome == "fail"


@pytest.mark.parametrize(
    ("text", "refuses"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("Unfortunately, I am unable to assist with this request.", True),
        ("I must respectfully decline.", True),
        ("I won't provide instructions for this.", True),
        ("The service cannot be restarted while draining.", False),
        ("Sorry page: the 503 page shows 'sorry'.", False),
        ("As an AI language model, I think it is 42.", False),
        ("You can't delete a bound volume; release it first.", False),
        ('The user wrote: "I cannot help you". Restart it.', False),
        ("The message was 'I can't help with that', so restart.", False),
        ("Der Nutzer schrieb: „Ich kann dabei nicht helfen.“ Bitte neu starten.", False),
        ("> I cannot help with that.\n\nRestart the pod.", False),
        ('"I cannot help with that."', True),
        ("I can't help with 'how to do it', sorry.", True),
        ('reply: "I cannot help with that"\nseverity: none of these', True),
        ('{"severity": null, "n": 1, "text": "I cannot help with that."}', True),
    ],
)
def test_refusals_are_told_from_answers(text: str, refuses: bool):  # noqa: FBT001
    assert (is_refusal().check_text(text).outcome == "pass") is refuses


def test_headings_in_code_fences_are_no_sections():
    text = "## Meaning\n```\n## Impact\n```\n"
    assert has_sections("Meaning").check_text(text).outcome == "pass"
    assert has_sections("Impact").check_text(text).code == "missing_section"


def test_sections_know_setext_order_and_emptiness():
    text = "Meaning\n=======\ntext\n\n## 2. **Impact:**\n"
    assert (
        has_sections("Meaning", "Impact", filled=False, ordered=True).check_text(text).code == "ok"
    )
    assert has_sections("Impact").check_text(text).code == "empty_section"
    swapped = has_sections("Impact", "Meaning", filled=False, ordered=True)
    assert swapped.check_text(text).code == "section_order"


async def _judged(judge: object, text: str, case: object) -> Verdict:
    return await judge.judge(completion(text), case)  # type: ignore[attr-defined, no-any-return]


def test_evaluators_of_real_files_become_judges():
    prompt = load_prompt(PROMPT_FILES / "github+gh-models" / "examples" / "sample_prompt.yml")
    string, model = judges_from_evaluators(prompt)
    first, second = cases_from_test_data(prompt)
    assert (first.inputs, second.expected) == (
        {"input": "hello world"},
        {"string": "goodbye", "expected": "farewell response"},
    )
    assert isinstance(string, Rule)
    assert string.check(completion("Hello to you"), first).outcome == "pass"
    assert string.check(completion("Hello to you"), second).outcome == "fail"
    assert isinstance(model, UnboundJudge)


@pytest.mark.parametrize(
    ("template", "inputs", "expected", "outcome"),
    [
        ("{{expected}}", {}, "full", "pass"),
        ("{{expected}}", {}, "empty", "fail"),
        ("{{cause}}", {}, {"cause": "full"}, "pass"),
        ("{{expected}}", {}, {"expected": "full"}, "pass"),
        ("{{count}} of {{all}}", {"all": 3}, {"count": 2}, "pass"),
        ("{{topic}}", {"topic": "disk"}, "full", "pass"),
        # The input is what the prompt was filled with, too.
        ("{{topic}}", {"topic": "disk"}, {"topic": "network"}, "pass"),
        ("{{expected}}", {}, None, None),
        ("{{expected}}", {}, {"cause": "full"}, None),
        ("{{cause}}", {}, "full", None),
    ],
)
def test_an_evaluator_is_filled_with_the_values_of_a_case(
    tmp_path: Path, template: str, inputs: dict[str, Any], expected: Any, outcome: str | None
):
    text = (
        "messages:\n  - {role: user, content: hi}\nevaluators:\n"
        f"  - name: says\n    string: {{contains: '{template}'}}\n"
    )
    (judge,) = judges_from_evaluators(parse_prompt(text, path=tmp_path / "x.prompt.yml"))
    assert isinstance(judge, Rule)
    output = completion("The disk is full, 2 of 3 nodes.")
    case = replace(CASE, inputs=inputs, expected=expected)
    if outcome is None:
        with pytest.raises(JudgeError, match=r"says: no value for \{\{\w+\}\} of case"):
            judge.check(output, case)
    else:
        assert judge.check(output, case).outcome == outcome


def test_senseless_evaluators_are_refused_together(tmp_path: Path):
    text = (
        "messages:\n  - {role: user, content: hi}\nevaluators:\n"
        "  - name: a\n    string: {contians: x}\n  - name: b\n    uses: github/nothing\n"
    )
    prompt = parse_prompt(text, path=tmp_path / "x.prompt.yml")
    with pytest.raises(PromptError) as caught:
        judges_from_evaluators(prompt)
    assert [diagnostic.line for diagnostic in caught.value.diagnostics] == [4, 6]


def test_the_command_runs_one_judge_on_a_file(tmp_path: Path):
    output, case = tmp_path / "answer.json", tmp_path / "case.json"
    output.write_text('{"severity": "info"}', encoding="utf-8")
    case.write_text('{"expected": {"severity": "critical"}}', encoding="utf-8")
    arguments = ["field_equals", "-p", "path=severity", str(output)]
    failed = CliRunner().invoke(try_command, [*arguments, "--case", str(case)])
    assert failed.exit_code == 1
    assert failed.output == ("field_equals(severity): fail: severity is 'info', not 'critical'\n")
    passed = CliRunner().invoke(try_command, ["json_parses: {kind: object}", str(output), "--json"])
    assert passed.exit_code == 0
    assert json.loads(passed.output)["details"] == {"code": "ok"}


def test_the_command_judges_a_recorded_completion(tmp_path: Path):
    recorded = tmp_path / "completion.json"
    recorded.write_text(json.dumps(completion("x").to_json()), encoding="utf-8")
    run = CliRunner().invoke(try_command, ["max_tokens: 5", str(recorded)])
    assert run.output == "max_tokens(5): fail (0.25): 20 tokens, at most 5 wanted\n"


def test_a_judge_on_the_command_line_is_yaml_as_in_files(tmp_path: Path):
    output = tmp_path / "output.txt"
    output.write_text("no", encoding="utf-8")
    assert CliRunner().invoke(try_command, ["contains: no", str(output)]).exit_code == 0
    refused = CliRunner().invoke(try_command, ["max_words: [", str(output)]).exception
    assert str(refused).startswith("the judge, line 1: not YAML: ")
    assert str(refused).count("\n") == 1


def test_the_list_can_be_searched():
    run = CliRunner().invoke(list_command, ["sql"])
    assert run.output.startswith("sql_parses(")
    listed = json.loads(CliRunner().invoke(list_command, ["--json"]).output)
    assert len(listed) > 60


def test_every_name_of_another_library_leads_to_a_judge_or_to_a_reason():
    table = yaml.safe_load((ROOT / "docs" / "judge_names.yml").read_text(encoding="utf-8"))
    assert len(table) == 7
    for library in table.values():
        for name, entry in library["names"].items():
            assert ("use" in entry) != ("missing" in entry), name
            for judge in entry.get("use", ()):
                if judge not in judge_kinds() and not hasattr(judges, judge):
                    assert metric_name(judge)
                    assert judge not in METRICS.entry("unsupported")
