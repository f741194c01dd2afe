"""Finds secrets in a text: keys by their form, and values by what is before them."""

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

__all__ = ["FoundSecret", "decoded_texts", "entropy", "find_secrets"]


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
    """The secrets of a text, in the order of their beginnings; they may overlap."""
    # The one character that is two in lower case would shift the places after it.
    lower = text.replace("\u0130", "i").lower()
    kinds = [kind for hint, kind in _CONTEXT_HINTS if hint in lower]
    # Prose has few long words, and this is done for every text that is written.
    words = [word for word in text.split() if len(word) >= _FORM_MIN]
    if words:
        long = " ".join(words)
        kinds += [kind for hint, kind in _data().hints if hint in long]
    if len(max(words, key=len, default="")) >= _MIXED_LENGTH:
        kinds.append(_MIXED)
    found = [secret for kind in dict.fromkeys(kinds) for secret in kind.find(text, lower)]
    return sorted(found, key=lambda secret: (secret.start, -secret.end))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Kind:
    """One kind of secret.

    Attributes:
        hints: Texts one of which is in every text that holds such a secret: a cheap test first.
        begins: Whether each match begins with a hint.
        lower: Whether hints are lower case, for text in any case.
        pattern: Its group `value` is the secret, where there is one.
        accepts: Has the last word on a match.
    """

    name: str
    hints: tuple[str, ...]
    begins: bool = False
    lower: bool = False
    pattern: str
    accepts: Callable[[re.Match[str]], bool]

    def find(self, text: str, lower: str) -> Iterator[FoundSecret]:
        pattern = re.compile(self.pattern)
        places = lower if self.lower else text
        group = "value" if "value" in pattern.groupindex else 0
        at = 0
        while (match := self._next(pattern, text, places, at)) is not None:
            start, end = match.span(group)
            if self.accepts(match):
                yield FoundSecret(kind=self.name, start=start, end=end)
                at = max(end, at + 1)
            else:
                # What was taken for a value may hold the name of the next one.
                at = end if group == 0 else max(start, at + 1)

    def _next(
        self, pattern: re.Pattern[str], text: str, places: str, at: int
    ) -> re.Match[str] | None:
        if not self.begins:
            return pattern.search(text, at)
        # To look for texts takes a tenth of the time that a pattern takes at each place, and a
        # pattern of any case more than that.
        begins = re.compile("|".join(map(re.escape, self.hints)))
        while (begin := begins.search(places, at)) is not None:
            if (match := pattern.match(text, begin.start())) is not None:
                return match
            at = begin.start() + 1
        return None


# No key is a part of a shorter word, but for the lines of private keys.
_FORM_MIN: Final = 15
_PRIVATE: Final = "private key"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Data:
    """The contents of `key_formats.toml`.

    Attributes:
        hints: With each the kind, known by its form, that a text with it may hold.
        usual: User names and passwords of examples.
        no_values: What is said of passwords, and how their types and settings are called.
    """

    hints: tuple[tuple[str, _Kind], ...]
    usual: frozenset[str]
    no_values: frozenset[str]


@functools.cache
def _data() -> _Data:
    """The data, read on first use."""
    text = files("regauge.recordings").joinpath("key_formats.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    usual = frozenset(document["usual"].split())
    formats = [
        _Kind(
            name=row["name"],
            hints=tuple(row["hints"]),
            begins=_begins(row["pattern"], row["hints"]),
            pattern=f"(?a:{row['pattern']})",
            accepts=_no_slug,
        )
        for row in document["format"]
    ]
    return _Data(
        hints=tuple([(hint, kind) for kind in formats for hint in kind.hints]),
        usual=usual,
        no_values=usual | set(document["no_values"].split()),
    )


def _begins(pattern: str, hints: list[str]) -> bool:
    """Return whether a pattern begins with its only hint, after a look at what is before it."""
    body = re.sub(r"\A(?:\\b|\(\?<!\[[^\]]*\]\))", "", pattern)
    return len(hints) == 1 and body.startswith((hints[0], re.escape(hints[0])))


# Escapes of JSON, Python, URLs and HTML, each of which stands for one character.
_ESCAPE: Final = re.compile(
    r"\\(?:u00[0-9a-fA-F]{2}|x[0-9a-fA-F]{2}|[\"'\\/nrt])|%[2-7][0-9a-fA-F]"
    r"|&(?:amp|quot|apos|lt|gt|#\d{2,3}|#[xX][0-9a-fA-F]{2});"
)
_NAMED: Final = {"amp": "&", "quot": '"', "apos": "'", "lt": "<", "gt": ">"}
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t"}
# JSON in JSON, or in a URL.
_DEPTH_MAX: Final = 2


def decoded_texts(text: str) -> Iterator[tuple[str, Callable[[int], int]]]:
    """`text` with its escapes replaced, once and twice.

    Yields:
        Each, with a function that says where one of its places is in `text`.
    """
    origins: list[Callable[[int], int]] = []

    def origin_in(depth: int) -> Callable[[int], int]:
        def origin(place: int) -> int:
            for step in reversed(origins[:depth]):
                place = step(place)
            return place

        return origin

    for depth in range(1, _DEPTH_MAX + 1):
        decoded = _decoded(text)
        if decoded == text:
            return
        origins.append(_Origins(text))
        text = decoded
        yield text, origin_in(depth)


def _decoded(text: str) -> str:
    if "\\" not in text and "%" not in text and "&" not in text:
        return text
    return _ESCAPE.sub(_character, text)


class _Origins:
    """Where places of a decoded text were before; found out for the first of them.

    Args:
        text: As it was.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._places: tuple[list[int], list[int]] | None = None

    def __call__(self, place: int) -> int:
        """Where `place` of the decoded text was."""
        if self._places is None:
            self._places = [0], [0]
            after, before = self._places
            removed = 0
            for match in _ESCAPE.finditer(self._text):
                removed += match.end() - match.start() - 1
                before.append(match.end())
                after.append(match.end() - removed)
        after, before = self._places
        at = bisect_right(after, place) - 1
        return before[at] + place - after[at]


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
    """Shannon entropy of a text's characters, in bits per character.

    >>> entropy("aaaa"), entropy("abcd")
    (0.0, 2.0)
    """
    total = len(text)
    shares = [count / total for count in Counter(text).values()]
    return -sum(share * math.log2(share) for share in shares) + 0.0


_WORD: Final = re.compile(r"[a-z]{1,14}|[A-Z][a-z]{1,13}|v?\d{1,4}|[a-z]{2,10}\d{1,2}")
_STAND_IN: Final = re.compile(
    r"(?i)\A(?:[<\[({$%*.#]|0x)|\$\{|\{\{|\.{3}|\u2026|\*{3}|x{6}|<|placeholder|redacted|change[_-]?me"
    r"|example|dummy|your[_-]|insert[_-]|\bprocess\.env|\bos\.environ|getenv|secrets\."
    r"|\A(?:vault|ssm|arn|file|env|op|sops|https?)[:/]"
)
# Identifiers of code that hold a value: `config.password`, `MY_TOKEN`, `get_token(...)`.
_CODE: Final = re.compile(
    r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Z]+(?:_[A-Z0-9]+)+|[A-Za-z_][\w.]*\(.*|[a-z]+(?:_[a-z]+)+"
)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d|\d+(?:\.\d+)+(?:\W|\Z)|v\d+\.")
# How many characters of a value say what it is; text that is hostile may be long.
_LOOKED_AT: Final = 128
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


def _is_stand_in(value: str) -> bool:
    """Return whether a value stands for one that is not given: `<token>`, `$TOKEN`, `your-key`."""
    return _STAND_IN.search(value[:_LOOKED_AT]) is not None


def _is_slug(text: str) -> bool:
    """Return whether a text is words with separators.

    >>> _is_slug("sk-learn-in-depth"), _is_slug("prod/db/main-v2"), _is_slug("sk-proj-a8Zk29xQ")
    (True, True, False)
    """
    parts = [part for part in re.split(r"[-_./:]", text[:_LOOKED_AT]) if part]
    return len(parts) > 1 and all(_WORD.fullmatch(part) for part in parts)


def _is_random(value: str) -> bool:
    """Return whether a value looks generated: digits among other characters, few repeated."""
    if " " in value or _CODE.fullmatch(value):
        return False
    value = value[:_LOOKED_AT]
    digits = sum(map(str.isdigit, value))
    least_bits = 3.0
    if not 0 < digits < len(value) or entropy(value) < least_bits or _DATE.match(value):
        return False
    return not _is_slug(value) and not _is_stand_in(value)


def _anything(match: re.Match[str]) -> bool:
    del match
    return True


def _no_slug(match: re.Match[str]) -> bool:
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
    if len(value) < _PASSWORD_MIN or _is_stand_in(value) or _CODE.fullmatch(value):
        return False
    if value.lower().rstrip(".!") in _data().no_values or ("/" in value and _is_slug(value)):
        return False
    if " " in value:  # a sentence about passwords
        return False
    if any(char.isdigit() for char in value):
        return True
    # A word: only where nothing follows that makes it a part of a sentence.
    return quoted or _END_OF_VALUE.match(match.string, match.end()) is not None


def _is_element(match: re.Match[str]) -> bool:
    value = match["value"]
    return not _is_stand_in(value) and value.lower() not in _data().no_values


def _is_token(match: re.Match[str]) -> bool:
    value = match["value"] if match["bare"] is not None else match["value"][1:-1]
    return len(value) >= _TOKEN_MIN and _is_random(value)


def _is_hex_key(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - 24) : match.start()]
    return _NO_KEY_BEFORE.search(before) is None and len(set(match["value"])) >= _HEX_DIGITS_MIN


def _is_parameter(match: re.Match[str]) -> bool:
    return not _is_stand_in(match["value"]) and not match["value"].isalpha()


def _is_credential(match: re.Match[str]) -> bool:
    value = match["value"]
    if _is_stand_in(value) or value.lower() in _data().usual:
        return False
    return not value.isdigit() or len(value) >= _TOKEN_MIN


def _is_user_option(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - 300) : match.start()].replace("\\\n", " ")
    return _CALLER.search(before[before.rfind("\n") + 1 :]) is not None and _is_credential(match)


def _is_basic(match: re.Match[str]) -> bool:
    """Return whether what follows `Basic` is a user name and a password."""
    value = match["value"].rstrip("=")
    try:
        plain = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in plain and plain.isprintable()


def _is_header(match: re.Match[str]) -> bool:
    value = match["value"]
    return not _is_stand_in(value) and not _CODE.fullmatch(value) and not value.isalpha()


def _is_random_value(match: re.Match[str]) -> bool:
    return _is_random(match["value"])


# In the languages of which documents are full.
_WORD_NAMES: Final = (
    "pass(?:word|wd|phrase|code)|pwd|passwort|kennwort|mot[ _]de[ _]passe|contrase\u00f1a"
    "|contrasena|senha|wachtwoord|l\u00f6senord|has\u0142o|parola"
    "|\u043f\u0430\u0440\u043e\u043b\u044c|\u5bc6\u7801|\u30d1\u30b9\u30ef\u30fc\u30c9"
    "|\ube44\ubc00\ubc88\ud638"
)
_RANDOM_NAMES: Final = (
    "secret|token|credentials?|bearer|(?<![a-z])(?:pat|auth|apikey)"
    "|(?:api|access|auth|private|secret|account|subscription|signing|encryption|license|service"
    "|webhook|client|app|application|session|storage|shared|master|root|admin|deploy)[ _-]?key"
)
# Or as a variable of a container: `name: DB_PASSWORD`, then `value: ...`.
_ASSIGNED: Final = (
    r"(?:[\"'`*]{0,3}[ \t]{0,3}(?::=|=>|[:=\uff1a])"
    r"|[\"']?,?\s{1,80}[\"']?value[\"']?[ \t]{0,3}[:=])[ \t]{0,3}"
)
_VALUE: Final = (
    r"(?P<value>\"[^\"\n]{4,512}\"|'[^'\n]{4,512}'|`[^`\n]{4,512}`"
    r"|(?P<bare>[^\s\"'`,;:)}\]<>|&=]{4,512}={0,2}))"
)
_MIXED_LENGTH: Final = 40
_MIXED: Final = _Kind(
    name="AWS secret key",
    hints=(),
    pattern=r"(?<![A-Za-z0-9+/=_.-])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=_-])",
    accepts=_is_mixed,
)
_CONTEXTS: Final = (
    _Kind(
        name=_PRIVATE,
        hints=("-----begin ",),
        begins=True,
        lower=True,
        pattern=(
            "(?s:-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
            r".*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z))"
        ),
        accepts=_anything,
    ),
    _Kind(
        name=_PRIVATE,
        hints=("putty-user-key-file",),
        begins=True,
        lower=True,
        pattern=r"(?s:PuTTY-User-Key-File-\d.*?(?:Private-MAC: \w+|\Z))",
        accepts=_anything,
    ),
    _Kind(
        name="password",
        hints=(
            *("pass", "pwd", "kennwort", "mot", "contras", "senha", "wachtwoord", "l\u00f6senord"),
            *("has\u0142o", "parola", "\u043f\u0430\u0440\u043e\u043b\u044c", "\u5bc6\u7801"),
            *("\u30d1\u30b9\u30ef\u30fc\u30c9", "\ube44\ubc00\ubc88\ud638"),
        ),
        begins=True,
        lower=True,
        pattern=rf"(?i)(?:{_WORD_NAMES}){_ASSIGNED}{_VALUE}",
        accepts=_is_password,
    ),
    _Kind(
        name="password",
        hints=("-",),
        begins=True,
        lower=True,
        pattern=(
            "(?i)--?(?:[a-z]{1,16}-)?(?:pass(?:word|wd)?|pwd|secret|token|api-key|access-key)[ =]"
            f"{_VALUE}"
        ),
        accepts=_is_password,
    ),
    _Kind(
        name="password",
        hints=("<",),
        begins=True,
        lower=True,
        pattern=(
            r"(?i)<[\w:.-]{0,32}(?:pass(?:word|wd)?|pwd|secret|token|key)[\w.-]{0,16}>"
            r"(?P<value>[^<>\s]{6,512})</"
        ),
        accepts=_is_element,
    ),
    _Kind(
        name="value of a secret's name",
        hints=(
            "secret",
            "token",
            "credential",
            "bearer",
            "pat",
            "auth",
            "api",
            "access",
            "private",
            "account",
            "subscription",
            "signing",
            "encryption",
            "license",
            "service",
            "webhook",
            "client",
            "app",
            "session",
            "storage",
            "shared",
            "master",
            "root",
            "admin",
            "deploy",
        ),
        begins=True,
        lower=True,
        pattern=rf"(?i)(?:{_RANDOM_NAMES}){_ASSIGNED}(?:Bearer[ \t]{{1,3}})?{_VALUE}",
        accepts=_is_token,
    ),
    _Kind(
        name="key",
        hints=("key",),
        begins=True,
        lower=True,
        pattern=(
            r"(?i)\bkey\b[\"'`*]{0,2}[ \t]{0,2}(?:is|was|:|=)?[ \t]{0,2}[\"'`(*]{0,2}"
            r"(?P<value>[0-9a-f]{32})(?![0-9a-z])"
        ),
        accepts=_is_hex_key,
    ),
    _Kind(
        name="parameter of a URL",
        hints=("?", "&"),
        begins=True,
        lower=True,
        pattern=(
            r"(?i)[?&](?:api[_-]?key|key|access[_-]?token|token|secret|client[_-]?secret|password"
            r"|pwd|auth|code|sig|signature|x-amz-signature|x-amz-security-token)="
            r"(?P<value>[^\s&#\"'<>]{8,2048})"
        ),
        accepts=_is_parameter,
    ),
    _Kind(
        name="password in a URL",
        hints=("://",),
        begins=True,
        lower=True,
        pattern=(
            r"(?i)(?<=[a-z0-9+.-]{2})://[^\s:/@\"'<>]{0,128}"
            r":(?P<value>[^\s/@\"'<>]{3,512})@"
        ),
        accepts=_is_credential,
    ),
    _Kind(
        name="token in a URL",
        hints=("://",),
        begins=True,
        lower=True,
        pattern=r"://(?P<value>[A-Za-z0-9_.-]{20,512})@[\w.-]",
        accepts=_is_random_value,
    ),
    _Kind(
        name="authorization header",
        hints=("authorization",),
        begins=True,
        lower=True,
        pattern=(
            r"(?i)authorization[\"']?[ \t]{0,2}[:=,][ \t]{0,2}[\"'`]?(?:bearer|token|apikey|api-key"
            r"|bot|ssws|key|negotiate|splunk|hmac|dpop)[ \t]{1,3}(?P<value>[^\s\"'`,;<>]{8,8192})"
        ),
        accepts=_is_header,
    ),
    _Kind(
        name="authorization header",
        hints=("basic",),
        begins=True,
        lower=True,
        pattern=r"(?i)\bbasic[ \t]{1,3}(?P<value>[A-Za-z0-9+/_-]{8,4096}={0,2})",
        accepts=_is_basic,
    ),
    _Kind(
        name="authorization header",
        hints=("bearer",),
        begins=True,
        lower=True,
        pattern=r"(?i)\bbearer[ \t]{1,3}(?P<value>[A-Za-z0-9._~+/-]{16,8192}={0,2})",
        accepts=_is_random_value,
    ),
    _Kind(
        name="cookie",
        hints=("cookie",),
        begins=True,
        lower=True,
        pattern=(
            r"(?i)cookie[\"']?[ \t]{0,2}:[ \t]{0,2}[\"']?[\w.-]{1,64}="
            r"(?P<value>[^\s;,\"'<>]{8,4096})"
        ),
        accepts=_is_random_value,
    ),
    _Kind(
        name="password of netrc",
        hints=("login",),
        begins=True,
        lower=True,
        pattern=(
            r"(?i)\blogin\s{1,20}\S{1,128}\s{1,20}password\s{1,20}(?P<value>[^\s\"'<>]{3,256})"
        ),
        accepts=_is_credential,
    ),
    _Kind(
        name="password of a command",
        hints=("-u", "--user", "--proxy-user"),
        begins=True,
        lower=True,
        pattern=(
            r"(?<![\w-])(?:-u|--user|--proxy-user)[ =]?[\"']?[^\s\"':$<{]{1,128}"
            r":(?P<value>[^\s\"'$<{][^\s\"'<>]{2,512})"
        ),
        accepts=_is_user_option,
    ),
)
_CONTEXT_HINTS: Final = tuple([(hint, kind) for kind in _CONTEXTS for hint in kind.hints])
