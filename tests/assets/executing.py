"""Runs jobs and assets of the definitions in this process, and reads what they leave."""

from ragstream_assets.definitions import defs
from ragstream_assets.resources import adopt


def execute(space, home=None, *, job="", ops=None, project="", **given):
    """Run a job, or chosen assets, over a workspace; return the result, whatever it is.

    Args:
        job: Its name; without one `asset_selection` has to be given.
        ops: The config of ops by their names.
        project: The partition to run, added to those that Dagster knows.
    """
    if project:
        home.add_dynamic_partitions("project", [project])
        given["partition_key"] = project
    config = {
        "resources": {"workspace": {"config": adopt(space)}},
        "ops": {name: {"config": values} for name, values in (ops or {}).items()},
    }
    known = defs.resolve_job_def(job) if job else defs.resolve_implicit_global_asset_job_def()
    options = {"instance": home, "run_config": config, "raise_on_error": False, **given}
    return known.execute_in_process(**options)


def values_of(event):
    """Return the metadata of a materialization as plain values."""
    return {name: value.value for name, value in event.materialization.metadata.items()}


def shown(result, key=None):
    """Return the metadata of the one materialization of a run, or of its one of an asset."""
    events = result.get_asset_materialization_events()
    (event,) = [e for e in events if key in (None, e.asset_key)]
    return values_of(event)


def checked(result):
    """Return what became of each check of a run."""
    return {e.check_name: e.passed for e in result.get_asset_check_evaluations()}
