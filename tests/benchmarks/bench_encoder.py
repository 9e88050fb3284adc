"""The encoder beside sentence-transformers: CPU seconds for the same chunks, run in turn.

python -m tests.benchmarks.bench_encoder
"""

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from ragstream_core.text.tokenizer import TokenOffsets
from tests.benchmarks.measure import cpu, table

ROOT = Path(__file__).parents[2]


def chunks(token_offsets: TokenOffsets, limit: int = 60) -> list[str]:
    """Return chunk texts of the handbook."""
    from ragstream_core.text.chunk_profiles import chunk_profile
    from ragstream_core.text.chunker import Chunker

    chunker = Chunker(chunk_profile("default"), token_offsets=token_offsets)
    texts: list[str] = []
    for path in sorted((ROOT / "data" / "doc_raw" / "handbook").glob("*.md")):
        texts += [p.chunk_text for p in chunker.chunk(path.read_text(), file_type="md")]
    return texts[:: max(1, len(texts) // limit)][:limit]


def report() -> str:
    """Measure; return the Markdown section."""
    from ragstream_core.config import quiet_environment
    from ragstream_core.models.embedders.onnx_encoder import open_model
    from ragstream_core.models.embedders.registry import EmbeddingOptions, create_embeddings

    quiet_environment()
    with tempfile.TemporaryDirectory() as folder:
        onnx = open_model(Path(folder))
        int8 = open_model(Path(folder), precision="int8")
        torch = create_embeddings(
            "sentence_transformers", EmbeddingOptions(models_dir=Path(folder), device="cpu")
        )
        texts = chunks(onnx.token_offsets)
        times: dict[str, list[float]] = {"onnx": [], "int8": [], "torch": []}
        walls = []
        for _ in range(3):
            started = time.perf_counter()
            times["onnx"].append(cpu(lambda: onnx.embed_documents(texts)))
            walls.append(time.perf_counter() - started)
            times["int8"].append(cpu(lambda: int8.embed_documents(texts)))
            times["torch"].append(cpu(lambda: torch.embed_documents(texts)))
        exact, rounded = onnx.embed_documents(texts), int8.embed_documents(texts)
        apart = float(np.abs(exact - torch.embed_documents(texts)).max())
    mine, small, other = (statistics.median(each) for each in times.values())
    cosines = np.sum(exact * rounded, axis=1)
    rows = [
        ["onnxruntime, one text a call", f"{len(texts) / mine:.1f}",
         f"{len(texts) / statistics.median(walls):.1f}"],
        ["the same, `embeddings.precision: int8`", f"{len(texts) / small:.1f}",
         f"{mine / small:.2f} ×; cosine with float32 {cosines.mean():.4f}, at least "
         f"{cosines.min():.4f}"],
        ["sentence-transformers", f"{len(texts) / other:.1f}", ""],
        ["ratio", f"{other / mine:.2f} ×", f"largest difference of a component {apart:.1e}"],
    ]  # fmt: skip
    return "## Encoder\n\n" + table(
        ["backend", "chunks per CPU s", "chunks per s, all cores; beside it"], rows
    )


if __name__ == "__main__":
    print(report())
