"""The page on the layout of the code names what is there, in the order that is kept."""

from __future__ import annotations

import re
import tomllib

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")


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
