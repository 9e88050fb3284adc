"""Declares our assets and checks: a two-level key, one owner, an edge to the asset before it."""

import warnings

import dagster as dg

OWNERS = ["team:ragstream"]
EVENT_ID = "event_id"
"""Metadata of an event: what it tells of, so that nothing is told twice."""
PROJECT_TAG = "ragstream/project"
"""Of a run: what it works on, also where that is the conversations, which are no partition."""
projects = dg.DynamicPartitionsDefinition(name="project")


def asset_spec(
    key: tuple[str, str],
    description: str,
    kind: str,
    *,
    after: str = "",
    version: str = "1",
    skippable: bool = False,
) -> dg.AssetSpec:
    """Return the spec of one asset."""
    group, _ = key
    return dg.AssetSpec(
        list(key),
        description=description,
        deps=[dg.AssetKey([group, after])] if after else [],
        group_name=group,
        kinds={kind},
        owners=OWNERS,
        code_version=version,
        skippable=skippable,
    )


def partitioned_check(
    name: str, asset: dg.AssetKey, description: str, partitions: dg.PartitionsDefinition[str]
) -> dg.AssetCheckSpec:
    """Return the spec of a check with a result for each partition."""
    with warnings.catch_warnings():
        # Dagster calls partitions of checks a preview; without them projects overwrite each other.
        warnings.simplefilter("ignore")
        return dg.AssetCheckSpec(
            name, asset=asset, description=description, partitions_def=partitions
        )
