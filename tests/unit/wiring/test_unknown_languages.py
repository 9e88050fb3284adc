"""What is in a language that the default model was not made for is said: prompt and doctor."""

import pytest

from ragstream_app.cli.doctor import _languages
from ragstream_core.services.inspect_index import language_of_texts
from ragstream_core.wiring.search import _unknown_languages
from tests.workspaces import ingested_workspace

GERMAN = "Die Garantie der Pumpe endet nach neun Jahren, und die Frist ist nicht verlängerbar. "
ENGLISH = "The warranty of the pump ends after nine years, and it is not possible to extend it. "


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    docs = {"a.md": GERMAN * 3, "b.md": GERMAN.replace("Pumpe", "Presse") * 3, "c.md": ENGLISH * 3}
    return ingested_workspace(tmp_path_factory.mktemp("languages"), {}, docs)


def chosen(space, **changes):
    return space.config.settings.embeddings.model_copy(update={"backend": "onnx", **changes})


def chunks_of(*texts):
    from ragstream_core.records import Chunk

    return [Chunk(text, "a.md", text, (0, len(text)), {}) for text in texts]


def test_a_prompt_says_that_question_or_passages_are_of_another_language(space):
    settings = chosen(space)
    english, german = chunks_of(ENGLISH), chunks_of(GERMAN)
    assert _unknown_languages(settings, "When does it end?", english) == []
    (asked,) = _unknown_languages(settings, "Wann endet die Garantie?", english)
    assert asked.startswith("the question is in German, and the embedding model all-MiniLM-L6-v2")
    (found,) = _unknown_languages(settings, "When does it end?", german)
    assert found.startswith("most passages are in German")
    (both,) = _unknown_languages(settings, "Wann endet die Garantie?", german)
    assert both.startswith("the question and most passages are not in English (German)")


@pytest.mark.parametrize("changes", [{"backend": "hashed"}, {"model": "intfloat/e5-small"}])
def test_nothing_is_said_of_other_models(space, changes):
    assert _unknown_languages(chosen(space, **changes), "Wann endet die Frist?", []) == []


def test_doctor_names_the_projects_that_are_mostly_of_another_language(space):
    assert language_of_texts(space, "demo") == "German"
    assert language_of_texts(space, "absent") == ""
    settings = space.config.settings.model_copy(update={"embeddings": chosen(space)})
    (check,) = _languages(space.config.model_copy(update={"settings": settings}))
    assert (check.name, check.level) == ("languages", "warn")
    assert check.detail.startswith("most of demo is in German")
    assert list(_languages(space.config)) == []


def test_the_stage_says_it_once(space):
    from ragstream_core.agents.retrieval import RetrievalStage
    from ragstream_core.records import SuperPrompt

    stage = RetrievalStage(lambda *_: [], lambda ids: [], limits=lambda asked, found: ["heard"])
    prompt = stage(SuperPrompt())
    assert [row.message for row in prompt.extras.warnings] == ["heard"]
    prompt.extras.pass_no = 2
    assert [row.message for row in stage(prompt).extras.warnings] == ["heard"]
