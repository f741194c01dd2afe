"""The view of a run for proposers: training cases only, expected values masked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING

from regauge.judges.model._reply import ReplyFault
from regauge.prompts import input_text
from regauge.refine.leaks import CaseText, Leaks
from regauge.refine.loop._plan import calls_max, floor_calls, trials_for
from regauge.refine.loop._state import Draws
from regauge.refine.proposers._model import object_in
from regauge.refine.proposers._protocol import Problem, Shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.refine._policy import GuardPolicy
    from regauge.refine.analysis import Cluster
    from regauge.refine.edits import PromptText
    from regauge.refine.feedback import Evidence
    from regauge.refine.loop._state import Interrupted, Setting, State, TrialsDone
    from regauge.refine.proposers._protocol import Example

_KEPT_CHARS = 1  # of a single character no one learns an answer
# So many words in a row are no chance, as `GuardPolicy.phrase` has it.
_RUN_WORDS = 5
# A label is a word or a few; longer texts are answers.
_LABEL_WORDS = 4
_WORD = re.compile(r"\w[\w'/:.-]*\w|\w")


@dataclass(frozen=True, slots=True)
class Masked:
    """An expected value without its content.

    Attributes:
        hidden: Each text that is hidden, with its placeholder; the longest first.
    """

    shape: JSON
    hidden: tuple[tuple[str, str], ...]

    def text(self, said: str) -> str:
        """A text without what is hidden, be it whole or in stretches of some words."""
        for secret, placeholder in self.hidden:
            said = re.sub(_bounded(secret), placeholder, said, flags=re.IGNORECASE)
            for stretch in _stretches(secret):
                said = re.sub(_bounded(stretch), placeholder, said, flags=re.IGNORECASE)
        return said


def masked(expected: JSON, *, public: str = "") -> Masked:
    """An expected value, hidden.

    Args:
        public: Texts that everybody sees, such as the prompt. Texts of the value that are words
            of it, such as a label, stay as they are.

    >>> it = masked({"severity": "critical", "minutes": 16})
    >>> it.shape
    {'severity': '<severity: text>', 'minutes': '<minutes: number>'}
    >>> it.text("severity is 'info', 'critical' wanted")
    "severity is 'info', '<severity: text>' wanted"
    >>> masked({"severity": "critical"}, public="critical, warning or info").shape
    {'severity': 'critical'}
    """
    hidden: dict[str, str] = {}
    shape = _hide(expected, "", public, hidden)
    return Masked(shape, tuple(sorted(hidden.items(), key=lambda pair: (-len(pair[0]), pair[0]))))


def is_public(value: JSON, public: str) -> bool:
    """Return whether a short text is among public words; a number may stand there by chance."""
    return (
        isinstance(value, str)
        and any(character.isalpha() for character in value)
        and len(value.split()) <= _LABEL_WORDS
        and re.search(_bounded(value), public) is not None
    )


def _hide(value: JSON, name: str, public: str, hidden: dict[str, str]) -> JSON:
    """A placeholder for each text of a value; the texts go into `hidden`."""
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
            mark, said = _mark(value, name), str(value)
            secrets = () if isinstance(value, bool) else (said, *said.splitlines())
            for secret in map(str.strip, secrets):
                if len(secret) > _KEPT_CHARS and not is_public(secret, public):
                    hidden[secret] = mark
            return mark


def _mark(value: JSON, name: str) -> str:
    kind = "text"
    if isinstance(value, bool):
        kind = "yes or no"
    elif isinstance(value, (int, float)):
        kind = "number"
    return f"<{name}: {kind}>" if name else f"<expected {kind}>"


def _bounded(secret: str) -> str:
    """A text as a pattern: any white space, and no part of a longer word."""
    words = [re.escape(word) for word in secret.split()]
    return r"(?<!\w)" + r"(?:\s|\\n)+".join(words) + r"(?!\w)"


def _stretches(secret: str) -> Iterator[str]:
    """Runs of some words of a longer text."""
    places = [found.span() for found in _WORD.finditer(secret)]
    for n in range(len(places) - _RUN_WORDS + 1):
        yield secret[places[n][0] : places[n + _RUN_WORDS - 1][1]]


# Words of several parts, or with a digit: names of things rather than of a language.
_THING = re.compile(r"\w+(?:[-_.:/@]\w+)+|\w*\d\w*")
_LEFT_OUT = "(a line on a case that is held out is left out)"


def hints_of(
    said: Sequence[Evidence],
    train: Mapping[str, GoldenCase],
    holdout: Mapping[str, GoldenCase],
    *,
    public: Iterable[str],
    policy: GuardPolicy,
    show_goldens: bool = False,
) -> tuple[Evidence, ...]:
    """Human feedback as far as proposers may see it: nothing of the holdout, no answer.

    Lines that speak of a held-out case are left out, and what is expected of train cases is
    hidden: of a case that is named all of it, of others what only they say.
    """
    if not said:
        return ()
    inputs = (input_text(value) for case in train.values() for value in case.inputs.values())
    texts = [*public, *inputs]
    known = "\n".join(texts).casefold()
    held = [CaseText.of(case) for case in holdout.values()]
    leaks, secret = Leaks(held, texts, policy), _veils(holdout, known)
    things = set(_THING.findall("\n".join(t for one in held for t in one.texts).casefold()))
    things -= set(_THING.findall(known))
    veils = {} if show_goldens else _veils(train, known)

    def speaks(line: str) -> bool:
        return (
            not things.isdisjoint(_THING.findall(line.casefold()))
            or any(veil.name.search(line) or veil.over(line) != line for veil in secret.values())
            or bool(leaks.found(line))
        )

    def shown(one: Evidence) -> Evidence:
        text = "\n".join(_LEFT_OUT if speaks(line) else line for line in one.text.split("\n"))
        for name, veil in veils.items():
            is_named = name == one.case or veil.name.search(text)
            text = veil.whole.text(text) if is_named else veil.over(text)
        answer = veils[one.case].whole.text(one.answer) if one.case in veils else one.answer
        return replace(one, text=text, answer=answer)

    return tuple(map(shown, said))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Veil:
    """Hides what is expected of one case; `name` finds its id, `private` is what only it says."""

    name: re.Pattern[str]
    whole: Masked
    private: tuple[tuple[str, str], ...]

    def over(self, text: str) -> str:
        """A text without what only this case says."""
        low = text.casefold()
        runs = _runs(low)
        hidden = tuple(
            pair for pair in self.private if pair[0].casefold() in low or runs & _runs(pair[0])
        )
        return replace(self.whole, hidden=hidden).text(text) if hidden else text


def _veils(cases: Mapping[str, GoldenCase], known: str) -> dict[str, _Veil]:
    wholes = {name: masked(case.golden) for name, case in cases.items()}
    return {
        name: _Veil(
            name=re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE),
            whole=whole,
            private=tuple(pair for pair in whole.hidden if pair[0].casefold() not in known),
        )
        for name, whole in wholes.items()
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
# Trials that a search draws have numbers of their own: they choose, so they prove nothing.
_SEARCH_FROM = 500
# A search spends each of its calls on one of these: half of them fail, half pass.
_SEARCHED_MAX = 12
# A case is understood by its beginning and end; whole documents fill a context.
_INPUT_CHARS = 2_000
_ANSWER_CHARS = 1_000


def problem_of(
    setting: Setting,
    state: State,
    cases: Mapping[str, GoldenCase],
    *,
    released: Sequence[str] = (),
    examples: Sequence[Example] = (),
    people: Sequence[Evidence] = (),
    show_goldens: bool = False,
    schema: str = "",
    draw: Callable[[Sequence[Draws]], Awaitable[TrialsDone | Interrupted]] | None = None,
) -> Problem:
    """The problem that a proposer receives.

    Args:
        setting: What the run is about; of its cases only those to train on are shown.
        state: Where the run stands.
        cases: By the names that the run knows them by.
        released: Texts of earlier versions of the prompt, the newest first.
        examples: The pool.
        people: What people said, as far as proposers may know of it.
        show_goldens: Show what is expected as it is.
        schema: Of the prompt's answers: like the prompt's own words, its values are no secret.
        draw: Draws trials, for proposers that search with some of their own.
    """
    from regauge.refine.analysis import Check

    cluster = state.cluster
    failing = [case for case in cluster.failing if case in setting.train and case in cases]
    passing = [
        case
        for case in cluster.cases
        if case in setting.train and case in cases and case not in failing
    ]

    public = f"{state.text.whole}\n{schema}"
    confused = {
        case: _confusions(state, cluster.check, case, cases[case], public) for case in failing
    }
    confusions = sum(confused.values(), Counter[str]())
    failing = _representatives(failing, confused, state.cycle)
    passing = _neighbours(passing, failing[:_FAILING_SHOWN], cases)

    def shown(case: str) -> Shown:
        golden = cases[case]
        return _shown(state, cluster.check, case, golden, show_goldens=show_goldens, public=public)

    left_calls = calls_max(setting, state) - state.spent.total
    left = setting.policy.limits.model_calls - state.spent.model_calls
    drawn: Counter[tuple[str, str]] = Counter()

    async def search(text: PromptText, wanted: Sequence[str]) -> TrialsDone | Interrupted:
        assert draw is not None
        trials: list[tuple[str, int]] = []
        for case in wanted:
            key = (text.digest, case)
            trials.append((case, setting.first_trial + _SEARCH_FROM + drawn[key]))
            drawn[key] += 1
        return await draw((Draws(text=text, trials=tuple(trials)),))

    return Problem(
        text=state.text,
        cluster=cluster,
        check=setting.checks.get(cluster.check, Check(name=cluster.check)),
        checks=setting.checks,
        failing=tuple(shown(case) for case in failing[:_FAILING_SHOWN]),
        passing=tuple(shown(case) for case in passing[:_PASSING_SHOWN]),
        confusions=tuple(confusions.most_common(_CONFUSIONS_SHOWN)),
        lessons=state.memory.lessons(cluster.key),
        critique=state.critique,
        released=tuple(released),
        examples=tuple(examples),
        hindering=tuple(b.text for b in state.bearings if cluster.check in b.hinders),
        replaceable=setting.guard.open_sections(state.text),
        people=_bearing_on(cluster, people),
        cycle=state.cycle,
        model_calls=max(0, left),
        cases=(*failing[: _SEARCHED_MAX // 2], *passing[: _SEARCHED_MAX // 2]),
        draw=None if draw is None else search,
        calls=max(0, trials_for(setting, left_calls - floor_calls(setting))),
    )


def _bearing_on(cluster: Cluster, people: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Labels for the check or of its failing cases, the nearest first, and all that was said."""
    labels = [
        (one.judge != cluster.check, one.case not in cluster.failing, number, one)
        for number, one in enumerate(people)
        if one.kind == "label" and (one.judge == cluster.check or one.case in cluster.failing)
    ]
    nearest = [one for *_, one in sorted(labels, key=lambda entry: entry[:3])[:_LABELS_SHOWN]]
    return (*nearest, *(one for one in people if one.kind != "label"))


def _confusions(state: State, check: str, name: str, case: GoldenCase, public: str) -> Counter[str]:
    """Of one case, how often which allowed value came where which was expected."""
    expected = case.expected if isinstance(case.expected, dict) else {"": case.expected}
    fields = {key: value for key, value in expected.items() if is_public(value, public)}
    # A check of one field names it; others are about all of them.
    named = {key: value for key, value in fields.items() if key and key in check} or fields
    found: Counter[str] = Counter()
    for outcome in state.tally.failures(state.text.digest, name, check):
        with suppress(ReplyFault):
            answer = object_in(outcome.answer, *named) if "" not in named else {"": outcome.answer}
            for key, value in named.items():
                got = str(answer.get(key, "(missing)")).strip()
                if got != value:
                    got = got if got == "(missing)" or is_public(got, public) else "another value"
                    found[f"{key}: {value} -> {got}".removeprefix(": ")] += 1
    return found


def _representatives(
    failing: Sequence[str], confused: Mapping[str, Counter[str]], cycle: int
) -> list[str]:
    """Failing cases, one of each kind of failure in turn; every cycle begins with others."""
    kinds: dict[str, list[str]] = {}
    for case in failing:
        kinds.setdefault(next(iter(confused[case]), ""), []).append(case)
    ranked = sorted(kinds.values(), key=len, reverse=True)
    dealt = [case for row in zip_longest(*ranked) for case in row if case is not None]
    start = (cycle - 1) * _FAILING_SHOWN % max(1, len(dealt))
    return [*dealt[start:], *dealt[:start]]


def _neighbours(
    passing: Sequence[str], failing: Sequence[str], cases: Mapping[str, GoldenCase]
) -> list[str]:
    """Passing cases, those first that share most words with a failing one."""

    def words(case: str) -> frozenset[str]:
        values = cases[case].inputs.values()
        return frozenset(re.findall(r"\w+", " ".join(map(input_text, values)).casefold()))

    fails = [words(case) for case in failing]

    def likeness(case: str) -> float:
        own = words(case)
        return max((len(own & one) / len(own | one) for one in fails if own | one), default=0.0)

    return sorted(passing, key=likeness, reverse=True)


def _shown(
    state: State, check: str, name: str, case: GoldenCase, *, show_goldens: bool, public: str
) -> Shown:
    failures = state.tally.failures(state.text.digest, name, check)
    outcomes = failures or state.tally.since(state.text.digest, name, 0)
    answer = outcomes[0].answer if outcomes else ""
    reasons = [said.reason for o in failures[:1] for said in o.checks if said.check == check]
    hide = masked(case.golden, public=public)
    if show_goldens:
        hide = masked(None)
    return Shown(
        inputs={key: _cut(input_text(value), _INPUT_CHARS) for key, value in case.inputs.items()},
        answer=_cut(hide.text(answer), _ANSWER_CHARS),
        expected=case.expected if show_goldens else masked(case.expected, public=public).shape,
        reason=hide.text("; ".join(reasons)),
    )


def _cut(text: str, most: int) -> str:
    """A text without its middle, where it is too long."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n[... {len(text) - most} characters ...]\n{text[-most // 2 :]}"
