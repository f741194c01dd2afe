from __future__ import annotations

import pytest

from tests.unit.sim.bench import Bench


@pytest.fixture(scope="session")
def severity() -> Bench:
    return Bench("alert-severity")


@pytest.fixture(scope="session")
def incident() -> Bench:
    return Bench("incident-summary")


@pytest.fixture(scope="session")
def runbook() -> Bench:
    return Bench("alert-runbook")
