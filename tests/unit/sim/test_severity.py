"""How the choice of a label depends on what the prompt says of the labels."""

from __future__ import annotations

import re

import pytest

from tests.unit.sim.bench import golden, inner_json, parsed, share
from tests.unit.sim.documents import ALERTS


def given(alert):
    keys = ("name", "expression", "duration", "summary", "description")
    return dict(zip(keys, alert[:5], strict=True))


def accuracy(bench, cases, **rest):
    return share(
        inner_json(bench.ask(inputs, **rest)).get("severity") == expected
        for inputs, expected in cases
    )


def balanced(bench, cases, **rest):
    labels = ("critical", "warning", "info")
    return sum(accuracy(bench, [c for c in cases if c[1] == label], **rest) for label in labels) / 3


@pytest.fixture(scope="module")
def real():
    return [(c["inputs"], c["expected"]["severity"]) for c in golden("alert-severity")]


@pytest.fixture(scope="module")
def unseen():
    return [(given(alert), alert[5]) for alert in ALERTS]


def without_definitions(text):
    return text[: text.index("Severities:")] + text[text.index("Answer with") :]


def poor_definitions(text):
    poor = "Severities:\n- critical: very bad\n- warning: bad, the default for everything else\n- info: not bad\n\n"
    return text[: text.index("Severities:")] + poor + text[text.index("Answer with") :]


def with_examples(text):
    examples = (
        "Examples:\n- Kafka broker disappeared from discovery -> critical\n- Queue configuration failed to reload -> critical\n"
        "- Volume has less than 3% space left -> critical\n- Certificate of the mail host expires in less than 24 hours -> critical\n"
        "- Half of the instances in a cluster are down -> critical\n- CPU throttling of a container is elevated -> info\n"
        "- Namespace quota is fully used -> info\n- Node is evicting pods, active condition pressure -> info\n"
        "- Pod is not ready -> warning\n- Job failed to complete -> warning\n"
    )
    return text.replace("Answer with", examples + "\nAnswer with", 1)


def test_the_prompt_is_well_above_the_majority_class_on_real_alerts(severity, real):
    assert accuracy(severity, real) >= 0.75
    assert balanced(severity, real) >= 0.75


def test_alerts_of_other_systems_are_judged_by_the_same_definitions(severity, unseen):
    assert accuracy(severity, unseen) >= 0.8
    assert balanced(severity, unseen) >= 0.8


def test_without_definitions_it_guesses(severity, real):
    assert accuracy(severity, real, edit=without_definitions) <= 0.4


def test_better_definitions_raise_accuracy(severity, real, unseen):
    for cases in (real, unseen):
        poor = balanced(severity, cases, edit=poor_definitions)
        assert balanced(severity, cases) >= poor + 0.2


def test_examples_raise_accuracy_on_alerts_that_are_not_among_them(severity, real, unseen):
    for cases in (real, unseen):
        poor = balanced(severity, cases, edit=poor_definitions)
        taught = balanced(severity, cases, edit=lambda text: with_examples(poor_definitions(text)))
        assert taught >= poor + 0.1


def test_format_holds_with_the_instruction_and_breaks_without_it(severity, real):
    def holds(edit):
        return share(parsed(severity.ask(inputs, edit=edit)) is not None for inputs, _ in real)

    assert holds(str) >= 0.97
    assert holds(lambda text: re.sub(r"Answer with one JSON[^\n]*\n", "", text)) <= 0.4


def test_the_limit_on_the_reason_holds_with_the_instruction_and_breaks_without_it(severity, real):
    def short(edit):
        return share(
            0 < len(inner_json(severity.ask(inputs, edit=edit)).get("reason", "").split()) <= 30
            for inputs, _ in real
        )

    assert short(str) >= 0.95
    assert short(lambda text: text.replace(" of at most 30 words", "")) <= 0.4


def test_a_harmless_rewording_changes_few_answers(severity, real):
    def reworded(text):
        text = text.replace(
            "You are the on-call engineer of a Kubernetes platform. You decide",
            "As the on-call engineer for a Kubernetes platform, decide",
        )
        return text.replace("Example of an answer:", "An answer looks like this:")

    same = share(severity.ask(inputs) == severity.ask(inputs, edit=reworded) for inputs, _ in real)
    assert same >= 0.95


def test_temperature_raises_the_share_of_failures(severity, real):
    def holds(temperature):
        texts = (
            severity.ask(inputs, temperature=temperature, trial=t)
            for inputs, _ in real
            for t in range(3)
        )
        return share(parsed(text) is not None for text in texts)

    assert holds(2) < holds(0)


def test_a_label_alone_is_answered_when_only_a_label_is_asked_for():
    from tests.unit.sim.bench import say

    system = (
        "Classify the message. Labels:\n- bug: something broken, an error or a crash\n- idea: a wish for a new feature\n"
        "Answer with the label only."
    )
    assert say(system, "The app crashes with an error when I open settings.") == "bug"
    assert say(system, "I wish there was a new dark mode feature.") == "idea"
