"""The command in a written workflow that installs regauge: pinned, or the workflow is not written."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.place import Place
from tests.workflow_steps import Ran, Steps

if TYPE_CHECKING:
    from pathlib import Path

SHA = "0123456789abcdef" * 4
COMMIT = "0123456789" * 4
UV_PACKAGE = """\
version = 1
[[package]]
name = "regauge"
version = "0.1.0"
"""
HASHED = f"wheels = [{{ url = 'https://files.test/regauge.whl', hash = 'sha256:{SHA}' }}]"
FILES = f"files = [{{ file = 'regauge.whl', hash = 'sha256:{SHA}' }}]"
REQUIREMENT = f"regauge==0.1.0 --hash=sha256:{SHA}\n"
FROM_GIT = f"regauge @ git+https://git.test/acme/regauge@{COMMIT}"
UNPINNED = [
    {"requirements.txt": "regauge\n"},
    {"requirements.txt": "regauge==0.1.0\n"},
    {"requirements.txt": "regauge>=0.1\nregauge-tools==1 --hash=sha256:" + SHA},
    {"requirements.txt": "regauge @ git+https://git.test/acme/regauge@main\n"},
    {"requirements.txt": f"regauge @ git+https://u:token@git.test/acme/regauge@{COMMIT}\n"},
    {"requirements.txt": "# " + REQUIREMENT},
    {"requirements.txt": "./vendor/other\n"},
    {"requirements.txt": "../regauge\n"},
    {"pyproject.toml": '[project]\nname = "shop"\ndependencies = ["regauge==0.1.0"]\n'},
    {"uv.lock": UV_PACKAGE},
    {"uv.lock": "[[package\n"},
    {"Pipfile.lock": "[" * 100_000},
    {"uv.lock": f'[[package]]\nname = "other"\n{HASHED}\n'},
]
PINNED = [
    ({"uv.lock": f"{UV_PACKAGE}{HASHED}\n"}, "uv sync --locked"),
    (
        {"uv.lock": f"{UV_PACKAGE}source = {{ git = 'https://git.test/r?rev=v1#{COMMIT}' }}\n"},
        "uv sync --locked",
    ),
    ({"poetry.lock": f"{UV_PACKAGE}{FILES}\n"}, "poetry sync"),
    ({"pdm.lock": f"{UV_PACKAGE}{FILES}\n"}, "pdm sync"),
    (
        {
            "pylock.toml": "[[packages]]\nname = 'regauge'\n[[packages.wheels]]\n[packages.wheels.hashes]\n"
            f"sha256 = '{SHA}'\n"
        },
        "uv pip sync --require-hashes pylock.toml",
    ),
    (
        {"Pipfile.lock": json.dumps({"develop": {"regauge": {"hashes": [f"sha256:{SHA}"]}}})},
        "pipenv sync --dev",
    ),
    ({"requirements.txt": REQUIREMENT}, "--require-hashes -r requirements.txt"),
    ({"requirements/dev.txt": REQUIREMENT.replace(" --", " \\\n  --")}, "-r requirements/dev.txt"),
    ({"requirements $(touch hacked).txt": REQUIREMENT}, "-r requirements $(touch hacked).txt"),
    ({"requirements.txt": f"{FROM_GIT}\n"}, "install -r requirements.txt"),
    # pip takes the hash of a URL from its fragment, and would ask for one of each other line.
    (
        {"requirements.txt": f"regauge @ https://x.test/regauge.whl#sha256={SHA}\n"},
        "install -r requirements.txt",
    ),
    (
        {
            "requirements.txt": "-e ./vendor/regauge\n",
            "vendor/regauge/pyproject.toml": "[project]\nname = 'regauge'\n",
        },
        "install -r requirements.txt",
    ),
    (
        {
            "requirements.txt": "./vendor/regauge-0.1.0-py3-none-any.whl\n",
            "vendor/regauge-0.1.0-py3-none-any.whl": "",
        },
        "install -r requirements.txt",
    ),
    (
        {"pyproject.toml": f'[dependency-groups]\ndev = ["{FROM_GIT}"]\n'},
        f"python -m pip install {FROM_GIT}",
    ),
    ({"pyproject.toml": '[project]\nname = "regauge"\n'}, "python -m pip install ."),
]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    root = tmp_path / "project"
    root.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main", str(root)], check=True)
    place = Place(root)
    place.write("prompts/.keep", "")
    return place


def run_install(place: Place, name: str = "evals") -> tuple[Ran, list[str]]:
    """Run the step `Install` in bash; its calls of programs, each as one line."""
    fakes, calls = place.root.parent / "bin", place.root.parent / "calls"
    fakes.mkdir(exist_ok=True)
    for program in ("python", "uv", "uvx", "make"):
        fake = fakes / program
        fake.write_text(f'#!/bin/sh\necho "{program} $*" >>{calls}\n')
        fake.chmod(0o755)
    steps = Steps(
        place.root / f".github/workflows/{name}.yml",
        place.root,
        runner=place.root.parent / "runner",
        environ={"PATH": f"{fakes}:{os.environ['PATH']}"},
    )
    ran = steps.run("Install")
    return ran, calls.read_text().splitlines()


@pytest.mark.parametrize("files", UNPINNED, ids=lambda files: next(iter(files)))
@pytest.mark.parametrize("name", ["evals", "comment"])
def test_a_workflow_without_a_pin_is_not_written(place: Place, files: dict[str, str], name: str):
    for path, text in files.items():
        place.write(path, text)
    out = place.regauge("new", "workflow", name, code=2)
    assert "nothing in this project pins regauge" in out
    assert f"regauge new workflow {name} --install" in out
    assert not (place.root / ".github").exists()


@pytest.mark.parametrize(("files", "command"), PINNED, ids=lambda value: str(value)[:30])
def test_a_workflow_installs_what_the_project_pins(
    place: Place, files: dict[str, str], command: str
):
    for path, text in files.items():
        place.write(path, text)
    out = place.regauge("new", "workflow", "evals")
    assert "it installs regauge from " in out
    ran, calls = run_install(place)
    assert ran.code == 0, ran.said
    assert command in calls[-1]
    # uv itself has a version and a hash, and what it runs has a version and a day.
    assert len(calls) == 1 or calls[0].startswith("python -m pip install --only-binary=:all:")
    assert all("==" in call and "--exclude-newer=" in call for call in calls if "uvx" in call)
    text = (place.root / ".github/workflows/evals.yml").read_text(encoding="utf-8")
    assert not re.search(r"install regauge\s", text)
    assert not (place.root / "hacked").exists()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("", "--install is empty"),
        ("  \n", "write a command of a shell"),
        ("echo ${{ github.head_ref }}", "would be filled in by GitHub"),
        ("make\x1b[2J", "write a command of a shell"),
        ("python -m pip install regauge", "whatever package has that name"),
        ("pip install -U 'regauge[all]' pytest", "whatever package has that name"),
        ("uv add regauge && true", "whatever package has that name"),
        ("uvx regauge", "whatever package has that name"),
    ],
)
def test_an_install_command_that_pins_nothing_is_refused(place: Place, command: str, why: str):
    for words in (("new", "workflow", "evals"), ("init", "--yes")):
        out = place.regauge(*words, f"--install={command}", code=2)
        assert "error: --install" in out
        assert why in out
    assert place.files() == ["prompts/.keep"]


@pytest.mark.parametrize(
    "command",
    [
        "make install",
        "make 'a: b' # not a comment: - [x]",
        'make a\n\n\tmake "b: {c}"',
        "make - | > @x %y",
        "make 'pip install regauge==1.0'",
    ],
)
@pytest.mark.parametrize("name", ["evals", "comment", "baseline", "refine"])
def test_an_install_command_reaches_the_shell_as_it_was_written(
    place: Place, command: str, name: str
):
    place.regauge("new", "workflow", name, f"--install={command}")
    jobs = yaml.safe_load((place.root / f".github/workflows/{name}.yml").read_text())["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    scripts = [step["run"] for step in steps if step.get("name") == "Install"]
    assert {script.rstrip("\n") for script in scripts} == {command}


def test_requirements_that_are_missing_are_named(place: Place):
    command = "--install=pip install -r requirements.txt --requirement=more.txt -r more.txt && make"
    missing = [
        f"note: the workflows install from {name}, and there is no such file"
        for name in ("requirements.txt", "more.txt")
    ]
    out = place.regauge("init", "--dry-run", command)
    assert [line for line in out.splitlines() if "install from" in line] == []
    out = place.regauge("new", "workflow", "evals", command)
    assert [line for line in out.splitlines() if "install from" in line] == missing
    place.write("requirements.txt", "")
    out = place.regauge("init", "--yes", command)
    assert [line for line in out.splitlines() if "install from" in line] == missing[1:]


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("pip install -rreq.txt", ["req.txt"]),
        ("pip install -qr req.txt", ["req.txt"]),
        ("uv pip install -r=req.txt", ["req.txt"]),
        ("pip install -rf req.txt", ["f"]),  # as pip reads it
        ("rm -rf build && pip install -r 'my req.txt'", ["my req.txt"]),
        ("pip install \\\n  -r req.txt # -r other.txt", ["req.txt"]),
        ("uv export -o req.txt; pip install -r req.txt", []),
        ("pip install -r https://example.com/req.txt", []),
        ("cd svc && pip install -r req.txt", []),
    ],
)
def test_the_requirements_of_a_command_are_read_as_pip_does(
    place: Place, command: str, names: list[str]
):
    done = place.process("regauge", "new", "workflow", "evals", f"--install={command}")
    sentence = "the workflows install from {}, and there is no such file"
    notes = [f"note: {sentence.format(name)}" for name in names]
    assert [line for line in done.stderr.splitlines() if "install from" in line] == notes
    out = place.process("regauge", "doctor").stdout
    warning = (
        "warn   workflows: .github/workflows/evals.yml installs from {}, and there is no such file"
    )
    warnings = [line for line in out.splitlines() if "installs from" in line]
    assert warnings == [warning.format(name) for name in names]
