"""Prompts in files with YAML front matter, and the case of their sample inputs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import Fault, FaultyFileError, UsageError
from regauge.importers._source import SourceError, is_mapping, mapping_of, place_of
from regauge.importers._suite import Row, literal
from regauge.importers._templates import TemplateError, render, split_template, variables_of
from regauge.importers.promptfoo._context import Context
from regauge.importers.promptfoo._models import model_id, prompt_parameters
from regauge.wording import cut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.digests import JSON
    from regauge.importers._description import Place
    from regauge.importers._suite import Suite

__all__ = [
    "FilePrompt",
    "Input",
    "add_prompt",
    "read_front_matter",
    "read_reference",
    "refused",
    "set_model",
    "set_schema",
]

_SHOWN_MAX: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """The declaration of an input."""

    description: str = ""
    default: Any = None
    required: bool = True


@dataclass(slots=True, kw_only=True)
class FilePrompt:
    """A prompt as its file has it.

    Attributes:
        document: Keys of a prompt file, without messages and inputs.
        messages: Roles with their templates in Jinja; the role `history` with an input.
        inputs: By name.
        values: The sample inputs.
        front: The front matter.
    """

    name: str
    place: Place
    document: dict[str, JSON] = field(default_factory=dict[str, "JSON"])
    messages: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    inputs: dict[str, Input] = field(default_factory=dict[str, Input])
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    front: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def at(self, *keys: str) -> Place:
        """The line of the first of these keys that the front matter has."""
        key = next((one for one in keys if one in self.front), None)
        return place_of(self.front, key, otherwise=self.place) if key else self.place


def read_front_matter(file: Path, suite: Suite) -> tuple[Mapping[str, Any], str]:
    """The front matter of a file, and the text below it.

    Raises:
        FaultyFileError: It is no YAML, no mapping, or has no end.
        SourceError: The file cannot be read.
    """
    shown = suite.repository.relative(file)
    lines = suite.repository.read_text(file).split("\n")
    if lines[0].rstrip() != "---":
        return {}, "\n".join(lines)
    end = next((n for n, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), 0)
    text = "\n".join(["", *lines[1:end]])
    document = suite.repository.read_yaml(file, text) if end else None
    if not end or not (document is None or is_mapping(document)):
        message = "its front matter is no mapping" if end else "its front matter has no end"
        fix = "write `key: value` lines between two lines `---`"
        raise FaultyFileError([Fault(path=Path(shown), line=1, message=message, fix=fix)])
    return mapping_of(document), "\n".join(lines[end + 1 :])


def set_model(
    prompt: FilePrompt, name: str, config: Mapping[str, Any], file: Path, suite: Suite
) -> None:
    """Set the model, its parameters, the form of the output and the tools.

    Args:
        name: As in configurations of promptfoo, such as `azure:gpt-4o`.
        config: As there: `apiHost`, `apiKey`, `temperature`, `response_format` and others.
    """
    context = Context(suite, file)
    if name and (model := model_id(name, config, context, prompt.at("model"))):
        prompt.document["model"] = model
    elif name:
        text = f"the model {name} has no counterpart: set `model`"
        suite.imported.note("person", prompt.at("model"), text)
    prompt.document.update(prompt_parameters(config, context, prompt.at("config", "model")))


def set_schema(prompt: FilePrompt, schema: Any, suite: Suite) -> None:
    """Set the schema of the output; one that is no object is left out."""
    body = mapping_of(schema)
    inner = mapping_of(body.get("schema", body))
    if inner.get("type") == "object" or "properties" in inner:
        prompt.document["responseFormat"] = "json_schema"
        name = body.get("name")
        named = name if isinstance(name, str) and "schema" in body else "answer"
        prompt.document["jsonSchema"] = {
            "name": re.sub(r"\W+", "_", named, flags=re.ASCII)[:64],
            "schema": cast("JSON", inner),
        }
        return
    prompt.document["responseFormat"] = "json_object"
    text = "the schema of the output is elsewhere, or no object: write `jsonSchema`"
    suite.imported.note("person", prompt.at("output"), text)


def add_prompt(prompt: FilePrompt, suite: Suite) -> None:
    """Add a prompt, and a golden case where there are sample inputs.

    Raises:
        UsageError: Its template uses what no prompt file has.
    """
    try:
        messages, used, derived = _split(prompt.messages)
        cases = {key: render(part, prompt.values) for key, part in derived.items()}
    except TemplateError as error:
        raise refused(prompt.place, error) from error
    imported = suite.imported
    for key, part in derived.items():
        shown = cut(" ".join(part.split()), _SHOWN_MAX)
        text = f"`{shown}` became the input {key}, which each case gives as text"
        imported.note("changed", prompt.place, text)
    document = dict(prompt.document)
    if declared := [_declared(key, prompt.inputs[key]) for key in used if key in prompt.inputs]:
        others = [{"name": key} for key in used if key not in prompt.inputs]
        document["inputs"] = cast("JSON", [*declared, *others])
    judges: Sequence[JSON] = ()
    if "jsonSchema" in document:
        judges = [suite.check({"json_matches_schema": {}}, "output schema", prompt.place)]
    values = {**cases, **prompt.values}
    row = Row(place=prompt.place, inputs={k: values[k] for k in used if k in values})
    rows = [row] if prompt.values or not used else []
    if not rows:
        text = f"it has no sample inputs: write fixtures/golden/{prompt.name}.jsonl and an eval"
        imported.note("person", prompt.place, text)
    else:
        judges = suite.scored(prompt.name, rows, judges)
    suite.add_eval(prompt.name, rows, messages=messages, document=document, judges=judges)


def _split(
    given: Sequence[tuple[str, str]],
) -> tuple[list[dict[str, JSON]], list[str], dict[str, str]]:
    """The messages, the inputs that they insert, and the templates of those to compute."""
    messages: list[dict[str, JSON]] = []
    used: dict[str, None] = {}
    derived: dict[str, str] = {}
    for role, template in given:
        if role == "history":
            messages.append({"history": template})
            used[template] = None
            continue
        split = split_template(template, prefix=f"part{len(messages) + 1}")
        text = split.text
        for key, part in split.derived.items():
            if variables_of(part):
                derived[key] = part
            else:
                text = text.replace(f"{{{{{key}}}}}", literal(render(part, {})))
        messages.append({"role": role, "content": text})
        names = [*sorted(split.names), *(key for key in split.derived if key in derived)]
        used.update(dict.fromkeys(names))
    if not messages:
        raise TemplateError("it has no message")
    return messages, list(used), derived


def _declared(name: str, one: Input) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name}
    if one.description:
        entry["description"] = one.description
    if one.default is not None:
        entry["default"] = one.default
    elif not one.required:
        entry["required"] = False
    return entry


def read_reference(reference: str, file: Path, suite: Suite) -> Any:
    """The document of a file that a prompt refers to.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        return suite.repository.read_yaml(suite.repository.resolve(reference, file.parent))
    except (SourceError, FaultyFileError) as error:
        shown = suite.repository.relative(file)
        fix = "name a JSON or YAML file of its repository"
        raise UsageError(f"{shown}: {error}", fix=fix) from error


def refused(place: Place, error: TemplateError) -> UsageError:
    """The error of a template that no prompt file can hold."""
    return UsageError(
        f"{place}: its template cannot be imported: {error}",
        fix="simplify it, or write the prompt by hand: regauge new prompt",
    )
