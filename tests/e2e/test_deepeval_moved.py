"""A deepeval that moved what regauge rests on: unmeasured, with the version that moved it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# Forks for each line that it reads, so that deepeval alone is loaded each time. After `load`, until
# `unload`, it forks with deepeval loaded; a line then names what a fork loses before it measures.
MEASURE = """
import asyncio, importlib, json, os, sys, traceback
sys.path.insert(0, {root!r})
import aiohttp, anthropic, grpc, jinja2, openai.types.chat, opentelemetry.trace, portalocker
import pydantic_settings, pytest, requests, rich.progress, statistics, tenacity, tornado.concurrent
import tqdm.asyncio, wave, webbrowser
import regauge.judges._deepeval._judge, regauge.runner
from regauge.errors import JudgeError
from regauge.judges import deepeval
from tests.unit.judges.deepeval_responses import Calls, bound, completion

def measure():
    from tests.e2e.test_deepeval_metrics import CASE, dag_metric
    judges = [
        deepeval("Faithfulness", fields={{"retrieval_context": "inputs.report"}}),
        deepeval("PatternMatch", pattern=".*"),
        deepeval("PlanQuality"),
        deepeval(dag_metric, name="DAG"),
    ]
    outcomes = {{}}
    for declared in judges:
        calls = Calls()
        try:
            verdict = asyncio.run(bound(declared).judge_with(completion("Full."), CASE, calls))
            outcomes[declared.name] = verdict.outcome
        except JudgeError as error:
            outcomes[declared.name] = str(error)
    import deepeval as package
    print(json.dumps({{"outcomes": outcomes, "place": package.__file__}}), flush=True)

def lose(place):
    module, _, names = place.partition(":")
    owner = importlib.import_module(module)
    *parents, name = names.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    delattr(owner, name)

is_loaded = False
for line in sys.stdin:
    assert is_loaded or "deepeval" not in sys.modules
    if line == "unload\\n":
        os._exit(0)
    if not os.fork():
        if line == "load\\n":
            regauge.judges._deepeval._judge.import_quietly()
            importlib.import_module("deepeval.metrics")
            is_loaded = True
            print(json.dumps({{"ended": 0}}), flush=True)
            continue
        try:
            if line != "measure\\n":
                lose(line.strip())
            measure()
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    print(json.dumps({{"ended": os.wait()[1]}}), flush=True)
"""
ALL = {"Faithfulness", "PatternMatch", "PlanQuality", "DAG"}
# Files, what moves in each, and the metrics that rest on it.
MOVED: list[tuple[dict[str, tuple[str, str]], set[str]]] = [
    ({"config/settings.py": ("DEEPEVAL_TELEMETRY_OPT_OUT", "DEEPEVAL_TELEMETRY_OFF")}, ALL),
    ({"config/settings.py": ("_merge_legacy_keyfile_into_env", "_merge_keyfile")}, ALL),
    (
        {"metrics/utils/models.py": ("    return _build_model(model)", "    return model, True")},
        ALL,
    ),
    ({"metrics/base_metric.py": ("_get_prompt", "_render")}, ALL),
    ({"metrics/base_metric.py": ("template_class: Optional", "borrowed: Optional")}, ALL),
    ({"test_case/llm_test_case.py": ("_trace_dict", "_trace_of_agent")}, ALL),
    (  # a part of each of three metrics
        {
            "metrics/dag/nodes.py": ("_verdict_options", "_options"),
            "metrics/faithfulness/faithfulness.py": ("self.claims", "self.found_claims"),
            "metrics/pattern_match/pattern_match.py": ("_compiled_pattern", "_pattern"),
        },
        {"DAG", "Faithfulness", "PatternMatch"},
    ),
]
# Names that every metric rests on.
NAMES = [
    "deepeval.metrics.arena_g_eval.utils:random",
    "deepeval.metrics.dag.utils:copy_graph",
    "deepeval.metrics.utils.metrics:_score_direction_warned",
    "deepeval.metrics.utils.models:_build_model",
    "deepeval.utils:nest_asyncio",
]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the installed deepeval that calls itself 4.99.0."""
    installed = distribution("deepeval")
    folder = tmp_path_factory.mktemp("moved")
    place = Path(str(installed.locate_file("deepeval")))
    shutil.copytree(place, folder / "deepeval")
    metadata = folder / "deepeval-4.99.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: deepeval\nVersion: 4.99.0\n")
    return folder


@pytest.fixture(scope="module")
def measuring(package: Path, pytestconfig: pytest.Config) -> Iterator[subprocess.Popen[str]]:
    """A process that measures with the copy."""
    with subprocess.Popen(
        [sys.executable, "-c", MEASURE.format(root=str(pytestconfig.rootpath))],
        # The compiled files are those of the copy as it was made.
        env={"PYTHONPATH": str(package), "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=package,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


def send(measuring: subprocess.Popen[str], line: str) -> dict[str, Any]:
    """What the process prints until the fork for a line has ended."""
    assert measuring.stdin is not None
    assert measuring.stdout is not None
    measuring.stdin.write(f"{line}\n")
    measuring.stdin.flush()
    printed: dict[str, Any] = {}
    while "ended" not in printed:
        printed |= json.loads(measuring.stdout.readline())
    assert printed["ended"] == 0
    return printed


def measure(
    measuring: subprocess.Popen[str], package: Path, line: str = "measure"
) -> dict[str, str]:
    printed = send(measuring, line)
    assert printed["place"].startswith(str(package))
    outcomes: dict[str, str] = printed["outcomes"]
    return outcomes


def test_a_newer_version_that_moved_nothing_measures(
    measuring: subprocess.Popen[str], package: Path
):
    outcomes = measure(measuring, package)
    assert outcomes == dict.fromkeys(outcomes, "pass")
    assert set(outcomes) == ALL


def test_a_name_that_is_gone_is_unmeasured_and_named_with_the_version(
    measuring: subprocess.Popen[str], package: Path
):
    send(measuring, "load")
    outcomes = {place: measure(measuring, package, place) for place in NAMES}
    send(measuring, "unload")
    for place, by_metric in outcomes.items():
        assert set(by_metric) == ALL
        for outcome in by_metric.values():
            assert "deepeval 4.99.0 has moved" in outcome, (place, outcome)
            assert place.partition(":")[0] in outcome
            assert "\n  fix: pip install 'deepeval==4.3.1'" in outcome


def moved_sources(package: Path, file: str, change: tuple[str, str]) -> dict[Path, str]:
    """The files with the change; a name goes with all who use it in deepeval."""
    old, new = change
    path = package / "deepeval" / file
    assert old in path.read_text(encoding="utf-8")
    others = (package / "deepeval").rglob("*.py") if old.isidentifier() else ()
    sources = {other: other.read_text(encoding="utf-8") for other in (path, *others)}
    return {other: text.replace(old, new) for other, text in sources.items() if old in text}


@pytest.mark.parametrize(
    ("changes", "unmeasured"), MOVED, ids=lambda row: "+".join(row) if isinstance(row, dict) else ""
)
def test_a_part_that_moved_is_unmeasured_and_named_with_its_version(
    measuring: subprocess.Popen[str],
    package: Path,
    changes: dict[str, tuple[str, str]],
    unmeasured: set[str],
):
    before: dict[Path, tuple[str, os.stat_result]] = {}
    try:
        for file, change in changes.items():
            for path, text in moved_sources(package, file, change).items():
                before.setdefault(path, (path.read_text(encoding="utf-8"), path.stat()))
                path.write_text(text, encoding="utf-8")
        outcomes = measure(measuring, package)
    finally:
        for path, (text, stat) in before.items():
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    named = {name for name, outcome in outcomes.items() if "deepeval 4.99.0 has moved" in outcome}
    assert named == unmeasured, outcomes
    assert all(outcomes[name] == "pass" for name in set(outcomes) - unmeasured), outcomes
    assert all("\n  fix: pip install 'deepeval==4.3.1'" in outcomes[name] for name in unmeasured)
