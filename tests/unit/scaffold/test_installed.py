"""The source of the running regauge, as its installer noted it, as a command of a workflow."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from regauge.errors import UsageError
from regauge.scaffold._workflows import _default_branch, find_install, parse_install

if TYPE_CHECKING:
    from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHA256 = "a" * 64
GIT = {"url": "https://example.org/r.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}
WHEEL = {"url": "https://example.org/r.whl", "archive_info": {"hashes": {"sha256": SHA256}}}


@pytest.mark.parametrize(
    ("noted", "line"),
    [
        (GIT, f"'regauge @ git+https://example.org/r.git@{COMMIT}'"),
        (GIT | {"url": "ssh://git@example.org/r.git"}, f"'regauge @ git+ssh://git@example.org/r.git@{COMMIT}'"),
        (GIT | {"url": "https://me:token@example.org/r.git"}, None),
        (GIT | {"url": "file:///r"}, None),
        (GIT | {"vcs_info": {"commit_id": "main"}}, None),
        (WHEEL, f"'regauge @ https://example.org/r.whl#sha256={SHA256}'"),
        (WHEEL | {"url": "http://example.org/r.whl"}, None),
        (WHEEL | {"archive_info": {}}, None),
        ({"url": "file://ROOT/vendor/re%20gauge", "dir_info": {}}, "'./vendor/re gauge'"),
        ({"url": "file://ROOT/vendor/other", "dir_info": {}}, None),
        ({"url": "file:///elsewhere", "dir_info": {}}, None),
        ({"url": None}, None),
        ({}, None),
        ([], None),
        (None, None),
    ],
)  # fmt: skip
def test_a_noted_source_is_installed_if_it_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: object, line: str | None
):
    site, root = tmp_path / "site", tmp_path / "project"
    info = site / "regauge-9.9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: regauge\nVersion: 9.9.9\n")
    for name, project in (("re gauge", "regauge"), ("other", "other")):
        (root / "vendor" / name).mkdir(parents=True)
        text = f'[project]\nname = "{project}"\n'
        (root / "vendor" / name / "pyproject.toml").write_text(text)
    if noted is not None:
        text = json.dumps(noted).replace("ROOT", str(root))
        (info / "direct_url.json").write_text(text)
    monkeypatch.syspath_prepend(str(site))
    install = find_install(root)
    if line is None:
        assert install is None
    else:
        assert install is not None
        assert (install.source, install.script) == (
            "the installed regauge",
            f"python -m pip install {line}",
        )


def test_a_note_that_is_no_json_is_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    info = tmp_path / "site" / "regauge-9.9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: regauge\nVersion: 9.9.9\n")
    (info / "direct_url.json").write_text("{")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert find_install(tmp_path) is None


@pytest.mark.parametrize(
    ("refs", "branch"),
    [
        ([], "trunk"),
        (["refs/heads/topic"], "trunk"),
        (["refs/heads/topic", "refs/heads/master"], "master"),
        (["refs/heads/main", "refs/heads/master"], "main"),
        (["refs/heads/main", "refs/remotes/origin/HEAD -> refs/remotes/origin/dev/next"], "dev/next"),
    ],
)  # fmt: skip
def test_the_default_branch_is_that_of_the_remote_or_a_usual_name(
    tmp_path: Path, refs: list[str], branch: str
):
    def git(*words: str, given: str = "") -> str:
        command = ["git", "-C", str(tmp_path), *words]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout  # fmt: skip

    git("init", "-q", "-b", "trunk")
    tree = git("mktree").strip()
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    commit = git(*who, "commit-tree", tree, "-m", "one").strip()
    for ref in refs:
        name, _, target = ref.partition(" -> ")
        git("symbolic-ref", name, target) if target else git("update-ref", name, commit)
    assert _default_branch(tmp_path) == branch
    assert _default_branch(tmp_path.parent) == "main"


def test_requirements_that_are_no_text_name_no_source(tmp_path: Path):
    (tmp_path / "requirements.txt").write_bytes(b"regauge @ \xff")
    assert find_install(tmp_path) is None


HASHED = f"--hash=sha256:{SHA256}"
AT_COMMIT = f"git+https://example.org/r.git@{COMMIT}"
ENTRY = '[[package]]\nname = "{name}"\n{more}\n'


@pytest.mark.parametrize(
    ("file", "text", "command"),
    [
        # Requirements: by hash, at a commit, or a copy inside the project.
        ("requirements.txt", f"regauge==1.0 {HASHED}", "pip install --require-hashes -r requirements.txt"),
        ("requirements.txt", f"regauge==1.0 \\\n    {HASHED}", "pip install --require-hashes -r requirements.txt"),
        ("requirements-dev.txt", f"x==1\nRegauge[all]==1.0 {HASHED}  # pin", "pip install --require-hashes -r requirements-dev.txt"),
        ("requirements.lock", f"regauge @ {AT_COMMIT}", "pip install -r requirements.lock"),
        ("requirements/ci.txt", f"regauge @ {AT_COMMIT}#egg=regauge", "pip install -r requirements/ci.txt"),
        ("requirements.txt", f"regauge @ https://example.org/r.whl#sha256={SHA256}", "pip install -r requirements.txt"),
        ("requirements.txt", f"regauge @ https://example.org/r=={1}.whl {HASHED}", "pip install --require-hashes -r requirements.txt"),
        ("requirements.txt", "./vendor/copy", "pip install -r requirements.txt"),
        ("requirements.txt", "-e ./vendor/copy[all]", "pip install -r requirements.txt"),
        ("requirements.txt", "--editable=vendor/copy", "pip install -r requirements.txt"),
        ("requirements/ci.txt", "../vendor/copy", "pip install -r requirements/ci.txt"),
        ("requirements.txt", "./wheels/regauge-1.0-py3-none-any.whl ; python_version > '3'", "pip install -r requirements.txt"),
        ("requirements.txt", "file:./wheels/regauge-1.0-py3-none-any.whl", "pip install -r requirements.txt"),
        ("requirements.txt", "regauge==1.0", None),
        ("requirements.txt", f"# regauge==1.0 {HASHED}", None),
        ("requirements.txt", "regauge>=1.0", None),
        ("requirements.txt", "regauge", None),
        ("requirements.txt", f"regauge-plugin==1.0 {HASHED}", None),
        ("requirements.txt", "regauge @ git+https://example.org/r.git@main", None),
        ("requirements.txt", f"regauge @ {AT_COMMIT.replace('example', 'me:token@example')}", None),
        ("requirements.txt", "./vendor/other", None),
        ("requirements.txt", "../../elsewhere", None),
        ("requirements.txt", "vendor2/copy", None),
        ("other.txt", f"regauge==1.0 {HASHED}", None),
        # Locks: the same of the entry of regauge.
        ("uv.lock", ENTRY.format(name="regauge", more=f'sdist = {{ hash = "sha256:{SHA256}" }}'), "uv sync --locked --all-extras --all-groups"),
        ("uv.lock", ENTRY.format(name="regauge", more=f'source = {{ git = "https://example.org/r.git#{COMMIT}" }}'), "uv sync --locked --all-extras --all-groups"),
        ("uv.lock", ENTRY.format(name="regauge", more='source = { editable = "vendor/copy" }'), "uv sync --locked --all-extras --all-groups"),
        ("uv.lock", ENTRY.format(name="regauge", more='source = { directory = "vendor/copy" }'), "uv sync --locked --all-extras --all-groups"),
        ("uv.lock", ENTRY.format(name="regauge", more='source = { editable = "vendor/other" }'), None),
        ("uv.lock", ENTRY.format(name="regauge", more='source = { editable = "../elsewhere" }'), None),
        ("uv.lock", ENTRY.format(name="regauge", more=f'rev = "{COMMIT}"'), None),
        ("uv.lock", ENTRY.format(name="other", more=f'sdist = {{ hash = "sha256:{SHA256}" }}'), None),
        ("uv.lock", "[[package]", None),
        ("poetry.lock", ENTRY.format(name="regauge", more=f'files = [{{ hash = "sha256:{SHA256}" }}]'), "poetry sync --no-interaction --all-extras --all-groups"),
        ("pdm.lock", ENTRY.format(name="regauge", more='path = "./vendor/copy"'), "pdm sync --group=:all"),
        ("pylock.toml", ENTRY.format(name="regauge", more=f'hashes = {{ sha256 = "{SHA256}" }}').replace("package", "packages"), "uv pip sync --require-hashes pylock.toml"),
        ("pylock.toml", ENTRY.format(name="regauge", more='directory = { path = "vendor/copy" }').replace("package", "packages"), "uv pip sync --require-hashes pylock.toml"),
        ("Pipfile.lock", json.dumps({"develop": {"regauge": {"hashes": [f"sha256:{SHA256}"]}}}), "pipenv sync --dev"),
        ("Pipfile.lock", json.dumps({"default": {"regauge": {"path": "vendor/copy"}}}), "pipenv sync --dev"),
        ("Pipfile.lock", json.dumps({"default": {"other": {"hashes": [f"sha256:{SHA256}"]}}}), None),
        ("Pipfile.lock", "{", None),
        # The project itself.
        ("pyproject.toml", f'[project]\nname = "a"\ndependencies = ["x", "regauge @ {AT_COMMIT}"]', f"pip install 'regauge @ {AT_COMMIT}'"),
        ("pyproject.toml", f'[project.optional-dependencies]\nci = ["regauge @ {AT_COMMIT}"]', f"pip install 'regauge @ {AT_COMMIT}'"),
        ("pyproject.toml", f'[dependency-groups]\nci = [{{include-group = "x"}}, "regauge @ {AT_COMMIT}"]', f"pip install 'regauge @ {AT_COMMIT}'"),
        ("pyproject.toml", '[project]\nname = "regauge"', "pip install ."),
        ("pyproject.toml", '[project]\nname = "a"\ndependencies = ["regauge>=1", "regauge==1.0"]', None),
        ("pyproject.toml", f'[project]\nname = "a"\ndependencies = ["regauge @ {AT_COMMIT}${{{{ secrets.A }}}}"]', None),
    ],
)  # fmt: skip
def test_a_pin_of_regauge_in_a_project_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, command: str | None
):
    info = tmp_path / "site" / "regauge-9.9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: regauge\nVersion: 9.9.9\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    root = tmp_path / "project"
    for place in (
        "project/vendor/copy",
        "project/vendor2/copy",
        "project/vendor/other",
        "elsewhere",
    ):
        (tmp_path / place).mkdir(parents=True)
        name = "other" if place.endswith("other") else "regauge"
        (tmp_path / place / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
    (root / "wheels").mkdir()
    (root / "wheels/regauge-1.0-py3-none-any.whl").touch()
    (root / file).parent.mkdir(exist_ok=True)
    (root / file).write_text(text)
    install = find_install(root)
    if command is None:
        assert install is None
        return
    assert install is not None
    assert install.source == file
    assert install.script.endswith(command)
    assert ("--require-hashes -r requirements" in install.script) == (
        "--require-hashes -r req" in command
    )


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("make install", ""),
        ("  make install\n\tmake more ", ""),
        ("pip install -r requirements.txt && pip install ./vendor/regauge", ""),
        ("pip install regauge==1.0", ""),
        ("pip install -r regauge.txt", ""),
        ("pip install regauge-plugin", ""),
        ("echo install; ls regauge", ""),
        ("", "write a command of a shell"),
        (" \n", "write a command of a shell"),
        ("make\x1b[31m", "write a command of a shell"),
        ("make\r", ""),
        ("make\rinstall", "write a command of a shell"),
        ("make ${{ inputs.x }}", "would be filled in by GitHub"),
        ("pip install regauge", "installs whatever package has that name"),
        ("pip install -U 'regauge[all]'", "installs whatever package has that name"),
        ("uv add regauge && make", "installs whatever package has that name"),
        ("uvx regauge lint", "installs whatever package has that name"),
        ("pipx run regauge", "installs whatever package has that name"),
        ("pipx inject x regauge;", "installs whatever package has that name"),
    ],
)
def test_a_command_that_installs_regauge_names_more_than_its_name(command: str, error: str):
    if not error:
        install = parse_install(command)
        assert (install.script, install.source) == (command.strip(), "--install")
        return
    with pytest.raises(UsageError, match=error):
        parse_install(command)
