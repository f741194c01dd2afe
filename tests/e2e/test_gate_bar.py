"""A change cannot lower the bar it is measured by: tiers, settings, labels, baselines, code."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.gate_repo import (
    BASELINE,
    CERTIFICATE_LINE,
    EVAL,
    GOLDEN,
    NAME,
    PROMPT,
    REWORDED,
    GateRepo,
    label_definitions,
)
from tests.sim_server import SimServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WHY = "The tier was wrong from the start"
LABELS = "fixtures/labels/tone.jsonl"
CALIBRATION = "fixtures/labels/tone.calibration.json"
RECORDINGS = f"fixtures/recordings/{NAME}.jsonl"
NOTE = '[tool.regauge.gate]\non_judge_change = "note"\n'


@pytest.fixture(scope="module")
def server() -> Iterator[SimServer]:
    with SimServer() as server:
        yield server


@pytest.fixture(scope="module")
def known_repo(tmp_path_factory: pytest.TempPathFactory, server: SimServer) -> GateRepo:
    """A base with a baseline, labels, and recordings that are committed; its model is served."""
    repo = GateRepo(tmp_path_factory.mktemp("bar"), base_url=server.base_url)
    repo.write(".gitignore", ".regauge/\n__pycache__/\n")
    repo.write(LABELS, '{"id": 1}\n{"id": 2}\n')
    repo.write(CALIBRATION, "{}\n")
    repo.regauge("baseline", "update", "--trials", "12")
    repo.pytest("--record=missing", code=1)
    repo.commit("Measure the base")
    return repo


@pytest.fixture
def repo(known_repo: GateRepo, request: pytest.FixtureRequest) -> GateRepo:
    known_repo.branch(request.node.name.partition("[")[0])
    return known_repo


def golden(repo: GateRepo) -> list[dict[str, Any]]:
    return [json.loads(line) for line in repo.read(GOLDEN).splitlines()]


def lines_of(cases: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(case) + "\n" for case in cases)


def set_tier(repo: GateRepo, case: str, tier: str) -> None:
    cases = golden(repo)
    for one in cases:
        if one["id"] == case:
            one["tier"] = tier
    repo.write(GOLDEN, lines_of(cases))


def set_checks(repo: GateRepo, checks: list[object], **more: object) -> None:
    """Give every case these checks and no others."""
    lines = [json.loads(line) for line in repo.read(GOLDEN).splitlines()]
    for line in lines:
        line.pop("checks", None)
        line.update({"checks": checks, **more} if checks else {})
    repo.write(GOLDEN, "".join(json.dumps(line) + "\n" for line in lines))


def break_prompt(repo: GateRepo) -> None:
    """Release a version without the definitions of the severities."""
    repo.release(
        "minor", (label_definitions(repo.read(PROMPT)), "      - critical, warning, info\n")
    )


def refused(repo: GateRepo) -> str:
    """What the latest run was refused for, all of it."""
    return "\n".join(line for one in repo.decision()["refusals"] for line in one["details"])


def broken(repo: GateRepo) -> list[str]:
    return [case for case, verdict in repo.verdicts().items() if verdict == "broken"]


class Broken:
    """A branch whose prompt broke cases, for changes that try to hide it.

    Attributes:
        cases: The ids of the cases that broke.
        passed: The ids of those that passed.
        outputs: What the candidate put instead of the expected severity, by case.
    """

    def __init__(self, repo: GateRepo) -> None:
        self.repo = repo
        repo.branch("broken-prompt")
        break_prompt(repo)
        repo.gate(code=1)
        self.cases = {*broken(repo)}
        self.passed = [case for case, verdict in repo.verdicts().items() if verdict == "passed"]
        self.outputs = {
            case["case"]: case["failing"]["output"]
            for case in repo.decision()["cases"]
            if case["case"] in self.cases and case["failing"]["judge"].startswith("field_equals")
        }
        repo.git("checkout", "-q", "--force", "broken-prompt")

    def rewrite(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
        """The golden cases, with a change of those that broke."""
        return lines_of(
            change(case) if case["id"] in self.cases else case for case in golden(self.repo)
        )


Hide = Callable[[Broken], None]


def names_of(row: object) -> str | None:
    """The id of the ways of a row."""
    ways = row if isinstance(row, tuple) else (row,)
    return "+".join(way.__name__ for way in ways) if all(map(callable, ways)) else None


@pytest.fixture(scope="module")
def broken_prompt(known_repo: GateRepo) -> Broken:
    return Broken(known_repo)


def track(case: dict[str, Any]) -> dict[str, Any]:
    return {**case, "tier": "tracked"}


def move_to_yaml(broken: Broken) -> None:
    text = broken.rewrite(track)
    broken.repo.git("rm", "-q", GOLDEN)
    cases = [json.loads(line) for line in text.splitlines()]
    broken.repo.write(GOLDEN.replace(".jsonl", ".yaml"), json.dumps(cases, indent=1))


def move_to_another_dataset(broken: Broken) -> None:
    easy = [case for case in golden(broken.repo) if case["id"] not in broken.cases]
    broken.repo.git("rm", "-q", GOLDEN)
    broken.repo.write("fixtures/golden/alerts.jsonl", lines_of(easy))
    broken.repo.edit(
        EVAL, '@golden("alert-severity", ', '@golden("alert-severity", dataset="alerts", '
    )


def link_cases(broken: Broken) -> None:
    broken.repo.write("cases.jsonl", broken.rewrite(track))
    (broken.repo.root / GOLDEN).unlink()
    (broken.repo.root / GOLDEN).symlink_to("../../cases.jsonl")


def relabel_edited_cases(broken: Broken) -> None:
    def relabelled(case: dict[str, Any]) -> dict[str, Any]:
        summary = f"{case['inputs']['summary']} "
        expected = {"severity": broken.outputs.get(case["id"], "info")}
        return {**case, "inputs": {**case["inputs"], "summary": summary}, "expected": expected}

    broken.repo.write(GOLDEN, broken.rewrite(relabelled))


def replace_inputs(broken: Broken) -> None:
    easy = next(case for case in golden(broken.repo) if case["id"] not in broken.cases)
    broken.repo.write(GOLDEN, broken.rewrite(lambda case: {**case, "inputs": easy["inputs"]}))


def rename_cases(broken: Broken) -> None:
    broken.repo.write(GOLDEN, broken.rewrite(lambda case: {**case, "id": f"{case['id']}-2"}))


def dilute(broken: Broken) -> None:
    easy = next(case for case in golden(broken.repo) if case["id"] not in broken.cases)
    more = [{**easy, "id": f"easy-{number}"} for number in range(60)]
    broken.repo.write(GOLDEN, lines_of([*golden(broken.repo), *more]))


def split_dataset(broken: Broken) -> None:
    repo = broken.repo
    hard = [case for case in golden(repo) if case["id"] in broken.cases]
    easy = [case for case in golden(repo) if case["id"] not in broken.cases]
    repo.write(GOLDEN, lines_of(easy))
    repo.write("fixtures/golden/hard.jsonl", lines_of(map(track, hard)))
    decorator = '@golden("alert-severity", dataset="hard", judges=[field_equals("severity")])'
    body = "def test_hard(result):\n    result.check()\n"
    repo.write(EVAL, f"{repo.read(EVAL)}\n\n{decorator}\n{body}")


def move_endpoint(broken: Broken) -> None:
    broken.repo.edit("pyproject.toml", "127.0.0.1", "localhost")


def warn_only(broken: Broken) -> None:
    repo = broken.repo
    repo.settings(repo.base_url, '[tool.regauge.gate]\non_broken = "warn"\naccepted_max = 99\n')


def other_model(broken: Broken) -> None:
    broken.repo.edit(PROMPT, "model: local:clerk-1", "model: local:clerk-2")
    broken.repo.regauge("bump", NAME, "minor", "-m", "Another model")


def delete_baseline(broken: Broken) -> None:
    broken.repo.git("rm", "-q", BASELINE)


def cut_lock(broken: Broken) -> None:
    lines = broken.repo.read("prompts/prompts.lock").splitlines(keepends=True)
    kept = [line for line in lines if "@1.0.0" not in line]
    broken.repo.write("prompts/prompts.lock", "".join(kept))


def pin_version(broken: Broken) -> None:
    broken.repo.edit(
        EVAL, '@golden("alert-severity", ', '@golden("alert-severity", version="1.0.0", '
    )


def select_in_settings(broken: Broken) -> None:
    names = " or ".join(sorted(broken.cases))
    broken.repo.edit("pyproject.toml", '"--import', f'"-k", "not ({names})", "--import')


def select_next_to_evals(broken: Broken) -> None:
    names = " or ".join(sorted(broken.cases))
    options = f"-p regauge --import-mode=importlib -k 'not ({names})'"
    broken.repo.write("evals/pytest.ini", f"[pytest]\naddopts = {options}\n")


def drop_in_conftest(broken: Broken) -> None:
    broken.repo.write(
        "conftest.py",
        f"BROKEN = {sorted(broken.cases)!r}\n"
        "def pytest_collection_modifyitems(items):\n"
        "    items[:] = [one for one in items if not any(name in one.name for name in BROKEN)]\n",
    )


def swallow_failures(broken: Broken) -> None:
    broken.repo.edit(EVAL, "    result.check()", "    pass")


def hide_files(broken: Broken) -> None:
    broken.repo.write(".gitattributes", "prompts/** -diff export-ignore\n*.jsonl binary\n")
    broken.repo.write(".gitignore", ".regauge/\n__pycache__/\nprompts/\nfixtures/golden/\n")


def lenient_helper(broken: Broken) -> None:
    """A judge of the same name and digest, from a module that no rule knows."""
    broken.repo.write(
        "leniency.py",
        "from dataclasses import replace\n"
        "from regauge.judges import field_equals as strict\n\n"
        "class Lenient:\n"
        "    def __init__(self, inner):\n        self._inner = inner\n\n"
        "    def __getattr__(self, name):\n        return getattr(self._inner, name)\n\n"
        "    async def judge(self, *args, **more):\n"
        "        verdict = await self._inner.judge(*args, **more)\n"
        "        return replace(verdict, outcome='pass')\n\n"
        "def field_equals(field):\n    return Lenient(strict(field))\n",
    )
    broken.repo.write(
        "conftest.py",
        "import sys\nsys.path.insert(0, '.')\n"
        "import leniency, regauge.judges\nregauge.judges.field_equals = leniency.field_equals\n",
    )


def wrap_judge(broken: Broken) -> None:
    """A judge of the same name and digest that passes everything."""
    text = broken.repo.read(EVAL).replace(
        'field_equals("severity")', 'Pass(field_equals("severity"))'
    )
    declared = (
        "class Pass:\n"
        "    def __init__(self, inner):\n        self._inner = inner\n\n"
        "    def __getattr__(self, name):\n        return getattr(self._inner, name)\n\n"
        "    async def judge(self, *args, **more):\n"
        "        verdict = await self._inner.judge(*args, **more)\n"
        "        return replace(verdict, outcome='pass')\n\n"
    )
    text = text.replace("@golden(", f"{declared}@golden(", 1)
    broken.repo.write(EVAL, f"from dataclasses import replace\n{text}")


def start_a_prompt_over(broken: Broken) -> None:
    """A new prompt of another name, with those cases that it passes."""
    repo = broken.repo
    easy = [case for case in golden(repo) if case["id"] in broken.passed]
    repo.git("rm", "-q", GOLDEN, BASELINE)
    repo.git("mv", PROMPT, "prompts/severity.prompt.yml")
    text = repo.read("prompts/severity.prompt.yml")
    title = next(line for line in text.splitlines() if line.startswith("name:"))
    repo.write("prompts/severity.prompt.yml", text.replace(title, "name: Another"))
    repo.write("fixtures/golden/severity.jsonl", lines_of(easy))
    repo.edit(EVAL, '"alert-severity"', '"severity"')
    repo.regauge("bump", "severity")


def rename_with_all_files(broken: Broken) -> None:
    """A baseline that moves with its prompt is the same."""
    repo = broken.repo
    for path in (PROMPT, GOLDEN, BASELINE):
        repo.git("mv", path, path.replace("alert-severity", "severity"))
    repo.edit(EVAL, '"alert-severity"', '"severity"')
    repo.regauge("bump", "severity")


def give_up_cases(broken: Broken) -> None:
    """All cases that the prompt does not pass are removed, with a reason."""
    repo = broken.repo
    kept = [case for case in golden(repo) if case["id"] in broken.passed]
    gone = {case["id"] for case in golden(repo)} - {case["id"] for case in kept}
    repo.write(GOLDEN, lines_of(kept))
    reasons = "".join(f"      - case: {case}\n        reason: Twice.\n" for case in sorted(gone))
    text = "    text: What changed\n"
    repo.edit(PROMPT, text, f"{text}    removed:\n{reasons}")


def to_csv(broken: Broken) -> None:
    cases = [track(case) if case["id"] in broken.cases else case for case in golden(broken.repo)]
    names = sorted({name for case in cases for name in case["inputs"]})
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["id", "tier", "expected.severity", *(f"inputs.{name}" for name in names)])
    for case in cases:
        inputs = [case["inputs"].get(name, "") for name in names]
        writer.writerow([case["id"], case["tier"], case["expected"]["severity"], *inputs])
    broken.repo.git("rm", "-q", GOLDEN)
    broken.repo.write(GOLDEN.replace(".jsonl", ".csv"), table.getvalue())


def add_the_dataset_again(broken: Broken) -> None:
    easy = [case for case in golden(broken.repo) if case["id"] not in broken.cases]
    broken.repo.write(GOLDEN.replace(".jsonl", ".yaml"), json.dumps(easy))


def add_the_prompt_again(broken: Broken) -> None:
    base = broken.repo.git("show", f"main:{PROMPT}")
    broken.repo.write(PROMPT.replace(".yml", ".yaml"), base)


def repeat_ids(broken: Broken) -> None:
    easy = next(case for case in golden(broken.repo) if case["id"] not in broken.cases)
    again = [{**easy, "id": case} for case in sorted(broken.cases)]
    broken.repo.write(GOLDEN, lines_of([*golden(broken.repo), *again]))


def link_prompt(broken: Broken) -> None:
    broken.repo.write("elsewhere.yml", broken.repo.read(PROMPT))
    (broken.repo.root / PROMPT).unlink()
    (broken.repo.root / PROMPT).symlink_to("../elsewhere.yml")


def link_golden_directory(broken: Broken) -> None:
    broken.repo.write("cases/alert-severity.jsonl", broken.rewrite(track))
    broken.repo.git("rm", "-q", GOLDEN)
    (broken.repo.root / "fixtures/golden").symlink_to("../cases")


def link_fixtures(broken: Broken) -> None:
    root = broken.repo.root
    shutil.copytree(root / "fixtures", root / "other")
    broken.repo.write("other/golden/alert-severity.jsonl", broken.rewrite(track))
    broken.repo.git("rm", "-q", "-r", "fixtures")
    (root / "fixtures").symlink_to("other")


def link_prompts(broken: Broken) -> None:
    root = broken.repo.root
    shutil.copytree(root / "prompts", root / "other")
    broken.repo.git("rm", "-q", "-r", "prompts")
    (root / "prompts").symlink_to("other")


def nest_a_project(broken: Broken) -> None:
    repo = broken.repo
    settings = repo.read("pyproject.toml")
    repo.write("evals/pyproject.toml", f'{settings}[tool.regauge.gate]\non_broken = "warn"\n')
    repo.write(f"evals/{PROMPT}", repo.git("show", f"main:{PROMPT}"))
    repo.write("evals/prompts/prompts.lock", repo.git("show", "main:prompts/prompts.lock"))
    repo.write(f"evals/{GOLDEN}", repo.read(GOLDEN))


def set_elsewhere(broken: Broken) -> None:
    for name in ("regauge.toml", ".regauge.toml"):
        broken.repo.write(name, '[gate]\non_broken = "warn"\n')
    broken.repo.write(".env", "REGAUGE_RECORD=none\n")
    broken.repo.write("sitecustomize.py", "import os\nos.environ['REGAUGE_RECORD'] = 'none'\n")


def load_a_plugin(broken: Broken) -> None:
    broken.repo.write("extra.py", "import regauge.judges\n")
    broken.repo.edit("pyproject.toml", '"-p", "regauge"', '"-p", "regauge", "-p", "extra"')


def load_by_entry_point(broken: Broken) -> None:
    repo = broken.repo
    repo.write("own-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: own\nVersion: 1\n")
    repo.write("own-1.dist-info/entry_points.txt", "[regauge.providers]\nlocal = own:Own\n")
    repo.write("own.py", "from regauge.gate.engine import _gate\n_gate.decided_by = 1\n")


def replay_by_conftest(broken: Broken) -> None:
    """A keyed gate is made a replay of recordings that the author edited."""
    repo = broken.repo
    passes = {case["id"]: json.dumps(case["expected"]) for case in golden(repo)}
    repo.pytest("--record=missing", code=1)
    rows = [json.loads(line) for line in repo.read(RECORDINGS).splitlines()]
    for row in rows:
        row["completion"]["text"] = passes[row["case"]]
    repo.write(RECORDINGS, lines_of(rows))
    lines = "import os\nos.environ['REGAUGE_RECORD'] = 'none'\n"
    repo.write("conftest.py", lines)


def accept_by_pattern(broken: Broken) -> None:
    text = "    text: What changed\n"
    accepted = "    accepted:\n      - case: '*'\n        reason: Fine.\n"
    broken.repo.edit(PROMPT, text, text + accepted)


def edit_a_released_digest(broken: Broken) -> None:
    lock = broken.repo.read("prompts/prompts.lock")
    broken.repo.write("prompts/prompts.lock", lock.translate(str.maketrans("abcd", "bcda")))


def drop_the_version(broken: Broken) -> None:
    lines = broken.repo.read(PROMPT).splitlines(keepends=True)
    broken.repo.write(PROMPT, "".join(x for x in lines if not x.startswith("version:")))


def empty_the_record(broken: Broken) -> None:
    document = json.loads(broken.repo.read(BASELINE))
    broken.repo.write(BASELINE, json.dumps({**document, "baselines": []}))


def call_through_another_provider(broken: Broken) -> None:
    repo = broken.repo
    other = f'[tool.regauge.providers.other]\nbase_url = "{repo.base_url}"\n'
    repo.settings(repo.base_url, other)
    repo.edit(EVAL, '"alert-severity", ', '"alert-severity", model="other:clerk-1", ')


def ask_less(broken: Broken) -> None:
    broken.repo.edit(EVAL, '"alert-severity", ', '"alert-severity", trials=1, pass_rate=0.01, ')


@pytest.mark.parametrize(
    ("hide", "code", "words"),
    [
        (
            (
                nest_a_project,
                set_elsewhere,
                load_by_entry_point,
                ask_less,
                call_through_another_provider,
                link_prompt,
            ),
            1,
            "broken of 24 cases",
        ),
        (
            (dilute, load_a_plugin, swallow_failures),
            1,
            ("broken, 60 new", f"its workflow: {EVAL}, extra.py, pyproject.toml"),
        ),
        (
            (warn_only, move_endpoint, wrap_judge, move_to_yaml),
            2,
            (
                'on_broken in [tool.regauge.gate]: "net" -> "warn"',
                "base_url in [tool.regauge.providers.local]",
                f"code of judge field_equals(severity) ({EVAL}) changed",
                "tier of ",
            ),
        ),
        (to_csv, 2, "tier of "),
        (link_golden_directory, 2, "tier of "),
        (link_fixtures, 2, "tier of "),
        (
            (empty_the_record, relabel_edited_cases, lenient_helper),
            2,
            (
                f"{BASELINE} changed",
                "expected of ",
                "code of judge field_equals(severity) (leniency.py) changed",
            ),
        ),
        (add_the_dataset_again, 2, "two datasets are called 'alert-severity'"),
        (add_the_prompt_again, 2, "several prompts are named 'alert-severity'"),
        (repeat_ids, 2, "is taken"),
        (link_prompts, 1, "broken of 24 cases"),
        (hide_files, 1, "broken of 24 cases"),
        (
            (accept_by_pattern, cut_lock),
            1,
            ("'*', which is not a golden case", "alert-severity@1.0.0 was removed"),
        ),
        (edit_a_released_digest, 1, "gate: rejected"),
        (drop_the_version, 1, "has no version any more"),
        (replay_by_conftest, 1, "recordings of alert-severity are better than fresh trials"),
        (rename_with_all_files, 1, "broken of 24 cases"),
        (start_a_prompt_over, 0, "; review also: alert-severity removed, severity new"),
        (give_up_cases, 0, " cases removed\n"),
        (link_cases, 2, "tier of "),
        (
            (other_model, delete_baseline),
            2,
            ("and this change uses local:clerk-2", f"{BASELINE} changed"),
        ),
        (move_to_another_dataset, 1, "base has this case and it is gone"),
        (rename_cases, 1, "base has this case and it is gone"),
        (split_dataset, 1, "base has this case and it is gone"),
        (select_in_settings, 1, "are there and are not run"),
        (select_next_to_evals, 1, "are there and are not run"),
        (drop_in_conftest, 1, "are there and are not run"),
        (pin_version, 3, "measure version 1.0.0, and none measures this file"),
        (replace_inputs, 0, ("fail on the base, which passed before the edit", "since the edit\n")),
    ],
    ids=names_of,
)
def test_broken_cases_are_not_hidden_by_the_change_that_breaks_them(
    broken_prompt: Broken, hide: Hide | tuple[Hide, ...], code: int, words: str | tuple[str, ...]
):
    """By one way, or by several at once that each would do it alone."""
    broken_prompt.repo.branch("hidden", of="broken-prompt")
    for one in hide if isinstance(hide, tuple) else (hide,):
        one(broken_prompt)
    broken_prompt.repo.commit("Hide what broke")
    output = broken_prompt.repo.gate(code=code)
    parts = (words,) if isinstance(words, str) else words
    assert [part for part in parts if part not in output] == []


@pytest.mark.parametrize(
    "hide", [(warn_only, move_to_yaml, delete_baseline), (move_endpoint,)], ids=names_of
)
def test_every_lowered_bar_is_let_through_with_a_reason_and_listed(
    broken_prompt: Broken, hide: tuple[Hide, ...]
):
    """The base's tiers, settings and record decide; so what broke stays rejected."""
    repo = broken_prompt.repo
    repo.branch("accepted", of="broken-prompt")
    for one in hide:
        one(broken_prompt)
    repo.commit("Lower the bar")
    output = repo.gate("--accept-judge-change", WHY, code=1)
    decision = repo.decision()
    assert len(decision["moved_bars"]) >= len(hide)
    for bar in decision["moved_bars"]:
        assert f"note: this change lowers its own bar: {bar}" in output
    assert f"the change of judges was accepted: {WHY}" in output
    if move_endpoint in hide:
        # All trials of another endpoint are fresh, so cases that pass now and then may differ.
        assert len(broken_prompt.cases & {*broken(repo)}) > len(broken_prompt.cases) / 2
    else:
        assert {*broken(repo)} == broken_prompt.cases


def test_changed_labels_and_calibrations_are_let_through_with_a_reason(repo: GateRepo):
    changed = [f"{path} changed" for path in (CALIBRATION, LABELS)]
    repo.edit(LABELS, "1", "9")
    repo.edit(CALIBRATION, "{}", "[]")
    repo.commit("Label again")
    output = repo.gate(code=2)
    assert [bar for bar in changed if bar not in output] == []
    repo.gate("--accept-judge-change", WHY, code=0)
    assert sorted(repo.decision()["moved_bars"]) == changed


def test_added_labels_are_calibrated_in_the_same_change(repo: GateRepo):
    repo.write(LABELS, f'{repo.read(LABELS)}{{"id": 3}}\n')
    repo.write(CALIBRATION, '{"files": []}\n')
    repo.commit("Add labels")
    assert f"{CALIBRATION} changed" not in repo.gate(code=0)


def test_the_tier_of_a_case_comes_from_the_base(repo: GateRepo):
    break_prompt(repo)
    repo.gate(code=1)
    case = broken(repo)[0]
    set_tier(repo, case, "tracked")
    output = repo.gate(code=2)
    assert f"tier of {case}: required -> tracked" in output
    assert "--accept-judge-change 'WHY'" in output
    repo.gate("--accept-judge-change", WHY, code=1)
    assert repo.decision()["moved_bars"] == [f"tier of {case}: required -> tracked"]
    assert case in broken(repo)


def test_settings_that_decide_come_from_the_base(repo: GateRepo):
    repo.settings(repo.base_url, '[tool.regauge.gate]\nalpha_case = 1e-300\non_new = "warn"\n')
    break_prompt(repo)
    output = repo.gate(code=2)
    assert "alpha_case in [tool.regauge.gate]: 0.05 -> 1e-300" in output
    assert 'on_new in [tool.regauge.gate]: "block" -> "warn"' in output
    repo.gate("--accept-judge-change", WHY, code=1)
    assert repo.decision()["policy"]["case"]["alpha"] == 0.05


def test_a_lowered_bar_alone_is_refused_and_let_through_with_a_reason(repo: GateRepo):
    set_tier(repo, json.loads(repo.read(GOLDEN).splitlines()[0])["id"], "tracked")
    repo.commit("Lower a tier")
    repo.gate(code=2)
    repo.gate("--accept-judge-change", WHY, code=0)
    assert repo.decision()["judge_change_accepted"] == WHY


@pytest.mark.parametrize("command", ["gate", "pytest"])
def test_a_refused_change_leaves_a_decision_that_the_comment_shows(repo: GateRepo, command: str):
    """Both commands end with 2, and the comment shows how to have the change compared."""
    repo.edit(EVAL, ', field_equals("severity")', "")
    repo.edit(EVAL, "field_equals, ", "")
    repo.release("minor", REWORDED)
    if command == "gate":
        output = repo.gate("--output", "decision.md", code=2)
    else:
        output = repo.pytest("--gate=main", code=2)
    assert "gate: refused: not compared with main" in output
    decision = repo.decision()
    assert (decision["decision"], decision["exit_code"]) == ("refused", 2)
    assert decision["not_run"] == len(golden(repo))
    (refusal,) = decision["refusals"]
    assert refusal["part"] == "judge"
    assert refusal["details"] == ["judge 'field_equals(severity)' is gone"]
    assert decision["next"] == {"text": refusal["fix"], "command": ""}
    assert "on_judge_change" not in refusal["fix"]
    comment = repo.regauge("report", "--comment", "--dry-run")
    assert "### ⛔ regauge gate: refused: not compared with `main`" in comment
    assert "- judge 'field" in comment
    assert "**Next:** merge the change of the judges on its own" in comment
    assert "was refused, so it has no trials" in repo.regauge("gate", "--from", "latest", code=2)


def test_the_fix_of_a_refused_change_names_the_label(repo: GateRepo):
    repo.edit(EVAL, ', field_equals("severity")', "")
    repo.edit(EVAL, "field_equals, ", "")
    repo.commit("Remove a judge")
    assert "or the label `accept-judge-change` on GitHub" in repo.pytest("--gate=main", code=2)
    assert "is gone" in repo.gate("--dry-run", code=2)


def test_an_estimate_has_no_decision_to_write(repo: GateRepo):
    repo.release("minor", REWORDED)
    said = repo.gate("--dry-run", "--output=decision.md", code=2)
    assert "--dry-run makes no decision, so " in said
    assert not (repo.root / "decision.md").exists()


def test_a_lowered_bar_next_to_a_changed_prompt_is_let_through_with_a_reason(repo: GateRepo):
    first = golden(repo)[0]
    set_checks(repo, ["json_parses"])
    repo.commit("Check each case")
    repo.git("branch", "-f", "checked")
    relabelled = {**first, "expected": {"severity": "none"}}
    repo.write(GOLDEN, lines_of([relabelled, *golden(repo)[1:]]))
    set_checks(repo, [])
    repo.settings(repo.base_url, "[tool.regauge.calibration]\nfloor = 0.1\n")
    bars = [
        f'expected of {first["id"]}: {json.dumps(first["expected"])} -> {{"severity": "none"}}',
        f'checks of {first["id"]}: ["json_parses"] -> not set',
        "floor in [tool.regauge.calibration]: 0.4 -> 0.1",
    ]
    repo.release("minor", REWORDED)
    repo.regauge("gate", "checked", code=2)
    assert [bar for bar in bars if bar not in refused(repo)] == []
    output = repo.regauge("gate", "checked", "--accept-judge-change", WHY, code=None)
    assert {*bars} <= {*repo.decision()["moved_bars"]}
    assert [
        bar for bar in bars if f"note: this change lowers its own bar: {bar}" not in output
    ] == []
    assert f"the change of judges was accepted: {WHY}" in output


def test_a_raised_bar_and_new_cases_need_no_word(repo: GateRepo):
    first = json.loads(repo.read(GOLDEN).splitlines()[0])
    set_tier(repo, first["id"], "critical")
    line = {**first, "id": "another", "inputs": {**first["inputs"], "name": "Another"}}
    repo.write(GOLDEN, repo.read(GOLDEN) + json.dumps(line) + "\n")
    repo.settings(repo.base_url, "[tool.regauge.gate]\nalpha_case = 0.1\n")
    repo.write(LABELS, repo.read(LABELS) + '{"id": 3}\n')
    repo.commit("Raise the bar")
    assert "cost unknown (no price)." in repo.gate(code=0)
    assert repo.decision()["moved_bars"] == []


def test_labels_calibrations_and_baselines_come_from_the_base(repo: GateRepo):
    repo.edit(LABELS, '"id": 1', '"id": 9')
    repo.edit(CALIBRATION, "{}", '{"passes": true}')
    repo.edit(BASELINE, '"passed": 12', '"passed": 6')
    break_prompt(repo)
    output = repo.gate(code=2)
    changed = [f"{path} changed" for path in (LABELS, CALIBRATION, BASELINE)]
    assert [bar for bar in changed if bar not in output] == []


def test_a_baseline_without_a_change_of_a_prompt_is_let_through(repo: GateRepo):
    repo.write(BASELINE, repo.read(BASELINE).replace('"passed": 12', '"passed": 12 '))
    repo.commit("Update the baseline")
    repo.gate(code=0)


def test_an_edited_record_of_the_base_is_named_where_no_prompt_changes(repo: GateRepo):
    document = json.loads(repo.read(BASELINE))
    (baseline,) = document["baselines"]
    trials = sum(case["trials"] for case in baseline["cases"].values())
    for case in baseline["cases"].values():
        case |= {"passed": 6, "failed": {"field_equals(severity)": case["trials"] - 6}}
    repo.write(BASELINE, json.dumps(document))
    output = repo.gate(code=0)
    assert f"{BASELINE}: the record of 1.0.0 was edited: " in output
    assert f"{6 * len(baseline['cases'])} of {trials} now; later gates compare with it" in output
    repo.write(BASELINE, json.dumps({**document, "baselines": []}))
    assert f"{BASELINE}: the record of 1.0.0 is gone" in repo.gate(code=0)


def test_texts_of_cases_and_links_to_them_come_from_the_base(repo: GateRepo):
    """A case may take its expectation from a file, and the golden file may be a link."""
    text = "fixtures/texts/severity.txt"
    case = golden(repo)[0]
    repo.write(text, case["expected"]["severity"])
    cases = [{**case, "expected": {"severity": {"file": "texts/severity.txt"}}}, *golden(repo)[1:]]
    repo.write("cases.jsonl", lines_of(cases))
    (repo.root / GOLDEN).unlink()
    (repo.root / GOLDEN).symlink_to("../../cases.jsonl")
    repo.commit("Take cases from elsewhere")
    repo.branch("elsewhere", of="HEAD")
    break_prompt(repo)
    repo.regauge("gate", "HEAD~1", code=1)
    repo.write(text, "none of them")
    assert f"expected of {case['id']}: " in repo.regauge("gate", "HEAD~1", code=2)
    repo.git("checkout", "-q", "--force", "HEAD")
    repo.write("cases.jsonl", lines_of([track(cases[0]), *cases[1:]]))
    output = repo.regauge("gate", "HEAD~1", code=2)
    assert f"tier of {case['id']}: required -> tracked" in output


def test_in_the_job_of_a_pull_request_its_base_branch_is_the_base(repo: GateRepo):
    """The `ref` of its own settings would compare the change with itself."""
    repo.git("update-ref", "refs/remotes/origin/main", "main")
    repo.settings(repo.base_url, '[tool.regauge.gate]\nref = "own"\n')
    break_prompt(repo)
    repo.git("branch", "-f", "own")
    repo.regauge("gate", code=0)
    with repo.environment(GITHUB_BASE_REF="main"):
        assert 'ref in [tool.regauge.gate]: "origin/main" -> "own"' in repo.regauge("gate", code=2)


def test_replaced_recordings_and_code_next_to_a_prompt_are_named(repo: GateRepo):
    first, *others = repo.read(RECORDINGS).splitlines(keepends=True)
    line = json.loads(first)
    line["completion"]["text"] = "{}"
    repo.write(RECORDINGS, "".join([json.dumps(line) + "\n", *others]))
    repo.write(EVAL, repo.read(EVAL) + "\n# more\n")
    repo.write(".github/workflows/evals.yml", "on: push\n")
    break_prompt(repo)
    output = repo.gate(code=1)
    case = line["case"]
    assert f"{RECORDINGS} replaces what was recorded for requests of the base: {case}" in output
    assert f"code or data of this gate or its workflow: .github/workflows/evals.yml, {EVAL}" in (
        output
    )


def test_an_expectation_next_to_a_changed_prompt_comes_from_the_base(repo: GateRepo):
    break_prompt(repo)
    repo.gate(code=1)
    case = broken(repo)[0]
    lines = [json.loads(line) for line in repo.read(GOLDEN).splitlines()]
    (line,) = [line for line in lines if line["id"] == case]
    now = "info" if line["expected"]["severity"] != "info" else "warning"
    line["expected"] = {"severity": now}
    repo.write(GOLDEN, "".join(json.dumps(line) + "\n" for line in lines))
    output = repo.gate(code=2)
    assert f"expected of {case}: " in output
    assert f'-> {{"severity": "{now}"}}' in output


def test_another_expectation_without_a_change_of_the_prompt_is_no_lower_bar(repo: GateRepo):
    lines = [json.loads(line) for line in repo.read(GOLDEN).splitlines()]
    lines[0]["expected"] = {"severity": "info"}
    repo.write(GOLDEN, "".join(json.dumps(line) + "\n" for line in lines))
    repo.commit("Relabel a case")
    repo.gate(code=0)


def test_an_edited_case_is_put_to_the_base_as_well(repo: GateRepo):
    lines = [json.loads(line) for line in repo.read(GOLDEN).splitlines()]
    edited = lines[0]
    edited["inputs"]["summary"] += " Now."
    repo.write(GOLDEN, "".join(json.dumps(line) + "\n" for line in lines))
    repo.release("patch", ("You decide how urgently", "Decide how urgently"))
    repo.gate(code=0)
    (case,) = [case for case in repo.decision()["cases"] if case["case"] == edited["id"]]
    assert case["state"] == "changed"
    assert case["before"]["trials"] >= 1
    assert f"compared on the new ones: {edited['id']}" in " ".join(repo.decision()["notes"])


def test_an_option_that_loosens_the_policy_stands_in_the_headline(repo: GateRepo):
    break_prompt(repo)
    output = repo.gate("--on-undecided", "warn", code=1)
    assert "(with --on-undecided warn)" in output
    assert repo.decision()["looser_options"] == ["--on-undecided warn"]


def test_a_rule_of_the_base_about_changed_judges_counts(repo: GateRepo):
    repo.settings(repo.base_url, NOTE)
    repo.commit("Note changes of judges")
    repo.branch("next", of="HEAD")
    repo.edit(EVAL, 'field_equals("severity")', 'field_equals("severity", ignore_case=True)')
    repo.commit("Judge otherwise")
    repo.regauge("gate", "HEAD~1", code=0)
    assert CERTIFICATE_LINE not in repo.read(PROMPT)


def test_trials_that_a_change_commits_are_refused(repo: GateRepo):
    break_prompt(repo)
    repo.gate(code=1)
    repo.git("add", "-f", ".regauge/gate")
    repo.commit("Bring trials along")
    assert "git rm -r --cached .regauge" in repo.gate(code=2)
    repo.git("rm", "-r", "-q", "--cached", ".regauge")
    repo.commit("Leave them out")
    repo.gate(code=1)


@pytest.mark.parametrize(
    ("checks", "more", "moved"),
    [
        ([], {}, 'KubeAPIDown: ["json_parses"] -> not set'),
        (
            ["json_parses", "is_lower_case"],
            {"pass_at": 0.5},
            "KubeAPIDown: pass_at 1 -> pass_at 0.5",
        ),
    ],
)
def test_a_check_of_a_case_cannot_be_removed_or_loosened(
    repo: GateRepo, checks: list[object], more: dict[str, object], moved: str
):
    repo.branch("checked")
    set_checks(repo, ["json_parses"])
    repo.commit("Check each case")
    repo.branch("loosened", of="checked")
    set_checks(repo, checks, **more)
    repo.release("minor", REWORDED)
    assert f"checks of {moved}" in repo.regauge("gate", "checked", code=2)


def test_a_check_of_a_case_can_be_added(repo: GateRepo):
    set_checks(repo, ["json_parses"])
    repo.release("minor", REWORDED)
    repo.gate(code=0)
    assert repo.decision()["moved_bars"] == []


TWO_EVALS = """\
from regauge import golden
from regauge.judges import field_equals, json_parses

@golden("alert-severity", judges=[json_parses(kind="object")])
def test_json(result):
    result.check()

@golden("alert-severity", judges=[field_equals("severity")])
def test_severity(result):
    result.check()
"""
FUNCTION = """\
import helper
from regauge import golden

def right(output, expected):
    return helper.severity(output) == expected["severity"]

@golden("alert-severity", judges=[right])
def test_alert_severity(result):
    result.check()
"""
HELPER = """\
import json

DEFAULT = "none"

def severity(output):
    try:
        return json.loads(output)["severity"]
    except (KeyError, ValueError):
        return DEFAULT
"""
PROGRAM = """\
from regauge import golden
from regauge.judges import command_judge

judge = command_judge(["sh", "judge.sh"], deterministic=True)

@golden("alert-severity", judges=[judge])
def test_alert_severity(result):
    result.check()
"""

HONEST = """\
from regauge.judges import Verdict

class Right:
    def __init__(self, inner):
        self.inner = inner
        self.name = inner.name
        self.digest = inner.digest

    async def judge(self, completion, case):
        return await self.inner.judge(completion, case)
"""
OBJECT = """\
from helper import Right
from regauge import golden
from regauge.judges import field_equals

judge = Right(field_equals("severity"))

@golden("alert-severity", judges=[judge])
def test_alert_severity(result):
    result.check()
"""


def with_evals(repo: GateRepo, evals: str, *, baseline: bool, **files: str) -> Callable[..., str]:
    """Release evals on a base of their own; the function gates a change against it."""
    repo.write(EVAL, evals)
    for name, text in files.items():
        repo.write(name.replace("_", "."), text)
    repo.edit("pyproject.toml", '"-p", "regauge"', '"-p", "regauge", "-o", "pythonpath=."')
    repo.git("rm", "-q", BASELINE)
    if baseline:
        repo.regauge("baseline", "update", "--trials", "3")
    repo.commit("Judge otherwise")
    repo.git("branch", "-f", "other-evals")

    def gate(*words: str, code: int) -> str:
        repo.commit("Change judges as well")
        return repo.regauge("gate", "other-evals", *words, code=code)

    return gate


@pytest.mark.parametrize("baseline", [True, False])
def test_an_eval_of_the_base_is_not_left_out_while_another_covers_its_prompt(
    repo: GateRepo, *, baseline: bool
):
    gate = with_evals(repo, TWO_EVALS, baseline=baseline)
    break_prompt(repo)
    rest = TWO_EVALS[: TWO_EVALS.rindex("@golden")].replace("field_equals, ", "")
    repo.write(EVAL, rest)
    output = gate(code=2)
    assert "judges of test_severity: field_equals('severity') -> not set" in output
    accepted = repo.regauge("gate", "other-evals", "--accept-judge-change", WHY, code=0)
    assert "; review also: 1 lowered bar let through, code or data of the gate edited" in accepted


@pytest.mark.parametrize("baseline", [True, False])
def test_the_eval_of_a_second_dataset_is_not_left_out_while_others_have_its_judges(
    repo: GateRepo, *, baseline: bool
):
    """Its cases would be measured by nobody, and what breaks in them accepted."""
    golden = "fixtures/golden/alert-severity.jsonl"
    one = repo.read(EVAL)
    second = one[one.index("@golden") :].replace(
        '"alert-severity",', '"alert-severity", dataset="edge",'
    )
    assert "edge" in second
    repo.write(
        "fixtures/golden/edge.jsonl", "".join(repo.read(golden).splitlines(keepends=True)[:3])
    )
    two = one + "\n\n" + second.replace("def test_", "def test_edge_")
    gate = with_evals(repo, two, baseline=baseline)
    break_prompt(repo)
    repo.write(EVAL, one)
    output = gate(code=2)
    assert "judges of test_edge_alert_severity: " in output
    (repo.root / "fixtures/golden/edge.jsonl").unlink()
    assert "judges of test_edge" not in gate(code=1), "a dataset that is given up is deleted"


def test_other_judges_next_to_a_changed_prompt_are_refused_without_a_baseline(repo: GateRepo):
    gate = with_evals(repo, repo.read(EVAL), baseline=False)
    break_prompt(repo)
    base = repo.read(EVAL)
    repo.write(
        EVAL,
        base.replace('field_equals("severity")', 'has_keys("severity")').replace(
            "import field_equals", "import has_keys"
        ),
    )
    assert "judges of test_alert_severity: " in gate(code=2)
    added = base.replace("judges=[", "judges=[max_chars(9000), ")
    repo.write(EVAL, added.replace("import field_equals", "import field_equals, max_chars"))
    assert "broken of 24 cases" in gate(code=1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("llm/test_severity.py", "llm/test_severity.py"),
        ("tests/llm/severity/test_it.py", "tests/llm/severity/test_it.py"),
        ("test_severity.py", "test_severity.py"),
        ("llm/test_severity.py", "checks/test_other.py"),
        (EVAL, "checks/test_other.py"),
    ],
)
def test_evals_in_any_directory_are_held_to_the_judges_of_the_base(
    repo: GateRepo, before: str, after: str
):
    """Also if the change moves them, and no line of the file stays."""
    text = repo.read(EVAL)
    repo.git("rm", "-q", EVAL)
    repo.write(before, text)
    repo.git("rm", "-q", BASELINE)
    repo.commit("Evals elsewhere")
    repo.git("branch", "-f", "other-evals")
    break_prompt(repo)
    repo.git("rm", "-q", before)
    judges = 'judges=[json_parses(kind="object")]'
    repo.write(
        after,
        "import regauge\nfrom regauge.judges import json_parses\n\n\n"
        f'@regauge.golden("alert-severity", {judges})\ndef test_it(result):\n    result.check()\n',
    )
    repo.commit("Change the prompt, and what judges it")
    place = after.rpartition("/")[0] or "."
    output = repo.regauge("gate", "other-evals", "--evals", place, code=2)
    assert "field_equals('severity') -> not set" in output


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('json.loads(output)["severity"]', "json.loads(output)['Severity']"),
        ('DEFAULT = "none"', 'DEFAULT = "info"'),
    ],
)
def test_what_a_function_that_judges_calls_is_part_of_it(repo: GateRepo, old: str, new: str):
    gate = with_evals(repo, FUNCTION, baseline=True, helper_py=HELPER)
    repo.release("minor", REWORDED)
    repo.edit("helper.py", old, new)
    assert "judge 'right': " in gate(code=2)


def test_a_program_that_judges_is_no_lower_bar(repo: GateRepo):
    strict, lenient = "cat > /dev/null; echo pass\n", "cat > /dev/null; echo pass # always\n"
    gate = with_evals(repo, PROGRAM, baseline=True, judge_sh=strict)
    repo.release("minor", REWORDED)
    repo.write("judge.sh", lenient)
    assert "this change is judged differently than the base" in gate(code=2)


@pytest.mark.parametrize("baseline", [True, False])
def test_a_judge_that_states_its_own_digest_does_not_hide_other_code(
    repo: GateRepo, *, baseline: bool
):
    gate = with_evals(repo, OBJECT, baseline=baseline, helper_py=HONEST)
    break_prompt(repo)
    repo.write("helper.py", HONEST.replace("class Right", "# Only a comment.\nclass Right"))
    gate(code=1)
    lenient = HONEST.replace(
        "await self.inner.judge(completion, case)",
        'Verdict(outcome="pass", score=1, reason="fine")',
    )
    repo.write("helper.py", lenient)
    assert "(helper.py) changed" in gate(code=2)
    repo.regauge("gate", "other-evals", "--accept-judge-change", WHY, code=0)


def test_a_wrapper_with_the_digest_of_what_it_wraps_is_refused(repo: GateRepo):
    gate = with_evals(repo, repo.read(EVAL), baseline=True)
    break_prompt(repo)
    repo.write(
        "lenient.py",
        HONEST.replace(
            "await self.inner.judge(completion, case)",
            'Verdict(outcome="pass", score=1, reason="fine")',
        ),
    )
    base = repo.read(EVAL)
    wrapped = base.replace('field_equals("severity")', 'Right(field_equals("severity"))')
    repo.write(EVAL, f"from lenient import Right\n{wrapped}")
    assert "code of judge field_equals(severity) (" in gate(code=2)


STRICT = '[tool.regauge.gate]\non_broken = "block"\non_anchor_loss = "block"\n'


def old_branch(repo: GateRepo, *changes: Callable[[GateRepo], None]) -> Callable[..., str]:
    """Branch off before the base's bar rises; the function gates against the base of today."""
    repo.branch("raised")
    for change in changes:
        change(repo)
    repo.commit("Raise the bar")
    repo.branch("old", of="main")
    break_prompt(repo)
    return lambda *words, code: repo.regauge("gate", "raised", *words, code=code)


def block_what_broke(repo: GateRepo) -> None:
    repo.settings(repo.base_url, STRICT)


def make_critical(repo: GateRepo) -> None:
    repo.write(GOLDEN, lines_of({**case, "tier": "critical"} for case in golden(repo)))


def expect_more(repo: GateRepo) -> None:
    first, *others = golden(repo)
    repo.write(GOLDEN, lines_of([{**first, "expected": {"severity": "none"}}, *others]))


def judge_more(repo: GateRepo) -> None:
    text = repo.read(EVAL).replace("judges=[", "judges=[max_chars(9000), ")
    repo.write(EVAL, text.replace("import field_equals", "import field_equals, max_chars"))


def test_a_change_of_an_older_commit_is_held_to_the_bar_of_today(repo: GateRepo):
    gate = old_branch(repo, block_what_broke, make_critical, expect_more, judge_more)
    output = gate(code=2)
    assert "the bar of this change may be lower than that of raised" in output
    assert "fix: git merge raised, which is newer than this change; then " in output
    bars = (
        'on_broken in [tool.regauge.gate]: "block" -> "net"',
        "tier of KubeAPIDown: critical -> required",
        f"expected of {golden(repo)[0]['id']}: ",
        "judges of test_alert_severity: max_chars(9000) -> not set",
    )
    assert [bar for bar in bars if bar not in refused(repo)] == []
    gate("--accept-judge-change", WHY, code=1)
    assert repo.decision()["policy"]["on_broken"] == "block"
    repo.branch("docs-only", of="main")
    repo.write("README.md", "Words.\n")
    repo.commit("Write words")
    repo.regauge("gate", "raised", code=0)


def test_a_lower_price_is_a_lower_bar(repo: GateRepo):
    """A limit in dollars is worked out from prices."""
    table = "[tool.regauge.providers.local.prices.clerk-1]\n"
    repo.branch("priced")
    repo.settings(repo.base_url, f"{table}input_per_million = 2.0\noutput_per_million = 8.0\n")
    repo.commit("State prices")
    repo.branch("cheap", of="priced")
    repo.edit("pyproject.toml", "output_per_million = 8.0", "output_per_million = 0.1")
    repo.release("minor", REWORDED)
    output = repo.regauge("gate", "priced", code=2)
    assert "price of clerk-1 in [tool.regauge.providers.local]: " in output
    repo.edit("pyproject.toml", "output_per_million = 0.1", "output_per_million = 9")
    repo.commit("Correct the price")
    repo.regauge("gate", "priced", code=0)


def test_newer_cases_of_the_base_stand_in_the_headline(repo: GateRepo):
    def add(repo: GateRepo) -> None:
        first = golden(repo)[0]
        repo.write(GOLDEN, lines_of([*golden(repo), {**first, "id": "added"}]))

    old_branch(repo, add)
    repo.git("checkout", "-q", "-B", "reworded", "main")
    repo.release("minor", REWORDED)
    output = repo.regauge("gate", "raised", code=0)
    assert "; review also: 1 newer case of raised not compared" in output


WORDS = """\
from pathlib import Path

from regauge import golden

def known(output, expected):
    words = Path(__file__).with_name("words.txt").read_text().split()
    return any(word in output for word in [*words, expected["severity"]])

@golden("alert-severity", judges=[known])
def test_alert_severity(result):
    result.check()
"""
CHECKER = """\
def check(verdict):
    return verdict
"""
CHECKED = HONEST.replace("from regauge", "from checker import check\nfrom regauge").replace(
    "return await self.inner.judge(completion, case)",
    "return check(await self.inner.judge(completion, case))",
)


def test_a_module_that_a_judge_object_imports_is_part_of_it(repo: GateRepo):
    gate = with_evals(repo, OBJECT, baseline=True, helper_py=CHECKED, checker_py=CHECKER)
    break_prompt(repo)
    lenient = CHECKER.replace("verdict\n", "replace(verdict, outcome='pass')\n")
    repo.write("checker.py", f"from dataclasses import replace\n\n{lenient}")
    assert "code of judge field_equals(severity) (checker.py) changed" in gate(code=2)


def test_a_file_that_a_judge_names_is_part_of_it(repo: GateRepo):
    repo.write("evals/words.txt", "none\n")
    gate = with_evals(repo, WORDS, baseline=True)
    break_prompt(repo)
    repo.write("evals/words.txt", "critical\nwarning\ninfo\n")
    assert "code of judge known (evals/words.txt) changed" in gate(code=2)


def test_a_function_that_judges_is_part_of_the_bar_without_a_baseline(repo: GateRepo):
    gate = with_evals(repo, FUNCTION, baseline=False, helper_py=HELPER)
    break_prompt(repo)
    repo.edit("helper.py", 'DEFAULT = "none"', 'DEFAULT = "info"')
    assert "code of judge right (helper.py) changed" in gate(code=2)


def restore_prompt_while_it_runs(broken: Broken) -> None:
    base = broken.repo.git("show", f"main:{PROMPT}")
    broken.repo.write("base.yml", base)
    broken.repo.write(
        "conftest.py",
        "from pathlib import Path\nroot = Path(__file__).parent\n"
        f"(root / {PROMPT!r}).write_text((root / 'base.yml').read_text())\n",
    )


def copy_prompt(broken: Broken) -> None:
    """The prompt of the base stays, and a copy with the cases that it passes is added."""
    repo = broken.repo
    repo.write("prompts/severity.prompt.yml", repo.read(PROMPT))
    easy = [case for case in golden(repo) if case["id"] in broken.passed]
    repo.write("fixtures/golden/severity.jsonl", lines_of(easy))
    repo.write("evals/test_severity.py", repo.read(EVAL).replace('"alert-severity"', '"severity"'))
    for path in (PROMPT, "prompts/prompts.lock"):
        repo.write(path, repo.git("show", f"main:{path}"))
    repo.regauge("bump", "severity")


def replace_base(broken: Broken) -> None:
    repo = broken.repo
    repo.git("replace", "-f", "main", "HEAD")


def decide_in_conftest(broken: Broken) -> None:
    broken.repo.write(
        "evals/conftest.py",
        "import regauge.gate._engine as gate\ngate.reasons_for = lambda *_: ()\n",
    )


def collect_other_files(broken: Broken) -> None:
    repo = broken.repo
    settings = "[tool.pytest.ini_options]\n"
    repo.edit("pyproject.toml", settings, f"{settings}python_files = ['check_*.py']\n")
    easy = repo.read(EVAL).replace(', field_equals("severity")', "")
    repo.write("evals/check_easy.py", easy.replace("field_equals, ", ""))


def collect_other_functions(broken: Broken) -> None:
    settings = "[tool.pytest.ini_options]\n"
    broken.repo.edit("pyproject.toml", settings, f"{settings}python_functions = ['easy_*']\n")


def expect_one_of_two(broken: Broken) -> None:
    def either(case: dict[str, Any]) -> dict[str, Any]:
        right = case["expected"]["severity"]
        return {**case, "expected": {"severity": [broken.outputs.get(case["id"], right), right]}}

    broken.repo.write(GOLDEN, broken.rewrite(either))


def expect_ignored_files(broken: Broken) -> None:
    repo = broken.repo
    repo.write(".gitignore", repo.read(".gitignore") + "fixtures/texts/\n")
    for case in golden(repo):
        text = broken.outputs.get(case["id"], case["expected"]["severity"])
        repo.write(f"fixtures/texts/{case['id']}.txt", text)

    def named(case: dict[str, Any]) -> dict[str, Any]:
        return {**case, "expected": {"severity": {"file": f"texts/{case['id']}.txt"}}}

    repo.write(GOLDEN, broken.rewrite(named))


def judge_by_date(broken: Broken) -> None:
    text = broken.repo.read(EVAL).replace(
        'judges=[json_parses(kind="object"), field_equals("severity")]', "judges=JUDGES"
    )
    judges = (
        'STRICT = [field_equals("severity")] if time.time() < 0 else []\n'
        'JUDGES = [json_parses(kind="object"), *STRICT]\n\n@golden'
    )
    broken.repo.write(EVAL, "import time\n" + text.replace("@golden", judges, 1))


def judge_by_environment(broken: Broken) -> None:
    repo = broken.repo
    field = 'field_equals(os.environ.get("FIELD", "severity"))'
    repo.write(EVAL, "import os\n" + repo.read(EVAL).replace('field_equals("severity")', field))
    repo.write("conftest.py", "import os\nos.environ['FIELD'] = 'reason'\n")


def generate_cases(broken: Broken) -> None:
    broken.repo.write(
        "conftest.py",
        "from pathlib import Path\n"
        f"path = Path(__file__).parent / {GOLDEN!r}\n"
        "path.write_text(path.read_text().replace('required', 'tracked'))\n",
    )


def use_an_alias_of_the_model(broken: Broken) -> None:
    repo = broken.repo
    repo.settings(repo.base_url, f'[tool.regauge.providers.alias]\nbase_url = "{repo.base_url}"\n')
    repo.edit(PROMPT, "model: local:clerk-1", "model: alias:clerk-1")


def rename_prompt_and_cases(broken: Broken) -> None:
    repo = broken.repo
    repo.git("mv", PROMPT, "prompts/severity.prompt.yml")
    repo.write("fixtures/golden/severity.jsonl", broken.rewrite(track))
    repo.git("rm", "-q", GOLDEN)
    repo.edit(EVAL, '"alert-severity"', '"severity"')
    repo.git("mv", BASELINE, "fixtures/baselines/severity.json")


def drop_expectations(broken: Broken) -> None:
    def without(case: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in case.items() if name != "expected"}

    broken.repo.write(GOLDEN, broken.rewrite(without))


def set_cases_apart(broken: Broken) -> None:
    """The golden directory becomes a link to one that git does not track."""
    repo = broken.repo
    repo.write("../apart/alert-severity.jsonl", broken.rewrite(track))
    repo.git("rm", "-q", GOLDEN)
    (repo.root / "fixtures/golden").symlink_to("../../apart")


@pytest.mark.parametrize(
    ("hide", "code", "words"),
    [
        (restore_prompt_while_it_runs, 0, f"review also: uncommitted {PROMPT}"),
        (copy_prompt, 0, "review also: severity new"),
        (replace_base, 1, "broken of 24 cases"),
        (decide_in_conftest, 0, "review also: code or data of the gate edited (evals/conftest.py)"),
        (collect_other_files, 2, "judge 'field_equals(severity)' is gone"),
        (collect_other_functions, 3, "pytest does not collect the eval test_alert_severity"),
        (expect_one_of_two, 2, "expected of "),
        (drop_expectations, 2, "expected of "),
        (expect_ignored_files, 2, "expected of "),
        (judge_by_date, 2, "judge 'field_equals(severity)' is gone"),
        (judge_by_environment, 2, "judge 'field_equals(severity)' is gone"),
        (generate_cases, 2, "tier of "),
        (use_an_alias_of_the_model, 2, "and this change uses alias:clerk-1"),
        (rename_prompt_and_cases, 2, "tier of "),
        (set_cases_apart, 2, "is outside the git repository"),
    ],
)
def test_other_ways_to_hide_what_broke_are_refused_or_stand_in_the_headline(
    broken_prompt: Broken, hide: Hide, code: int, words: str
):
    broken_prompt.repo.branch(hide.__name__, of="broken-prompt")
    hide(broken_prompt)
    broken_prompt.repo.git("add", "-A")
    broken_prompt.repo.git("commit", "-q", "--allow-empty", "-m", "Hide what broke")
    try:
        assert words in broken_prompt.repo.gate(code=code)
    finally:
        broken_prompt.repo.git("checkout", "-q", "--force", "HEAD")
        for name in broken_prompt.repo.git("replace").split():
            broken_prompt.repo.git("replace", "-d", name)
