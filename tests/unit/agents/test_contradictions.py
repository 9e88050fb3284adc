"""Which sentences give one subject two values."""

import pytest

from ragstream_core.agents.context.contradictions import disagree, newer_of
from ragstream_core.agents.context.quotable import Quote
from ragstream_core.agents.context.supersession import Replaced
from ragstream_core.text.terms import terms


def quote(text, source="a.md", heading=""):
    held = tuple(terms(text))
    return Quote("id", source, 0, (0, 9), text, heading, held, frozenset(held), frozenset())


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("The limit of service 2 is 5 calls.", "The limit of service 2 is 7 calls.", True),
        ("The limit of service 1 is 5 calls.", "The limit of service 2 is 7 calls.", False),
        ("We keep five copies of a backup.", "We keep seven copies of a backup.", True),
        ("A call ends after 30 seconds here.", "A call ends after 0.5 minutes here.", False),
        ("A call ends after 30 seconds here.", "A call ends after 2 minutes here.", True),
        ("The pump K-10 weighs 12 kg when dry.", "The pump K-20 weighs 18 kg when dry.", False),
        ("The pump K-10 weighs 12 kg when dry.", "The pump K-10 weighs 18 kg when dry.", True),
        ("The pump K-10 weighs 12kg when dry.", "The pump K-10 weighs 12 kg when dry.", False),
        (
            "The port of the catalog service in production is 8080.",
            "The port of the billing service in production is 9090.",
            False,
        ),
        ("Das Team hat fünf Mitglieder in Bern.", "Das Team hat sechs Mitglieder in Bern.", True),
        ("L'équipe compte cinq membres à Berne.", "L'équipe compte sept membres à Berne.", True),
        ("El equipo tiene dos miembros en León.", "El equipo tiene tres miembros en León.", True),
        ("Die Frist dauert 1,5 Stunden im Werk.", "Die Frist dauert 90 Minuten im Werk.", False),
        ("La garantía dura 2 años en España.", "La garantía dura 24 meses en España.", False),
        ("The plan costs 20 euros a month.", "The plan costs 20.00 euros a month.", False),
        ("The budget is 2 million euros here.", "The budget is 2,000,000 euros here.", False),
        ("The budget is 2 million euros here.", "The budget is 3 million euros here.", True),
        ("The tank holds 1,500 litres of oil.", "The tank holds 2,500 litres of oil.", True),
        ("The tank holds 1,500 litres of oil.", "The tank holds 1500 litres of oil.", False),
        ("The audit of Sept 2026 found 3 gaps.", "The audit of Sept 2026 found 3 gaps.", False),
        ("The pilot starts on 20 April 2026.", "The pilot starts on 4 May 2026.", True),
        ("The pilot starts on 20 April.", "New date: the pilot starts on 4 May 2026.", True),
        ("Reads listen on port 8080 here.", "Reads listen on port 9090 here.", True),
    ],
)
def test_two_values_of_one_subject(left, right, expected):
    assert disagree(quote(left), quote(right)) is expected
    assert disagree(quote(right, "b.md"), quote(left)) is expected


def test_headings_name_subjects_too():
    one = quote("The service listens on port 8080.", heading="Catalog service")
    two = quote("The service listens on port 9090.", heading="Billing service")
    assert not disagree(one, two)
    assert disagree(one, two._replace(heading="Catalog service"))


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("Pumps > K-10 > Weight", "Pumps > K-20 > Weight", False),
        ("Expenses > Travel > Limits", "Expenses > Hotels > Limits", False),
        ("Expenses > Overview", "Expenses > Limits", True),
        ("Expenses > Limits", "Expenses > Limits", True),
    ],
)
def test_headings_above_part_subjects_within_a_document(left, right, expected):
    one = quote("The limit is 50 euros a day.", heading=left)
    two = quote("The limit is 70 euros a day.", heading=right)
    assert disagree(one, two) is expected
    titled = two._replace(source="b.md", heading="Rules of HR-7 > Limits")
    assert disagree(one._replace(heading="Expenses > Limits"), titled)


def test_the_newer_is_named_where_the_documents_say_it():
    old, new = quote("x", "m21.md", "Meals 2021"), quote("y", "m25.md", "Meals 2025")
    assert newer_of(old, new, {}) == newer_of(new, old, {}) == " (newer: m25.md)"
    assert newer_of(old._replace(heading=""), new, {}) == ""
    assert newer_of(new, old, {"m25.md": Replaced("m21.md", True)}) == " (newer: m21.md)"


def test_the_newer_is_named_by_the_day_too():
    old, new = quote("x", "m/2026-02-12.md"), quote("y", "m/2026-04-16.md")
    assert newer_of(old, new, {}) == newer_of(new, old, {}) == " (newer: m/2026-04-16.md)"
    older, later = quote("x", "a.md", "Minutes, 3 May 2026"), quote("y", "b.md", "4. Mai 2026")
    assert newer_of(older, later, {}) == " (newer: b.md)"
    assert newer_of(old, quote("y", "plan 2026.md"), {}) == ""
