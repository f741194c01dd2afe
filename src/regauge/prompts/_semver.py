"""Versions of prompts: semantic versioning without build metadata."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Literal

__all__ = ["Part", "Semver"]

Part = Literal["major", "minor", "patch"]

_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_IDENTIFIER = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_PATTERN = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
)


@total_ordering
@dataclass(frozen=True, slots=True)
class Semver:
    """One version, ordered by precedence: 1.0.0-rc.1 comes before 1.0.0.

    Build metadata (`+...`) is refused: two versions that differ in it alone have the same rank.

    >>> Semver.parse("1.2.3").bump("minor")
    Semver(major=1, minor=3, patch=0, prerelease=())
    >>> Semver.parse("1.10.0") > Semver.parse("1.9.0") > Semver.parse("1.9.0-rc.2")
    True
    """

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Semver:
        """Read a version such as `1.2.3` or `2.0.0-rc.1`.

        Raises:
            ValueError: The text is not three numbers joined by dots.
        """
        match = _PATTERN.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a version such as 1.2.3")
        major, minor, patch, prerelease = match.groups()
        return cls(
            int(major), int(minor), int(patch), tuple(prerelease.split(".")) if prerelease else ()
        )

    def bump(self, part: Part) -> Semver:
        """The next version; one that is still a prerelease becomes its release where that fits."""
        if self.prerelease:
            released = Semver(self.major, self.minor, self.patch)
            zeros = {"major": (self.minor, self.patch), "minor": (self.patch,), "patch": ()}
            if not any(zeros[part]):
                return released
        if part == "major":
            return Semver(self.major + 1, 0, 0)
        if part == "minor":
            return Semver(self.major, self.minor + 1, 0)
        return Semver(self.major, self.minor, self.patch + 1)

    def __str__(self) -> str:
        core = f"{self.major}.{self.minor}.{self.patch}"
        return f"{core}-{'.'.join(self.prerelease)}" if self.prerelease else core

    def __lt__(self, other: Semver) -> bool:
        return self._rank < other._rank

    @property
    def _rank(self) -> tuple[object, ...]:
        # Numbers rank below words, fewer identifiers below more, and a release above all of its
        # prereleases.
        identifiers = tuple(
            (0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.prerelease
        )
        return (self.major, self.minor, self.patch, not self.prerelease, identifiers)
