"""Evals of the API, as exported: definitions, runs and items."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import UsageError
from regauge.importers._description import case_ids
from regauge.importers._source import SourceError, place_of, placed
from regauge.importers._suite import (
    ImportedSuite,
    NoCounterpartError,
    Row,
    chat_of,
    fill_slots,
    input_name,
    literal,
    shared_messages,
    text_of,
)
from regauge.strict_json import is_list, is_mapping, list_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.importers._description import SourcePlace

_FIELD: Final = re.compile(r"\{\{\s*([A-Za-z_][\w.]*)\s*\}\}")
_ANY_FIELD: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_OUTPUT: Final = ("sample.output_text", "sample.output")
_JSON_OUTPUT: Final = "sample.output_json."
_TITLE_MAX: Final = 500
_EMBEDDING_MODEL: Final = "openai:text-embedding-3-large"
_PARAMETERS: Final = {
    "temperature": "temperature",
    "max_tokens": "maxTokens",
    "max_completion_tokens": "maxTokens",
    "max_completions_tokens": "maxTokens",
    "top_p": "topP",
    "seed": "seed",
    "reasoning_effort": "reasoningEffort",
}
_REASONS: Final = {
    "python": "its grader is Python code, which is not run; read it, and write a judge",
    "multi": "its result is computed from other graders; use weighted",
    "endpoint": "its grader is a service; use http_judge",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """A row of a data source.

    Attributes:
        values: Its fields.
        chat: The messages that a run sent for it; None if a template makes them.
    """

    values: Mapping[str, Any]
    place: SourcePlace
    chat: list[dict[str, JSON]] | None = None


@dataclass(slots=True, kw_only=True)
class _Prompt:
    """The messages and parameters that the runs with one template send.

    Attributes:
        template: The messages; empty if each item has its own.
        document: Further keys of the prompt file.
        models: Models of all these runs, in order.
        items: Items by content.
    """

    template: Sequence[Mapping[str, Any]]
    document: dict[str, JSON]
    models: dict[str, None] = field(default_factory=dict[str, None])
    items: dict[str, _Item] = field(default_factory=dict[str, _Item])


def read_definition(file: Path, suite: ImportedSuite) -> None:
    """Read the evals of a file: one, or a list as the API returns it.

    Raises:
        UsageError: It has none.
        InvalidFileError: It is not JSON.
        SourceError: It cannot be read.
    """
    document = suite.repository.read_yaml(file)
    bodies = list_of(document.get("data")) if is_mapping(document) else list_of(document)
    bodies = [b for b in bodies or [document] if is_mapping(b) and "testing_criteria" in b]
    if not bodies:
        raise UsageError(
            f"{suite.repository.relative(file)} is not an eval of OpenAI's API",
            fix="name a JSON file with `data_source_config` and `testing_criteria`",
        )
    for body in bodies:
        _ApiEval(file, suite, body, alone=len(bodies) == 1).read()


def sampling_parameters(sampling: object) -> dict[str, JSON]:
    """The parameters of a prompt file for those of a call."""
    return {
        _PARAMETERS[key]: value
        for key, value in mapping_of(sampling).items()
        if key in _PARAMETERS and value is not None
    }


class _ApiEval:
    """One eval of the API."""

    def __init__(
        self, file: Path, suite: ImportedSuite, body: Mapping[str, Any], *, alone: bool
    ) -> None:
        self._file = file
        self._suite = suite
        self._body = body
        self._alone = alone
        self._place = place_of(body, otherwise=suite.place(file))
        self._title = str(body.get("name") or body.get("id") or suite.imported.name)

    def read(self) -> None:
        """Add its prompts, cases and judges."""
        prompts = self._prompts()
        if not any(prompt.items for prompt in prompts):
            text = f"{self._title!r} has no data items: its criteria are not imported; export runs"
            self._suite.imported.note("manual", self._place, f"{text}, or add a JSON Lines file")
            return
        for prompt in prompts:
            if prompt.items:
                self._add(prompt)

    def _add(self, prompt: _Prompt) -> None:
        suite, name = self._suite, self._suite.name(self._title)
        items = list(prompt.items.values())
        judged_field = "" if prompt.template else self._judged_field()
        messages: list[dict[str, JSON]]
        inputs: list[dict[str, Any]]
        if judged_field:
            messages = []
            inputs = [
                _rename({k: v for k, v in item.values.items() if k != judged_field})
                for item in items
            ]
        elif prompt.template:
            messages = [_message(m) for m in prompt.template]
            inputs = [_find_inputs(prompt.template, item) for item in items]
        elif all(item.chat for item in items):
            messages, inputs = shared_messages([item.chat or [] for item in items])
        else:
            messages, inputs = self._own_message(items)
        fields = _FIELD.findall(json.dumps(messages))
        outputs = (f"item.{judged_field}",) if judged_field else _OUTPUT
        checks = [
            _Criterion(body=body, place=place, suite=suite, inputs=fields, outputs=outputs)
            for body, place in self._criteria()
        ]
        rows = [
            Row(
                place=item.place,
                inputs=row_inputs,
                title=_title(item),
                expected=_rename(
                    {k: v for k, v in item.values.items() if input_name(k) not in row_inputs}
                )
                or None,
                checks=[check.judge(item) for check in checks],
            )
            for item, row_inputs in zip(items, inputs, strict=True)
        ]
        if judged_field:
            self._record(name, items, judged_field)
        suite.add_eval(
            name,
            rows,
            messages=messages,
            document=prompt.document,
            target=name if judged_field else "",
        )
        if len(prompt.models) > 1:
            other_models = ", ".join(list(prompt.models)[1:])
            text = f"the prompt {name} has the model of the first run; others used {other_models}"
            suite.imported.note("changed", self._place, text)

    def _criteria(self) -> Iterator[tuple[Mapping[str, Any], SourcePlace]]:
        criteria = self._body["testing_criteria"]
        for body, place in placed(list_of(criteria), self._place):
            yield mapping_of(body), place

    def _judged_field(self) -> str:
        """The field of an item that all criteria judge; empty if one judges the output."""
        inputs = [str(body.get("input")).strip() for body, _ in self._criteria()]
        match = _FIELD.fullmatch(inputs[0]) if len({*inputs}) == 1 else None
        field_name = match[1] if match else ""
        return field_name.removeprefix("item.") if field_name.startswith("item.") else ""

    def _record(self, name: str, items: Sequence[_Item], judged_field: str) -> None:
        """Write the judged texts as outputs of a recorded target."""
        titles = [_title(item) for item in items]
        texts = [_value(item.values, judged_field) for item in items]
        lines: list[dict[str, JSON]] = [
            {"case": case, "text": text_of(text)}
            for case, text in zip(case_ids(titles), texts, strict=True)
            if text is not None
        ]
        self._suite.record(name, lines)
        text = (
            f"the criteria judge `item.{judged_field}`: its texts are the outputs of target {name}"
        )
        self._suite.imported.note("changed", self._place, text)

    def _own_message(
        self, items: Sequence[_Item]
    ) -> tuple[list[dict[str, JSON]], list[dict[str, Any]]]:
        """A message with the fields that are not references of criteria."""
        compared_keys = {
            name
            for body, _ in self._criteria()
            for name in _FIELD.findall(json.dumps(body.get("reference"), default=str))
        }
        all_keys = list(dict.fromkeys(key for item in items for key in item.values))
        keys = [key for key in all_keys if f"item.{key}" not in compared_keys] or all_keys
        parts = [f"{{{{{input_name(key)}}}}}" for key in keys]
        if len(parts) > 1:
            parts = [f"{literal(key)}: {part}" for key, part in zip(keys, parts, strict=True)]
        text = f"{self._title!r} has no run with a prompt: its prompt sends the fields; write yours"
        self._suite.imported.note("manual", self._place, text)
        names: set[str] = set(map(input_name, keys))
        inputs = [
            {key: value for key, value in _rename(item.values).items() if key in names}
            for item in items
        ]
        return [{"role": "user", "content": "\n".join(parts)}], inputs

    # Runs and their data.

    def _prompts(self) -> list[_Prompt]:
        """The prompts of the runs; one without a template if there is no run."""
        prompts: dict[str, _Prompt] = {}
        folder = self._file.parent / "runs"
        runs = sorted(folder.glob("*/run.json")) if self._alone and folder.is_dir() else []
        for path in runs:
            repository = self._suite.repository
            try:
                run = mapping_of(repository.read_yaml(path))
                self._add_run(run, path, prompts)
            except SourceError as error:
                self._suite.imported.note("manual", self._suite.place(path), str(error))
        if not any(prompt.items for prompt in prompts.values()):
            prompt = next(iter(prompts.values()), _Prompt(template=(), document={}))
            prompt.items.update(self._near())
            return [prompt]
        return list(prompts.values())

    def _add_run(self, run: Mapping[str, Any], path: Path, prompts: dict[str, _Prompt]) -> None:
        source = mapping_of(run.get("data_source"))
        input_messages = mapping_of(source.get("input_messages"))
        template = list_of(input_messages.get("template"))
        if template and not all(_is_text_message(message) for message in template):
            self._suite.imported.note(
                "manual", self._suite.place(path), "its messages hold files or tools: not imported"
            )
            template = []
        key = json.dumps(template, default=str)
        prompt = prompts.setdefault(key, _Prompt(template=template, document={}))
        model = source.get("model") or run.get("model")
        if isinstance(model, str) and model:
            prompt.models[f"openai:{model}"] = None
            prompt.document.setdefault("model", f"openai:{model}")
        self._sampling(mapping_of(source.get("sampling_params")), prompt, path)
        reference = str(input_messages.get("item_reference", "")).removeprefix("item.")
        for item in self._run_items(source, path, with_chat=not template):
            chat = chat_of(_value(item.values, reference)) if reference else item.chat
            values = {k: v for k, v in item.values.items() if not reference or k != reference}
            new_item = _Item(values=values, place=item.place, chat=chat)
            identity = json.dumps([values, chat if not template else None], default=str)
            prompt.items.setdefault(identity, new_item)

    def _sampling(self, sampling: Mapping[str, Any], prompt: _Prompt, path: Path) -> None:
        parameters = cast("dict[str, JSON]", prompt.document.setdefault("modelParameters", {}))
        for name, value in sampling_parameters(sampling).items():
            parameters.setdefault(name, value)
        schema = sampling.get("response_format") or mapping_of(sampling.get("text")).get("format")
        if is_mapping(schema) and schema.get("type") == "json_schema":
            prompt.document["responseFormat"] = "json_schema"
            body = schema.get("json_schema") or {k: v for k, v in schema.items() if k != "type"}
            prompt.document["jsonSchema"] = cast("JSON", body)
        if sampling.get("tools"):
            text = "tools of the run are not offered to the model"
            self._suite.imported.note("dropped", self._suite.place(path), text)
        if not parameters:
            del prompt.document["modelParameters"]

    def _run_items(
        self, source: Mapping[str, Any], path: Path, *, with_chat: bool
    ) -> Iterator[_Item]:
        """The items of a run: its own, those of its file, or those of its output items."""
        repository = self._suite.repository
        data_source = mapping_of(source.get("source"))
        lines: Sequence[Any] = list_of(data_source.get("content"))
        outputs = path.parent / "output_items.jsonl"
        identifier = str(data_source.get("id"))
        file = self._file.parent.parent.parent / "files" / f"{identifier}.content"
        if not lines and re.fullmatch(r"[\w-]+", identifier) and file.is_file():
            lines = repository.read_json_lines(file)
        if outputs.is_file() and (with_chat or not lines):
            for line, place in placed(repository.read_json_lines(outputs), self._place):
                body = mapping_of(line)
                messages = mapping_of(body.get("sample")).get("input")
                chat = chat_of(messages) if is_list(messages) else None
                yield _item(body.get("datasource_item"), place, chat)
            return
        yield from _items(lines, self._suite.place(path))

    def _near(self) -> dict[str, _Item]:
        """The items of JSON Lines files next to a definition that is alone in its directory."""
        repository = self._suite.repository
        items: dict[str, _Item] = {}
        for path in sorted(self._file.parent.glob("*.jsonl")) if self._alone else []:
            if path.is_symlink():
                continue
            lines = repository.read_json_lines(path)
            self._suite.imported.sources.append(repository.relative(path))
            for item in _items(lines, self._place):
                items.setdefault(json.dumps(item.values, default=str), item)
        return items


@dataclass(frozen=True, slots=True, kw_only=True)
class _Criterion:
    """One testing criterion.

    Attributes:
        inputs: The prompt's inputs, which a rubric reads by name.
        outputs: The fields that stand for the judged text.
    """

    body: Mapping[str, Any]
    place: SourcePlace
    suite: ImportedSuite
    inputs: Sequence[str]
    outputs: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The kind of its grader."""
        return str(self.body.get("type", ""))

    def judge(self, item: _Item) -> JSON:
        """The check of a case."""
        build = _JUDGES.get(self.kind)
        if build is None:
            reason = _REASONS.get(self.kind, "it is not a documented grader")
            return self.suite.unmeasured(self.kind or "?", reason, self.place)
        try:
            spec = build(self, item)
        except NoCounterpartError as error:
            return self.suite.unmeasured(self.kind or "?", str(error), self.place)
        check = self.suite.check(spec, self.kind, self.place)
        name = self.body.get("name")
        if is_mapping(check) and "unmeasured" not in check and isinstance(name, str) and name:
            return {**check, "metric": name}
        return check

    def _field(self) -> dict[str, JSON]:
        """The parameter for the judged part of the output.

        Raises:
            NoCounterpartError: It judges more than the output.
        """
        match = _FIELD.fullmatch(str(self.body.get("input")).strip())
        if match and match[1] in self.outputs:
            return {}
        if match and match[1].startswith(_JSON_OUTPUT):
            return {"field": match[1].removeprefix(_JSON_OUTPUT)}
        raise NoCounterpartError("its `input` is more than the output, or another field")

    def _reference(self, item: _Item) -> Any:
        """The reference: a text, or the unchanged field of an item.

        Raises:
            NoCounterpartError: The item has no such field.
        """
        text = str(self.body.get("reference", ""))
        if match := _FIELD.fullmatch(text.strip()):
            return _value(item.values, match[1].removeprefix("item."), required=True)

        def replace_field(match: re.Match[str]) -> str:
            path = match[1].strip().removeprefix("item.")
            return text_of(_value(item.values, path, required=True))

        return _ANY_FIELD.sub(replace_field, text)

    def string(self, item: _Item) -> dict[str, JSON]:
        """`string_check`."""
        operation, field = self.body.get("operation"), self._field()
        value = self._reference(item)
        text = value if field and operation in {"eq", "ne"} else text_of(value)
        if operation in {"eq", "ne"}:
            check: dict[str, JSON] = {"equals": {"value": text, **field}}
        elif operation in {"like", "ilike"}:
            ignore: dict[str, JSON] = {"ignore_case": True} if operation == "ilike" else {}
            check = {"contains": {"text": text, **ignore, **field}}
        else:
            raise NoCounterpartError(f"{operation!r} is not an operation of it")
        return {"not": check} if operation == "ne" else check

    def similarity(self, item: _Item) -> dict[str, JSON]:
        """`text_similarity`."""
        metric = str(self.body.get("evaluation_metric"))
        limit = self.body.get("pass_threshold")
        if not isinstance(limit, int | float):
            raise NoCounterpartError("it has no `pass_threshold`, so nothing passes or fails")
        reference, field = text_of(self._reference(item)), self._field()
        if metric == "cosine":
            if field:
                raise NoCounterpartError("it compares a part of the output by its meaning")
            return {"means_like": {"to": reference, "model": _EMBEDDING_MODEL, "at_least": limit}}
        if metric == "fuzzy_match":
            return {"similarity": {"to": reference, "at_least": limit, **field}}
        if match := re.fullmatch(r"rouge_([1-5])", metric):
            return {"rouge_n": {"to": reference, "n": int(match[1]), "at_least": limit, **field}}
        if metric in {"bleu", "gleu", "meteor", "rouge_l"}:
            return {metric: {"to": reference, "at_least": limit, **field}}
        raise NoCounterpartError(f"{metric!r} is not a documented metric")

    def score(self, item: _Item) -> dict[str, JSON]:
        """`score_model`."""
        del item
        bounds = self.body.get("range") or [0, 1]
        numbers = [bound for bound in list_of(bounds) if isinstance(bound, int | float)]
        if len(numbers) != 2 or numbers[0] >= numbers[1]:  # noqa: PLR2004 - a pair
            raise NoCounterpartError("its `range` is not a pair of numbers")
        low, high = numbers
        limit = self.body.get("pass_threshold")
        rubric: dict[str, JSON] = {"kind": "graded", "scale": {"min": low, "max": high}}
        if isinstance(limit, int | float):
            rubric["pass_at"] = min(1.0, max(0.0, (limit - low) / (high - low)))
        return self._rubric(rubric)

    def label(self, item: _Item) -> dict[str, JSON]:
        """`label_model`."""
        del item
        passing = list_of(self.body.get("passing_labels"))
        labels = [str(label) for label in list_of(self.body.get("labels"))]
        if not labels or not passing:
            raise NoCounterpartError("it has no labels, or none of them passes")
        choices: dict[str, JSON] = {label: 1 if label in passing else 0 for label in labels}
        return self._rubric({"kind": "choice", "choices": choices})

    def _rubric(self, rubric: dict[str, JSON]) -> dict[str, JSON]:
        """The check of a rubric with the grader's messages.

        Raises:
            NoCounterpartError: They do not show the output, or hold more than text.
        """
        items = list_of(self.body.get("input"))
        if not items or not all(_is_text_message(message) for message in items):
            raise NoCounterpartError("its messages hold more than text")
        messages = [_message(message, self._rubric_field) for message in items]
        if "{{answer}}" not in json.dumps(messages):
            raise NoCounterpartError("its messages do not show the output")
        title = str(self.body.get("name") or self.kind)
        name = self.suite.rubric(title, rubric, [*messages], repr(title), self.place)
        parameters: dict[str, JSON] = {"name": name}
        model = self.body.get("model")
        if isinstance(model, str) and model:
            parameters["model"] = f"openai:{model}"
        else:
            self.suite.need_judge_model(self.place)
        return {"rubric": parameters}

    def _rubric_field(self, path: str) -> str:
        if path in self.outputs:
            return "answer"
        if path.startswith("item."):
            name = _renamed_path(path.removeprefix("item."))
            return name if name in self.inputs else f"expected.{name}"
        raise NoCounterpartError(f"its messages show {path}, which is not recorded")


_JUDGES: Final[Mapping[str, Callable[[_Criterion, _Item], dict[str, JSON]]]] = {
    "string_check": _Criterion.string,
    "text_similarity": _Criterion.similarity,
    "score_model": _Criterion.score,
    "label_model": _Criterion.label,
}


def _items(lines: Sequence[Any], place: SourcePlace) -> Iterator[_Item]:
    """The lines of a data source."""
    return (_item(line, line_place) for line, line_place in placed(lines, place))


def _item(line: Any, place: SourcePlace, chat: list[dict[str, JSON]] | None = None) -> _Item:
    """The item of a line of a data source, with fields below `item` or at the top."""
    body = mapping_of(line)
    return _Item(values=mapping_of(body.get("item", body)), place=place, chat=chat)


def _title(item: _Item) -> str:
    texts = (v for v in item.values.values() if isinstance(v, str) and v.strip())
    return next(texts, "")[:_TITLE_MAX]


def _find_inputs(template: Sequence[Mapping[str, Any]], item: _Item) -> dict[str, Any]:
    """The item's inputs that a template inserts."""
    paths = {path.removeprefix("item.") for path in _FIELD.findall(json.dumps(list(template)))}
    values = {_renamed_path(path): _value(item.values, path) for path in sorted(paths)}
    return {name: value for name, value in values.items() if value is not None}


def _value(values: Mapping[str, Any], path: str, *, required: bool = False) -> Any:
    """A field by its path.

    Raises:
        NoCounterpartError: A required field is missing.
    """
    value: Any = values
    for part in path.split("."):
        if not is_mapping(value) or part not in value:
            if required:
                raise NoCounterpartError(f"an item has no field {path!r}")
            return None
        value = value[part]
    return value


def _rename(values: Mapping[str, Any]) -> dict[str, Any]:
    return {input_name(key): value for key, value in values.items()}


def _renamed_path(path: str) -> str:
    return ".".join(map(input_name, path.split(".")))


def _is_text_message(message: Any) -> bool:
    return chat_of([message]) is not None


def _message(
    message: Mapping[str, Any], name: Callable[[str], str] | None = None
) -> dict[str, JSON]:
    """Convert a message of a template: its fields become inputs."""

    def field_name(path: str) -> str:
        return name(path) if name else _renamed_path(path.removeprefix("item."))

    (plain,) = chat_of([message]) or [{}]
    text = str(plain["content"])
    content = fill_slots(text, _FIELD, lambda match: f"{{{{{field_name(match[1])}}}}}")
    return {"role": plain["role"], "content": content}
