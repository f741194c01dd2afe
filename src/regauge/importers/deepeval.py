"""Import of deepeval: goldens, and metrics from the syntax of test files."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import Diagnostic, InvalidFileError, UsageError
from regauge.importers._source import SourceError, placed
from regauge.importers._suite import ImportedSuite, Row, text_of
from regauge.strict_json import is_mapping, list_of, mapping_of
from regauge.wording import snake_case

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.importers._description import Imported, SourcePlace

_DATA: Final = (".json", ".jsonl", ".csv")
_JSON: Final = ("expected_tools", "tools_called", "turns", "additional_metadata")
_FIELDS: Final = ("expected_output", "context", "retrieval_context", "expected_tools")
_NO_INPUT: Final = "a test case whose `input` is made by code: left out"
_CONVERSATION: Final = "a conversation: write `turns` or a persona, see test-a-conversation"
# The classes of test cases, each with the line of the report for one that cannot be read.
_CASES: Final = {
    "LLMTestCase": _NO_INPUT,
    "Golden": _NO_INPUT,
    "ConversationalTestCase": _CONVERSATION,
    "ConversationalGolden": _CONVERSATION,
}
_METRICS: Final = ("GEval", "ConversationalGEval", "ArenaGEval")
_WITHOUT_MODEL: Final = ("ExactMatchMetric", "PatternMatchMetric", "ToolCorrectnessMetric")
_DROPPED: Final = ("model", "async_mode", "verbose_mode", "evaluation_template")
_SOURCE: Final = re.compile(r"add_(?:goldens|test_cases)_from_(?:json|jsonl|csv)_file")
_ASSERTIONS: Final = ("assert_test", "evaluate")
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_TITLE_MAX: Final = 500


@dataclass(slots=True, kw_only=True)
class _Tests:
    """The content of test files.

    Attributes:
        judges: All metrics, each once.
        judges_of: The metrics of the files that name a data file.
        rows: Test cases and goldens whose texts are literal, by file.
    """

    judges: list[JSON] = field(default_factory=list["JSON"])
    judges_of: dict[Path, list[JSON]] = field(default_factory=dict["Path", "list[JSON]"])
    rows: dict[Path, list[Row]] = field(default_factory=dict["Path", "list[Row]"])


def read_deepeval(path: Path, /, *, root: Path, name: str = "") -> Imported:
    """Read goldens, and the metrics of test files; none of their code runs.

    Args:
        path: A file (`.json`, `.jsonl`, `.csv`, `.py`), or a directory.
        root: The project's root.
        name: The stem of the names of written files.

    Raises:
        UsageError: There is none.
        InvalidFileError: The only file cannot be parsed.
    """
    suite = ImportedSuite(path, root=root, name=name, title="deepeval")
    files = suite.files(*_DATA, ".py", accepts=_is_deepeval)
    tests = _Tests()
    data: dict[Path, list[Row]] = {}

    def read(file: Path) -> None:
        if file.suffix == ".py":
            _read_tests(file, suite, tests)
        elif file.suffix in _DATA:
            data[file] = _read_goldens(file, suite)
        else:
            raise UsageError(f"{file.name} is not JSON, JSON Lines, CSV or Python file", fix=_FIX)

    suite.read(files, read)
    for file in tests.judges_of:
        if file not in data:
            suite.read([file], lambda file: data.__setitem__(file, _read_goldens(file, suite)))
    for file, rows in data.items():
        _add(file, rows, tests.judges_of.get(file, tests.judges), suite)
        if file not in tests.judges_of and tests.judges:
            text = "no test file names these goldens, so they have the metrics of all: choose"
            suite.imported.note("manual", suite.place(file), text)
    for file, rows in tests.rows.items():
        _add(file, rows, (), suite)
    if tests.judges and not suite.imported.datasets:
        judges = "".join(f"\n{judge}," for judge in tests.judges)
        drop_texts = ("the data file", "not imported")
        missing = "; ".join(n.text for n in suite.imported.notes if n.text.startswith(drop_texts))
        raise UsageError(
            f"the inputs of {path} are made by code, which is not run"
            f"{f' ({missing})' if missing else ''}",
            fix=f"write golden cases, and give their eval these judges:{judges}",
        )
    return suite.finish(_FIX)


_FIX: Final = "name goldens as JSON, JSON Lines or CSV, or a directory with them and the test files"


def _is_deepeval(text: str) -> bool:
    """Return whether a text may be goldens or a test file."""
    head = text[:20_000]
    keys = ("expected_output", "actual_output", "expectedOutput", "actualOutput", "scenario")
    code = "deepeval" in text and ("Metric" in text or "GEval" in text)
    return code if "import" in head else "input" in head and any(key in head for key in keys)


def _add(file: Path, rows: Sequence[Row], judges: Sequence[JSON], suite: ImportedSuite) -> None:
    """Add rows: those with an `actual_output` as recorded outputs, the others as a dataset."""
    has_clash = len(set(map(_name_of, judges))) < len(judges)  # an eval takes unique names
    of_eval, of_case = ((), judges) if has_clash else (judges, ())
    output_rows: list[Row] = []
    input_rows: list[Row] = []
    outputs: list[list[str]] = []
    for row in rows:
        output = row.inputs.get("actual_output")
        if output is not None:
            outputs.append([text_of(output)])
        checks = [*row.checks, *of_case]
        row_without = replace(row, inputs={"input": row.inputs["input"]}, checks=checks)
        (input_rows if output is None else output_rows).append(row_without)
    if output_rows:
        suite.add_outputs(suite.stem(file), output_rows, outputs, of_eval)
    if input_rows:
        suite.add_dataset(suite.stem(file), input_rows, of_eval)


def _name_of(judge: JSON) -> str:
    """The name of a judge: of its metric, or a name of its own."""
    ((kind, parameters),) = mapping_of(judge).items()
    values = mapping_of(parameters)
    return str(values.get("name") or values.get("metric") or kind)


# Goldens


def _read_goldens(file: Path, suite: ImportedSuite) -> list[Row]:
    """The rows of a data file.

    Raises:
        UsageError: It has none.
        InvalidFileError: It cannot be parsed.
        SourceError: It cannot be read.
    """
    table = suite.repository.read_data(file)
    if is_mapping(table):
        table = table.get("goldens", table.get("test_cases", table.get("testCases")))
    rows: list[Row] = []
    turns = 0
    for item, place in placed(list_of(table), suite.place(file)):
        if not is_mapping(item):
            continue
        values = {snake_case(key): value for key, value in item.items() if value not in ("", None)}
        if isinstance(values.get("input"), str):
            rows.append(_row(_parse(values), place))
        elif "scenario" in values or "turns" in values:
            turns += 1
            suite.imported.note("manual", place, _CONVERSATION)
        else:
            suite.imported.note("manual", place, "a golden without `input`: left out")
    if not rows and not turns:
        raise UsageError(f"{suite.repository.relative(file)} has no golden with `input`", fix=_FIX)
    return rows


def _parse(values: dict[str, Any]) -> dict[str, Any]:
    """Cells of CSV as values."""
    for key in ("context", "retrieval_context"):
        if isinstance(values.get(key), str):
            values[key] = values[key].split("|" if "|" in values[key] else ";")
    for key in _JSON:
        if isinstance(values.get(key), str):
            try:
                values[key] = json.loads(values[key])
            except ValueError:
                continue
    return values


def _row(values: Mapping[str, Any], place: SourcePlace) -> Row:
    inputs = {key: values[key] for key in ("input", "actual_output") if key in values}
    expected = {key: values[key] for key in _FIELDS if values.get(key)}
    if tools := list_of(expected.get("expected_tools")):
        expected["expected_tools"] = tools
    notes = [text_of(values[key]) for key in ("comments", "additional_metadata") if values.get(key)]
    return Row(
        place=place,
        inputs=inputs,
        expected=expected or None,
        title=str(values.get("name") or values["input"])[:_TITLE_MAX],
        note="; ".join(notes),
    )


# Test files


def _read_tests(file: Path, suite: ImportedSuite, tests: _Tests) -> None:
    """Read the metrics, test cases and data files that a test file names.

    Raises:
        InvalidFileError: It is not Python.
        SourceError: It cannot be read.
    """
    module = _module(file, suite)
    judges: dict[str, list[JSON]] = {}
    rows: dict[str, list[Row]] = {}
    unread: list[tuple[SourcePlace, str]] = []
    sources: list[Path] = []
    for call, name, test in module.calls:
        place = suite.place(file, call.lineno)
        if name in _CASES:
            values = module.literals(call)
            if isinstance(values.get("input"), str):
                rows.setdefault(test, []).append(_row(values, place))
                _note_missing(call, values, suite, place)
            else:
                unread.append((place, _CASES[name]))
        elif _SOURCE.fullmatch(name):
            sources += _data_file(module.literals(call), call, file, suite, place)
        elif name.endswith("Metric") or name in _METRICS or call in module.metric_calls:
            judge = _judge(module, call, name, suite, place)
            for user in module.users(call, test):
                judges.setdefault(user, []).append(judge)
    all_judges = _once(judge for judges_of in judges.values() for judge in judges_of)
    for path in sources:
        tests.judges_of[path] = _once([*tests.judges_of.get(path, []), *all_judges])
    tests.judges = _once([*tests.judges, *all_judges])
    if not sources:
        for place, text in unread:
            suite.imported.note("manual", place, text)
    tests.rows[file] = [
        replace(row, checks=_once(judges.get(test) or all_judges))
        for test, test_rows in rows.items()
        for row in test_rows
    ]


def _note_missing(
    call: ast.Call, values: Mapping[str, Any], suite: ImportedSuite, place: SourcePlace
) -> None:
    """Report the fields of a test case that are not literals."""
    for key in (*_FIELDS, "tools_called"):
        if key not in values and any(keyword.arg == key for keyword in call.keywords):
            text = f"`{key}` of a test case is made by code: write it in the case"
            suite.imported.note("manual", place, text)


def _module(file: Path, suite: ImportedSuite) -> _Module:
    text = suite.repository.read_text(file)
    try:
        return _Module(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        place = Path(suite.repository.relative(file))
        diagnostic = Diagnostic(
            path=place, line=line, message=f"not Python: {error}", fix="correct the file"
        )
        raise InvalidFileError([diagnostic]) from error


def _once(judges: Iterable[JSON]) -> list[JSON]:
    return list({repr(judge): judge for judge in judges}.values())


class _Module:
    """The calls of a Python file, its functions, and the names that it assigns once."""

    def __init__(self, tree: ast.Module) -> None:
        self._aliases = {
            alias.asname: alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if alias.asname
        }
        self._definitions = {
            alias.asname or alias.name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
            if (getattr(node, "module", None) or alias.name).partition(".")[0] == "deepeval"
        }
        assigned = [
            (target.id, node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        ]
        counts = Counter(name for name, _ in assigned)
        self._values = {name: value for name, value in assigned if counts[name] == 1}
        self.calls = [
            (call, name, test) for call, test in self._walk(tree) if (name := self._name(call))
        ]
        self.metric_calls = {*self._find_metrics()}
        self._names_read: dict[str, set[str]] = {}
        for statement in tree.body:
            if isinstance(statement, _FUNCTIONS):
                names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
                self._names_read[statement.name] = names

    @staticmethod
    def _walk(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
        """The calls, each with the outermost function that it is in."""
        for statement in tree.body:
            test = statement.name if isinstance(statement, _FUNCTIONS) else ""
            calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
            for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
                yield call, test

    def _name(self, call: ast.Call) -> str:
        function = call.func
        if isinstance(function, ast.Name):
            return self._aliases.get(function.id, function.id)
        return function.attr if isinstance(function, ast.Attribute) else ""

    def _find_metrics(self) -> Iterator[ast.Call]:
        """The calls in the lists of metrics of assertions, whatever their names."""
        for call, name, _ in self.calls:
            values = [*call.args, *(keyword.value for keyword in call.keywords)]
            lists = [value for value in values if isinstance(value, ast.List)]
            for item in (item for items in lists for item in items.elts if name in _ASSERTIONS):
                value = self._values.get(item.id) if isinstance(item, ast.Name) else item
                if isinstance(value, ast.Call):
                    yield value

    def is_of_deepeval(self, call: ast.Call) -> bool:
        """Return whether a call is to a name of the package."""
        root = call.func
        while isinstance(root, ast.Attribute):
            root = root.value
        return "*" in self._definitions or (
            isinstance(root, ast.Name) and root.id in self._definitions
        )

    def users(self, call: ast.Call, test: str) -> list[str]:
        """The functions that use a call's value: its own, or those that read its name."""
        if test:
            return [test]
        names = {
            name
            for name, value in self._values.items()
            if any(node is call for node in ast.walk(value))
        }
        return [test for test, names_read in self._names_read.items() if names & names_read] or [""]

    def literals(self, call: ast.Call) -> dict[str, Any]:
        """The keyword arguments whose values are literal, or names of literal values."""
        values: dict[str, Any] = {}
        for keyword in call.keywords:
            node = keyword.value
            if isinstance(node, ast.Name):
                node = self._values.get(node.id, node)
            try:
                values[str(keyword.arg)] = ast.literal_eval(node)
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                continue
        return values


def _data_file(
    values: Mapping[str, Any], call: ast.Call, file: Path, suite: ImportedSuite, place: SourcePlace
) -> list[Path]:
    """The data file that a call names; none where it cannot be found."""
    path = values.get("file_path")
    if path is None and call.args and isinstance(call.args[0], ast.Constant):
        path = call.args[0].value
    try:
        if isinstance(path, str):
            for base in (file.parent, suite.repository.root):
                resolved = suite.repository.resolve(path, base)
                if resolved.is_file():
                    return [resolved]
    except SourceError as error:
        suite.imported.note("manual", place, f"not imported: {error}")
        return []
    suite.imported.note("manual", place, f"the data file {path or 'of this call'} is missing")
    return []


def _judge(
    module: _Module, call: ast.Call, name: str, suite: ImportedSuite, place: SourcePlace
) -> JSON:
    """The judge of a metric."""
    if not module.is_of_deepeval(call):
        return suite.unmeasured(name, "its class is Python, which is not run", place)
    values = module.literals(call)
    parameters: dict[str, JSON] = {"metric": name.removesuffix("Metric") or name}
    for keyword in call.keywords:
        key = str(keyword.arg)
        if key == "evaluation_params":
            parameters[key] = _parameters(keyword.value)
        elif key in _DROPPED:
            suite.imported.note("dropped", place, f"`{key}` of {name}: regauge has its own setting")
        elif key in values:
            parameters[key] = cast("JSON", values[key])
        else:
            text = f"`{key}` of {name} is made by code: write it in the eval"
            suite.imported.note("manual", place, text)
    if name not in _WITHOUT_MODEL:
        suite.need_judge_model(place)
    return suite.check({"deepeval": parameters}, name, place)


def _parameters(node: ast.expr) -> list[JSON]:
    """The names of fields: `SingleTurnParams.ACTUAL_OUTPUT` is `actual_output`."""
    items = node.elts if isinstance(node, ast.List | ast.Tuple) else []
    names: list[JSON] = [item.attr.lower() for item in items if isinstance(item, ast.Attribute)]
    return names
