"""Quality-gated publish: a worse generation is not committed, and it costs nothing twice."""

import json

import pytest

from ragstream_core.errors import UsageError
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.ingestion import scan
from ragstream_core.ingestion.quality_gate import (
    Figures,
    GoldQuestion,
    QualityRules,
    measure,
    read_gold,
)
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring import ingestion, quality_gate
from ragstream_core.wiring.workspace import open_workspace
from tests.workspaces import docs_of

DOCS = {
    "logs.md": "# Logs\n\nLogs are kept for thirty days on the archive server in Basel.\n",
    "backup.md": "# Backups\n\nThe nightly backup copies every volume to cold storage.\n",
    "access.md": "# Access\n\nA badge opens the laboratory; visitors sign the paper register.\n",
}
GOLD = [
    {"question": "How long are logs kept on the archive server?", "file": "logs.md"},
    {"question": "Who signs the paper register?", "passage": "visitors  sign the paper\nregister"},
]


@pytest.fixture
def space(tmp_path, monkeypatch):
    monkeypatch.setattr(scan, "RACY_NS", 0)
    folder = tmp_path / "doc_raw" / "demo"
    folder.mkdir(parents=True)
    for name, text in DOCS.items():
        (folder / name).write_text(text)
    return make(tmp_path)


def make(root, **settings):
    settings = {"gold_k": 1, **settings}
    explicit = {f"ingestion.{name}": value for name, value in settings.items()}
    return open_workspace(root, explicit={"embeddings.backend": "hashed", **explicit})


def gold(space, rows=GOLD):
    path = quality_gate.gold_path(space, "demo")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_without_gold_questions_nothing_is_asked(space):
    stats = ingest_project(space, "demo")
    assert (stats.committed, stats.refused, stats.quality) == (True, "", None)
    assert "quality" not in open_view(space.index_dir("demo")).pinned.provenance


def test_right_answers_are_read_and_change_no_figure(space):
    gold(space)
    plain = quality_gate.gate_of(space, "demo")
    rows = [{**GOLD[0], "answer": " 30 days "}, {**GOLD[1], "answers": ["visitors", "guests"]}]
    told = read_gold(gold(space, rows))
    assert [q.answers for q in told] == [("30 days",), ("visitors", "guests")]
    assert quality_gate.gate_of(space, "demo").fingerprint == plain.fingerprint
    with pytest.raises(UsageError, match="answer and answers hold texts"):
        read_gold(gold(space, [{**GOLD[0], "answer": ["a"]}]))


def test_the_figures_stand_in_the_generation(space):
    gold(space)
    stats = ingest_project(space, "demo")
    assert stats.committed and not stats.refused
    assert (stats.quality.figures.recall, stats.quality.figures.mrr) == (1.0, 1.0)
    assert stats.quality.before is None
    kept = Figures.of(open_view(space.index_dir("demo")).pinned.provenance)
    assert kept == stats.quality.figures
    assert ingestion.unchanged(space, "demo") is not None


def test_a_worse_generation_is_refused_and_the_old_one_stays(space):
    gold(space)
    ingest_project(space, "demo")
    before = open_view(space.index_dir("demo"))
    target = docs_of(space) / "logs.md"
    target.write_text("# Lunch\n\nThe canteen serves soup at noon.\n")
    stats = ingest_project(space, "demo")
    assert not stats.committed and stats.generation == 1
    assert "recall@1 0.500 is more than 0.050 below the last generation's 1.000" in stats.refused
    assert stats.changed["updated"] == ("logs.md",)
    (lost,) = stats.warnings
    assert lost.startswith("gold.jsonl line 1: 'How long are logs kept")
    assert lost.endswith("→ logs.md: not among the first 1, was rank 1")
    forget_views()
    assert open_view(space.index_dir("demo")).chunk_ids == before.chunk_ids
    assert quality_gate.refusal(space, "demo", 1) == stats.refused
    report = json.loads((space.index_dir("demo") / quality_gate.REPORT_NAME).read_text())
    assert report["figures"]["recall"] == 0.5 and report["before"]["recall"] == 1.0
    # nothing was marked: the next ingest sees the same change, embeds nothing, refuses again
    assert ingestion.unchanged(space, "demo") is None
    again = ingest_project(space, "demo")
    assert (again.refused, again.chunks["embedded"]) == (stats.refused, 0)
    # and a document that answers again is published
    target.write_text(DOCS["logs.md"] + "\nThey are compressed.\n")
    healed = ingest_project(space, "demo")
    assert healed.committed and healed.generation == 2
    assert quality_gate.refusal(space, "demo", 2) == ""
    assert ingestion.unchanged(space, "demo") is not None


def test_the_floor_holds_for_the_first_generation_too(space):
    gold(space, [{"question": "What is the colour of the moon?", "file": "moon.md"}])
    stats = ingest_project(make(space.data_dir, min_recall=0.5), "demo")
    assert (stats.committed, stats.generation, stats.documents) == (False, 0, 0)
    assert stats.refused == "recall@1 0.000 is below the floor 0.500"
    assert stats.warnings == (
        "gold.jsonl line 1: 'What is the colour of the moon?' → moon.md: not among the first 1",
    )
    passed = ingest_project(make(space.data_dir), "demo")
    assert passed.committed and passed.chunks["embedded"] == 0  # all were recorded before


def test_a_wider_tolerance_lets_it_through(space):
    gold(space)
    ingest_project(space, "demo")
    (docs_of(space) / "logs.md").unlink()
    assert ingest_project(space, "demo").refused
    stats = ingest_project(make(space.data_dir, recall_tolerance=1.0), "demo")
    assert stats.committed and stats.quality.before.recall == 1.0


def test_changed_questions_are_asked_of_both_generations(space):
    gold(space, GOLD[:1])
    ingest_project(space, "demo")
    gold(space, [*GOLD, {"question": "What is the colour of the moon?", "file": "moon.md"}])
    (docs_of(space) / "new.md").write_text("# New\n\nNothing about logs.\n")
    stats = ingest_project(space, "demo")
    assert stats.committed
    assert stats.quality.before.recall == stats.quality.figures.recall == 0.6667


def test_a_candidate_is_exactly_what_the_commit_publishes(space):
    from ragstream_core.index import commit

    gold(space)
    ingest_project(space, "demo")
    (docs_of(space) / "logs.md").write_text("# Logs\n\nLogs are kept for ninety days.\n")
    (docs_of(space) / "backup.md").unlink()
    seen = []
    original = commit.candidate_view

    def spy(db, index_dir, prepared):
        view = original(db, index_dir, prepared)
        seen.append((view, view.chunks(view.chunk_ids)))
        return view

    commit.candidate_view = spy
    try:
        ingest_project(make(space.data_dir, recall_tolerance=1.0), "demo")
    finally:
        commit.candidate_view = original
    ((view, chunks),) = seen
    forget_views()
    committed = open_view(space.index_dir("demo"))
    assert (view.chunk_ids, view.paths) == (committed.chunk_ids, committed.paths)
    assert (view.vectors == committed.vectors).all()
    assert view.lexical.packed() == committed.lexical.packed()
    assert (view.generation, view.digest) == (committed.generation, committed.digest)
    shown = [(c.id, c.source, c.snippet, c.span) for c in committed.chunks(view.chunk_ids)]
    assert [(c.id, c.source, c.snippet, c.span) for c in chunks] == shown


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", ":2: not JSON"),
        ("[]", ":2: not an object with a question"),
        ('{"question": " "}', ":2: not an object with a question"),
        ('{"question": "q"}', ":2: no file and no passage"),
        ('{"question": "q", "file": 3}', ":2: file and files hold texts"),
        ('{"question": "q", "files": "a.md", "reply": "b"}', ":2: unknown key 'reply'"),
    ],
)
def test_a_bad_line_is_named_before_anything_is_embedded(space, line, says):
    path = gold(space)
    path.write_text(f'{{"question": "q", "file": "a.md"}}\n{line}\n')
    with pytest.raises(UsageError, match="gold.jsonl") as caught:
        ingest_project(space, "demo")
    assert says in str(caught.value)
    assert not space.index_dir("demo").exists()


def test_measure_counts_files_and_passages(tmp_path):
    path = tmp_path / "gold.jsonl"
    path.write_text(
        '{"question": "a", "files": ["x.md", "y.md"], "passage": "two  words"}\n\n'
        '{"question": "b", "file": "z.md", "note": "none"}\n'
    )
    questions = read_gold(path)
    assert questions[1] == GoldQuestion(3, "b", ("z.md",))
    ranked = [("n.md", "no"), ("x.md", "two\nwords here"), ("y.md", "")]
    figures, ranks = measure(questions, lambda q: ranked, k=2, fingerprint="f")
    assert ranks == [[2, 0, 2], [0]]
    assert (figures.recall, figures.mrr) == (round((2 / 3 + 0) / 2, 4), 0.25)


def test_rules_say_which_one_is_broken():
    now, last = Figures(0.8, 0.5, 9, 10, "f"), Figures(0.8, 0.7, 9, 10, "f")
    assert QualityRules(tolerance=0.3).broken(now, last) == ""
    assert QualityRules(tolerance=0.1).broken(now, None) == ""
    assert "MRR@10 0.500" in QualityRules(tolerance=0.1).broken(now, last)
    assert "floor 0.900" in QualityRules(min_recall=0.9).broken(now, None)
