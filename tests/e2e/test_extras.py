"""An installation of the core alone: it works, and a missing extra is one sentence."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from regauge.on_demand import EXTRAS
from tests.place import Place

ROOT = Path(__file__).parents[2]
MODULES = sorted(module for modules in EXTRAS.values() for module in modules)
# `None` among the loaded modules is how Python itself marks one that cannot be imported.
BLOCKED = f"""\
import runpy, sys
for name in [*sys.modules]:
    if name.partition(".")[0] in {MODULES!r}:
        del sys.modules[name]
sys.modules.update(dict.fromkeys({MODULES!r}))
"""
EVAL = """\
from regauge import golden
from regauge.judges import chrf, contains, similarity

@golden("ticket-kind", judges=[{judge}]{more})
def test_more(result):
    result.check()
"""


class Core(Place):
    """A project whose processes find no extra."""

    def process(self, *command: str, given: str = "", **environment: str):
        module = command[0]
        script = (
            f"{BLOCKED}sys.argv = {[*command]!r}\n"
            f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)\n"
        )
        return super().process("-c", script, given=given, **environment)


@pytest.fixture
def core(tmp_path: Path) -> Core:
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path)], check=True)
    core = Core(tmp_path)
    core.regauge("init", "--yes", "--install=make install")
    return core


def test_the_core_alone_does_what_a_new_project_needs(core: Core):
    core.write("evals/test_more.py", EVAL.format(judge="chrf('a bug', at_least=0)", more=""))
    assert "20 passed" in core.evals()
    assert "0 errors, 0 warnings" in core.regauge("lint")
    extras = "ok     extras: anthropic (not installed: anthropic), dask (not installed: distributed), infra (not installed: hcl2, sqlglot), "
    assert extras in core.regauge("doctor")
    assert "20 cases" in core.regauge("runs", "list")


def test_a_judge_without_its_extra_is_refused_at_collection(core: Core):
    core.write("evals/test_more.py", EVAL.format(judge="similarity('a bug')", more=""))
    sentence = "\nevals/test_more.py:4: similarity needs rapidfuzz, which is not installed\n  fix: pip install 'regauge[text]'"
    out = core.evals("--record=none", code=2)
    assert sentence in out
    assert "require(" not in out
    doctor = json.loads(core.process("regauge", "doctor", "--json").stdout)
    (finding,) = [one for one in doctor["results"] if one["level"] == "error"]
    assert finding["message"].endswith("similarity needs rapidfuzz, which is not installed")
    assert finding["fix"] == "pip install 'regauge[text]'"


def test_a_cluster_without_its_extra_is_refused(core: Core):
    sentence = (
        "--cluster needs distributed, which is not installed\n  fix: pip install 'regauge[dask]'"
    )
    evals = core.process("pytest", "evals", "--cluster=local")
    assert (evals.returncode, sentence in evals.stderr) == (4, True), evals.stderr
    assert sentence in core.regauge("record", "--cluster=local", code=2)


def test_a_check_of_a_case_without_its_extra_is_refused_with_its_line(core: Core):
    case = {
        "id": "sql",
        "inputs": {"ticket": "x"},
        "expected": "bug",
        "checks": ["sql_parses"],
    }
    core.write("fixtures/golden/more.jsonl", json.dumps(case) + "\n")
    core.write("evals/test_more.py", EVAL.format(judge="contains('g')", more=", dataset='more'"))
    out = core.evals("--collect-only", code=2)
    assert "more.jsonl:1: checks of sql: sql_parses needs sqlglot, which is not installed" in out
    assert "fix: pip install 'regauge[infra]'" in out


def test_parquet_without_its_extra_is_refused_as_input_and_as_output(core: Core):
    core.write("fixtures/golden/more.parquet", "PAR1")
    core.write("evals/test_more.py", EVAL.format(judge="contains('g')", more=", dataset='more'"))
    out = core.evals("--collect-only", code=2)
    assert "more.parquet: parquet needs pyarrow, which is not installed" in out
    assert "fix: pip install 'regauge[parquet]'" in out
    (core.root / "evals/test_more.py").unlink()
    core.evals()
    out = core.regauge("report", "latest", "--format", "parquet", "-o", "run.parquet", code=2)
    assert "a parquet file needs pyarrow, which is not installed" in out
    assert not (core.root / "run.parquet").exists()


def test_every_judge_of_an_extra_is_refused_whatever_its_parameters(core: Core):
    """Parameters that a case brings are read when it is judged; the extra is not that late."""
    script = (
        "from regauge.judges import expected, judge_kinds\n"
        "from regauge.errors import UsageError\n"
        "for name, kind in sorted(judge_kinds().items()):\n"
        "    if getattr(kind, 'required_module', ''):\n"
        "        try:\n"
        "            kind(expected('x'))\n"
        "        except UsageError as error:\n"
        "            print(error)\n"
    )
    core.write("script.py", script)
    out = core.process("script").stdout
    names = ["detected_language", "edit_distance", "is_language", "javascript", "meteor", "rouge_l"]
    names += ["similarity", "sql_parses", "terraform_parses"]
    assert re.findall(r"(?m)^(\w+) needs \w+, which is not installed$", out) == names
    assert out.count("  fix: pip install 'regauge[") == len(names)


def test_extras_are_those_of_the_package_and_all_has_each_but_a_cluster():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert sorted(extras) == sorted([*EXTRAS, "all"])
    assert extras["all"] == [f"regauge[{','.join(sorted(EXTRAS.keys() - {'dask'}))}]"]
    packages = {
        "hcl2": ["python-hcl2"],
        "opentelemetry.exporter.otlp.proto.http": [
            "opentelemetry-exporter-otlp-proto-http",
            "opentelemetry-sdk",
        ],
        "psycopg": ["psycopg[binary]"],
        "py_mini_racer": ["mini-racer"],
    }
    for extra, modules in EXTRAS.items():
        named = sorted(re.split(r"[<>=]", requirement)[0] for requirement in extras[extra])
        assert named == sorted(
            package for module in modules for package in packages.get(module, [module])
        )
    core = [re.split(r"[\[<>=]", requirement)[0] for requirement in project["dependencies"]]
    assert {"deepeval", "openai", "pandas", "pytest", "PyYAML"} <= set(core)
    assert not {"pyarrow", "sacrebleu", "sqlalchemy"} & set(core)


def test_plugins_that_come_along_neither_load_nor_warn_in_a_project_of_init(core: Core):
    every = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "", "PYTEST_PLUGINS": ""}
    # A variable of Python's own keeps the process from being forked, so it loads what it needs.
    every["PYTHONNOUSERSITE"] = "1"
    out = Place.process(core, "pytest", "evals", "-p", "no:cacheprovider", **every)
    assert "10 passed" in out.stdout
    assert "arning" not in out.stdout + out.stderr
    assert "deepeval" not in out.stdout
    core.write("pyproject.toml", "[tool.regauge]\nmodel = 'sim:clerk-1'\n")
    doctor = core.regauge("doctor")
    assert "warn   pytest: deepeval's plugin loads in every run of pytest" in doctor
    assert 'add "-p", "no:deepeval" to addopts of pytest' in doctor
