"""Images of manifests: which names pin a version."""

from __future__ import annotations

import json

import pytest

from regauge.judges import kubernetes_manifests


@pytest.mark.parametrize(
    ("image", "pinned"),
    [
        ("a:1", True),
        ("host:5000/a:1.2", True),
        ("a@sha256:0f", True),
        ("host:5000/a", False),
        ("a:latest", False),
        ("a:", False),
        ("", False),
        (None, False),
        (3, False),
        (["a:1"], False),
    ],
)
def test_an_image_is_pinned_by_a_tag_or_digest(image: object, pinned: bool):  # noqa: FBT001
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "a", "image": image}]},
    }
    verdict = kubernetes_manifests(limits=False, unprivileged=False).check_text(
        json.dumps(manifest)
    )
    assert (verdict.outcome == "pass") is pinned, verdict.reason
