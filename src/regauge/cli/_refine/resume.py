"""Goes on with a refinement run that was cut off."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regauge.cli._evals.collected import with_evals
from regauge.cli._refine.end import conducted, ended, left_at, saying
from regauge.cli._refine.named import NamedRun
from regauge.cli._refine.run import EPILOG
from regauge.cli._refine.take import Taking
from regauge.project import Project
from regauge.refine import Refinement, RunOptions, find_refinement, only_one

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.runner import EvalSession

__all__ = ["resume_command"]


@click.command(name="resume", epilog=EPILOG)
@click.argument("name", metavar="RUN", cls=NamedRun)
@click.option("--budget-usd", type=click.FloatRange(min=0), help="What it may cost from here on.")
@click.option("--budget-calls", type=click.IntRange(min=1), help="Calls it may make from here.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def resume_command(
    name: str, *, budget_usd: float | None, budget_calls: int | None, as_json: bool
) -> None:
    """Go on where a run was cut off, or out of calls; nothing it paid for is paid again."""
    project = Project.find()
    run = find_refinement(project, name)
    facts = run.facts()
    prompt = str(facts["prompt"])
    words = [str(word) for word in facts["words"]]
    if budget_usd is not None:
        words = [word for word in words if not word.startswith("--budget-usd=")]
        words.append(f"--budget-usd={budget_usd}")
    finished: list[Mapping[str, Any]] = []

    def act(evals: EvalSession) -> None:
        options = RunOptions.from_json(facts["options"])
        if budget_usd is not None:
            options = replace(options, usd=None)  # what this sitting may cost is kept elsewhere
        refinement = Refinement(evals, evals.plan.cases, options, cut_off=run)
        refinement.check_key(os.environ)
        go_on = partial(refinement.resume, more_calls=budget_calls)
        finished.append(conducted(evals, refinement, run, go_on, as_json=as_json))

    with only_one(project, prompt, run.id):
        with_evals(
            project,
            Path(facts["evals"]) if facts.get("evals") else project.root / "evals",
            act,
            prompts=[prompt],
            options=words,
            draw=False,
            interrupted=lambda: left_at(run),
        )
    taking = Taking(
        project=project, prompt=prompt, write=False, branch=None, say=saying(as_json=as_json)
    )
    ended(project, finished[0], taking, as_json=as_json)
