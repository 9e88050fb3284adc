"""Declares our assets and checks: a two-level key, one owner, an edge to the asset before it."""

import json
import warnings
from collections.abc import Sequence
from typing import Any

import dagster as dg

from ragstream_assets.metadata import table

# Dagster calls partitions of checks a preview (without them projects overwrite each other), and
# some more that we use a beta. It copies sensors on the thread that writes a run, so this is a
# filter and no `catch_warnings`.
for _category in (dg.BetaWarning, dg.PreviewWarning):
    warnings.filterwarnings("ignore", category=_category)

OWNERS = ["team:ragstream"]

# Metadata of an event: what it tells of, so that nothing is told twice.
EVENT_ID = "event_id"
# Of a run: what it works on, also where that is the conversations, which are no partition.
PROJECT_TAG = "ragstream/project"
projects = dg.DynamicPartitionsDefinition(name="project")

CURSOR_VERSION = 1


def read_cursor(text: str | None) -> dict[str, Any]:
    """Return what a sensor remembers; nothing for another version or damage."""
    try:
        data = json.loads(text or "")
    except ValueError:
        return {}
    is_ours = isinstance(data, dict) and data.pop("v", 0) == CURSOR_VERSION
    return data if is_ours else {}


def asset_spec(
    key: tuple[str, str],
    description: str,
    kind: str,
    *,
    after: str = "",
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
        code_version="1",
        skippable=skippable,
    )


def project_check(name: str, asset: dg.AssetKey, description: str) -> dg.AssetCheckSpec:
    """Return the spec of a check with a result for each project."""
    return dg.AssetCheckSpec(name, asset=asset, description=description, partitions_def=projects)


def check_result(
    name: str,
    asset: dg.AssetKey,
    columns: Sequence[str],
    findings: Sequence[Sequence[Any]],
    *,
    is_error: bool = True,
    **figures: Any,
) -> dg.AssetCheckResult:
    """Return the result of a check, which passes where there is no finding."""
    severity = dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN
    return dg.AssetCheckResult(
        passed=not findings,
        check_name=name,
        asset_key=asset,
        severity=severity,
        metadata={"findings": len(findings), "what": table(columns, findings), **figures},
    )
