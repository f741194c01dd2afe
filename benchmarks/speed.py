"""Measure the speed of evals, against limits and against plain pytest.

    python benchmarks/speed.py                 all measurements
    python benchmarks/speed.py replay --json   one of them, for a program

Compared runs alternate; a result is a median with minimum and maximum.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _measure import Spread, Usage, alternate, machine, pytest_run, python_run
from _projects import (
    conversation_project,
    empty_tests,
    forget,
    judged_project,
    project,
    record_at_once,
    target_project,
    without_evals,
)
from _server import endpoint

from regauge.recordings import RecordingsFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from _server import Endpoint

_LATENCY_S = 0.2
_QUIET = ("-q", "--no-header")
Result = dict[str, Any]


def live(root: Path, times: int) -> Result:
    """1,000 cases at 200 ms and 64 requests at once: the whole process against the limit."""
    cases, concurrency, target = 1000, 64, 1.5
    limit_s = math.ceil(cases / concurrency) * _LATENCY_S
    with endpoint(_LATENCY_S * 1000) as server:
        where = project(root, cases=cases, base_url=server.base_url)

        def run() -> Usage:
            forget(where)
            used = pytest_run(where, "evals", *_QUIET, f"--concurrency={concurrency}")
            assert server.calls() == cases
            return used

        taken = alternate(
            {"run": run, "start_up": lambda: pytest_run(where, "evals", *_QUIET, "--collect-only")},
            times=times,
        )
    return {
        "limit_s": limit_s,
        "run_s": _wall(taken["run"]),
        "cpu_s": Spread.of([used.cpu_s for used in taken["run"]]).to_json(),
        "collect_only_s": _wall(taken["start_up"]),
        **_verdict([used.wall_s / limit_s for used in taken["run"]], target, "times the limit"),
    }


def targets(root: Path, times: int) -> Result:
    """1,000 cases put to a Python function that waits 200 ms, 64 at once, against the limit."""
    cases, concurrency, target = 1000, 64, 1.4
    limit_s = math.ceil(cases / concurrency) * _LATENCY_S
    where = target_project(root, cases=cases, latency_s=_LATENCY_S)

    def run() -> Usage:
        forget(where)
        used = pytest_run(where, "evals", *_QUIET, f"--concurrency={concurrency}")
        assert len(RecordingsFile.load(where / "fixtures/recordings/label.jsonl")) == cases
        return used

    taken = alternate({"run": run}, times=times)
    return {
        "limit_s": limit_s,
        "run_s": _wall(taken["run"]),
        "cpu_s": Spread.of([used.cpu_s for used in taken["run"]]).to_json(),
        **_verdict([used.wall_s / limit_s for used in taken["run"]], target, "times the limit"),
    }


def judges(root: Path, times: int) -> Result:
    """200 cases with a GEval and a rubric of two votes, 200 ms, 64 at once: against the limit."""
    cases, concurrency, target = 200, 64, 1.5
    calls = 4 * cases + 1  # an answer, two votes, a GEval each; the steps of GEval once
    limit_s = math.ceil(calls / concurrency) * _LATENCY_S
    with endpoint(_LATENCY_S * 1000) as server:
        where = judged_project(root, cases=cases, base_url=server.base_url)

        def run() -> Usage:
            forget(where)
            used = pytest_run(where, "evals", *_QUIET, f"--concurrency={concurrency}")
            asked = server.calls()
            assert asked == calls, asked
            return used

        taken = alternate(
            {
                "run": run,
                "replay": lambda: pytest_run(where, "evals", *_QUIET, "--record=none"),
                "import": lambda: python_run(where, "import deepeval.metrics"),
            },
            times=times,
        )
    return {
        "calls": calls,
        "limit_s": limit_s,
        "run_s": _wall(taken["run"]),
        "cpu_s": Spread.of([used.cpu_s for used in taken["run"]]).to_json(),
        "replay_s": _wall(taken["replay"]),
        "import_s": _wall(taken["import"]),
        **_verdict([used.wall_s / limit_s for used in taken["run"]], target, "times the limit"),
    }


def burst(root: Path, times: int) -> Result:
    """100 cases at 200 ms, all at once: the time on top of the same run with answers recorded."""
    cases, target_s = 100, 1.0
    with endpoint(_LATENCY_S * 1000) as server:
        where = project(root / "live", cases=cases, base_url=server.base_url)
        known = project(root / "recorded", cases=cases, base_url=server.base_url)
        pytest_run(known, "evals", *_QUIET)
        one = project(root / "one", cases=1, base_url=server.base_url)

        def drawn(where: Path) -> Usage:
            forget(where)
            return pytest_run(where, "evals", *_QUIET, f"--concurrency={cases}")

        taken = alternate(
            {
                "run": lambda: drawn(where),
                "recorded": lambda: pytest_run(known, "evals", *_QUIET),
                "one": lambda: drawn(one),
            },
            times=times,
        )
    pairs = zip(taken["run"], taken["recorded"], strict=True)
    return {
        "run_s": _wall(taken["run"]),
        "recorded_s": _wall(taken["recorded"]),
        # With the SDK loaded and one answer awaited: what is left is the other 99 cases.
        "one_case_s": _wall(taken["one"]),
        **_verdict([run.wall_s - recorded.wall_s for run, recorded in pairs], target_s, "s on top"),
    }


def limited(root: Path, times: int) -> Result:
    """Buckets of 100, 20 and 4 requests a second, with and without Retry-After: times ideal."""
    rows: Result = {}
    ratios: list[float] = []
    for rate, burst, cases in ((100, 20, 1000), (20, 20, 200), (4, 4, 120)):
        for retry_after in ("", "1"):
            options = ["--bucket", f"{rate},{burst}"]
            if retry_after:
                options += ["--retry-after", retry_after]
            name = f"{rate}/s, {'Retry-After: 1' if retry_after else 'no Retry-After'}"
            ideal_s = (cases - burst) / rate + 0.05
            with endpoint(50, *options) as server:
                where = project(root / name.replace("/", ""), cases=cases, base_url=server.base_url)
                rows[name] = _against(where, server, cases, ideal_s, times)
            ratios.append(rows[name]["times_ideal"]["median"])
    with endpoint(50, "--bucket", "40,20") as server:
        where = project(root / "workers", cases=400, base_url=server.base_url)
        shared = _against(where, server, 400, 9.55, times, "-n2", "-p", "xdist")
    rows["40/s, two workers"] = shared
    return {**rows, **_verdict([max(ratios)], 1.15, "times ideal, the worst")}


def refused(root: Path, times: int) -> Result:
    """300 cases at 100 ms where a fifth is refused at random, with Retry-After: 1: seconds."""
    rows: Result = {}
    for retry_after in ("", "1"):
        options = ["--refuse", "0.2"]
        if retry_after:
            options += ["--retry-after", retry_after]
        name = "Retry-After: 1" if retry_after else "no Retry-After"
        with endpoint(100, *options) as server:
            where = project(root / f"ra{retry_after}", cases=300, base_url=server.base_url)
            rows[name] = _against(where, server, 300, 0.5, times)
    seconds = [row["run_s"]["median"] for row in rows.values()]
    return {**rows, **_verdict([max(seconds)], 6.0, "s, the slower")}


def outage(root: Path, times: int) -> Result:
    """600 cases at 100 ms; the server goes away for 20 s in the middle: cases unmeasured."""
    lost: list[float] = []
    rows: list[Result] = []
    for number in range(min(times, 3)):
        with endpoint(100, "--away-after", "300", "--away-s", "20") as server:
            where = project(root / str(number), cases=600, base_url=server.base_url)
            rows.append(_against(where, server, 600, 21.0, 1))
        lost.append(rows[-1]["unmeasured"])
    return {"runs": rows, **_verdict(lost, 0, "cases unmeasured")}


def _against(
    where: Path, server: Endpoint, cases: int, ideal_s: float, times: int, *arguments: str
) -> Result:
    """Runs against a server with limits: at the server, and of the whole process."""
    runs: list[Usage] = []
    spans: list[float] = []
    requests: list[float] = []
    lost = 0
    for _ in range(times):
        forget(where)
        server.traffic()
        runs.append(pytest_run(where, "evals", *_QUIET, *arguments, exit_codes=(0, 1)))
        traffic = server.traffic()
        spans.append(traffic.span_s / ideal_s)
        requests.append(traffic.requests / cases)
        recorded = where / "fixtures/recordings/label.jsonl"
        lost += cases - len(RecordingsFile.load(recorded)) if recorded.exists() else cases
    return {
        "ideal_s": round(ideal_s, 2),
        "times_ideal": Spread.of(spans).to_json(),
        "requests_per_case": Spread.of(requests).to_json(),
        "run_s": _wall(runs),
        "unmeasured": lost,
    }


def stop(root: Path, times: int) -> Result:
    """`-x` with a failure at case 18 of 100: how many calls are spent."""
    calls: list[float] = []
    with endpoint(_LATENCY_S * 1000) as server:
        where = project(root, cases=100, base_url=server.base_url, wrong_case=18)
        for _ in range(times):
            forget(where)
            pytest_run(where, "evals", *_QUIET, "-x", "--concurrency=100", exit_codes=(1,))
            calls.append(server.calls())
    return _verdict(calls, 50, "calls")


def replay(root: Path, times: int) -> Result:
    """10,000 recorded cases against 10,000 empty parametrized tests, and memory per case."""
    sizes, target = (1000, 5000, 10_000), 1.8
    runs: dict[str, Callable[[], Usage]] = {}
    with endpoint(0) as server:
        for size in sizes:
            evals = project(root / f"evals-{size}", cases=size, base_url=server.base_url)
            empty = empty_tests(root / f"empty-{size}", count=size)
            pytest_run(evals, "evals", *_QUIET, "--concurrency=16")
            runs[f"evals_{size}"] = _Replay(evals)
            runs[f"empty_{size}"] = _Plain(empty)
    taken = alternate(runs, times=times)
    result: Result = {}
    for size in sizes:
        evals_taken, empty_taken = taken[f"evals_{size}"], taken[f"empty_{size}"]
        ratios = [a.wall_s / b.wall_s for a, b in zip(evals_taken, empty_taken, strict=True)]
        result[str(size)] = {
            "evals_s": _wall(evals_taken),
            "empty_s": _wall(empty_taken),
            "ratio": Spread.of(ratios).to_json(),
            "cpu_ratio": Spread.of(
                [a.cpu_s / b.cpu_s for a, b in zip(evals_taken, empty_taken, strict=True)]
            ).to_json(),
        }
    for kind in ("evals", "empty"):
        peaks = {
            size: Spread.of([used.peak_bytes for used in taken[f"{kind}_{size}"]]).median
            for size in sizes
        }
        small, middle, large = sizes
        result[f"{kind}_peak_mib"] = {size: round(peak / 2**20, 1) for size, peak in peaks.items()}
        result[f"{kind}_bytes_per_case"] = {
            f"{small}-{middle}": round((peaks[middle] - peaks[small]) / (middle - small)),
            f"{middle}-{large}": round((peaks[large] - peaks[middle]) / (large - middle)),
        }
    last = taken[f"evals_{sizes[-1]}"], taken[f"empty_{sizes[-1]}"]
    ratios = [a.wall_s / b.wall_s for a, b in zip(*last, strict=True)]
    return {**result, **_verdict(ratios, target, "times plain pytest")}


def conversations(root: Path, times: int) -> Result:
    """10,000 recorded conversations of three turns against 10,000 single answers."""
    cases, target = 10_000, 2.0
    several = record_at_once(conversation_project(root / "several", cases=cases))
    single = record_at_once(project(root / "single", cases=cases, base_url="http://127.0.0.1:9/v1"))
    taken = alternate({"several": _Replay(several), "single": _Replay(single)}, times=times)
    pairs = list(zip(taken["several"], taken["single"], strict=True))
    return {
        "conversations_s": _wall(taken["several"]),
        "answers_s": _wall(taken["single"]),
        "cpu_ratio": Spread.of([a.cpu_s / b.cpu_s for a, b in pairs]).to_json(),
        **_verdict([a.wall_s / b.wall_s for a, b in pairs], target, "times single answers"),
    }


class _Replay:
    def __init__(self, root: Path, *words: str) -> None:
        self._root = root
        self._words = words

    def __call__(self) -> Usage:
        # Nothing is to be found but what is committed.
        shutil.rmtree(self._root / ".regauge", ignore_errors=True)
        return pytest_run(self._root, "evals", *_QUIET, "--record=none", *self._words)


class _Plain:
    def __init__(self, root: Path) -> None:
        self._root = root

    def __call__(self) -> Usage:
        return pytest_run(self._root, "tests", *_QUIET, "-p", "no:regauge")


def gate(root: Path, times: int) -> Result:
    """Processor time and memory of a replayed gate of 10,000 changed cases."""
    with endpoint(0) as server:
        where = project(root, cases=10_000, base_url=server.base_url)
        (where / ".gitignore").write_text(".regauge/\n__pycache__/\n", encoding="utf-8")
        _git(where, "init", "-q", "-b", "main")
        for words in (("bump", "label"), ("baseline", "update", "--trials", "1")):
            _regauge(where, *words)
        _commit(where)
        _git(where, "checkout", "-q", "-b", "change")
        prompt = where / "prompts/label.prompt.yml"
        text = prompt.read_text(encoding="utf-8")
        prompt.write_text(text.replace("every note", "each note"), encoding="utf-8")
        _regauge(where, "bump", "label", "minor", "-m", "Reword")
        _commit(where)
        _regauge(where, "gate", "main")
        _commit(where)
    replayed = _Replay(where, "--gate=main")
    taken = [replayed() for _ in range(times)]
    peaks = Spread.of([used.peak_bytes / 2**20 for used in taken])
    return {
        **_verdict([used.cpu_s for used in taken], 15, "s of processor time"),
        "peak_mib": peaks.to_json(0),
        "peak_target_mib": 400,
    }


def _git(where: Path, *words: str) -> None:
    who = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
    subprocess.run(["git", *who, *words], cwd=where, check=True, capture_output=True)


def _commit(where: Path) -> None:
    _git(where, "add", "-A")
    _git(where, "commit", "-q", "-m", "state")


def _regauge(where: Path, *words: str) -> None:
    command = [sys.executable, "-m", "regauge", *words]
    subprocess.run(command, cwd=where, check=True, capture_output=True)


def load(root: Path, times: int) -> Result:
    """Loading 1,000 committed recordings."""
    with endpoint(0) as server:
        where = project(root, cases=1000, base_url=server.base_url)
        pytest_run(where, "evals", *_QUIET)
    path = where / "fixtures/recordings/label.jsonl"
    taken: list[float] = []
    for _ in range(max(times, 20)):
        started = time.perf_counter()
        recordings = RecordingsFile.load(path)
        taken.append(time.perf_counter() - started)
        assert len(recordings) == 1000
    return _verdict(taken, 0.1, "s")


def idle(root: Path, times: int) -> Result:
    """What the plugin adds to `pytest --collect-only` in a project without evals."""
    where = without_evals(root)
    arguments = ("tests", *_QUIET, "--collect-only")
    taken = alternate(
        {
            "with": lambda: pytest_run(where, *arguments),
            "without": lambda: pytest_run(where, *arguments, "-p", "no:regauge"),
        },
        times=max(times * 6, 30),
    )
    pairs = list(zip(taken["with"], taken["without"], strict=True))
    return {
        "with_s": _wall(taken["with"]),
        "without_s": _wall(taken["without"]),
        "cpu_added_ms": Spread.of([1000 * (a.cpu_s - b.cpu_s) for a, b in pairs]).to_json(1),
        **_verdict([1000 * (a.wall_s - b.wall_s) for a, b in pairs], 50, "ms added"),
    }


def _wall(taken: list[Usage]) -> dict[str, float]:
    return Spread.of([used.wall_s for used in taken]).to_json()


def _verdict(values: list[float], target: float, unit: str) -> Result:
    spread = Spread.of(values)
    return {
        "measured": spread.to_json(),
        "target": target,
        "unit": unit,
        "reached": spread.median <= target,
    }


_MEASUREMENTS: dict[str, Callable[[Path, int], Result]] = {
    "live": live,
    "targets": targets,
    "judges": judges,
    "burst": burst,
    "limited": limited,
    "refused": refused,
    "outage": outage,
    "stop": stop,
    "replay": replay,
    "conversations": conversations,
    "gate": gate,
    "load": load,
    "idle": idle,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(_MEASUREMENTS))
    parser.add_argument("--times", type=int, default=5, help="how often each run is repeated")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    unknown = set(options.names) - set(_MEASUREMENTS)
    if unknown:
        parser.error(f"no measurement {unknown}; there are {', '.join(_MEASUREMENTS)}")
    report: dict[str, Any] = {"machine": machine(), "times": options.times}
    for name in options.names or _MEASUREMENTS:
        measure = _MEASUREMENTS[name]
        with tempfile.TemporaryDirectory(prefix=f"regauge-{name}-") as directory:
            result = measure(Path(directory) / "project", options.times)
        result["load"] = machine()["load"]
        report[name] = result
        if not options.json:
            _show(name, measure.__doc__ or "", result)
    if options.json:
        print(json.dumps(report, indent=2))


def _show(name: str, about: str, result: Result) -> None:
    print(f"{name}: {about}")
    measured, target = result["measured"], result["target"]
    word = "reached" if result["reached"] else "MISSED"
    print(
        f"  {measured['median']} {result['unit']} ({measured['least']} to {measured['greatest']}),"
        f" target {target}: {word}"
    )
    for key, value in result.items():
        if key not in {"measured", "target", "unit", "reached"}:
            print(f"  {key}: {json.dumps(value)}")


if __name__ == "__main__":
    main()
