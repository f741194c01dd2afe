"""What commands print and write in a project with a history: word for word, without a call.

The project in `tests/data/project` is of this tool: two versions of a prompt, a changed one that
is not committed, the runs of evals on both versions, two gates and a search for a fix.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from regauge.cli import group
from regauge.errors import RegaugeError
from tests.stored_project import PROJECT, make_project, run_git
from tests.transcripts import assert_as_written, page_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENVIRONMENT = {
    "COLUMNS": "100",
    "NO_COLOR": "1",
    "CI": "",
    # The plugins of this repository's tests take a third of each run of pytest.
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_PLUGINS": "regauge.pytest_plugin",
}
# A page has styles and scripts; of a long file its start is held, and how it ends.
LINES_MAX = 200


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as it is, with the same commits as when its runs were made."""
    root = tmp_path_factory.mktemp("project") / "shop"
    make_project(root)
    shutil.copytree(PROJECT / "changed", root, dirs_exist_ok=True)
    shutil.copytree(PROJECT / "regauge", root / ".regauge")
    return root


@pytest.fixture
def project(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    root = tmp_path / "shop"
    shutil.copytree(template, root, symlinks=True)
    monkeypatch.chdir(root)
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{name}_NAME", "Ann")
        monkeypatch.setenv(f"{name}_EMAIL", "ann@example.org")
    for name in [name for name in os.environ if name.startswith(("GITHUB_", "REGAUGE_", "OTEL_"))]:
        monkeypatch.delenv(name)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and not path.relative_to(root).parts[0].startswith(".git")
        and ".sqlite3" not in path.name
        and path.suffix not in {".lock", ".pyc"}
        and path.name != "prompt.schema.json"
        and "judges/calibration" not in path.as_posix()  # recordings, with their latencies
    }


def plain(text: str, root: Path) -> str:
    """A text without what differs from day to day: its directory, dates of today, and times."""
    text = text.replace(str(root), "/shop").replace(str(root.parent), "")
    text = text.replace(f"{datetime.now().astimezone():%Y-%m-%d}", "TODAY")
    text = re.sub(f"{datetime.now().astimezone():%Y%m%d}-\\d{{6}}-\\w{{4}}", "RUN", text)
    text = re.sub(r"(?<=committed )\w{9}", "COMMIT", text)
    text = re.sub(r"TODAYT\d\d:\d\d:\d\dZ", "TIME", text)
    return re.sub(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(\+00:00|Z)", "TIME", text)


def told(words: str, root: Path) -> str:
    """What a command prints, how it ends, and which lines of files it changes."""
    if words.startswith("git "):
        run_git(root, *shlex.split(words)[1:], date="23T10:00:00")
        if not any(root.glob("evals/*.py")):  # Python may have written bytecode there
            shutil.rmtree(root / "evals", ignore_errors=True)
        return f"$ {words}\n"
    if words.startswith("drop "):  # a process collects the evals of one project only
        shutil.rmtree(root / words.removeprefix("drop "))
        return f"$ {words}\n"
    if words.startswith("copy "):
        _, source, path = shlex.split(words)
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / source, root / path)
        return f"$ {words}\n"
    if words.startswith("write "):
        _, path, text = shlex.split(words)
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "latin-1")
        return f"$ {words}\n"
    if words.startswith("edit "):
        _, path, old, new = shlex.split(words)
        text = (root / path).read_text("utf-8")
        (root / path).write_text(re.sub(old, new, text, count=1), "utf-8")
        return f"$ {words}\n"
    before = contents(root)
    lines = printed(words)
    after = contents(root)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            old = before.get(name, b"").decode("utf-8", "replace").splitlines()
            text = after.get(name, b"").decode("utf-8", "replace")
            new = page_lines(text) if name.endswith(".html") else text.splitlines()
            lines.append(f"=== {name}{'' if name in after else ' is gone'}")
            lines += [f"- {line}" for line in old if line not in new]
            lines += [f"+ {line}" for line in new if line not in old][:LINES_MAX]
    return plain("\n".join([*lines, ""]), root)


def printed(words: str) -> list[str]:
    """What a command prints, and how it ends."""
    result = CliRunner().invoke(group, shlex.split(words), prog_name="regauge")
    error = result.exception
    if isinstance(error, RegaugeError):
        end = f"{type(error).__name__} {error.exit_code}: {error}"
    else:
        assert error is None or isinstance(error, SystemExit), error
        end = f"exit {result.exit_code}"
    lines = [f"$ regauge {words}", *result.stdout.splitlines()]
    lines += [f"stderr: {line}" for line in result.stderr.splitlines()]
    return [*lines, end]


RUNS = ("20261122-013852", "20261122-013923", "20261122-014022", "20261122-014141")
INPUTS = " ".join(
    f"-i {name}=A" for name in ("name", "expression", "duration", "summary", "description")
)
CALIBRATE = "judges calibrate tone --judge-model sim:clerk-1 --dataset alert-severity"
COMMANDS = {
    "show": ("show alert-severity", "show alert-severity@1.0.0", "show alert-severity --json",
             "show alert-severity@9.9.9", "show alert-severity HEAD~2", "show nothing"),
    "diff": ("diff alert-severity", "diff alert-severity 1.0.0", "diff alert-severity 1.0.0 1.1.0",
             "diff alert-severity 1.0.0 1.1.0 --json", "diff alert-severity 1.1.0 1.1.0",
             "diff alert-severity 9.9.9"),
    "log": ("log alert-severity", "log alert-severity --json", "log", "log alert-severity --model sim:clerk-2"),
    "runs": ("runs list", "runs list --limit 1", "runs list --json"),
    "compare": (f"runs compare {RUNS[0]} {RUNS[1]}", f"runs compare {RUNS[1]} {RUNS[0]}",
                f"runs compare {RUNS[0]} {RUNS[1]} --json", "runs compare", f"runs compare {RUNS[0]} {RUNS[0]}",
                f"runs compare {RUNS[0]} {RUNS[1]} {RUNS[3]}", "runs compare 2026 latest", "runs compare x y"),
    "report": (f"report {RUNS[0]}", "report latest", f"report {RUNS[2]}", "report nothing",
               f"report {RUNS[0]} --format csv", f"report {RUNS[0]} --json", "report --format html -n"),
    "pages": (f"report {RUNS[0]} -o page.html", f"report {RUNS[3]} -o gate.html",
              f"report {RUNS[0]} --against {RUNS[1]} -o both.html"),
    "report files": (f"report {RUNS[0]} -o out.csv", f"report {RUNS[2]} -o out.json", f"report {RUNS[3]} -o out.md",
                     f"report {RUNS[0]} --against {RUNS[1]} -o out.md", "report latest --comment --dry-run --pr 3 --repo a/b"),
    "baseline": ("baseline show", "baseline show alert-severity --json", "baseline show nothing",
                 "baseline simulate", "baseline simulate alert-severity --cases 200 --json", "baseline simulate nothing"),
    "refine": ("refine list", "refine list --json", "refine show", "refine show latest --json", "refine diff",
               "refine verify", "refine stats", "refine stats --json", "refine show 2025", "refine apply latest --dry-run",
               "refine apply latest", "refine rollback latest"),
    "refine reject": ("refine reject latest",),
    "bump": ("bump alert-severity patch -n", "bump alert-severity", "bump nothing", "bump alert-severity major -m 'All new'",
             "edit prompts/alert-severity.prompt.yml 'at most 30 words' 'at most 20 words'", "diff alert-severity",
             "bump alert-severity patch -m Shorter -n", "bump alert-severity patch -m Shorter",
             "edit prompts/alert-severity.prompt.yml 'at most 20 words' 'at most 10 words'", "bump alert-severity",
             "bump alert-severity minor -m Short --json", "log alert-severity",
             "edit prompts/alert-severity.prompt.yml 'name: duration' 'name: span'", "bump alert-severity major -m Renamed"),
    "new": ("new prompt kind", "new prompt kind", "new eval alert-severity", "new eval support --target app.pipeline:reply",
            "new rubric tone", "new workflow evals", "new workflow nothing",
            "new workflow evals --install 'pip install regauge==0.1.0'", "new workflow evals --install 'pip install regauge==0.1.0' --shards 4",
            "new workflow comment --install 'pip install regauge==0.1.0'", "new workflow baseline --install 'pip install regauge==0.1.0'",
            "new workflow refine --install 'pip install regauge==0.1.0'"),
    "new case": (f"new case alert-severity mine {INPUTS} --expected '{{\"severity\": \"info\"}}'",
                 f"new case alert-severity again --from-run {RUNS[0]} --case KubeQuotaFullyUsed",
                 "edit fixtures/golden/alert-severity.jsonl '.*KubeQuotaFullyUsed.*\n' ''",
                 f"new case alert-severity again --from-run {RUNS[0]} --case KubeQuotaFullyUsed",
                 "new case alert-severity yours -i nme=A", "new case alert-severity mine -i nme=A", "new case nothing x -i a=b",
                 f"new case alert-severity again --from-run {RUNS[0]} --case nowhere"),
    "mutate": ("mutate alert-severity --mark delete-entry-14881ea0 --reason 'It repeats another line.'",
               "mutate alert-severity --mark nothing --reason x", "mutate alert-severity --mark delete-entry-14881ea0"),
    "judges": ("judges list", "judges list --json nothing", "judges try 'max_words: 2' pyproject.toml",
               "judges try 'contains: regauge' pyproject.toml --json", "judges try 'contain: x' pyproject.toml",
               "judges try 'max_words: 2' nowhere.txt"),
    "gate again": ("gate --from latest", f"gate --from {RUNS[3]} --on-broken warn", f"gate --from {RUNS[3]} --on-broken block --json",
                   f"gate --from {RUNS[3]} --on-drifted block --on-undecided block", f"gate --from {RUNS[2]}", f"gate --from {RUNS[0]}",
                   f"gate --from {RUNS[3]} --baseline fixtures/baselines/alert-severity.json", f"gate --from {RUNS[3]} --prompt nothing",
                   f"gate --from {RUNS[3]} --suggest", f"gate --from {RUNS[3]} -o again.json", "gate --from nothing"),
    "calibrate": ("drop evals", "new rubric tone", "copy labels/tone.jsonl fixtures/labels/tone.jsonl",
                  f"{CALIBRATE} -n", CALIBRATE, "judges calibrate", f"{CALIBRATE} --json --repeats 1", f"{CALIBRATE} --split train",
                  f"{CALIBRATE} --split tune", f"{CALIBRATE} --prune", f"{CALIBRATE} --from-run {RUNS[0]}", f"{CALIBRATE} -o labels.html",
                  f"{CALIBRATE} --labels none", f"{CALIBRATE} --record none --repeats 5", "judges calibrate max_words"),
    "calibrate in parts": ("drop evals", "new rubric tone", "copy labels/tone.jsonl fixtures/labels/tone.jsonl", f"{CALIBRATE} --budget-tokens 900 -n",
                           f"{CALIBRATE} --budget-tokens 900 --concurrency 1", f"{CALIBRATE} --budget-calls 2 --concurrency 1", f"{CALIBRATE} -n --json",
                           f"{CALIBRATE} --record all --budget-calls 9 --concurrency 1", f"{CALIBRATE} --record all", f"{CALIBRATE} --record all"),
    "help": ("--help", "refine --help"),
    "baseline edits": ("edit fixtures/baselines/alert-severity.json ', .models.: [^]]*]' ''", "baseline show",
                       "edit fixtures/baselines/alert-severity.json '1.1.0' '1.2.0'", "baseline show --all --json",
                       "edit fixtures/baselines/alert-severity.json '(?s)\"anchors\": .*' '\"anchors\": []}'", "baseline show",
                       "edit fixtures/baselines/alert-severity.json '(?s)\"cases\": {.*?}.\n' '\"cases\": {\n'", "baseline show",
                       "edit fixtures/baselines/alert-severity.json '(?s){.*' '{'", "baseline show", "baseline simulate", "git rm -q -f fixtures/baselines/alert-severity.json",
                       "baseline show", "baseline show alert-severity", "baseline simulate", "baseline simulate --json"),
    "schema": ("schema", "schema nothing"),
    "outputs": (f"runs compare {RUNS[0]} {RUNS[1]} --outputs", f"runs compare {RUNS[1]} {RUNS[3]} --outputs"),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_print_and_write_what_was_written_down(name: str, project: Path):
    texts = [told(words, project) for words in COMMANDS[name]]
    assert_as_written("\n".join(texts), f"commands/{name}")


PROMPT, CASES, EVAL = (
    "prompts/alert-severity.prompt.yml", "fixtures/golden/alert-severity.jsonl", "evals/test_alert_severity.py"
)  # fmt: skip
COMMITTED = "git reset -q --hard"
SHORTER = (
    f"edit {PROMPT} 'at most 30 words' 'at most 20 words'",
    "bump alert-severity patch -m Shorter",
)
REMOVED = f"edit {CASES} '.*KubeQuotaFullyUsed.*\n' ''"
EASIER = f'edit {CASES} \'"severity": "critical"\' \'"severity": "warning"\''
ENTRIES = (
    r"text: Shorter\n    removed: [{case: KubeQuotaFullyUsed, reason: Gone.}]"
    r"\n    accepted: [{case: AlertmanagerClusterDown, reason: Late.}, {case: KubeNodeEviction, reason: Late.}]"
)
ENDPOINT = (
    'edit pyproject.toml $ \'\n[tool.regauge.providers.local]\nbase_url = "http://127.0.0.1:9/v1"\n'
    "prices = {clerk = {input_per_million = 1.0, output_per_million = 2.0}}\n'"
)
TARGET = (
    'edit pyproject.toml $ \'\n[tool.regauge.targets.reply]\nkind = "python"\ncallable = "app.pipeline:reply"\n'
    'version = "1.0.0"\nfiles = ["app"]\nprompts = ["alert-severity"]\n\''
)
SUPPORT = (
    'from regauge import golden\n@golden("support", target="reply", judges=[])\n'
    "def test_support(result): result.check()\n"
)
OLD = (
    'prompts: ["Say {{text}}"]\nproviders: ["openai:gpt-5.4-mini"]\ntests:\n  - vars: {text: a}\n'
    "    assert: [{type: icontains, value: a}, {type: nope, value: b}]\n"
)
WITH_EVALS = {
    "checks": ("lint", "lint --json", COMMITTED, "lint --base HEAD~3",
               "edit prompts/prompts.lock '.*1.1.0.*\n' ''", "lint", "gate HEAD", COMMITTED,
               f"edit {PROMPT} 'version: 1.1.0' 'version: 1.0.5'", "lint --base HEAD", "gate HEAD", COMMITTED,
               f"edit {PROMPT} 'maxTokens: 300' 'maxTokens: 200'", "lint", "gate HEAD -n", "gate HEAD", COMMITTED,
               "edit fixtures/baselines/alert-severity.json '\"trials\"' '\"tries\"'", "lint", "gate HEAD"),
    "gate cases": (COMMITTED, "gate HEAD", "gate HEAD~1", REMOVED, EASIER, "gate HEAD -n", "gate HEAD --record none", *SHORTER,
                   "gate HEAD", f"edit {PROMPT} 'text: Shorter' '{ENTRIES}'", "gate HEAD -n",
                   "gate HEAD --json --accept-judge-change 'They are  wrong.'"),
    "gate bar": (COMMITTED, "edit pyproject.toml 'baseline_trials = 5' 'baseline_trials = 4\nalpha_case = 0.01'", "gate HEAD",
                 "gate HEAD --accept-judge-change 'It is  late.'", "gate HEAD --accept-judge-change ' '", COMMITTED,
                 f"edit {EVAL} 'max_words.40' 'max_words(60'", "lint", "gate HEAD -n", "gate HEAD",
                 f"edit {EVAL} '.*max_words.60.*\n' ''", "gate HEAD", *SHORTER, "gate HEAD --on-broken warn --on-undecided warn", "gate HEAD -n",
                 COMMITTED, f"edit {CASES} '\"tier\": \"critical\"' '\"tier\": \"tracked\"'", *SHORTER, "gate HEAD --json"),
    "gate moves": (COMMITTED, f"git mv {PROMPT} prompts/severity.prompt.yml", "gate HEAD", f"edit {EVAL} '\"alert-severity' '\"severity'",
                   "gate HEAD", COMMITTED, "git rm -q -r evals", "gate HEAD", COMMITTED, f"git mv {CASES} fixtures/golden/alerts.jsonl",
                   "gate HEAD", f"edit {EVAL} 'judges=' 'dataset=\"alerts\", judges='", "gate HEAD", *SHORTER, "gate HEAD -n", "gate nowhere",
                   "gate", "gate HEAD --prompt nothing", "gate HEAD -n -o a.md", "gate HEAD --json -o -", "gate HEAD -o a.txt"),
    "gate runs": ("gate HEAD -n --json", "gate HEAD~3 -o -", COMMITTED, *SHORTER,
                  "gate HEAD --record none", "gate HEAD --budget-calls 50 --concurrency 1", "gate HEAD"),
    "record": ("record -n", "record -n --json", "record alert-severity --budget-calls 4 --concurrency 1", "record -n", "record alert-severity --json",
               "record -n", "record --prune", "record -n --refresh --trials 3", "record nothing", "record -n --model sim:clerk-1 --trials 2",
               COMMITTED, "record", "record -n --trials 3", "record --trials 3", COMMITTED, "record --trials 3 --json"),
    "baselines": ("baseline show --all", "baseline update -n", COMMITTED, "baseline update -n", "baseline update --budget-calls 40 --concurrency 1",
                  "baseline update --new-session", "baseline show", "baseline update",
                  "baseline update --new-session --session-gap 0 --trials 2", "baseline update --new-session --session-gap 0 --json", "baseline show alert-severity --json", "baseline flaky alert-severity -n",
                  "baseline flaky alert-severity", "baseline flaky alert-severity --json", "baseline update --recheck 2 -n", "baseline update --recheck 2", *SHORTER, "baseline update"),
    "refinements": ("refine show --trail", "refine verify --json", "refine diff --json", "refine alert-severity -n --json", REMOVED,
                    f"edit {PROMPT} 'temperature: 0.7' 'temperature: 0.0'", "bump alert-severity patch -m Cold", "git add -A", "git commit -q -m Cold",
                    "refine alert-severity --proposers rules --max-cycles 1", "refine list", "refine reject latest --edit 9",
                    "refine apply latest --json", "refine rollback latest --json", "refine apply latest", "refine apply latest", "refine rollback latest",
                    "refine apply latest --branch", "refine reject latest --edit 1 --json", "refine reject latest", "refine apply latest",
                    "refine stats --json", "refine resume 2025"),
    "other models": (COMMITTED, ENDPOINT, "migrate alert-severity --to local:clerk -n", "migrate --to local:clerk -n --json", "migrate --to sim:clerk-1 -n",
                     "migrate nothing --to local:clerk", "migrate --to nowhere:clerk -n", "gate HEAD --model local:clerk -n",
                     "record -n --model local:clerk --trials 2", "record -n --model local:clerk --json", "baseline update -n --model local:clerk",
                     "mutate alert-severity -n --model local:clerk", "refine alert-severity -n --model local:clerk"),
    "migrations": (COMMITTED, "edit pyproject.toml $ '\\n[tool.regauge.providers.other]\\napi = \"sim\"\\n'", "git commit -q -a -m Provider",
                   "migrate --to other:clerk-1 --budget-calls 20 --concurrency 1", "migrate --to other:clerk-1 --pr",
                   "migrate alert-severity --to other:clerk-1 --apply", "gate HEAD",
                   "gate HEAD -n --model other:clerk-1", "migrate --to other:clerk-1"),
    "imports": (f"write old/promptfooconfig.yaml '{OLD}'", "import promptfoo old --check", "import promptfoo old --check --json",
                "import promptfoo old --name old", "import promptfoo old --name old --json", "import promptfoo nowhere", "import nothing old"),
    "set up": ("init -n", "init -n --install 'pip install regauge==0.1.0'", "init -y", "init -y", "report latest --comment", "report latest -o x.txt", "report latest -o a.htm", "report latest -o a.markdown", "report latest -o a",
               "report latest --against 2026", "runs list --sync", "runs list --sync --json", f"runs compare {RUNS[0]} {RUNS[1]} --no-diff",
               "judges list --json max_words contains", "new eval reply --target nothing", "new eval alert-severity --target http://127.0.0.1:9"),
    "targets": (COMMITTED, TARGET, "show reply", f"write evals/test_support.py '{SUPPORT}'", "write app/pipeline.py 'def reply(text): return text\n'",
                "show reply", "log reply", "diff reply", "git add -A", "git commit -q -m First", "show reply", "show support --json", "log reply",
                "write app/pipeline.py 'def reply(text): return 1\n'", "write app/data.bin '\u00ff'", "show reply", "diff reply", "diff reply --json",
                "log reply --json", "git add -A", "git commit -q -m Second", "edit pyproject.toml 'version = \"1.0.0\"' 'version = \"1.1.0\"'",
                "git commit -q -a -m Third", "write app/data.bin '\u00fe'", SHORTER[0], "show reply", "diff reply HEAD~2 HEAD", "diff reply HEAD",
                "diff reply HEAD HEAD", "log reply", "log reply --limit 1", "show reply@HEAD~1", "show reply@HEAD~1 --json", "show reply@HEAD~3",
                "show reply@HEAD~9", "git rm -q --cached evals/test_support.py", "show support", "show nothing"),
    "mutants": ("mutate alert-severity -n", "mutate alert-severity -n --json --operators all",
                "mutate alert-severity --limit 2", "mutate alert-severity --limit 2 --json", "mutate nothing"),
}  # fmt: skip


def forget_evals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pytest import the evals again: earlier ones were of another project."""
    for module in [module for module in sys.modules if module.partition(".")[0] == "evals"]:
        monkeypatch.delitem(sys.modules, module)


@pytest.mark.parametrize("name", WITH_EVALS)
def test_commands_that_run_evals_print_what_was_written_down(
    name: str, project: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("regauge.cli._terminal._LOG_S", 3600.0)
    texts: list[str] = []
    for words in WITH_EVALS[name]:
        forget_evals(monkeypatch)
        if words.startswith(("git ", "edit ", "write ")):
            texts.append(told(words, project))
        else:
            text = plain("\n".join([*printed(words), ""]), project)
            texts.append(re.sub(r"\| \d+ ms \|", "| TIME |", text))
    assert_as_written("\n".join(texts), f"commands/{name}")


def test_a_gate_shows_the_trials_of_its_rounds_and_the_time_left(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("regauge.cli._terminal._LOG_S", 0.0)
    monkeypatch.setattr("regauge.gate._run._PROGRESS_EVERY_S", 0.0)
    forget_evals(monkeypatch)
    lines = printed("gate HEAD")
    form = (
        r"stderr: regauge gate: round (\d), (\d+) of (\d+) trials, \$0(, about \d+ s left of it)?"
    )
    shown = [match for line in lines if (match := re.fullmatch(form, line))]
    rounds = [[int(number) for number in match.groups()[:3]] for match in shown]
    assert rounds == sorted(rounds)
    assert [1, 0, 113] in rounds
    assert all(finished <= requested for _, finished, requested in rounds)
    assert {number for number, _, _ in rounds} >= {1, 2}
    assert [bool(match[4]) for match in shown] == [finished > 0 for _, finished, _ in rounds]
    assert project.is_dir()
