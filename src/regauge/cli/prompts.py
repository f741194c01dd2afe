"""Prompts and targets, and their versions: `regauge show`, `log`, `diff` and `bump`."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from difflib import unified_diff
from itertools import islice, zip_longest
from shlex import quote
from typing import TYPE_CHECKING

import click

from regauge.cli import Command
from regauge.cli._options import (
    dry_run_option,
    find_prompt_file,
    input_option,
    json_option,
    limit_option,
    model_option,
    parse_inputs,
)
from regauge.cli._terminal import echo, echo_diff, echo_json, model_text, short_path
from regauge.errors import GitError, LockError, PromptError, RegaugeError, UsageError
from regauge.files import write_whole
from regauge.history import History, trend_lines
from regauge.maintenance.target_states import diff_states, digests_in, find_changed, find_target
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
from regauge.wording import plural, printable, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.history import TrendLine, TrendPoint
    from regauge.maintenance.target_states import TargetHistory, TargetState
    from regauge.prompts import Part, Prompt, VersionRecord


_BLOCKS = "▁▂▃▄▅▆▇█"
_BAR_WIDTH = 24


def sparkline(rates: Sequence[float | None]) -> str:
    """Rates from 0 to 1 as blocks; a dot for None.

    >>> sparkline([0.0, 0.5, None, 1.0])
    '▁▅·█'
    """
    top = len(_BLOCKS) - 1
    return "".join("·" if rate is None else _BLOCKS[round(rate * top + 0.001)] for rate in rates)


def interval_bar(point: TrendPoint) -> str:
    """A bar from 0 to 100 % with the rate and its interval."""
    last = _BAR_WIDTH - 1
    cells = [" "] * _BAR_WIDTH
    low, high = round(point.interval.low * last), round(point.interval.high * last)
    if point.eval.rate is not None:
        cells[low : high + 1] = "─" * (high - low + 1)
        cells[round(point.eval.rate * last)] = "●"
    return f"│{''.join(cells)}│"


def measured_lines(project: Project, names: Iterable[str]) -> list[TrendLine]:
    """Trend lines of evals from the run history; empty if it cannot be read."""
    try:
        history = History.open(project, os.environ)
        return [line for name in names for line in trend_lines(history.evals(name))]
    except RegaugeError as error:
        click.echo(printable(f"{error}\nso there are no pass rates here"), err=True)
        return []


def rate_text(point: TrendPoint) -> str:
    """A pass rate with counts."""
    if point.eval.rate is None:
        return "unmeasured"
    return f"{100 * point.eval.rate:.1f} % ({point.eval.passed}/{point.eval.measured})"


@click.command(name="show", cls=Command)
@click.argument("prompt", metavar="NAME[@VERSION]")
@input_option
@json_option
def show_command(prompt: str, inputs: tuple[str, ...], *, as_json: bool) -> None:
    """Show a prompt or target at any version, with digests; --input fills a prompt's templates.

    NAME is a prompt or its file, a target, or an eval of one. VERSION is a release of a prompt,
    such as 1.1.0, a commit, branch or tag; by default the files as they are.

    Examples:
      regauge show alert-severity
      regauge show alert-severity@1.1.0
      regauge show alert-severity@origin/main --json
      regauge show alert-severity -i name=DiskFull -i description=@alert.txt

    Exit codes: 0 done, 2 wrong use or a faulty file.
    """
    name, _, ref = prompt.partition("@")
    if (target := _target(name)) is not None:
        if inputs:
            fix = "leave out -i"
            raise UsageError(f"{name} is a target, which has no messages to fill", fix=fix)
        _show_target(target, ref, as_json=as_json)
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


def _target(name: str) -> TargetHistory | None:
    """The target of a name; None for a prompt or an unknown name."""
    with suppress(PromptError):
        find_prompt(name)
        return None
    return find_target(name, Project.find())


def _show_target(history: TargetHistory, ref: str, *, as_json: bool) -> None:
    """Show its identity in a commit, or in the working files."""
    state = history.state_at(ref) if ref else history.current
    target = state.target
    base = None if ref else history.base()
    changed = None if base is None else find_changed(base.target, target)
    if as_json:
        document: dict[str, JSON] = {
            "name": history.name,
            "kind": target.settings.kind,
            "commit": ref or None,
            "version": target.version or None,
            "evals": list(history.evals),
            "identity": target.identity,
            "digest": history.digest(state),
            "base": base.place if base is not None else None,
            "changed_since_base": changed,
        }
        echo_json(document)
        return
    place = f" at {ref}" if ref else ""
    echo(f"{history.name} {target.version or '(no version)'}{place}", bold=True)
    rows = [
        (key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for key, value in target.identity.items()
        if key not in {"version", "files", "prompts"}
    ]
    prompts = (f"{prompt.name} {prompt.version or prompt.digest[:12]}" for prompt in target.prompts)
    rows += [
        ("evals", ", ".join(history.evals)),
        ("prompts", ", ".join(prompts)),
        ("digest", history.digest(state)),
    ]
    if base is not None:
        rows.append((f"since {base.place}", ", ".join(changed or ()) or "unchanged"))
    width = max(len(label) for label, text in rows if text)
    for label, text in rows:
        if text:
            echo(f"  {label:<{width}}  {text}")
    digests = digests_in(target, "files")
    if digests:
        echo("files", bold=True)
    for path, digest in digests.items():
        echo(f"  {str(digest or '(missing)')[:12]}  {path}")


def _log_target(history: TargetHistory, limit: int, *, as_json: bool) -> None:
    """List the states of its identity with pass rates, newest first.

    Args:
        limit: The most states.
        as_json: Whether to print JSON.
    """
    states = [*islice(history.states(), limit + 1)]
    older = [state.target for _, state in states[1:]]
    rows = [
        (commit, state, find_changed(before, state.target) if before is not None else [])
        for (commit, state), before in zip_longest(states, older)
    ][:limit]
    current = history.current.target
    uncommitted = find_changed(states[0][1].target, current) if states else []
    points = _target_points(history)
    if as_json:
        state_rows: list[dict[str, object]] = [
            {
                "version": state.target.version or None,
                "date": commit.date[:10],
                "commit": commit.hash,
                "digest": history.digest(state),
                "changed": changed,
                "measured": [
                    {"eval": point.eval.prompt, **point.to_json()}
                    for point in _points_of(history, state, points)
                ],
            }
            for commit, state, changed in rows
        ]
        document = {"name": history.name, "uncommitted": uncommitted, "states": state_rows}
        echo_json(document)
        return
    for commit, state, changed in rows:
        line = (
            f"{state.target.version or '-':<12}{commit.date[:10]:<12}"
            f"{history.digest(state)[:12]:<14}{commit.hash[:9]:<11}"
        )
        if points:
            several = len(history.evals) > 1
            rates = (
                f"{point.eval.prompt if several else ''} {rate_text(point)}".strip()
                for point in _points_of(history, state, points)
            )
            line += f"{', '.join(rates) or '-':<20}"
        echo(f"{line}{', '.join(changed) or commit.subject}".rstrip())
    if not states:
        echo(f"{history.name} is in no commit yet")
    elif uncommitted:
        echo(f"not committed: {', '.join(uncommitted)}", style="yellow")


def _diff_target(history: TargetHistory, a: str | None, b: str | None, *, as_json: bool) -> None:
    """Show changes of its settings, files and prompts between commits, or since one."""
    a = a or "HEAD"
    old = history.state_at(a)
    new = history.state_at(b) if b is not None else history.current
    lines = [*diff_states(old, new)]
    if as_json:
        changed = find_changed(old.target, new.target)
        document = {"name": history.name, "a": a, "b": b, "changed": changed, "lines": lines}
        echo_json(document)
        return
    after = f"{history.name}@{b}" if b is not None else "the files"
    echo_diff(lines, f"{history.name}@{a}", after)


def _target_points(history: TargetHistory) -> list[TrendPoint]:
    """The measurements of its evals, those of lines with most runs first."""
    lines = measured_lines(history.project, history.evals)
    return [point for line in lines for point in line.points if point.eval.rate is not None]


def _points_of(
    history: TargetHistory, state: TargetState, points: Iterable[TrendPoint]
) -> list[TrendPoint]:
    """The measurement of a state by each eval."""
    digest = history.digest(state)
    by_digest: dict[str, TrendPoint] = {}
    for point in points:
        if point.eval.prompt_digest == digest:
            by_digest.setdefault(point.eval.prompt, point)
    return [*by_digest.values()]


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


@click.command(name="log", cls=Command)
@click.argument("prompt", metavar="NAME")
@click.option("--runs", is_flag=True, help="A line per run, with 95 % intervals.")
@model_option()
@limit_option
@json_option
def log_command(prompt: str, *, runs: bool, model: str | None, limit: int, as_json: bool) -> None:
    """List the versions of a prompt, or the states of a target, with pass rates, newest first.

    With --runs, list its runs by model, oldest first.

    Examples:
      regauge log alert-severity
      regauge log alert-severity --runs         a line per run, with 95 % intervals
      regauge log alert-severity --runs --model openai:gpt-5.4-mini --limit 5

    Exit codes: 0 done, 2 wrong use or a faulty file.
    """
    if runs:
        _print_runs(prompt, model, limit, as_json=as_json)
        return
    if (target := _target(prompt)) is not None:
        _log_target(target, limit, as_json=as_json)
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
    for text in history.caught_up.unreadable_lines:
        click.echo(printable(project.shorten(text)), err=True)
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


@click.command(name="diff", cls=Command)
@click.argument("prompt", metavar="NAME")
@click.argument("a", required=False)
@click.argument("b", required=False)
@json_option
def diff_command(prompt: str, a: str | None, b: str | None, *, as_json: bool) -> None:
    """Show the changes of a prompt or target between A and B, as a unified diff.

    A and B are versions such as 1.1.0, commits, branches or tags; by default the last release (or
    commit) and the files as they are.

    Examples:
      regauge diff alert-severity                what changed since the last release
      regauge diff alert-severity 1.0.0          since 1.0.0
      regauge diff alert-severity 1.0.0 1.1.0    between two versions
      regauge diff alert-severity origin/main    since a branch

    Exit codes: 0 done, whether or not something changed; 2 wrong use or a faulty file.
    """
    if (target := _target(prompt)) is not None:
        _diff_target(target, a, b, as_json=as_json)
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


@click.command(name="bump", cls=Command)
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

    Examples:
      regauge bump alert-severity patch -m "Define a warning"
      regauge bump alert-severity major -m "Return a list of reasons"
      regauge bump alert-severity          release the version that the file states

    Exit codes: 0 done, 2 wrong use or a faulty file.
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
