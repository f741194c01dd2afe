"""The models that people are shown are those of one list, and live on after the commit."""

from __future__ import annotations

import re
import subprocess
import tomllib
from datetime import date
from pathlib import Path

from regauge.model_id import parse_model_id
from regauge.providers.listing import SOON, find_last_day
from tests.docs.pages import ROOT

MODELS = tomllib.loads((Path(__file__).parent / "models.toml").read_text(encoding="utf-8"))
NAMED = re.compile(r"\b(?:openai|anthropic):[a-z]+-[a-z0-9.-]*[a-z0-9]")
# Outputs that were recorded elsewhere; the names in them are facts.
RECORDED = ROOT / "examples" / "real-answers"


def shown() -> dict[str, Path]:
    """Every model id that a reader sees, with a file that shows it."""
    files = [ROOT / "README.md"]
    for folder, kinds in (
        ("docs", (".md",)),
        ("src", (".py", ".yml")),
        ("examples", (".md", ".py", ".toml", ".yml")),
        ("prompts", (".yml",)),
        ("evals", (".py",)),
    ):
        found = (path for path in (ROOT / folder).rglob("*") if path.suffix in kinds)
        files += [path for path in found if RECORDED not in path.parents and path.is_file()]
    return {name: path for path in files for name in NAMED.findall(path.read_text("utf-8"))}


def committed() -> date:
    """The day of the commit; the first day there is where there is no git."""
    done = subprocess.run(
        ["git", "log", "-1", "--format=%cs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return date.fromisoformat(done.stdout.strip()) if done.returncode == 0 else date.min


def test_only_models_of_the_list_are_shown():
    assert {n: p for n, p in shown().items() if n not in MODELS["examples"]} == {}


def test_no_model_of_the_list_is_about_to_be_shut_down():
    day = committed()
    for name in MODELS["examples"]:
        last = find_last_day(parse_model_id(name))
        assert last is None or last.day - day > SOON, f"{name} is shut down on {last.day}"
