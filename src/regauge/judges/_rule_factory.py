"""`@rule`: makes a kind of rule out of one function.

The function takes the rule's parameters, complains about senseless ones, and returns the check. The
decorator adds what all rules share: name, digest, negation, registration.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Generic, ParamSpec

from regauge.digests import digest_of
from regauge.errors import UsageError
from regauge.judges._rule import Rule
from regauge.judges._rule_parameters import first_sentence, form_of, name_of, plain, rules_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from regauge.digests import JSON
    from regauge.judges._rule import Check

__all__ = ["RuleFactory", "rule"]

P = ParamSpec("P")


class RuleFactory(Generic[P]):
    """Makes rules of one kind; call it with the rule's parameters.

    Attributes:
        kind: The name of the rule.
        codes: The stable words its failures carry.
        group: The chapter of the reference it stands in.
        build: The function that takes the parameters and returns the check.
        version: Raised whenever the rule may judge an answer differently than before.
    """

    def __init__(
        self, build: Callable[P, Check], *, codes: Sequence[str], version: int, group: str
    ) -> None:
        self.kind = build.__name__.rstrip("_")
        self.codes = tuple(codes)
        self.group = group
        self.build = build
        self.version = version
        functools.update_wrapper(self, build)

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The parameters, with their defaults."""
        return inspect.signature(self.build)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Rule:
        """Make a rule.

        Raises:
            UsageError: A parameter makes no sense.
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise UsageError(f"{self.kind}: {error}\n  it takes {self.kind}{self.form}") from None
        examine = self.build(*args, **kwargs)
        name = name_of(self.kind, bound)
        bound.apply_defaults()
        params: dict[str, JSON] = {
            key: plain(value, of=self.kind) for key, value in bound.arguments.items()
        }
        try:
            digest = digest_of({"kind": self.kind, "version": self.version, "params": params})
        except ValueError as error:
            raise UsageError(f"{self.kind}: a parameter is no JSON value: {error}") from None
        parts = tuple(rules_in(tuple(bound.arguments.values())))
        return Rule(
            kind=self.kind,
            params=params,
            name=name,
            digest=digest,
            examine=examine,
            description=first_sentence(self.build.__doc__),
            parts=parts,
            own=self.build.__module__.startswith("regauge.") and all(part.own for part in parts),
        )

    @functools.cached_property
    def form(self) -> str:
        """The parameters as one writes them, without types."""
        return form_of(self.signature)


def rule(
    *, codes: Sequence[str] = (), version: int = 1
) -> Callable[[Callable[P, Check]], RuleFactory[P]]:
    """Turn a function from parameters to a check into a kind of rule.

    Args:
        codes: The stable words for its failures, besides those of a missing text or field.
        version: Raised whenever the rule may judge an answer differently than before.
    """

    def wrap(build: Callable[P, Check]) -> RuleFactory[P]:
        group = build.__module__.rpartition(".")[2].lstrip("_")
        return RuleFactory(build, codes=codes, version=version, group=group)

    return wrap
