"""The commands of care: what they print, their exit codes, and that they name the next step."""

import json
import os

import pytest


def ask(run, text="What does the lock do?"):
    code, out, err = run("prompt", text, "-p", "manual", "--json")
    assert code == 0, err
    return json.loads(out)["prompt_key"]


def change(data, text):
    (data / "doc_raw" / "manual" / "guide" / "storage.md").write_text(text)


def test_generations_diff_and_keep(indexed, run):
    key = ask(run)
    change(indexed, "# Storage\n\nEverything is different now.\n")
    (indexed / "doc_raw" / "manual" / "new.md").write_text("# New\n\nA new file.\n")
    assert run("ingest", "manual")[0] == 0
    code, out, _ = run("index", "diff", "manual", "1", "2")
    assert code == 0
    assert "+ new.md" in out and "~ guide/storage.md" in out and "1 file added" in out
    code, out, _ = run("keep", key[:8])
    assert code == 0 and "generation 1 of manual" in out
    code, out, _ = run("index", "generations")
    assert code == 0 and key[:12] in out and "newest" in out
    rows = json.loads(run("index", "generations", "manual", "--json")[1])["manual"]
    assert [row["n"] for row in rows] == [2, 1] and key in rows[1]["kept_by"]
    assert run("keep", key[:8], "--undo")[0] == 0
    code, _, err = run("index", "diff", "manual", "1", "7")
    assert code == 1 and "generation 7" in err and "next:" in err


def test_check_exits_with_3_and_names_the_cure(indexed, run):
    code, out, _ = run("index", "check", "--read-data", "1/1")
    assert code == 0 and "generation 1 is sound" in out
    (vectors,) = (indexed / "index" / "manual").glob("*.f32")
    raw = bytearray(vectors.read_bytes())
    raw[11] ^= 1
    vectors.write_bytes(raw)
    code, out, err = run("index", "check", "manual", "--read-data", "1/1")
    assert code == 3 and "crc" in out and "next: ragstream ingest manual --rebuild" in err
    code, out, _ = run("index", "check", "--json")
    assert code == 3 and json.loads(out)[0]["findings"][0]["run"]
    assert run("ingest", "manual", "--rebuild")[0] == 0
    assert run("index", "check", "--read-data", "1/1")[0] == 0


@pytest.mark.parametrize("words", [("--read-data", "2/1"), ("--read-data", "x"), ("nobody",)])
def test_check_refuses_what_it_cannot_check(indexed, run, words):
    code, _, err = run("index", "check", *words)
    assert code == 2 and err.startswith("error:")


def test_check_heals_derived_files_by_itself(indexed, run):
    (indexed / "index" / "manual" / "file_manifest.json").write_text("{}")
    code, _, err = run("index", "check")
    assert code == 0 and "file_manifest.json" in err and "made again" in err


def test_gc_says_what_it_frees(indexed, run, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_INGESTION__RETAIN_GENERATIONS", "1")
    code, out, _ = run("index", "gc", "--dry-run")
    assert code == 0 and "would free about" in out
    code, out, _ = run("index", "gc", "manual")
    assert code == 0 and "freed" in out
    assert json.loads(run("index", "gc", "--json")[1])[0]["generations"] == []


def test_backup_and_restore_there_and_back(indexed, run, tmp_path):
    code, out, err = run("backup", str(tmp_path / "copy"), "--documents")
    assert code == 0 and "verified" in out, err
    code, _, err = run("backup", str(tmp_path / "copy"))
    assert code == 3 and "--force" in err
    assert run("restore", str(tmp_path / "copy"))[0] == 0  # all of it is there already
    (indexed / "doc_raw" / "manual" / "more.md").write_text("# More\n\ncame in later\n")
    assert run("ingest", "manual")[0] == 0
    code, _, err = run("restore", str(tmp_path / "copy"))
    assert code == 3 and "--force" in err
    code, out, err = run("restore", str(tmp_path / "copy"), "--data", str(tmp_path / "other"))
    assert code == 0 and "manual: generation 1" in out, err
    code, out, _ = run("status", "manual", "--data", str(tmp_path / "other"), "--json")
    assert code == 0 and json.loads(out)["projects"][0]["generation"] == 1
    assert run("restore", str(tmp_path))[0] == 2


def test_du_adds_up(indexed, run):
    code, out, _ = run("du")
    assert code == 0 and "documents" in out and "vectors" in out and "free" in out
    used = json.loads(run("du", "--json")[1])
    assert used["total"] == sum(area["bytes"] for area in used["areas"])


def test_forget_refuses_then_erases(indexed, run):
    ask(run)
    code, _, err = run("forget", "guide/locks.md", "-p", "manual")
    assert code == 3 and "--delete" in err
    code, out, err = run("forget", "guide/locks.md", "-p", "manual", "--delete")
    assert code == 0 and "is erased from 1 generation of" in out, err
    assert "removed prompts/" in out
    files = [p for p in indexed.rglob("*") if p.is_file()]
    assert not [p for p in files if b"restricts a prompt to the files you inject" in p.read_bytes()]
    code, out, _ = run("forget", "guide/locks.md", "-p", "manual")  # as after a kill
    assert code == 0 and "was erased from manual before" in out
    code, _, err = run("forget", "guide/lock.md", "-p", "manual")
    assert code == 2 and "no generation" in err


def test_status_says_why_a_catalog_cannot_be_read_and_what_to_run(indexed, run):
    (indexed / "index" / "manual" / "catalog.sqlite").write_bytes(b"garbage" * 4096)
    code, out, _ = run("status")
    assert code == 0
    assert "manual: the catalog cannot be read: " in out and "catalog.sqlite is damaged" in out
    assert out.count("next:") == 1 and "next: ragstream ingest manual --rebuild" in out
    code, _, err = run("ingest", "manual", "--rebuild")
    assert code == 0, err
    assert "cannot be read" not in run("status")[1]


def test_prompts_gc_drops_what_nobody_keeps(indexed, run):
    lost, kept = ask(run), ask(run, "Who holds the lock?")
    assert run("keep", kept[:8])[0] == 0
    for key in (lost, kept):
        os.utime(indexed / "prompts" / key / "record.json", (5e8, 5e8))
    code, out, _ = run("prompts", "gc", "--dry-run")
    assert code == 0 and "1 prompt," in out and "would free" in out
    code, out, _ = run("prompts", "gc", "--json")
    assert code == 0 and json.loads(out)["prompts"] == [lost]
    assert run("explain", lost[:12])[0] == 2 and run("replay", kept[:12])[0] == 0
    assert run("prompts", "gc")[1].startswith("0 prompts")
