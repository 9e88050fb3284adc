"""The documented shapes of --json, and which stream says what."""

import json
from pathlib import Path

import pytest

from ragstream_core.services.export_index import decode

QUESTION = "How does the exact file lock restrict a prompt?"

INGEST_FILES = {"scanned", "new", "updated", "touched", "unchanged", "deleted", "skipped"}
PROMPT = {
    "prompt_key", "from_record", "run_id", "stage", "model_target", "super_prompt", "tokens",
    "cost_usd", "token_tree", "selection", "files", "answers", "warnings", "events", "llm",
    "timings_ms",
}  # fmt: skip


def prompt(run, *more: str):
    code, out, err = run("prompt", QUESTION, "-p", "manual", "--json", *more)
    assert code == 0, (out, err)
    return json.loads(out)


def test_ingest_prints_an_object_for_one_and_a_list_for_several(data, run, write_pages):
    write_pages(data, "other")
    code, out, _ = run("ingest", "manual", "--json")
    one = json.loads(out)
    assert code == 0
    assert {"project", "generation", "committed", "files", "chunks", "seconds"} <= set(one)
    assert set(one["files"]) == INGEST_FILES
    assert set(one["chunks"]) == {"embedded", "reused", "live"}
    assert (one["generation"], one["committed"], one["files"]["new"]) == (1, True, 4)
    two = json.loads(run("ingest", "--json")[1])
    assert [row["project"] for row in two] == ["manual", "other"]
    assert [row["committed"] for row in two] == [False, True]
    assert two[0]["files"]["unchanged"] == 4 and two[0]["chunks"]["embedded"] == 0


def test_status_counts_what_an_ingest_would_do(indexed, run):
    (indexed / "doc_raw" / "manual" / "extra.md").write_text("# Extra\n\nOne more page.\n")
    found = json.loads(run("status", "--json")[1])
    row = found["projects"][0]
    assert row["pending"]["new"] == ["extra.md"] and row["generation"] == 1
    code, out, _ = run("status")
    assert code == 0 and "ragstream ingest manual" in out


def test_prompt_has_the_documented_shape_and_explain_and_replay_know_its_key(indexed, run):
    made = prompt(run)
    assert set(made) == PROMPT
    assert made["stage"] == "a5" and made["tokens"] > 0 and made["run_id"] == ""
    assert len(made["prompt_key"]) == 64 and made["selection"]
    assert set(made["timings_ms"]) >= {"a0_preprocessing", "retrieval", "prompt_builder"}
    blocks = made["token_tree"]["blocks"]
    assert sum(block["tokens"] for block in blocks) == made["token_tree"]["total"] == made["tokens"]
    key = made["prompt_key"]
    explained = json.loads(run("explain", key[:8], "--json")[1])
    assert explained["prompt_key"] == key
    kept = {way["chunk_id"] for way in explained["candidates"] if way["kept"]}
    assert set(made["selection"]) <= kept
    one = json.loads(run("explain", key, "--chunk", made["selection"][0], "--json")[1])
    assert [way["chunk_id"] for way in one["candidates"]] == [made["selection"][0]]
    code, out, _ = run("replay", key[:8], "--json")
    assert code == 0 and json.loads(out)["verdict"] == "identical"
    listed = json.loads(run("status", "--json")[1])["prompts"]
    assert [row["prompt_key"] for row in listed] == [key]


def test_people_get_the_super_prompt_on_stdout_and_the_rest_on_stderr(indexed, run):
    made = prompt(run)
    code, out, err = run("prompt", QUESTION, "-p", "manual")
    assert code == 0
    assert out.rstrip("\n") == made["super_prompt"].rstrip("\n")
    assert "ragstream explain" in err and "ragstream replay" in err and "tokens" in err


def test_out_writes_the_file_instead(indexed, run, tmp_path):
    target = tmp_path / "prompt.md"
    code, out, err = run("prompt", QUESTION, "-p", "manual", "--out", str(target))
    assert (code, out) == (0, "") and str(target) in err
    assert target.read_text(encoding="utf-8") == prompt(run)["super_prompt"]


def test_through_stops_there_and_keeps_nothing(indexed, run):
    made = prompt(run, "--through", "retrieval")
    assert made["stage"] == "retrieval" and made["super_prompt"] == made["prompt_key"] == ""
    assert "reranker" not in made["timings_ms"]
    assert json.loads(run("status", "--json")[1])["prompts"] == []
    code, out, err = run("prompt", QUESTION, "-p", "manual", "--through", "retrieval")
    assert code == 0 and "RETRIEVED" in out and "stage retrieval" in err


def test_lock_injects_the_named_file_and_nothing_else(indexed, run):
    made = prompt(run, "--file", "settings.yaml", "--lock")
    assert [row["path"] for row in made["files"]] == ["settings.yaml"]
    assert made["selection"] == [] and "text" not in made["files"][0]


def test_settings_and_off_reach_the_chain(indexed, run):
    plain = prompt(run)
    changed = prompt(run, "--set", "prompt.max_facts=1")
    assert changed["prompt_key"] != plain["prompt_key"]
    off = prompt(run, "--off", "manual/guide/locks.md")
    assert not any(c.startswith("guide/locks.md::") for c in off["selection"])
    assert any(c.startswith("guide/locks.md::") for c in plain["selection"])


def test_prompt_reads_stdin(indexed, run, monkeypatch):
    import io
    import sys

    text = io.TextIOWrapper(io.BytesIO(f"\ufeff# Context\nmine\n# Task\n{QUESTION}".encode()))
    monkeypatch.setattr(sys, "stdin", text)
    code, out, _ = run("prompt", "-", "-p", "manual", "--json")
    made = json.loads(out)["super_prompt"]
    assert code == 0 and f"\n{QUESTION}\n" in made and "### Context\nmine" in made


def test_search_ranks(indexed, run):
    rows = json.loads(run("search", "exact file lock", "-p", "manual", "-k", "2", "--json")[1])
    assert len(rows) == 2
    assert set(rows[0]) == {
        "chunk_id",
        "source",
        "score",
        "dense",
        "lexical",
        "snippet",
        "span",
        "lines",
    }
    assert rows[0]["source"] == "guide/locks.md" and rows[0]["score"] >= rows[1]["score"]
    code, out, err = run("search", "lock", "-p", "manual", "--set", "retrieval.min_score=1")
    assert (code, out) == (0, "") and "cosine of 1 or more (retrieval.min_score)" in err
    code, out, _ = run("search", "exact file lock", "-p", "manual")
    assert code == 0 and "guide/locks.md" in out


def test_replay_of_what_cannot_be_made_again_is_3(indexed, run):
    key = prompt(run, "--file", "settings.yaml")["prompt_key"]
    for blob in (indexed / "prompts" / "blobs").iterdir():
        blob.unlink()
    code, out, _ = run("replay", key, "--json")
    verdict = json.loads(out)
    assert code == 3 and verdict["verdict"] == "input unavailable" and verdict["reason"]


def test_explain_makes_its_derived_file_again(indexed, run):
    key = prompt(run)["prompt_key"]
    before = run("explain", key, "--json")
    (indexed / "prompts" / key / "decisions.parquet").unlink()
    assert run("explain", key, "--json")[:2] == before[:2]


def test_explain_shows_every_step_of_one_chunk(indexed, run):
    made = prompt(run)
    code, out, err = run("explain", made["prompt_key"])
    assert code == 0 and "guide/locks.md#0" in out and "--chunk" in err
    code, out, _ = run("explain", made["prompt_key"], "--chunk", made["selection"][0])
    stages = [line.split()[0] for line in out.splitlines()[1:]]
    assert code == 0 and stages == ["retrieval", "reranked", "a3", "a4", "a5"]


def test_eval_retrieval_measures_and_writes_a_run_file(data, run, tmp_path):
    pytest.importorskip("ir_measures")
    documents = {"a": "Cats sleep on warm roofs.", "b": "Trains leave the station at noon."}
    rows = [json.dumps({"id": i, "text": t}) for i, t in documents.items()]
    (tmp_path / "corpus.jsonl").write_text("\n".join(rows))
    (tmp_path / "queries.jsonl").write_text(json.dumps({"id": "q", "text": "trains at noon"}))
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\tb\t1\n")
    words = ["eval", "retrieval", "--corpus", "corpus.jsonl", "--queries", "queries.jsonl"]
    words += ["--qrels", "qrels.tsv", "--run", "run.txt"]
    code, out, _ = run(*words, "--json")
    found = json.loads(out)
    assert code == 0 and found["queries"] == 1 and found["fingerprint"]
    assert found["metrics"] == {"nDCG@10": 1.0, "R@10": 1.0, "MRR@10": 1.0}
    assert (tmp_path / "run.txt").read_text().splitlines()[0].split()[:4] == ["q", "Q0", "b", "1"]
    code, out, _ = run(*words)
    assert code == 0 and "nDCG@10" in out and "1.0000" in out


def test_global_options_may_stand_anywhere(data, run, tmp_path, monkeypatch):
    monkeypatch.delenv("RAGSTREAM_DATA_DIR")
    before = json.loads(run("--data", str(data), "status", "--json")[1])
    after = json.loads(run("status", "--json", "--data", str(data))[1])
    assert before == after and before["data_dir"] == str(data)


def test_words_after_two_dashes_are_text(indexed, run):
    code, out, _ = run("prompt", "-p", "manual", "--", "--json lock --data")
    assert code == 0 and "--json lock --data" in out and not out.startswith("{")


def test_config_show_says_where_values_come_from_and_hides_secrets(data, run, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__API_KEY", "sk-canary-123")
    code, out, _ = run("config", "show", "--origin", "--json")
    found = json.loads(out)
    assert code == 0 and "canary" not in out
    assert found["embeddings.backend"] == {"value": "hashed", "origin": "environment"}
    assert found["retrieval.tau"] == {"value": 9.0, "origin": "default"}
    assert "canary" not in run("config", "show")[1] and "canary" not in run("doctor")[1]


def test_doctor_names_what_is_missing_and_the_next_step(data, run):
    checks = {row["name"]: row for row in json.loads(run("doctor", "--json")[1])}
    assert {"python", "packages", "embedding model", "reranker", "data root", "provider"} <= set(
        checks
    )
    assert checks["embedding model"]["level"] == "warn"
    assert "not contacted" in checks["provider"]["detail"]


def test_doctor_fails_without_a_data_root(environment, run):
    code, out, _ = run("doctor")
    assert code == 1 and "fail" in out and "mkdir" in out


def test_doctor_names_the_command_for_a_better_reranker(data, run, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_RERANK__BACKEND", "auto")
    monkeypatch.setenv("RAGSTREAM_RERANK__MODEL", "nobody/no-such-model")
    checks = {row["name"]: row for row in json.loads(run("doctor", "--json")[1])}
    assert checks["reranker"]["level"] == "warn" and "maxsim" in checks["reranker"]["detail"]
    assert "nobody/no-such-model" in checks["reranker"]["next_step"]


@pytest.mark.parametrize("text", ["\x1b[31mred", "bell\x07", "\u202ereversed"])
def test_control_characters_do_not_reach_the_terminal(text):
    from ragstream_app.output.words import printable

    shown = printable(text)
    assert shown.isprintable() and len(shown) == len(text)


def test_status_says_what_an_ingest_would_embed_and_lists_what_is_left_out(data, run):
    pages = data / "doc_raw" / "manual"
    (pages / "latin.md").write_bytes(b"caf\xe9 au lait")
    (pages / "film.mp4").write_bytes(b"x")
    (pages / ".ragignore").write_text("drafts/\n")
    (pages / "drafts").mkdir()
    (pages / "drafts" / "x.md").write_text("draft")
    code, out, _ = run("status")
    assert code == 0 and "would embed about" in out and "an estimate" in out
    before = json.loads(run("status", "--json")[1])["projects"][0]
    assert before["forecast"]["files"] == len(before["pending"]["new"]) == 5
    assert not before["forecast"]["measured"]
    code, out, _ = run("ingest", "manual")
    assert "latin.md: read as cp1252 (assumed); `discovery.fallback_encoding` names another" in out
    assert "manual/latin.md: read as cp1252 (assumed)" in run("status")[1]
    code, out, err = run("status", "--skipped")
    lines = [line for line in out.splitlines() if line.startswith("manual/")]
    assert lines[1:] == [
        "manual/drafts/: ignored by .ragignore",
        "manual/film.mp4: type not supported: sound or film; a transcript is read, as .vtt, .srt or"
        " .txt",
    ]
    after = json.loads(run("status", "--json")[1])["projects"][0]
    assert after["forecast"]["chunks"] == 0
    assert [path for path, _ in after["skipped"]] == ["drafts/", "film.mp4"]
    assert after["assumed"] == [["latin.md", "cp1252 (assumed)"]]


def test_reading_settings_reach_the_ingest(data, run, monkeypatch):
    pages = data / "doc_raw" / "manual"
    (pages / "latin.md").write_bytes(b"caf\xe9 au lait")
    key = "gh" + "p_" + "a1B2" * 9
    (pages / "notes.md").write_text(f"# Notes\n\nClone with {key} and **go on**.\n")
    monkeypatch.setenv("RAGSTREAM_DISCOVERY__FALLBACK_ENCODING", "latin-1")
    monkeypatch.setenv("RAGSTREAM_DISCOVERY__SECRETS", "redact")
    monkeypatch.setenv("RAGSTREAM_CHUNKING__STRIP_MARKDOWN", "true")
    code, out, err = run("ingest", "manual", "--json")
    assert code == 0, err
    made = json.loads(out)
    assert made["files"]["skipped"] == 0
    assert made["warnings"] == ["notes.md: possible secret: github-token (line 3)"]
    raw = (data / "index" / "manual" / "catalog.sqlite").read_bytes()
    assert key.encode() not in raw
    assert "café au lait".encode() in raw
    assert b"Clone with [redacted:github-token] and go on." in raw


def test_folders_that_cannot_be_projects_are_listed_wherever_projects_are(data, run, tmp_path):
    docs = data / "doc_raw"
    (docs / "pg").mkdir()
    (docs / "pg" / "note.md").write_text("# A note\n\nOf a project with a short name.\n")
    (docs / "two words").mkdir()
    (docs / "linked").symlink_to(tmp_path)
    code, out, err = run("ingest")
    assert code == 0 and "pg" in out
    assert "no project: 'two words': not a project name; rename it" in err
    assert "no project: 'linked': a link" in err
    code, out, err = run("status")
    assert code == 0 and "pg" in out and "'linked': a link" in err
    rows = json.loads(run("status", "--json")[1])["not_projects"]
    assert [name for name, _ in rows] == ["linked", "two words"]
    checks = json.loads(run("doctor", "--json")[1])
    assert [c["level"] for c in checks if c["name"] == "projects"] == ["warn", "warn"]
    code, _, err = run("ingest", "linked")
    assert code == 2 and "is not a project" in err and "real folders only" in err


def test_an_export_is_written_whole_and_replaces_nothing_unasked(indexed, run, monkeypatch):
    code, out, err = run("index", "export", "manual", "--json")
    assert code == 0, err
    done = json.loads(out)
    whole = Path("manual.arrow").read_bytes()
    assert (done["rows"], done["bytes"], done["generation"]) == (
        json.loads(run("status", "--json")[1])["projects"][0]["chunks"],
        len(whole),
        1,
    )
    assert decode(whole)[1]["content"] == done["content"]
    code, _, err = run("index", "export", "manual")
    assert code == 3 and "already exists" in err
    code, _, err = run("index", "export", "manual", "--out", ".", "--force")
    assert code == 3 and ". is a folder" in err and "--force" not in err
    Path("manual.arrow").write_text("mine")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("ragstream_core.services.export_index.replace_bytes", full)
        code, _, err = run("index", "export", "manual", "--force")
    assert code == 1 and "No space left" in err and Path("manual.arrow").read_text() == "mine"
    assert run("index", "export", "manual", "--force")[0] == 0
    assert Path("manual.arrow").read_bytes() == whole
    assert run("index", "export", "manual", "--generation", "7", "--out", "x.arrow")[0] == 1
    assert not Path("x.arrow").exists() and run("index", "export", "nowhere")[0] == 1


def test_the_model_it_is_meant_for_bounds_the_budget_and_is_priced_first(indexed, run):
    asked = ("prompt", QUESTION, "-p", "manual", "--set", "prompt.model_window=1600")
    code, out, err = run(*asked, "--model-target", "gpt-4o", "--json")
    made = json.loads(out)
    assert code == 0 and made["model_target"] == "gpt-4o"
    first = err.splitlines()[0]
    assert first.startswith("Up to 1,200 tokens of a window of 1,600 for gpt-4o, $0.0030, and $")
    assert 0 < made["tokens"] <= 1200
    assert made["cost_usd"] == pytest.approx(made["tokens"] * 2.5e-6)
    code, out, err = run(*asked, "--model-target", "made-up-7b")
    assert code == 0 and "Up to 1,200 tokens" in err and "made-up-7b; price unknown" in err
    plain = prompt(run)
    assert plain["model_target"] == "" and plain["cost_usd"] is None
