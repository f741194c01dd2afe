"""The page on the layout of the code, and docstrings of packages, name what is there."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import tomllib
from functools import cached_property
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT
from tests.place import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
PACKAGES = sorted((ROOT / "src/regauge").rglob("__init__.py"))
MODULES = sorted((ROOT / "src/regauge").rglob("*.py"))


def module_of(path: Path) -> str:
    return path.relative_to(ROOT / "src/regauge").as_posix()


def test_the_layers_of_the_page_are_those_that_are_kept():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    kept = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    table = PAGE.partition("|---|---|\n")[2].partition("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines()]
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == [
        {part.removeprefix("regauge.") for part in layer.split(" | ")} for layer in kept
    ]


def test_every_place_the_page_names_is_there():
    places = re.findall(r"`((?:src|tests)/[^`]+)`", PAGE)
    assert len(places) > 20
    assert not [place for place in places if not (ROOT / place).exists()]


def test_every_name_of_the_table_of_changes_is_in_a_file_of_its_row():
    table = PAGE.partition("| To | Begin in |\n|---|---|\n")[2].partition("\n\n")[0]
    missing: list[str] = []
    for row in table.splitlines():
        names = re.findall(r"`(?!regauge)([A-Za-z_][\w.]*)`", row)
        places = [ROOT / place for place in re.findall(r"`((?:src|tests)/[^`]+)`", row)]
        folders = {place if place.is_dir() else place.parent for place in places}
        texts = [file.read_text(encoding="utf-8") for file in places if file.is_file()]
        texts += [file.read_text(encoding="utf-8") for x in folders for file in x.glob("*.py")]
        missing += [
            name
            for name in names
            if not any(
                (folder / path).exists() for folder in folders for path in (name, f"assets/{name}")
            )
            and not any(re.search(rf"\b{re.escape(name)}\b", text) for text in texts)
        ]
    assert table
    assert not missing


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.parent.name)
def test_every_file_that_a_package_speaks_of_is_there(package: Path):
    doc = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
    named = re.findall(r"`(\w+\.py)`", doc)
    assert not [name for name in named if not (package.parent / name).exists()]


@pytest.fixture(scope="module")
def nodes() -> dict[str, list[ast.AST]]:
    """The nodes of the syntax tree of each module."""
    return {
        module_of(path): [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        for path in MODULES
    }


def imports_of(nodes: list[ast.AST]) -> Iterator[str]:
    """The modules, and the names in them, that a module imports from regauge."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_packages_import_what_others_export(nodes: dict[str, list[ast.AST]]):
    """A file that begins with `_` is private to its package."""
    private = {
        (module, name)
        for module in nodes
        for name in imports_of(nodes[module])
        if name.startswith("regauge.")
        and re.search(r"\._(?!_)", name)
        and name.split(".")[1] != module.partition("/")[0]
    }
    assert not private


def test_the_modules_that_pages_import_from_are_public():
    listed = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8").partition("[[[cog")[0]
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    modules = {
        module
        for page in pages
        for module in re.findall(r"(?m)^from (regauge[.\w]*) import", page.read_text("utf-8"))
    }
    assert len(modules) > 5
    assert not {module for module in modules if f"`{module}`" not in listed}


# Values of other packages, whose attributes are named as fields of regauge.
FOREIGN = {
    ("cli/__init__.py", "error.message"): "an exception of click",
    ("cli/_refine_runs.py", "error.message"): "an exception of click",
    ("gate/_code.py", "node.body"): "a node of ast",
    ("gate/_code.py", "node.names"): "a node of ast",
    ("gate/_code.py", "tree.body"): "a node of ast",
    ("judges/_deepeval/live.py", "instance.error"): "a metric of deepeval",
    ("judges/_deepeval/live.py", "instance.model"): "a metric of deepeval",
    ("judges/_deepeval/live.py", "instance.reason"): "a metric of deepeval",
    ("judges/_deepeval/live.py", "instance.score"): "a metric of deepeval",
    ("judges/_deepeval/live.py", "probe.error"): "a metric of deepeval",
    ("judges/_deepeval/live.py", "probe.score"): "a metric of deepeval",
    ("judges/_deepeval/live.py", "probe.threshold"): "a metric of deepeval",
    ("judges/external_calls.py", "error.args"): "the message of an exception",
    ("providers/_client.py", "client.project"): "a client of the SDK",
    ("providers/_client.py", "self.client.api_key"): "a client of the SDK",
    ("pytest_gate.py", "report.outcome"): "a report of pytest",
    ("pytest_items.py", "item.location"): "an item of pytest",
    ("pytest_items.py", "words.reprcrash.message"): "a traceback of pytest",
    ("pytest_plugin.py", "call.excinfo.traceback"): "a traceback of pytest",
    ("pytest_plugin.py", "excinfo.traceback"): "a traceback of pytest",
    ("pytest_run.py", "report.outcome"): "a report of pytest",
    ("runner/_calls.py", "error.args"): "the message of an exception",
}


def names_of_fields(nodes: list[ast.AST]) -> set[str]:
    """The fields of the classes of a module."""
    parts = [part for node in nodes if isinstance(node, ast.ClassDef) for part in node.body]
    names = {
        part.target.id
        for part in parts
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }
    return names | {write.attr for write in writes_of(nodes) if ast.unparse(write.value) == "self"}


def writes_of(nodes: list[ast.AST]) -> list[ast.Attribute]:
    """The attributes that a module writes or deletes."""
    return [
        node
        for node in nodes
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
    ]


def test_only_the_module_of_a_class_writes_its_fields(nodes: dict[str, list[ast.AST]]):
    """Other modules call the constructor, `replace` or a method."""
    fields = {module: names_of_fields(nodes[module]) for module in nodes}
    names = set[str]().union(*fields.values())
    written = {
        (module, ast.unparse(write))
        for module in nodes
        for write in writes_of(nodes[module])
        if ast.unparse(write.value) not in {"self", "cls"} and write.attr in names - fields[module]
    }
    assert written == set(FOREIGN)


class Walks:
    """A new project, and the functions that commands in it enter, in the order of first calls."""

    def __init__(self, place: Place) -> None:
        self.place = place
        place.regauge("init", "--yes")
        place.write(".gitignore", ".regauge/\n__pycache__/\ncalls.json\n")
        self.recorded = self.calls("evals", "--record=missing")
        self.replayed = self.calls("evals", "--record=none", "-k", self.case)
        self.git("init", "-q", "-b", "main")
        self.commit()
        self.git("checkout", "-qb", "change")
        prompt = next((place.root / "prompts").glob("*.prompt.yml"))
        text = prompt.read_text(encoding="utf-8")
        prompt.write_text(re.sub(r"^ *- billing: money.*\n", "", text, flags=re.MULTILINE), "utf-8")
        self.name = prompt.name.partition(".")[0]
        place.regauge("bump", self.name, "minor")

    @cached_property
    def refined(self) -> list[tuple[str, str]]:
        """The calls of a refinement, which restores the line that is missing."""
        return self.calls("regauge", "refine", self.name)

    @cached_property
    def gated(self) -> list[tuple[str, str]]:
        return self.calls("regauge", "gate", "main")

    @property
    def case(self) -> str:
        golden = next((self.place.root / "fixtures/golden").glob("*.jsonl"))
        return json.loads(golden.read_text(encoding="utf-8").splitlines()[0])["id"]

    def git(self, *words: str) -> None:
        author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run(["git", *author, *words], cwd=self.place.root, check=True)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", "Begin")

    def calls(self, *words: str) -> list[tuple[str, str]]:
        self.place.process("tests.docs.call_trace", "calls.json", *words, PYTHONPATH=str(ROOT))
        traced = (self.place.root / "calls.json").read_text(encoding="utf-8")
        return [(file, name) for file, name in json.loads(traced)]


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Walks:
    return Walks(Place(tmp_path_factory.mktemp("walk")))


def stations_of(title: str) -> list[tuple[str, str]]:
    walk = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    stations = re.findall(r"^\d+\. `src/regauge/([^`]+)`, `([^`]+)`:", walk, re.MULTILINE)
    assert len(stations) == len(re.findall(r"^\d+\. ", walk, re.MULTILINE)) == 10
    return stations


def passed(calls: list[tuple[str, str]], stations: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [call for call in calls if call in stations]


def test_a_case_passes_the_stations_of_the_page_in_their_order(walks: Walks):
    stations = stations_of("A case to its verdict")
    assert passed(walks.replayed, stations) == stations


def test_a_prompt_passes_the_stations_of_the_page_in_their_order(walks: Walks):
    stations = stations_of("A prompt to a decision")
    assert passed(walks.gated, stations) == stations


def test_a_failure_passes_the_stations_of_the_page_in_their_order(walks: Walks):
    stations = stations_of("A failure to an accepted edit")
    assert passed(walks.refined, stations) == stations


def test_a_completion_passes_the_stations_of_the_page_in_their_order(walks: Walks):
    stations = stations_of("A completion into recordings and back")
    written, read = stations[:8], stations[8:]
    assert passed(walks.recorded, written) == written
    assert passed(walks.replayed, read) == read


def test_a_refinement_that_restores_a_release_goes_through_few_files(walks: Walks):
    assert ("refine/delivery.py", "build_revision") in walks.refined
    assert len({file for file, _ in walks.refined}) <= 107
    assert len(walks.refined) <= 1170


def test_a_case_goes_through_few_files_and_functions(walks: Walks):
    assert len({file for file, _ in walks.replayed}) <= 51
    assert len(walks.replayed) <= 377


def test_a_gate_goes_through_few_files(walks: Walks):
    assert len({file for file, _ in walks.gated}) <= 110
