"""Datasets that LangSmith and Braintrust export, as JSON Lines or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from regauge.errors import UsageError
from regauge.importers._source import placed
from regauge.importers._suite import ImportedSuite, Row, chat_of, input_name, text_of
from regauge.strict_json import is_list, is_mapping, list_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from regauge.importers._description import Imported, SourcePlace

_LANGCHAIN: Final = {
    "human": "user",
    "HumanMessage": "user",
    "ai": "assistant",
    "AIMessage": "assistant",
    "system": "system",
    "SystemMessage": "system",
}


def read_langsmith(path: Path, /, *, root: Path, name: str = "") -> Imported:
    """Read examples: `inputs`, `outputs`, `metadata` and `split`.

    Args:
        path: A file, or a directory.
        root: The project's root.
        name: The stem of the names of written files.

    Raises:
        UsageError: There is none.
        InvalidFileError: The only file cannot be parsed.
    """
    return _read(ImportedSuite(path, root=root, name=name, title="LangSmith"), "inputs", _example)


def read_braintrust(path: Path, /, *, root: Path, name: str = "") -> Imported:
    """Read rows: `input`, `expected`, `tags` and `metadata`.

    Args:
        path: A file, or a directory.
        root: The project's root.
        name: The stem of the names of written files.

    Raises:
        UsageError: There is none.
        InvalidFileError: The only file cannot be parsed.
    """
    return _read(ImportedSuite(path, root=root, name=name, title="Braintrust"), "input", _row)


def _read(
    suite: ImportedSuite, key: str, row_of: Callable[[Mapping[str, Any], SourcePlace], Row]
) -> Imported:
    fix = f"name a JSON Lines file that {suite.title} exports"
    files = suite.files(".jsonl", ".json", accepts=lambda text: f'"{key}"' in text)

    def read(file: Path) -> None:
        repository = suite.repository
        if file.suffix.lower() == ".csv":
            problem = f"{repository.relative(file)} is CSV, which this format does not read"
            raise UsageError(problem, fix=fix)
        lines = file.suffix != ".json"
        document = repository.read_json_lines(file) if lines else repository.read_json(file)
        if is_mapping(document):
            document = next((v for v in document.values() if is_list(v)), [document])
        rows: list[Row] = []
        for item, place in placed(list_of(document), suite.place(file)):
            if is_mapping(item) and item.get(key) is not None:
                rows.append(row_of(item, place))
            else:
                suite.imported.note("manual", place, f"a row without `{key}`: left out")
        if not rows:
            raise UsageError(f"{repository.relative(file)} has no row with `{key}`", fix=fix)
        suite.add_dataset(suite.stem(file), rows)

    suite.read(files, read)
    return suite.finish(fix)


def _example(item: Mapping[str, Any], place: SourcePlace) -> Row:
    outputs = item.get("outputs", item.get("reference_outputs"))
    if is_mapping(outputs) and len(outputs) == 1:
        outputs = next(iter(outputs.values()))
    chat = _chat(outputs)
    split = item.get("split", item.get("dataset_split"))
    tags = split if is_list(split) else [split] if isinstance(split, str) else []
    inputs = item["inputs"]
    return Row(
        place=place,
        inputs=_inputs(inputs if is_mapping(inputs) else {"input": inputs}),
        expected=chat[-1]["content"] if chat else outputs,
        tags=[str(tag) for tag in tags if tag != "base"],
        note=_metadata(item),
    )


def _row(item: Mapping[str, Any], place: SourcePlace) -> Row:
    source = item["input"]
    return Row(
        place=place,
        inputs=_inputs(source if is_mapping(source) else {"input": source}),
        expected=item.get("expected", item.get("output")),
        tags=[str(tag) for tag in list_of(item.get("tags"))],
        note=_metadata(item),
    )


def _metadata(item: Mapping[str, Any]) -> str:
    metadata = {k: v for k, v in mapping_of(item.get("metadata")).items() if v not in (None, [])}
    metadata.pop("dataset_split", None)
    return text_of(dict(metadata)) if metadata else ""


def _inputs(values: Mapping[str, Any]) -> dict[str, Any]:
    return {input_name(key): _chat(value) or value for key, value in values.items()} or {
        "input": ""
    }


def _chat(value: Any) -> list[dict[str, Any]] | None:
    """The messages of a chat, in OpenAI's form or LangChain's; None for anything else."""
    messages = [_plain_message(message) for message in value] if is_list(value) else []
    return chat_of(messages) if messages else None


def _plain_message(message: Any) -> Any:
    if not is_mapping(message) or "role" in message:
        return message
    names: Iterator[Any] = iter([message.get("type"), *reversed(list_of(message.get("id")))])
    role = next((_LANGCHAIN[name] for name in names if name in _LANGCHAIN), None)
    body = message
    for key in ("data", "kwargs"):
        body = message[key] if is_mapping(message.get(key)) else body
    return {"role": role, "content": body.get("content")}
