"""A proposer without calls of a model: it varies the inputs of the nearest cases."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, cast

from regauge.errors import UsageError
from regauge.mutate._outputs import fields_of
from regauge.mutate._suggest import Draft
from regauge.statements import content_words, parse
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.mutate._suggest import DraftRunner, UnguardedInstruction

_VARIANTS_MAX = 16
# The number of outputs for an expectation.
_OUTPUTS = 3
_CHECKED_MAX = 4
_CHECKS_MAX = 3
_EXISTING_MAX = 2
_LONGER = 3
# The minimum share of the words of a case.
_SHORTEST = 1 / 3
_CLAUSE_WORDS = 4
_SLOT = re.compile(r"\{\{.*?\}\}")
_CODE_MARK = re.compile(r"[=<>_(){}\[\]|\\]")
# The maximum share of code characters in a sentence.
_CODE_MARKS = 0.03
_MARKER = re.compile(r"^\s*(?:[-*+\u2022]|\d+[.)]|\|)\s+|\s*\|\s*$")
_LABEL = re.compile(r"^[*_`\"']*[\w -]{1,40}[*_`\"']*:\s+")
_CLAUSE = re.compile(r"[,;:]\s+(?:or\s+|and\s+)?|\s+or\s+")
_NUMBER = re.compile(r"(?<![\w.,-])\d{1,6}(?![\w]|[.,]\d)")
_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")
_FENCED = re.compile(r"\A\s*```\w*\n(.*?)\n?```\s*\Z", re.DOTALL)
_PLAIN_PATH = re.compile(r"\w+(?:\.\w+|\[\d+\])*")


class VariantProposer:
    """A proposer that varies the nearest cases and expects the prompt's current output."""

    async def drafts(
        self, problem: UnguardedInstruction, run_draft: DraftRunner
    ) -> AsyncGenerator[Draft, None]:
        """Yield variants whose output depends on the instruction; then checks of existing cases."""
        differing: list[Draft] = []
        for variant in islice(_variants(problem), _VARIANTS_MAX):
            try:
                draft_trials = await run_draft(variant)
            except UsageError:
                continue
            if draft_trials.is_promising:
                yield variant
            if fields_of(draft_trials.prompt[0].output) == fields_of(draft_trials.mutant[0].output):
                continue
            differing.append(variant)
            base, mutant = await _outputs(variant, run_draft)
            expected = _expected(variant.expected, base)
            if expected != variant.expected and _differs(expected, mutant):
                yield replace(variant, expected=expected)
        # A check adds a judge to the whole dataset, so cases without one come first.
        for variant in differing[:_CHECKED_MAX]:
            base, mutant = await _outputs(variant, run_draft)
            expected = _expected(variant.expected, base)
            for check, reason in islice(_checks(base, mutant, problem.mutant.text), _CHECKS_MAX):
                yield replace(variant, expected=expected, checks=(check,), reason=reason)
        changed = [key for key in problem.row.cases if key in problem.nearest]
        for key in changed[:_EXISTING_MAX]:
            case = problem.nearest[key]
            existing = replace(_draft_like(key, case), existing=key)
            base, mutant = await _outputs(existing, run_draft)
            for check, reason in islice(_checks(base, mutant, problem.mutant.text), _CHECKS_MAX):
                yield replace(existing, checks=(*case.checks, check), reason=reason)


async def _outputs(
    draft: Draft, run_draft: DraftRunner
) -> tuple[list[_OutputViews], list[_OutputViews]]:
    """Return some outputs of the prompt and of the mutant."""
    draft_trials = await run_draft(draft, _OUTPUTS)
    return (
        [_OutputViews.from_text(trial.output) for trial in draft_trials.prompt],
        [_OutputViews.from_text(trial.output) for trial in draft_trials.mutant],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _OutputViews:
    """An output as text, as a JSON value, and as values by path."""

    text: str
    value: JSON
    leaves: Mapping[str, JSON]

    @classmethod
    def from_text(cls, text: str) -> _OutputViews:
        fence = _FENCED.match(text)
        try:
            value: JSON = read_json(fence[1] if fence else text)
        except ValueError:
            value = None
        is_plain = not isinstance(value, dict | list)
        leaves = {"": text} if is_plain else dict(_leaves(value, ""))
        return cls(text=text, value=value, leaves=leaves)


def _leaves(value: JSON, path: str) -> Iterator[tuple[str, JSON]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{number}]")
    else:
        yield path, value


def _expected(before: JSON, base: Sequence[_OutputViews]) -> JSON:
    """Return an expectation in the shape of another case's, with the values of all outputs."""
    first = base[0]
    if isinstance(before, dict):
        values = [output.value if isinstance(output.value, dict) else {} for output in base]
        return {
            key: values[0][key]
            if key in values[0] and all(value.get(key) == values[0][key] for value in values)
            else expected
            for key, expected in before.items()
        }
    if isinstance(before, str):
        text = first.text.strip()
        is_same_text = all(output.text.strip() == text for output in base)
        return (
            text if is_same_text and len(text.split()) <= len(before.split()) + _LONGER else before
        )
    is_same_value = all(output.value == first.value for output in base)
    return first.value if is_same_value and type(first.value) is type(before) else before


def _differs(expected: JSON, mutant: Sequence[_OutputViews]) -> bool:
    if isinstance(expected, dict):
        return all(
            not isinstance(output.value, dict)
            or any(output.value.get(key) != value for key, value in expected.items())
            for output in mutant
        )
    return all(output.text.strip() != expected and output.value != expected for output in mutant)


def _checks(
    base: Sequence[_OutputViews], mutant: Sequence[_OutputViews], text: str
) -> Iterator[tuple[JSON, str]]:
    """Yield checks that all outputs of the prompt pass and all of the mutant fail."""
    if all(isinstance(output.value, dict) for output in base) and not any(
        isinstance(output.value, dict) for output in mutant
    ):
        yield {"json_parses": {"kind": "object"}}, "the output is a JSON object"
        return
    paths = [
        path
        for path in base[0].leaves
        if (not path or _PLAIN_PATH.fullmatch(path))
        and all(path in output.leaves for output in base)
    ]
    missing_paths = [
        path for path in paths if path and not any(path in output.leaves for output in mutant)
    ]
    if missing_paths:
        yield {"has_keys": missing_paths[:1]}, f"the output has {missing_paths[0]}"
    shared = [path for path in paths if all(path in output.leaves for output in mutant)]
    for path in shared:
        value = base[0].leaves[path]
        is_steady = (
            path and _is_label(value) and all(output.leaves[path] == value for output in base)
        )
        if is_steady and all(output.leaves[path] != value for output in mutant):
            check: JSON = {"field_equals": {"path": path, "expected": value}}
            yield check, f"{path} depends on the text"
    for path in shared:
        values = [output.leaves[path] for output in base]
        mutant_values = [output.leaves[path] for output in mutant]
        if all(isinstance(value, str) and not _is_label(value) for value in values) and all(
            isinstance(other, str) for other in mutant_values
        ):
            yield from _text_checks(
                path, cast("list[str]", values), cast("list[str]", mutant_values), text
            )


def _is_label(value: JSON) -> bool:
    return not isinstance(value, str) or len(value.split()) <= 1


def _text_checks(
    path: str, base: Sequence[str], mutant: Sequence[str], text: str
) -> Iterator[tuple[JSON, str]]:
    field: dict[str, JSON] = {"field": path} if path else {}
    counts, mutant_counts = (
        [len(output.split()) for output in outputs] for outputs in (base, mutant)
    )
    numbers = [int(number) for number in _NUMBER.findall(text)]
    for number in [n for n in numbers if max(counts) <= n < min(mutant_counts)][:1]:
        yield {"max_words": {"n": number, **field}}, "the text limits the length"
    for number in [n for n in numbers if max(mutant_counts) < n <= min(counts)][:1]:
        yield {"min_words": {"n": number, **field}}, "the text limits the length"
    instruction_words = {word.casefold() for word in _WORD.findall(text)}
    options: dict[str, JSON] = {"ignore_case": True, "whole_word": True, **field}
    for word in _distinctive_words(base, mutant, instruction_words)[:1]:
        check: JSON = {"contains": {"text": word, **options}}
        yield check, f"only with the text, the output has {word!r}"
    for word in _distinctive_words(mutant, base, instruction_words)[:1]:
        check = {"not": {"contains": {"text": word, **options}}}
        yield check, f"only without the text, the output has {word!r}"


def _distinctive_words(
    some: Sequence[str], other_texts: Sequence[str], instruction_words: set[str]
) -> list[str]:
    """Return the words of each text that no other text has; words of the instruction first."""
    words = [{word.casefold() for word in _WORD.findall(text)} for text in some]
    other_words = {word.casefold() for other in other_texts for word in _WORD.findall(other)}
    common = set[str].intersection(*words) - other_words
    return sorted(common, key=lambda word: (word not in instruction_words, -len(word), word))


def _draft_like(key: str, case: GoldenCase, inputs: Mapping[str, JSON] | None = None) -> Draft:
    return Draft(
        inputs=case.inputs if inputs is None else inputs,
        expected=case.expected,
        checks=case.checks,
        like=key,
        proposer="rules",
    )


def _variants(problem: UnguardedInstruction) -> Iterator[Draft]:
    """Yield varied inputs of the nearest cases, the nearest first."""
    nearest = list(problem.nearest.values())
    for key, case in problem.nearest.items():
        known_inputs = [case.inputs]
        for inputs in _vary(case, problem.mutant.text, nearest):
            if inputs not in known_inputs:
                known_inputs.append(inputs)
                yield _draft_like(key, case, inputs)


def _vary(
    case: GoldenCase, instruction: str, nearest: Sequence[GoldenCase]
) -> Iterator[Mapping[str, JSON]]:
    """Yield the inputs of a case, each time varied in one way, in the style of the dataset.

    Text of the instruction is only used if it describes an input and is not an order to the model.
    """
    texts = {name: value for name, value in case.inputs.items() if isinstance(value, str)}
    if not texts:
        return
    prose = [name for name, text in texts.items() if _is_prose(text)] or list(texts)
    longest = max(prose, key=lambda name: len(texts[name]))
    text = texts[longest]
    words = content_words(instruction)
    description = _description(instruction, nearest)
    terms = [clause.strip(" .") for clause in _CLAUSE.split(description) if clause.strip(" .")]

    def vary_text() -> Iterator[str]:
        yield from _limits(text, instruction)
        yield from _swap_terms(text, terms)
        sentences = _sentences(text)
        sharing = [sentence for sentence in sentences if content_words(sentence) & words]
        if sharing and len(sharing) < len(sentences):
            yield " ".join(sharing)
            yield " ".join(sentence for sentence in sentences if sentence not in sharing)
        # A list of terms is not a sentence.
        for clause in [description] if len(terms) == 1 else terms:
            if len(clause.split()) >= _CLAUSE_WORDS:
                sentence = f"{clause[0].upper()}{clause[1:].rstrip('.')}."
                yield sentence
                yield f"{_end_sentence(text)} {sentence}"
        other_inputs = [case.inputs.get(longest) for case in nearest]
        for other in other_inputs:
            if isinstance(other, str) and other.strip() and other != text:
                yield other
                yield f"{_end_sentence(text)} {other}"

    least = len(text.split()) * _SHORTEST
    for new in vary_text():
        if len(new.split()) >= least and new.strip():
            yield {**case.inputs, longest: new}


def _description(instruction: str, cases: Sequence[GoldenCase]) -> str:
    """Return the description of inputs in an instruction: a label's definition or a condition.

    Empty if it is an order, or describes the output.
    """
    entry = _MARKER.sub("", instruction)
    if entry == instruction:
        return ""
    label = _LABEL.match(entry)
    if label is not None:
        name = label[0].strip(" *_`\"':").casefold()
        labels = {
            str(value).casefold()
            for case in cases
            for value in (
                case.expected.values() if isinstance(case.expected, dict) else [case.expected]
            )
        }
        return entry[label.end() :].strip(" *_`|") if name in labels else ""
    plain = entry.strip(" *_`|")
    # An imperative begins with its verb, a condition with an article or a noun in lower case.
    return plain if plain[:1].islower() else ""


def _swap_terms(text: str, terms: Sequence[str]) -> Iterator[str]:
    """Yield a text with one term of a list replaced by another."""
    for term in terms:
        match = re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text, re.IGNORECASE)
        if match is not None:
            for other in terms:
                if other != term:
                    yield text[: match.start()] + other + text[match.end() :]


def _end_sentence(text: str) -> str:
    """Return a text that ends as a sentence, so that another one can follow."""
    text = text.rstrip()
    return text if text[-1:] in {*".!?:;>)]}\u3002", ""} else f"{text}."


def _is_prose(text: str) -> bool:
    """Return whether a text is sentences, as opposed to names, numbers and code."""
    plain = _SLOT.sub("", text).strip()
    marks = len(_CODE_MARK.findall(plain))
    return (" " in plain or not plain.isascii()) and marks <= _CODE_MARKS * len(plain)


def _limits(text: str, instruction: str) -> Iterable[str]:
    """Yield a text with its first number next to each limit of the instruction."""
    place = _NUMBER.search(text)
    if place is None:
        return
    for limit in dict.fromkeys(_NUMBER.findall(instruction)):
        for number in (int(limit) - 1, int(limit) + 1):
            yield f"{text[: place.start()]}{max(0, number)}{text[place.end() :]}"


def _sentences(text: str) -> list[str]:
    tree = parse(text)
    return [tree.text_of(node).strip() for node in tree.root.walk() if node.kind == "sentence"]
