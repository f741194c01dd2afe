"""The base version: its commit, files, settings, targets and checkout."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Self, cast

from regauge.datasets import load_dataset
from regauge.errors import GitError, PromptError, ProviderError
from regauge.files import open_directory, try_lock
from regauge.gate.baselines import older_names
from regauge.git import git
from regauge.project import CommandTarget, HttpTarget, PythonTarget, Settings
from regauge.prompts import (
    LOCK_NAME,
    PromptLock,
    Repository,
    parse_prompt,
    prompt_files,
    prompt_name,
)
from regauge.runner import declared_evals
from regauge.targets import CommitFiles, load_target
from regauge.wording import did_you_mean, plural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from regauge.datasets import Dataset
    from regauge.project import Project
    from regauge.prompts import Prompt
    from regauge.runner import DeclaredEval, Eval
    from regauge.targets import Target
_CHECKOUT: Final = "regauge-base-"


def target_of_base(
    target: Target, base_commit: BaseCommit, *, eval_name: str = ""
) -> Target | None:
    """Load a target from the base version; None if the base has no such target.

    A function or program runs in a checkout of the base; an endpoint is the one that `base` names;
    recorded outputs are those of the base.

    Args:
        eval_name: The eval of the target, which may have another target on the base.

    Raises:
        PromptError: A declared prompt of the base cannot be read.
        DatasetError: Outputs of the base cannot be read.
    """
    project = base_commit.project
    name = base_commit.target_name(eval_name) or target.name
    settings = base_commit.settings.targets.get(name)
    inline = settings is None and ":" in name
    if inline:
        settings = PythonTarget(callable=name)
    if settings is None:
        return None
    files = CommitFiles(
        repository=base_commit.repository, commit=base_commit.commit, prefix=base_commit.prefix
    )
    like = target if name == target.name else None
    base = load_target(name, settings, root=project.root, files=files, missing_ok=True, like=like)
    if inline and not any(_digests(base)):
        return None  # the base has no such module
    if isinstance(settings, PythonTarget | CommandTarget):
        return replace(base, checkout=base_commit.checkout.project)
    if isinstance(settings, HttpTarget):
        of_base = settings.base or (
            target.settings.base if isinstance(target.settings, HttpTarget) else None
        )
        deployment = base_commit.settings.targets.get(
            of_base or ""
        ) or project.settings.targets.get(of_base or "")
        if deployment is None:
            reason = f"no target {of_base!r} is declared" if of_base else "the target has no `base`"
            fix = "name the target that is the deployment of the base as `base`"
            return replace(base, unavailable=f"the base has no deployment: {reason}\n  fix: {fix}")
        return replace(base, call_settings=deployment)
    return base


def _digests(target: Target) -> list[object]:
    files = target.identity["files"]
    return [*files.values()] if isinstance(files, dict) else []


@dataclass(frozen=True, kw_only=True)
class BaseCommit:
    """The commit that a change is compared with.

    Attributes:
        ref: Requested ref, such as `origin/main`.
        commit: Newest common commit of HEAD and `ref`.
        tip: Commit that `ref` points to now.
        changed: Paths that differ from the commit, new files included, as git writes them.
        renamed: Old path of each renamed file, by its new path.
        dirty: Whether there are uncommitted changes; files are compared as they are.
        eval_directories: Directories of evals of the change in the repository, relative to the
            project, besides `evals`.
    """

    project: Project
    repository: Repository
    ref: str
    commit: str
    tip: str
    changed: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    dirty: bool = False
    eval_directories: frozenset[str] = frozenset()
    # To follow a file through a long history takes git seconds.
    _older_names: dict[Path, list[str]] = field(
        default_factory=dict[Path, list[str]], init=False, repr=False, compare=False
    )
    _prompts: dict[str, Prompt] = field(
        default_factory=dict[str, "Prompt"], init=False, repr=False, compare=False
    )

    def prefetch(self, evals: Iterable[Eval] = ()) -> None:
        """Read what every comparison needs with two processes, not one for each file.

        Args:
            evals: The evals to compare, whose datasets and baselines are read, too.
        """
        project = self.project
        files = [
            project.pyproject,
            project.prompts_dir / LOCK_NAME,
            *prompt_files(project.prompts_dir),
        ]
        for eval_ in evals:
            files += [eval_.dataset.path, project.baseline_path(eval_.prompt.name)]
        self.repository.prefetch(
            self.commit,
            paths=dict.fromkeys(map(self.path_of, files)),
            directories=(
                *self.eval_places,
                *map(
                    self.repository.inside,
                    (project.prompts_dir, project.golden_dir, project.fixtures_dir / "baselines"),
                ),
            ),
        )

    @cached_property
    def uncommitted(self) -> frozenset[str]:
        """Paths that differ from HEAD, apart from recordings and baselines, which runs write."""
        if not self.dirty:
            return frozenset()
        fixtures = self.repository.inside(self.project.fixtures_dir)
        run_files = (f"{fixtures}/recordings/", f"{fixtures}/baselines/")
        paths, _ = self.repository.changed("HEAD")
        return frozenset(path for path in paths if not path.startswith(run_files))

    @cached_property
    def newest(self) -> BaseCommit:
        """The base at the tip of `ref`, whose bar also applies to a change of an older commit."""
        if self.tip == self.commit:
            return self
        changed, renamed = self.repository.changed(self.tip)
        return replace(self, commit=self.tip, changed=frozenset(changed), renamed=renamed)

    @cached_property
    def eval_places(self) -> frozenset[str]:
        """The directories of evals, from the top of the repository."""
        return frozenset(
            self.repository.inside(self.project.root / directory)
            for directory in ("evals", *self.eval_directories)
        )

    def is_eval_code(self, name: str) -> bool:
        """Return whether a path is that of code in a directory of evals.

        Of the project's own directory, only files directly in it are.
        """
        above = [parent.as_posix() for parent in PurePosixPath(name).parents]
        # Below the project's own directory are its other files.
        above = above[:1] if above[0] == self.prefix else [*{*above} - {self.prefix}]
        return name.endswith(".py") and not self.eval_places.isdisjoint(above)

    @cached_property
    def eval_files(self) -> list[Path]:
        """The files of code in directories of evals, as they are now."""
        top = self.repository.top
        paths = {
            path
            for place in self.eval_places
            for path in (top / place).glob("*.py" if place == self.prefix else "**/*.py")
        }
        return sorted(path for path in paths if path.is_file())

    @cached_property
    def evals(self) -> Mapping[str, tuple[DeclaredEval, ...]]:
        """The evals of the base, by file: in directories of evals, and in files that are gone."""
        trees = (self.repository.files(self.commit, place) for place in self.eval_places)
        names = {name for tree in trees for name in tree if self.is_eval_code(name)}
        names |= {
            name
            for name in self.changed.union(self.renamed.values())
            if name.endswith(".py")
            and PurePosixPath(name).is_relative_to(self.prefix)
            and not (self.repository.top / name).exists()
        }
        places = [(self.commit, name) for name in sorted(names)]
        texts = self.repository.read_all(places)
        return {
            name: declared_evals(text)
            for (_, name), text in zip(places, texts, strict=True)
            if text is not None
        }

    def target_name(self, eval_name: str) -> str:
        """The only target that evals of a name have on the base; empty without one."""
        names = {
            declared_eval.target
            for evals_of_file in self.evals.values()
            for declared_eval in evals_of_file
            if declared_eval.target and declared_eval.texts[:1] == (eval_name,)
        }
        return names.pop() if len(names) == 1 else ""

    @cached_property
    def changed_paths(self) -> Mapping[str, str]:
        """The changed file at each path, symbolic links to it included."""
        paths = {name: name for name in self.changed}
        for link in self.repository.links():
            target = (self.repository.top / link).resolve()
            if not target.is_relative_to(self.repository.top):
                continue
            place = target.relative_to(self.repository.top).as_posix()
            paths |= {
                f"{link}{name.removeprefix(place)}": name
                for name in self.changed
                if f"{name}/".startswith(f"{place}/")
            }
        return paths

    def differs(self, name: str) -> bool:
        """Return whether a file differs from the commit, itself or as part of a submodule."""
        return not self.changed.isdisjoint((name, *map(str, PurePosixPath(name).parents)))

    def path_of(self, path: Path) -> str:
        """The path of a current file in the base version, whether it exists there or not.

        An unchanged symbolic link stands for its target.
        """
        name = self.repository.inside(path)
        if name not in self.changed and path.is_symlink():
            target = path.resolve()
            if target.is_relative_to(self.repository.top):
                name = self.repository.inside(target)
        return self.renamed.get(name, name)

    def read(self, path: Path) -> bytes | None:
        """The contents of a file in the base version; None if it was absent."""
        return self.repository.read(self.commit, self.path_of(path))

    def read_newest(self, path: Path) -> list[bytes]:
        """The contents of a file at the tip of `ref`, and in the base version."""
        name = self.repository.inside(path)
        commits = dict.fromkeys((self.tip, self.commit))
        texts = (self.repository.read(commit, name) for commit in commits)
        return [data for data in texts if data is not None]

    def has_baselines(self) -> bool:
        """Return whether a baseline is committed in the base version or at the tip of `ref`."""
        directory = self.repository.inside(self.project.fixtures_dir / "baselines")
        commits = dict.fromkeys((self.tip, self.commit))
        return any(self.repository.files(commit, directory) for commit in commits)

    def older_names(self, path: Path) -> list[str]:
        """The earlier names of a file in git that are free now, newest first."""
        if path not in self._older_names:
            self._older_names[path] = older_names(self.project, path)
        return self._older_names[path]

    def prompt(self, head: Prompt) -> Prompt | None:
        """The base version of a prompt, under its older name if it was renamed; None if new.

        Raises:
            GitError: Its file is a link out of the repository.
            PromptError: Its text in the base version cannot be read.
        """
        self.repository.check_inside(head.path)
        name = self._prompt_path(head)
        data = self.repository.read(self.commit, name) if name else None
        if data is None:
            return None
        if name not in self._prompts:
            folder = PurePosixPath(name).parent
            self._prompts[name] = parse_prompt(
                data.decode("utf-8", "replace"),
                path=self.repository.top / name,
                committed=lambda inner: self.repository.read(
                    self.commit, (folder / inner).as_posix()
                ),
            )
        return self._prompts[name]

    @cached_property
    def prefix(self) -> str:
        """The project's root below the top of the repository; "." if it is the top."""
        return PurePosixPath(self.repository.inside(self.project.pyproject)).parent.as_posix()

    @cached_property
    def checkout(self) -> Checkout:
        """A worktree of the base."""
        return Checkout(self.repository, self.commit, prefix=self.prefix)

    def prompt_name(self, head: Prompt) -> str:
        """The name of a prompt on the base; today's if it is new."""
        if not _is_prompt(head.path):
            return head.name  # the eval is of a target
        return prompt_name(Path(self._prompt_path(head) or head.path))

    def eval_name(self, eval_: Eval) -> str:
        """The name of an eval's prompt on the base, or of its target; today's if it is new."""
        name = self.prompt_name(eval_.prompt)
        if eval_.target is None or name != eval_.dataset.name:
            return name
        # The eval of a target has the name of its dataset.
        return self.dataset_name(eval_.dataset, prompt=name)

    def _prompt_path(self, head: Prompt) -> str:
        """The path of a prompt on the base; empty if it is new."""
        return self._by_title(head) if self.read(head.path) is None else self.path_of(head.path)

    def lock(self) -> PromptLock:
        """`prompts.lock` of the base version; one without entries if there was none.

        Raises:
            GitError: It is a link out of the repository.
            LockError: It cannot be read.
        """
        path = self.project.prompts_dir / LOCK_NAME
        self.repository.check_inside(path)
        data = self.read(path)
        return PromptLock.parse(data.decode("utf-8", "replace") if data else "", path)

    def dataset(self, head: Dataset, *, prompt: str) -> Dataset | None:
        """The golden cases of the base version; None if they are today's or the base has none.

        Args:
            head: The dataset now.
            prompt: Name of the prompt on the base, the default name of its dataset.

        Raises:
            DatasetError: They cannot be read.
        """
        name = self._dataset_path(head, prompt)
        if not name or not (self.differs(name) or any(map(self._is_input, self.changed))):
            return None
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory).resolve()
            path = self._materialise(root, name)
            fixtures = root / self.repository.inside(self.project.fixtures_dir)
            fixtures.mkdir(parents=True, exist_ok=True)
            return load_dataset(path, fixtures_dir=fixtures, shard=head.shard)

    @cached_property
    def settings(self) -> Settings:
        """`[tool.regauge]` of the base version; unreadable settings have their defaults."""
        data = self.read(self.project.pyproject)
        try:
            document: dict[str, Any] = tomllib.loads((data or b"").decode("utf-8", "replace"))
        except tomllib.TOMLDecodeError:
            return Settings()
        tool = document.get("tool")
        table = cast("dict[str, Any]", tool).get("regauge") if isinstance(tool, dict) else None
        return Settings.validate_leniently(table)

    def deleted_prompts(self) -> tuple[str, ...]:
        """The names of prompts that only the base version has, apart from renamed ones."""
        titles = {self._by_title(head) for head in self._new_prompts()}
        names = [name for name in self._names_of_base if name not in titles]
        return tuple(sorted(prompt_name(Path(name)) for name in names))

    def deleted_datasets(self) -> tuple[str, ...]:
        """The paths of golden datasets that only the base version has."""
        directory = self.repository.inside(self.project.golden_dir)
        old_names = {*self.renamed.values()}
        return tuple(
            name
            for name in self.repository.files(self.commit, directory)
            if name in self.changed
            and name not in old_names
            and not (self.repository.top / name).exists()
        )

    def dataset_name(self, head: Dataset, *, prompt: str) -> str:
        """The name of a dataset on the base; today's if the base does not have it."""
        return Path(self._dataset_path(head, prompt) or head.path).name.split(".", maxsplit=1)[0]

    def adds_dataset(self, head: Dataset, *, prompt: str) -> bool:
        """Return whether a dataset is not in the base version, but in this change."""
        is_changed = self.repository.inside(head.path) in self.changed
        return is_changed and not self._dataset_path(head, prompt)

    def _dataset_path(self, head: Dataset, prompt: str) -> str:
        """The path of a dataset on the base, also after a move that git does not follow.

        Such a file has the dataset's name in another format, or the prompt's. Empty without any.
        """
        name = self.path_of(head.path)
        if self.repository.read(self.commit, name) is not None:
            return name
        deleted = {Path(path).stem: path for path in self.deleted_datasets()}
        return deleted.get(head.name) or deleted.get(prompt) or ""

    def _is_input(self, name: str) -> bool:
        """Return whether golden cases may take texts from a file."""
        fixtures = self.repository.inside(self.project.fixtures_dir)
        return name.startswith(f"{fixtures}/") and not name.startswith(
            tuple(f"{fixtures}/{part}/" for part in _NO_INPUTS)
        )

    @cached_property
    def _names_of_base(self) -> list[str]:
        """The paths of prompts that only the base version has, renamed ones included."""
        prompts_dir, inside = self.project.prompts_dir, self.repository.inside
        now = {
            name_in(path)
            for path in prompt_files(prompts_dir)
            for name_in in (self.path_of, inside)
        }
        return [
            name
            for place in dict.fromkeys(map(inside, (prompts_dir, prompts_dir.resolve())))
            for name in self.repository.files(self.commit, place)
            if name not in now and _is_prompt(Path(name))
        ]

    def _by_title(self, head: Prompt) -> str:
        """The path of the one deleted prompt with the same content or the same title."""
        names = self._names_of_base
        texts = self.repository.read_all((self.commit, name) for name in names)
        older = {
            name: prompt
            for name, data in zip(names, texts, strict=True)
            if data is not None and (prompt := self._parse(data, name)) is not None
        }
        titled = head.title if head.title != head.name else None
        for matches in (
            [name for name, prompt in older.items() if prompt.digest == head.digest],
            [name for name, prompt in older.items() if prompt.title == titled],
        ):
            if len(matches) == 1:
                return matches[0]
        return ""

    def _new_prompts(self) -> list[Prompt]:
        prompts: list[Prompt] = []
        for path in prompt_files(self.project.prompts_dir):
            if path.is_file() and self.read(path) is None:
                prompt = self._parse(path.read_bytes(), self.repository.inside(path))
                prompts += [prompt] if prompt is not None else []
        return prompts

    def _parse(self, data: bytes, name: str) -> Prompt | None:
        try:
            return parse_prompt(data.decode("utf-8", "replace"), path=self.repository.top / name)
        except PromptError:
            return None

    def _materialise(self, root: Path, dataset: str) -> Path:
        """Write a golden dataset of the base version below a directory, with the texts it uses."""
        fixtures = self.repository.inside(self.project.fixtures_dir)
        names = [
            name
            for name in self.repository.files(self.commit, fixtures)
            if name == dataset or self._is_input(name)
        ]
        if dataset not in names:
            names.append(dataset)
        texts = self.repository.read_all((self.commit, name) for name in names)
        for name, data in zip(names, texts, strict=True):
            if data is not None:
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        return root / dataset


_NAMES_MAX = 5
# Directories of `fixtures/` without inputs of cases.
_NO_INPUTS = ("recordings", "baselines", "golden", "labels", "calibrations")


# The target branch of a pull request or merge request, in GitHub and GitLab CI.
_BASE_BRANCHES = ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME")


def base_branch(environ: Mapping[str, str]) -> str:
    """The target branch of the pull request of this CI job; empty elsewhere."""
    return next((environ[name] for name in _BASE_BRANCHES if environ.get(name)), "")


def find_base(project: Project, ref: str, *, evals: Collection[Eval] = ()) -> BaseCommit:
    """Find the commit where a change branched off the branch, tag or commit `ref`.

    Args:
        project: The project.
        ref: The branch, tag or commit.
        evals: The evals to compare; what they need of the base is read at once.

    Raises:
        GitError: There is no git or no repository, no such ref, or no common commit, as in a
            shallow clone.
    """
    repository = Repository.open(project.root)
    try:
        tip = _tip(repository, ref)
        commit = repository.merge_base(ref, tip=tip)
    except GitError as error:
        if repository.has_commits():
            raise
        message = f"nothing is committed in {repository.top}, so there is nothing to compare with"
        fix = "commit the prompts as they are on main, then compare"
        raise GitError(message, fix=fix) from error
    changed, renamed = repository.changed(commit)
    base_commit = BaseCommit(
        project=project,
        repository=repository,
        ref=ref,
        commit=commit,
        tip=tip,
        changed=frozenset(changed),
        renamed=renamed,
        dirty=repository.is_dirty(),
        eval_directories=frozenset(
            eval_.directory
            for eval_ in evals
            if (project.root / eval_.directory).resolve().is_relative_to(repository.top)
        ),
    )
    base_commit.prefetch(evals)
    return base_commit


def _tip(repository: Repository, ref: str) -> str:
    namesakes = repository.refs_named(re.split(r"[~^]", ref, maxsplit=1)[0])
    if len(namesakes) > 1 and len({*map(repository.commit, namesakes)}) > 1:
        fix = " or ".join(f"regauge gate {name}" for name in namesakes)
        raise GitError(
            f"{ref!r} names several commits: {', '.join(namesakes)}",
            fix=f"delete the one that is not the base, or name it in full: {fix}",
        )
    try:
        return repository.commit(ref)
    except GitError as error:
        if repository.is_shallow():
            raise
        problem, fix = _explain_unknown_ref(repository, ref)
        raise GitError(f"{problem}\n  fix: {fix}") from error


def _explain_unknown_ref(repository: Repository, ref: str) -> tuple[str, str]:
    """The error for an unknown ref, with its fix."""
    start, _, tail = ref.partition("~")
    if tail.isdigit() and (back := repository.reaches(start)) is not None:
        return (
            f"there is no {ref}: {start} has {plural(back, 'commit')} before it",
            f"regauge gate {start}~{back}" if back else "commit a change, then compare",
        )
    problem = f"there is no branch, tag or commit {ref!r}"
    names = repository.names()
    namesake = next((name for name in names if _tail(name) == _tail(ref)), "")
    if namesake:
        rule = f'; `ref = "{namesake}"` in [tool.regauge.gate] makes that the rule'
        return problem, f"compare with the branch that is here: regauge gate {namesake}{rule}"
    near = did_you_mean(ref, names)
    if near:
        return problem, f"{near} git branch -a lists all"
    remote, slash, _ = ref.partition("/")
    if slash and remote in repository.remotes():
        return problem, f"git fetch {remote}"
    base = repository.namesake(ref)
    return (
        problem,
        f"regauge gate {base}" if base else f"name one of {', '.join(names[:_NAMES_MAX])}",
    )


def _tail(name: str) -> str:
    return name.rpartition("/")[2]


def _is_prompt(path: Path) -> bool:
    return path.name.endswith((".prompt.yml", ".prompt.yaml"))


class Checkout:
    """The files of a commit in a detached worktree, created when needed.

    As a context manager, it removes the worktree at the end. Its directory is locked, so that the
    next process finds one that a killed process left.
    """

    def __init__(self, repository: Repository, commit: str, *, prefix: str) -> None:
        self._repository = repository
        self._commit = commit
        self._prefix = prefix
        self._directory: Path | None = None
        self._lock: int | None = None

    def project(self) -> Path:
        """The root of the project in the worktree.

        Raises:
            ProviderError: The worktree cannot be created.
        """
        if self._directory is None:
            directory = Path(tempfile.mkdtemp(prefix=_CHECKOUT)).resolve()
            self._lock = _lock_at_once(directory)
            try:
                for root, folder, commit in self._parts():
                    _remove_abandoned(root)
                    git(root, "worktree", "add", "--detach", str(directory / folder), commit)
            except GitError as error:
                self._remove(directory)
                raise ProviderError(
                    f"the code of the base cannot be checked out: {error}", kind="unavailable"
                ) from error
            self._directory = directory
        return self._directory / self._prefix

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        directory, self._directory = self._directory, None
        if directory is not None:
            self._remove(directory)

    def _remove(self, directory: Path) -> None:
        for root, folder, _ in reversed(self._parts()):
            with suppress(GitError):
                git(root, "worktree", "remove", "--force", str(directory / folder))
        shutil.rmtree(directory, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _parts(self) -> list[tuple[Path, str, str]]:
        """The repository and its submodules: work tree, path from the top, and commit."""
        top = self._repository.top
        submodules = self._repository.submodules(self._commit)
        return [
            (top, "", self._commit),
            *((top / folder, folder, commit) for folder, commit in submodules.items()),
        ]


def _remove_abandoned(root: Path) -> None:
    """Remove checkouts of a repository whose process was killed."""
    for line in os.fsdecode(git(root, "worktree", "list", "--porcelain")).splitlines():
        kind, _, path = line.partition(" ")
        places = (place for place in (Path(path), *Path(path).parents) if kind == "worktree")
        place = next((place for place in places if place.name.startswith(_CHECKOUT)), None)
        if place is None:
            continue
        lock = _lock_at_once(place)
        if lock is None and place.exists():
            continue  # its process runs
        with suppress(GitError):
            git(root, "worktree", "remove", "--force", path)
        if lock is not None:
            os.close(lock)


def _lock_at_once(directory: Path) -> int | None:
    """Lock a directory until the returned descriptor is closed; None if it cannot be locked."""
    try:
        descriptor = open_directory(directory)
    except OSError:
        return None
    with suppress(OSError):
        if try_lock(descriptor):
            return descriptor
    os.close(descriptor)
    return None
