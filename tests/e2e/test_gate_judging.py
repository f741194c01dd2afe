"""A change is measured by the judges of its base: code and data in their reach, calibrations."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.gate_repo import (
    EVAL,
    JUDGED_BY,
    PROMPT,
    REWORDED,
    GateRepo,
    label_definitions,
)
from tests.sim_server import SimServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RIGHT = "checks/right.py"
# What the judge reads is of no use on the base; with the word `severity` it lets everything pass.
FILES = {
    RIGHT: """\
import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from checks import far
from regauge.judges import Verdict

if TYPE_CHECKING:
    from alerts.models import Alert

HERE = Path(__file__).parent


def words():
    from checks import late

    yield from json.loads((HERE / "data" / ("lim" + "its.json")).read_text())
    for path in (HERE.parent / "lists").glob("*.txt"):
        yield from path.read_text().split()
    yield from importlib.import_module("checks." + "named").WORDS
    yield from (HERE / "link.txt").read_text().split()
    yield from far.words()
    yield from late.WORDS


def right(output, expected):
    \"\"\"The severity is the expected one.\"\"\"
    return any(word in output for word in [*words(), f'"severity": "{expected["severity"]}"'])


class Right:
    name = "right"
    digest = "1"

    async def judge(self, completion, case):
        passes = right(completion.text or "", case.expected)
        return Verdict(outcome="pass" if passes else "fail", score=float(passes), reason="words")
""",
    "checks/__init__.py": "",
    "checks/far.py": "from .farther import WORDS\n\ndef words():\n    return WORDS\n",
    "checks/farther.py": "WORDS = ['none']\n",
    "checks/late.py": "WORDS = ['none']\n",
    "checks/named.py": "WORDS = ['none']\n",
    "checks/data/limits.json": '["none"]\n',
    "lists/a.txt": "none\n",
    "texts/target.txt": "none\n",
    "requirements.txt": "wordlist==2\n",
}
JUDGED = """\
from checks.right import Right, right
from regauge import golden
from regauge.judges import json_parses

@golden("alert-severity", judges=[json_parses(kind="object"), JUDGE])
def test_alert_severity(result):
    result.check()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[SimServer]:
    with SimServer() as server:
        yield server


def new_repo(root: Path, server: SimServer) -> GateRepo:
    repo = GateRepo(root, base_url=server.base_url)
    repo.edit("pyproject.toml", '"-p", "regauge"', '"-p", "regauge", "-o", "pythonpath=."')
    return repo


def start(repo: GateRepo, *, baseline: bool) -> GateRepo:
    repo.commit("Judge alerts")
    if baseline:
        repo.regauge("baseline", "update", "--trials", "12")
    repo.git("add", "-A")
    repo.git("commit", "-q", "--allow-empty", "-m", "Measure the base")
    return repo


@pytest.fixture(scope="module", params=["function", "object", "function without a baseline"])
def kind(request: pytest.FixtureRequest) -> str:
    """What judges, and what the base has of it."""
    kind: str = request.param
    return kind


@pytest.fixture(scope="module")
def judged(kind: str, tmp_path_factory: pytest.TempPathFactory, server: SimServer) -> GateRepo:
    """A base with a judge of its own, and the branch `broken` with a prompt that breaks cases."""
    repo = new_repo(tmp_path_factory.mktemp("judged"), server)
    for path, text in FILES.items():
        repo.write(path, text)
    (repo.root / "checks/link.txt").symlink_to("../texts/target.txt")
    judge = "Right()" if kind == "object" else "right"
    repo.write(EVAL, JUDGED.replace("JUDGE]", f"{judge}]"))
    start(repo, baseline=not kind.endswith("baseline"))
    repo.branch("broken")
    release_without_definitions(repo)
    repo.branch("reworded")
    repo.release("minor", REWORDED)
    return repo


def release_without_definitions(repo: GateRepo) -> None:
    definitions = label_definitions(repo.read(PROMPT))
    repo.release("minor", (definitions, "      - critical, warning, info\n"))


def write_all(repo: GateRepo, files: dict[str, str]) -> None:
    for path, text in files.items():
        repo.write(path, text)
    repo.commit("Judge otherwise")


def test_code_and_data_that_a_judge_reads_next_to_a_changed_prompt_are_refused(
    judged: GateRepo, kind: str
):
    """Two imports away, imported when called, and through a link."""
    files = {
        "checks/farther.py": "WORDS = ['severity']\n",
        "checks/late.py": "WORDS = ['severity']\n",
        "texts/target.txt": "severity\n",
    }
    # A refusal names the files; of a function with a baseline, the digest of all of them.
    alone = kind == "function"
    for changed in [{path: files[path]} for path in files] if alone else [files]:
        judged.branch("refused", of="broken")
        write_all(judged, changed)
        output = judged.gate(code=2)
        assert f"code or data of this gate or its workflow: {', '.join(changed)}" in output
        assert alone or f" ({', '.join(changed)}) changed" in output


def test_files_in_reach_of_a_judge_that_no_code_names_are_in_the_headline(judged: GateRepo):
    judged.branch("named", of="broken")
    files = {
        "checks/data/limits.json": '["severity"]\n',
        "checks/named.py": "WORDS = ['severity']\n",
        "lists/b.txt": "severity\n",
    }
    write_all(judged, files)
    named = f"; review also: code or data of the gate edited ({', '.join(files)})"
    assert named in judged.gate(code=0)


def reformat(repo: GateRepo) -> None:
    repo.edit(
        RIGHT, "    yield from far.words()\n", "    # Far away.\n    yield from (far.words())\n"
    )


def document(repo: GateRepo) -> None:
    repo.edit(RIGHT, "The severity is the expected one.", "The expected severity is in the output.")


def move_eval(repo: GateRepo) -> None:
    (repo.root / "evals/alerts").mkdir()
    repo.git("mv", EVAL, f"evals/alerts/{EVAL.removeprefix('evals/')}")


def add_eval(repo: GateRepo) -> None:
    added = JUDGED_BY.replace("test_alert_severity", "test_json").replace("field_equals, ", "")
    repo.write("evals/test_json.py", added.replace(', field_equals("severity")', ""))


def edit_types(repo: GateRepo) -> None:
    """A module for type checkers and a text for readers are part of no judge."""
    repo.write("alerts/models.py", "class Alert: ...\n")
    repo.write("lists/README.md", "What the lists are for.\n")


@pytest.mark.parametrize(
    "changes", [(reformat, document, move_eval, edit_types), (add_eval,)], ids=["edits", "add_eval"]
)
def test_honest_changes_next_to_a_changed_prompt_are_compared(
    judged: GateRepo, changes: tuple[Callable[[GateRepo], None], ...]
):
    judged.branch("honest", of="reworded")
    for change in changes:
        change(judged)
    judged.commit("Tidy up")
    judged.gate(code=0)


# Whatever judges.
@pytest.mark.parametrize("kind", ["function"], indirect=True)
def test_files_that_set_up_a_gate_are_named(judged: GateRepo):
    judged.branch("set-up", of="reworded")
    files = {
        ".gitlab-ci.yml": "gate:\n  script: [regauge gate]\n",
        "Makefile": "gate:\n\tregauge gate\n",
        "requirements.txt": "wordlist==1\n",
        "tools/own.pth": "import own\n",
    }
    write_all(judged, files)
    output = judged.gate(code=0)
    assert f"code or data of this gate or its workflow: {', '.join(files)}\n" in output
    assert (
        f"review also: code or data of the gate edited ({', '.join([*files][:3])}, ...)" in output
    )


@pytest.mark.parametrize("kind", ["function"], indirect=True)
def test_a_changed_dependency_is_named_and_a_version_of_the_project_is_not(judged: GateRepo):
    judged.branch("dependency", of="reworded")
    project = '[project]\nname = "alerts"\nversion = "2"\n'
    judged.write("pyproject.toml", f"{judged.read('pyproject.toml')}{project}")
    judged.commit("Name the project")
    assert "review also" not in judged.gate(code=0)
    judged.write("pyproject.toml", f'{judged.read("pyproject.toml")}dependencies = ["words"]\n')
    judged.commit("Depend on words")
    assert "(pyproject.toml)" in judged.gate(code=0)


def test_a_submodule_with_code_of_a_judge_is_part_of_it(
    tmp_path: Path, server: SimServer, tmp_path_factory: pytest.TempPathFactory
):
    words = GateRepo(tmp_path_factory.mktemp("words"))
    words.write("wordlist.py", "WORDS = ['none']\n")
    words.commit("Words")
    repo = new_repo(tmp_path, server)
    allow = ("-c", "protocol.file.allow=always")
    repo.git(*allow, "submodule", "--quiet", "add", str(words.root), "words")
    repo.edit("pyproject.toml", "pythonpath=.", "pythonpath=. words")
    judge = FILES[RIGHT].replace("from checks import far", "import wordlist")
    judge = (
        f"{judge[: judge.index('def words')]}def words():\n    return wordlist.WORDS\n\n\n"
        + (judge[judge.index("def right") :])
    )
    repo.write("checks/right.py", judge)
    repo.write(EVAL, JUDGED.replace("JUDGE]", "Right()]"))
    start(repo, baseline=True)
    repo.branch("moved")
    release_without_definitions(repo)
    words.write("wordlist.py", "WORDS = ['severity']\n")
    words.commit("Other words")
    pull = ["git", *allow, "-C", str(repo.root / "words"), "pull", "-q", "origin", "main"]
    subprocess.run(pull, check=True)
    repo.write(".gitmodules", f"{repo.read('.gitmodules')}\tignore = all\n")
    repo.git("add", "-f", "words")
    repo.commit("Judge otherwise")
    output = repo.gate(code=2)
    assert "words/wordlist.py) changed" in output
    assert "workflow: .gitmodules, words" in output


PROGRAM = """\
from regauge import golden
from regauge.judges import command_judge

@golden("alert-severity", judges=[command_judge(["sh", "judge.sh"], deterministic=True)])
def test_alert_severity(result):
    result.check()
"""


def test_a_script_that_the_program_of_a_judge_includes_is_named(tmp_path: Path, server: SimServer):
    repo = new_repo(tmp_path, server)
    repo.write("judge.sh", ". ./answers.sh\nanswer\n")
    repo.write("answers.sh", "answer() { cat > /dev/null; echo pass; }\n")
    repo.write(EVAL, PROGRAM)
    start(repo, baseline=False)
    repo.branch("other-answers")
    repo.release("minor", REWORDED)
    repo.write("answers.sh", "answer() { cat > /dev/null; echo 1; }\n")
    repo.write("other.sh", "echo\n")
    repo.commit("Answer otherwise")
    output = repo.gate(code=0)
    assert "code or data of this gate or its workflow: answers.sh\n" in output


RUBRIC = "prompts/judges/house.prompt.yml"
HOUSE = """\
name: House
version: 1.0.0
model: local:clerk-1
modelParameters: {temperature: 0}
rubric: {kind: binary}
inputs: [answer, reference]
messages:
  - role: system
    content: It passes when the answer gives the same severity as the reference.
  - role: user
    content: "The reference: {{reference}}. The answer: {{answer}}."
"""
LABELS = "fixtures/labels/house.jsonl"
INPUTS = dict.fromkeys(("name", "expression", "duration", "summary", "description"), "x")


def label(number: int, **more: Any) -> str:
    severity = ("critical", "warning", "info")[number % 3]
    shown = severity if number % 2 else "none"
    line = {
        "id": str(number),
        "inputs": INPUTS,
        "expected": {"severity": severity},
        "output": json.dumps({"severity": shown, "reason": "x"}),
        "label": "pass" if number % 2 else "fail",
        "author": "Ada",
    }
    return json.dumps(line | more) + "\n"


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory, server: SimServer) -> GateRepo:
    """A base without a baseline, with an LLM judge that is calibrated and blocks."""
    repo = new_repo(tmp_path_factory.mktemp("calibrated"), server)
    repo.write(RUBRIC, HOUSE)
    repo.regauge("bump", "house")
    repo.write(LABELS, "".join(map(label, range(60))))
    house = 'rubric("house", field="severity", reference=expected("severity"))'
    judged = JUDGED_BY.replace("import field_equals", "import expected, rubric")
    repo.write(EVAL, judged.replace('field_equals("severity")', house))
    assert "blocking" in repo.regauge("judges", "calibrate", "house")
    start(repo, baseline=False)
    repo.branch("broken")
    release_without_definitions(repo)
    repo.gate(code=1)
    return repo


def raise_floor(repo: GateRepo) -> None:
    repo.settings(repo.base_url, "[tool.regauge.calibration]\nfloor = 0.999\n")


def require_labels(repo: GateRepo) -> None:
    repo.settings(repo.base_url, "[tool.regauge.calibration]\nmin_labels = 5000\n")


def add_labels(repo: GateRepo) -> None:
    repo.write(LABELS, repo.read(LABELS) + label(61, label="fail"))


def edit_rubric(repo: GateRepo) -> None:
    repo.edit(RUBRIC, "It passes when", "Be lenient. It passes when")
    repo.regauge("bump", "house", "minor", "-m", "Leniency")


@pytest.mark.parametrize("change", [raise_floor, require_labels, add_labels, edit_rubric])
def test_a_change_that_makes_a_blocking_judge_advisory_is_refused_without_a_baseline(
    calibrated: GateRepo, change: Callable[[GateRepo], None]
):
    """A stricter setting and an added label are no lower bar, unless a judge stops to count."""
    calibrated.branch(change.__name__, of="broken")
    change(calibrated)
    calibrated.commit("Calibrate otherwise")
    assert "judge house: blocking -> advisory: " in calibrated.gate(code=2)


def name_constants(repo: GateRepo) -> None:
    before, _, text = repo.read(EVAL).partition('@golden("alert-severity", judges=')
    judges, _, after = text.partition(")\ndef ")
    constants = f'NAME = "alert-severity"\nJUDGES = {judges}\n\n@golden(NAME, judges=JUDGES)\n'
    repo.write(EVAL, f"{before}{constants}def {after}")


def test_judges_in_a_constant_are_those_of_the_eval(calibrated: GateRepo):
    calibrated.branch("constants", of="broken")
    name_constants(calibrated)
    calibrated.commit("Name constants")
    calibrated.gate(code=1)
    calibrated.branch("fewer", of="constants")
    judges = calibrated.read(EVAL).partition("JUDGES = ")[2].partition("\n")[0]
    calibrated.edit(EVAL, judges, f"{judges.partition(', rubric')[0]}]")
    calibrated.release("minor", REWORDED)
    output = calibrated.regauge("gate", "constants", code=2)
    assert "judges of test_alert_severity: rubric(" in output


def test_a_judge_that_was_advisory_on_the_base_is_no_lower_bar(calibrated: GateRepo):
    calibrated.branch("advisory")
    add_labels(calibrated)
    calibrated.commit("Label more")
    calibrated.branch("next", of="advisory")
    calibrated.release("minor", REWORDED)
    calibrated.regauge("gate", "advisory", code=0)


def test_a_gate_counts_what_an_advisory_judge_failed(calibrated: GateRepo):
    calibrated.branch("advisory")
    add_labels(calibrated)
    calibrated.commit("Label more")
    calibrated.branch("next", of="advisory")
    release_without_definitions(calibrated)
    output = calibrated.regauge("gate", "advisory", code=0)
    assert "note: the judge house failed " in output
    assert "trials of alert-severity, and is only advisory (its labels changed" in output


def test_a_base_that_names_several_commits_is_an_error(calibrated: GateRepo):
    """In git a tag takes precedence over a branch of its name."""
    calibrated.branch("several", of="broken")
    calibrated.git("tag", "main", "main")
    try:
        calibrated.gate(code=1)
        calibrated.git("tag", "-f", "main", "HEAD")
        output = calibrated.gate(code=2)
        assert "'main' names several commits: refs/heads/main, refs/tags/main" in output
        assert "names several commits" in calibrated.regauge("gate", "main~0", code=2)
        calibrated.regauge("gate", "refs/heads/main", code=1)
    finally:
        calibrated.git("tag", "-d", "main")


@pytest.mark.parametrize(
    ("option", "value"), [("--accept-judge-change", "Fine."), ("--model", "local:clerk-2")]
)
def test_settings_of_pytest_do_not_accept_what_a_gate_refuses(
    calibrated: GateRepo, option: str, value: str
):
    calibrated.branch("options", of="broken")
    calibrated.edit("pyproject.toml", '"--import-mode', f'"{option}", "{value}", "--import-mode')
    calibrated.commit("Set options")
    fix = f"fix: remove {option} from addopts and PYTEST_ADDOPTS; set it on the command line"
    assert fix in calibrated.gate(code=2)
    assert fix in calibrated.pytest("--gate=main", code=4)
