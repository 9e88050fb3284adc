"""Sentences of an answer, the rule by quote and agreement, the judges, the file of answers."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragstream_core.answers.answer import REFUSAL
from ragstream_core.answers.citations import Issued
from ragstream_core.errors import UsageError
from ragstream_core.evaluation.agreement import THRESHOLD, sentences_of, stands, support
from ragstream_core.evaluation.faithfulness import Answered, Report, judged, keep, kept
from ragstream_core.evaluation.gold_answers import Comparison, compared, read_answers
from ragstream_core.evaluation.judges import LlmJudge, NliJudge, QuoteJudge, Verdicts
from ragstream_core.models.chat.scripted import ScriptedChat
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.models.rerankers import NliModel
from ragstream_core.prompts.exchanges import Exchanges
from tests.unit.models.rerankers.test_nli import build_nli

EMBED = HashedEmbedder().embed_documents
TEXT = (
    "The normal lock is held by one writer. In 1066 the Normans crossed the Channel with 700 "
    "ships. William did not lose the battle. The European Union has a court in Luxembourg."
)
ISSUED = {
    "aaaaaaaa": Issued("aaaaaaaa", "a.md", "a.md::x::0", TEXT),
    "bbbbbbbb": Issued("bbbbbbbb", "b.md", "b.md::x::0", "Another text about nothing."),
}
A, B = "[source: a.md, chunk: aaaaaaaa]", "[source: b.md, chunk: bbbbbbbb]"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (f"One writer holds it {A}. It waits {B}.", [("claim", "a"), ("claim", "b")]),
        (f"One writer holds it. {A} It waits. {B}", [("claim", "a"), ("claim", "b")]),
        (f"One writer holds it.\n{A}\n\nIt waits.", [("claim", "a"), ("claim", "")]),
        (f"{A} One writer holds it. It waits.", [("claim", "a"), ("claim", "")]),
        (f"According to {A}, one writer holds it.", [("claim", "a")]),
        (f"One writer {A} {B} holds it.", [("claim", "ab")]),
        (f"- One writer. It waits. {A}\n- Nobody else.", [("claim", "a")] * 2 + [("claim", "")]),
        (f"One writer. It waits. {A}", [("claim", ""), ("claim", "a")]),
        ("# Locks\n\nWho waits?", [("heading", ""), ("question", "")]),
        (REFUSAL, [("refusal", "")]),
        ("There are three modes:", [("connective", "")]),
        (f"There are three modes {A}:", [("claim", "a")]),
        ("Thanks!\n\nLet me know if more is needed.", [("connective", "")] * 2),
        ("```\nrm -rf data\n```\n| a | b |\n|---|---|", [("code", ""), ("claim", "")]),
        ("", []),
    ],
)
def test_what_claims_something_and_what_it_cites(answer, expected):
    found = sentences_of(answer, ISSUED)
    assert [(s.kind, "".join(i[0] for i in s.cited)) for s in found] == expected
    assert not any("chunk:" in s.text for s in found)


def test_a_marker_that_was_not_issued_or_names_another_file_is_unknown():
    answer = "It waits [source: a.md, chunk: 12345678]. It waits [source: b.md, chunk: aaaaaaaa]."
    found = sentences_of(answer, ISSUED)
    assert [(s.cited, s.unknown) for s in found] == [((), 1), ((), 1)]


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        ("The normal LOCK is held, by one writer", "quote"),
        ("One writer holds the normal lock.", "agreement"),
        ("The Normans crossed the Channel with 700 ships in 1066.", "agreement"),
        ("The Normans crossed the Channel with 7,000 ships.", "number"),
        ("The Normans crossed the Channel with twelve ships.", "number"),
        ("The lock is held by one writer in Hastings.", "name"),
        ("The EU has a court in Luxembourg.", "agreement"),
        ("The lock is held by one NATO writer.", "name"),
        ("One writer does not hold the normal lock.", "denial"),
        ("The normal lock is not held by one writer.", "changed"),
        ("William did lose the battle.", "changed"),
        ("In 1066 the Channel crossed the Normans with 700 ships.", "changed"),
        ("Bread is baked from flour and water.", "far"),
    ],
)
def test_the_rule_by_quote_and_agreement(sentence, rule):
    found = support(sentence, TEXT, embed=EMBED)
    assert (found.rule, found.supported) == (rule, rule in ("quote", "agreement"))


DENIED = (
    ("Der Port des Dienstes ist 8503.", "Der Port des Dienstes ist nicht 8503."),
    ("Der Dienst hat einen Port.", "Der Dienst hat keinen Port."),
    ("Le port du service est 8503.", "Le port du service n'est pas 8503."),
    ("El puerto del servicio es 8503.", "El puerto del servicio no es 8503."),
    ("La porta del servizio è 8503.", "La porta del servizio non è 8503."),
    ("A porta do serviço é 8503.", "A porta do serviço não é 8503."),
    ("De poort van de dienst is 8503.", "De poort van de dienst is niet 8503."),
    ("Port usługi to 8503.", "Port usługi to nie 8503."),
    ("Порт службы это 8503.", "Порт службы это не 8503."),
    ("Tjänstens port är 8503.", "Tjänstens port är inte 8503."),
    ("Tjenestens port er 8503.", "Tjenestens port er ikke 8503."),
    ("Hizmetin portu 8503.", "Hizmetin portu 8503 değil."),
    ("Palvelun portti on 8503.", "Palvelun portti ei ole 8503."),
    ("Der Dienst läuft nachts.", "Der Dienst läuft nachts nicht."),
    ("The service works at night.", "The service works at night no longer."),
    ("网关的端口是8503。", "网关的端口不是8503。"),
)


def test_a_quote_stands_beside_a_denial_of_something_else():
    same = np.array([[1.0, 0.0]], dtype=np.float32)
    other = "The gate is open. It is not the case that the gate is open at night."
    for passage in ("The gate is open, but the door is not.", other):
        assert support("The gate is open", passage, embed=lambda t: same[[0] * len(t)]).supported


@pytest.mark.parametrize(("affirmed", "denied"), DENIED)
def test_a_denial_counts_in_other_languages(affirmed, denied):
    same = np.array([[1.0, 0.0], [1.0, 0.0]], dtype=np.float32)
    for sentence, passage in ((affirmed, denied), (denied, affirmed)):
        found = support(sentence, passage, embed=lambda texts: same[[0] * len(texts)])
        assert not found.supported, (sentence, found)


@given(held=st.integers(0, 5), cosine=st.floats(-1, 1))
@example(held=2, cosine=0.96)  # exactly on the threshold
@example(held=2, cosine=0.95999)
def test_half_the_words_and_half_the_cosine_must_reach_the_threshold(held, cosine):
    words = ("lantern", "harbour", "copper", "meadow", "whistle")
    passage = " ".join([*words[:held], *(f"other{n}" for n in range(5 - held))])
    near = np.array([[1.0, 0.0], [cosine, math.sqrt(1 - cosine**2)]], dtype=np.float32)
    found = support(f"The {' '.join(reversed(words))}", passage, embed=lambda texts: near)
    expected = (held / 5 + max(0.0, cosine)) / 2
    assert found.score == pytest.approx(expected, abs=2e-6)
    assert found.supported == (found.score >= 0.68 == THRESHOLD)


def test_links_and_the_title_count_as_what_they_show():
    assert stands("See the lock page", "See the [lock](https://example.org/x) page")
    near = support("The `Bergen` court sits in Luxembourg.", TEXT, embed=EMBED, title="x/Bergen.md")
    assert near.rule != "name"
    assert not stands("", TEXT) and not stands("...", TEXT)


def test_the_best_of_several_cited_passages_counts():
    answered = Answered("?", f"One writer holds the normal lock {B} {A}.", ISSUED)
    (verdict,) = judged(answered, QuoteJudge(EMBED)).verdicts
    assert verdict.supported


def test_counts_and_right_answers():
    answer = f"# Locks\n\n{REFUSAL}\n\nOne writer holds the normal lock {A}. It is red. "
    answer += "Blue [source: x, chunk: 00000000]."
    found = judged(Answered("?", answer, ISSUED, ("one writer", "two")), QuoteJudge(EMBED))
    counts = found.counts()
    assert (counts.claims, counts.supported, counts.score) == (3, 1, 0.3333)
    assert (counts.uncited, counts.unknown_citations, counts.refused) == (1, 1, False)
    assert (counts.right.contained, counts.right.exact_match) == (1.0, 0.0)
    assert found.to_json()["sentences"][0] == {"text": "# Locks", "kind": "heading", "cited": []}


def test_squad_figures():
    assert compared("The Cat sat!", ("a cat  sat",)).exact_match == 1.0
    assert compared("the cat sat down", ("cat sat",)) == Comparison(0.0, 0.8, 1.0)
    assert compared("dog", ("cat",)) == Comparison(0.0, 0.0, 0.0)


def test_an_entailment_model_judges_what_is_no_quote(tmp_path):
    model = NliModel(build_nli(tmp_path / "tiny"), model="tiny", device="cpu")
    judge = NliJudge(model.entailment, name=model.name)
    passages = list(ISSUED.values())
    said = "One writer holds the lock."
    quote, other = judge.judge([("held by one writer", passages), (said, passages)])
    assert quote == (1.0, True, "quote", "")
    assert other.score == max(model.entailment([said], [p.text for p in passages]))
    assert (other.rule, other.supported) == ("entailment", other.score >= 0.5)

    passage = passages[:1]
    for share, held in ((0.49, False), (0.5, True)):
        (verdict,) = NliJudge(lambda _, p, share=share: [share] * len(p)).judge([(said, passage)])
        assert verdict.supported is held


def test_figures_of_two_series_of_one_generation_are_both_kept(tmp_path):
    for series in ("a" * 64, "b" * 64):
        keep(tmp_path, Report("demo", "quote", [], generation=3, series=series))
        keep(tmp_path, Report("demo", "quote", [], generation=3, series=series))
    assert [row.series[0] for row in kept(tmp_path)] == ["a", "b"]
    assert [row.series[0] for row in kept(tmp_path, "b" * 64)] == ["b"]


@pytest.mark.parametrize(
    "damage",
    [{"generation": None}, {"generation": "3"}, {"series": 7}, {"score": "good"}, {"claims": None}],
)
def test_a_damaged_report_is_passed_over(tmp_path, damage):
    for series in ("a" * 64, "b" * 64):
        path = keep(tmp_path, Report("demo", "quote", [], generation=3, series=series))
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))
    (tmp_path / "1-c.json").write_text("[]")
    assert [row.series[0] for row in kept(tmp_path)] == ["a"]


def asking(tmp_path, say):
    path = tmp_path / "script.yaml"
    path.write_text(json.dumps([{"say": say if isinstance(say, str) else json.dumps(say)}]))
    exchanges = Exchanges(ScriptedChat(path))

    def ask(messages, schema, check):
        said = exchanges.ask("faithfulness", messages, schema, fallback="quote", check=check)
        return said.value, said.reason

    return ask, exchanges


def verdicts(*rows):
    return {"verdicts": [{"claim": c, "supported": s, "quote": q} for c, s, q in rows]}


CLAIMS = [("A writer has it.", [ISSUED["aaaaaaaa"]]), ("Held by one writer", list(ISSUED.values()))]


def test_a_language_model_must_quote_what_supports_a_sentence(tmp_path):
    good = verdicts(("c1", True, "held by one writer"), ("c2", False, ""))
    ask, exchanges = asking(tmp_path, good)
    found = LlmJudge(ask, QuoteJudge(EMBED)).judge(CLAIMS)
    assert [(v.supported, v.rule) for v in found] == [(True, "model"), (False, "model")]
    (made,) = exchanges.made
    assert made.validated and json.loads(made.response) == good
    assert Verdicts.model_validate(good)


@pytest.mark.parametrize(
    "bad",
    [
        "no JSON",
        verdicts(("c1", True, "held by one writer")),
        verdicts(("c1", True, "held by one writer"), ("c1", True, "held by one writer")),
        verdicts(("c1", True, "words of its own"), ("c2", False, "")),
        verdicts(("c1", True, ""), ("c2", False, "")),
        verdicts(("c1", True, "by"), ("c2", False, "")),
        verdicts(("c1", True, "Another text about nothing"), ("c2", False, "")),
    ],
)
def test_a_bad_answer_of_a_language_model_leaves_it_to_the_other_judge(tmp_path, bad):
    ask, exchanges = asking(tmp_path, bad)
    other = QuoteJudge(EMBED)
    found = LlmJudge(ask, other).judge(CLAIMS)
    assert [v[:3] for v in found] == [v[:3] for v in other.judge(CLAIMS)]
    assert not exchanges.made[0].validated and exchanges.made[0].fallback == "quote"
    assert all(v.reason for v in found)


def test_a_file_of_answers(tmp_path):
    path = tmp_path / "answers.jsonl"
    passage = {"id": "p1", "source": "a.md", "text": TEXT}
    path.write_text(
        json.dumps({"answer": "x", "passages": [passage], "gold": "one"})
        + "\n\n"
        + json.dumps({"answer": "", "prompt_key": "ab" * 32, "gold": ["one", "two"]})
    )
    (one, first), (three, second) = read_answers(path)
    assert (one, three) == (1, 3)
    assert first.issued["p1"].text == TEXT and first.right == ("one",)
    assert second.right == ("one", "two")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", ":1: "),
        ("[]", ":1: "),
        ('{"answer": 1, "question": "x"}', "answer"),
        ('{"answer": "x"}', "neither prompt_key, passages nor question"),
        ('{"answer": "x", "question": "x", "more": 1}', "more"),
        ('{"answer": "x", "passages": [{"id": "a b", "source": "a", "text": "b"}]}', "id"),
        ('{"answer": "x", "question": "x", "gold": [""]}', "gold"),
        ("", "no answer"),
    ],
)  # fmt: skip
def test_what_is_no_file_of_answers_is_refused(tmp_path, line, said):
    path = tmp_path / "answers.jsonl"
    path.write_text(line)
    with pytest.raises(UsageError, match=r"answers\.jsonl") as refused:
        read_answers(path)
    assert said in str(refused.value)
