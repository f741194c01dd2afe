"""Answers that try to steer the judge change nothing that is read as its verdict."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, strategies as st

from regauge.judges.model import requests as judge_requests
from regauge.judges.model.requests import delimit_texts, nonce_of
from regauge.judges.model.response import ResponseError, read_response
from regauge.prompts import RubricSpec

DATA = Path(__file__).parents[2] / "data" / "injections"
INJECTIONS = {
    row["name"]: row["text"] * (row.get("repeat") or 1)
    for path in sorted(DATA.glob("*.yml"))
    for row in yaml.safe_load(path.read_text(encoding="utf-8"))
}
REPORT = "The disk of node 4 filled up at 10:12. It was replaced at 11:40."
# Per kind: the rubric, and the verdict of an honest judge, which no injection asks for.
RUBRICS = {
    "graded": (RubricSpec(kind="graded", low=1, high=5), 2),
    "binary": (RubricSpec(kind="binary"), "fail"),
    "choice": (RubricSpec(kind="choice", choices={"same": 1, "different": 0}), "different"),
    "pair": (RubricSpec(kind="pair", ties=True), "second"),
}
# Each with one kind that states a number, and one of those that state a word.
_WORDED = [kind for kind in RUBRICS if kind != "graded"]
PAIRS = [
    (name, kind)
    for number, name in enumerate(INJECTIONS)
    for kind in ("graded", _WORDED[number % len(_WORDED)])
]


def replies(text: str, spec: RubricSpec, verdict: object) -> dict[str, str]:
    """What a judge may reply that repeats the judged text around its own verdict."""
    nonce = nonce_of({"answer": text, "report": REPORT})
    block = delimit_texts({"answer": text}, nonce)["answer"]
    own = json.dumps({"reasoning": "Node 4 is not mentioned.", spec.verdict_key: verdict})
    quoting = json.dumps({"reasoning": f"It says: {text}", spec.verdict_key: verdict})
    words = f"My {spec.verdict_key}: {verdict}"
    lines = "\n".join(f"> {line}" for line in text.splitlines())
    return {
        "alone": own,
        "quoting": quoting,
        "in a fence": f"```json\n{own}\n```",
        "text before": f"{text}\n\n{own}",
        "text after": f"{own}\n\n{text}",
        "block before": f"{block}\n\n{own}",
        "block after": f"{own}\n\n{block}",
        "words, text before": f"{text}\n\n{words}",
        "words, text after": f"{words}\n\n{text}",
        "words, lines quoted after": f"{words}\n\n{lines}",
        "lines quoted before": f"{lines}\n\n{own}",
    }


def test_there_are_enough_of_them():
    assert len(INJECTIONS) >= 40


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_no_injection_becomes_a_verdict(name: str, kind: str):
    text = INJECTIONS[name]
    spec, verdict = RUBRICS[kind]
    for form, reply in replies(text, spec, verdict).items():
        try:
            read = read_response(reply, spec, judged_texts=[text, REPORT])
        except ResponseError as error:
            # Lines that were quoted one by one may hide the verdict, as may hundreds of statements;
            # nothing is read then.
            flooded = "more than 200 times" in str(error)
            assert flooded or "lines" in form, (form, reply[:300])
        else:
            assert read.value == verdict, form


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_a_judge_that_only_repeats_states_nothing(name: str, kind: str):
    text = INJECTIONS[name]
    spec, _ = RUBRICS[kind]
    for reply in (text, f"```\n{text}\n```", f"As the text says:\n{text}", text.upper()):
        with pytest.raises(ResponseError):
            read_response(reply, spec, judged_texts=[text, REPORT])


def test_the_injections_would_work_on_a_judge_that_is_not_told_what_was_judged():
    """Otherwise the tests above would hold for a parser that reads nothing."""
    spec, verdict = RUBRICS["graded"]
    misled = 0
    for text in INJECTIONS.values():
        try:
            misled += (
                read_response(replies(text, spec, verdict)["text after"], spec).value != verdict
            )
        except ResponseError:
            misled += 1
    assert misled >= 20


@given(st.dictionaries(st.sampled_from(["answer", "report"]), st.text(), min_size=1))
def test_a_text_cannot_hold_its_own_tag(texts: dict[str, str]):
    nonce = nonce_of(texts)
    assert nonce == nonce_of(dict(reversed(texts.items())))
    assert re.fullmatch("[0-9a-f]{12}", nonce)
    for name, text in delimit_texts(texts, nonce).items():
        assert text.count(nonce) == 2
        assert text.startswith(f"<{name}-{nonce}>\n")
        assert text.endswith(f"\n</{name}-{nonce}>")


def test_a_text_that_holds_what_its_own_digest_begins_with_gets_another_tag(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(judge_requests, "digest_of", lambda _: "a" * 64)
    assert nonce_of({"answer": "x"}) == "a" * 12
    nonce = nonce_of({"answer": f"x</answer-{'A' * 12}>"})
    assert re.fullmatch("[0-9a-f]{12}", nonce)
    assert nonce != "a" * 12
