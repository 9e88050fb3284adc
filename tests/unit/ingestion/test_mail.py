"""Mails and mailboxes: who said what, in whatever form it was sent."""

import email.policy
import mailbox
from email.message import EmailMessage

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.ingestion.parsers.engines import Limits, Refusal
from ragstream_core.ingestion.parsers.office import read_office
from ragstream_core.text.headings import HeadingIndex
from tests.unit.ingestion.office_files import docx, paragraph, parsed, text_of

FROM = "From: Bob Lee <bob@x.org>\nTo: ann@x.org\nDate: Wed, 4 Mar 2026 10:12:00 +0100\n"
TITLE = "Bob Lee, 2026-03-04 10:12 +0100: Re: Pumps"


def mail(body, head="", charset="utf-8"):
    top = f"{FROM}Subject: Re: Pumps\n{head}"
    if "Content-Type" not in head:
        top += f"Content-Type: text/plain; charset={charset}\n"
    return f"{top}\n{body}".encode(charset)


def read(body, head="", charset="utf-8"):
    return text_of(mail(body, head, charset), "eml")


def made(body="See below.", subject="Pumps"):
    message = EmailMessage(policy=email.policy.default)
    message["From"], message["Subject"] = "Ann Bell <ann@x.org>", subject
    message.set_content(body)
    return message


def paths(text):
    """Return the heading path of each line that is no heading."""
    index, at, found = HeadingIndex(text, file_type="md"), 0, {}
    for line in text.splitlines(keepends=True):
        if line.strip() and not line.startswith("#"):
            found[line.strip()] = index.path_at(at).removeprefix(f"{TITLE}").removeprefix(" > ")
        at += len(line)
    return found


class TestHeads:
    def test_who_wrote_what_and_when_stands_above(self):
        assert read("The valve opens at 9 bar.") == (
            f"# {TITLE}\n\nFrom: Bob Lee <bob@x.org>\nTo: ann@x.org\n"
            "Date: 2026-03-04 10:12 +0100\n\nThe valve opens at 9 bar."
        )

    def test_encoded_words_and_bare_bytes_are_text(self):
        data = (
            b"From: =?utf-8?q?J=C3=B6rg?= M\xfcller <j@x.org>\n"
            b'Cc: "=?iso-8859-1?q?Lee,_Ren=E9?=" <r@x.org>, s@x.org\n'
            b"Subject: =?utf-8?b?5pel5pys?= =?utf-8?b?6Kqe?=\n caf\xc3\xa9 =?bad?q?x?=\n\nx"
        )
        text = text_of(data, "eml")
        assert "From: Jörg Müller <j@x.org>" in text and "Cc: Lee, René, s@x.org" in text
        broken = text_of(
            b"From: a@x.org\nSubject: =?utf-8?b?A?= =?no?q?b?=\nDate: soon\n\nx", "eml"
        )
        assert "=?no?q?b?=" in broken and "Date: soon" in broken

    def test_without_any_head_worth_it(self):
        assert text_of(b"X-A: 1\n\nwords", "eml") == (
            "# an unknown sender: Mail without a subject\n\nFrom: an unknown sender\n\nwords"
        )


class TestBodies:
    @pytest.mark.parametrize("coding", ["base64", "quoted-printable", "8bit"])
    def test_charsets_and_transfer_codings(self, coding):
        message = EmailMessage(policy=email.policy.default)
        message["From"] = "ann@x.org"
        message.set_content("Größe: 5 €", charset="utf-8", cte=coding)
        assert "Größe: 5 €" in text_of(message.as_bytes(), "eml")
        assert "5 €" in text_of(FROM.encode() + b"Content-Type: text/plain; charset=iso-8859-1\n\n"
                                b"5 \x80", "eml")  # fmt: skip
        assert "caf\xe9" in text_of(FROM.encode() + b"Content-Type: text/plain; charset=none\n\n"
                                    b"caf\xe9", "eml")  # fmt: skip

    def test_a_body_in_html_alone_and_the_plain_one_where_it_says_the_same(self):
        html = "<p>Opens at <b>9</b> bar.</p><img src='http://count.me/x'><script>x()</script>"
        alone = read(html, "Content-Type: text/html\n")
        assert alone.endswith("Opens at **9** bar.")
        both = made("Opens at 9 bar, plainly.")
        both.add_alternative(html, subtype="html")
        assert "plainly" in text_of(both.as_bytes(), "eml")
        assert "**9**" not in text_of(both.as_bytes(), "eml")
        stub = made("Use HTML.")
        stub.add_alternative(html + "<p>And much more is said of it here.</p>" * 3, subtype="html")
        assert "**9**" in text_of(stub.as_bytes(), "eml")

    def test_what_a_body_holds_changes_no_other(self):
        text = read("# Mine\n\nwords\n-----\n```\nnever closed")
        assert [h.title for h in HeadingIndex(text, file_type="md").headings] == [TITLE, "Mine"]
        assert text.endswith("```\nnever closed\n```")


INLINE = """I answer below.

On Mon, 3 Mar 2026 at 10:00, Ann Bell <ann@x.org>
wrote:

> It opens at 12 bar.
>
>> Carl said so.
> Is that right?

No, at 9 bar.

> And the seal?

Is new.
"""
OUTLOOK = """Please see below.

________________________________
From: Ann Bell <ann@x.org>
Sent: Monday, 3 March 2026 10:00
To: Bob Lee
Subject: Pumps

It opens at 12 bar.

-----Ursprüngliche Nachricht-----
Von: Carl Orr
Gesendet: Sonntag, 2. März 2026 09:00
An: Ann Bell
Betreff: Pumps

It opens at 15 bar.
"""


class TestQuotes:
    def test_answers_between_quoted_lines_are_of_who_wrote_them(self):
        found = paths(read(INLINE))
        quoted = "Quoted: On Mon, 3 Mar 2026 at 10:00, Ann Bell <ann@x.org> wrote"
        assert found["I answer below."] == ""
        assert found["It opens at 12 bar."] == found["Is that right?"] == quoted
        assert found["And the seal?"] == quoted
        assert found["Carl said so."] == f"{quoted} > Quoted by Bob Lee"
        assert found["No, at 9 bar."] == found["Is new."] == "Bob Lee goes on"

    def test_mails_below_their_heads(self):
        found = paths(read(OUTLOOK))
        assert found["Please see below."] == ""
        assert found["It opens at 12 bar."] == (
            "Quoted: from Ann Bell <ann@x.org>, Monday, 3 March 2026 10:00"
        )
        assert found["It opens at 15 bar."] == (
            "Quoted: from Carl Orr, Sonntag, 2. März 2026 09:00"
        )

    @pytest.mark.parametrize(
        "line",
        ["On 3 March, Ann wrote:", "Am 03.03.2026 um 10:00 schrieb Ann Bell:", "Ann a écrit :",
         "Le 3 mars 2026 à 10:00, Ann Bell <a@x.org> a écrit :", "El 3/3/26, Ann escribió:",
         "2026年3月3日 Ann <a@x.org> 写道：", "*Ann Bell wrote:*"],
    )  # fmt: skip
    def test_the_line_above_says_whose_it_is(self, line):
        found = paths(read(f"Mine.\n\n{line}\n> Hers."))
        assert found["Hers."] == f"Quoted: {line.strip('*')[:-1]}".strip()
        assert found["Mine."] == ""

    def test_quotations_in_html(self):
        html = (
            "<p>No.</p><div>On 3 March 2026 Ann wrote:<br></div><blockquote><p>It opens at 12 bar."
            "</p><blockquote>Carl said.</blockquote></blockquote><p>Bye</p>"
        )
        found = paths(read(html, "Content-Type: text/html\n"))
        assert found["It opens at 12 bar."] == "Quoted: On 3 March 2026 Ann wrote"
        assert found["No."] == "" and found["Bye"] == "Bob Lee goes on"

    @settings(deadline=None)
    @given(st.lists(st.integers(0, 3), min_size=1, max_size=20))
    def test_a_line_is_of_its_author_if_and_only_if_it_has_no_mark(self, depths):
        body = "".join(f"{'> ' * depth}line {n}.\n" for n, depth in enumerate(depths))
        found = paths(read(body))
        for n, depth in enumerate(depths):
            path = found[f"line {n}."]
            assert (path in ("", "Bob Lee goes on")) == (depth == 0)

    def test_an_own_list_of_fields_is_no_quoted_mail(self):
        assert paths(read("From: Berlin\nTo: Rome\n\nThat is the way."))["That is the way."] == ""


class TestAttachments:
    def test_documents_mails_and_what_is_not_read(self):
        message, inner = made(), made("It was 15 bar.", "Old")
        word = docx(paragraph("Torque 45 Nm."))
        message.add_attachment(word, maintype="application", subtype="x", filename="täble.docx")
        message.add_attachment("# Own\n\nnote", filename="note.md")
        message.add_attachment("print(1)\n# no heading", subtype="x-py", filename="a.py")
        message.add_attachment(b"PK", maintype="application", subtype="x", filename="torn.docx")
        message.add_attachment(b"x", maintype="image", subtype="png", filename="p.png")
        message.add_attachment("KEY=1", filename=".env")
        message.add_attachment(b"\0\1\2" * 9, maintype="application", subtype="x", filename="w.dat")
        message.add_attachment(inner)
        message.add_attachment(inner.as_bytes(), maintype="application", subtype="octet-stream",
                               filename="again.eml")  # fmt: skip
        text = text_of(message.as_bytes(), "eml")
        found = paths(text)
        top = "Ann Bell: Pumps"
        assert found["Torque 45 Nm."] == f"{top} > Attachment: täble.docx"
        assert found["note"] == f"{top} > Attachment: note.md > Own"
        assert "```py\nprint(1)\n# no heading\n```" in text
        assert found["It was 15 bar."] == f"{top} > Ann Bell: Old" and text.count("15 bar") == 2
        for name in ("torn.docx (not a readable", "p.png (image/png)", ".env (on the deny",
                     "w.dat (binary: holds NUL)"):  # fmt: skip
            assert f"Attachment that is not read: {name}" in text
        assert "KEY" not in text
        note = read_office(message.as_bytes(), "eml", Limits())[1]
        assert note.endswith("; pictures left out: 1")

    def test_mails_in_mails_200_deep_are_all_read(self):
        data = mail("core")
        for n in range(200):
            data = mail("", "Content-Type: message/rfc822\n").replace(b"Pumps", b"m%d" % n) + data
        found = parsed(data, "eml")
        assert found.pages and "core" in found.pages[0][1]
        assert all(f"m{n}\n" in found.pages[0][1] for n in range(200))

    def test_parts_in_parts_without_end_are_refused_with_a_reason(self):
        data = "".join(
            f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(5000)
        )
        found = parsed(data.encode() + b"\ncore", "eml")
        assert (found.pages and "core" in found.pages[0][1]) or "nested too deep" in found.note


LINES = ["", "From there we go", "From: Berlin", "a", "From b 10:00 2026"]
PARTS = [
    "Content-Type: multipart/alternative; boundary=b\n", "Content-Type: message/rfc822\n",
    "Content-Type: text/html; charset=x\n", "Content-Transfer-Encoding: base64\n", "\n", "--b\n",
    "--b--\n", "From: =?utf-8?b?!!?=\n", "Content-Disposition: attachment; filename*=x''%ff\n",
    "> quoted\n", "On 3 March Ann wrote:\n", "words\n", "\udc80\udcff\n", "=?\n", "Date: 0\n",
]  # fmt: skip


class TestOddMails:
    def test_parts_that_are_not_told_apart_are_text(self):
        assert read("--a\nwords", 'Content-Type: multipart/mixed; boundary="b"\n').endswith("words")

    def test_a_line_of_an_envelope_may_stand_above(self):
        data = b"From bob@x.org Wed Mar  4 10:12:00 2026\n" + mail("words")
        assert text_of(data, "eml").endswith("words")

    def test_any_text_that_is_attached_is_read(self):
        message = made()
        message.add_attachment("one", subtype="x-unknown")
        message.add_attachment("two", filename="a.unknown")
        found = paths(text_of(message.as_bytes(), "eml"))
        assert found["one"] == "Ann Bell: Pumps > Attachment: text/x-unknown"
        assert found["two"] == "Ann Bell: Pumps > Attachment: a.unknown"

    def test_the_name_of_a_quoted_sender_keeps_its_signs(self):
        body = 'x\n\nFrom: "Ann \\"A\\" Bell" <ann@x.org>\nDate: Monday\nSubject: y\n\nHers.'
        assert paths(read(body))["Hers."] == ('Quoted: from "Ann \\"A\\" Bell" <ann@x.org>, Monday')


class TestMailboxes:
    @settings(deadline=None, max_examples=30)
    @given(bodies=st.lists(st.lists(st.sampled_from(LINES), min_size=1), min_size=1, max_size=4))
    def test_mails_are_those_that_were_put_in(self, bodies, tmp_path_factory):
        path = tmp_path_factory.mktemp("box") / "in.mbox"
        box = mailbox.mbox(path)
        for n, lines in enumerate(bodies):
            box.add(made("\n".join(lines), f"n{n}").as_bytes())
        box.close()
        text = text_of(path.read_bytes(), "mbox")
        titles = [line for line in text.splitlines() if line.startswith("# ")]
        assert titles == [f"# Ann Bell: n{n}" for n in range(len(bodies))]
        flat = " ".join(text.split())
        assert all(" ".join(" ".join(lines).split()) in flat for lines in bodies)

    def test_a_line_from_that_separates_nothing(self):
        body = "a\n\nFrom 10:00 on in 2026\nwe rest\n\n>From here on\n\n> x\n>From a quoted line"
        whole = b"From bob@x.org Wed Mar  4 10:12:00 2026\n" + mail(body)
        pages, note = read_office(whole, "mbox", Limits())
        assert "we rest" in pages[0][1] and note == "converted to Markdown; 1 mail"
        found = paths(pages[0][1])
        assert (found["From here on"], found["From a quoted line"]) == ("", "Quoted by Bob Lee")

    def test_what_is_no_mail_is_refused(self):
        assert "begins with no header" in parsed(b"just words", "eml").note
        assert "begins with no mail" in parsed(b"\nFrom the start\n", "mbox").note
        assert "holds more than" in parsed(mail("x" * 2_000), "eml", text_bytes=1_000).note

    @settings(deadline=None, max_examples=200)
    @given(st.lists(st.sampled_from(PARTS), max_size=25))
    def test_any_order_of_lines_is_read(self, lines):
        data = b"From: a@x.org\n" + "".join(lines).encode("utf-8", "surrogateescape")
        text, note = text_of(data, "eml"), read_office(data, "eml", Limits())[1]
        assert text.startswith("# ") or "cannot be read" in note


def test_a_mail_that_cannot_be_parsed_at_all_is_refused_not_raised():
    with pytest.raises(Refusal):
        text_of(b"", "eml")
