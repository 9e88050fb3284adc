"""What is written of labelled turns: precision, recall, and whether any harm is done.

python -m tests.benchmarks.bench_facts
"""

import sys

from ragstream_core.conversations.facts.candidate import Candidate, Limits, TurnText, objection
from ragstream_core.conversations.facts.rules import candidates
from ragstream_core.text.sentences import sentence_spans
from ragstream_core.wiring.remembered_facts import is_secret
from tests.benchmarks.measure import cpu, table
from tests.facts_corpus.judging import Labelled, judged, labelled, written

CORPORA = {
    "tuned": "the rules were made on these",
    "held_out": "written when the rules stood",
    "harm": "secrets and transcripts; the checks were made stricter on these",
}
HARM = ("secret", "transcript")
HEAD = ("labelled turns", "turns", "should", "written", "right", "precision", "recall")


def report() -> str:
    """Return the section as Markdown."""
    rows = []
    for name, about in CORPORA.items():
        score = judged(name)
        rows.append(
            (f"{name}: {about}", score.turns, score.wanted, score.written, score.right,
             f"{score.precision:.3f}", f"{score.recall:.3f}")
        )  # fmt: skip
    turns = [turn for name in CORPORA for turn in labelled(name)]
    harm = [turn for turn in turns if turn.kind in HARM]
    rules = sum(len(written(turn)) - len(turn.facts) for turn in harm)
    eager = sum(map(_through, harm))
    ms = 1000 * cpu(lambda: [candidates(turn.user) for turn in turns]) / len(turns)
    return (
        "## Facts worth remembering\n\n"
        f"{table(HEAD, rows)}\n\n"
        f"Of {len(harm)} turns with a secret or a transcript, {rules} gave one to a file by the "
        f"rules, and {eager} would by a model that proposes every sentence with confidence 1. "
        f"Rules take {ms:.2f} ms of CPU a turn."
    )


def _through(turn: Labelled) -> bool:
    """Say whether a model that proposes everything gets any of a turn's digits or labels past."""
    for a, b in [(0, len(turn.user)), *sentence_spans(turn.user)]:
        quote = turn.user[a:b]
        fact = Candidate("user", " ".join(quote.split()), quote, 1.0, "llm")
        passed = not objection(fact, TurnText(turn.user, (turn.answer,)), Limits(), is_secret)
        if passed and (turn.kind == "transcript" or any(map(str.isdigit, quote))):
            return True
    return False


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
