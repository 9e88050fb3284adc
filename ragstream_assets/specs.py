"""How an asset of ours is declared: two-level key, one owner, an edge to the one before it."""

import dagster as dg

OWNERS = ["team:ragstream"]


def asset_spec(
    key: tuple[str, str], description: str, kind: str, *, after: str = "", version: str = "1"
) -> dg.AssetSpec:
    """Return the spec of one asset.

    Args:
        key: Its group and its name.
        description: What it holds, for people.
        kind: What it is made of, e.g. ``sqlite``; the UI shows an icon.
        after: Name of the asset in its group that it is made from.
        version: Code version.
    """
    group, _ = key
    return dg.AssetSpec(
        list(key),
        description=description,
        deps=[dg.AssetKey([group, after])] if after else [],
        group_name=group,
        kinds={kind},
        owners=OWNERS,
        code_version=version,
    )
