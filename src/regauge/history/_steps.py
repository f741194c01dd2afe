"""The steps that make the schema what it is. A step never changes once it was released."""

from __future__ import annotations

from typing import Final

__all__ = ["STEPS", "Step"]

Step = tuple[str, ...]

# In the words that SQLite and PostgreSQL share. `regauge_schema` holds the steps taken.
STEPS: Final[tuple[Step, ...]] = (
    (
        """
        CREATE TABLE regauge_schema (
            step INTEGER PRIMARY KEY,
            regauge_version TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE regauge_runs (
            id TEXT PRIMARY KEY,
            started_at TEXT NOT NULL,
            finished_at TEXT NOT NULL,
            document TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE regauge_suites (
            run TEXT NOT NULL REFERENCES regauge_runs (id) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            "commit" TEXT,
            dirty BOOLEAN NOT NULL,
            prompt TEXT NOT NULL,
            version TEXT,
            prompt_digest TEXT NOT NULL,
            dataset TEXT NOT NULL,
            model TEXT NOT NULL,
            arm TEXT,
            cases INTEGER NOT NULL,
            measured INTEGER NOT NULL,
            passed INTEGER NOT NULL,
            trials INTEGER NOT NULL,
            answers INTEGER NOT NULL,
            cost_usd DOUBLE PRECISION,
            latency_p50_s DOUBLE PRECISION,
            judges_digest TEXT NOT NULL,
            cases_digest TEXT NOT NULL,
            PRIMARY KEY (run, number)
        )
        """,
        "CREATE INDEX regauge_suites_of_prompt ON regauge_suites (prompt, run)",
        """
        CREATE TABLE regauge_trials (
            run TEXT NOT NULL REFERENCES regauge_runs (id) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            prompt TEXT NOT NULL,
            "case" TEXT NOT NULL,
            arm TEXT,
            trial INTEGER NOT NULL,
            outcome TEXT NOT NULL,
            "row" TEXT NOT NULL,
            PRIMARY KEY (run, number)
        )
        """,
        'CREATE INDEX regauge_trials_of_case ON regauge_trials (prompt, "case", run)',
    ),
)
