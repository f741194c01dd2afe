"""Answers that are SQL."""

from __future__ import annotations

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
    from collections.abc import Generator, Sequence

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
            found: list[Any] = [part for part in sqlglot.parse(text, read=dialect or None) if part]
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


@rule(codes=("sql_invalid", "statement_not_allowed", "table_not_allowed"))
def sql_parses(
    *,
    dialect: str = "",
    statements: Sequence[str] = (),
    tables: Sequence[str] | None = None,
    field: str | None = None,
) -> Check:
    """The whole answer is SQL that parses, by sqlglot; tables and columns are not looked up.

    Args:
        dialect: `postgres`, `mysql`, `sqlite`, `bigquery`, ...; by default what most share.
        statements: The only kinds of statement allowed, such as `select`; any by default.
        tables: The only tables allowed, by name or `schema.name`; any by default.
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
            kind = _kind(statement)
            if kinds and kind not in kinds:
                return failed(
                    f"{kind!r} is not among {listed(sorted(kinds))}", code="statement_not_allowed"
                )
        used = sorted({table for statement in parsed for table in _tables(statement)})
        foreign = [] if allowed is None else [name for name in used if not _among(name, allowed)]
        if foreign:
            return failed(f"uses {listed(foreign)}", code="table_not_allowed", actual=used)
        return passed(f"{plural(len(parsed), 'statement')} of SQL")

    return on_text(field, check)


def _kind(statement: Any) -> str:
    if statement.key == "command":
        return str(statement.this).lower()
    return "select" if statement.key in {"union", "except", "intersect"} else str(statement.key)


def _tables(statement: Any) -> set[str]:
    """The tables of a statement in lower case, without those it defines itself."""
    from sqlglot import exp

    own = {str(part.alias).lower() for part in statement.find_all(exp.CTE)}
    names: set[str] = set()
    for table in statement.find_all(exp.Table):
        name = ".".join(part.name for part in table.parts).lower()
        if name and name not in own:
            names.add(name)
    return names


def _among(name: str, allowed: frozenset[str]) -> bool:
    return name in allowed or name.rpartition(".")[2] in allowed
