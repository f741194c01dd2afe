"""Versions are ordered and bumped as semantic versioning says."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from regauge.prompts import Semver

numbers = st.integers(0, 999)
identifiers = st.from_regex(r"\A(0|[1-9][0-9]{0,3}|[a-z][a-z0-9-]{0,3})\Z")
versions = st.builds(
    Semver, numbers, numbers, numbers, st.lists(identifiers, max_size=3).map(tuple)
)
parts = st.sampled_from(["major", "minor", "patch"])


@given(versions)
def test_a_version_is_read_as_it_is_written(version):
    assert Semver.parse(str(version)) == version


@given(versions, parts)
def test_a_bump_goes_up(version, part):
    assert version.bump(part) > version
    assert not version.bump(part).prerelease


@given(st.lists(versions, min_size=2, max_size=5))
def test_the_order_is_total(some):
    ordered = sorted(some)
    assert all(a <= b for a, b in pairwise(ordered))


def test_the_order_of_the_specification():
    text = "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 "
    some = [Semver.parse(word) for word in (text + "1.0.0-rc.1 1.0.0 1.0.1 1.10.0").split()]
    assert sorted(some, reverse=True)[::-1] == some


@pytest.mark.parametrize(
    ("version", "part", "after"),
    [
        ("1.2.3-rc.1", "patch", "1.2.3"),
        ("1.2.3-rc.1", "minor", "1.3.0"),
        ("1.2.0-rc.1", "minor", "1.2.0"),
        ("1.2.0-rc.1", "major", "2.0.0"),
        ("2.0.0-rc.1", "major", "2.0.0"),
    ],
)
def test_a_prerelease_becomes_its_release(version, part, after):
    assert str(Semver.parse(version).bump(part)) == after


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1.2",
        "v1.2.3",
        "1.2.3+b",
        "01.2.3",
        "1.2.3-",
        "1.2.3-01",
        " 1.2.3",
        "1.2.3\n",
        "\u0661.2.3",
    ],
)
def test_what_is_no_version_is_refused(text):
    with pytest.raises(ValueError, match="is not a version such as"):
        Semver.parse(text)
