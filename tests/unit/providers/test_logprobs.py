"""Log-probabilities of an answer's tokens: asked for, read, kept."""

from __future__ import annotations

import json

import pytest

from regauge.providers import Completion, TokenLogprob


def entry(token: str, logprob: object, *top: tuple[str, object]) -> dict[str, object]:
    others = [{"token": text, "logprob": value, "bytes": None} for text, value in top]
    return {"token": token, "logprob": logprob, "bytes": None, "top_logprobs": others}


def test_tokens_are_asked_for_read_and_kept_where_the_endpoint_gives_them(kit):
    document = kit.chat("4!")
    document["choices"][0]["logprobs"] = {
        "content": [entry("4", -0.25, ("4", -0.25), ("5", -1.5)), entry("!", 0, ("!", 0))]
    }
    talk = kit.talk(
        [kit.Reply(document=document)],
        kit.ask(parameters={"logprobs": True, "top_logprobs": 2}),
    )
    (body,) = talk.endpoint.bodies
    assert (body["logprobs"], body["top_logprobs"]) == (True, 2)
    assert talk.completion.logprobs == (
        TokenLogprob(token="4", logprob=-0.25, top=(("4", -0.25), ("5", -1.5))),
        TokenLogprob(token="!", logprob=0.0, top=(("!", 0.0),)),
    )
    kept = json.dumps(talk.completion.to_json(), allow_nan=False)
    assert Completion.from_json(json.loads(kept)) == talk.completion


@pytest.mark.parametrize(
    "sent",
    [
        None,
        {},
        {"content": None},
        {"content": "4"},
        {"content": [{"token": "4"}]},
        {"content": [entry("4", "high")]},
        {"content": [{"token": 4, "logprob": -1}]},
        {"content": [entry("4", -0.1), entry("!", None)]},
    ],
)
def test_what_is_no_list_of_tokens_counts_as_none(kit, sent: object):
    document = kit.chat("4!")
    document["choices"][0]["logprobs"] = sent
    completion = kit.talk([kit.Reply(document=document)]).completion
    assert (completion.text, completion.logprobs) == ("4!", ())
    assert "logprobs" not in completion.to_json()


@pytest.mark.parametrize("kept", [[["4"]], [["4", "x", []]], [["4", 0, [["5"]]]], 7])
def test_kept_tokens_that_make_no_sense_are_refused(kit, kept: object):
    document = {**kit.talk([kit.Reply()]).completion.to_json(), "logprobs": kept}
    with pytest.raises(ValueError, match=r".+"):
        Completion.from_json(document)
