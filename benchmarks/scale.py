"""Measure runs of many cases: shards and their merge, reports, and the workers of a cluster.

    python benchmarks/scale.py                            everything
    python benchmarks/scale.py --only shards --cases 100000 --shards 10 --json

Cases are replayed. Only some shards of a large run are run; the rows of the others are copies. The
merge reads all of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _measure import Usage, machine, pytest_run, regauge_run
from _projects import forget, project
from _server import ANSWER, endpoint

from regauge.datasets import Shard, shard_of
from regauge.providers import Completion, Usage as Tokens
from regauge.recordings import Recording, RecordingKey, encode_line
from regauge.runner import PlannedCase

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.bound_evals import bind_eval

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

_MIB = 1024 * 1024
_QUIET = ("-q", "--no-header", "--tb=no")
_REPLAY = (*_QUIET, "--record=none")
_TEXT = "The disk of this machine is nearly full, and the queue behind it grew. " * 3
_TIMES = frozenset({"id", "started_at", "finished_at", "command", "merged"})
Result = dict[str, Any]


def shards(root: Path, *, cases: int, count: int, run: int) -> Result:
    """So many replayed cases as shards: the memory of a shard, the time and memory of the merge."""
    where = project(root, cases=1, base_url="http://127.0.0.1:9/v1")
    numbers = range(1, min(run, count) + 1)
    _write_cases(where, cases, count=count, wanted=numbers)
    used = [
        pytest_run(where, "evals", *_REPLAY, f"--shard={n}/{count}", f"--report={_part(where, n)}")
        for n in numbers
    ]
    own: dict[int, list[str]] = {}
    for case in map(_case, range(cases)):
        own.setdefault(shard_of(case, count), []).append(case)
    for number in range(len(numbers) + 1, count + 1):
        _make_part(where, number, own[number])
    merged = regauge_run(
        where, "runs", "merge", *(_part(where, number) for number in range(1, count + 1))
    )
    return {
        "cases": cases,
        "shards": count,
        "cases_of_shards": [_rows(where, number) for number in numbers],
        "shard_s": [round(one.wall_s, 1) for one in used],
        "shard_cpu_s": [round(one.cpu_s, 1) for one in used],
        "shard_mib": [round(one.peak_bytes / _MIB) for one in used],
        "shard_mib_target": 150,
        "merge_s": round(merged.wall_s, 1),
        "merge_cpu_s": round(merged.cpu_s, 1),
        "merge_s_target": 90,
        "merge_mib": round(merged.peak_bytes / _MIB),
        "merge_mib_target": 400,
    }


def equal(root: Path, *, cases: int, count: int, run: int) -> Result:
    """Whether the merged record of 10,000 cases equals that of one run, but for times."""
    del cases, run
    cases, count = 10_000, min(count, 10)
    where = project(root, cases=1, base_url="http://127.0.0.1:9/v1")
    numbers = range(1, count + 1)
    _write_cases(where, cases, count=count, wanted=numbers)
    whole = pytest_run(where, "evals", *_REPLAY, f"--report={where / 'whole'}")
    for number in numbers:
        report = f"--report={_part(where, number)}"
        pytest_run(where, "evals", *_REPLAY, f"--shard={number}/{count}", report)
    regauge_run(where, "runs", "merge", *(_part(where, number) for number in numbers))
    [merged] = [
        path.parent
        for path in where.glob(".regauge/runs/*/run.json")
        if json.loads(path.read_text(encoding="utf-8"))["merged"]
    ]
    records = [
        {key: value for key, value in _json(directory / "run.json").items() if key not in _TIMES}
        for directory in (where / "whole", merged)
    ]
    rows = [
        sorted((directory / "trials.jsonl").open("rb")) for directory in (where / "whole", merged)
    ]
    return {
        "cases": cases,
        "shards": count,
        "records_are_equal": records[0] == records[1],
        "rows_are_equal": rows[0] == rows[1],
        "whole_mib": round(whole.peak_bytes / _MIB),
        "whole_cpu_s": round(whole.cpu_s, 1),
    }


_REPORTS = ("csv", "json", "parquet", "html", "md")


def reports(root: Path, *, cases: int, count: int, run: int) -> Result:
    """What reads two runs of so many cases: reports, comparison and history; and `record`."""
    del count, run
    where = project(root, cases=1, base_url="http://127.0.0.1:9/v1")
    _write_cases(where, 1, count=1, wanted=[1])
    pytest_run(where, "evals", *_REPLAY)
    [first] = where.glob(".regauge/runs/*/run.json")
    runs = [_make_run(first.parent, number, cases) for number in (1, 2)]
    commands = {
        # First, because each of the others brings the history up to date, too.
        "history": ("log", "label", "--runs"),
        **{f"report_{kind}": ("report", runs[0], "-o", f"report.{kind}") for kind in _REPORTS},
        "runs_compare": ("runs", "compare", *runs),
    }
    result: Result = {"cases": cases, "rows_mib": _size_mib(first.parent.with_name(runs[0]))}
    for name, words in commands.items():
        result |= _cost(name, regauge_run(where, *words))
    _write_cases(where, cases, count=1, wanted=[1])
    return result | _cost("record", regauge_run(where, "record"))


def _cost(name: str, used: Usage) -> Result:
    cost = {"cpu_s": round(used.cpu_s, 1), "mib": round(used.peak_bytes / _MIB)}
    print(f"{name}: {cost}", file=sys.stderr)
    return {name: cost}


def _size_mib(directory: Path) -> int:
    return round(sum(path.stat().st_size for path in directory.iterdir()) / _MIB)


def _make_run(first: Path, number: int, cases: int) -> str:
    """A run with the rows of many cases, like that of the only case of another run."""
    record = _json(first / "run.json")
    run_id: str = f"{record['id'][:-4]}{number:04x}"
    record["id"] = run_id
    for suite in record["evals"]:
        for name, value in suite.items():
            if value == 1 and isinstance(value, int):
                suite[name] = cases
    made = first.with_name(run_id)
    made.mkdir()
    (made / "run.json").write_text(json.dumps(record), encoding="utf-8")
    [row] = (first / "trials.jsonl").read_text(encoding="utf-8").splitlines()
    with (made / "trials.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(f"{row.replace(_case(0), _case(case))}\n" for case in range(cases))
    return run_id


def live(root: Path, *, cases: int, count: int, run: int) -> Result:
    """10,000 live cases without latency, in one process."""
    del cases, count, run
    with endpoint(0) as server:
        where = project(root, cases=10_000, base_url=server.base_url)
        forget(where)
        used = pytest_run(where, "evals", *_QUIET)
    return {
        "cases": 10_000,
        "wall_s": round(used.wall_s, 1),
        "cpu_s": round(used.cpu_s, 1),
        "mib": round(used.peak_bytes / _MIB),
        "mib_target": 150,
    }


_CAPS = (25, 50, 100)
_WORKERS = (1, 2, 4)
_LATENCY_MS = 200
_SPAN_S = 10
_BUCKET = 100
_WAIT = """\
from distributed import Client
Client({address!r}, timeout=60).wait_for_workers({count}, timeout=60)
"""


def cluster(root: Path, *, caps: Sequence[int] = _CAPS, bucket: int = _BUCKET, **_: int) -> Result:
    """Workers of a cluster: throughput, one rate limit for all, a worker that is killed."""
    result: Result = {}
    for cap in caps:
        rates: dict[int, float] = {}
        for workers in _WORKERS:
            where = root / f"cap-{cap}-{workers}"
            made = _SPAN_S * cap * workers
            with (
                endpoint(_LATENCY_MS) as server,
                _dask(where, server.base_url, made, workers, cap * _LATENCY_MS // 1000) as dask,
            ):
                dask.warm()
                server.traffic()
                dask.run()
                seen = server.traffic()
                rates[workers] = seen.requests / seen.span_s
            print(f"{cap}/s, {workers} workers: {rates[workers]:.1f}/s", file=sys.stderr)
        result[f"requests_s_of_workers_with_{cap}_s"] = {
            workers: round(rate, 1) for workers, rate in rates.items()
        }
        result[f"share_of_n_times_one_with_{cap}_s"] = {
            workers: round(rate / workers / rates[1], 3) for workers, rate in rates.items()
        }
    result["share_of_n_times_one_target"] = 0.95
    made = 2 * _SPAN_S * bucket
    for workers in _WORKERS:
        for kill in (False, True) if workers > 1 else (False,):
            where = root / f"bucket-{workers}-{kill}"
            with (
                endpoint(_LATENCY_MS, f"--bucket={bucket},{max(1, bucket // 5)}") as server,
                _dask(where, server.base_url, made, workers, 64) as dask,
            ):
                dask.warm()
                server.traffic()
                dask.run(kill_after_s=_SPAN_S if kill else None)
                seen = server.traffic()
                answers = dask.answers()
            name = f"bucket_of_{bucket}_s_with_{workers}{'_one_killed' if kill else ''}"
            result[name] = {
                "requests_s": round((seen.requests - seen.refused) / seen.span_s, 1),
                "share_of_429": round(seen.refused / seen.requests, 4),
                "lost": made - answers,
                "paid_twice": seen.requests - seen.refused - answers,
            }
            print(f"{name}: {result[name]}", file=sys.stderr)
    result["bucket_target"] = {"requests_s": 0.95 * bucket, "share_of_429": 0.01, "lost": 0}
    return result


class _Dask:
    """A project and the workers of a cluster for it, as processes of this machine."""

    def __init__(self, where: Path, address: str, workers: list[subprocess.Popen[bytes]]) -> None:
        self._where = where
        self._workers = workers
        self._options = (*_QUIET, f"--cluster={address}")

    def warm(self) -> None:
        """Have all workers load what calls need."""
        self.run("-k", "case-0000")
        forget(self._where)

    def run(self, *options: str, kill_after_s: float | None = None) -> None:
        killing = threading.Timer(kill_after_s or 0, self._workers[-1].kill)
        if kill_after_s is not None:
            killing.start()
        pytest_run(self._where, "evals", *self._options, *options)

    def answers(self) -> int:
        path = self._where / "fixtures/recordings/label.jsonl"
        return len(path.read_bytes().splitlines())


@contextmanager
def _dask(where: Path, base_url: str, cases: int, workers: int, nthreads: int) -> Generator[_Dask]:
    project(where, cases=cases, base_url=base_url)
    forget(where)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    scheduler = ("dask_scheduler", "--host=127.0.0.1", f"--port={port}", "--no-dashboard")
    one = ("dask_worker", address, f"--nthreads={nthreads}", "--no-nanny", "--no-dashboard")
    started = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{words[0]}", *words[1:]],
            cwd=where,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for words in (scheduler, *[one] * workers)
    ]
    try:
        _wait_for_workers(address, workers)
        yield _Dask(where, address, started[1:])
    finally:
        for process in started:
            process.kill()
            process.wait()


def _wait_for_workers(address: str, count: int) -> None:
    script = _WAIT.format(address=address, count=count)
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def _case(number: int) -> str:
    return f"case-{number:07}"


def _part(root: Path, number: int) -> str:
    return str(root / f"parts/shard-{number:04}")


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _rows(root: Path, number: int) -> int:
    return len(Path(_part(root, number), "trials.jsonl").read_bytes().splitlines())


def _write_cases(root: Path, cases: int, *, count: int, wanted: Sequence[int]) -> None:
    """Golden cases and their recordings; those of shards that are not run have made-up digests."""
    golden = root / "fixtures/golden/label.jsonl"
    with golden.open("w", encoding="utf-8") as lines:
        for number in range(cases):
            inputs = {"title": f"Note {number}", "note": _TEXT}
            row = {"id": _case(number), "inputs": inputs, "expected": {"label": "a"}}
            lines.write(f"{json.dumps(row)}\n")
    digests = dict(_digests(root, count, wanted))
    path = root / "fixtures/recordings/label.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for number in range(cases):
            case = _case(number)
            recording = Recording(
                key=RecordingKey(digests.get(case) or hashlib.sha256(case.encode()).hexdigest(), 0),
                prompt="label",
                version="1.0.0",
                case=case,
                model="waiter:waiter-1",
                completion=Completion(
                    text=json.dumps({**ANSWER, "reason": f"the disk of machine {number} says so"}),
                    model="waiter-1",
                    usage=Tokens(input_tokens=80, output_tokens=12),
                    latency_s=0.2 + number % 7 / 100,
                ),
                recorded_at="2026-01-01T00:00:00Z",
            )
            file.write(encode_line(recording) + b"\n")


def _digests(root: Path, count: int, wanted: Sequence[int]) -> Iterator[tuple[str, str]]:
    """The digest of the request of each case of some shards."""
    for number in wanted:
        suite = bind_eval(root, "label", shard=Shard(number=number, count=count))
        for case in suite.dataset:
            yield case.id, PlannedCase(suite, case).request(0).digest


def _make_part(root: Path, number: int, own: Sequence[str]) -> None:
    """The directory of a shard that is not run, with rows of its cases like those of the first."""
    first, part = Path(_part(root, 1)), Path(_part(root, number))
    part.mkdir(parents=True)
    with (first / "trials.jsonl").open(encoding="utf-8") as lines:
        row = lines.readline()
    case = json.loads(row)["case"]
    with (part / "trials.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(row.replace(case, name) for name in own)
    record = _json(first / "run.json")
    record["id"] = f"{record['id'][:-4]}{number:04x}"
    record["shard"]["number"] = number
    record["shard"]["lines"]["trials.jsonl"] = len(own)
    for suite in record["shard"]["evals"]:
        suite["cases"] = suite["selected_cases"] = len(own)
    (part / "run.json").write_text(json.dumps(record), encoding="utf-8")


_BENCHMARKS: dict[str, Callable[..., Result]] = {
    "shards": shards,
    "equal": equal,
    "reports": reports,
    "live": live,
    "cluster": cluster,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=[*_BENCHMARKS], help="only this one")
    parser.add_argument("--cases", type=int, default=1_000_000, help="of the sharded run")
    parser.add_argument("--shards", type=int, default=100, help="how many it is dealt to")
    parser.add_argument("--run", type=int, default=2, help="how many of them are run")
    parser.add_argument("--cap", type=int, action="append", help="of a worker, in requests/s")
    parser.add_argument("--bucket", type=int, default=_BUCKET, help="for all, in requests/s")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    report: dict[str, Any] = {"machine": machine()}
    for name in options.only or _BENCHMARKS:
        with tempfile.TemporaryDirectory(prefix=f"regauge-{name}-") as directory:
            report[name] = _BENCHMARKS[name](
                Path(directory) / "project",
                cases=options.cases,
                count=options.shards,
                run=options.run,
                **(
                    {"caps": options.cap or _CAPS, "bucket": options.bucket}
                    if name == "cluster"
                    else {}
                ),
            )
        report[name]["load"] = machine()["load"]
        if not options.json:
            print(f"{name}: {_BENCHMARKS[name].__doc__}")
            for key, value in report[name].items():
                print(f"  {key}: {value}")
            sys.stdout.flush()
    if options.json:
        print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
