"""Runs of Dagster as `--dagster` makes them, and a run again from one of its steps."""

import dagster as dg

from ragstream_app.server import dagster_runs
from ragstream_assets.definitions import defs
from ragstream_assets.documents import IngestConfig
from ragstream_assets.resources import adopt


def record_prompt(space, request, *, now=None, fresh=True):
    """Make a prompt by its job; the chain runs unless ``fresh=False`` is said."""
    return dagster_runs.prompt(space, request, now=now, fresh=fresh)


def record_ingest(space, project, *, progress=None, **given):
    """Ingest by the job; return what it did, and its run."""
    return dagster_runs.ingest(space, project, IngestConfig(**given), progress=progress)


def job():
    """Return the job of a prompt, as a process of Dagster's finds it."""
    return defs.resolve_job_def("build_prompt")


def run_steps(space, home, config, *, parent="", steps=()):
    """Run the job as the Launchpad does, or some steps of a run again; return its run."""
    ops = {op: {"config": given} for op, given in config.items()}
    with dg.execute_job(
        dg.reconstructable(job),
        instance=home,
        run_config={"resources": {"workspace": {"config": adopt(space)}}, "ops": ops},
        reexecution_options=dg.ReexecutionOptions(parent, list(steps)) if parent else None,
    ) as result:
        return home.get_run_by_id(result.run_id)


def config_of(home, run_id):
    """Return op → config of a run."""
    return {op: told["config"] for op, told in home.get_run_by_id(run_id).run_config["ops"].items()}
