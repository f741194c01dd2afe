"""`regauge import promptfoo`, as a process in projects with configurations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.place import Place

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """\
description: Greets people
prompts:
  - "Say hello to {{name}} in {{language}}."
providers:
  - id: openai:gpt-5.4-mini
    config: {temperature: 0, max_tokens: 50}
defaultTest:
  assert:
    - type: not-contains
      value: sorry
tests:
  - description: German
    vars: {name: [Ada, Bob], language: German}
    assert:
      - type: icontains
        value: "hallo {{name}}"
      - type: latency
        threshold: 2000
        weight: 0
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "shop").mkdir()
    return Place(tmp_path / "shop")


def cases(place: Place, name: str) -> list[dict[str, Any]]:
    text = (place.root / f"fixtures/golden/{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def prompt(place: Place, name: str) -> dict[str, Any]:
    return yaml.safe_load((place.root / f"prompts/{name}.prompt.yml").read_text(encoding="utf-8"))


def test_lists_of_values_and_default_assertions_become_cases(place: Place):
    place.write("promptfooconfig.yaml", CONFIG)
    out = place.regauge("import", "promptfoo", ".")
    assert "1 eval, 2 golden cases, 6 assertions, 0 of them unmeasured" in out
    first, second = cases(place, "shop")
    assert (first["id"], second["id"]) == ("german", "german-2")
    assert second["inputs"] == {"name": "Bob", "language": "German"}
    assert second["checks"] == [
        {"not": {"contains": "sorry"}},
        {"contains": {"text": "hallo Bob", "ignore_case": True}},
        {"max_latency_s": {"limit": 2.0, "gates": True}, "tier": "tracked"},
    ]
    written = prompt(place, "shop")
    assert written["model"] == "openai:gpt-5.4-mini"
    assert written["modelParameters"] == {"temperature": 0, "maxTokens": 50}
    place.evals("--collect-only")
    assert "0 errors" in place.regauge("lint")


def test_a_second_import_overwrites_nothing(place: Place):
    place.write("promptfooconfig.yaml", CONFIG)
    place.regauge("import", "promptfoo", ".")
    before = {path: path.read_bytes() for path in place.root.rglob("*") if path.is_file()}
    out = place.regauge("import", "promptfoo", ".", code=2)
    assert "files exist: prompts/shop.prompt.yml" in out
    assert "--name shop-2" in out
    assert before == {path: path.read_bytes() for path in place.root.rglob("*") if path.is_file()}
    place.regauge("import", "promptfoo", ".", "--name", "shop-2")
    assert (place.root / "IMPORT-shop-2.md").is_file()
