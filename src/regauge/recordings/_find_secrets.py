"""Secrets in a text: keys by their form, and values by their context."""

from __future__ import annotations

import base64
import binascii
import functools
import math
import re
import tomllib
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSecret:
    """A secret in a text, from `start` up to `end`.

    Attributes:
        kind: Its name, such as `GitHub token`.
    """

    kind: str
    start: int
    end: int


def find_secrets(text: str) -> list[FoundSecret]:
    """Find the secrets of a text, sorted by start; they may overlap."""
    # The only character with two in lower case would shift later offsets.
    lower = text.replace("\u0130", "i").lower()
    kinds = [kind for hint, kind in _data().contexts if hint in lower]
    # Prose has few long words, and this runs for every written text.
    words = [word for word in text.split() if len(word) >= _FORM_MIN]
    if words:
        long = " ".join(words)
        kinds += [kind for hint, kind in _data().hints if hint in long]
    if len(max(words, key=len, default="")) >= _MIXED_LENGTH:
        kinds.append(_MIXED)
    secrets = [secret for kind in dict.fromkeys(kinds) for secret in kind.find(text, lower)]
    return sorted(secrets, key=lambda secret: (secret.start, -secret.end))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Kind:
    """One kind of secret.

    Attributes:
        hints: Every text with such a secret contains one of these texts: a cheap first test.
        begins_with_hint: Whether each match begins with a hint.
        ignores_case: Whether hints are lower case, for text in any case.
        pattern: The regular expression; its group `value`, if any, is the secret.
        accepts: Called with a match; returns whether it is a secret.
    """

    name: str
    hints: tuple[str, ...]
    begins_with_hint: bool = False
    ignores_case: bool = False
    pattern: str
    accepts: Callable[[re.Match[str]], bool]

    def find(self, text: str, lower: str) -> Iterator[FoundSecret]:
        pattern = re.compile(self.pattern)
        places = lower if self.ignores_case else text
        group = "value" if "value" in pattern.groupindex else 0
        start_at = 0
        while (match := self._next(pattern, text, places, start_at)) is not None:
            start, end = match.span(group)
            if self.accepts(match):
                yield FoundSecret(kind=self.name, start=start, end=end)
                start_at = max(end, start_at + 1)
            else:
                # A rejected value may contain the name of the next one.
                start_at = end if group == 0 else max(start, start_at + 1)

    def _next(
        self, pattern: re.Pattern[str], text: str, places: str, start_at: int
    ) -> re.Match[str] | None:
        if not self.begins_with_hint:
            return pattern.search(text, start_at)
        # Searching for texts takes a tenth of the time of matching a pattern at each offset, and
        # less for a pattern that ignores case.
        begins = re.compile("|".join(map(re.escape, self.hints)))
        while (begin := begins.search(places, start_at)) is not None:
            if (match := pattern.match(text, begin.start())) is not None:
                return match
            start_at = begin.start() + 1
        return None


# No key is a part of a shorter word, but for the lines of private keys.
_FORM_MIN: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class _Data:
    """The contents of `key_formats.toml`.

    Attributes:
        hints: Hints with the kind that is recognised by its form.
        contexts: Hints with the kind that is recognised by its context.
        usual: User names and passwords of examples.
        no_values: Words in the place of a password, such as types and settings.
    """

    hints: tuple[tuple[str, _Kind], ...]
    contexts: tuple[tuple[str, _Kind], ...]
    usual: frozenset[str]
    no_values: frozenset[str]


@functools.cache
def _data() -> _Data:
    """Load the data on first use."""
    text = files("regauge.recordings").joinpath("key_formats.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    usual = frozenset(document["usual"].split())
    formats = [
        _Kind(
            name=row["name"],
            hints=tuple(row["hints"]),
            begins_with_hint=_begins_with_hint(row["pattern"], row["hints"]),
            pattern=f"(?a:{row['pattern']})",
            accepts=_is_no_slug,
        )
        for row in document["format"]
    ]
    contexts: list[_Kind] = []
    for row in document["context"]:
        pattern = row["pattern"]
        for part in ("word_names", "random_names", "assigned", "value"):
            pattern = pattern.replace(f"{{{part}}}", document[part])
        contexts.append(
            _Kind(
                name=row["name"],
                hints=tuple(row["hints"]),
                begins_with_hint=True,
                ignores_case=True,
                pattern=pattern,
                accepts=_TESTS[row["accepts"]],
            )
        )
    return _Data(
        contexts=tuple([(hint, kind) for kind in contexts for hint in kind.hints]),
        hints=tuple([(hint, kind) for kind in formats for hint in kind.hints]),
        usual=usual,
        no_values=usual | set(document["no_values"].split()),
    )


def _begins_with_hint(pattern: str, hints: list[str]) -> bool:
    """Return whether a pattern begins with its only hint, apart from a lookbehind."""
    body = re.sub(r"\A(?:\\b|\(\?<!\[[^\]]*\]\))", "", pattern)
    return len(hints) == 1 and body.startswith((hints[0], re.escape(hints[0])))


# Escapes of JSON, Python, URLs and HTML, each for one character.
_ESCAPE: Final = re.compile(
    r"\\(?:u00[0-9a-fA-F]{2}|x[0-9a-fA-F]{2}|[\"'\\/nrt])|%[2-7][0-9a-fA-F]"
    r"|&(?:amp|quot|apos|lt|gt|#\d{2,3}|#[xX][0-9a-fA-F]{2});"
)
_NAMED: Final = {"amp": "&", "quot": '"', "apos": "'", "lt": "<", "gt": ">"}
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t"}
# JSON in JSON, or in a URL.
_DEPTH_MAX: Final = 2


def decoded_texts(text: str) -> Iterator[tuple[str, Callable[[int], int]]]:
    """Yield `text` with its escapes replaced, once and twice.

    Yields:
        Each text, with a function from its offsets to those in `text`.
    """
    origin: Callable[[int], int] = int
    for _ in range(_DEPTH_MAX):
        if "\\" not in text and "%" not in text and "&" not in text:
            return
        decoded = _ESCAPE.sub(_character, text)
        if decoded == text:
            return
        origin = _origins_in(text, origin)
        text = decoded
        yield text, origin


def _origins_in(text: str, before: Callable[[int], int]) -> Callable[[int], int]:
    """Return the function from offsets of a decoded text to offsets of the original.

    Args:
        text: The text before decoding.
        before: The function for offsets of `text`.
    """

    @functools.cache  # few texts hold a secret, and only they need the offsets
    def ends() -> tuple[list[int], list[int]]:
        decoded, encoded, removed = [0], [0], 0
        for match in _ESCAPE.finditer(text):
            removed += match.end() - match.start() - 1
            encoded.append(match.end())
            decoded.append(match.end() - removed)
        return decoded, encoded

    def origin(place: int) -> int:
        decoded, encoded = ends()
        index = bisect_right(decoded, place) - 1
        return before(encoded[index] + place - decoded[index])

    return origin


def _character(match: re.Match[str]) -> str:
    escape = match[0]
    if escape[0] == "%":
        return chr(int(escape[1:], 16))
    if escape[0] == "&":
        name = escape[1:-1]
        if name[0] != "#":
            return _NAMED[name]
        return chr(int(name[2:], 16) if name[1] in "xX" else int(name[1:]))  # noqa: FURB166
    if escape[1] in "ux":
        return chr(int(escape[2:], 16))  # noqa: FURB166 - its base is in another form
    return _CONTROLS.get(escape[1], escape[1])


def entropy(text: str) -> float:
    """Return the Shannon entropy of a text's characters, in bits per character.

    >>> entropy("aaaa"), entropy("abcd")
    (0.0, 2.0)
    """
    total = len(text)
    shares = [count / total for count in Counter(text).values()]
    return -sum(share * math.log2(share) for share in shares) + 0.0


_WORD: Final = re.compile(r"[a-z]{1,14}|[A-Z][a-z]{1,13}|v?\d{1,4}|[a-z]{2,10}\d{1,2}")
_PLACEHOLDER: Final = re.compile(
    r"(?i)\A(?:[<\[({$%*.#]|0x)|\$\{|\{\{|\.{3}|\u2026|\*{3}|x{6}|<|placeholder|redacted|change[_-]?me"
    r"|example|dummy|your[_-]|insert[_-]|\bprocess\.env|\bos\.environ|getenv|secrets\."
    r"|\A(?:vault|ssm|arn|file|env|op|sops|https?)[:/]"
)
# Identifiers of code that hold a value: `config.password`, `MY_TOKEN`, `get_token(...)`.
_CODE: Final = re.compile(
    r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Z]+(?:_[A-Z0-9]+)+|[A-Za-z_][\w.]*\(.*|[a-z]+(?:_[a-z]+)+"
)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d|\d+(?:\.\d+)+(?:\W|\Z)|v\d+\.")
# Only these characters of a value are tested; hostile text may be long.
_TESTED_CHARS: Final = 128
# Characters of AWS's secrets: of every kind, and of more entropy than names in camel case.
_UPPER_MIN: Final = 6
_MIXED_BITS: Final = 4.3
_PASSWORD_MIN: Final = 6
_TOKEN_MIN: Final = 8
_HEX_DIGITS_MIN: Final = 6
_END_OF_VALUE: Final = re.compile(r"[\"'`*]*[ \t]*(?:[.,;)\]}]|\r?\n|\Z|&|<|\|)")
_NO_KEY_BEFORE: Final = re.compile(
    r"(?i)(?:cache|primary|foreign|partition|sort|public|object|idempotency|dedup\w*|hash|index|row"
    r"|map|lookup|s3|translation|config\w*|metric|host|unique|composite|routing|ordering)[ _-]?\Z"
)
_CALLER: Final = re.compile(r"\b(?:curl|wget|http|https|xh|git|mysql|ftp|smbclient)\b")


def _is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder: `<token>`, `$TOKEN`, `your-key`."""
    return _PLACEHOLDER.search(value[:_TESTED_CHARS]) is not None


def _is_slug(text: str) -> bool:
    """Return whether a text is words with separators.

    >>> _is_slug("sk-learn-in-depth"), _is_slug("prod/db/staging-v2"), _is_slug("sk-proj-a8Zk29xQ")
    (True, True, False)
    """
    parts = [part for part in re.split(r"[-_./:]", text[:_TESTED_CHARS]) if part]
    return len(parts) > 1 and all(_WORD.fullmatch(part) for part in parts)


def _is_random(value: str) -> bool:
    """Return whether a value looks generated: digits among other characters, few repetitions."""
    if " " in value or _CODE.fullmatch(value):
        return False
    value = value[:_TESTED_CHARS]
    digits = sum(map(str.isdigit, value))
    least_bits = 3.0
    if not 0 < digits < len(value) or entropy(value) < least_bits or _DATE.match(value):
        return False
    return not _is_slug(value) and not _is_placeholder(value)


def _is_no_slug(match: re.Match[str]) -> bool:
    return not _is_slug(match[0]) and "EXAMPLE" not in match[0]  # keys of AWS's documentation


def _is_mixed(match: re.Match[str]) -> bool:
    value = match[0]
    if "EXAMPLE" in value:
        return False
    digits = sum(char.isdigit() for char in value)
    cased = min(sum(char.isupper() for char in value), sum(char.islower() for char in value))
    return digits > 1 and cased >= _UPPER_MIN and entropy(value) >= _MIXED_BITS


def _is_password(match: re.Match[str]) -> bool:
    value, quoted = match["value"], match["bare"] is None
    if quoted:
        value = value[1:-1]
    if len(value) < _PASSWORD_MIN or _is_placeholder(value) or _CODE.fullmatch(value):
        return False
    if value.lower().rstrip(".!") in _data().no_values or ("/" in value and _is_slug(value)):
        return False
    if " " in value:  # a sentence about passwords
        return False
    if any(char.isdigit() for char in value):
        return True
    # A word: only if it does not continue as a sentence.
    return quoted or _END_OF_VALUE.match(match.string, match.end()) is not None


def _is_element(match: re.Match[str]) -> bool:
    value = match["value"]
    return not _is_placeholder(value) and value.lower() not in _data().no_values


def _is_token(match: re.Match[str]) -> bool:
    value = match["value"] if match["bare"] is not None else match["value"][1:-1]
    return len(value) >= _TOKEN_MIN and _is_random(value)


def _is_hex_key(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - 24) : match.start()]
    return _NO_KEY_BEFORE.search(before) is None and len(set(match["value"])) >= _HEX_DIGITS_MIN


def _is_parameter(match: re.Match[str]) -> bool:
    return not _is_placeholder(match["value"]) and not match["value"].isalpha()


def _is_credential(match: re.Match[str]) -> bool:
    value = match["value"]
    if _is_placeholder(value) or value.lower() in _data().usual:
        return False
    return not value.isdigit() or len(value) >= _TOKEN_MIN


def _is_user_option(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - 300) : match.start()].replace("\\\n", " ")
    return _CALLER.search(before[before.rfind("\n") + 1 :]) is not None and _is_credential(match)


def _is_basic(match: re.Match[str]) -> bool:
    """Return whether the text after `Basic` is a user name and a password."""
    value = match["value"].rstrip("=")
    try:
        plain = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in plain and plain.isprintable()


def _is_header(match: re.Match[str]) -> bool:
    value = match["value"]
    return not _is_placeholder(value) and not _CODE.fullmatch(value) and not value.isalpha()


# AWS's secret keys have 40 characters, as in the pattern; shorter words are not searched for one.
_MIXED_LENGTH: Final = 40
_MIXED: Final = _Kind(
    name="AWS secret key",
    hints=(),
    pattern=r"(?<![A-Za-z0-9+/=_.-])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=_-])",
    accepts=_is_mixed,
)
# The tests that `key_formats.toml` names.
_TESTS: Final[dict[str, Callable[[re.Match[str]], bool]]] = {
    "anything": lambda _: True,
    "basic": _is_basic,
    "credential": _is_credential,
    "element": _is_element,
    "header": _is_header,
    "hex_key": _is_hex_key,
    "parameter": _is_parameter,
    "password": _is_password,
    "random_value": lambda match: _is_random(match["value"]),
    "token": _is_token,
    "user_option": _is_user_option,
}
