"""Success of `regauge refine` on the sample suites, with one spoilt instruction each.

    python benchmarks/refine_suites.py [--prompts alert-severity ...] [--kinds delete ...]
                                       [--faults 12] [--json]

Each defect is made in a copy of the project, where `regauge refine` runs as a user would run it.
The pass rate of the suite is then measured on independent trials: before the defect, with it, and
with the proposed revision. The model is simulated.
"""

from __future__ import annotations

import argparse
import difflib
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.refine_tasks._simulated import garbled

PROJECT = Path(__file__).resolve().parents[1]
PROMPTS = ("alert-severity", "incident-summary", "alert-runbook")
# One case of the smallest suite is more than this.
NOISE = 0.0008
KINDS = ("delete", "contradict", "garble")
REGAUGE = Path(sys.executable).with_name("regauge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One line of a prompt that is spoilt. Pass rates are means over cases and checks."""

    prompt: str
    kind: str
    line: str
    healthy: float
    faulty: float
    after: float
    stop: str
    diff_lines: int
    calls: int
    seconds: float

    @property
    def bites(self) -> bool:
        """Whether the suite notices the fault at all."""
        return self.faulty < self.healthy - NOISE

    @property
    def repaired(self) -> bool:
        """Whether what was lost came back."""
        return self.after >= self.healthy - NOISE

    @property
    def worse(self) -> bool:
        """Below both what it began with and what the suite was before the fault."""
        return self.after < min(self.faulty, self.healthy) - NOISE


def spoilt(text: str, line: str, kind: str, rng: random.Random) -> str:
    """The prompt file with one line of its messages spoilt."""
    indent = line[: len(line) - len(line.lstrip())]
    said = line.strip().removeprefix("- ")
    bullet = "- " if line.strip().startswith("- ") else ""
    match kind:
        case "delete":
            return text.replace(line + "\n", "", 1)
        case "contradict":
            return text.replace(line, f"{indent}{bullet}Never mind whether {said}", 1)
        case _:
            return text.replace(line, indent + garbled(f"- {said}", rng).replace("{", "("), 1)


def rate(project: Path, prompt: str) -> float:
    """How often checks pass, over all cases of a prompt as it stands in a copy of the project."""
    told = _run(project, "baseline", "flaky", prompt, "--trials", "3", "--json")
    if told["variance"] is None:
        return 0.0  # no trial could be measured
    checks = told["variance"]["checks"].values()
    return float(
        sum(check["passed"] for check in checks) / sum(check["trials"] for check in checks)
    )


def tried(project: Path, prompt: str, line: str, kind: str, healthy: float) -> Fault:
    """Spoil a line in a copy of the project, refine, and classify the result."""
    path = project / "prompts" / f"{prompt}.prompt.yml"
    text = path.read_text()
    broken = spoilt(text, line, kind, random.Random(f"{line}{kind}"))
    path.write_text(broken)
    began = time.perf_counter()
    try:
        faulty = rate(project, prompt)
        said = _run(project, "refine", prompt, "--apply", "--ignore-attempts", "--json")
        seconds = time.perf_counter() - began
        written = path.read_text()
        changed = [
            one
            for one in difflib.ndiff(broken.splitlines(), written.splitlines())
            if one[:2] in {"+ ", "- "} and not one[2:].startswith(("version:", "  - version:"))
        ]
        return Fault(
            prompt=prompt,
            kind=kind,
            line=line.strip(),
            healthy=healthy,
            faulty=faulty,
            after=rate(project, prompt),
            stop=said["stop"]["reason"],
            diff_lines=len(changed),
            calls=said["usage"]["calls"],
            seconds=seconds,
        )
    finally:
        _git(project, "checkout", "-q", "--", "prompts")


def lines_of(text: str) -> list[str]:
    """The lines of a prompt file's messages that instruct; each stands in the file once."""
    lines = text[text.index("\nmessages:") :].splitlines()
    said = [
        line
        for line in lines
        if line.startswith("      ") and "{{" not in line and len(line.split()) > 3
    ]
    return [line for line in said if lines.count(line) == 1 and ": |" not in line]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", nargs="+", default=PROMPTS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--faults", type=int, default=12, help="for each prompt")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: list[Fault] = []
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory) / "project"
        _git(PROJECT, "clone", "-q", str(PROJECT), str(project))
        for prompt in options.prompts:
            text = (project / "prompts" / f"{prompt}.prompt.yml").read_text()
            lines = lines_of(text)
            random.Random(prompt).shuffle(lines)
            healthy = rate(project, prompt)
            for number, line in enumerate(lines[: options.faults]):
                kind = options.kinds[number % len(options.kinds)]
                fault = tried(project, prompt, line, kind, healthy)
                found.append(fault)
                print(json.dumps(asdict(fault)) if options.json else _line(fault), flush=True)
    bite = [fault for fault in found if fault.bites]
    print(
        f"{len(found)} faults, {len(bite)} noticed by the suites;"
        f" repaired {sum(f.repaired for f in bite)} of {len(bite)},"
        f" worse {sum(f.worse for f in found)}, median diff"
        f" {median(f.diff_lines for f in bite if f.repaired) if bite else 0:g} lines",
        file=sys.stderr if options.json else sys.stdout,
    )


def _line(fault: Fault) -> str:
    return (
        f"{fault.prompt:16} {fault.kind:10} {fault.healthy:.3f} -> {fault.faulty:.3f} ->"
        f" {fault.after:.3f}  {fault.stop:18} diff {fault.diff_lines}  calls {fault.calls}"
        f"  {fault.seconds:.0f} s  {fault.line[:60]}"
    )


def _git(project: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", project, *arguments], check=True, capture_output=True)


def _run(project: Path, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [REGAUGE, *arguments], cwd=project, capture_output=True, text=True, check=False, timeout=600
    )
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"regauge {' '.join(arguments)}: {done.stderr[-2000:]}") from None
    return found


if __name__ == "__main__":
    main()
