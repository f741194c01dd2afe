"""From records to golden cases: what a case must hold, and every way it may not."""

from __future__ import annotations

import re
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast, get_args

from regauge.datasets._case import GoldenCase, Split, Tier, split_of
from regauge.datasets._record import KEYS, is_known
from regauge.datasets._texts import Texts, file_reference
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.datasets._record import Record, Source
    from regauge.digests import JSON

__all__ = ["Reading", "cases_of"]

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+/-]{0,199}")
_ID_RULE = "a-z, A-Z, 0-9 and _ . + / - only, at most 200"
# `-k` reads these words as operators, so nobody could select such a case.
_OPERATORS = frozenset({"and", "or", "not"})
_TIERS: tuple[str, ...] = get_args(Tier)
_SPLITS: tuple[str, ...] = get_args(Split)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What it takes to turn the records of a file into cases.

    Attributes:
        texts: Reads the files that cases refer to.
        salt: See `split_of`.
        holdout: See `split_of`.
    """

    texts: Texts
    salt: str
    holdout: float


def cases_of(records: Sequence[Record], source: Source, reading: Reading) -> list[GoldenCase]:
    """The cases of a file; what is wrong with any of them is noted in `source`."""
    first: dict[str, int] = {}
    cases: list[GoldenCase] = []
    for record in records:
        faults = len(source.faults)
        case_id = _id(record, source, first)
        for key in record.values:
            if key not in KEYS:
                is_known(key, source, record.line_of(key))
        inputs = _inputs(record, source, reading.texts)
        expected = _expected(record, source, reading.texts)
        tier = _word(record, source, "tier", _TIERS, "required")
        split = _word(record, source, "split", _SPLITS, "")
        tags = _tags(record, source)
        origin, licence, note = (
            _text(record, source, key) for key in ("source", "licence", "note")
        )
        checks = _checks(record, source)
        pass_at = _pass_at(record, source)
        if len(source.faults) > faults:
            continue
        cases.append(
            GoldenCase(
                id=case_id,
                inputs=inputs,
                expected=expected,
                tags=tags,
                tier=cast("Tier", tier),
                split=cast("Split", split)
                if split
                else split_of(case_id, salt=reading.salt, holdout=reading.holdout),
                source=origin,
                licence=licence,
                at=f"{source.shown.as_posix()}:{record.line}",
                note=note,
                checks=checks,
                pass_at=pass_at,
            )
        )
    return cases


def _id(record: Record, source: Source, first: dict[str, int]) -> str:
    value = record.values.get("id")
    line = record.line_of("id")
    if value is None:
        source.fault(line, "a case without an id", 'give it one: "id": "a-unique-name"')
        return ""
    if not isinstance(value, str):
        source.fault(line, f"the id {_shown(value)} is not text", "put it in quotes")
        return ""
    if not _ID.fullmatch(value) or value in _OPERATORS:
        plain = _slug(value)
        fix = f"{_ID_RULE}" + (f", such as {plain!r}" if plain else "")
        if value in _OPERATORS:
            fix = "pytest -k reads this word as an operator; choose another id"
        source.fault(line, f"the id {_shown(value)} cannot be the id of a test", fix)
    if value in first:
        source.fault(
            line,
            f"the id {_shown(value)} is taken: {source.unit} {first[value]} has it too",
            "every case needs an id of its own",
        )
    else:
        first[value] = line
    return value


def _inputs(record: Record, source: Source, texts: Texts) -> Mapping[str, JSON]:
    line = record.line_of("inputs")
    value = record.values.get("inputs")
    if "inputs" not in record.values:
        source.fault(
            line, "a case without inputs", 'name what the prompt needs: "inputs": {"name": "..."}'
        )
    elif isinstance(value, dict):
        inputs = cast("Mapping[str, JSON]", value)
        return _with_texts("inputs", inputs, line, source, texts)
    else:
        source.fault(line, f"inputs is {_kind(value)}, not a mapping of names to values")
    return {}


def _expected(record: Record, source: Source, texts: Texts) -> JSON:
    value = cast("JSON", record.values.get("expected"))
    line = record.line_of("expected")
    if (reference := file_reference(value)) is not None:
        return _text_of("expected", reference, line, source, texts)
    if isinstance(value, dict):
        return _with_texts("expected", value, line, source, texts)
    return value


def _with_texts(
    where: str, values: Mapping[str, JSON], line: int, source: Source, texts: Texts
) -> Mapping[str, JSON]:
    """The same mapping, with the text of a file in place of each `{"file": ...}` value."""
    found = {
        key: reference
        for key, item in values.items()
        if isinstance(item, dict) and (reference := file_reference(item)) is not None
    }
    if not found:
        return values
    return {
        key: _text_of(f"{where}.{key}", found[key], line, source, texts) if key in found else item
        for key, item in values.items()
    }


def _text_of(where: str, reference: str, line: int, source: Source, texts: Texts) -> str:
    try:
        return texts.text(reference)
    except ValueError as error:
        source.fault(line, f"{where}: {error}")
        return ""


def _tags(record: Record, source: Source) -> tuple[str, ...]:
    value = record.values.get("tags")
    if value is None:
        return ()
    tags = cast("list[object]", value) if isinstance(value, list) else None
    if tags is not None:
        words = [tag for tag in tags if isinstance(tag, str) and tag.strip() == tag != ""]
        if len(words) == len(tags) and not any(";" in word for word in words):
            return tuple(words)
    source.fault(
        record.line_of("tags"),
        f"tags is {_shown(record.values['tags'])}",
        'a list of words without ";": "tags": ["storage", "night"]',
    )
    return ()


def _checks(record: Record, source: Source) -> tuple[JSON, ...]:
    """The judges that a case names; what they mean is checked where a suite is made."""
    value = record.values.get("checks")
    if value is None:
        return ()
    checks: list[object] = cast("list[object]", value) if isinstance(value, list) else []
    if checks and all(isinstance(check, str | dict) for check in checks):
        return tuple(cast("list[JSON]", checks))
    source.fault(
        record.line_of("checks"),
        f"checks is {_shown(record.values['checks'])}",
        'a list of judges: "checks": [{"contains": "Berlin"}, "is_json"]',
    )
    return ()


def _pass_at(record: Record, source: Source) -> float | None:
    value = record.values.get("pass_at")
    if value is None:
        return None
    line = record.line_of("pass_at")
    if isinstance(value, str):  # a cell of a CSV file
        with suppress(ValueError):
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        source.fault(line, f"pass_at is {_shown(value)}", "a share above 0 and up to 1")
    elif not record.values.get("checks"):
        source.fault(line, "pass_at without checks", "add `checks`, or remove `pass_at`")
    else:
        return float(value)
    return None


def _word(record: Record, source: Source, key: str, allowed: tuple[str, ...], default: str) -> str:
    value = record.values.get(key)
    if value is None:
        return default
    if isinstance(value, str) and value in allowed:
        return value
    near = did_you_mean(str(value), allowed)
    fix = f"one of {', '.join(allowed)}" + (f"; {near}" if near else "")
    source.fault(record.line_of(key), f"no such {key}: {_shown(value)}", fix)
    return default


def _text(record: Record, source: Source, key: str) -> str:
    value = record.values.get(key)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    source.fault(record.line_of(key), f"{key} is {_kind(value)}, not text")
    return ""


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, dict) else _shown(value)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004 - the width of a line


def _slug(value: str) -> str:
    """What is left of an id when only allowed characters are kept, short enough for a message."""
    letters = unicodedata.normalize("NFKD", value.replace("ß", "ss"))
    plain = letters.encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_.+/-]+", "-", plain).strip("-+./")[:40]
