"""URLs as they may be shown: without user name, password, query and fragment."""

from __future__ import annotations

import re

__all__ = ["has_credentials", "is_store", "shown_store", "shown_url"]

_STORE = re.compile(r"(postgres|postgresql|postgresql\+psycopg)://|sqlite:///.")
# A password may hold what ought to be escaped in a URL, so all up to the last @ counts as one.
_PASSWORD = re.compile(r"(?<=//)([^:/@?]*):.*@")
_PARAMETER = re.compile(r"([?&](?:ssl)?password=)[^&]*")

# Whatever stands before the last @ of the authority, for URLs that do not parse, too.
_AUTHORITY = re.compile(r"\A\s*(?P<scheme>[^:/?#@]*:)?//(?P<user>[^/?#]*@)?(?P<host>[^/?#]*)")


def has_credentials(url: str) -> bool:
    """Whether a URL names a user or a password.

    >>> has_credentials("https://user:word@host/v1"), has_credentials("https://host/v1?to=a@b")
    (True, False)
    """
    match = _AUTHORITY.match(url)
    return match is not None and match["user"] is not None


def shown_url(url: str) -> str:
    """Scheme, host and path of a URL.

    >>> shown_url("https://user:word@host:8000/v1?api-key=word#top")
    'https://host:8000/v1'
    """
    clean = re.split(r"[?#]", url, maxsplit=1)[0]
    return _AUTHORITY.sub(lambda match: f"{match['scheme'] or ''}//{match['host']}", clean)


def is_store(url: str) -> bool:
    """Whether a URL names a database that can hold the run history.

    >>> is_store("sqlite:///history.db"), is_store("mysql://host/evals")
    (True, False)
    """
    return _STORE.match(url) is not None


def shown_store(url: str) -> str:
    """The URL of a database without its passwords.

    >>> shown_store("postgresql://me:p@ss/word@db/evals?sslpassword=x&sslmode=require")
    'postgresql://me:***@db/evals?sslpassword=***&sslmode=require'
    """
    return _PARAMETER.sub(r"\1***", _PASSWORD.sub(r"\1:***@", url))
