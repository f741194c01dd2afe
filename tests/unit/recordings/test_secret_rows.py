"""What of each line is taken for a secret: names, marks and values, at either side of each rule."""

from __future__ import annotations

import itertools

from regauge.recordings import Redactor
from regauge.recordings._find_secrets import find_secrets
from tests.transcripts import DATA, held_rows

ROWS = DATA / "secrets" / "lines.jsonl"
FRAMES = (
    "password: {}", "password={}", 'password="{}"', "password='{}'", 'password="{}', "db_password = {}.",
    "The password is {} and", "token: {}", "token='{}'", "api_key={}", "SECRET_KEY={}", "client_secret: {},",
    "cache key: {}", "key: {}", "private_key={}", "Authorization: Bearer {}", "Authorization: Basic {}",
    "authorization: Token {}", "x-api-key: {}", "https://host/x?token={}&a=1", "https://user:{}@host/", "postgres://app:{}@db/x",
    "curl -u admin:{} https://x", "docker run -u admin:{} x", "curl \\\n -u admin:{} x", "<password>{}</password>",
    "Cookie: session={}", "machine h login me password {}", "{}", "use {} here", "--password {}", "-p {}", "pwd: {}", "passphrase: {}",
)  # fmt: skip
VALUES = (
    "hunter2", "hunter2hunter2", "abc12", "abc123", "correct", "correcthorse", "required", "example1", "changeme", "<secret1>", "$SECRET1",
    "${SECRET1}", "{{secret1}}", "config.password1", "get_password(1)", "MY_TOKEN1", "prod/db/main-v2", "a/b1c2d3e4", "12345678", "1234567",
    "aB3dE5fG7hJ9kL1mN3pQ", "aaaaaaaa1", "a1a1a1a1", "2024-05-03", "1.2.3.4", "v1.2.3", "deadbeef01234567deadbeef01234567",
    "dXNlcjpwYXNzd29yZA==", "dXNlcg==", "user:password", "sk-learn-in-depth", "0x12345678", "***", "xxxxxx", "four w0rds in one", "p@ss!w0rd",
    "AKIAIOSFODNN7EXAMPLE", "AKIA1234567890ABCDEF", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzzz", "thisIsAnIdentifierInCamelCaseOfFortyChar",
    "arn:aws:x", "https://x.y/z1", "null", "true", "none!", "admin", "root", "postgres", "é1é2é3é4", "ab-cd-ef-12", "x" * 130 + "1",
)  # fmt: skip


def lines() -> list[str]:
    return [frame.replace("{}", value) for frame, value in itertools.product(FRAMES, VALUES)]


def row_of(line: str) -> list[object]:
    found = [[secret.kind, secret.start, secret.end] for secret in find_secrets(line)]
    redacted = Redactor().redact(line)
    return [line, found, "" if redacted == line else redacted]


def secret_rows() -> list[list[object]]:
    """The rows of the lines that hold a secret."""
    return [row for row in map(row_of, dict.fromkeys(lines())) if row[1] or row[2]]


def test_each_line_is_redacted_as_its_row_has_it():
    rows = {row[0]: row for row in held_rows(ROWS, secret_rows)}
    for line in lines():
        assert row_of(line) == rows.get(line, [line, [], ""])
