"""Extensions of one kind: by name or path, given what they ask for, checked against their port."""

from dataclasses import dataclass

import pytest

from ragstream_core.errors import UnknownSetting, UsageError
from ragstream_core.platform.registry import Port, Registry

HERE = __name__


@dataclass(frozen=True)
class Options:
    size: int
    label: str = ""


class Square:
    sides = 4

    def __init__(self, size):
        self.given = size

    def area(self):
        return self.given**2


class Named(Square):
    def __init__(self, label, options, colour="red"):
        self.given = (label, options, colour)


@pytest.fixture
def shapes():
    return Registry(
        "shape", setting="drawing.shape", port=Port("Shape", ("area",), {"sides": int}),
        options=Options, built_in={"square": Square}, reserved=("empty",),
    )  # fmt: skip


def test_a_factory_is_given_what_it_asks_for_by_name(shapes):
    shapes.register("named", Named)
    options = Options(3, "x")
    assert shapes.create("square", options).area() == 9
    assert shapes.create("named", options).given == ("x", options, "red")
    assert shapes.names() == ["empty", "named", "square"]


def test_a_taken_name_is_refused_and_a_built_in_one_stays(shapes):
    shapes.register("named", Named)
    for taken in ("named", "square", "empty"):
        with pytest.raises(UsageError, match=f"shape '{taken}' already exists"):
            shapes.register(taken, Named)
        shapes.unregister(taken)
    assert shapes.names() == ["empty", "square"]


@pytest.mark.parametrize(
    ("bad", "why"),
    [("text", "not a class or function"), (3, "not a class or function"),
     (dict, "Shape port: area missing"), (lambda depth: 0, r"requires \['depth'\]"),
     (lambda size, /: 0, "positional")],
)  # fmt: skip
def test_what_does_not_fit_is_refused_at_registration(shapes, bad, why):
    with pytest.raises(UsageError, match=why):
        shapes.register("bad", bad)
    assert "bad" not in shapes.names()


@pytest.mark.parametrize(
    ("made", "why"),
    [(object(), "area missing"), (type("S", (Square,), {"sides": "4"})(1), "sides must be int")],
)
def test_what_a_function_returns_is_checked(shapes, made, why):
    shapes.register("bad", lambda: made)
    with pytest.raises(UsageError, match=why):
        shapes.create("bad", Options(1))


@pytest.mark.parametrize("path", [f"{HERE}:Square", f"{HERE}.Square"])
def test_an_import_path_is_selected(shapes, path):
    shapes.check(path)
    assert type(shapes.create(path, Options(2))).__name__ == "Square"


@pytest.mark.parametrize(
    ("name", "error", "why"),
    [("no.such:thing", UnknownSetting, "cannot import shape 'no.such:thing'"),
     (f"{HERE}:Nothing", UnknownSetting, "cannot import"), (":", UnknownSetting, "shape ':'"),
     ("nothing", UnknownSetting, "one of empty, square"),
     (f"{HERE}:HERE", UsageError, "not a class or function"),
     ("collections:Counter", UsageError, "does not satisfy the Shape port")],
)  # fmt: skip
def test_what_selects_nothing_is_refused_with_the_reason(shapes, name, error, why):
    for use in (shapes.check, lambda name: shapes.create(name, Options(1))):
        with pytest.raises(error) as caught:
            use(name)
        assert why in f"{caught.value} {caught.value.hint}"


def test_the_built_in_names_are_known_without_a_look_at_them():
    known = Registry("shape", setting="", port=Port("Shape", ("area",)), options=Options,
                     built_in={"odd": dict}, reserved=("empty",))  # fmt: skip
    known.check("odd")
    known.check("empty")
