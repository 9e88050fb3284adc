from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.index.rows import FileEntry
from ragstream_core.ingestion.survey import diff, same_content

entries = st.builds(
    FileEntry,
    path=st.just(""),
    sha256=st.sampled_from(["a" * 64, "b" * 64]),
    size=st.integers(0, 3),
    mtime_ns=st.integers(0, 3),
    type=st.just("md"),
    decision=st.sampled_from(["ingested", "ingested", "skipped"]),
    reason=st.sampled_from(["", "binary"]),
)


@st.composite
def manifests(draw):
    rows = draw(st.dictionaries(st.sampled_from("abcdefgh"), entries))
    return {p: replace(e, path=p) for p, e in rows.items()}


@given(manifests(), manifests())
def test_every_path_is_in_exactly_one_class(old, now):
    found = diff(old, now)
    skipped = [path for path, _ in found.skipped]
    classes = [found.new, found.updated, found.touched, found.unchanged, found.deleted, skipped]
    listed = [path for group in classes for path in group]
    assert sorted(listed) == sorted(set(old) | set(now))


@given(manifests(), manifests())
def test_the_classes_mean_what_they_say(old, now):
    found = diff(old, now)
    assert all(p not in old for p in found.new)
    assert all(not same_content(old[p], now[p]) for p in found.updated)
    assert all(same_content(old[p], now[p]) for p in found.touched + found.unchanged)
    assert all(old[p].mtime_ns != now[p].mtime_ns for p in found.touched)
    assert all(old[p].mtime_ns == now[p].mtime_ns for p in found.unchanged)
    assert set(found.deleted) == set(old) - set(now)
    left_out = [(p, e.reason) for p, e in sorted(now.items()) if e.decision == "skipped"]
    assert list(found.skipped) == left_out
    readable = {p for p in old.keys() & now.keys() if old[p].decision != now[p].decision}
    assert readable - dict(left_out).keys() <= set(found.updated)


@given(manifests())
def test_a_manifest_does_not_differ_from_itself(manifest):
    found = diff(manifest, manifest)
    assert not (found.new or found.updated or found.deleted or found.touched)
