"""Every command ends what it prints with the end of a line, on both streams."""

import json
from collections.abc import Iterator
from pathlib import Path

import typer
from typer.core import TyperGroup

from ragstream_app.cli.main import app
from ragstream_core.records.identity import sha256_hex

P = ("-p", "manual")
SAID = ("--session", "s", "--user", "Which port has the page?", "--assistant", "8503.")
COMMANDS: dict[str, tuple[str, ...]] = {
    "ingest": ("manual",),
    "status": ("--skipped",),
    "prompt": ("What restricts a prompt?", *P),
    "ask": ("What restricts a prompt?", *P),
    "rerun": ("KEY", "a3"),
    "search": ("lock", *P),
    "explain": ("KEY",),
    "why-not": ("guide/storage.md", "KEY"),
    "replay": ("KEY",),
    "diff": ("KEY", "KEY"),
    "trace": ("CITATION", "KEY"),
    "verify-prompt": ("FILE",),
    "leave-one-out": ("KEY",),
    "bundle": ("KEY", "--out", "one.bundle"),
    "spec": ("manual",),
    "keep": ("KEY",),
    "doctor": (),
    "demo": ("--dry-run",),
    "du": (),
    "backup": ("copy", "--force"),
    "restore": ("copy", "--force"),
    "forget": ("guide/storage.md", *P, "--delete"),
    "index generations": (),
    "index check": (),
    "index diff": ("manual", "1", "1"),
    "index gc": ("--dry-run",),
    "index export": ("manual", "--force"),
    "index inspect": ("manual",),
    "index neighbors": ("manual",),
    "index tsne": ("manual", "--force"),
    "index import-pkl": ("nothing.pkl", *P),
    "prompts gc": ("--dry-run",),
    "runs gc": ("--dry-run",),
    "history append": SAID,
    "history show": ("--all",),
    "history sessions": (),
    "history tag": ("TURN", "--add", "GOLD"),
    "history adopt": ("manual", "--tag", "GOLD"),
    "history import": ("said.jsonl",),
    "history export": ("--format", "md", "--out", "said.md", "--force"),
    "history embed": (),
    "history backfill": ("--rebuild",),
    "history check": (),
    "history clear": ("--session", "s", "--dry-run"),
    "history reactivate": ("--all",),
    "history summaries": (),
    "memory show": (),
    "memory candidates": (),
    "memory accept": ("1",),
    "memory reject": ("1",),
    "memory edit": ("1", "text"),
    "memory undo": ("1",),
    "memory add": ("The page has port 8503.",),
    "memory remove": ("1",),
    "memory scan": (),
    "models list": (),
    "models verify": (),
    "config show": ("--origin",),
    "config reference": (),
    "eval retrieval": ("--corpus", "x", "--queries", "x", "--qrels", "x"),
    "eval gold": ("manual",),
    "eval sweep": ("manual",),
    "eval faithfulness": ("--prompts", "KEY"),
}
FAILING = {
    "index import-pkl", "models list", "eval retrieval", "eval gold", "eval sweep", "memory accept",
    "memory reject", "memory edit", "memory undo", "memory remove", "memory add",
    "eval faithfulness", "verify-prompt", "forget",
}  # fmt: skip
"""What they need is not here: a pickle, a server, judged questions, a candidate; they say so.

A command of which nothing is known here is called without arguments.
"""
ELSEWHERE = {"up", "serve", "worker", "chat", "password", "weather", "models pull"}
"""They wait for a person, a port or a server; their own tests read what they print."""


def leaves(command: typer.core.TyperCommand, words: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(command, TyperGroup):
        yield " ".join(words)
        return
    for name, below in command.commands.items():
        yield from leaves(below, (*words, name))


def test_every_command_ends_its_lines(indexed, run, tmp_path):
    made = json.loads(run("prompt", "What restricts a prompt?", *P, "--json")[1])
    Path("prompt.md").write_text(made["super_prompt"])
    turn = json.loads(run("history", "append", *SAID, "--json")[1])["id"]
    Path("said.jsonl").write_text(run("history", "export")[1])
    cited = sha256_hex(made["selection"][0])[:8]
    known = {"KEY": made["prompt_key"], "FILE": "prompt.md", "TURN": turn, "CITATION": cited}
    loose, wrong = [], []
    every = set(leaves(typer.main.get_command(app)))
    assert every >= COMMANDS.keys() | ELSEWHERE
    for name in [*COMMANDS, *sorted(every - COMMANDS.keys() - ELSEWHERE)]:
        words = [known.get(word, word) for word in COMMANDS.get(name, ())]
        for form in ((), ("--json",)):
            code, out, err = run(*name.split(), *words, *form)
            assert out or err, name
            loose += [(name, form, code, s[-60:]) for s in (out, err) if s and s[-1] != "\n"]
            odd = (
                code
                and name in COMMANDS.keys() - FAILING
                and not (form and name == "config reference")
            )
            wrong += [(name, form, out, err)] if odd else []
    assert loose == []
    assert wrong == []
