"""The settings of a project that an import extends."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from regauge.errors import ConfigError
from regauge.importers import load_importer
from regauge.importers._writer import plan_files
from tests.transcripts import DATA

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.importers._writer import FilePlan

EVERY_KIND = DATA / "imports/of-every-kind"


def plan(form: str, path: str, root: Path, settings: str | None) -> FilePlan:
    root.mkdir()
    (root / "prompts").mkdir()
    if settings is not None:
        (root / "pyproject.toml").write_text(settings)
    source = EVERY_KIND / path
    target = root / source.name
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)
    return plan_files(form, load_importer(form)(target, root=root), root)


def settings_of(plan: FilePlan) -> str | None:
    return next((file.text for file in plan.changed if file.path == "pyproject.toml"), None)


VERTEX = """\
[tool.regauge.providers.vertex]
base_url = "https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global/endpoints/openapi"
api_key_command = ["gcloud", "auth", "print-access-token"]
"""
PYTEST = '[tool.pytest.ini_options]\naddopts = ["-p", "no:deepeval", "--import-mode=importlib"]\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"[tool.regauge]\n\n{PYTEST}", f"[tool.regauge]\n\n{PYTEST}\n{VERTEX}"),
        (f"{PYTEST}[tool.regauge]", f"{PYTEST}[tool.regauge]\n\n{VERTEX}"),
        (f"[tool.regauge]\n\n{PYTEST}\n{VERTEX}", None),
        (f"[tool.regauge]\n\n{PYTEST}[tool.regauge.providers.other]\nbase_url = 'http://x'\n",
         f"[tool.regauge]\n\n{PYTEST}[tool.regauge.providers.other]\nbase_url = 'http://x'\n\n{VERTEX}"),
    ],
    ids=["no table", "no line end", "the same table", "another table"],
)  # fmt: skip
def test_tables_are_added_below_the_settings_that_are_there(
    tmp_path: Path, before: str, after: str | None
):
    planned = plan("dotprompt", "dotprompt-edges/roles.prompt", tmp_path / "shop", before)
    assert settings_of(planned) == after


def test_a_project_without_settings_gets_those_of_a_new_one(tmp_path: Path):
    text = settings_of(plan("dotprompt", "dotprompt-edges/roles.prompt", tmp_path / "shop", None))
    assert text is not None
    assert '[tool.regauge]\nmodel = "sim:clerk-1"\n' in text
    assert text.endswith(f"\n{VERTEX}")


def test_a_table_of_another_content_is_an_error(tmp_path: Path):
    other = VERTEX.replace("gcloud", "gcloud-beta")
    with pytest.raises(ConfigError, match=r"providers\.vertex\] exists with another content"):
        plan("dotprompt", "dotprompt-edges/roles.prompt", tmp_path / "shop", other)


def test_an_import_adds_the_tables_that_are_not_there_yet(tmp_path: Path):
    whole = settings_of(plan("promptfoo", "edges", tmp_path / "new", PYTEST))
    assert whole is not None
    tables = re.split(r"\n(?=\[tool\.regauge\.targets)", whole)
    assert len(tables) == 5
    head, *targets = tables
    some = "\n".join([head, targets[1].strip(), ""])
    after = settings_of(plan("promptfoo", "edges", tmp_path / "shop", some))
    assert after is not None
    assert after.startswith(some)
    assert all(after.count(target.strip()) == 1 for target in targets)


@pytest.mark.parametrize(
    ("settings", "noted"),
    [
        (f"[tool.regauge]\nmodel = 'sim:clerk-1'\n{PYTEST}", True),
        (f"[tool.regauge]\njudge_model = 'sim:judge-1'\n{PYTEST}", False),
        ("[tool.regauge]\nrecord = 'missing'\n", True),
        (None, False),
    ],
    ids=["none", "one", "no-model", "new"],
)
def test_a_project_without_a_judge_model_is_told_to_set_one(
    tmp_path: Path, settings: str | None, *, noted: bool
):
    planned = plan("openai-evals", "registry", tmp_path / "shop", settings)
    assert ("set judge_model in [tool.regauge]" in planned.report) is noted
    if settings is None:
        assert 'judge_model = "openai:gpt-5.4-mini"' in str(settings_of(planned))


@pytest.mark.parametrize(
    ("form", "path", "stem"),
    [
        ("langsmith", "platforms/langsmith.jsonl", "langsmith"),
        ("braintrust", "platforms/braintrust.json", "braintrust"),
        ("inspect", "inspect/samples.csv", "samples"),
    ],
)
def test_names_of_written_files_begin_with_the_name_that_is_set_or_that_of_the_source(
    tmp_path: Path, form: str, path: str, stem: str
):
    source = tmp_path / EVERY_KIND.joinpath(path).name
    shutil.copy(EVERY_KIND / path, source)
    importer = load_importer(form)
    assert importer(source, root=tmp_path).name == stem
    assert importer(source, root=tmp_path, name="Shop 2").name == "shop-2"
