"""What a language model on loopback answers in the tests of the faces, and what is kept of it."""

import json
import re

from tests.model_server import streamed

QUESTION = "How does the exact file lock restrict a prompt?"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
# longer than what the citation buffer holds back
FIRST = "Only **injected** files count while the lock is on. " * 4
ISSUED = re.compile(r'<<DOC \d+ \w+ id="(\w+)" source="guide/locks.md"')


def cites(handler):
    """Answer with a marker that the prompt issued, split over events, and one that it did not."""
    shown = handler.server.seen[-1][2]["messages"][-1]["content"]
    marker = f"[source: locks.md, chunk: {ISSUED.search(shown)[1]}]"
    text = f"Only **injected** files count {marker}, nothing else [source: x.md, chunk: 00000000]."
    streamed(*text)(handler)


def turns(run):
    """Return the turns of the history, as the command line shows them."""
    return json.loads(run("history", "show", "--all", "--json")[1])["turns"]
