"""LLMBar with our reading of judges' replies: how far judges agree with people, and with themselves.

    python -m tests.conformance.llmbar --dataset FILE --completions FILE[.gz]

prints one JSON line per judge and method:

- `n`: pairs, each judged in both orders;
- `accuracy`: over both orders, the share of verdicts that name the answer people prefer;
- `both_correct`: the share of pairs that get such a verdict in both orders;
- `position_agreement`: the share of pairs with one and the same winner in both orders;
- `unparsed`: replies that state no verdict; they are neither correct nor in agreement;
- `kappa_vs_gold`: Cohen's kappa of the verdicts and the labels of people, with the answers as the
  dataset has them; `kappa_vs_gold_swapped` with their places exchanged;
- `differ`: verdicts that we read otherwise than the file's `winner` and `winner_swapped` say;
- `published`: the same numbers by those two; a pair without either winner counts as agreement there.

Either file may be packed with gzip. What cannot be used is told on stderr, and ends in exit code 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regauge.judges.model.response import (
    ResponseError,
    find_verdict,
    read_response,
    statements_of_labels,
)
from regauge.prompts import RubricSpec
from regauge.stats import accuracy, cohen_kappa, of_all, position_flips
from tests.conformance._rows import Complaints, early_close, refuse, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.stats._agreement import Side
    from tests.conformance._rows import Complain

    Winner = Literal["1", "2"]
    Pair = tuple[Winner | None, Winner | None]

NAMES = {"Output (a)": "first", "Output (b)": "second"}
RATING = RubricSpec(kind="graded", low=0, high=10)
SHOWN: Mapping[str, Winner] = {"first": "1", "second": "2"}
SWAPPED: Mapping[str, Winner] = {"first": "2", "second": "1"}


def stated_label(text: str, names: Mapping[str, str]) -> tuple[str, int] | None:
    """The verdict that a text states in words, with its place: the better one of `names`.

    Args:
        names: By name as the text calls it, in any case: the label it stands for.

    >>> names = {"A": "first", "B": "second"}
    >>> stated_label("B is better at first glance. Therefore, A is better.", names)
    ('first', 40)
    >>> stated_label("B is better. A is better.", names) is None
    True
    """
    try:
        found = statements_of_labels(text, names)
        if not found:
            return None
        one = find_verdict(text, found, lambda statement: statement.value)
    except ResponseError:
        return None
    return one.value, one.start


def winners(row: Mapping[str, Any]) -> Pair:
    """Who wins by the replies of a row: as the pair stands, and exchanged."""
    if "completion_score_1" in row:
        one, other = (_score(_text(row[f"completion_score_{n}"])) for n in (1, 2))
        if one is None or other is None:
            return None, None
        if one == other:
            # Scores do not say more; the benchmark then takes the answer that is shown second.
            return "2", "1"
        return ("1", "1") if one > other else ("2", "2")
    return (
        _winner(_text(row["completion"]), SHOWN),
        _winner(_text(row["completion_swapped"]), SWAPPED),
    )


def _winner(text: str, order: Mapping[str, Winner]) -> Winner | None:
    found = stated_label(text, NAMES)
    return order[found[0]] if found else None


def _score(text: str) -> float | None:
    try:
        return read_response(text, RATING).score
    except ResponseError:
        return None


def _text(completion: Any) -> str:
    """The text of a completion, which stands alone or before its finish reason."""
    text = completion[0] if isinstance(completion, list) and completion else completion
    return text if isinstance(text, str) else ""


def numbers(pairs: Sequence[Pair], labels: Sequence[Winner]) -> dict[str, Any]:
    """How far verdicts agree with labels and with themselves."""
    shown = [one or "none" for one, _ in pairs]
    swapped = [other or "none" for _, other in pairs]
    said = [*shown, *swapped]
    read = [(one, other) for one, other in pairs if one and other]
    flips = position_flips(
        [_side(one, "1") for one, _ in read], [_side(other, "2") for _, other in read]
    )
    right = sum(pair == (label, label) for pair, label in zip(pairs, labels, strict=True))
    return {
        "n": len(pairs),
        "accuracy": of_all(accuracy(said, [*labels, *labels]), len(said)),
        "both_correct": right / len(pairs),
        "position_agreement": (flips.pairs - flips.flips) / len(pairs),
        "unparsed": said.count("none"),
        "kappa_vs_gold": of_all(cohen_kappa(shown, labels), len(labels)),
        "kappa_vs_gold_swapped": of_all(cohen_kappa(swapped, labels), len(labels)),
    }


def _published(pairs: Sequence[Pair], labels: Sequence[Winner]) -> dict[str, Any]:
    """The numbers as the authors take them: two winners that are equal agree, given or not."""
    same = sum(one == other for one, other in pairs)
    return {**numbers(pairs, labels), "position_agreement": same / len(pairs)}


def _side(winner: Winner, shown_first: Winner) -> Side:
    return "first" if winner == shown_first else "second"


def run(dataset: Path, completions: Path, complain: Complain = refuse) -> Iterator[dict[str, Any]]:
    """The numbers of each subset, judge and method, in the order of their first rows."""
    labels: dict[tuple[str, str], Winner] = {}
    for pair in rows_of(dataset, complain):
        if str(pair.get("label")) not in SHOWN.values():
            complain(f"{dataset}: pair {pair.get('i')!r} has no label 1 or 2")
        else:
            labels[str(pair.get("subset")), str(pair.get("i"))] = _label(pair["label"])
    groups: dict[tuple[str, str, str], list[tuple[Winner, Pair, Pair]]] = {}
    for row in rows_of(completions, complain):
        subset, judge, method = (str(row.get(key)) for key in ("subset", "judge", "method"))
        label = labels.get((subset, str(row.get("i"))))
        if label is None:
            complain(f"{completions}: no pair {row.get('i')!r} of {subset} is labelled")
            continue
        try:
            ours = winners(row)
        except KeyError as error:
            complain(f"{completions}: a row of {judge}, {method} has no {error}")
            continue
        theirs = (_known(row.get("winner")), _known(row.get("winner_swapped")))
        groups.setdefault((subset, judge, method), []).append((label, ours, theirs))
    for (subset, judge, method), rows in groups.items():
        gold = [label for label, _, _ in rows]
        yield {
            "subset": subset,
            "judge": judge,
            "method": method,
            **numbers([ours for _, ours, _ in rows], gold),
            "differ": sum(
                one != other
                for _, ours, theirs in rows
                for one, other in zip(ours, theirs, strict=True)
            ),
            "published": _published([theirs for _, _, theirs in rows], gold),
        }


def _label(value: Any) -> Winner:
    return "1" if str(value) == "1" else "2"


def _known(value: Any) -> Winner | None:
    return _label(value) if str(value) in SHOWN.values() else None


def main() -> int:
    """Print the numbers; 1 when a row could not be used."""
    parser = argparse.ArgumentParser(description="LLMBar with the judges of regauge")
    parser.add_argument("--dataset", type=Path, required=True)
    parser.add_argument("--completions", type=Path, required=True)
    options = parser.parse_args()
    complaints = Complaints()
    with early_close():
        for line in run(options.dataset, options.completions, complaints):
            sys.stdout.write(json.dumps(line) + "\n")
    return 1 if complaints.said else 0


if __name__ == "__main__":
    sys.exit(main())
