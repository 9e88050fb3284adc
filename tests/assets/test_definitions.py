"""The code location: what it holds, and what loading it costs."""

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from ragstream_assets.definitions import defs
from ragstream_assets.resources import adopt
from ragstream_core.prompts.chain import CHAIN, RERUN

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "chromadb", "onnxruntime", "sentence_transformers", "numpy", "pandas", "pyarrow")


def _loaded(code):
    script = f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert out.stderr == ""
    return set(json.loads(out.stdout.splitlines()[-1]))


def test_loading_imports_no_engine():
    assert not _loaded("import ragstream_assets.definitions") & set(HEAVY)


def test_asset_graph():
    graph = defs.resolve_asset_graph()
    edges = sorted(
        (parent.to_user_string(), key.to_user_string())
        for key in graph.get_all_asset_keys()
        for parent in graph.get(key).parent_keys
    )
    assert edges == [
        ("documents/chunks", "documents/embeddings"),
        ("documents/embeddings", "documents/index"),
        ("documents/file_manifest", "documents/chunks"),
        ("documents/index", "documentation/test_spec"),
        ("documents/index", "documents/chroma_collection"),
        ("documents/index", "evaluation/faithfulness"),
        ("documents/index", "evaluation/gold_questions"),
        ("documents/index", "evaluation/prompts"),
        ("documents/index", "inspection/map"),
        ("evaluation/threshold_sweep", "evaluation/heat_map"),
        ("history/embeddings", "history/snapshot"),
        ("history/journal", "history/embeddings"),
        ("history/snapshot", "history/chroma_collection"),
        ("history/snapshot", "history/digest"),
        ("history/snapshot", "history/session_logs"),
    ]
    assert sorted((k.asset_key.to_user_string(), k.name) for k in graph.asset_check_keys) == [
        ("documentation/test_spec", "every_referenced_requirement_exists"),
        ("documents/chroma_collection", "chroma_equals_the_index"),
        ("documents/embeddings", "no_truncated_input"),
        ("documents/embeddings", "vectors_are_finite_and_unit"),
        ("documents/file_manifest", "manifest_covers_the_folder"),
        ("documents/index", "ids_are_the_manifests"),
        ("documents/index", "retrieval_quality_is_kept"),
        ("evaluation/faithfulness", "answers_are_faithful"),
        ("history/chroma_collection", "history_main_equals_the_history"),
        ("history/embeddings", "no_turn_waits_over_a_day"),
        ("history/embeddings", "vectors_and_turns_are_sound"),
        ("history/journal", "journal_is_whole"),
        ("history/snapshot", "high_water_is_in_the_journal"),
        ("history/snapshot", "snapshot_is_fresh"),
        ("history/snapshot", "snapshot_is_readable"),
    ]
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert node.group_name == key.path[0]
        assert node.owners and node.kinds and node.description


def test_a_run_is_made_without_a_word_on_stderr():
    assert _loaded(
        "from ragstream_assets.definitions import defs; defs.resolve_job_def('build_prompt')"
    )


def test_partitions():
    graph = defs.resolve_asset_graph()
    found = {
        key.to_user_string(): graph.get(key).partitions_def for key in graph.get_all_asset_keys()
    }
    by_project = ("documents/", "documentation/", "inspection/", "remote/")
    projects = {key: each for key, each in found.items() if key.startswith(by_project)}
    assert {each.name for each in projects.values()} == {"project"}
    months = found["history/embeddings"]
    assert months.get_partition_keys(dt.datetime(2026, 11, 20, tzinfo=dt.UTC))[-1] == "2026-11"
    pairs = found["evaluation/threshold_sweep"]
    assert pairs.partition_dimension_names == ["relative", "theta"]
    gold = {"evaluation/faithfulness", "evaluation/gold_questions", "evaluation/prompts"}
    assert {found[key].name for key in gold} == {"project"}
    rest = (
        found.keys() - projects.keys() - gold - {"history/embeddings", "evaluation/threshold_sweep"}
    )
    assert {found[key] for key in rest} == {None}


def test_the_job_is_the_chain():
    job = defs.resolve_job_def("build_prompt")
    assert {n for n in job.graph.node_dict if n != "rerun"} == {spec.op for spec in CHAIN}
    assert tuple(job.graph.node_dict["rerun"].definition.node_dict) == RERUN
    for spec in CHAIN:
        assert job.graph.node_named(spec.op).definition.description == spec.summary


def test_the_executor_is_in_process_everywhere():
    for name in (
        "build_prompt", "answer_question", "ingest_documents", "embed_history", "reconcile_history",
    ):  # fmt: skip
        assert defs.resolve_job_def(name).executor_def.name == "in_process"


def test_workspace_yaml_names_the_location():
    entry = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"][0]["python_module"]
    assert entry == {"module_name": "ragstream_assets.definitions", "location_name": "ragstream"}


PARTITIONED = {spec.key for spec in defs.resolve_all_asset_specs() if spec.partitions_def}
PARTITIONED -= {dg.AssetKey(["documents", "chroma_collection"])}  # switched off in tests
PARTITIONED -= {dg.AssetKey(["remote", "mirror"])}  # an event of the ingest


@pytest.mark.parametrize("key", sorted(PARTITIONED), ids=dg.AssetKey.to_user_string)
def test_a_run_without_a_partition_says_that_it_needs_one(space, home, key):
    done = dg.materialize(
        [defs.resolve_assets_def(key)],
        instance=home,
        run_config={"resources": {"workspace": {"config": adopt(space)}}},
        raise_on_error=False,
    )
    (failed, *_) = [event for event in done.all_events if event.is_step_failure]
    said = failed.step_failure_data.user_failure_data
    assert said.description.startswith("no ") and " is chosen\nnext: launch" in said.description
    assert "as its partition" in said.metadata["next"].value
