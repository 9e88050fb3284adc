"""Small data roots with the hashed embedder: fast, and every stage is the real one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragstream_core.config import state_dir
from ragstream_core.platform import confirmed_files
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.records.super_prompt import SuperPrompt
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import Workspace, open_workspace

ROOT = Path(__file__).parents[1]
DOCS = {
    "catalog.md": "# The catalog\n\nThe catalog is a SQLite database. It holds every generation "
    "of the index, and one transaction is the commit. A reader never sees half of an ingest.\n\n"
    "## Locks\n\nOne writer holds the project lock. Other writers must wait or give up.\n",
    "retrieval.md": "# Retrieval\n\nThe dense signal is a cosine. The lexical signal is BM25. "
    "Both are scaled and added with equal weight.\n\n## Long questions\n\nA long question is cut "
    "into pieces, and LogAvgExp with tau nine joins their cosines.\n",
    "settings.yaml": "retrieval:\n  top_k: 50\n  dense_weight: 0.5\ngate:\n  theta: 0.25\n",
    "notes/limits.txt": "The token budget of a prompt is six thousand tokens. It must never be "
    "exceeded. Attachments take at most four thousand of them.\n",
}
QUESTION = "Who may write to the catalog?"


def confirm(path: Path) -> Path:
    """Let a file count as one that the person has confirmed; return it."""
    confirmed_files.confirm(state_dir(), path, path.read_bytes())
    return path


def write_docs(root: Path, project: str = "demo", docs: Mapping[str, str] | None = None) -> None:
    for name, text in (docs or DOCS).items():
        path = root / "doc_raw" / project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def hashed_workspace(root: Path, explicit: dict[str, Any] | None = None) -> Workspace:
    """Open a data root with settings by their dotted names; nothing is ingested."""
    return open_workspace(root, explicit={"embeddings.backend": "hashed", **(explicit or {})})


def ingested_workspace(
    root: Path,
    explicit: dict[str, Any] | None = None,
    docs: Mapping[str, str] | None = None,
) -> Workspace:
    """Write documents into the project ``demo`` and ingest it."""
    write_docs(root, docs=docs)
    space = hashed_workspace(root, explicit)
    ingest_project(space, "demo")
    return space


def ask(
    space: Workspace, text: str = QUESTION, projects: tuple[str, ...] = ("demo",), **more: Any
) -> SuperPrompt:
    """Return the finished prompt; nothing is kept."""
    request = PromptRequest(text=text, projects=projects, **more)
    return run_prompt(space, pin_inputs(space, request))


def ask_and_keep(
    space: Workspace, text: str = QUESTION, projects: tuple[str, ...] = ("demo",), **more: Any
) -> str:
    """Finish a prompt; return its key."""
    return save_prompt(space, ask(space, text, projects, **more)).prompt_key


def write_gold(root: Path, *rows: Mapping[str, object], project: str = "demo") -> Path:
    """Write the gold questions of a project; return their file."""
    path = root / "projects" / project / "gold.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def files_below(root: Path) -> dict[Path, tuple[bytes, int] | None]:
    """Every path with its bytes and the time of its last change; folders without either."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns) if path.is_file() else None
        for path in root.rglob("*")
    }


def docs_of(space: Workspace, project: str = "demo") -> Path:
    """The folder of a copied project."""
    return space.data_dir / "doc_raw" / project
