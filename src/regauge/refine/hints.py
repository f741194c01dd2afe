"""Human feedback as far as proposers may know of it: nothing of the holdout, no answer."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from regauge.prompts import input_text
from regauge.refine.feedback import Heard, labels_of
from regauge.refine.leaks import Leaks
from regauge.refine.proposers._context import Masked, masked
from regauge.refine.setting import public_of
from regauge.refine.subject import case_text, cases_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.project import Project
    from regauge.refine._policy import GuardPolicy
    from regauge.refine.feedback import Evidence
    from regauge.refine.loop._state import Setting
    from regauge.refine.subject import Subject

_RUN_WORDS: Final = 5
# Words of several parts, or with a digit: names of things rather than of a language.
_THING: Final = re.compile(r"\w+(?:[-_.:/@]\w+)+|\w*\d\w*")
_LEFT_OUT: Final = "(a line on a case that is held out is left out)"


def hints_of(
    said: Sequence[Evidence],
    train: Mapping[str, GoldenCase],
    holdout: Mapping[str, GoldenCase],
    *,
    public: Iterable[str],
    policy: GuardPolicy,
    show_goldens: bool = False,
) -> tuple[Evidence, ...]:
    """What proposers may be shown of what people said.

    Lines that speak of a held-out case are left out, and what is expected of train cases is
    hidden: of a case that is named all of it, of others what nobody else says.
    """
    if not said:
        return ()
    texts = [
        *public,
        *(input_text(value) for case in train.values() for value in case.inputs.values()),
    ]
    known = "\n".join(texts).casefold()
    held = _Held(holdout, texts, known, policy)
    veils = {} if show_goldens else _veils(train, known)

    def shown(text: str, case: str) -> str:
        lines = (_LEFT_OUT if held.speaks(line) else line for line in text.split("\n"))
        kept = "\n".join(lines)
        for name, veil in veils.items():
            kept = veil.over(kept, is_named=name == case or bool(veil.name.search(kept)))
        return kept

    def answered(one: Evidence) -> str:
        veil = veils.get(one.case)
        return veil.over(one.answer, is_named=True) if veil else one.answer

    return tuple(replace(one, text=shown(one.text, one.case), answer=answered(one)) for one in said)


class _Held:
    """Knows what only held-out cases say: their ids, answers, names of things, sentences."""

    def __init__(
        self,
        cases: Mapping[str, GoldenCase],
        texts: Sequence[str],
        known: str,
        policy: GuardPolicy,
    ) -> None:
        said = [case_text(case) for case in cases.values()]
        self._leaks = Leaks(said, texts, policy)
        self._veils = _veils(cases, known)
        inputs = "\n".join(text for one in said for text in one.texts).casefold()
        self._things = set(_THING.findall(inputs)) - set(_THING.findall(known))

    def speaks(self, line: str) -> bool:
        """Whether a line speaks of one of them."""
        return (
            bool(self._things & set(_THING.findall(line.casefold())))
            or any(
                veil.name.search(line) or veil.over(line, is_named=False) != line
                for veil in self._veils.values()
            )
            or bool(self._leaks.found(line))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Veil:
    """Hides what is expected of one case.

    Attributes:
        name: Finds the case's id in a text.
        private: What nobody else says, in small letters, with its runs of words.
    """

    name: re.Pattern[str]
    whole: Masked
    private: tuple[tuple[tuple[str, str], str, frozenset[str]], ...]

    def over(self, text: str, *, is_named: bool) -> str:
        """A text in which all of it is hidden where the case is named, else what is private."""
        if is_named:
            return self.whole.text(text)
        low = text.casefold()
        runs = _runs(low)
        hidden = tuple(pair for pair, secret, its in self.private if secret in low or runs & its)
        return replace(self.whole, hidden=hidden).text(text) if hidden else text


def _veils(train: Mapping[str, GoldenCase], known: str) -> dict[str, _Veil]:
    found: dict[str, _Veil] = {}
    for name, case in train.items():
        whole = masked(case.golden)
        private = tuple(
            (pair, pair[0].casefold(), _runs(pair[0].casefold()))
            for pair in whole.hidden
            if pair[0].casefold() not in known
        )
        found[name] = _Veil(name=_whole(name), whole=whole, private=private)
    return found


def _runs(text: str) -> frozenset[str]:
    words = re.findall(r"\w+", text)
    return frozenset(
        " ".join(words[n : n + _RUN_WORDS]) for n in range(len(words) - _RUN_WORDS + 1)
    )


def _whole(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE)


def labels_for(project: Project, subject: Subject) -> Heard:
    """The labels of people on train cases, for advisory judges, too."""
    judges = [judge.name for one in subject.members.values() for judge in one.suite.judges]
    train = cases_of(subject.members, "train")
    return Heard(said=labels_of(project, dict.fromkeys(judges), train))


def hints_for(
    subject: Subject, setting: Setting, *, show_goldens: bool = False
) -> tuple[Evidence, ...]:
    """What people said of a prompt's answers, as far as proposers may know of it."""
    return hints_of(
        subject.heard.said,
        cases_of(subject.members, "train"),
        cases_of(subject.members, "holdout"),
        public=(setting.base.whole, *public_of(subject, setting.checks.values())),
        policy=setting.policy.guard,
        show_goldens=show_goldens,
    )
