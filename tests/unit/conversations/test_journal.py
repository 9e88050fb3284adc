import hashlib
import json
import os
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import (
    Cleared,
    Position,
    TagEdit,
    Turn,
    record_json,
)
from ragstream_core.conversations.journal.segments import NO_CHAIN, frame_line
from ragstream_core.errors import IntegrityError, OperationFailed, ProjectLocked, UsageError
from ragstream_core.platform.locks import FolderLock

CURRENT = "conversation.log"
WHEN = "2026-10-05T12:00:00+02:00"


def turn(n, size=20):
    return Turn(f"id-{n}", "demo", WHEN, f"question {n}", "a" * size)


def filled(folder, count, *, segment_bytes=64 << 20, size=20):
    log = Journal(folder, segment_bytes=segment_bytes)
    for n in range(1, count + 1):
        log.append([turn(n, size)])
    return log


def ids(entries):
    return [entry.record.id for entry in entries]


@pytest.fixture
def log(tmp_path):
    return Journal(tmp_path / "logs")


def test_nothing_is_made_before_the_first_append(log):
    assert (list(log.entries()), list(log.backwards())) == ([], [])
    assert log.newest() == Position()
    assert log.check().sound
    assert log.append([]) == []
    assert not log.folder.exists()


def test_what_was_appended_is_read_by_another(log):
    given_ = [turn(1), turn(2)]
    acked = log.append(given_) + log.append([turn(3)])
    other = Journal(log.folder)
    assert list(other.entries()) == acked
    assert list(other.backwards()) == acked[::-1]
    assert [entry.seq for entry in acked] == [1, 2, 3]
    assert other.newest() == acked[-1].position == log.newest()
    assert other.check().records == 3


def test_the_files_belong_to_their_owner_alone(log):
    log.append([turn(1)])
    assert (log.folder / CURRENT).stat().st_mode & 0o777 == 0o600
    assert log.folder.stat().st_mode & 0o777 == 0o700


def test_every_line_is_json_and_chained(log):
    log.append([turn(n) for n in range(1, 4)])
    log.append([TagEdit("e", "id-1", WHEN, ("GOLD",))])
    prev = NO_CHAIN
    for seq, line in enumerate((log.folder / CURRENT).read_bytes().splitlines(True), 1):
        row = json.loads(line)
        assert (row["seq"], row["prev"]) == (seq, prev)
        prev = hashlib.sha256(line).hexdigest()[:32]


def test_bytes_only_grow_also_when_tags_change(log):
    log.append([turn(1)])
    before = (log.folder / CURRENT).read_bytes()
    log.append([TagEdit("e", "id-1", WHEN, ("GOLD",))])
    after = (log.folder / CURRENT).read_bytes()
    assert after.startswith(before)
    assert len(after) > len(before)


@pytest.mark.parametrize(
    "bad",
    [
        Turn("x", "demo", WHEN, "\ud800"),
        Turn("x", "demo", WHEN, "q", importance=float("nan")),
        Turn("x", "demo", WHEN, "q" * (8 << 20)),
        Turn("x", "demo", WHEN, "q", versions=({"path": b"bytes"},)),
    ],
    ids=["surrogate", "nan", "too large", "no JSON"],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_written(log, bad):
    with pytest.raises(UsageError):
        log.append([turn(1), bad])
    assert not log.folder.exists()


def test_texts_come_back_to_the_letter(log):
    said = 'a\n\r\t\0 "{"v":1,"seq":9}" \u2028 \U0001f600 \x7f\\n'
    log.append([Turn("x", "demo", WHEN, said, said)])
    (entry,) = Journal(log.folder).entries()
    assert (entry.record.user_text, entry.record.assistant_text) == (said, said)


# --- segments ---


def test_full_segments_are_closed_under_the_number_they_begin_with(tmp_path):
    log = filled(tmp_path, 9, segment_bytes=900)
    firsts = {p: int(p.stem.partition("-")[2]) for p in tmp_path.glob("conversation-*.log")}
    assert len(firsts) > 1
    for path, first in firsts.items():
        assert json.loads(path.read_bytes().splitlines()[0])["seq"] == first
        assert path.stat().st_size <= 900
    assert ids(log.entries()) == [f"id-{n}" for n in range(1, 10)]
    assert ids(log.backwards()) == [f"id-{n}" for n in range(9, 0, -1)]
    assert log.check().sound


def test_a_closed_segment_is_never_replaced(tmp_path):
    filled(tmp_path, 2)
    there = tmp_path / "conversation-1.log"
    there.write_bytes(b"put here by somebody\n")
    log = Journal(tmp_path, segment_bytes=10)
    log.append([turn(3)])
    assert there.read_bytes() == b"put here by somebody\n"
    assert ids(log.entries()) == ["id-1", "id-2", "id-3"]


def test_a_hint_behind_the_start_is_not_followed(tmp_path):
    log = filled(tmp_path, 5)
    hint = log.newest()
    assert ids(log.entries(2, hint=hint)) == ["id-2", "id-3", "id-4", "id-5"]


def test_a_record_larger_than_a_segment_has_one_of_its_own(tmp_path):
    log = filled(tmp_path, 3, segment_bytes=500, size=2000)
    assert ids(log.entries()) == ["id-1", "id-2", "id-3"]
    assert log.check().segments == 3


def test_a_kill_between_closing_and_writing_is_harmless(tmp_path):
    filled(tmp_path, 3)
    (tmp_path / CURRENT).rename(tmp_path / "conversation-1.log")
    assert Journal(tmp_path).newest().seq == 3
    (entry,) = Journal(tmp_path).append([turn(4)])
    assert entry.seq == 4
    assert Journal(tmp_path).check().sound


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 12), st.integers(100, 2000), st.data())
def test_any_range_from_any_hint_is_that_range(count, segment_bytes, data):
    with tempfile.TemporaryDirectory() as name:
        log = filled(Path(name), count, segment_bytes=segment_bytes)
        every = list(log.entries())
        start = data.draw(st.integers(1, count + 2))
        end = data.draw(st.none() | st.integers(1, count + 2))
        hint = data.draw(
            st.none()
            | st.sampled_from([e.position for e in every] or [Position()])
            | st.builds(Position, st.integers(0, 15), st.just("f" * 32), st.just("x"),
                        st.integers(0, 3000))
        )  # fmt: skip
        assert list(log.entries(start, end, hint=hint)) == every[start - 1 : end and end - 1]


def test_a_reader_misses_nothing_while_segments_are_closed(tmp_path):
    log = Journal(tmp_path, segment_bytes=700)
    log.append([turn(1)])
    log.append([turn(2)])
    reader = Journal(tmp_path).entries()
    seen = [next(reader).seq]
    for n in range(3, 12):
        log.append([turn(n)])
    seen += [entry.seq for entry in reader]
    assert seen[:2] == [1, 2]  # all that was there when it began
    assert seen == sorted(set(seen))
    assert [entry.seq for entry in Journal(tmp_path).entries()] == list(range(1, 12))


# --- other writers ---


def test_two_journals_on_one_folder_take_turns(tmp_path):
    one, two = Journal(tmp_path), Journal(tmp_path)
    for n in range(1, 21):
        (one if n % 3 else two).append([turn(n)])
    assert ids(one.entries()) == [f"id-{n}" for n in range(1, 21)]
    assert one.check().sound


def test_threads_lose_nothing(tmp_path):
    log = Journal(tmp_path, segment_bytes=3000)

    def write(name):
        for n in range(20):
            log.append([Turn(f"{name}-{n}", name, WHEN, "q", "a")])

    threads = [threading.Thread(target=write, args=(f"t{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = ids(log.entries())
    assert len(found) == len(set(found)) == 80
    for name in ("t0", "t1", "t2", "t3"):
        assert [i for i in found if i.startswith(name)] == [f"{name}-{n}" for n in range(20)]
    assert log.check().sound


def test_who_keeps_the_lock_is_named(tmp_path):
    log = Journal(tmp_path, wait_s=0.05)
    with (
        FolderLock(tmp_path, "x").held(),
        pytest.raises(ProjectLocked, match=f"process {os.getpid()}"),
    ):
        log.append([turn(1)])
    assert list(log.entries()) == []
    log.append([turn(1)])
    assert log.newest().seq == 1


def test_a_replaced_lock_file_excludes_nobody_for_long(tmp_path):
    log = filled(tmp_path, 1)
    (tmp_path / ".lock").unlink()
    with FolderLock(tmp_path, "x").held(), pytest.raises(ProjectLocked):
        Journal(tmp_path, wait_s=0.02).append([turn(2)])
    log.append([turn(2)])
    assert log.newest().seq == 2


# --- torn and damaged ---


def test_a_torn_line_is_put_aside_and_reported(tmp_path):
    filled(tmp_path, 3)
    path = tmp_path / CURRENT
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"v":1,"seq":4,"len":99,"crc"')
    log = Journal(tmp_path)
    assert log.check().torn == [(CURRENT, 29)]
    assert ids(log.entries()) == ["id-1", "id-2", "id-3"]
    log.append([turn(4)])
    assert path.read_bytes().startswith(whole)
    assert (tmp_path / f"{CURRENT}.torn-1").read_bytes() == b'{"v":1,"seq":4,"len":99,"crc"'
    assert [w for w in log.warnings if "29 bytes" in w and ".torn-1" in w]
    report = Journal(tmp_path).check()
    assert report.sound
    assert report.torn == [(f"{CURRENT}.torn-1", 29)]


def test_a_tail_of_zeros_is_torn(tmp_path):
    filled(tmp_path, 2)
    with (tmp_path / CURRENT).open("ab") as handle:
        handle.write(bytes(5000))
    log = Journal(tmp_path)
    assert [e.seq for e in log.append([turn(3)])] == [3]
    assert log.check().sound


def test_the_same_torn_bytes_are_kept_once(tmp_path):
    log = filled(tmp_path, 1)
    for n in (2, 3):
        with (tmp_path / CURRENT).open("ab") as handle:
            handle.write(b"torn")
        Journal(tmp_path).append([turn(n)])
    assert [name for name, _ in log.check().torn] == [f"{CURRENT}.torn-1"]


@pytest.mark.parametrize("hurt", [1, 2, 3])
def test_damage_is_isolated_and_never_overwritten(tmp_path, hurt):
    log = filled(tmp_path, 3)
    path = tmp_path / CURRENT
    data = bytearray(path.read_bytes())
    spot = list(log.entries())[hurt - 1].offset + 150
    data[spot] ^= 4
    path.write_bytes(bytes(data))

    log = Journal(tmp_path)
    (new,) = log.append([turn(4)])
    assert new.seq == 4  # the number of a line that may have been acknowledged is not given again
    assert any(p.read_bytes() == bytes(data) for p in tmp_path.glob("conversation-*.log"))
    assert log.warnings
    left = [f"id-{n}" for n in (1, 2, 3) if n != hurt]
    assert ids(Journal(tmp_path).entries()) == [*left, "id-4"]
    report = Journal(tmp_path).check()
    ((segment, offset, _, reason),) = report.damaged
    assert offset <= spot
    assert segment.startswith("conversation-")
    assert reason == "not what was written"
    assert report.gaps == [(hurt, hurt)]


def test_damage_under_a_running_writer_is_seen_before_its_next_line(tmp_path):
    log = filled(tmp_path, 3)
    path = tmp_path / CURRENT
    path.write_bytes(path.read_bytes().replace(b"question 3", b"quextion 3"))
    os.utime(path, ns=(1, 1))
    assert [entry.seq for entry in log.append([turn(4)])] == [4]
    assert "conversation-1.log" in log.warnings[0]
    assert ids(log.entries()) == ["id-1", "id-2", "id-4"]


def test_when_nothing_verifies_the_bytes_stay_and_numbers_go_on(tmp_path):
    filled(tmp_path, 1)
    path = tmp_path / CURRENT
    data = path.read_bytes().replace(b"question", b"quastion")
    path.write_bytes(data)
    (new,) = Journal(tmp_path).append([turn(2)])
    assert new.seq == 2
    assert (tmp_path / "conversation-1.log").read_bytes() == data
    assert ids(Journal(tmp_path).entries()) == ["id-2"]


def test_a_file_whose_sync_failed_is_not_written_again(tmp_path):
    log = filled(tmp_path, 2)
    (tmp_path / CURRENT).chmod(0o400)
    log.append([turn(3)])
    assert "conversation-1.log" in log.warnings[0]
    assert ids(Journal(tmp_path).entries()) == ["id-1", "id-2", "id-3"]
    assert Journal(tmp_path).check().sound


def test_a_line_that_was_refused_and_came_back_does_not_count(tmp_path):
    """After a failed sync the cut may be lost with the machine: the next segment decides."""
    log = filled(tmp_path, 2)
    ghost = frame_line(3, log.newest().chain, json.dumps(record_json(turn(99))).encode())
    (tmp_path / CURRENT).chmod(0o400)
    log.append([turn(3)])
    closed = tmp_path / "conversation-1.log"
    closed.chmod(0o600)
    with closed.open("ab") as handle:
        handle.write(ghost)
    assert ids(Journal(tmp_path).entries()) == ["id-1", "id-2", "id-3"]
    assert ids(Journal(tmp_path).backwards()) == ["id-3", "id-2", "id-1"]
    assert [row[3] for row in Journal(tmp_path).check().damaged] == ["number 3 was given before"]


def test_a_newer_format_is_left_alone(tmp_path):
    filled(tmp_path, 1)
    path = tmp_path / CURRENT
    line = frame_line(2, NO_CHAIN, b'{"kind":"turn"}').replace(b'{"v":1', b'{"v":7', 1)
    begin = line.index(b'"crc":"') + 7
    crc = hashlib.sha256(line[:begin] + line[begin + 16 :]).hexdigest()[:16].encode()
    path.write_bytes(path.read_bytes() + line[:begin] + crc + line[begin + 16 :])
    before = path.read_bytes()
    with pytest.raises(IntegrityError, match="version 7"):
        Journal(tmp_path).append([turn(2)])
    assert path.read_bytes() == before


def test_a_record_of_an_unknown_kind_is_reported_and_passed_over(tmp_path):
    log = filled(tmp_path, 1)
    line = frame_line(2, log.newest().chain, b'{"kind":"dream"}')
    with (tmp_path / CURRENT).open("ab") as handle:
        handle.write(line)
    log.append([turn(3)])
    assert ids(log.entries()) == ["id-1", "id-3"]
    assert [row[3] for row in log.check().damaged] == ["not a record that this version knows"]


def test_check_sees_a_line_that_was_taken_out(tmp_path):
    filled(tmp_path, 4)
    path = tmp_path / CURRENT
    lines = path.read_bytes().splitlines(True)
    path.write_bytes(b"".join(lines[:1] + lines[2:]))
    assert Journal(tmp_path).check().gaps == [(2, 2)]


def test_check_sees_a_line_that_was_put_in_its_place(tmp_path):
    log = filled(tmp_path, 4)
    path = tmp_path / CURRENT
    lines = path.read_bytes().splitlines(True)
    forged = frame_line(2, list(log.entries())[0].chain, json.dumps(record_json(turn(9))).encode())
    path.write_bytes(b"".join([lines[0], forged, *lines[2:]]))
    report = Journal(tmp_path).check()
    assert [row[3] for row in report.damaged] == ["does not follow the line before it"]


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    log = filled(tmp_path, 2)
    before = (tmp_path / CURRENT).read_bytes()

    def half(fd, data, at):
        real(fd, bytes(data)[:40], at)
        raise OSError(28, "No space left on device")

    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(OperationFailed, match="bytes to write.*bytes free") as caught:
        log.append([turn(3)])
    assert str(tmp_path / CURRENT) in caught.value.message
    monkeypatch.undo()
    assert (tmp_path / CURRENT).read_bytes() == before
    assert [e.seq for e in log.append([turn(3)])] == [3]
    assert log.warnings == []


# --- clearing ---


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(300, 3000), st.data())
def test_purging_takes_these_numbers_and_leaves_every_other_byte(count, segment_bytes, data):
    pairs = st.tuples(st.integers(1, count), st.integers(0, 4)).map(lambda p: (p[0], sum(p)))
    ranges = data.draw(st.lists(pairs, min_size=1, max_size=3))
    with tempfile.TemporaryDirectory() as name:
        log = filled(Path(name), count, segment_bytes=segment_bytes)
        before = {entry.seq: raw for entry, raw in log.lines()}
        hit = {seq for seq in before if any(a <= seq <= b for a, b in ranges)}
        log.append([Cleared("c", WHEN, tuple((a, min(b, count)) for a, b in ranges), "range")])
        log.purge([(a, min(b, count)) for a, b in ranges])
        after = {entry.seq: raw for entry, raw in Journal(log.folder).lines()}
        assert {seq: raw for seq, raw in after.items() if seq <= count} == {
            seq: raw for seq, raw in before.items() if seq not in hit
        }
        assert Journal(log.folder).check().sound
        assert log.purge([(a, min(b, count)) for a, b in ranges]) == []
        assert [e.seq for e in log.append([turn(99)])] == [count + 2]
        every = b"".join(path.read_bytes() for path in Path(name).glob("*.log"))
        for seq in hit:
            assert f'question {seq}"'.encode() not in every


def test_damage_that_may_hold_a_cleared_turn_goes_with_it(tmp_path):
    log = filled(tmp_path, 5)
    path = tmp_path / CURRENT
    data = (
        path.read_bytes()
        .replace(b"question 2", b"quextion 2")
        .replace(b"question 4", b"quextion 4")
    )
    path.write_bytes(data)
    log = Journal(tmp_path)
    log.append([Cleared("c", WHEN, ((4, 4),), "range")])
    log.purge([(4, 4)])
    every = b"".join(path.read_bytes() for path in tmp_path.glob("*.log"))
    assert b"quextion 4" not in every
    assert b"quextion 2" in every
    assert b"question 3" in every
    assert b"question 5" in every
