"""Examples for a prompt, from `fixtures/examples/<prompt>.jsonl`: never from golden cases."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from regauge.errors import UsageError
from regauge.refine.edits import Anchor, Edit, Insert, Replace, count_words
from regauge.refine.proposers._protocol import Example, Ideas
from regauge.statements import content_words
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from regauge.refine.edits import Line, Op, PromptText
    from regauge.refine.loop._state import Critique
    from regauge.refine.proposers._protocol import Ask, Problem

_PROPOSED_MAX = 3
_KEYS = {"id", "input", "output"}
_IS_EXAMPLE = re.compile(r"\s*(?:[-*+•]\s+)?examples?\b[^:\n]*:", re.IGNORECASE)


def load_examples(path: Path, golden: Iterable[str] = ()) -> tuple[Example, ...]:
    """The pool of examples in a file, one JSON object per line; none where there is no file.

    Args:
        path: The file. Each line has an `id`, an `input` (a text, or an object of the prompt's
            inputs) and an `output` (a text, or JSON).
        golden: The ids of golden cases, none of which may be an example.
    """
    if not path.is_file():
        return ()
    found: list[Example] = []
    faults: list[str] = []
    taken = set(golden)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            example = _example(read_json(line), taken)
        except ValueError as error:
            faults.append(f"{path}:{number}: {error}")
            continue
        taken.add(example.id)
        found.append(example)
    if faults:
        raise UsageError(
            "the pool of examples cannot be used\n  "
            + "\n  ".join(faults)
            + '\n  a line is {"id": ..., "input": ..., "output": ...}, and no golden case'
        )
    return tuple(found)


def _example(given: object, taken: set[str]) -> Example:
    if not isinstance(given, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - one kind for the caller
    row = cast("dict[str, Any]", given)
    name = row.get("id")
    if set(row) != _KEYS or not isinstance(name, str) or not name:
        raise ValueError(f"an example has {', '.join(sorted(_KEYS))}, not {', '.join(row)}")
    if name in taken:
        raise ValueError(f"{name!r} is a golden case, or stands twice")
    return Example(id=name, input=_input(row["input"]), output=_text(row["output"]))


def _input(value: object) -> str:
    if isinstance(value, dict):
        given = cast("dict[str, object]", value)
        return "; ".join(f"{key}: {_text(part)}" for key, part in given.items())
    return _text(value)


def _text(value: object) -> str:
    said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(said.split())


def example_line(example: Example) -> str:
    """An example as it stands in a prompt: one line, so that it comes and goes as a whole.

    >>> example_line(Example(id="a", input="disk 97 % full", output="critical"))
    'Example: disk 97 % full -> critical'
    """
    return f"Example: {example.input} -> {example.output}"


@dataclass(frozen=True, slots=True)
class ExampleProposer:
    """Adds one example to the prompt, or changes one that is there; it asks no model."""

    name: str = "examples"
    asks_model: bool = False

    async def criticise(self, problem: Problem, ask: Ask) -> Critique | None:
        """It has no opinion on why anything fails."""
        del problem, ask
        return None

    async def propose(self, problem: Problem, ask: Ask) -> Ideas:
        """The examples that are most like what fails, each as an edit of its own."""
        del ask
        if not problem.examples:
            return Ideas(
                refused=("there is no pool of examples: fixtures/examples/<prompt>.jsonl",)
            )
        there = problem.text.whole
        usable = [
            example
            for example in problem.examples
            if "{{" not in example_line(example) and example_line(example) not in there
        ]
        ranked = sorted(usable, key=lambda example: (-_likeness(example, problem), example.id))
        edits = [
            Edit(
                ops=(op,),
                strategy="change-example" if isinstance(op, Replace) else "add-example",
                proposer=self.name,
                rationale=f"an example of the pool that is like what fails: {example.id}",
            )
            for example in ranked[:_PROPOSED_MAX]
            for op in _places(problem.text, example)
        ]
        return Ideas(edits=tuple(edits))


def _likeness(example: Example, problem: Problem) -> float:
    """How many words an example shares with what fails, less what its length costs."""
    words = content_words(example.input)
    cases = [content_words(" ".join(case.inputs.values())) for case in problem.failing]
    shared = max(
        (len(words & case) / len(words | case) for case in cases if words | case), default=0
    )
    return shared - count_words(example_line(example)) / 1_000


def _places(text: PromptText, example: Example) -> Sequence[Op]:
    """Where an example can go: below the last rule of the first message, or instead of another."""
    line = example_line(example)
    mine = [known for known in text.lines if known.message == 0 and known.text.strip()]
    ops: list[Op] = []
    if mine:
        last = mine[-1]
        ops.append(Insert(_anchor(last), line if _IS_EXAMPLE.match(last.text) else f"\n{line}"))
    ours = [known for known in mine if known.text.strip().startswith("Example: ")]
    if ours:
        ops.append(Replace(_anchor(ours[-1]), line))
    return ops


def _anchor(line: Line) -> Anchor:
    return Anchor(line.text, line.occurrence, line.message)
