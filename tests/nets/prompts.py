"""Thirty requests of five kinds over the golden corpus, and the key and bytes each must make.

The first seventeen are those of `tests.goldens.corpus`, which records what each stage makes of
them; here stands what that does not hold: the prompt's key and its text.
"""

import json
import tempfile
from pathlib import Path
from unittest.mock import patch

from ragstream_core.prompts.stage_versions import STAGE_VERSIONS
from ragstream_core.records.identity import sha256_hex
from tests.goldens import corpus
from tests.nets.product import key_and_text

RECORDED = Path(__file__).with_name("prompts.json")
WRITTEN_OUT = ("long", "projects-off", "conversation")
"""Of these the whole text is recorded, so that a difference can be read."""
MORE = {
    "french": {"text": "Quel est le poids du signal lexical, et qui écrit dans le catalogue ?"},
    "table": {"text": "List all signals with their weights as a table."},
    "projects-german": {
        "text": "Wer prüft den Katalog, und wie warm darf das Öl werden?",
        "projects": ("demo", "audit"),
    },
    "projects-off": {
        "text": "Who audits the catalog, and who writes it?",
        "projects": ("audit", "demo"),
        "off": ("audit/hostile.md",),
    },
    "projects-file": {
        "text": "How long does it wait for the lock?",
        "projects": ("demo", "audit"),
        "files": ("demo/src/lock.py",),
    },
    "code": {"text": "Fix acquire in src/lock.py: it never gives up. Write the new function."},
    "files-budget": {
        "text": "Compare settings.yaml with the limits.",
        "files": ("settings.yaml", "notes/limits.txt"),
        "settings": {"files.full_max_tokens": 50, "files.line_numbers": True},
    },
    "conversation": {
        "text": "And how many liters is that in an hour?",
        "conversation": (
            ("How much does the coolant pump deliver?", "12.5 liters a minute."),
            ("How often is its seal changed?", "Every 500 hours."),
        ),
    },
    "follow-up": {"text": "Why only that one?", "session": "mine"},
    "turns-alone": {"text": "How long did Pegasus take?", "projects": (), "session": "other"},
    "generation": {"text": "What is a generation of the index?", "as_of": 1},
    "tight": {
        "text": "What does a reader never see?",
        "settings": {"retrieval.evidence": "tight", "retrieval.top_k": 4},
    },
    "german-filters": {
        "text": "Was darf nie wärmer als 80 °C sein? type:md -retrieval",
        "settings": {"agents.a4": False, "history.enabled": False},
    },
}
KINDS = {
    "one project": ("plain", "long", "german", "japanese", "chinese", "nothing", "french", "table"),
    "several projects": ("projects", "projects-german", "projects-off", "projects-file"),
    "files and code": ("files", "lock", "code", "files-budget"),
    "conversation": ("session", "past", "aged", "conversation", "follow-up", "turns-alone"),
    "filters, modes and settings": (
        "filters", "narrow", "joined", "asking", "rescoped", "generation", "tight",
        "german-filters",
    ),
}  # fmt: skip


def made_now() -> dict[str, object]:
    """Key and digest of each prompt, made over a new data root; three texts."""
    with (
        tempfile.TemporaryDirectory() as root,
        patch.dict(corpus.SCENARIOS, MORE),
    ):
        space = corpus.build(Path(root))
        made = {name: key_and_text(corpus.run(space, name)) for name in corpus.SCENARIOS}
    return {
        "versions": dict(STAGE_VERSIONS),
        "prompts": {
            name: {"key": key, "sha256": sha256_hex(text)} for name, (key, text) in made.items()
        },
        "texts": {name: made[name][1].splitlines() for name in WRITTEN_OUT},
    }


def recorded() -> dict[str, dict]:
    """What was recorded."""
    return json.loads(RECORDED.read_text(encoding="utf-8"))
