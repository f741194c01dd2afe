"""The keys of a prompt file that describe it: version, inputs, changelog, rows, evaluators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from regauge.prompts._semver import Semver
from regauge.prompts._template import NAME
from regauge.prompts._types import Acknowledgement, ChangelogEntry, Evaluator, InputSpec
from regauge.prompts._yaml import is_scalar, line_of, scalar_tag

if TYPE_CHECKING:
    from regauge.digests import JSON
    from regauge.prompts._reader import Entries, Reader

__all__ = ["read_changelog", "read_evaluators", "read_inputs", "read_test_data", "read_version"]

_INPUT_KEYS = ("name", "description", "required", "default")
_INPUT_FIX = "write `- name: document` and, if you like, description, required and default"
_CHANGELOG_TEXTS = ("version", "date", "text")
_ACKNOWLEDGED = ("accepted", "removed")
_CHANGELOG_KEYS = (*_CHANGELOG_TEXTS, *_ACKNOWLEDGED)
_ACKNOWLEDGED_FIX = "write `- case: ID` and below it `reason: WHY`"
_CHANGELOG_FIX = "write `- version: 1.1.0`, below it `text:` and, if you like, `date:`"


def read_version(reader: Reader, node: yaml.Node) -> Semver | None:
    """The version; None where it is null or, with a fault noted, no version."""
    if scalar_tag(node) == "null":
        return None
    text = reader.text(node, "version", "write a version such as 1.0.0")
    if text is None:
        return None
    try:
        return Semver.parse(text)
    except ValueError:
        padded = text + ".0" * (2 - text.count("."))
        fix = f"write {padded}" if _is_version(padded) else "write three numbers, such as 1.0.0"
        reader.fault(node, f"version {text!r} is no semantic version", fix)
        return None


def read_inputs(
    reader: Reader, node: yaml.Node, lines: dict[str, int]
) -> tuple[InputSpec, ...] | None:
    """The declared inputs: a list of names or of mappings, or a mapping by name."""
    if scalar_tag(node) == "null":
        return None
    specs: dict[str, InputSpec] = {}
    for name, item, body in _declared(reader, node):
        if name is None:
            continue
        if not NAME.fullmatch(name):
            reader.fault(item, f"{name!r} cannot be the name of an input", "use letters, digits, _")
        elif name in specs:
            reader.fault(item, f"inputs declares {name!r} twice")
        else:
            specs[name] = _input_spec(reader, name, item, body)
            lines[f"inputs.{name}"] = line_of(item)
    return tuple(specs.values())


def read_changelog(reader: Reader, node: yaml.Node) -> tuple[ChangelogEntry, ...]:
    """What the file says about its versions, in its order."""
    found: list[ChangelogEntry] = []
    for item in reader.items(node, "changelog", _CHANGELOG_FIX):
        entries = reader.mapping(item, "an entry of changelog", _CHANGELOG_FIX)
        if entries is None:
            continue
        reader.unknown(entries, _CHANGELOG_KEYS, "an entry of changelog")
        missing = [key for key in ("version", "text") if key not in entries]
        if missing:
            reader.fault(item, f"an entry of changelog has no {missing[0]!r}", _CHANGELOG_FIX)
            continue
        values = {
            key: reader.text(value, f"changelog {key}")
            for key, (_, value) in entries.items()
            if key in _CHANGELOG_TEXTS
        }
        accepted, removed = (
            _acknowledged(reader, entries[key][1], key) if key in entries else ()
            for key in _ACKNOWLEDGED
        )
        version, text = values["version"], values["text"]
        if version is not None and not _is_version(version):
            reader.fault(item, f"changelog version {version!r} is no semantic version")
        elif version is not None and any(entry.version == version for entry in found):
            reader.fault(item, f"changelog has version {version} twice")
        elif version is not None and text is not None:
            date = values.get("date") or ""
            found.append(
                ChangelogEntry(
                    version=version,
                    text=text.strip(),
                    date=date,
                    accepted=accepted,
                    removed=removed,
                )
            )
    return tuple(found)


def _acknowledged(reader: Reader, node: yaml.Node, key: str) -> tuple[Acknowledgement, ...]:
    """The cases an entry speaks of, each with a reason; one alone needs no list."""
    alone = isinstance(node, yaml.MappingNode)
    items = [node] if alone else reader.items(node, f"changelog {key}", _ACKNOWLEDGED_FIX)
    found: dict[str, Acknowledgement] = {}
    for item in items:
        what = f"a case of changelog {key}"
        entries = reader.mapping(item, what, _ACKNOWLEDGED_FIX)
        if entries is None:
            continue
        reader.unknown(entries, ("case", "reason"), what)
        texts = {
            name: (reader.text(entries[name][1], f"{name} of {what}") or "").strip()
            for name in ("case", "reason")
            if name in entries
        }
        missing = [name for name in ("case", "reason") if not texts.get(name)]
        if missing:
            reader.fault(item, f"{what} has no {missing[0]!r}", _ACKNOWLEDGED_FIX)
        elif texts["case"] in found:
            reader.fault(item, f"changelog {key} has case {texts['case']!r} twice")
        else:
            found[texts["case"]] = Acknowledgement(**texts, line=line_of(item))
    return tuple(found.values())


def read_test_data(reader: Reader, node: yaml.Node) -> tuple[dict[str, JSON], ...]:
    """The rows of `testData`."""
    rows: list[dict[str, JSON]] = []
    for item in reader.items(node, "testData", "write `- input: ...` for each row"):
        row = reader.json(item, "testData")
        if isinstance(row, dict):
            rows.append(row)
        elif isinstance(item, yaml.MappingNode):
            continue
        else:
            reader.fault(item, "a row of testData must be a mapping")
    return tuple(rows)


def read_evaluators(reader: Reader, node: yaml.Node) -> tuple[Evaluator, ...]:
    """The evaluators, unjudged: a name, and one further key that says what it is."""
    found: list[Evaluator] = []
    for item in reader.items(node, "evaluators", "write `- name: ...` for each evaluator"):
        entries = reader.mapping(item, "an evaluator", "write `- name: ...`")
        if entries is None:
            continue
        kinds = [key for key in entries if key != "name"]
        name = (
            reader.text(entries["name"][1], "the name of an evaluator") if "name" in entries else ""
        )
        if len(kinds) != 1:
            keys = ", ".join(kinds) or "nothing"
            message = f"an evaluator says what it is by one key beside `name`, not by {keys}"
            reader.fault(item, message, "keep one of `string`, `judge`, `llm` and `uses`")
        elif name is not None:
            body = reader.json(entries[kinds[0]][1], f"evaluator {name!r}")
            found.append(Evaluator(name=name, kind=kinds[0], body=body, line=line_of(item)))
    return tuple(found)


def _declared(
    reader: Reader, node: yaml.Node
) -> list[tuple[str | None, yaml.Node, Entries | str | None]]:
    """Name, node and body of every declared input; a text as the body is its description."""
    found: list[tuple[str | None, yaml.Node, Entries | str | None]] = []
    if isinstance(node, yaml.MappingNode):
        for name, (key, value) in reader.entries(node, "inputs").items():
            if is_scalar(value):
                text = (
                    None if scalar_tag(value) == "null" else reader.text(value, f"input {name!r}")
                )
                found.append((name, key, text))
            else:
                found.append((name, key, reader.mapping(value, f"input {name!r}", _INPUT_FIX)))
        return found
    for item in reader.items(node, "inputs", _INPUT_FIX):
        if is_scalar(item):
            found.append((reader.text(item, "an input", _INPUT_FIX), item, None))
            continue
        entries = reader.mapping(item, "an input", _INPUT_FIX)
        if entries is not None and "name" not in entries:
            reader.fault(item, "an input has no 'name'", _INPUT_FIX)
        elif entries is not None:
            found.append((reader.text(entries["name"][1], "the name of an input"), item, entries))
    return found


def _input_spec(
    reader: Reader, name: str, item: yaml.Node, body: Entries | str | None
) -> InputSpec:
    if body is None or isinstance(body, str):
        return InputSpec(name=name, description=body or "")
    what = f"input {name!r}"
    reader.unknown(body, _INPUT_KEYS, what)
    description: str | None = ""
    if "description" in body:
        description = reader.text(body["description"][1], f"the description of {what}")
    default = (
        reader.json(body["default"][1], f"the default of {what}") if "default" in body else None
    )
    required: JSON = default is None
    if "required" in body:
        required = reader.json(body["required"][1], f"`required` of {what}")
        if not isinstance(required, bool):
            reader.fault(body["required"][1], f"`required` of {what} must be true or false")
        elif required and default is not None:
            reader.fault(item, f"{what} is required and has a default", "keep one of the two")
    return InputSpec(
        name=name, description=description or "", required=bool(required), default=default
    )


def _is_version(text: str) -> bool:
    try:
        Semver.parse(text)
    except ValueError:
        return False
    return True
