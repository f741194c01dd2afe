"""IFEval with our judges: every instruction type as a rule, strict and loose.

    python -m tests.conformance.ifeval --prompts FILE --responses FILE

prints one JSON line per answer: `{"key", "strict": [...], "loose": [...]}`. Either file may be
packed with gzip. What cannot be judged is told on stderr, and ends in exit code 1.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regauge import judges
from regauge.errors import RegaugeError
from regauge.judges import Rule, all_of, ifeval, match_count, matches, not_
from tests.conformance._rows import Complaints, early_close, refuse, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.conformance._rows import Complain

OPTIONS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


def limits(relation: str, count: int) -> dict[str, Any]:
    """The limits of a count, as the instructions put them."""
    if relation == "at least":
        return {"at_least": count}
    if relation == "less than":
        return {"at_most": count - 1}
    raise ValueError(f"no relation {relation!r}")


def pattern(word: str) -> str:
    """A keyword as the reference takes it, which is as a regular expression."""
    try:
        re.compile(word)
    except re.error:
        return re.escape(word)
    return word


def english(case: Rule) -> Rule:
    """An answer in one case, in English; a text without any letters to tell passes as English."""
    return all_of(case, ifeval.detected_language("en"))


RULES: dict[str, Callable[..., Rule]] = {
    "keywords:existence": lambda keywords: all_of(
        *(matches(pattern(word), ignore_case=True) for word in keywords)
    ),
    "keywords:frequency": lambda keyword, frequency, relation: match_count(
        pattern(keyword), ignore_case=True, **limits(relation, frequency)
    ),
    "keywords:forbidden_words": lambda forbidden_words: all_of(
        *(not_(matches(rf"\b{pattern(word)}\b", ignore_case=True)) for word in forbidden_words)
    ),
    "keywords:letter_frequency": lambda letter, let_frequency, let_relation: ifeval.letter_count(
        letter, **limits(let_relation, let_frequency)
    ),
    "language:response_language": ifeval.detected_language,
    "length_constraints:number_sentences": lambda num_sentences, relation: (
        ifeval.punkt_sentence_count(**limits(relation, num_sentences))
    ),
    "length_constraints:number_paragraphs": lambda num_paragraphs: judges.paragraph_count(
        exactly=num_paragraphs, separator="***"
    ),
    "length_constraints:number_words": lambda num_words, relation: judges.word_count(
        by="letters", **limits(relation, num_words)
    ),
    "length_constraints:nth_paragraph_first_word": (
        lambda first_word, num_paragraphs, nth_paragraph: all_of(
            judges.paragraph_count(exactly=num_paragraphs, separator="\n\n"),
            ifeval.paragraph_starts_with(first_word, nth=nth_paragraph, separator="\n\n"),
        )
    ),
    "detectable_content:number_placeholders": lambda num_placeholders: ifeval.bracket_count(
        at_least=num_placeholders
    ),
    "detectable_content:postscript": lambda postscript_marker: ifeval.has_postscript(
        marker=postscript_marker
    ),
    "detectable_format:number_bullet_lists": lambda num_bullets: ifeval.line_bullet_count(
        exactly=num_bullets
    ),
    "detectable_format:constrained_response": lambda: judges.one_of(OPTIONS, anywhere=True),
    "detectable_format:number_highlighted_sections": (
        lambda num_highlights: ifeval.asterisk_part_count(at_least=num_highlights)
    ),
    "detectable_format:multiple_sections": (
        lambda section_spliter, num_sections: ifeval.numbered_part_count(
            section_spliter, at_least=num_sections
        )
    ),
    "detectable_format:json_format": lambda: judges.json_parses(fenced=True),
    "detectable_format:title": ifeval.has_title,
    "combination:two_responses": lambda: ifeval.response_count(2),
    "combination:repeat_prompt": lambda prompt_to_repeat: judges.starts_with(
        prompt_to_repeat.strip(), ignore_case=True, strip=True
    ),
    "startend:end_checker": lambda end_phrase: judges.ends_with(
        end_phrase.strip(), ignore_case=True, strip=True, strip_quotes=True
    ),
    "startend:quotation": judges.is_quoted,
    "change_case:capital_word_frequency": (
        lambda capital_frequency, capital_relation: ifeval.capital_word_count(
            **limits(capital_relation, capital_frequency)
        )
    ),
    "change_case:english_capital": lambda: english(judges.is_upper_case()),
    "change_case:english_lowercase": lambda: english(judges.is_lower_case()),
    "punctuation:no_comma": judges.no_comma,
}
"""Every instruction type of IFEval as one of our rules."""


def rule_of(instruction: str, kwargs: Mapping[str, Any]) -> Rule:
    """The rule of one instruction with its parameters."""
    return RULES[instruction](**{key: value for key, value in kwargs.items() if value is not None})


def loose_variants(text: str) -> Iterator[str]:
    """The answer as it is, and without its first line, its last line and its asterisks."""
    lines = text.split("\n")
    cuts = (lines, lines[1:], lines[:-1], lines[1:-1])
    wholes = [text, *("\n".join(cut).strip() for cut in cuts[1:])]
    for whole in wholes:
        yield whole
        yield whole.replace("*", "")


def follows(rule: Rule, text: str) -> bool:
    """Whether a text that is not blank follows an instruction."""
    return bool(text.strip()) and rule.check_text(text).outcome == "pass"


def verdicts(
    prompt: Mapping[str, Any], response: object, complain: Complain = refuse
) -> dict[str, Any]:
    """The strict and loose verdicts of one answer, one per instruction.

    Args:
        prompt: The prompt with its instructions and their parameters.
        response: The answer; what is not a text follows nothing.
        complain: Told of an instruction that is not a rule of ours; no answer follows it.
    """
    rules = list(rules_of(prompt, complain))
    text = response if isinstance(response, str) else ""
    variants = list(dict.fromkeys(loose_variants(text)))
    strict = [rule is not None and follows(rule, text) for rule in rules]
    loose = [
        held or (rule is not None and any(follows(rule, variant) for variant in variants))
        for rule, held in zip(rules, strict, strict=True)
    ]
    return {"key": prompt["key"], "strict": strict, "loose": loose}


def rules_of(prompt: Mapping[str, Any], complain: Complain) -> Iterator[Rule | None]:
    """The rules of a prompt's instructions; None in the place of one that makes no sense."""
    given = prompt.get("kwargs") or ()
    for place, instruction in enumerate(prompt.get("instruction_id_list") or ()):
        if instruction not in RULES:
            complain(f"no instruction {instruction!r} is known: no answer follows it")
            yield None
            continue
        try:
            yield rule_of(instruction, given[place] if place < len(given) else {})
        except (TypeError, ValueError, AttributeError, RegaugeError) as error:
            complain(f"prompt {prompt['key']!r}: {instruction}: {error}")
            yield None


def run(
    prompts: Path, responses: Path, complain: Complain = refuse, remark: Complain = refuse
) -> Iterator[dict[str, Any]]:
    """The verdicts of every answer, in the order of the answers.

    Args:
        prompts: The file of prompts.
        responses: The file of answers.
        complain: Told of a line that has no verdicts.
        remark: Told of an instruction that no answer follows, since it is not a rule of ours.
    """
    by_key: dict[str, dict[str, Any]] = {}
    by_text: dict[str, dict[str, Any]] = {}
    for prompt in rows_of(prompts, complain):
        if "key" in prompt:
            by_key[json.dumps(prompt["key"])] = prompt
            by_text[json.dumps(prompt.get("prompt"))] = prompt
        else:
            complain(f"{prompts}: a prompt without a key")
    for answer in rows_of(responses, complain):
        found = by_key.get(json.dumps(answer.get("key")))
        if found is None and isinstance(answer.get("prompt"), str):
            found = by_text.get(json.dumps(answer["prompt"]))
        if found is None:
            complain(f"no prompt has the key {answer.get('key')!r}")
        else:
            yield verdicts(found, answer.get("response"), remark)


def main() -> int:
    """Print the verdicts; 1 when a line has none."""
    parser = argparse.ArgumentParser(description="IFEval with the judges of regauge")
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--responses", type=Path, required=True)
    options = parser.parse_args()
    complaints = Complaints()
    with early_close():
        for line in run(options.prompts, options.responses, complaints, Complaints()):
            sys.stdout.write(json.dumps(line) + "\n")
    return 1 if complaints.said else 0


if __name__ == "__main__":
    sys.exit(main())
