# SPDX-License-Identifier: GPL-2.0
"""Commands of send streams, written by hand."""

INO, MODE, RDEV, XATTR_NAME, XATTR_DATA, PATH, PATH_TO, PATH_LINK, OFFSET, DATA = 3, 5, 8, 13, 14, 15, 16, 17, 18, 19
SUBVOL, SNAPSHOT, MKFILE, MKDIR, MKNOD, SYMLINK, RENAME, LINK, UNLINK, RMDIR, SET_XATTR, WRITE, CHMOD, END, FILEATTR = \
    1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 15, 18, 21, 24
HEAD = b"btrfs-stream\0\1\0\0\0"


def crc32c(data):
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc


def command(number, *attributes, damage=0):
    """Attributes are pairs of a type and bytes."""
    body = b"".join(kind.to_bytes(2, "little") + len(value).to_bytes(2, "little") + value
                    for kind, value in attributes)
    head = len(body).to_bytes(4, "little") + number.to_bytes(2, "little")
    return head + (crc32c(head + bytes(4) + body) ^ damage).to_bytes(4, "little") + body


def make(name, number=MKFILE, *more, **options):
    return command(number, (PATH, name), (INO, bytes(8)), *more, **options)


def rename(name, to, **options):
    return command(RENAME, (PATH, name), (PATH_TO, to), **options)
