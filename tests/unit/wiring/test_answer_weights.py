"""Answers are judged by token vectors whatever makes those of the default model."""

import pytest

from ragstream_core.agents.context.answer_estimate import ANSWERED, weights_table
from ragstream_core.models.embedders import fingerprints
from ragstream_core.records.super_prompt import ANSWERS
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.workspace import open_workspace
from tests.workspaces import ask, write_docs

RUNTIMES = {
    fingerprints.ONNX_RUNTIME: {"embeddings.backend": "onnx"},
    fingerprints.ONNX_INT8_RUNTIME: {"embeddings.backend": "onnx", "embeddings.precision": "int8"},
    fingerprints.TORCH_RUNTIME: {"embeddings.backend": "sentence_transformers"},
}
QUESTION = "Which signal is a cosine?"


def test_the_weights_are_for_every_runtime_of_the_default_model():
    assert weights_table().embedders == set(map(fingerprints.default_fingerprint, RUNTIMES))


@pytest.mark.model
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_answers_are_judged_by_the_vectors_of_each(tmp_path, models_dir, runtime):
    write_docs(tmp_path)
    (tmp_path / "models").symlink_to(models_dir.resolve(), target_is_directory=True)
    space = open_workspace(tmp_path, explicit={**RUNTIMES[runtime], "embeddings.device": "cpu"})
    ingest_project(space, "demo")
    (row,) = (d for d in ask(space, QUESTION).extras.decisions if d.stage == ANSWERS)
    assert row.rule == ANSWERED, row.reason
    scores = dict(row.scores)
    assert scores["sentence"] != scores["sentence_words"]  # by words alone they are the same
