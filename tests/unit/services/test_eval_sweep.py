"""The threshold sweep: the gate of real prompts, figures that compare, no word of a question."""

import json
import socket

import pytest

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import UsageError
from ragstream_core.evaluation.sweep import read_points, write_point
from ragstream_core.ingestion import scan
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services import eval_gold
from ragstream_core.services.history_update import embed
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.journal import append_records
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.quality_gate import gold_path
from ragstream_core.wiring.stages import run_prompt
from tests.workspaces import docs_of, hashed_workspace

DOCS = {
    "logs.md": "# Logs\n\nLogs are kept for thirty days on the archive server in Basel.\n",
    "backup.md": "# Backups\n\nThe nightly backup copies every volume to cold storage.\n",
    "access.md": "# Access\n\nA badge opens the laboratory; visitors sign the paper register.\n",
    "server.md": "# Server\n\nThe archive server in Basel is switched off in January.\n",
    "storage.md": "# Storage\n\nCold storage is a vault; nobody reads the register there.\n",
}
GOLD = [
    {"question": "How long are logs kept on the archive server?", "file": "logs.md"},
    {"question": "Who signs the paper register?", "passage": "visitors sign the paper register"},
    {"question": "zebra quagga", "files": ["backup.md", "absent.md"]},
]
PAIRS = [(t, r) for t in (0.0, 0.2, 0.5, 1.0) for r in (0.0, 0.5, 1.0)]


@pytest.fixture
def space(tmp_path, monkeypatch):
    monkeypatch.setattr(scan, "RACY_NS", 0)
    folder = tmp_path / "doc_raw" / "demo"
    folder.mkdir(parents=True)
    for name, text in DOCS.items():
        (folder / name).write_text(text)
    made = opened(tmp_path)
    ask(made, GOLD)
    ingest_project(made, "demo")
    return made


def opened(root, **settings):
    return hashed_workspace(root, {"gate.keep_top": 0, **settings})


def ask(space, rows):
    path = gold_path(space, "demo")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows))


def test_a_stricter_gate_never_keeps_more(space):
    points = {(p.theta, p.relative): p for p in eval_gold.sweep(space, "demo", PAIRS)}
    assert list(points) == PAIRS
    for (theta, relative), point in points.items():
        for other, stricter in points.items():
            if other[0] >= theta and other[1] >= relative:
                assert stricter.kept_relevant <= point.kept_relevant
                assert stricter.candidates <= point.candidates
        assert 0 <= point.shown <= point.kept_relevant <= 1
    loose, strict = points[0.0, 0.0], points[1.0, 1.0]
    assert loose.kept_relevant == 1 > strict.kept_relevant
    assert strict.candidates <= 1  # only what is best by meaning and by words
    assert strict.tokens < loose.tokens
    assert loose.found == 3  # absent.md is no candidate of any question


def test_a_point_is_what_prompts_with_these_settings_are(space, tmp_path):
    (point,) = eval_gold.sweep(space, "demo", [(0.3, 0.7)])
    same = opened(tmp_path, **{"gate.theta": 0.3, "gate.relative": 0.7})
    kept, tokens = [], []
    for row in GOLD:
        prompt = run_prompt(same, pin_inputs(same, PromptRequest(row["question"], ("demo",))))
        kept.append(len(prompt.views_by_stage["a3"]))
        tokens.append(prompt.extras.enforced.total_tokens)
    assert point.candidates == round(sum(kept) / 3, 2)
    assert point.tokens == round(sum(tokens) / 3, 1)


def test_points_of_other_questions_or_generations_are_passed_over(space):
    folder = eval_gold.points_dir(space, "demo")
    made = list(eval_gold.sweep(space, "demo", [(0.2, 0.5), (0.0, 0.0)]))
    for point in made:
        write_point(folder, point)
    (folder / "0.9-0.9.json").write_text("{broken")
    (folder / "0.8-0.9.json").write_text('{"theta": 0.8}')
    now = eval_gold.sweep_fingerprint(space, "demo")
    assert read_points(folder, now) == made[::-1]

    swept = opened(space.data_dir, **{"gate.theta": 0.9, "gate.relative": 0.1})
    assert eval_gold.sweep_fingerprint(swept, "demo") == now  # the thresholds are what is swept
    other = opened(space.data_dir, **{"retrieval.top_k": 3})
    assert read_points(folder, eval_gold.sweep_fingerprint(other, "demo")) == []
    (docs_of(space) / "new.md").write_text("# New\n\nSomething else entirely.\n")
    ingest_project(space, "demo")
    later = eval_gold.sweep_fingerprint(space, "demo")
    assert read_points(folder, later) == []
    ask(space, GOLD[:1])
    assert eval_gold.sweep_fingerprint(space, "demo") not in (now, later)


def test_no_word_of_a_question_is_kept(space):
    canary = "wolfsbane"
    ask(space, [{"question": f"Where does logs.md say that {canary} grow?", "file": "logs.md"}])
    for point in eval_gold.sweep(space, "demo", [(0.2, 0.5)]):
        write_point(eval_gold.points_dir(space, "demo"), point)
    files = [path for path in space.data_dir.rglob("*") if path.is_file()]
    holding = [path.name for path in files if canary.encode() in path.read_bytes()]
    assert holding == ["gold.jsonl"]


def test_what_was_said_does_not_take_part(space):
    before = list(eval_gold.sweep(space, "demo", PAIRS[:1]))
    said = "Visitors sign the paper register; logs are kept on the archive server."
    turn = Turn("turn-1", "talks", "2026-10-05T14:07:00+02:00", GOLD[0]["question"], said)
    append_records(space, [turn])
    embed(space)
    heard = run_prompt(space, pin_inputs(space, PromptRequest(GOLD[0]["question"], ("demo",))))
    assert said in heard.extras.super_prompt
    assert list(eval_gold.sweep(space, "demo", PAIRS[:1])) == before


def test_no_language_model_is_asked(space):
    with socket.create_server(("127.0.0.1", 0)) as server:
        forms = {f"agents.{agent}_form": "llm" for agent in ("a2", "a3", "a4", "audit")}
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        asking = {"provider.base_url": url, "provider.timeout_s": 1, "provider.budget_s": 1}
        other = opened(space.data_dir, **forms, **asking)
        assert list(eval_gold.sweep(other, "demo", PAIRS[:1])) == list(
            eval_gold.sweep(space, "demo", PAIRS[:1])
        )
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_what_cannot_be_swept_is_refused(space):
    with pytest.raises(UsageError, match="not between"):
        next(eval_gold.sweep(space, "demo", [(0.2, 1.5)]))
    gold_path(space, "demo").unlink()
    with pytest.raises(UsageError, match="no gold questions"):
        next(eval_gold.sweep(space, "demo", [(0.2, 0.5)]))
    assert eval_gold.swept_projects(space) == []
