"""Files of Office 97 to 2003 and of Outlook."""

import gzip
import io
import random
import struct
from pathlib import Path

import openpyxl
import pytest

from ragstream_core.ingestion.parsers import engines
from ragstream_core.ingestion.parsers.engines import Limits, Refusal
from ragstream_core.ingestion.parsers.isolated import kept_engines
from ragstream_core.ingestion.parsers.office import read_office
from tests.unit.ingestion.compound_files import compound
from tests.unit.ingestion.office_files import parsed, text_of

FILES = Path(__file__).parents[2] / "fixtures" / "old_office"
TICKS = 133_590_384_000_000_000  # 2024-05-01 12:00 UTC, in tenths of microseconds since 1601


def fixture(name):
    data = (FILES / name).read_bytes()
    return gzip.decompress(data) if name.endswith(".gz") else data


DOC, XLS, PPT = fixture("manual.doc"), fixture("stations.xls"), fixture("deck.ppt.gz")


def msg(fields, path="", extra=None, head=32):
    properties = struct.pack("<2HIQ", 0x40, 0x39, 6, TICKS)
    made = {f"{path}__properties_version1.0": bytes(head) + properties}
    for name, value in fields.items():
        data = value if isinstance(value, bytes) else value.encode("utf-16-le")
        made[f"{path}__substg1.0_{name}"] = data
    return made | (extra or {})


def attached(n, fields):
    return msg(fields, path=f"__attach_version1.0_#{n:08}/", head=8)


MAIL = {
    "0037001F": "The zebra valve", "1000001F": "It closes at 7 bar.\r\n\r\nAnna\r\n",
    "0C1A001F": "Anna Berg", "5D01001F": "anna@x.example", "0E04001F": "Tom Ito; Eva Lind",
}  # fmt: skip


def test_a_word_file_has_headings_tables_lists_and_what_stands_beside_them():
    assert text_of(DOC, "doc") == (
        "# Pump manual\n\nThe zebra valve opens at 45 bar, see the page.\n\n"
        "Größe 40 € – “naïve”. Ελληνικά.\n\n## Limits\n\n"
        "| Part | Torque |\n| --- | --- |\n| VK-1 | 45 Nm dry |\n| VK-2 |  |\n\n"
        "- First duty\n- Second duty\n\nLast words.\n\n## Footnotes\n\nMeasured cold.\n\n"
        "## Headers and footers\n\nContract KV-2291\n\n## Comments\n\nCheck with Tom."
    )


def test_a_sheet_shows_values_as_people_see_them():
    assert text_of(XLS, "xls") == (
        "## Stations\n\n**Stations of the north**\n\n"
        "| Station | Installed | Load | Share | Active | Start |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| ST-0457 | 2021-04-02 | 800 [note: measured cold] | 15.5% | TRUE | 08:30 |\n"
        "| ST-0458 | 2022-05-03 |  | 50.0% | FALSE |  |\n"
        "| ST-0458 |  | 1234567.5 | 25.0% |  |  |\n\n"
        "## Second (hidden)\n\n| Nr | Phone |\n| --- | --- |\n| 800 | 0049301234 |"
    )


def test_slides_come_in_their_order_with_titles_and_notes():
    pages, note = read_office(PPT, "ppt", Limits())
    assert [(number, body.strip()) for number, body in pages] == [
        (1, "# Pump deck\n\nThe zebra valve closes at 7 bar\nGröße 40 €\n\n"
            "### Notes:\nSpeaker says walrus"),
        (2, "# Second\n\nLamp needs 9 volts"),
    ]  # fmt: skip
    assert note == "2 slides"


def test_a_mail_is_read_like_any_other_with_what_is_attached():
    inner = "__attach_version1.0_#00000002/__substg1.0_3701000D/"
    data = compound(
        msg(MAIL)
        | attached(0, {"3707001F": "limits.txt", "37010102": b"The lamp needs 9 volts."})
        | attached(1, {"3707001F": "stations.xls", "37010102": XLS})
        | attached(2, {})
        | msg({"0037001F": "Inner", "1000001F": "The heron gate is green."}, path=inner, head=24)
    )
    text = text_of(data, "msg")
    assert text.startswith("# Anna Berg, 2024-05-01 12:00")
    for said in (
        "The zebra valve", "It closes at 7 bar.", "To: Tom Ito, Eva Lind", "limits.txt",
        "The lamp needs 9 volts.", "| ST-0457 | 2021-04-02 |", "The heron gate is green.",
    ):  # fmt: skip
        assert said in text


def test_a_mail_of_html_alone_or_of_another_code_page_is_read():
    html = {"0037001E": b"Gr\xfc\xdfe", "10130102": "<p>Öl: <b>40</b> litres</p>".encode()}
    text = text_of(compound(msg(html)), "msg")
    assert "Grüße" in text and "Öl: **40** litres" in text


def test_another_kind_of_file_under_such_a_name_is_read_as_what_it_is():
    assert "zebra" in text_of(rb"{\rtf1 zebra\par}", "doc")
    assert "zebra" in text_of(b"<html><table><tr><td>zebra<td>7</table></html>", "xls")
    archived = b"MIME-Version: 1.0\r\nContent-Type: text/html\r\n\r\n<html><p>zebra</p></html>"
    assert "zebra" in text_of(archived, "doc")
    book, data = openpyxl.Workbook(), io.BytesIO()
    book.active.append(["zebra", 7])
    book.save(data)
    assert "zebra" in text_of(data.getvalue(), "xls")


def test_what_is_none_of_them_is_refused_with_a_reason():
    begun = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(3000)
    with kept_engines():
        for kind in ("doc", "xls", "ppt", "msg"):
            assert [parsed(data, kind).pages for data in (b"", b"plain words", begun)] == [None] * 3
            assert "not a readable" in parsed(b"plain words", kind).note


def test_what_is_encrypted_or_too_old_says_what_to_do():
    at = DOC.index(b"\xec\xa5")
    locked, old = bytearray(DOC), bytearray(DOC)
    locked[at + 11] |= 1
    old[at + 2 : at + 4] = b"\x65\x00"
    with pytest.raises(Refusal, match="save it without a password"):
        read_office(bytes(locked), "doc", Limits())
    with pytest.raises(Refusal, match="save it as docx"):
        read_office(bytes(old), "doc", Limits())


@pytest.mark.parametrize(("kind", "data"), [("doc", DOC), ("xls", XLS), ("ppt", PPT[:40_000]),
                                            ("msg", compound(msg(MAIL)))])  # fmt: skip
def test_damaged_files_are_read_or_refused_in_time(kind, data):
    rng = random.Random(7)
    with kept_engines():
        for _ in range(12):
            bad = bytearray(data)
            for _ in range(rng.choice((1, 8, 60))):
                bad[rng.randrange(len(bad))] = rng.randrange(256)
            found = parsed(bytes(bad[: rng.choice((len(bad), len(bad) // 2))]), kind, cpu_s=10)
            assert found.pages is not None or found.note


def test_without_the_extra_the_command_that_brings_it_is_named(monkeypatch):
    monkeypatch.setattr(engines, "_installed", lambda: {"markitdown": "1", "mammoth": "1",
                                                        "openpyxl": "1"})  # fmt: skip
    for kind in ("doc", "xls", "ppt", "msg"):
        assert engines.missing(kind).startswith("needs the extra 'more': pip install ")
    assert not engines.missing("docx")
