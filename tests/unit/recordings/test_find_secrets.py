"""Keys of many services are found in whatever form they are written; what looks like one is not."""

from __future__ import annotations

import base64
import html
import itertools
import json
import random
import re
import string
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st

from regauge.recordings import REDACTED, Redactor

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[2] / "data" / "secrets"
_LETTERS = string.ascii_letters + string.digits
_ALPHABETS = {
    "a": _LETTERS,
    "A": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "h": "0123456789abcdef",
    "d": string.digits,
    "w": _LETTERS * 6 + "-_",
    "b": _LETTERS * 3 + "+/",
}
KEYS = [
    line.split(" | ", 1)
    for line in DATA.joinpath("keys.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
LOOKALIKES = DATA.joinpath("lookalikes.txt").read_text(encoding="utf-8").splitlines()
FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON": lambda text: json.dumps({"x": text}),
    "JSON in JSON": lambda text: json.dumps({"y": json.dumps({"x": text})}),
    "JSON with escaped slashes": lambda text: json.dumps(text).replace("/", "\\/"),
    "JSON of escapes": lambda text: "".join(f"\\u{ord(char):04x}" for char in text),
    "percent": lambda text: quote(text, safe=""),
    "percent twice": lambda text: quote(quote(text, safe=""), safe=""),
    "percent of all": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "HTML": html.escape,
    "between tags": lambda text: f"<b>{text}</b>",
}


def made(template: str, chance: random.Random) -> tuple[str, str]:
    """A key of a template, and its longest random part."""
    parts: list[str] = []

    def part(match: re.Match[str]) -> str:
        parts.append("".join(chance.choices(_ALPHABETS[match[2]], k=int(match[1]))))
        return parts[-1]

    text = re.sub(r"\{(\d+)([a-zA-Z])\}", part, template).replace("\\n", "\n")
    return text, max(parts, key=len, default="")


@pytest.mark.parametrize(("kind", "template"), KEYS, ids=[kind for kind, _ in KEYS])
def test_a_key_is_found_in_every_form(kind: str, template: str):
    for (name, form), seed in itertools.product(FORMS.items(), range(3)):
        text, secret = made(template, random.Random(f"{kind} {seed}"))
        written = form(f"It is {text}")
        redacted = Redactor().redact(written)
        assert REDACTED in redacted, name
        for part in (secret[:10], secret[-10:]) if secret else ():
            assert form(part).strip('"') not in redacted, name
        assert Redactor().redact(redacted) == redacted, name


@pytest.mark.parametrize("text", LOOKALIKES)
def test_what_looks_like_a_secret_stays(text: str):
    assert Redactor().redact(text) == text
    assert Redactor().redact(json.dumps({"x": text})) == json.dumps({"x": text})


@pytest.mark.parametrize(
    "path", ["prompts", "docs/how-to", "docs/explanation", "fixtures/golden", "evals"]
)
def test_texts_of_this_repository_stay(path: str):
    """Hundreds of alerts, runbooks and pages about keys, and no key."""
    root = Path(__file__).parents[3]
    redactor = Redactor()
    for file in sorted(root.joinpath(path).rglob("*")):
        if file.suffix in {".md", ".yml", ".jsonl", ".py"}:
            for line in file.read_text(encoding="utf-8").splitlines():
                assert redactor.redact(line) == line, file


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ("DEPLOY_PAT", "q7w8e9r0t1"),
        ("REGISTRY_AUTH", "c2VjcmV0LXZhbHVlLTEyMw"),
        ("SERVICE_TOKEN", "tok3n+with/odd=chars&more"),
        ("SERVICE_SECRET", 'quote"and\\slash-9'),
        ("DB_PASSWORD", "hunter2hunter2"),
        ("npm_config__authToken", "0f8fad5bd9cb469fa16570867728950e"),
        ("DATABASE_URL", "postgres://app:s3cret-word@db:5432/prod"),
        ("BROKER_URI", "amqp://app:s3cret-word@mq/"),
        ("SIGNING_KEY", "aaaaBBBBccccDDDDeeeeFFFF"),
        ("ADMIN_PASSPHRASE", "four w0rds in one line"),
    ],
)
def test_a_value_of_a_variable_named_like_a_secret_is_found(name: str, value: str):
    redactor = Redactor(environ={name: value})
    for form, written in FORMS.items():
        text = written(f"it is {value}, is it?")
        redacted = redactor.redact(text)
        assert REDACTED in redacted, form
        assert written(value).strip('"') not in redacted, form
    if len(value) > 14:
        for before in ("", "u:", "user"):
            token = base64.b64encode(f"{before}{value}".encode()).decode()
            assert REDACTED in redactor.redact(f"sent {token} to it")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PWD", "/home/app/checkout-2024"),
        ("OLDPWD", "/home/app/checkout-2024"),
        ("CACHE_KEY", "linux"),
        ("DB_PASSWORD", "postgres"),
        ("APP_TOKEN", "true"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-agent-1234567/agent.99"),
        ("GIT_ASKPASS", "/usr/lib/git-core/askpass-1"),
        ("DEPLOY_TOKEN", "production-like-word"),
        ("SERVICE_URL", "https://api.corp.io/v1/things-2024"),
    ],
)
def test_a_value_that_is_a_word_or_a_path_stays(name: str, value: str):
    text = f"{value} is what it says"
    assert Redactor(environ={name: value}).redact(text) == text


HOSTILE = (
    *("sk-", "sk-a-", "-eyJ", "eyJaaaaaaaa.", "a/", "token=", "password: ", "password=a ", "key: "),
    *("-----BEGIN ", "-----BEGIN A PRIVATE KEY-----x", "://a:", "http://a:b@", "basic ", "bearer "),
    *("\\u0041", "%25", "\\\\", "&amp;", "curl -u a:b ", "login a password b ", "cookie: a="),
    *("authorization: bearer ", "?key=", "<token>aaaaaa</", "token='", 'password="aaaaaaaa'),
    *(
        "token=abc-def ",
        "secret: " + "a-" * 200,
        "secret=abcdefgh1 ",
        "M" + "a" * 25 + ".",
        REDACTED,
    ),
    *("a" * 500 + " token=", " \n", "a", "aB3" * 14 + " "),
)


@pytest.mark.parametrize("unit", HOSTILE, ids=lambda unit: repr(unit[:20]))
def test_time_grows_with_the_length_of_a_text(unit: str):
    """Twice the text takes twice the time, whatever it is; a square would take four times."""

    def took_s(length: int) -> float:
        text = (unit * (length // len(unit) + 1))[:length]
        begun = time.process_time()
        Redactor().redact(text)
        return time.process_time() - begun

    # Other processes may disturb one measurement.
    assert any(took_s(60_000) < 8 * took_s(15_000) + 0.02 for _ in range(3))


@given(st.text(), st.text())
def test_redaction_twice_is_once_and_hides_a_key_between_any_texts(before: str, after: str):
    key = "ghp_" + "aB3" * 12
    redactor = Redactor()
    redacted = redactor.redact(f"{before} {key} {after}")
    assert key not in redacted
    assert redactor.redact(redacted) == redacted
