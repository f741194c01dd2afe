"""`regauge judge` runs one judge on an output in a file; `regauge judges` lists them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from regauge.cli._terminal import echo, unreadable
from regauge.datasets import GoldenCase
from regauge.errors import UsageError
from regauge.judges import (
    JudgeDescription,
    UnboundJudge,
    describe,
    judge_from_spec,
    judge_kinds,
    reference_page,
)
from regauge.providers import Completion, Usage
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.digests import JSON
    from regauge.judges import Verdict

__all__ = ["judge_command", "judges_command"]

_JUDGE_EPILOG = """\
\b
Examples:
  regauge judge json_parses --output answer.txt
  regauge judge 'max_words: 40' --output answer.txt
  regauge judge max_words -p n=40 -p field=reason --output answer.json
  regauge judge field_equals -p path=severity --output answer.json --case case.json
  kubectl get pods | regauge judge 'contains: Running' --output -

Exit codes: 0 pass or abstain, 1 fail, 2 wrong use, 3 no verdict.
"""


@click.command(name="judge", epilog=_JUDGE_EPILOG)
@click.argument("judge", metavar="NAME")
@click.option(
    "-p",
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter with a YAML value; repeatable.",
)
@click.option("--output", required=True, metavar="FILE", help="The output; `-` is standard input.")
@click.option(
    "--case",
    "case_file",
    metavar="FILE",
    help="A golden case: JSON or YAML with `inputs` and `expected`.",
)
@click.option("--json", "as_json", is_flag=True, help="The verdict as one JSON document.")
def judge_command(
    judge: str, params: tuple[str, ...], output: str, case_file: str | None, *, as_json: bool
) -> None:
    """Run one judge on the output in a file, and print its verdict.

    NAME is a judge of `regauge judges`, or YAML such as 'max_words: {n: 40, field: reason}'. A file
    with a recorded completion (JSON with `text` and `finish_reason`) is judged as such.
    """
    made = judge_from_spec(_spec(judge, params))
    if isinstance(made, UnboundJudge):
        raise UsageError(
            f"{judge!r} calls a model, a program or a service, and only a run records calls\n"
            "  fix: use it in an eval or in the `checks` of a golden case"
        )
    completion = _completion(_read(output))
    verdict = asyncio.run(made.judge(completion, _case(case_file)))
    if as_json:
        document = {"judge": made.name, "digest": made.digest, **_document(verdict)}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        echo(f"{made.name}: {verdict}")
    if verdict.outcome == "fail":
        sys.exit(1)


def _document(verdict: Verdict) -> dict[str, Any]:
    values = {part.name: getattr(verdict, part.name) for part in dataclasses.fields(verdict)}
    return {**values, "details": dict(verdict.details)}


def _yaml(text: str, what: str) -> JSON:
    import yaml

    try:
        loaded: JSON = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{what} is not YAML: {error}") from error
    return loaded


def _spec(judge: str, params: tuple[str, ...]) -> JSON:
    spec = _yaml(judge, "the judge")
    if not params:
        return spec
    if not isinstance(spec, str):
        raise UsageError("parameters stand in the specification or in -p, not in both")
    given: dict[str, JSON] = {}
    for param in params:
        name, equals, value = param.partition("=")
        if not equals:
            raise UsageError(f"-p {param!r} is not NAME=VALUE\n  fix: -p n=40")
        given[name.strip()] = _yaml(value, f"-p {name}")
    return {spec: given}


def _read(name: str) -> str:
    try:
        if name == "-":
            return click.get_text_stream("stdin").read()
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(unreadable(name, error)) from error


def _completion(text: str) -> Completion:
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and {"text", "finish_reason", "usage"} <= document.keys():
        try:
            return Completion.from_json(cast("Mapping[str, JSON]", document))
        except ValueError as error:
            raise UsageError(f"the recorded completion cannot be read: {error}") from error
    return Completion(
        text=text,
        finish_reason="stop",
        usage=Usage(),
        model="file",
        provider="file",
        latency_s=0.0,
    )


def _case(name: str | None) -> GoldenCase:
    document: JSON = _yaml(_read(name), name) if name else {}
    if not isinstance(document, Mapping):
        raise UsageError(f"{name} is no golden case: a mapping with `inputs` and `expected`")
    inputs = document.get("inputs") or {}
    if not isinstance(inputs, Mapping):
        raise UsageError(f"{name}: `inputs` is no mapping")
    return GoldenCase(
        id=str(document.get("id", "case")),
        inputs=inputs,
        expected=document.get("expected"),
        split="train",
        at=name or "no case given",
    )


_JUDGES_EPILOG = """\
\b
Examples:
  regauge judges
  regauge judges words
  regauge judges --json

Exit codes: 0 done, 2 wrong use or a faulty file.
"""


@click.command(name="judges", epilog=_JUDGES_EPILOG)
@click.argument("word", default="")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--markdown", is_flag=True, help="The reference page of regauge's own judges.")
def judges_command(word: str, *, as_json: bool, markdown: bool) -> None:
    """List judges, or those whose name or summary contains WORD.

    Judges of other packages (entry point group `regauge.judges`) are included.
    """
    kinds = judge_kinds(installed=not markdown)
    found = [
        description
        for name, kind in sorted(kinds.items())
        if word.lower() in f"{name} {(description := describe(name, kind)).summary}".lower()
    ]
    if markdown:
        click.echo(reference_page(found), nl=False)
    elif as_json:
        click.echo(json.dumps([dataclasses.asdict(one) for one in found], indent=2))
    else:
        _print_judges(found)
        if not found:
            echo(f"no judge has {word!r} in its name or summary: `regauge judges` lists all")


def _print_judges(found: Sequence[JudgeDescription]) -> None:
    for judge in found:
        echo(f"{judge.name}{judge.form}", bold=True)
        echo(f"    {judge.summary}")
        if judge.install:
            echo(f"    install: {judge.install}")
        for parameter in judge.parameters:
            known = parameter.default not in {"", "None"}
            default = f" (default {parameter.default})" if known else ""
            echo(f"      {parameter.name}: {parameter.text}{default}")
    echo(plural(len(found), "judge"))
