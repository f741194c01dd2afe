"""Prompts of many layouts and languages, for what is done with statements."""

from __future__ import annotations

from os.path import commonprefix

from benchmarks.refine_tasks._task import load_task

# Every kind of number, list, heading, example and reference, a few of each.
ZOO = """\
You sort tickets. Be quick about it,
and never guess! A ticket has one kind, and at most 3 labels.

# 1. Rules
- Answer in JSON. Use one key.
  The key is `kind`.
    - Nested: keep it short.
* Mind {{input}} here.
1. Read the claim.
2. Replace names by [PRIVATE]; do it twice.
3. Answer as in step 2, unless rule 1.2 says otherwise.

## 1.1 Form
a) urgent
b) later, or never
c) as in b)
(i) one
(ii) two
(iii) three
① eins
② zwei

## 1.2 Tone
Keys: red, green, blue
**Bold**

Always write at most 80 words. You must not use slang, and you should quote dates as YYYY-MM-DD.

| label | meaning |
|---|---|
| red | urgent |
| blue | later |

<tone>
Be kind.
</tone>

Example: {"level": "warn"}
Input: my order is late
Output: delivery

Q: why?

A: because

late again -> delivery

```json
{"a": 1}
```
[^1]: A footnote. It goes on.
Step 1: open it
Step 2: close it, see step 1
The end"""

# Forms that are seldom in prompts.
RARE = """\
A. Miller signs every letter.
Rules:

１．Read it all.
２．Write it down. Be brief.
Sort so:

C. urgent
D. other

Step x: is no step
12: is no entry
- Keep names. Never change them.
  Not even these.

  - not this
- {{input}} is data
{"open": [1,
 "never closed"
{"closed": 1} no more
- last; or first"""

# So much is shown of what stands beside a difference.
_BESIDE = 8
_TASKS = ("antraege", "gijiroku", "mails", "manifests", "travel", "invoices")
TEXTS = {"zoo": ZOO, "rare": RARE, **{name: load_task(name).healthy_prompt() for name in _TASKS}}


def difference(before: str, after: str) -> str:
    """What stands where the texts begin to differ, and what stands there instead, with its ends."""
    if before == after:
        return "no difference"
    start = len(commonprefix([before, after]))  # noqa: RUF071 - characters it is
    rest = before[start:], after[start:]
    same = len(commonprefix([part[::-1] for part in rest]))  # noqa: RUF071 - characters it is
    old, new = (part[: len(part) - same] for part in rest)
    end = rest[0][len(old) : len(old) + _BESIDE]
    return f"{before[max(0, start - _BESIDE) : start]!r} {old!r} -> {new!r} {end!r}"
