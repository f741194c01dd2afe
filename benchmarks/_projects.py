"""Write the measured projects."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from _server import ANSWER

from regauge import Completion, golden
from regauge.judges import json_parses
from regauge.project import Project
from regauge.recordings import Recording, utc_now
from regauge.runner import (
    CaseRequest,
    EvalSession,
    PlannedCase,
    PlannedTrial,
    RunOptions,
    SourcedCompletion,
    calls_of,
    spec_of,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "conversation_project",
    "empty_tests",
    "forget",
    "judged_project",
    "project",
    "record_at_once",
    "target_project",
    "without_evals",
]

_PROMPT = """\
name: Label
version: 1.0.0
model: {model}
modelParameters:
  temperature: 0
responseFormat: json_schema
jsonSchema:
  name: label
  schema:
    type: object
    required: [label, reason]
    properties:
      label: {{type: string, enum: [a, b]}}
      reason: {{type: string}}
messages:
  - role: system
    content: You give every note a label. Answer with JSON that has the keys label and reason.
  - role: user
    content: |
      Title: {{{{title}}}}
      Note: {{{{note}}}}
"""
_EVAL = """\
from regauge import golden
from regauge.judges import field_equals, field_in, json_parses, max_words


@golden(
    "label",
    judges=[
        json_parses(kind="object"),
        field_in("label", ["a", "b"]),
        field_equals("label"),
        max_words(40, field="reason"),
    ],
)
def test_label(result):
    result.check()
"""
_JUDGED_EVAL = """\
from regauge import golden
from regauge.judges import deepeval, field_equals, rubric


@golden(
    "label",
    judges=[
        field_equals("label"),
        deepeval("GEval", name="Right", criteria="Is the label right?", threshold=0.3),
        rubric("fair", votes=2),
    ],
)
def test_label(result):
    result.check()
"""
_RUBRIC = """\
name: Fair
version: 1.0.0
rubric:
  kind: graded
  scale: {min: 1, max: 5}
  pass_at: 0.5
messages:
  - role: system
    content: Judge from 1 to 5 whether the label goes with the note.
  - role: user
    content: |
      Note: {{note}}
      Answer: {{answer}}
"""
_EMPTY = """\
import pytest


@pytest.mark.parametrize("case", range({count}), ids="case-{{:05}}".format)
def test_empty(case):
    pass
"""
_PYPROJECT = """\
[tool.pytest.ini_options]
minversion = "9.0"

[tool.regauge.providers.waiter]
base_url = "{base_url}"
"""


def project(
    root: Path,
    *,
    cases: int,
    base_url: str,
    wrong_case: int | None = None,
) -> Path:
    """A project with one eval of so many cases, which `waiter` answers.

    Args:
        root: A directory to make.
        cases: How many golden cases.
        base_url: Where `waiter` is.
        wrong_case: The number of a case that expects another answer and fails, counted from 1.
    """
    _write(root / "pyproject.toml", _PYPROJECT.format(base_url=base_url))
    _write(root / "prompts/label.prompt.yml", _PROMPT.format(model="waiter:waiter-1"))
    _write(root / "evals/test_label.py", _EVAL)
    lines = [
        json.dumps(
            {
                "id": f"case-{n:05}",
                "inputs": {
                    "title": f"Note {n}",
                    "note": f"The pager rang {n} times on node {n % 37} and nobody knew why. "
                    "The disk was full again, and the queue behind it grew.",
                },
                "expected": {"label": "b" if n == wrong_case else ANSWER["label"]},
                "tags": ["disk"],
                "source": "benchmark",
                "licence": "CC0-1.0",
            }
        )
        for n in range(1, cases + 1)
    ]
    _write(root / "fixtures/golden/label.jsonl", "\n".join(lines) + "\n")
    return root


def target_project(root: Path, *, cases: int, latency_s: float) -> Path:
    """The same cases, put to a Python function that waits so long."""
    project(root, cases=cases, base_url="http://127.0.0.1:9/v1")
    settings = root / "pyproject.toml"
    table = '[tool.regauge.targets.label]\nkind = "python"\ncallable = "app:answer"\n'
    _write(settings, settings.read_text(encoding="utf-8") + table)
    _write(
        root / "app.py",
        f"import time\n\ndef answer(title, note):\n    time.sleep({latency_s})\n"
        f"    return {json.dumps(ANSWER)!r}\n",
    )
    _write(
        root / "evals/test_label.py",
        _EVAL.replace('    "label",\n', '    "label",\n    target="label",\n', 1),
    )
    return root


def conversation_project(root: Path, *, cases: int) -> Path:
    """The same cases, each a conversation of three turns."""
    project(root, cases=cases, base_url="http://127.0.0.1:9/v1")
    golden = root / "fixtures/golden/label.jsonl"
    turns = [{}, {"user": "Are you sure? Think of the queue."}, {"user": "And the final label?"}]
    lines = golden.read_text(encoding="utf-8").splitlines()
    _write(
        golden, "".join(json.dumps({**json.loads(line), "turns": turns}) + "\n" for line in lines)
    )
    return root


def record_at_once(root: Path) -> Path:
    """Write the recordings of a project as a run would, without its calls."""
    found = Project.find(root)
    session = EvalSession(found, RunOptions(record="none"), environ={})
    spec = spec_of(golden("label", judges=[json_parses()])(record_at_once))
    assert spec is not None
    [suite] = session.bind(spec, record_at_once)
    completion = Completion(text=json.dumps(ANSWER), model="waiter-1", latency_s=0.2)
    answer = SourcedCompletion(completion=completion, source="recording")
    file = session.completions.file("label")
    for case in suite.dataset:
        draw = PlannedTrial(PlannedCase(suite, case), 0)
        draw.planned_case.plan()
        converses = draw.planned_case.converses
        made = calls_of(draw, lambda _: answer)[1] if converses else [CaseRequest.of_trial(draw)]
        recordings = [
            Recording(
                key=question.key,
                prompt="label",
                version=question.version,
                case=case.id,
                model=question.model,
                completion=completion,
                recorded_at=utc_now(),
                request=question.summary,
            )
            for question in made
        ]
        file.merge(recordings, replace=False)
    file.save()
    return root


def judged_project(root: Path, *, cases: int, base_url: str) -> Path:
    """The same project, with two judges that ask `waiter`: a rubric of two votes and a GEval."""
    project(root, cases=cases, base_url=base_url)
    settings = root / "pyproject.toml"
    text = settings.read_text(encoding="utf-8").replace(
        "[tool.regauge.providers",
        '[tool.regauge]\njudge_model = "waiter:waiter-1"\n\n[tool.regauge.providers',
    )
    _write(settings, text)
    _write(root / "prompts/judges/fair.prompt.yml", _RUBRIC)
    _write(root / "evals/test_label.py", _JUDGED_EVAL)
    return root


def forget(root: Path) -> None:
    """Remove what runs leave behind: recordings, the local store, run records."""
    shutil.rmtree(root / ".regauge", ignore_errors=True)
    shutil.rmtree(root / "fixtures/recordings", ignore_errors=True)


def empty_tests(root: Path, *, count: int) -> Path:
    """A project with so many parametrized tests that do nothing."""
    _write(root / "pyproject.toml", _PYPROJECT.format(base_url="http://127.0.0.1:9/v1"))
    _write(root / "tests/test_empty.py", _EMPTY.format(count=count))
    return root


def without_evals(root: Path) -> Path:
    """A project with a few tests and no eval."""
    return empty_tests(root, count=20)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
