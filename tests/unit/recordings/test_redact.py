"""Secrets do not reach a file, and what is no secret is not touched."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from regauge.providers import TokenLogprob
from regauge.recordings import REDACTED, Redactor, map_texts


class _Document(BaseModel):
    said: Any


class _Inner(BaseModel):
    count: int = 1
    kind: Literal["a", "b"] = "a"
    text: str | None = None


class _Outer(BaseModel):
    one: _Inner
    many: list[_Inner]
    named: dict[str, _Inner | int]
    anything: Any = None
    plain: tuple[int, ...] = (1, 2)


ENVIRON = {
    "ACME_LLM": "short-key",
    "OPENAI_API_KEY": "long-and-odd-key-0123456789",
    "DEPLOY_TOKEN": "production-like-word",
    "HOME": "/home/somebody-with-1-long-name",
}


@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + "a1" * 24,
        "sk-proj-" + "A_-9" * 12,
        "sk-ant-api03-" + "x" * 40,
        "ghp_" + "a" * 36,
        "github_pat_" + "a" * 50,
        "AKIA" + "ABCD1234" * 2,
        "AIza" + "x" * 35,
        "xoxb-123456789012-abc",
        "hf_" + "a" * 34,
        "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\ncut off",
        ENVIRON["ACME_LLM"],
        ENVIRON["OPENAI_API_KEY"],
        "ticket OPS-1234",
    ],
)
def test_a_secret_is_redacted_wherever_it_stands(secret):
    redactor = Redactor([r"ticket OPS-\d+"], ENVIRON, names=["ACME_LLM"])
    assert redactor.redact(secret) == REDACTED
    assert redactor.redact(f'{{"key": "{secret}"') in (
        f'{{"key": "{REDACTED}"',
        f'{{"key": "{REDACTED}',
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sk-short",
        "the risk-averse task-oriented desk-bound-operator-on-call",
        ENVIRON["DEPLOY_TOKEN"],
        ENVIRON["HOME"],
        "AKIAlowercase0123456789",
        "a" * 64,
        "-----BEGIN CERTIFICATE-----",
    ],
)
def test_what_is_no_secret_stays(text):
    assert Redactor((), ENVIRON).redact(text) == text


def test_every_string_of_a_recording_is_looked_at(made):
    from dataclasses import replace

    from regauge.providers import ToolCall

    key = ENVIRON["OPENAI_API_KEY"]
    call = ToolCall(id="1", name="f", arguments=f'{{"k": "{key}"}}')
    completion = replace(made().completion, text=None, refusal=key, tool_calls=(call,))
    secret = made(completion=completion, request={"parameters": {"stop": ["a", key], "n": 1}})
    clean = Redactor((), ENVIRON).redact_recording(secret)
    assert clean.completion.refusal == REDACTED
    assert clean.completion.tool_calls[0].arguments == '{"k": "[redacted by regauge]"}'
    assert clean.request == {"parameters": {"stop": ["a", REDACTED], "n": 1}}
    assert Redactor((), {}).redact_recording(secret) is secret


secrets = st.text("ab01-", min_size=6, max_size=12)


@given(st.lists(secrets, max_size=3), st.text("ab01-[redact] ", max_size=60))
def test_no_secret_of_the_environment_survives_and_twice_is_once(values, text):
    environ = {f"V{n}": value for n, value in enumerate(values)}
    redactor = Redactor((), environ, names=environ)
    clean = redactor.redact(text)
    assert all(value not in part for value in values for part in clean.split(REDACTED))
    assert redactor.redact(clean) == clean


@given(st.text(max_size=60))
def test_a_pattern_that_matches_nothing_adds_nothing(text):
    assert Redactor(["x*"]).redact(text.replace("x", "y")) == text.replace("x", "y")


def test_tokens_do_not_spell_what_was_redacted(made):
    def told(text):
        tokens = tuple(
            TokenLogprob(token=text[n : n + 3], logprob=-0.1) for n in range(0, len(text), 3)
        )
        recording = made()
        return replace(
            recording, completion=replace(recording.completion, text=text, logprobs=tokens)
        )

    key = "sk-" + "a1B2c3D4" * 6
    clean = Redactor().redact_recording(told(f"the key is {key}")).completion
    assert clean.text == f"the key is {REDACTED}"
    assert clean.logprobs == ()
    kept = told("nothing to hide")
    assert Redactor().redact_recording(kept) == kept


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["plain", "OPS-1234"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        | st.builds(_Document, said=inner)
    ),
)


def _json(value: Any) -> str:
    return json.dumps(value, default=lambda document: {"said": document.said})


@given(VALUES)
def test_every_text_of_a_document_is_changed_and_the_rest_is_not_copied(value: Any):
    changed = map_texts(value, lambda text: text.replace("OPS-1234", REDACTED))
    assert _json(changed) == _json(value).replace("OPS-1234", REDACTED)
    assert map_texts(value, str) is value


def test_documents_are_redacted_in_every_field_that_may_hold_text():
    secret = _Inner(text="OPS-1234")
    outer = _Outer(
        one=secret, many=[_Inner(), secret], named={"x": secret, "y": 1}, anything=secret
    )
    changed = map_texts(outer, lambda text: text.replace("OPS-1234", REDACTED))
    assert "OPS-1234" not in changed.model_dump_json()
    assert changed.model_dump_json().count(REDACTED) == 4
    assert map_texts(outer, str) is outer
