"""A project with labels in it, and judges that were told what to say."""

from __future__ import annotations

import json

import pytest

from regauge.judges.calibration import load_labels
from regauge.project import Project


@pytest.fixture
def project(tmp_path):
    (tmp_path / "fixtures" / "labels").mkdir(parents=True)
    return Project(root=tmp_path)


@pytest.fixture
def write(project):
    """Write the labels of a judge: rows, or a text that may hold anything."""

    def written(rows, name="tone"):
        text = rows if isinstance(rows, str) else "".join(f"{json.dumps(row)}\n" for row in rows)
        path = project.labels_dir / f"{name}.jsonl"
        path.write_text(text, encoding="utf-8")
        return path

    return written


@pytest.fixture
def load(project, write):
    def loaded(rows, name="tone"):
        write(rows, name)
        return load_labels(name, project)

    return loaded
