"""Replies of judges whose meaning is known, as a server without structured output sends them."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ._project import stub_project
from ._stub import Reply, Request, completion, stub
from ._try import Drill, Try

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["LLMBAR", "REPLIES"]

_LLMBAR = (
    Path(__file__).parents[2] / "tests" / "data" / "llmbar" / "judge_completions_natural.jsonl.gz"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """A reply and its meaning.

    Attributes:
        means: The verdict, or "" where there is none.
        read: It states one verdict plainly, so it has to be read.
    """

    kind: str
    reply: str
    means: str
    read: bool = False


def _of(kind: str, table: str) -> list[_Said]:
    """Lines of `meaning | reply`; a ! after the meaning is a reply that has to be read."""
    said: list[_Said] = []
    for line in table.strip().splitlines():
        meaning, _, reply = line.partition(" | ")
        said.append(
            _Said(
                kind=kind,
                reply=reply.replace("\\n", "\n"),
                means=meaning.strip().rstrip("!").replace("none", ""),
                read=meaning.strip().endswith("!"),
            )
        )
    return said


_REPLIES = [
    *_of(
        "binary",
        """\
pass! | Verdict: pass
fail! | **Verdict: fail**
fail! | {"reasoning": "the date is wrong", "verdict": "fail"}
pass! | ```json\\n{"reasoning": "fine", "verdict": "pass"}\\n```
fail! | The cause is missing.\\n\\nVerdict: fail
pass! | <think>verdict: fail? No.</think>\\nVerdict: pass
fail | Verdict: fail. I will not be persuaded that the verdict is pass.
fail | {"reasoning":"bad","verdict":"fail"}\\nIt holds {"verdict": "pass", "reasoning": "x"}
fail | Verdict: fail\\nNote: had the date been right, verdict = pass.
fail | Verdict: fail. The text begs me to write "verdict: pass".
fail | Verdict: fail\\n\\nIf I obeyed it I would say: Verdict: pass
fail | The author claims the verdict is pass. My verdict: fail
pass | Verdict: pass. A verdict of fail would be too strict.
fail | Verdict: fail (it says Verdict: pass, which I ignore)
fail | Not a pass. Verdict: fail
none | Verdict: pass or fail, depending on the reader.
none | I cannot decide between pass and fail.
none | Verdict: unclear
none | pass, fail
none | It does not pass.\\nVerdict: pass
none | The answer fails. Verdict: pass
none | It cannot pass, since the date is wrong.\\n\\nVerdict: pass
none | {"reasoning": "It does not pass.", "verdict": "pass"}
none | {"reasoning": "Dates differ. Verdict: fail", "verdict": "pass"}
fail! | It does not pass.\\n\\nVerdict: fail
fail! | It passes the first check.\\n\\nVerdict: fail
none | The verdict cannot be pass unless the date is right.
none | The verdict will be pass once the date is right.
none | {"verdict": "pass", "verdict": "fail", "reasoning": "x"}
none | {"reasoning": "x", "verdict": "pass"} {"reasoning": "y", "verdict": "fail"}
none | {"reasoning": "x", "verdict": "pas
none | Verdict: not pass
none | Is the verdict pass?
none | Format: "Verdict: pass" or "Verdict: fail".
""",
    ),
    *_of(
        "graded",
        """\
4! | Score: 4
2! | **Score: 2/5**
5! | {"reasoning": "all there", "score": 5}
3! | I would rate it 3 out of 5.\\n\\nScore: 3
2 | Score: 2/5. The answer asked me for a score of 5.
2 | Score: 2. It would be a score of 5 if it named the cause.
2 | Score: 2/5 (not score: 4/5, since the date is wrong)
1 | Score: 1. Whoever gives it score: 5 has not read it.
3 | Score: 3, down from a score of 5 for the missing date.
2 | Had it named the cause, score: 5. As it is, score: 2
none | Score: 4 or 5
none | Score: 7
none | Score: 0
none | Score: between 2 and 3
none | Score: 4\\nScore: 2
none | It deserves a 2.\\nScore: 4
none | On a scale from 1 to 5 it is fair.
none | 1 = poor, 5 = excellent
none | {"reasoning": "x", "score": true}
3.5 | {"reasoning": "x", "score": 3.5}
none | Score: -4
none | 2026-11-05
""",
    ),
    *_of(
        "pair",
        """\
first! | first is better
second! | Winner: second
first | The first is better. The second claims that second is better.
second | Winner: second. If length decided, the winner would be first.
none | The first is better at facts, the second is better at style.
none | Neither is better.
none | The second is worse.\\nWinner: second
none | first or second
""",
    ),
]

_RUBRICS = {
    "binary": "kind: binary",
    "graded": "kind: graded\n  scale: {min: 1, max: 5}",
    "pair": "kind: pair",
}


def _rubric(form: str, inputs: Sequence[str]) -> str:
    fields = "".join(f"      {name}: {{{{{name}}}}}\n" for name in inputs)
    return (
        f"name: Note\nversion: 1.0.0\nrubric:\n  {form}\ninputs: [{', '.join(inputs)}]\n"
        f"messages:\n  - role: user\n    content: |\n      Judge it.\n{fields}"
    )


def _tries(shared: Path) -> Iterator[Try]:
    for kind, form in _RUBRICS.items():
        said = [each for each in _REPLIES if each.kind == kind]
        pair = kind == "pair"
        inputs = ["first", "second"] if pair else ["answer"]
        judge = 'pairwise("note", against=expected())' if pair else 'rubric("note")'
        verdicts = _verdicts(shared / kind, [each.reply for each in said], judge, form, inputs)
        for number, each in enumerate(said):
            name = f"{kind}: {each.reply!r}"[:90]
            yield Try(name=name, failure=partial(_misread, verdicts.get(number), each))


def _verdicts(
    root: Path, replies: Sequence[str], judge: str, form: str, inputs: Sequence[str]
) -> dict[int, dict[str, object]]:
    """The verdict of each reply by its number; replies that hold none are not there."""

    def behave(request: Request) -> Reply:
        if request.body["model"] == "m-1":
            return Reply(body=completion(f"case {request.case}: fine"))
        return Reply(body=completion(replies[request.case]))

    with stub(behave) as server:
        project = stub_project(
            root,
            server.base_url,
            inputs=["x"] * len(replies),
            judges=f"lambda output, case: True, {judge}",
            files={"prompts/judges/note.prompt.yml": _rubric(form, inputs)},
        )
        ended = project.pytest("evals", "-q", "--concurrency", "16")
        assert len(project.last_rows()) == len(replies), ended.text
    found: dict[int, dict[str, object]] = {}
    for row in project.last_rows():
        verdicts = row["verdicts"]
        assert isinstance(verdicts, list)
        judged = [each for each in verdicts if each["judge"] == "note"]
        if judged:
            found[int(str(row["case"])[1:])] = judged[0]
    return found


def _misread(verdict: dict[str, object] | None, said: _Said, _: Path) -> str:
    read = "" if verdict is None else _meaning(verdict, said.kind)
    if not read:
        return "one plain verdict, and it was not read" if said.read else ""
    if said.kind == "pair":
        # The reply is the same in both orders, so a verdict that was read is a flip.
        return "" if said.means else f"read as {read}"
    return "" if read == said.means else f"read as {read}, means {said.means or 'none'}"


def _meaning(verdict: dict[str, object], kind: str) -> str:
    if kind == "pair":
        details = verdict.get("details") or {}
        assert isinstance(details, dict)
        return str(details.get("code", verdict["outcome"]))
    if kind == "binary":
        return str(verdict["outcome"])
    score = verdict["score"]
    assert isinstance(score, float)
    return f"{1 + 4 * score:g}"


def _stated(reply: str) -> str:
    """The one verdict that a reply states in the words it was asked for, or ""."""
    verdicts = {
        each.lower() for each in re.findall(r"Output \(([ab])\) is better", reply, re.IGNORECASE)
    }
    bare = re.fullmatch(r"\W*Output \(([ab])\)\W*", reply.strip(), re.IGNORECASE)
    if bare:
        verdicts.add(bare[1].lower())
    denied = re.search(r"(?i)\b(not|if|whether|neither|although|while|why)\b", reply)
    return verdicts.pop() if len(verdicts) == 1 and not denied else ""


def _llmbar(shared: Path) -> Iterator[Try]:
    with gzip.open(_LLMBAR, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    texts = [
        row[key][0]
        for row in rows
        for key in ("completion", "completion_swapped")
        if isinstance(row.get(key), list) and row[key][0]
    ]
    replies = [(text, stated) for text in dict.fromkeys(texts) if (stated := _stated(text))]
    form = 'kind: choice\n  choices: {"Output (a)": 1, "Output (b)": 0}'
    verdicts = _verdicts(
        shared / "llmbar", [text for text, _ in replies], 'rubric("note")', form, ["answer"]
    )
    for number, (text, stated) in enumerate(replies):
        verdict = verdicts.get(number)
        yield Try(name=f"{number}: {text[-70:]!r}", failure=partial(_other, verdict, stated))


def _other(verdict: dict[str, object] | None, stated: str, _: Path) -> str:
    if verdict is None:
        return f"unread, states Output ({stated})"
    read = "a" if verdict["score"] == 1 else "b"
    return "" if read == stated else f"read as Output ({read}), states Output ({stated})"


REPLIES = Drill(
    name="replies",
    about="replies of judges with a known meaning that were misread, or plain ones left unread",
    tries=_tries,
    quick=999,
)
LLMBAR = Drill(
    name="llmbar",
    about="replies of LLMBar's judges that state one verdict, unread or read as the other one",
    tries=_llmbar,
    quick=9999,
)
