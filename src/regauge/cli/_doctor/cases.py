"""Golden cases that measure nothing: given twice, or given away by the prompt itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from regauge.cli._doctor.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from regauge.cli._doctor.finding import Level
    from regauge.datasets import Dataset, GoldenCase
    from regauge.prompts import Prompt

__all__ = ["duplicates", "leaks"]

# A shorter text is in a prompt by chance: a name, a label, a number.
_LEAK_CHARS_MIN = 24
_LEAK_WORDS_MIN = 5
_SHOWN_MAX = 5


def duplicates(datasets: Iterable[Dataset]) -> Iterator[Finding]:
    """Cases of one dataset with the same inputs, but for case and white space."""
    for dataset in datasets:
        first: dict[str, GoldenCase] = {}
        twins: list[str] = []
        contrary: list[str] = []
        for case in dataset:
            other = first.setdefault(_key(case), case)
            if other is case:
                continue
            pair = f"{case.id} ({case.at}) is {other.id}"
            (twins if other.expected == case.expected else contrary).append(pair)
        kinds: list[tuple[Level, list[str], str]] = [
            ("error", contrary, "the same inputs, and expect something else"),
            ("warning", twins, "the same inputs"),
        ]
        for level, found, what in kinds:
            if found:
                yield Finding(
                    check="duplicate cases",
                    level=level,
                    message=f"{dataset.name}: {len(found)} with {what}: {_listed(found)}",
                    fix="keep one of each pair",
                )


def leaks(prompt: Prompt, dataset: Dataset) -> Iterator[Finding]:
    """Cases whose text stands in the prompt: the model need not know, only copy."""
    told = _plain(" ".join(message.content for message in prompt.messages))
    found: dict[str, list[str]] = {"holdout": [], "train": []}
    for case in dataset:
        if any(_tellable(text) and text in told for text in map(_plain, _texts(case))):
            found[case.split].append(f"{case.id} ({case.at})")
    if found["holdout"]:
        yield Finding(
            check="leaking cases",
            level="error",
            message=f"{prompt.name}: its text holds {_count(found['holdout'])} held out:"
            f" {_listed(found['holdout'])}",
            fix="take them out of the prompt, or out of the dataset",
        )
    if found["train"]:
        yield Finding(
            check="leaking cases",
            level="warning",
            message=f"{prompt.name}: its text holds {_count(found['train'])}:"
            f" {_listed(found['train'])}",
            fix="write examples of your own: these cases pass whatever the prompt is worth",
        )


def _key(case: GoldenCase) -> str:
    plain = {
        name: _plain(value) if isinstance(value, str) else value
        for name, value in case.inputs.items()
    }
    return json.dumps(plain, sort_keys=True)


def _texts(case: GoldenCase) -> Iterator[str]:
    yield from (value for value in case.inputs.values() if isinstance(value, str))
    expected = case.expected
    values = expected.values() if isinstance(expected, dict) else [expected]
    yield from (value for value in values if isinstance(value, str))


def _tellable(text: str) -> bool:
    return len(text) >= _LEAK_CHARS_MIN and text.count(" ") + 1 >= _LEAK_WORDS_MIN


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _count(found: list[str]) -> str:
    return "a case" if len(found) == 1 else f"{len(found)} cases"


def _listed(found: list[str]) -> str:
    more = len(found) - _SHOWN_MAX
    return ", ".join(found[:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
