"""Which files are documents, of what kind each is, which are never read, and how names are written.

File names of any bytes as text and back: injective, and a valid name is its own text.

A byte that is no UTF-8 becomes ``%80`` … ``%FF``. A ``%`` that would read as such an escape (or as
``%25``) becomes ``%25``; every other ``%`` stays. So two files never share a path in the index.
"""

from __future__ import annotations

import os
import re
from typing import Literal

from ragstream_core.text.code import BY_LINES, GRAMMARS
from ragstream_core.text.headings import PROSE_TYPES

_AMBIGUOUS = re.compile(r"%(?=25|[89A-F][0-9A-F])")
_ESCAPED = re.compile(r"%(25|[89A-F][0-9A-F])")


def encode_name(name: str) -> str:
    """Return the text of a file name as `os.scandir` gives it (undecodable bytes as surrogates)."""
    safe = _AMBIGUOUS.sub("%25", name)
    return "".join(
        f"%{ord(char) - 0xDC00:02X}" if "\udc80" <= char <= "\udcff" else char for char in safe
    )


def decode_name(path: str) -> str:
    """Return the file-system form of a path made of encoded names; inverse of `encode_name`."""

    def restore(match: re.Match[str]) -> str:
        value = int(match[1], 16)
        return "%" if value == 0x25 else os.fsdecode(bytes([value]))

    return _ESCAPED.sub(restore, path)


Kind = Literal["text", "code", "pdf", "office", "picture"]

# Kinds that a child process with limits reads.
PARSED: frozenset[Kind] = frozenset({"pdf", "office", "picture"})

TEXT = ("md", *sorted(PROSE_TYPES - {"md"}), "json", "jsonc", "geojson", "yml", "yaml")
CODE = (*GRAMMARS, *sorted(BY_LINES))
OFFICE = (
    "docx", "docm", "dotx", "dotm", "pptx", "pptm", "ppsx", "ppsm", "potx", "potm", "xlsx", "xlsm",
    "xltx", "xltm", "html", "htm", "xhtml", "mhtml", "mht", "odt", "ott", "odp", "otp", "ods",
    "ots", "rtf", "epub", "eml", "mbox", "ics", "vcf", "ipynb", "srt", "vtt", "jsonl", "ndjson",
    "parquet", "doc", "xls", "ppt", "msg", "csv", "tsv",
)  # fmt: skip

# Those of them that are text: their encoding is told like that of any text.
WRITTEN = frozenset({"csv", "tsv", "ics", "vcf", "srt", "vtt", "jsonl", "ndjson"})
PICTURES = ("png", "jpg", "jpeg", "tif", "tiff", "webp", "bmp")
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(TEXT, "text"),
    **dict.fromkeys(CODE, "code"),
    **dict.fromkeys(OFFICE, "office"),
    "pdf": "pdf",
    **dict.fromkeys(PICTURES, "picture"),
}
TYPES = {f".{name}": name for name in _KINDS}
TYPES |= {".pps": "ppt", ".xlt": "xls"}
"""Document type by ending."""
# Type of a day of a Slack channel, ``2024-05-01.json``, if its content is one (`loader`).
SLACK = "slack"
_KINDS[SLACK] = "office"
_DAY = re.compile(r"\d{4}-\d\d-\d\d\.json")

# Type of a file that is text and has none of these endings; it is cut by its lines.
OTHER = "other"
# Type by name, of files without an ending.
_NAMES = {
    **dict.fromkeys(
        (
            "readme", "license", "licence", "copying", "notice", "notes", "todo", "changes",
            "changelog", "history", "news", "authors", "contributors", "contributing", "install",
            "thanks",
        ),
        "text",
    ),
    **dict.fromkeys(("makefile", "gnumakefile", "justfile", "kbuild"), "makefile"),
    **dict.fromkeys(("dockerfile", "containerfile"), "dockerfile"),
    **dict.fromkeys(("gemfile", "rakefile", "podfile", "vagrantfile", "brewfile"), "rb"),
    "jenkinsfile": "groovy",
}  # fmt: skip
_NOT_READ = {
    "a picture; save it as .png, which the extra 'ocr' reads": "jpe gif ico icns heic heif avif psd"
    " xcf raw cr2 nef svg svgz eps ps ai indd sketch fig",
    "sound or film; a transcript is read, as .vtt, .srt or .txt": "mp3 wav flac ogg oga opus m4a"
    " aac wma mid midi aiff mp4 m4v mov avi mkv webm wmv flv mpg mpeg ogv swf fla",
    "an archive; unpack it": "tar gz tgz bz2 tbz xz txz 7z rar zst lz4 iso dmg img cab torrent",
    "an old Office file; save it as .docx, .xlsx or .pptx": "dot xlsb",
    "a file of another office program; export it as .docx, .xlsx or .pdf": "odg pages numbers one"
    " vsd vsdx pub dwg dxf wpd wps",
    "mail of Outlook; save or export it as .eml or .mbox": "pst ost",
    "an e-book; convert it to .epub or .pdf": "mobi azw azw3 djvu",
    "a database; export what you need as .csv": "db sqlite sqlite3 mdb accdb dbf",
    "data of a program; export what you need as .csv or .parquet": "avro orc feather arrow npy npz"
    " pkl pickle pt pth onnx safetensors gguf h5 hdf5 mat rds rdata",
    "a program or a part of one": "jar war ear whl egg gem deb rpm apk ipa msi exe dll so dylib"
    " lib obj o a class pyc pyo pyd wasm node bin elf com sys ko",
    "a font": "ttf otf woff woff2 eot",
    "no document": "blend fbx glb stl 3ds swp lnk pcap",
}

# Endings of files that are no text, or none that anybody reads; they are not opened. What each is,
# and what helps.
_NO_TEXT = {ending: what for what, endings in _NOT_READ.items() for ending in endings.split()}
# Begins the reason of a file that no reader is for.
NOT_SUPPORTED = "type not supported"

# What `ragstream init` makes in a folder.
OWN_FOLDER = ".ragstream"
_NO_DOCUMENTS = frozenset([".git", ".hg", ".svn", ".bzr", OWN_FOLDER])
_SECRET_NAMES = """
.netrc _netrc .npmrc .yarnrc .pypirc .pgpass .my.cnf .htpasswd .git-credentials .s3cfg .boto
.dockercfg .vault-token .terraformrc .aws .azure .kube .ssh .gnupg .gcloud
.bash_history .zsh_history .sh_history .python_history .node_repl_history .psql_history
.mysql_history .sqlite_history .rediscli_history .irb_history .lesshst .viminfo
"""
_SECRETS = frozenset(_SECRET_NAMES.split())
_SECRET = re.compile(  # id_rsa.old and .env.local, yet neither id_cards nor .environment
    r"(?:\.envs?|\.envrc|id_(?:rsa|dsa|ecdsa|ed25519|ed448|xmss))(?![a-z])"
    r"(?!\.(?:example|sample|template|dist|defaults)$)"
)
_EXAMPLE = re.compile(r"\.env.*")
_SECRET_ENDS = (
    ".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdb", ".kdbx", ".ppk", ".ovpn",
    ".tfstate", ".tfstate.backup", ".tfvars", ".gpg", ".pgp",
)  # fmt: skip


def file_type(path: str) -> str:
    """Return the document type of a path, e.g. ``md``; empty where it is not supported.

    Every other name may be that of a text: it has the type `OTHER`.
    """
    name = path.rpartition("/")[2].lower()
    stem, dot, ending = name.rpartition(".")
    if not dot or not stem:
        return _NAMES.get(name) or (ending if dot and ending in BY_LINES else OTHER)
    if found := TYPES.get(f".{ending}"):
        return SLACK if found == "json" and _DAY.fullmatch(name) else found
    if ending in _NO_TEXT:
        return ""
    return "env" if _EXAMPLE.fullmatch(name) else _NAMES.get(stem, OTHER)


def is_archive(name: str) -> bool:
    """Whether a file of this name is read as a folder (`packed`)."""
    return name[-4:].lower() == ".zip"


def not_supported(path: str) -> str:
    """Return why a file of an unsupported type is not read, and what helps."""
    what = _NO_TEXT.get(path.rpartition(".")[2].lower(), "")
    return f"{NOT_SUPPORTED}: {what}" if what else NOT_SUPPORTED


def kind_of(file_type: str) -> Kind:
    """Return how files of a type are read; a type that is not supported is text."""
    return _KINDS.get(file_type, "text")


def denial(name: str) -> str:
    """Return why a file or folder of this name is never read, empty where it is.

    The deny list holds what may be a secret (``.env.local``, ``id_rsa``, keys, credentials), and
    folders of version control and of RAGstream itself.
    """
    lower = name.lower()
    if lower in _NO_DOCUMENTS:
        return "on the deny list: version control"
    if lower in _SECRETS or lower.endswith(_SECRET_ENDS) or _SECRET.match(lower):
        return "on the deny list: may hold secrets; give it another name if it holds none"
    return ""
