"""Ways to a green `pytest evals` that measured nothing, or hid what it measured."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ._project import TICKETS, Project, copied, recorded_tickets
from ._try import Drill, Try

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

__all__ = ["GREEN"]

_EVAL = "evals/test_ticket_kind.py"
_GOLDEN = "fixtures/golden/ticket-kind.jsonl"
_PASSING = {"evals/test_a.py": "def test_a():\n    pass\n"}
_REPLAY = ("--record=none",)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How a project is made to measure nothing.

    Attributes:
        wrong: All cases expect something else than the recordings hold, so a measured run fails.
    """

    eval_code: str = ""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    change: Callable[[Project], object] | None = None
    args: tuple[str, ...] = _REPLAY
    wrong: bool = False
    known: str = ""


def _code(judges: str, body: str = "result.check()", *, above: str = "", top: str = "") -> str:
    lines = [
        "import contextlib, math, os, sys, unittest",
        "import pytest",
        "from regauge import golden",
        "from regauge.judges import *",
        "from regauge.judges import Verdict",
        top,
        "",
        above,
        f'@golden("ticket-kind", judges=[{judges}])',
        "def test_ticket_kind(result):",
        textwrap.indent(textwrap.dedent(body), "    "),
    ]
    return "\n".join(lines) + "\n"


def _judge(body: str, top: str = "", *, first: str = "") -> str:
    function = "def odd(output, case):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    return _code(f"{first}odd", top=f"{top}\n{function}")


def _expect_nonsense(project: Project) -> None:
    path = project.root / _GOLDEN
    text = path.read_text(encoding="utf-8")
    for kind in {kind for _, kind in TICKETS.values()}:
        text = text.replace(f'"expected": "{kind}"', '"expected": "nonsense"')
    path.write_text(text, encoding="utf-8")


def _renamed(project: Project) -> None:
    (project.root / _EVAL).rename(project.root / "evals/ticket_kind.py")


def _no_recordings(project: Project) -> None:
    for path in (project.root / "fixtures/recordings").glob("*.jsonl"):
        path.unlink()
    for path in (project.root / ".regauge").glob("store.sqlite3*"):
        path.unlink()


def _half_recordings(project: Project) -> None:
    path = project.root / "fixtures/recordings/ticket-kind.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    _no_recordings(project)
    path.write_text("".join(lines[: len(lines) // 2]), encoding="utf-8")


def _write(name: str, text: str) -> Callable[[Project], None]:
    return lambda project: project.write({name: text})


def _unlink(name: str) -> Callable[[Project], None]:
    return lambda project: (project.root / name).unlink()


def _addopts(line: str) -> dict[str, str]:
    return {"pytest.ini": f"[pytest]\n{line}\n", **_PASSING}


_CHECKED = "equals()"
_SKIP_HOOK = "import pytest\ndef pytest_runtest_setup(item):\n    pytest.skip('x')\n"
_SKIP_FIXTURE = "import pytest\n@pytest.fixture(autouse=True)\ndef no(): pytest.skip('x')\n"
_MARK_FIXTURE = """\
import pytest
@pytest.fixture(autouse=True)
def no(request): request.node.add_marker(pytest.mark.xfail(run=False))
"""
_TRY_ALL = "try:\n    result.check()\nexcept BaseException:\n    pass"

_WAYS: dict[str, _Way] = {
    "skip mark": _Way(eval_code=_code(_CHECKED, above="@pytest.mark.skip")),
    "skip mark below golden": _Way(
        eval_code=_code(_CHECKED).replace("def test", "@pytest.mark.skip\ndef test")
    ),
    "skipif": _Way(eval_code=_code(_CHECKED, above="@pytest.mark.skipif(True, reason='x')")),
    "unittest.skip": _Way(eval_code=_code(_CHECKED, above="@unittest.skip('x')")),
    "pytestmark": _Way(eval_code=_code(_CHECKED, top="pytestmark = pytest.mark.skip")),
    "skip mark, -n 2": _Way(
        eval_code=_code(_CHECKED, above="@pytest.mark.skip"), args=(*_REPLAY, "-n", "2")
    ),
    "skip in the body": _Way(eval_code=_code(_CHECKED, "pytest.skip('x')")),
    "SkipTest in the body": _Way(eval_code=_code(_CHECKED, "raise unittest.SkipTest('x')")),
    "skip after the check": _Way(
        eval_code=_code(_CHECKED, "try:\n    result.check()\nfinally:\n    pytest.skip('x')"),
        wrong=True,
    ),
    "skip in a judge": _Way(eval_code=_judge("pytest.skip('x')")),
    "SkipTest in a judge": _Way(eval_code=_judge("raise unittest.SkipTest('x')")),
    "importorskip in a judge": _Way(eval_code=_judge("pytest.importorskip('no_such_module_x')")),
    "skip in a judge behind a rule": _Way(
        eval_code=_judge("pytest.skip('x')", first="one_of(['bug', 'billing', 'question']), ")
    ),
    "xfail in a judge": _Way(eval_code=_judge("pytest.xfail('x')")),
    "xfail(run=False)": _Way(eval_code=_code(_CHECKED, above="@pytest.mark.xfail(run=False)")),
    "xfail in the body": _Way(eval_code=_code(_CHECKED, "pytest.xfail('x')")),
    "xfail without recordings": _Way(
        eval_code=_code(_CHECKED, above="@pytest.mark.xfail"), change=_no_recordings
    ),
    "xfail added by a fixture": _Way(files={"evals/conftest.py": _MARK_FIXTURE}),
    "skip in a fixture": _Way(files={"evals/conftest.py": _SKIP_FIXTURE}),
    "skip in a hook": _Way(files={"evals/conftest.py": _SKIP_HOOK}),
    "swallowed check": _Way(eval_code=_code(_CHECKED, _TRY_ALL), wrong=True),
    "suppressed check": _Way(
        eval_code=_code(_CHECKED, "with contextlib.suppress(BaseException):\n    result.check()"),
        wrong=True,
    ),
    "raises around the check": _Way(
        eval_code=_code(_CHECKED, "with pytest.raises(BaseException):\n    result.check()"),
        wrong=True,
    ),
    "no check": _Way(eval_code=_code(_CHECKED, "pass"), wrong=True),
    "return before the check": _Way(
        eval_code=_code(_CHECKED, "return\nresult.check()"), wrong=True
    ),
    "two checks, both swallowed": _Way(
        eval_code=_code(_CHECKED, f"{_TRY_ALL}\n{_TRY_ALL}"), wrong=True
    ),
    "exit in the body": _Way(eval_code=_code(_CHECKED, "pytest.exit('x', returncode=0)")),
    "sys.exit in the body": _Way(eval_code=_code(_CHECKED, "sys.exit(0)")),
    "--setup-plan": _Way(args=(*_REPLAY, "--setup-plan")),
    "--setup-only": _Way(args=(*_REPLAY, "--setup-only")),
    "eval file renamed": _Way(files=_PASSING, change=_renamed),
    "eval file renamed, -n 2": _Way(files=_PASSING, change=_renamed, args=(*_REPLAY, "-n", "2")),
    "eval function renamed": _Way(
        files=_PASSING, eval_code=_code(_CHECKED).replace("def test_", "def check_")
    ),
    "eval shadowed by a test": _Way(
        eval_code=_code(_CHECKED) + "\n\ndef test_ticket_kind():\n    pass\n"
    ),
    "eval set to None": _Way(
        files=_PASSING, eval_code=_code(_CHECKED) + "\ntest_ticket_kind = None\n"
    ),
    "eval with __test__ = False": _Way(
        files=_PASSING, eval_code=_code(_CHECKED) + "\ntest_ticket_kind.__test__ = False\n"
    ),
    "eval never called": _Way(
        files=_PASSING,
        eval_code="def unused():\n" + textwrap.indent(_code(_CHECKED), "    "),
    ),
    "collect_ignore": _Way(
        files={**_PASSING, "evals/conftest.py": "collect_ignore = ['test_ticket_kind.py']\n"}
    ),
    "python_functions": _Way(files=_addopts("python_functions = test_a")),
    "python_files": _Way(files=_addopts("python_files = test_a.py")),
    "-k in addopts": _Way(files=_addopts("addopts = -k test_a")),
    "--deselect in addopts": _Way(files=_addopts(f"addopts = --deselect={_EVAL}")),
    "--ignore in addopts": _Way(files=_addopts(f"addopts = --ignore={_EVAL}")),
    "importorskip": _Way(
        files=_PASSING, eval_code=_code(_CHECKED, top="pytest.importorskip('no_such_module_x')")
    ),
    "module skip": _Way(
        files=_PASSING,
        eval_code=_code(_CHECKED, top="pytest.skip('x', allow_module_level=True)"),
    ),
    "import error": _Way(files=_PASSING, eval_code="import no_such_module_x\n"),
    "empty dataset": _Way(files=_PASSING, change=_write(_GOLDEN, "")),
    "blank dataset": _Way(files=_PASSING, change=_write(_GOLDEN, "\n\n  \n")),
    "byte order mark alone": _Way(files=_PASSING, change=_write(_GOLDEN, "\ufeff")),
    "missing dataset": _Way(files=_PASSING, change=_unlink(_GOLDEN)),
    "-k without a match": _Way(args=(*_REPLAY, "-k", "nothing_like_it")),
    "-m without a match": _Way(args=(*_REPLAY, "-m", "nothing_like_it")),
    "--deselect of all": _Way(args=(*_REPLAY, f"--deselect={_EVAL}")),
    "--ignore of all": _Way(args=(*_REPLAY, f"--ignore={_EVAL}")),
    "judge raises": _Way(eval_code=_judge("raise ValueError('x')")),
    "judge returns None": _Way(eval_code=_judge("return None")),
    "judge returns NaN": _Way(eval_code=_judge("return math.nan")),
    "judge returns infinity": _Way(eval_code=_judge("return math.inf")),
    "judge returns a text": _Way(eval_code=_judge("return 'pass'")),
    "judge returns 5": _Way(eval_code=_judge("return 5")),
    "judge returns itself": _Way(eval_code=_judge("return odd")),
    "judge returns a generator": _Way(eval_code=_judge("yield True")),
    "judge is async and raises": _Way(
        eval_code=_judge("raise ValueError").replace("def odd", "async def odd")
    ),
    "judge exits": _Way(eval_code=_judge("sys.exit(0)")),
    "judge ends pytest": _Way(eval_code=_judge("pytest.exit('x', returncode=0)")),
    "judge interrupts": _Way(eval_code=_judge("raise KeyboardInterrupt")),
    "judge abstains": _Way(
        eval_code=_judge("return Verdict(outcome='abstain', score=0.0, reason='x')")
    ),
    "verdict with a score of NaN": _Way(
        eval_code=_judge("return Verdict(outcome='pass', score=math.nan, reason='x')")
    ),
    "verdict with an infinite score": _Way(
        eval_code=_judge("return Verdict(outcome='pass', score=math.inf, reason='x')")
    ),
    "verdict with a score of 7": _Way(
        eval_code=_judge("return Verdict(outcome='pass', score=7.0, reason='x')")
    ),
    "verdict of another kind": _Way(
        eval_code=_judge("return Verdict(outcome='great', score=1.0, reason='x')")
    ),
    "judges=[]": _Way(eval_code=_code("")),
    "no recordings": _Way(change=_no_recordings),
    "half of the recordings": _Way(change=_half_recordings),
    "no recordings, -x": _Way(change=_no_recordings, args=(*_REPLAY, "-x")),
    "no recordings, --maxfail": _Way(change=_no_recordings, args=(*_REPLAY, "--maxfail=1")),
    "recordings of another model": _Way(args=(*_REPLAY, "--model", "sim:clerk-2")),
    "budget of no call": _Way(change=_no_recordings, args=("--budget-calls", "0")),
    "worker dies": _Way(eval_code=_judge("os._exit(0)"), args=(*_REPLAY, "-n", "2")),
    "trials=0": _Way(eval_code=_code(_CHECKED).replace("judges=", "trials=0, judges=")),
    "pass_rate=0": _Way(
        eval_code=_code(_CHECKED).replace("judges=", "pass_rate=0.0, judges="), wrong=True
    ),
    "pass_rate=NaN": _Way(
        eval_code=_code(_CHECKED).replace("judges=", "pass_rate=math.nan, judges="), wrong=True
    ),
    "golden on a class": _Way(
        files=_PASSING,
        eval_code=_code(_CHECKED).replace("def test_ticket_kind(result):", "class TestIt:"),
    ),
    "eval without result": _Way(
        eval_code=_code(_CHECKED, "pass").replace("(result)", "()"), wrong=True
    ),
    "result as a parameter": _Way(
        eval_code=_code(_CHECKED, "pass", above="@pytest.mark.parametrize('result', [1])")
    ),
    "without the plugin": _Way(args=("-p", "no:regauge")),
    "another rootdir": _Way(args=(*_REPLAY, "--rootdir", "evals"), change=_no_recordings),
    "os._exit(0) in a judge": _Way(
        eval_code=_judge("os._exit(0)"), known="the process is gone before pytest can report"
    ),
    "a hook rewrites reports": _Way(
        wrong=True,
        files={
            "conftest.py": "import pytest\n@pytest.hookimpl(hookwrapper=True, tryfirst=True)\n"
            "def pytest_runtest_makereport(item, call):\n"
            "    out = yield\n    out.get_result().outcome = 'passed'\n"
        },
        known="conftest.py is code of the project and may change every report",
    ),
    "a hook rewrites the exit code": _Way(
        wrong=True,
        files={
            "conftest.py": "import pytest, os\n@pytest.hookimpl(trylast=True)\n"
            "def pytest_unconfigure(config):\n    os._exit(0)\n"
        },
        known="conftest.py is code of the project and may end the process",
    ),
    "a hook drops items": _Way(
        files={
            "conftest.py": "import pytest\n@pytest.hookimpl(trylast=True)\n"
            "def pytest_collection_modifyitems(items):\n    items[:] = items[-1:]\n",
            **_PASSING,
        },
        known="conftest.py is code of the project and may choose what is collected",
    ),
    "an own fixture named result": _Way(
        wrong=True,
        files={
            "evals/conftest.py": "import pytest\nclass R:\n    def check(self): pass\n"
            "@pytest.fixture\ndef result(): return R()\n"
        },
        known="fixtures override each other in pytest",
    ),
    "all cases tracked": _Way(
        wrong=True,
        change=lambda project: project.edit(_GOLDEN, '"inputs"', '"tier": "tracked", "inputs"'),
        known="tracked cases block nothing; the table counts them",
    ),
    "--collect-only": _Way(args=("--collect-only",), known="pytest lists items on request"),
    "--fixtures": _Way(args=("--fixtures",), known="pytest lists fixtures on request"),
    "--markers": _Way(args=("--markers",), known="pytest lists marks on request"),
    "--help": _Way(args=("--help",), known="pytest shows its help on request"),
}


_MEASURED = {
    "measured: as it is": _Way(),
    "measured: next to a test": _Way(files=_PASSING),
    "measured: the eval of the drill": _Way(eval_code=_code(_CHECKED)),
    "measured: a judge of the drill": _Way(eval_code=_judge("return True")),
    "measured: -n 2": _Way(args=(*_REPLAY, "-n", "2")),
    "measured: with a conftest.py": _Way(files={"evals/conftest.py": "import pytest\n"}),
    "measured: -k on the command line": _Way(args=(*_REPLAY, "-k", "paid-twice")),
}


def _tries(shared: Path) -> Iterator[Try]:
    base = recorded_tickets(shared)
    for name, way in _WAYS.items():
        yield Try(name=name, failure=partial(_green, base, way), known=way.known)
    for name, way in _MEASURED.items():
        yield Try(name=name, failure=partial(_red, base, way))


def _red(base: Project, way: _Way, root: Path) -> str:
    """The opposite: these measure, and the drill is worth something only if they are green."""
    return "" if _green(base, way, root) else "a measured run is not green"


def _green(base: Project, way: _Way, root: Path) -> str:
    project = copied(base, root)
    project.write(way.files)
    if way.eval_code:
        project.write({_EVAL: way.eval_code})
    if way.wrong:
        _expect_nonsense(project)
    if way.change is not None:
        way.change(project)
    ended = project.pytest("evals", *way.args)
    return f"exit code 0: {ended.tail(2)}" if ended.code == 0 else ""


GREEN = Drill(
    name="green",
    about="ways to a green `pytest evals` that measured nothing, or hid what it measured",
    tries=_tries,
    quick=8,
)
