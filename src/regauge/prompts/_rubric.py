"""`rubric`: what kind of verdict a judge's prompt asks for, and the form of the reply."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from regauge.prompts._yaml import line_of, scalar_tag
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import yaml

    from regauge.digests import JSON
    from regauge.prompts._yaml import Entries, Reader

RubricKind = Literal["graded", "binary", "choice", "pair"]

_KINDS: tuple[RubricKind, ...] = get_args(RubricKind)
_KEYS = ("kind", "scale", "choices", "reference", "ties", "pass_at")
_OF_KIND = {"scale": "graded", "choices": "choice", "ties": "pair"}
_JUDGED: Mapping[RubricKind, tuple[str, ...]] = {
    "graded": ("answer",),
    "binary": ("answer",),
    "choice": ("answer",),
    "pair": ("first", "second"),
}
_OF_CONVERSATIONS = frozenset({"conversation", "tool_calls"})
_REFERENCES = ("reference", "expected")
_FIX = f"write `kind:` with one of {', '.join(_KINDS)}"
# A model keeps to so many values where a schema lists them; a longer scale is any number.
_LISTED_MAX = 11
_CHOICES_MIN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricSpec:
    """The request of a judge's prompt.

    Attributes:
        kind: `graded` on a scale, `binary`, `choice` of a label, or `pair` for the better of two.
        low: The worst value of the scale.
        high: The best value of the scale.
        choices: The score of each label, from 0 (worst) to 1 (best).
        reference: Whether the verdict compares with a reference answer.
        ties: Whether a pair may be called equal.
        pass_at: The score, from 0 to 1, that passes where the eval says none.
    """

    kind: RubricKind
    low: float = 0
    high: float = 1
    choices: Mapping[str, float] = field(default_factory=dict[str, float])
    reference: bool = False
    ties: bool = False
    pass_at: float = 0.5

    @property
    def steps(self) -> tuple[int, ...]:
        """The values of a scale of whole numbers, worst first; empty for any other scale."""
        whole = self.low == int(self.low) and self.high == int(self.high)
        count = int(self.high - self.low) + 1
        if self.kind != "graded" or not whole or not _CHOICES_MIN < count <= _LISTED_MAX:
            return ()
        return tuple(range(int(self.low), int(self.high) + 1))

    @property
    def verdict_key(self) -> str:
        """The key of the reply that holds the verdict."""
        return {"graded": "score", "binary": "verdict", "choice": "choice", "pair": "winner"}[
            self.kind
        ]

    @property
    def labels(self) -> tuple[str, ...]:
        """The words a verdict is one of; empty for a graded one."""
        match self.kind:
            case "graded":
                return ()
            case "binary":
                return ("pass", "fail")
            case "choice":
                return tuple(self.choices)
            case "pair":
                return ("first", "second", "tie") if self.ties else ("first", "second")

    def __str__(self) -> str:
        means: Mapping[RubricKind, str] = {
            "graded": f"graded, {self.low:g} to {self.high:g}",
            "binary": "pass or fail",
            "choice": "choice of " + ", ".join(self.choices),
            "pair": "the better of two" + (", or a tie" if self.ties else ""),
        }
        against = ", against a reference" if self.reference else ""
        return f"{means[self.kind]}{against}, passes at {self.pass_at:g}"

    def response_format(self) -> dict[str, JSON]:
        """The form of the reply as the OpenAI API takes it: reasoning first, then the verdict."""
        verdict: dict[str, JSON] = {"type": "string", "enum": list(self.labels)}
        if self.kind == "graded":
            steps = self.steps
            verdict = {"type": "integer", "enum": list(steps)} if steps else {"type": "number"}
        schema: dict[str, JSON] = {
            "type": "object",
            "properties": {"reasoning": {"type": "string"}, self.verdict_key: verdict},
            "required": ["reasoning", self.verdict_key],
            "additionalProperties": False,
        }
        name = f"rubric_{self.kind}"
        return {
            "type": "json_schema",
            "json_schema": {"name": name, "strict": True, "schema": schema},
        }

    def to_json(self) -> dict[str, JSON]:
        """The settings that the form of the reply does not state, for digests."""
        return {
            "kind": self.kind,
            "scale": [self.low, self.high],
            "choices": dict(self.choices),
            "reference": self.reference,
            "pass_at": self.pass_at,
        }


def read_rubric(
    reader: Reader, entries: Entries, variables: Collection[str], lines: dict[str, int]
) -> RubricSpec | None:
    """Read the key `rubric`; None, with the errors noted, if it is invalid.

    Args:
        reader: Where faults are noted.
        entries: The top-level entries of the file.
        variables: What the messages use.
        lines: Where the line of the key is noted.
    """
    key, node = entries["rubric"]
    lines["rubric"] = line_of(key)
    inner = reader.mapping(node, "rubric", _FIX)
    if inner is None:
        return None
    reader.unknown(inner, _KEYS, "rubric")
    for other in ("responseFormat", "jsonSchema"):
        if other in entries:
            message = f"{other} is given, but `rubric` decides the form of the reply"
            reader.fault(entries[other][0], message, "remove it")
    kind = _kind(reader, node, inner)
    if kind is None:
        return None
    for name, of in _OF_KIND.items():
        if name in inner and kind != of:
            reader.fault(inner[name][0], f"rubric: {name!r} belongs to the kind {of}, not {kind}")
    missing = [name for name in _JUDGED[kind] if name not in variables]
    if kind != "pair" and _OF_CONVERSATIONS.intersection(variables):
        missing = []
    if missing:
        message = f"no message uses {{{{{missing[0]}}}}}, so nothing would be judged"
        reader.fault(key, message, f"put {{{{{missing[0]}}}}} into a message")
    low, high = _scale(reader, inner)
    return RubricSpec(
        kind=kind,
        low=low,
        high=high,
        choices=_choices(reader, node, inner) if kind == "choice" else {},
        reference=_reference(reader, inner, variables),
        ties=_flag(reader, inner, "ties") or False,
        pass_at=_share(reader, inner, "pass_at", 0.5),
    )


def _kind(reader: Reader, node: yaml.Node, inner: Entries) -> RubricKind | None:
    if "kind" not in inner:
        reader.fault(node, "rubric has no `kind`", _FIX)
        return None
    stated = reader.text(inner["kind"][1], "the kind of a rubric", _FIX)
    matching: RubricKind | None = next((kind for kind in _KINDS if kind == stated), None)
    if matching is None and stated is not None:
        fix = did_you_mean(stated, _KINDS) or _FIX
        reader.fault(inner["kind"][1], f"rubric: the kind {stated!r} is unknown", fix)
    return matching


def _scale(reader: Reader, inner: Entries) -> tuple[float, float]:
    if "scale" not in inner:
        return 0, 1
    fix = "write `scale: {min: 1, max: 5}`"
    ends = reader.mapping(inner["scale"][1], "scale", fix)
    if ends is None:
        return 0, 1
    reader.unknown(ends, ("min", "max"), "scale")
    low = _number(reader, ends["min"][1], "scale.min") if "min" in ends else 0
    high = _number(reader, ends["max"][1], "scale.max") if "max" in ends else None
    if high is None or low is None:
        if "max" not in ends:
            reader.fault(inner["scale"][0], "scale has no `max`", fix)
        return 0, 1
    if low >= high:
        reader.fault(inner["scale"][0], f"scale: min {low} is not below max {high}", fix)
        return 0, 1
    return low, high


def _choices(reader: Reader, node: yaml.Node, inner: Entries) -> dict[str, float]:
    fix = "write `choices: {good: 1, bad: 0}`, the score of each label from 0 to 1"
    if "choices" not in inner:
        reader.fault(node, "a rubric of kind choice has no `choices`", fix)
        return {}
    labels = reader.mapping(inner["choices"][1], "choices", fix)
    if labels is None:
        return {}
    if len(labels) < _CHOICES_MIN:
        reader.fault(inner["choices"][0], "choices: there is nothing to choose between", fix)
    folded: dict[str, str] = {}
    for name, (key, _) in labels.items():
        twin = folded.setdefault(name.strip().casefold(), name)
        if twin != name or not name.strip():
            reader.fault(key, f"choices: {name!r} cannot be distinguished from {twin!r} in a reply")
    return {name: _share(reader, labels, name, 0.0) for name in labels}


def _reference(reader: Reader, inner: Entries, variables: Collection[str]) -> bool:
    used = any(name.partition(".")[0] in _REFERENCES for name in variables)
    stated = _flag(reader, inner, "reference")
    if stated is None or stated == used:
        return used
    problem = (
        "but no message uses {{reference}} or {{expected}}"
        if stated
        else "but a message uses {{reference}} or {{expected}}"
    )
    reader.fault(inner["reference"][0], f"rubric: reference is {str(stated).lower()}, {problem}")
    return used


def _flag(reader: Reader, inner: Entries, name: str) -> bool | None:
    if name not in inner:
        return None
    node = inner[name][1]
    value = reader.json(node, f"rubric.{name}")
    if isinstance(value, bool):
        return value
    reader.fault(node, f"rubric.{name} must be true or false")
    return None


def _share(reader: Reader, inner: Entries, name: str, otherwise: float) -> float:
    if name not in inner:
        return otherwise
    value = _number(reader, inner[name][1], name)
    if value is not None and not 0 <= value <= 1:
        reader.fault(inner[name][1], f"rubric: {name} is a score from 0 to 1, not {value}")
        return otherwise
    return otherwise if value is None else value


def _number(reader: Reader, node: yaml.Node, what: str) -> float | None:
    value = reader.json(node, what)
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return value
    if scalar_tag(node) not in {"int", "float"}:
        reader.fault(node, f"rubric: {what} must be a number")
    return None
