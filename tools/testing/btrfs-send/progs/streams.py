#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# Writes streams that no send makes, a file each: streams.py odd DIR, or what is left of a
# stream that breaks off at, before and behind commands that make an inode: streams.py cut FILE DIR.
import os
import struct
import sys

import commands
from commands import (CHMOD, DATA, END, HEAD, INO, MKDIR, MKFILE, MKNOD, MODE, OFFSET, PATH,
                      PATH_LINK, PATH_TO, RDEV, RENAME, RMDIR, SET_XATTR, SUBVOL, SYMLINK, UNLINK,
                      WRITE, XATTR_DATA, XATTR_NAME)

MKFIFO, MKSOCK, REMOVE_XATTR = 6, 7, 14
UUID, CTRANSID = 1, 2


def command(kind, attributes):
    """Values are texts, numbers or bytes."""
    return commands.command(kind, *((key, struct.pack("<Q", value) if isinstance(value, int) else
                                     value.encode() if isinstance(value, str) else value)
                                    for key, value in attributes.items()))


def make(kind, path, **more):
    attributes = {PATH: path, INO: 300}
    if kind == MKNOD:
        attributes.update({MODE: more.get("mode", 0o20666), RDEV: 259})
    if kind == SYMLINK:
        attributes[PATH_LINK] = "target"
    return command(kind, attributes)


def rename(old, new):
    return command(RENAME, {PATH: old, PATH_TO: new})


def placed(kind, name, orphan="o300-8-0"):
    return make(kind, orphan) + rename(orphan, name)


def write(path):
    return command(WRITE, {PATH: path, OFFSET: 0, DATA: b"content of " + path.encode()})


def xattr(path, name, value):
    return command(SET_XATTR, {PATH: path, XATTR_NAME: name, XATTR_DATA: value})


def acl(path):
    entries = (1, 7, -1), (2, 7, 7), (4, 5, -1), (16, 7, -1), (32, 0, -1)
    return xattr(path, "system.posix_acl_default", struct.pack("<I", 2) +
                 b"".join(struct.pack("<HHi", *entry) for entry in entries))


def odd_streams():
    kinds = {"file": MKFILE, "dir": MKDIR, "node": MKNOD, "fifo": MKFIFO, "socket": MKSOCK, "symlink": SYMLINK}
    there = (make(MKFILE, "a") + write("a") + make(MKDIR, "empty") + make(MKDIR, "full") +
             make(MKFILE, "full/x") + make(SYMLINK, "target-of") + make(MKFILE, "target") + write("target"))
    for name, kind in kinds.items():
        tail = write("a") if kind == MKFILE else b""
        for where in "a", "empty", "full", "target-of", "none/x", "a/x", "n" * 256, "p/" * 2047 + "x", \
                     "../outside", "o300-8-0", "o300-8-0/x", "full/", "new/", ".", "":
            yield f"{name}-to-{where[:20].replace('/', '_')}", there + placed(kind, where) + tail
        yield f"{name}-alone", make(kind, "o300-8-0")
        yield f"{name}-other", there + make(kind, "o300-8-0") + rename("a", "b") + rename("o300-8-0", "a")
        yield f"{name}-late", make(kind, "o300-8-0") + command(CHMOD, {PATH: "a", MODE: 0o600}) + rename("o300-8-0", "a")
        yield f"{name}-exists", make(MKFILE, "o300-8-1") + placed(kind, "b") + placed(kind, "c", "o301-8-0")
        # The second is not made where the first was to go.
        yield f"{name}-incomplete", (command(kind, {PATH: "o300-8-0"}) + rename("o300-8-0", "b") + make(kind, "o301-8-0"))
        yield f"{name}-long", make(kind, "o" * 4090) + rename("o" * 4090, "b") + make(kind, "o301-8-0")
    for mode in 0o100644, 0o40755, 0o120777, 0, 0o140600:
        yield f"node-{mode:o}", make(MKNOD, "o300-8-0", mode=mode) + rename("o300-8-0", "b")
    new = placed(MKFILE, "d/new") + placed(MKDIR, "d/dir", "o301-8-0")
    first = make(MKDIR, "d") + placed(MKFILE, "d/first")
    yield "acl-later", first + acl("d") + new
    removed = command(REMOVE_XATTR, {PATH: "d", XATTR_NAME: "system.posix_acl_default"})
    yield "acl-removed", first + acl("d") + removed + new
    yield "acl-root", first + acl("") + new
    yield "acl-root-first", make(MKDIR, "d") + acl("") + new
    yield "acl-renamed", first + make(MKDIR, "e") + acl("e") + rename("d", "f") + rename("e", "d") + new
    yield "acl-replaced", (make(MKDIR, "d") + placed(MKDIR, "d/e") + placed(MKFILE, "d/e/x") + command(UNLINK, {PATH: "d/e/x"}) +
                           command(RMDIR, {PATH: "d/e"}) + acl("d") + make(MKDIR, "d/e") + placed(MKFILE, "d/e/new"))
    yield "compression-later", first + xattr("d", "btrfs.compression", b"zlib") + new
    yield "compression-root", first + xattr("", "btrfs.compression", b"zlib") + new
    yield "setgid-later", first + command(CHMOD, {PATH: "d", MODE: 0o2755}) + new
    yield "user-xattr", first + xattr("d", "user.x", b"y") + new


def frame(body):
    uuid = bytes(range(16))
    begin = command(SUBVOL, {PATH: "subvol", UUID: uuid, CTRANSID: 7})
    return HEAD + begin + body + command(END, {})


def put(folder, name, data):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


if sys.argv[1] == "odd":
    for title, body in odd_streams():
        put(sys.argv[2], title, frame(body))
else:
    with open(sys.argv[2], "rb") as file:
        stream = file.read()
    seen = set()
    place = 17
    while place < len(stream):
        length, kind, _ = struct.unpack_from("<IHI", stream, place)
        end = place + 10 + length
        if MKFILE <= kind <= SYMLINK and kind not in seen:
            seen.add(kind)
            follower = end + 10 + struct.unpack_from("<I", stream, end)[0]
            for title, cut in ("before", place), ("in", end - 3), ("behind", end), ("header", end + 4), \
                              ("rename", follower - 1), ("whole", follower):
                put(sys.argv[3], f"{kind}-{title}", stream[:cut])
            damaged = bytearray(stream)
            damaged[follower - 1] ^= 1
            put(sys.argv[3], f"{kind}-damaged", damaged)
        place = end
