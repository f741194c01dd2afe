"""The working set of `regauge init`: a prompt, golden cases, an eval and what runs them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from regauge.model_id import is_simulated, parse_model_id
from regauge.project import Project
from regauge.prompts import lock_of, parse_prompt, prompt_files
from regauge.providers.registry import declared_endpoint
from regauge.scaffold._files import (
    NewFile,
    Planned,
    merge_pyproject,
    refuse_blocked,
    template,
    write_file,
)
from regauge.scaffold._workflows import WorkflowContext, WorkflowHost, workflow, workflow_path
from regauge.schemas import schema_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.scaffold._workflows import Install


PROMPT = "ticket-kind"
_SAME = "is the same"
_WORKFLOWS = ("evals", "comment")
_DEPTH_MAX = 4
_CONFIG_BYTES_MAX = 1_000_000


def plan_working_set(root: Path, install: Install | None = None) -> list[Planned]:
    """Plan each file, in reading order; nothing is written.

    Prompt, cases and eval are an example and belong together: they are left out where one of them
    is there with another text, where the project has prompts of its own, and where its model is not
    simulated. The comment belongs to our workflow: with another one it would never run.

    Args:
        root: Of the project.
        install: Installs regauge in workflows; without it there are none.

    Raises:
        UsageError: A file has the name of a directory that is needed.
        ConfigError: pyproject.toml is no TOML, or its settings cannot be read.
    """
    settings = merge_pyproject(root)
    trio = [
        NewFile(path=f"prompts/{PROMPT}.prompt.yml", text=template("prompt.yml")),
        NewFile(path=f"fixtures/golden/{PROMPT}.jsonl", text=template("golden.jsonl")),
        NewFile(path="evals/test_ticket_kind.py", text=template("eval.py.txt")),
    ]
    rest = [
        NewFile(path="evals/conftest.py", text=template("conftest.py.txt")),
        NewFile(path="prompts/prompt.schema.json", text=schema_text("prompt")),
    ]
    ignore = NewFile(path=".gitignore", text=template("gitignore.txt"))
    for piece in (*trio, *rest, ignore):
        refuse_blocked(root, piece.path)
    taken = next((piece.path for piece in trio if _differs(root, piece)), "")
    planned = [
        _plan(root, piece, taken=taken or next(iter(own_prompts(root)), ""), unfit=_unfit(root))
        for piece in trio
    ]
    planned += [_plan(root, piece) for piece in rest]
    planned += _planned_workflows(root, install)
    return [*planned, _plan(root, ignore), settings]


def _planned_workflows(root: Path, install: Install | None) -> list[Planned]:
    """The workflows, which are not written where nothing says which regauge they install."""
    for name in _WORKFLOWS:
        refuse_blocked(root, workflow_path(name))
    if install is None:
        paths = [root / workflow_path(name) for name in _WORKFLOWS]
        exists, pins = "is there already", "not written: nothing here pins regauge"
        return [
            Planned(path=path, action="keep", reason=exists if path.exists() else pins)
            for path in paths
        ]
    repository = WorkflowHost.from_repository(root)
    context = WorkflowContext.of_project(
        Project(root=root),
        repository=repository,
        install=install,
        models=[(model.model, model.key_env) for model in found_models(root)],
    )
    evals, comment = (workflow(name, context) for name in _WORKFLOWS)
    other = evals.path if _differs(root, evals) else ""
    return [_plan(root, evals), _plan(root, comment, taken=other)]


def write_planned(root: Path, planned: Iterable[Planned]) -> list[Planned]:
    """Write what is planned, and release the prompt once it is there; says what was done.

    Raises:
        UsageError: A file cannot be written; those before it are.
    """
    done: list[Planned] = []
    for plan in planned:
        if plan.action != "keep":
            write_file(root, plan.path, plan.text.encode())
        done.append(plan)
        is_own = plan.action == "write" or plan.reason == _SAME
        if is_own and plan.path.name == f"{PROMPT}.prompt.yml":
            done += _plan_release(root, plan.path)
    return done


def _plan_release(root: Path, prompt: Path) -> list[Planned]:
    """Add our prompt to the lock; nothing where the lock has a release of it."""
    lock = lock_of(root / "prompts")
    if lock.entries_of(PROMPT):
        return []
    locked = lock.path.exists()
    released = lock.add(parse_prompt(template("prompt.yml"), path=prompt))
    write_file(root, lock.path, str(released).encode())
    return [Planned(path=lock.path, action="add" if locked else "write", reason=f"{PROMPT} 1.0.0")]


def _plan(root: Path, piece: NewFile, *, taken: str = "", unfit: str = "") -> Planned:
    path = root / piece.path
    if _differs(root, piece):
        reason = "is there already"
    elif path.is_file():
        reason = _SAME
    elif taken or unfit:
        reason = f"not written: {f'{taken} is your own' if taken else unfit}"
    else:
        return Planned(path=path, action="write", text=piece.text)
    return Planned(path=path, action="keep", reason=reason)


def _differs(root: Path, piece: NewFile) -> bool:
    path = root / piece.path
    if not path.is_file():
        return path.exists() or path.is_symlink()
    return path.read_bytes() != piece.text.encode()


def own_prompts(root: Path) -> list[str]:
    """The prompt files of the project below prompts/, without the example of `regauge init`."""
    example = root / f"prompts/{PROMPT}.prompt.yml"
    rubrics = root / "prompts" / "judges"
    return [
        path.relative_to(root).as_posix()
        for path in prompt_files(root / "prompts")
        if path != example and not path.is_relative_to(rubrics)
    ]


def suites_to_import(root: Path) -> list[str]:
    """The configurations of promptfoo in a project, and prompt files outside of prompts/."""
    values: list[str] = []
    for directory, names, files in os.walk(root):
        here = Path(directory)
        visible = (name for name in names if not name.startswith(".") or name == ".github")
        names[:] = sorted({*visible} - {"node_modules", "venv", "__pycache__"})
        if here == root and "prompts" in names:
            names.remove("prompts")
        if len(here.relative_to(root).parts) >= _DEPTH_MAX:
            names.clear()
        values += [
            (here / name).relative_to(root).as_posix()
            for name in sorted(files)
            if re.fullmatch(r"promptfooconfig.*\.(ya?ml|json)|.+\.prompt\.ya?ml", name)
        ]
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """A model that a file of the project names.

    Attributes:
        model: As `provider:model`.
        path: The file, relative to the root.
        key_env: The variable with its key; None where none is known.
    """

    model: str
    path: str
    key_env: str | None


_MODEL_LINE = re.compile(r"^model:\s*['\"]?([\w.-]+[:/][^\s'\"#]+)", re.MULTILINE)
# A provider of promptfoo may have a kind of API between its name and the model.
_PROMPTFOO_MODEL = re.compile(
    r"(?<![\w:./-])(openai|anthropic):(?:(?:chat|completion|responses|messages):)?([\w.-]+)"
)
_KEY_LINE = re.compile(r"\bapiKeyEnvar['\"]?:\s*['\"]?(\w+)")


def found_models(root: Path) -> list[FoundModel]:
    """The models that prompt files and configurations of promptfoo name, each once per file."""
    settings = Project(root=root).settings
    models: dict[tuple[str, str], FoundModel] = {}
    for path in [*own_prompts(root), *suites_to_import(root)]:
        text = (root / path).read_bytes()[:_CONFIG_BYTES_MAX].decode("utf-8", "replace")
        is_prompt = path.endswith((".prompt.yml", ".prompt.yaml"))
        matches = [*(_MODEL_LINE if is_prompt else _PROMPTFOO_MODEL).finditer(text)]
        for match, after in zip_longest(matches, matches[1:]):
            end = after.start() if after is not None else len(text)
            own_key = None if is_prompt else _KEY_LINE.search(text, match.end(), end)
            name = match[1] if is_prompt else f"{match[1]}:{match[2]}"
            model = parse_model_id(name)
            endpoint = declared_endpoint(settings, model.provider)
            key = own_key[1] if own_key else endpoint.api_key_env if endpoint else None
            models.setdefault(
                (path, str(model)), FoundModel(model=str(model), path=path, key_env=key)
            )
    return list(models.values())


def _unfit(root: Path) -> str:
    """The reason why the example would fail: its expectations are those of the simulated model."""
    model = Project(root=root).settings.model or "sim:"
    return "" if is_simulated(model) else f"it is for the simulated model, not for {model}"
