"""`regauge log`: the versions of a prompt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from regauge.cli._terminal import echo, short
from regauge.errors import PromptError
from regauge.prompts import (
    Repository,
    find_prompt,
    load_prompt,
    lock_of,
    prompt_name,
    version_records,
)

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.prompts import VersionRecord

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge log alert-severity
  regauge log alert-severity --json
"""


@click.command(name="log", epilog=_EPILOG)
@click.argument("prompt", metavar="NAME")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(prompt: str, *, as_json: bool) -> None:
    """List the versions of a prompt, the newest first: day, digest, commit and changelog.

    Versions come from prompts.lock and from git. The day and the commit are those of the first
    commit with the released content.
    """
    path = find_prompt(prompt)
    repository = Repository.find(path.parent)
    records = version_records(path, repository)
    state = _state_of_file(path)
    if as_json:
        document = {
            "name": prompt_name(path),
            "path": str(short(path)),
            "file": state,
            "versions": [_row(record) for record in records],
        }
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    if repository is None:
        click.echo("note: not in a git repository, so no days and no commits", err=True)
    if not records:
        echo(f"{prompt_name(path)} has no versions yet: regauge bump {prompt_name(path)} major")
    for record in records:
        released = "" if record.released else "  (not released)"
        digest = (record.digest or "")[:12]
        commit = record.commit[:9] or "-"
        line = f"{record.version!s:<10}{record.date or '-':<12}{digest:<14}{commit:<11}"
        echo(f"{line}{record.text}{released}".rstrip())
    if state != "released":
        echo(f"{short(path)}: {state}", style="yellow")


def _row(record: VersionRecord) -> dict[str, object]:
    return {
        "version": str(record.version),
        "released": record.released,
        "date": record.date or None,
        "commit": record.commit or None,
        "digest": record.digest,
        "contract_digest": record.contract_digest,
        "changelog": record.text or None,
    }


def _state_of_file(path: Path) -> str:
    """How the file stands to its last release, in a few words."""
    try:
        prompt = load_prompt(path)
    except PromptError:
        return "does not parse"
    released = lock_of(path).of(prompt.name)
    if not released:
        return "never released"
    last = released[-1]
    if last.contract_digest != prompt.contract_digest:
        return f"contract changed since {last.version}"
    if last.digest != prompt.digest:
        return f"changed since {last.version}"
    return "released"
