"""`regauge show`: one prompt, as it is or as it was."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from regauge.cli._options import input_values
from regauge.cli._terminal import echo, short
from regauge.prompts import (
    Semver,
    find_prompt,
    load_prompt,
    load_version,
    lock_of,
    prompt_at,
)

if TYPE_CHECKING:
    from regauge.digests import JSON
    from regauge.prompts import Prompt

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge show alert-severity
  regauge show alert-severity@1.1.0
  regauge show alert-severity@origin/main --json
  regauge show alert-severity -r name=DiskFull -r description=@alert.txt

Exit codes: 0 done, 2 wrong use or a faulty file.
"""


@click.command(name="show", epilog=_EPILOG)
@click.argument("prompt", metavar="NAME[@VERSION]")
@click.option(
    "-r",
    "--render",
    "inputs",
    multiple=True,
    metavar="INPUT=VALUE",
    help="Fill the templates: NAME=TEXT, NAME=@FILE or NAME:=JSON. Once for each input.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(prompt: str, inputs: tuple[str, ...], *, as_json: bool) -> None:
    """Show a prompt: what its file says, its digests and its messages.

    NAME is a prompt's name or its file. VERSION is a released version such as 1.1.0, or any
    commit, branch or tag; without it the file is shown as it is.
    """
    shown = _load(prompt)
    messages = shown.render(input_values(inputs, option="--render")) if inputs else shown.messages
    if as_json:
        document = _document(shown)
        if inputs:
            document["rendered"] = [message.to_json() for message in messages]
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    _print_head(shown)
    for number, message in enumerate(messages):
        line = shown.lines.get(f"messages[{number}]")
        echo(f"\n{message.role}" + (f" (line {line})" if line else ""), bold=True)
        if message.content:
            echo(message.content.rstrip("\n"))
        for call in message.tool_calls:
            echo(f"calls {call.name}({call.arguments}) as {call.id}")


def _load(prompt: str) -> Prompt:
    name, at, wanted = prompt.partition("@")
    if not at or prompt.endswith((".yml", ".yaml")):
        return load_prompt(prompt)
    try:
        version = Semver.parse(wanted)
    except ValueError:
        path = find_prompt(name)
        return prompt_at(path, wanted)
    return load_version(find_prompt(name), version)


def _print_head(prompt: Prompt) -> None:
    echo(f"{prompt.name} {prompt.version or '(no version)'}", bold=True)
    if prompt.title != prompt.name:
        echo(prompt.title)
    if prompt.description:
        echo(prompt.description.strip())
    parameters = (f"{name} {json.dumps(value)}" for name, value in prompt.parameters.items())
    rows = [
        ("file", str(short(prompt.path))),
        ("owner", prompt.owner or ""),
        ("model", prompt.model or "(none: the project's)"),
        ("parameters", ", ".join(parameters)),
        ("answer", _answer(prompt)),
        ("rubric", str(prompt.rubric or "")),
        ("inputs", ", ".join(_input_names(prompt)) or "(none)"),
        ("released", _released(prompt)),
        ("digest", prompt.digest),
        ("contract", prompt.contract_digest),
    ]
    for label, text in rows:
        if text:
            echo(f"  {label:<11}{text}")
    for warning in prompt.warnings:
        echo(f"warning: {warning}", style="yellow")


def _answer(prompt: Prompt) -> str:
    return str(prompt.response_format["type"]) if prompt.response_format else "text"


def _input_names(prompt: Prompt) -> list[str]:
    if prompt.inputs is None:
        return sorted(prompt.variables)
    return [spec.name if spec.required else f"{spec.name} (optional)" for spec in prompt.inputs]


def _released(prompt: Prompt) -> str:
    released = lock_of(prompt.path).of(prompt.name)
    if not released:
        return "never"
    same = (prompt.digest, prompt.contract_digest)
    if any(same == (e.digest, e.contract_digest) and e.version == prompt.version for e in released):
        return "yes"
    return f"no: differs from {released[-1].version}, the last release"


def _document(prompt: Prompt) -> dict[str, JSON]:
    inputs: JSON = None
    if prompt.inputs is not None:
        inputs = [
            {
                "name": spec.name,
                "description": spec.description,
                "required": spec.required,
                "default": spec.default,
            }
            for spec in prompt.inputs
        ]
    return {
        "name": prompt.name,
        "path": str(short(prompt.path)),
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
