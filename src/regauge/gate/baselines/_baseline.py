"""A baseline: what is known of main's behaviour, per case, and under which key it is known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.errors import UsageError
from regauge.evidence import Count
from regauge.gate._types import History
from regauge.judges import is_case_checks, versions_of_checks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from regauge.digests import JSON
    from regauge.gate._types import TrialFacts
    from regauge.judges import Judge
    from regauge.runner import Suite

__all__ = [
    "CASE_DIGITS",
    "Anchor",
    "Baseline",
    "CaseTrials",
    "HistoryKey",
    "KeyDifference",
    "Session",
    "StoredHistory",
    "gating_judges",
    "key_of",
]

CASE_DIGITS = 16
_ANSWER_DIGITS = 8
_SCORE_DIGITS = 4

KeyPart: TypeAlias = Literal["prompt", "parameters", "model", "judge", "dataset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDifference:
    """One part in which two keys differ.

    Attributes:
        name: The judge's name; empty for other parts.
        stored: What the stored trials were made with; None where there was no such judge.
        wanted: What is asked for now; None where there is no such judge any more.
        rules: The versions of rules that the stored trials were judged with, as in `HistoryKey`.
    """

    part: KeyPart
    name: str = ""
    stored: str | None
    wanted: str | None
    rules: Mapping[str, int] = field(default_factory=dict[str, int], compare=False)

    def __str__(self) -> str:
        which = f"judge {self.name!r}" if self.part == "judge" else self.part
        if self.stored is None:
            return f"{which} is new"
        if self.wanted is None:
            return f"{which} is gone"
        return f"{which}: {_short(self.stored)} then, {_short(self.wanted)} now"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryKey:
    """Everything but the case that can change a result; another key is another history.

    Attributes:
        prompt: The digest of the prompt.
        model: Who answers, as `provider:model`.
        parameters: The sampling parameters; the prompt's digest covers them too.
        dataset: The name of the golden dataset.
        judges: The digest of each judge that gates, by its name.
        rules: The versions of regauge's rules that the digest of checks holds; empty without.
    """

    prompt: str
    model: str
    parameters: Mapping[str, JSON] = field(default_factory=dict[str, "JSON"])
    dataset: str
    judges: Mapping[str, str]
    rules: Mapping[str, int] = field(default_factory=dict[str, int], compare=False)

    def differences(self, wanted: HistoryKey) -> tuple[KeyDifference, ...]:
        """In what trials of this key differ from those another key asks for."""
        key_differences: list[KeyDifference] = []
        parts: tuple[tuple[KeyPart, str, str], ...] = (
            ("prompt", self.prompt, wanted.prompt),
            ("dataset", self.dataset, wanted.dataset),
            ("model", self.model, wanted.model),
        )
        for part, mine, its in parts:
            if mine != its:
                key_differences.append(KeyDifference(part=part, stored=mine, wanted=its))
        if self.prompt == wanted.prompt and dict(self.parameters) != dict(wanted.parameters):
            mine, its = str(dict(self.parameters)), str(dict(wanted.parameters))
            key_differences.append(KeyDifference(part="parameters", stored=mine, wanted=its))
        for name in sorted({*self.judges, *wanted.judges}):
            stored, its_judge = self.judges.get(name), wanted.judges.get(name)
            if stored != its_judge:
                key_differences.append(
                    KeyDifference(
                        part="judge",
                        name=name,
                        stored=stored,
                        wanted=its_judge,
                        rules=self.rules,
                    )
                )
        return tuple(key_differences)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One run that drew trials of main.

    Attributes:
        id: When it began, in UTC, such as `2026-11-21T09:30:00Z`.
        first: Its first trial number.
        last: Its last trial number.
        served: Who answered, as providers say it: model and fingerprint, sorted.
    """

    id: str
    first: int
    last: int
    served: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseTrials:
    """The stored trials of one case.

    Attributes:
        digest: The first 16 digits of the case's digest.
        drawn: The numbers of the trials that were made, rising.
        passed: How many of them every judge let pass that had an opinion.
        silent: In how many no judge had an opinion: those count neither way.
        checks: Per judge, in how many it had an opinion and how many of these it let pass.
        scores: What each judge gave, lowest first: one score for each trial it had an opinion of.
        answers: The first digits of the digests of the judged answers, each once, sorted.
    """

    digest: str
    drawn: tuple[int, ...] = ()
    passed: int = 0
    silent: int = 0
    checks: Mapping[str, Count] = field(default_factory=dict[str, Count])
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    answers: tuple[str, ...] = ()

    @property
    def whole(self) -> Count:
        """The passed trials, of those with a verdict of any judge."""
        return Count(passed=self.passed, trials=len(self.drawn) - self.silent)

    def add(self, number: int, facts: TrialFacts) -> CaseTrials:
        """The case with one more trial; a number that counts already changes nothing."""
        if number in self.drawn:
            return self
        if self.drawn and number < self.drawn[-1]:
            raise ValueError(f"trial {number} comes after {self.drawn[-1]}")
        checks, scores = dict(self.checks), dict(self.scores)
        for name, outcome in facts.checks.items():
            known = checks.get(name, Count(passed=0, trials=0))
            if outcome is not None:
                known = Count(passed=known.passed + outcome, trials=known.trials + 1)
                score = round(facts.scores.get(name, float(outcome)), _SCORE_DIGITS)
                scores[name] = tuple(sorted((*scores.get(name, ()), score)))
            checks[name] = known
        answers = {*self.answers}
        if facts.passed is not None:
            answers.add(facts.answer[:_ANSWER_DIGITS])
        return replace(
            self,
            drawn=(*self.drawn, number),
            passed=self.passed + bool(facts.passed),
            silent=self.silent + (facts.passed is None),
            checks=checks,
            scores=scores,
            answers=tuple(sorted(answers)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHistory:
    """The trials of main under one key.

    Attributes:
        version: The prompt's version when they were drawn; empty where it has none.
        sessions: Oldest first; their trial numbers rise.
        cases: By case id.
        graded: The judges that ever gave a score strictly between 0 and 1.
        audited: The digest of the recorded trials that fresh ones were compared with; empty where
            there were none.
    """

    key: HistoryKey
    version: str = ""
    sessions: tuple[Session, ...] = ()
    cases: Mapping[str, CaseTrials] = field(default_factory=dict[str, CaseTrials])
    audited: str = ""
    # Computed once: every case asks for it.
    graded: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        graded = frozenset(
            name
            for case in self.cases.values()
            for name, scores in case.scores.items()
            if any(0 < score < 1 for score in scores)
        )
        object.__setattr__(self, "graded", graded)

    def history(self, case_id: str, digest: str) -> History | None:
        """The history of a case for the engine; None without one.

        Args:
            digest: Of the case as it is now: stored trials of an older state do not count.
        """
        case = self.cases.get(case_id)
        if case is None or not case.drawn or case.digest != digest[:CASE_DIGITS]:
            return None
        graded = self.graded
        return History(
            checks=case.checks,
            whole=case.whole,
            scores={name: scores for name, scores in case.scores.items() if name in graded},
            sessions=self.sessions_of(case),
            distinct_answers=len(case.answers),
        )

    def sessions_of(self, case: CaseTrials) -> tuple[str, ...]:
        """The sessions that drew a case."""
        return tuple(
            session.id
            for session in self.sessions
            if any(session.first <= number <= session.last for number in case.drawn)
        )

    @property
    def served(self) -> frozenset[str]:
        """The models that answered in any session."""
        return frozenset(name for session in self.sessions for name in session.served)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """The trials of an old version, which later versions are compared with.

    Attributes:
        drawn_for: The prompt digest of the version next to which the trials were drawn again;
            empty for trials that are older than that.
    """

    history: StoredHistory
    drawn_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The baseline of one prompt: `fixtures/baselines/<prompt>.json`.

    Attributes:
        histories: One for each eval of the prompt as main has it.
        previous: Histories of the version before, kept until the new ones are complete.
        anchors: The old version that later ones are compared with, for each eval.
    """

    prompt: str
    histories: tuple[StoredHistory, ...] = ()
    previous: tuple[StoredHistory, ...] = ()
    anchors: tuple[Anchor, ...] = ()

    def find(self, key: HistoryKey) -> StoredHistory | None:
        """The history under a key, be it of the current version or of the one before."""
        return next((known for known in self._all() if not known.key.differences(key)), None)

    def nearest(self, key: HistoryKey) -> StoredHistory | None:
        """The history that differs least from a key, of the same prompt text and dataset."""
        same = [
            known
            for known in self._all()
            if (known.key.prompt, known.key.dataset) == (key.prompt, key.dataset)
        ]
        return min(same, key=lambda known: len(known.key.differences(key)), default=None)

    def before(self, key: HistoryKey) -> StoredHistory | None:
        """The history of another version of the prompt that a key's can be compared with."""
        return next(
            (
                known
                for known in self._all()
                if {part.part for part in known.key.differences(key)} == {"prompt"}
            ),
            None,
        )

    def with_dataset(self, before: str, now: str) -> Baseline:
        """The baseline after a dataset was renamed; as it is where it has the new name already."""
        if before == now or any(known.key.dataset == now for known in self._all()):
            return self

        def renamed(known: StoredHistory) -> StoredHistory:
            if known.key.dataset != before:
                return known
            return replace(known, key=replace(known.key, dataset=now))

        return replace(
            self,
            histories=tuple(map(renamed, self.histories)),
            previous=tuple(map(renamed, self.previous)),
            anchors=tuple(
                replace(anchor, history=renamed(anchor.history)) for anchor in self.anchors
            ),
        )

    def _all(self) -> Iterable[StoredHistory]:
        yield from self.histories
        yield from self.previous


def _short(value: str) -> str:
    digest = len(value) == 64 and not set(value) - set("0123456789abcdef")  # noqa: PLR2004  # SHA-256
    return value[:12] if digest else value


def gating_judges(suite: Suite) -> tuple[Judge, ...]:
    """The judges whose verdicts decide: all but model judges without a passing calibration."""
    return tuple(judge for judge in suite.judges if suite.standing(judge).gates)


def key_of(suite: Suite) -> HistoryKey:
    """The key of a suite's trials in a baseline.

    Raises:
        UsageError: None of its judges decides.
    """
    judges = gating_judges(suite)
    if not judges:
        names = ", ".join(judge.name for judge in suite.judges)
        raise UsageError(
            f"{suite.prompt.name}: no judge decides, all of them only inform: {names}\n"
            "  fix: add a rule, or calibrate a judge: regauge judges calibrate"
        )
    return HistoryKey(
        prompt=suite.prompt.digest,
        model=str(suite.model),
        parameters=suite.prompt.parameters,
        dataset=suite.dataset.name,
        judges={judge.name: judge.digest for judge in judges},
        rules=versions_of_checks() if any(map(is_case_checks, judges)) else {},
    )
