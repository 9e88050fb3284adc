"""Compound files, as old Office programs and Outlook write them: [MS-CFB], version 3."""

import struct

SECTOR, MINI, CUTOFF = 512, 64, 4096
FREE, END, FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD


def compound(streams: dict[str, bytes]) -> bytes:
    """Return a file of streams, whose names may have folders before them: ``folder/name``."""
    names = sorted({"", *streams, *(p for name in streams for p in _above(name))})
    sectors, fat, mini, minifat = [], [], b"", []
    places = {}
    for name in names:
        data = streams.get(name)
        if data is None:
            continue
        if len(data) < CUTOFF:
            count = -(-len(data) // MINI)
            places[name] = (len(minifat) if count else END, len(data))
            minifat += [*range(len(minifat) + 1, len(minifat) + count), END][:count]
            mini += data.ljust(count * MINI, b"\0")
        else:
            places[name] = (_add(sectors, fat, data), len(data))
    places[""] = (_add(sectors, fat, mini) if mini else END, len(mini))
    minifat_at = _add(sectors, fat, struct.pack(f"<{len(minifat)}I", *minifat), b"\xff")
    directory = _directory(names, streams, places)
    directory_at = _add(sectors, fat, directory)
    count = 1
    while (len(fat) + count) * 4 > count * SECTOR:
        count += 1
    fat_at = len(fat)
    fat += [FAT] * count
    table = struct.pack(f"<{len(fat)}I", *fat).ljust(count * SECTOR, b"\xff")
    minis = -(-len(minifat) * 4 // SECTOR)
    head = struct.pack(
        "<8s16xHHHHH6xIIIIIIIIII", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0x3E, 3, 0xFFFE, 9, 6,
        0, count, directory_at, 0, CUTOFF, minifat_at if minis else END, minis, END, 0, fat_at,
    )  # fmt: skip
    more = [fat_at + n for n in range(1, count)] + [FREE] * (109 - count)
    return head + struct.pack(f"<{len(more)}I", *more) + b"".join(sectors) + table


def _above(name):
    parts = name.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _add(sectors, fat, data, fill=b"\0"):
    count = -(-len(data) // SECTOR)
    start = len(fat)
    fat += [*range(start + 1, start + count), END][:count]
    sectors.append(data.ljust(count * SECTOR, fill))
    return start if count else END


def _directory(names, streams, places):
    number = {name: n for n, name in enumerate(names)}
    left, right, child = ({n: FREE for n in range(len(names))} for _ in range(3))

    def tree(children):
        if not children:
            return FREE
        middle = len(children) // 2
        n = number[children[middle]]
        left[n], right[n] = tree(children[:middle]), tree(children[middle + 1 :])
        return n

    def order(name):
        last = name.rpartition("/")[2].upper()
        return len(last), last

    for name in names:
        inside = [one for one in names if one and one.rpartition("/")[0] == name]
        child[number[name]] = tree(sorted(inside, key=order))
    rows = []
    for n, name in enumerate(names):
        last = (name.rpartition("/")[2] if name else "Root Entry").encode("utf-16-le") + b"\0\0"
        kind = 5 if not name else 2 if name in streams else 1
        start, size = places.get(name, (0, 0))
        rows.append(struct.pack(
            "<64sHBBIII36xIII", last, len(last), kind, 1, left[n], right[n], child[n],
            start, size, 0,
        ))  # fmt: skip
    return b"".join(rows)
