"""Measures finished prompts of questions whose answers are known: what is in them, and what for.

A passage is relevant if it holds a passage that the question names, or, if it names none, comes
from a file that it names. A fact is relevant if its passage is, or if it holds a right answer.
Whether a fact is whole and a constraint binds is judged by `sentence_marks`, which shares no rule
with the chain. *Evidence* is what a prompt quotes, in its order: injected files, facts and
constraints, attachments, turns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from statistics import median

from ragstream_core.agents.context.condensed_notes import savings_of
from ragstream_core.evaluation.sentence_marks import is_binding, is_complete
from ragstream_core.evaluation.separation import auc, recall_at
from ragstream_core.ingestion.quality_gate import GoldQuestion
from ragstream_core.ports import TokenCounter
from ragstream_core.prompts.blocks import file_texts, history_texts, repeated_texts, selected_texts
from ragstream_core.records import SuperPrompt
from ragstream_core.records.json_form import Json
from ragstream_core.records.s_ctx import Fact, PieceAnswer

DIGITS = 4
FALSE_ALARMS = 0.05
SHINGLE = 5
SAME_PASSAGE = 0.8
_SIGNS = re.compile("[*`\"“”’‘']")
Count = Callable[[str], int]


def plain(text: str) -> str:
    """Return a text as answers are looked for: lower case, one space, no emphasis, no quotes."""
    return " ".join(_SIGNS.sub("", text).split()).casefold()


def first_answer(question: GoldQuestion, text: str) -> int:
    """Return where a right answer begins in a plain text, -1 if none does."""
    found = [re.search(rf"(?<!\w){re.escape(plain(a))}(?!\w)", text) for a in question.answers]
    found += [re.search(pattern, text, re.IGNORECASE) for pattern in question.patterns]
    return min((match.start() for match in found if match), default=-1)


def is_relevant(question: GoldQuestion, source: str, text: str) -> bool:
    """Return whether a passage is one that the question needs."""
    if not question.passages:
        return source in question.files
    said = plain(text)
    return any(plain(passage) in said for passage in question.passages)


# What a prompt says of its pieces, the worst last.
WORDS = ("answered", "perhaps", "not found")


def doubt(answers: Sequence[PieceAnswer]) -> float:
    """Return how strongly a prompt says that something is not in the documents, in [0, 1].

    One less the chance of its worst piece; where nothing was estimated the word decides.
    """
    chances = [
        float(answer.word == WORDS[0]) if answer.chance is None else answer.chance
        for answer in answers
    ]
    return round(1.0 - min(chances, default=1.0), 6)


def worst_word(answers: Sequence[PieceAnswer]) -> str:
    """Return the worst of the three words that a prompt says of its pieces."""
    return max((answer.word for answer in answers), key=WORDS.index, default=WORDS[0])


def near_copies(texts: Sequence[str]) -> int:
    """Return how many texts repeat an earlier one: 80 % of their runs of five words stand in it."""
    seen: list[frozenset[tuple[str, ...]]] = []
    copies = 0
    for text in texts:
        words = plain(text).split()
        runs = frozenset(zip(*(words[n:] for n in range(SHINGLE)), strict=False))
        runs = runs or frozenset([tuple(words)])
        copies += any(len(runs & other) >= SAME_PASSAGE * len(runs) for other in seen)
        seen.append(runs)
    return copies


@dataclass(frozen=True, slots=True)
class PromptMeasure:
    """What one question's prompt holds."""

    line: int  # line of the gold question
    question: str
    unanswerable: bool  # whether the documents do not answer it
    tokens: int  # of the whole prompt
    tokens_saved: int  # of passages that A4 left out, only named or showed in part
    attachment_tokens: int  # of the excerpts of documents, frames not counted
    relevant_tokens: int  # of those, in relevant passages
    passages: int  # how many excerpts there are
    copies: int  # how many of them repeat an earlier one
    expected: int  # how many files and passages the question names
    expected_shown: int  # how many of them the prompt shows, or names as saying the same
    # whether a right answer stands in the evidence; None if none is known
    answer_shown: bool | None
    answer_in_facts: bool | None  # whether one stands in a fact or a constraint; None likewise
    # tokens of the evidence before the first right answer; None if there is none
    tokens_before: int | None
    facts: int  # how many facts and constraints there are
    facts_relevant: int  # how many of them are relevant
    facts_complete: int  # how many of them can be read by themselves
    fact_copies: int  # how many of them repeat an earlier one
    constraints: int  # how many constraints there are
    constraints_binding: int  # how many of them bind
    open_issues: int  # how many pieces are unanswered, or whether words are found nowhere
    word: str  # the worst of the three words
    doubt: float


def measured(question: GoldQuestion, prompt: SuperPrompt, counter: TokenCounter) -> PromptMeasure:
    """Measure one prompt."""
    count = counter.count
    shown = [(source.name, text) for source, text in selected_texts(prompt, history=False)]
    quoted = [*prompt.extras.s_ctx.facts, *prompt.extras.s_ctx.constraints]
    limits = prompt.extras.s_ctx.constraints
    relevant = [is_relevant(question, *pair) for pair in shown]
    sizes = [count(text) for _, text in shown]
    before = _tokens_before(question, prompt, count)
    known = bool(question.answers or question.patterns)
    issues = [i for i in prompt.extras.s_ctx.open_issues if i.kind != "conflict"]
    return PromptMeasure(
        question.line,
        question.question,
        question.unanswerable,
        tokens=prompt.extras.token_tree.total,
        tokens_saved=sum(row.tokens for row in savings_of(prompt, counter)),
        attachment_tokens=sum(sizes),
        relevant_tokens=sum(n for n, yes in zip(sizes, relevant, strict=True) if yes),
        passages=len(shown),
        copies=near_copies([text for _, text in shown]),
        expected=len(question.files) + len(question.passages),
        expected_shown=_expected_shown(question, prompt, shown),
        answer_shown=before is not None if known else None,
        answer_in_facts=any(_answers(question, fact) for fact in quoted) if known else None,
        tokens_before=before,
        facts=len(quoted),
        facts_relevant=sum(_relevant_fact(question, fact, prompt) for fact in quoted),
        facts_complete=sum(is_complete(fact.text, fact.heading) for fact in quoted),
        fact_copies=near_copies([fact.text for fact in quoted]),
        constraints=len(limits),
        constraints_binding=sum(is_binding(fact.text) for fact in limits),
        open_issues=len(issues),
        word=worst_word(prompt.extras.answers),
        doubt=doubt(prompt.extras.answers),
    )


def _evidence(prompt: SuperPrompt) -> Iterator[str]:
    yield from (text for _, text in file_texts(prompt))
    yield from (f.text for f in (*prompt.extras.s_ctx.facts, *prompt.extras.s_ctx.constraints))
    yield from (text for _, text in selected_texts(prompt, history=False))
    yield from (text for _, text in history_texts(prompt))


def _tokens_before(question: GoldQuestion, prompt: SuperPrompt, count: Count) -> int | None:
    passed = 0
    for text in _evidence(prompt):
        said = plain(text)
        at = first_answer(question, said)
        if at >= 0:
            return passed + count(said[:at])
        passed += count(text)
    return None


def _answers(question: GoldQuestion, fact: Fact) -> bool:
    return first_answer(question, plain(fact.text)) >= 0


def _relevant_fact(question: GoldQuestion, fact: Fact, prompt: SuperPrompt) -> bool:
    if question.unanswerable:
        return False
    cited = {passage.chunk_id for passage in fact.citations}
    chunks = [chunk for chunk in prompt.base_context_chunks if chunk.id in cited]
    found = any(is_relevant(question, chunk.source, chunk.snippet) for chunk in chunks)
    return found or _answers(question, fact)


def _expected_shown(
    question: GoldQuestion, prompt: SuperPrompt, shown: Sequence[tuple[str, str]]
) -> int:
    sources = {source for source, _ in shown} | {file.path for file in prompt.extras.files}
    sources |= {source.name for same in repeated_texts(prompt).values() for source, _ in same}
    texts = [plain(text) for text in _evidence(prompt)]
    held = sum(any(plain(passage) in text for text in texts) for passage in question.passages)
    return held + sum(path in sources for path in question.files)


@dataclass(frozen=True, slots=True)
class PromptFigures:
    """What several prompts come to; None if there is nothing to measure."""

    questions: int
    unanswerable: int
    # share of the answerable ones with a known answer whose evidence holds it
    answer_shown: float | None
    answer_in_facts: float | None  # the same for facts and constraints
    # share of the named files and passages that are shown, a mean over questions
    expected_shown: float | None
    tokens: float | None  # mean tokens of a prompt
    tokens_saved: float | None  # mean tokens that A4 left out, as `PromptMeasure` has it
    # median tokens of evidence before the first answer, if one is shown
    tokens_before: float | None
    attachment_tokens: float | None  # mean tokens of the excerpts
    relevant_share: float | None  # share of the excerpts' tokens that lie in relevant passages
    facts: float | None  # mean number of facts and constraints
    facts_relevant: float | None  # share of them that is relevant
    facts_complete: float | None  # share of them that can be read by itself, of all questions
    constraints: float | None  # mean number of constraints
    constraints_binding: float | None  # share of them that binds, of all questions
    issues_unanswerable: float | None  # share of the unanswerable questions with an open issue
    issues_answerable: float | None  # share of the answerable ones with an open issue
    # share of the unanswerable ones that are called *not found*
    not_found_unanswerable: float | None
    not_found_answerable: float | None  # the same of the answerable ones
    perhaps_unanswerable: float | None  # share of the unanswerable ones that are called *perhaps*
    perhaps_answerable: float | None  # the same of the answerable ones
    auc: float | None  # chance that an unanswerable question is doubted more than an answerable one
    # largest share of the unanswerable ones that a threshold of doubt finds at 5 % false alarms
    recall_at_alarms: float | None
    copies: float | None  # mean number of excerpts that repeat an earlier one
    fact_copies: float | None  # mean number of facts that do

    def to_json(self) -> dict[str, float | int | None]:
        """Return the figures by name."""
        return asdict(self)


def figures_of(rows: Sequence[PromptMeasure]) -> PromptFigures:
    """Return what several prompts come to."""
    yes = [row for row in rows if not row.unanswerable]
    no = [row for row in rows if row.unanswerable]
    known = [row for row in yes if row.answer_shown is not None]
    before = [row.tokens_before for row in yes if row.tokens_before is not None]
    named = [row.expected_shown / row.expected for row in yes if row.expected]
    sure, unsure = [row.doubt for row in yes], [row.doubt for row in no]
    return PromptFigures(
        questions=len(rows),
        unanswerable=len(no),
        answer_shown=_mean([bool(row.answer_shown) for row in known]),
        answer_in_facts=_mean([bool(row.answer_in_facts) for row in known]),
        expected_shown=_mean(named),
        tokens=_mean([row.tokens for row in rows], 1),
        tokens_saved=_mean([row.tokens_saved for row in rows], 1),
        tokens_before=round(median(before), 1) if before else None,
        attachment_tokens=_mean([row.attachment_tokens for row in rows], 1),
        relevant_share=_share(yes, "relevant_tokens", "attachment_tokens"),
        facts=_mean([row.facts for row in rows], 2),
        facts_relevant=_share(yes, "facts_relevant", "facts"),
        facts_complete=_share(rows, "facts_complete", "facts"),
        constraints=_mean([row.constraints for row in rows], 2),
        constraints_binding=_share(rows, "constraints_binding", "constraints"),
        issues_unanswerable=_mean([row.open_issues > 0 for row in no]),
        issues_answerable=_mean([row.open_issues > 0 for row in yes]),
        not_found_unanswerable=_mean([row.word == WORDS[2] for row in no]),
        not_found_answerable=_mean([row.word == WORDS[2] for row in yes]),
        perhaps_unanswerable=_mean([row.word == WORDS[1] for row in no]),
        perhaps_answerable=_mean([row.word == WORDS[1] for row in yes]),
        auc=auc(unsure, sure),
        recall_at_alarms=recall_at(unsure, sure, FALSE_ALARMS),
        copies=_mean([row.copies for row in rows], 2),
        fact_copies=_mean([row.fact_copies for row in rows], 2),
    )


def _mean(values: Sequence[float], digits: int = DIGITS) -> float | None:
    return round(sum(sorted(values)) / len(values), digits) if values else None


def _share(rows: Sequence[PromptMeasure], part: str, whole: str) -> float | None:
    total = sum(getattr(row, whole) for row in rows)
    return round(sum(getattr(row, part) for row in rows) / total, DIGITS) if total else None


@dataclass(frozen=True, slots=True)
class PromptReport:
    """The prompts of one project's gold questions, measured."""

    project: str
    generation: int  # the generation that was asked
    series: str  # digest of the questions: reports of one series compare
    fingerprint: str  # digest of questions, generation, settings, models and code
    rows: Sequence[PromptMeasure] = field(default=())  # one a question, in the order of the file

    @property
    def figures(self) -> PromptFigures:
        """What the prompts come to."""
        return figures_of(self.rows)

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form."""
        head = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "rows"}
        return {
            **head,
            "figures": self.figures.to_json(),
            "questions": [asdict(row) for row in self.rows],
        }


def changes(old: Mapping[str, float | None], new: PromptFigures) -> list[tuple[str, float, float]]:
    """Return the figures that differ: name, then and now; what only one side has is left out."""
    pairs = [(name, old.get(name), value) for name, value in new.to_json().items()]
    return [(n, a, b) for n, a, b in pairs if a is not None and b is not None and a != b]
