"""A real git repository with a gated prompt in it, for tests of the gate from end to end."""

from __future__ import annotations

import json
import os
import re
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import processes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HERE = Path(__file__).parents[1]
NAME = "alert-severity"
PROMPT = f"prompts/{NAME}.prompt.yml"
BASELINE = f"fixtures/baselines/{NAME}.json"
GOLDEN = f"fixtures/golden/{NAME}.jsonl"
EVAL = f"evals/test_{NAME.replace('-', '_')}.py"
# With this line gone from main, alerts of these certificates fail there, every time.
CERTIFICATE_LINE = "        - a certificate expires in less than 24 hours\n"
FIXABLE = ("KubeClientCertificateExpiration-1d", "KubeletClientCertificateExpiration-1d")
# At this temperature base fails these now and then; the first trial of any candidate fails the first.
FLAKY = ("KubeAPIDown", "NodeFilesystemFilesFillingUp-20")
TEMPERATURE = 0.7
CASES = (
    *FIXABLE, *FLAKY,
    "AlertmanagerClusterCrashlooping", "CPUThrottlingHigh", "KubeAPIErrorBudgetBurn-3h", "KubeCPUQuotaOvercommit",
    "KubeDaemonSetNotScheduled", "KubeJobFailed", "KubeNodePressure", "KubePersistentVolumeInodesFillingUp-1h",
    "KubeQuotaFullyUsed", "KubeStateMetricsWatchErrors", "KubeletPodStartUpLatencyHigh", "NodeClockNotSynchronising",
    "NodeFilesystemAlmostOutOfFiles-5", "NodeFilesystemSpaceFillingUp-15", "NodeNetworkTransmitErrs",
    "NodeTextFileCollectorScrapeError", "PrometheusNotConnectedToAlertmanagers",
    "PrometheusOperatorStatusUpdateErrors", "PrometheusRuleFailures", "PrometheusTargetLimitHit",
)  # fmt: skip
# What a new version may say without a case that breaks.
REWORDED = (
    "You are the on-call engineer of a Kubernetes platform. You decide how urgently",
    "You are on call for a Kubernetes platform and decide how urgently",
)
JUDGED_BY = """\
from regauge import golden
from regauge.judges import field_equals, json_parses

@golden("alert-severity", judges=[json_parses(kind="object"), field_equals("severity")])
def test_alert_severity(result):
    result.check()
"""


class GateRepo:
    """A repository: `main` with a prompt, golden cases and an eval; branches are made of it.

    Args:
        root: An empty directory.
        base_url: Of the provider that answers; without one the simulated model in the process.
    """

    def __init__(self, root: Path, *, base_url: str | None = None) -> None:
        self.root = root
        self.base_url = base_url
        self._environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(
                ("PYTEST_", "COV_CORE", "GIT_", "GITHUB_", "OPENAI_", "REGAUGE_", "CI", "COLUMNS")
            )
        } | {
            "COLUMNS": "200",
            "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
            "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.email", "somebody@example.org")
        self.git("config", "user.name", "Somebody")
        self.write(".gitignore", ".regauge/\n__pycache__/\nfixtures/recordings/\n")
        self.settings(base_url)
        self.write(EVAL, JUDGED_BY)
        self.write(PROMPT, _prompt("local:clerk-1" if base_url else "sim:clerk-1"))
        self.write(GOLDEN, "".join(_cases()))
        self.regauge("bump", NAME)
        self.commit("main")

    def settings(self, base_url: str | None, more: str = "") -> None:
        """pyproject.toml; `more` are further lines of it."""
        provider = f'[tool.regauge.providers.local]\nbase_url = "{base_url}"\n' if base_url else ""
        self.write(
            "pyproject.toml",
            "[tool.pytest.ini_options]\n"
            'addopts = ["-p", "regauge", "--import-mode=importlib"]\nfilterwarnings = ["error"]\n'
            f"[tool.regauge]\nconcurrency = 16\n{provider}{more}",
        )

    def setenv(self, **variables: str) -> None:
        """Have variables in the environment of all that is run from here on."""
        self._environ |= variables

    @contextmanager
    def environment(self, **variables: str) -> Iterator[None]:
        """Have variables in the environment of all that is run in the block."""
        before = self._environ
        self._environ = before | variables
        try:
            yield
        finally:
            self._environ = before

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def read(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def edit(self, path: str, old: str, new: str) -> None:
        text = self.read(path)
        assert old in text
        self.write(path, text.replace(old, new))

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.root,
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def branch(self, name: str, *, of: str = "main") -> None:
        """A fresh branch, with the local store as it is."""
        self.git("checkout", "-q", "--force", "-B", name, of)
        self.git("clean", "-fdq")

    def release(self, part: str, *edits: tuple[str, str]) -> None:
        """Edit the prompt, give it its next version, and commit."""
        for old, new in edits:
            self.edit(PROMPT, old, new)
        self.regauge("bump", NAME, part, "-m", "What changed")
        self.commit("Change the prompt")

    def regauge(self, *arguments: str, code: int | None = 0) -> str:
        """`regauge` with arguments; what it printed, once its exit code was looked at."""
        return self._run("regauge", arguments, code)

    def gate(self, *arguments: str, code: int) -> str:
        """`regauge gate main`, and what it printed."""
        return self.regauge("gate", "main", *arguments, code=code)

    def pytest(self, *arguments: str, code: int | None) -> str:
        """`pytest evals` with arguments, and what it printed."""
        return self._run("pytest", ("evals", *arguments), code)

    def decision(self) -> dict[str, Any]:
        """What the latest run came to."""
        runs = (self.root / ".regauge/runs").glob("*/run.json")
        latest = max(runs, key=lambda path: path.stat().st_mtime_ns)
        decision: dict[str, Any] = json.loads(latest.read_text(encoding="utf-8"))["decision"]
        return decision

    def verdicts(self) -> dict[str, str]:
        """By case, what the latest run says of it."""
        return {case["case"]: case["status"] for case in self.decision()["cases"]}

    def _run(self, module: str, arguments: Iterable[str], code: int | None) -> str:
        done = processes.run(module, *arguments, cwd=self.root, env=self._environ, timeout_s=180)
        said = done.stdout + done.stderr
        assert code is None or done.returncode == code, f"exit code {done.returncode}\n{said}"
        return said


def label_definitions(text: str) -> str:
    """The part of the prompt that says what the severities mean."""
    return text[text.index("      - critical: somebody") : text.index("      Answer with one JSON")]


def _prompt(model: str) -> str:
    text = (HERE / PROMPT).read_text(encoding="utf-8")
    changed: list[tuple[str, str]] = [
        ("model: sim:clerk-1", f"model: {model}"),
        ("temperature: 0\n", f"temperature: {TEMPERATURE}\n"),
        (CERTIFICATE_LINE, ""),
    ]
    for old, new in changed:
        assert old in text
        text = text.replace(old, new)
    # Its history begins here, with the first version.
    text = re.sub(r"^version: .*", "version: 1.0.0", text, flags=re.MULTILINE)
    return re.sub(r"(?<=changelog:\n)(?:.*\n)*?(?=  - version: 1\.0\.0\n)", "", text)


def _cases() -> list[str]:
    """Two dozen cases of the repository's own: some flaky, some that base fails, most stable."""
    lines = (HERE / GOLDEN).read_text(encoding="utf-8").splitlines(keepends=True)
    return [line for line in lines if json.loads(line)["id"] in CASES]
