"""The working set of `regauge init`: a prompt, golden cases, an eval and workflows."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from regauge.files import read_regular, write_whole
from regauge.model_id import is_simulated, parse_model_id
from regauge.project import Project
from regauge.prompts import lock_of, parse_prompt, prompt_files
from regauge.providers.registry import declared_endpoint
from regauge.scaffold._files import NewFile, PlannedFile, merge_pyproject, refuse_blocked, template
from regauge.scaffold._workflows import WorkflowContext, read_document, workflow, workflow_path
from regauge.schemas import schema_text
from regauge.strict_json import mapping_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.scaffold._workflows import Install


PROMPT = "ticket-kind"
_SAME = "is the same"
_WORKFLOWS = ("evals", "comment")
_DEPTH_MAX = 4
_CONFIG_BYTES_MAX = 1_000_000


def plan_working_set(root: Path, install: Install | None = None) -> list[PlannedFile]:
    """Plan each file, in reading order, without writing it.

    Prompt, cases and eval are one example. They are left out if one of them exists with another
    text, or the project has its own prompts or a live model. The workflow `comment` is left out if
    the workflow `evals` is not ours, since it would not run.

    Args:
        root: The project's root.
        install: The script that installs regauge in workflows; None for no workflows.

    Raises:
        UsageError: A file has the name of a required directory.
        ConfigError: pyproject.toml is not TOML, or its settings cannot be read.
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
    for file in (*trio, *rest, ignore):
        refuse_blocked(root, file.path)
    changed = [file.path for file in trio if _differs(root, file)]
    user_file = next(iter([*changed, *find_user_prompts(root)]), "")
    model = Project(root=root).settings.model or "sim:"
    # The example would fail with another model.
    mismatch = "" if is_simulated(model) else f"it is for the simulated model, not for {model}"
    plans = [_plan(root, file, user_file=user_file, mismatch=mismatch) for file in trio]
    plans += [_plan(root, file) for file in rest]
    plans += _planned_workflows(root, install)
    return [*plans, _plan(root, ignore), settings]


def _planned_workflows(root: Path, install: Install | None) -> list[PlannedFile]:
    """Plan the workflows, which are not written without a pin of regauge."""
    for name in _WORKFLOWS:
        refuse_blocked(root, workflow_path(name))
    if install is None:
        paths = [root / workflow_path(name) for name in _WORKFLOWS]
        exists, pins = "is there already", "not written: nothing here pins regauge"
        return [
            PlannedFile(path=path, action="keep", reason=exists if path.exists() else pins)
            for path in paths
        ]
    context = WorkflowContext.of_project(Project(root=root), install, find_models(root))
    evals, comment = (workflow(name, context) for name in _WORKFLOWS)
    other = evals.path if _differs(root, evals) else ""
    return [_plan(root, evals), _plan(root, comment, user_file=other)]


def write_plans(root: Path, plans: Iterable[PlannedFile]) -> list[PlannedFile]:
    """Write the planned files, release the example prompt, and return all changes."""
    done: list[PlannedFile] = []
    for plan in plans:
        if plan.action != "keep":
            write_whole(plan.path, plan.text.encode())
        done.append(plan)
        is_own = plan.action == "write" or plan.reason == _SAME
        if is_own and plan.path.name == f"{PROMPT}.prompt.yml":
            done += _plan_release(root, plan.path)
    return done


def _plan_release(root: Path, prompt: Path) -> list[PlannedFile]:
    """Add the example prompt to the lock, unless it has a release of it."""
    lock = lock_of(root / "prompts")
    if lock.entries_of(PROMPT):
        return []
    locked = lock.path.exists()
    released = lock.add(parse_prompt(template("prompt.yml"), path=prompt))
    released.save()
    return [
        PlannedFile(path=lock.path, action="add" if locked else "write", reason=f"{PROMPT} 1.0.0")
    ]


def _plan(root: Path, file: NewFile, *, user_file: str = "", mismatch: str = "") -> PlannedFile:
    path = root / file.path
    if _differs(root, file):
        reason = "is there already"
    elif path.is_file():
        reason = _SAME
    elif user_file or mismatch:
        reason = f"not written: {f'{user_file} is your own' if user_file else mismatch}"
    else:
        return PlannedFile(path=path, action="write", text=file.text)
    return PlannedFile(path=path, action="keep", reason=reason)


def _differs(root: Path, file: NewFile) -> bool:
    path = root / file.path
    if not path.is_file():
        return path.exists() or path.is_symlink()
    return path.read_bytes() != file.text.encode()


def find_user_prompts(root: Path) -> list[str]:
    """The prompt files below prompts/, without the example of `regauge init`."""
    example = root / f"prompts/{PROMPT}.prompt.yml"
    rubrics = root / "prompts" / "judges"
    return [
        path.relative_to(root).as_posix()
        for path in prompt_files(root / "prompts")
        if path != example and not path.is_relative_to(rubrics)
    ]


def find_importable_files(root: Path) -> list[str]:
    """Configurations of promptfoo in a project, and prompt files outside of prompts/."""
    values: list[str] = []
    for directory, names, files in os.walk(root):
        folder = Path(directory)
        visible = (name for name in names if not name.startswith(".") or name == ".github")
        names[:] = sorted({*visible} - {"node_modules", "venv", "__pycache__"})
        if folder == root and "prompts" in names:
            names.remove("prompts")
        if len(folder.relative_to(root).parts) >= _DEPTH_MAX:
            names.clear()
        tools = mapping_of(read_document(folder / "pyproject.toml").get("tool"))
        if folder != root and "regauge" in tools:
            names.clear()  # a project of its own
            continue
        values += [
            (folder / name).relative_to(root).as_posix()
            for name in sorted(files)
            if re.fullmatch(r"promptfooconfig.*\.(ya?ml|json)|.+\.prompt\.ya?ml", name)
        ]
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """A model in a file of the project.

    Attributes:
        model: The model, as `provider:model`.
        path: The file, relative to the root.
        key_env: The variable with its key; None if unknown.
    """

    model: str
    path: str
    key_env: str | None


_MODEL_LINE = re.compile(r"^model:\s*['\"]?([\w.-]+[:/][^\s'\"#]+)", re.MULTILINE)
# A provider of promptfoo may have an API between its name and the model.
_PROMPTFOO_MODEL = re.compile(
    r"(?<![\w:./-])(openai|anthropic):(?:(?:chat|completion|responses|messages):)?([\w.-]+)"
)
_KEY_LINE = re.compile(r"\bapiKeyEnvar['\"]?:\s*['\"]?(\w+)")


def find_models(root: Path) -> list[ModelUse]:
    """The models in prompt files and configurations of promptfoo, once per file."""
    settings = Project(root=root).settings
    models: dict[tuple[str, str], ModelUse] = {}
    for path in [*find_user_prompts(root), *find_importable_files(root)]:
        try:
            data = read_regular(root / path)[:_CONFIG_BYTES_MAX]
        except OSError:  # `regauge lint` reports a file that cannot be read
            continue
        text = data.decode("utf-8", "replace")
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
                (path, str(model)), ModelUse(model=str(model), path=path, key_env=key)
            )
    return list(models.values())
