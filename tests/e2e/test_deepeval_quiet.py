"""deepeval in a hostile directory and environment: measured with, and nothing else happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests import processes

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = {
    "DEEPEVAL_EVAL_MODE": "hybrid",
    "DEEPEVAL_TELEMETRY_ENABLED": "1",
    "DEEPEVAL_UPDATE_WARNING_OPT_IN": "0",
    "DEEPEVAL_VERBOSE_MODE": "1",
    "DEEPEVAL_LOCAL_STORE": "sqlite",
    "LOG_LEVEL": "trace",
    "TEMPERATURE": "hot",
    "LOCAL_MODEL_BASE_URL": "not a url",
    "USE_LOCAL_MODEL": "YES",
    "APP_ENV": "prod",
    "PATH": "/usr/bin:/bin",
}
MEASURE = """
import asyncio, json, os, socket, sys, warnings
sys.path.insert(0, {root!r})
warnings.simplefilter("error")
for said in ("'asyncio.iscoroutinefunction' is", "'return' in a 'finally'"):  # from Python 3.14 on
    warnings.filterwarnings("ignore", said)

def no_socket(*_, **__):
    raise AssertionError("a socket was opened")

before = dict(os.environ)
from regauge.judges import deepeval
from tests.unit.judges.deepeval_responses import Calls, bound, case, completion
judges = [
    bound(deepeval("Faithfulness", fields={{"retrieval_context": "inputs.report"}})),
    bound(deepeval("GEval", name="G", criteria="Is it right?")),
    bound(deepeval("Hallucination", fields={{"context": "inputs.report"}})),
    bound(deepeval("Toxicity")),
]
digests = [one.digest for one in judges]
lazy = "deepeval" not in sys.modules

async def main():
    socket.socket.connect = no_socket
    socket.getaddrinfo = no_socket
    given = completion("The disk was full.")
    return [str(await one.judge_with(given, case(), Calls())) for one in judges]

print(json.dumps({{
    "verdicts": asyncio.run(main()),
    "lazy": lazy,
    "changed": sorted(set(before.items()) ^ set(os.environ.items())),
    "digests_stay": digests == [one.digest for one in judges],
    "posthog": "posthog" in sys.modules,
    "level": __import__("logging").getLogger().level,
}}))
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-of-env\nDEEPEVAL_EVAL_MODE=hybrid\n")
    (tmp_path / ".env.prod").write_text("CONFIDENT_API_KEY=key-of-env\n")
    (tmp_path / ".deepeval").mkdir()
    keys = {"OPENAI_API_KEY": "sk-of-file", "USE_LOCAL_MODEL": "YES"}
    (tmp_path / ".deepeval" / ".deepeval").write_text(json.dumps(keys))
    (tmp_path / "home").mkdir()
    return tmp_path


def run(script: str, where: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=where,
        env=HOSTILE | {"HOME": str(where / "home"), "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def test_a_measurement_leaves_no_trace(hostile, pytestconfig):
    files = sorted(hostile.rglob("*"))
    done = run(MEASURE.format(root=str(pytestconfig.rootpath)), hostile)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    said = json.loads(line)
    outcomes = [verdict.split(":")[0].split(" ")[0] for verdict in said.pop("verdicts")]
    assert outcomes == ["pass", "fail", "pass", "fail"]
    assert said == {
        "lazy": True,
        "changed": [],
        "digests_stay": True,
        "posthog": False,
        "level": 30,
    }
    assert sorted(hostile.rglob("*")) == files


def test_a_project_that_imported_it_first_is_quiet_from_then_on(hostile, pytestconfig):
    """Its own import is its own affair, but for what happens afterwards."""
    script = MEASURE.format(root=str(pytestconfig.rootpath)).replace(
        "before = dict", "import deepeval.metrics\nbefore = dict"
    )
    environment = {
        name: value for name, value in HOSTILE.items() if "_" not in name or name[:8] == "DEEPEVAL"
    }
    del environment["TEMPERATURE"]
    done = subprocess.run(
        [sys.executable, "-c", script.replace('warnings.simplefilter("error")', "")],
        cwd=hostile,
        env=environment
        | {"HOME": str(hostile / "home"), "DEEPEVAL_TELEMETRY_OPT_OUT": "1", "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert (said["lazy"], said["changed"], said["posthog"]) == (False, [], False)


def test_the_commands_and_the_plugin_import_no_deepeval(pytestconfig):
    script = (
        "import sys, regauge, regauge.judges, regauge.cli, regauge.pytest_plugin, regauge.runner\n"
        "from regauge.judges import deepeval\n"
        "deepeval('Faithfulness')\n"
        "print({'deepeval', 'openai', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("words", "kind", "module", "message"),
    [
        (
            ["-W", "error"],
            "DeprecationWarning",
            "deepeval.tracing.tracing",
            "'asyncio.iscoroutinefunction' is deprecated and slated for removal",
        ),
        (
            ["-o", "filterwarnings=error"],
            "SyntaxWarning",
            "/site-packages/deepeval/evaluate/loop",
            "'return' in a 'finally' block",
        ),
    ],
)
def test_its_import_ends_no_run_that_treats_warnings_as_errors(
    pytester, words, kind, module, message
):
    """Python 3.14 warns of what deepeval does; here any Python warns as 3.14 does."""
    pytester.makepyfile(f"""
        import warnings

        import pytest

        def warn(module):
            warnings.warn_explicit({message!r}, {kind}, "name.py", 1, module)

        def test_import():
            warn({module!r})
            with pytest.raises({kind}):
                warn("app.service")
    """)
    plugins = ("-p", "no:deepeval", "-p", "regauge")
    done = processes.run("pytest", *plugins, *words, cwd=pytester.path, env={**os.environ})
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
