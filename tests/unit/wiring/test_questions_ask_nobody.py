"""Questions to a prompt whose vectors came from an endpoint are answered without asking it."""

import pytest

from ragstream_core.index.view import open_view
from ragstream_core.services.diff_prompts import diff
from ragstream_core.services.replay import replay_bundle, write_bundle
from ragstream_core.services.trace import trace
from ragstream_core.services.what_if import compared_with, leave_one_out
from ragstream_core.services.why_not import why_not
from tests.unit.wiring import test_query_vectors as vectors

server, space, made = vectors.server, vectors.space, vectors.made


@pytest.fixture
def recorded(space, server):
    """A prompt that selected something, its key, and how often the endpoint was asked."""
    prompt, record = made(space, settings={"gate.theta": -1.0})
    return prompt, record.prompt_key, len(server.seen)


def test_every_question_is_answered_from_the_record(space, server, recorded, tmp_path):
    prompt, key, asked = recorded
    rows = leave_one_out(space, key).files
    assert [row.effect.error for row in rows] == [""] * len(rows)
    found = why_not(space, open_view(space.index_dir("demo")).chunk_ids[0], key)
    assert found.note == "" and len(found.verdicts) == 1
    for identifier in prompt.views_by_stage["retrieval"][:1]:
        assert trace(space, identifier, key).now == "current"
    assert diff(space, key, key).causes == []
    write_bundle(space, key, tmp_path / "p.bundle")
    assert replay_bundle(space, tmp_path / "p.bundle")[1].verdict == "identical"
    assert len(server.seen) == asked


def test_without_a_file_the_same_vectors_make_both_prompts(space, server):
    prompt, _ = made(space, off=("catalog.md",))
    asked = len(server.seen)
    found = compared_with(space, prompt, ("catalog.md",))
    assert found.effect.error == "" and found.without == ["demo/catalog.md"]
    assert len(server.seen) == asked
