"""The code location `ragstream`: everything Dagster knows of this project, listed."""

import warnings

import dagster as dg

from ragstream_assets.agent_logs_job import (
    AGENT_LOGS_SPEC,
    agent_logs_sensor,
    import_agent_logs,
)
from ragstream_assets.answer_job import ANSWERS_SPEC, answer_question
from ragstream_assets.asset_checks import history_checks, history_main_check, index_checks
from ragstream_assets.document_assets import (
    chroma_check,
    chroma_collection,
    ingest,
    ingest_documents,
    sync_documents,
)
from ragstream_assets.evaluation_assets import (
    ask_gold_questions,
    draw_heat_map,
    judge_answers,
    measure_gold_prompts,
    sweep_thresholds,
)
from ragstream_assets.events import PROMPTS_SPEC, made_elsewhere
from ragstream_assets.facts_job import FACTS_SPEC, IN_MEMORY, remember_facts
from ragstream_assets.history_assets import (
    embed_history,
    embed_months,
    observe_journal,
    publish_snapshot,
    reconcile_history,
    roll_up,
    seal_history_main,
    write_session_logs,
)
from ragstream_assets.io_managers import STAGE_JSON, stage_json
from ragstream_assets.map_asset import draw_map, draw_project_map
from ragstream_assets.query_job import build_prompt
from ragstream_assets.remote_assets import MIRROR
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.schedules import SCHEDULES, retention_job
from ragstream_assets.sensors import folder_sensor, journal_sensor
from ragstream_assets.test_spec_assets import test_spec, test_spec_check, write_test_spec
from ragstream_assets.weather_job import weather_report

# Dagster copies a sensor whose job takes a resource, and warns of the `owners` that it then sets
# itself. It does so on the thread that writes a run, so this is a filter and no `catch_warnings`.
warnings.filterwarnings("ignore", message="Parameter `owners` of init", category=dg.BetaWarning)

defs = dg.Definitions(
    assets=[
        ingest,
        chroma_collection,
        MIRROR,
        observe_journal,
        embed_months,
        publish_snapshot,
        write_session_logs,
        seal_history_main,
        roll_up,
        sweep_thresholds,
        draw_heat_map,
        judge_answers,
        measure_gold_prompts,
        ask_gold_questions,
        test_spec,
        draw_project_map,
        PROMPTS_SPEC,
        ANSWERS_SPEC,
        FACTS_SPEC,
        AGENT_LOGS_SPEC,
    ],
    asset_checks=[index_checks, chroma_check, history_checks, history_main_check, test_spec_check],
    jobs=[
        draw_map,
        ingest_documents,
        sync_documents,
        build_prompt,
        answer_question,
        remember_facts,
        import_agent_logs,
        retention_job,
        embed_history,
        reconcile_history,
        write_test_spec,
        weather_report,
    ],
    schedules=SCHEDULES,
    sensors=[made_elsewhere, folder_sensor, journal_sensor, agent_logs_sensor],
    resources={
        "workspace": WorkspaceResource(),
        STAGE_JSON: stage_json,
        IN_MEMORY: dg.mem_io_manager,
    },
    executor=dg.in_process_executor,
)
