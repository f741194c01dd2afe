"""Speed of every rule, in outputs of 1 kB per second.

    python -m benchmarks.judges [--answers N] [--json]
    python -m benchmarks.judges --hostile

Each may take 5 ms per output, except those in `SLOW`, listed with the reason. With
`--hostile`, every rule judges a megabyte of each of the texts in `HOSTILE`, which make patterns
backtrack; each may take less than a second of processor time.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import statistics
import sys
import time
from typing import TYPE_CHECKING

from regauge.errors import JudgeError
from tests.unit.judges.samples import CASE, RULES, completion

if TYPE_CHECKING:
    from regauge.judges import Rule

LIMIT_MS = 5.0
SLOW = {
    "terraform_parses": "a grammar interpreted in Python",
    "sql_parses": "a full SQL parser in Python",
    "meteor": "stems every word that has no equal",
}
BATCH_S = 0.3


MEGABYTE = 1_000_000
HOSTILE_LIMIT_S = 1.0
HOSTILE = {
    "line ends": "\n",
    "blank lines": " \n",
    "spaces": " ",
    "one word": "a",
    "brackets": "[",
    "objects": '{"a": [',
    "tags": "<a ",
    "marks": "*_`",
    "quotes": "\"'\\\\",
    "figures": "1,2.",
    "sentences": "A. b? ",
    "addresses": "a@http://",
    "bullets": "- \n",
    "fences": "```\n",
    "closed brackets": "[a](",
    "open brackets": "[[[[",
    "emphasis": "*_*_ ",
    "backticks": "`a``",
    "nested lists": "- - ",
    "nested quotes": "> > ",
    "entities": "&lt;&#",
    "table": "|a|",
    "base64": "QUJD",
    "Windows line ends": "\r\n",
    "headings": "# a\n",
    "accents": "e\u0301",
    "Chinese": "\u78c1\u3002",
}


def hostile() -> int:
    """Print each rule that is too slow on a hostile text, and return how many are."""
    slow = 0
    for name, unit in HOSTILE.items():
        text = (unit * (MEGABYTE // len(unit) + 1))[:MEGABYTE]
        longest = 0.0
        for rule in RULES:
            start = time.process_time()
            with contextlib.suppress(JudgeError):
                rule.check(completion(text), CASE)
            seconds = time.process_time() - start
            longest = max(longest, seconds)
            if seconds > HOSTILE_LIMIT_S:
                slow += 1
                print(f"{seconds:8.2f} s  {rule.name}  {name}", flush=True)
        print(f"{longest:8.2f} s  longest on {name}", flush=True)
    print(f"slower than {HOSTILE_LIMIT_S} s: {slow} of {len(HOSTILE) * len(RULES)}")
    return slow


def answers(count: int) -> list[str]:
    """Answers of 1 kB of the kinds that models give: JSON, Markdown, prose, YAML, HCL, SQL."""
    reason = "The disk of api-7 filled up at 14:05 because 3 of 5 log files were never rotated. "
    kinds = [
        json.dumps({"severity": "info", "reason": reason * 11}),
        "## Meaning\n" + reason * 4 + "\n\n## Impact\n" + reason * 4 + "\n* a\n* b\n",
        (reason * 13)[:1_000],
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n"
        + "".join(f"  - {{name: c{n}, image: 'r/i:{n}'}}\n" for n in range(28)),
        'resource "aws_s3_bucket" "b" {\n'
        + "".join(f'  k{n} = "v{n}"\n' for n in range(70))
        + "}\n",
        "SELECT " + ", ".join(f"t.column_{n}" for n in range(70)) + " FROM t WHERE t.a = 1",
    ]
    cycle = itertools.cycle(kinds)
    return [f"{next(cycle)}{number % 10}" for number in range(count)]


def per_answer_ms(rule: Rule, texts: list[str]) -> float:
    """Milliseconds per answer: the median of three passes, each cut off after a while."""
    given = [completion(text) for text in texts]
    rule.check(given[0], CASE)
    passes: list[float] = []
    for _ in range(3):
        start, done = time.perf_counter(), 0
        for one in given:
            rule.check(one, CASE)
            done += 1
            if done % 50 == 0 and time.perf_counter() - start > BATCH_S:
                break
        passes.append((time.perf_counter() - start) / done * 1_000)
    return statistics.median(passes)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--answers", type=int, default=10_000)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--hostile", action="store_true", help="a megabyte of hostile texts")
    options = parser.parse_args()
    if options.hostile:
        sys.exit(1 if hostile() else 0)
    texts = answers(options.answers)
    found = {rule.name: (rule.kind, per_answer_ms(rule, texts)) for rule in RULES}
    late = [name for name, (kind, took) in found.items() if took > LIMIT_MS and kind not in SLOW]
    if options.json:
        print(
            json.dumps(
                {name: {"ms": took, "per_s": 1_000 / took} for name, (_, took) in found.items()}
            )
        )
    else:
        for name, (kind, took) in sorted(found.items(), key=lambda one: -one[1][1]):
            note = f"  ({SLOW[kind]})" if kind in SLOW else ""
            print(f"{took:9.4f} ms {1_000 / took:12,.0f} /s  {name}{note}")
        print(f"slower than {LIMIT_MS} ms without a reason: {', '.join(late) or 'none'}")
    sys.exit(1 if late else 0)


if __name__ == "__main__":
    main()
