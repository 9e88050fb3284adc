"""What run config may say to each stage, its settings above all, as the Launchpad offers them.

A setting is offered with its meaning, values and default, and none is filled in by itself: what run
config does not name comes from ragstream.yaml. Any other setting of the chain is taken as well;
values are checked where all settings are.
"""

import dagster as dg

from ragstream_assets.recorder.chain_run import OWN
from ragstream_assets.recorder.requests import EXAMPLE, typed_config
from ragstream_core.prompts.chain import OPS
from ragstream_core.settings import SECTIONS, chain_keys
from ragstream_core.settings.values import default_of, values_of

FROM_RUN = "from_run"
FROM_RUN_MEANS = (
    "If an op subset begins here: the run, or its first 8 digits, whose stages before this one "
    "are taken over."
)


def stage_config(op: str) -> dict[str, dg.Field]:
    """Return what may be said to one stage.

    Args:
        op: Name of an op of the chain.
    """
    named = "`sha256:…` of what a person changed by hand in what this stage reads."
    fields = {"settings": settings_field(op), "edits": _text(named)}
    return fields if op == OPS[0] else {**fields, FROM_RUN: _text(FROM_RUN_MEANS)}


def request_config() -> dict[str, dg.Field]:
    """Return what may be said to the first stage; a typed prompt leaves run config at its start."""
    return {
        **typed_config(),
        "prompt_ref": dg.Field(
            dg.String,
            default_value=EXAMPLE,
            description="`sha256:…` of a request in the inbox, or `example`.",
        ),
        "now": _text("Time of the request, ISO 8601; empty: the present."),
        "time_zone": _text("Name of the zone that `now` is in."),
        "fresh": dg.Field(
            dg.Bool,
            default_value=False,
            description="Run the stages even if the kept prompt is unchanged.",
        ),
        **stage_config(OPS[0]),
    }


def _text(description: str) -> dg.Field:
    return dg.Field(dg.String, is_required=False, description=description)


def settings_field(op: str) -> dg.Field:
    """Return the config field ``settings`` of an op.

    Args:
        op: Name of an op of the chain.
    """
    offered = {
        name: dg.Field(dg.Any, is_required=False, description=described(name))
        for name in chain_keys()
        if name.startswith(OWN[op])
    }
    return dg.Field(
        dg.Permissive(offered),  # type: ignore[no-untyped-call]
        is_required=False,
        description="Settings that change from this stage on, e.g. `gate.theta: 0.1`.",
    )


def described(name: str) -> str:
    """Return a setting's meaning, what it may be and its default, on one line.

    Args:
        name: Dotted name of a setting.
    """
    section, _, key = name.partition(".")
    field = SECTIONS[section].model_fields[key]
    return f"{field.description} Takes: {values_of(field)}. Default: {default_of(field)}."
