"""Changes that break a prompt and edit the bar it is measured by."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ._project import Project, commit_all, copied, recorded_tickets, stub_project
from ._stub import Reply, Request, completion, stub
from ._try import Drill, Try

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["GATE"]

_EVAL = "evals/test_ticket_kind.py"
_GOLDEN = "fixtures/golden/ticket-kind.jsonl"
_PROMPT = "prompts/ticket-kind.prompt.yml"
_BASELINE = "fixtures/baselines/ticket-kind.json"
_RECORDINGS = "fixtures/recordings/ticket-kind.jsonl"
_BILLING = "      - billing: it is about an invoice, a payment or a refund.\n"
_CASES = ("paid-twice", "wrong-invoice", "refund-late", "invoice-copy")
_A_TEST = {"evals/test_a.py": "def test_a():\n    pass\n"}

Change = Callable[[Project], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """What the change holds next to the broken prompt.

    Attributes:
        settings: Lines under `[tool.regauge.gate]`.
        before: Made before the prompt is broken and released.
        args: Of `regauge gate`.
        pytest: `pytest evals --gate main` decides.
    """

    settings: str = ""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    change: Change | None = None
    args: tuple[str, ...] = ("gate", "main")
    pytest: bool = False
    known: str = ""


def _rows(project: Project, name: str) -> list[dict[str, object]]:
    text = (project.root / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _with_rows(
    change: Callable[[dict[str, object]], dict[str, object] | None], name: str = _GOLDEN
) -> Change:
    def write(project: Project) -> None:
        rows = [changed for row in _rows(project, name) if (changed := change(row)) is not None]
        project.write({name: "".join(json.dumps(row) + "\n" for row in rows)})

    return write


def _of_billing(**more: object) -> Change:
    return _with_rows(lambda row: {**row, **more} if row["id"] in _CASES else row)


def _edit(name: str, before: str, after: str) -> Change:
    return lambda project: project.edit(name, before, after)


def _unlink(*names: str) -> Change:
    def unlink(project: Project) -> None:
        for name in names:
            (project.root / name).unlink()

    return unlink


def _all(*changes: Change) -> Change:
    def make(project: Project) -> None:
        for change in changes:
            change(project)

    return make


def _append(name: str, text: str) -> Change:
    def append(project: Project) -> None:
        with (project.root / name).open("a", encoding="utf-8") as file:
            file.write(text)

    return append


def _forged_baseline(project: Project) -> None:
    path = project.root / _BASELINE
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r'"passed": \d+', '"passed": 0', text), encoding="utf-8")


def _forged_recordings(project: Project) -> None:
    ended = project.regauge("record")
    assert ended.code == 0, ended.text
    right = {row["id"]: row["expected"] for row in _rows(project, _GOLDEN)}
    tickets = {row["id"]: row["inputs"]["ticket"] for row in _rows(project, _GOLDEN)}  # type: ignore[index]
    lines = (project.root / _RECORDINGS).read_text(encoding="utf-8").splitlines()
    forged: list[str] = []
    for line in lines:
        row = json.loads(line)
        for name, ticket in tickets.items():
            if json.dumps(ticket)[1:-1] in line:
                row["completion"]["text"] = right[name]
        forged.append(json.dumps(row))
    project.write({_RECORDINGS: "\n".join(forged) + "\n"})
    shutil.rmtree(project.root / ".regauge")


def _renamed_prompt(project: Project) -> None:
    for name in (_PROMPT, _GOLDEN):
        path = project.root / name
        path.rename(path.with_name(path.name.replace("ticket-kind", "ticket-sort")))
    project.edit(_EVAL, '"ticket-kind"', '"ticket-sort"')


def _eval_with(arguments: str = "", judges: str = "equals()", above: str = "") -> dict[str, str]:
    return {
        _EVAL: "import pytest\nfrom regauge import golden\nfrom regauge.judges import *\n"
        f'{above}\n@golden("ticket-kind", judges=[{judges}]{arguments})\n'
        "def test_ticket_kind(result):\n    result.check()\n"
    }


def _gate(text: str) -> str:
    return f"[tool.regauge.gate]\n{text}\n"


_TRY_ALL = "    try:\n        result.check()\n    except BaseException:\n        pass\n"

_WAYS: dict[str, _Way] = {
    "the broken prompt alone": _Way(),
    "the broken prompt alone, pytest": _Way(pytest=True),
    'on_broken = "warn"': _Way(settings=_gate('on_broken = "warn"')),
    'on_broken = "warn", pytest': _Way(settings=_gate('on_broken = "warn"'), pytest=True),
    "min_effect": _Way(settings=_gate("min_effect = 0.99")),
    'on_new = "warn", other expectations': _Way(
        settings=_gate('on_new = "warn"'), change=_of_billing(expected="refund")
    ),
    'ref = "HEAD"': _Way(settings=_gate('ref = "HEAD"'), args=("gate",)),
    "looks = [1]": _Way(settings=_gate("looks = [1]")),
    "first_trials, baseline_trials": _Way(settings=_gate("first_trials = 1\nbaseline_trials = 3")),
    'anchor = "none"': _Way(settings=_gate('anchor = "none"\non_anchor_loss = "warn"')),
    "alpha_suite": _Way(settings=_gate("alpha_suite = 1e-9")),
    'on_broken = "net" with many new cases': _Way(
        settings=_gate('on_broken = "net"\non_new = "warn"'),
        change=lambda project: project.write(
            {
                _GOLDEN: (project.root / _GOLDEN).read_text(encoding="utf-8")
                + "".join(
                    json.dumps(
                        {"id": f"n{number}", "inputs": {"ticket": "An error."}, "expected": "bug"}
                    )
                    + "\n"
                    for number in range(20)
                )
            }
        ),
    ),
    "alpha_case = 1e-12": _Way(
        settings=_gate('alpha_case = 1e-12\nalpha_suite = 1e-12\non_undecided = "warn"')
    ),
    'on_undecided = "warn"': _Way(settings=_gate('on_undecided = "warn"')),
    'on_drifted = "warn"': _Way(settings=_gate('on_drifted = "warn"\nmin_effect = 0.5')),
    "new_case_passes, new ids": _Way(
        settings=_gate("new_case_passes = 1\nnew_case_trials = 1"),
        change=_with_rows(lambda row: {**row, "id": f"{row['id']}-b"}),
    ),
    'on_judge_change = "note", softer judge': _Way(
        settings=_gate('on_judge_change = "note"'),
        files=_eval_with(judges="one_of(['bug', 'billing', 'question'])"),
    ),
    'record = "none"': _Way(
        settings='[tool.regauge]\nrecord = "none"\n', change=_forged_recordings
    ),
    "pass_rate": _Way(files=_eval_with(", pass_rate=0.1")),
    "judge removed": _Way(files=_eval_with(judges="one_of(['bug', 'billing', 'question'])")),
    "judge negated": _Way(files=_eval_with(judges="~equals()")),
    "judge that says yes": _Way(files=_eval_with(judges="lambda output, case: True")),
    "pinned version": _Way(files=_eval_with(', version="1.0.0"')),
    "pinned version, pytest": _Way(files=_eval_with(', version="1.0.0"'), pytest=True),
    "another model in the eval": _Way(files=_eval_with(', model="sim:clerk-2"')),
    "skip mark": _Way(files=_eval_with(above="@pytest.mark.skip")),
    "skip mark, pytest": _Way(files=_eval_with(above="@pytest.mark.skip"), pytest=True),
    "xfail mark": _Way(files=_eval_with(above="@pytest.mark.xfail"), pytest=True),
    "xfail(run=False)": _Way(files=_eval_with(above="@pytest.mark.xfail(run=False)")),
    "swallowed check": _Way(change=_edit(_EVAL, "    result.check()\n", _TRY_ALL), pytest=True),
    "eval renamed": _Way(
        files=_A_TEST,
        change=lambda project: (project.root / _EVAL).rename(project.root / "evals/tickets.py"),
        pytest=True,
    ),
    "eval deleted": _Way(files=_A_TEST, change=_unlink(_EVAL)),
    "eval deleted, pytest": _Way(files=_A_TEST, change=_unlink(_EVAL), pytest=True),
    "eval shadowed": _Way(
        change=_append(_EVAL, "\ndef test_ticket_kind():\n    pass\n"), pytest=True
    ),
    "-k in addopts": _Way(
        change=_edit("pyproject.toml", '"no:deepeval"', '"no:deepeval", "-k", "not invoice"')
    ),
    "-k in pytest.ini": _Way(
        files={"pytest.ini": "[pytest]\naddopts = -p no:deepeval -k 'bug or question'\n"}
    ),
    "-k in pytest.ini, pytest": _Way(
        files={"pytest.ini": "[pytest]\naddopts = -p no:deepeval -k 'not invoice'\n"}, pytest=True
    ),
    "--deselect in addopts": _Way(
        change=_edit(
            "pyproject.toml",
            '"no:deepeval"',
            f'"no:deepeval", "--deselect={_EVAL}::test_ticket_kind[paid-twice]"',
        )
    ),
    "conftest.py drops cases": _Way(
        files={
            "evals/conftest.py": "def pytest_collection_modifyitems(config, items):\n"
            "    gone = [i for i in items if any(c in i.name for c in "
            f"{_CASES!r})]\n    items[:] = [i for i in items if i not in gone]\n"
            "    config.hook.pytest_deselected(items=gone)\n"
        }
    ),
    "conftest.py drops all": _Way(
        files={
            "evals/conftest.py": "def pytest_collection_modifyitems(items):\n    items[:] = []\n"
        }
    ),
    "collect_ignore": _Way(
        files={**_A_TEST, "evals/conftest.py": "collect_ignore = ['test_ticket_kind.py']\n"},
        pytest=True,
    ),
    "cases tracked": _Way(change=_of_billing(tier="tracked")),
    "cases tracked, pytest": _Way(change=_of_billing(tier="tracked"), pytest=True),
    "cases deleted": _Way(change=_with_rows(lambda row: None if row["id"] in _CASES else row)),
    "cases renamed": _Way(
        change=_with_rows(
            lambda row: {**row, "id": f"{row['id']}-2"} if row["id"] in _CASES else row
        )
    ),
    "cases renamed and tracked": _Way(
        change=_with_rows(
            lambda row: (
                {**row, "id": f"{row['id']}-2", "tier": "tracked"} if row["id"] in _CASES else row
            )
        )
    ),
    "dataset emptied": _Way(change=lambda project: project.write({_GOLDEN: ""})),
    "dataset deleted": _Way(change=_unlink(_GOLDEN)),
    "smaller dataset": _Way(
        change=_all(
            lambda project: project.write(
                {
                    "fixtures/golden/small.jsonl": json.dumps(_rows(project, _GOLDEN)[0]) + "\n",
                    **_eval_with(', dataset="small"'),
                }
            )
        )
    ),
    "baseline deleted": _Way(change=_unlink(_BASELINE)),
    "baseline and cases deleted": _Way(
        change=_all(
            _unlink(_BASELINE), _with_rows(lambda row: None if row["id"] in _CASES else row)
        )
    ),
    "baseline forged": _Way(change=_forged_baseline),
    "prompt renamed": _Way(change=_renamed_prompt),
    "lock deleted": _Way(change=_unlink("prompts/prompts.lock")),
    "recordings forged": _Way(change=_forged_recordings),
    "recordings forged, --record all": _Way(
        change=_forged_recordings, args=("gate", "main", "--record", "all")
    ),
    "recordings forged, replay": _Way(
        change=_forged_recordings,
        args=("gate", "main", "--record", "none"),
        known="replay: the decision is marked provisional",
    ),
}


def _tries(shared: Path) -> Iterator[Try]:
    base = recorded_tickets(shared)
    for _ in range(3):
        ended = base.regauge("baseline", "update", "--new-session")
        assert ended.code == 0, ended.text
    commit_all(base, "baseline")
    for name, way in _WAYS.items():
        yield Try(name=name, failure=partial(_accepted, base, way), known=way.known)
    yield Try(name="a harmless change is accepted", failure=partial(_harmless, base))
    yield Try(name="gate trials committed with the change", failure=_brought_along)


def _harmless(base: Project, root: Path) -> str:
    project = copied(base, root)
    project.git("checkout", "-q", "-b", "change")
    project.edit(_PROMPT, "Answer with the category only", "Reply with the category only")
    ended = project.regauge("bump", "ticket-kind", "minor", "-m", "Reply")
    commit_all(project)
    ended = project.regauge("gate", "main")
    return "" if ended.code == 0 else f"exit code {ended.code}: {ended.tail(2)}"


def _accepted(base: Project, way: _Way, root: Path) -> str:
    project = copied(base, root)
    project.git("checkout", "-q", "-b", "change")
    project.edit(_PROMPT, _BILLING, "")
    ended = project.regauge("bump", "ticket-kind", "minor", "-m", "Say less")
    assert ended.code == 0, ended.text
    project.write(way.files)
    if way.settings:
        _append("pyproject.toml", f"\n{way.settings}")(project)
    if way.change is not None:
        way.change(project)
    commit_all(project)
    run = partial(project.pytest, "evals", "--gate", "main") if way.pytest else project.regauge
    ended = run(*(() if way.pytest else way.args))
    if "INTERNALERROR" in ended.text or "Traceback" in ended.text:
        return f"traceback, exit code {ended.code}: {ended.tail(2)}"
    if ended.code != 0:
        return ""
    if way.known and "provisional" not in ended.text:
        raise AssertionError("accepted, and not marked as provisional")
    return f"accepted: {ended.tail(2)}"


def _brought_along(root: Path) -> str:
    """The change commits `.regauge`, with trials that its author made with a kinder server."""

    def strict(request: Request) -> Reply:
        wrong = "Say less" in request.text
        return Reply(body=completion("wrong" if wrong else "right"))

    with stub(lambda _: Reply(body=completion("right"))) as server:
        project = stub_project(
            root, server.base_url, inputs=["right"] * 8, judges='equals("right")'
        )
        project.git("init", "-q", "-b", "main")
        for step in (["bump", "notes"], ["record"], ["baseline", "update", "--new-session"]):
            ended = project.regauge(*step)
            assert ended.code == 0, ended.text
        commit_all(project)
        project.git("checkout", "-q", "-b", "change")
        project.edit("prompts/notes.prompt.yml", "Repeat.", "Say less.")
        assert project.regauge("bump", "notes", "minor", "-m", "Less").code == 0
        commit_all(project)
        assert project.regauge("gate", "main").code == 0
        project.git("add", "-f", ".regauge")
        commit_all(project)
        clone = Project(root / "clone")
        project.git("clone", "-q", "-b", "change", ".", str(clone.root))
        clone.git("branch", "-q", "main", "origin/main")
        server.behave = strict
        ended = clone.regauge("gate", "main")
    return f"accepted: {ended.tail(2)}" if ended.code == 0 else ""


GATE = Drill(
    name="gate",
    about="changes that break a prompt and edit the bar",
    tries=_tries,
    quick=8,
)
