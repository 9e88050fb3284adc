"""A data root with documents, a spying language model, and chats in it."""

import dataclasses

import pytest

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import ChatUnreachable
from ragstream_core.models.chat.scripted import ScriptedChat
from ragstream_core.prompts.citations import answer_marker
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.chat import ChatSession
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.journal import journal
from tests.workspaces import hashed_workspace, write_docs

QUESTION = "Who holds the project lock of the catalog?"
SAID = "One writer holds the project lock"
MEMORY = {"memory.enabled": True, "memory.cache_min_score": 0.9}


class Spy(ScriptedChat):
    """Answers with a citation of the first passage, and counts."""

    name, host = "spy-1", "127.0.0.1:1"
    is_local = True

    def __init__(self, said=SAID, error=None):
        super().__init__(entries=[{"say": "unused"}])
        self.said, self.error = said, error

    def stream(self, messages):
        if self.error is not None:
            self.asked.append(tuple(messages))
            raise self.error
        found = [line for line in messages[1].text.split("\n") if line.startswith("<<DOC ")]
        mark = ""
        if found:
            short, name = (found[0].split(f'{key}="')[1].split('"')[0] for key in ("id", "source"))
            mark = f" {answer_marker(name, short)}"
        self._entries = [{"say": f"{self.said}{mark}, number {len(self.asked) + 1}."}]
        yield from super().stream(messages)


def opened(root, **settings):
    return hashed_workspace(root, {"rerank.backend": "none", **settings})


def chat(space, model=None, **options):
    given = {"text": "any", "projects": ("demo",), "settings": MEMORY, **options}
    return ChatSession(space, PromptRequest(**given), model=model or Spy())


def turns(space):
    return [e.record for e in journal(space).entries() if isinstance(e.record, Turn)]


def change(talk, **options):
    talk.request = dataclasses.replace(talk.request, **options)


def unreachable():
    return Spy(error=ChatUnreachable("the language model at 127.0.0.1:1 cannot be reached"))


@pytest.fixture
def space(tmp_path):
    write_docs(tmp_path)
    found = opened(tmp_path)
    ingest_project(found, "demo")
    return found
