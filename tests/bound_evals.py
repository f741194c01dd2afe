"""Binds an eval of a project in this process, as a replay of it would."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING

from regauge.project import Project
from regauge.runner import EvalSession, resolve_options, spec_of

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.datasets import Shard
    from regauge.runner import Eval


def bind_eval(root: Path, name: str, *, shard: Shard | None = None) -> Eval:
    """The eval `test_NAME` of `evals/test_NAME.py`; with a shard, its own cases alone."""
    project = Project.find(root)
    function = runpy.run_path(str(root / f"evals/test_{name}.py"))[f"test_{name}"]
    spec = spec_of(function)
    assert spec is not None
    options = resolve_options(
        project.settings,
        {},
        record="none",
        trials=None,
        concurrency=None,
        budget_usd=None,
        fail_fast=False,
        shard=shard,
    )
    [suite] = EvalSession(project, options, environ={}).bind(spec, function)
    return suite
