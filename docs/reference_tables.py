"""Write the generated parts of the reference pages; the pages call it through cog."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

from regauge import hookspecs, judges, mutate, pytest_plugin
from regauge.cli import COMMANDS, group
from regauge.errors import RegaugeError
from regauge.judges import JudgeDescription, describe, judge_kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic import BaseModel

__all__ = ["commands", "errors", "fields", "judge_names", "names", "operators", "options"]


def operators() -> str:
    """The operators of `regauge mutate`."""
    return "".join(
        f"- `{one.name}`{' (default)' if one.single else ''}: {one.about}\n"
        for one in mutate.OPERATORS
    )


def judge_names() -> str:
    """The names of judges in other libraries, with what regauge has for each."""
    table = yaml.safe_load(Path(__file__).with_name("judge_names.yml").read_text("utf-8"))
    kinds = judge_kinds()
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
        same: dict[str, list[str]] = {}
        for name, entry in names.items():
            uses = [
                f"`{use}`" if use in kinds or hasattr(judges, use) else f'`deepeval("{use}")`'
                for use in entry.get("use", ())
            ]
            notes = [entry[key] for key in ("note", "missing") if key in entry]
            text = ": ".join([", ".join(uses), *notes][not uses :])
            if text == f"`{name.replace('-', '_')}`":
                text = "the same name"
            same.setdefault(text, []).append(f"`{name}`")
        parts += [f"- {', '.join(listed)}: {text}" for text, listed in same.items()]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


# The most examples of a group of commands; help prints all examples.
_EXAMPLES_MAX = 4


def commands() -> str:
    """Every command with its options; options of several commands are stated once."""
    named = dict(_named_commands())
    rows = {words: _option_rows(words, command) for words, command in named.items()}
    counts = Counter(row for of_command in rows.values() for row in of_command.items())
    shared = {name: text for (name, text), count in counts.items() if count > 1}
    parts = ["\n".join(f"- `{name}`: {text}" for name, text in sorted(shared.items())), ""]
    for words, command in named.items():
        parts += _command(words, command, rows[words], shared)
    return "\n".join(parts)


def _named_commands() -> Iterator[tuple[str, click.Command]]:
    """Commands and the commands of groups, by the words that run them."""
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            for part in command.list_commands(click.Context(command)):
                yield f"{name} {part}", command.commands[part]


def _option_rows(words: str, command: click.Command) -> dict[str, str]:
    """The options of a command, each with its help."""
    context = click.Context(command, info_name=f"regauge {words}", terminal_width=100)
    # `regauge refine NAME` takes the options of its unnamed command.
    hidden = command.commands.get("") if isinstance(command, click.Group) else None
    records = [parameter.get_help_record(context) for parameter in (hidden or command).params]
    return {record[0]: " ".join(record[1].split()) for record in records if record}


def _command(
    words: str, command: click.Command, rows: dict[str, str], shared: dict[str, str]
) -> list[str]:
    """The usage, description, options, examples and exit codes of one command."""
    context = click.Context(command, info_name=f"regauge {words}", terminal_width=100)
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    usage = re.sub(r" \[OPTIONS\]| COMMAND \[ARGS\]\.\.\.", "", usage)
    text = re.sub(r"(?<=\S)\n(?=\S)", " ", inspect.cleandoc(command.help or ""))
    heading = f"regauge {words}"
    parts = [f"{'###' if ' ' in words else '##'} {heading}\n"]
    parts += [f"`{usage}`\n"] if usage != heading else []
    parts.append(f"{text}\n")
    own = [f"- `{name}`: {text}" for name, text in rows.items() if shared.get(name) != text]
    parts += ["\n".join(own) + "\n"] if own else []
    names = [_long_name(name) for name, text in rows.items() if shared.get(name) == text]
    parts += [f"Shared: {' '.join(names)}\n"] if names else []
    # The help of a command in a group repeats the epilog of the group.
    return parts if " " in words else parts + _epilog(command)


def _long_name(record: str) -> str:
    """`--output` of `-o, --output FILE`."""
    return "`" + next(word for word in record.split() if word.startswith("--")) + "`"


def _epilog(command: click.Command) -> list[str]:
    """The first examples, and other remarks; exit codes have a page."""
    blocks = (command.epilog or "").replace("\b\n", "").strip().split("\n\n")
    parts: list[str] = []
    for block in blocks:
        if block.startswith("Examples:") and not isinstance(command, click.Group):
            continue
        if block.startswith("Examples:"):
            lines = textwrap.dedent(block.partition("\n")[2]).splitlines()[:_EXAMPLES_MAX]
            parts.append("```text\n" + "\n".join(lines) + "\n```\n")
        elif block and not block.startswith("Exit codes:"):
            parts.append(f"{' '.join(block.split())}\n")
    return parts


_CHAPTERS = {
    "text": "Text",
    "counts": "Length and counts",
    "similarity": "Similarity to a reference",
    "json": "JSON",
    **dict.fromkeys(("answers", "invented"), "Numbers, answers and choices"),
    "documents": "Markdown, YAML, CSV, Python, XML and HTML",
    "infrastructure": "Terraform, Kubernetes and SQL",
    "safety": "Refusals, leaks, secrets, personal data and URLs",
    "run": "Tool calls and run facts",
    "ifeval": "As IFEval defines it (`regauge.judges.ifeval`)",
    "combine": "Combinations and turns of a conversation",
    "model": "LLM judges",
    "external": "Functions, programs and web services",
    "installed": "Of other packages",
}
_AS_LIST = {"ifeval": "\n`regauge judges list` shows their parameters.\n\n"}
# From this many judges on, a parameter is described once for all.
_COMMON_FROM = 2
# Parameters of judges that count; `...` in their forms.
_BOUNDS = "at_least=None, at_most=None, exactly=None"
# A description of at most this many words, such as `The tools.`, repeats its name.
_EVIDENT_WORDS = 2
# Codes of all judges that count, stated once.
_COUNT_CODES = ("too_few", "too_many")

_HEAD = """\
A judge scores an output: check JSON against a JSON schema, compare text, count words, match a
regular expression, or call a model. Its verdict is pass, fail or abstain, with a score from 0 to 1
and a reason.

```python
>>> from regauge.judges import *
>>> print(max_words(3, field="reason").check_text('{"reason": "The disk is full."}'))
fail (0.75): 4 words, at most 3 wanted

```

In YAML a judge is a name, or a name with parameters: `max_words: 40`,
`max_words: {n: 40, field: reason}`, `not: {contains: TODO}`. Rules are deterministic and free; an
output that a rule cannot read fails with a reason.

- `~rule` or `not_(rule)` negates. A missing output fails both; a missing field fails
  `field(path, ~rule)`, but passes `~field(path, rule)`. An empty text is judged as it is, so
  `not: {contains: x}` passes: add `min_chars: 1` if there must be text.
- `expected("path")` inserts a value of the case's `expected` into any parameter.
- `rubric`, `verified_claims`, `panel`, `pairwise` and `deepeval` are
  [LLM judges](../how-to/use-an-llm-judge.md), advisory until calibrated.
- `in_turn` and `each_turn` apply a judge to [turns of a
  conversation](../how-to/test-a-conversation.md); judges of tool calls see the calls of all turns.
- Every failure has a stable `code`, listed after "Fails". Every rule also has `no_text`,
  `refused`, `json_invalid`, `missing_field`, `null_field` and, when negated, `not_<judge>`.
  Counts take `at_least`, `at_most` and `exactly`, shown as `...`, and fail as `too_few` or
  `too_many`.
"""


def judge_page() -> str:
    """The page of regauge's own judges, by chapters."""
    order = list(dict.fromkeys(_CHAPTERS.values()))
    kinds = judge_kinds().items()
    judges = sorted(
        (describe(name, kind) for name, kind in kinds),
        key=lambda judge: (order.index(_CHAPTERS[judge.group]), judge.name),
    )
    common = _shared_parameters(judges)
    parts = [_HEAD, _criteria(judges), _shared_table(common)]
    chapter = ""
    shown = True
    for judge in judges:
        if _CHAPTERS[judge.group] != chapter:
            chapter, shown = _CHAPTERS[judge.group], False
            parts.append(f"\n## {chapter}\n{_AS_LIST.get(judge.group, '')}")
        if judge.group == "ifeval":
            parts.append(f"- `{judge.name}{judge.form.replace(_BOUNDS, '...')}`: {judge.summary}\n")
            continue
        parts.append(_judge_entry(judge, common=common))
        # One example per chapter; those that end in a verdict show most.
        if not shown and "print(" in judge.example:
            parts.append(f"\n```python\n{judge.example}\n\n```\n")
            shown = True
    return "".join(parts)


def _shared_parameters(judges: Iterable[JudgeDescription]) -> dict[str, str]:
    """Parameters that many judges share, each with its usual description."""
    texts: dict[str, Counter[str]] = {}
    for judge in judges:
        for parameter in judge.parameters:
            texts.setdefault(parameter.name, Counter())[parameter.text] += 1
    usual = {name: counted.most_common(1)[0] for name, counted in texts.items()}
    return {name: text for name, (text, count) in usual.items() if count >= _COMMON_FROM}


def _shared_table(common: dict[str, str]) -> str:
    shown = [(name, text) for name, text in sorted(common.items()) if not _is_evident(text)]
    lines = [f"- `{name}`: {text}" for name, text in shown]
    return "\nShared parameters, which entries below omit:\n\n" + "\n".join(lines) + "\n"


def _is_evident(text: str) -> bool:
    """Return whether a description only repeats the name, as `The tools.`."""
    return len(text.split()) <= _EVIDENT_WORDS and "`" not in text


def _criteria(judges: Iterable[JudgeDescription]) -> str:
    """The criterion of each rule, with the most frequent one stated as the rest."""
    rules: dict[str, list[str]] = {}
    for judge in judges:
        if judge.criterion:
            rules.setdefault(judge.criterion, []).append(f"`{judge.name}`")
    rest = max(rules, key=lambda criterion: len(rules[criterion]))
    lines = [
        f"  - {criterion}: {', '.join(names)}"
        for criterion, names in rules.items()
        if criterion != rest
    ]
    return (
        "- Each judge counts under one criterion, which refinement reports and "
        "[goals](../how-to/fix-a-prompt.md#set-goals)\n  use; "
        f"`.with_criterion('completeness')` sets another. Rules count under {rest}, "
        "functions under correctness, except:\n" + "\n".join(lines) + "\n"
    )


def _judge_entry(judge: JudgeDescription, *, common: dict[str, str]) -> str:
    form = judge.form.replace(_BOUNDS, "...")
    codes = () if judge.codes == _COUNT_CODES else judge.codes
    end = f" Fails: {', '.join(f'`{code}`' for code in codes)}." if codes else ""
    extra = judge.install.removeprefix("pip install ").strip("'")
    extra = f" Needs `{extra}`." if extra else ""
    text = " ".join(filter(None, (judge.summary, judge.text.replace("\n\n", " "))))
    lines = [
        f"\n### {judge.name}\n",
        f"`{judge.name}{form}`\n",
        f"{text}{end}{extra}",
    ]
    rows = [
        f"- `{parameter.name}`: {parameter.text}"
        for parameter in judge.parameters
        if common.get(parameter.name) != parameter.text and not _is_evident(parameter.text)
    ]
    return "\n".join([*lines, *(["", *rows] if rows else [])]) + "\n"


def options() -> str:
    """The options that the plugin adds to pytest."""
    parser = _Options()
    pytest_plugin.pytest_addoption(parser)  # type: ignore[arg-type]  # a substitute
    return "".join(f"- `{name}`: {text}\n" for name, text in parser.rows)


class _Options:
    """A substitute of pytest's parser that records the added options."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []

    def getgroup(self, name: str, description: str) -> _Options:
        del name, description
        return self

    def addoption(self, name: str, **details: Any) -> None:
        value = details.get("metavar") or "|".join(details.get("choices", ()))
        self.rows.append((f"{name} {value}".rstrip(), details["help"]))


def fields(
    path: str, *, none: str, omit: Iterable[str] = (), defaults: bool = True, **more: str
) -> str:
    """The fields of a pydantic model.

    Args:
        path: `module:Class`.
        none: The word for Python's None in files.
        omit: Fields that the page describes elsewhere.
        defaults: Show default values.
        **more: Texts of fields, instead of the model's.
    """
    model = _found(path)
    texts = {
        name: re.sub(r"\bNone( means)?\b", none, text) for name, text in _attributes(model).items()
    } | more
    lines: list[str] = []
    plain: list[str] = []
    for name in (name for name in model.model_fields if name not in set(omit)):
        default = _default(model, name) if defaults else ""
        details = f"{_kind(model, name)}, default {default}" if default else _kind(model, name)
        if name in texts:
            lines.append(f"- `{name}` ({details}): {texts[name]}")
        else:
            plain.append(f"`{name}` ({details})")
    if plain:
        lines.append(f"- {', '.join(plain)}")
    return "\n".join(lines) + "\n"


def errors() -> str:
    """The tree of exceptions with their exit codes."""
    rows: list[str] = []
    pending: list[tuple[type[RegaugeError], int]] = [(RegaugeError, 0)]
    while pending:
        kind, depth = pending.pop()
        below = sorted(kind.__subclasses__(), key=lambda one: one.__name__, reverse=True)
        pending += [(one, depth + 1) for one in below if one.__module__ == "regauge.errors"]
        rows.append(f"{'  ' * depth}- `{kind.__name__}` ({kind.exit_code}): {_summary(kind)}\n")
    return "".join(rows)


def hooks() -> str:
    """The hooks that other plugins may implement, in the order of a run."""
    lines: list[str] = []
    for name, hook in vars(hookspecs).items():
        if name.startswith("pytest_"):
            arguments = ", ".join(inspect.signature(hook).parameters)
            text = " ".join((inspect.getdoc(hook) or "").removeprefix("Called ").split())
            lines.append(f"- `{name}({arguments})`: {text}")
    return "\n".join(lines)


# Members that only regauge itself uses.
_INTERNAL = {
    "Completion": {"to_json", "from_json"},
    "CompletionRequest": {
        *("origin", "named_by", "response_model", "files", "conversation", "optional"),
        *("case", "for_trial"),
    },
    "Dataset": {"fixtures_dir", "shard", "left_out", "size"},
    "EvalResult": {"eval", "where"},
    "GoldenCase": {"golden", "licence", "script"},
    "Message": {"to_json", "parts"},
    "Prompt": {
        *("tool_files", "lines", "replaceable", "evaluators", "test_data", "source"),
        *("id", "inputs_in"),
    },
    "RegaugeError": {"regauge_words"},
    "Usage": {"to_json"},
}


def names(module: str) -> str:
    """The public names of a module, with parameters or attributes; exceptions come last."""
    package = importlib.import_module(module)
    parts: list[str] = []
    exceptions: list[str] = []
    for name in sorted(package.__all__, key=str.lower):
        value = getattr(package, name)
        if inspect.isclass(value) and issubclass(value, Exception):
            lines = _exception_lines(value)
            exceptions += [f"- `{name}`", *lines] if lines else []
            continue
        doc = inspect.getdoc(value) or ""
        if inspect.isclass(value):
            parts.append(f"## {name}\n\n{_markdown(doc.partition('Attributes:')[0].strip())}\n")
            parts += [f"{line}\n" for line in _members(value)]
        else:
            code = f"```text\n{name}{_signature(value)}\n```"
            parts.append(f"## {name}\n\n{code}\n\n{_markdown(doc)}\n")
    return "\n".join(
        [
            *parts,
            "## Exceptions\n\n[All exceptions](exit-codes.md#exceptions). Some have attributes:\n",
            *exceptions,
        ]
    )


def _exception_lines(value: type) -> list[str]:
    """The attributes of an exception."""
    internal = _INTERNAL.get(value.__name__, set())
    texts = _attributes(value).items()
    return [f"  - `{name}`: {text}" for name, text in texts if name not in internal]


def _members(value: type) -> Iterator[str]:
    """The attributes, properties and methods of a class, one line each."""
    lines: list[str] = []
    texts = _attributes(value)
    internal = _INTERNAL.get(value.__name__, set())
    stated: dict[str, Any] = getattr(value, "__dataclass_fields__", {})
    plain: list[str] = []
    for name, field in stated.items():
        if name.startswith("_") or name in internal:
            continue
        if name in texts:
            required = field.init and field.default is field.default_factory
            kind = f"`{field.type}`{', required' if required else ''}"
            lines.append(f"- `{name}` ({kind}): {texts[name]}")
        else:
            plain.append(f"`{name}` (`{field.type}`)")
    if plain:
        lines.append(f"- {', '.join(plain)}")
    for name, member in vars(value).items():
        if name.startswith("_") or name in stated or name in internal:
            continue
        if isinstance(member, property) or type(member).__name__ == "cached_property":
            lines.append(f"- `{name}`: {_summary(member)}")
        elif callable(getattr(value, name)):
            form = _signature(getattr(value, name)).replace("(self, ", "(").replace("(self)", "()")
            lines.append(f"- `{name}{form}`: {_summary(getattr(value, name))}")
    if lines:
        yield "\n".join(lines)


def _signature(value: Any) -> str:
    signature = inspect.signature(value)
    bare = [
        one.replace(annotation=_Bare(one.annotation)) if one.annotation is not one.empty else one
        for one in signature.parameters.values()
    ]
    returns = _Bare(signature.return_annotation)
    text = str(signature.replace(parameters=bare, return_annotation=returns))
    return re.sub(r"<factory>|mappingproxy\(\{\}\)", "...", text)


class _Bare:
    """An annotation as in the source, without quotes."""

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
    """The attributes of a class, each with the text of its docstring."""
    _, _, block = (inspect.getdoc(model) or "").partition("Attributes:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", block, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def _kind(model: type[BaseModel], name: str) -> str:
    schema = model.model_json_schema()["properties"][name]
    return _code(_type(schema))


def _type(schema: dict[str, Any]) -> str:
    kind: str = schema.get("type", "any JSON")
    if "anyOf" in schema:
        kind = "|".join(_type(one) for one in schema["anyOf"] if one.get("type") != "null")
    elif "enum" in schema:
        kind = "|".join(f'"{value}"' for value in schema["enum"])
    elif "const" in schema:
        value = schema["const"]
        kind = f'"{value}"' if isinstance(value, str) else str(value)
    elif "$ref" in schema:
        kind = "table"
    elif kind == "array":
        kind = f"[{_type(schema['items'])}]"
    elif kind == "object":
        inner = schema.get("additionalProperties")
        kind = f"{{{_type(inner)}}}" if isinstance(inner, dict) and inner else "table"
    elif kind in {"number", "integer"}:
        kind += _range(schema)
    return kind


def _range(schema: dict[str, Any]) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    if "minimum" in schema and "maximum" in schema:
        return f" {schema['minimum']}-{schema['maximum']}"
    bounds = [f"{sign}{schema[name]}" for name, sign in signs.items() if name in schema]
    return " " + ", ".join(bounds) if bounds else ""


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
