"""The view Evaluation: nothing without a click, tables of what was measured, clear failures."""

from ragstream_app.page.panels import evaluation
from ragstream_app.page.panels.chat_state import VIEW_KEY
from tests.app.page_driver import click, open_page, run, said


def opened():
    page = open_page()
    page.session_state[VIEW_KEY] = evaluation.NAME
    return run(page)


def measured(page, kind):
    """Choose an evaluation, press its button and wait for it."""
    page.session_state[evaluation.KIND_KEY] = kind
    run(page)
    click(page, evaluation.KINDS[kind].press)
    job = page.session_state[evaluation.JOBS_KEY][kind, "manual"]
    assert job.wait(240) and not job.error
    return run(page)


def table(page):
    (found,) = page.dataframe
    return found.value


def test_each_evaluation_shows_its_table(gold):
    page = opened()
    assert not page.dataframe and evaluation.KINDS["Gold questions"].about in said(page)
    ranks = table(measured(page, "Gold questions"))
    assert ranks[["expected", "rank"]].to_numpy().tolist() == [["guide/locks.md", 1]]
    assert "recall@10 1.000" in said(page)
    prompts = table(measured(page, "Prompts"))
    assert prompts["facts"].tolist() != [0] and "expected shown 1" in said(page)
    points = table(measured(page, "Threshold sweep"))
    assert len(points) == 28 and set(points["found"]) == {1}
    varied = table(measured(page, "Settings sweep"))
    assert len(varied) == 12 and set(varied["retrieval.evidence"]) == {"tight", "full"}
    assert varied["tokens_saved"].notna().all() and "tokens_saved" in said(page)
    judged = table(measured(page, "Faithfulness"))
    assert judged["claims"].tolist() != [0] and "judge" in said(page)


def test_a_project_without_gold_questions_is_told_how_to_write_them(indexed):
    page = opened()
    assert "gold.jsonl" in said(page)
    assert not any(button.label == "Ask" for button in page.button)


def test_a_damaged_line_is_named(gold):
    gold.write_text("{}")
    page = opened()
    click(page, "Ask")
    assert page.session_state[evaluation.JOBS_KEY]["Gold questions", "manual"].wait(240)
    assert any("gold.jsonl:1" in error.value for error in run(page).error)
