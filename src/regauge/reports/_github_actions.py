"""Runs and decisions on GitHub: annotations, the job summary, the comment of a pull request."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from regauge.errors import split_location
from regauge.markdown import escape_markdown
from regauge.reports._gate_console import headline, reasons_beside
from regauge.reports._gate_markdown import record_markdown
from regauge.reports._markdown import shown_name
from regauge.reports._runs import read_rows
from regauge.wording import printable
from regauge.workflow_commands import break_commands

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from regauge.github import PullRequestEvent
    from regauge.reports._documents import CaseDocument, DecisionDocument, PromptDocument, RunRecord

# GitHub shows ten errors and ten warnings of a step.
_EACH_MAX = 10
_LEVELS = {
    "broken": "error",
    "unmeasured": "error",
    "undecided": "warning",
    "drifted": "warning",
}


def decision_annotations(document: DecisionDocument, *, below: str = "") -> list[str]:
    """A workflow command per violated rule and per broken or unclear case.

    Texts are escaped, so that they cannot begin or end a command.

    Args:
        document: The decision.
        below: The project's directory in the repository, with a slash at the end; empty at its top.
    """
    counts = {"error": 0, "warning": 0}
    commands: list[str] = []
    for level, command in _commands(document, below):
        counts[level] += 1
        if counts[level] <= _EACH_MAX:
            commands.append(command)
    return commands


def _commands(document: DecisionDocument, below: str) -> Iterator[tuple[str, str]]:
    prompts = {prompt.prompt: prompt for prompt in document.prompts}
    diagnostics = [("not measured", omission) for omission in document.unmeasured]
    diagnostics += [(prompt.prompt, rule) for prompt in document.prompts for rule in prompt.rules]
    for about, diagnostic in diagnostics:
        fix = f"\nfix: {diagnostic.fix}" if diagnostic.fix else ""
        place = (below + diagnostic.path, diagnostic.line or 1)
        yield "error", mark_line("error", place, f"regauge: {about}", f"{diagnostic.message}{fix}")
    for case in document.cases:
        blocking_new = case.status == "new" and case.blocks
        level = "error" if blocking_new else _LEVELS.get(case.status)
        prompt = prompts.get(case.prompt)
        if level is not None and prompt is not None:
            title = f"regauge: {case.prompt}/{case.case} {case.status}"
            place = _place(case, prompt, below)
            yield level, mark_line(level, place, title, case.message)
    annotated = document.unmeasured or any(prompt.rules for prompt in document.prompts)
    annotated = annotated or any(case.status in _LEVELS for case in document.cases)
    undecided = document.decision == "undecided"
    if document.prompts and (undecided or not (document.decision == "accept" or annotated)):
        first = document.prompts[0]
        title = "regauge gate: undecided" if undecided else "regauge gate"
        words = "\n".join([headline(document), *reasons_beside(document)])
        yield "error", mark_line("error", (below + first.path, first.line), title, words)


def _place(case: CaseDocument, prompt: PromptDocument, below: str) -> tuple[str, int]:
    """The line of a new case, else the first changed line of the prompt."""
    path, line = split_location(case.location)
    if case.status == "new" and path and line is not None:
        return below + path, line
    return below + prompt.path, prompt.line


def mark_line(level: str, place: tuple[str, int], title: str, message: str) -> str:
    r"""A workflow command that marks a line of a file.

    >>> mark_line("error", ("a,b.yml", 3), "no", "50 % of\nall")
    '::error file=a%2Cb.yml,line=3,title=no::50 %25 of%0Aall'
    """
    path, line = place
    head = f"file={_property(path)},line={line},title={_property(title)}"
    return f"::{level} {head}::{_data(message)}"


def _data(text: str) -> str:
    r"""A message, escaped for the runner.

    >>> _data("50 % done\n::error::x")
    '50 %25 done%0A::error::x'
    """
    text = printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return break_commands(f"_{text}")[1:]  # the text does not begin a line


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


_MESSAGE_CHARS_MAX = 1000


def write_job_summary(record: RunRecord, directory: Path, environ: Mapping[str, str]) -> str:
    """Add a run to the job summary, if there is one.

    Returns:
        The reason why it could not be written; empty on success.
    """
    path = environ.get("GITHUB_STEP_SUMMARY", "")
    if not path:
        return ""
    try:
        with Path(path).open("a", encoding="utf-8", errors="backslashreplace") as summary:
            summary.write(f"{record_markdown(record, read_rows(directory))}\n")
    except OSError as error:
        return f"GITHUB_STEP_SUMMARY: {path} cannot be written: {error.strerror or error}"
    return ""


def gate_annotations(
    document: DecisionDocument, root: Path, environ: Mapping[str, str]
) -> list[str]:
    """The annotations of a decision, with paths relative to the repository."""
    return decision_annotations(document, below=_path_prefix(root, environ))


def failure_annotations(
    failures: Sequence[tuple[str, str, str]], root: Path, environ: Mapping[str, str]
) -> list[str]:
    """Annotations of the first failed cases.

    Args:
        failures: The location of the case, as `fixtures/golden/x.jsonl:12`; the pytest item; the
            reason.
        root: The project's directory.
        environ: The environment.
    """
    below = _path_prefix(root, environ)
    marks: list[str] = []
    for location, item, reason in failures[:_EACH_MAX]:
        path, line = split_location(location)
        if path and line is not None:
            mark = mark_line("error", (below + path, line), item, reason[:_MESSAGE_CHARS_MAX])
            marks.append(mark)
    return marks


def _path_prefix(root: Path, environ: Mapping[str, str]) -> str:
    """The project's directory in the checkout, with a slash at the end; empty at its top."""
    workspace = environ.get("GITHUB_WORKSPACE", "")
    if not workspace or not root.is_relative_to(workspace):
        return ""
    below = PurePosixPath(root.relative_to(workspace))
    return "" if below == PurePosixPath() else f"{below}/"


_SHORT_HASH = 9


def comment_markdown(
    record: RunRecord | None,
    rows: Iterable[dict[str, Any]],
    event: PullRequestEvent,
    *,
    log_url: str,
) -> str:
    """The comment on a pull request.

    Args:
        record: The run; None if a workflow run failed before it wrote one.
        rows: Its trials.
        event: The pull request, as GitHub states it.
        log_url: The log of the workflow run; empty if unknown.
    """
    footer = " · ".join(_origin(record, event, log_url))
    if record is None:
        return f"{_failed(event)}\n\nIt left no run record.\n\n<sub>{footer}</sub>\n"
    alerts = "".join(f"{alert}\n\n" for alert in _alerts(record, event))
    return f"{alerts}{record_markdown(record, rows)}\n<sub>{footer}</sub>\n"


def _alerts(record: RunRecord, event: PullRequestEvent) -> Iterator[str]:
    """Differences of GitHub and the run record: a fork controls its record, not the event."""
    decision = record.decision
    is_green = not any(eval_.failed or eval_.unmeasured for eval_ in record.evals)
    if decision is not None:
        is_green = decision.exit_code == 0
    if event.conclusion not in {"", "success"} and is_green:
        yield f"{_failed(event)}\n\nThe run record below does not show a failure."
    if decision is not None and event.base_ref:
        bases = {event.base_ref, f"origin/{event.base_ref}", event.base_sha}
        if decision.ref not in bases:
            ref, base = shown_name(decision.ref), shown_name(event.base_ref)
            yield f"**The run compares with {ref}, and the pull request goes into {base}.**"


def _failed(event: PullRequestEvent) -> str:
    conclusion = escape_markdown(event.conclusion)
    log = f"\n\nSee the [log]({event.run_url})." if event.run_url else ""
    return f"### ❌ GitHub reports that the workflow run failed: {conclusion}{log}"


def _origin(record: RunRecord | None, event: PullRequestEvent, log_url: str) -> list[str]:
    """The run with its commit, base and log, as GitHub states them."""
    parts = [f"run {shown_name(record.id)}"] if record is not None else []
    if event.head_sha:
        parts.append(f"commit {shown_name(event.head_sha[:_SHORT_HASH])}")
    elif record is not None and record.git is not None:
        dirty = "+" if record.git.dirty else ""
        parts.append(f"commit {shown_name(record.git.commit[:_SHORT_HASH])}{dirty}")
    if event.base_ref:
        sha = f" ({shown_name(event.base_sha[:_SHORT_HASH])})" if event.base_sha else ""
        parts.append(f"base {shown_name(event.base_ref)}{sha}")
    if event.conclusion:
        parts.append(f"GitHub: {escape_markdown(event.conclusion)}")
    if log_url:
        parts.append(f"[log]({log_url})")
    return parts
