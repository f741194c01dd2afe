"""What holds for every command: help with examples, JSON, exit codes, no colours in a pipe."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

from regauge.cli import COMMANDS, GROUPS, HIDDEN, group
from regauge.schemas import SCHEMAS
from tests import processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _leaves() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name in sorted(COMMANDS):
        command = group.get_command(click.Context(group), name)
        parts = (
            command.list_commands(click.Context(command))
            if isinstance(command, click.Group)
            else []
        )
        found += [(name, part) for part in parts] or [(name,)]
    return found


def _help(*words: str) -> str:
    said = CliRunner().invoke(group, [*words, "--help"], prog_name="regauge")
    assert said.exit_code == 0, said.output
    return said.output


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_list_of_a_groups_commands_has_whole_sentences(name: str):
    assert not re.findall(r"(?m)^  \S+ .*\.\.\.$", _help(name))


@pytest.mark.parametrize("words", [*_leaves(), ("refine",)], ids=" ".join)
def test_the_value_of_an_option_has_a_name(words: tuple[str, ...]):
    """`N` or `NAME`, not the `INTEGER RANGE` of click."""
    types = r"(?m)^  .*--[\w-]+ (?:INTEGER|FLOAT|TEXT|BOOLEAN|FILENAME|DIRECTORY)\b.*$"
    assert not re.findall(types, _help(*words))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_help_of_a_command_has_examples_and_exit_codes(name: str):
    text = _help(name)
    assert "Examples:" in text
    assert f"  regauge {name}" in text.split("Examples:")[1]
    assert "Exit codes: 0 " in text


def test_the_help_lists_commands_by_task():
    text = _help()
    sections = dict(re.findall(r"(?m)^(\w+):\n((?:  \S.*\n)+)", text))
    listed = {name: [line.split()[0] for line in sections[name].splitlines()] for name in GROUPS}
    assert listed == {name: [*commands] for name, commands in GROUPS.items()}
    assert [*GROUPS] == ["Write", "Check", "Run", "Compare", "Fix"]
    for commands in GROUPS.values():
        for name, line in commands.items():
            assert re.search(rf"(?m)^  {name} +{re.escape(line)}$", text)
    assert f"More commands: {', '.join(HIDDEN)}." in text


# Options that mean something else in each command that has them.
_OF_ONE_COMMAND = {"--case", "--edit", "--pr", "--split", "--suggest"}


def test_an_option_has_one_help_text_in_all_commands():
    texts: dict[str, dict[str, list[str]]] = {}
    for words in [*_leaves(), ("refine", "")]:
        command: Any = group
        for word in words:
            command = command.get_command(click.Context(command), word)
        for option in command.params:
            if isinstance(option, click.Option) and option.help and not option.hidden:
                of_option = texts.setdefault(max(option.opts, key=len), {})
                of_option.setdefault(option.help, []).append(" ".join(words))
    assert len(texts) > 60
    several = {name: by for name, by in texts.items() if len(by) > 1}
    assert {name: by for name, by in several.items() if name not in _OF_ONE_COMMAND} == {}


@pytest.mark.parametrize("words", _leaves(), ids=" ".join)
def test_every_command_can_speak_json(words: tuple[str, ...]):
    """A schema is JSON, and a completion script is for a shell."""
    assert ("--json" in _help(*words)) == (words[0] not in {"schema", "completion"})


@pytest.mark.parametrize("words", _leaves(), ids=" ".join)
def test_an_option_that_nobody_knows_is_wrong_use(words: tuple[str, ...]):
    said = CliRunner().invoke(group, [*words, "--no-such-option"])
    assert said.exit_code == 2
    assert "--no-such-option" in said.output


@pytest.mark.parametrize("words", _leaves(), ids=" ".join)
def test_an_option_without_a_value_is_wrong_use(words: tuple[str, ...], tmp_path: Path):
    command: Any = group
    for word in words:
        command = command.get_command(click.Context(command), word)
    names = [
        param.opts[-1]
        for param in command.params
        if isinstance(param, click.Option) and not param.is_flag and param.opts[-1] != "--expected"
    ]
    calls = [(f"{name}=",) for name in names[:1]] + [(name, "") for name in names[-1:]] or [("",)]
    for call in calls:
        done = processes.run("regauge", *words, *call, cwd=tmp_path, env={**os.environ})
        subject = call[0].rstrip("=") or "an argument"
        assert done.stderr == f"error: {subject} is empty\n  fix: write a value, or leave it out\n"
        assert done.returncode == 2


@pytest.mark.parametrize(
    ("option", "near"),
    [("--model", ""), ("--version", ""), ("--jsn", "--json"), ("--dryrun", "--dry-run")],
)
def test_only_an_option_that_is_near_is_suggested(option: str, near: str):
    said = CliRunner().invoke(group, ["init", option])
    assert said.exit_code == 2
    assert ("Did you mean" in said.output) == bool(near)
    assert near in said.output


@pytest.mark.parametrize(
    "words", [("gaet",), ("baseline", "shwo"), ("judges", "calibrat"), ("new", "evals")]
)
def test_a_command_that_nobody_knows_brings_the_nearest_one_to_mind(words: tuple[str, ...]):
    said = CliRunner().invoke(group, [*words])
    assert said.exit_code == 2
    meant = {"gaet": "gate", "shwo": "show", "calibrat": "calibrate", "evals": "eval"}[words[-1]]
    assert f"No such command {words[-1]!r}. Did you mean {meant!r}?" in said.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_ask_regauge(shell: str):
    script = CliRunner().invoke(group, ["completion", shell]).output
    assert "_REGAUGE_COMPLETE" in script


def test_bash_completes_a_command_by_the_script(tmp_path: Path, regauge: Path):
    """The script is loaded into a real bash, which then calls its function."""
    script = tmp_path / "completion.bash"
    script.write_text(CliRunner().invoke(group, ["completion", "bash"]).output)
    ask = (
        f"source {script}; COMP_WORDS=(regauge do); COMP_CWORD=1;"
        ' _regauge_completion regauge; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", ask],
        env=os.environ | {"PATH": f"{regauge.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["doctor"], done.stderr


@pytest.mark.parametrize("name", list(SCHEMAS))
def test_a_schema_is_printed_as_it_is_shipped(name: str):
    assert json.loads(CliRunner().invoke(group, ["schema", name]).output)["$schema"]


@pytest.mark.parametrize(
    "words", [("judges", "list"), ("doctor", "--offline"), ("lint",), ("--help",)]
)
def test_a_pipe_gets_no_colours(words: tuple[str, ...], tmp_path: Path):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/bad.prompt.yml").write_text("messages: []\n")
    clean = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR"}}
    done = processes.run("regauge", *words, cwd=tmp_path, env=clean | {"TERM": "xterm-256color"})
    assert done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_ctrl_c_ends_a_command_without_a_traceback_and_as_no_verdict(tmp_path: Path):
    """Exit code 1 means that something was found; a command that was stopped found nothing."""
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from regauge.cli import main; main(['init'])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    read = b""
    while b"[Y/n]" not in read:  # it waits for an answer now
        read += os.read(process.stdout.fileno(), 4096)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in errors


def test_importing_the_command_line_loads_nothing_heavy(
    modules_loaded_by: Callable[[str], set[str]],
):
    heavy = {"openai", "deepeval", "pandas", "jinja2", "pytest", "httpx2"}
    assert not heavy & modules_loaded_by("import regauge.cli")
    assert not (heavy - {"pytest"}) & modules_loaded_by("import regauge.cli.init")
    assert "regauge.mutate" not in modules_loaded_by("import regauge.cli.lint")


def test_what_changes_a_project_says_in_json_what_it_did(tmp_path: Path):
    """Every document is alone on standard output, so that a program can read it."""

    def said(*words: str) -> dict[str, Any]:
        env = {k: v for k, v in os.environ.items() if k != "CI"}
        done = processes.run("regauge", *words, "--json", cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    said("init")
    bumped = said("bump", "ticket-kind", "patch", "--allow-unchanged")
    assert (bumped["before"], bumped["version"]) == ("1.0.0", "1.0.1")
    missing = said("record", "--dry-run")["missing_completions"]
    assert [(one["prompt"], one["completions"]) for one in missing] == [("ticket-kind", 10)]
    assert said("record")["completions_recorded"] == 10
    assert said("record", "--prune")["pruned"] == [
        {
            "path": "fixtures/recordings/ticket-kind.jsonl",
            "removed": 0,
            "of": 10,
            "noun": "recordings",
        }
    ]
    assert said("new", "prompt", "other")["written"] == ["prompts/other.prompt.yml"]


_PRINTS = {
    "judges": ("judges", "list"),
    "lint": ("lint",),
    "record": ("record", "--dry-run"),
    "no such command": ("nope",),
}


# The interpreter starts once without a stream; each command is a fork of it, and ends as a process does.
_EACH = """\
import importlib, json, os, sys
from pathlib import Path
import regauge.cli

codes = {}
out, *commands = sys.argv[1:]
for command in commands:
    name, *words = command.split()
    # Nothing is printed where standard output is closed.
    if name in regauge.cli.COMMANDS and sys.stdout:
        importlib.import_module(f"regauge.cli.{name}")
for command in commands:
    if not os.fork():
        sys.argv[1:] = command.split()
        regauge.cli.main()
        sys.exit()
    codes[command] = os.waitstatus_to_exitcode(os.wait()[1])
Path(out).write_text(json.dumps(codes))
"""


def _run_in_bash(root: Path, program: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/bash", "-c", f"set -o pipefail; {program}"],
        cwd=root,
        # The plugins of this repository's tests take as long to load as all the rest.
        env=os.environ
        | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "regauge.pytest_plugin"}
        | environ,
        capture_output=True,
        check=False,
    )


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    done = processes.run("regauge", "init", "--yes", cwd=root, env={**os.environ})
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture(scope="module")
def regauge() -> Iterator[Path]:
    """A program `regauge` that a shell can run, and that has everything loaded."""
    script = Path(sys.executable).parent / "regauge"
    with processes.scripts(script) as folder:
        yield folder / script.name


@pytest.mark.parametrize("redirection", [">&-", ">&- 2>&-", "<&-"])
def test_a_stream_that_is_closed_from_the_start_is_one_error_or_none(
    started: Path, tmp_path: Path, redirection: str
):
    words = [" ".join(words) for words in _PRINTS.values()]
    given = shlex.join([_EACH, str(tmp_path / "codes.json"), *words])
    done = _run_in_bash(started, f"{sys.executable} -c {given} {redirection}")
    codes = json.loads((tmp_path / "codes.json").read_text(encoding="utf-8"))
    assert [*codes] == words
    _assert_no_traceback(done)
    if redirection == ">&-":
        assert codes == dict.fromkeys(words, 2)
        assert done.stderr.startswith(b"error: "), done.stderr
        lines = done.stderr.splitlines()
        assert lines == lines[:2] * len(words)
    elif "2>" in redirection:
        assert set(codes.values()) <= {0, 1, 2}, codes
    else:
        assert set(codes.values()) <= {0, 2}, codes


def _assert_no_traceback(done: subprocess.CompletedProcess[bytes]) -> None:
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    assert b"Broken pipe" not in done.stderr


@pytest.mark.parametrize("name", _PRINTS)
def test_output_that_cannot_be_written_is_one_error(started: Path, regauge: Path, name: str):
    done = _run_in_bash(started, f"{regauge} {' '.join(_PRINTS[name])} > /dev/full")
    assert done.returncode == 2
    if name != "no such command":
        assert done.stderr.startswith(b"error: "), done.stderr
        assert done.stderr.count(b"\n") == 2


@pytest.mark.parametrize("name", _PRINTS)
@pytest.mark.parametrize(
    "redirection", ["> /dev/full 2>&1", "2> /dev/full", "| true", "2>&1 | true"]
)
def test_a_stream_that_is_gone_ends_in_no_traceback(
    started: Path, regauge: Path, name: str, redirection: str
):
    done = _run_in_bash(started, f"{regauge} {' '.join(_PRINTS[name])} {redirection}")
    _assert_no_traceback(done)
    assert done.returncode in {0, 1, 2}


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_any_encoding_of_a_terminal_will_do(started: Path, encoding: str):
    command = f"{sys.executable} -m regauge judges list"
    done = _run_in_bash(started, command, PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    assert " judges" in done.stdout.decode(encoding)


@pytest.mark.parametrize(
    "words",
    [
        "gate main --accept-judge-change",
        "runs list --limit",
        "show",
        "new prompt",
        "report --format json -o",
    ],
)
def test_an_argument_that_is_not_utf8_is_wrong_use(started: Path, regauge: Path, words: str):
    done = _run_in_bash(started, f"{regauge} {words} $'a\\xffb'")
    assert done.returncode == 2
    assert done.stderr == b"error: the argument 'a\\udcffb' is not UTF-8\n"


def test_a_count_that_no_store_can_hold_shows_all_there_is(started: Path):
    done = processes.run(
        "regauge", "runs", "list", "--limit", "9" * 20, cwd=started, env={**os.environ}
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in {0, 2}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("baseline update --session-gap=nan", "is not a finite number"),
        ("baseline update --session-gap=1e300", "--session-gap"),
        ("record --budget-usd=nan", "is not a finite number"),
        ("gate main --budget-usd=inf", "is not a finite number"),
        ("record --trials=99999999999999999999", "--trials"),
        ("new case / c2", "there is no prompt"),
        ("new case * c2", "there is no prompt"),
    ],
)
def test_a_value_that_makes_no_sense_is_wrong_use(started: Path, words: str, named: str):
    done = processes.run("regauge", *words.split(), cwd=started, env={**os.environ})
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr


PINNED = "python -m pip install --require-hashes -r requirements.txt"
SHORTER = """\
sed -i 's/- bug: something is broken.*/- bug: it is bad./' prompts/ticket-kind.prompt.yml
regauge bump ticket-kind minor; git commit -qam shorter
"""
JUDGED = """\
cat > evals/test_ticket_kind.py << END
from regauge import golden
from regauge.judges import rubric

@golden("ticket-kind", judges=[rubric("tone", model="sim:clerk-1")])
def test_ticket_kind(result):
    result.check()
END
"""
CONFIG = """\
printf 'prompts: ["Say {{x}}"]\\nproviders: [openai:gpt-5.4-mini]\\n' > promptfooconfig.yaml
printf 'tests: [{vars: {x: a}, assert: [{type: contains, value: a}]}]\\n' >> promptfooconfig.yaml
"""


def _bash(root: Path, script: str) -> str:
    commands = Path(sys.executable).parent
    with processes.scripts(commands / "regauge", commands / "pytest") as folder:
        done = subprocess.run(
            ["/bin/bash", "-c", script],
            cwd=root,
            env={k: v for k, v in os.environ.items() if k != "CI"}
            | {"PATH": f"{folder}:{commands}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("committed")
    _bash(root, "git init -q -b main; git config user.name a; git config user.email a@example.com")
    _bash(root, f"regauge init --yes --install '{PINNED}'; pytest -q evals")
    _bash(root, "git add -A; git commit -qm one")
    return root


@pytest.mark.parametrize(
    ("command", "prepare"),
    [
        ("new prompt other", ""),
        ("new eval ticket-kind", "rm evals/test_ticket_kind.py"),
        ("new case ticket-kind late -i ticket=Late --expected 1", ""),
        (f"new workflow baseline --install '{PINNED}'", ""),
        ("import promptfoo promptfooconfig.yaml", CONFIG),
        ("bump ticket-kind minor --allow-unchanged", ""),
        ("record", JUDGED),
        ("record --prune", SHORTER),
        ("baseline update --trials 2", ""),
        ("gate HEAD~1 -o gate.md", SHORTER),
        ("report -o report.html", ""),
        ("runs compare latest latest -o runs.html", ""),
        ("mutate ticket-kind --budget-calls 20 -o cover.html", ""),
        ("judges calibrate tone --from-run latest", f"{JUDGED}pytest -q evals"),
        ("refine ticket-kind --apply", SHORTER),
    ],
)
def test_a_command_names_each_file_that_it_wrote(
    committed: Path, tmp_path: Path, command: str, prepare: str
):
    root = tmp_path / "project"
    shutil.copytree(committed, root)
    if prepare:
        _bash(root, prepare)
    before = _contents(root)
    said = _bash(root, f"regauge {command}")
    changed = {path for path, data in _contents(root).items() if before.get(path) != data}
    assert changed, said
    assert {path for path in changed if path not in said} == set(), said


def _contents(root: Path) -> dict[str, bytes]:
    """The files of a project, but for those that git and tools keep for themselves."""
    own = {".git", ".regauge", ".pytest_cache", "__pycache__"}
    files = {path.relative_to(root): path for path in root.rglob("*") if path.is_file()}
    return {
        name.as_posix(): path.read_bytes()
        for name, path in files.items()
        if not own & set(name.parts)
    }
