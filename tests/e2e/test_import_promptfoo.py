"""`regauge import promptfoo`, as a process in projects with configurations."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from regauge.cli import main
from regauge.datasets import load_dataset
from regauge.importers._templates import TemplateError, render, split_template
from regauge.judges import judge_from_spec
from regauge.judges.output import JudgedOutput
from regauge.prompts._types import compile_template
from regauge.providers import Completion
from regauge.yaml_document import NodeReader
from tests.place import Place

CONFIG = """\
description: Greets people
prompts:
  - "Say hello to {{name}} in {{language}}."
providers:
  - id: openai:gpt-5.4-mini
    config: {temperature: 0, max_tokens: 50}
defaultTest:
  assert:
    - type: not-contains
      value: sorry
tests:
  - description: German
    vars: {name: [Ada, Bob], language: German}
    assert:
      - type: icontains
        value: "hallo {{name}}"
      - type: latency
        threshold: 2000
        weight: 0
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "shop").mkdir()
    return Place(tmp_path / "shop")


def cases(place: Place, name: str) -> list[dict[str, Any]]:
    text = (place.root / f"fixtures/golden/{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def prompt(place: Place, name: str) -> dict[str, Any]:
    return yaml.safe_load((place.root / f"prompts/{name}.prompt.yml").read_text(encoding="utf-8"))


def test_json_is_read_with_tabs_and_escaped_characters(place: Place):
    config = {
        "prompts": ["Greet {{name}} \N{GRINNING FACE}"],
        "providers": ["openai:gpt-5.4-mini"],
        "tests": [{"vars": {"name": "a"}, "assert": [{"type": "contains", "value": "\N{BUG}"}]}],
    }
    place.write("promptfooconfig.json", json.dumps(config, indent="\t"))
    place.regauge("import", "promptfoo", ".")
    assert cases(place, "shop")[0]["checks"] == [{"contains": "\N{BUG}"}]


def test_lists_of_values_and_deerror_assertions_become_cases(place: Place):
    place.write("promptfooconfig.yaml", CONFIG)
    out = place.regauge("import", "promptfoo", ".")
    assert "1 eval, 2 golden cases, 6 assertions\n" in out
    first, second = cases(place, "shop")
    assert (first["id"], second["id"]) == ("german", "german-2")
    assert second["inputs"] == {"name": "Bob", "language": "German"}
    assert second["checks"] == [
        {"not": {"contains": "sorry"}},
        {"contains": {"text": "hallo Bob", "ignore_case": True}},
        {"max_latency_s": {"limit": 2.0, "blocking": True}, "tier": "tracked"},
    ]
    written = prompt(place, "shop")
    assert written["model"] == "openai:gpt-5.4-mini"
    assert written["modelParameters"] == {"temperature": 0, "maxTokens": 50}
    place.evals("--collect-only")
    assert "0 errors" in place.regauge("lint")


def test_a_second_import_overwrites_nothing(place: Place):
    place.write("promptfooconfig.yaml", CONFIG)
    place.regauge("import", "promptfoo", ".")
    before = {path: path.read_bytes() for path in place.root.rglob("*") if path.is_file()}
    out = place.regauge("import", "promptfoo", ".", code=2)
    assert "files exist: prompts/shop.prompt.yml" in out
    assert "--name shop-2" in out
    assert before == {path: path.read_bytes() for path in place.root.rglob("*") if path.is_file()}
    place.regauge("import", "promptfoo", ".", "--name", "shop-2")
    assert (place.root / "IMPORT-shop-2.md").is_file()


def test_of_many_files_that_exist_five_are_named(place: Place):
    place.write("promptfooconfig.yaml", config(prompts=["One {{q}}", "Two {{q}}", "Three {{q}}"]))
    place.regauge("import", "promptfoo", ".")
    out = place.regauge("import", "promptfoo", ".", code=2)
    names = out.partition("files exist: ")[2].partition("\n")[0]
    assert names.count(", ") == 4
    assert names.endswith(" and 2 more")


DATA = Path(__file__).parents[1] / "data/promptfoo"


class Here:
    """A project, and the commands run in it in this process."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self._capsys = capsys

    def write(self, path: str, text: str | bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())

    def run(self, *arguments: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as stop:
            main(["import", "promptfoo", *arguments])
        out = self._capsys.readouterr()
        assert stop.value.code == code, out.out + out.err
        return out.out + out.err

    def read(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def cases(self, name: str = "shop") -> list[dict[str, Any]]:
        return [
            json.loads(line) for line in self.read(f"fixtures/golden/{name}.jsonl").splitlines()
        ]

    def prompt(self, name: str = "shop") -> dict[str, Any]:
        return yaml.safe_load(self.read(f"prompts/{name}.prompt.yml"))

    def files(self) -> set[str]:
        return {p.relative_to(self.root).as_posix() for p in self.root.rglob("*") if p.is_file()}


@pytest.fixture
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Here:
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    return Here(tmp_path / "shop", capsys)


def config(**keys: object) -> str:
    base: dict[str, object] = {
        "prompts": ["Answer: {{q}}"],
        "providers": ["openai:gpt-5.4-mini"],
        "tests": [{"vars": {"q": "one"}, "assert": [{"type": "contains", "value": "1"}]}],
    }
    return yaml.safe_dump({**base, **keys}, sort_keys=False, allow_unicode=True)


def checks_of(here: Here, *assertions: object, **keys: object) -> list[Any]:
    tests = [{"description": "t", "vars": {"q": "one", "word": "Ada"}, "assert": [*assertions]}]
    here.write("promptfooconfig.yaml", config(tests=tests, **keys))
    here.run(".")
    return here.cases()[0]["checks"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "has no configuration of promptfoo"),
        ({"promptfooconfig.yaml": "prompts: [a\ntests: 1"}, "promptfooconfig.yaml:1: not YAML: the `[` of this line is not closed"),
        ({"promptfooconfig.yaml": "prompts: a\nprompts: b\n"}, "the file gives 'prompts' twice, first on line 1"),
        ({"promptfooconfig.yaml": b"prompts: [caf\xe9]\ntests: []\n"}, "promptfooconfig.yaml:1 is not UTF-8"),
        ({"promptfooconfig.js": "module.exports = {}"}, "is code and is not run"),
        ({"promptfooconfig.yaml": "prompts: &a [*a]\ntests: []\n"}, "contains itself through an alias"),
        ({"promptfooconfig.yaml": "tests:\n  - 1\n"}, "there is no test to import"),
        ({"a/promptfooconfig.yaml": "description: later"}, "a/promptfooconfig.yaml has no prompts, providers or tests"),
        ({"promptfooconfig.yaml": "prompts: 1\n---\ntests: 2\n"}, "a second document starts here"),
        ({"pyproject.toml": 'tool = {regauge = {model = "x:y"}}\n', "promptfooconfig.yaml": config(providers=["groq:m"])}, "tables cannot be added at its end"),
    ],
)  # fmt: skip
def test_a_directory_that_cannot_be_imported_is_refused_and_nothing_is_written(
    here: Here, files: dict[str, str | bytes], said: str
):
    for path, text in files.items():
        here.write(path, text)
    assert said in here.run(".", code=2)
    assert here.files() == set(files)


def test_a_small_file_that_stands_for_a_huge_value_is_refused(
    here: Here, monkeypatch: pytest.MonkeyPatch
):
    # To count a million values takes two seconds.
    monkeypatch.setattr(NodeReader, "values_max", 10_000)
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    here.write("promptfooconfig.yaml", "prompts: [a]\n" + "\n".join(lines) + "\n")
    assert "values, aliases resolved" in here.run(".", code=2)


def test_what_does_not_exist_or_is_no_configuration_is_refused(here: Here):
    assert "nowhere.yaml does not exist" in here.run("nowhere.yaml", code=2)
    here.write("compose.yaml", "services: {}\n")
    assert "is not a configuration of promptfoo" in here.run("compose.yaml", code=2)
    (here.root / "link.yaml").symlink_to("compose.yaml")
    assert "link.yaml is a link, which is not followed" in here.run("link.yaml", code=2)
    here.write("own.mjs", "export default {}")
    assert "own.mjs is code, which is not run" in here.run("own.mjs", code=2)


def test_configurations_of_subdirectories_are_imported(here: Here):
    here.write("promptfooconfig.yaml", config())
    here.write("chat/promptfooconfig.yaml", config())
    here.write("node_modules/pkg/promptfooconfig.yaml", config())
    here.write("web/promptfooconfig.js", "module.exports = {}")
    here.write("bad/promptfooconfig.json", "{")
    here.run(".")
    report = here.read("IMPORT.md")
    assert "Source: `chat/promptfooconfig.yaml`, `promptfooconfig.yaml`" in report
    assert "`web/promptfooconfig.js`: not imported: its code is not run: node -e" in report
    assert "`bad/promptfooconfig.json`: not imported: it has no prompts" in report


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_a_configuration_in_javascript_is_written_as_json_by_the_fix(here: Here):
    here.write("web/promptfooconfig.js", f"module.exports = {json.dumps(yaml.safe_load(config()))}")
    fix = here.run("web", code=2).partition("fix: ")[2].partition(" runs it")[0]
    subprocess.run(fix, shell=True, cwd=here.root, check=True, timeout=60)
    here.run("web")
    assert "Source: `web/promptfooconfig.json`" in here.read("IMPORT.md")
    assert "promptfooconfig.js`" not in here.read("IMPORT.md")


def test_files_outside_of_the_repository_and_links_are_not_read(here: Here):
    (here.root.parent / "secret.txt").write_text("TOP", encoding="utf-8")
    (here.root / "link.txt").symlink_to(here.root.parent / "secret.txt")
    (here.root / "promptfooconfig.link.yaml").symlink_to("promptfooconfig.yaml")
    names = ["../secret.txt", "link.txt", "/etc/hostname", "C:\\secret.txt", "~/secret.txt"]
    tests = [
        {"vars": {"q": f"file://{name}"}, "assert": [{"type": "contains", "value": "x"}]}
        for name in names
    ]
    here.write("promptfooconfig.yaml", config(tests=[*tests, {"vars": {"q": "kept"}}]))
    here.run(".")
    report = here.read("IMPORT.md")
    assert [case["inputs"] for case in here.cases()] == [{"q": "kept"}]
    for name in names:
        assert f"file://{name}" in report
    assert report.count("is outside of the repository") == 4
    assert "leads over a link, which is not followed" in report
    assert all("TOP" not in here.read(path) for path in here.files() if path != "link.txt")
    assert "promptfooconfig.link" not in report


def test_judges_of_another_project_are_copied_and_its_programs_are_named(here: Here):
    here.write("../other/check.js", "module.exports = () => true")
    tests = [{"vars": {"q": "a"}, "assert": [{"type": "javascript", "value": "file://check.js"}]}]
    here.write("../other/promptfooconfig.yaml", config(tests=tests, providers=["exec:cat"]))
    here.run("../other")
    report = here.read("IMPORT.md")
    assert "its code is outside of this project; run the import in its repository" in report
    assert "code was copied to evals/promptfoo/check.js; files that it loads were not" in report
    assert "=> true" in here.read("evals/promptfoo/check.js")
    (golden,) = (here.root / "fixtures/golden").glob("*.jsonl")
    assert "evals/promptfoo/check.js" in golden.read_text(encoding="utf-8")


def test_prompts_of_an_old_form_are_labelled_by_file(here: Here):
    here.write("one.txt", "One {{q}}")
    here.write("promptfooconfig.yaml", config(prompts={"one.txt": "first"}))
    here.run(".")
    (prompt,) = [path for path in here.files() if path.endswith(".prompt.yml")]
    assert "One {{q}}" in here.read(prompt)


def test_a_value_that_is_no_path_or_pattern_is_named(here: Here):
    texts = [
        "file://notes.txt\n**Bold** and [more\n" + "long " * 900,
        "file://**a/b**.txt",
        "file://[a",
        "file://a\0b",
    ]
    tests = [{"vars": {"q": text}} for text in texts]
    here.write("x/by.txt", "found")
    here.write("promptfooconfig.yaml", config(tests=[*tests, {"vars": {"q": "kept"}}]))
    here.run(".")
    assert [case["inputs"] for case in here.cases()] == [{"q": "kept"}]
    assert max(map(len, here.read("IMPORT.md").splitlines())) < 500


def test_lists_that_make_too_many_tests_are_not_expanded(here: Here):
    many = [f"v{number}" for number in range(150)]
    tests = [{"vars": {"q": many, "a": many}}, {"vars": {"q": many[:2], "a": many[:3]}}]
    here.write("promptfooconfig.yaml", config(tests=tests))
    here.run(".")
    assert len(here.cases()) == 6
    assert "its lists make 22,500 tests, of 20,000 in all" in here.read("IMPORT.md")


def test_a_prompt_that_is_no_prompt_file_is_named_and_not_written(here: Here):
    providers = [{"id": "openai:gpt-4o", "config": {"temperature": [1]}}]
    here.write("promptfooconfig.yaml", config(providers=providers))
    here.run(".")
    assert "the prompt shop is not written: " in here.read("IMPORT.md")
    assert not here.files() & {"prompts/shop.prompt.yml", "evals/test_shop.py"}


def test_a_key_of_a_test_that_is_not_read_is_named(here: Here):
    test = {"vars": {"q": "one"}, "expected": "1", "assertScoringFunction": "file://score.js"}
    here.write("promptfooconfig.yaml", config(tests=[test]))
    here.run(".")
    person, _, dropped = here.read("IMPORT.md").partition("## Dropped")
    assert "`assertScoringFunction` of a test is not imported" in person
    assert "`expected` of a test is not imported" in dropped


def test_names_of_windows_and_of_the_repository_are_found(here: Here):
    here.write("evals/data/long.txt", "inside")
    tests = [
        {"vars": {"q": "file://data\\long.txt"}},
        {"vars": {"q": "file://evals/data/long.txt"}},
    ]
    here.write("evals/promptfooconfig.yaml", config(tests=tests))
    here.run("evals")
    assert [case["inputs"]["q"] for case in here.cases()] == ["inside", "inside"]


def test_all_configurations_of_a_directory_are_imported(here: Here):
    here.write("evals/promptfooconfig.yaml", config())
    here.write("evals/smoke.yaml", config(prompts=["Smoke {{q}}"]))
    here.write("evals/promptfooconfig.bad.yaml", "prompts: [a\ntests: 1")
    here.run("evals")
    assert {path.name for path in (here.root / "prompts").glob("*.yml")} == {
        "shop.prompt.yml",
        "smoke.prompt.yml",
    }
    assert "`evals/promptfooconfig.bad.yaml:1`: not imported: not YAML" in here.read("IMPORT.md")


def test_tests_of_one_provider_are_an_eval_with_its_model(here: Here):
    providers = ["openai:gpt-5.4-mini", {"id": "groq:llama-x", "label": "small"}]
    tests = [{"vars": {"q": "a"}}, {"vars": {"q": "b"}, "providers": ["small"]}]
    here.write("promptfooconfig.yaml", config(providers=providers, tests=tests))
    here.run(".")
    assert 'model="groq:llama-x"' in here.read("evals/test_shop.py")
    assert [case["inputs"]["q"] for case in here.cases("shop-llama-x")] == ["b"]


@pytest.mark.parametrize(("files", "is_read"), [(8, True), (9, False)])
def test_test_files_name_each_other_up_to_eight_deep(here: Here, files: int, *, is_read: bool):
    for number in range(1, files):
        here.write(f"t{number}.yaml", f"- t{number + 1}.yaml\n")
    here.write(f"t{files}.yaml", "- vars: {q: deep}\n")
    tests = ["file://t1.yaml", {"vars": {"q": "near"}}]
    here.write("promptfooconfig.yaml", config(tests=tests))
    here.run(".")
    assert ("files refer to each other without end" in here.read("IMPORT.md")) is not is_read
    cases = {case["inputs"]["q"] for case in here.cases()}
    assert cases == ({"deep", "near"} if is_read else {"near"})


def test_outputs_that_tests_bring_are_judged_without_a_model(place: Place):
    tests = [
        {"vars": {"q": "a"}, "providerOutput": "1", "assert": [{"type": "equals", "value": "1"}]}
    ]
    place.write("promptfooconfig.yaml", config(tests=tests))
    place.regauge("import", "promptfoo", ".")
    assert "1 passed" in place.evals("-p", "no:cacheprovider")


def test_test_files_that_name_each_other_end(here: Here):
    here.write("a.yaml", "- b.yaml\n- vars: {q: two}\n")
    here.write("b.yaml", "- a.yaml\n")
    here.write("promptfooconfig.yaml", config(tests="file://a.yaml"))
    here.run(".")
    assert "files refer to each other without end" in here.read("IMPORT.md")
    assert {case["inputs"]["q"] for case in here.cases()} == {"two"}


def test_a_key_in_the_file_is_named_and_never_copied(here: Here):
    key = "sk-live-4f3a9b1c7d2e8f60"
    providers = [
        {
            "id": "openai:gpt-5.4-mini",
            "config": {"apiKey": key, "apiBaseUrl": "https://llm.example/v1"},
        }
    ]
    tests = [
        {
            "description": f"with {key}",
            "vars": {"q": key},
            "assert": [{"type": "contains", "value": key}],
        }
    ]
    here.write("promptfooconfig.yaml", config(providers=providers, tests=tests))
    here.run(".")
    written = here.files() - {"promptfooconfig.yaml"}
    assert all(key not in here.read(path) for path in written)
    assert "Set the environment variable OPENAI_API_KEY" in here.read("IMPORT.md")
    settings = tomllib.loads(here.read("pyproject.toml"))["tool"]["regauge"]
    assert settings["providers"] == {
        "openai-llm-example": {
            "base_url": "https://llm.example/v1",
            "api_key_env": "OPENAI_API_KEY",
        }
    }


def test_keys_in_cases_and_requests_are_masked_and_made_up_passwords_stay(here: Here):
    key = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    provider = {"id": "https://shop.example/ask", "config": {"body": {"q": "{{q}}", "key": key}}}
    tests = [{"vars": {"q": f"password: golden, token {key}"}, "assert": [{"type": "is-json"}]}]
    quoted = 'API_KEY="zz_live_83920184hgjr"'
    config_text = config(prompts=[f"{quoted} {{{{q}}}}"], providers=[provider], tests=tests)
    here.write("promptfooconfig.yaml", config_text)
    here.run(".")
    written = here.files() - {"promptfooconfig.yaml"}
    for secret in (key, "zz_live_83920184hgjr"):
        assert all(secret not in here.read(path) for path in written)
    assert here.cases()[0]["inputs"]["q"] == "password: golden, token [key not copied]"
    assert "a key was not copied (GitHub token)" in here.read("IMPORT.md")


def test_check_writes_nothing_and_exits_with_1_where_a_person_is_needed(here: Here):
    here.write("promptfooconfig.yaml", config())
    assert "## Needs manual work\n\nNothing." in here.run(".", "--check")
    here.write("promptfooconfig.yaml", config(tests=["file://tests.py", {"vars": {"q": "1"}}]))
    here.run(".", "--check", "-o", "report.md", code=1)
    assert "promptfooconfig.yaml:6: tests are generated by code" in here.read("report.md").replace(
        "`", ""
    )
    assert here.files() == {"promptfooconfig.yaml", "report.md"}
    here.run(".")
    assert "tests are generated by code" in here.run(".", "--check", code=1)


def test_every_assertion_becomes_a_check(here: Here):
    assert checks_of(
        here,
        {"type": "icontains-any", "value": "a, b"},
        {"type": "not-regex", "value": r"(?i)^sorry\b.*$"},
        {"type": "javascript", "value": "output.length < 9", "threshold": 0.5},
        {"type": "python", "value": "len(output) > 1"},
        {"type": "llm-rubric", "value": "greets {{word}}", "provider": "anthropic:messages:claude-x"},
        {"type": "similar", "value": "hi", "threshold": 0.6, "weight": 2, "metric": "near"},
        {"type": "is-json", "value": {"type": "object"}},
        {"type": "assert-set", "threshold": 0.5, "assert": [{"type": "contains", "value": "x"}, {"type": "not-equals", "value": "y"}]},
        {"type": "gleu", "value": "hi there"},
    ) == [
        {"contains_any": {"texts": ["a", "b"], "ignore_case": True}},
        {"not": {"matches": {"pattern": r"^sorry\b.*\Z", "ignore_case": True}}},
        {"javascript": {"code": "output.length < 9", "pass_at": 0.5}},
        {"promptfoo_python": {"code": "len(output) > 1"}},
        {"rubric": {"criterion": "greets Ada", "model": "anthropic:claude-x"}},
        {"means_like": {"to": "hi", "measure": "cosine", "at_least": 0.6, "model": "openai:text-embedding-3-large"}, "weight": 2, "metric": "near"},
        {"json_matches_schema": {"schema": {"type": "object"}}},
        {"weighted": {"weights": [{"judge": {"contains": "x"}, "weight": 1}, {"judge": {"not": {"equals": {"value": "y"}}}, "weight": 1}], "at_least": 0.5}},
        {"gleu": {"to": "hi there", "at_least": 0.5}},
    ]  # fmt: skip


def test_assertions_of_red_teaming_and_without_a_type_are_named_once(here: Here):
    plugins = ("promptfoo:redteam:bias:age", "promptfoo:redteam:hijacking")
    checks_of(here, {"type": None, "value": "x"}, *({"type": one} for one in plugins))
    report = here.read("IMPORT.md")
    assert report.count("regauge has no red teaming; keep promptfoo for it") == 1
    assert "`an assertion` is unmeasured: it has no type" in report


@pytest.mark.parametrize(
    "assertion",
    [
        {"type": "factuality", "value": "Paris is the capital"},
        {"type": "answer-relevance", "threshold": 0.8},
        {"type": "llm-rubric", "value": "is polite"},
        {"type": "trajectory:goal-success", "value": "the order is placed"},
    ],
)
def test_every_llm_judge_has_a_model(here: Here, assertion: dict[str, Any]):
    (check,) = checks_of(here, assertion, providers=["ollama:chat:llama3:8b"])
    assert "unmeasured" not in check
    assert 'judge_model = "' in here.read("pyproject.toml")


def test_the_grader_of_an_assertion_judges_it(here: Here):
    (check,) = checks_of(here, {"type": "factuality", "value": "x", "provider": "openai:gpt-4o"})
    assert check["rubric"]["model"] == "openai:gpt-4o"


@pytest.mark.parametrize(
    "assertion",
    [
        {"type": "select-best", "value": "the best"},
        {"type": "relevance", "value": "x"},
        {"type": "contains"},
        {"type": "regex", "value": "(unclosed"},
        {"type": "javascript", "value": "file://missing.js"},
        {"type": "python", "value": "file://program.py"},
        {"type": "similar", "value": "x", "transform": "output.trim()"},
        {"type": "contains", "value": "x", "transform": "file://missing.js"},
        {"type": "latency"},
        {"type": "word-count", "value": "many"},
    ],
)
def test_an_assertion_without_counterpart_is_unmeasured_and_named(
    here: Here, assertion: dict[str, Any]
):
    here.write("program.py", "import sys\n\nprint(sys.argv[1])\n")
    (check,) = checks_of(here, assertion)
    assert list(check) == ["unmeasured"]
    assert f"`{assertion['type']}` is unmeasured" in here.read("IMPORT.md")


@pytest.mark.parametrize(
    ("keys", "report"),
    [
        ({"evaluateOptions": {"repeat": 3}}, "`repeat: 3` is not kept; run pytest evals --trials 3"),
        ({"tracing": {"enabled": True}}, "`tracing`: traces have no counterpart"),
        ({"surprise": 1}, "`surprise` is not imported"),
        ({"providers": []}, "no provider is named; the project's model is used"),
        ({"providers": ["openai:gpt-5.4-mini", "openai:o3"]}, "compare all with pytest evals --model openai:gpt-5.4-mini --model openai:o3"),
        ({"providers": [{"id": "openai:gpt-5.4-mini", "config": {"temperature": 0}}, "openai:o3"]}, "the models have different settings; prompts have those of the first"),
        ({"providers": ["gpt-5.4-mini"]}, "gpt-5.4-mini names no provider; openai serves it"),
        ({"providers": [{"config": {}, "label": "x"}]}, "a provider has no `id`"),
        ({"providers": ["file://missing.yaml"]}, "a provider is not imported: missing.yaml does not exist"),
        ({"providers": ["file://missing.py"]}, "the provider is not imported: missing.py does not exist"),
        ({"providers": [{"id": "openai:gpt-5.4-mini", "config": {"apiBaseUrl": "models"}}]}, "the URL of the endpoint is not complete; write base_url"),
        ({"providers": [{"id": "http", "config": {"url": "/ask", "body": {"q": "{{q}}"}}}]}, "the URL of the HTTP provider is not complete; correct `url`"),
        ({"providers": [{"id": "http://127.0.0.1:9/", "config": {"method": "TRACE"}}]}, "the method TRACE has no counterpart; the target uses POST"),
        ({"prompts": ["{{ q | trim }}"]}, "`{{ q | trim }}` of the template is rendered into the input"),
        ({"prompts": ["{% macro m() %}{% endmacro %}{{ q }}"]}, "'macro', which is not rendered"),
        ({"prompts": ["{{ range(99999999) }}"]}, "a range is longer than "),
        ({"prompts": ["{{ q | bogus }}"]}, "it uses the filter 'bogus'"),
        ({"prompts": ['[{% if q %}{"role": "user", "content": "{{q}}"}{% endif %}]']}, "the chat is built by its template: each case has its rendered messages"),
        ({"providers": [{"id": "openai:o3", "config": {"temperature": 0}}]}, "openai:o3 rejects or ignores temperature; the prompt has none"),
        ({"providers": [{"id": "anthropic:messages:claude-x", "config": {"temperature": 0}}]}, "anthropic:claude-x rejects or ignores temperature; the prompt has none"),
        ({"tests": [{"vars": {"q": "one"}}]}, "a test without assertions is unmeasured until it has checks"),
        ({"tests": ["https://127.0.0.1:9/tests.csv"]}, "tests on a server are not read; save them as CSV or YAML"),
        ({"tests": ["file://missing.csv"]}, "tests are missing: "),
        ({"tests": ["file://folder"]}, "tests are missing: folder is a directory; name its files"),
        ({"tests": ["file://tests.xlsx"]}, "tests.xlsx is a spreadsheet; save it as CSV"),
        ({"tests": [{"vars": {"q": "file://q.py"}}]}, "is computed by code in file://q.py"),
        ({"tests": [{"vars": {"q": "{{ env.APP_LANG }}"}}]}, "`q` reads the environment variable APP_LANG; write its value"),
        ({"tests": [{"vars": {"q": "1"}, "metadata": {"team": "pay", "tags": ["a"]}}]}, "`metadata` of a test, apart from `tags`: team"),
        ({"defaultTest": "file://missing.yaml"}, "`defaultTest` is not imported: "),
        ({"defaultTest": "file://folder/default.js"}, "`defaultTest` is code, which is not run"),
        ({"defaultTest": {"options": {"rubricPrompt": "Grade it."}}, "tests": [{"vars": {"q": "1"}, "assert": [{"type": "llm-rubric", "value": "polite"}]}]}, "`rubricPrompt` has no {{output}}; the criterion is judged"),
        ({"defaultTest": {"options": {"rubricPrompt": "file://missing.txt"}}, "tests": [{"vars": {"q": "1"}, "assert": [{"type": "llm-rubric", "value": "polite"}]}]}, "the criterion alone is judged"),
    ],
)  # fmt: skip
def test_what_an_import_leaves_out_or_changes_is_in_its_report(
    here: Here, keys: dict[str, object], report: str
):
    here.write("folder/default.js", "module.exports = {}\n")
    here.write("tests.xlsx", "PK")
    here.write("q.py", "raise SystemExit(9)\n")
    here.write("promptfooconfig.yaml", config(**keys))
    here.run(".")
    assert report in here.read("IMPORT.md")


@pytest.mark.parametrize(
    ("assertion", "why"),
    [
        ({"type": "surprise"}, "promptfoo documents no such type"),
        ({"type": "perplexity-score", "threshold": 0.5}, "use perplexity with a limit"),
        ({"type": "regex", "value": "(unclosed"}, "its pattern is none of Python: "),
        ({"type": "is-json", "value": "a: [1"}, "its schema is neither JSON nor YAML"),
        ({"type": "llm-rubric", "value": " "}, "it has no value"),
        ({"type": "javascript", "value": "file://q.ts"}, "it is TypeScript; compile it"),
        ({"type": "is-valid-openai-tools-call"}, "no provider has tools; use tool_calls_match"),
        ({"type": "context-relevance"}, "the test has no variable `context`"),
        ({"type": "trajectory:tool-used", "value": {"pattern": "f*"}}, "it names its tool by a pattern"),
        ({"type": "trajectory:tool-sequence", "value": [{"pattern": "f*"}]}, "it names its steps by patterns"),
        ({"type": "trajectory:step-count", "value": {"type": "span", "max": 3}}, "it counts other steps than tool calls"),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)  # fmt: skip
def test_the_report_gives_the_reason_why_an_assertion_is_unmeasured(
    here: Here, assertion: dict[str, Any], why: str
):
    here.write("q.ts", "export default 1\n")
    (check,) = checks_of(here, assertion)
    assert why in check["unmeasured"]
    assert why in here.read("IMPORT.md")


MEANINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "contains", "value": "Ada"}, {"contains": "Ada"}),
    ({"type": "icontains-all", "value": ["a", "b, c"]}, {"contains_all": {"texts": ["a", "b, c"], "ignore_case": True}}),
    ({"type": "contains-any", "value": 'a, "b, ""c"""'}, {"contains_any": ["a", 'b, "c"']}),
    ({"type": "equals", "value": {"a": 1}}, {"json_like": {"value": {"a": 1}, "extra": "none"}}),
    ({"type": "equals", "value": 7}, {"equals": {"value": "7"}}),
    ({"type": "starts-with", "value": "Dear"}, {"starts_with": ["Dear"]}),
    ({"type": "is-json", "value": '{"type": "object"}'}, {"json_matches_schema": {"schema": {"type": "object"}}}),
    ({"type": "is-json"}, {"json_parses": {}}),
    ({"type": "contains-json"}, {"contains_json": {}}),
    ({"type": "contains-json", "value": {"type": "array"}}, {"contains_json": {"schema": {"type": "array"}}}),
    ({"type": "is-xml"}, {"xml_parses": {}}),
    ({"type": "is-xml", "value": "a.b, c"}, {"xml_parses": {"elements": ["a.b", "c"]}}),
    ({"type": "contains-xml", "value": {"requiredElements": ["a.b"]}}, {"contains_xml": {"elements": ["a.b"]}}),
    ({"type": "contains-xml", "value": {"requiredElements": []}}, {"contains_xml": {}}),
    ({"type": "is-html"}, {"html_parses": {}}),
    ({"type": "contains-html"}, {"contains_html": {}}),
    ({"type": "is-sql"}, {"sql_parses": {}}),
    ({"type": "is-sql", "value": {"databaseType": "PostgreSQL", "allowedTables": ["select::null::users"]}}, {"sql_parses": {"dialect": "postgres", "tables": ["users"]}}),
    ({"type": "contains-sql", "value": {"databaseType": "sqlite"}}, {"in_fence": {"judge": {"sql_parses": {"dialect": "sqlite"}}, "required": False}}),
    ({"type": "latency", "threshold": 1500}, {"max_latency_s": {"limit": 1.5, "blocking": True}}),
    ({"type": "cost", "threshold": 0.002}, {"max_cost_usd": {"limit": 0.002}}),
    ({"type": "perplexity", "threshold": 2}, {"perplexity": 2.0}),
    ({"type": "levenshtein", "value": "hi"}, {"edit_distance": {"to": "hi", "at_most": 5}}),
    ({"type": "levenshtein", "value": "hi", "threshold": 0}, {"edit_distance": {"to": "hi", "at_most": 0}}),
    ({"type": "rouge-n", "value": "hi"}, {"rouge_n": {"to": "hi", "at_least": 0.75}}),
    ({"type": "bleu", "value": "hi", "threshold": 0}, {"bleu": {"to": "hi", "at_least": 0}}),
    ({"type": "word-count", "value": 5}, {"word_count": {"exactly": 5}}),
    ({"type": "word-count", "value": {"min": 0, "max": 2}}, {"word_count": {"at_least": 0, "at_most": 2}}),
    ({"type": "is-refusal"}, {"is_refusal": {}}),
    ({"type": "finish-reason", "value": "stop"}, {"finish_reason_is": ["stop"]}),
    ({"type": "guardrails"}, {"not": {"finish_reason_is": ["content_filter"]}}),
    ({"type": "tool-call-f1", "value": "a, b"}, {"tools_called": {"names": ["a", "b"], "at_least": 1}}),
    ({"type": "tool-call-f1", "value": ["a"], "threshold": 0}, {"tools_called": {"names": ["a"], "at_least": 0}}),
    ({"type": "trajectory:tool-used", "value": "a"}, {"calls": {"name": "a"}}),
    ({"type": "trajectory:tool-used", "value": ["a", "b"]}, {"all_of": [{"calls": {"name": "a"}}, {"calls": {"name": "b"}}]}),
    ({"type": "trajectory:tool-used", "value": {"name": "a", "min": 1, "max": 2}}, {"calls": {"name": "a", "at_least": 1, "at_most": 2}}),
    ({"type": "trajectory:tool-args-match", "value": {"name": "a", "args": {"q": 1}}}, {"calls": {"name": "a", "args": {"q": 1}, "exact": False}}),
    ({"type": "trajectory:tool-args-match", "value": {"name": "a", "args": {"q": 1}, "mode": "exact"}}, {"calls": {"name": "a", "args": {"q": 1}, "exact": True}}),
    ({"type": "trajectory:tool-sequence", "value": ["a", "b"]}, {"calls_in_order": ["a", "b"]}),
    ({"type": "trajectory:tool-sequence", "value": {"mode": "exact", "steps": ["a"]}}, {"calls_exactly": {"calls": ["a"]}}),
    ({"type": "trajectory:step-count", "value": {"type": "tool", "max": 3}}, {"tool_call_count": {"at_most": 3}}),
]  # fmt: skip


def test_an_assertion_keeps_its_meaning(here: Here):
    checks = checks_of(here, *(assertion for assertion, _ in MEANINGS))
    assert checks == [check for _, check in MEANINGS]


def test_a_negated_criterion_is_written_out(here: Here):
    (check,) = checks_of(here, {"type": "not-llm-rubric", "value": "rude"})
    assert check["rubric"]["criterion"] == "The output does not meet this criterion: rude"
    assert "`not-llm-rubric` became the negated criterion" in here.read("IMPORT.md")


def test_a_transform_and_its_assertion_become_one_script(here: Here):
    (check,) = checks_of(
        here,
        {"type": "not-contains", "value": "b", "transform": "try { return output[0] } catch { }\n"},
    )
    judge = judge_from_spec(check)
    assert judge.check_text("ab").outcome == "pass"
    assert judge.check_text("ba").outcome == "fail"


def test_a_transform_in_a_file_is_part_of_the_script(here: Here):
    here.write("change.js", "module.exports = {first: (output) => output.split(' ')[0]};\n")
    (check,) = checks_of(
        here, {"type": "equals", "value": "a", "transform": "file://change.js:first"}
    )
    judge = judge_from_spec(check)
    assert judge.check_text("a b").outcome == "pass"
    assert judge.check_text("b a").outcome == "fail"


def test_the_transform_of_a_provider_comes_before_its_assertions(here: Here):
    provider = {"id": "openai:gpt-5.4-mini", "transform": "output.toUpperCase()"}
    (check,) = checks_of(here, {"type": "contains", "value": "OK"}, providers=[provider])
    assert judge_from_spec(check).check_text("ok").outcome == "pass"


def test_a_transform_leaves_what_is_not_text_and_llm_judges(here: Here):
    options = {"options": {"transform": "output.trim()"}}
    checks = checks_of(
        here, {"type": "latency", "threshold": 900}, {"type": "llm-rubric", "value": "polite"},
        defaultTest=options,
    )  # fmt: skip
    assert [next(iter(check)) for check in checks] == ["max_latency_s", "rubric"]
    assert "the LLM judge reads the output before its transform" in here.read("IMPORT.md")


def test_tool_calls_are_compared_with_the_tools_of_the_model(here: Here):
    tool = {"name": "find", "parameters": {"type": "object", "required": ["q"]}}
    for key in ("tools", "functions"):
        provider = {"id": "openai:gpt-5.4-mini", "config": {key: [tool]}}
        here.write("promptfooconfig.yaml", config(
            providers=[provider],
            tests=[{"vars": {"q": "x"}, "assert": [{"type": "is-valid-openai-tools-call"}]}],
        ))  # fmt: skip
        here.run(".", "--name", key)
        (check,) = here.cases(key)[0]["checks"]
        assert check["tool_calls_match"]["tools"][0]["name"] == "find"


@pytest.mark.parametrize(
    ("config_of_tools", "choice"),
    [
        ({}, None),
        ({"tool_choice": "required"}, "required"),
        ({"toolChoice": "auto"}, "auto"),
        ({"tool_choice": {"type": "function", "function": {"name": "find"}}}, "find"),
        ({"tool_choice": {"type": "function"}}, None),
        ({"tool_choice": 3}, None),
    ],
)
def test_the_choice_of_a_tool_is_kept(here: Here, config_of_tools: Any, choice: str | None):
    tool = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}
    provider = {"id": "openai:gpt-5.4-mini", "config": {"tools": [tool], **config_of_tools}}
    here.write("promptfooconfig.yaml", config(providers=[provider]))
    here.run(".")
    prompt = here.prompt()
    assert [found["name"] for found in prompt["tools"]] == ["find"]
    assert prompt.get("toolChoice") == choice


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ({"id": "anthropic:claude-agent-sdk", "config": {"model": "claude-x"}}, "anthropic:claude-x"),
        ({"id": "replicate:meta/some-model"}, None),
    ],
)  # fmt: skip
def test_a_model_answers_for_a_provider_without_counterpart(
    here: Here, provider: dict[str, Any], model: str | None
):
    here.write("promptfooconfig.yaml", config(providers=[provider]))
    here.run(".")
    assert here.prompt().get("model") == model
    assert "'sim:" not in here.read("pyproject.toml")
    person = here.read("IMPORT.md").partition("## Changed")[0]
    assert f"the provider {provider['id']} has no counterpart" in person


def test_a_list_that_begins_with_no_text_is_one_value(here: Here):
    template = "{% for turn in turns %}{% for role, text in turn %}{{ role }}: {{ text }};{% endfor %}{% endfor %}"
    tests = [{"vars": {"turns": [{"user": "Hi"}, {"bot": "Yes?"}], "rest": []}}]
    here.write("promptfooconfig.yaml", config(prompts=[template], tests=tests))
    here.run(".")
    assert [case["inputs"] for case in here.cases()] == [{"part_1": "user: Hi;bot: Yes?;"}]


def test_a_file_of_tests_alone_is_no_configuration_of_its_own(here: Here):
    here.write("promptfooconfig.yaml", config(tests="file://promptfoo_tests.yaml"))
    here.write(
        "promptfoo_tests.yaml", "tests:\n  - vars: {q: one}\n    assert: [{type: is-json}]\n"
    )
    here.run(".")
    assert here.read("IMPORT.md").count("Source: `promptfooconfig.yaml`\n") == 1
    assert [case["checks"] for case in here.cases()] == [[{"json_parses": {}}]]


def test_variables_that_the_prompt_does_not_insert_reach_scripts(here: Here):
    (check,) = checks_of(here, {"type": "javascript", "value": "output === context.vars.word"})
    (case,) = here.cases()
    assert (case["inputs"], case["expected"]) == ({"q": "one"}, {"word": "Ada"})
    dataset = load_dataset(
        here.root / "fixtures/golden/shop.jsonl", fixtures_dir=here.root / "fixtures"
    )
    answer = JudgedOutput.from_completion(Completion(text="Ada"), dataset.cases[0])
    assert judge_from_spec(check).examine(answer).outcome == "pass"


def test_templates_become_inputs_that_each_case_brings(here: Here):
    prompt = "{% if big %}Long{% else %}Short{% endif %}: {{ q | upper }} of {{user.name}} {{q}}"
    tests = [
        {
            "vars": {"q": "a", "big": True, "user": {"name": "Ada"}},
            "assert": [{"type": "contains", "value": "x"}],
        }
    ]
    here.write("promptfooconfig.yaml", config(prompts=[prompt], tests=tests))
    here.run(".")
    assert (
        here.prompt()["messages"][0]["content"] == "{{part_1}}: {{part_2}} of {{user.name}} {{q}}"
    )
    assert here.cases()[0]["inputs"] == {
        "q": "a",
        "part_1": "Long",
        "part_2": "A",
        "user.name": "Ada",
    }


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ ''.__class__.__mro__ }}{{ q.format(q) }}",
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ 'x' * 999999999 }}",
        "{{ q | replace('', q * 9) }}",
        "{% for a in q %}" * 50 + "{% endfor %}" * 50,
    ],
)
def test_a_template_that_takes_too_much_is_named_and_not_rendered(here: Here, template: str):
    here.write("promptfooconfig.yaml", config(prompts=["{{q}} " + template]))
    here.run(".")
    assert "a template is not rendered" in here.read("IMPORT.md")


def test_chats_files_and_several_prompts_become_prompt_files(here: Here):
    here.write("a.txt", "First {{q}}\n---\nSecond {{q}}\n")
    here.write(
        "chat.json",
        '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "{{q}}"}]',
    )
    here.write("promptfooconfig.yaml", config(prompts=["file://a.txt", "file://chat.json"]))
    here.run(".")
    prompts = sorted(path.name for path in (here.root / "prompts").glob("*.yml"))
    assert len(prompts) == 3
    assert here.prompt("shop-chat-json")["messages"][0] == {
        "role": "system",
        "content": "Be brief.",
    }


@pytest.mark.parametrize(
    ("name", "text", "prompts"),
    [
        ("a.txt", "One {{q}}\n---\n\n---\nTwo {{q}}\n", ["One {{q}}", "Two {{q}}"]),
        ("a.md", "One {{q}}\n", ["One {{q}}"]),
        ("a.jsonl", '"{{q}}"\n\n["{{q}}"]\n', ['"{{q}}"', '["{{q}}"]']),
        ("a.csv", "label,prompt\na,One {{q}}\nb\nc, \nd,Two {{q}}\n", ["One {{q}}", "Two {{q}}"]),
        ("a.csv", "One {{q}}\n \nTwo {{q}}\n", ["One {{q}}", "Two {{q}}"]),
        ("a.json", '[{"role": "user", "content": "One {{q}}"}]', ["One {{q}}"]),
        ("a.yaml", '- role: user\n  content: "One {{q}}"\n', ["One {{q}}"]),
        ("a.txt", '- "role": user\n  "content": "One {{q}}"\n', ["One {{q}}"]),
        ("a.txt", 'messages:\n  - role: user\n    content: "One {{q}}"\n', ["One {{q}}"]),
        ("a.txt", "- role of {{q}}\n- next\n", ["- role of {{q}}\n- next"]),
        ("a.txt", '[{"role": "user"', ['[{"role": "user"']),
    ],
)  # fmt: skip
def test_prompt_files_of_every_form_are_read(here: Here, name: str, text: str, prompts: list[str]):
    here.write(name, text)
    here.write("promptfooconfig.yaml", config(prompts=[f"file://{name}"]))
    here.run(".")
    written = [
        yaml.safe_load(path.read_text(encoding="utf-8"))["messages"]
        for path in sorted((here.root / "prompts").glob("*.yml"))
    ]
    assert sorted(message["content"].strip() for (message,) in written) == sorted(prompts)
    assert {message["role"] for (message,) in written} == {"user"}


def test_an_endpoint_of_its_own_is_asked_for_what_the_vendor_rejects(here: Here):
    own = {"temperature": 0, "apiBaseUrl": "http://127.0.0.1:9/v1"}
    provider = {"id": "anthropic:messages:claude-x", "config": own}
    here.write("promptfooconfig.yaml", config(providers=[provider]))
    here.run(".")
    assert here.prompt()["modelParameters"] == {"temperature": 0}
    providers = tomllib.loads(here.read("pyproject.toml"))["tool"]["regauge"]["providers"]
    assert [table["accepts"] for table in providers.values()] == [["temperature"]]
    assert "rejects or ignores" not in here.read("IMPORT.md")


def test_csv_columns_become_variables_and_assertions(here: Here):
    here.write(
        "t.csv",
        'q,__expected1,__expected2,__description,__threshold\n"one, two",contains-any: a,similar(0.7):b,Both,0.5\nthree,plain,model-graded-factuality:c,,\n',
    )
    here.write("promptfooconfig.yaml", config(tests="file://t.csv"))
    here.run(".")
    first, second = here.cases()
    assert (first["id"], first["pass_at"], first["note"]) == ("both", 0.5, "Both (t.csv:2)")
    assert [next(iter(check)) for check in first["checks"]] == ["contains_any", "means_like"]
    assert second["checks"][0] == {"equals": {"value": "plain"}}
    assert second["checks"][1]["rubric"] == {"name": "factuality", "reference": "c"}


def test_scenarios_multiply_and_deerrors_in_files_apply(here: Here):
    here.write("default.yaml", "vars: {tone: kind}\nassert: [{type: contains, value: hi}]\n")
    scenario = {
        "config": [{"vars": {"q": "a"}}, {"vars": {"q": "b"}}],
        "tests": [{"vars": {"n": 1}}, {"vars": {"n": 2}}],
    }
    here.write(
        "promptfooconfig.yaml",
        config(
            prompts=["{{q}} {{n}} {{tone}}"],
            tests=[],
            scenarios=[scenario],
            defaultTest="file://default.yaml",
        ),
    )
    here.run(".")
    assert [(c["inputs"]["q"], c["inputs"]["n"]) for c in here.cases()] == [
        ("a", 1),
        ("a", 2),
        ("b", 1),
        ("b", 2),
    ]
    assert all(
        c["inputs"]["tone"] == "kind" and c["checks"] == [{"contains": "hi"}] for c in here.cases()
    )


def test_providers_that_are_programs_become_targets_that_run(place: Place):
    place.write(
        "p/provider.py",
        "def call_api(prompt, options, context):\n    return {'output': prompt + context['vars']['q'] + options['config']['end']}\n",
    )
    place.write("p/run.py", "import sys\nprint(sys.argv[1].upper())\n")
    place.write(
        "p/promptfooconfig.yaml",
        config(
            prompts=["Q {{q}} "],
            providers=[
                {"id": "file://provider.py", "label": "py test", "config": {"end": "!"}},
                {"id": f"exec: {sys.executable} run.py", "label": "cmd"},
                "echo",
            ],
            tests=[{"vars": {"q": "one"}, "assert": [{"type": "icontains", "value": "q one"}]}],
        ),
    )
    place.regauge("import", "promptfoo", ".")
    assert "3 passed" in place.evals("-p", "no:cacheprovider")
    targets = [path.stem for path in (place.root / "evals/targets").glob("*.py")]
    assert len(targets) == 2
    assert not [name for name in targets if name.endswith("_test")]


def test_a_program_that_is_missing_is_named(place: Place):
    tests = [{"vars": {"q": "one"}, "assert": [{"type": "equals", "value": "1"}]}]
    place.write(
        "promptfooconfig.yaml", config(providers=["exec: no-such-program ask"], tests=tests)
    )
    place.regauge("import", "promptfoo", ".")
    shown = place.evals("-p", "no:cacheprovider", code=1)
    assert "no-such-program cannot be started: No such file or directory" in shown
    assert "Traceback" not in shown


def test_packages_that_code_needs_are_named(here: Here):
    here.write("near.py", "")
    here.write(
        "judge.py",
        "import json\nimport near\nfrom absent_zz import x\n\ndef get_assert(o, c): ...\n",
    )
    checks_of(here, {"type": "python", "value": "file://judge.py"})
    assert "judge.py needs absent_zz: install before a run" in here.read("IMPORT.md")


def test_a_program_gets_the_files_and_variables_that_it_names(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SHOP_KEY", "k-1")
    place.write("p/run.py", "import os\nprint(os.environ['SHOP_KEY'], os.getenv('SHOP_UNIT'))\n")
    place.write("p/bot.mjs", "import { ask } from './lib/ask';\nexport default ask;\n")
    place.write("p/lib/ask.js", "require('../missing');\nfetch(process.env.SHOP_URL)\n")
    place.write(
        "p/promptfooconfig.yaml",
        config(
            providers=[f"exec: {sys.executable} run.py", {"id": "file://bot.mjs", "label": "js"}],
            tests=[{"vars": {"q": "one"}, "assert": [{"type": "equals", "value": "k-1 None"}]}],
        ),
    )
    place.regauge("import", "promptfoo", ".")
    settings = tomllib.loads((place.root / "pyproject.toml").read_text(encoding="utf-8"))
    python, node = settings["tool"]["regauge"]["targets"].values()
    assert python["env"] == ["SHOP_KEY?", "SHOP_UNIT?"]
    assert node["env"] == ["SHOP_URL?"]
    assert node["files"][1:] == ["p/bot.mjs", "p/lib/ask.js"]
    assert "1 passed" in place.evals("-p", "no:cacheprovider", "-k", "not js")


def test_http_providers_become_targets(here: Here):
    provider = {
        "id": "https://shop.example/ask",
        "config": {
            "method": "POST",
            "headers": {"Content-Type": "application/json", "Authorization": "Bearer {{env.TOKEN}}", "X-Key": "abcdefgh12"},
            "body": {"question": "{{ prompt }}", "more": "{{q}}{{vars.q}}"},
            "transformResponse": "json.choices[0].text",
        },
    }  # fmt: skip
    here.write("promptfooconfig.yaml", config(providers=[provider]))
    here.run(".")
    target = tomllib.loads(here.read("pyproject.toml"))["tool"]["regauge"]["targets"]["shop"]
    assert target == {
        "kind": "http",
        "url": "https://shop.example/ask",
        "headers_env": {"Authorization": "AUTHORIZATION", "X-Key": "X_KEY"},
        "body": {"question": "{{prompt}}", "more": "{{q}}"},
        "text": "$.choices[0].text",
    }
    assert "abcdefgh12" not in here.read("IMPORT.md")


def test_existing_settings_stay_and_get_tables(here: Here):
    here.write("pyproject.toml", '[tool.regauge]\nmodel = "sim:clerk-1"\n\n[tool.ruff]\n')
    here.write("promptfooconfig.yaml", config(providers=["groq:llama-x"]))
    here.run(".")
    text = here.read("pyproject.toml")
    assert text.startswith('[tool.regauge]\nmodel = "sim:clerk-1"\n\n[tool.ruff]\n')
    assert (
        tomllib.loads(text)["tool"]["regauge"]["providers"]["groq"]["api_key_env"] == "GROQ_API_KEY"
    )


def test_a_table_that_exists_stays_and_one_with_another_content_is_refused(here: Here):
    table = '[tool.regauge.providers.groq]\nbase_url = "https://api.groq.com/openai/v1"\n'
    same = f'[tool.regauge]\nmodel = "groq:m"\n{table}api_key_env = "GROQ_API_KEY"\n'
    here.write("pyproject.toml", same)
    grade = [{"vars": {"q": "a"}, "assert": [{"type": "llm-rubric", "value": "x"}]}]
    here.write("promptfooconfig.yaml", config(providers=["groq:llama-x"], tests=grade))
    here.run(".")
    assert here.read("pyproject.toml").startswith(same)
    assert here.read("pyproject.toml").count("groq.com") == 1
    assert "set judge_model in [tool.regauge]: LLM judges need a model" in here.read("IMPORT.md")
    here.write("pyproject.toml", table)
    out = here.run(".", "--name", "again", code=2)
    assert "[tool.regauge.providers.groq] exists with another content" in out
    assert not any("again" in path for path in here.files())


def test_an_import_as_json_lists_files_counts_and_notes(here: Here):
    here.write("promptfooconfig.yaml", config(tests=["file://tests.py", {"vars": {"q": "1"}}]))
    assert "-o needs --check" in here.run(".", "-o", "x", code=2)
    document = json.loads(here.run(".", "--json", "--check", code=1))
    assert document["written"] == []
    written = json.loads(here.run(".", "--json"))
    assert set(written.pop("written")) == here.files() - {"promptfooconfig.yaml"}
    assert written == {key: value for key, value in document.items() if key != "written"}
    notes = written.pop("notes")
    assert written == {
        "format": "promptfoo", "evals": 1, "cases": 1, "assertions": 0, "unmeasured": 0,
    }  # fmt: skip
    assert [note["kind"] for note in notes] == ["manual", "manual"]
    assert (notes[0]["place"], notes[0]["text"][:9]) == ("promptfooconfig.yaml:6", "tests are")


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.iterdir() if path.is_dir()))
def test_public_configurations_are_imported_and_their_files_load(here: Here, name: str):
    shutil.copytree(DATA / name, here.root, dirs_exist_ok=True)
    before = {path: here.read(path) for path in here.files()}
    here.run(".")
    assert before.items() <= {path: here.read(path) for path in here.files()}.items()
    report = here.read("IMPORT.md")
    for path, line in re.findall(r"`([^`]+?):(\d+)[,`]", report):
        assert len(here.read(path).splitlines()) >= int(line)
    for file in (here.root / "fixtures/golden").glob("*.jsonl"):
        for case in load_dataset(file, fixtures_dir=here.root / "fixtures"):
            for check in case.checks:
                judge_from_spec(
                    {k: v for k, v in check.items() if k not in {"weight", "tier", "metric"}}
                )


@given(st.text(max_size=200), st.dictionaries(st.sampled_from("abq"), st.text(max_size=20)))
@settings(deadline=None)
def test_a_split_template_renders_as_the_whole_does(text: str, values: dict[str, str]):
    source = "{{q}}" + text + "{% if a %}{{b}}{% endif %}{{ a | upper }}"
    try:
        whole = render(source, values)
    except TemplateError:
        return
    split = split_template(source)
    inputs = {name: values.get(name, "") for name in split.names}
    inputs |= {name: render(part, values) for name, part in split.computed.items()}
    assert compile_template(split.text).fill(inputs) == whole
