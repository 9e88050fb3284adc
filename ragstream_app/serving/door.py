"""Where the page listens, who may come in, and what is refused before anything listens."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from ragstream_app.serving.passwords import Password, password_file, read_password
from ragstream_app.serving.ports import HOST
from ragstream_assets.serving.guard import own_hosts
from ragstream_core.config import AppConfig
from ragstream_core.errors import Refused, UnknownSetting

SETTINGS = "page.allow_remote: true, and a password by `ragstream password`"


@dataclass(frozen=True)
class Door:
    """How the page is reached.

    Attributes:
        address: What it listens on.
        port: Its port.
        hosts: The values of a Host header that are accepted, lower case.
        password: What a visitor must know; None where only this machine can reach the page.
    """

    address: str
    port: int
    hosts: frozenset[str]
    password: Password | None

    @property
    def url(self) -> str:
        """Where this machine reaches it."""
        address = HOST if _address(self.address).is_unspecified else self.address
        return f"http://{address}:{self.port}"


def door_of(config: AppConfig) -> Door:
    """Return the door of these settings.

    Raises:
        Refused: It would be open to the network without the setting, a password or a name.
        UnknownSetting: The address is none.
    """
    page = config.settings.page
    address = _address(page.address)
    if address.is_loopback and not page.hosts:
        return Door(page.address, page.port, _hosts(config), None)
    if not page.allow_remote:
        what = f"page.address {page.address}" if not address.is_loopback else "page.hosts"
        raise Refused(f"{what} would open the page to others", hint=SETTINGS)
    if address.is_unspecified and not page.hosts:
        raise Refused(
            f"page.address {page.address} is every address of this machine",
            hint="name what people type in the browser: "
            f"page.hosts: [name-of-this-machine:{page.port}]",
        )
    return Door(page.address, page.port, _hosts(config), read_password(password_file(config)))


def _hosts(config: AppConfig) -> frozenset[str]:
    page = config.settings.page
    return own_hosts(page.port, [f"{page.address}:{page.port}", *map(str.lower, page.hosts)])


def _address(text: str) -> ipaddress.IPv4Address:
    """Read an address.

    Raises:
        UnknownSetting: It is none; names are not taken, since what they mean can change.
    """
    try:
        return ipaddress.IPv4Address(HOST if text == "localhost" else text)
    except ValueError:
        raise UnknownSetting(
            f"page.address = {text!r} is not an IPv4 address",
            hint="127.0.0.1, or one of this machine",
        ) from None
