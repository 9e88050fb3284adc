"""The row of a table that a question names: found, before others, and quoted with its columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.context.named_rows import meant, row_cells, rows_in
from ragstream_core.agents.context.passage_selection import stemmed_terms
from ragstream_core.agents.context.quotable import quotes_of
from ragstream_core.records import Chunk
from ragstream_core.records.s_ctx import NOT_FOUND
from ragstream_core.text.contexts import Contexts
from tests.benchmarks.bench_tables import measured
from tests.workspaces import ask, hashed_workspace, ingested_workspace

STATIONS = [f"| ST-{n:04} | {'Kendal' if n % 2 else 'Calder'} | {n * 7 % 90} |" for n in range(40)]


def named(question, lines, sources=None):
    rows = [row_cells(line) for line in lines]
    found = meant(question, rows, sources or ["a.csv"] * len(lines))
    return [line for line, is_meant in zip(lines, found, strict=True) if is_meant]


def quotes(text, context=""):
    chunk = Chunk("x", "a.csv", text, (0, len(text)), {"heading": "", "context": context})
    return quotes_of(chunk, 0, stemmed_terms)


class TestMeant:
    @given(st.integers(0, 39))
    def test_a_row_is_named_by_its_id(self, n):
        assert named(f"How deep is st-{n:04}?", STATIONS) == [STATIONS[n]]

    @pytest.mark.parametrize(
        ("question", "row"),
        [("Where is Ada Lovelace?", "| Ada Lovelace | 1.02 |"),
         ("price of a brass elbow of 15 mm", "| brass elbow | 15 mm | 9,50 |"),
         ("Line 1 at Ashford North?", "| Line 1 | Ashford North | 10:12 |"),
         ("Was ist mit 00123?", "| 00123 | Ventil |"),
         ("what of VK-1?", "part: VK-1 · torque: 45 · town: Kiel"),
         ("what of VK-1?", "VK-1\t45"), ("what of VK-1?", "<tr><td>VK-1</td><td>45</td></tr>")],
    )  # fmt: skip
    def test_by_what_stands_in_whole_cells(self, question, row):
        others = ["| Ada Byron | 2.01 |", "| brass elbow | 10 mm | 8 |",
                  "| brass elbow | 5 mm | 7 |", "| Line 11 | Ashford North | 9 |",
                  "| Line 1 | Ashford | 8 |", "| 123 | x |", "| VK-10 | 7 |"]  # fmt: skip
        assert named(question, [*others, row]) == [row]

    def test_a_town_of_many_rows_names_none_and_two_ids_name_two(self):
        assert named("Which stations are in Kendal?", STATIONS) == []
        both = named("Compare ST-0003 with ST-0020", STATIONS)
        assert both == [STATIONS[3], STATIONS[20]]

    def test_a_person_of_many_visits_is_named_in_the_list_of_people(self):
        visits = [f"| 2024-01-{n:02} | Ada Byron | {n} |" for n in range(1, 10)]
        people = ["| Ada Byron | 2.01 |", "| Ada Lovelace | 1.02 |"]
        sources = ["people.ods"] * 2 + ["visits.csv"] * 9
        assert named("Room of Ada Byron?", [*people, *visits], sources) == [people[0]]
        assert named("Room of Ada Byron?", visits) == []
        dated = named("Which visit of Ada Byron was on 2024-01-03?", [*people, *visits], sources)
        assert dated == [visits[2]]

    @given(st.text(max_size=40), st.lists(st.text(max_size=30), max_size=5))
    def test_any_text_is_read(self, question, lines):
        sources = ["a.csv", "b.csv"] * len(lines)
        rows = [row_cells(line) for line in lines]
        assert len(meant(question, rows, sources[: len(lines)])) == len(lines)
        assert all(len(cells) > 1 for cells in rows_in("\n".join(lines)))


class TestQuoted:
    def test_a_line_of_named_values_is_a_row(self):
        text = "Station: S-0 · Flow: 12 · Town: Kendal · Depth: 9 · Kind: x · Note: It leaks. Ask."
        assert [quote.text for quote in quotes(text)] == [text]

    def test_a_row_under_a_very_wide_head_names_all_its_columns(self):
        names = [f"Mean of the day at sensor number {n}" for n in range(20)]
        rows = [f"| {' | '.join(str(n * 20 + k) for k in range(20))} |" for n in range(9)]
        text = "\n".join([f"| {' | '.join(names)} |", "|" + "---|" * 20, *rows])
        at = text.index(rows[4])
        context = Contexts(text, file_type="md").at(at, measure=len, most=300)
        (quote,) = quotes(rows[4], context)
        assert quote.text.count(" · ") == 19 and quote.text.endswith("19: 99")
        assert quote.verbatim == rows[4].strip("| ")


class TestInAPrompt:
    def test_a_row_is_found_and_quoted_whoever_keeps_the_table(self, tmp_path):
        space = hashed_workspace(tmp_path, {"vector_store.collection": "false"})
        only = ["stations.xlsx", "invoices.csv", "timetable.tsv", "staff.ods", "species.md"]
        found = measured(space, most=150, each=6, only=only)
        assert {file for file, _, _ in found} == set(only)
        assert sum(bool(m.answer_shown) for _, _, m in found) >= 0.95 * len(found)
        assert sum(bool(m.answer_in_facts) for _, _, m in found) >= 0.9 * len(found)

    def test_a_row_that_is_named_is_never_not_found(self, tmp_path):
        rows = "\n".join(STATIONS)
        text = f"# Stations\n\n| Station | Town | Depth (m) |\n|---|---|---|\n{rows}\n"
        space = ingested_workspace(tmp_path, docs={"stations.md": text})
        prompt = ask(space, "How deep is ST-0017?")
        (fact,) = prompt.extras.s_ctx.facts
        assert fact.text == "Station: ST-0017 · Town: Kendal · Depth (m): 29"
        assert [answer.word for answer in prompt.extras.answers] != [NOT_FOUND]
        assert "| ST-0017 |" in prompt.base_context_chunks[0].snippet or any(
            chunk.id == prompt.views_by_stage["reranked"][0] and "| ST-0017 |" in chunk.snippet
            for chunk in prompt.base_context_chunks
        )
