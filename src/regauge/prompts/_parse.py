"""Parses prompt files, and reports all errors of a file together."""

from __future__ import annotations

import json
import shlex
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    TypeAlias,
    cast,
    get_args,
    get_origin,
)

import yaml

from regauge.errors import Diagnostic, PromptError
from regauge.files import read_regular
from regauge.prompts._keys import (
    OWN_KEYS,
    PARAMETER_ALIASES,
    AcknowledgementKeys,
    ChangelogKeys,
    FormatKeys,
    FormatName,
    HistoryKeys,
    InputKeys,
    MessageKeys,
    NamedInputKeys,
    ParameterKeys,
    PromptKeys,
)
from regauge.prompts._prompt import Prompt
from regauge.prompts._replaceable import read_replaceable
from regauge.prompts._tools import read_message_extras, read_rubric, read_tool_choice, read_tools
from regauge.prompts._types import (
    NAME,
    Acknowledgement,
    ChangelogEntry,
    Evaluator,
    InputSpec,
    Message,
    Role,
    Semver,
    compile_template,
    placeholder_lines,
    template_warnings,
)
from regauge.strict_json import refuse_constant, unique
from regauge.wording import did_you_mean, snake_case
from regauge.yaml_document import (
    KeyType,
    NodeReader,
    YamlError,
    compose_document,
    line_of,
    scalar_tag,
    types_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.yaml_document import Entries

ReadCommitted: TypeAlias = "Callable[[str], bytes | None]"
"""Reads a file next to a prompt in a commit, by its name; None for no such file."""

# The limit of a prompt file, too.
_TOOLS_BYTES_MAX = 1024 * 1024
_TEXT_TAGS = frozenset({"str", "int", "float", "bool", "merge"})


class Reader(NodeReader):
    """Reads the nodes of one file, and collects its errors.

    Args:
        text: The text of the file.
        path: The path of the file, for errors.
        committed: As for `parse_prompt`.

    Raises:
        PromptError: The text is not one YAML mapping.

    Attributes:
        source: The text of the file.
        root: The mapping of the file, with marks that index the text.
        lines: The lines of places, as in `Prompt`.
        errors: The errors, in order.
        warnings: The warnings, in order.
    """

    # No prompt has this many values.
    values_max: ClassVar[int] = 100_000

    def __init__(self, text: str, path: Path, committed: ReadCommitted | None = None) -> None:
        super().__init__()
        try:
            root = compose_document(text)
        except YamlError as error:
            raise PromptError.at_place(path, str(error), fix=error.fix, line=error.line) from error
        if not isinstance(root, yaml.MappingNode):
            line, problem = 1, "the file is empty"
            fix = "write at least `messages:` with one message"
            if root is not None:
                line, problem = line_of(root), "a prompt file is a mapping of keys"
                fix = "start with keys such as `model:` and `messages:`"
            raise PromptError.at_place(path, problem, fix, line=line)
        self.source = text
        self.root = root
        self.path = path
        self._committed = committed
        self.lines: dict[str, int] = {}
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []

    def add_error(self, node: yaml.Node, message: str, fix: str = "") -> None:
        """Add an error about a node."""
        self.add_error_at(line_of(node), message, fix)

    def add_error_at(self, line: int, message: str, fix: str = "") -> None:
        """Add an error about a line."""
        self.errors.append(Diagnostic(path=self.path, line=line, message=message, fix=fix))

    def add_warning(self, line: int, message: str, fix: str = "") -> None:
        """Add a warning about a line."""
        self.warnings.append(Diagnostic(path=self.path, line=line, message=message, fix=fix))

    def mapping(self, node: yaml.Node, subject: str, fix: str = "") -> Entries | None:
        """The entries of a mapping; None, with an error, for another node."""
        if isinstance(node, yaml.MappingNode):
            return self.entries(node, subject)
        self.add_error(node, f"{subject} must be a mapping of keys, not {kind_of(node)}", fix)
        return None

    def items(self, node: yaml.Node, subject: str, fix: str = "") -> list[yaml.Node]:
        """The items of a list; null is an empty list, another node an error."""
        if isinstance(node, yaml.SequenceNode):
            self.refuse_tag(node, "seq", subject)
            return list(node.value)
        if scalar_tag(node) != "null":
            self.add_error(node, f"{subject} must be a list, not {kind_of(node)}", fix)
        return []

    def text(self, node: yaml.Node, subject: str, fix: str = "") -> str | None:
        """The text of a scalar as written, even of a number; None, with an error, otherwise."""
        if isinstance(node, yaml.ScalarNode) and scalar_tag(node) in _TEXT_TAGS:
            return str(node.value)
        if isinstance(node, yaml.MappingNode) and node.flow_style:
            fix = "quote the text: braces outside quotes are a mapping"
        self.add_error(node, f"{subject} must be a text, not {kind_of(node)}", fix)
        return None

    def word(
        self, node: yaml.Node, subject: str, words: Sequence[str], *, noun: str, fix: str = ""
    ) -> str | None:
        """A text that is one of some words; None, with an error, for another node.

        Args:
            node: The node.
            subject: Its name in errors.
            words: The allowed words.
            noun: The noun in the error for an unknown word.
            fix: The fix in errors; by default the list of words.
        """
        text = self.text(node, subject, fix)
        if text is None or text in words:
            return text
        fix = did_you_mean(text, words) or fix or f"write one of {', '.join(words)}"
        self.add_error(node, f"{noun} {text!r} is unknown", fix)
        return None

    def flag(self, node: yaml.Node, subject: str) -> bool | None:
        """A boolean; None, with an error, for another node."""
        value = self.json(node, subject)
        if isinstance(value, bool):
            return value
        self.add_error(node, f"{subject} must be true or false")
        return None

    def number(self, node: yaml.Node, key_type: KeyType, subject: str) -> float | None:
        """A number of a type; None, with an error, for another node."""
        errors = len(self.errors)
        value = self.json(node, subject)
        problem = key_type.problem(value)
        if problem and len(self.errors) == errors:
            self.add_error(node, f"{subject} must be {problem}")
        return None if problem else cast("float", value)

    def read(self, node: yaml.Node, keys: type, subject: str, fix: str = "") -> dict[str, Any]:
        """Read a mapping: its valid values, with errors for the rest and for missing keys.

        Args:
            node: The node.
            keys: The declaration of the keys, in `_keys`. Texts, flags, numbers and words are
                read; any other value stays a node.
            subject: The name of the mapping in errors.
            fix: The fix for a missing key, or another node.
        """
        entries = self.mapping(node, subject, fix)
        if entries is None:
            return {}
        types = types_of(keys)
        self.unknown(entries, types, subject)
        for name in (name for name, key_type in types.items() if key_type.required):
            if name not in entries:
                self.add_error(node, f"{subject} has no {name!r}", fix)
        values: dict[str, Any] = {}
        for name in (name for name in entries if name in types):
            value: Any = entries[name][1]
            kind, part = types[name].kind, f"`{name}` of {subject}"
            if get_origin(kind) is Literal:
                value = self.word(value, part, get_args(kind), noun=f"`{name}`")
            elif kind is str:
                value = self.text(value, part)
            elif kind is bool:
                value = self.flag(value, part)
            elif kind in {int, float}:
                value = self.number(value, types[name], part)
            if value is not None:
                values[name] = value
        return values

    def unknown(self, entries: Entries, names: Iterable[str], subject: str) -> None:
        """Add an error for each unknown key."""
        names = tuple(names)
        for name, (key, _) in entries.items():
            if name not in names:
                message = f"{subject} has no key {name!r}"
                fix = did_you_mean(name, names) or f"known keys: {', '.join(names)}"
                if self._committed is not None:
                    self.add_warning(line_of(key), f"{message}; it is ignored", fix)
                else:
                    self.add_error(key, message, fix)

    def read_sibling(self, name: str) -> str:
        """Read a file below the folder of the prompt.

        Raises:
            ValueError: It is outside, not in the commit, or not UTF-8.
            OSError: It cannot be read.
        """
        if self._committed is not None:
            data = self._committed(name)
            if data is None:
                raise ValueError("the commit has no such file")
        else:
            folder = self.path.parent.resolve()
            inner = (folder / name).resolve()
            if not inner.is_relative_to(folder):
                raise ValueError("it is a link that leaves the folder of the prompt")
            data = read_regular(inner, bytes_max=_TOOLS_BYTES_MAX)
        return data.decode("utf-8-sig")


def kind_of(node: yaml.Node) -> str:
    """The kind of a node, for error messages."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    names = {"str": "a text", "int": "a number", "float": "a number", "bool": "a boolean"}
    return (
        "nothing" if scalar_tag(node) == "null" else names.get(scalar_tag(node), "a tagged value")
    )


# Parameters of a run, not of a prompt.
_RUN_PARAMETERS = {"n": "use `--trials`", "stream": "remove it"}


def read_parameters(reader: Reader, node: yaml.Node) -> dict[str, JSON] | None:
    """Read the parameters, by their snake_case names; None if the node is not a mapping.

    An unknown parameter keeps its spelling, with a warning.
    """
    entries = reader.mapping(node, "modelParameters", "write `temperature: 0` and such below it")
    if entries is None:
        return None
    parameters: dict[str, JSON] = {}
    spelled: dict[str, str] = {}
    for key_text, (key, value_node) in entries.items():
        name = snake_case(key_text)
        name = PARAMETER_ALIASES.get(name, name)
        value = reader.json(value_node, f"modelParameters.{key_text}")
        if name in _RUN_PARAMETERS:
            reader.add_warning(
                line_of(key), f"modelParameters.{key_text} is ignored", _RUN_PARAMETERS[name]
            )
            continue
        if name in OWN_KEYS:
            problem_text = f"modelParameters.{key_text} would replace that of the prompt"
            reader.add_error(key, problem_text, f"write it under the key `{OWN_KEYS[name]}`")
            continue
        if name not in types_of(ParameterKeys):
            fix = did_you_mean(key_text, types_of(ParameterKeys)) or "check the provider's spelling"
            problem_text = f"modelParameters.{key_text} is not a known parameter; it is sent as is"
            reader.add_warning(line_of(key), problem_text, fix)
            name = key_text
        elif value is None:
            continue
        elif problem := types_of(ParameterKeys)[name].problem(value):
            problem_text = f"modelParameters.{key_text} must be {problem}, not {value!r}"
            reader.add_error(
                value_node, problem_text, f"write `{key_text}: {_EXAMPLES.get(name, 0)}` or so"
            )
            continue
        if name in parameters and parameters[name] != value:
            conflict = f"{spelled[name]} and {key_text} are one parameter with two values"
            reader.add_error(key, f"modelParameters: {conflict}", "keep one of them")
            continue
        parameters[name] = value
        spelled[name] = key_text
        reader.lines[f"modelParameters.{name}"] = line_of(key)
    return parameters


_EXAMPLES = {
    "temperature": 0.7,
    "top_p": 0.9,
    "max_tokens": 500,
    "stop": '["END"]',
    "reasoning_effort": "low",
    "verbosity": "low",
    "service_tier": "default",
}


_FORMATS: tuple[FormatName, ...] = get_args(FormatName)
_SCHEMA_NAME = "answer"
_ADD_SCHEMA = "add `jsonSchema:` with the schema of the output"


def read_response_format(reader: Reader, entries: Entries) -> dict[str, JSON] | None:
    """Read the response format from the top-level keys; None for plain text."""
    kind, own_schema = _read_format(reader, entries)
    schema_key, schema_node = entries.get("jsonSchema", (None, None))
    if kind != "json_schema":
        if schema_key is not None and kind is not None:
            state = f"is {kind}" if "responseFormat" in entries else "is missing"
            message = f"jsonSchema is given, but responseFormat {state}"
            reader.add_error(schema_key, message, "write `responseFormat: json_schema`")
        return {"type": "json_object"} if kind == "json_object" else None
    if schema_node is None and own_schema is None:
        reader.add_error(
            entries["responseFormat"][0], "there is no schema for json_schema", _ADD_SCHEMA
        )
        return None
    top = _read_schema(reader, schema_node) if schema_node is not None else None
    if schema_key is not None and top is not None and own_schema is not None and top != own_schema:
        reader.add_error(schema_key, "jsonSchema and responseFormat give two schemas", "keep one")
    schema = own_schema if own_schema is not None else top
    if schema is None:
        return None
    # The name is part of the digest, so it must not follow the name of the file.
    if not isinstance(schema.get("schema"), dict) or "properties" in schema:
        schema = {"schema": schema}
    return {"type": "json_schema", "json_schema": {"name": _SCHEMA_NAME} | schema}


def _read_format(reader: Reader, entries: Entries) -> tuple[str | None, dict[str, JSON] | None]:
    """Read the kind of format, and the schema if the format contains one."""
    if "responseFormat" not in entries:
        return "text", None
    _, node = entries["responseFormat"]
    if isinstance(node, yaml.ScalarNode):
        return reader.word(node, "responseFormat", _FORMATS, noun="responseFormat"), None
    fix = f"write one of {', '.join(_FORMATS)}, or a mapping with `type:`"
    inner = reader.read(node, FormatKeys, "responseFormat", fix)
    if "type" not in inner:
        return None, None
    schema = None
    for name in ("json_schema", "jsonSchema"):
        if name in inner and inner["type"] == "json_schema":
            schema = _read_schema(reader, inner[name])
            if schema is None:
                return None, None
    return inner["type"], schema


def _read_schema(reader: Reader, node: yaml.Node) -> dict[str, JSON] | None:
    """Read a schema in YAML or in a JSON text; None if it is invalid."""
    if isinstance(node, yaml.ScalarNode) and scalar_tag(node) == "str":
        try:
            value: Any = json.loads(
                node.value, object_pairs_hook=unique, parse_constant=refuse_constant
            )
        except json.JSONDecodeError as error:
            location = f"line {error.lineno}, column {error.colno} of the text"
            reader.add_error(node, f"jsonSchema is not JSON: {error.msg} ({location})")
            return None
        except (ValueError, RecursionError) as error:
            reader.add_error(node, f"jsonSchema is not JSON: {error}")
            return None
    else:
        value = reader.json(node, "jsonSchema")
    if not isinstance(value, dict):
        reader.add_error(
            node, "jsonSchema must be a mapping, or a text with a JSON object", _ADD_SCHEMA
        )
        return None
    return cast("dict[str, JSON]", value)


_INPUT_FIX = "write `- name: document` and, if you like, description, required and default"
_NAME_FIX = "begin with a letter or _, and go on with letters, digits, _, - and ."
_ACKNOWLEDGED_FIX = "write `- case: ID` and below it `reason: WHY`"
_CHANGELOG_FIX = "write `- version: 1.1.0`, below it `text:` and, if you like, `date:`"


def read_version(reader: Reader, node: yaml.Node) -> Semver | None:
    """Read the version; None, with an error, if it is invalid."""
    text = reader.text(node, "version", "write a version such as 1.0.0")
    if text is None:
        return None
    try:
        return Semver.parse(text)
    except ValueError:
        padded = text + ".0" * (2 - text.count("."))
        fix = f"write {padded}" if _is_version(padded) else "write three numbers, such as 1.0.0"
        reader.add_error(node, f"version {text!r} is not a semantic version", fix)
        return None


def read_inputs(reader: Reader, node: yaml.Node) -> tuple[InputSpec, ...]:
    """Read the declared inputs: a list of names or mappings, or a mapping by name."""
    specs: dict[str, InputSpec] = {}
    for item, values in _input_values(reader, node):
        name = values.get("name")
        if name is None:
            continue
        subject = f"input {name!r}"
        default = values.pop("default", None)
        value = None if default is None else reader.json(default, f"the default of {subject}")
        if values.setdefault("required", value is None) and value is not None:
            fix = "keep one of the two"
            reader.add_error(item, f"{subject} is required and has a default", fix)
        if not NAME.fullmatch(name):
            reader.add_error(item, f"{name!r} cannot be the name of an input", _NAME_FIX)
        elif name in specs:
            reader.add_error(item, f"inputs declares {name!r} twice")
        else:
            specs[name] = InputSpec(**values, default=value)
            reader.lines[f"inputs.{name}"] = line_of(item)
    return tuple(specs.values())


def _input_values(reader: Reader, node: yaml.Node) -> Iterator[tuple[yaml.Node, dict[str, Any]]]:
    """The node and the values of each input, by key."""
    if isinstance(node, yaml.MappingNode):
        for name, (key, value) in reader.entries(node, "inputs").items():
            subject = f"input {name!r}"
            if not isinstance(value, yaml.ScalarNode):
                yield key, {"name": name} | reader.read(value, InputKeys, subject, _INPUT_FIX)
            elif scalar_tag(value) == "null":
                yield key, {"name": name}
            else:
                yield key, {"name": name, "description": reader.text(value, subject)}
        return
    for item in reader.items(node, "inputs", _INPUT_FIX):
        if isinstance(item, yaml.ScalarNode):
            yield item, {"name": reader.text(item, "an input", _INPUT_FIX)}
        else:
            yield item, reader.read(item, NamedInputKeys, "an input", _INPUT_FIX)


def read_changelog(reader: Reader, node: yaml.Node) -> tuple[ChangelogEntry, ...]:
    """Read the entries of the changelog, in the order of the file."""
    changelog_entries: list[ChangelogEntry] = []
    for item in reader.items(node, "changelog", _CHANGELOG_FIX):
        values = reader.read(item, ChangelogKeys, "an entry of changelog", _CHANGELOG_FIX)
        if "version" not in values or "text" not in values:
            continue
        accepted, removed = (
            _read_acknowledgements(reader, values[key], key) if key in values else ()
            for key in ("accepted", "removed")
        )
        version = values["version"]
        if not _is_version(version):
            message = f"changelog version {version!r} is not a semantic version"
            reader.add_error(item, message, fix="write three numbers, such as 1.0.0")
        elif any(entry.version == version for entry in changelog_entries):
            reader.add_error(item, f"changelog has version {version} twice", "join them")
        else:
            reader.lines[f"changelog.{version}"] = line_of(item)
            changelog_entries.append(
                ChangelogEntry(
                    version=version,
                    text=values["text"].strip(),
                    date=values.get("date", ""),
                    accepted=accepted,
                    removed=removed,
                )
            )
    return tuple(changelog_entries)


def _read_acknowledgements(
    reader: Reader, node: yaml.Node, key: str
) -> tuple[Acknowledgement, ...]:
    """Read the cases of a changelog entry, each with a reason: one case or a list."""
    alone = isinstance(node, yaml.MappingNode)
    items = [node] if alone else reader.items(node, f"changelog {key}", _ACKNOWLEDGED_FIX)
    accepted: dict[str, Acknowledgement] = {}
    for item in items:
        subject = f"a case of changelog {key}"
        values = reader.read(item, AcknowledgementKeys, subject, _ACKNOWLEDGED_FIX)
        texts = {name: text.strip() for name, text in values.items()}
        empty = [name for name, text in texts.items() if not text]
        if empty:
            reader.add_error(item, f"{subject} has no {empty[0]!r}", _ACKNOWLEDGED_FIX)
        elif texts.keys() != types_of(AcknowledgementKeys).keys():
            continue
        elif texts["case"] in accepted:
            reader.add_error(item, f"changelog {key} has case {texts['case']!r} twice")
        else:
            accepted[texts["case"]] = Acknowledgement(**texts, line=line_of(item))
    return tuple(accepted.values())


def read_test_data(reader: Reader, node: yaml.Node) -> tuple[dict[str, JSON], ...]:
    """Read the rows of `testData`."""
    rows: list[dict[str, JSON]] = []
    for item in reader.items(node, "testData", "write `- input: ...` for each row"):
        row = reader.json(item, "testData")
        if isinstance(row, dict):
            rows.append(row)
        elif not isinstance(item, yaml.MappingNode):
            reader.add_error(item, "a row of testData must be a mapping")
    return tuple(rows)


def read_evaluators(reader: Reader, node: yaml.Node) -> tuple[Evaluator, ...]:
    """Read the evaluators: a name, and one further key for the kind."""
    evaluators: list[Evaluator] = []
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
            message = f"an evaluator has one key for its kind next to `name`, not {keys}"
            reader.add_error(item, message, "keep one of `string`, `judge`, `llm` and `uses`")
        elif name is not None:
            body = reader.json(entries[kinds[0]][1], f"evaluator {name!r}")
            evaluators.append(Evaluator(name=name, kind=kinds[0], body=body, line=line_of(item)))
    return tuple(evaluators)


def _is_version(text: str) -> bool:
    try:
        Semver.parse(text)
    except ValueError:
        return False
    return True


SUFFIXES = (".prompt.yml", ".prompt.yaml")
_TOOL_MESSAGE_KEYS = frozenset({"tool_calls", "tool_call_id"})
_ROLES: tuple[Role, ...] = get_args(Role)
_MODEL_FIX = "write `model: openai/gpt-4o` and put its settings under `modelParameters:`"
_MESSAGES_FIX = "write `- role: user` and `content: ...` for each message"


def prompt_name(path: Path) -> str:
    """The name of a prompt: its file name without `.prompt.yml`.

    >>> from pathlib import Path
    >>> prompt_name(Path("prompts/alert-severity.prompt.yml"))
    'alert-severity'
    """
    for suffix in (*SUFFIXES, ".yml", ".yaml"):
        if path.name.endswith(suffix) and path.name != suffix:
            return path.name.removesuffix(suffix)
    return path.name


def parse_prompt(text: str, *, path: Path, committed: ReadCommitted | None = None) -> Prompt:
    """Parse the text of a prompt file.

    Args:
        text: The text.
        path: The path of the file, which names the prompt.
        committed: Called with the name of a file next to the prompt, for its content in a commit;
            None for the working tree. Unknown keys in a commit are warnings.

    Raises:
        PromptError: All errors of the text, each with its line.
    """
    name = prompt_name(path)
    reader = Reader(text, path, committed)
    entries = reader.entries(reader.root, "the file")
    _refuse_other_formats(reader, entries)
    reader.lines |= {name: line_of(key) for name, (key, _) in entries.items()}
    # A key without a value is ignored, except `messages` and `rubric`.
    values = {name: entry for name, entry in entries.items() if scalar_tag(entry[1]) != "null"}
    fields = _read_fields(reader, values, name)
    messages = _read_messages(reader, entries)
    variables = _note_variables(reader, messages)
    rubric = read_rubric(reader, entries, variables) if "rubric" in entries else None
    if rubric is not None:
        fields["response_format"] = rubric.response_format()
    if fields.get("inputs") is not None:
        input_names = [spec.name for spec in fields["inputs"]]
        for variable in (name for name in variables if name not in input_names):
            fix = did_you_mean(variable, input_names) or f"declare {variable!r} under `inputs:`"
            problem = f"{{{{{variable}}}}} is not among the declared inputs"
            reader.add_error_at(reader.lines[f"variables.{variable}"], problem, fix)
    # A misspelt key would silently change the prompt; keys that start with `x-` are free.
    foreign = {name: entry for name, entry in entries.items() if not name.startswith("x-")}
    reader.unknown(foreign, types_of(PromptKeys), "a prompt file")
    if reader.errors:
        raise PromptError(sorted(reader.errors, key=lambda diagnostic: diagnostic.line or 0))
    return Prompt(
        name=name,
        path=path,
        messages=tuple(message for message, _ in messages),
        warnings=tuple(sorted(reader.warnings, key=lambda warning: warning.line or 0)),
        lines=reader.lines,
        source=text,
        rubric=rubric,
        **fields,
    )


def parse_or_none(text: str, path: Path, committed: ReadCommitted | None = None) -> Prompt | None:
    """Parse the text of a prompt file; None if it is invalid."""
    try:
        return parse_prompt(text, path=path, committed=committed)
    except PromptError:
        return None


def _refuse_other_formats(reader: Reader, entries: Entries) -> None:
    """Raise a single error for a file of another tool."""
    if "messages" not in entries and "prompts" in entries:
        path = shlex.quote(reader.path.name)
        reader.add_error(
            entries["prompts"][0],
            "this is a configuration of promptfoo, not a prompt file",
            f"move it out of the prompts, then regauge import promptfoo {path}",
        )
        raise PromptError(reader.errors)
    if "messages" in entries or "prompt" not in entries:
        return
    key, _ = entries["prompt"]
    fix = "move its text to `messages:` as `- role: user` with `content:`"
    if "model" in entries and isinstance(entries["model"][1], yaml.MappingNode):
        fix += ", the model's name to `model:`, and its settings to `modelParameters:`"
    reader.add_error(key, "there are no `messages`: `prompt` is another tool's format", fix)
    raise PromptError(reader.errors)


# The keys whose value is a text, and those with a function for their value, by field of `Prompt`.
_TEXT_FIELDS = {"name": "title", "description": "description", "model": "model", "owner": "owner"}
_BLOCKS: dict[str, tuple[str, Callable[[Reader, yaml.Node], object]]] = {
    "modelParameters": ("parameters", read_parameters),
    "inputs": ("inputs", read_inputs),
    "version": ("version", read_version),
    "replaceable": ("replaceable", read_replaceable),
    "changelog": ("changelog", read_changelog),
    "testData": ("test_data", read_test_data),
    "evaluators": ("evaluators", read_evaluators),
}


def _read_fields(reader: Reader, entries: Entries, name: str) -> dict[str, Any]:
    """Read the keys besides `messages` and `rubric`, by field of `Prompt`."""
    # The file name is the name of a prompt; the key `name` is its title.
    fields: dict[str, Any] = {"title": name}
    for key, (_, node) in entries.items():
        if key in _TEXT_FIELDS:
            fields[_TEXT_FIELDS[key]] = reader.text(node, key, _MODEL_FIX if key == "model" else "")
        elif key in _BLOCKS:
            field, read = _BLOCKS[key]
            fields[field] = read(reader, node)
    fields["response_format"] = read_response_format(reader, entries)
    if "tools" in entries:
        fields["tools"], fields["tool_files"] = read_tools(reader, entries["tools"][1])
    parameters: dict[str, JSON] = fields.get("parameters") or {}
    if not entries.keys().isdisjoint(_TOOL_PARAMETERS):
        tools = fields.get("tools", ())
        parameters |= _tool_parameters(reader, entries, parameters, tools)
    fields["parameters"] = parameters
    return fields


def _read_messages(reader: Reader, entries: Entries) -> list[tuple[Message, yaml.Node]]:
    """Read all messages, each with the node of its content."""
    if "messages" not in entries:
        reader.add_error(reader.root, "there are no `messages`", _MESSAGES_FIX)
        return []
    key, node = entries["messages"]
    messages: list[tuple[Message, yaml.Node]] = []
    items = reader.items(node, "messages", _MESSAGES_FIX)
    if not items and (isinstance(node, yaml.SequenceNode) or scalar_tag(node) == "null"):
        reader.add_error(key, "`messages` is empty", _MESSAGES_FIX)
    for number, item in enumerate(items):
        reader.lines[f"messages[{number}]"] = line_of(item)
        message = _read_message(reader, item)
        if message is not None:
            messages.append(message)
    return messages


def _read_message(reader: Reader, item: yaml.Node) -> tuple[Message, yaml.Node] | None:
    entries = reader.mapping(item, "a message", _MESSAGES_FIX)
    if entries is None:
        return None
    if "history" in entries:
        return _read_history(reader, entries)
    reader.unknown(entries, types_of(MessageKeys), "a message")
    if "content" not in entries and "tool_calls" in entries:
        entries["content"] = (
            item,
            yaml.ScalarNode("tag:yaml.org,2002:str", "", item.start_mark, item.start_mark),
        )
    missing = [name for name in ("role", "content") if name not in entries]
    for name in missing:
        reader.add_error(item, f"a message has no {name!r}", _MESSAGES_FIX)
    if missing:
        return None
    (_, role_node), (_, content_node) = entries["role"], entries["content"]
    role = reader.word(role_node, "the role of a message", _ROLES, noun="role")
    fix = "write one text; golden cases give images and files as inputs"
    content = reader.text(content_node, "the content of a message", fix)
    extras: dict[str, Any] | None = {}
    if role == "tool" or not _TOOL_MESSAGE_KEYS.isdisjoint(entries):
        extras = read_message_extras(reader, item, entries)
    if content is not None and not content.strip() and "tool_calls" not in entries:
        reader.add_error(
            content_node, "the content of a message is empty", "write it, or remove it"
        )
    if content is None or role is None or extras is None:
        return None
    return Message(role=cast("Role", role), content=content, **extras), content_node


def _read_history(reader: Reader, entries: Entries) -> tuple[Message, yaml.Node] | None:
    """Read the place of a conversation in the inputs: `- history: NAME`."""
    reader.unknown(entries, types_of(HistoryKeys), "a history")
    node = entries["history"][1]
    name = reader.text(node, "history", "write the name of an input")
    if name is None:
        return None
    if not NAME.fullmatch(name):
        reader.add_error(node, f"{name!r} cannot be the name of an input", _NAME_FIX)
        return None
    return Message(role="user", content=f"{{{{{name}}}}}", history=True), node


def _note_variables(reader: Reader, messages: list[tuple[Message, yaml.Node]]) -> list[str]:
    """Return the variables, with the line of each one's first use; warn of braces without a name.

    They are in the order of the text.
    """
    text = reader.source
    variables: dict[str, int] = {}
    for message, node in messages:
        slots = compile_template(message.content).slots
        span = node.start_mark.index, node.end_mark.index
        # With YAML escapes in placeholders only the line of the message is known.
        seen = placeholder_lines(text, *span) if slots else {}
        for _, name in slots:
            variables.setdefault(name, seen.get(name, line_of(node)))
        for part, problem, fix in template_warnings(message.content):
            position = text.find(part, *span)
            line = line_of(node) if position < 0 else text.count("\n", 0, position) + 1
            reader.add_warning(line, problem, fix)
    reader.lines |= {f"variables.{name}": line for name, line in variables.items()}
    return list(variables)


# Keys of the file that are parameters, too.
_TOOL_PARAMETERS = {"toolChoice": "tool_choice", "parallelToolCalls": "parallel_tool_calls"}


def _tool_parameters(
    reader: Reader,
    entries: Entries,
    parameters: Mapping[str, JSON],
    tools: Sequence[Mapping[str, Any]],
) -> dict[str, JSON]:
    """Read the keys of `_TOOL_PARAMETERS`."""
    names = tuple(str(tool["function"]["name"]) for tool in tools)
    tool_parameters: dict[str, JSON] = {}
    for key, name in _TOOL_PARAMETERS.items():
        if key not in entries:
            continue
        key_node, node = entries[key]
        if "tools" not in entries:
            reader.add_error(key_node, f"{key} is given, but there are no `tools`")
        elif name in parameters:
            reader.add_error(key_node, f"{key} and modelParameters set {name}", "keep one of them")
        elif key == "toolChoice":
            tool_parameters[name] = read_tool_choice(reader, node, names)
        else:
            tool_parameters[name] = reader.flag(node, key)
    return tool_parameters
