"""The problem that a proposer receives: training cases only, with expected values masked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING

from regauge.judges.model.response import ResponseError
from regauge.prompts import input_text
from regauge.refine.analysis import Check
from regauge.refine.guards import CaseText, Leaks
from regauge.refine.loop._plan import calls_left, floor_calls, model_calls_left, trials_for
from regauge.refine.loop._state import Interrupted, TrialPlan, TrialResults
from regauge.refine.proposers._protocol import Problem, RedactedCase
from regauge.refine.proposers.model import object_in
from regauge.statements import content_words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.refine._policy import GuardPolicy
    from regauge.refine.analysis import FailureMode
    from regauge.refine.edits import PromptText
    from regauge.refine.feedback import FeedbackRemark
    from regauge.refine.loop._state import LoopState
    from regauge.refine.proposers._protocol import Example

_KEPT_CHARS = 1  # a single character reveals no value
# This number of words in a row is not chance, as in `GuardPolicy.phrase`.
_RUN_WORDS = 5
# A label is a word or a few; longer texts are outputs.
_LABEL_WORDS = 4
_WORD = re.compile(r"\w[\w'/:.-]*\w|\w")


@dataclass(frozen=True, slots=True)
class Masked:
    """An expected value without its content.

    Attributes:
        hidden: Pairs of a hidden text and its placeholder; the longest first.
    """

    shape: JSON
    hidden: tuple[tuple[str, str], ...]

    def text(self, visible: str) -> str:
        """A text without hidden texts, whole or in runs of some words."""
        for secret, placeholder in self.hidden:
            for part in (secret, *_stretches(secret)):
                visible = re.sub(_pattern_of(part), placeholder, visible, flags=re.IGNORECASE)
        return visible


def mask_value(expected: JSON, *, public: str = "") -> Masked:
    """Mask an expected value.

    Args:
        public: Texts that are not secret, such as the prompt. Values among their words, such as a
            label, are not masked.

    >>> it = mask_value({"severity": "critical", "minutes": 16})
    >>> it.shape
    {'severity': '<severity: text>', 'minutes': '<minutes: number>'}
    >>> it.text("severity is 'info', 'critical' wanted")
    "severity is 'info', '<severity: text>' wanted"
    >>> mask_value({"severity": "critical"}, public="critical, warning or info").shape
    {'severity': 'critical'}
    """
    hidden: dict[str, str] = {}
    shape = _hide(expected, "", public, hidden)
    return Masked(shape, tuple(sorted(hidden.items(), key=lambda pair: (-len(pair[0]), pair[0]))))


def is_public(value: JSON, public: str) -> bool:
    """Return whether a short text is among public words; numbers may be there by chance."""
    return (
        isinstance(value, str)
        and any(character.isalpha() for character in value)
        and len(value.split()) <= _LABEL_WORDS
        and re.search(_pattern_of(value), public) is not None
    )


def _hide(value: JSON, name: str, public: str, hidden: dict[str, str]) -> JSON:
    """A placeholder for each text of a value; the texts are added to `hidden`."""
    match value:
        case Mapping():
            return {key: _hide(part, key, public, hidden) for key, part in value.items()}
        case list():
            return [_hide(part, name, public, hidden) for part in value][:1]
        case None:
            return None
        case str() if is_public(value, public):
            return value
        case _:
            mark, text = _mark(value, name), str(value)
            secrets = () if isinstance(value, bool) else (text, *text.splitlines())
            for secret in map(str.strip, secrets):
                if len(secret) > _KEPT_CHARS and not is_public(secret, public):
                    hidden[secret] = mark
            return mark


def _mark(value: JSON, name: str) -> str:
    kinds: dict[type, str] = {bool: "yes or no", int: "number", float: "number"}
    kind = kinds.get(type(value), "text")
    return f"<{name}: {kind}>" if name else f"<expected {kind}>"


def _pattern_of(secret: str) -> str:
    """A text as a pattern: any white space, and no part of a longer word."""
    words = [re.escape(word) for word in secret.split()]
    return r"(?<!\w)" + r"(?:\s|\\n)+".join(words) + r"(?!\w)"


def _stretches(secret: str) -> Iterator[str]:
    """Runs of some words of a longer text."""
    places = [match.span() for match in _WORD.finditer(secret)]
    for n in range(len(places) - _RUN_WORDS + 1):
        yield secret[places[n][0] : places[n + _RUN_WORDS - 1][1]]


# Words of several parts, or with a digit: names of things rather than of a language.
_THING = re.compile(r"\w+(?:[-_.:/@]\w+)+|\w*\d\w*")
_LEFT_OUT = "(a line on a case that is held out is left out)"


def redact_feedback(
    evidence: Sequence[FeedbackRemark],
    train: Mapping[str, GoldenCase],
    holdout: Mapping[str, GoldenCase],
    *,
    public: Iterable[str],
    policy: GuardPolicy,
    show_expected: bool = False,
) -> tuple[FeedbackRemark, ...]:
    """Human feedback for proposers: without held-out cases and expected values.

    Lines about a held-out case are left out, and expected values of train cases are masked: all
    values of a case that the text names, only unique ones of other cases.
    """
    if not evidence:
        return ()
    inputs = (input_text(value) for case in train.values() for value in case.inputs.values())
    texts = [*public, *inputs]
    public_text = "\n".join(texts).casefold()
    holdout_texts = [CaseText.from_case(case) for case in holdout.values()]
    leaks, secret = Leaks(holdout_texts, texts, policy), _find_veils(holdout, public_text)
    terms = set(
        _THING.findall("\n".join(t for case in holdout_texts for t in case.texts).casefold())
    )
    terms -= set(_THING.findall(public_text))
    veils = {} if show_expected else _find_veils(train, public_text)

    def names_holdout(line: str) -> bool:
        return (
            not terms.isdisjoint(_THING.findall(line.casefold()))
            or any(veil.name.search(line) or veil.over(line) != line for veil in secret.values())
            or bool(leaks.describe_leak(line))
        )

    def redact(evidence: FeedbackRemark) -> FeedbackRemark:
        text = "\n".join(
            _LEFT_OUT if names_holdout(line) else line for line in evidence.text.split("\n")
        )
        for name, veil in veils.items():
            is_named = name == evidence.case or veil.name.search(text)
            text = veil.mask.text(text) if is_named else veil.over(text)
        case_veil = veils.get(evidence.case)
        output = case_veil.mask.text(evidence.output) if case_veil else evidence.output
        return replace(evidence, text=text, output=output)

    return tuple(map(redact, evidence))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Veil:
    """The mask of one case; `name` finds its id, `private` are values that only it has."""

    name: re.Pattern[str]
    mask: Masked
    private: tuple[tuple[str, str], ...]

    def over(self, text: str) -> str:
        """A text without values that only this case has."""
        low = text.casefold()
        runs = _runs(low)
        hidden = tuple(
            pair for pair in self.private if pair[0].casefold() in low or runs & _runs(pair[0])
        )
        return replace(self.mask, hidden=hidden).text(text) if hidden else text


def _find_veils(cases: Mapping[str, GoldenCase], public_text: str) -> dict[str, _Veil]:
    masks = {name: mask_value(case.golden) for name, case in cases.items()}
    return {
        name: _Veil(
            name=re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE),
            mask=mask,
            private=tuple(pair for pair in mask.hidden if pair[0].casefold() not in public_text),
        )
        for name, mask in masks.items()
    }


@lru_cache(4_096)
def _runs(text: str) -> frozenset[str]:
    words = re.findall(r"\w+", text.casefold())
    return frozenset(
        " ".join(words[n : n + _RUN_WORDS]) for n in range(len(words) - _RUN_WORDS + 1)
    )


# Every case costs up to 750 tokens of each request; three tell a pattern from an accident.
_FAILING_SHOWN = 3
_PASSING_SHOWN = 2
_LABELS_SHOWN = 4
_CONFUSIONS_SHOWN = 12
# Trials of a search have their own numbers: they select edits, so they are not evidence.
_SEARCH_FROM = 500
# A search spends each of its calls on one of these: half of them fail, half pass.
_SEARCHED_MAX = 12
# A case is understood by its beginning and end; whole documents fill a context.
_INPUT_CHARS = 2_000
_ANSWER_CHARS = 1_000


def problem_of(
    state: LoopState,
    cases: Mapping[str, GoldenCase],
    *,
    released: Sequence[str] = (),
    examples: Sequence[Example] = (),
    feedback: Sequence[FeedbackRemark] = (),
    show_expected: bool = False,
    schema: str = "",
    run_trials: Callable[[Sequence[TrialPlan]], Awaitable[TrialResults | Interrupted]]
    | None = None,
) -> Problem:
    """The problem that a proposer receives.

    Args:
        state: The state of the run; only train cases are shown.
        cases: Cases by their names in the run.
        released: Texts of earlier versions of the prompt, the newest first.
        examples: The pool of examples.
        feedback: The redacted remarks of users.
        show_expected: Show expected values without a mask.
        schema: The schema of the prompt's output: its values are not secret.
        run_trials: Called with trials, for proposers that search.
    """
    mode = state.mode
    train = {case for case in state.config.train if case in cases}
    failing = [case for case in mode.failing if case in train]
    passing = [case for case in mode.cases if case in train and case not in failing]
    public = f"{state.text.full_text}\n{schema}"
    confused = {case: _confusions(state, mode.check, case, cases[case], public) for case in failing}
    confusions = sum(confused.values(), Counter[str]())
    failing = _representatives(failing, confused, state.cycle)
    passing = _neighbours(passing, failing[:_FAILING_SHOWN], cases)

    def redacted(name: str) -> RedactedCase:
        case, failures = cases[name], state.tally.failures(state.text.digest, name, mode.check)
        outcomes = failures or state.tally.outcomes(state.text.digest, name)
        output = outcomes[0].output if outcomes else ""
        results = (result for outcome in failures[:1] for result in outcome.checks)
        reasons = [result.reason for result in results if result.check == mode.check]
        if failures and failures[0].limit:
            reasons.append(f"the output is cut off at {failures[0].limit}")
        hide = mask_value(None if show_expected else case.golden, public=public)
        shape = mask_value(case.expected, public=public).shape
        return RedactedCase(
            inputs={key: _cut(input_text(text), _INPUT_CHARS) for key, text in case.inputs.items()},
            output=_cut(hide.text(output), _ANSWER_CHARS),
            expected=case.expected if show_expected else shape,
            reason=hide.text("; ".join(reasons)),
        )

    trial_counts: Counter[tuple[str, str]] = Counter()

    async def search(text: PromptText, cases: Sequence[str]) -> TrialResults | Interrupted:
        assert run_trials is not None
        trials: list[tuple[str, int]] = []
        for case in cases:
            key = (text.digest, case)
            trials.append((case, state.config.first_trial + _SEARCH_FROM + trial_counts[key]))
            trial_counts[key] += 1
        return await run_trials((TrialPlan(text=text, trials=tuple(trials)),))

    return Problem(
        text=state.text,
        mode=mode,
        check=state.config.checks.get(mode.check, Check(name=mode.check)),
        checks=state.config.checks,
        failing=tuple(redacted(case) for case in failing[:_FAILING_SHOWN]),
        passing=tuple(redacted(case) for case in passing[:_PASSING_SHOWN]),
        confusions=tuple(confusions.most_common(_CONFUSIONS_SHOWN)),
        lessons=state.memory.lessons(mode.key),
        critique=state.critique,
        released=tuple(released),
        examples=tuple(examples),
        replaceable=state.config.guard.open_sections(state.text),
        feedback=_bearing_on(mode, feedback),
        cycle=state.cycle,
        model_calls=model_calls_left(state),
        cases=(*failing[: _SEARCHED_MAX // 2], *passing[: _SEARCHED_MAX // 2]),
        run_trials=None if run_trials is None else search,
        calls=max(0, trials_for(state.config, calls_left(state) - floor_calls(state.config))),
    )


def _bearing_on(
    mode: FailureMode, feedback: Sequence[FeedbackRemark]
) -> tuple[FeedbackRemark, ...]:
    """Labels for the check or of its failing cases, the nearest first, and all other remarks."""

    def distance(label: FeedbackRemark) -> tuple[bool, bool]:
        return label.judge != mode.check, label.case not in mode.failing

    labels = [remark for remark in feedback if remark.kind == "label" and not all(distance(remark))]
    other_remarks = (remark for remark in feedback if remark.kind != "label")
    return (*sorted(labels, key=distance)[:_LABELS_SHOWN], *other_remarks)


def _confusions(
    state: LoopState, check: str, name: str, case: GoldenCase, public: str
) -> Counter[str]:
    """Pairs of expected value and output of one case, with their number; allowed values only."""
    expected = case.expected if isinstance(case.expected, dict) else {"": case.expected}
    fields = {key: value for key, value in expected.items() if is_public(value, public)}
    # A check of one field names it; others are about all of them.
    checked_fields = {key: value for key, value in fields.items() if key and key in check} or fields
    counts: Counter[str] = Counter()
    for outcome in state.tally.failures(state.text.digest, name, check):
        with suppress(ResponseError):
            values = (
                object_in(outcome.output, *checked_fields)
                if "" not in checked_fields
                else {"": outcome.output}
            )
            for key, value in checked_fields.items():
                value_text = str(values.get(key, "(missing)")).strip()
                if value_text != value:
                    value_text = (
                        value_text
                        if value_text == "(missing)" or is_public(value_text, public)
                        else "another value"
                    )
                    counts[f"{key}: {value} -> {value_text}".removeprefix(": ")] += 1
    return counts


def _representatives(
    failing: Sequence[str], confused: Mapping[str, Counter[str]], cycle: int
) -> list[str]:
    """Failing cases, one of each kind of failure in turn; each cycle begins with others."""
    kinds: dict[str, list[str]] = {}
    for case in failing:
        kinds.setdefault(next(iter(confused[case]), ""), []).append(case)
    groups = sorted(kinds.values(), key=len, reverse=True)
    interleaved = [case for row in zip_longest(*groups) for case in row if case is not None]
    start = (cycle - 1) * _FAILING_SHOWN % max(1, len(interleaved))
    return [*interleaved[start:], *interleaved[:start]]


def _neighbours(
    passing: Sequence[str], failing: Sequence[str], cases: Mapping[str, GoldenCase]
) -> list[str]:
    """Passing cases, the most similar to a failing one first."""
    words = {
        case: content_words(" ".join(map(input_text, cases[case].inputs.values())))
        for case in (*passing, *failing)
    }

    def likeness(case: str) -> float:
        shared = (
            len(words[case] & words[o]) / max(1, len(words[case] | words[o])) for o in failing
        )
        return max(shared, default=0.0)

    return sorted(passing, key=likeness, reverse=True)


def _cut(text: str, length: int) -> str:
    """A text without its middle if it is too long."""
    if len(text) <= length:
        return text
    return (
        f"{text[: length // 2]}\n[... {len(text) - length} characters ...]\n{text[-length // 2 :]}"
    )
