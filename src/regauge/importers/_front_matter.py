"""Prompts in files with YAML front matter: what Prompty and Dotprompt share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from regauge.errors import Diagnostic, InvalidFileError, UsageError
from regauge.importers._source import place_of
from regauge.importers._suite import Row, literal
from regauge.importers._templates import TemplateError, render, split_template, variables_of
from regauge.importers.promptfoo._context import Context
from regauge.importers.promptfoo._models import model_id, prompt_parameters
from regauge.strict_json import is_mapping, mapping_of
from regauge.wording import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.importers._description import NoteKind
    from regauge.importers._suite import ImportedSuite

_SHOWN_MAX: Final = 60


class FilePrompt:
    """A prompt as its file has it.

    Attributes:
        front: The front matter.
        body: The text below it.
        document: Keys of a prompt file, without messages and inputs.
        messages: Roles with their templates in Jinja; the role `history` with an input.
        inputs: The declarations by name, as in a prompt file.
        values: The sample inputs.

    Raises:
        InvalidFileError: The front matter is not a YAML mapping, or has no end.
        SourceError: The file cannot be read.
    """

    def __init__(self, file: Path, suite: ImportedSuite, name: str) -> None:
        self.file = file
        self.suite = suite
        self.name = name
        self.place = suite.place(file)
        self.front, self.body = read_front_matter(file, suite)
        self.document: dict[str, JSON] = {}
        self.messages: list[tuple[str, str]] = []
        self.inputs: dict[str, JSON] = {}
        self.values: dict[str, Any] = {}

    def note(
        self, kind: NoteKind, text: str, *keys: str, table: Mapping[str, Any] | None = None
    ) -> None:
        """Add a line to the report, at the first of some keys of the front matter or a table."""
        table = self.front if table is None else table
        key = next((key_name for key_name in keys if key_name in table), None)
        place = place_of(table, key, otherwise=self.place) if key else self.place
        self.suite.imported.note(kind, place, text)

    def note_unread(self, table: Mapping[str, Any], *read: str, above: str = "") -> None:
        """Report each key of a table that is not among those that are read, at its line.

        Args:
            above: The keys that lead to the table, such as `model.`.
        """
        for key in table:
            if key not in read:
                self.note("dropped", f"`{above}{key}`", key, table=table)

    def section(self, key: str) -> Mapping[str, Any]:
        """A table of the front matter; any other value is reported."""
        value = self.front.get(key)
        if value is not None and not is_mapping(value):
            self.note("dropped", f"`{key}`, which is not a mapping", key)
        return mapping_of(value)

    def copy_texts(self, *keys: str) -> None:
        """Copy texts of the front matter."""
        for key in keys:
            if isinstance(self.front.get(key), str):
                self.document[key] = self.front[key]

    def declare_input(
        self, name: str, about: object = None, default: JSON = None, *, required: bool = True
    ) -> None:
        """Declare an input, as in a prompt file."""
        entry: dict[str, JSON] = {"name": name}
        if isinstance(about, str) and about:
            entry["description"] = about
        if default is not None:
            entry["default"] = default
        elif not required:
            entry["required"] = False
        self.inputs[name] = entry

    def set_model(self, name: str, config: Mapping[str, Any]) -> None:
        """Set the model, its parameters, the form of the output and the tools.

        Args:
            name: A provider id of promptfoo, such as `azure:gpt-4o`.
            config: A provider's `config` of promptfoo: `apiHost`, `apiKey`, `temperature` and
                others.
        """
        context = Context(self.suite, self.file, self.place)
        if model := model_id(name, config, context.locate(self.front, "model")):
            self.document["model"] = model
        elif name:
            self.note("manual", f"the model {name} has no counterpart: set `model`", "model")
        key = "config" if "config" in self.front else "model"
        self.document.update(prompt_parameters(config, context.locate(self.front, key)))

    def translate(self, translate: Callable[[str], str], text: str) -> str:
        """Translate a template of the source to Jinja.

        Raises:
            UsageError: It has no counterpart.
        """
        try:
            return translate(text)
        except TemplateError as error:
            raise self._refused(error) from error

    def add(self) -> None:
        """Add the prompt to the suite, and a golden case of its sample inputs.

        Raises:
            UsageError: Its template has no counterpart in a prompt file.
        """
        suite = self.suite
        try:
            messages, input_names, computed = _split(self.messages)
            cases = {key: render(part, self.values) for key, part in computed.items()}
        except TemplateError as error:
            raise self._refused(error) from error
        for key, part in computed.items():
            preview = cut(" ".join(part.split()), _SHOWN_MAX)
            self.note(
                "changed", f"`{preview}` became the input {key}, which each case gives as text"
            )
        document = dict(self.document)
        if declarations := [self.inputs[key] for key in input_names if key in self.inputs]:
            undeclared = [{"name": key} for key in input_names if key not in self.inputs]
            document["inputs"] = [*declarations, *undeclared]
        judges: Sequence[JSON] = ()
        if "jsonSchema" in document:
            judges = [suite.check({"json_matches_schema": {}}, "output schema", self.place)]
        values = {**cases, **self.values}
        row = Row(place=self.place, inputs={k: values[k] for k in input_names if k in values})
        rows = [row] if self.values or not input_names else []
        if rows:
            judges = suite.scored(self.name, rows, judges)
        else:
            text = f"it has no sample inputs: write fixtures/golden/{self.name}.jsonl and an eval"
            self.note("manual", text)
        suite.add_eval(self.name, rows, messages=messages, document=document, judges=judges)

    def _refused(self, error: TemplateError) -> UsageError:
        """The error of a template that no prompt file can hold."""
        return UsageError(
            f"{self.place}: its template cannot be imported: {error}",
            fix="simplify it, or write the prompt by hand: regauge new prompt",
        )


def read_front_matter(file: Path, suite: ImportedSuite) -> tuple[Mapping[str, Any], str]:
    """The front matter of a file, and the text below it.

    Raises:
        InvalidFileError: It is not a YAML mapping, or has no end.
        SourceError: The file cannot be read.
    """
    place = suite.repository.relative(file)
    lines = suite.repository.read_text(file).split("\n")
    if lines[0].rstrip() != "---":
        return {}, "\n".join(lines)
    end = next((n for n, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), 0)
    text = "\n".join(["", *lines[1:end]])
    document = suite.repository.read_yaml(file, text) if end else None
    if not end or not (document is None or is_mapping(document)):
        message = "its front matter is not a mapping" if end else "its front matter has no end"
        fix = "write `key: value` lines between two lines `---`"
        raise InvalidFileError([Diagnostic(path=Path(place), line=1, message=message, fix=fix)])
    return mapping_of(document), "\n".join(lines[end + 1 :])


def _split(
    parts: Sequence[tuple[str, str]],
) -> tuple[list[dict[str, JSON]], list[str], dict[str, str]]:
    """The messages, their inputs, and the templates of computed inputs by name."""
    messages: list[dict[str, JSON]] = []
    input_names: dict[str, None] = {}
    computed: dict[str, str] = {}
    for role, template in parts:
        if role == "history":
            messages.append({"history": template})
            input_names[template] = None
            continue
        split = split_template(template, prefix=f"part{len(messages) + 1}")
        text = split.text
        for key, part in split.computed.items():
            if variables_of(part):
                computed[key] = part
            else:
                text = text.replace(f"{{{{{key}}}}}", literal(render(part, {})))
        messages.append({"role": role, "content": text})
        names = [*sorted(split.names), *(key for key in split.computed if key in computed)]
        input_names.update(dict.fromkeys(names))
    if not messages:
        raise TemplateError("it has no message")
    return messages, list(input_names), computed
