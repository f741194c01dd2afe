"""Every example in the docstring of a judge runs and says what it shows."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import regauge.judges
from regauge.judges import RuleFactory, ifeval

MODULES = [
    module.name
    for module in pkgutil.walk_packages(regauge.judges.__path__, "regauge.judges.")
    if not module.ispkg
]
FACTORIES = [
    made
    for module in (regauge.judges, ifeval)
    for name in module.__all__
    if isinstance(made := getattr(module, name), RuleFactory)
]


@pytest.mark.parametrize("name", [*MODULES, "regauge.judges"])
def test_examples_of_the_module_run(name: str):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("factory", FACTORIES, ids=lambda factory: factory.kind)
def test_every_judge_has_an_example_that_runs(factory: RuleFactory[...]):
    names = {
        name: getattr(module, name)
        for module in (regauge.judges, ifeval)
        for name in module.__all__
    }
    test = doctest.DocTestParser().get_doctest(
        factory.build.__doc__ or "", names, factory.kind, None, None
    )
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0
