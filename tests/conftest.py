"""Shared fixtures: documents with an index beside them, a counting embedder, a model's server."""

from __future__ import annotations

import functools
import gc
import hashlib
import itertools
import os
import shutil
import signal
from pathlib import Path

import pytest
import yaml
from hypothesis import settings

from ragstream_core.index.check import verify_structure
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.ingestion.document_tree import DocumentTree
from ragstream_core.ingestion.forecast import inspect
from ragstream_core.ingestion.ingestion_config import IngestionConfig
from ragstream_core.ingestion.ingestion_manager import IngestionManager
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.proposers.chroma import process
from ragstream_core.text.chunk_profiles import chunk_profile
from ragstream_core.text.chunker import Chunker
from tests import chroma_children
from tests.lengths import FULL
from tests.model_server import serving
from tests.processes import serving_threads

MODELS_AT = "RAGSTREAM_TEST_MODELS"
FORCES_COLOUR = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TTY_COMPATIBLE")
# What the person who runs the tests has set for themselves says nothing about the program.
for name in list(os.environ):
    if (name.startswith("RAGSTREAM_") and name != MODELS_AT) or name in FORCES_COLOUR:
        del os.environ[name]
# Two child processes an ingest would double the time of the tests; those of the collection ask.
os.environ.setdefault("RAGSTREAM_VECTOR_STORE__COLLECTION", "false")
# How long an example takes says how busy the machine is, and nothing about a law.
settings.register_profile("ragstream", deadline=None)
settings.load_profile("ragstream")
LONGEST = ("browser", "faults", "assets", "app", "docs", "properties", "contracts")
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 1 << 30


def pytest_configure(config):
    """Keep files in memory; where nothing is named, leave what takes long to `make test-all`.

    Nothing here outlives the machine, so a sync that reaches a disk only costs time: on a plain
    disk most of the time of all tests. The full form of the sweeps stays on the disk.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so starts a shell's background jobs
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what is started hears Ctrl-C
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES and not FULL:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    if not (named or config.option.markexpr or config.option.keyword):
        config.option.markexpr = "not slow"


def pytest_xdist_auto_num_workers():
    """Start one worker more than there are cores: tests wait for servers a fifth of their time."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_collection_finish():
    """Look less often for dead cycles, and not among the modules: a tenth of the time of all."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(tryfirst=True)  # before marks select
def pytest_collection_modifyitems(items):
    """Put folders with long files first: at the end no worker is left alone with minutes.

    Whatever drives a browser waits for servers and is `slow`.
    """
    places = {name: place for place, name in enumerate(LONGEST)}
    root = Path(__file__).parent

    def folder(item):
        return item.path.relative_to(root).parts[0]

    for item in items:
        if folder(item) == "browser":
            item.add_marker("slow")
    items.sort(key=lambda item: places.get(folder(item), len(LONGEST)))


@pytest.fixture(autouse=True, scope="session")
def nothing_confirmed(tmp_path_factory):
    """No file was confirmed before the tests, and none of theirs stays so on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True, scope="module")
def servers_end():
    """No server of a module outlives it: with its socket closed, its thread takes a core."""
    before = serving_threads()
    yield
    assert not serving_threads() - before, "a server was closed and not shut down"


@pytest.fixture(autouse=True, scope="module")
def forked_chroma():
    """Children that open Chroma are forked from one that has imported it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "subprocess", chroma_children.INSTEAD)
        yield


@pytest.fixture(scope="session")
def tables_read_once():
    """Dagster looks through sixty migrations for each run, and makes an engine for each event.

    One process needs them once; the rest is up to a third of what a recorded run takes. Engines
    hold no connection, and the tables themselves are made and read as ever.
    """
    from alembic.script import ScriptDirectory
    from dagster._core.storage.event_log.sqlite import sqlite_event_log
    from dagster._core.storage.runs.sqlite import sqlite_run_storage
    from dagster._core.storage.schedules.sqlite import sqlite_schedule_storage
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    engines = {}

    def engine_of(url, *, poolclass, connect_args=None):
        assert poolclass is NullPool, "an engine with connections of its own is not to be shared"
        key = url, *(connect_args or {}).items()
        if key not in engines:
            engines[key] = create_engine(url, poolclass=poolclass, connect_args=connect_args or {})
        return engines[key]

    with pytest.MonkeyPatch.context() as patch:
        once = functools.cache(ScriptDirectory.from_config)
        patch.setattr(ScriptDirectory, "from_config", once)
        for module in (sqlite_event_log, sqlite_run_storage, sqlite_schedule_storage):
            patch.setattr(module, "create_engine", engine_of)
        yield


class CountingEmbedder:
    """The hashed embedder, with a record of what it was given."""

    def __init__(self, fingerprint=None, dimension=None):
        self._inner = HashedEmbedder()
        self.name = self._inner.name
        self.fingerprint = fingerprint or self._inner.fingerprint
        self.dimension = self._inner.dimension
        self.window = self._inner.window
        self.truncated_inputs = 0
        self.seen: list[str] = []

    def count(self, text):
        return self._inner.count(text)

    def embed_documents(self, texts, *, progress=None):
        self.seen.extend(texts)
        return self._inner.embed_documents(texts)

    def embed_queries(self, texts):
        return self._inner.embed_queries(texts)

    def token_vectors(self, texts):
        return self._inner.token_vectors(texts)


class IngestBench:
    """One project in a folder of its own."""

    project = "demo"

    def __init__(self, root: Path, *, docs: Path | None = None, embedder=None):
        self.root = root
        self.doc_root = docs or root / "doc_raw"
        self.docs = self.doc_root / self.project
        self.index = root / "index" / self.project
        self.embedder = embedder or CountingEmbedder()
        self.docs.mkdir(parents=True, exist_ok=True)

    def write(self, path, content="text", *, mtime=None):
        target = self.docs / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
        if mtime is not None:
            os.utime(target, (mtime, mtime))
        return target

    def manager(self, **changes):
        given = {
            "embedder": self.embedder,
            "chunkers": lambda name: Chunker(chunk_profile(name)),
        } | changes
        return IngestionManager(self.doc_root, self.root / "index", **given)

    def run(self, **settings):
        return self.manager().run(self.project, IngestionConfig(**settings))

    def pending(self, **settings):
        config = IngestionConfig(**settings)
        tree = DocumentTree.of(self.docs)
        found = inspect(self.index, tree, scan_fp=config.scan_fp, rules=config.rules)
        return found.pending

    def view(self, generation=None):
        return open_view(self.index, project=self.project, generation=generation)

    def fresh_view(self, generation=None):
        forget_views()
        return self.view(generation)

    def health(self):
        forget_views()
        return verify_structure(self.index)

    def vector_file(self) -> Path:
        (found,) = self.index.glob("vectors-*.f32")
        return found

    def from_scratch(self) -> IngestBench:
        """Return a bench with the same documents and an index built from nothing."""
        for n in itertools.count():
            root = self.root / f"scratch-{n}"
            if not root.exists():
                other = IngestBench(root, docs=self.doc_root)
                other.run()
                return other
        raise AssertionError


@pytest.fixture
def bench(tmp_path):
    return IngestBench(tmp_path)


@pytest.fixture(scope="session")
def make_bench(tmp_path_factory):
    """For property tests: a new bench for every example."""

    def make(**given):
        return IngestBench(tmp_path_factory.mktemp("bench"), **given)

    return make


@pytest.fixture(scope="session")
def counting_embedder():
    return CountingEmbedder


@pytest.fixture
def server():
    """A language model's server on loopback that says what a test tells it to."""
    with serving() as made:
        yield made


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Let the language model follow a script."""

    def write(*entries):
        path = tmp_path / "script.yaml"
        path.write_text(yaml.safe_dump(list(entries)), encoding="utf-8")
        monkeypatch.setenv("RAGSTREAM_PROVIDER__BACKEND", "scripted")
        monkeypatch.setenv("RAGSTREAM_PROVIDER__SCRIPT", str(path))

    return write


# --- the real model: exported once, kept between test runs; nothing goes to the network ---

MODELS = os.environ.get(MODELS_AT)
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """``<data>/models`` of the tests: RAGSTREAM_TEST_MODELS, or what `make demo` exported."""
    return Path(MODELS) if MODELS else Path(__file__).resolve().parent.parent / "data" / "models"


@pytest.fixture(scope="session")
def onnx_embedder(models_dir):
    """The default embedder over the verified weights (its one-time export takes some seconds)."""
    from ragstream_core.models.embedders.onnx_encoder import open_model

    return open_model(models_dir, workers=2)


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL with pgvector for all tests of a worker; each has databases of its own in it."""
    from tests.databases import PostgresServer

    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def database(postgres, request):
    """The address of an empty database."""
    name = f"test_{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]}"
    yield postgres.create(name)
    postgres.drop(name)
