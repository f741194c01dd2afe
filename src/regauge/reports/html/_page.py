"""HTML files of a report, each with its style, its script and a policy that allows no other."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from regauge.datasets import Shard, shard_of
from regauge.reports._console import duration, money, quantity
from regauge.reports._gate_console import output_diff
from regauge.reports._runs import read_rows
from regauge.reports.html._overview import cases_by_prompt, failures_of, model_sides, overview_of
from regauge.reports.html._source import read_golden
from regauge.wording import percent, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from jinja2 import Template

    from regauge.datasets import GoldenCase
    from regauge.judges.calibration import LabelSheet
    from regauge.project import Project
    from regauge.reports._documents import RunRecord
    from regauge.reports.html._overview import Overview
    from regauge.reports.html._source import GoldenFile, ReportSource


_SCRIPTS = ("dom.js", "data.js", "diff.js", "table.js", "case.js", "page.js", "main.js")
# Characters that can end a script element, with their escapes in JSON.
_SPELT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def html_report(source: ReportSource) -> str:
    """A run as one HTML file."""
    cases = cases_by_prompt(source)
    return run_page(source, overview_of(source, _count_statuses(cases)), encoded_cases(cases))


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePlace:
    """The place of one file in a report of several.

    Attributes:
        pages: The number of pages of cases.
        number: The number of this page; 0 for the index.
        home: The address of the index; empty for the index.
        directory: The address of the pages' directory; empty for a page.
        cases: The number of cases of the run.
        left_out: The number of cases missing in the tables of the index.
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
    place: PagePlace | None = None,
) -> str:
    """A file of a run's report.

    Args:
        source: The run.
        overview: The overview of the file.
        cases: The cases of its tables by prompt, see `encoded_cases`.
        place: The place of the file in a report of several; None for the only one.
    """
    return render_page(
        "report",
        scripts=_SCRIPTS,
        data=_data(source, cases, place),
        record=source.record,
        overview=overview,
        revisions=source.revisions,
        against=source.against,
        place=place,
        home=place.home if place else "",
        page_of=(place or PagePlace(pages=1)).page,
        output_diff=output_diff,
    )


def _count_statuses(cases: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, Counter[str]]:
    """The number of cases by prompt and status."""
    return {name: Counter(case["status"] for case in of_name) for name, of_name in cases.items()}


def encoded_cases(cases: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, list[str]]:
    """Cases by prompt, each as JSON for the script of a page."""
    return {name: [_json(case) for case in prompt_cases] for name, prompt_cases in cases.items()}


def render_page(
    name: str,
    *,
    scripts: Sequence[str],
    styles: Sequence[str] = (),
    data: Mapping[str, Any] | str | None = None,
    **values: object,
) -> str:
    """One HTML file, readable offline, with untrusted texts escaped.

    Its policy forbids network requests; scripts and styles run only with the digests of those
    written here.

    Args:
        name: The name of the template among the assets.
        scripts: The scripts of the page, among the assets.
        styles: Styles in addition to that of all pages.
        data: Data for the scripts; a text is JSON that is already escaped.
        values: Values for the template.
    """
    style = _join_assets(("report.css", *styles))
    script = f'"use strict";\n(() => {{\n{_join_assets(scripts)}}})();\n'
    return _template(name).render(
        style=_Verbatim(style),
        script=_Verbatim(script),
        policy=_policy(style, script),
        data=_Verbatim(data if isinstance(data, str) else _json(data or {})),
        **values,
    )


def _join_assets(names: Iterable[str]) -> str:
    assets = files("regauge.reports.html") / "assets"
    return "\n".join((assets / name).read_text(encoding="utf-8") for name in names)


@cache  # a report of many files renders one template for each
def _template(name: str) -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "money": money,
        "duration": duration,
        "quantity": quantity,
        "percent": percent,
        "slug": _slug,
        "when": _format_time,
        "shell": shlex.quote,
    }
    return environment.from_string(_join_assets([f"{name}.html.j2"]))


class _Verbatim(str):
    """Trusted text, not escaped in the page."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def _data(source: ReportSource, cases: Mapping[str, Sequence[str]], place: PagePlace | None) -> str:
    gate = source.record.decision
    sides = model_sides(source.record)
    base = gate.ref if gate else f"run {source.against.id}" if source.against else ""
    document: dict[str, Any] = {"base": base}
    if place is not None:
        document |= {"home": place.home, "directory": place.directory, "pages": place.pages}
        document["left_out"] = place.left_out
    prompts = (
        f'{{"name":{_json(name)},"models":'
        f"{_json([[side, model] for model, side in sides.get(name, {}).items()])},"
        f'"cases":[{",".join(prompt_cases)}]}}'
        for name, prompt_cases in cases.items()
    )
    return f'{_json(document)[:-1]},"prompts":[{",".join(prompts)}]}}'


def _json(document: object) -> str:
    r"""JSON that is safe in a script element, with any content.

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


def _finalize(value: object) -> object:
    """A text without characters that reorder or hide text."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return printable(value)
    return value


def _slug(name: str) -> str:
    """A name, quoted for an address."""
    return quote(name, safe="", errors="backslashreplace")


def _format_time(moment: str) -> str:
    """A short text for an ISO 8601 time in UTC.

    >>> _format_time("2026-01-31T23:59:59+00:00")
    '2026-01-31 23:59 UTC'
    """
    return f"{moment[:10]} {moment[11:16]} UTC"


_LABEL_SCRIPTS = ("dom.js", "page.js", "labels.js")


def labels_html(sheet: LabelSheet, judge: str, file: str, cases: Mapping[str, GoldenCase]) -> str:
    """The page for labelling outputs.

    Args:
        sheet: The lines of the file; the page shows those without a label.
        judge: The name of the judge to calibrate.
        file: The name of the file to save.
        cases: The golden cases by id.
    """
    case_ids = {str(line.get("case")) for line in sheet.unlabelled}
    return render_page(
        "labels",
        scripts=_LABEL_SCRIPTS,
        styles=("labels.css",),
        data={
            "judge": judge,
            "file": file,
            "key": sheet.key,
            "lines": sheet.lines,
            "cases": {
                name: {"inputs": dict(cases[name].inputs), "expected": cases[name].expected}
                for name in sorted(case_ids & cases.keys())
            },
        },
        judge=judge,
        file=file,
        scores=sheet.kind == "scores",
        count=len(sheet.unlabelled),
    )


# Pages whose golden cases are in memory at once; each part reads the whole file.
_PART_PAGES: Final = 20
# A browser searches as many cases without delay.
_LISTED_MAX: Final = 50_000
_MB: Final = 1_000_000
_WAITING_BYTES_MAX: Final = 4 * 1024 * 1024
_REASON_CHARS: Final = 200
_LISTED: Final = (
    *("id", "status", "tier", "split", "tags", "counts", "before", "sensitive"),
    *("failed", "latency", "cost"),
)
_GOOD: Final = frozenset({"passed", "unchanged"})


def page_count(record: RunRecord, runs: Iterable[Path], project: Project) -> int:
    """The number of pages of cases that a report needs; 1 if all fit into one file.

    Args:
        record: The run.
        runs: The directories of the run, and of the one to compare with.
        project: The project, with the limits of a file.
    """
    evals = [eval_ for eval_ in record.evals if eval_.side != "base"]
    cases = sum(eval_.cases for eval_ in evals)
    rows = [run / "trials.jsonl" for run in runs]
    size = sum(path.stat().st_size for path in rows if path.is_file()) + sum(
        _inputs_size(eval_.dataset, eval_.cases, project) for eval_ in evals
    )
    settings = project.settings
    share = max(cases / settings.html_cases_max, size / (settings.html_mb_max * _MB))
    # Pages vary in length, and none should be much longer than a file may be.
    least = ceil(2 * share) if share > 1 else 1
    parts = ceil(least / _PART_PAGES)
    return parts * ceil(least / parts)


def _inputs_size(dataset: str, cases: int, project: Project) -> float:
    """The estimated bytes of the inputs of a dataset: the mean of about 100 cases for all."""
    golden = read_golden(dataset, project, part=Shard(number=1, count=ceil(cases / 100) or 1))
    sizes = [len(_json(dict(case.inputs))) for case in golden.cases.values()]
    return sum(sizes) / len(sizes) * cases if sizes else 0


def write_pages(
    source: ReportSource,
    path: Path,
    *,
    pages: int,
    run: Path,
    project: Project,
    against: Path | None,
) -> None:
    """Write the index and pages of a run.

    A hash of the id assigns a case to a page. Memory holds one page and the cases of the index.

    Args:
        source: The run, without its trials.
        path: The file of the index. `report.html` has its pages in `report-cases`.
        pages: The number of pages, from `page_count`.
        run: The directory of the run.
        project: The project, with golden cases.
        against: The directory of a run to compare with; None without one.

    Raises:
        InvalidFileError: A row cannot be read.
        OSError: A file cannot be written.
    """
    parts = ceil(pages / _PART_PAGES)
    directory = path.with_name(f"{path.stem}-cases")
    directory.mkdir(exist_ok=True)
    for old in directory.iterdir():
        if re.fullmatch(r"[0-9]+\.html", old.name):
            old.unlink()
    index_cases = _IndexCases()
    run_overview = overview_of(source, {})
    with tempfile.TemporaryDirectory(prefix=".rows-", dir=directory) as scratch:
        dealt = _RowsByPage(Path(scratch), pages)
        datasets = {row["dataset"] for row in dealt.deal(read_rows(run), "run")}
        for _ in dealt.deal(read_rows(against) if against is not None else (), "against"):
            pass
        for part in range(1, parts + 1):
            golden = {
                name: read_golden(name, project, part=Shard(number=part, count=parts))
                for name in sorted(datasets)
            }
            first = (part - 1) * (pages // parts) + 1
            for number in range(first, first + pages // parts):
                of_page = _source_of_page(source, dealt, golden, number, pages)
                cases = cases_by_prompt(of_page)
                index_cases.add(cases, number)
                place = PagePlace(pages=pages, number=number, home=f"../{quote(path.name)}")
                names = overview_of(of_page, _count_statuses(cases)).prompts
                overview = replace(
                    run_overview,
                    prompts=tuple(name for name in names if name.name in cases),
                    changed={},
                )
                page = run_page(of_page, overview, encoded_cases(cases), place)
                (directory / f"{number}.html").write_text(page, encoding="utf-8")
    place = PagePlace(
        pages=pages,
        directory=quote(directory.name),
        cases=index_cases.count,
        left_out=index_cases.left_out,
    )
    index = run_page(source, overview_of(source, index_cases.words), index_cases.cases(), place)
    path.write_text(index, encoding="utf-8")


def remove_pages(path: Path) -> None:
    """Remove the pages that an earlier, larger report left next to its index."""
    directory = path.with_name(f"{path.stem}-cases")
    home = f'class="brand" href="../{quote(path.name)}#/"'
    pages = [
        page
        for page in (directory.iterdir() if directory.is_dir() else ())
        if re.fullmatch(r"[0-9]+\.html", page.name)
        and home in page.read_text(encoding="utf-8", errors="replace")
    ]
    for page in pages:
        page.unlink()
    if pages and not any(directory.iterdir()):
        directory.rmdir()


def _source_of_page(
    source: ReportSource,
    dealt: _RowsByPage,
    golden: Mapping[str, GoldenFile],
    number: int,
    pages: int,
) -> ReportSource:
    """The part of a run that one page shows."""
    record = source.record
    if record.decision is not None:
        page_cases = [
            case for case in record.decision.cases if shard_of(case.case, pages) == number
        ]
        decision = record.decision.model_copy(update={"cases": page_cases})
        record = record.model_copy(update={"decision": decision})
    return replace(
        source,
        record=record,
        rows=dealt.rows(number, "run"),
        against_rows=dealt.rows(number, "against"),
        golden=golden,
        history={},
        revisions=(),
    )


@dataclass(slots=True)
class _RowsByPage:
    """Rows by page, on the disk."""

    directory: Path
    pages: int

    def deal(self, rows: Iterable[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
        """Write rows to the files of their pages, and yield them."""
        waiting: defaultdict[int, list[str]] = defaultdict(list)
        size = 0
        for row in rows:
            line = json.dumps(row)
            waiting[shard_of(row["case"], self.pages)].append(line)
            size += len(line)
            if size > _WAITING_BYTES_MAX:
                self._write(waiting, kind)
                size = 0
            yield row
        self._write(waiting, kind)

    def _write(self, waiting: defaultdict[int, list[str]], kind: str) -> None:
        for page, lines in waiting.items():
            with self._path(page, kind).open("a", encoding="ascii") as file:
                file.writelines(f"{line}\n" for line in lines)
        waiting.clear()

    def rows(self, page: int, kind: str) -> list[dict[str, Any]]:
        """The rows of one page, in the order of the run."""
        try:
            with self._path(page, kind).open(encoding="ascii") as file:
                return [json.loads(line) for line in file]
        except FileNotFoundError:
            return []

    def _path(self, page: int, kind: str) -> Path:
        return self.directory / f"{kind}-{page}"


@dataclass(slots=True)
class _IndexCases:
    """The cases in the tables of the index: failed ones first, then passing ones."""

    words: dict[str, Counter[str]] = field(default_factory=dict[str, "Counter[str]"])
    _first: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    _passing: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def count(self) -> int:
        """The number of all cases."""
        return sum(counts.total() for counts in self.words.values())

    @property
    def left_out(self) -> int:
        """The number of cases that are not listed."""
        return self.count - min(len(self._first) + len(self._passing), _LISTED_MAX)

    def add(self, cases: Mapping[str, Iterable[Mapping[str, Any]]], page: int) -> None:
        """Count the cases of a page, and list them while there is room."""
        for prompt, of_prompt in cases.items():
            words = self.words.setdefault(prompt, Counter())
            for case in of_prompt:
                words[case["status"]] += 1
                entries = self._passing if case["status"] in _GOOD else self._first
                if len(entries) < _LISTED_MAX:
                    [text] = encoded_cases({prompt: [_summary(case, page)]})[prompt]
                    entries.append((prompt, text))

    def cases(self) -> dict[str, list[str]]:
        """By prompt, the listed cases as JSON."""
        cases: dict[str, list[str]] = {name: [] for name in self.words}
        for prompt, text in [*self._first, *self._passing][:_LISTED_MAX]:
            cases[prompt].append(text)
        return cases


def _summary(case: Mapping[str, Any], page: int) -> dict[str, Any]:
    """The fields of a case for the index and its search."""
    trials = [trial for trial in case["trials"] if trial["side"] != "base"]
    reasons: dict[str, str] = {}
    for name, reason in (failure for trial in trials for failure in failures_of(trial)):
        reasons.setdefault(name, reason)
    causes = {trial["cause"]["message"] for trial in trials if trial.get("cause")}
    messages = [case.get("message", ""), *reasons.values(), *sorted(causes)]
    return {
        **{name: case[name] for name in _LISTED if name in case},
        "page": page,
        "words": "\n".join(text[:_REASON_CHARS] for text in messages if text),
    }
