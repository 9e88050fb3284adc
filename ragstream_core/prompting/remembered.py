"""Project Memory as a prompt shows it: the project's own, then what is remembered (R-259, C-48)."""

from __future__ import annotations

from collections.abc import Mapping

PINNED = {"user": "user_memory", "company": "company_memory"}
"""Whom facts are about → the name of their pinned text."""
_LABELS = {
    "company_memory": "About the company (COMPANY_MEMORY.md):",
    "user_memory": "About the user (USER_MEMORY.md):",
}


def project_memory(texts: Mapping[str, str]) -> str:
    """Return the text of the block PROJECT MEMORY; empty where there is nothing to say.

    Args:
        texts: The pinned ones: ``project_memory`` and perhaps those of `PINNED`, which are
            bullets that were made harmless when they were pinned.
    """
    parts = [texts.get("project_memory", "").rstrip("\n")]
    parts += [f"{label}\n{texts[name]}" for name, label in _LABELS.items() if texts.get(name)]
    return "\n\n".join(part for part in parts if part.strip())
