"""Shards of a run on machines of their own, and `regauge runs merge`, which joins them."""

from __future__ import annotations

import json
import random
import re
import shlex
import shutil
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from regauge.datasets import shard_of
from tests.gate_repo import FIXABLE, PROMPT, GateRepo, label_definitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests import processes
    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

COUNT = 3
JUDGES = "field_equals('severity')"
BARE_LABELS = "      - critical\n      - warning\n      - info\n"


def fresh(root: Path, *names: str) -> None:
    """Leave nothing on this machine of what ran before."""
    for name in names or (".regauge", "fixtures/recordings"):
        shutil.rmtree(root / name, ignore_errors=True)


def shards(project: EvalProject, *options: str, code: int = 0) -> list[str]:
    """Run every shard on a machine of its own; returns their directories."""
    directories: list[str] = []
    for number in range(1, COUNT + 1):
        fresh(project.root, ".regauge")
        directory = f"shard-{number}"
        fresh(project.root, directory)
        result = project.run(f"--shard={number}/{COUNT}", f"--report={directory}", *options)
        assert result.ret in {0, code}, result.stdout.str()
        directories.append(directory)
    fresh(project.root, ".regauge")
    return directories


def restore_after(project: EvalProject, directories: list[str]) -> Iterator[None]:
    """Give way to one change of the shards after the other, each of shards as they are now."""
    kept = project.root / "kept"
    for directory in directories:
        shutil.copytree(project.root / directory, kept / directory)
    while True:
        yield
        fresh(project.root, ".regauge", "fixtures/recordings", *directories)
        shutil.copytree(kept, project.root, dirs_exist_ok=True)


def merge(project: EvalProject, directories: list[str], *, code: int) -> str:
    """What a merge prints; one that is refused leaves no run."""
    runs = {*project.root.glob(".regauge/runs/*")}
    done = project.command("runs", "merge", *directories)
    assert done.returncode == code, done.stdout + done.stderr
    assert code != 2 or {*project.root.glob(".regauge/runs/*")} == runs
    return done.stdout + done.stderr


def without_times(record: dict[str, Any]) -> dict[str, Any]:
    """A run record without what no two runs have in common."""
    dropped = {"id", "started_at", "finished_at", "command", "merged"}
    return {key: value for key, value in record.items() if key not in dropped}


def rows_of(project: EvalProject) -> list[dict[str, Any]]:
    return sorted(project.rows(), key=lambda row: (row["node"], row["trial"]))


def shard_file(project: EvalProject, name: str = "run.json", number: int = 1) -> Path:
    return project.root / f"shard-{number}" / name


@pytest.fixture
def many(live: EvalProject) -> EvalProject:
    """Twenty cases of which every fifth fails, with a judge that compares labels."""
    live.golden(
        [
            live.case(number)
            | {"expected": {"severity": "info" if number % 5 == 0 else "critical"}}
            for number in range(20)
        ]
    )
    live.judged_by(JUDGES, body="result.check()")
    return live


def test_merged_shards_equal_one_run_in_any_order_and_merged_twice(
    many: EvalProject, endpoint: Endpoint
):
    many.run("--trials=2")
    recorded = (many.root / "fixtures/recordings/triage.jsonl").read_text()
    many.run("--record=none", "--trials=2")
    [*_, whole] = many.records()
    rows = rows_of(many)

    fresh(many.root)
    endpoint.forget()
    directories = shards(many, "--trials=2", code=1)
    assert endpoint.total == 40
    assert not many.recordings()  # a shard leaves what it recorded in its directory

    said = merge(many, directories, code=1)
    assert "fixtures/recordings/triage.jsonl; commit it" in said
    assert "failed: 4 cases of triage\n  " in said
    lines = (many.root / "fixtures/recordings/triage.jsonl").read_text().splitlines()

    def told(line: str) -> tuple[object, ...]:
        document = json.loads(line)
        return (
            document["case"],
            document["trial"],
            document["digest"],
            document["completion"]["text"],
        )

    assert list(map(told, lines)) == list(map(told, recorded.splitlines()))

    # A replay of the shards, merged in another order, and twice.
    directories = shards(many, "--record=none", "--trials=2", code=1)
    random.Random(1).shuffle(directories)
    merge(many, directories, code=1)
    merge(many, [*reversed(directories), directories[0]], code=1)
    first, second = many.records()
    assert first["merged"] == {"count": COUNT, "missing": [], "base": ""}
    assert without_times(first) == without_times(second)
    compared = {key: whole[key] for key in ("evals", "options", "git", "status")}
    assert {key: first[key] for key in compared} != {}
    for suite in (*first["evals"], *whole["evals"]):
        for name in ("latency_p50_s", "latency_p95_s"):
            suite.pop(name)
    assert {key: first[key] for key in compared} == compared

    def plain(row: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in row.items() if key != "latency_s"}

    assert [plain(row) for row in rows_of(many)] == [plain(row) for row in rows]
    assert (many.root / "fixtures/recordings/triage.jsonl").read_text().splitlines() == lines
    assert many.run("--record=none", "--trials=2").ret == 1


def test_cases_are_dealt_by_a_hash_of_their_id_and_stay_when_others_are_added(
    project: EvalProject,
):
    def cases() -> dict[str, int]:
        found: dict[str, int] = {}
        for number in range(1, COUNT + 1):
            project.run(f"--shard={number}/{COUNT}", f"--report=shard-{number}")
            rows = shard_file(project, "trials.jsonl", number)
            if rows.exists():
                found |= {
                    json.loads(line)["case"]: number for line in rows.read_text().splitlines()
                }
            shutil.rmtree(project.root / f"shard-{number}")
        return found

    before = cases()
    assert before == {case: shard_of(case, COUNT) for case in before}
    assert len(before) == 5
    project.golden([project.case(number) for number in range(12)])
    after = cases()
    assert len(after) == 12
    assert before.items() <= after.items()


def test_a_directory_without_a_shard_is_named_and_nothing_in_it(project: EvalProject):
    done = project.command("runs", "merge", ".")
    assert done.returncode == 2
    assert ".: holds no shard\n  fix: name directories of pytest evals" in done.stderr


def test_a_way_to_deal_cases_needs_a_shard(project: EvalProject):
    result = project.run("--shard-by=time")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --shard-by has no effect without --shard", "  fix: add --shard K/N*"]
    )
    for option in ("--max-cycles=0", "--more-trials=-1"):
        result = project.run("--suggest", "--gate=main", option)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["ERROR: --m* must be a number from * up, not *"])
    # Settings of a project may hold it for all shards.
    project.write("pytest.ini", "[pytest]\naddopts = -p regauge --shard-by=time\n")
    project.run("--record=missing").assert_outcomes(passed=5)


def test_a_shard_without_a_case_is_measured(project: EvalProject):
    project.golden([project.case(0)])
    empty = 2 if shard_of(project.case(0)["id"], 2) == 1 else 1
    for options in ((), ("-n2",)):
        result = project.run(f"--shard={empty}/2", f"--report=shard-{empty}", *options)
        assert result.ret == 0
        result.stdout.fnmatch_lines([f"shard {empty} of 2: 0 of 1 cases"])
        fresh(project.root, f"shard-{empty}")
    for number in (1, 2):
        assert project.run(f"--shard={number}/2", f"--report=shard-{number}").ret == 0
    merge(project, ["shard-1", "shard-2"], code=0)
    assert [row["case"] for row in project.rows()] == [project.case(0)["id"]]


def test_shards_run_with_xdist_and_several_models(many: EvalProject, endpoint: Endpoint):
    models = ("--model=local:clerk", "--model=local:apprentice")
    directories = shards(many, "-n2", *models, code=1)
    assert endpoint.total == 40
    merge(many, directories, code=1)
    many.run("--record=none", *models)
    merged, whole = many.records()
    for suite in (*merged["evals"], *whole["evals"]):
        for name in ("latency_p50_s", "latency_p95_s", "replays", "live", "spent_usd"):
            suite.pop(name)
    assert merged["evals"] == whole["evals"]
    assert merged["evals"][1]["comparison"]["cases"] == 20


def test_cases_are_dealt_by_recorded_time_alike_in_every_shard(
    many: EvalProject, endpoint: Endpoint
):
    many.run()
    path = many.root / "fixtures/recordings/triage.jsonl"
    slow = {f"disk-{number:03}" for number in range(COUNT)}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["completion"]["latency_s"] = 60.0 if line["case"] in slow else 1.0
    path.write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines))
    directories = shards(many, "--record=none", "--shard-by=time", code=1)
    merge(many, directories, code=1)
    counts = Counter(
        sum(
            json.loads(line)["case"] in slow
            for line in shard_file(many, "trials.jsonl", number).read_text().splitlines()
        )
        for number in range(1, COUNT + 1)
    )
    assert counts == {1: COUNT}
    # Where recordings differ from those of the others, the plan does, too.
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    fresh(many.root, "shard-1")
    many.run("--shard=1/3", "--report=shard-1", "--shard-by=time", "--record=missing")
    assert "contradict each other in the record mode" in merge(many, directories, code=2)


@pytest.mark.parametrize("given", ["0/3", "4/3", "3", "a/b", "1/99999999", "-1/3"])
def test_a_shard_that_is_none_is_refused(project: EvalProject, given: str):
    result = project.run(f"--shard={given}")
    assert result.ret != 0
    assert "write the third of 20 as 3/20" in result.stdout.str() + result.stderr.str()


def test_settings_of_pytest_cannot_leave_other_shards_out(project: EvalProject):
    project.settings(pytest='addopts_ = ""')
    text = (project.root / "pyproject.toml").read_text()
    project.write("pyproject.toml", text.replace('"regauge",', '"regauge", "--shard=1/3",'))
    result = project.run()
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*settings of pytest add --shard*"])


def test_a_missing_shard_is_unmeasured_and_a_failed_case_fails(project: EvalProject):
    project.golden([project.case(number) for number in range(12)])
    directories = shards(project)
    assert "unmeasured:" not in merge(project, directories, code=0)
    said = merge(project, directories[:-1], code=3)
    assert "unmeasured: 1 shard of 3 missing: 3" in said
    [*_, record] = project.records()
    assert (record["status"], record["merged"]["missing"]) == ("interrupted", [3])
    assert "interrupted" in project.command("report", "latest").stdout
    # A shard whose job ended in the middle leaves no record.
    shard_file(project).unlink()
    said = merge(project, directories, code=3)
    assert "shard-1: no run.json, so this shard did not finish" in said
    merge(project, ["nowhere"], code=3)


def test_a_failed_assertion_of_an_eval_fails_the_merged_run(project: EvalProject):
    project.judged_by("json_parses()", body="assert result.case.id != 'disk-001'")
    directories = shards(project, code=1)
    said = merge(project, directories, code=1)
    assert "failed apart from judges: evals/test_triage.py::test_triage[disk-001]: " in said
    assert [*project.records()[-1]["failed_tests"]] == [
        "evals/test_triage.py::test_triage[disk-001]"
    ]


def test_cases_without_a_completion_are_unmeasured(project: EvalProject):
    directories = shards(project, "--record=none", code=1)
    said = merge(project, directories, code=3)
    assert "unmeasured: 5 cases of triage (MissingRecordingError)\n  disk-000, " in said


_CONTRADICTIONS: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda run: run["shard"]["evals"][0].update(prompt_digest="0" * 64), "prompt_digest"),
    (lambda run: run["shard"]["evals"][0].update(dataset_digest="0" * 64), "dataset_digest"),
    (lambda run: run["shard"]["evals"][0].update(judges={}), "judges"),
    (lambda run: run["shard"]["evals"].clear(), "the evals"),
    (lambda run: run["shard"].update(count=4), "the number of shards"),
    (lambda run: run["shard"].update(shard_by="time"), "--shard-by"),
    (lambda run: run.update(regauge_version="0.0.1"), "the version of regauge"),
    (
        lambda run: run.update(git={"commit": "0" * 40, "branch": None, "dirty": False}),
        "the commit",
    ),
    (lambda run: run["shard"].update(number=2), "is in shard-1 and in shard-2"),
]


def test_shards_of_which_one_has_the_cases_with_checks_are_merged(many: EvalProject):
    case = many.case(0) | {"expected": {"severity": "critical"}}
    many.golden([case | {"checks": ["json_parses"]}, *({**case, "id": f"c{n}"} for n in range(6))])
    directories = shards(many)
    judges = [
        {*suite["judges"]}
        for name in directories
        for suite in json.loads((many.root / name / "run.json").read_text())["shard"]["evals"]
    ]
    assert {*map(len, judges)} == {1, 2}
    merge(many, directories, code=0)


def test_shards_that_contradict_each_other_are_refused(
    project: EvalProject, subtests: pytest.Subtests
):
    directories = shards(project)
    path = shard_file(project)
    for (change, words), _ in zip(
        _CONTRADICTIONS, restore_after(project, directories), strict=False
    ):
        with subtests.test(words):
            run = json.loads(path.read_text())
            change(run)
            path.write_text(json.dumps(run))
            said = merge(project, directories, code=2)
            assert words in said
            assert "fix:" in said
            assert not project.recordings()
            assert not project.records()


def test_a_shard_of_other_cases_than_the_others_is_refused(
    project: EvalProject, subtests: pytest.Subtests
):
    directories = shards(project)
    for option in ("-k=disk-000", "--deselect=evals/test_triage.py", "--trials=2"):
        with subtests.test(option):
            fresh(project.root, "shard-2")
            project.run("--shard=2/3", "--report=shard-2", option)
            fresh(project.root)
            text = merge(project, directories, code=2)
            assert "contradict each other in the " in text
            assert option.partition("=")[2].rpartition(" ")[2] in text
            assert not project.records()


def test_cases_that_no_shard_selects_are_counted(project: EvalProject):
    text = merge(project, shards(project, "-k=disk-000", code=5), code=0)
    assert "4 of 5 cases left out by -k disk-000" in text
    text = merge(project, shards(project, "-k=nothing", code=5), code=3)
    assert "unmeasured: none of 5 cases was selected by -k nothing" in text


def test_the_number_of_concurrent_calls_may_differ(project: EvalProject):
    directories = shards(project)
    fresh(project.root, "shard-2")
    result = project.run("--shard=2/3", "--report=shard-2", "--concurrency=3")
    result.stdout.fnmatch_lines(["recorded: *.jsonl; regauge runs merge writes it"])
    merge(project, directories[::-1], code=0)
    first = json.loads(shard_file(project).read_text())["options"]
    assert project.records()[-1]["options"] == first
    # One of them alone is merged, too.
    merge(project, directories[1:2], code=3)
    assert project.records()[-1]["options"]["concurrency"] == 3


def test_paths_that_are_no_shards_are_named(project: EvalProject):
    directories = shards(project)
    assert "fix: regauge runs merge ./*" in merge(project, ["."], code=2)
    assert "pyproject.toml: not a directory" in merge(
        project, [*directories, "pyproject.toml"], code=2
    )
    assert "nowhere: there is no such directory" in merge(project, ["nowhere"], code=3)


def test_two_directories_of_one_shard_are_refused(project: EvalProject):
    """Their run records are equal, and a recording of one may be another."""
    directories = shards(project)
    shutil.copytree(project.root / "shard-1", project.root / "again")
    assert "shard 1 is in again and in shard-1" in merge(project, [*directories, "again"], code=2)


def test_shards_of_another_commit_than_the_checkout_are_refused(project: EvalProject):
    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *words],
            cwd=project.root,
            check=True,
        )

    git("init", "-q")
    project.write(".gitignore", ".regauge/\nshard-*/\nrunpytest-*/\n__pycache__/\n")
    git("add", "-A")
    git("commit", "-qm", "one")
    directories = shards(project)
    git("commit", "-qm", "two", "--allow-empty")
    assert "and this checkout is" in merge(project, directories, code=2)
    git("reset", "-q", "--hard", "HEAD~1")
    merge(project, directories, code=0)
    with (project.root / "evals/test_triage.py").open("a") as file:
        file.write("# another\n")
    project.run("--shard=2/3", "--report=shard-2")
    said = merge(project, directories, code=2)
    assert "contradict each other in uncommitted changes: no and yes" in said


def damage_row(project: EvalProject, **values: object) -> None:
    """Change the first row of a shard that has some."""
    for number in range(1, COUNT + 1):
        path = shard_file(project, "trials.jsonl", number)
        if path.exists():
            first, *others = path.read_text().splitlines(keepends=True)
            path.write_text(f"{json.dumps(json.loads(first) | values)}\n" + "".join(others))
            return


def damage_recording(project: EvalProject, text: str) -> None:
    """Write a line to the recordings of the first shard."""
    path = shard_file(project, "recordings/triage.jsonl")
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(f"{text}\n")


def recorded_secret(project: EvalProject) -> None:
    [line, *_] = (
        next(path for path in sorted(project.root.glob("shard-*/recordings/triage.jsonl")))
        .read_text()
        .splitlines()
    )
    recording = json.loads(line)
    recording["completion"]["text"] = "sk-proj-" + "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2Yz3"
    recording["trial"] = 7
    damage_recording(project, json.dumps(recording))


def linked(project: EvalProject, name: str) -> None:
    path = shard_file(project, name)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(project.root / "pyproject.toml")


def cut(project: EvalProject, name: str) -> None:
    path = shard_file(project, name)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


_DAMAGES: list[tuple[Callable[[EvalProject], object], str]] = [
    (lambda p: linked(p, "trials.jsonl"), "trials.jsonl: a link"),
    (lambda p: linked(p, "run.json"), "run.json: a link"),
    (lambda p: linked(p, "gate-trials.jsonl"), "gate-trials.jsonl: a link"),
    (lambda p: linked(p, "recordings/other.jsonl"), "other.jsonl: no file of recordings"),
    (lambda p: shard_file(p, "evil.py").write_text("1"), "evil.py: a shard leaves no such"),
    (lambda p: damage_recording(p, "{}"), "triage.jsonl:"),
    (lambda p: damage_recording(p, '{"case": 1' + "[" * 100_000), "triage.jsonl:"),
    (recorded_secret, "holds what looks like a secret"),
    (lambda p: damage_row(p, output="sk-proj-" + "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Q"), "looks like a"),
    (
        lambda p: damage_row(p, node="evals/test_other.py::test_x[a]"),
        "of no eval of this shard",
    ),
    (lambda p: damage_row(p, prompt_digest="0" * 64), "of another prompt than this shard's"),
    (lambda p: damage_row(p, unknown=1), "damaged: `unknown` is unknown"),
    (lambda p: damage_row(p, input_tokens="9"), "damaged: `input_tokens`: Input should be a"),
    (lambda p: damage_row(p, cost_usd=-5), "damaged: `cost_usd`: Input should be greater than"),
    (lambda p: cut(p, "run.json"), "fix: copy its directory again in case it was cut off"),
    (
        lambda p: shard_file(p, "gate-trials.jsonl").write_text('{"about": 1}\n'),
        "gate-trials.jsonl:1: not a trial of a gate",
    ),
]


def test_what_no_shard_leaves_is_refused_with_its_file(
    live: EvalProject, subtests: pytest.Subtests
):
    directories = shards(live)
    for (damage, words), _ in zip(_DAMAGES, restore_after(live, directories), strict=False):
        with subtests.test(words):
            damage(live)
            said = merge(live, directories, code=2)
            assert words in said
            assert not live.recordings()
            assert not live.records()


def test_a_directory_that_was_cut_off_is_never_green(many: EvalProject, endpoint: Endpoint):
    directories = shards(many, code=1)
    paid = endpoint.total
    recordings = "recordings/triage.jsonl"
    for name, keep in (
        (recordings, 0),
        (recordings, 1.0),  # all but the last line, which nothing else shows
        (recordings, 0.5),
        ("trials.jsonl", 1.0),
        ("trials.jsonl", 0.5),
        ("run.json", 0.5),
    ):
        path = shard_file(many, name)
        content = path.read_bytes()
        lines = content.splitlines(keepends=True)
        size = len(content) - len(lines[-1]) if keep == 1.0 else int(len(content) * keep) + 1
        path.write_bytes(content[: size if keep else 0])
        done = many.command("runs", "merge", *directories)
        said = done.stdout + done.stderr
        assert done.returncode == 2, said
        assert f"shard-1/{name}" in said
        assert not many.recordings()
        path.write_bytes(content)
        fresh(many.root)
    merge(many, directories, code=1)
    assert len(many.recordings()) == 20
    assert endpoint.total == paid


def test_a_merge_that_is_killed_leaves_nothing_in_the_way(
    many: EvalProject, kill: Callable[[processes.Started], None]
):
    directories = shards(many, code=1)
    folder = many.root / "fixtures/recordings"
    draft = folder / ".triage.jsonl.999999.tmp"
    for wait_s in (0.0, 0.5, 1.0, 2.0):
        started = many.start_command("runs", "merge", *directories)
        time.sleep(wait_s)
        kill(started)
        folder.mkdir(parents=True, exist_ok=True)
        draft.write_text("half a li")  # as of a process that is killed while it writes
    merge(many, directories, code=1)
    assert [path.name for path in folder.iterdir()] == ["triage.jsonl"]
    assert len(many.recordings()) == 20
    assert many.run("--record=none").ret == 1


def test_a_file_that_is_too_large_is_refused(project: EvalProject):
    directories = shards(project)
    path = shard_file(project, "trials.jsonl")
    with path.open("ab") as file:
        file.truncate(513 * 1024 * 1024)
    assert "512 MiB is the limit" in merge(project, directories, code=2)


def test_a_case_of_another_shard_is_refused(project: EvalProject):
    directories = shards(project)
    rows = [
        shard_file(project, "trials.jsonl", number)
        for number in range(1, COUNT + 1)
        if shard_file(project, "trials.jsonl", number).exists()
    ]
    with rows[0].open("a") as file:
        file.write(rows[1].read_text())
    assert "is of another shard" in merge(project, directories, code=2)
    # As often as a case is there, it counts once.
    rows[0].write_text(rows[0].read_text().splitlines(keepends=True)[0] * 2)
    assert "is there twice" in merge(project, directories, code=2)


@pytest.mark.parametrize("forged", [False, True])
def test_a_job_with_a_key_takes_no_shard_of_a_fork(
    project: EvalProject, monkeypatch: pytest.MonkeyPatch, *, forged: bool
):
    event = {
        "pull_request": {
            "number": 7,
            "head": {"sha": "1", "repo": {"full_name": "fork/prompts"}},
            "base": {"ref": "main", "sha": "2"},
        }
    }
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(project.write("event.json", json.dumps(event))))
    monkeypatch.setenv("GITHUB_REPOSITORY", "us/prompts")
    monkeypatch.setenv("GITHUB_RUN_ID", "1")
    directories = shards(project)
    merge(project, directories, code=0)  # the fork's own job has no key
    for number in range(1, COUNT + 1):
        path = shard_file(project, number=number)
        run = json.loads(path.read_text())
        assert run["shard"]["job"] == {"id": "github:1", "fork": True}
        if forged:  # a fork writes what it likes
            run["shard"]["job"]["fork"] = False
            path.write_text(json.dumps(run))
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-ours")
    monkeypatch.setenv("GITHUB_RUN_ID", "2")
    said = merge(project, directories, code=2)
    assert "this job has a key (OPENAI_API_KEY)" in said
    assert ("another job (github:1)" if forged else "a fork's pull request") in said


def test_tests_of_a_gate_that_fail_apart_from_judges_reach_its_decision(tmp_path: Path):
    repo = GateRepo(tmp_path)
    path = "evals/test_alert_severity.py"
    repo.write(path, f"{repo.read(path)}    assert result.case.id != '{FIXABLE[0]}'\n")
    repo.commit("Demand more")
    repo.pytest(code=1)  # unchanged cases run from recordings
    directories: list[str] = []
    for number in range(1, COUNT + 1):
        fresh(repo.root, ".regauge")
        directory = f"shard-{number}"
        part = f"--shard={number}/{COUNT}", "--gate=HEAD", f"--report={directory}"
        assert "unmeasured: " not in repo.pytest(*part, code=None)
        directories.append(directory)
    said = repo.regauge("runs", "merge", *directories, code=1)
    assert "failed apart from judges: " in said
    assert "no decision yet: regauge gate " in said
    assert "1 test failed apart from judges" in repo.regauge("runs", "list")
    merged = re.findall(r"^run (\S+)", said, re.MULTILINE)[0]  # runs of one second have no order
    said = repo.regauge("gate", "HEAD", "--from", merged, code=1)
    assert "gate: accepted" in said
    assert "next: fix the tests that failed apart from judges" in said
    runs = (repo.root / ".regauge/runs").iterdir()
    reports = [repo.regauge("report", run.name) for run in runs]
    assert any("❌ regauge gate: accepted" in report for report in reports)


def test_suggestions_need_every_case(project: EvalProject):
    result = project.run("--shard=1/2", "--suggest")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--suggest needs every case*"])


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> GateRepo:
    """Main with a baseline of twelve trials of each case, and a prompt that lost its definitions."""
    repo = GateRepo(tmp_path_factory.mktemp("gated"))
    repo.write(".gitignore", repo.read(".gitignore") + "shard-*/\n")
    repo.regauge("baseline", "update", "--trials", "12")
    repo.commit("Measure main")
    repo.branch("change")
    repo.release("minor", (label_definitions(repo.read(PROMPT)), BARE_LABELS))
    return repo


def gated_shards(repo: GateRepo) -> list[str]:
    directories: list[str] = []
    for number in range(1, COUNT + 1):
        fresh(repo.root)
        directory = f"shard-{number}"
        fresh(repo.root, directory)
        said = repo.pytest(
            f"--shard={number}/{COUNT}", "--gate=main", f"--report={directory}", code=0
        )
        assert f"shard {number} of {COUNT}: no decision" in said
        assert "rejected" not in said
        assert " measured in " in said
        assert "passed in" not in said
        directories.append(directory)
    for words in (["gate"], ["gate", "main"]):
        refused = repo.regauge(*words, "--from", "latest", code=2)
        assert f"is shard {COUNT} of {COUNT}, which decides nothing" in refused
    fresh(repo.root)
    return directories


def test_shards_of_a_gate_decide_nothing_and_the_merged_run_decides_with_the_suspects(
    repo: GateRepo,
):
    directories = gated_shards(repo)
    said = repo.regauge("gate", "main", "--from", "latest", code=2)
    assert "there are no runs" in said
    compared = repo.regauge("runs", "compare", *directories[:2], "--no-diff")
    assert len(re.findall(r" [AB] \(simulated\) +\d+ +- +- +- +0 ", compared)) == 2
    titled = repo.regauge("runs", "compare", *directories[:2], "-o", "-")
    undecided = "trials of a gate, no decision yet"
    assert f"### regauge: A: {undecided} · B: {undecided}\n" in titled
    said = repo.regauge("runs", "merge", *directories)
    assert "no decision yet: regauge gate " in said
    refused = repo.regauge("gate", "--from", "latest", code=2)
    base = repo.git("rev-parse", "main").strip()[:12]
    assert f"fix: add REF: regauge gate {base} --from latest --record missing" in refused
    record = json.loads(next((repo.root / ".regauge/runs").glob("*/run.json")).read_text())
    assert record["decision"] is None
    assert record["merged"]["base"] == repo.git("rev-parse", "main").strip()
    first = {(row["case"], row["trial"]) for row in rows_in(repo)}
    assert len(first) >= 20
    assert "trials of a gate, no decision yet" in repo.regauge("report", "latest")
    assert " cases, no decision, 0 unmeasured" in repo.regauge("runs", "list")
    assert repo.regauge("report", "latest", "-o", "page.html")
    page = repo.read("page.html")
    assert "Trials of a gate, no decision yet" in page
    passed, measured = map(int, re.findall(r"(\d+) of (\d+), ", page)[0])
    assert passed < measured

    repo.regauge("gate", "main", "--from", "latest", "--record", "missing", code=1)
    decision = repo.decision()
    assert decision["decision"] == "reject"
    merged = repo.verdicts()
    assert not {*FIXABLE} & {case for case, verdict in merged.items() if verdict == "broken"}
    # The trials of the shards are not run again.
    again = [row for row in rows_in(repo) if row["source"] == "live"]
    assert again
    assert not first & {(row["case"], row["trial"]) for row in again}

    # The printed command does not mean the gate itself by `latest`.
    program, *words = shlex.split(decision["rerun_command"])
    assert program == "regauge"
    repo.regauge(*words, code=1)
    assert repo.verdicts() == merged

    # One machine comes to the same.
    fresh(repo.root)
    repo.gate(code=1)
    assert repo.verdicts() == merged


def rows_in(repo: GateRepo) -> list[dict[str, Any]]:
    """The rows of the latest run."""
    paths = (repo.root / ".regauge/runs").glob("*/trials.jsonl")
    path = max(paths, key=lambda path: path.stat().st_mtime_ns)
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_merged_gate_without_a_shard_or_of_another_kind_does_not_decide(repo: GateRepo):
    directories = gated_shards(repo)
    repo.regauge("runs", "merge", *directories[1:], code=3)
    said = repo.regauge("gate", "main", "--from", "latest", "--record", "missing", code=3)
    assert "is without shard 1 of 3" in said
    fresh(repo.root)
    repo.pytest("--record=missing", code=None)
    said = repo.regauge("gate", "main", "--from", "latest", code=2)
    assert "not merged from shards of a gate" in said


def test_a_shard_finds_a_recording_that_is_filed_under_a_case_of_another(project: EvalProject):
    """Cases with the same inputs make the same request, which is recorded once."""
    cases = [project.case(0) | {"id": f"disk-{number:03}"} for number in range(9)]
    project.golden(cases)
    project.run()
    assert len(project.recordings()) == 1
    fresh(project.root, ".regauge")
    for number in range(1, COUNT + 1):
        assert project.run(f"--shard={number}/{COUNT}", "--record=none").ret == 0
