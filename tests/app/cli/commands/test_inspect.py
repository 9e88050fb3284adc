"""`index inspect`, `neighbors`, `tsne` and `search --context`: output, exit codes, faults."""

import csv
import io
import json
import re
import sqlite3

import pytest

from ragstream_app.output.inspect import print_neighbours
from ragstream_core.conversations.clearing import Choice
from ragstream_core.conversations.journal.records import Cleared, Turn
from ragstream_core.errors import GenerationGone
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.services import chunk_maps
from ragstream_core.services.chunk_maps import Anchor, Neighbour
from ragstream_core.services.clear_history import clear
from ragstream_core.services.history_update import embed
from ragstream_core.wiring.journal import append_turn, journal
from ragstream_core.wiring.workspace import open_workspace

CANARY = "The umbrella of the cathedral is made of marzipan, says the sexton."


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def talk(count=3):
    space = open_workspace()
    for n in range(count):
        when = f"2026-10-0{n + 1}T10:00:00+02:00"
        append_turn(space, Turn("", "talks", when, f"{CANARY} {n}", f"Noted, number {n}."))
    embed(space)
    return space


def test_inspect_describes_a_sound_index(indexed, run):
    code, out, err = run("index", "inspect", "manual")
    assert code == 0, err
    assert "vectors and metadata agree" in out and "guide/locks.md" in out
    found = json.loads(run("index", "inspect", "manual", "--json")[1])
    assert found["files"] == {"md": 3, "yaml": 1} and found["findings"] == []
    assert found["chunks"] == sum(b["count"] for b in found["tokens"]["histogram"])
    assert found["chunks"] == sum(found["largest"].values())
    assert found["vectors"] == {"live": found["texts"], "older": 0, "missing": 0}
    assert found["norms"]["not_unit"] == 0 and found["model"].startswith("hashed/")


def without_a_vector(index):
    db = sqlite3.connect(index / "catalog.sqlite")
    db.execute("DELETE FROM vectors WHERE text_hash = (SELECT min(text_hash) FROM vectors)")
    db.commit()
    db.close()


def with_a_changed_vector(index):
    (vectors,) = index.glob("*.f32")
    raw = bytearray(vectors.read_bytes())
    raw[3] ^= 0x7F
    vectors.write_bytes(raw)


def with_a_changed_row(index):
    db = sqlite3.connect(index / "catalog.sqlite")
    db.execute("UPDATE chunks SET path = 'other.md' WHERE chunk_idx = 0 AND path LIKE '%locks.md'")
    db.commit()
    db.close()


def cut_short(index):
    (vectors,) = index.glob("*.f32")
    vectors.write_bytes(vectors.read_bytes()[:-100])


DAMAGES = [without_a_vector, with_a_changed_vector, with_a_changed_row, cut_short]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("command", ["inspect", "check"])
def test_a_mismatch_of_vectors_and_metadata_is_said_and_exits_with_3(indexed, run, damage, command):
    for path in (indexed / "index" / "manual").iterdir():
        path.chmod(0o700 if path.is_dir() else 0o600)
    damage(indexed / "index" / "manual")
    forget_views()
    code, out, err = run("index", command, "manual")
    assert code == 3, out + err
    assert "agree" not in out and "sound" not in out and "ragstream" in out + err
    code, out, _ = run("index", command, "manual", "--json")
    found = json.loads(out)
    found = found[0] if command == "check" else found
    assert code == 3 and found["findings"] and all(f["run"] for f in found["findings"])


@pytest.mark.parametrize("command", ["inspect", "neighbors", "tsne"])
def test_nothing_to_look_at_is_said_with_the_next_step(data, run, command):
    code, _, err = run("index", command, "manual")
    assert code == 1 and "ragstream ingest manual" in err
    code, _, err = run("index", command, "nobody")
    assert code == 2 and "nobody" in err


@pytest.mark.parametrize("command", ["neighbors", "tsne"])
def test_a_damaged_index_is_refused(indexed, run, command):
    with_a_changed_vector(indexed / "index" / "manual")
    forget_views()
    code, out, err = run("index", command, "manual")
    assert code == 3 and "next:" in err and not out


def test_neighbors_are_seeded_and_best_first(indexed, run):
    words = ("index", "neighbors", "manual", "--anchors", "3", "--k", "2", "--json")
    rows = json.loads(run(*words)[1])
    assert rows == json.loads(run(*words)[1]) and len(rows) == 3
    for row in rows:
        scores = [n["score"] for n in row["neighbours"]]
        assert len(scores) == 2 and scores == sorted(scores, reverse=True)
        assert row["chunk_id"] not in [n["chunk_id"] for n in row["neighbours"]]
    named = json.loads(run(*words, "--chunk", "guide/locks.md#0")[1])
    assert [row["source"] for row in named] == ["guide/locks.md"]
    assert named[0]["text"].startswith("# File lock")
    code, _, err = run("index", "neighbors", "manual", "--chunk", "guide/none.md")
    assert code == 2 and "guide/none.md" in err


def test_foreign_text_cannot_steer_the_terminal(capsys):
    row = ("a\x1b[2J.md::x::0", "a\x1b[2J.md", "[red]x\x1b]0;t\x07")
    print_neighbours([Anchor(*row, [Neighbour(*row, 0.5)])])
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\x07" not in out and "[red]x" in out


def test_a_text_that_is_cut_says_so(capsys):
    print_neighbours([Anchor("a.md::x::0", "a.md", "word " * 99, [])])
    assert "word …" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("method", ["tsne", "pca"])
def test_a_map_has_a_line_a_chunk_and_loses_no_text(indexed, run, tmp_path, method):
    out = tmp_path / "map.csv"
    code, said, err = run(
        "index", "tsne", "manual", "--method", method, "--out", str(out), "--json"
    )
    assert code == 0, err
    summary, rows = json.loads(said), table(out)
    view = open_view(open_workspace().index_dir("manual"))
    assert summary["shown"] == summary["total"] == len(rows) == len(view.chunk_ids)
    texts = {chunk.id: chunk.snippet for chunk in view.chunks(view.chunk_ids)}
    assert {row["chunk_id"]: row["text"] for row in rows} == texts
    first = out.read_bytes()
    code, _, err = run("index", "tsne", "manual", "--method", method, "--out", str(out))
    assert code == 3 and "already exists" in err and out.read_bytes() == first
    code, _, _ = run("index", "tsne", "manual", "--method", method, "--out", str(out), "--force")
    assert code == 0 and out.read_bytes() == first  # the same seed, the same map


def test_a_picture_and_a_sample(indexed, run, tmp_path):
    out = tmp_path / "map.png"
    code, said, err = run(
        "index", "tsne", "manual", "--method", "pca", "--limit", "3", "--out", str(out)
    )
    assert code == 0 and out.read_bytes().startswith(b"\x89PNG")
    assert "3 of " in said and "a sample in which each file keeps its share" in err
    code, _, err = run("index", "tsne", "manual", "--out", str(tmp_path / "map.gif"))
    assert code == 2 and ".png" in err
    code, _, err = run(
        "index", "tsne", "manual", "--method", "pca", "--out", str(out / "in-a-file.png")
    )
    assert code == 2 and "in-a-file.png" in err and "--out" in err
    assert not list(tmp_path.glob(".map*")), "something was left behind"


@pytest.mark.parametrize("chunks", [1, 2, 3, 4])
def test_very_few_chunks(data, run, chunks, tmp_path):
    folder = data / "doc_raw" / "small"
    folder.mkdir()
    for n in range(chunks):
        (folder / f"{n}.md").write_text(f"# Page {n}\n\nThis page is about number {n}.\n")
    assert run("ingest", "small")[0] == 0
    out = tmp_path / "map.csv"
    code, said, err = run("index", "tsne", "small", "--out", str(out))
    assert code == 0 and len(table(out)) == chunks, err
    assert ("laid out by PCA" in err) is (chunks < 4)
    code, said, _ = run("index", "neighbors", "small")
    assert code == 0 and (("no other chunk" in said) is (chunks == 1))


def test_a_project_without_a_chunk(data, run):
    folder = data / "doc_raw" / "empty"
    folder.mkdir()
    (folder / "blank.md").write_text("\n")
    assert run("ingest", "empty")[0] == 0
    code, _, err = run("index", "tsne", "empty")
    assert code == 1 and "no chunk" in err
    assert run("index", "inspect", "empty")[0] == 0
    assert "no other chunk" in run("index", "neighbors", "empty")[1]


def test_conversations_are_on_the_map_until_they_are_cleared(indexed, run, tmp_path):
    space, out = talk(), tmp_path / "map.csv"
    code, said, err = run("index", "tsne", "manual", "--history", "--method", "pca",
                          "--out", str(out))  # fmt: skip
    assert code == 0 and "cannot reach it" in err and "conversation" in said
    turns = [row for row in table(out) if row["project"] == "conversation"]
    assert len(turns) >= 3 and sum(CANARY in row["text"] for row in turns) == 3
    request = chunk_maps.MapRequest(("manual",), history=True, method="pca")
    found, state = chunk_maps.draw(space, request), chunk_maps.state(space, request)
    near = ("index", "neighbors", "manual", "--history", "--chunk", "guide/locks.md", "--k", "99")
    assert CANARY in json.loads(json.dumps(run(*near, "--json")[1]))
    clear(space, Choice(everything=True))
    forget_views()
    with pytest.raises(GenerationGone):
        list(chunk_maps.texts(space, found))
    with pytest.raises(GenerationGone):
        chunk_maps.state(space, request)
    code, _, err = run("index", "neighbors", "manual", "--history")
    assert code == 1 and "no turn is embedded" in err
    assert state not in ("", None)


def test_turns_hidden_by_a_clearing_that_was_killed_are_shown_nowhere(indexed, run):
    space = talk()
    request = chunk_maps.MapRequest(("manual",), history=True, method="pca")
    found, state = chunk_maps.draw(space, request), chunk_maps.state(space, request)
    (first,) = [e for e in journal(space).entries() if e.seq == 1]
    gone = [p for p in found.places if p.path == "talks/1"]
    assert isinstance(first.record, Turn) and gone
    journal(space).append([Cleared("c", "2026-10-09T10:00:00+02:00", ((1, 1),), "range", turns=1)])
    forget_views()
    assert chunk_maps.state(space, request) != state
    shown = {place.chunk_id for place in chunk_maps.draw(space, request).places}
    assert shown == {p.chunk_id for p in found.places} - {p.chunk_id for p in gone}
    with pytest.raises(GenerationGone):
        list(chunk_maps.texts(space, found))
    near = ("index", "neighbors", "--history", "--json", "--k", "99")
    assert json.loads(run(*near, "--chunk", gone[0].chunk_id)[1]) == []
    assert f"{CANARY} 0" not in run(*near)[1] and f"{CANARY} 1" in run(*near)[1]


def test_a_map_knows_when_its_project_changed(indexed, run):
    space = open_workspace()
    request = chunk_maps.MapRequest(("manual",), method="pca")
    before = chunk_maps.state(space, request)
    assert before == chunk_maps.state(space, request)
    (indexed / "doc_raw" / "manual" / "new.md").write_text("# New\n\nA new file.\n")
    assert run("ingest", "manual")[0] == 0
    assert chunk_maps.state(space, request) != before


HEAD = re.compile(r"^\[source: (?P<path>\S+)#(?P<n>\d+) \| score: -?\d\.\d{3}\]$", re.MULTILINE)


def context(run, *words):
    code, out, err = run("search", "What does the lock do?", "-p", "manual", "--context", *words)
    assert code == 0, err
    return out.removesuffix("\n"), err


def test_a_context_shows_each_passage_under_its_head(indexed, run):
    text, err = context(run)
    found = json.loads(context(run, "--json")[0])
    assert found["context"] == text and not found["cut"]
    heads = HEAD.findall(text)
    assert len(heads) == len(found["passages"]) and ("guide/locks.md", "0") in heads
    bodies = [part.partition("\n")[2] for part in re.split(r"\n\n(?=\[source: )", text)]
    view = open_view(open_workspace().index_dir("manual"))
    chunks = view.chunks([p["chunk_id"] for p in found["passages"]])
    assert bodies == [chunk.snippet for chunk in chunks]
    assert f"{len(heads)} passages" in err
    between = context(run, "--separator", "\\n====\\n")[0]
    assert between.count("\n====\n[source: ") == len(heads) - 1


@pytest.mark.parametrize(
    ("name", "value", "most"),
    [("max_context_chars", 220, lambda text: len(text) <= 220),
     ("max_context_tokens", 260, lambda text: len(text) <= 60 * 4)],
)  # fmt: skip
def test_each_budget_is_kept_and_the_last_passage_is_cut(indexed, run, name, value, most):
    found = json.loads(context(run, "--json", "--set", f"retrieval.{name}={value}")[0])
    assert found["cut"] and found["left_out"] and most(found["context"])
    overhead = json.loads(
        context(run, "--json", "--set", "retrieval.max_context_tokens=260",
                "--set", "retrieval.token_overhead=255")[0]
    )  # fmt: skip
    assert overhead["context"] == "" and overhead["tokens"] == 0


def test_hits_below_the_least_score_are_dropped_and_counted(indexed, run):
    everything = json.loads(context(run, "--json")[0])
    found = json.loads(context(run, "--json", "--set", "retrieval.min_score=0.2")[0])
    assert 0 < len(found["passages"]) < len(everything["passages"])
    dropped = len(everything["passages"]) - len(found["passages"])
    assert found["below_min_score"] == dropped and everything["below_min_score"] == 0
    assert (
        f"{dropped} are below retrieval.min_score"
        in context(run, "--set", "retrieval.min_score=0.2")[1]
    )


def test_the_profile_reembed_changes_the_order(data, run, tmp_path, monkeypatch):
    """BM25 likes the rare word, the vectors the many words that are shared."""
    folder = data / "doc_raw" / "places"
    folder.mkdir()
    (folder / "rare.md").write_text("# Zanzibar\n\nZanzibar zanzibar zanzibar. Nothing else.\n")
    (folder / "common.md").write_text(
        "# Files\n\nThe prompt and the files and the lock. The lock of the files.\n"
    )
    for n in range(6):
        (folder / f"fill{n}.md").write_text(f"# Fill {n}\n\nThe prompt has files, lock {n}.\n")
    assert run("ingest", "places")[0] == 0
    monkeypatch.delenv("RAGSTREAM_RERANK__BACKEND")  # which would be stronger than a profile
    (tmp_path / "ragstream.yaml").write_text(
        "rerank: {backend: none}\ntasks:\n  reembed:\n    rerank: {backend: reembed}\n"
    )
    question = "the prompt and the files and the lock of zanzibar"
    words = ("search", question, "-p", "places", "--context", "--json",
             "--set", "retrieval.dense_weight=0.05")  # fmt: skip
    usual = json.loads(run(*words)[1])["passages"]
    fresh = json.loads(run(*words, "--task", "reembed")[1])["passages"]
    assert {p["chunk_id"] for p in usual} == {p["chunk_id"] for p in fresh}
    assert usual[0]["chunk_id"].startswith("rare.md")
    assert fresh[0]["chunk_id"].startswith("common.md")
    scores = [p["score"] for p in fresh]
    assert scores == sorted(scores, reverse=True)


def test_looking_writes_nothing(indexed, run, tmp_path):
    def files():
        return {p: p.stat().st_mtime_ns for p in indexed.rglob("*") if p.is_file()}

    assert run("index", "check", "manual")[0] == 0
    before = files()
    context(run)
    for words in (("inspect",), ("neighbors",), ("tsne", "--method", "pca", "--out", "m.csv")):
        assert run("index", words[0], "manual", *words[1:])[0] == 0
    assert files() == before


def test_csv_of_a_map_can_be_read_by_anyone(indexed, run, tmp_path):
    (indexed / "doc_raw" / "manual" / "odd.md").write_text('# Odd\n\n"quoted", =1+1;\ttab\n\nend\n')
    assert run("ingest", "manual")[0] == 0
    out = tmp_path / "m.csv"
    assert run("index", "tsne", "manual", "--method", "pca", "--out", str(out))[0] == 0
    (odd,) = [row for row in table(out) if row["file"] == "odd.md"]
    assert '"quoted", =1+1;\ttab' in odd["text"]
    assert io.StringIO(out.read_text()).readline().strip() == ",".join(odd)
