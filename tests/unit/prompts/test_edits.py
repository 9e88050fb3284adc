"""Edits by hand end to end: kept, replayed, compared, bundled, forgotten, sent as they stand."""

import dataclasses
import datetime as dt
import json
import shutil

import pytest

from ragstream_core.answers.answer import messages_of
from ragstream_core.errors import IntegrityError, UsageError
from ragstream_core.models.chat.scripted import ScriptedChat
from ragstream_core.prompts.chain import OPS, run_chain
from ragstream_core.prompts.edited_prompt import SUPER_PROMPT, broken_lines, split_system
from ragstream_core.prompts.edits import edited, run_edited
from ragstream_core.prompts.inputs import PromptRequest, begin
from ragstream_core.prompts.store import make_record
from ragstream_core.records import from_json, to_json
from ragstream_core.records.identity import digest_of, sha256_hex
from ragstream_core.services import edit_prompt
from ragstream_core.services.diff_prompts import ALL, diff
from ragstream_core.services.forget import forget
from ragstream_core.services.replay import replay_bundle, replay_prompt, write_bundle
from ragstream_core.services.what_if import leave_one_out
from ragstream_core.wiring.answering import answer, prepare
from ragstream_core.wiring.kept_prompt import KeptPrompt
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt, stages_of
from tests.model_server import DONE, STOP, event, events
from tests.workspaces import hashed_workspace

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
QUESTION = "Who holds the project lock of the catalog?"
SHAPED = OPS[2]
VALUES = {"intent": "compare", "audience": "auditors of banks", "format": "a table"}


def built(space, values=None, minutes=0, **more):
    """Return a finished prompt, with values edited after the shaper."""
    request = PromptRequest(text=QUESTION, projects=("demo",), **more)
    inputs = pin_inputs(space, request, NOW + dt.timedelta(minutes=minutes))
    shaped = run_chain(stages_of(space), begin(inputs), through=SHAPED)
    shaped = edited(shaped, values or {}, when=NOW.isoformat())
    return run_chain(stages_of(space), shaped, first=OPS[3])


def rewritten(space, words="Answer in one line.\n", **more):
    """Return a prompt whose text was edited, its key, and the key of the one before."""
    prompt = built(space, **more)
    before = save_prompt(space, prompt).prompt_key
    text = prompt.extras.super_prompt + words
    made, key = edit_prompt.edit(space, prompt, {SUPER_PROMPT: text})
    return made, key, before


def test_a_prompt_without_edits_has_the_key_it_always_had(workspace):
    record = save_prompt(workspace, built(workspace))
    assert record.edits == () and record.parent == ""
    assert record.prompt_key == digest_of([record.input_key, [], [], record.output_sha256])


def test_edited_headers_are_what_the_rest_of_the_chain_sees(workspace):
    plain, made = built(workspace), built(workspace, VALUES)
    text = made.extras.super_prompt
    assert "Audience: auditors of banks" in text and "Give the answer as a Markdown table." in text
    assert "weighs options evenly" in text and "weighs options" not in plain.extras.super_prompt
    assert made.extras.shape.intent == "compare"
    assert made.extras.query_pieces == plain.extras.query_pieces


@pytest.mark.parametrize("values", [VALUES, {"role": "a poet"}, {"domain": "security"}])
def test_replay_makes_the_edits_again_without_the_rendering(workspace, values):
    record = save_prompt(workspace, built(workspace, values))
    assert record.prompt_key != save_prompt(workspace, built(workspace)).prompt_key
    folder = workspace.store.root / record.prompt_key
    (folder / "super_prompt.md").unlink()
    (folder / "decisions.parquet").unlink()
    assert replay_prompt(workspace, record.prompt_key).verdict == "identical"
    assert workspace.store.record(record.prompt_key).edits == record.edits != ()
    assert KeptPrompt(workspace, record).ledger


def test_an_edited_text_is_a_prompt_of_its_own_and_replays(workspace):
    prompt, key, before = rewritten(workspace, values=VALUES)
    record = workspace.store.record(key)
    assert key != before and record.parent == before
    assert record.output_sha256 == sha256_hex(prompt.extras.super_prompt)
    folder = workspace.store.root / key
    assert (folder / "super_prompt.md").read_text() == prompt.extras.super_prompt
    shutil.rmtree(workspace.store.root / before)
    (folder / "super_prompt.md").unlink()
    assert replay_prompt(workspace, key).verdict == "identical"
    again = run_prompt(
        workspace,
        pin_inputs(workspace, PromptRequest(QUESTION, ("demo",)), NOW),
        edits=record.edits,
    )
    assert to_json(again)["extras"][SUPER_PROMPT] == prompt.extras.super_prompt
    assert again.extras.trail == prompt.extras.trail


def test_the_chain_and_the_edits_in_one_go_are_the_steps_by_hand(workspace):
    made = built(workspace, VALUES)
    inputs = pin_inputs(workspace, PromptRequest(text=QUESTION, projects=("demo",)), NOW)
    again = run_edited(stages_of(workspace), begin(inputs), made.extras.edits)
    assert to_json(again) == to_json(made)
    assert to_json(from_json(to_json(made))) == to_json(made)


def test_a_replay_whose_chain_makes_another_text_is_not_identical(workspace):
    prompt, _, _ = rewritten(workspace)
    record = make_record(
        prompt, environment=save_prompt(workspace, prompt).environment, timings_ms={}
    )
    edit = dataclasses.replace(record.edits[0], before=sha256_hex("another text"))
    made = [edit.after, edit.target, edit.before, sha256_hex(edit.value)]
    key = digest_of([record.input_key, [], [made], record.output_sha256])
    forged = dataclasses.replace(record, edits=(edit,), prompt_key=key)
    workspace.store.put(forged, prompt)
    assert replay_prompt(workspace, key).verdict == "defect"


def test_a_record_whose_edits_were_changed_is_refused(workspace):
    _, key, _ = rewritten(workspace)
    path = workspace.store.root / key / "record.json"
    data = json.loads(path.read_text())
    for changed in ([], [{**data["edits"][0], "value": "else"}], [{"target": "task"}], 5):
        path.write_text(json.dumps({**data, "edits": changed}))
        with pytest.raises(IntegrityError):
            workspace.store.record(key)


def test_diff_names_the_edits_as_the_cause(workspace):
    plain = save_prompt(workspace, built(workspace)).prompt_key
    shaped = save_prompt(workspace, built(workspace, VALUES)).prompt_key
    later = save_prompt(workspace, built(workspace, VALUES, minutes=1)).prompt_key
    found = diff(workspace, plain, shaped)
    assert [(row.input, row.effect) for row in found.causes] == [("edits", ALL)]
    assert "audience: as the chain made it → auditors of banks" in found.causes[0].details
    assert later == shaped
    assert diff(workspace, shaped, shaped).causes == []


def test_diff_of_an_edited_text_with_the_one_before(workspace):
    _, key, before = rewritten(workspace)
    found = diff(workspace, before, key)
    assert [(row.input, row.effect) for row in found.causes] == [("edits", ALL)]
    assert found.output.blocks == ("TASK",)


def test_a_bundle_carries_the_edits(workspace, tmp_path):
    _, key, _ = rewritten(workspace, values=VALUES)
    write_bundle(workspace, key, tmp_path / "p.bundle")
    empty = hashed_workspace(tmp_path / "two")
    found, verdict = replay_bundle(empty, tmp_path / "p.bundle")
    assert (found, verdict.verdict) == (key, "identical"), verdict


def test_a_forgotten_file_takes_the_edited_prompt_with_it(workspace, tmp_path):
    prompt, key, before = rewritten(workspace, values=VALUES)
    assert "One writer holds the project lock" in prompt.extras.super_prompt
    (blob,) = edit_prompt.put_edits(workspace, prompt).values()
    assert (workspace.store.root / "blobs" / blob.removeprefix("sha256:")).exists()
    forget(workspace, "demo", "catalog.md", delete=True)
    assert not (workspace.store.root / "blobs" / blob.removeprefix("sha256:")).exists()
    assert not (workspace.store.root / key).exists()
    assert not (workspace.store.root / before).exists()
    for path in workspace.store.root.rglob("*"):
        assert path.is_dir() or b"One writer holds" not in path.read_bytes()


def test_leave_one_out_compares_what_the_chain_makes_of_the_edits(workspace):
    _, key, _ = rewritten(workspace, values=VALUES)
    found = leave_one_out(workspace, key)
    assert found.files and all(not row.effect.error for row in found.files)
    assert "the edit of the finished text is left out" in found.note


def test_nothing_is_kept_of_edits_where_nothing_may_be(workspace):
    prompt = built(workspace, VALUES, settings={"history.persist": "false"})
    made, key = edit_prompt.edit(workspace, prompt, {SUPER_PROMPT: "Only this.\n"})
    assert key == "" and made.extras.super_prompt == "Only this.\n"
    assert not list(workspace.store.root.glob("*/record.json"))


def test_an_empty_text_is_refused_and_the_same_text_writes_nothing(workspace):
    prompt = built(workspace)
    with pytest.raises(UsageError, match="is empty"):
        edit_prompt.edit(workspace, prompt, {SUPER_PROMPT: " \n"})
    same, key = edit_prompt.edit(workspace, prompt, {SUPER_PROMPT: prompt.extras.super_prompt})
    assert same is prompt and key == "" and not workspace.store.keys()


CUTS = {
    "nothing": lambda text, mark: text,
    "a line on top": lambda text, mark: f"Hello.\n{text}",
    "a word in the rules": lambda text, mark: text.replace("Cite", "Name", 1),
    "no rules": lambda text, mark: text[text.index("S_CTX") - len(f"## [{mark}] ") :],
    "all of it": lambda text, mark: "What is the capital of France?",
    "blanks at the end": lambda text, mark: text + "  \n\n\t",
}


@pytest.mark.parametrize("cut", CUTS)
def test_what_a_model_gets_is_the_edited_text_byte_for_byte(workspace, server, cut, monkeypatch):
    server.answers = [events(event("Fine."), STOP, DONE)]
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", server.url)
    space = hashed_workspace(workspace.data_dir)
    prompt = built(space)
    mark = prompt.extras.fence.nonce
    wanted = CUTS[cut](prompt.extras.super_prompt, mark) + "One line more.\n"
    made, key = edit_prompt.edit(space, prompt, {SUPER_PROMPT: wanted})
    prepared = prepare(space, made, prompt_key=key)
    found = answer(space, prepared)
    sent = server.seen[-1][2]["messages"]
    assert "".join(message["content"] for message in sent) == wanted
    assert found.prompt_key == key and found.status == "complete"
    roles = [message["role"] for message in sent]
    assert roles == (["user"] if cut in ("no rules", "all of it") else ["system", "user"])


def test_no_quoted_line_stands_in_the_system_message_of_an_edited_text(workspace):
    made, _, _ = rewritten(workspace)
    system, user = messages_of(made, "documents")
    assert "<<DOC" not in system.text and "\n| " not in system.text
    assert "<<DOC" in user.text and system.text + user.text == made.extras.super_prompt


def test_citations_of_an_edited_text_are_checked_against_what_it_still_shows(workspace):
    prompt = built(workspace)
    issued = prepare(workspace, prompt, model=ScriptedChat()).issued
    gone = next(name for name, found in issued.items() if found.source == "catalog.md")
    kept = next(name for name in issued if name != gone)
    text = prompt.extras.super_prompt.replace(f'id="{gone}"', 'id="gone"')
    made, key = edit_prompt.edit(workspace, prompt, {SUPER_PROMPT: text})
    says = (
        f"So [source: catalog.md, chunk: {gone}] and [source: {issued[kept].source}, chunk: {kept}]"
    )
    found = prepare(workspace, made, prompt_key=key, model=ScriptedChat(entries=[{"say": says}]))
    assert set(found.issued) == set(issued) - {gone}
    known = {citation.id: citation.known for citation in answer(workspace, found).citations}
    assert known == {gone: False, kept: True}


def test_a_text_without_any_document_may_be_asked_and_cites_nothing(workspace):
    prompt = built(workspace)
    made, _ = edit_prompt.edit(
        workspace, prompt, {SUPER_PROMPT: "The sky is blue. What colour is it?"}
    )
    found = prepare(workspace, made, model=ScriptedChat(entries=[{"say": "Blue."}]))
    assert found.grounding == "memory" and found.issued == {}
    assert answer(workspace, found).text == "Blue."


def test_secrets_typed_into_the_text_are_found_before_it_is_sent(workspace):
    class Remote(ScriptedChat):
        is_local = False

    key = "AKIA" + "QX7PLM2ZR5T9VB3N"
    made, _, _ = rewritten(workspace, words=f"My key is {key}\n")
    assert prepare(workspace, made, model=Remote()).secrets
    (said,) = edit_prompt.doubts(made, quoted=lambda text: f"<{text}>")
    assert "secrets: <aws-key in " in said and key not in said


def unbarred(text):
    """Take the bar from the first quoted line of the first frame."""
    head, opening, rest = text.partition("<<DOC 1 ")
    return head + opening + rest.replace("\n| ", "\n", 1)


def test_doubts_name_broken_structure_and_the_budget_and_nothing_else(workspace):
    prompt = built(workspace)
    assert edit_prompt.doubts(prompt) == []
    fine, _, _ = rewritten(workspace)
    assert edit_prompt.doubts(fine) == []
    text = prompt.extras.super_prompt
    broken = edited(prompt, {SUPER_PROMPT: unbarred(text)})
    assert any("line" in said and "structure" in said for said in edit_prompt.doubts(broken))
    long = edited(prompt, {SUPER_PROMPT: text + "word " * 20_000})
    assert [said for said in edit_prompt.doubts(long) if "budget of 6,000" in said]
    assert long.extras.token_tree.total > 15_000


def test_every_kind_of_break_is_named_with_its_line(workspace):
    prompt = built(workspace)
    text, mark = prompt.extras.super_prompt, prompt.extras.fence.nonce
    assert broken_lines(text, mark) == []
    breaks = {
        "before the first section": "Hello\n" + text,
        "a section that no prompt has": text + f"## [{mark}] MINE\n",
        "mark outside": text + f"so {mark} it is\n",
        "without its bar": unbarred(text),
        "out of place": text.replace("<<DOC 1 ", "<<DOC 9 ", 1),
        "end is missing": text[: text.index("<<END DOC")],
    }
    for words, other in breaks.items():
        assert any(words in line for line in broken_lines(other, mark)), words
        assert "".join(split_system(other, mark)) == other
