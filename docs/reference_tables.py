"""Writes the generated parts of the reference pages; cog calls it from the pages themselves."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

from regauge import hookspecs, judges, mutate, pytest_plugin
from regauge.cli import COMMANDS, group
from regauge.errors import RegaugeError
from regauge.judges import describe, judge_kinds, reference_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic import BaseModel

__all__ = ["commands", "errors", "fields", "judge_names", "names", "operators", "options"]


def operators() -> str:
    """The operators of `regauge mutate`."""
    rows = [(_code(one.name), one.about, "yes" if one.single else "") for one in mutate.OPERATORS]
    return _table(("operator", "what it does", "by default"), rows)


def judge_names() -> str:
    """The names of judges in other libraries, with what regauge has for each."""
    table = yaml.safe_load(Path(__file__).with_name("judge_names.yml").read_text("utf-8"))
    kinds = judge_kinds(installed=False)
    parts: list[str] = []
    for library in table.values():
        names = library["names"]
        covered = sum("use" in entry for entry in names.values())
        parts += [
            f"## {library['title']}",
            "",
            f"{covered} of {len(names)} names have a judge.",
            "",
        ]
        for name, entry in names.items():
            uses = [
                f"`{use}`" if use in kinds or hasattr(judges, use) else f'`deepeval("{use}")`'
                for use in entry.get("use", ())
            ]
            notes = [entry[key] for key in ("note", "missing") if key in entry]
            text = ": ".join([", ".join(uses), *notes][not uses :])
            parts.append(f"- `{name}`: {text}")
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


# Options that many commands have, with one text for all of them.
_SHARED = {
    "--json": "Print JSON.",
    "-n, --dry-run": "Print planned calls, cost or files, then exit.",
    "--evals PATH": "Directory or file of evals; by default `evals`.",
    "--concurrency N|auto": "Requests in flight at once.",
    "--budget-usd X": "Limit of the cost in US dollars.",
    "--budget-calls N": "Limit of calls.",
    "--budget-tokens N": "Limit of tokens.",
    "-h, --help": "Print the help of a command.",
}


def commands() -> str:
    """Every command with its options; what several share is stated once."""
    parts = ["\n".join(f"- `{name}`: {text}" for name, text in _SHARED.items()), ""]
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        parts += _command("##", name, command)
        parts += _epilog(command)
        if isinstance(command, click.Group):
            for part in command.list_commands(click.Context(command)):
                parts += _command("###", f"{name} {part}", command.commands[part])
    return "\n".join(parts)


def _command(heading: str, words: str, command: click.Command) -> list[str]:
    """The usage, description and own options of one command."""
    context = click.Context(command, info_name=f"regauge {words}", terminal_width=100)
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    text = re.sub(r"(?<=\S)\n(?=\S)", " ", inspect.cleandoc(command.help or ""))
    lines = [f"{heading} regauge {words}\n", f"`{usage}`\n", f"{text}\n"]
    shared = {word for name in _SHARED for word in name.split() if word.startswith("--")}
    options: list[str] = []
    # `regauge refine NAME` takes the options of its unnamed command.
    hidden = command.commands.get("") if isinstance(command, click.Group) else None
    for parameter in (hidden or command).get_params(context):
        record = parameter.get_help_record(context)
        if record and parameter.opts[-1] not in shared and parameter.name != "help":
            options.append(f"- `{record[0]}`: {' '.join(record[1].split())}")
    return lines + (["\n".join(options) + "\n"] if options else [])


def _epilog(command: click.Command) -> list[str]:
    """Examples and exit codes, as the help prints them."""
    blocks = (command.epilog or "").replace("\b\n", "").strip().split("\n\n")
    parts: list[str] = []
    for block in blocks:
        if block.startswith("Examples:"):
            parts.append(f"```text\n{textwrap.dedent(block.partition(chr(10))[2])}\n```\n")
        elif block:
            parts.append(f"{' '.join(block.split())}\n")
    return parts


def judge_page() -> str:
    """The page of regauge's own judges, without its title."""
    kinds = judge_kinds(installed=False)
    page = reference_page([describe(name, kinds[name]) for name in sorted(kinds)])
    return page.partition("\n")[2]


def options() -> str:
    """The options that the plugin adds to pytest."""
    parser = _Options()
    pytest_plugin.pytest_addoption(parser)  # type: ignore[arg-type]  # it takes what it is given
    return _table(("option", "what it does"), parser.rows)


class _Options:
    """Stands where pytest's parser would, and writes down what is added to it."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, ...]] = []

    def getgroup(self, name: str, description: str) -> _Options:
        del name, description
        return self

    def addoption(self, name: str, **details: Any) -> None:
        value = details.get("metavar") or "|".join(details.get("choices", ()))
        self.rows.append((_code(f"{name} {value}".rstrip()), details["help"]))


def fields(path: str, *, none: str, omit: Iterable[str] = (), **more: str) -> str:
    """The fields of a pydantic model.

    Args:
        path: `module:Class`.
        none: What stands for Python's None in the files a reader sees.
        omit: Fields that the page describes elsewhere.
        **more: What fields are, where the model does not say.
    """
    model = _found(path)
    said = {
        name: re.sub(r"\bNone( means)?\b", none, text) for name, text in _attributes(model).items()
    } | more
    lines: list[str] = []
    for name in (name for name in model.model_fields if name not in set(omit)):
        default = _default(model, name)
        details = f"{_kind(model, name)}, default {default}" if default else _kind(model, name)
        lines.append(f"- `{name}` ({details}): {said.get(name, '')}".removesuffix(": "))
    return "\n".join(lines) + "\n"


def errors() -> str:
    """The tree of exceptions with their exit codes."""
    rows: list[tuple[str, ...]] = []
    pending: list[tuple[type[RegaugeError], int]] = [(RegaugeError, 0)]
    while pending:
        kind, depth = pending.pop()
        below = sorted(kind.__subclasses__(), key=lambda one: one.__name__, reverse=True)
        pending += [(one, depth + 1) for one in below if one.__module__ == "regauge.errors"]
        indent = "&emsp;" * depth
        rows.append((f"{indent}{_code(kind.__name__)}", str(kind.exit_code), _summary(kind)))
    return _table(("exception", "exit code", "when"), rows)


def hooks() -> str:
    """The hooks that other plugins may implement, in the order of a run."""
    lines: list[str] = []
    for name, hook in vars(hookspecs).items():
        if name.startswith("pytest_"):
            arguments = ", ".join(inspect.signature(hook).parameters)
            text = " ".join((inspect.getdoc(hook) or "").removeprefix("Called ").split())
            lines.append(f"- `{name}({arguments})`: {text}")
    return "\n".join(lines)


def names(module: str) -> str:
    """The public names of a module, each with its signature and what its docstring says."""
    package = importlib.import_module(module)
    parts: list[str] = []
    for name in sorted(package.__all__, key=str.lower):
        value = getattr(package, name)
        doc = inspect.getdoc(value) or ""
        parts.append(f"## {name}\n\n```text\n{name}{_signature(value)}\n```\n\n{_markdown(doc)}\n")
        parts += [f"{line}\n" for line in _methods(value)]
    return "\n".join(parts)


def _methods(value: object) -> Iterator[str]:
    """What a class of ours can do, one line per public method or property."""
    if not inspect.isclass(value) or issubclass(value, Exception):
        return
    lines: list[str] = []
    stated: set[str] = set(getattr(value, "__dataclass_fields__", ()))
    for name, member in vars(value).items():
        if name.startswith("_") or name in stated:
            continue
        if isinstance(member, property) or type(member).__name__ == "cached_property":
            lines.append(f"- `.{name}`: {_summary(member)}")
        elif callable(getattr(value, name)):
            form = _signature(getattr(value, name)).replace("(self, ", "(").replace("(self)", "()")
            lines.append(f"- `.{name}{form}`: {_summary(getattr(value, name))}")
    if lines:
        yield "\n".join(lines)


def _is_data(value: type) -> bool:
    return dataclasses.is_dataclass(value)


def _signature(value: Any) -> str:
    if inspect.isclass(value) and (issubclass(value, Exception) or not _is_data(value)):
        return ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    bare = [
        one.replace(annotation=_Bare(one.annotation)) if one.annotation is not one.empty else one
        for one in signature.parameters.values()
    ]
    returns = signature.empty if inspect.isclass(value) else _Bare(signature.return_annotation)
    text = str(signature.replace(parameters=bare, return_annotation=returns))
    return re.sub(r"<factory>|mappingproxy\(\{\}\)", "...", text)


class _Bare:
    """An annotation as it stands in the source, without quotes."""

    def __init__(self, annotation: object) -> None:
        self._text = str(annotation)

    def __repr__(self) -> str:
        return self._text


def _markdown(doc: str) -> str:
    """A docstring as Markdown: its sections become lists."""
    lines: list[str] = []
    listed = ""
    for line in doc.splitlines():
        section = re.fullmatch(r"(Args|Attributes|Raises|Returns):", line)
        if section:
            listed = section[1]
            lines += [f"**{listed}**", ""] if listed != "Args" else ["**Arguments**", ""]
        elif listed and re.match(r"    \S", line):
            name, colon, text = line.strip().partition(": ")
            lines.append(f"- `{name}`: {text}" if colon else f"- {line.strip()}")
        elif listed and line.startswith("        "):
            lines.append(f"  {line.strip()}")
        elif line or (lines and lines[-1]):
            listed = "" if line else listed
            lines.append(line)
    text = "\n".join(lines).replace("```python", "<!-- not run -->\n```python")
    # An example in a docstring becomes one that the tests of this page run.
    return re.sub(r"(?m)^(>>>.*(?:\n(?!\n).*)*)", r"```python\n\1\n\n```", text)


def _found(path: str) -> type[BaseModel]:
    module, _, name = path.partition(":")
    found: type[BaseModel] = getattr(importlib.import_module(module), name)
    return found


def _attributes(model: type) -> dict[str, str]:
    """What the docstring of a class says of each attribute."""
    _, _, block = (inspect.getdoc(model) or "").partition("Attributes:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", block, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def _kind(model: type[BaseModel], name: str) -> str:
    schema = model.model_json_schema()["properties"][name]
    return _code(_type(schema))


def _type(schema: dict[str, Any]) -> str:
    kind: str = schema.get("type", "any JSON")
    if "anyOf" in schema:
        kind = " or ".join(_type(one) for one in schema["anyOf"] if one.get("type") != "null")
    elif "enum" in schema:
        kind = " or ".join(f'"{value}"' for value in schema["enum"])
    elif "const" in schema:
        value = schema["const"]
        kind = f'"{value}"' if isinstance(value, str) else str(value)
    elif "$ref" in schema:
        kind = "table"
    elif kind == "array":
        kind = f"list of {_type(schema['items'])}"
    elif kind == "object":
        inner = schema.get("additionalProperties")
        kind = f"table of {_type(inner)}" if isinstance(inner, dict) and inner else "table"
    elif kind in {"number", "integer"}:
        kind += _range(schema)
    return kind


def _range(schema: dict[str, Any]) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    if "minimum" in schema and "maximum" in schema:
        return f" from {schema['minimum']} to {schema['maximum']}"
    bounds = [f"{sign} {schema[name]}" for name, sign in signs.items() if name in schema]
    return " " + " and ".join(bounds) if bounds else ""


def _default(model: type[BaseModel], name: str) -> str:
    field = model.model_fields[name]
    if field.is_required() or field.default_factory or field.default in (None, [], {}):
        return ""
    value = field.default
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return _code(f'"{shown}"' if isinstance(value, str) else shown)


def _summary(value: object) -> str:
    return (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")


def _code(text: str) -> str:
    return f"`{text}`"


def _table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heading, ("---",) * len(heading), *rows]
    rows_ = (" | ".join(cell.replace("|", "\\|") for cell in cells) for cells in lines)
    return "".join(f"| {row} |\n" for row in rows_)
