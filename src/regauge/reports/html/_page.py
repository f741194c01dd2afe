"""Puts the page together: one file, its own style and script, and a policy that allows no other."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from regauge.datasets import shard_of
from regauge.printable import printable
from regauge.reports._console import duration, money, quantity
from regauge.reports.html._overview import cases_by_prompt, model_arms, overview_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from regauge.reports.html._overview import Overview
    from regauge.reports.html._source import ReportSource

_SCRIPTS = ("dom.js", "data.js", "diff.js", "table.js", "case.js", "page.js", "main.js")
# What ends a script element or a line of script has another spelling in JSON.
_SPELT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def html_report(source: ReportSource) -> str:
    """A run as one HTML file."""
    cases = cases_by_prompt(source)
    words = {name: count_verdicts(met) for name, met in cases.items()}
    return run_page(source, overview_of(source, words), encoded_cases(cases))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of one file among those of a report.

    Attributes:
        pages: The number of pages of cases.
        number: Of this page; 0 for the index.
        home: The address of the index.
        directory: That of the pages, as the index links it; empty for a page.
        cases: The cases of the run.
        left_out: How many of them the tables of the index leave out.
    """

    pages: int
    number: int = 0
    home: str = ""
    directory: str = ""
    cases: int = 0
    left_out: int = 0

    def page(self, case_id: str) -> str:
        """The address of the page of a case, from the index."""
        return f"{self.directory}/{shard_of(case_id, self.pages)}.html" if self.directory else ""


def run_page(
    source: ReportSource,
    overview: Overview,
    cases: Mapping[str, Sequence[str]],
    place: Place | None = None,
) -> str:
    """A file of a run's report.

    Args:
        source: The run.
        overview: What it shows first.
        cases: By prompt, the cases of its tables, see `encoded_cases`.
        place: Among several files; None for the only one.
    """
    return render_page(
        "report",
        scripts=_SCRIPTS,
        data=_data(source, cases, place),
        record=source.record,
        overview=overview,
        repairs=source.repairs,
        against=source.against,
        place=place,
        home=place.home if place else "",
        page_of=(place or Place(pages=1)).page,
    )


def count_verdicts(cases: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """The number of cases with each verdict, in words."""
    return Counter(case["verdict"] for case in cases)


def encoded_cases(cases: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, list[str]]:
    """Cases by prompt, each as JSON for the script of a page."""
    return {name: [_json(case) for case in met] for name, met in cases.items()}


def render_page(
    name: str,
    *,
    scripts: Sequence[str],
    styles: Sequence[str] = (),
    data: Mapping[str, Any] | str | None = None,
    **values: object,
) -> str:
    """One HTML file, readable offline; what models, judges and files say is text in it.

    Nothing is loaded, and the page's own policy forbids it: scripts and styles run only with the
    digests of those written here, and no text can become markup.

    Args:
        name: Of the template among the assets.
        styles: Added to the style of all pages.
        data: For the scripts of the page; as text, it is JSON for a script element already.
        values: For the template.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "money": money,
        "duration": duration,
        "quantity": quantity,
        "percent": _percent,
        "slug": _slug,
        "when": _when,
        "shell": shlex.quote,
    }
    assets = files("regauge.reports.html") / "assets"

    def joined(names: Sequence[str]) -> str:
        return "\n".join((assets / asset).read_text(encoding="utf-8") for asset in names)

    style = joined(("report.css", *styles))
    script = f'"use strict";\n(() => {{\n{joined(scripts)}}})();\n'
    return environment.from_string(joined([f"{name}.html.j2"])).render(
        style=_Verbatim(style),
        script=_Verbatim(script),
        policy=_policy(style, script),
        data=_Verbatim(data if isinstance(data, str) else _json(data or {})),
        **values,
    )


class _Verbatim(str):
    """Text of our own that stands in the page as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def _data(source: ReportSource, cases: Mapping[str, Sequence[str]], place: Place | None) -> str:
    gate = source.record.decision
    arms = model_arms(source.record)
    base = gate.ref if gate else f"run {source.against.id}" if source.against else ""
    document: dict[str, Any] = {"gates": gate is not None, "base": base}
    if place is not None:
        document |= {"home": place.home, "directory": place.directory, "pages": place.pages}
        document["left_out"] = place.left_out
    prompts = (
        f'{{"name":{_json(name)},"models":'
        f"{_json([[arm, model] for model, arm in arms.get(name, {}).items()])},"
        f'"cases":[{",".join(met)}]}}'
        for name, met in cases.items()
    )
    return f'{_json(document)[:-1]},"prompts":[{",".join(prompts)}]}}'


def _json(document: object) -> str:
    r"""JSON that can stand in a script element, whatever it says.

    >>> _json({"a": "</script>"})
    '{"a":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(document, separators=(",", ":"))
    for character, spelt in _SPELT.items():
        text = text.replace(character, spelt)
    return text


def _policy(style: str, script: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(script)}'",
            f"style-src '{_digest(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _digest(text: str) -> str:
    sha = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(sha).decode()}"


def _finalized(value: object) -> object:
    """Text as it is shown: without what reorders or hides it."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return printable(value)
    return value


def _percent(rate: float) -> str:
    """A share for people.

    >>> _percent(1), _percent(0.987), _percent(0.9999)
    ('100 %', '98.7 %', '99.9 %')
    """
    percent = min(round(rate * 100, 1), 99.9) if rate < 1 else 100.0
    return f"{percent:g} %"


def _slug(name: str) -> str:
    """The name as it stands in an address."""
    from urllib.parse import quote

    return quote(name, safe="", errors="backslashreplace")


def _when(moment: str) -> str:
    """A moment of ISO 8601 in UTC, for people.

    >>> _when("2026-01-31T23:59:59+00:00")
    '2026-01-31 23:59 UTC'
    """
    return f"{moment[:10]} {moment[11:16]} UTC"
