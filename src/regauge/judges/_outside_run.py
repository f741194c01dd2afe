"""What judges that ask a model say where nobody can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import JudgeError

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase

__all__ = ["outside_run"]


def outside_run(judge: str, case: GoldenCase) -> JudgeError:
    """The error of a judge that asks a model, and is asked itself where nothing is recorded."""
    return JudgeError(
        f"{judge} asks a model, which only a run can do; case {case.id!r} stays unmeasured\n"
        "  fix: run it with pytest evals",
        judge=judge,
    )
