"""Names of remote files: whatever is kept stays inside, and no two of them are one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.remote.source import RemoteFile, name_fault, sorted_out

PARTS = st.sampled_from(["a", "A", "..", ".", "", "b", "\u00e9", "e\u0301", "É", "x\ny", "c\\d"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join) | st.text(max_size=20)


def listed(*paths):
    return sorted_out([RemoteFile(path, 1, "v") for path in paths])


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../a.md", "leads out"), ("a/../../b.md", "leads out"), ("./a.md", "leads out"),
        ("/etc/passwd", "absolute"), ("a//b.md", "empty part"), ("a\\..\\b.md", "backslash"),
        ("a\nb.md", "control"), ("a\0b", "control"), ("\x1b[31m.md", "control"),
        ("\u202egnp.md", "control"), ("\udcff.md", "UTF-8"), ("x" * 300, "too long"),
        ("d/" * 600 + "x", "too long"),
    ],
)  # fmt: skip
def test_a_name_that_leads_out_or_deceives_is_refused(path, reason):
    assert reason in name_fault(path)
    kept, faults = listed(path, "good.md")
    assert list(kept) == ["good.md"] and faults[0][0] == path


@pytest.mark.parametrize(
    "path", ["a.md", "a/b c.md", "naïve ☃.md", "%2e%2e/x.md", "...", ".ragignore"]
)
def test_other_names_are_kept(path):
    assert name_fault(path) == "" and list(listed(path)[0]) == [path]


def test_names_that_are_one_on_other_file_systems_do_not_stand_side_by_side():
    kept, faults = listed("Guide.md", "guide.md", "Docs/a.md", "docs/b.md", "x", "x/y.md", "z")
    assert sorted(kept) == ["Docs/a.md", "Guide.md", "x/y.md", "z"]
    assert dict(faults) == {
        "guide.md": "guide.md differs from Guide.md in case alone",
        "docs/b.md": "docs differs from Docs in case alone",
        "x": "a file and a folder of the same name",
    }
    assert dict(listed("a.md", "a.md")[1]) == {"a.md": "listed twice"}


@given(st.lists(PATHS, max_size=12))
def test_what_is_kept_can_stand_in_one_folder(paths):
    kept, faults = listed(*paths)
    assert len(kept) + len(faults) == len(paths)
    folders = {"/".join(p.split("/")[:n]) for p in kept for n in range(1, p.count("/") + 1)}
    folded = [name.casefold() for name in {*kept, *folders}]
    assert len(set(folded)) == len(folded) and not folders & kept.keys()
    for path in kept:
        assert (
            not {"..", ".", ""} & set(path.split("/"))
            and path.isprintable()
            or name_fault(path) == ""
        )
