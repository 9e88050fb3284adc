"""Tables of kinds that people keep, made from a seed, with questions for one row of each.

Keys are ids, names, or two columns together; no question holds its value. `written` makes the
files: csv (also with semicolons, decimal commas and cp1252), tsv, xlsx with titles and two tables
on a sheet, ods and md.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import random
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import openpyxl

FIRST = [
    "Anna",
    "Ben",
    "Carla",
    "Dmitri",
    "Elena",
    "Farid",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Kira",
    "Lars",
    "Mona",
    "Nils",
    "Olga",
    "Pavel",
]
LAST = [
    "Abel",
    "Brandt",
    "Castro",
    "Dietz",
    "Engel",
    "Farkas",
    "Gruber",
    "Hansen",
    "Ivanov",
    "Jensen",
    "Keller",
    "Lindt",
    "Moreau",
    "Novak",
    "Okafor",
    "Petrov",
    "Quast",
    "Rossi",
    "Sander",
    "Tanaka",
    "Ueda",
    "Vogel",
    "Weiss",
    "Xu",
    "Yilmaz",
    "Zanetti",
]
TOWNS = [
    "Ashford",
    "Brookhaven",
    "Calder",
    "Dunmore",
    "Eastleigh",
    "Farnham",
    "Greystone",
    "Hartwell",
    "Ilford",
    "Jarrow",
    "Kendal",
    "Ludlow",
    "Marston",
    "Norwood",
    "Oakham",
    "Penrith",
]
THINGS = [
    "elbow",
    "valve",
    "flange",
    "gasket",
    "coupling",
    "nipple",
    "reducer",
    "bushing",
    "clamp",
    "union",
]
STUFFS = ["brass", "steel", "copper", "nylon", "rubber", "bronze", "zinc", "ceramic"]
DAY = dt.date(2021, 1, 4)
Cell = str | int | float | dt.date | bool


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a table.

    Attributes:
        keys: The columns that name the row; together they name one row alone.
        column: The column of the value.
        words: The question; ``{0}`` and ``{1}`` stand for the keys.
    """

    keys: tuple[str, ...]
    column: str
    words: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table.

    Attributes:
        file: Its name.
        rows: How many.
        columns: Their names.
        row: Makes one from its number.
        asked: Of its rows.
        title: Stands above it in a workbook.
    """

    file: str
    rows: int
    columns: tuple[str, ...]
    row: Callable[[random.Random, int], list[Cell]]
    asked: tuple[Asked, ...]
    title: str = ""


def _date(rng: random.Random) -> dt.date:
    return DAY + dt.timedelta(days=rng.randrange(1_900))


def _person(rng: random.Random) -> str:
    return f"{rng.choice(FIRST)} {rng.choice(LAST)}"


KINDS = (
    Kind(
        "inventory.csv", 50_000, ("SKU", "Item", "Warehouse", "Shelf", "In stock", "Price"),
        lambda r, n: [
            f"BR-{10_000 + n}", f"{r.choice(STUFFS)} {r.choice(THINGS)} {n % 97 + 3} mm",
            r.choice(TOWNS), f"{r.choice('ABCDEFGH')}{r.randrange(1, 90)}", r.randrange(4_000),
            round(r.uniform(1, 900), 2),
        ],
        (
            Asked(("SKU",), "In stock", "How many of {0} do we have in stock?"),
            Asked(("SKU",), "Shelf", "Which shelf is {0} on?"),
            Asked(("SKU",), "Price", "price of {0}"),
        ),
    ),
    Kind(
        "access-log.csv", 10_000, ("Time", "Host", "Level", "Request", "Message", "Took (ms)"),
        lambda r, n: [
            f"{DAY} {n // 60 % 24:02}:{n % 60:02}:{r.randrange(60):02}",
            f"web-{r.randrange(1, 9)}", r.choice(["INFO", "INFO", "INFO", "WARN", "ERROR"]),
            f"req-{r.getrandbits(32):08x}",
            r.choice(["connection reset", "served from cache", "timed out", "retry", "ok"]),
            r.randrange(1, 9_000),
        ],
        (
            Asked(("Request",), "Took (ms)", "How long did request {0} take?"),
            Asked(("Request",), "Host", "Which host served {0}?"),
        ),
    ),
    Kind(
        "invoices.csv", 5_000, ("Rechnung", "Kunde", "Datum", "Betrag", "Bezahlt"),
        lambda r, n: [
            f"RE-2024-{n:05}", f"{r.choice(LAST)} & Söhne {r.choice(TOWNS)}", _date(r),
            round(r.uniform(20, 9_000), 2), r.choice(["ja", "nein"]),
        ],
        (
            Asked(("Rechnung",), "Betrag", "Wie hoch ist der Betrag der Rechnung {0}?"),
            Asked(("Rechnung",), "Kunde", "An welchen Kunden ging {0}?"),
            Asked(("Kunde", "Datum"), "Rechnung", "Welche Rechnung ging am {1} an {0}?"),
        ),
    ),
    Kind(
        "stations.xlsx", 2_000,
        ("Station", "Town", "Operator", "Installed", "Depth (m)", "Active"),
        lambda r, n: [
            f"ST-{n:04}", r.choice(TOWNS), _person(r), _date(r), r.randrange(5, 400),
            r.random() > 0.3,
        ],
        (
            Asked(("Station",), "Installed", "When was station {0} installed?"),
            Asked(("Station",), "Operator", "Who operates {0}?"),
            Asked(("Station",), "Depth (m)", "How deep is {0}?"),
            Asked(("Operator", "Installed"), "Station",
                  "Which station of {0} was installed on {1}?"),
        ),
        "Measuring stations of the north",
    ),
    Kind(
        "timetable.tsv", 1_000, ("Line", "Stop", "Platform", "Departure", "Carriages"),
        lambda r, n: [
            f"Line {n // 25 + 1}", f"{TOWNS[n % 16]} {['North', 'South', 'Central'][n // 16 % 3]}",
            r.randrange(1, 20), f"{r.randrange(5, 23):02}:{r.randrange(60):02}", r.randrange(2, 14),
        ],
        (
            Asked(("Line", "Stop"), "Departure", "When does {0} leave {1}?"),
            Asked(("Line", "Stop"), "Platform", "From which platform does {0} go at {1}?"),
        ),
    ),
    Kind(
        "price-list.md", 500, ("Article", "Size", "Colour", "Price (EUR)", "Pack"),
        lambda r, n: [
            f"{STUFFS[n % 8]} {THINGS[n // 8 % 10]}", f"{n // 80 * 5 + 10} mm",
            r.choice(["red", "blue", "black", "white"]), round(r.uniform(0.5, 80), 2),
            r.choice([10, 25, 50, 100]),
        ],
        (
            Asked(("Article", "Size"), "Price (EUR)", "What does a {0} of {1} cost?"),
            Asked(("Article", "Size"), "Colour", "What colour is the {0} in {1}?"),
        ),
    ),
    Kind(
        "staff.ods", 300, ("Name", "Department", "Room", "Phone", "Since"),
        lambda r, n: [
            f"{FIRST[n % 16]} {LAST[n // 16 % 26]}",
            r.choice(["Sales", "Legal", "Research", "Payroll", "Workshop"]),
            f"{r.randrange(1, 6)}.{r.randrange(1, 60):02}", f"0431 {r.randrange(100_000, 999_999)}",
            _date(r),
        ],
        (
            Asked(("Name",), "Phone", "What is the phone number of {0}?"),
            Asked(("Name",), "Room", "In which room does {0} sit?"),
            Asked(("Name",), "Since", "Since when has {0} been with us?"),
        ),
    ),
    Kind(
        "species.md", 100, ("Species", "Family", "Height (cm)", "Flowers", "Soil"),
        lambda r, n: [
            f"{['Common', 'Alpine', 'Dwarf', 'Giant', 'Wild'][n % 5]} "
            f"{['primrose', 'gentian', 'saxifrage', 'campion', 'sorrel'][n // 5 % 5]} "
            f"{['alba', 'minor', 'rubra', 'nana'][n // 25]}",
            r.choice(["Primulaceae", "Gentianaceae", "Rosaceae"]), r.randrange(3, 260),
            r.choice(["March", "April", "May", "June"]),
            r.choice(["chalk", "peat", "sand", "loam"]),
        ],
        (
            Asked(("Species",), "Height (cm)", "How tall does {0} grow?"),
            Asked(("Species",), "Flowers", "When does {0} flower?"),
        ),
    ),
    Kind(
        "rooms.xlsx", 30, ("Room", "Seats", "Projector", "Contact", "Rate"),
        lambda r, n: [
            f"{TOWNS[n % 16]} {'Hall' if n < 16 else 'Suite'}", r.randrange(8, 400),
            r.random() > 0.5, _person(r), f"{r.randrange(40, 900)} EUR",
        ],
        (
            Asked(("Room",), "Seats", "How many seats does {0} have?"),
            Asked(("Room",), "Contact", "Whom do I ask about {0}?"),
            Asked(("Room",), "Rate", "What is the rate of {0}?"),
        ),
        "Rooms for rent",
    ),
    Kind(
        "tariffs.csv", 10, ("Plan", "Monthly fee", "Data", "Notice"),
        lambda r, n: [
            f"{TOWNS[n]} Mobile", f"{r.randrange(5, 80)}.90", f"{r.randrange(2, 99)} GB",
            f"{r.randrange(1, 12)} weeks",
        ],
        (
            Asked(("Plan",), "Monthly fee", "What is the monthly fee of {0}?"),
            Asked(("Plan",), "Notice", "How long is the notice of {0}?"),
        ),
    ),
)  # fmt: skip


def rows_of(kind: Kind, count: int) -> list[list[Cell]]:
    """Return the rows of a kind; the same ones in every session."""
    rng = random.Random(kind.file)
    return [kind.row(rng, n) for n in range(count)]


def questions(kind: Kind, rows: Sequence[list[Cell]], count: int) -> list[dict[str, object]]:
    """Return so many questions with a pattern that finds the row up to its value."""
    rng = random.Random(f"questions of {kind.file}")
    found: list[dict[str, object]] = []
    tries = 0
    while len(found) < count and (tries := tries + 1) < 100 * count:
        asked, row = kind.asked[tries % len(kind.asked)], rng.choice(rows)
        keys = [str(row[kind.columns.index(key)]) for key in asked.keys]
        alike = sum(
            all(
                str(other[kind.columns.index(k)]) == v
                for k, v in zip(asked.keys, keys, strict=True)
            )
            for other in rows
        )
        words, value = asked.words.format(*keys), shown(row[kind.columns.index(asked.column)])
        if alike != 1 or re.search(rf"\b{re.escape(value)}\b", words):
            continue
        ends = sorted(kind.columns.index(name) for name in (*asked.keys, asked.column))
        cells = [re.escape(shown(cell)) for cell in row[ends[0] : ends[-1] + 1]]
        between = r"(?: \| | · (?:[^|·]{1,60}: )?)"
        found.append({"question": words, "file": kind.file, "pattern": between.join(cells),
                      "note": "+".join(asked.keys)})  # fmt: skip
    return found


def shown(cell: Cell) -> str:
    """Return a cell as a sheet shows it."""
    return str(cell).upper() if isinstance(cell, bool) else str(cell)


def write(kind: Kind, rows: Sequence[list[Cell]], folder: Path) -> None:
    """Write the file of a table."""
    path, ending = folder / kind.file, kind.file.rpartition(".")[2]
    cells = [list(kind.columns), *([shown(cell) for cell in row] for row in rows)]
    if ending == "xlsx":
        path.write_bytes(_workbook(kind, rows))
    elif ending == "ods":
        path.write_bytes(_open_document(cells))
    elif ending == "md":
        lines = [f"| {' | '.join(row)} |" for row in cells]
        lines.insert(1, "|" + " --- |" * len(kind.columns))
        path.write_text(
            f"# {kind.file[:-3].title()}\n\n" + "\n".join(lines) + "\n", encoding="utf-8"
        )
    else:
        semicolons = any("ö" in cell for cell in cells[1])
        mark = "\t" if ending == "tsv" else ";" if semicolons else ","
        text = "\r\n".join(mark.join(row) for row in cells) + "\r\n"
        path.write_bytes(text.encode("cp1252" if semicolons else "utf-8"))


def _workbook(kind: Kind, rows: Sequence[list[Cell]]) -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = kind.file.partition(".")[0].title()
    sheet.append([kind.title])
    sheet.merge_cells(start_row=1, start_column=1, end_row=1, end_column=len(kind.columns))
    sheet.append([])
    for row in [kind.columns, *rows]:
        sheet.append(list(row))
    sheet.append([])
    sheet.append([])
    sheet.append(["Legend", "Meaning"])
    sheet.append(["TRUE", "as planned"])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _open_document(rows: Sequence[Sequence[str]]) -> bytes:
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table", "text")
    )
    body = "".join(
        "<table:table-row>"
        + "".join(
            f"<table:table-cell><text:p>{escape(cell)}</text:p></table:table-cell>" for cell in row
        )
        + "</table:table-row>"
        for row in rows
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        package.writestr(
            "content.xml",
            f"<office:document-content {spaces}><office:body><office:spreadsheet>"
            f'<table:table table:name="Staff">{body}</table:table></office:spreadsheet>'
            "</office:body></office:document-content>",
        )
    return out.getvalue()


def written(folder: Path, gold: Path, *, most: int, each: int, only: Sequence[str] = ()) -> None:
    """Write tables into a folder, and their questions as lines of gold.

    Args:
        folder: Of the documents.
        gold: A file of gold questions.
        most: Rows of a table.
        each: Questions a table.
        only: Names of the files; none: all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = list[str]()
    for kind in KINDS:
        if not only or kind.file in only:
            rows = rows_of(kind, min(most, kind.rows))
            write(kind, rows, folder)
            lines += (json.dumps(row) for row in questions(kind, rows, each))
    gold.write_text("\n".join(lines) + "\n", encoding="utf-8")
