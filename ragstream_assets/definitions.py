"""The code location `ragstream`: everything Dagster knows of this project, listed."""

import dagster as dg

from ragstream_assets.checks import index_checks
from ragstream_assets.chroma import chroma_check, chroma_collection
from ragstream_assets.documents import ingest, ingest_documents
from ragstream_assets.io_managers import STAGE_JSON, stage_json
from ragstream_assets.query_job import build_prompt
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.schedules import SCHEDULES, retention_job
from ragstream_assets.sensors import folder_sensor

defs = dg.Definitions(
    assets=[ingest, chroma_collection],
    asset_checks=[index_checks, chroma_check],
    jobs=[ingest_documents, build_prompt, retention_job],
    schedules=SCHEDULES,
    sensors=[folder_sensor],
    resources={"workspace": WorkspaceResource(), STAGE_JSON: stage_json},
    executor=dg.in_process_executor,
)
