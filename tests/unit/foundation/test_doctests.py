from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import regauge

ROOT = Path(*regauge.__path__)
# To look for examples where none are takes as long as to run them.
MODULES = sorted(
    ".".join(["regauge", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_do_what_they_say(name: str):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert failed == 0
    assert tried


def test_there_are_examples():
    assert len(MODULES) > 50
