"""LlamaIndex's ingestion pipeline over a folder: docstore with upserts, mock embedding.

python llamaindex_pipeline.py DOCS STATE memory|disk

The cache is off. In memory the vectors are lost at the end, which is less than a user of it pays;
on disk they go to the JSON file of its own simple store.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llama_index.core import Document
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.schema import BaseNode, TextNode, TransformComponent
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore


class Slices(TransformComponent):
    """Pieces of 1,000 characters."""

    def __call__(self, nodes: Sequence[BaseNode], **given: Any) -> list[BaseNode]:
        """Return the pieces of all documents."""
        return [
            TextNode(
                text=node.text[at : at + 1000],
                relationships={"1": node.as_related_node_info()},
            )
            for node in nodes
            for at in range(0, len(node.text), 1000)
        ]


docs, state = map(Path, sys.argv[1:3])
kept, rows = state / "docstore.json", state / "vectors.json"
store = SimpleDocumentStore.from_persist_path(str(kept)) if kept.exists() else SimpleDocumentStore()
vectors = SimpleVectorStore.from_persist_path(str(rows)) if rows.exists() else SimpleVectorStore()
pipeline = IngestionPipeline(
    transformations=[Slices(), MockEmbedding(embed_dim=384)],
    docstore=store,
    vector_store=vectors,
    docstore_strategy=DocstoreStrategy.UPSERTS,
    disable_cache=True,
)
found = [
    Document(text=path.read_text(encoding="utf-8"), id_=str(path.relative_to(docs)))
    for path in sorted(docs.rglob("*.md"))
]
print(len(pipeline.run(documents=found)))
state.mkdir(parents=True, exist_ok=True)
store.persist(str(kept))
if sys.argv[3] == "disk":
    vectors.persist(str(rows))
