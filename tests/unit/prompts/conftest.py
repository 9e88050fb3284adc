"""A small workspace with the hashed embedder: fast, and every stage is the real one."""

import pytest

from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.workspace import open_workspace

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


def write_docs(root, project="demo", docs=None):
    for name, text in (docs or DOCS).items():
        path = root / "doc_raw" / project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def workspace(tmp_path):
    write_docs(tmp_path)
    space = open_workspace(tmp_path, explicit={"embeddings.backend": "hashed"})
    ingest_project(space, "demo")
    return space
