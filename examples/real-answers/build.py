"""Write prompts, cases, recordings and baselines from `sources`: `python build.py [--check]`.

With `--check` nothing is written; the exit code is 1 if a file would change. The completion of
the first run becomes trial 0, which `pytest evals` replays. All five become the baseline, so a case
that failed in some of the runs is flaky.
"""

from __future__ import annotations

import argparse
import filecmp
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from regauge.datasets import load_dataset
from regauge.prompts import parse_prompt
from regauge.providers import Completion, CompletionRequest, Usage
from regauge.recordings import Recording, RecordingKey, RecordingsFile, request_summary

HERE = Path(__file__).resolve().parent
TASKS = {
    "logical_deduction": "Name the place of an object in a row of three.",
    "navigate": "Decide whether a walk ends where it began.",
    "public_relations": "Answer a question of choice about public relations.",
    "ruin_names": "Find the humorous edit of the name of an artist or film.",
}
SOURCES = HERE / "sources"
BUILT = ("prompts", "fixtures")
QUESTIONS = {"public_relations": "github.com/hendrycks/test"}
BASELINE_FIRST = 100


class _Text(str):
    """A text of several lines, which YAML writes as a block."""

    __slots__ = ()


yaml.SafeDumper.add_representer(
    _Text, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
)


def main() -> int:
    """Build everything, or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for part in ("pyproject.toml", "evals"):
            _copy(HERE / part, root / part)
        for task in TASKS:
            _build(task, root)
            _regauge(root, "bump", _name(task))
        _update_baselines(root)
        for task in TASKS:
            _date_session(root / f"fixtures/baselines/{_name(task)}.json", _ran_at(task))
        if check:
            return _compare(root)
        for part in BUILT:
            shutil.rmtree(HERE / part, ignore_errors=True)
            _copy(root / part, HERE / part)
    return 0


def _name(task: str) -> str:
    return task.replace("_", "-")


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def _build(task: str, root: Path) -> None:
    meta = _meta(task)
    with gzip.open(SOURCES / f"{task}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    for directory in ("prompts", "fixtures/golden", "fixtures/recordings"):
        (root / directory).mkdir(parents=True, exist_ok=True)
    (root / f"prompts/{_name(task)}.prompt.yml").write_text(_prompt(task, meta), encoding="utf-8")
    golden = "".join(json.dumps(_case(task, row)) + "\n" for row in rows)
    (root / f"fixtures/golden/{_name(task)}.jsonl").write_text(golden, encoding="utf-8")
    _record(task, root, rows)


def _meta(task: str) -> dict[str, Any]:
    meta: dict[str, Any] = json.loads((SOURCES / f"{task}.meta.json").read_text(encoding="utf-8"))
    return meta


def _ran_at(task: str) -> str:
    """The start of a task's runs, in the format of recordings."""
    began = datetime.strptime(_meta(task)["dates"][0], "%Y-%m-%d_%H-%M-%S")  # noqa: DTZ007
    return began.strftime("%Y-%m-%dT%H:%M:%SZ")


def _date_session(baseline: Path, at: str) -> None:
    """Give the session of a baseline the time of the recorded runs."""
    text = baseline.read_text(encoding="utf-8")
    session = json.loads(text)["baselines"][0]["sessions"][0]["id"]
    baseline.write_text(text.replace(session, at), encoding="utf-8")


def _prompt(task: str, meta: dict[str, Any]) -> str:
    document = {
        "name": _name(task),
        "description": TASKS[task],
        "version": "1.0.0",
        "model": f"openai:{meta['model']}",
        "modelParameters": {
            "temperature": 0,
            "topP": meta["parameters"]["top_p"],
            "seed": meta["parameters"]["seed"],
        },
        "changelog": [{"version": "1.0.0", "text": "The messages of the recorded runs."}],
        "inputs": [{"name": "question", "description": "The end of the message: the question."}],
        "responseFormat": "json_schema",
        "jsonSchema": {**meta["answer_schema"], "strict": True},
        "messages": [
            {"role": "system", "content": meta["system"]},
            {"role": "user", "content": _Text(meta["user_prefix"] + "{{question}}")},
        ],
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def _case(task: str, row: dict[str, Any]) -> dict[str, Any]:
    expected = row["gold"].strip("()")
    passes = sum(json.loads(answer).get("Answer") == expected for answer in row["answers"])
    return {
        "id": row["id"],
        "inputs": {"question": row["user_rest"]},
        "expected": {"Answer": expected},
        # A case that failed in all runs is tracked, so it never blocks.
        "tier": "required" if passes else "tracked",
        "source": QUESTIONS.get(task, "github.com/suzgunmirac/BIG-Bench-Hard"),
        "licence": "MIT",
    }


def _record(task: str, root: Path, rows: list[dict[str, Any]]) -> None:
    path = root / f"prompts/{_name(task)}.prompt.yml"
    prompt = parse_prompt(path.read_text(encoding="utf-8"), path=path)
    dataset = load_dataset(
        root / f"fixtures/golden/{_name(task)}.jsonl", fixtures_dir=root / "fixtures"
    )
    answers = {row["id"]: row["answers"] for row in rows}
    recordings: list[Recording] = []
    for case in dataset:
        request = CompletionRequest(
            provider="openai",
            model="gpt-4o",
            messages=prompt.render(case.inputs, case_at=case.location),
            parameters=prompt.parameters,
            response_format=prompt.response_format,
        )
        numbers = (0, *range(BASELINE_FIRST, BASELINE_FIRST + len(answers[case.id])))
        texts = (answers[case.id][0], *answers[case.id])
        recordings += [
            Recording(
                key=RecordingKey(request.digest, number),
                prompt=prompt.name,
                version=str(prompt.version),
                case=case.id,
                model="openai:gpt-4o",
                completion=Completion(
                    text=text,
                    finish_reason="stop",
                    usage=Usage(),
                    model="gpt-4o",
                    provider="openai",
                    latency_s=0.0,
                ),
                recorded_at=_ran_at(task),
                request=request_summary(request, prompt_digest=prompt.digest),
            )
            for number, text in zip(numbers, texts, strict=True)
        ]
    file = RecordingsFile.load(root / f"fixtures/recordings/{prompt.name}.jsonl")
    file.merge(recordings, replace=True)
    file.save()


def _update_baselines(root: Path) -> None:
    """Judge the five runs, then keep only the first in the recordings."""
    _regauge(root, "baseline", "update", "--record=none", "--trials=5", "--new-session")
    for path in sorted((root / "fixtures/recordings").glob("*.jsonl")):
        file = RecordingsFile.load(path)
        file.prune({key for key in file.keys() if key.trial < BASELINE_FIRST})  # noqa: SIM118
        file.save()


def _regauge(root: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "regauge", *arguments], cwd=root, check=True)


def _compare(root: Path) -> int:
    built = [path for part in BUILT for path in sorted((root / part).rglob("*")) if path.is_file()]
    stale = [
        str(path.relative_to(root))
        for path in built
        if not (HERE / path.relative_to(root)).is_file()
        or not filecmp.cmp(path, HERE / path.relative_to(root), shallow=False)
    ]
    for name in stale:
        print(f"{name} is stale; run: python {Path(__file__).name}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
