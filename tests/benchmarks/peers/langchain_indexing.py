"""LangChain's indexing API over a folder: SQL record manager, fixed vectors.

python langchain_indexing.py DOCS STATE memory|disk

In memory the vectors are lost at the end, which is less than a user of it pays; on disk they go to
Chroma.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from langchain_classic.indexes import SQLRecordManager, index
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore


class Fixed(Embeddings):
    """One vector for every text."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a row a text."""
        return [[1.0] + [0.0] * 383 for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return a row."""
        return self.embed_documents([text])[0]


def documents(docs: Path) -> Iterator[Document]:
    """Yield the pieces of every file, 1,000 characters each."""
    for path in sorted(docs.rglob("*.md")):
        text, name = path.read_text(encoding="utf-8"), str(path.relative_to(docs))
        for at in range(0, len(text), 1000):
            yield Document(text[at : at + 1000], metadata={"source": name, "at": at})


def store_at(folder: Path) -> VectorStore:
    """Return a Chroma store."""
    from langchain_chroma import Chroma

    return Chroma("bench", embedding_function=Fixed(), persist_directory=str(folder))


docs, state = map(Path, sys.argv[1:3])
store = InMemoryVectorStore(Fixed()) if sys.argv[3] == "memory" else store_at(state / "chroma")
state.mkdir(parents=True, exist_ok=True)
records = SQLRecordManager("bench", db_url=f"sqlite:///{state}/records.sqlite")
records.create_schema()
print(
    index(
        documents(docs),
        records,
        store,
        cleanup="full",
        source_id_key="source",
        key_encoder="sha256",
        batch_size=1000,
    )
)
