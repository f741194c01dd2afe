"""A project whose eval has a judge that asks a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.labelled import EVAL, RUBRIC, labels, told, write_labels

if TYPE_CHECKING:
    from tests.conftest import EvalProject
    from tests.fakes import Endpoint


@pytest.fixture
def judged(live: EvalProject, endpoint: Endpoint) -> EvalProject:
    """A project whose eval uses the rubric `tone`; the endpoint says what answers ask it to."""
    endpoint.answer = told
    live.settings('judge_model = "local:clerk"')
    live.write("prompts/judges/tone.prompt.yml", RUBRIC)
    live.eval(EVAL)
    write_labels(live, labels(right=16, wrong=4))
    return live
