"""Outputs that are YAML, CSV or Python."""

from __future__ import annotations

import ast
import csv
import functools
import io
import warnings
from typing import TYPE_CHECKING, Any, Literal

from regauge.errors import UsageError
from regauge.judges._evidence import listed
from regauge.judges._json_text import parse_integer
from regauge.judges._path import Missing, parse_path, value_at
from regauge.judges._rule import Check, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = ["csv_parses", "python_parses", "yaml_documents", "yaml_parses"]

# Longer outputs are no YAML to check.
_YAML_CHARS_MAX = 100_000
_YAML_DEPTH_MAX = 200


@functools.cache
def _yaml_loader() -> Any:
    """A loader of YAML 1.2 that refuses double keys and leaves tags such as `!Ref` out."""
    import yaml

    from regauge.prompts._yaml import scalar_resolvers

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        yaml_implicit_resolvers = scalar_resolvers()

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - as PyYAML calls it
            seen: set[tuple[str, str]] = set()
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                    problem = f"the key {key.value!r} is given twice"
                    raise yaml.constructor.ConstructorError(
                        problem=problem, problem_mark=key.start_mark
                    )
                seen.add((key.tag, str(key.value)))
            parent: Any = super()
            return parent.construct_mapping(node, deep=deep)

        def tagged(self, _suffix: str, node: Any) -> Any:
            if isinstance(node, yaml.ScalarNode):
                return node.value
            is_list = isinstance(node, yaml.SequenceNode)
            return (self.construct_sequence if is_list else self.construct_mapping)(node, deep=True)

        def integer(self, node: Any) -> float:
            digits = str(node.value)
            base = {"0o": 8, "0x": 16}.get(digits[:2], 10)
            return parse_integer(digits) if base == 10 else int(digits, base)  # noqa: PLR2004

    Loader.add_multi_constructor("!", Loader.tagged)
    Loader.add_constructor("tag:yaml.org,2002:int", Loader.integer)
    return Loader


def _yaml_depth(text: str, loader: Any) -> int:
    """How deep a text nests: the compiled loader would exhaust the stack first."""
    import yaml

    depth = deepest = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            deepest = max(deepest, depth)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _YAML_DEPTH_MAX:
            break
    return deepest


def yaml_documents(text: str) -> list[Any] | str:
    """The documents of a YAML 1.2 text, or why it is none."""
    import yaml

    if len(text) > _YAML_CHARS_MAX:
        return f"longer than {_YAML_CHARS_MAX} characters"
    loader = _yaml_loader()
    try:
        if _yaml_depth(text, loader) > _YAML_DEPTH_MAX:
            return "nested too deeply"
        return list(yaml.load_all(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        return f"{error.problem or error.context or 'broken'}{place}"
    except RecursionError:
        return "nested too deeply"
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, OverflowError) as error:
        return " ".join(str(error).split())[:200]


def _container(document: object) -> str:
    """What a document is; dates and numbers are as much a scalar as a text."""
    if isinstance(document, dict):
        return "object"
    return "array" if isinstance(document, list) else "scalar"


@rule(codes=("yaml_invalid", "wrong_type", "missing_field"), version=2)
def yaml_parses(
    *,
    kind: Literal["object", "array", "any"] = "object",
    keys: Sequence[str] = (),
    field: str | None = None,
) -> Check:
    r"""The whole output is YAML 1.2; of several documents, each is.

    A key that is given twice is an error. `on`, `yes` and dates are texts, and a value with a tag
    of its own, such as `!Ref`, counts without the tag.

    Args:
        kind: What each document must be. Any prose is YAML for a text, so `any` says little.
        keys: Paths that each document must have, such as `metadata.name`.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(yaml_parses(keys=["on"]).check_text("name: ci\non: push"))
    pass: YAML, 1 document
    >>> print(yaml_parses().check_text("name: [ci"))
    fail: not YAML: did not find expected ',' or ']' at line 2, column 1
    """
    wanted = [(key, parse_path(key)) for key in keys]

    def check(text: str) -> Verdict:
        documents = yaml_documents(text)
        if isinstance(documents, str):
            return failed(f"not YAML: {documents}", code="yaml_invalid")
        for document in documents or [None]:
            found = _container(document)
            if kind not in ("any", found):
                return failed(f"YAML, but {found} instead of {kind}", code="wrong_type")
            missing = [
                key for key, steps in wanted if isinstance(value_at(document, steps), Missing)
            ]
            if missing:
                return failed(f"no field {listed(missing)}", code="missing_field")
        return passed(f"YAML, {plural(len(documents), 'document')}")

    return on_text(field, check)


@rule(codes=("csv_invalid", "missing_column", "too_few"), version=2)
def csv_parses(
    *,
    columns: Sequence[str] = (),
    delimiter: str = ",",
    min_rows: int = 1,
    field: str | None = None,
) -> Check:
    r"""The whole answer is a table of CSV: a header, and rows that are all as wide.

    Args:
        columns: Names the header must have, in any order.
        delimiter: What stands between values.
        min_rows: The least number of rows below the header.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(csv_parses(columns=["pod", "cpu"]).check_text("pod,cpu\na,1\nb,2\n"))
    pass: CSV, 2 columns, 2 rows
    >>> print(csv_parses().check_text("pod,cpu\na\n"))
    fail: row 2 has 1 value, the header has 2
    """
    if len(delimiter) != 1:
        raise UsageError(f"csv_parses: a delimiter is one character, not {delimiter!r}")

    def check(text: str) -> Verdict:
        try:
            plain = text.removeprefix("\ufeff")
            reader = csv.reader(io.StringIO(plain, newline=""), delimiter=delimiter, strict=True)
            rows = [row for row in reader if row]
        except csv.Error as error:
            return failed(f"not CSV: {error}", code="csv_invalid")
        if not rows or len(rows[0]) < 2:  # noqa: PLR2004 - prose is a table of one column
            return failed("not CSV: no header of two columns or more", code="csv_invalid")
        header = [name.strip() for name in rows[0]]
        for place, row in enumerate(rows[1:], start=2):
            if len(row) != len(header):
                return failed(
                    f"row {place} has {plural(len(row), 'value')}, the header has {len(header)}",
                    code="csv_invalid",
                )
        missing = [name for name in columns if name not in header]
        if missing:
            return failed(f"no column {listed(missing)}", code="missing_column", actual=header)
        if len(rows) - 1 < min_rows:
            reason = f"{plural(len(rows) - 1, 'row')}, at least {min_rows} wanted"
            return failed(reason, code="too_few")
        return passed(f"CSV, {len(header)} columns, {plural(len(rows) - 1, 'row')}")

    return on_text(field, check)


@rule(codes=("python_invalid", "missing_function"))
def python_parses(*, functions: Sequence[str] = (), field: str | None = None) -> Check:
    r"""The whole answer is Python that parses, by the grammar of the running Python.

    Args:
        functions: Functions or classes that must be defined at the top level.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(python_parses(functions=["main"]).check_text("def main():\n    pass"))
    pass: Python that parses
    >>> print(python_parses().check_text("def main(:"))
    fail: not Python: invalid syntax at line 1
    """

    def check(text: str) -> Verdict:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except SyntaxError as error:
            return failed(f"not Python: {error.msg} at line {error.lineno}", code="python_invalid")
        except (ValueError, RecursionError, MemoryError) as error:
            why = str(error) or "nested too deeply"
            return failed(f"not Python: {why}", code="python_invalid")
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        defined = {node.name for node in tree.body if isinstance(node, kinds)}
        missing = [name for name in functions if name not in defined]
        if missing:
            return failed(f"does not define {listed(missing)}", code="missing_function")
        return passed("Python that parses")

    return on_text(field, check)
