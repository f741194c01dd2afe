"""The report of a large run: an index, and pages of cases in a directory next to it."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from regauge.datasets import Shard, shard_of
from regauge.reports._runs import read_rows
from regauge.reports.html._overview import cases_by_prompt, overview_of
from regauge.reports.html._page import Place, count_verdicts, encoded_cases, run_page
from regauge.reports.html._source import read_golden

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from regauge.project import Project
    from regauge.reports._record import RunRecord
    from regauge.reports.html._source import GoldenFile, ReportSource

# The golden cases of so many pages are in memory at once; each part reads the whole file.
_PART_PAGES: Final = 20
# A browser looks through so many cases without delay.
_LISTED_MAX: Final = 50_000
_WAITING_BYTES_MAX: Final = 4 * 1024 * 1024
_REASON_CHARS: Final = 200
_LISTED: Final = ("id", "verdict", "tier", "split", "tags", "counts", "before", "sensitive")
_GOOD: Final = frozenset({"passed", "unchanged"})


def case_count(record: RunRecord) -> int:
    """The number of cases of a run, those of each model on their own."""
    return sum(suite.cases for suite in record.suites if suite.arm != "main")


def write_pages(
    source: ReportSource, path: Path, *, run: Path, project: Project, against: Path | None
) -> int:
    """Write the index of a run at `path` and its pages; returns the number of pages.

    A hash of its id deals a case to a page, which is made when all rows are dealt; memory holds
    one page, and what the index lists.

    Args:
        source: The run, without its trials.
        path: The file of the index. `report.html` has its pages in `report-cases`.
        run: The directory of the run.
        project: Whose golden cases are shown.
        against: The directory of a run to show next to it.

    Raises:
        FaultyFileError: A row cannot be read.
        OSError: A file cannot be written.
    """
    # Pages are of different lengths, and none should be much longer than a file may be.
    least = ceil(2 * case_count(source.record) / project.settings.html_cases_max)
    parts = ceil(least / _PART_PAGES)
    pages = parts * ceil(least / parts)
    directory = path.with_name(f"{path.stem}-cases")
    directory.mkdir(exist_ok=True)
    for old in directory.iterdir():
        if re.fullmatch(r"[0-9]+\.html", old.name):
            old.unlink()
    listed = _Listed()
    whole = overview_of(source, {})
    with tempfile.TemporaryDirectory(prefix=".rows-", dir=directory) as scratch:
        dealt = _DealtRows(Path(scratch), pages)
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
                listed.add(cases, number)
                place = Place(pages=pages, number=number, home=f"../{quote(path.name)}")
                words = {name: count_verdicts(of_prompt) for name, of_prompt in cases.items()}
                names = overview_of(of_page, words).prompts
                overview = replace(
                    whole, prompts=tuple(name for name in names if name.name in cases), changed=()
                )
                page = run_page(of_page, overview, encoded_cases(cases), place)
                (directory / f"{number}.html").write_text(page, encoding="utf-8")
    place = Place(
        pages=pages,
        directory=quote(directory.name),
        cases=listed.count,
        left_out=listed.left_out,
    )
    index = run_page(source, overview_of(source, listed.words), listed.cases(), place)
    path.write_text(index, encoding="utf-8")
    return pages


def _source_of_page(
    source: ReportSource,
    dealt: _DealtRows,
    golden: Mapping[str, GoldenFile],
    number: int,
    pages: int,
) -> ReportSource:
    """The part of a run that one page shows."""
    record = source.record
    if record.decision is not None:
        own = [case for case in record.decision.cases if shard_of(case.case, pages) == number]
        decision = record.decision.model_copy(update={"cases": own})
        record = record.model_copy(update={"decision": decision})
    return replace(
        source,
        record=record,
        rows=dealt.rows(number, "run"),
        against_rows=dealt.rows(number, "against"),
        golden=golden,
        history={},
        repairs=(),
    )


@dataclass(slots=True)
class _DealtRows:
    """Rows by page, on the disk."""

    directory: Path
    pages: int

    def deal(self, rows: Iterable[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
        """Deal rows, and give them back one after the other."""
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
class _Listed:
    """The cases that the index lists: those that did not pass first, then others."""

    words: dict[str, Counter[str]] = field(default_factory=dict[str, "Counter[str]"])
    _first: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    _others: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def count(self) -> int:
        """The number of all cases."""
        return sum(counts.total() for counts in self.words.values())

    @property
    def left_out(self) -> int:
        """The number of cases that are not listed."""
        return self.count - min(len(self._first) + len(self._others), _LISTED_MAX)

    def add(self, cases: Mapping[str, Iterable[Mapping[str, Any]]], page: int) -> None:
        """Count the cases of a page, and list what there is room for."""
        for prompt, of_prompt in cases.items():
            words = self.words.setdefault(prompt, Counter())
            for case in of_prompt:
                words[case["verdict"]] += 1
                kept = self._others if case["verdict"] in _GOOD else self._first
                if len(kept) < _LISTED_MAX:
                    [text] = encoded_cases({prompt: [_summary(case, page)]})[prompt]
                    kept.append((prompt, text))

    def cases(self) -> dict[str, list[str]]:
        """By prompt, the listed cases as JSON."""
        cases: dict[str, list[str]] = {name: [] for name in self.words}
        for prompt, text in [*self._first, *self._others][:_LISTED_MAX]:
            cases[prompt].append(text)
        return cases


def _summary(case: Mapping[str, Any], page: int) -> dict[str, Any]:
    """The part of a case that the index shows and searches."""
    trials = [trial for trial in case["trials"] if trial["arm"] != "base"]
    latencies = [trial["latency_s"] for trial in trials if "latency_s" in trial]
    costs = [trial.get("cost_usd") for trial in trials if "answer" in trial]
    failed: dict[str, str] = {}
    for trial in trials:
        for verdict in trial["verdicts"]:
            if verdict["outcome"] == "fail":
                advisory = " (informs)" if verdict.get("gates") is False else ""
                failed.setdefault(f"{verdict['judge']}{advisory}", verdict["reason"])
    causes = {trial["cause"]["message"] for trial in trials if trial.get("cause")}
    messages = [case.get("message", ""), *failed.values(), *sorted(causes)]
    return {
        **{name: case[name] for name in _LISTED if name in case},
        "page": page,
        "failed": list(failed),
        "latency": sum(latencies) / len(latencies) if latencies else None,
        "cost": sum(cost or 0 for cost in costs) if None not in costs else None,
        "words": "\n".join(text[:_REASON_CHARS] for text in messages if text),
    }
