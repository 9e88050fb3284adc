"""Replay gives the same bytes, reads neither rendering nor stage JSON, and says what is missing."""

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from ragstream_core.errors import IntegrityError, UnknownPrompt
from ragstream_core.index.view import open_view
from ragstream_core.prompts import replay
from ragstream_core.prompts.explain import load_decisions, ways
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring.kept_prompt import KeptPrompt
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from tests.workspaces import hashed_workspace, write_docs

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


def made(workspace, text="Who may write, and what is in settings.yaml?", **more):
    request = PromptRequest(text=text, projects=("demo",), **more)
    prompt = run_prompt(workspace, pin_inputs(workspace, request, NOW))
    return prompt, save_prompt(workspace, prompt)


def test_replay_is_identical_without_the_rendering(workspace):
    _, record = made(workspace)
    folder = workspace.store.root / record.prompt_key
    for name in ("super_prompt.md", "decisions.parquet"):
        (folder / name).unlink()
    shutil.rmtree(workspace.store.root / "runs", ignore_errors=True)
    assert replay_prompt(workspace, record.prompt_key[:8]).verdict == "identical"


def test_replay_is_identical_after_reingestion_and_after_later_generations(workspace, tmp_path):
    _, record = made(workspace)
    for path in (tmp_path / "doc_raw").rglob("*.*"):
        os.utime(path, (5, 5))
    ingest_project(workspace, "demo")
    assert replay_prompt(workspace, record.prompt_key).verdict == "identical"
    target = tmp_path / "doc_raw" / "demo"
    (target / "catalog.md").write_text("# Another catalog\n\nWriters are many now.\n")
    (target / "settings.yaml").write_text("changed: true\n")
    (target / "notes" / "limits.txt").unlink()
    assert ingest_project(workspace, "demo").generation == 2
    assert replay_prompt(workspace, record.prompt_key).verdict == "identical"


@pytest.mark.parametrize("extra", [{}, {"TZ": "Asia/Kathmandu"}, {"OPENBLAS_CORETYPE": "Haswell"}])
def test_replay_in_a_new_process(workspace, tmp_path, extra):
    _, record = made(workspace)
    code = (
        "import sys; from ragstream_core.wiring.workspace import open_workspace;"
        "from ragstream_core.services.replay import replay_prompt;"
        "w = open_workspace(sys.argv[1], explicit={'embeddings.backend': 'hashed'});"
        "print(replay_prompt(w, sys.argv[2]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), record.prompt_key],
        capture_output=True, text=True, env={**os.environ, **extra}, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "identical"


@pytest.mark.parametrize(
    "given",
    [
        {"retrieval.top_k": 1, "retrieval.dense_weight": 1.0, "retrieval.depth": 3},
        {"gate.theta": 0.99, "rerank.backend": "none", "agents.a3": False, "agents.a4": False},
        {"prompt.budget_tokens": 900, "prompt.block_order": "classic", "history.enabled": False},
    ],
)
def test_settings_of_today_do_not_reach_an_old_prompt(workspace, tmp_path, given):
    _, record = made(workspace)
    today = hashed_workspace(tmp_path, given)
    assert replay_prompt(today, record.prompt_key).verdict == "identical"
    assert made(today)[1].output_sha256 != record.output_sha256


def _leaves(value, way=()):
    rows = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in rows:
        if isinstance(inner, (dict, list)) and inner:
            yield from _leaves(inner, (*way, name))
        else:
            yield (*way, name)


def _altered(data, way):
    found = json.loads(json.dumps(data))
    at = found
    for name in way[:-1]:
        at = at[name]
    old = at[way[-1]]
    others = {str: f"{old}x", bool: old is False, float: 0.125}
    at[way[-1]] = old + 1 if type(old) is int else others.get(type(old), ["x"])
    return found


BESIDE = (
    "trail",
    "environment",
    "run_id",
    "timings_ms",
    "tokens",
    "notes",
    "resumed",
    "states_sha256",
)
"""What a record tells beside the key: it may differ from machine to machine."""
MAY_LACK = ("exchanges", "edits", "notes", "resumed", "states_sha256")
"""What a record of no such thing, or of an older version, leaves out."""


def test_no_altered_record_is_replayed_as_the_prompt_of_its_key(workspace):
    _, record = made(workspace)
    path = workspace.store.root / record.prompt_key / "record.json"
    data = json.loads(path.read_text())
    ways_in = list(_leaves(data))
    assert {way[0] for way in ways_in} == set(data) and len(ways_in) > 80
    for way in ways_in:
        path.write_text(json.dumps(_altered(data, way)))
        if way[0] in BESIDE:
            assert workspace.store.record(record.prompt_key).inputs == data["inputs"], way
            continue
        with pytest.raises(IntegrityError, match="altered|damaged|not"):
            workspace.store.record(record.prompt_key)
    for name in data:
        path.write_text(json.dumps({key: value for key, value in data.items() if key != name}))
        if name not in MAY_LACK:
            with pytest.raises(IntegrityError):
                workspace.store.record(record.prompt_key)
    for text in ("[]", "null", "{", '"', "\xff"):
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(IntegrityError, match="damaged"):
            workspace.store.record(record.prompt_key)


def test_a_missing_generation_and_missing_bytes_are_named(workspace, tmp_path):
    prompt, record = made(workspace)
    assert [f.path for f in prompt.extras.files] == ["settings.yaml"]
    blob = workspace.store.root / "blobs" / prompt.extras.files[0].sha256
    kept = blob.read_bytes()
    blob.unlink()
    verdict = replay_prompt(workspace, record.prompt_key)
    assert (verdict.verdict, "injected file" in verdict.reason) == ("input unavailable", True)
    blob.write_bytes(kept[:-1] + b"?")
    assert "digest" in replay_prompt(workspace, record.prompt_key).reason
    blob.write_bytes(kept)
    shutil.rmtree(tmp_path / "index")
    verdict = replay_prompt(workspace, record.prompt_key)
    assert verdict.verdict == "input unavailable"
    assert "demo" in verdict.reason


def test_other_bytes_are_a_defect_or_a_named_environment(workspace, monkeypatch):
    _, record = made(workspace)
    changed = json.loads(json.dumps(record.trail))
    changed[3][1] = "0" * 64
    forged = replay.PromptRecord(
        **{f: getattr(record, f) for f in record.__slots__} | {"output_sha256": "0" * 64,
                                                              "trail": changed}
    )  # fmt: skip
    from ragstream_core.wiring import prompt_inputs

    verdict = replay.replay(forged, lambda inputs: prompt_inputs.rerun(workspace, inputs))
    assert (verdict.verdict, verdict.first_difference) == ("defect", "retrieval")
    other = replay.PromptRecord(
        **{f: getattr(forged, f) for f in forged.__slots__}
        | {"environment": {**record.environment, "numpy": "0.1"}}
    )
    verdict = replay.replay(other, lambda inputs: prompt_inputs.rerun(workspace, inputs))
    assert verdict.verdict == "environment differs"
    assert "numpy: 0.1 then" in verdict.reason
    for code, said in (
        ({**record.inputs["code"], "retrieval": 0}, "stage retrieval: version 0 then, "),
        ("abc" + "0" * 61, "of a program that gave them no versions"),
    ):
        older = replace(forged, inputs={**forged.inputs, "code": code})
        verdict = replay.replay(older, lambda inputs: prompt_inputs.rerun(workspace, inputs))
        assert verdict.verdict == "environment differs"
        assert said in verdict.reason


def test_keys_prefixes_and_damage(workspace):
    with pytest.raises(UnknownPrompt, match="no prompt is kept yet"):
        workspace.store.find("latest")
    _, record = made(workspace)
    assert workspace.store.find(record.prompt_key[:6]) == record.prompt_key
    assert workspace.store.find("latest") == record.prompt_key
    assert workspace.store.find(record.prompt_key[:9].upper()) == record.prompt_key
    for wrong, said in (("abc", "first 6"), (record.prompt_key[:5], "first 6"), ("0" * 64, "no ")):
        with pytest.raises(UnknownPrompt, match=said):
            workspace.store.find(wrong)
    twin = workspace.store.root / (record.prompt_key[:-1] + "x")
    shutil.copytree(workspace.store.root / record.prompt_key, twin)
    with pytest.raises(UnknownPrompt, match="2 prompts") as error:
        workspace.store.find(record.prompt_key[:6])
    assert twin.name in error.value.hint
    shutil.rmtree(twin)
    path = workspace.store.root / record.prompt_key / "record.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "output_sha256": "0" * 64}))
    with pytest.raises(IntegrityError, match="was altered"):
        workspace.store.record(record.prompt_key)
    path.write_text("{")
    with pytest.raises(IntegrityError, match="damaged"):
        workspace.store.record(record.prompt_key)


def test_a_lost_ledger_is_made_again(workspace):
    _, record = made(workspace)
    kept = KeptPrompt(workspace, record).ledger
    path = workspace.store.root / record.prompt_key / "decisions.parquet"
    path.write_bytes(b"damaged")
    assert KeptPrompt(workspace, record).ledger == kept
    path.unlink()
    assert KeptPrompt.of(workspace, record.prompt_key[:8]).ledger == kept


def test_explain_tells_every_candidates_way(workspace):
    prompt, record = made(workspace)
    rows = load_decisions(workspace.store.root / record.prompt_key)
    table = ways(rows)
    assert {w.chunk_id for w in table if w.kept} == set(prompt.final_selection_ids)
    for way in table:
        stages = [s.stage for s in way.steps]
        assert stages[0] == "retrieval"
        assert len(stages) == len(set(stages))
        assert all(s.kept for s in way.steps[:-1])


def test_two_requests_with_equal_text_share_one_inbox_entry(workspace):
    request = PromptRequest("Who may write?", ("demo",))
    assert workspace.store.put_request(request) == workspace.store.put_request(request)
    assert workspace.store.request(workspace.store.put_request(request)) == request
    with pytest.raises(UnknownPrompt):
        workspace.store.request("sha256:" + "0" * 64)


def test_another_generation_under_the_same_number_is_named(workspace, tmp_path):
    _, record = made(workspace)
    shutil.rmtree(tmp_path / "index")
    (tmp_path / "doc_raw" / "demo" / "more.md").write_text("# More\n\nAnother generation one.\n")
    assert ingest_project(workspace, "demo").generation == 1
    verdict = replay_prompt(workspace, record.prompt_key)
    assert (verdict.verdict, "has changed" in verdict.reason) == ("input unavailable", True)


def test_other_receipts_are_not_identical(workspace):
    from ragstream_core.records import evolve
    from ragstream_core.wiring import prompt_inputs

    _, record = made(workspace)

    def forgetful(inputs):
        prompt = prompt_inputs.rerun(workspace, inputs)
        other = evolve(prompt)
        other.extras.files = ()
        return other

    assert replay.replay(record, forgetful).verdict == "defect"


def test_a_vector_damaged_while_it_was_written_is_made_anew_before_the_commit(
    tmp_path, monkeypatch
):
    from ragstream_core.index import vectors

    real, calls = vectors.pwrite_durable, []

    def flipped(path, data, *, offset):
        calls.append(path)
        real(path, bytes([data[0] ^ 1]) + data[1:] if len(calls) == 1 else data, offset=offset)

    monkeypatch.setattr(vectors, "pwrite_durable", flipped)
    write_docs(tmp_path)
    space = hashed_workspace(tmp_path)
    assert "1 damaged" in ingest_project(space, "demo").warnings[0]
    assert len(open_view(space.index_dir("demo")).chunk_ids) > 1
