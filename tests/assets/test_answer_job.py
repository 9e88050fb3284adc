"""The job `answer_question`: the chain, the model, the conversation, in one run."""

import dagster as dg
import pytest

from ragstream_core.conversations.journal.records import Asked, Turn
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.journal import journal
from tests.assets.executing import execute
from tests.model_server import serving
from tests.unit.models.chat.test_keys import CANARIES, PATHS

IMAGE = "![](http://127.0.0.1:3000/graphql?query=mutation)"


@pytest.fixture
def run(root, open_root, request_, script):
    """Runs the job with a scripted model; returns the result and the answer's metadata."""

    def call(*entries, request=request_, subset=None, **config):
        script(*entries)
        space = open_root(root)
        ingest_project(space, "demo")
        reference = space.store.put_request(request)
        ops = {"answer": config, **({} if subset else {OPS[0]: {"prompt_ref": reference}})}
        return space, execute(space, job="answer_question", ops=ops, op_selection=subset)

    return call


def metadata(result):
    (event,) = [e for e in result.events_for_node("answer") if e.event_type_value == "STEP_OUTPUT"]
    return {k: v.value for k, v in event.step_output_data.metadata.items()}


def records(space):
    return [entry.record for entry in journal(space).entries()]


def test_the_run_answers_and_keeps_the_turn_with_its_prompt(run):
    space, result = run({"say": f"It leaves a generation {IMAGE}."}, session="mine")
    assert result.success
    prompt = result.output_for_node(OPS[-1])
    question, turn = records(space)
    assert isinstance(question, Asked) and isinstance(turn, Turn)
    assert turn.session_id == "mine" and turn.asked == question.id
    assert space.store.record(turn.prompt_key).tokens == prompt.extras.token_tree.total
    shown = metadata(result)
    assert shown["status"] == "complete" and shown["model"] == "scripted"
    assert shown["input_tokens"] > 0 and shown["cost_usd"] == "0.000000"


def test_the_model_is_asked_again_about_the_prompt_of_an_earlier_run(run):
    space, first = run({"say": "It leaves a generation."})
    space, again = run({"say": "It leaves nothing."}, subset=["answer"], from_run=first.run_id[:8])
    assert again.success and metadata(again)["characters"] == len("It leaves nothing.")
    turns = [record for record in records(space) if isinstance(record, Turn)]
    assert len(turns) == 2 and len({turn.prompt_key for turn in turns}) == 1


@pytest.mark.parametrize("failure", ["unreachable", "busy", "refused", "timeout", "broken"])
def test_a_model_that_fails_leaves_a_run_that_says_so(run, failure):
    space, result = run({"fail": failure})
    assert result.success
    shown = metadata(result)
    assert shown["status"] == "failed" and shown["characters"] == 0 and failure in shown["warnings"]
    assert [type(record) for record in records(space)] == [Asked]


def test_where_nothing_may_be_kept_no_run_answers(run):
    request = PromptRequest("Which lock?", ("demo",), settings={"history.persist": "false"})
    space, result = run({"say": "The lock."}, request=request)
    assert not result.success and records(space) == []


def test_a_key_is_in_no_run_config_event_record_or_log(
    root, open_root, request_, tmp_path, monkeypatch
):
    """Each canary meets one failure, each failure two canaries; the Debug Logger writes all."""
    monkeypatch.setenv("RAGSTREAM_PROVIDER__MODEL", "toy")
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BUDGET_S", "3")
    monkeypatch.setenv("RAGSTREAM_DEBUG__ENABLED", "true")
    monkeypatch.setenv("RAGSTREAM_DEBUG__VARS_ENABLED", "true")
    monkeypatch.setenv("RAGSTREAM_DEBUG__MIN_LEVEL", "DEBUG")
    ingest_project(open_root(root), "demo")
    sent, said, home = [], [], tmp_path / "dagster"
    home.mkdir()
    with serving() as server, dg.DagsterInstance.local_temp(str(home)) as instance:
        monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", server.url)
        for n, canary in enumerate(CANARIES):
            monkeypatch.setenv("RAGSTREAM_PROVIDER__API_KEY", canary)
            server.answers[:] = [list(PATHS.values())[n % len(PATHS)]]
            space = open_root(root)
            reference = space.store.put_request(request_)
            ops = {OPS[0]: {"prompt_ref": reference}}
            result = execute(space, instance, job="answer_question", ops=ops)
            assert metadata(result)["status"] == "failed"
            sent.append(server.seen[-1][1]["authorization"])
            said.append(str(instance.get_run_by_id(result.run_id)))
            said += [entry.to_json() for entry in instance.all_logs(result.run_id)]
    assert sent == [f"Bearer {canary}" for canary in CANARIES]
    files = [p for top in (root, tmp_path) for p in top.rglob("*") if p.is_file()]
    written = b"\0".join(path.read_bytes() for path in files)
    assert len(said) > 200 and b"answer_question" in written
    assert any("debug_vars" in path.name for path in files)
    found = [c for c in CANARIES if c.encode() in written or c in "\n".join(said)]
    assert not found
