"""Vectors of a question that came from an endpoint: inputs of its prompt, read in a replay."""

import shutil
import struct

import numpy as np
import pytest

from ragstream_core.models.embedders import registry
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.records.identity import sha256_hex
from ragstream_core.services.backup import backup
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.services.restore import restore
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import open_workspace
from tests.unit.models.embedders import test_openai_compatible as endpoints
from tests.workspaces import write_docs

QUESTION = "Who may write to the catalog? And how are long questions scored?"


@pytest.fixture
def server(server):
    server.answers = [endpoints.vectors]
    return server


def open_at(root, server):
    registry.same_embeddings.cache_clear()
    explicit = {"embeddings.backend": "openai", "embeddings.base_url": server.url,
                "embeddings.model": "far-away"}  # fmt: skip
    return open_workspace(root, explicit=explicit)


@pytest.fixture
def space(tmp_path, server):
    root = tmp_path / "data"
    write_docs(root)
    space = open_at(root, server)
    ingest_project(space, "demo")
    return space


def made(space, **more):
    prompt = run_prompt(space, pin_inputs(space, PromptRequest(QUESTION, ("demo",), **more)))
    return prompt, save_prompt(space, prompt)


def drifted(handler):
    """Answer what the model behind the name says today."""
    rows = endpoints.rows_of(handler)
    handler.whole({"data": [{**row, "embedding": row["embedding"][::-1]} for row in rows]})


def test_a_replay_asks_nobody_and_is_identical(space, server):
    prompt, record = made(space)
    pieces = prompt.extras.query_pieces
    assert set(record.inputs["query_vectors"]) == {sha256_hex(p.text) for p in pieces}
    asked = len(server.seen)
    again = open_at(space.data_dir, server)
    assert replay_prompt(again, record.prompt_key).verdict == "identical"
    assert len(server.seen) == asked


def test_kept_bytes_are_the_vectors_that_were_used(space):
    _, record = made(space)
    for text, digest in record.inputs["query_vectors"].items():
        row = np.frombuffer(space.store.blob(digest), "<f4")
        assert row.shape == (endpoints.DIMENSION,) and abs(np.linalg.norm(row) - 1) < 1e-6
        assert sha256_hex(struct.pack(f"<{len(row)}f", *row)) == digest != text


def test_another_answer_is_another_prompt_and_both_replay(space, server):
    first, before = made(space)
    server.answers = [drifted]
    second, after = made(space)
    server.answers = [endpoints.vectors]
    assert before.inputs["query_vectors"] != after.inputs["query_vectors"]
    assert first.extras.scores != second.extras.scores
    assert before.input_key != after.input_key
    for record in (before, after):
        assert replay_prompt(space, record.prompt_key).verdict == "identical"


def test_a_lost_vector_is_named_and_nobody_is_asked(space, server):
    _, record = made(space)
    shutil.rmtree(space.store.root / "blobs")
    asked = len(server.seen)
    verdict = replay_prompt(space, record.prompt_key)
    assert verdict.verdict == "input unavailable" and "far-away is not kept" in verdict.reason
    assert len(server.seen) == asked


def test_a_lost_dimension_is_named_and_nobody_is_asked(space, server):
    _, record = made(space)
    shutil.rmtree(space.data_dir / "models" / "endpoints")
    asked = len(server.seen)
    verdict = replay_prompt(open_at(space.data_dir, server), record.prompt_key)
    assert verdict.verdict == "input unavailable" and "dimension" in verdict.reason
    assert len(server.seen) == asked


def test_a_locked_prompt_needs_no_vector(space, server):
    asked = len(server.seen)
    _, record = made(space, files=("settings.yaml",), lock=True)
    assert record.inputs["query_vectors"] == {}
    assert replay_prompt(space, record.prompt_key).verdict == "identical"
    assert len(server.seen) == asked


def test_a_backup_takes_them_along(space, server, tmp_path):
    _, record = made(space)
    backup(space, tmp_path / "copy")
    other = open_at(tmp_path / "other", server)
    restore(other, tmp_path / "copy")
    shutil.copytree(space.data_dir / "models", other.data_dir / "models")
    assert replay_prompt(other, record.prompt_key).verdict == "identical"
