"""Workflows of GitHub Actions, with a script that installs the pinned regauge."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import unquote, urlsplit

import yaml

from regauge.errors import GitError, UsageError
from regauge.files import read_regular
from regauge.git import run_git, work_tree
from regauge.model_id import SIMULATED
from regauge.providers.registry import declared_endpoint
from regauge.scaffold._files import NewFile, template
from regauge.strict_json import list_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from regauge.project import Project
    from regauge.scaffold._working_set import ModelUse


# uv has no dependencies, so one version and the hash of its wheel for the runner pin it whole. The
# other tools get their dependencies as they were on a day.
_UV: Final = """\
hash=d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19
echo "uv==0.13.9 --hash=sha256:$hash" >"$RUNNER_TEMP/uv.txt"
python -m pip install --only-binary=:all: --require-hashes -r "$RUNNER_TEMP/uv.txt"
"""
_UVX: Final = "uvx --exclude-newer=2026-11-20 --from="
_LOCKS: Final = {
    "uv.lock": f"{_UV}uv sync --locked --all-extras --all-groups",
    "poetry.lock": f"{_UV}POETRY_VIRTUALENVS_IN_PROJECT=true {_UVX}poetry==2.5.1"
    " poetry sync --no-interaction --all-extras --all-groups",
    "pdm.lock": f"{_UV}PDM_IGNORE_ACTIVE_VENV=1 {_UVX}pdm==2.29.4 pdm sync --group=:all",
    "pylock.toml": f"{_UV}uv venv\nuv pip sync --require-hashes pylock.toml",
    "Pipfile.lock": f"{_UV}PIPENV_VENV_IN_PROJECT=1 {_UVX}pipenv==2026.10.3 pipenv sync --dev",
}
_REQUIREMENTS: Final = ("requirements*.txt", "requirements*.lock", "requirements/*.txt")
# Flags of pip may precede `r`; a value may follow at once, with `=` or as the next word.
_REQUIREMENTS_OPTION: Final = re.compile(r"(?:-[IUqv]*r=?|--requirements?(?:=|$))(?P<file>.*)")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_AT_COMMIT: Final = re.compile(r"git\+[a-z]+://[^\s#]+@(?:[0-9a-f]{64}|[0-9a-f]{40})(?:#\S*)?")
_SHA256: Final = re.compile(r"(?:--hash=sha256:|#sha256=)[0-9a-f]{64}")
_NAMED: Final = re.compile(r"regauge(?:\[[^\]]*\])?\s*(?P<rest>(?:[=@;\s].*)?)", re.IGNORECASE)
_WHEEL: Final = re.compile(r"regauge-[^/]*\.(?:whl|tar\.gz)", re.IGNORECASE)
_BARE: Final = re.compile(
    r"(?:\b(?:install|add|inject|pipx run)\b[^\n;&|]*?|\buvx)"
    r"\s[\"']?regauge(?:\[[^\]]*\])?[\"']?(?=\s|$|[;&|])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """A script that installs regauge.

    Attributes:
        script: The bash script, of one or more lines.
        source: The file or option of its origin.
    """

    script: str
    source: str


def parse_install(command: str) -> Install:
    """Parse the option `--install`.

    Raises:
        UsageError: It is empty, holds an expression, or installs regauge by name only.
    """
    script = command.strip()
    if not script or not re.sub(r"[\n\t]", "", script).isprintable():
        raise UsageError('--install: write a command of a shell, such as "make install"')
    if "${{" in script:
        message = "--install: `${{` would be filled in by GitHub before the shell reads the command"
        raise UsageError(message, fix="use a variable of the shell")
    if _BARE.search(script):
        raise UsageError(
            "--install: `regauge` alone installs whatever package has that name on the day\n"
            "  fix: name a lock, a version with a hash, a commit or a path, such as"
            ' "python -m pip install --require-hashes -r requirements.txt"'
        )
    return Install(script=script, source="--install")


def find_install(root: Path) -> Install | None:
    """Find the pin of regauge in a project; None without one.

    A lock, a requirements file with hashes, a commit, a path inside the project, or the source of
    the running regauge.
    """
    return next((install for install in _candidates(root) if "${{" not in install.script), None)


def _candidates(root: Path) -> Iterator[Install]:
    for name, script in _LOCKS.items():
        if any(_is_pinned(package, root) for package in _locked_entries(root / name)):
            yield Install(script=script, source=name)
    for path in sorted({path for glob in _REQUIREMENTS for path in root.glob(glob)}):
        name = path.relative_to(root).as_posix()
        for line in _logical_lines(path):
            flags = " --require-hashes" if _SHA256.search(line) and "==" in line else ""
            if _pins(line, path.parent, root):
                script = f"python -m pip install{flags} -r {shlex.quote(name)}"
                yield Install(script=script, source=name)
    project = read_document(root / "pyproject.toml")
    for line in _dependencies(project):
        if _pins(line, root, root):
            script = f"python -m pip install {shlex.quote(line)}"
            yield Install(script=script, source="pyproject.toml")
    if mapping_of(project.get("project")).get("name") == "regauge":
        yield Install(script="python -m pip install .", source="pyproject.toml")
    yield from _find_installed(root)


def _locked_entries(path: Path) -> list[Mapping[str, Any]]:
    """The entries of regauge in a lock of any tool."""
    if path.name == "Pipfile.lock":
        document = read_document(path, json.loads)
        groups = [mapping_of(document.get(name)) for name in ("default", "develop")]
        return [mapping_of(group["regauge"]) for group in groups if "regauge" in group]
    document = read_document(path)
    packages = [*list_of(document.get("package")), *list_of(document.get("packages"))]
    return [table for table in map(mapping_of, packages) if table.get("name") == "regauge"]


def _is_pinned(package: Mapping[str, Any], root: Path) -> bool:
    """Return whether an entry of a lock names hashes, a commit or a path inside the project."""
    text = json.dumps(package, default=str)
    if re.search(r"sha256[:\"= ]+[0-9a-f]{64}", text):
        return True
    words = re.findall(r'"([^"]*)"', text)
    if "git" in text and any(_COMMIT.search(word) for word in words):
        return True
    source = mapping_of(package.get("source"))
    places = [source.get(key) for key in ("directory", "editable", "path", "virtual", "url")]
    places += [package.get("path"), mapping_of(package.get("directory")).get("path")]
    return any(isinstance(place, str) and _inside(root / place, root) for place in places)


def _logical_lines(path: Path) -> list[str]:
    try:
        text = read_regular(path).decode("utf-8")
    except (OSError, ValueError):
        return []
    lines = re.sub(r"\\\r?\n", " ", text).splitlines()
    return [re.sub(r"(^|\s)#.*", "", line).strip() for line in lines]


def _pins(line: str, directory: Path, root: Path) -> bool:
    """Return whether a requirement is regauge by hash, at a commit, or at a local path."""
    match = _NAMED.fullmatch(line)
    if match is not None:
        rest = match["rest"].strip()
        if rest.startswith("=="):
            return bool(_SHA256.search(rest))
        url = rest.removeprefix("@").strip()
        if not rest.startswith("@") or _has_secret(url):
            return False
        return bool(_AT_COMMIT.match(url) or _SHA256.search(rest))
    place = re.sub(r"^(?:-e|--editable)[\s=]*", "", line).removeprefix("file:").split("[")[0]
    return place.startswith(("./", "../", "vendor/", "wheels/")) and _inside(
        directory / place.split(" ")[0], root
    )


def _inside(path: Path, root: Path) -> bool:
    """Return whether a path is a copy of regauge inside a project."""
    path = path.resolve()
    if not path.is_relative_to(root.resolve()):
        return False
    if path.is_file():
        return bool(_WHEEL.fullmatch(path.name))
    return (
        mapping_of(read_document(path / "pyproject.toml").get("project")).get("name") == "regauge"
    )


def _dependencies(project: Mapping[str, Any]) -> Iterator[str]:
    table = mapping_of(project.get("project"))
    groups: Iterable[object] = (
        table.get("dependencies"),
        *mapping_of(table.get("optional-dependencies")).values(),
        *mapping_of(project.get("dependency-groups")).values(),
    )
    for line in chain.from_iterable(map(list_of, groups)):
        if isinstance(line, str):
            yield line.strip()


def _find_installed(root: Path) -> Iterator[Install]:
    """The source of the running regauge, as its installer noted it in `direct_url.json`."""
    try:
        text = distribution("regauge").read_text("direct_url.json")
        document = mapping_of(json.loads(text or "{}"))
    except (PackageNotFoundError, ValueError):
        return
    url, source = str(document.get("url") or ""), "the installed regauge"
    commit = mapping_of(document.get("vcs_info")).get("commit_id")
    hashed = mapping_of(mapping_of(document.get("archive_info")).get("hashes")).get("sha256")
    line = ""
    if isinstance(commit, str) and _COMMIT.fullmatch(commit):
        line = f"regauge @ git+{url}@{commit}"
    elif isinstance(hashed, str) and url.startswith("https://"):
        line = f"regauge @ {url}#sha256={hashed}"
    elif url.startswith("file://"):
        path = Path(unquote(urlsplit(url).path))
        if _inside(path, root):
            place = path.resolve().relative_to(root.resolve()).as_posix()
            script = f"python -m pip install {shlex.quote(f'./{place}')}"
            yield Install(script=script, source=source)
        return
    # A local repository is not there on a runner.
    if line and not url.startswith("file:") and not _has_secret(url):
        yield Install(script=f"python -m pip install {shlex.quote(line)}", source=source)


def _has_secret(url: str) -> bool:
    """Return whether a URL holds a user name or a token."""
    user = urlsplit(url).netloc.rpartition("@")[0]
    return bool(user) and user != "git"


def read_document(path: Path, parse: Callable[[str], object] = tomllib.loads) -> Mapping[str, Any]:
    """The document of a file; empty if it cannot be read."""
    try:
        return mapping_of(parse(read_regular(path).decode("utf-8")))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}


WORKFLOWS = ("evals", "comment", "baseline", "refine")
_FOLDER = ".github/workflows"
_SHARDS = "shard: [1, 2]"
_SHARD = "matrix.shard }}/2"
_KEY = "OPENAI_API_KEY"
_PRICES = "[tool.regauge.providers.openai]"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")


def workflow_notes(root: Path, install: Install | None) -> list[str]:
    """Reasons why workflows cannot run: below the root of a repository, or without requirements."""
    if install is None:
        return []  # no workflow was written
    top = work_tree(root)
    inside = root.resolve().relative_to(top).as_posix() if top is not None else "."
    note = (
        f"GitHub runs workflows at the root of a repository alone: move {inside}/{_FOLDER} there,"
        f" and give their jobs `working-directory: {inside}`"
    )
    return [
        *([] if inside == "." else [note]),
        *(
            f"the workflows install from {name}, and there is no such file"
            for name in missing_requirements(root, install.script)
        ),
    ]


def missing_requirements(directory: Path, script: str) -> list[str]:
    """The requirements files that a script installs from, does not write, and that do not exist."""
    names: dict[str, None] = {}
    for command in re.split(r"[\n;&|]+", script.replace("\\\n", " ")):
        try:
            words = shlex.split(command, comments=True)
        except ValueError:
            continue
        if words[:1] == ["cd"]:
            break
        if "install" in words:
            options = map(_REQUIREMENTS_OPTION.fullmatch, words)
            for option, after in zip(options, [*words[1:], ""], strict=True):
                if option is not None:
                    names[option["file"] or after] = None
    return [
        name
        for name in names
        if name
        and not re.search(r"[$`*]|://", name)
        and not re.search(rf"(?:>|-o|--output(?:-file)?)[\s=]*{re.escape(name)}", script)
        and not (directory / name).is_file()
    ]


def find_missing_requirements(root: Path) -> list[tuple[str, str]]:
    """Requirements files that workflows of a project install from and that do not exist."""
    missing: dict[tuple[str, str], None] = {}
    for path in map(workflow_path, WORKFLOWS):
        for job in mapping_of(read_document(root / path, yaml.safe_load).get("jobs")).values():
            for step in map(mapping_of, list_of(mapping_of(job).get("steps"))):
                directory = root / str(step.get("working-directory", ""))
                names = missing_requirements(directory, str(step.get("run", "")))
                missing |= dict.fromkeys((path, name) for name in names)
    return list(missing)


def _default_branch(root: Path) -> str:
    """The default branch of the repository; `main` if git does not know it."""
    branch_ref = _output_of(root, "symbolic-ref", "--short", "refs/remotes/origin/HEAD")
    if branch := branch_ref.partition("/")[2]:
        return branch
    branches = _output_of(root, "for-each-ref", "--format=%(refname:short)", "refs/heads")
    current = _output_of(root, "symbolic-ref", "--short", "HEAD")
    usual = (name for name in ("main", "master") if name in branches.splitlines())
    return next(usual, current or "main")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowContext:
    """The settings of a project that a workflow uses.

    Attributes:
        branch: The default branch.
        install: The script that installs regauge.
        provider: The provider of the project's model; `openai` if it is simulated.
        keys: Variables with keys of providers, and their secrets in the repository; none if all
            models are simulated.
    """

    branch: str
    install: Install
    provider: str = "openai"
    keys: tuple[str, ...] = ()

    @classmethod
    def of_project(cls, project: Project, install: Install, models: Sequence[ModelUse]) -> Self:
        """The context of workflows in a project.

        Args:
            project: The project.
            install: The script that installs regauge.
            models: Models of prompt files, for a project whose settings name no model.

        Raises:
            ConfigError: The settings cannot be read.
        """
        settings = project.settings
        uses: Sequence[ModelUse] = () if settings.model else models
        names = [settings.model, *(use.model for use in uses), *settings.models,
                 settings.judge_model]  # fmt: skip
        providers = dict.fromkeys(name.partition(":")[0] for name in names if name)
        keys = [use.key_env for use in uses]
        for name in (*providers, *settings.providers):
            if endpoint := declared_endpoint(settings, name):
                keys += [endpoint.api_key_env, *endpoint.headers_env.values()]
        return cls(
            branch=_default_branch(project.root),
            install=install,
            provider=next((name for name in providers if name != SIMULATED), "openai"),
            keys=tuple(dict.fromkeys(key for key in keys if key and _VARIABLE.fullmatch(key))),
        )


def workflow(name: str, context: WorkflowContext, *, shards: int = 1) -> NewFile:
    """The file of one of `WORKFLOWS`.

    Args:
        name: The workflow's name.
        context: The settings of the project.
        shards: The number of machines that share the cases; only for `evals`.
    """
    branch = context.branch
    quoted = branch if _PLAIN.fullmatch(branch) else json.dumps(branch)
    lines: list[str] = []
    for line in template(f"{name}{'_shards' if shards > 1 else ''}.yml").splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        if line.strip() == "run: INSTALL":
            lines += _run(context.install.script, indent)
        elif line.strip().startswith(f"{_KEY}: "):
            # Steps that write to GitHub set the job's token themselves.
            keys = [key for key in context.keys if name == "evals" or key != "GITHUB_TOKEN"]
            lines += [line.replace(_KEY, key) for key in keys]
            if not context.keys:  # a place for the key of a model that is not simulated
                lines.append(f"{indent}# {line.strip()}")
        else:
            lines.append(line)
    text = "".join(f"{line}\n" for line in lines)
    text = text.replace("branches: [main]", f"branches: [{quoted}]")
    numbers = ", ".join(map(str, range(1, shards + 1)))
    text = text.replace(_SHARDS, f"shard: [{numbers}]").replace(_SHARD, f"{_SHARD[:-1]}{shards}")
    text = text.replace(_PRICES, f"[tool.regauge.providers.{context.provider}]")
    return NewFile(path=workflow_path(name), text=text)


def workflow_path(name: str) -> str:
    """The path of a workflow below the root."""
    return f"{_FOLDER}/{name}.yml"


def _run(script: str, indent: str) -> list[str]:
    """A script as the value of `run`, on one line if YAML allows it."""
    line = f"run: {script}"
    with suppress(yaml.YAMLError):
        if "\n" not in script and yaml.safe_load(line) == {"run": script}:
            return [f"{indent}{line}"]
    block = [f"{indent}  {part}" if part else "" for part in script.split("\n")]
    return [f"{indent}run: |", *block]


def _output_of(root: Path, *command: str) -> str:
    try:
        done = run_git(root, *command)
    except GitError:
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""
