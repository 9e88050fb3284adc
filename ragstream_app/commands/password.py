"""`ragstream password`: what visitors of a page that others may reach must know."""

from __future__ import annotations

import typer

from ragstream_app.session import note, session_of


def password(ctx: typer.Context) -> None:
    """Set the password of the page, for the case that other machines may reach it.

    It is asked for, never given as a word of the command; from a pipe, the first line is taken.
    Only a hash of it is kept, in the data root. `page.allow_remote` says how to open the page.

    Raises:
        Refused: It is too short, or the two inputs differ.
        OSError: The data root cannot be written.
    """
    from ragstream_app.serving.passwords import make_password, password_file, write_password
    from ragstream_core.atomic import make_private_dir

    path = password_file(session_of(ctx).workspace().config)
    kept = make_password(_asked())
    make_private_dir(path.parent)
    write_password(path, kept)
    note(f"kept in {path}; a running page uses it after a restart")


def _asked() -> str:
    """Return the password that somebody types twice, or a pipe's first line.

    Raises:
        Refused: The two inputs differ.
    """
    import sys
    from getpass import getpass

    from ragstream_core.errors import Refused

    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    first = getpass("Password: ")
    if getpass("Again: ") != first:
        raise Refused("the two inputs differ", hint="ragstream password")
    return first
