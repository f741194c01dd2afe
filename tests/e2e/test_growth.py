"""What commands keep in memory of each case: the peak of real processes on few and on many cases."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from regauge.providers import Completion, Usage
from regauge.recordings import Recording, RecordingKey, encode_line
from regauge.runner import PlannedCase
from tests.bound_evals import bind_eval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from tests.conftest import EvalProject

FEW = 1000
# Of what the system says of a process's memory, in bytes.
_UNIT = 1 if sys.platform == "darwin" else 1024
# A process that is started by a large one begins with the peak of that one, so a small one starts it.
_PEAK_KIB = """\
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


# Each command is a fork of a process that has little more than their modules in memory.
_PEAKS_KIB = """\
import json, os, sys
import regauge.cli, regauge.cli.prompts, regauge.cli.report, regauge.cli.runs
import regauge.history, regauge.reports

peaks = []
for directory, words in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        os.chdir(directory)
        os.dup2(2, 1)
        regauge.cli.main(words)
        sys.exit()
    _, status, usage = os.wait4(child, 0)
    assert status == 0, words
    peaks.append(usage.ru_maxrss)
print(json.dumps(peaks))
"""
_LOAD = """\
from pathlib import Path
from regauge.recordings import RecordingsFile
file = RecordingsFile.load(Path("fixtures/recordings/triage.jsonl"))
print(len(file))
"""


def peak_bytes(project: EvalProject, *words: str) -> int:
    """The peak memory of a command, or of a script."""
    command = [sys.executable, *(words if words[0] == "-c" else ("-m", "regauge", *words))]
    done = subprocess.run(
        [sys.executable, "-c", _PEAK_KIB, *command],
        cwd=project.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout) * _UNIT


def peaks_bytes(project: EvalProject, commands: Iterable[tuple[str, Sequence[str]]]) -> list[int]:
    """The peak memory of each of these commands in a directory."""
    done = subprocess.run(
        [sys.executable, "-c", _PEAKS_KIB, json.dumps([*commands])],
        cwd=project.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [peak * _UNIT for peak in json.loads(done.stdout)]


def bytes_of_case(
    project: EvalProject, make: Callable[[int], object], *words: str, few: int = FEW
) -> float:
    """The memory that each further case takes."""
    peaks: list[int] = []
    for cases in (few, 4 * few):
        make(cases)
        peaks.append(peak_bytes(project, *words))
    return (peaks[1] - peaks[0]) / (3 * few)


def write_cases(project: EvalProject, cases: int) -> None:
    project.golden([project.case(number) for number in range(cases)])


def write_recordings(project: EvalProject, cases: int) -> None:
    """A recording of every case, as `regauge record` leaves it."""
    write_cases(project, cases)
    suite = bind_eval(project.root, "triage")
    lines = [
        encode_line(
            Recording(
                key=RecordingKey(PlannedCase(suite, case).request(0).digest, 0),
                prompt="triage",
                version="1.0.0",
                case=case.id,
                model=str(suite.model),
                completion=Completion(text="critical " * 50, model="clerk-1", usage=Usage()),
                recorded_at="2026-01-01T00:00:00Z",
            )
        )
        for case in suite.dataset
    ]
    path = project.root / "fixtures/recordings/triage.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in sorted(lines)))


def make_runs(root: Path, cases: int, names: Iterable[str]) -> None:
    """Runs with so many rows, like those of the only run."""
    for name in names:
        run = root / ".regauge/runs" / name
        record = json.loads((root / "first/run.json").read_text(encoding="utf-8"))
        run.mkdir(parents=True)
        (run / "run.json").write_text(json.dumps(record | {"id": name}), encoding="utf-8")
        row = (root / "first/trials.jsonl").read_text(encoding="utf-8").splitlines()[0]
        case = json.loads(row)["case"]
        with (run / "trials.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(f"{row.replace(case, f'case-{n:06}')}\n" for n in range(cases))


def test_record_keeps_golden_cases_and_few_bytes_of_recordings(project: EvalProject):
    def make(cases: int) -> None:
        write_recordings(project, cases)

    assert bytes_of_case(project, make, "record") < 2500


def test_a_file_of_recordings_is_an_index_in_memory(project: EvalProject):
    """16 bytes a line, and 80 while they are sorted."""

    def make(lines: int) -> None:
        path = project.root / "fixtures/recordings/triage.jsonl"
        raw = [line for line in path.read_bytes().splitlines() if line]
        first = json.loads(raw[0])
        with path.open("w", encoding="utf-8") as file:
            for number in range(lines):
                digest = f"{number:064x}"
                line = {**first, "case": f"case-{number:06}", "digest": digest}
                file.write(f"{json.dumps(line, separators=(',', ':'))}\n")

    write_recordings(project, 1)
    assert bytes_of_case(project, make, "-c", _LOAD, few=5 * FEW) < 200


def test_what_reads_runs_streams_their_rows(project: EvalProject):
    most = {
        ("report", "one", "-o", "report.csv"): 1000,
        ("report", "one", "-o", "report.json"): 1000,
        ("report", "one", "-o", "report.md"): 1000,
        ("log", "triage", "--runs"): 1500,
        ("runs", "compare", "one", "two"): 2000,
    }
    project.run("--report=first")
    shutil.rmtree(project.root / ".regauge")
    names = {"one": "20260101-000000-aaaa", "two": "20260102-000000-bbbb"}
    commands: list[tuple[str, list[str]]] = []
    few = FEW // 2
    for directory, cases in (("few", few), ("many", 4 * few)):
        shutil.copytree(project.root, project.root.parent / directory)
        make_runs(project.root.parent / directory, cases, names.values())
        commands += [
            (f"../{directory}", [names.get(word, word) for word in words]) for words in most
        ]
    peaks = peaks_bytes(project, commands)
    of_case = {
        words: (last - first) / (3 * few)
        for words, first, last in zip(most, peaks[: len(most)], peaks[len(most) :], strict=True)
    }
    assert {words for words, taken in of_case.items() if taken >= most[words]} == set(), of_case


def test_the_gate_keeps_no_item_of_pytest_for_each_case(project: EvalProject):
    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=project.root, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("config", "user.email", "somebody@example.org")
    git("config", "user.name", "Somebody")
    project.write(".gitignore", ".regauge/\n__pycache__/\nfirst/\n")
    assert project.command("bump", "triage").returncode == 0

    def make(cases: int) -> None:
        write_cases(project, cases)
        git("add", "-A")
        git("commit", "-q", "-m", f"{cases} cases")

    assert bytes_of_case(project, make, "gate", "main", few=FEW // 2) < 9000
