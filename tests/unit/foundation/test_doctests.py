from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import regauge

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(regauge.__path__, prefix="regauge.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_do_what_they_say(name: str):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    tests = [test for name in MODULES for test in finder.find(importlib.import_module(name))]
    assert sum(len(test.examples) for test in tests) > 50
