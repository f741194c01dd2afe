"""Answers that are SQL."""

from __future__ import annotations

import functools
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from regauge.errors import UsageError
from regauge.judges._evidence import listed
from regauge.judges._rule import Check, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

__all__ = ["sql_parses"]

_SQL_CHARS_MAX = 50_000
_NO_STATEMENTS = frozenset({"alias", "literal", "column", "paren", "identifier", "boolean", "null"})


@contextmanager
def _quietly() -> Generator[None]:
    """Keep the parser from telling the log which statements it does not look into."""
    log = logging.getLogger("sqlglot")

    def silent(_record: logging.LogRecord) -> bool:
        return False

    log.addFilter(silent)
    try:
        yield
    finally:
        log.removeFilter(silent)


def _parsed(text: str, dialect: str) -> list[Any] | str:  # noqa: PLR0911 - one per fault
    """The statements of a text, or why it is no SQL."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    if len(text) > _SQL_CHARS_MAX:
        return f"longer than {_SQL_CHARS_MAX} characters"
    try:
        with _quietly():
            # A comment after the last semicolon comes as a statement of its own.
            found: list[Any] = [
                part
                for part in sqlglot.parse(text, read=dialect or None)
                if part is not None and part.key != "semicolon"
            ]
    except SqlglotError as error:
        errors: list[Any] = getattr(error, "errors", [])
        if errors:
            first = errors[0]
            return f"{first['description']} at line {first['line']}, column {first['col']}"[:200]
        return " ".join(str(error).split())[:200]
    except RecursionError:
        return "nested too deeply"
    except (ValueError, IndexError, AttributeError, TypeError, KeyError) as error:
        return f"the parser gives up: {error}"[:200]
    if not found:
        return "no statement"
    for statement in found:
        if statement.key in _NO_STATEMENTS or _misspelt(statement):
            return f"no statement: {str(statement)[:60]!r}"
    return found


def _misspelt(statement: Any) -> bool:
    """Whether a command that the parser passes over begins with no known word."""
    return statement.key == "command" and not str(statement.this or "").isalpha()


@rule(codes=("sql_invalid", "statement_not_allowed", "table_not_allowed"), version=2)
def sql_parses(
    *,
    dialect: str = "",
    statements: Sequence[str] = (),
    tables: Sequence[str] | None = None,
    field: str | None = None,
) -> Check:
    """The whole answer is SQL that parses, by sqlglot; tables and columns are not looked up.

    A statement inside another one, as in `WITH x AS (DELETE ...)`, is of its own kind, too, and
    `SELECT ... INTO` is `select into`.

    Args:
        dialect: `postgres`, `mysql`, `sqlite`, `bigquery`, ...; by default what most share.
        statements: The only kinds of statement allowed, such as `select`; any by default.
        tables: The only tables allowed, as the SQL names them: `name` or `schema.name`; any by
            default.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(sql_parses(statements=["select"]).check_text("SELECT 1; DROP TABLE pods"))
    fail: 'drop' is not among 'select'
    >>> print(sql_parses(tables=["pods"]).check_text("SELECT name FROM pods"))
    pass: 1 statement of SQL
    """
    if dialect:
        import sqlglot

        try:
            sqlglot.Dialect.get_or_raise(dialect)
        except ValueError as error:
            raise UsageError(f"sql_parses: {error}") from error
    kinds = frozenset(kind.lower() for kind in statements)
    allowed = None if tables is None else frozenset(table.lower() for table in tables)

    def check(text: str) -> Verdict:
        parsed = _parsed(text, dialect)
        if isinstance(parsed, str):
            return failed(f"not SQL: {parsed}", code="sql_invalid")
        for statement in parsed:
            foreign_kinds = [kind for kind in _kinds(statement) if kind not in kinds]
            if kinds and foreign_kinds:
                return failed(
                    f"{foreign_kinds[0]!r} is not among {listed(sorted(kinds))}",
                    code="statement_not_allowed",
                )
        used = sorted({table for statement in parsed for table in _tables(statement)})
        foreign = [] if allowed is None else [name for name in used if name not in allowed]
        if foreign:
            return failed(f"uses {listed(foreign)}", code="table_not_allowed", actual=used)
        return passed(f"{plural(len(parsed), 'statement')} of SQL")

    return on_text(field, check)


def _kinds(statement: Any) -> list[str]:
    """The kind of a statement, then those of the statements inside it."""
    from sqlglot import exp

    outer = statement.unnest() if isinstance(statement, exp.Subquery) else statement
    kinds = [_kind(outer)]
    # The updates and inserts of a merge are parts of it.
    nodes: Iterator[Any] = statement.walk(prune=_is_merge)
    for node in nodes:
        if isinstance(node, exp.Into):
            kinds.append("select into")
        elif node is not outer and isinstance(node, _change_types()):
            kinds.append(_kind(node))
    return kinds


def _is_merge(node: object) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Merge)


@functools.cache
def _change_types() -> tuple[type[Any], ...]:
    from sqlglot import exp

    return (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.DDL, exp.Drop, exp.Copy, exp.Command)


def _kind(statement: Any) -> str:
    from sqlglot import exp

    if statement.key == "command":
        return str(statement.this).lower()
    return "select" if isinstance(statement, exp.SetOperation) else str(statement.key)


def _tables(statement: Any) -> set[str]:
    """The tables of a statement in lower case, without those it defines itself."""
    from sqlglot import exp

    has_ctes = statement.find(exp.CTE) is not None
    names: set[str] = set()
    for table in statement.find_all(exp.Table):
        name = ".".join(part.name for part in table.parts).lower()
        if name and not (has_ctes and _is_cte(table, name)):
            names.add(name)
    return names


def _is_cte(table: Any, name: str) -> bool:
    """Whether a name stands for a common table expression that is in scope there.

    The name of one, inside itself, stands for a table, unless it is recursive.
    """
    from sqlglot import exp

    node = table
    while (parent := node.parent) is not None:
        clause = (
            parent
            if isinstance(parent, exp.With)
            else parent.args.get("with_", parent.args.get("with"))
        )
        if isinstance(clause, exp.With) and clause is not node:
            ctes: list[Any] = clause.expressions
            if parent is clause and not clause.args.get("recursive"):
                ctes = ctes[: ctes.index(node)]
            if any(str(cte.alias).lower() == name for cte in ctes):
                return True
        node = parent
    return False
