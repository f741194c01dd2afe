"""Prompts and their versions: `regauge show`, `log`, `diff` and `bump`."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from difflib import unified_diff
from shlex import quote
from typing import TYPE_CHECKING

import click

from regauge.cli._options import (
    dry_run_option,
    find_prompt_file,
    input_option,
    json_option,
    limit_option,
    model_option,
    parse_inputs,
)
from regauge.cli._targets import TargetCommands, interval_bar, measured_lines, rate_text, sparkline
from regauge.cli._terminal import echo, echo_diff, echo_json, model_text, short_path
from regauge.errors import GitError, LockError, PromptError, UsageError
from regauge.files import write_whole
from regauge.history import History, trend_lines
from regauge.maintenance.target_states import find_target
from regauge.project import Project
from regauge.prompts import (
    Repository,
    Semver,
    bump,
    check_links,
    find_prompt,
    load_prompt,
    load_version,
    lock_of,
    prompt_at,
    prompt_name,
    read_prompt_text,
    text_at,
    version_records,
)
from regauge.reports import eval_titles, money
from regauge.wording import plural, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.history import TrendLine, TrendPoint
    from regauge.prompts import Part, Prompt, VersionRecord

__all__ = ["bump_command", "diff_command", "log_command", "show_command"]

_SHOW_EPILOG = """\
\b
Examples:
  regauge show alert-severity
  regauge show alert-severity@1.1.0
  regauge show alert-severity@origin/main --json
  regauge show alert-severity -i name=DiskFull -i description=@alert.txt

Exit codes: 0 done, 2 wrong use or a faulty file.
"""


@click.command(name="show", epilog=_SHOW_EPILOG)
@click.argument("prompt", metavar="NAME[@VERSION]")
@input_option
@json_option
def show_command(prompt: str, inputs: tuple[str, ...], *, as_json: bool) -> None:
    """Show a prompt or target at any version, with digests; --input fills a prompt's templates.

    NAME is a prompt or its file, a target, or an eval of one. VERSION is a release of a prompt,
    such as 1.1.0, a commit, branch or tag; by default the files as they are.
    """
    name, _, ref = prompt.partition("@")
    if (target := _target(name)) is not None:
        if inputs:
            fix = "leave out -i"
            raise UsageError(f"{name} is a target, which has no messages to fill", fix=fix)
        target.show(ref, as_json=as_json)
        return
    loaded = _load(prompt)
    messages = loaded.render(parse_inputs(inputs)) if inputs else loaded.messages
    if as_json:
        document = _document(loaded)
        if inputs:
            document["rendered"] = [message.to_json() for message in messages]
        echo_json(document)
        return
    _print_head(loaded)
    for number, message in enumerate(messages):
        line = loaded.lines.get(f"messages[{number}]")
        echo(f"\n{message.role}" + (f" (line {line})" if line else ""), bold=True)
        if message.content:
            echo(message.content.rstrip("\n"))
        for call in message.tool_calls:
            echo(f"calls {call.name}({call.arguments}) as {call.id}")


def _target(name: str) -> TargetCommands | None:
    """The target of a name; None for a prompt or an unknown name."""
    with suppress(PromptError):
        find_prompt(name)
        return None
    history = find_target(name, Project.find())
    return TargetCommands(history) if history is not None else None


def _load(prompt: str) -> Prompt:
    name, sign, version_text = prompt.partition("@")
    if not sign or prompt.endswith((".yml", ".yaml")):
        return load_prompt(find_prompt(prompt, also=[*Project.find().settings.targets]))
    if not version_text.strip():
        fix = "write it after the @, or leave the @ out; `regauge log NAME` lists versions"
        raise UsageError(f"{prompt!r} has no version", fix=fix)
    try:
        version = Semver.parse(version_text)
    except ValueError:
        return prompt_at(find_prompt(name), version_text)
    return load_version(find_prompt(name), version)


def _print_head(prompt: Prompt) -> None:
    echo(f"{prompt.name} {prompt.version or '(no version)'}", bold=True)
    if prompt.title != prompt.name:
        echo(prompt.title)
    if prompt.description:
        echo(prompt.description.strip())
    parameters = (f"{name} {json.dumps(value)}" for name, value in prompt.parameters.items())
    rows = [
        ("file", str(short_path(prompt.path))),
        ("owner", prompt.owner or ""),
        ("model", prompt.model or "(none: the project's)"),
        ("parameters", ", ".join(parameters)),
        ("output", str((prompt.response_format or {}).get("type", "text"))),
        ("rubric", str(prompt.rubric or "")),
        ("inputs", ", ".join(_input_names(prompt)) or "(none)"),
        ("released", _describe_release(prompt)),
        ("digest", prompt.digest),
        ("contract", prompt.contract_digest),
    ]
    for label, text in rows:
        if text:
            echo(f"  {label:<11}{text}")
    for warning in prompt.warnings:
        diagnostic = replace(warning, path=short_path(warning.path))
        echo(f"warning: {diagnostic}", style="yellow")


def _input_names(prompt: Prompt) -> list[str]:
    if prompt.inputs is None:
        return sorted(prompt.variables)
    return [spec.name if spec.required else f"{spec.name} (optional)" for spec in prompt.inputs]


def _describe_release(prompt: Prompt) -> str:
    released = lock_of(prompt.path).entries_of(prompt.name)
    if not released:
        return "never"
    digests = (prompt.digest, prompt.contract_digest)
    if any(
        digests == (e.digest, e.contract_digest) and e.version == prompt.version for e in released
    ):
        return "yes"
    return f"no: differs from {released[-1].version}, the last release"


def _document(prompt: Prompt) -> dict[str, JSON]:
    inputs = [asdict(spec) for spec in prompt.inputs] if prompt.inputs is not None else None
    return {
        "name": prompt.name,
        "path": str(short_path(prompt.path)),
        "title": prompt.title,
        "description": prompt.description,
        "version": str(prompt.version) if prompt.version is not None else None,
        "owner": prompt.owner,
        "model": prompt.model,
        "parameters": prompt.parameters,
        "response_format": prompt.response_format,
        "rubric": prompt.rubric.to_json() if prompt.rubric is not None else None,
        "inputs": inputs,
        "variables": sorted(prompt.variables),
        "tools": list(prompt.tools),
        "messages": [message.to_json() for message in prompt.messages],
        "digest": prompt.digest,
        "contract_digest": prompt.contract_digest,
        "warnings": [str(warning) for warning in prompt.warnings],
    }


_LOG_EPILOG = """\
\b
Examples:
  regauge log alert-severity
  regauge log alert-severity --runs         a line per run, with 95 % intervals
  regauge log alert-severity --runs --model openai:gpt-5.4-mini --limit 5

Exit codes: 0 done, 2 wrong use or a faulty file.
"""


@click.command(name="log", epilog=_LOG_EPILOG)
@click.argument("prompt", metavar="NAME")
@click.option("--runs", is_flag=True, help="A line per run, with 95 % intervals.")
@model_option()
@limit_option
@json_option
def log_command(prompt: str, *, runs: bool, model: str | None, limit: int, as_json: bool) -> None:
    """List the versions of a prompt, or the states of a target, with pass rates, newest first.

    With --runs, list its runs by model, oldest first.
    """
    if runs:
        _print_runs(prompt, model, limit, as_json=as_json)
        return
    if (target := _target(prompt)) is not None:
        target.log(limit, as_json=as_json)
        return
    path = find_prompt_file(prompt, instead="regauge log {name}, which lists all versions")
    repository = Repository.find(path.parent)
    records = version_records(path, repository)
    state = _state_of_file(path)
    lines = [
        line
        for line in measured_lines(Project.find(), [prompt_name(path)])
        if model in {None, line.model}
    ]
    points = _points(lines)
    if as_json:
        document = {
            "name": prompt_name(path),
            "path": str(short_path(path)),
            "file": state,
            "versions": [_version_row(record, points) for record in records[:limit]],
        }
        echo_json(document)
        return
    if repository is None:
        click.echo("note: not in a git repository, so no days and no commits", err=True)
    if not records:
        name = prompt_name(path)
        echo(f"{name} has no versions yet: regauge bump {quote(name)} major")
    measured = [points[record.digest] for record in records if record.digest in points]
    for record in records[:limit]:
        echo(_version_line(record, points, with_rates=bool(measured)))
    models = sorted({point.eval.model for point in measured})
    if models:
        note = f"pass rates are those of {', '.join(map(model_text, models))}"
        if any(line.eval for line in lines):
            evals = sorted({point.eval.eval for point in measured})
            note += f" in {', '.join(evals)}; of all evals: regauge log {quote(prompt)} --runs"
        click.echo(note, err=True)
    if state != "released":
        echo(f"{short_path(path)}: {state}", style="yellow")


def _version_line(record: VersionRecord, points: dict[str, TrendPoint], *, with_rates: bool) -> str:
    digest, commit = record.digest or "", record.commit[:9] or "-"
    line = f"{record.version!s:<10}{record.date or '-':<12}{digest[:12]:<14}{commit:<11}"
    if with_rates:
        point = points.get(digest)
        rate = rate_text(point) if point else "-"
        cost = money(point.eval.cost_per_completion_usd) if point else "-"
        line += f"{rate:<20}{cost:<10}"
    return f"{line}{record.text}{'' if record.released else '  (not released)'}".rstrip()


def _print_runs(prompt: str, model: str | None, limit: int, *, as_json: bool) -> None:
    """Print the pass rates of a prompt, or of a target's evals, by run."""
    target = _target(prompt)
    names = target.evals if target is not None else (prompt_name(find_prompt(prompt)),)
    name = ", ".join(names)
    project = Project.find()
    history = History.open(project, os.environ)
    for run, problem in history.caught_up.unreadable:
        click.echo(f"{run}  unreadable: {problem}", err=True)
    lines = [
        line
        for eval_name in names
        for line in trend_lines(history.evals(eval_name), every_run=True)
        if model in {None, line.model}
    ]
    if as_json:
        document = {"name": name, "lines": [line.to_json() for line in lines]}
        echo_json(document)
        return
    if not lines:
        with_model = f" with {model}" if model else ""
        click.echo(
            f"no run of {name}{with_model} in {history.place.display} yet:"
            f" {project.run_command} -k {name}"
        )
    titles = eval_titles(line.points[-1].eval for line in lines if line.eval)
    for number, line in enumerate(lines):
        if number:
            click.echo()
        prompt = line.points[-1].eval.prompt
        on = "" if line.dataset == prompt else f" on {line.dataset}"
        title = titles.get((prompt, line.dataset, line.eval), f"{prompt}{on}")
        for text in _table(title, line, limit):
            echo(text)


def _table(title: str, line: TrendLine, number: int) -> Iterator[str]:
    points = line.points[-number:]
    runs = plural(line.runs, "run")
    if line.unmeasured:
        runs += f" ({line.unmeasured} more measured nothing)"
    rates = sparkline([point.eval.rate for point in points])
    yield f"{title} · {model_text(line.model)} · {runs}  {rates}"
    header = ("version", "content", "day", "pass rate", "0 to 100 %, 95 % interval", "", "cost")
    rows = [(*header, "runs", ""), *(_row(point) for point in points)]
    yield from table_lines(rows)


def _row(point: TrendPoint) -> tuple[str, ...]:
    eval_ = point.eval
    low, high = 100 * point.interval.low, 100 * point.interval.high
    return (
        eval_.version or "-",
        eval_.prompt_digest[:12],
        eval_.started_at[:10],
        rate_text(point),
        interval_bar(point),
        f"{low:.0f} to {high:.0f}" if eval_.measured else "-",
        money(eval_.cost_per_completion_usd),
        str(point.runs),
        f"other {' and '.join(point.changed)}" if point.changed else "",
    )


def _points(lines: Sequence[TrendLine]) -> dict[str, TrendPoint]:
    """Trend points by digest of the version, from the line with most runs."""
    return {
        point.eval.prompt_digest: point
        for line in reversed(lines)
        for point in line.points
        if point.eval.rate is not None
    }


def _version_row(record: VersionRecord, points: dict[str, TrendPoint]) -> dict[str, object]:
    point = points.get(record.digest or "")
    return {
        "version": str(record.version),
        "released": record.released,
        "date": record.date or None,
        "commit": record.commit or None,
        "digest": record.digest,
        "contract_digest": record.contract_digest,
        "changelog": record.text or None,
        "measured": point and {**point.to_json(), "model": point.eval.model},
    }


def _state_of_file(path: Path) -> str:
    """The state of the file relative to its last release."""
    try:
        prompt = load_prompt(path)
    except PromptError:
        return "does not parse"
    released = lock_of(path).entries_of(prompt.name)
    if not released:
        return "never released"
    last = released[-1]
    if last.contract_digest != prompt.contract_digest:
        return f"contract changed since {last.version}"
    if last.digest != prompt.digest:
        return f"changed since {last.version}"
    return "released"


_DIFF_EPILOG = """\
\b
Examples:
  regauge diff alert-severity                what changed since the last release
  regauge diff alert-severity 1.0.0          since 1.0.0
  regauge diff alert-severity 1.0.0 1.1.0    between two versions
  regauge diff alert-severity origin/main    since a branch

Exit codes: 0 done, whether or not something changed; 2 wrong use or a faulty file.
"""


@click.command(name="diff", epilog=_DIFF_EPILOG)
@click.argument("prompt", metavar="NAME")
@click.argument("a", required=False)
@click.argument("b", required=False)
@json_option
def diff_command(prompt: str, a: str | None, b: str | None, *, as_json: bool) -> None:
    """Show the changes of a prompt or target between A and B, as a unified diff.

    A and B are versions such as 1.1.0, commits, branches or tags; by default the last release (or
    commit) and the files as they are.
    """
    if (target := _target(prompt)) is not None:
        target.diff(a, b, as_json=as_json)
        return
    path = find_prompt_file(prompt, instead="regauge diff {name} {version}")
    name = prompt_name(path)
    a = a if a is not None else _last(path)
    old = _text(path, a)
    new = _text(path, b) if b is not None else read_prompt_text(path)
    new_label = f"{name}@{b}" if b is not None else str(short_path(path))
    lines = list(
        unified_diff(old.splitlines(), new.splitlines(), f"{name}@{a}", new_label, lineterm="")
    )
    if as_json:
        document = {"name": name, "a": a, "b": b, "changed": bool(lines), "lines": lines}
        echo_json(document)
        return
    echo_diff(lines, f"{name}@{a}", new_label)


def _last(path: Path) -> str:
    released = lock_of(path).entries_of(prompt_name(path))
    if released:
        return str(released[-1].version)
    if Repository.open(path.parent).has_commits():
        return "HEAD"
    raise UsageError(
        f"{prompt_name(path)} was neither released nor committed: there is nothing to compare with"
    )


def _text(path: Path, version_text: str) -> str:
    try:
        version = Semver.parse(version_text)
    except ValueError:
        return text_at(path, version_text)
    return load_version(path, version).source


_BUMP_EPILOG = """\
\b
Examples:
  regauge bump alert-severity patch -m "Define a warning"
  regauge bump alert-severity major -m "Return a list of reasons"
  regauge bump alert-severity          release the version that the file states

Exit codes: 0 done, 2 wrong use or a faulty file.
"""


@click.command(name="bump", epilog=_BUMP_EPILOG)
@click.argument("prompt", metavar="NAME")
@click.argument("part", required=False, type=click.Choice(["major", "minor", "patch"]))
@click.option("-m", "--message", metavar="MESSAGE", help="Changelog entry.")
@click.option("--allow-unchanged", is_flag=True, help="Release even if nothing changed.")
@dry_run_option
@json_option
def bump_command(
    prompt: str,
    part: Part | None,
    message: str | None,
    *,
    allow_unchanged: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Release a new version of a prompt: update its file and prompts.lock.

    major: the contract changed (`jsonSchema`, `inputs`, `tools`). minor: the prompt behaves
    differently. patch: it should not. Without a part, release the version in the file. Only
    version and changelog of the file change.
    """
    if message is not None and not message.strip():
        raise UsageError("-m is empty", fix="write a value, or leave it out")
    path = find_prompt(prompt)
    lock = lock_of(path)
    check_links(Project.find().root, [path, lock.path])
    with suppress(GitError):  # a release needs no git
        if diagnostics := lock.check_since("HEAD", name=prompt_name(path)):
            raise LockError(diagnostics)
    result = bump(
        read_prompt_text(path),
        part,
        path=path,
        lock=lock,
        note=message or "",
        date=datetime.now(UTC).date().isoformat(),
        allow_unchanged=allow_unchanged,
    )
    if not dry_run:
        write_whole(path, result.prompt.source.encode())
        result.lock.save()
    after = result.prompt
    if as_json:
        document = {
            "name": after.name,
            "before": str(result.before) if result.before is not None else None,
            "version": str(after.version),
            "digest": after.digest,
            "files": [str(short_path(path)), str(short_path(result.lock.path))],
        }
        echo_json(document)
        return
    before = f"{result.before} -> " if result.before not in {None, after.version} else ""
    echo(f"{after.name} {before}{after.version}  {after.digest[:12]}", bold=True)
    verb = "would write" if dry_run else "commit"
    echo(f"  {verb} {short_path(path)} and {short_path(result.lock.path)}")
