"""Tests of a configuration, with defaults, scenarios, files and lists of values expanded."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from regauge.errors import InvalidFileError
from regauge.importers._description import NoteKind, SourcePlace
from regauge.importers._source import SourceError
from regauge.importers.promptfoo._assertions import is_kind
from regauge.importers.promptfoo._javascript import constant_vars
from regauge.importers.promptfoo._models import LEXICON
from regauge.strict_json import as_list, is_list, is_mapping, mapping_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.importers.promptfoo._context import Context

_KEYS: Final = frozenset(
    {
        "assert", "description", "metadata", "name", "options", "prompts", "provider",
        "providerOutput", "providers", "threshold", "vars",
    }
)  # fmt: skip
# Suites to import are untrusted: these bounds stop products of variables and files that name each
# other.
_TESTS_MAX: Final = 20_000
_FILES_DEPTH_MAX: Final = 8
_ROUNDS: Final = 5
_INSERTED_MAX: Final = 100_000
_VALUE_MAX: Final = 2_000_000
_CODE: Final = re.compile(r"\.(?:js|mjs|cjs|ts|mts|cts|py)(?::\w+)?\Z")
_REMOTE: Final = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_EXPECTED: Final = re.compile(
    r"(?P<kind>(?:not-)?[a-z][a-z0-9:-]*?)(?:\((?P<threshold>\d+(?:\.\d+)?)\))?(?::(?P<value>.*))?\Z",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """One assertion as it is written."""

    body: Mapping[str, Any]
    context: Context


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTest:
    """One test, with one value for each variable.

    Attributes:
        options: `options` of the test over those of `defaultTest`.
        providers: The providers that it runs on, by id or label; empty for all.
        prompts: The prompts that it runs with, by id or label; empty for all.
        output: The output that it brings; None where the provider makes it.
        parses_json: Whether its output is parsed before code judges it.
        tools: Those of the first model.
    """

    description: str
    vars: Mapping[str, Any]
    assertions: Sequence[Assertion]
    options: Mapping[str, Any]
    threshold: float | None
    providers: Sequence[str]
    prompts: Sequence[str]
    output: Any
    metadata: Mapping[str, Any]
    context: Context
    parses_json: bool = False
    tools: JSON = None


def read_tests(config: Mapping[str, Any], context: Context) -> list[SourceTest]:
    """All tests of a configuration."""
    default = _default_test(config, context)
    source_tests: list[SourceTest] = []
    source = config.get("tests")
    if not source and not config.get("scenarios") and default.get("assert"):
        text = "there are no tests: promptfoo runs the prompt once, with the default assertions"
        context.note("changed", text)
        once: dict[str, Any] = {}
        source = [once]
    bodies = _tests_in(source, context.locate(config, "tests"), context.base)
    for body, test_context in itertools.chain(bodies, _scenarios(config, context)):
        source_tests += _expand(body, default, test_context, _TESTS_MAX - len(source_tests))
    return source_tests


def _default_test(config: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
    default = config.get("defaultTest")
    context = context.locate(config, "defaultTest")
    if isinstance(default, str):
        try:
            path = context.repository.resolve(default, context.base)
            default = None if _CODE.search(default) else context.repository.read_yaml(path)
            if default is None:
                context.note("manual", "`defaultTest` is code, which is not run, or empty")
        except SourceError as error:
            context.note("manual", f"`defaultTest` is not imported: {error}")
    return mapping_of(default)


def _tests_in(
    source: Any, context: Context, base: Path, depth: int = 0
) -> Iterator[tuple[Mapping[str, Any], Context]]:
    """The tests in a value of the key `tests`, with their contexts."""
    if source is None:
        return
    if depth > _FILES_DEPTH_MAX:
        context.note("manual", "files refer to each other without end")
        return
    if isinstance(source, str):
        yield from _read_reference(source, context, base, depth)
    elif is_mapping(source):
        if isinstance(source.get("path"), str) and source.keys().isdisjoint({"vars", "assert"}):
            yield from _read_reference(source["path"], context, base, depth)
        else:
            yield source, context.locate(source)
    elif is_list(source):
        for item, item_context in context.locate_items(source):
            yield from _tests_in(item, item_context, base, depth)
    else:
        context.note("dropped", f"a test is a mapping, not {source!r}")


def _read_reference(
    reference: str, context: Context, base: Path, depth: int
) -> Iterator[tuple[Mapping[str, Any], Context]]:
    if _REMOTE.match(reference):
        context.note("manual", "tests on a server are not read; save them as CSV or YAML")
        return
    if _CODE.search(reference):
        text = "tests are generated by code, which is not run; save its tests as YAML"
        context.note("manual", text)
        return
    try:
        paths = context.repository.find(reference, base)
    except SourceError as error:
        context.note("manual", f"tests are missing: {error}")
        return
    for path in paths:
        try:
            yield from _read_file(path, context, depth)
        except (SourceError, InvalidFileError) as error:
            context.note("manual", f"tests are missing: {error}")


def _read_file(
    path: Path, context: Context, depth: int
) -> Iterator[tuple[Mapping[str, Any], Context]]:
    repository = context.repository
    suffix = path.suffix.lower()
    if path.is_dir():
        raise SourceError(f"{repository.relative(path)} is a directory; name its files")
    if suffix in {".xlsx", ".xls", ".parquet"}:
        raise SourceError(f"{repository.relative(path)} is a spreadsheet; save it as CSV")
    if suffix == ".csv":
        yield from _csv_tests(repository.read_text(path), repository.relative(path), context)
        return
    document = (
        repository.read_json_lines(path) if suffix == ".jsonl" else repository.read_yaml(path)
    )
    if document is None:
        context.note("dropped", f"{repository.relative(path)} is empty")
        return
    if is_mapping(document) and isinstance(document.get("tests"), list | str):
        document = document["tests"]
    file_context = context.move_to(context.suite.place(path)).locate(document)
    yield from _tests_in(document, file_context, path.parent, depth + 1)


def _scenarios(
    config: Mapping[str, Any], context: Context
) -> Iterator[tuple[Mapping[str, Any], Context]]:
    """The tests of scenarios: all combinations of their tests and configurations."""
    scenarios = _tests_in(
        config.get("scenarios"), context.locate(config, "scenarios"), context.base
    )
    for scenario, scenario_context in scenarios:
        configs, tests = (
            [*_tests_in(scenario.get(key), scenario_context.locate(scenario, key), context.base)]
            or [({}, scenario_context)]
            for key in ("config", "tests")
        )
        for (data, _), (test, test_context) in itertools.product(configs, tests):
            merged: dict[str, Any] = {**data, **test}
            for key in ("vars", "options", "metadata"):
                parts = [part[key] for part in (data, test) if is_mapping(part.get(key))]
                if len(parts) > 1:
                    merged[key] = {**parts[0], **parts[1]}
            asserts = [part["assert"] for part in (data, test) if is_list(part.get("assert"))]
            # A single list keeps its lines.
            all_assertions = [part for assertions in asserts for part in assertions]
            merged["assert"] = asserts[0] if len(asserts) == 1 else all_assertions
            if not merged.get("description") and isinstance(scenario.get("description"), str):
                merged["description"] = scenario["description"]
            yield merged, test_context


def _expand(
    body: Mapping[str, Any], default: Mapping[str, Any], context: Context, tests_max: int
) -> Iterator[SourceTest]:
    """The tests that one test stands for: a list of values is a test for each of them."""
    try:
        scenario_vars = {**_vars(default.get("vars"), context), **_vars(body.get("vars"), context)}
        options = {**mapping_of(default.get("options")), **mapping_of(body.get("options"))}
        scenario_vars = _transform(scenario_vars, options, context)
        alone = bool(options.get("disableVarExpansion"))
        values = [
            _values(name, value, context, alone=alone) for name, value in scenario_vars.items()
        ]
        count = math.prod(map(len, values))
    except (SourceError, InvalidFileError) as error:
        context.note("manual", f"a test is not imported: {error}")
        return
    if count > tests_max:
        text = f"a test is not imported: its lists make {count:,} tests, of {_TESTS_MAX:,} in all"
        context.note("manual", text)
        return
    for key in sorted(body.keys() - _KEYS):
        kind: NoteKind = "manual" if key == "assertScoringFunction" else "dropped"
        context.note(kind, f"`{key}` of a test is not imported")
    sources = [body] if options.get("disableDefaultAsserts") else [default, body]
    assertions = [assertion for source in sources for assertion in _assertions(source, context)]
    description = str(body.get("description") or body.get("name") or "")
    metadata = {**mapping_of(default.get("metadata")), **mapping_of(body.get("metadata"))}
    threshold = body.get("threshold", default.get("threshold"))
    for combination in itertools.product(*values):
        rendered = _resolve(dict(zip(scenario_vars, combination, strict=True)), context)
        context.note_environment(rendered)
        yield SourceTest(
            description=context.render(description, rendered),
            vars=rendered,
            assertions=assertions,
            options=options,
            threshold=float(threshold) if isinstance(threshold, int | float) else None,
            providers=_names(body.get("provider"), body.get("providers"), default.get("provider")),
            prompts=_names(body.get("prompts"), None, default.get("prompts")),
            output=body.get("providerOutput", default.get("providerOutput")),
            metadata=metadata,
            context=context,
        )


def _names(*values: Any) -> list[str]:
    """The ids of the first of these that names some."""
    for value in values:
        parts = filter(None, as_list(value))
        names = [str(part.get("id", "")) if is_mapping(part) else str(part) for part in parts]
        if names:
            return names
    return []


def _vars(source: Any, context: Context) -> dict[str, Any]:
    """The variables of a test, which may be in files."""
    if source is None:
        return {}
    if is_mapping(source):
        return dict(source)
    values: dict[str, Any] = {}
    for reference in as_list(source):
        if _CODE.search(str(reference)):
            raise SourceError(f"{reference} is code, which is not run")
        for path in context.repository.find(str(reference), context.base):
            document = context.repository.read_yaml(path)
            if not is_mapping(document):
                raise SourceError(f"{context.repository.relative(path)} is not a mapping")
            values.update(document)
    return values


def _transform(
    values: dict[str, Any], options: Mapping[str, Any], context: Context
) -> dict[str, Any]:
    """Apply `transformVars`, if it only adds constants."""
    code = options.get("transformVars")
    if code is None:
        return values
    constants = constant_vars(code) if isinstance(code, str) else None
    if constants is None:
        text = "`transformVars` is code that is not run; the variables stay as they are"
        context.note("manual", text)
        return values
    names = ", ".join(constants)
    context.note("changed", f"`transformVars` became the variables {names} of each test")
    return {**values, **constants}


def _values(name: str, value: Any, context: Context, *, alone: bool) -> list[Any]:
    """The values of a variable."""
    # As in promptfoo, a list is a value itself unless it begins with a text.
    if is_list(value) and not alone and value and isinstance(value[0], str):
        return [item for part in value for item in _values(name, part, context, alone=True)]
    if not (isinstance(value, str) and value.startswith("file://")):
        return [value]
    if _CODE.search(value):
        raise SourceError(f"the variable {name!r} is computed by code in {value}")
    return [_content(path, context) for path in context.repository.find(value, context.base)]


def _content(path: Path, context: Context) -> str:
    suffix = path.suffix.lower().removeprefix(".")
    if suffix in LEXICON.words("images"):
        raise SourceError(
            f"{context.repository.relative(path)} is not text; see images in golden-datasets"
        )
    text = context.repository.read_text(path)
    if suffix in {"yaml", "yml"}:
        return json.dumps(context.repository.read_yaml(path, text), ensure_ascii=False, default=str)
    return text.strip()


def _resolve(values: dict[str, Any], context: Context) -> dict[str, Any]:
    """The variables with those filled in that they insert themselves."""
    resolved = {
        name: re.sub(r"\n\Z", "", value) if isinstance(value, str) else value
        for name, value in values.items()
    }
    for _ in range(_ROUNDS):
        before = dict(resolved)
        for name, value in before.items():
            if isinstance(value, str) and "{{" in value and len(value) < _INSERTED_MAX:
                resolved[name] = _fill(value, {**before, name: None})
        if resolved == before:
            break
        if any(len(value) > _VALUE_MAX for value in resolved.values() if isinstance(value, str)):
            context.note("manual", "variables insert each other without end")
            return values
    return resolved


def _fill(text: str, values: Mapping[str, Any]) -> str:
    def replace(match: re.Match[str]) -> str:
        value = values.get(match[1])
        if value is None or isinstance(value, str):
            return match[0] if value is None else value
        return json.dumps(value, ensure_ascii=False, default=str)

    return re.sub(r"\{\{\s*(\w+)\s*\}\}", replace, text)


def _assertions(source: Mapping[str, Any], context: Context) -> Iterator[Assertion]:
    """The assertions of a test, each with its context; merged lists have no lines."""
    asserts = source.get("assert")
    for part, part_context in context.locate_items(asserts if is_list(asserts) else [asserts]):
        if is_mapping(part):
            yield Assertion(body=part, context=part_context.locate(part))


def _csv_tests(
    text: str, name: str, context: Context
) -> Iterator[tuple[Mapping[str, Any], Context]]:
    """The tests of a CSV file, with a column for each variable, `__expected` and others."""
    csv.field_size_limit(16 * 1024 * 1024)
    reader = csv.reader(io.StringIO(text, newline=""))
    header = next(reader, list[str]())
    line = reader.line_num + 1
    for row in reader:
        row_context = context.move_to(SourcePlace(path=name, line=line))
        line = reader.line_num + 1
        if any(cell.strip() for cell in row):
            if len(row) > len(header):
                row_context.note("manual", "the row has more cells than the header")
            yield _csv_test(dict(zip(header, row, strict=False))), row_context


def _csv_test(row: Mapping[str, str]) -> dict[str, Any]:
    cells = {column.strip(): cell for column, cell in row.items()}
    asserts = {
        key: _expected(cell)
        for key, cell in cells.items()
        if key.startswith("__expected") and cell.strip()
    }
    for key, cell in cells.items():
        _, _, rest = key.partition("__config:")
        column, _, option = rest.partition(":")
        target = asserts.get(column) or asserts.get(f"{column}1")
        if option and target is not None and cell.strip():
            target[option] = cell
    if metric := cells.get("__metric"):
        for check in asserts.values():
            check["metric"] = metric
    body: dict[str, Any] = {
        "vars": {key: cell for key, cell in cells.items() if not key.startswith("__")},
        "assert": list(asserts.values()),
        "options": {key[2:]: cells[key] for key in ("__prefix", "__suffix") if key in cells},
        "metadata": {
            key.partition(":")[2].removesuffix("[]"): cell
            for key, cell in cells.items()
            if key.startswith("__metadata:")
        },
    }
    for key in ("__description", "__providerOutput"):
        if cells.get(key):
            body[key[2:]] = cells[key]
    if re.fullmatch(r"\s*\d*\.?\d+\s*", cells.get("__threshold", "")):
        body["threshold"] = float(cells["__threshold"])
    return body


def _expected(cell: str) -> dict[str, Any]:
    """The assertion of a cell `__expected`: `type(threshold):value`, or a text to be equal to."""
    for prefix, kind in (
        ("javascript:", "javascript"), ("fn:", "javascript"), ("eval:", "javascript"),
        ("python:", "python"), ("grade:", "llm-rubric"), ("llm-rubric:", "llm-rubric"),
    ):  # fmt: skip
        if cell.startswith(prefix):
            return {"type": kind, "value": cell[len(prefix) :].strip()}
    if cell.startswith("file://"):
        return {"type": "python" if ".py" in cell else "javascript", "value": cell}
    match = _EXPECTED.fullmatch(cell.strip())
    if match is None or not is_kind(match["kind"].removeprefix("not-")):
        return {"type": "equals", "value": cell}
    kind = match["kind"]
    body: dict[str, Any] = {"type": kind}
    if match["value"] is not None:
        body["value"] = (
            match["value"].strip() if kind.endswith(("-any", "-all")) else match["value"]
        )
    if match["threshold"]:
        body["threshold"] = float(match["threshold"])
    elif kind.removeprefix("not-") == "similar":
        body["threshold"] = 0.8
    return body
