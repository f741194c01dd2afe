from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from regauge.errors import ConfigError
from regauge.project import Project

if TYPE_CHECKING:
    from pathlib import Path


def configured(root: Path, text: str) -> Project:
    (root / "pyproject.toml").write_text(text)
    return Project.find(root)


def diagnostics(root: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        configured(root, text).settings  # noqa: B018 - reading it is what raises
    return [str(diagnostic).replace(str(root), "ROOT") for diagnostic in caught.value.diagnostics]


def test_a_project_is_the_nearest_directory_upwards_with_a_tool_table(tmp_path: Path):
    deep = tmp_path / "evals" / "deep"
    deep.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.regauge]\ntrials = 3\n")
    project = Project.find(deep)
    assert project.root == tmp_path
    assert project.settings.trials == 3


def test_a_directory_with_prompts_is_a_project_without_any_settings(tmp_path: Path):
    (tmp_path / "prompts").mkdir()
    project = Project.find(tmp_path / "prompts")
    assert project.root == tmp_path
    assert project.settings.concurrency == "auto"
    assert project.golden_dir == tmp_path / "fixtures" / "golden"


def test_a_place_that_belongs_to_no_project_is_its_own(tmp_path: Path):
    assert Project.find(tmp_path).root == tmp_path


def test_all_errors_of_the_settings_are_told_at_once_with_their_lines(tmp_path: Path):
    found = diagnostics(
        tmp_path,
        "[tool.regauge]\nmodle = 'sim:clerk-1'\ntrials = 0\nredact = ['(']\n"
        "[tool.regauge.providers.local]\ntimeout_s = -1\n",
    )
    assert found == snapshot(
        [
            """\
ROOT/pyproject.toml:2: tool.regauge.modle: no such setting
  fix: did you mean 'model'?\
""",
            """\
ROOT/pyproject.toml:3: tool.regauge.trials: must be a number of 1 or more, not 0
  fix: set trials to a number of 1 or more\
""",
            """\
ROOT/pyproject.toml:4: tool.regauge.redact.0: not a regular expression: missing ), unterminated subpattern at position 0
  fix: correct it; a character that is meant itself takes a backslash, such as \\(\
""",
            """\
ROOT/pyproject.toml:6: tool.regauge.providers.local.timeout_s: must be a number above 0, not -1
  fix: set timeout_s to a number above 0\
""",
        ]
    )


@pytest.mark.parametrize(
    ("pattern", "matched"), [("[a-z]+", "the word 'accepted'"), (".*", "the empty text")]
)
def test_a_pattern_that_matches_ordinary_text_cannot_be_redacted(
    tmp_path: Path, pattern: str, matched: str
):
    (diagnostic,) = diagnostics(tmp_path, f"[tool.regauge]\nredact = ['{pattern}']\n")
    assert f"pyproject.toml:2: tool.regauge.redact.0: '{pattern}' matches {matched}" in diagnostic
    assert "fix: match what is particular to the secret" in diagnostic


def test_errors_of_goals_say_what_to_write(tmp_path: Path):
    goals = "".join(
        f"[[tool.regauge.refine.goals]]\n{line}\n"
        for line in ("pass_rate = 95", 'pass_rate = "0.9"', "tag = 'x'")
    )
    assert diagnostics(tmp_path, goals) == snapshot(
        [
            """\
ROOT/pyproject.toml:2: tool.regauge.refine.goals.0.pass_rate: must be above 0 and below 1, not 95
  fix: a share, not a percentage: write 0.95\
""",
            """\
ROOT/pyproject.toml:4: tool.regauge.refine.goals.1.pass_rate: must be above 0 and below 1, not '0.9'
  fix: write a number without quotes, such as 0.95\
""",
            """\
ROOT/pyproject.toml:5: tool.regauge.refine.goals.2.pass_rate: it is missing
  fix: write it: pass_rate = ...\
""",
        ]
    )
    assert diagnostics(tmp_path, "[tool.regauge.refine.goals]\npass_rate = 0.9\n") == snapshot(
        [
            """\
ROOT/pyproject.toml:1: tool.regauge.refine.goals: must be a list of tables
  fix: two brackets on each side: [[tool.regauge.refine.goals]]\
"""
        ]
    )


@pytest.mark.parametrize(
    ("gate", "complaint"),
    [
        ("first_trials = 0", "first_trials"),
        ("first_trials = 25", "first_trials"),
        ('baseline_trials = "all"', "baseline_trials"),
        ('anchor = "minor"', "must be 'major', 'none' or a version, not 'minor'"),
        ("accepted_max = -1", "accepted_max"),
        ('ref = "HEAD"', "a change would be compared with itself"),
        ('ref = "@~2"', "a change would be compared with itself"),
    ],
)
def test_gate_settings_that_cannot_be_held_are_refused(tmp_path: Path, gate: str, complaint: str):
    found = diagnostics(tmp_path, f"[tool.regauge.gate]\n{gate}\n")
    assert complaint in "\n".join(found)


@pytest.mark.parametrize(
    "gate", ["first_trials = 24", 'baseline_trials = "auto"', 'anchor = "2.0.0"', 'anchor = "none"']
)
def test_gate_settings_within_their_range_are_read(tmp_path: Path, gate: str):
    name, _, value = gate.partition(" = ")
    settings = configured(tmp_path, f"[tool.regauge.gate]\n{gate}\n").settings.gate
    assert str(getattr(settings, name)) == value.strip('"')


def test_a_file_that_is_not_toml_is_one_error(tmp_path: Path):
    (diagnostic,) = diagnostics(tmp_path, "[tool.regauge\n")
    assert diagnostic.startswith("ROOT/pyproject.toml:1: not TOML: ")


def test_paths_are_told_relative_to_the_project(tmp_path: Path):
    project = Project(root=tmp_path)
    assert str(project.relative(tmp_path / "prompts" / "a.prompt.yml")) == "prompts/a.prompt.yml"
    assert project.relative(tmp_path.parent) == tmp_path.parent


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tool = 5\n", "pyproject.toml:1: 'tool' must be a table, not 5"),
        ("[tool]\nregauge = [1]\n", "pyproject.toml:2: 'regauge' must be a table, not [1]"),
        ("x = " + "[" * 100_000, "pyproject.toml: not TOML: nested too deeply"),
        ("\ufeffx = 1\n", "pyproject.toml:1: not TOML: it begins with a byte order"),
        (
            "[tool.regauge]\ntrials = true\n",
            ":2: tool.regauge.trials: must be a whole number, not true",
        ),
        (
            '[tool.regauge]\ntrials = "2"\n',
            ":2: tool.regauge.trials: must be a whole number, not '2'",
        ),
        (
            "[tool.regauge]\nconcurrency = -1\n",
            ":2: tool.regauge.concurrency: must be a number of 1 or more or 'auto', not -1",
        ),
        (
            "[tool.regauge]\nbudget_usd = inf\n",
            ":2: tool.regauge.budget_usd: must be a finite number",
        ),
        (
            "[tool.regauge]\nmodel = 3\n",
            ":2: tool.regauge.model: must be a text in quotes, not 3\n  fix: set model to a text",
        ),
        (
            "[tool.regauge.refine]\nproposers = [1]\n",
            ":2: tool.regauge.refine.proposers.0: must be a text in quotes, not 1",
        ),
        ("[tool.regauge]\nredact = 'x'\n", ":2: tool.regauge.redact: must be a list, not 'x'"),
        (
            "[tool.regauge.providers.a]\napi_key_env = 'K'\napi_key_command = ['k']\n",
            ":1: tool.regauge.providers.a: api_key_env and api_key_command both name a key",
        ),
        (
            "[tool.regauge.gate]\nnew_case_trials = 2\n",
            (
                ":1: tool.regauge.gate: new_case_passes is 3, but new_case_trials is 2\n"
                "  fix: new_case_passes = 2, or more trials"
            ),
        ),
        (
            "[tool.regauge.refine]\nproposers = []\n",
            ":2: tool.regauge.refine.proposers: must be a list of length 1 or more, not []",
        ),
        (
            "[tool.regauge.providers.a]\napi = 'responses'\nvary_seed = true\n",
            ":1: tool.regauge.providers.a: api = 'responses' takes no seed",
        ),
        (
            "[tool.regauge.providers.a]\napi = 'anthropic'\nvary_seed = true\n",
            "api = 'anthropic' takes no seed",
        ),
        (
            "[tool.regauge.providers.http]\nbase_url = 'http://a/v1'\n",
            ":1: tool.regauge.providers: http is a kind of target",
        ),
        ("[tool.regauge]\nproviders = 5\n", ":2: tool.regauge.providers: must be a table, not 5"),
        (
            "[[tool.regauge.gate]]\nref = 'x'\n",
            (
                ":1: tool.regauge.gate: must be a table, not [{'ref': 'x'}]\n"
                "  fix: write it below a line [tool.regauge.gate]"
            ),
        ),
        (
            "[tool.regauge]\ntargets = []\n",
            (
                ":2: tool.regauge.targets: must be a table, not []\n"
                "  fix: write it below a line [tool.regauge.targets.NAME]"
            ),
        ),
        (
            "[tool.regauge.providers.a]\nprices = {m = 3}\n",
            (
                ":2: tool.regauge.providers.a.prices.m: must be a table, not 3\n"
                "  fix: write it below a line [tool.regauge.providers.a.prices.m]"
            ),
        ),
        (
            "[tool.regauge.refine]\ngoals = [0.9]\n",
            "  fix: write it below a line [[tool.regauge.refine.goals]]",
        ),
        (
            "[tool.regauge.redact]\na = 'x'\n",
            ":1: tool.regauge.redact: must be a list, not {'a': 'x'}\n  fix: redact = [...]",
        ),
        (
            "[tool.regauge.targets.a]\ncallable = 'a:b'\n",
            (
                ":1: tool.regauge.targets.a.kind: it is missing\n"
                "  fix: write it: kind = ..., which is one of python, http, command, recorded"
            ),
        ),
        (
            "[tool.regauge.targets.a]\ncallable = 'a:b'\nkind = 'pyhton'\n",
            (
                ":3: tool.regauge.targets.a.kind: must be one of 'python', 'http', 'command', "
                "'recorded', not 'pyhton'\n  fix: did you mean 'python'?"
            ),
        ),
        (
            "[tool.regauge.targets.a]\nkind = ['python']\n",
            "not ['python']\n  fix: set kind to one of 'python', 'http', 'command', 'recorded'",
        ),
        ("[tool.regauge.gate]\non_new = 'blok'\n", "\n  fix: did you mean 'block'?"),
        (
            "[tool.regauge.refine]\nfeedback_from = ['me']\n",
            (
                ":2: tool.regauge.refine.feedback_from.0: must be 'owner', 'member', 'collaborator', "
                "'contributor' or 'anyone', not 'me'\n  fix: set each entry of feedback_from to 'own"
            ),
        ),
        (
            "[tool.regauge]\ntrials = 2026-01-31\n",
            ":2: tool.regauge.trials: must be a whole number, not 2026-01-31",
        ),
        (
            "[tool.regauge]\nmodels = ['sim:a', 'sim:a']\n",
            ":2: tool.regauge.models: 'sim:a' is listed twice\n  fix: remove one",
        ),
        (
            "[tool.regage.gate]\nref = 'x'\n",
            ":1: [tool.regage] has no effect\n  fix: write [tool.regauge]",
        ),
        *(
            (
                f"[tool.regauge]\ntrials = 2\n[tool.{name}.gate]\nref = 'x'\n",
                f":3: [tool.{name}] has no effect\n  fix: write [tool.regauge]",
            )
            for name in ("regage", "regauges", "Regauge", "re-gauge")
        ),
        (
            "[tool.regauge]\ntrials = 2\n[tool.regauge-gate]\nref = 'x'\n",
            ":3: [tool.regauge-gate] has no effect\n  fix: write [tool.regauge.gate]",
        ),
        (
            "[tool]\n[regauge]\ntrials = 2\n",
            ":2: [regauge] has no effect\n  fix: write [tool.regauge]",
        ),
        (
            "[tool.regauge]\nrecord = 'some'\n",
            ":2: tool.regauge.record: must be 'none', 'missing' or",
        ),
        (
            "[tool.regauge.providers.a]\nbase_url = 'localhost:8000/v1'\n",
            ":2: tool.regauge.providers.a.base_url: no URL of an HTTP endpoint: localhost:8000/v1",
        ),
        (
            "[tool.regauge]\njudge_model = 'gpt-5'\n",
            ":2: tool.regauge.judge_model: 'gpt-5' names no provider",
        ),
        ("[tool.regauge]\nmodel = ''\n", ":2: tool.regauge.model: '' names no provider"),
        (
            "[tool.regauge.refine]\nmodel = 'gpt-5'\n",
            ":2: tool.regauge.refine.model: 'gpt-5' names no provider",
        ),
        (
            "[tool.regauge]\nstore = 'mysql://me:p@ss@db/evals'\n",
            ":2: tool.regauge.store: not a store that regauge can use: 'mysql://me:***@db/evals'",
        ),
    ],
)
def test_each_setting_of_a_wrong_kind_is_one_error_with_its_line_and_fix(
    tmp_path: Path, text: str, complaint: str
):
    (diagnostic,) = diagnostics(tmp_path, text)
    assert complaint in diagnostic
    assert "\n  fix: " in diagnostic


@pytest.mark.parametrize("name", ["gauge", "regex", "regauge-extra"])
def test_tables_of_other_tools_are_left_alone(tmp_path: Path, name: str):
    text = f"[tool.regauge]\ntrials = 2\n[tool.{name}.gate]\nref = 'x'\n"
    assert configured(tmp_path, text).settings.trials == 2


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("[tool.regauge.providers.a]\nurl = 'x'\n", "did you mean 'base_url'?"),
        ("[tool.regauge.gate]\nholdout = 0.5\n", "move it to [tool.regauge]"),
        ("[tool.regauge.gate]\ntrails = 2\n", "did you mean 'trials' of [tool.regauge]?"),
        (
            "[tool.regauge.refine]\nbase_url = 'x'\n",
            "move it to [tool.regauge.providers.NAME]",
        ),
        (
            "[[tool.regauge.refine.goals]]\npass_rate = 0.9\npromt = 'a'\n",
            "did you mean 'prompt'?",
        ),
        (
            "[tool.regauge.targets.a]\nkind = 'python'\ncallable = 'a:b'\nurl = 'x'\n",
            "'url' is a setting of targets of kind 'http'",
        ),
        (
            "[tool.regauge.targets.a]\nkind = 'python'\ncallable = 'a:b'\ntimeot_s = 1\n",
            "did you mean 'timeout_s'?",
        ),
        ("[tool.regauge.gate]\npass_rate = 1\n", "move it to [[tool.regauge.refine.goals]]"),
        (
            "[tool.regauge.gate]\nfloor = 0.5\n",
            "move it to [tool.regauge.calibration] or [tool.regauge.mutate]",
        ),
        (
            "[tool.regauge.calibration]\nxyzzy = 1\n",
            "remove it, or use one of floor, min_labels",
        ),
    ],
)
def test_the_fix_of_an_unknown_setting_names_the_table_that_has_it(
    tmp_path: Path, text: str, fix: str
):
    (diagnostic,) = diagnostics(tmp_path, text)
    assert diagnostic.endswith(f"no such setting\n  fix: {fix}")


@pytest.mark.parametrize(
    "table",
    [
        "store = 'postgresql://me@db/evals'",
        "store = 'sqlite:///team.sqlite3'",
        "[tool.regauge.providers.a]\nvary_seed = true",
        "[tool.regauge.providers.a]\napi_key_command = ['k']",
        "[tool.regauge.providers.a]\napi_key_env = ''",
    ],
)
def test_settings_that_go_together_are_read(tmp_path: Path, table: str):
    settings = configured(tmp_path, f"[tool.regauge]\n{table}\n").settings
    assert settings.store == (table.split("'")[1] if table.startswith("store") else None)


def test_an_error_of_a_setting_without_its_file_has_the_path(tmp_path: Path):
    error = Project(root=tmp_path).setting_error(("refine", "goals"), "odd", fix="mind")
    assert str(error) == f"{tmp_path}/pyproject.toml: tool.regauge.refine.goals: odd\n  fix: mind"


def test_a_pyproject_that_is_no_file_is_one_error(tmp_path: Path):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "pyproject.toml").mkdir()
    with pytest.raises(ConfigError, match="there is a directory at the path of this file"):
        Project.find(tmp_path).settings  # noqa: B018 - reading it is what raises
