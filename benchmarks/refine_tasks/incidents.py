# ruff: noqa: E501 - a table of requirements, one to a line
"""Incident logs made into JSON: any one line that says it will do, all cases are alike."""

from __future__ import annotations

from benchmarks.refine_tasks._simulated import Requirement, SimulatedTask

__all__ = ["TASK"]

_FORM, _CONTENT = "# Output rules", "# Content rules"


# fmt: off
_NEEDS = (
    Requirement("json", _FORM, "- Return only one JSON object, no prose around it.", (r"\bonly\b", r"JSON object"), "- Do not use JSON; write plain prose.", r"do not use json", 0.35, "output is not a single JSON object"),
    Requirement("severity", _FORM, "- Include a `severity` field with one of SEV1, SEV2, SEV3.", (r"`severity`", r"SEV1"), "- Never include a severity field.", r"never include a severity", 0.15, "missing key `severity` or value not in SEV1..SEV3"),
    Requirement("utc", _FORM, "- Write every timestamp in UTC ISO-8601 ending in Z.", (r"timestamp", r"UTC"), "- Keep timestamps in local time.", r"timestamps in local time", 0.25, "timestamp is not UTC ISO-8601"),
    Requirement("actions", _FORM, "- List at most 3 entries under `action_items`.", (r"at most 3", r"`action_items`"), "- List every action item you can think of.", r"every action item", 0.40, "more than 3 entries in `action_items`"),
    Requirement("hosts", _CONTENT, "- Never include raw hostnames or IP addresses.", (r"never", r"hostnames"), "- Always include raw hostnames for debugging.", r"always include raw hostnames", 0.30, "raw hostname or IP address in the output"),
    Requirement("impact", _CONTENT, "- State the customer impact in one sentence in `impact`.", (r"customer impact", r"`impact`"), "- Skip the customer impact.", r"skip the customer impact", 0.30, "missing or multi-sentence `impact`"),
    Requirement("cause", _CONTENT, '- If the root cause is not stated, write "unknown" in `root_cause`.', (r"root cause", r"unknown"), "- Always guess a root cause.", r"always guess a root cause", 0.10, 'root cause invented; expected "unknown"'),
    Requirement("owner", _CONTENT, "- Include the owning team in `owner`.", (r"owning team", r"`owner`"), "- Do not name teams.", r"do not name teams", 0.20, "missing key `owner`"),
    Requirement("minutes", _CONTENT, "- Report `duration_min` as an integer number of minutes.", (r"`duration_min`", r"integer"), "- Report the duration in words.", r"duration in words", 0.25, "`duration_min` is not an integer"),
    Requirement("english", _CONTENT, "- Answer in English even when the log is in another language.", (r"English", r"language"), "- Answer in the language of the log.", r"language of the log", 0.50, "output is not in English"),
)
# fmt: on

TASK = SimulatedTask(
    name="incidents",
    requirements=_NEEDS,
    sections=(_FORM, _CONTENT),
    opening=("# Role", "You are an SRE assistant that summarises incident logs."),
    closing=("# Input", "{{input}}"),
    golden=lambda number, _, token: (
        f'{{"severity":"SEV{1 + number % 3}","owner":"team-{token}","duration_min":{107 + number}}}'
    ),
    text_of=lambda case, _, token: f"[{case}] incident log about svc-{token}",
    unwatched={
        _FORM: (
            "- Sort keys as this list names them.",
            "- Leave empty lists in place.",
            "- Quote log lines word for word.",
            "- Keep links to dashboards.",
        ),
        _CONTENT: (
            "- Mention earlier incidents of the same service.",
            "- Name the alert that fired first.",
            "- Distinguish symptoms from causes.",
            "- Count retries as one event.",
            "- Treat a rollback as an action.",
            "- Note what went well.",
        ),
    },
)
