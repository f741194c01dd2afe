"""The provider of a target: what it refuses to call, and the files that it warns of."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from regauge.datasets import GoldenCase
from regauge.errors import ProviderError
from regauge.project import CommandTarget, PythonTarget
from regauge.prompts import Message, parse_prompt
from regauge.providers import CompletionRequest
from regauge.targets import WorkingFiles, load_target
from regauge.targets._provider import TargetProvider

if TYPE_CHECKING:
    from pathlib import Path

LATE = "during its calls, so a change there leaves its recordings as they are; import it at the top"
READ = "so a change there leaves its recordings as they are; name prompts in `prompts`"


def provider_of(root: Path, target: Any, notes: list[str]) -> TargetProvider:
    return TargetProvider(
        target, home=root, environ={}, concurrency="auto", timeout_s=5, note=notes.append
    )


def test_a_target_that_cannot_be_called_gives_its_reason_to_each_case(tmp_path: Path):
    settings = CommandTarget(kind="command", argv=["touch", "called"])
    target = load_target("app", settings, root=tmp_path, files=WorkingFiles(tmp_path))
    case = GoldenCase(id="c1", inputs={"text": "a"}, expected=None, split="train", location="x:1")
    request = CompletionRequest(
        provider="command",
        model="app",
        messages=(Message(role="user", content="a"),),
        parameters={},
        case=case,
    )
    provider = provider_of(tmp_path, replace(target, unavailable="the base has no `app`"), [])
    with pytest.raises(ProviderError, match="the base has no `app`") as caught:
        asyncio.run(provider.complete(request))
    assert caught.value.kind == "unavailable"
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize(
    ("late", "notes"),
    [
        (set[str](), []),
        ({"app.py", "prompts/a.prompt.yml"}, []),
        ({"b.py", "a.py"}, [f"the target app:run imports a.py, b.py {LATE}"]),
        ({"data.txt", "app.py"}, [f"the target app:run reads data.txt, {READ}"]),
        (
            {"a.py", "data.txt", "words.csv"},
            [
                f"the target app:run imports a.py {LATE}",
                f"the target app:run reads data.txt, words.csv, {READ}",
            ],
        ),
    ],
)
def test_modules_and_files_that_a_target_does_not_declare_are_named(
    tmp_path: Path, late: set[str], notes: list[str]
):
    (tmp_path / "app.py").write_text("def run(text): ...\n")
    text = "version: 1.0.0\nmessages:\n  - {role: user, content: a}\n"
    prompt = parse_prompt(text, path=tmp_path / "prompts/a.prompt.yml")
    target = load_target(
        "app:run", PythonTarget(callable="app:run"), root=tmp_path, files=WorkingFiles(tmp_path)
    )
    printed: list[str] = []
    provider_of(tmp_path, replace(target, prompts=(prompt,)), printed)._note_undeclared(late)
    assert len(printed) == len(notes)
    assert all(map(str.startswith, printed, notes)), printed
