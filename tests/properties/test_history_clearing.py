"""Laws of clearing: what is chosen is gone, the rest keeps its bytes, numbers and order."""

import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import example, given, settings

from ragstream_core.conversations.clearing import choice_of, chosen
from ragstream_core.conversations.edits import Folded, merged
from ragstream_core.conversations.journal.records import Asked, Cleared, TagEdit, Turn
from ragstream_core.services.clear_history import clear
from ragstream_core.wiring.erase_turns import is_due
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.workspace import open_workspace

SESSIONS = ("a", "b", "a-1")
TIMES = tuple(f"2026-10-{day:02}T12:00:00+00:00" for day in range(1, 6))
rows = st.lists(
    st.tuples(
        st.sampled_from(["turn", "turn", "asked", "tag"]),
        st.sampled_from(SESSIONS),
        st.sampled_from(TIMES),
    ),
    min_size=1,
    max_size=14,
)
moments = st.sampled_from(["", *(time.replace("12:00", "00:00") for time in TIMES)])
choices = st.one_of(
    st.just({"everything": True}),
    st.builds(
        lambda session, since, until: {"session": session, "since": since, "until": until},
        st.sampled_from(["", *SESSIONS]),
        moments,
        moments,
    ).filter(lambda choice: any(choice.values())),
)


def record(n, kind, session, when, turns):
    if kind == "asked":
        return Asked(f"q{n}", session, when, f"question {n} of {session}")
    if kind == "tag" and turns:
        return TagEdit(f"t{n}", turns[n % len(turns)], when, add=("GOLD",))
    turns.append(f"u{n}")
    return Turn(f"u{n}", session, when, f"words {n} of {session}", "an answer")


def raw(log):
    return [(entry, line) for entry, line in log.lines() if not isinstance(entry.record, Cleared)]


@settings(max_examples=60, deadline=None)
@given(rows, st.lists(choices, min_size=1, max_size=3), st.sampled_from([200, 700, 100_000]))
@example([("turn", "a", TIMES[0])], [{"everything": True}, {"everything": True}], 200)
def test_the_rest_is_what_it_was(given_rows, wanted, segment_bytes):
    with tempfile.TemporaryDirectory() as folder:
        space = open_workspace(Path(folder), explicit={"embeddings.backend": "hashed"})
        log = journal(space)
        log._segment_bytes = segment_bytes
        turns: list[str] = []
        for n, (kind, session, when) in enumerate(given_rows):
            log.append([record(n, kind, session, when, turns)])
        for choice in wanted:
            before = raw(log)
            gone = {e.seq for e in chosen([e for e, _ in before], choice_of(**choice))}
            report = clear(space, choice_of(**choice))
            assert [line for _, line in raw(log)] == [x for e, x in before if e.seq not in gone]
            assert [e.seq for e, _ in raw(log)] == [e.seq for e, _ in before if e.seq not in gone]
            assert report.turns + report.questions + report.tags == len(gone)
            assert log.check().sound and not is_due(space)
            left = b"".join(p.read_bytes() for p in space.layout.history.rglob("*") if p.is_file())
            for entry, _ in before:
                text = getattr(entry.record, "user_text", "")
                assert entry.seq not in gone or not text or text.encode() + b'"' not in left
        numbers = [entry.seq for entry in log.entries()]
        log.append([Asked("last", "a", TIMES[0], "what comes now?")])
        assert log.newest().seq > max([*numbers, 0]) and log.check().sound
        notices = [e.record for e in log.entries() if isinstance(e.record, Cleared)]
        assert sum(n.turns for n in notices) + sum(
            isinstance(e.record, Turn) for e in log.entries()
        ) == len(turns)


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)), max_size=12), st.integers(1, 80))
def test_ranges_hide_what_they_name(starts, seq):
    ranges = [(first, first + more) for first, more in starts]
    hidden = Folded(hidden=merged(ranges)).is_hidden(seq)
    assert hidden == any(first <= seq <= last for first, last in ranges)


@settings(max_examples=40, deadline=None)
@given(rows, choices, st.data())
def test_a_damaged_line_goes_with_its_kind_and_takes_no_other(given_rows, choice, data):
    with tempfile.TemporaryDirectory() as folder:
        space = open_workspace(Path(folder), explicit={"embeddings.backend": "hashed"})
        log = journal(space)
        log._segment_bytes = 700
        turns: list[str] = []
        for n, (kind, session, when) in enumerate(given_rows):
            log.append([record(n, kind, session, when, turns)])
        spoken = [e for e in log.entries() if isinstance(e.record, Turn | Asked)]
        if not spoken:
            return
        victim = data.draw(st.sampled_from(spoken))
        path = log.folder / victim.segment
        raw_line = path.read_bytes()[victim.offset : victim.offset + victim.size]
        torn = raw_line.replace(b'"user_text":"', b'"user_text":\'')
        path.write_bytes(path.read_bytes().replace(raw_line, torn))
        before = raw(log)
        wanted = choice_of(**choice)
        gone = {e.seq for e in chosen([e for e, _ in before], wanted)}
        report = clear(space, choice_of(**choice))
        assert [line for _, line in raw(log)] == [x for e, x in before if e.seq not in gone]
        left = b"".join(p.read_bytes() for p in log.folder.glob("conversation*"))
        mine = wanted.takes(victim.record.session_id, victim.record.timestamp)
        assert (torn in left) == (not mine) and report.damaged == mine
        assert not is_due(space)
