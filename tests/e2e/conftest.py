"""Projects with a judge that asks a model, and scripts as programs."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests import processes
from tests.labelled import EVAL, RUBRIC, labels, told, write_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint


@pytest.fixture
def as_program() -> Iterator[Callable[[Path], Path]]:
    """Makes a script a program that need not load regauge for each of its calls."""
    with ExitStack() as scripts:
        yield lambda script: scripts.enter_context(processes.scripts(script)) / script.name


@pytest.fixture
def judged(live: EvalProject, endpoint: Endpoint) -> EvalProject:
    """A project whose eval uses the rubric `tone`; the endpoint says what answers ask it to."""
    endpoint.answer = told
    live.settings('judge_model = "local:clerk"')
    live.write("prompts/judges/tone.prompt.yml", RUBRIC)
    live.eval(EVAL)
    write_labels(live, labels(right=16, wrong=4))
    return live
