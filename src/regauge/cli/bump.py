"""`regauge bump`: release the next version of a prompt."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from regauge.atomic import write_whole
from regauge.cli._terminal import echo, short
from regauge.errors import Fault, PromptError
from regauge.prompts import bump, find_prompt, lock_of, read_prompt_text

if TYPE_CHECKING:
    from regauge.prompts import Part

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge bump alert-severity patch -m "Say what a warning is"
  regauge bump alert-severity major -m "Answer with a list of reasons"
  regauge bump alert-severity          release the version that the file states

Exit codes: 0 done, 2 wrong use or a faulty file.
"""


@click.command(name="bump", epilog=_EPILOG)
@click.argument("prompt", metavar="NAME")
@click.argument("part", required=False, type=click.Choice(["major", "minor", "patch"]))
@click.option(
    "-m", "--message", default="", metavar="TEXT", help="What changed: a changelog entry."
)
@click.option("--allow-unchanged", is_flag=True, help="Release even if nothing changed.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(
    prompt: str, part: Part | None, message: str, *, allow_unchanged: bool, as_json: bool
) -> None:
    """Give a prompt its next version and add it to prompts.lock.

    major: the contract changed, that is `jsonSchema` or `inputs`. minor: the prompt behaves
    differently. patch: it should behave the same. Without a part, the version that the file states
    is released as it is.

    Only the version and the changelog of the file change; every other byte stays. Commit the file
    together with prompts.lock.
    """
    path = find_prompt(prompt)
    result = bump(
        read_prompt_text(path),
        part,
        path=path,
        lock=lock_of(path),
        note=message,
        date=datetime.now(UTC).date().isoformat(),
        allow_unchanged=allow_unchanged,
    )
    try:
        write_whole(path, result.prompt.source.encode())
        result.lock.save()
    except OSError as error:
        fix = "make the directory writable, then run the command again"
        fault = Fault(path=path, line=None, message=f"cannot be written: {error}", fix=fix)
        raise PromptError([fault]) from error
    after = result.prompt
    if as_json:
        document = {
            "name": after.name,
            "before": str(result.before) if result.before is not None else None,
            "version": str(after.version),
            "digest": after.digest,
            "files": [str(short(path)), str(short(result.lock.path))],
        }
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    before = f"{result.before} -> " if result.before not in {None, after.version} else ""
    echo(f"{after.name} {before}{after.version}  {after.digest[:12]}", bold=True)
    echo(f"  commit {short(path)} and {short(result.lock.path)}")
