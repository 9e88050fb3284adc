"""Which sentences can be read by themselves, and which are quoted with what stands before them."""

import pytest

from ragstream_core.agents.context.passage_selection import stemmed_terms
from ragstream_core.agents.context.quotable import quotes_of
from ragstream_core.agents.context.whole_sentences import is_whole, leans
from ragstream_core.records import Chunk
from ragstream_core.text.marked_blocks import blocks


def said(text, heading="", name="a.txt"):
    chunk = Chunk("c", name, text, (0, len(text)), {"heading": heading})
    return [quote.text for quote in quotes_of(chunk, 0, stemmed_terms)]


@pytest.mark.parametrize(
    "text",
    [
        "The lock is held by one writer.",
        "A row is dropped if no generation lies in [from_gen, to_gen).",
        "“The seal is checked every day.”",
        "压力不超过3巴。",
        "Die Dichtung wird jährlich gewechselt.",
    ],
)
def test_whole(text):
    assert is_whole(text)


@pytest.mark.parametrize(
    "text",
    [
        "The steps are as follows:",
        "The model we have just fitted is the Michaelis-Menten model, so we can use",
        "and the other one waits for it.",
        "The lock (see the page about locks is held by one.",
        "Commands are separated by a full stop;",
        ", which is why it waits.",
        "Mostly open source, widely available",
    ],
)
def test_not_whole(text):
    assert not is_whole(text)


def test_an_item_that_says_what_a_name_stands_for_needs_no_full_stop():
    assert is_whole("`--json`: prints everything as JSON", item=True)
    assert is_whole("Ann Berg (12:00): the valve shuts at 7 bar", item=True)
    assert not is_whole("Some words. Ann Berg: the valve shuts at 7 bar", item=True)
    assert not is_whole("`--json`: prints everything as JSON")


@pytest.mark.parametrize(
    "text",
    ["It must never be exceeded.", "This holds for all of them.", "If it fails, nothing is kept.",
     "Otherwise the file is left.", "Dadurch steigt der Druck.", "Cela suffit pour le reste."],
)  # fmt: skip
def test_leaning(text):
    assert leans(text)


@pytest.mark.parametrize(
    "text",
    ["It is possible to mix both forms.", "The budget must never be exceeded.",
     "This page tells what a lock is.", "Item numbers begin with one.", "Then-clauses are rare."],
)  # fmt: skip
def test_not_leaning(text):
    assert not leans(text)


def test_what_leans_is_quoted_with_what_it_leans_on_or_under_its_heading():
    text = "The budget of a prompt is six thousand tokens. It must never be exceeded."
    assert said(text)[1] == text
    assert said(text, heading="The budget")[1] == "It must never be exceeded."
    assert said("It must never be exceeded by any of them.") == []


def test_several_leaning_sentences_are_quoted_from_the_first_that_does_not_lean():
    text = (
        "A statement without expressions raises the active exception again. Otherwise the first "
        "expression is raised. It must be a subclass of the base class."
    )
    assert said(text)[-1] == text


def test_a_lead_in_is_quoted_with_its_list_or_its_line_of_code_only():
    kept = "If a decision was based on a prompt, keep it:\n\n    ragstream keep 3f9a0c77\n"
    assert "If a decision was based on a prompt, keep it: ragstream keep 3f9a0c77" in said(kept)
    assert said(
        "The most important settings of it are these:\n\nThe port is eighty by default."
    ) == ["The port is eighty by default."]


def test_a_line_that_ends_in_a_semicolon_ends_no_sentence():
    wrapped = (
        'To remove all commands from a breakpoint, type "commands" and follow it with "end";\n'
        "that is, give no commands. One line may hold several of them.\n"
    )
    assert said(wrapped)[0].endswith("that is, give no commands.")
    assert said("A rule of the language ends here;\nAnother one begins in capitals there.") == [
        "Another one begins in capitals there."
    ]


@pytest.mark.parametrize(
    "text",
    [
        'The "__divmod__()" method should be the equivalent to using "__floordiv__()" and'
        ' "__mod__()".',
        "Call “seal.close()” and then “seal.check()” before the file is moved elsewhere.",
    ],
)
def test_names_of_programs_in_quotation_marks_make_a_sentence_no_code(text):
    assert said(text) == [text]


@pytest.mark.parametrize(
    "text",
    ['("," identifier ["as" identifier])* [","] ")" and so on for all of them.',
     ">>> 'mississippi'.rstrip('ipz').split('s'); print(x) # a line of a shell."],
)  # fmt: skip
def test_a_line_of_a_grammar_or_a_shell_is_no_sentence(text):
    assert said(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Theta defaults to 0.25.",
        "The limit is 5.",
        "Der Port ist 8503.",
        "Its owner is Anna.",
        "El puerto es 8503.",
        "The key is `min_score`.",
    ],
)
def test_a_short_sentence_that_names_or_counts_is_a_fact(text):
    assert said(f"{text} More of it follows below in this text.", "H")[0] == text


@pytest.mark.parametrize(
    "text", ["It works well.", "See Fig. 3.", "Very good.", "Step 3.", "Yes, 5."]
)
def test_a_short_one_that_says_nothing_is_none(text):
    assert text not in said(f"{text} More of it follows below in this text.", "H")


def test_what_is_fenced_is_no_sentence_and_what_stands_behind_is():
    text = "~~~\n```\nIn a fence nothing is a statement of ours.\n~~~\nThe gate keeps what is near."
    assert said(text) == ["The gate keeps what is near."]


def test_a_quotation_is_quoted_without_its_marks():
    text = "> The pump delivers forty litres of water each minute at full\n> speed if it is open."
    assert said(text) == [
        "The pump delivers forty litres of water each minute at full speed if it is open."
    ]


@pytest.mark.parametrize("bar", ["", "| "])
def test_a_table_needs_no_outer_bars(bar):
    text = f"{bar}Name | Port\n{bar}---- | ---:\n{bar}gateway | 8503\n{bar}mailer | 25\n\nA | bar."
    assert [quote.replace("Name: ", "").replace("Port: ", "").replace(" · ", " | ")
            for quote in said(text)][:2] == ["gateway | 8503", "mailer | 25"]  # fmt: skip
    assert blocks(text)[-1].kind == "prose"


def test_rows_of_a_table_in_html_are_facts():
    rows = (
        "<tr><td>gateway</td><td>8503</td></tr>\n<tr>\n<td>mailer</td>\n<td class=x>25</td>\n</tr>"
    )
    head = "<tr><th>Name</th><th>Port</th></tr>"
    text = f"<table>\n{head}\n{rows}\n</table>\n\nThe gate is shut at night."
    facts = ["Name: gateway · Port: 8503", "Name: mailer · Port: 25", "The gate is shut at night."]
    assert said(text) == facts
    in_a_line = f"<TABLE>{head}{rows}</TABLE>".replace("\n", "")
    assert said(f"{in_a_line}\n\nThe gate is shut at night.") == facts
    parts = f"<table>\n  <thead>\n{head}\n  </thead>\n  <tbody>\n{rows}\n  </tbody>\n</table>"
    assert said(parts) == facts[:2]


def test_names_of_one_html_table_are_not_those_of_the_next():
    row = "<tr><td>gateway</td><td>8503</td></tr>"
    head = "<tr><th>Name</th><th>Port</th></tr>"
    assert said(f"<table>{head}{row}</table>\n<table>{row}</table>")[1] == "gateway | 8503"
    assert said(f"<table>\n{head}\n{row}\n</table>\n<table>\n{row}\n")[1] == "gateway | 8503"
    assert said(f"<table>\n{head}\n<tr><td>a 1</td><td>b 2</td><td>c 3</td></tr>") == [
        "a 1 | b 2 | c 3"
    ]
