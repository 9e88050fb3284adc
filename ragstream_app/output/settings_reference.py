"""The settings reference, generated from the field descriptions, so that it cannot go stale."""

from __future__ import annotations

from ragstream_core.settings import SECTIONS
from ragstream_core.settings.reading import TASKS
from ragstream_core.settings.values import default_of, values_of

INTRODUCTION = """# Settings reference

Every setting of RAGstream, generated from the code by `ragstream config reference`. What a layer
is and which one wins is told in [configuration](configuration.md). In the environment a setting is
`RAGSTREAM_`, its section, two underscores and its key, all in capitals:
`RAGSTREAM_RETRIEVAL__TOP_K=80`. On the command line it is `--set retrieval.top_k=80`.
"""
_RULE = "|---|---|---|---|"


def settings_reference() -> str:
    """Return the reference as one Markdown page: a table a section, then the task profiles."""
    parts = [INTRODUCTION]
    for section, model in SECTIONS.items():
        parts.append(f"## {section}\n\n{(model.__doc__ or '').strip()}\n")
        rows = [
            f"| `{section}.{key}` | {default_of(field)} | {values_of(field)} "
            f"| {field.description} |"
            for key, field in model.model_fields.items()
        ]
        parts.append("\n".join(["| setting | default | values | meaning |", _RULE, *rows, ""]))
    return "\n".join([*parts, _tasks()])


def _tasks() -> str:
    """Return the shipped task profiles; those of a settings file are the user's own."""
    rows = []
    for name, profile in sorted(TASKS.items()):
        changes = [f"`{s}.{k}={v}`" for s, values in profile.items() for k, v in values.items()]
        rows.append(f"| `{name}` | {', '.join(changes)} |")
    head = "## Task profiles\n\n`--task NAME` lays one of these over the settings.\n"
    return "\n".join([head, "| profile | sets |", "|---|---|", *rows, ""])
