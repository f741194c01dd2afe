"""Edits without a model: a rule, number or value that a check needs, an example of the pool.

A statement is replaced only if trials without it showed that it causes the failure, or if it
differs in its number alone. Otherwise the edit adds text. Examples come from
`fixtures/examples/<prompt>.jsonl`, never from golden cases.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, cast

from regauge.errors import UsageError
from regauge.lexicon import Lexicon
from regauge.refine.edits import (
    Anchor,
    Edit,
    Insert,
    PromptText,
    Replace,
    count_words,
    find_rule,
    rule_edit,
    rule_places,
    steps_for,
    with_rule,
)
from regauge.refine.proposers._protocol import Example, Ideas
from regauge.statements import content_words, guess_language, is_negated, parse, replace, tokens
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from regauge.refine.analysis import Check, FailureMode
    from regauge.refine.edits import Line, Op
    from regauge.refine.loop._state import Critique
    from regauge.refine.proposers._protocol import ModelCaller, Problem
    from regauge.statements import Node, Tree

_RE = Lexicon("regauge.refine", "rules")


# Each is a candidate, and `_CANDIDATES_MAX` of them are screened.
_REPLACED_MAX = 2
_HOMES_MAX = 3
# Two sentences differ in their values alone if at most this many words differ in as many places,
# and at least this many are shared.
_VALUES_MAX, _SHARED_MIN, _SAME = 2, 3, 0.6
_ENDS = frozenset(".。!")
_MANY_WORDS = 16


@dataclass(frozen=True, slots=True)
class _WithoutModel:
    calls_model: bool = False

    async def criticise(self, problem: Problem, call_model: ModelCaller) -> Critique | None:
        """Return None; edits without a model need no critique."""
        del problem, call_model
        return None


@dataclass(frozen=True, slots=True)
class RuleProposer(_WithoutModel):
    """Adds the advice of a check, or corrects a statement by it; without a model."""

    name: str = "rules"

    async def propose(self, problem: Problem, call_model: ModelCaller) -> Ideas:
        """The edits of `propose_by_rules`; a rule in another language is refused."""
        del call_model
        edits = propose_by_rules(problem.text, problem.mode, problem.checks)
        return Ideas(edits=edits, refused=_foreign_rule(problem))


def propose_by_rules(
    text: PromptText, mode: FailureMode, checks: Mapping[str, Check]
) -> tuple[Edit, ...]:
    """Edits that add the advice of a check.

    In this order: correct a number ("about 80 words" becomes "at most 80 words"); add the advice to
    the section it belongs to, unless it is in another language than the prompt.
    """
    check = checks.get(mode.check)
    advice = check.advice.strip() if check else ""
    if not advice or find_rule(text, advice):
        return ()
    reworded = [*_same_sentence(text, advice), *_reword(text, advice)][:_REPLACED_MAX]
    additions: list[tuple[str, PromptText]] = []
    if not _is_foreign(text, advice):
        additions = [("add-rule", variant) for variant in _add_rule(text, advice)]
    reason = f"{mode.check} failed {mode.failures} of {mode.trials} trials"
    return tuple(
        rule_edit(text, variant, strategy, reason) for strategy, variant in (*reworded, *additions)
    )


def _is_foreign(text: PromptText, advice: str) -> bool:
    """Return whether advice is in another language than the statements of a prompt."""
    statements = "\n".join(tree.text_of(node) for tree in text.trees for node in tree.statements)
    language, other = guess_language(statements), guess_language(advice)
    # The language of a few words is unknown; that of many is none that is known here.
    return (
        bool(other)
        and language != other
        and bool(language or len(statements.split()) >= _MANY_WORDS)
    )


def _foreign_rule(problem: Problem) -> tuple[str, ...]:
    """The reason why the rule of a check is not proposed; empty for another reason."""
    advice = problem.check.advice.strip()
    if not advice or find_rule(problem.text, advice) or not _is_foreign(problem.text, advice):
        return ()
    text = f"the rule of {problem.mode.check} is not in the language of the prompt"
    return (f"{text}; the proposer `model` can write it there: {advice}",)


def _same_sentence(text: PromptText, advice: str) -> list[tuple[str, PromptText]]:
    """Instead of a statement that differs from the advice in a value, or is its negation."""
    revisions: list[tuple[str, PromptText]] = []
    statements = parse(advice).statements
    if len(statements) != 1:
        return []
    bare = parse(advice).text_of(statements[0])
    for index, tree in enumerate(text.trees):
        for node in tree.statements:
            statement = tree.text_of(node)
            if "{{" not in statement and (
                _differs_in_value(statement, bare) or _is_negation(statement, bare)
            ):
                new = bare if statement[-1:] in _ENDS else bare.rstrip("".join(_ENDS))
                variant = text.with_content(index, replace(tree, node, _match_case(new, statement)))
                revisions.append(("set-value", variant))
    return revisions


def _differs_in_value(first: str, other: str) -> bool:
    """Return whether two sentences are the same but for a value in one or two places."""
    words, other_words = tokens(first), tokens(other)
    opcodes = SequenceMatcher(None, words, other_words, autojunk=False).get_opcodes()
    changes = [(b - a, d - c) for tag, a, b, c, d in opcodes if tag != "equal"]
    shared = sum(b - a for tag, a, b, *_ in opcodes if tag == "equal")
    return (
        0 < len(changes) <= _VALUES_MAX
        and all(0 < old <= _VALUES_MAX and 0 < new <= _VALUES_MAX for old, new in changes)
        and shared >= max(_SHARED_MIN, _SAME * max(len(words), len(other_words)))
    )


def _is_negation(first: str, other: str) -> bool:
    negated = {is_negated(first), is_negated(other)}
    words = content_words(first)
    return negated == {True, False} and len(words) > 1 and words == content_words(other)


def _reword(text: PromptText, advice: str) -> list[tuple[str, PromptText]]:
    """Statements with another form of the same measure, or a weaker one."""
    measure = _RE.measure.search(advice)
    if measure is None:
        return []
    edits: list[tuple[str, PromptText]] = []
    for index, tree in enumerate(text.trees):
        for node in (*tree.statements, *tree.nodes("row")):
            statement = tree.text_of(node)
            measures = list(_RE.measure.finditer(statement))
            if len(measures) != 1 or not _is_about(tree, node, measures[0], advice, measure):
                continue
            (other,) = measures
            same_number = other["n"] == measure["n"]
            same_unit = other["unit"].casefold() == measure["unit"].casefold()
            if other[0].casefold() == measure[0].casefold() or not (same_number or same_unit):
                continue
            strategy = "strengthen" if same_number and same_unit else "set-number"
            strategy = strategy if same_unit else "set-unit"
            new = (
                statement[: other.start()]
                + _match_case(measure[0], other[0])
                + statement[other.end() :]
            )
            edits.append((strategy, text.with_content(index, replace(tree, node, new))))
    return edits


def _is_about(
    tree: Tree, node: Node, match: re.Match[str], advice: str, measure: re.Match[str]
) -> bool:
    """Return whether a measure and the advice are about the same field or subject."""
    entry = next(
        (part for part in reversed(tree.path(node)) if part.kind in {"entry", "sentence"}), node
    )
    field = _RE.field.search(advice)
    if field:
        return bool(re.search(rf"\b{re.escape(field[1])}\b", tree.text[entry.start : node.end]))
    statement = tree.text_of(node)
    if (
        _RE.limits_answer.search(advice)
        and _RE.is_limit.match(match[0])
        and match["unit"].casefold() == measure["unit"].casefold()
        and int(match["n"]) > int(measure["n"])
    ):
        return True  # no part of an answer may be longer than the answer
    rest = content_words(statement[: match.start()] + " " + statement[match.end() :])
    about = content_words(advice[: measure.start()] + " " + advice[measure.end() :])
    label = tree.text[entry.start : node.start] if node.kind == "clause" else ""
    rest |= content_words(label)
    return 2 * len(rest & about) >= len(rest)


def _match_case(measure: str, like: str) -> str:
    return (
        measure[0].upper() + measure[1:] if like[0].isupper() else measure[0].lower() + measure[1:]
    )


def _add_rule(text: PromptText, advice: str) -> list[PromptText]:
    """The prompt with the advice at the end of sections, the most similar section first."""
    words = content_words(advice)
    places_by_likeness = sorted(rule_places(text), key=lambda home: -len(home.words & words))
    steps = [step for home in places_by_likeness[:1] for step in steps_for(text, home, advice)]
    places = [*places_by_likeness[:1], *steps, *places_by_likeness[1:]]
    return [with_rule(text, home, advice) for home in places[:_HOMES_MAX]]


# Each is one or two candidates.
_PROPOSED_MAX = 3
_KEYS = {"id", "input", "output"}


def load_examples(path: Path, golden: Iterable[str] = ()) -> tuple[Example, ...]:
    """The pool of examples in a file, one JSON object per line; empty without a file.

    Args:
        path: The file. Each line has an `id`, an `input` (a text, or an object of the prompt's
            inputs) and an `output` (a text, or JSON).
        golden: The ids of golden cases, which are not examples.
    """
    if not path.is_file():
        return ()
    examples: list[Example] = []
    diagnostics: list[str] = []
    used_ids = set(golden)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            example = _example(read_json(line), used_ids)
        except ValueError as error:
            diagnostics.append(f"{path}:{number}: {error}")
            continue
        used_ids.add(example.id)
        examples.append(example)
    if diagnostics:
        raise UsageError(
            "the pool of examples cannot be used\n  "
            + "\n  ".join(diagnostics)
            + '\n  a line is {"id": ..., "input": ..., "output": ...}, and no golden case'
        )
    return tuple(examples)


def _example(value: object, used_ids: set[str]) -> Example:
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - one kind for the caller
    row = cast("dict[str, Any]", value)
    name = row.get("id")
    if set(row) != _KEYS or not isinstance(name, str) or not name:
        raise ValueError(f"an example has {', '.join(sorted(_KEYS))}, not {', '.join(row)}")
    if name in used_ids:
        raise ValueError(f"{name!r} is a golden case, or a duplicate")
    return Example(id=name, input=_input_text(row["input"]), output=_plain_text(row["output"]))


def _input_text(value: object) -> str:
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return "; ".join(f"{key}: {_plain_text(part)}" for key, part in fields.items())
    return _plain_text(value)


def _plain_text(value: object) -> str:
    text_of = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(text_of.split())


def example_line(example: Example) -> str:
    """An example as one line of a prompt, so that an edit adds or removes all of it.

    >>> example_line(Example(id="a", input="disk 97 % full", output="critical"))
    'Example: disk 97 % full -> critical'
    """
    return f"Example: {example.input} -> {example.output}"


@dataclass(frozen=True, slots=True)
class ExampleProposer(_WithoutModel):
    """Adds one example to the prompt, or replaces one; without a model."""

    name: str = "examples"

    async def propose(self, problem: Problem, call_model: ModelCaller) -> Ideas:
        """The examples that are most similar to the failures, each as an edit of its own."""
        del call_model
        if not problem.examples:
            return Ideas(
                refused=("there is no pool of examples: fixtures/examples/<prompt>.jsonl",)
            )
        prompt_text = problem.text.full_text
        usable = [
            example
            for example in problem.examples
            if "{{" not in example_line(example) and example_line(example) not in prompt_text
        ]
        examples = sorted(usable, key=lambda example: (-_likeness(example, problem), example.id))
        edits = [
            Edit(
                ops=(op,),
                strategy="change-example" if isinstance(op, Replace) else "add-example",
                proposer=self.name,
                rationale=f"an example of the pool that is like what fails: {example.id}",
            )
            for example in examples[:_PROPOSED_MAX]
            for op in _places(problem.text, example)
        ]
        return Ideas(edits=tuple(edits))


def _likeness(example: Example, problem: Problem) -> float:
    """The words that an example shares with failures, less a price for its length."""
    words = content_words(example.input)
    cases = [content_words(" ".join(case.inputs.values())) for case in problem.failing]
    shared = max(
        (len(words & case) / len(words | case) for case in cases if words | case), default=0
    )
    return shared - count_words(example_line(example)) / 1_000


def _places(text: PromptText, example: Example) -> Sequence[Op]:
    """The places of an example: below the last rule of the first message, or another example."""
    line = example_line(example)
    own_lines = [line for line in text.lines if line.message == 0 and line.text.strip()]
    ops: list[Op] = []
    if own_lines:
        last = own_lines[-1]
        ops.append(Insert(_anchor(last), line if _RE.is_example.match(last.text) else f"\n{line}"))
    examples = [line for line in own_lines if line.text.strip().startswith("Example: ")]
    if examples:
        ops.append(Replace(_anchor(examples[-1]), line))
    return ops


def _anchor(line: Line) -> Anchor:
    return Anchor(line.text, line.occurrence, line.message)
