"""Asset `evaluation/faithfulness`: a project a partition, figures over generations, the check."""

import pytest

from ragstream_assets.evaluation import CHECK, FAITHFULNESS, faithfulness_metadata, verdict
from ragstream_core.answers.answer import REFUSAL
from ragstream_core.evaluation.faithfulness import Answered, Report, judged, kept
from ragstream_core.evaluation.judges import QuoteJudge
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.services.eval_faithfulness import figures_dir
from ragstream_core.services.ingest import ingest_project
from tests.assets.executing import execute, shown
from tests.workspaces import confirm, docs_of, write_gold

QUESTION = "What does a killed ingest leave behind?"
GOLD = {"question": QUESTION, "file": "crash.md", "answer": "the last committed generation"}


@pytest.fixture
def gold(ingested):
    write_gold(ingested.data_dir, GOLD)
    return ingested


def materialise(space, home, **config):
    ops = {"judge_answers": {"judge": "quote", **config}}
    return execute(space, home, ops=ops, project="demo", asset_selection=[FAITHFULNESS.key])


def test_figures_a_row_a_question_and_a_point_a_generation(gold, home):
    first = shown(materialise(gold, home))
    assert first["faithfulness"] == 1.0 and first["claims"] == first["supported"] > 0
    assert first["gold_contained"] == 1.0 and first["generation"] == 1
    (row,) = first["questions"].records
    assert (row.data["line"], row.data["score"]) == (1, 1.0)
    (docs_of(gold) / "more.md").write_text("# More\n\nA killed ingest is resumed later.\n")
    ingest_project(gold, "demo")
    second = shown(materialise(gold, home))
    assert second["generation"] == 2
    rows = kept(figures_dir(gold, "demo"))
    assert [(r.generation, r.score) for r in rows] == [(1, 1.0), (2, 1.0)]
    assert len({r.series for r in rows}) == 1 and len({r.fingerprint for r in rows}) == 2
    for path in figures_dir(gold, "demo").iterdir():
        assert QUESTION not in path.read_text() and "committed" not in path.read_text()


def test_the_check_warns_below_the_setting(gold, home, root, open_root, tmp_path):
    script = tmp_path / "script.yaml"
    script.write_text("- say: It leaves nothing at all behind, and eats the disk.\n")
    good = materialise(gold, home).get_asset_check_evaluations()
    assert [(c.check_name, c.passed) for c in good] == [(CHECK, True)]
    (root.parent / "ragstream.yaml").write_text(
        f"provider: {{backend: scripted, script: {script}}}\n"
        "evaluation: {min_faithfulness: 0.5}\n"
    )
    confirm(root.parent / "ragstream.yaml")
    space = open_root(root)
    result = materialise(space, home, ask=True)
    (check,) = result.get_asset_check_evaluations()
    assert result.success and not check.passed and check.severity.value == "WARN"
    assert shown(result)["uncited"] == shown(result)["claims"] == 1


def test_a_project_without_gold_questions_fails_with_one_sentence(ingested, home):
    failed = materialise(ingested, home)
    (event,) = [e for e in failed.all_events if e.is_step_failure]
    assert "no gold questions" in str(event.step_failure_data.user_failure_data.description)


def test_the_least_faithful_comes_first_and_what_claims_nothing_last():
    answers = [
        Answered(text, text, {}, line=line)
        for line, text in enumerate((REFUSAL, "It is red.", "It is blue."), 1)
    ]
    judge = QuoteJudge(HashedEmbedder().embed_documents)
    found = faithfulness_metadata(Report("demo", "quote", [judged(a, judge) for a in answers]))
    rows = [(row.data["line"], row.data["score"]) for row in found["questions"].value.records]
    assert rows == [(2, 0.0), (3, 0.0), (1, None)]


@pytest.mark.parametrize(("text", "passed"), [("It is red.", (True, False)), ("#", (True, True))])
def test_a_score_that_is_just_enough_passes(text, passed):
    found = judged(Answered("", text, {}), QuoteJudge(HashedEmbedder().embed_documents))
    report = Report("demo", "quote", [found])
    assert tuple(verdict(report, least).passed for least in (0.0, 0.01)) == passed
