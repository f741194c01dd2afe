"""JSON, strictly: one object per line, each key once, and only numbers that JSON knows."""

from __future__ import annotations

import json
import math
from typing import cast

from regauge.datasets._record import Record, Source, decode_lines
from regauge.strict_json import NoNumberError, TwiceError, no_constant, read_json, unique

__all__ = ["parse_json", "read_jsonl"]


class _NotJSONError(ValueError):
    """What is wrong with a text that is to be JSON, and what to do about it.

    Attributes:
        fix: Empty where only the line as a whole can be said to be wrong.
    """

    def __init__(self, message: str, fix: str = "") -> None:
        self.fix = fix
        super().__init__(message)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _NotJSONError(f"{digits} is too large a number", "write it as a text")
    return number


_decoder = json.JSONDecoder(
    object_pairs_hook=unique, parse_constant=no_constant, parse_float=_finite
)


def parse_json(text: str) -> object:
    """Read one JSON text.

    Raises:
        ValueError: It is not JSON, a key is given twice, or a number is NaN or infinite; the
            message says which, with the column where that is known.
    """
    try:
        value: object = _decoder.decode(text)
        if "\\u" in text:
            # An escape can spell half a surrogate pair, which nothing can send or store as UTF-8.
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise _NotJSONError(f"not JSON: {error.msg.lower()} at column {error.colno}") from error
    except UnicodeEncodeError as error:
        raise _NotJSONError(
            "a \\u escape spells half a character (a lone surrogate)", "write the character itself"
        ) from error
    except RecursionError as error:
        raise _NotJSONError("nested too deeply", "give it as a text") from error
    except TwiceError as error:
        raise _NotJSONError(str(error), "keep one of the two") from error
    except NoNumberError as error:
        raise _NotJSONError(str(error), "write a number, or null for none") from error
    except _NotJSONError:
        raise
    except ValueError as error:
        raise _NotJSONError("a number has too many digits", "write it as a text") from error
    return value


def read_jsonl(source: Source) -> list[Record]:
    """The records of a JSON Lines file; blank lines count but hold none."""
    text = decode_lines(source)
    if text is None:
        return []
    if text.lstrip().startswith("["):
        source.fault(
            1,
            "this is a JSON array, not JSON Lines",
            "write one object per line, without brackets around them and commas between them",
        )
        return []
    records: list[Record] = []
    # Only \n ends a line here: str.splitlines would also cut at characters that JSON allows inside
    # its strings, such as U+2028.
    for number, line in enumerate(text.split("\n"), 1):
        if not line or line.isspace():
            continue
        try:
            value = parse_json(line)
        except _NotJSONError as error:
            source.fault(number, str(error), error.fix or _whole_line(source))
            try:
                # Python reads more than JSON has, so the rest of such a case can be checked too.
                value = read_json(line)
            except (ValueError, RecursionError):
                continue
        if isinstance(value, dict):
            records.append(Record(line=number, values=cast("dict[str, object]", value)))
        else:
            message = f"{source.holds} is a JSON object, not {json.dumps(value)[:40]}"
            source.fault(number, message, _whole_line(source))
    return records


def _whole_line(source: Source) -> str:
    """What a line is to be; said once for a file, however many of its lines are otherwise."""
    fix = f'write {source.holds} as one {{"key": "value"}} object on a line of its own'
    return "" if any(fault.fix == fix for fault in source.faults) else fix
