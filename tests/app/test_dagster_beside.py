"""Faces work in the library; `--dagster` executes the real job, and gives the same."""

import json

import pytest

FACES = ("ragstream_app.cli.main", "ragstream_app.page.main", "ragstream_app.mcp.stdio",
         "ragstream_app.api.server", "ragstream_core.library")  # fmt: skip
QUESTION = "How does the exact file lock restrict a prompt?"
RUN = """
import sys
from ragstream_app.cli.main import main
code = main(sys.argv[1:])
print("DAGSTER" if "dagster" in sys.modules else "WITHOUT", file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture
def recording(data, recording):
    return data


def runs(data):
    from ragstream_assets.instance import instance_of

    return instance_of(data).get_runs()


@pytest.mark.parametrize("face", FACES)
def test_no_face_imports_dagster(environment, spawn, face):
    done = spawn(code=f"import sys, {face}; print('dagster' in sys.modules)")
    assert done.stdout.strip().endswith("False"), done.stderr


def test_no_work_of_a_face_imports_dagster(data, spawn, monkeypatch):
    for words in (
        ["ingest", "manual"],
        ["prompt", QUESTION, "-p", "manual"],
        ["prompt", QUESTION, "-p", "manual", "--fresh"],
        ["ask", QUESTION, "-p", "manual"],
        ["rerun", "latest", "a3"],
        ["ingest", "manual", "--verify"],
    ):
        done = spawn(*words, code=RUN)
        assert done.returncode == 0 and "WITHOUT" in done.stderr, done.stderr
    assert not (data / "dagster_home").exists()


def test_by_the_job_bytes_and_key_are_the_same(recording, run):
    code, out, err = run("ingest", "manual", "--json", "--dagster")
    ingested = json.loads(out)
    assert code == 0 and ingested["run_id"] and ingested["generation"] == 1, err
    code, out, err = run("prompt", QUESTION, "-p", "manual", "--json", "--dagster")
    made = json.loads(out)
    assert code == 0 and made["run_id"] and made["timings_ms"], err
    assert {r.run_id for r in runs(recording)} == {ingested["run_id"], made["run_id"]}
    code, out, err = run("prompt", QUESTION, "-p", "manual", "--json")
    same = json.loads(out)
    assert same["from_record"] and same["prompt_key"] == made["prompt_key"]
    assert same["super_prompt"] == made["super_prompt"]
    fresh = json.loads(run("prompt", QUESTION, "-p", "manual", "--fresh", "--json")[1])
    assert fresh["super_prompt"] == made["super_prompt"] and fresh["run_id"] == ""
    again = json.loads(run("prompt", QUESTION, "-p", "manual", "--json", "--dagster")[1])
    assert again["from_record"] and again["super_prompt"] == made["super_prompt"]
    code, out, err = run("ask", QUESTION, "-p", "manual", "--dagster")
    assert code == 0 and out, err


def test_a_wrong_request_is_the_same_error_with_and_without_it(recording, run):
    for words in (["prompt", QUESTION, "-p", "manuals"], ["ingest", "manuals"]):
        plain, by_the_job = run(*words), run(*words, "--dagster")
        assert plain[0] == by_the_job[0] != 0 and plain[2] == by_the_job[2]


def test_without_dagster_installed_one_sentence_names_the_command(data, run, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *a: None if name == "dagster" else find(name, *a)
    )
    code, _, err = run("ingest", "manual", "--dagster")
    assert code != 0 and "--dagster needs Dagster" in err and "pip install 'dagster" in err


def test_a_configuration_that_names_the_setting_that_is_gone_is_told_so(data, run, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_DAGSTER__RECORD", "none")
    code, _, err = run("status")
    assert code == 2 and "dagster.record" in err and "Traceback" not in err


def test_scripts_that_name_the_option_that_is_gone_go_on(data, run):
    for words in (["ingest", "manual"], ["prompt", QUESTION, "-p", "manual"]):
        code, _, err = run(*words, "--no-record")
        assert code == 0 and "--no-record does nothing any more" in err
    assert "--no-record" not in run("prompt", "--help")[1]
