"""Words that users search for lead to a page whose title or first paragraph has them."""

from __future__ import annotations

import re

import pytest

from tests.docs.test_links import DOCS, FENCE

TERMS = {
    "rate limit": "how-to/connect-a-provider",
    "retries": "how-to/connect-a-provider",
    "API key": "how-to/connect-a-provider",
    "Anthropic": "how-to/connect-a-provider",
    "Claude": "how-to/connect-a-provider",
    "Azure": "how-to/connect-a-provider",
    "Ollama": "how-to/connect-a-provider",
    "Python function": "how-to/test-an-application",
    "agent": "how-to/test-an-application",
    "HTTP endpoint": "how-to/test-an-application",
    "threshold": "how-to/set-pass-thresholds",
    "CI": "how-to/ci",
    "GitHub Actions": "how-to/ci",
    "GitLab": "how-to/ci",
    "fork": "how-to/record-and-replay",
    "replay": "how-to/record-and-replay",
    "flaky": "how-to/handle-flaky-cases",
    "nightly": "how-to/update-baselines-nightly",
    "cost": "how-to/budgets",
    "budget": "how-to/budgets",
    "JSON schema": "how-to/check-json-and-text",
    "xdist": "how-to/parallel",
    "production": "how-to/add-a-production-failure",
    "Slack": "how-to/send-results-elsewhere",
    "JUnit": "how-to/send-results-elsewhere",
    "hooks": "how-to/send-results-elsewhere",
    "uninstall": "how-to/install",
    "LLM judge": "how-to/use-an-llm-judge",
    "version a prompt": "how-to/write-a-prompt",
    "promptfoo": "how-to/coming-from-promptfoo",
    "deepeval": "how-to/deepeval",
    "HTML report": "how-to/html-report",
    "CSV": "how-to/write-golden-cases",
    "regressions": "how-to/gate-a-pull-request",
    "pass rates": "how-to/track-pass-rates",
    "history database": "how-to/track-pass-rates",
    "run history": "how-to/track-pass-rates",
    "advisory": "how-to/calibrate-a-judge",
    "does not block": "how-to/calibrate-a-judge",
    "batches": "how-to/record-by-batch",
    "other libraries": "reference/judge-names",
    "drills": "explanation/robustness",
}


@pytest.mark.parametrize("term", TERMS)
def test_a_term_leads_to_its_page(term: str):
    text = FENCE.sub("", (DOCS / f"{TERMS[term]}.md").read_text(encoding="utf-8"))
    title, paragraph = text.strip().split("\n\n")[:2]
    found = re.search(
        rf"\b{re.escape(term)}", f"{title} {paragraph}".replace("\n", " "), re.IGNORECASE
    )
    assert found, f"{TERMS[term]}: neither title nor first paragraph has {term!r}"


# Questions that a section answers, each with the title of that section.
SECTIONS = {
    "what to commit to git": "how-to/install",
    "what needs an API key": "how-to/connect-a-provider",
    "anthropic: claude": "how-to/connect-a-provider",
}


@pytest.mark.parametrize("title", SECTIONS)
def test_a_question_is_the_title_of_a_section(title: str):
    text = FENCE.sub("", (DOCS / f"{SECTIONS[title]}.md").read_text(encoding="utf-8"))
    assert title.lower() in [heading.lower() for heading in re.findall(r"(?m)^## (.+)$", text)]
