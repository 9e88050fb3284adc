"""The commands that follow a prompt back: what people see, what `--json` says, and exit codes."""

import json
from collections import Counter

import pytest

QUESTION = "How does the exact file lock restrict a prompt?"


def made(run, *more: str, question: str = QUESTION) -> dict:
    code, out, err = run("prompt", question, "-p", "manual", "--json", *more)
    assert code == 0, (out, err)
    return json.loads(out)


@pytest.fixture
def key(indexed, run) -> str:
    return made(run)["prompt_key"]


def as_json(run, *words: str) -> dict:
    code, out, err = run(*words, "--json")
    assert code in (0, 3), (out, err)
    return json.loads(out)


def test_explain_shows_the_scores_and_ranks_of_every_candidate(key, run):
    code, out, _ = run("explain", key)
    head, columns, first, *_ = out.splitlines()
    assert code == 0 and " candidates are in it" in head
    assert columns.split()[:5] == ["dense", "lexical", "score", "rerank", "cosine"]
    shown = as_json(run, "explain", key)
    assert shown["locked"] is False
    best = shown["candidates"][0]["steps"][0]["scores"]
    for name in ("dense", "lexical", "score", "best_cosine"):
        assert f"{best[name]:.3f}" in first
    code, out, _ = run("explain", key, "--chunk", "locks.md")
    assert "best_cosine" in out and "verified" in out


def test_a_fallback_is_said_by_the_prompt_and_by_its_explanation(indexed, run, script):
    script({"say": '{"facts": ['})
    found = made(run, "--set", "agents.a4_form=llm")
    assert any("fallback=SAF-A1" in warning for warning in found["warnings"])
    (call,) = as_json(run, "explain", found["prompt_key"])["llm"]["calls"]
    assert (call["taken"], call["instead"]) == (False, "SAF-A1") and call["reason"]
    _, out, err = run("explain", found["prompt_key"])
    assert f"not taken ({call['reason']}): SAF-A1" in out + err


def test_what_explain_shows_can_be_asked_about(key, run):
    shown = as_json(run, "explain", key)["candidates"]
    for line, way in zip(run("explain", key)[1].splitlines()[2:], shown, strict=True):
        name = line.split()[1]
        assert [as_json(run, "explain", key, "--chunk", name)["candidates"][0]] == [way]
        assert as_json(run, "trace", name, key)["id"] == way["chunk_id"]
        (verdict,) = as_json(run, "why-not", name, key)["verdicts"]
        assert (verdict["chunk_id"], verdict["kept"]) == (way["chunk_id"], way["kept"])


def test_explain_says_that_a_prompt_is_locked(indexed, run):
    locked = made(run, "--file", "settings.yaml", "--lock")["prompt_key"]
    code, out, _ = run("explain", locked)
    assert code == 0 and "Exact File Lock" in out and "0 of 0" not in out
    shown = as_json(run, "explain", locked)
    assert (shown["prompt_key"], shown["locked"], shown["candidates"]) == (locked, True, [])
    assert (shown["edits"], shown["parent"]) == ([], "")
    (file,) = shown["files"]
    assert file["short_id"] in out and "manual/settings.yaml" in out
    assert as_json(run, "trace", file["short_id"], locked)["sha256"] == file["sha256"]


def test_explain_says_where_candidates_ended_and_what_its_numbers_are(indexed, run):
    strict = ("--set", "gate.theta=1", "--set", "gate.keep_top=1", "--set", "retrieval.top_k=2")
    key = made(run, *strict, "--set", "rerank.backend=reembed")["prompt_key"]
    code, out, err = run("explain", key)
    head, _, *lines = out.splitlines()
    ends = Counter(way["steps"][-1]["stage"] for way in as_json(run, "explain", key)["candidates"])
    for stage in ("retrieval", "a3"):
        assert f"{ends[stage]} ended at {stage}" in head
    assert "–" not in lines[0], "no column is empty for a candidate that was reranked"
    assert all(word in err for word in ("dense", "rerank", "ranks"))


def test_explain_says_what_every_stage_reported(indexed, run):
    found = made(run, question="# Task\nWho locks? path:x.md\n# Ticket\n4711\n")
    rows = as_json(run, "explain", found["prompt_key"])["notes"]
    by_kind = {kind: [r for r in rows if r["kind"] == kind] for kind in ("event", "warning")}
    assert [f"{row['stage']}: {row['message']}" for row in by_kind["event"]] == found["events"]
    assert [row["message"] for row in by_kind["warning"]] == found["warnings"]
    assert any("Ticket" in row["message"] for row in by_kind["event"])
    assert any("'path:x.md'" in row["message"] for row in by_kind["warning"])
    _, out, err = run("explain", found["prompt_key"])
    assert all(row["message"] in err and row["message"] not in out for row in rows)


def test_what_the_agents_took_is_said_with_the_prompt(indexed, run, script):
    words = "the word intent is enough for the script"
    shape = {"intent": "locate", "domain": "storage", "deliverable": "answer"}
    script({"when": words, "say": shape}, {"say": "no JSON"})
    plain = made(run)["llm"]
    assert (plain["calls"], plain["input_tokens"], plain["cost_usd"]) == ([], 0, 0)
    asking = ["--set", "agents.a2_form=llm"]
    for question, taken in ((f"Who locks? {words}", True), ("Who locks?", False)):
        found = made(run, *asking, question=question)
        (call,) = found["llm"]["calls"]
        assert (call["op"], call["taken"]) == ("a2_prompt_shaper", taken)
        assert call["input_tokens"] == found["llm"]["input_tokens"] > 0 < call["output_tokens"]
        assert as_json(run, "explain", found["prompt_key"])["llm"] == found["llm"]
        for command in (["prompt", question, "-p", "manual", "--fresh", *asking],
                        ["explain", found["prompt_key"]]):  # fmt: skip
            _, _, err = run(*command)
            (line,) = [
                line for line in err.splitlines() if line.startswith("a2_prompt_shaper asked")
            ]
            assert f"{call['input_tokens']:,} + {call['output_tokens']:,} tokens · free" in line
            assert ("its answer was not taken" in line) is not taken


def test_diff_names_the_cause(key, run):
    other = made(run, "--off", "guide/locks.md")["prompt_key"]
    code, out, _ = run("diff", key[:8], other[:8])
    assert code == 0 and "- chunk guide/locks.md#0" in out
    assert "input off: caused all of it" in out and "input time" not in out
    found = as_json(run, "diff", key, other)
    assert set(found) == {"before", "after", "output", "causes", "environment", "documents"}
    code, out, _ = run("diff", key, key)
    assert code == 0 and "the same bytes" in out and "input" not in out
    assert run("diff", key, "000000")[0] == 2


def test_trace_goes_from_a_marker_to_the_ingest(key, run):
    text = (made(run)["super_prompt"]).splitlines()
    marker = next(line for line in text if "[source: " in line and line.startswith("| F1."))
    code, out, _ = run("trace", marker, key)
    assert code == 0 and "manual/guide/" in out and "generation  1" in out and "current" in out
    found = as_json(run, "trace", marker, key)
    assert found["issued"] and found["kind"] == "chunk" and found["generation"]["kept"]
    short = found["short_id"]
    for name in (marker, short, short[:6]):
        (way,) = as_json(run, "explain", key, "--chunk", name)["candidates"]
        assert way["chunk_id"] == found["id"]
    code, _, err = run("trace", "nothing", key)
    assert code == 2 and "ragstream explain" in err


def test_why_not_tells_stage_rule_and_distance(indexed, run):
    key = made(run, "--set", "retrieval.depth=1", "--set", "retrieval.top_k=1")["prompt_key"]
    code, out, _ = run("why-not", "settings.yaml", key)
    assert code == 0 and "not_listed" in out and "rank 1 has" in out
    (verdict,) = as_json(run, "why-not", "settings.yaml", key)["verdicts"]
    assert verdict["stage"] == "retrieval" and verdict["places"][0]["rank"] > 1
    assert f"({verdict['measure']})" in out and "is in the prompt" not in out
    assert "is in the prompt" in run("why-not", "guide/locks.md#0", key)[1]
    code, _, err = run("why-not", "guide/lock.md", key)
    assert code == 2 and "guide/locks.md" in err


def test_verify_prompt_takes_a_key_or_a_file_and_tells_by_its_exit_code(indexed, run, tmp_path):
    out_file = tmp_path / "prompt.md"
    code, _, err = run("prompt", QUESTION, "-p", "manual", "--file", "settings.yaml",
                       "--out", str(out_file))  # fmt: skip
    key = err.partition("key ")[2].split()[0]
    for what in (key, str(out_file)):
        code, out, _ = run("verify-prompt", what)
        assert code == 0 and "current     injected" in out
    (indexed / "doc_raw" / "manual" / "settings.yaml").write_text("other: true\n")
    code, out, err = run("verify-prompt", str(out_file))
    assert code == 3 and "changed     injected" in out and "1 of" in err
    states = {row["path"]: row["state"] for row in as_json(run, "verify-prompt", key)["files"]}
    assert states["settings.yaml"] == "changed" and states["guide/locks.md"] == "current"
    (tmp_path / "note.md").write_text("Nothing is framed here.\n")
    assert run("verify-prompt", str(tmp_path / "note.md"))[0] == 2
    assert run("verify-prompt", "000000")[0] == 2


def test_leave_one_out_has_a_row_for_each_selected_file(key, run):
    before = run("status", "--json")[1]
    found = as_json(run, "leave-one-out", key)
    assert {row["path"] for row in found["files"]} >= {"guide/locks.md"}
    code, out, _ = run("leave-one-out", key)
    assert code == 0 and len(out.splitlines()) == 2 + len(found["files"])
    assert run("status", "--json")[1] == before


def test_without_says_what_the_file_was_worth(key, run):
    found = made(run, "--without", "guide/locks.md")
    assert found["compared"]["without"] == ["manual/guide/locks.md"]
    assert found["compared"]["output"]["selection"]["removed"]
    assert not any(i.startswith("guide/locks.md::") for i in found["selection"])
    code, _, err = run("prompt", QUESTION, "-p", "manual", "--without", "guide/locks.md")
    assert code == 0 and "without manual/guide/locks.md: chunks -" in err
    code, _, err = run("prompt", QUESTION, "-p", "manual", "--without", "no-such.md")
    assert code == 2 and "no such file" in err
    early = made(run, "--without", "guide/locks.md", "--through", "retrieval")
    assert early["compared"]["output"]["selection"]["removed"]
    assert "compared" not in made(run)


def test_a_bundle_replays_in_an_empty_data_root(key, run, tmp_path, monkeypatch):
    path = tmp_path / "p.bundle"
    code, out, err = run("bundle", key, "--out", str(path))
    assert code == 0 and str(path) in out and "replay --bundle" in err and "secrets" not in err
    assert as_json(run, "bundle", key, "--out", str(path))["bytes"] == path.stat().st_size
    monkeypatch.setenv("RAGSTREAM_DATA_DIR", str(tmp_path / "empty"))
    assert run("replay", key)[0] == 2
    code, out, _ = run("replay", "--bundle", str(path))
    assert (code, out.split()[1]) == (0, "identical")
    assert as_json(run, "replay", key[:8], "--bundle", str(path))["verdict"] == "identical"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    code, _, err = run("replay", "--bundle", str(path))
    assert code == 3 and "tampered" in err
    assert run("replay")[0] == 2
    assert run("replay", "--bundle", str(tmp_path / "missing"))[0] == 2


def test_rerun_begins_at_a_stage_with_another_setting(key, run):
    found = as_json(run, "rerun", key, "a3", "--set", "gate.keep_top=1", "--set", "gate.theta=1")
    assert found["prompt_key"] not in ("", key) and found["super_prompt"]
    assert as_json(run, "diff", key, found["prompt_key"])["before"] != found["prompt_key"]
    assert as_json(run, "rerun", key[:8], "retrieval")["prompt_key"] == key
    code, out, _ = run("rerun", key, "a5")
    assert code == 0 and out.startswith("## [")
    for words in (("a9",), ("a3", "--set", "gate.nothing=1")):
        assert run("rerun", key, *words)[0] == 2


@pytest.mark.parametrize(
    ("stage", "setting", "begin"),
    [
        ("a3", "rerank.top_k=7", "reranker"),
        ("a4", "gate.theta=0.9", "a3_nli_gate"),
        ("prompt_builder", "retrieval.tau=3", "retrieval"),
        ("a5", "memory.cache=false", "a0_preprocessing"),
        ("a4", "history.days=400", ""),
    ],
)
def test_rerun_says_that_a_setting_made_no_difference_and_where_it_is_read(
    key, run, stage, setting, begin
):
    (said,) = as_json(run, "rerun", key, stage, "--set", setting)["warnings"]
    assert f"word for word the Super-Prompt of {key[:12]}" in said
    name = setting.partition("=")[0]
    there = f"{name} is read at {begin}: ragstream rerun {key[:12]} {begin}"
    assert (there in said) if begin else ("is read at" not in said)


def test_rerun_says_nothing_of_what_made_a_difference(key, run):
    other = as_json(run, "rerun", key, "a5", "--set", "prompt.block_order=classic")
    assert other["warnings"] == [] == as_json(run, "rerun", key, "a5")["warnings"]


def test_explain_shows_the_line_of_prompts_that_one_goes_on_from(key, run):
    def again(of, *words):
        return as_json(run, "rerun", of, *words)["prompt_key"]

    first = again(key, "a3", "--set", "gate.theta=0.9")
    second = again(first, "a5", "--set", "prompt.block_order=classic")
    line = as_json(run, "explain", second)["goes_on_from"]
    assert [row["prompt_key"] for row in line] == [first, key]
    assert line[0]["changes"] == [["a5_format_enforcer", "prompt.block_order", "classic"]]
    assert line[1]["changes"] == [["a3_nli_gate", "gate.theta", 0.9]]
    _, out, _ = run("explain", second)
    assert out.splitlines()[:2] == [
        f"goes on from {first[:12]}: prompt.block_order = classic from a5_format_enforcer on",
        f"goes on from {key[:12]}: gate.theta = 0.9 from a3_nli_gate on",
    ]
    assert as_json(run, "explain", key)["goes_on_from"] == []
