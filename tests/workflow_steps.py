"""Scripts of workflows and actions, run in bash as a runner of GitHub runs them."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# What the runner calls, with and without `shell: bash`.
_BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
_PLAIN = ("bash", "-e")
_EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a step came to.

    Attributes:
        code: How it ended.
        said: All that it printed.
        outputs: What it wrote to GITHUB_OUTPUT, as it stands there.
        summary: What it wrote to GITHUB_STEP_SUMMARY.
    """

    code: int
    said: str
    outputs: str
    summary: str


class Steps:
    """The scripts of one workflow, or of one composite action.

    Args:
        path: The file.
        root: Where they run.
        runner: A directory for what a runner keeps.
        environ: What they find set; nothing else is but what the file says.
    """

    def __init__(
        self, path: Path, root: Path, *, runner: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        self._root = root
        self._runner = runner
        document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        jobs = document["jobs"].values() if "jobs" in document else [document["runs"]]
        self._steps = [
            (document.get("env", {}) | job.get("env", {}), step)
            for job in jobs
            for step in job["steps"]
        ]
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(runner),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(root),
            "GITHUB_ACTION_PATH": str(path.parent),
            "RUNNER_TEMP": str(runner),
            "NO_COLOR": "1",
            **(environ or {}),
        }

    def run(self, name: str, **values: str) -> Ran:
        """Run the step of a name, or of an id.

        Args:
            name: Its name or id.
            values: What variables of its `env` hold in place of an expression; each variable that
                is an expression must be given.
        """
        given, step = next(
            (environ, step)
            for environ, step in self._steps
            if name in {step.get("name"), step.get("id")}
        )
        environ = given | step.get("env", {})
        asked = {key for key, value in environ.items() if _EXPRESSION.search(str(value))}
        assert asked == values.keys(), f"step {name!r} asks for {sorted(asked)}"
        assert not _EXPRESSION.search(step["run"])
        self._runner.mkdir(parents=True, exist_ok=True)
        script, outputs, summary = (
            self._runner / file for file in ("step.sh", "output", "summary.md")
        )
        script.write_text(step["run"], encoding="utf-8")
        outputs.write_text("", encoding="utf-8")
        summary.write_text("", encoding="utf-8")
        done = subprocess.run(
            [*(_BASH if step.get("shell") == "bash" else _PLAIN), str(script)],
            cwd=self._root,
            env=self._environ
            | {key: str(value) for key, value in environ.items()}
            | values
            | {"GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return Ran(
            code=done.returncode,
            said=done.stdout + done.stderr,
            outputs=outputs.read_text(encoding="utf-8"),
            summary=summary.read_text(encoding="utf-8"),
        )
