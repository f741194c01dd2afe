"""Tasks of the benchmark, and modules of your own.

A module has an object `TASK`, or these names; the first six are required:

- `REQ`: a row per requirement: name, instruction, four fields of your own, reason of a failure
- `healthy_prompt()`: the prompt without a fault
- `seed_fault(kind, name, rng)`: the prompt with one fault
- `make_cases(n, seed, tag)`: cases with `id`, `reqs` (names of requirements), `input`, `golden`
- `true_quality(prompt, cases=None)`: from 0 to 1, computed from the text
- `Sim(seed).run(prompt, case)`: one completion: its score and the names of the failed requirements
- `KINDS`, `FAULT_PAIRS`: kinds of faults; pairs of kind and name
- `seed_faults(pairs, rng)`: the prompt with several faults
- `statements(text)`: the statements of a text
- `UNFIX`, `FLIP`: requirements that no prompt can raise; the share of wrong judgements
- `feedback(case, failed)`: a judge's words
- `ProposerCfg()`, `FakeReflectionLM(habits, seed).propose(request)`: the refiner model; without it
  only rules propose
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import random
import re
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks.refine_tasks._simulated import Proposals
from benchmarks.refine_tasks._statements import statements
from regauge.refine.edits import EditError, PromptText, apply, ops_between

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Task", "load_task", "with_faults"]

_OWN = (
    "incidents", "tickets", "invoices", "manifests", "commits",
    "letters", "mails", "antraege", "gijiroku", "travel",
)  # fmt: skip


class GoldenCase(Protocol):
    """A case of any task."""

    @property
    def id(self) -> str: ...
    @property
    def reqs(self) -> Sequence[str]: ...
    @property
    def input(self) -> str: ...
    @property
    def golden(self) -> str: ...


class Task(Protocol):
    """A task whose true quality is known."""

    unfixable: dict[str, float]
    flips: float

    @property
    def name(self) -> str: ...
    @property
    def kinds(self) -> tuple[str, ...]: ...
    @property
    def faults(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    def advice(self, name: str) -> str: ...
    def reason(self, name: str) -> str: ...
    def healthy_prompt(self) -> str: ...
    def seed_fault(self, kind: str, name: str, rng: random.Random) -> str: ...
    def cases(self, n: int, seed: int, tag: str) -> list[Any]: ...
    def true_quality(self, prompt: str, cases: Sequence[Any] | None = None) -> float: ...
    def statements(self, text: str) -> Counter[str]: ...
    def failed(self, prompt: str, case: Any, rng: random.Random) -> list[str]: ...
    def proposal(
        self, prompt: str, shown: Mapping[str, Any], failing: str, how: Proposals, seed: int
    ) -> str: ...


class ForeignTask:
    """A module with `REQ`, `healthy_prompt`, `seed_fault`, `make_cases`, `Sim` and the like.

    Whatever it lacks is done without: no `feedback` means plain reasons, no reflection model means
    that only rules propose.
    """

    def __init__(self, module: Any) -> None:
        self._m = module
        self.name: str = getattr(module, "NAME", module.__name__.rpartition(".")[2])
        self.unfixable: dict[str, float] = getattr(module, "UNFIX", {})
        self._rows = {row[0]: row for row in module.REQ}
        self._calls = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._rows)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of faults it can make, of those it lists or else those its source speaks of."""
        for name in ("KINDS", "FAULTS", "FAULT_KINDS"):
            listed = tuple(kind for kind in getattr(self._m, name, ()) if self._makes(kind))
            if listed:
                return listed
        found = re.findall(r"kind\s*==\s*[\"'](\w+)[\"']", _source(self._m.seed_fault))
        usable = dict.fromkeys((*found, "delete", "contradict", "garble"))
        return tuple(kind for kind in usable if self._makes(kind))

    @property
    def flips(self) -> float:
        flips = getattr(self._m, "FLIP", None)
        return float(flips[0]) if flips else 0.0

    @flips.setter
    def flips(self, share: float) -> None:
        if hasattr(self._m, "FLIP"):
            self._m.FLIP[0] = share

    @property
    def faults(self) -> tuple[tuple[str, str], ...]:
        """The faults it lists for each of its requirements, where not every one can have all."""
        return tuple((kind, name) for kind, name in getattr(self._m, "FAULT_PAIRS", ()))

    def seed_faults(self, faults: Sequence[tuple[str, str]], rng: random.Random) -> str:
        """The prompt with several faults at once."""
        if own := getattr(self._m, "seed_faults", None):
            return str(own(faults, rng))
        return _joined(self, faults, rng)

    @property
    def proposes(self) -> bool:
        return hasattr(self._m, "FakeReflectionLM")

    def advice(self, name: str) -> str:
        return str(self._rows[name][1])

    def reason(self, name: str) -> str:
        row = self._rows.get(name, (name,))
        return str(row[6]) if len(row) > 6 else str(row[-1])

    def healthy_prompt(self) -> str:
        return str(self._m.healthy_prompt())

    def seed_fault(self, kind: str, name: str, rng: random.Random) -> str:
        return str(self._m.seed_fault(kind, name, rng))

    def statements(self, text: str) -> Counter[str]:
        split = getattr(self._m, "statements", None)
        return statements(text) if split is None else Counter(split(text))

    def cases(self, n: int, seed: int, tag: str) -> list[Any]:
        return list(self._m.make_cases(n, seed, tag))

    def true_quality(self, prompt: str, cases: Sequence[Any] | None = None) -> float:
        if cases is None:
            return float(self._m.true_quality(prompt))
        return float(self._m.true_quality(prompt, list(cases)))

    def failed(self, prompt: str, case: Any, rng: random.Random) -> list[str]:
        _, failed = self._m.Sim(rng.getrandbits(40)).run(prompt, case)
        return list(failed)

    def proposal(
        self, prompt: str, shown: Mapping[str, Any], failing: str, how: Proposals, seed: int
    ) -> str:
        said = "\n".join(self._feedback(case, failing) for case in shown.values())
        request = f"CURRENT PROMPT\n{prompt}\nFAILURES OF {failing}\n{said}\n"
        model = self._m.FakeReflectionLM(self._habits(how), seed % 10**8)
        return str(model.propose(request))

    def _feedback(self, case: Any, failing: str) -> str:
        if hasattr(self._m, "feedback"):
            return str(self._m.feedback(case, [failing]))
        return f"FAILED[{failing}]: {self.reason(failing)} | EXPECTED<<{case.golden}>>"

    def _habits(self, how: Proposals) -> Any:
        """The module's own habits, but for what the scenario is about."""
        made, usual = self._m.ProposerCfg(), Proposals()
        for name in ("p_fix", "p_leak", "p_drop", "p_fluff", "neutral"):
            if hasattr(made, name) and getattr(how, name) != getattr(usual, name):
                setattr(made, name, getattr(how, name))
        return made

    def _makes(self, kind: str) -> bool:
        with suppress(Exception):
            self._m.seed_fault(kind, self.names[0], random.Random(1))
            return True
        return False


def load_task(name: str) -> Task:
    """One of the families here, or any module: its dotted name or the path of its file."""
    if name in _OWN:
        own: Task = importlib.import_module(f"benchmarks.refine_tasks.{name}").TASK
        return own
    if name.endswith(".py"):
        path = Path(name).resolve()
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise SystemExit(f"{name} is no Python module")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # dataclasses look their module up
        sys.path.insert(0, str(path.parent))
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, "")
        module = importlib.import_module(name)
    found = getattr(module, "TASK", None)
    return found if found is not None else ForeignTask(module)


def with_faults(task: Task, faults: Sequence[tuple[str, str]], rng: random.Random) -> str:
    """The healthy prompt with several faults at once.

    Raises:
        EditError: Two faults change the same words.
    """
    own = getattr(task, "seed_faults", None)
    return str(own(faults, rng)) if own else _joined(task, faults, rng)


def _joined(task: Task | ForeignTask, faults: Sequence[tuple[str, str]], rng: random.Random) -> str:
    healthy = PromptText.from_contents(task.healthy_prompt())
    faulty = [PromptText.from_contents(task.seed_fault(kind, name, rng)) for kind, name in faults]
    try:
        return apply(
            healthy, [op for text in faulty for op in ops_between(healthy, text)]
        ).full_text
    except EditError:  # two in one line
        return _word_by_word(healthy.full_text, [text.full_text for text in faulty])


def _word_by_word(healthy: str, faulty: Sequence[str]) -> str:
    """All changes of some texts at once, where no two change the same words."""
    words = re.findall(r"\s+|\S+", healthy)
    changes: list[tuple[int, int, list[str]]] = []
    for text in faulty:
        its = re.findall(r"\s+|\S+", text)
        matched = difflib.SequenceMatcher(None, words, its, autojunk=False)
        changes += [(a, b, its[c:d]) for tag, a, b, c, d in matched.get_opcodes() if tag != "equal"]
    changes.sort(key=lambda change: change[:2])
    merged: list[str] = []
    at = 0
    for start, end, its in changes:
        if start < at:
            raise EditError(f"two faults change {''.join(words[start:end])!r}")
        merged += [*words[at:start], *its]
        at = end
    return "".join([*merged, *words[at:]])


def _source(function: Any) -> str:
    with suppress(OSError, TypeError):
        return inspect.getsource(function)
    return ""
