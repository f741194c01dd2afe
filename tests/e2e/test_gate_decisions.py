"""The whole document of a decision, for one change after the other of a project with a history.

Each row edits the project of `tests/stored_project.py`, commits, and compares with `main`. Model
and judges are the simulated model and rules, so every trial and each number is the same again.
"""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.place import Place
from tests.stored_project import PROJECT, make_project, run_git
from tests.transcripts import assert_as_written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAME = "alert-severity"
PROMPT = f"prompts/{NAME}.prompt.yml"
GOLDEN = f"fixtures/golden/{NAME}.jsonl"
EVAL = "evals/test_alert_severity.py"
SETTINGS = "pyproject.toml"
BASELINE = f"fixtures/baselines/{NAME}.json"
CASE = "AlertmanagerClusterDown"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("gated") / "shop"
    make_project(root)
    run_git(root, "checkout", "--quiet", "-b", "change")
    return root


class Change(Place):
    """A branch of the project, and the edits of one row."""

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text("utf-8")
        edited = re.sub(old, new, text, count=1, flags=re.DOTALL)
        assert edited != text, path
        self.write(path, edited)

    def git(self, *words: str) -> None:
        run_git(self.root, *words)

    def bump(self, part: str = "minor", name: str = NAME) -> None:
        self.regauge("bump", name, part, "-m", "Edit")

    def cases(self, edit: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
        rows = [json.loads(line) for line in (self.root / GOLDEN).read_text("utf-8").splitlines()]
        edited = [row for row in map(edit, rows) if row is not None]
        self.write(GOLDEN, "".join(json.dumps(row) + "\n" for row in edited))

    def case(self, **values: Any) -> None:
        """Set keys of one case."""
        self.cases(lambda row: {**row, **values} if row["id"] == CASE else row)

    def reword(self) -> None:
        """Another text that changes what the model answers to no case."""
        self.edit(PROMPT, "You are the on-call engineer", "You are an on-call engineer")


def better(at: Change) -> None:
    at.reword()
    at.bump()


def worse(at: Change) -> None:
    shutil.copytree(PROJECT / "changed/prompts", at.root / "prompts", dirs_exist_ok=True)


def accepted(at: Change) -> None:
    worse(at)
    at.edit(
        PROMPT,
        "    text: Fewer entries.\n",
        "    text: Fewer entries.\n    accepted:\n"
        f"      - {{case: {CASE}, reason: Rare}}\n      - {{case: no-such-case, reason: Gone}}\n",
    )


def removed(at: Change) -> None:
    at.cases(lambda row: None if row["id"] == CASE else row)


def removed_with_reason(at: Change) -> None:
    better(at)
    removed(at)
    at.edit(
        PROMPT,
        "    text: Edit\n",
        f"    text: Edit\n    removed:\n      - {{case: {CASE}, reason: x}}\n",
    )


def new_case(at: Change) -> None:
    better(at)
    rows = (at.root / GOLDEN).read_text("utf-8").splitlines()
    row = json.loads(rows[0])
    at.write(GOLDEN, "\n".join([*rows, json.dumps({**row, "id": "added"})]) + "\n")


def weaker_schema(at: Change) -> None:
    at.edit(PROMPT, r"required: \[severity, reason\]", "required: [severity]")
    at.bump("major")


def contract(at: Change) -> None:
    weaker_schema(at)
    for path in (PROMPT, "prompts/prompts.lock"):
        at.edit(path, "2.0.0", "1.2.0")


def renamed(at: Change) -> None:
    at.git("mv", PROMPT, "prompts/severity.prompt.yml")
    for directory, suffix in (("baselines", "json"), ("recordings", "jsonl")):
        place = f"fixtures/{directory}"
        at.git("mv", f"{place}/{NAME}.{suffix}", f"{place}/severity.{suffix}")
    at.edit(EVAL, '"alert-severity"', f'"severity", dataset="{NAME}"')
    at.edit("prompts/severity.prompt.yml", "You are the on-call", "You are an on-call")
    at.bump(name="severity")


def deleted(at: Change) -> None:
    for path in (PROMPT, GOLDEN, EVAL, BASELINE, f"fixtures/recordings/{NAME}.jsonl"):
        (at.root / path).unlink()


def without_eval(at: Change) -> None:
    better(at)
    at.git("rm", "--quiet", EVAL)
    at.write("evals/README.md", "x\n")


def new_prompt(at: Change) -> None:
    text = (at.root / PROMPT).read_text("utf-8")
    at.write(
        "prompts/other.prompt.yml",
        re.sub(r"changelog:.*?inputs:", "inputs:", text, flags=re.DOTALL),
    )
    at.bump("major", "other")


def without_judge(at: Change) -> None:
    better(at)
    at.edit(EVAL, '        field_equals\\("severity"\\),\n', "")


def own_judge(at: Change) -> None:
    better(at)
    at.write("evals/rules.py", "LIMIT = 40\n")
    at.edit(
        EVAL,
        "SEVERITIES = ",
        "from pathlib import Path\n\nLIMIT = len(Path('evals/rules.py').read_text()) + 29\nSEVERITIES = ",
    )
    at.edit(EVAL, r"max_words\(40", "max_words(LIMIT")


def tracked_state(at: Change) -> None:
    better(at)
    at.write(".regauge/gate/trials.txt", "x")
    at.git("add", "--force", ".regauge/gate/trials.txt")


def replaced_recordings(at: Change) -> None:
    better(at)
    at.edit(f"fixtures/recordings/{NAME}.jsonl", '"warning', '"info')
    at.edit(BASELINE, r'"passed": ', r'"passed": 1')


def unlocked(at: Change) -> None:
    better(at)
    lines = (at.root / "prompts/prompts.lock").read_text("utf-8")
    at.write("prompts/prompts.lock", lines.replace("1.0.0", "0.9.0"))


def workflow(at: Change) -> None:
    better(at)
    at.write(".github/workflows/evals.yml", "on: push\n")
    at.write("requirements.txt", "regauge\n")
    at.write("notes.md", "x\n")


ROWS: dict[str, tuple[Callable[[Change], object], tuple[str, ...]]] = {
    "nothing": (lambda _: None, ()),
    "better": (better, ()),
    "better-replayed": (better, ("--record=none",)),
    "not-bumped": (Change.reword, ()),
    "worse": (worse, ()),
    "worse-net": (worse, ("--on-broken=block", "--on-undecided=warn")),
    "worse-more": (worse, ("--more-trials=8",)),
    "accepted": (accepted, ()),
    "removed": (removed, ()),
    "removed-with-reason": (removed_with_reason, ()),
    "new-case": (new_case, ()),
    "edited-case-alone": (lambda at: at.case(note="Seen again", tags=["new"]), ()),
    "edited-input-alone": (lambda at: at.cases(lambda row: {**row, "inputs": {**row["inputs"], "summary": ""}}), ()),
    "critical": (lambda at: (worse(at), at.case(tier="critical")), ()),
    "weaker-schema": (weaker_schema, ()),
    "contract": (contract, ()),
    "older": (lambda at: (at.reword(), at.edit(PROMPT, "version: 1.1.0", "version: 1.0.1")), ()),
    "unlocked": (unlocked, ()),
    "renamed": (renamed, ()),
    "deleted": (deleted, ()),
    "without-eval": (without_eval, ()),
    "new-prompt": (new_prompt, ()),
    "without-judge": (without_judge, ()),
    "own-judge": (own_judge, ()),
    "tracked-state": (tracked_state, ()),
    "replaced-recordings": (replaced_recordings, ()),
    "another-model": (lambda at: (at.edit(PROMPT, "sim:clerk-1", "sim:poet-1"), at.bump()), ()),
    "workflow": (workflow, ()),
    "estimate": (better, ("--dry-run",)),
}  # fmt: skip


def brief(document: dict[str, Any]) -> dict[str, Any]:
    """A decision without its settings, and with one case of each status whole."""
    if "decision" not in document:
        return document
    statuses: set[str] = set()
    lines: list[Any] = []
    for case in document["cases"]:
        is_known = case["status"] in statuses
        statuses.add(case["status"])
        lines.append(f"{case['case']}: {case['message']}" if is_known else case)
    kept = {key: part for key, part in document.items() if key not in {"policy", "gate_cases"}}
    return kept | {"cases": lines, "gate_cases": document["gate_cases"][:1]}


def without_day(text: str) -> str:
    """A text without run ids, times and commits, which contain dates."""
    text = re.sub(r'"base_commit": "\w+"', '"base_commit": "COMMIT"', text)
    text = re.sub(r"20\d{6}-\d{6}-\w{4}", "RUN", text)
    return re.sub(r"20\d\d-\d\d-\d\dT[\d:.]+(\+00:00|Z)?", "TIME", text)


def hold(at: Change, row: str, *options: str) -> None:
    """Commit the edits of a row, and hold the decision on them."""
    at.git("add", "--all")
    run_git(at.root, "commit", "--quiet", "--allow-empty", "-m", row, date="25T10:00:00")
    done = at.process("regauge", "gate", "main", "--json", *options)
    assert "Traceback" not in done.stderr, done.stderr
    text = done.stdout
    if text.startswith("{"):
        text = json.dumps(brief(json.loads(text)), indent=1, ensure_ascii=False)
    ended = f"exit {done.returncode}\n{without_day(text)}\n{done.stderr}"
    assert_as_written(ended.replace(str(at.root), "/shop"), f"gated/{row}")


@pytest.mark.parametrize("row", ROWS)
def test_a_change_has_the_decision_that_it_had(row: str, template: Path, tmp_path: Path):
    shutil.copytree(template, tmp_path / "shop", symlinks=True)
    at = Change(tmp_path / "shop")
    edit, options = ROWS[row]
    edit(at)
    hold(at, row, *options)


KIND = """\
name: {name}
version: 1.0.0
model: sim:clerk-1
inputs:
  - name: ticket
evaluators:
  - name: short
    string: {{contains: kind}}
  - name: json
    string: {{startsWith: "{{"}}
messages:
  - role: system
    content: |
      You sort support tickets by what the customer needs.

      Kinds:
      - bug: something is broken, with an error message, a crash or a blank page.
      - billing: money is concerned, such as an invoice, a payment or a refund.
      - question: the customer wants to know how to do something.

      Answer with one JSON object only. Its only key:
      - kind: bug, billing or question.
  - role: user
    content: "{{{{ticket}}}}"
"""
TICKETS = {
    "crash": ("The app shows an error message and a crash report.", "bug"),
    "refund": ("Please refund the second payment of my invoice.", "billing"),
    "colleague": ("I want to know how to add a colleague.", "question"),
    "blank": ("After logging in I only see a blank page.", "bug"),
}
EVALS = """\
from regauge import golden
from regauge.judges import as_judge, field_equals, field_in, json_parses, max_words

def is_short(output: str) -> bool:
    return len(output) < LIMIT

LIMIT = 90
KINDS = ["bug", "billing", "question"]

@golden("{name}", judges=[json_parses(kind="object"), field_equals("kind"), as_judge(is_short)])
def test_kind(result):
    result.check()

@golden("{name}", dataset="{name}-words", judges=[field_in("kind", KINDS), max_words(20)])
def test_words(result):
    result.check()
"""
SORTERS = ("first", "second", "third")


@pytest.fixture(scope="module")
def sorters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three prompts with two evals each; the third has no baseline."""
    root = tmp_path_factory.mktemp("sorters") / "shop"
    root.mkdir()
    at = Change(root)
    at.write(
        SETTINGS, '[tool.regauge]\nmodel = "sim:clerk-1"\n\n[tool.regauge.gate]\nref = "main"\n'
    )
    at.write(".gitignore", ".regauge/\n__pycache__/\n.pytest_cache/\n")
    for name in SORTERS:
        at.write(f"prompts/{name}.prompt.yml", KIND.format(name=name))
        at.write(f"evals/test_{name}.py", EVALS.replace("{name}", name))
        for dataset in (name, f"{name}-words"):
            rows = [
                {
                    "id": f"{dataset}-{case}",
                    "inputs": {"ticket": ticket},
                    "expected": {"kind": kind},
                    "tier": "critical" if case == "crash" else "required",
                    "checks": [{"contains": "kind"}, {"not_contains": "prose"}],
                }
                for case, (ticket, kind) in TICKETS.items()
            ]
            at.write(
                f"fixtures/golden/{dataset}.jsonl", "".join(json.dumps(row) + "\n" for row in rows)
            )
        at.bump("major", name)
    run_git(root, "init", "--quiet", "--initial-branch=main", ".")
    at.git("add", "--all")
    run_git(root, "commit", "--quiet", "-m", "Sorters", date="20T10:00:00")
    at.regauge("baseline", "update", "first", "second", "--trials", "3")
    at.git("add", "--all")
    run_git(root, "commit", "--quiet", "-m", "Baselines", date="20T11:00:00")
    at.git("checkout", "--quiet", "-b", "change")
    return root


class Sorters(Change):
    """The project with three prompts."""

    def prompt(self, name: str, old: str = "You sort", new: str = "You shall sort") -> None:
        self.edit(f"prompts/{name}.prompt.yml", old, new)

    def all(self, *names: str) -> None:
        for name in names or SORTERS:
            self.prompt(name)
            self.bump(name=name)

    def rows(self, dataset: str, **edits: dict[str, Any] | None) -> None:
        """Edit cases of a dataset; None takes one out."""
        path = f"fixtures/golden/{dataset}.jsonl"
        rows = [json.loads(line) for line in (self.root / path).read_text("utf-8").splitlines()]
        lines = [
            json.dumps({**row, **edit}) + "\n"
            for row in rows
            if (edit := edits.get(row["id"].rpartition("-")[2], {})) is not None
        ]
        self.write(path, "".join(lines))


def drop_two(at: Sorters) -> None:
    at.all("first")
    at.rows("first", crash=None, refund=None)
    at.rows("second", blank=None)
    at.edit(
        "prompts/first.prompt.yml",
        "    text: Edit\n",
        "    text: Edit\n    removed:\n      - {case: first-crash, reason: a}\n"
        "      - {case: first-refund, reason: b}\n      - {case: first-blank, reason: c}\n",
    )


def lower_all(at: Sorters) -> None:
    at.all("first", "second")
    at.rows(
        "first", crash={"tier": "tracked"}, refund={"tier": "critical"}, blank={"tier": "tracked"}
    )
    at.rows(
        "first-words", crash={"checks": ["json_parses"]}, refund={"checks": [{"contains": "kind"}]}
    )
    at.rows("second", crash={"expected": {"kind": "billing"}}, refund={"expected": {"kind": "bug"}})
    at.rows(
        "second-words", crash={"pass_at": 0.5}, blank={"pass_at": 0.5, "checks": ["json_parses"]}
    )
    at.edit(SETTINGS, "ref", "alpha_suite = 0.01\nalpha_case = 0.01\non_new = 'warn'\nref")


def judges(at: Sorters) -> None:
    at.all("first")
    at.edit("evals/test_first.py", "LIMIT = 90", "LIMIT = 900")
    at.edit("evals/test_first.py", r"max_words\(20\)", "max_words(200)")
    at.edit("evals/test_second.py", "LIMIT = 90", "LIMIT = 900")


def format_judges(at: Sorters) -> None:
    at.all("first")
    at.edit("evals/test_first.py", "LIMIT = 90\n", "LIMIT = 90  # characters\n\n")
    at.edit("evals/test_first.py", "def is_short", "# Short answers only.\ndef is_short")


def fewer_evals(at: Sorters) -> None:
    at.all("first", "second")
    at.edit("evals/test_first.py", '@golden\\("first", dataset.*', "")
    at.git("rm", "--quiet", "evals/test_second.py")
    at.git("rm", "--quiet", "fixtures/golden/second-words.jsonl")


def evaluators(at: Sorters) -> None:
    at.prompt("first", "  - name: json\n.*?\nmessages", "messages")
    at.prompt("second", "contains: kind", "contains: k")
    at.all("first", "second")


def rename_two(at: Sorters) -> None:
    for old, new in (("first", "one"), ("second", "two")):
        at.git("mv", f"prompts/{old}.prompt.yml", f"prompts/{new}.prompt.yml")
        at.git("mv", f"fixtures/baselines/{old}.json", f"fixtures/baselines/{new}.json")
        at.edit(f"evals/test_{old}.py", f'"{old}", judges', f'"{new}", dataset="{old}", judges')
        at.edit(
            f"evals/test_{old}.py",
            f'"{old}", dataset="{old}-words"',
            f'"{new}", dataset="{old}-words"',
        )
        at.prompt(new)
        at.bump(name=new)
    at.git("mv", "fixtures/golden/first.jsonl", "fixtures/golden/one.jsonl")
    at.edit("evals/test_first.py", 'dataset="first"', 'dataset="one"')


def delete_two(at: Sorters) -> None:
    at.all("third")
    for name in ("first", "second"):
        for place in ("prompts/{}.prompt.yml", "evals/test_{}.py", "fixtures/golden/{}.jsonl"):
            (at.root / place.format(name)).unlink()
    (at.root / "fixtures/golden/first-words.jsonl").unlink()
    (at.root / "fixtures/baselines/first.json").unlink()


def accept_two(at: Sorters) -> None:
    at.prompt("first", "- bug: .*?- billing", "- billing")
    at.prompt("second", "Answer with one JSON object only.*?question.", "Answer with one word.")
    for name in ("first", "second"):
        at.bump(name=name)
        at.edit(
            f"prompts/{name}.prompt.yml",
            "    text: Edit\n",
            f"    text: Edit\n    accepted:\n      - {{case: {name}-crash, reason: a}}\n"
            f"      - {{case: {name}-words-blank, reason: b}}\n",
        )


def contracts(at: Sorters) -> None:
    at.all()
    for name in ("first", "second"):
        at.prompt(
            name, "  - name: ticket\n", "  - name: ticket\n  - name: mood\n    default: calm\n"
        )
    at.prompt("third", "version: 2.1.0", "version: 2.0.0")


SEVERAL: dict[str, tuple[Callable[[Sorters], object], tuple[str, ...]]] = {
    "nothing": (lambda _: None, ()),
    "all": (Sorters.all, ()),
    "all-in-a-file": (Sorters.all, ("--evals", "evals/test_third.py")),
    "all-replayed": (Sorters.all, ("--record=none",)),
    "all-estimated": (Sorters.all, ("--dry-run",)),
    "all-within-calls": (Sorters.all, ("--budget-calls=30",)),
    "drop-two": (drop_two, ()),
    "lower-all": (lower_all, ()),
    "lower-all-accepted": (lower_all, ("--accept-judge-change", "As agreed")),
    "judges": (judges, ()),
    "format-judges": (format_judges, ()),
    "fewer-evals": (fewer_evals, ()),
    "evaluators": (evaluators, ()),
    "rename-two": (rename_two, ()),
    "delete-two": (delete_two, ()),
    "accept-two": (accept_two, ()),
    "contracts": (contracts, ()),
}


@pytest.mark.parametrize("row", SEVERAL)
def test_a_change_of_several_prompts_has_the_decision_that_it_had(
    row: str, sorters: Path, tmp_path: Path
):
    shutil.copytree(sorters, tmp_path / "shop", symlinks=True)
    at = Sorters(tmp_path / "shop")
    edit, options = SEVERAL[row]
    edit(at)
    hold(at, f"several-{row}", *options)


def test_reports_name_the_suites_of_a_prompt_with_several_datasets(sorters: Path, tmp_path: Path):
    shutil.copytree(sorters, tmp_path / "shop", symlinks=True)
    at = Sorters(tmp_path / "shop")
    at.all("first")
    at.git("commit", "--quiet", "--all", "-m", "first")
    at.regauge("gate", "main")
    comment = at.regauge("report", "latest", "--comment", "--dry-run")
    rows = [line.split(" | ") for line in comment.splitlines() if line.startswith("| first")]
    assert [row[0] for row in rows] == ["| first (first)", "| first (first-words)"]
    assert [row[-2] for row in rows] == ["$0", "$0"]
    assert comment.count("diff of prompts/first.prompt.yml") == 1
    at.regauge("report", "latest", "-o", "gate.html")
    page = (at.root / "gate.html").read_text("utf-8")
    assert re.findall('data-nav="(first.*?)"', page) == ["first (first)", "first (first-words)"]
    assert page.count("The case has no trial in this run.") == 16  # of the unchanged prompts
    summary = at.evals("-k", "first")
    assert re.findall(r"(?m)^(first.*?)  ", summary) == ["first (first)", "first (first-words)"]
    assert "\n| first (first-words) | 2.1.0 |" in at.regauge("report", "latest", "-o", "-")
    newest = at.regauge("runs", "list").splitlines()[0]
    assert newest.endswith("first@2.1.0 (sim:clerk-1)")


def test_a_page_tells_evals_with_the_same_dataset_apart(sorters: Path, tmp_path: Path):
    shutil.copytree(sorters, tmp_path / "shop", symlinks=True)
    at = Sorters(tmp_path / "shop")
    at.git("checkout", "--quiet", "main")
    at.edit("evals/test_first.py", ', dataset="first-words"', "")
    at.git("rm", "--quiet", "fixtures/golden/first-words.jsonl", "fixtures/baselines/first.json")
    at.git("commit", "--quiet", "--all", "-m", "One dataset")
    at.git("checkout", "--quiet", "-b", "again")
    at.all("first")
    at.git("commit", "--quiet", "--all", "-m", "first")
    at.regauge("gate", "main", "--prompt", "first")
    at.regauge("report", "latest", "-o", "gate.html")
    page = (at.root / "gate.html").read_text("utf-8")
    cases = re.findall(r'{"id":"([^"]*)","dataset":"([^"]*)","node":"[^"]*::(\w+)\[', page)
    ids = [f"first-{name}" for name in TICKETS]
    tests = ("test_kind", "test_words")
    assert cases == [(case, "first", test) for test in tests for case in ids]
    assert re.findall('data-nav="(first.*?)"', page) == [f"first ({test})" for test in tests]
