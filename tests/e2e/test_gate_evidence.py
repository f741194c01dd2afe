"""Whose trials decide: the gate's own, kept for the next run, and never the author's choice."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from regauge.digests import canonical_json, digest_of
from regauge.maintenance.baseline_views import issue_text
from tests.e2e.test_embeddings import Embeddings
from tests.fakes import Endpoint as Served
from tests.judge_source import MEMOISED, MODEL_JUDGE, MODEL_JUDGES_GATE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

REWORDED = "{{text}} (reworded)"
CASES = 24


class Model:
    """Answers `yes` or `no` with a chance by request, and always in the same order."""

    def __init__(self) -> None:
        self.passes = 1.0
        self.reworded = 1.0
        self.worse: frozenset[str] = frozenset()
        self.asked: Counter[str] = Counter()

    def __call__(self, text: str) -> str:
        self.asked[text] += 1
        case = text.split(":", maxsplit=1)[0]
        chance = self.passes
        if text.endswith("(reworded)") and (not self.worse or case in self.worse):
            chance = self.reworded
        digest = hashlib.sha256(f"{text} {self.asked[text]}".encode()).digest()
        return "yes" if int.from_bytes(digest[:4], "big") / 2**32 < chance else "no"


class Built:
    """The first project of a module, as it was before its test; no directory until then.

    Attributes:
        asked: What its model had been asked for then.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked: Counter[str] = Counter()


class Repository:
    """A project in git whose model is served on 127.0.0.1, with a baseline on `main`.

    Args:
        built: A copy of such a project, with the same judge and endpoint.
        trials: Of each case in the baseline.
    """

    def __init__(
        self,
        project: EvalProject,
        endpoint: Endpoint,
        model: Model,
        *,
        judge: str = "equals('yes')",
        more: str = "",
        built: Built | None = None,
        trials: int = 12,
    ) -> None:
        self._trials = str(trials)
        self.project = project
        self.endpoint = endpoint
        endpoint.answer = model
        if built is None or not built.path.exists():
            self._build(judge, more)
            if built is not None:
                shutil.copytree(project.root, built.path)
                built.asked.update(model.asked)
        else:
            shutil.copytree(built.path, project.root, dirs_exist_ok=True)
            model.asked.update(built.asked)
        endpoint.forget()

    def _build(self, judge: str, more: str) -> None:
        project = self.project
        project.write(
            ".gitignore", ".regauge/\n__pycache__/\n.pytest_cache/\nrunpytest-*/\n*.txt\n"
        )
        project.golden(
            [{"id": f"c{n:02}", "inputs": {"text": f"c{n:02}: is it?"}} for n in range(CASES)]
        )
        project.judged_by(judge, more=more)
        project.command("bump", "triage")
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.email", "dev@example.org")
        self.git("config", "user.name", "Dev")
        self.commit("main")
        done = project.command("baseline", "update", "--trials", self._trials)
        assert done.returncode == 0, done.stdout + done.stderr
        self.commit("baseline")
        self.git("checkout", "-q", "-b", "reword")
        self.reword(REWORDED)

    def reword(self, user: str) -> None:
        """Change the prompt, give it its next version, and commit."""
        version = next(
            line.split()[1]
            for line in (self.project.root / "prompts/triage.prompt.yml").read_text().splitlines()
            if line.startswith("version:")
        )
        self.project.prompt(user=user, version=version)
        self.project.command("bump", "triage", "minor", "-m", "Reword")
        self.commit("reword")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.project.root, check=True, capture_output=True, text=True
        )
        return done.stdout

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def record_until_green(self) -> None:
        """What many do after a red run: record what failed again, until it passes."""
        self.project.run("--record=missing")
        while failed := [
            row["case"]
            for row in self.project.recordings()
            if row["version"] != "1.0.0" and row["completion"]["text"] == "no"
        ]:
            self.project.run("-k", " or ".join(failed), "--record=all")
        self.commit("recordings")

    def gate(self, *words: str, code: int | None = None) -> dict[str, Any]:
        """The decision of `regauge gate main`, with what it printed as `printed`."""
        done = self.project.command("gate", "main", *words)
        printed = done.stdout + done.stderr
        assert code is None or done.returncode == code, printed
        decision: dict[str, Any] = self.project.records()[-1]["decision"]
        return {**decision, "printed": printed, "returncode": done.returncode}

    def fresh_runner(self, cache: Path | None = None) -> None:
        """Forget what is not committed, as another machine does; `cache` is what CI carries."""
        shutil.rmtree(self.project.root / ".regauge")
        if cache is not None:
            shutil.copytree(cache, self.project.root / ".regauge" / "gate")


@pytest.fixture(scope="module")
def served() -> Iterator[Endpoint]:
    with Served() as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(served: Endpoint) -> Endpoint:
    """One for all of these tests: a project that is built once names it."""
    return served


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(tmp_path_factory.mktemp("built") / "project")


@pytest.fixture
def model() -> Model:
    return Model()


def test_recording_again_until_green_changes_no_decision(
    live: EvalProject, endpoint: Endpoint, model: Model, built: Built
):
    repo = Repository(live, endpoint, model, built=built)
    model.worse, model.reworded = frozenset(f"c{n:02}" for n in range(10)), 0.3
    repo.record_until_green()
    fork = repo.gate("--record=none", code=0)
    assert fork["provisional"]
    assert "provisional, from recordings by the author of the change" in fork["printed"]
    assert fork["calls"]["live"] == 0
    # Without trials of base a replay sees less than a gate that may call the model.
    assert "this replay, with 1 recorded trial of each case, sees: 1 broken" in fork["printed"]
    replay = live.run("--gate", "main", "--record=none")
    assert "provisional" in replay.stdout.str()
    assert "unmeasured:" not in replay.stdout.str()

    repo.fresh_runner()
    keyed = repo.gate(code=1)
    assert not keyed["provisional"]
    assert "\nsees: 1 broken case" in keyed["printed"]
    assert keyed["calls"]["live"] >= CASES
    assert "wrote" in keyed["printed"] or "recorded: " in keyed["printed"]
    assert keyed["audit"]["better"] > keyed["audit"]["worse"]
    recorded = {row["trial"] for row in live.recordings() if row["version"] == "1.1.0"}
    assert {0, 3000} <= recorded


def test_a_repeated_gate_makes_the_same_trials_again_without_a_call(
    live: EvalProject, endpoint: Endpoint, model: Model, built: Built, tmp_path: Path
):
    repo = Repository(live, endpoint, model, built=built)
    model.worse, model.reworded = frozenset({"c03", "c04"}), 0.5
    first = repo.gate()
    cache = tmp_path / "cache"
    shutil.copytree(live.root / ".regauge" / "gate", cache)
    repo.git("checkout", "-q", "--", ".")
    repo.git("clean", "-fdq")
    endpoint.forget()

    def same_again(*words: str) -> None:
        again = repo.gate(*words, code=first["returncode"])
        assert endpoint.total == 0
        counts = ["decision", "rejected_before"]
        assert [again[key] for key in counts] == [first[key] for key in counts]
        assert [case["candidate"] for case in again["cases"]] == [
            case["candidate"] for case in first["cases"]
        ]
        repo.git("checkout", "-q", "--", ".")
        repo.git("clean", "-fdq")

    repo.fresh_runner(cache)
    same_again()
    repo.commit("an empty commit")
    repo.fresh_runner(cache)
    same_again()
    repo.git("checkout", "-q", "main")
    live.write("README.md", "Main has moved on.\n")
    repo.commit("move on")
    repo.git("checkout", "-q", "reword")
    repo.git("rebase", "-q", "main")
    repo.fresh_runner(cache)
    same_again()
    same_again("--record=all")

    repo.fresh_runner()
    repo.gate()
    assert endpoint.total >= CASES


def test_kept_trials_of_one_endpoint_are_not_those_of_another(
    live: EvalProject, endpoint: Endpoint, model: Model, built: Built
):
    repo = Repository(live, endpoint, model, built=built)
    first = repo.gate(code=0)
    path = live.root / "pyproject.toml"
    settings = path.read_text()
    with Served(answer=lambda text: "no" if "reworded" in text else "yes") as other:
        path.write_text(settings.replace(endpoint.base_url, other.base_url))
        endpoint.forget()
        moved = repo.gate("--accept-judge-change", "Another server", code=1)
        assert moved["calls"]["live"] == other.total >= CASES
        path.write_text(f"{settings}\n[tool.regauge.providers.unused]\nbase_url = 'http://x/v1'\n")
        again = repo.gate(code=0)
    assert endpoint.total == 0
    assert again["calls"]["live"] == 0
    assert [case["candidate"] for case in again["cases"]] == [
        case["candidate"] for case in first["cases"]
    ]


def test_a_provider_that_falls_between_two_versions_is_not_blamed_on_the_second(
    live: EvalProject, endpoint: Endpoint, model: Model, built: Built
):
    repo = Repository(live, endpoint, model, built=built)
    model.reworded = 0.85
    repo.gate()
    model.passes = model.reworded = 0.7
    repo.reword("{{text}}  (reworded)")
    endpoint.forget()
    second = repo.gate()
    assert second["decision"] != "reject", second["printed"]
    calls = second["calls"]
    assert calls["base"] >= CASES
    assert calls["live"] == endpoint.total == calls["first"] + calls["follow_up"] + calls["base"]
    repo.commit("an empty commit")
    endpoint.forget()
    again = repo.gate(code=second["returncode"])
    assert again["cases"] == second["cases"]
    assert endpoint.total == 0


def test_an_undecided_gate_continues_its_trials_with_the_command_it_prints(
    live: EvalProject, endpoint: Endpoint, model: Model, built: Built
):
    repo = Repository(live, endpoint, model, built=built)
    model.worse, model.reworded = frozenset({"c01"}), 0.75
    before = repo.gate(code=4)
    assert [x["case"] for x in before["cases"] if x["status"] == "undecided"] == ["c01"]
    asked = endpoint.total
    assert repo.gate(code=4)["cases"] == before["cases"]
    assert endpoint.total == asked
    while before["decision"] == "undecided":
        advice = re.search(
            r"next: undecided is not accepted \(exit code 4\); .* input `more-trials` or this"
            r" command: (?:\S+ )*?regauge gate main (--more-trials=8)",
            before["printed"],
        )
        assert advice is not None, before["printed"]
        endpoint.forget()
        after = repo.gate(advice[1])
        old, new = ({x["case"]: x for x in one["cases"]} for one in (before, after))
        for side in ("candidate", "today"):
            assert new["c01"][side]["trials"] == old["c01"][side]["trials"] + 8
            assert new["c01"][side]["passed"] >= old["c01"][side]["passed"]
            assert all(new[x][side] == old[x][side] for x in new if x != "c01")
        assert after["calls"]["live"] == endpoint.total <= 16
        before = after
    assert before["decision"] == "reject"
    assert before["returncode"] == 1


def test_a_rejected_version_stays_rejected_and_is_counted(
    live: EvalProject, endpoint: Endpoint, model: Model, built: Built
):
    repo = Repository(live, endpoint, model, built=built)
    model.worse, model.reworded = frozenset(f"c{n:02}" for n in range(8)), 0.0
    assert repo.gate(code=1)["rejected_before"] == 0
    endpoint.forget()
    again = repo.gate("--more-trials=24", code=1)
    assert endpoint.total == 0
    assert "decided before (reject), so --more-trials was not used" in again["printed"]
    assert again["rejected_before"] == 0
    repo.reword("{{text}}  (reworded)")
    second = repo.gate(code=1)
    assert second["rejected_before"] == 1
    assert "1 version of this branch was rejected before" in second["printed"]
    assert (
        "1 version of this branch was rejected before"
        in live.command("report", "--comment", "--dry-run").stdout
    )


def test_recordings_that_somebody_edited_are_not_the_gates_trials(
    live: EvalProject, endpoint: Endpoint, model: Model, built: Built
):
    repo = Repository(live, endpoint, model, built=built)
    model.worse, model.reworded = frozenset(f"c{n:02}" for n in range(10)), 0.0
    repo.gate(code=1)
    path = live.root / "fixtures/recordings/triage.jsonl"
    path.write_text(path.read_text().replace('"text":"no"', '"text":"yes"'))
    repo.commit("recordings")
    repo.fresh_runner()
    assert repo.gate("--record=none", code=0)["provisional"]
    repo.fresh_runner()
    assert repo.gate(code=1)["audit"]["result"] == "better"


class Judging(Model):
    """The same model, asked for a score as well: high for `yes`."""

    def __call__(self, text: str) -> str:
        if text.startswith("judge "):
            return json.dumps({"score": 0.9 if text.endswith("yes") else 0.1})
        return super().__call__(text)


@pytest.mark.parametrize("kind", ["Asking", "Memoised"])
def test_judgements_that_the_author_edited_do_not_judge_the_gates_trials(
    live: EvalProject, endpoint: Endpoint, kind: str
):
    model = Judging()
    source = MODEL_JUDGE + MEMOISED + MODEL_JUDGES_GATE
    judge = f"asking('fair', model='local:judge', kind={kind})"
    repo = Repository(live, endpoint, model, judge=judge, more=source, trials=3)
    model.worse, model.reworded = frozenset(f"c{n:02}" for n in range(10)), 0.0
    repo.gate(code=1)
    recordings = live.root / "fixtures/recordings"
    for path in (recordings / "judges/triage.jsonl", recordings / "verdicts/triage.jsonl"):
        if kind == "Memoised" or path.parent.name == "judges":
            path.write_text(path.read_text().replace("0.1", "0.9"))
    repo.commit("recordings")
    repo.fresh_runner()
    assert repo.gate("--record=none", code=0)["provisional"]
    repo.fresh_runner()
    keyed = repo.gate(code=1)
    assert not keyed["provisional"]
    broken = {case["case"] for case in keyed["cases"] if case["status"] == "broken"}
    assert broken == model.worse


def test_vectors_that_the_author_committed_do_not_judge_the_gates_trials(
    live: EvalProject, endpoint: Endpoint, model: Model
):
    with Embeddings() as vectors:
        table = f'\n[tool.regauge.providers.vectors]\nbase_url = "{vectors.base_url}"\n'
        live.settings(provider=table)
        judge = "means_like(to='yes', model='vectors:small', at_least=0.9)"
        repo = Repository(live, endpoint, model, judge=judge, trials=3)
        repo.git("checkout", "-q", "main")
        live.run("--record=missing")
        repo.commit("recordings")
        repo.git("checkout", "-q", "reword")
        repo.git("rebase", "-q", "main")
        model.reworded = 0.0
        live.run("--record=missing")
        path = live.root / "fixtures/recordings/embeddings/vectors.small.jsonl"
        honest = path.read_text()
        by_text = {digest_of({"model": "vectors:small", "text": t}): t for t in ("yes", "no")}
        lines = {by_text[line["digest"]]: line for line in map(json.loads, honest.splitlines())}
        forged = sorted(
            ({**lines["yes"], "digest": line["digest"]} for line in lines.values()),
            key=lambda line: line["digest"],
        )
        path.write_text("".join(canonical_json(line) + "\n" for line in forged))
        repo.commit("vectors")
        repo.fresh_runner()
        vectors.texts.clear()
        assert repo.gate("--record=none", code=0)["provisional"]
        assert vectors.texts == []
        assert not repo.gate(code=1)["provisional"]
        assert {*vectors.texts} == {"no"}
        assert path.read_text() == honest
        repo.commit("honest vectors")
        swapped = {**lines["yes"], "float32": lines["no"]["float32"]}
        path.write_text(honest.replace(lines["yes"]["float32"], swapped["float32"]))
        repo.commit("another vector for a text of the base")
        assert (
            f"{path.name} replaces what was recorded for requests of the base: 1 vector"
            in (repo.gate(code=1)["printed"])
        )


def test_selected_recordings_of_an_equal_prompt_are_found_and_honest_ones_are_not(
    live: EvalProject, endpoint: Endpoint, model: Model
):
    model.passes = model.reworded = 0.5
    repo = Repository(live, endpoint, model)
    live.run("--record=missing")
    repo.commit("honest recordings")
    repo.fresh_runner()
    honest = repo.gate()
    assert honest["audit"]["result"] == "agree"
    assert "better than fresh trials" not in honest["printed"]

    repo.git("checkout", "-q", "--", ".")
    repo.record_until_green()
    repo.fresh_runner()
    assert repo.gate("--record=none")["provisional"]
    repo.fresh_runner()
    found = repo.gate(code=1)
    assert found["audit"]["result"] == "better"
    assert "recordings of triage are better than fresh trials" in found["printed"]
    assert "next: `regauge record --refresh triage`, then commit" in found["printed"]
    again = live.command("gate", "--from", "latest", "--json")
    assert again.returncode == 1
    assert json.loads(again.stdout)["audit"] == found["audit"]


def test_selected_recordings_on_main_are_found_by_the_next_baseline_update(
    live: EvalProject, endpoint: Endpoint, model: Model
):
    model.passes = model.reworded = 0.5
    repo = Repository(live, endpoint, model)
    repo.record_until_green()
    noted = [note["message"] for note in json.loads(live.command("lint", "--json").stdout)["notes"]]
    assert "were replaced more often than the others" in noted[0]
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "reword")
    repo.fresh_runner()
    done = live.command("baseline", "update", "--json")
    assert done.returncode == 1
    (one,) = json.loads(done.stdout)["done"]
    assert one["audit"]["result"] == "better"
    assert one["audit"]["worse"] == 0
    assert "are better than fresh trials" in issue_text([one])
    repo.commit("baseline")
    # Every state of the recordings is audited once.
    again = live.command("baseline", "update", "--new-session", "--json")
    assert json.loads(again.stdout)["done"][0]["audit"] is None


def test_a_provider_that_fell_since_the_recordings_raises_no_alarm_on_main(
    live: EvalProject, endpoint: Endpoint, model: Model, built: Built
):
    repo = Repository(live, endpoint, model, built=built)
    live.run("--record=missing")
    repo.commit("recordings")
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "reword")
    model.passes = model.reworded = 0.4
    done = live.command("baseline", "update", "--json")
    assert json.loads(done.stdout)["done"][0]["audit"]["result"] == "base-worse"


def test_complete_baselines_repeat_few_of_the_recorded_trials(
    live: EvalProject, endpoint: Endpoint, model: Model, built: Built
):
    repo = Repository(live, endpoint, model, built=built)
    repo.git("checkout", "-q", "main")
    words = ["baseline", "update", "--trials", "12", "--new-session", "--json"]
    while not json.loads(live.command(*words).stdout)["done"][0]["complete"]:
        pass
    live.run("--record=missing", "--trials=3")
    endpoint.forget()
    (one,) = json.loads(live.command(*words).stdout)["done"]
    assert one["audit"]["result"] == "agree"
    assert 0 < endpoint.total == one["audit"]["trials"] < 3 * CASES
    endpoint.forget()
    (one,) = json.loads(live.command(*words).stdout)["done"]
    assert one["audit"] is None
    assert endpoint.total == 0


def test_a_provider_that_fell_explains_recordings_that_are_better(
    live: EvalProject, endpoint: Endpoint, model: Model, built: Built
):
    repo = Repository(live, endpoint, model, built=built)
    live.run("--record=missing")
    repo.commit("recordings")
    repo.fresh_runner()
    model.passes = model.reworded = 0.4
    audit = repo.gate()["audit"]
    assert audit["result"] == "base-worse"
    assert "recorded again, or the provider changed" in audit["message"]
