"""A forked process is what one that starts from nothing is."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from regauge.evidence import Count
from regauge.gate import GatePolicy
from regauge.gate.power import sensitivity_line
from tests import processes

if TYPE_CHECKING:
    from pathlib import Path

SAYS = """\
import json, os, sys
seen = [__name__, os.getcwd(), sys.path[:2], {**os.environ}, sys.argv, sys.stdin.read()]
json.dump([*seen, sys.stdout.encoding, sys.stdout.isatty()], sys.stdout)
print("amiss", file=sys.stderr)
sys.exit(eval(sys.argv[1]))
"""


@pytest.mark.parametrize("end", ["None", "7", "'in words'", "1 / 0"])
def test_a_forked_process_sees_and_says_what_any_other_does(tmp_path: Path, end: str):
    (tmp_path / "says.py").write_text(SAYS)
    (tmp_path / "more").mkdir()
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "more"), "WORD": "ä"}
    env.pop("HOME", None)
    forked = processes.run("says", end, "--flag", cwd=tmp_path, env=env, given="read\nthis")
    other = subprocess.run(
        [sys.executable, "-m", "says", end, "--flag"],
        cwd=tmp_path,
        env=env,
        input="read\nthis",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (forked.returncode, forked.stdout) == (other.returncode, other.stdout)
    assert forked.stderr.splitlines()[0] == other.stderr.splitlines()[0] == "amiss"
    assert forked.stderr.splitlines()[-1] == other.stderr.splitlines()[-1]


@pytest.mark.parametrize("last", ["pass", "os._exit(3)"], ids=["all end", "one dies"])
def test_workers_of_a_forked_run_see_what_any_others_do(tmp_path: Path, last: str):
    (tmp_path / "more").mkdir()
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "conftest.py").write_text(
        "import os\nos.environ.setdefault('CONTROLLER', str(os.getpid()))\n"
    )
    (tmp_path / "test_it.py").write_text(
        "import json, os, sys\nfrom pathlib import Path\nimport pytest\n"
        "names = 'PYTHONPATH', 'WORD', 'PYTEST_XDIST_WORKER_COUNT'\n"
        "@pytest.mark.parametrize('number', range(4))\n"
        "def test_it(number, worker_id):\n"
        "    seen = [os.getcwd(), sys.path, sys.argv, *map(os.environ.get, names)]\n"
        "    seen.append(str(os.getppid()) == os.environ['CONTROLLER'])\n"
        "    (Path(os.environ['TO']) / str(number)).write_text(json.dumps(seen))\n"
        f"    if number == 3:\n        {last}\n"
    )
    seen, outcomes = [], []
    for way in ("forked", "other"):
        target = tmp_path / way
        target.mkdir()
        words = ("-q", "-n2", "-p", "xdist", "-p", "no:cacheprovider", "test_it.py")
        env = {**os.environ, "PYTHONPATH": str(tmp_path / "more"), "WORD": "ä", "TO": str(target)}
        env |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        if way == "forked":
            done = processes.run("pytest", *words, cwd=tmp_path, env=env)
        else:
            command = [sys.executable, "-m", "pytest", *words]
            done = subprocess.run(
                command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
            )
        outcomes.append((done.returncode, done.stdout.splitlines()[-1].partition(" in ")[0]))
        seen.append([(target / str(number)).read_text() for number in range(4)])
    assert seen[0] == seen[1]
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("end", ["None", "7", "1 / 0"])
def test_a_forked_script_sees_and_says_what_any_other_does(tmp_path: Path, end: str):
    script = tmp_path / "bin" / "says"
    script.parent.mkdir()
    script.write_text(SAYS.replace("sys.path[:2]", "sys.path[:1]"))
    env = {**os.environ, "WORD": "ä"}
    forked = processes.run(str(script), end, cwd=tmp_path, env=env, one_stream=True)
    other = subprocess.run(
        [sys.executable, str(script), end],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert forked.returncode == other.returncode
    assert max(forked.stdout.splitlines()) == max(other.stdout.splitlines())
    assert not forked.stderr


def test_a_forked_program_has_its_arguments(tmp_path: Path):
    program = "import sys; print(__name__, sys.argv)"
    forked = processes.run("-c", program, "a", "--b", cwd=tmp_path, env={**os.environ})
    command = [sys.executable, "-c", program, "a", "--b"]
    assert (
        forked.stdout == subprocess.run(command, capture_output=True, text=True, check=True).stdout
    )


@pytest.mark.parametrize("end", ["None", "7", "os.kill(os.getpid(), 9)"])
def test_a_script_that_a_shell_finds_sees_and_says_what_any_other_does(tmp_path: Path, end: str):
    script = tmp_path / "bin" / "says"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\n{SAYS.replace('sys.path[:2]', 'sys.path[:1]')}")
    script.chmod(0o755)
    line = f'cd bin; echo "read this" | WORD=ä says "{end}" --flag 2>/dev/null | cat'
    said = []
    with processes.scripts(script) as folder:
        for place in (folder, script.parent):
            done = subprocess.run(
                ["bash", "-c", f"{line}; echo ${{PIPESTATUS[1]}}"],
                cwd=tmp_path,
                env={**os.environ, "PATH": f"{place}{os.pathsep}{os.environ['PATH']}"},
                capture_output=True,
                text=True,
                check=True,
            )
            said.append(done.stdout.replace(str(place), "BIN").replace(str(script.parent), "BIN"))
    assert said[0] == said[1]


def test_a_process_that_does_not_end_is_ended_and_the_next_one_runs(tmp_path: Path):
    (tmp_path / "waits.py").write_text("import time; time.sleep(60)")
    with pytest.raises(subprocess.TimeoutExpired):
        processes.run("waits", cwd=tmp_path, env={**os.environ}, timeout_s=0.2)
    (tmp_path / "ends.py").write_text("print('done')")
    assert processes.run("ends", cwd=tmp_path, env={**os.environ}).stdout == "done\n"


def test_what_few_commands_load_is_loaded_for_these_alone(tmp_path: Path):
    program = "import sys; print('zipapp' in sys.modules, sys.argv)"
    run = functools.partial(processes.run, "-c", program, "a", cwd=tmp_path, env={**os.environ})
    assert run(loaded=("zipapp",)).stdout == "True ['-c', 'a']\n"
    assert run().stdout == "False ['-c', 'a']\n"
    started = processes.start("-c", program, cwd=tmp_path, env={**os.environ}, loaded=("zipapp",))
    assert started.communicate(30) == ("True ['-c']\n", None)


@pytest.mark.parametrize("words", [("--fixtures",), ("--trace-config", "--collect-only")])
def test_a_forked_pytest_has_the_plugins_and_fixtures_of_any_other(
    tmp_path: Path, words: tuple[str, ...]
):
    (tmp_path / "test_one.py").write_text("def test_one(): ...\n")
    words = ("-p", "regauge", "--durations=0", "-q", *words)
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200"}
    forked = processes.run("pytest", *words, cwd=tmp_path, env=env).stdout
    command = [sys.executable, "-m", "pytest", *words]
    other = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    # Addresses, times and numbers of open files.
    differs = r" at 0x\w+|in \d\.\d+s|\b(oldfd|name)=\d+"
    said = [re.sub(differs, "", text) for text in (forked, other.stdout)]
    assert said[0] == said[1]
    assert "regauge" in said[0]


def test_the_line_of_a_gate_is_the_same_in_each_fork(tmp_path: Path):
    base = [Count(passed=12, trials=12)] * 9 + [Count(passed=9, trials=12)] * 3
    line = sensitivity_line(base, GatePolicy())
    program = (
        "from regauge.evidence import Count\nfrom regauge.gate import GatePolicy, power\n"
        f"print(power.sensitivity_line({base!r}, GatePolicy()))"
    )
    for _ in range(2):
        forked = processes.run("-c", program, cwd=tmp_path, env={**os.environ})
        assert forked.stdout == f"{line}\n", forked.stderr


def test_a_forked_process_may_call_scripts_many_at_once(tmp_path: Path):
    script = tmp_path / "says"
    script.write_text("import sys\nprint(sys.argv[1])\n")
    with processes.scripts(script) as folder:
        env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        program = (
            "import subprocess\n"
            "begun = [subprocess.Popen(['says', str(n)], stdout=-1) for n in range(20)]\n"
            "print([int(each.communicate()[0]) for each in begun] == [*range(20)])"
        )
        done = processes.run("-c", program, cwd=tmp_path, env=env, timeout_s=60)
    assert done.stdout == "True\n", done.stderr
