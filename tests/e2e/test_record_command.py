"""`regauge record`: asks for what evals lack, without judging it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint


def test_answers_are_recorded_without_being_judged(live: EvalProject, endpoint: Endpoint):
    live.golden(live.case(number, ok=False) for number in range(5))
    estimated = live.command("record", "--dry-run")
    assert (estimated.returncode, estimated.stdout) == snapshot(
        (
            0,
            """\
needs recording: triage, 5 cases
  5 completions of local:clerk: about 1.6k tokens, $0.0031
  record them: regauge record triage
""",
        )
    )
    assert endpoint.total == 0

    done = live.command("record")
    assert (done.returncode, done.stdout, done.stderr) == snapshot(
        (
            0,
            """\
5 of 5 completions recorded
  wrote fixtures/recordings/triage.jsonl: commit it
""",
            "",
        )
    )
    assert endpoint.total == 5
    assert len(live.recordings()) == 5
    assert live.records() == []

    again = live.command("record")
    assert (again.returncode, again.stdout) == snapshot((0, "nothing is missing\n"))
    assert endpoint.total == 5
    assert live.command("record", "--dry-run").stdout == "nothing is missing\n"

    path = live.root / "fixtures" / "recordings" / "triage.jsonl"
    before = path.read_bytes()
    assert live.command("record", "--refresh").returncode == 0
    assert endpoint.total == 10
    assert path.read_bytes() == before


def _add_large_recording(project: EvalProject) -> Path:
    """A recordings file of 51 MiB of spaces, whose last line is of a case that no eval has."""
    path = project.root / "fixtures" / "recordings" / "triage.jsonl"
    line = json.loads(path.read_text().splitlines()[0])
    line |= {"case": "large", "digest": "a" * 64}
    spaces = " " * (51 * 1024 * 1024)
    path.write_text(f"{path.read_text()}{json.dumps(line).removesuffix('}')}{spaces}}}\n")
    return path


def test_a_recordings_file_that_is_large_for_github_is_warned_of(project: EvalProject):
    warning = (
        "warning: fixtures/recordings/triage.jsonl: the file has 51 MiB, and GitHub will refuse"
        " files above 100 MiB\n  fix: remove stale recordings (regauge record --prune), record"
        " fewer trials, or limit the outputs (max_tokens)\n"
    )
    assert project.run().ret == 0
    _add_large_recording(project)
    assert warning not in project.run().stdout.str()  # nothing is written
    project.golden(project.case(number) for number in range(6))
    assert warning in project.command("record").stdout
    project.golden(project.case(number) for number in range(7))
    assert warning in f"{project.run().stdout.str()}\n"
    said = project.command("doctor", "--offline").stdout
    assert "warn   recordings: fixtures/recordings/triage.jsonl: the file has 51 MiB" in said
    done = project.command("lint", "--json")
    (found,) = json.loads(done.stdout)["warnings"]
    assert found["path"] == "fixtures/recordings/triage.jsonl"
    assert project.command("record", "--prune").returncode == 0
    assert warning not in project.command("lint").stdout


def test_recordings_nobody_asks_for_are_pruned(live: EvalProject):
    live.run("--trials=2")
    live.golden(live.case(number) for number in range(3))
    told = live.command("record", "--prune", "--dry-run")
    assert (told.returncode, told.stdout) == snapshot(
        (0, "fixtures/recordings/triage.jsonl: would remove 4 of 10 recordings\n")
    )
    assert len(live.recordings()) == 10
    done = live.command("record", "--prune")
    assert (done.returncode, done.stdout) == snapshot(
        (0, "fixtures/recordings/triage.jsonl: removed 4 of 10 recordings\n")
    )
    assert [(line["case"], line["trial"]) for line in live.recordings()] == [
        (f"disk-00{number}", trial) for number in range(3) for trial in range(2)
    ]
    live.run("--record=none", "--trials=2").assert_outcomes(passed=3)


def test_recordings_of_cases_that_cannot_be_rendered_are_not_pruned(project: EvalProject):
    project.golden([project.case(0), project.case(1)])
    assert project.command("record").returncode == 0
    project.golden([project.case(0), project.case(1, inputs={"txt": "misspelt"})])
    refused = project.command("record", "--prune")
    assert refused.returncode == 2
    assert "input 'text' is missing" in refused.stderr
    both = project.command("record", "--prune", "--refresh")
    assert (both.returncode, both.stderr) == (
        2,
        "error: --refresh does not go with --prune\n  fix: run one after the other\n",
    )
    assert len(project.recordings()) == 2


def test_pruning_counts_all_evals(project: EvalProject):
    project.golden([project.case(0)])
    assert project.command("record").returncode == 0
    project.golden([project.case(1)])  # the recording is stale now
    used = "would remove recordings that others use\n  fix: leave --{} out of --prune\n"
    for option, value in (("evals", "evals/test_triage.py"), ("judge-model", "sim:clerk-1")):
        refused = project.command("record", "--prune", f"--{option}={value}")
        assert (refused.returncode, refused.stderr) == (
            2,
            f"error: --{option} {used.format(option)}",
        )
    evals = project.root / "evals"
    (evals / "test_triage.py").rename(evals / "triage.py")
    none = project.command("record", "--prune", "--evals=evals")
    assert (none.returncode, none.stdout) == (2, "")
    assert "fix: name its file and function as python_files" in none.stderr
    evals.rename(project.root / "unused")
    evals.mkdir()
    for command in (["record", "--prune"], ["lint"]):
        said = project.command(*command)
        assert "there are no evals in evals" in said.stdout + said.stderr
        assert "remove" not in said.stdout
        assert "prune" not in said.stdout
    assert len(project.recordings()) == 1


def test_options_of_the_project_for_parallel_runs_do_not_matter(project: EvalProject):
    text = (project.root / "pyproject.toml").read_text(encoding="utf-8")
    text = text.replace('"-p", "regauge"', '"-p", "regauge", "-p", "xdist", "-n2"')
    project.write("pyproject.toml", text)
    done = project.command("record")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(project.recordings()) == 5


def test_one_prompt_can_be_recorded_alone(project: EvalProject):
    project.prompt(name="other")
    project.golden([project.case(7)], name="other")
    project.eval(
        "from regauge import golden\nfrom regauge.judges import min_chars\n\n"
        "@golden('other', judges=[min_chars(1)])\ndef test_other(result):\n    result.check()\n",
        name="test_other",
    )
    assert project.command("record", "other").returncode == 0
    assert len(project.recordings("other")) == 1
    assert project.recordings("triage") == []
    unknown = project.command("record", "others")
    assert (unknown.returncode, unknown.stderr) == snapshot(
        (
            2,
            """\
error: no eval of prompt 'others'; there are evals of: other, triage
  fix: did you mean 'other'?
""",
        )
    )
    by_path = project.command("record", "prompts/other.prompt.yml")
    assert (by_path.returncode, by_path.stderr.splitlines()[-1]) == (2, "  fix: write other")


def test_the_cases_of_a_failure_are_named(project: EvalProject):
    project.write("app.py", "def answer(text):\n    raise ValueError('the index is empty')\n")
    project.eval(
        "from regauge import golden\nfrom regauge.judges import min_chars\n\n"
        "@golden('triage', target='app:answer', judges=[min_chars(1)])\n"
        "def test_triage(result):\n    result.check()\n"
    )
    project.golden([project.case(number) for number in range(7)])
    failed = project.command("record", "--trials", "2")
    assert failed.returncode == 3
    assert failed.stderr.splitlines()[-2:] == snapshot(
        [
            "  fix: correct app.py:2",
            "  cases: triage/disk-000, triage/disk-001, triage/disk-002, triage/disk-003, triage/disk-004 and 2 more",
        ]
    )


def test_what_cannot_be_recorded_is_said_once_with_its_count(project: EvalProject):
    project.golden([project.case(0), project.case(1, inputs={}), project.case(2)])
    result = project.command("record")
    assert result.returncode == 3
    assert "2 of 3 completions recorded" in result.stdout
    assert "input 'text' is missing" in result.stderr
    assert len(project.recordings()) == 2

    down = project.command("record", "--refresh", "--model=local:clerk")
    assert down.returncode == 3
    assert "Traceback" not in down.stderr
    assert down.stderr.count("cannot be reached") == 1


def test_errors_are_said_by_the_command_too(project: EvalProject):
    assert (
        project.command("record", "--evals", "nowhere").stderr
        == "error: there is no file or directory 'nowhere'\n"
        "  fix: regauge init writes a first eval; --evals names another directory\n"
    )
    project.settings("trails = 3")
    wrong = project.command("record")
    assert wrong.returncode != 0
    assert "no such setting" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    project.settings()
    project.write("fixtures/recordings/triage.jsonl", "{}\n")
    broken = project.command("record")
    assert broken.returncode == 3
    assert "triage.jsonl:1" in broken.stderr
    (project.root / "fixtures" / "recordings" / "triage.jsonl").unlink()
    for store in project.root.glob(".regauge/store*"):
        store.unlink()
    project.write(".regauge/store.sqlite3", "this is no database, and long enough to be read " * 40)
    damaged = project.command("record")
    assert damaged.returncode == 3
    assert "store.sqlite3" in damaged.stderr
    assert "Traceback" not in damaged.stderr


def test_settings_of_pytest_select_the_cases_that_are_recorded(
    live: EvalProject, endpoint: Endpoint
):
    live.golden(live.case(number, ok=False) for number in range(5))
    live.write(
        "pytest.ini", "[pytest]\naddopts = -p regauge --import-mode=importlib -k 'not 001'\n"
    )
    assert live.command("record").returncode == 0
    assert endpoint.total == 4


def test_a_conftest_selects_the_cases_that_are_recorded(live: EvalProject, endpoint: Endpoint):
    live.golden(live.case(number, ok=False) for number in range(5))
    live.write(
        "conftest.py",
        "def pytest_collection_modifyitems(items):\n"
        "    items[:] = [item for item in items if '001' not in item.name]\n",
    )
    assert live.command("record").returncode == 0
    assert endpoint.total == 4


def test_recordings_are_written_from_the_local_store(live: EvalProject, endpoint: Endpoint):
    live.run("--trials=2")
    path = live.root / "fixtures" / "recordings" / "triage.jsonl"
    recorded = path.read_bytes()
    endpoint.forget()
    path.unlink()
    shown = "fixtures/recordings/triage.jsonl (10 completions from the local store)"
    planned = live.command("record", "--trials=2", "--dry-run")
    assert (planned.returncode, planned.stdout) == (0, f"would write {shown}\n")
    assert not path.exists()
    done = live.command("record", "--trials=2")
    assert (done.returncode, done.stdout) == (0, f"wrote {shown}: commit it\n")
    assert path.read_bytes() == recorded
    assert live.command("record", "--trials=2").stdout == "nothing is missing\n"
    path.unlink()
    document = json.loads(live.command("record", "--json").stdout)
    assert document["written"] == ["fixtures/recordings/triage.jsonl"]
    assert document["from_local_store"] == {"fixtures/recordings/triage.jsonl": 5}
    assert endpoint.total == 0


def test_new_cases_are_written_next_to_those_of_the_local_store(
    live: EvalProject, endpoint: Endpoint
):
    live.command("record")
    (live.root / "fixtures" / "recordings" / "triage.jsonl").unlink()
    live.golden(live.case(number) for number in range(6))
    endpoint.forget()
    done = live.command("record")
    assert (done.returncode, done.stdout) == snapshot(
        (
            0,
            """\
1 of 1 completions recorded
  wrote fixtures/recordings/triage.jsonl (5 completions from the local store): commit it
""",
        )
    )
    assert (endpoint.total, len(live.recordings())) == (1, 6)


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_a_replay_names_answers_that_are_not_committed(project: EvalProject, workers: list[str]):
    warning = (
        "warning: 5 completions of fixtures/recordings/triage.jsonl not committed, only in the local"
        " store; write the file: regauge record"
    )
    project.run()
    assert "not committed" not in project.run("--record=none", *workers).stdout.str()
    (project.root / "fixtures" / "recordings" / "triage.jsonl").unlink()
    replayed = project.run("--record=none", *workers)
    assert replayed.ret == 0
    assert replayed.stdout.str().splitlines().count(warning) == 1
    project.command("record")
    assert "not committed" not in project.run("--record=none", *workers).stdout.str()


# It keeps one case from every command.
_CONFTEST = """\
def pytest_collection_modifyitems(config, items):
    left = [item for item in items if "disk-004" not in item.nodeid]
    config.hook.pytest_deselected(items=[item for item in items if item not in left])
    items[:] = left
"""


def _deselect(project: EvalProject, way: str) -> None:
    if way == "addopts":
        path = project.root / "pyproject.toml"
        text = path.read_text(encoding="utf-8")
        project.write(
            "pyproject.toml",
            text.replace('"-p", "regauge"', '"-p", "regauge", "-k", "not disk-004"'),
        )
    else:
        project.write("conftest.py", _CONFTEST)


@pytest.mark.parametrize("way", ["addopts", "conftest"])
@pytest.mark.parametrize(
    "words",
    [
        ("baseline", "flaky", "triage"),
        ("mutate", "triage"),
        ("migrate", "--to", "local:clerk"),
        ("refine", "triage"),
    ],
    ids=" ".join,
)
def test_every_command_names_cases_that_settings_deselect(
    project: EvalProject, words: tuple[str, ...], way: str
):
    _deselect(project, way)
    done = project.command(*words, "--dry-run")
    assert done.stderr.startswith(
        "warning: fixtures/golden/triage.jsonl: 1 of 5 cases of triage are there and are not run,"
        " such as disk-004\n  fix: take what deselects them out of addopts"
    )


@pytest.mark.parametrize("way", ["addopts", "conftest"])
def test_cases_that_settings_deselect_are_named(project: EvalProject, way: str):
    assert project.command("record").returncode == 0
    recorded = project.recordings()
    (project.root / "fixtures" / "recordings" / "triage.jsonl").unlink()
    _deselect(project, way)
    left_out = (
        "fixtures/golden/triage.jsonl: 1 of 5 cases of triage are there and are not run, such as"
        " disk-004\n  fix: take what deselects them out of addopts, PYTEST_ADDOPTS or conftest.py"
    )
    done = project.command("record")
    assert done.returncode == 0
    assert "triage.jsonl (4 completions from the local store): commit it" in done.stdout
    assert f"warning: {left_out}" in done.stdout
    again = project.command("record", "triage", "--dry-run")
    assert again.returncode == 0
    assert again.stdout.startswith(f"warning: {left_out}")
    assert "nothing is missing" not in again.stdout
    lines = "".join(f"{json.dumps(line)}\n" for line in recorded)
    project.write("fixtures/recordings/triage.jsonl", lines)
    refused = project.command("record", "--prune")
    assert (refused.returncode, left_out in refused.stderr) == (2, True)
    assert len(project.recordings()) == 5
    lint = project.command("lint")
    assert (lint.returncode, left_out in lint.stdout) == (1, True)
    assert "no eval makes any more" not in lint.stdout


def test_an_eval_that_a_conftest_drops_is_not_taken_for_a_missing_one(project: EvalProject):
    project.write("conftest.py", "def pytest_collection_modifyitems(items):\n    items[:] = []\n")
    for words in (("record",), ("record", "triage"), ("baseline", "update", "triage")):
        done = project.command(*words)
        assert done.returncode == 2
        assert "5 of 5 cases of triage are there and are not run" in done.stderr
        assert done.stdout == ""


_HIDING = {
    "settings": ("pytest.ini", "[pytest]\naddopts = -p regauge --ignore=evals/test_triage.py\n"),
    "collect_ignore": ("conftest.py", "collect_ignore = ['evals/test_triage.py']\n"),
    "conftest": (
        "evals/conftest.py",
        "def pytest_pycollect_makeitem(name):\n    return [] if 'triage' in name else None\n",
    ),
}


@pytest.mark.parametrize("way", _HIDING)
def test_an_eval_that_settings_hide_is_not_taken_for_a_missing_one(project: EvalProject, way: str):
    assert project.command("record").returncode == 0
    project.write(*_HIDING[way])
    hidden = "evals/test_triage.py:7: pytest does not collect the eval test_triage, so nothing"
    for words in (("record",), ("record", "triage"), ("baseline", "update", "triage")):
        done = project.command(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: {hidden}")
        assert "collect_ignore, conftest.py" in done.stderr
    project.prompt(name="other")
    project.golden([project.case(7)], name="other")
    eval_text = (project.root / "evals/test_triage.py").read_text(encoding="utf-8")
    project.eval(eval_text.replace("triage", "other"), name="test_other")
    for words in (("record", "--dry-run"), ("record",)):
        done = project.command(*words)
        assert done.returncode == 0
        assert f"warning: {hidden}" in done.stdout
    named = project.command("record", "other", "--dry-run")
    assert (named.returncode, named.stdout) == (0, "nothing is missing\n")
    refused = project.command("record", "--prune")
    assert (refused.returncode, hidden in refused.stderr) == (2, True)
    assert len(project.recordings()) == 5
