"""What a store is called in messages, and the commands that mend it: projects and the history."""

from __future__ import annotations

from pathlib import Path


def is_history(index_dir: Path) -> bool:
    """Say whether a store is that of the conversations, ``<data>/history/index``."""
    return index_dir.parts[-2:] == ("history", "index")


def label(index_dir: Path) -> str:
    """Return what a store is called."""
    return "the history" if is_history(index_dir) else f"project {index_dir.name}"


def update_hint(index_dir: Path) -> str:
    """Return the command that brings a store up to date."""
    if is_history(index_dir):
        return "ragstream history embed"
    return f"ragstream ingest {index_dir.name}"


def rebuild_hint(index_dir: Path) -> str:
    """Return the command that makes a store anew."""
    if is_history(index_dir):
        return "ragstream history backfill --rebuild"
    return f"{update_hint(index_dir)} --rebuild"


def check_hint(index_dir: Path) -> str:
    """Return the command that checks a store and makes again what is derived from it."""
    return "ragstream index check" + ("" if is_history(index_dir) else f" {index_dir.name}")
