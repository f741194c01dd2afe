"""`regauge init`, as a process in fresh and in lived-in directories."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from inline_snapshot import snapshot

from tests.place import Place

OWN = Path(__file__).parents[2] / ".github/workflows"
INSTALL = "--install=make install"
WRITTEN = [
    ".github/workflows/comment.yml",
    ".github/workflows/evals.yml",
    ".gitignore",
    "evals/conftest.py",
    "evals/test_ticket_kind.py",
    "fixtures/golden/ticket-kind.jsonl",
    "prompts/prompt.schema.json",
    "prompts/prompts.lock",
    "prompts/ticket-kind.prompt.yml",
    "pyproject.toml",
]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path)], check=True)
    return Place(tmp_path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A directory right after `regauge init --yes`; tests only read it."""
    root = tmp_path_factory.mktemp("made")
    subprocess.run(["git", "init", "-q", "-b", "main", str(root)], check=True)
    made = Place(root)
    made.regauge("init", "--yes", INSTALL)
    return made


def test_a_second_init_changes_nothing(made: Place):
    before = {name: (made.root / name).read_bytes() for name in WRITTEN}
    out = made.regauge("init", "--yes", INSTALL)
    assert "nothing to do" in out
    assert "wrote" not in out
    assert {name: (made.root / name).read_bytes() for name in WRITTEN} == before


@pytest.mark.parametrize("options", [(), ("-W", "error")])
def test_the_first_run_is_quiet(place: Place, options: tuple[str, ...]):
    if options:
        place.write("pytest.ini", "[pytest]\nfilterwarnings = error\n")
    place.regauge("init", "--yes")
    # All plugins load by their entry points, those that come with deepeval, too. Its own one ends
    # a run with warnings as errors from Python 3.14 on.
    if options and sys.version_info >= (3, 14):
        options = (*options, "-p", "no:deepeval")
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "", "PYTEST_PLUGINS": ""}
    done = place.process("pytest", "evals", *options, **plugins)
    shown = done.stdout + done.stderr
    assert (done.returncode, "asyncio-" in shown) == (0, True), shown
    assert "warn" not in shown.lower()


def test_the_replay_of_the_evals_reaches_no_network(place: Place):
    place.regauge("init", "--yes", INSTALL)
    place.evals("-p", "no:cacheprovider")
    place.write(
        "evals/test_socket.py",
        "import socket\n\ndef test_it():\n    socket.create_connection(('127.0.0.1', 9))\n",
    )
    typed = place.evals("-p", "no:cacheprovider", "--record=none", code=1)
    in_ci = place.evals("-p", "no:cacheprovider", code=1, CI="1")
    assert "a replay opened a connection" in typed
    assert "a replay opened a connection" in in_ci


def test_files_that_are_there_stay_byte_for_byte(place: Place):
    own = {
        "evals/conftest.py": "# mine\n",
        ".github/workflows/evals.yml": "name: mine\r\n",
        "pyproject.toml": "[project]\r\nname = 'shop'\r\nversion = '1'\r\n",
    }
    for path, text in own.items():
        place.write(path, text)
    out = place.regauge("init", "--yes", INSTALL)
    assert (place.root / "evals/conftest.py").read_bytes() == b"# mine\n"
    assert (place.root / ".github/workflows/evals.yml").read_bytes() == b"name: mine\r\n"
    assert "left alone  evals/conftest.py (is there already)" in out
    not_ours = "not written: .github/workflows/evals.yml is your own"
    assert f"left alone  .github/workflows/comment.yml ({not_ours})" in out
    merged = (place.root / "pyproject.toml").read_bytes().decode()
    assert merged.startswith(own["pyproject.toml"])
    assert merged.count("\n") == merged.count("\r\n")
    tool = tomllib.loads(merged)["tool"]
    assert tool["regauge"]["model"] == "sim:clerk-1"
    assert "no:deepeval" in tool["pytest"]["ini_options"]["addopts"]
    assert "10 passed" in place.evals("-p", "no:cacheprovider")


@pytest.mark.parametrize("path", ["prompts/ticket-kind.prompt.yml", "evals/test_ticket_kind.py"])
def test_prompt_cases_and_eval_are_written_together_or_not_at_all(place: Place, path: str):
    """Our eval of somebody else's prompt would fail for no fault of theirs."""
    place.write(path, "# mine\n")
    out = place.regauge("init", "--yes", INSTALL)
    assert f"not written: {path} is your own" in out
    assert "fixtures/golden/ticket-kind.jsonl" not in place.files()
    assert "evals/conftest.py" in place.files()


def test_a_prompt_of_that_name_in_another_folder_is_not_doubled(place: Place):
    place.write("prompts/support/ticket-kind.prompt.yml", "messages: []\n")
    assert "support/ticket-kind.prompt.yml is your own" in place.regauge("init", "--yes", INSTALL)
    assert "prompts/ticket-kind.prompt.yml" not in place.files()


def test_a_project_of_its_own_gets_no_example_but_the_next_commands(place: Place):
    """An example among own prompts would be judged with the project's own model, and fail."""
    place.write("prompts/ask.prompt.yml", "messages:\n  - {role: user, content: '{{question}}'}\n")
    place.write("support/triage.prompt.yml", "messages: []\n")
    place.write("promptfooconfig.yaml", "prompts: []\n")
    place.write("web/promptfooconfig.chat.json", "{}")
    place.write("node_modules/x/promptfooconfig.yaml", "prompts: []\n")
    out = place.regauge("init", "--yes", INSTALL)
    assert "ticket-kind.prompt.yml (not written: prompts/ask.prompt.yml is your own)" in out
    assert not [name for name in place.files() if "ticket" in name]
    assert out[out.index("next:") :] == snapshot("""\
next:  regauge import promptfoo promptfooconfig.yaml
       regauge import promptfoo web/promptfooconfig.chat.json
       git mv support/triage.prompt.yml prompts/
       regauge bump ask major
       regauge new case ask ID -i INPUT=VALUE --expected JSON
       regauge new eval ask
       git add -A && git commit
       regauge doctor        checks what is still missing
""")
    place.write("pyproject.toml", "[tool.regauge]\nmodel = 'openai:gpt-5.4-mini'\n")
    (place.root / "prompts/ask.prompt.yml").unlink()
    out = place.regauge("init", "--yes", INSTALL)
    assert "not written: it is for the simulated model, not for openai:gpt-5.4-mini" in out
    assert not [name for name in place.files() if "ticket" in name]


def test_init_reads_models_and_keys_and_offers_to_import(place: Place):
    place.write(
        "prompts/ask.prompt.yml",
        "model: openai/gpt-5.4-mini\nversion: 1.0.0\nmessages:\n"
        "  - {role: user, content: '{{question}}'}\n",
    )
    place.write(
        "promptfooconfig.yaml",
        "prompts: ['Say {{x}}']\nproviders:\n  - openai:chat:gpt-5.4\n"
        "  - id: anthropic:messages:claude-sonnet-5\n    config: {apiKeyEnvar: OWN_KEY}\n"
        "tests: [{vars: {x: a}, assert: [{type: contains, value: a}]}]\n",
    )
    place.write("sub/pyproject.toml", "[tool.regauge]\n")  # a project of its own
    place.write("sub/prompts/other.prompt.yml", "messages: []\n")
    found = """\
found       openai:gpt-5.4-mini in prompts/ask.prompt.yml; OPENAI_API_KEY is not set
found       openai:gpt-5.4 in promptfooconfig.yaml; OPENAI_API_KEY is not set
found       anthropic:claude-sonnet-5 in promptfooconfig.yaml; OWN_KEY is not set
"""
    assert place.regauge("init", "--dry-run", INSTALL).startswith(found)
    models = json.loads(place.regauge("init", "--dry-run", "--json", INSTALL))["models"]
    assert [one["key_env"] for one in models] == ["OPENAI_API_KEY", "OPENAI_API_KEY", "OWN_KEY"]
    out = place.regauge("init", INSTALL, given="y\ny\ny\ny\n")
    assert out.startswith(found)
    assert "Import promptfooconfig.yaml? [Y/n]: wrote " in out
    assert "\nwrote IMPORT.md\n" in out
    assert "\nnext:  regauge bump ask\n" in out
    assert "other.prompt.yml" not in out
    assert "regauge import promptfoo" not in out[out.index("\nnext:") :]
    evals = (place.root / ".github/workflows/evals.yml").read_text(encoding="utf-8")
    assert "OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }}" in evals
    assert "OWN_KEY: ${{ secrets.OWN_KEY }}" in evals


def test_an_init_that_was_cut_short_goes_on(made: Place, place: Place):
    first = "prompts/ticket-kind.prompt.yml"
    place.write(first, (made.root / first).read_text())
    place.regauge("init", "--yes", INSTALL)
    assert place.files() == WRITTEN
    assert "0 errors, 0 warnings" in place.regauge("lint")


def test_pytest_settings_in_another_file_stay_the_ones_that_count(place: Place):
    """pytest reads one file; a table in pyproject.toml would be one that nobody reads."""
    place.write("pytest.ini", "[pytest]\naddopts = -p no:deepeval\n")
    out = place.regauge("init", "--yes", INSTALL)
    assert "pytest" not in tomllib.loads((place.root / "pyproject.toml").read_text())["tool"]
    assert "pytest.ini" in out


def test_what_is_left_to_do_is_apart_from_what_was_done(place: Place):
    place.write("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-q'\n")
    out = place.regauge("init", "--yes", INSTALL)
    assert "added to    pyproject.toml ([tool.regauge])\n" in out
    assert (
        "note: deepeval's plugin loads in every run of pytest, which takes seconds\n"
        '  fix: add "-p", "no:deepeval" to addopts of pytest\n' in out
    )
    document = json.loads(place.regauge("init", "--json"))
    assert (document["root"], document["dry_run"]) == (str(place.root), False)
    assert [text.partition("\n")[0] for text in document["advice"]] == [
        "deepeval's plugin loads in every run of pytest, which takes seconds"
    ]


def test_init_asks_before_it_writes(place: Place):
    assert "write       pyproject.toml" in place.regauge("init", INSTALL, code=1, given="n\n")
    assert "fix: regauge init --yes writes the files" in place.regauge("init", INSTALL, code=2)
    assert place.files() == []
    place.regauge("init", INSTALL, given="y\ny\nn\n")
    assert place.files() == [name for name in WRITTEN if not name.endswith("comment.yml")]
    place.regauge("init", INSTALL, given="y\ny\n")
    assert place.files() == WRITTEN


def test_a_directory_may_be_named_like_a_variable(tmp_path: Path):
    place = Place(tmp_path / "$HOME [x] é")
    place.root.mkdir()
    place.regauge("init", "--yes", INSTALL)
    assert "10 of 10 completions recorded" in place.regauge("record")


def test_a_dry_run_says_what_would_be_written_and_writes_nothing(place: Place):
    shown = json.loads(place.regauge("init", "--dry-run", "--json", INSTALL))
    assert (shown["root"], shown["dry_run"]) == (str(place.root), True)
    assert shown.keys() == {"root", "dry_run", "files", "advice", "models"}
    assert {row.keys() == {"path", "action", "reason"} for row in shown["files"]} == {True}
    assert {row["path"]: row["action"] for row in shown["files"]} == dict.fromkeys(
        (name for name in WRITTEN if name != "prompts/prompts.lock"), "write"
    )
    assert place.files() == []


@pytest.mark.parametrize("kind", ["a named pipe", "a directory"])
def test_settings_that_are_no_file_are_refused_before_anything_is_written(place: Place, kind: str):
    path = place.root / "pyproject.toml"
    os.mkfifo(path) if kind == "a named pipe" else path.mkdir()
    assert f"pyproject.toml: {_NO_FILE[kind]}" in place.regauge("init", "--yes", INSTALL, code=2)
    assert place.files() == []


_NO_FILE = {
    "a named pipe": "cannot be read: it is a named pipe, not a file",
    "a directory": "there is a directory at the path of this file",
}


def test_a_directory_that_cannot_be_written_is_named(place: Place):
    place.write("evals", "a file where a folder should be\n")
    out = place.regauge("init", "--yes", INSTALL, code=2)
    assert "evals is a file, and evals/test_ticket_kind.py needs a directory" in out
    assert place.files() == ["evals"]


def test_the_workflows_reach_no_shell_with_text_of_others_and_may_no_more_than_needed(made: Place):
    """zizmor looks for what GitHub's own documents warn of."""
    zizmor = Path(sys.executable).with_name("zizmor")
    workflows = made.root / ".github/workflows"
    done = subprocess.run(
        [zizmor, "--offline", "--no-progress", str(made.root / ".github")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    evals, comment = (
        yaml.safe_load((workflows / f"{name}.yml").read_text(encoding="utf-8"))
        for name in ("evals", "comment")
    )
    assert evals["permissions"] == comment["permissions"] == {}
    rights = [job["permissions"] for job in (evals["jobs"] | comment["jobs"]).values()]
    read = {"contents": "read"}
    assert rights == [read, read, read | {"actions": "read", "pull-requests": "write"}]
    assert comment[True]["workflow_run"]["workflows"] == [evals["name"]]
    # The actions are those of this repository, by the same commits.
    own = "".join(path.read_text() for path in OWN.glob("*.yml"))
    for path in workflows.iterdir():
        for use in re.findall(r"uses: (.*)", path.read_text(encoding="utf-8")):
            assert re.fullmatch(r"actions/[a-z/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use)
            assert use in own


def test_init_goes_on_without_workflows_where_nothing_pins_regauge(place: Place):
    out = place.regauge("init", "--yes")
    assert ".github/workflows/evals.yml (not written: nothing here pins regauge)" in out
    assert "note: no workflows: `pip install regauge` would install whatever has that name" in out
    assert "fix: pin regauge in a lock file or a requirements file with hashes" in out
    assert place.files() == [name for name in WRITTEN if not name.startswith(".github/")]
    assert "10 passed" in place.evals("-p", "no:cacheprovider")
    place.write("requirements.txt", f"regauge==0.1.0 \\\n    --hash=sha256:{'0' * 64}\n")
    assert "workflows install regauge from requirements.txt" in place.regauge("init", "--yes")
    evals = (place.root / ".github/workflows/evals.yml").read_text(encoding="utf-8")
    assert evals.count("run: python -m pip install --require-hashes -r requirements.txt\n") == 2


def test_init_hands_on_the_keys_that_the_settings_name(place: Place):
    place.write(
        "pyproject.toml",
        "[tool.regauge]\nmodel = 'acme:foo'\n[tool.regauge.providers.acme]\n"
        "base_url = 'http://127.0.0.1:9/v1'\napi_key_env = 'ACME_KEY'\n"
        "headers_env = {api-key = 'GATEWAY_KEY'}\n",
    )
    place.regauge("init", "--yes", INSTALL)
    text = (place.root / ".github/workflows/evals.yml").read_text(encoding="utf-8")
    steps = yaml.safe_load(text)["jobs"]["gate"]["steps"]
    (environ,) = [step["env"] for step in steps if "secrets." in json.dumps(step)]
    assert environ["ACME_KEY"] == "${{ secrets.ACME_KEY }}"
    assert environ["GATEWAY_KEY"] == "${{ secrets.GATEWAY_KEY }}"
    assert "OPENAI" not in text
    assert "`prices` in [tool.regauge.providers.acme]" in text


def test_commands_load_the_plugin_where_pytest_loads_none(made: Place):
    checked = made.process("regauge", "lint", PYTEST_PLUGINS="")
    assert checked.returncode == 0, checked.stdout + checked.stderr
