"""Suites of other tools, public ones and one of every kind: what an import writes and reports."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

import pytest

from regauge.importers import load_importer
from regauge.importers._writer import plan_files
from tests.transcripts import DATA, assert_as_written

if TYPE_CHECKING:
    from pathlib import Path

CHARS_MAX = 2500
IMPORTS = [
    ("openai-evals", "imports/openai+evals"),
    ("openai-evals", "imports/openai+openai-openapi"),
    ("deepeval", "imports/deepeval/goldens.json"),
    ("deepeval", "imports/deepeval/goldens.csv"),
    ("prompty", "imports/microsoft+prompty"),
    ("dotprompt", "imports/firebase+genkit"),
    ("inspect", "imports/UKGovernmentBEIS+inspect_ai/samples.json"),
    ("inspect", "imports/UKGovernmentBEIS+inspect_ai/samples-mcq.json"),
    ("inspect", "imports/inspect/capitals.json"),
    *(
        (form, f"imports/of-every-kind/{path}")
        for form, path in (
            ("promptfoo", "assertions"),
            ("promptfoo", "providers"),
            ("promptfoo", "tests"),
            ("promptfoo", "targets"),
            ("openai-evals", "openai-evals"),
            ("openai-evals", "api"),
            ("prompty", "prompty"),
            ("dotprompt", "dotprompt"),
            ("inspect", "inspect/samples.csv"),
            ("deepeval", "deepeval/goldens.json"),
            ("deepeval", "deepeval/cases.json"),
            ("deepeval", "deepeval/test_cases.json"),
            ("deepeval", "deepeval/suite"),
            # What is seldom in a suite, beside what is usual.
            ("promptfoo", "edges"),
            ("openai-evals", "registry"),
            ("openai-evals", "objects"),
            ("prompty", "prompty-edges"),
            ("dotprompt", "dotprompt-edges"),
            ("deepeval", "deepeval-edges"),
            ("langsmith", "platforms/langsmith.jsonl"),
            ("braintrust", "platforms/braintrust.json"),
            ("inspect", "platforms/inspect.json"),
            ("inspect", "platforms/samples.jsonl"),
        )
    ),
    *(
        ("promptfoo", f"promptfoo/{path.name}")
        for path in sorted((DATA / "promptfoo").iterdir())
        if path.is_dir()
    ),
]


def written_files(form: str, source: Path, root: Path) -> str:
    """What an import writes; of a long file its start and a digest."""
    (root / "pyproject.toml").write_text("[tool.regauge]\n")
    (root / "prompts").mkdir()
    target = root / source.name
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)
    imported = load_importer(form)(target, root=root)
    plan = plan_files(form, imported, root)
    counts = f"{imported.assertions} assertions, {imported.unmeasured} unmeasured"
    lines = [f"{len(imported.evals)} evals, {counts}"]
    for file in (*plan.changed, *plan.new):
        digest = hashlib.sha256(file.text.encode()).hexdigest()[:12]
        cut = file.text if len(file.text) <= CHARS_MAX else f"{file.text[:CHARS_MAX]}... {digest}"
        lines += [f"=== {file.path}", cut]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize(("form", "path"), IMPORTS, ids=[path for _, path in IMPORTS])
def test_a_suite_is_imported_as_it_was_written_down(tmp_path: Path, form: str, path: str):
    root = tmp_path / "shop"
    root.mkdir()
    text = written_files(form, DATA / path, root)
    assert str(tmp_path) not in text
    assert_as_written(text, f"imports/{path.partition('/')[2]}")
