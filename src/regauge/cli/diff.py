"""`regauge diff`: what changed between two versions of a prompt."""

from __future__ import annotations

import json
from difflib import unified_diff
from typing import TYPE_CHECKING

import click

from regauge.cli._options import named_prompt
from regauge.cli._terminal import echo, short
from regauge.errors import UsageError
from regauge.prompts import (
    Repository,
    Semver,
    load_version,
    lock_of,
    prompt_name,
    read_prompt_text,
    text_at,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge diff alert-severity                what changed since the last release
  regauge diff alert-severity 1.0.0          since 1.0.0
  regauge diff alert-severity 1.0.0 1.1.0    between two versions
  regauge diff alert-severity origin/main    since a branch

Exit codes: 0 done, whether or not something changed; 2 wrong use or a faulty file.
"""
_STYLES = {"+++": "", "---": "", "@@ ": "cyan", "+": "green", "-": "red"}


@click.command(name="diff", epilog=_EPILOG)
@click.argument("prompt", metavar="NAME")
@click.argument("a", required=False)
@click.argument("b", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(prompt: str, a: str | None, b: str | None, *, as_json: bool) -> None:
    """Show what changed in a prompt file between A and B, as a unified diff.

    A and B are versions such as 1.1.0, or commits, branches or tags. A is the last release where
    it is left out (the last commit where nothing was released), and B the file as it is.

    The exit code is 0 whether or not something changed.
    """
    path = named_prompt(prompt, instead="regauge diff {name} {version}")
    name = prompt_name(path)
    a = a if a is not None else _last(path)
    old = _text(path, a)
    new = _text(path, b) if b is not None else read_prompt_text(path)
    new_label = f"{name}@{b}" if b is not None else str(short(path))
    lines = list(
        unified_diff(old.splitlines(), new.splitlines(), f"{name}@{a}", new_label, lineterm="")
    )
    if as_json:
        document = {"name": name, "a": a, "b": b, "changed": bool(lines), "lines": lines}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    if not lines:
        click.echo(f"no difference between {name}@{a} and {new_label}", err=True)
    for line in lines:
        style = next((style for start, style in _STYLES.items() if line.startswith(start)), "")
        echo(line, style=style, bold=line.startswith(("+++ ", "--- ")))


def _last(path: Path) -> str:
    released = lock_of(path).of(prompt_name(path))
    if released:
        return str(released[-1].version)
    if Repository.at(path.parent).has_commits():
        return "HEAD"
    raise UsageError(
        f"{prompt_name(path)} was neither released nor committed: there is nothing to compare with"
    )


def _text(path: Path, wanted: str) -> str:
    try:
        version = Semver.parse(wanted)
    except ValueError:
        return text_at(path, wanted)
    return load_version(path, version).source
