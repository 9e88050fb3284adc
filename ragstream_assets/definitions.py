"""The code location `ragstream`: everything Dagster knows of this project, listed."""

import dagster as dg

from ragstream_assets import (
    documents,
    evaluation,
    events,
    extras,
    history,
    io_managers,
    prompts,
    schedules,
    sensors,
)
from ragstream_assets.resources import RUN, RunState, WorkspaceResource

defs = dg.Definitions(
    assets=[
        documents.ingest,
        documents.chroma_collection,
        history.observe_journal,
        history.embed_months,
        history.publish_snapshot,
        history.write_session_logs,
        history.seal_history_main,
        history.roll_up,
        evaluation.sweep_thresholds,
        evaluation.draw_heat_map,
        evaluation.judge_answers,
        evaluation.measure_gold_prompts,
        evaluation.ask_gold_questions,
        extras.test_spec,
        extras.draw_project_map,
        extras.FACTS_SPEC,
        sensors.AGENT_LOGS_SPEC,
        events.MIRROR,
        events.PROMPTS_SPEC,
        events.ANSWERS_SPEC,
    ],
    asset_checks=[
        documents.index_checks,
        documents.chroma_check,
        history.history_checks,
        history.history_main_check,
        extras.test_spec_check,
    ],
    jobs=[
        documents.ingest_documents,
        documents.sync_documents,
        history.embed_history,
        history.reconcile_history,
        prompts.build_prompt,
        prompts.answer_question,
        extras.draw_map,
        extras.write_test_spec,
        extras.remember_facts,
        sensors.import_agent_logs,
        extras.weather_report,
        schedules.retention_job,
    ],
    schedules=schedules.SCHEDULES,
    sensors=[
        events.made_elsewhere,
        sensors.folder_sensor,
        sensors.journal_sensor,
        sensors.agent_logs_sensor,
    ],
    resources={
        "workspace": WorkspaceResource(),
        RUN: dg.ResourceDefinition(lambda _: RunState()),
        io_managers.STAGE_JSON: io_managers.stage_json,
        extras.IN_MEMORY: dg.mem_io_manager,
    },
    executor=dg.in_process_executor,
)
