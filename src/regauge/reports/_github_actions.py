"""What a run leaves in GitHub Actions: a job summary, and marks on lines of files."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from regauge.reports._annotations import decision_annotations, mark_line
from regauge.reports._gate_markdown import decision_markdown
from regauge.reports._markdown import run_markdown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from regauge.reports._decision import DecisionDocument
    from regauge.reports._schema import RunRecord

__all__ = ["failure_annotations", "gate_annotations", "write_job_summary"]

# GitHub shows ten errors of a step.
_ERRORS_MAX = 10
_MESSAGE_CHARS_MAX = 1000


def write_job_summary(
    record: RunRecord, rows: Iterable[dict[str, Any]], environ: Mapping[str, str]
) -> str:
    """Add a run to the summary of its job, where there is one.

    Returns:
        Why it could not be written, as a warning of the workflow; empty when all is well.
    """
    path = environ.get("GITHUB_STEP_SUMMARY", "")
    if not path:
        return ""
    if record.decision is not None:
        text = decision_markdown(
            record.decision, suites=record.suites, suggestions=record.suggestions
        )
    else:
        text = run_markdown(record, rows)
    try:
        with Path(path).open("a", encoding="utf-8", errors="backslashreplace") as summary:
            summary.write(f"{text}\n")
    except OSError as error:
        return f"GITHUB_STEP_SUMMARY: {path} cannot be written: {error.strerror or error}"
    return ""


def gate_annotations(
    document: DecisionDocument, root: Path, environ: Mapping[str, str]
) -> list[str]:
    """The marks of a decision, with paths as the repository has them."""
    return decision_annotations(document, below=_below(root, environ))


def failure_annotations(
    failures: Sequence[tuple[str, str, str]], root: Path, environ: Mapping[str, str]
) -> list[str]:
    """A mark for each of the first cases that failed.

    Args:
        failures: Where the case stands, as `fixtures/golden/x.jsonl:12`; the pytest item; why.
        root: Of the project.
        environ: Of the process.
    """
    below = _below(root, environ)
    marks: list[str] = []
    for at, item, why in failures[:_ERRORS_MAX]:
        path, _, line = at.rpartition(":")
        if path and line.isdigit():
            place = (below + path, int(line))
            marks.append(mark_line("error", place, item, why[:_MESSAGE_CHARS_MAX]))
    return marks


def _below(root: Path, environ: Mapping[str, str]) -> str:
    """Where the project is below the top of the checkout, with a slash at the end."""
    workspace = environ.get("GITHUB_WORKSPACE", "")
    if not workspace or not root.is_relative_to(workspace):
        return ""
    below = PurePosixPath(root.relative_to(workspace))
    return "" if below == PurePosixPath() else f"{below}/"
