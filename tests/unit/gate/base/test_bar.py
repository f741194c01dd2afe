from __future__ import annotations

import json
from pathlib import Path

import pytest

from regauge.datasets import load_dataset
from regauge.gate._bar import moved_checks, moved_evaluators, moved_settings
from regauge.gate._code import _code, count_values
from regauge.project import Settings
from regauge.prompts import Prompt, parse_prompt

PROVIDER = {"base_url": "http://127.0.0.1:9/v1"}


def moved(base: dict[str, object], head: dict[str, object]) -> list[str]:
    return [str(bar) for bar in moved_settings(*map(Settings.model_validate, (base, head)))]


@pytest.mark.parametrize(
    ("base", "head", "bar"),
    [
        ({"on_new": "block"}, {"on_new": "warn"}, "on_new"),
        ({}, {"on_judge_change": "note"}, "on_judge_change"),
        ({}, {"min_effect": 0.99}, "min_effect"),
        ({"accepted_max": 3}, {"accepted_max": 4}, "accepted_max"),
        ({}, {"alpha_case": 1e-12}, "alpha_case"),
        ({}, {"new_case_passes": 1}, "new_case_passes"),
        ({}, {"ref": "origin/other"}, "ref"),
    ],
)
def test_a_looser_setting_of_the_gate_moves_the_bar(
    base: dict[str, object], head: dict[str, object], bar: str
):
    (found,) = moved({"gate": base}, {"gate": head})
    assert found.startswith(f"{bar} in [tool.regauge.gate]: ")
    assert moved({"gate": base}, {"gate": base}) == []


@pytest.mark.parametrize("name", ["on_new", "on_undecided", "on_drifted"])
def test_a_stricter_setting_moves_nothing(name: str):
    assert moved({"gate": {name: "warn"}}, {"gate": {name: "block"}}) == []
    assert moved({"gate": {"min_effect": 0.1}}, {"gate": {"min_effect": 0.05}}) == []
    assert moved({"calibration": {"floor": 0.4}}, {"calibration": {"floor": 0.6}}) == []


def test_a_lower_floor_of_calibration_moves_the_bar():
    assert moved({"calibration": {"floor": 0.4}}, {"calibration": {"floor": 0.1}}) == [
        "floor in [tool.regauge.calibration]: 0.4 -> 0.1"
    ]


def test_a_change_that_lets_the_gate_read_recordings_alone_moves_the_bar():
    assert moved({"record": "missing"}, {"record": "none"}) == [
        'record in [tool.regauge]: "missing" -> "none"'
    ]


def test_a_provider_that_is_pointed_elsewhere_moves_the_bar_and_a_new_one_does_not():
    other = {"base_url": "http://127.0.0.1:8/v1"}
    (bar,) = moved({"providers": {"local": PROVIDER}}, {"providers": {"local": other}})
    assert bar.startswith("base_url in [tool.regauge.providers.local]: ")
    assert moved({}, {"providers": {"local": PROVIDER}}) == []
    (gone,) = moved({"providers": {"local": PROVIDER}}, {})
    assert gone.endswith("-> not set")


def test_settings_that_decide_nothing_move_nothing():
    assert moved({}, {"concurrency": 4, "holdout": 0.5, "budget_usd": 1, "trials": 3}) == []


def test_settings_of_another_version_are_read_without_what_is_invalid():
    table = {"gate": {"on_new": "warn", "gone": 1, "alpha_case": "x"}, "unknown": 2, "trials": 0}
    assert Settings.validate_leniently(table) == Settings.model_validate(
        {"gate": {"on_new": "warn"}}
    )
    assert Settings.validate_leniently(None) == Settings()
    assert Settings.validate_leniently({"gate": "x", "providers": {"a": 3}}) == Settings()


def evaluated(*evaluators: str) -> Prompt:
    lines = "".join(f"  - {line}\n" for line in evaluators)
    text = "version: 1.0.0\nmessages:\n  - role: user\n    content: Hi\n"
    return parse_prompt(f"{text}evaluators:\n{lines}" if lines else text, path=Path("a.prompt.yml"))


ONE = "{name: one, string: {contains: a}}"
OTHER = "{name: other, string: {equals: b}}"


@pytest.mark.parametrize(
    ("before", "now", "moved_names"),
    [
        ((ONE, OTHER), (ONE, OTHER), []),
        ((ONE, OTHER), (OTHER, ONE), []),
        ((ONE,), (ONE, OTHER), []),
        ((ONE, OTHER), (OTHER,), ["one"]),
        ((ONE, OTHER), (), ["one", "other"]),
        ((ONE,), ("{name: one, string: {contains: b}}",), ["one"]),
        ((ONE,), ("{name: two, string: {contains: a}}",), ["one"]),
    ],
)
def test_an_evaluator_that_only_the_base_has_moves_the_bar(before, now, moved_names):
    found = [str(bar) for bar in moved_evaluators(evaluated(*now), evaluated(*before))]
    assert [text.partition(" of a")[0] for text in found] == [f"evaluator {n}" for n in moved_names]
    assert list(moved_evaluators(evaluated(*now), None)) == []
    if moved_names == ["one"] and now and "one" in now[0]:
        assert '"contains": "a"' in found[0]
        assert '"contains": "b"' in found[0]


@pytest.mark.parametrize(
    ("before", "now", "bar"),
    [
        ({}, {"checks": [{"contains": "a"}]}, ""),
        ({"checks": [{"contains": "a"}]}, {"checks": [{"contains": "a"}, {"contains": "b"}]}, ""),
        ({"checks": [{"contains": "a"}]}, {"checks": [{"contains": "b"}]}, '"a"'),
        ({"checks": [{"contains": "a"}]}, {}, '"a"'),
        (
            {"checks": [{"contains": "a"}, {"contains": "b"}]},
            {"checks": [{"contains": "a"}, {"contains": "b"}], "pass_at": 0.5},
            "pass_at 1 -> pass_at 0.5",
        ),
        (
            {"checks": [{"contains": "a"}, {"contains": "b"}], "pass_at": 0.5},
            {"checks": [{"contains": "a"}, {"contains": "b"}]},
            "",
        ),
        # Where a share suffices, an added check outweighs another one.
        (
            {"checks": [{"contains": "a"}], "pass_at": 0.5},
            {"checks": [{"contains": "a"}, {"contains": "b"}], "pass_at": 0.5},
            '"b"',
        ),
    ],
)
def test_fewer_checks_of_a_case_or_a_smaller_share_of_them_move_the_bar(
    tmp_path: Path, before: dict[str, object], now: dict[str, object], bar: str
):
    datasets = []
    for name, fields in (("before", before), ("now", now)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text(json.dumps({"id": "one", "inputs": {"a": "b"}, **fields}) + "\n")
        datasets.append(load_dataset(path, fixtures_dir=tmp_path))
    bars = [str(moved_bar) for moved_bar in moved_checks(datasets[1], datasets[0])]
    assert [text.partition(":")[0] for text in bars] == ["checks of one"] * bool(bar)
    assert all(bar in text for text in bars)
    assert list(moved_checks(datasets[1], None)) == []


def test_another_judge_model_moves_the_bar_unless_the_base_has_none():
    (bar,) = moved({"judge_model": "openai:a"}, {"judge_model": "openai:b"})
    assert bar == 'judge_model in [tool.regauge]: "openai:a" -> "openai:b"'
    assert moved({"judge_model": "openai:a"}, {"judge_model": "openai:a"}) == []
    assert moved({}, {"judge_model": "openai:b"}) == []


@pytest.mark.parametrize(
    ("base", "head", "same"),
    [
        ("x = 1\n", '"""Words."""\nx  =  1\n', True),
        ("x = 1\n", "x = 2\n", False),
        ("x = 1\n", "from regauge.judges import contains\nx = 1\n", True),
        ("x = 1\n", "from regauge.judges import contains as x\nx = 1\n", False),
        ("contains = 1\n", "contains = 1\nfrom regauge.judges import contains\n", False),
        ("import json as has\n", "import json as has\nfrom regauge import has\n", False),
        ("import has as j\n", "import has as j\nfrom regauge import has\n", True),
        ("import has\n", "import has\nfrom regauge import has\n", False),
        ("from a import b as has\n", "from a import b as has\nfrom regauge import has\n", False),
        ("x = 1\n", "import regauge\nx = 1\n", False),
        ("x = 1\n", "from regauged import contains\nx = 1\n", False),
        ("x = 1\n", "from regauge import *\nx = 1\n", False),
        (
            "from regauge import golden\n@golden('a')\ndef test_a(result): ...\n",
            "from regauge import golden\n@golden('b')\ndef test_b(result): result.check()\n",
            True,
        ),
        ('def f():\n    """A."""\n    return 1\n', 'def f():\n    """B."""\n    return 1\n', True),
        ('class A:\n    """A."""\n    x = 1\n', "class A:\n    x = 2\n", False),
        ("(", "(", True),
        ("(", "x = 1\n", False),
    ],
)
def test_code_is_compared_without_evals_words_and_names_of_regauge(
    base: str, head: str, *, same: bool
):
    assert (_code(base.encode()) == _code(head.encode())) is same


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("A = [1, 2]\nB = {'a': [3]}\n", 4),
        ("def answer(q:", 0),
        ("class {{name}}: pass", 0),
        ("", 0),
    ],
)
def test_values_in_code_are_counted_where_it_parses(source: str, count: int):
    assert count_values(source.encode()) == count
