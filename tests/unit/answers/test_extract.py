"""What stands for an answer where no model is running."""

from ragstream_core.library import RAGstream

SETTINGS = {"embeddings.backend": "hashed", "rerank.backend": "none"}


def test_the_words_of_a_question_are_no_quotation_that_has_to_stand_in_a_passage(tmp_path):
    folder = tmp_path / "doc_raw" / "trip"
    folder.mkdir(parents=True)
    (folder / "trip.md").write_text("# Flight\n\nThe flight leaves at 06:15 from terminal 1.\n")
    rag = RAGstream(data_dir=tmp_path, settings=SETTINGS)
    rag.ingest("trip")
    answer = rag.ask("When does the flight leave, and which colour has the zebra?", "trip")
    assert "‘which colour has the zebra?’" in answer.text
    assert [(found.source, found.reason) for found in answer.citations] == [("trip.md", "")]
