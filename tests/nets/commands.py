"""The life of a small data root, told in commands, and what each prints with ``--json``.

What no two lives have in common is a word in angle brackets: times of now, ids made now, folders,
durations, sizes on the disk. What Dagster knows of a result is left out.
"""

import contextlib
import datetime as dt
import io
import json
import os
import pickle
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import typer

from ragstream_app.cli.main import app, main
from ragstream_core.ingestion.scan import RACY_NS
from ragstream_core.settings import known_keys
from tests.goldens.corpus import DOCS

RECORDED = Path(__file__).with_name("json")
WHEN = 1_761_998_400  # files of the corpus date from November 2025
LEFT_OUT = {
    "up": "starts servers",
    "worker": "waits for batches",
    "serve": "is a server",
    "password": "has no JSON; asks at a terminal",
    "config reference": "prints Markdown; its text is pinned in the handbook",
    "config trust": "has no JSON",
    "config untrust": "has no JSON",
    "mcp": "is a server",
    "mcp install": "has no JSON",
    "weather": "asks a service; tests/app/cli/commands/test_weather.py pins it on loopback",
    "models list": "asks an endpoint; tests/app/cli/commands/test_models.py pins it on loopback",
    "models pull": "fetches from a hub; tests/app/cli/commands/test_models.py",
    "project sync": "contacts addresses; tests/app/cli/commands/test_project_sync.py",
    "embeddings status": "needs PostgreSQL; tests/app/cli/commands/test_embeddings.py",
    "embeddings clear": "needs PostgreSQL; tests/app/cli/commands/test_embeddings.py",
    "eval gate": "needs the weights of the NLI model",
}
"""Command → why it is not run here."""
OF_THE_MACHINE = ("doctor", "models verify", "config show", "du", "demo")
"""What these print depends on the machine or on the handbook: of them only the shape is kept."""
DAGSTERS = re.compile(r"run_id|run_link|recorded|runs?|dagster.*")
"""Keys of what Dagster knows of a result."""
MEASURED = re.compile(r"(.*_)?(seconds|age_s|bytes|free|size)")
"""Keys of figures that no two runs share, and of sizes on the disk."""
TIMED = "timings_ms"
MADE_OF_TIMES = ("manifest",)
"""Keys of digests over a time of now."""
DAY_S = 86_400
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d|Z)")
_ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
QUESTION = "Who writes the catalog, and what must the others do?"
SAID = (
    ("2026-10-01T10:00:00+00:00", "old", "Who writes the catalog?",
     "The nightly robot Pegasus writes the catalog."),
    ("2026-10-02T10:00:00+00:00", "old", "What is for lunch?", "Soup, as on every Monday."),
    ("2026-10-09T10:00:00+00:00", "mine", "I work as a data engineer in Lisbon. What is BM25?",
     "The lexical signal."),
    ("2026-10-10T10:00:00+00:00", "mine", "Our company bills in euros. Who may wait?",
     "Other writers."),
)  # fmt: skip


class Life:
    """Runs commands over one data root and notes what each of them prints.

    Attributes:
        printed: What was printed, in order: the command's name, its words, its exit code, and its
            JSON without what no two lives have in common.
        random: From now on digests may hold a random id.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / "data"
        self.printed: list[tuple[str, str, int, Any]] = []
        self.random = False
        self._known: set[str] = set()
        self._numbers: dict[str, str] = {}

    def __call__(self, *words: str, stdin: str = "") -> Any:
        """Run a command with ``--json``; return what it printed."""
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()))),
        ):
            code = main([*words, "--json"])
        text = out.getvalue()
        assert text, (words, err.getvalue())
        value = json.loads(text) if not stdin else list(map(json.loads, text.splitlines()))
        name = next(name for name in names() if words[: name.count(" ") + 1] == (*name.split(),))
        plain = shape(value) if name in OF_THE_MACHINE else self._plain(value)
        self.printed.append((name, self._text(" ".join(words)), code, plain))
        return value

    def _plain(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {
                self._text(name): self._plain(one, TIMED if key == TIMED else name)
                for name, one in value.items()
                if not DAGSTERS.fullmatch(name)
            }
        if isinstance(value, list):
            plain = [self._plain(one, key) for one in value]
            by_chance = any(isinstance(one, str) and "<digest" in one for one in plain)
            return sorted(plain) if by_chance else plain
        if value and key in MADE_OF_TIMES:
            return f"<{key}>"
        if (key == TIMED or MEASURED.fullmatch(key)) and _is_number(value):
            return "<n>"
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        text = text.replace(str(self.home), "<home>")
        text = _TIME.sub(lambda m: "<now>" if _is_now(m.group()) else m.group(), text)
        text = _ID.sub(lambda m: self._numbered("id", m.group()), text)
        if self.random:
            return _DIGEST.sub(
                lambda m: m.group() if m.group() in self._known
                else self._numbered("digest", m.group()),
                text,
            )  # fmt: skip
        self._known.update(_DIGEST.findall(text))
        return text

    def _numbered(self, kind: str, found: str) -> str:
        if kind == "id" and abs(int(found[:8] + found[9:13], 16) / 1000 - time.time()) > DAY_S:
            return found
        return self._numbers.setdefault(found, f"<{kind} {len(self._numbers) + 1}>")


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return value.replace(".", "", 1).isdecimal()
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_now(text: str) -> bool:
    return abs(dt.datetime.fromisoformat(text).timestamp() - time.time()) < DAY_S


def shape(value: Any) -> Any:
    """The types of a JSON value, by key; of a list the different shapes of its members."""
    if isinstance(value, dict):
        named = sorted(name for name in value if not DAGSTERS.fullmatch(name))
        return {name: shape(value[name]) for name in named}
    if isinstance(value, list):
        shapes = {json.dumps(shape(one), sort_keys=True) for one in value}
        return [json.loads(one) for one in sorted(shapes)]
    return type(value).__name__


def names(command: Any = None, *words: str) -> list[str]:
    """The commands there are, the longest name first where one begins another."""
    command = command or typer.main.get_command(app)
    below = getattr(command, "commands", None)
    if below is None:
        return [" ".join(words)]
    own = [" ".join(words)] if words and getattr(command, "invoke_without_command", False) else []
    return [*(n for name, one in below.items() for n in names(one, *words, name)), *own]


@contextlib.contextmanager
def alone(home: Path) -> Iterator[None]:
    """No settings from outside, hashed vectors, nothing recorded, a folder of its own."""
    given = {
        "RAGSTREAM_DATA_DIR": str(home / "data"),
        "RAGSTREAM_EMBEDDINGS__BACKEND": "hashed",
        "RAGSTREAM_RERANK__BACKEND": "none",
        "RAGSTREAM_VECTOR_STORE__COLLECTION": "false",
        "XDG_STATE_HOME": str(home / "state"),
        "COLUMNS": "100",
    }
    if "dagster.record" in known_keys():
        given["RAGSTREAM_DAGSTER__RECORD"] = "none"
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAGSTREAM_", "MEMORY_"))}
    before = Path.cwd()
    with patch.dict(os.environ, {**kept, **given}, clear=True):
        os.chdir(home)
        try:
            yield
        finally:
            os.chdir(before)


def write_files(home: Path) -> None:
    """Write the documents: several kinds of files, some that are skipped, and files beside them."""
    more = {
        "page.html": "<html><head><title>Rota</title></head><body><h1>Rota</h1><p>The night shift "
        "begins at ten.</p></body></html>",
        "stations.csv": "station,metres\nNorth,120\nSouth,85\n",
        "requirements.md": "# Requirements\n\nREQ-1 The writer must hold the lock.\n\nREQ-2 A "
        "reader must never see half of an ingest.\n",
        "data.json": '{"pump": {"litres": 12, "seal_hours": 500}}',
        "keys.env": "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY\n",
        "server.pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAn2gHBLA3Qe\n",
        "picture.bin": "\x00\x01\x02",
        "empty.md": "",
    }
    places = {home / "data" / "doc_raw" / project: docs for project, docs in DOCS.items()}
    places[home / "data" / "doc_raw" / "demo"] = {**DOCS["demo"], **more}
    places[home / "shop"] = {"wiki/opening.md": "# Opening\n\nThe shop opens at nine.\n"}
    for folder, docs in places.items():
        for name, text in docs.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            os.utime(path, (WHEN,) * 2)
    rows = [
        {"timestamp": when, "session": session, "user": asked, "assistant": answered}
        for when, session, asked, answered in SAID
    ]
    gold = [
        {"question": "Who holds the project lock?", "file": "catalog.md"},
        {"question": "How warm is the moon?", "unanswerable": True},
    ]
    beir = {
        "corpus.jsonl": [{"id": "d1", "title": "Lock", "text": "One writer holds the lock."},
                         {"id": "d2", "title": "Soup", "text": "Soup is served on Mondays."}],
        "queries.jsonl": [{"id": "q1", "text": "Who holds the lock?"}],
    }  # fmt: skip
    tables = {"said.jsonl": rows, "data/projects/demo/gold.jsonl": gold, **beir}
    for name, table in tables.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in table), encoding="utf-8")
    (home / "chat.md").write_text("## User\n\nWhich port?\n\n## Assistant\n\nPort 8503.\n")
    (home / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    old = {"texts": ["The robot was named Pegasus.", "It ran at two."], "vectors": np.eye(2)}
    (home / "old.pkl").write_bytes(pickle.dumps(old))


def lived(home: Path) -> list[tuple[str, str, int, Any]]:
    """Run every command that can be run here; see `Life.printed`.

    Args:
        home: An empty folder.
    """
    write_files(home)
    with alone(home):
        life = Life(home)
        _documents(life)
        _conversations(life)
        _prompts(life)
        _evaluation(life)
        _answers(life)
        _care(life)
    return life.printed


def _documents(life: Life) -> None:
    life("status")
    life("ingest")
    time.sleep(RACY_NS / 1e9 + 0.05)  # the files of now are trusted by their times from here on
    life("ingest")
    added = life.root / "doc_raw" / "demo" / "added.md"
    added.write_text("# Added\n\nThe audit of the catalog takes two days.\n")
    os.utime(added, (WHEN,) * 2)
    life("status", "--skipped")
    life("ingest", "demo", "--verify")
    life("search", "project lock", "-p", "demo", "-k", "3")
    life("search", "project lock", "-p", "demo", "--context")
    life("project", "add", "shop", str(life.home / "shop"))
    life("project", "list")
    life("ingest", "shop")
    life("index", "generations")
    life("index", "diff", "demo", "1", "2")
    life("index", "check")
    life("index", "check", "demo", "--read-data", "1/1", "--suspicious")
    life("index", "inspect", "demo")
    life("index", "neighbors", "demo", "--anchors", "2", "-k", "2")
    life("index", "tsne", "demo", "--method", "pca", "--out", "map.csv")
    life("index", "export", "demo")
    life("index", "import-pkl", "old.pkl", "-p", "notes")
    life("index", "publish", "demo", str(life.home / "published"))
    life("index", "pull", str(life.home / "published"), "--name", "mirror")
    life("spec", "demo", "--dry-run")
    life("spec", "demo", "--out", "spec.md")
    life("project", "remove", "shop", "--yes")
    life("init", str(life.home / "shop"))


def _conversations(life: Life) -> None:
    life("history", "import", "chat.md", "--format", "markdown", "--dry-run")
    life("history", "import", "said.jsonl", "--use-in", "demo")
    life("history", "sessions")
    life("history", "show", "--all")
    life("history", "search", "robot")
    life("history", "embed")
    life("history", "check", "--read-data", "1/1")


def _prompts(life: Life) -> None:
    first = life("prompt", QUESTION, "-p", "demo")["prompt_key"]
    life("prompt", QUESTION, "-p", "demo")
    life("prompt", QUESTION, "-p", "demo", "-p", "audit", "--file", "demo/settings.yaml")
    life("prompt", QUESTION, "-p", "demo", "--through", "retrieval")
    life("prompt", "And who else?", "-p", "demo", "--session", "mine", "--without", "catalog.md")
    life("keep", first)
    later = life("rerun", first, "a3", "--set", "prompt.max_facts=1")["prompt_key"]
    life("explain", first)
    life("why-not", "pumpe.md", first)
    life("replay", first)
    life("diff", first, later)
    marker = re.search(r'id="([0-9a-f]+)"', life("prompt", QUESTION, "-p", "demo")["super_prompt"])
    assert marker is not None
    life("trace", marker[1], first)
    life("verify-prompt", first)
    life("leave-one-out", first)
    life("bundle", first, "--out", "prompt.bundle")
    life("replay", "--bundle", "prompt.bundle")
    life("status", "demo")
    life("prompts", "gc", "--dry-run")
    life("runs", "gc", "--dry-run")


def _evaluation(life: Life) -> None:
    life("eval", "gold", "demo")
    life("eval", "sweep", "demo", "--theta", "0.2", "--relative", "0.4")
    life("eval", "prompts", "demo")
    life("eval", "faithfulness", "-p", "demo", "--judge", "quote")
    life("eval", "retrieval", "--corpus", "corpus.jsonl", "--queries", "queries.jsonl",
         "--qrels", "qrels.tsv")  # fmt: skip


def _answers(life: Life) -> None:
    """What keeps turns of now: from here on keys hold their random ids."""
    life.random = True
    life("ask", QUESTION, "-p", "demo", "--session", "now")
    life("chat", "-p", "demo", "--session", "now", stdin="Who holds the lock?\n/sources\n")
    life("history", "append", "--session", "now", "--user", "Which port?", "--assistant", "8503.")
    life("history", "tag", "1", "--add", "GOLD")
    life("history", "adopt", "audit", "--tag", "GOLD")
    life("history", "summaries")
    life("history", "export", "--out", "exported.jsonl")
    life("history", "backfill", "2026-10")
    life("memory", "scan")
    waiting = [row["id"] for row in life("memory", "candidates")["facts"]]
    life("memory", "edit", waiting[0], "The user is a data engineer.")
    life("memory", "accept", waiting[0])
    life("memory", "undo", waiting[0])
    life("memory", "reject", waiting[-1])
    life("memory", "add", "The user likes tea.")
    life("memory", "show")
    life("memory", "remove", "The user likes tea.")
    life("history", "clear", "--session", "old", "--inactive", "--yes")
    life("history", "reactivate", "--session", "old")
    life("history", "clear", "--session", "now", "--yes")


def _care(life: Life) -> None:
    life("doctor")
    life("du")
    life("models", "verify")
    life("config", "show")
    life("config", "show", "--origin")
    life("index", "gc")
    life("backup", "saved", "--documents")
    life("forget", "pumpe.md", "-p", "demo", "--delete")
    with patch.dict(os.environ, {"RAGSTREAM_DATA_DIR": str(life.home / "second")}):
        life("restore", "saved")
        life("demo", "--dry-run")


def by_command(printed: list[tuple[str, str, int, Any]]) -> dict[str, str]:
    """Each command's file as text: every time it was run, in order.

    Args:
        printed: As of `lived`.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for name, words, code, value in printed:
        rows.setdefault(name, []).append({"words": words, "exit": code, "prints": value})
    return {
        f"{name.replace(' ', '-')}.json": json.dumps(row, indent=1, ensure_ascii=False) + "\n"
        for name, row in rows.items()
    }
