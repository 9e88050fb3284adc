import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.context.shown import readable
from ragstream_core.text.blocks import LineKind, lines_of
from ragstream_core.text.marked_blocks import blocks
from ragstream_core.text.sentences import sentence_spans, sentences_in


def sentences(text):
    return [text[a:b] for a, b in sentence_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It works! Does it? Yes.", ["It works!", "Does it?", "Yes."]),
        ("Use v1.2 of file.ext. Then stop.", ["Use v1.2 of file.ext.", "Then stop."]),
        (
            "Dr. Smith came, e.g. on Monday. He left.",
            ["Dr. Smith came, e.g. on Monday.", "He left."],
        ),
        ("See Fig. 3 and No. 4. Done.", ["See Fig. 3 and No. 4.", "Done."]),
        ("She said no. Then left.", ["She said no.", "Then left."]),
        ("J. R. Smith of the U.S. Army.", ["J. R. Smith of the U.S. Army."]),
        ("1. First item. Second.\n2. Other", ["1. First item.", "Second.", "2. Other"]),
        ("- a\n- b", ["- a", "- b"]),
        ("# Title\nText. More.", ["# Title", "Text.", "More."]),
        ('He said "stop." She did.', ['He said "stop."', "She did."]),
        ("これは文です。次の文。", ["これは文です。", "次の文。"]),
        ("```py\nx = 1. Y\n\ny = 2\n```\nEnd.", ["```py", "x = 1. Y", "y = 2", "```", "End."]),
        ("first thing\nsecond thing", ["first thing", "second thing"]),
        (" \n\t", []),
        ("...", ["..."]),
    ],
)
def test_boundaries(text, expected):
    assert sentences(text) == expected


def test_wrapped_prose_is_not_cut_at_the_margin():
    text = "This line is long enough to have been wrapped at the margin of a\nPage. Next one."
    assert sentences(text) == [text[: text.index("Page.") + 5], "Next one."]


@pytest.mark.parametrize("unit", [".", " ", '."', "a. ", "*", "A. ", "\"'", "`", "。", "(.", '. "'])
def test_a_hundred_kilobytes_take_no_time(unit):
    text = unit * (100_000 // len(unit))
    begin = time.process_time()
    sentence_spans(text)
    assert time.process_time() - begin < 30  # quadratic rules take minutes


@pytest.mark.parametrize(
    "text",
    [
        "Als Medium dient z. B. Wasser oder ein anderes Öl.",
        "Es gilt i. d. R. Absatz 2, d.h. Alles ist erlaubt.",
        "Siehe Abs. 2 Satz 1 und Art. 5 der Norm, Nr. 7.",
        "Am 31. März und im 19. Jahrhundert war es so.",
        "Véase la pág. 12, p. ej. Madrid, y el Sr. López.",
        "Voir p. ex. Paris, env. 5 km, chap. 3.",
        "The price incl. VAT is 5.",
        "A line that ends at the margin and goes on\n(in brackets) is one sentence.",
    ],
)
def test_these_stops_end_no_sentence(text):
    assert sentences(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "Das ist eine andere Art. Wasser fehlt.",
        "Der Port ist 5. Die Grenze ist 7.",
        "It opens at 5 a. m. The pump starts.",
        "It is 5 mm. The pump is new.",
        "She said no. Then left.",
        "That was in 44 v. Chr. Danach kam Augustus.",
    ],
)
def test_these_stops_do(text):
    assert len(sentences(text)) == 2


FENCES = st.sampled_from(["```", "````", "~~~", "~~~~"])


@given(FENCES, st.lists(st.sampled_from(["```", "~~~", "```py", "words", ""]), max_size=6))
def test_only_its_own_fence_closes_a_block_of_code(fence, inside):
    inside = [line for line in inside if not (line.startswith(fence) and line == line[0] * 3)]
    text = "\n".join([f"{fence}text", *inside, fence, "A sentence behind."])
    found = blocks(text)
    assert [block.kind for block in found] == ["code", "prose"]
    fences = [line.kind for line in lines_of(text)]
    assert fences[0] is LineKind.FENCE and fences[-1] is LineKind.PROSE


def test_marks_of_a_quotation_stay_out_of_its_sentences():
    text = "> The pump runs at full speed now\n> (as before). It stops.\n>\n> > Two\n\n>>> print(3)"
    assert [text[b.start : b.end] for b in blocks(text)][0].startswith("The pump")
    assert [b.kind for b in blocks(text)] == ["prose", "prose", "prose"]
    block = blocks(text)[0]
    spans = sentences_in(text, block.start, block.end)
    assert [readable(text[a:b]) for a, b in spans] == [
        "The pump runs at full speed now (as before).",
        "It stops.",
    ]
