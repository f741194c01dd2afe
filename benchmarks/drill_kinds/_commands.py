"""Workflow commands of GitHub Actions in outputs, judges, errors, datasets and prompts.

Two documented forms are looked for, each as leniently as it can be read: `::command::` after
blanks, and `##[command]` anywhere in a line. Characters that are not seen count as absent, since
the runner compares by the rules of a culture.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import partial
from typing import TYPE_CHECKING

from ._project import Ended, Project, commit_all, stub_project
from ._stub import Reply, Request, completion, stub
from ._try import Drill, Try

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["COMMANDS", "commands_in"]

_MARK = "x9drill"
_WRITTEN = (
    f"::stop-commands::{_MARK}",
    f"::add-mask::{_MARK}",
    f"::error file=a.py,line=1::{_MARK}",
    f"##[warning]{_MARK}",
    f"::set-output name=decision::{_MARK}",
    f"::group::{_MARK}",
    f"::add-matcher::{_MARK}.json",
)
# Not in the list of seven: the same behind other characters, and the other commands there are.
_UNSEEN = (
    f"\t \u00a0::notice::{_MARK}",
    f"\u3000::warning title={_MARK}::{_MARK}",
    f"fine\r::debug::{_MARK}",
    f"fine\u2028::error::{_MARK}",
    f"fine\x0b::save-state name=a::{_MARK}",
    f"fine\x85::echo::{_MARK}",
    f"a ##[error]{_MARK}",
    f"a ##[group]{_MARK} ##[endgroup]",
    f"\u200b::set-env name=PATH::{_MARK}",
    f":\u200b:add-path:\u200b:{_MARK}",
    f"\x1b[0m::error::{_MARK}",
    f"::\u0065rror::{_MARK}",
    f":\u00ad:error:\u00ad:{_MARK}",
    f"%0A::error::{_MARK}",
    f"::endgroup::{_MARK}",
    f"::remove-matcher owner={_MARK}::",
)
_NAMES = frozenset(
    {
        *("stop-commands", "add-mask", "error", "warning", "notice", "debug", "set-output"),
        *("save-state", "set-env", "add-path", "group", "endgroup", "add-matcher"),
        *("remove-matcher", "echo", "internal-set-repo-path", "command", "section"),
    }
)
_LINE_ENDS = re.compile("\r\n|[\n\r]")
# What regauge itself marks in a pull request; the text behind it is data of that one command.
_OWN = re.compile(r"::(error|warning|notice) file=[\w./-]+,line=\d+,title=[^:]*::")
_BLANKS = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\u00a0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def commands_in(text: str) -> list[str]:
    """The lines that a runner takes as commands."""
    return [line for line in _LINE_ENDS.split(text) if any(map(_is_command, (line, _seen(line))))]


def _seen(line: str) -> str:
    """Without format and control characters."""
    return "".join(each for each in line if unicodedata.category(each) not in {"Cf", "Cc"})


def _is_command(line: str) -> bool:
    start = line.lstrip(_BLANKS)
    if start.startswith("::"):
        inner, closed, _ = start[2:].partition("::")
        if closed and inner.partition(" ")[0].lower() in _NAMES:
            return True
    for found in re.finditer(r"##\[([^\]]*)\]", line):
        if found[1].partition(" ")[0].lower() in _NAMES | {"endgroup"}:
            return True
    return False


def _hostile(ended: Ended) -> list[str]:
    return [line for line in commands_in(ended.text) if _MARK in line and not _OWN.match(line)]


def _project(root: Path, base_url: str) -> Project:
    everything = "\n".join((*_WRITTEN, *_UNSEEN))
    judge = (
        "def accuses(output, case):\n"
        "    from regauge.judges import Verdict\n"
        "    return Verdict(outcome='fail', score=0.0, reason=output)\n\n\n"
        "def breaks(output, case):\n    raise ValueError(output)\n\n\n"
    )
    project = stub_project(
        root,
        base_url,
        inputs=[*_WRITTEN, *_UNSEEN, everything],
        judges='contains("good"), accuses',
        provider='api_key_env = "DRILL_KEY"',
    )
    project.environ.update(GITHUB_ACTIONS="true", DRILL_KEY="key-of-the-drill-1")
    project.edit("evals/test_notes.py", "@golden", judge + "@golden")
    project.write(
        {
            "evals/test_broken.py": (
                'from regauge import golden\n\n\n@golden("notes", judges=[breaks], '
                'model="stub:refuses")\ndef test_broken(result):\n    result.check()\n'
            ).replace("from regauge import golden\n", f"from regauge import golden\n\n\n{judge}", 1)
        }
    )
    return project


def _behave(request: Request) -> Reply:
    if request.body["model"] == "refuses" and request.case % 2:
        # A provider whose error text comes from others.
        body = completion(None)
        text = request.text.replace("Repeat. ", "").split(": ", 1)[-1]
        message = '{"error":{"message":' + json.dumps(text) + ',"code":"bad"}}'
        return Reply(body=message.encode() or body, status=400)
    text = request.text.replace("Repeat. ", "")
    return Reply(body=completion(text.split(": ", 1)[-1] + "\n" + "good" * (request.number % 2)))


_CALLS: tuple[tuple[str, ...], ...] = (
    ("pytest", "evals"),
    ("pytest", "evals", "-q", "--record=none"),
    ("pytest", "evals", "-v", "-n", "2"),
    ("pytest", "evals", "-rA", "--tb=long"),
    ("pytest", "evals", "--gate", "main"),
    ("pytest", "evals", "--collect-only"),
    ("record",),
    ("gate", "main"),
    ("gate", "main", "--annotations"),
    ("gate", "main", "--json"),
    ("baseline", "flaky", "notes", "--trials", "2"),
    ("report", "latest"),
    ("report", "latest", "--format", "json"),
    ("report", "latest", "--format", "csv"),
    ("report", "latest", "--format", "html"),
    (
        "runs",
        "compare",
    ),
    ("runs", "compare", "--outputs"),
    (
        "runs",
        "list",
    ),
    ("log", "notes", "--runs"),
    ("log", "notes"),
    ("show", "notes"),
    ("show", "notes", "-r", f"text=\n::error::{_MARK}"),
    ("diff", "notes", "main"),
    ("lint",),
    ("doctor",),
    ("report", "--comment", "--dry-run"),
    ("judges", "try", "equals: x", "hostile.txt"),
    ("show", f"::error::{_MARK}"),
    ("gate", f"\n::error::{_MARK}"),
)


def _tries(shared: Path) -> Iterator[Try]:
    with stub(_behave) as server:
        project = _project(shared, server.base_url)
        project.git("init", "-q", "-b", "main")
        project.regauge("bump", "notes")
        commit_all(project)
        hostile = "\n".join((*_WRITTEN, *_UNSEEN))
        project.git("checkout", "-q", "-b", "change")
        project.edit("prompts/notes.prompt.yml", "Repeat.", "Repeat.\n      Now: {{text}}")
        path = project.root / "prompts/notes.prompt.yml"
        path.write_text(
            path.read_text(encoding="utf-8")
            + "  - role: assistant\n    content: |\n"
            + "".join(f"      {line}\n" for line in _WRITTEN),
            encoding="utf-8",
        )
        project.regauge("bump", "notes", "minor", "-m", hostile.replace("\n", " "))
        project.write({"hostile.txt": hostile})
        commit_all(project, _WRITTEN[2])
        for call in _CALLS:
            run = project.pytest if call[0] == "pytest" else project.regauge
            ended = run(*call[call[0] == "pytest" :])
            name = " ".join(call).replace("\n", "\\n")
            yield Try(name=name, failure=partial(_executed, ended))


def _executed(ended: Ended, _: Path) -> str:
    if "Traceback (most recent" in ended.err:
        return f"traceback: {ended.err.splitlines()[-1]!r}"
    found = _hostile(ended)
    return f"{len(found)} commands recognised, such as {found[0]!r}" if found else ""


COMMANDS = Drill(
    name="commands",
    about="commands whose output GitHub's runner would take workflow commands from",
    tries=_tries,
    quick=99,
)
