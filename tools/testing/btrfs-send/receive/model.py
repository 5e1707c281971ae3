#!/usr/bin/python3 -B
# SPDX-License-Identifier: GPL-2.0
"""
Writes streams of a model: a subvolume and increments of it, one behind the other, of commands in
no order that send would have. Directories are renamed with all below them, put in the place of
others and given what files inherit; names are swapped, linked, taken again, and reached through
symbolic links.
"""

import random
import struct
import sys

from commands import (CHMOD, DATA, END, HEAD, INO, LINK, MKDIR, MKFILE, MODE, OFFSET, PATH, PATH_LINK, PATH_TO,
                      RENAME, RMDIR, SET_XATTR, SNAPSHOT, SUBVOL, SYMLINK, UNLINK, WRITE, XATTR_DATA, XATTR_NAME,
                      command)

ACL = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, mode, 0xffffffff) for tag, mode in
                                      ((1, 7), (4, 5), (32, 5)))
NAMES = [b"%c" % letter for letter in range(97, 115)]


class Model:
    def __init__(self, seed):
        self.random, self.ino, self.top, self.out = random.Random(seed), 256, {}, []
        self.others = 1

    def say(self, number, *attributes):
        self.out.append(command(number, *attributes))

    def directories(self, top=None, path=b""):
        """Pairs of a path and what is there; a file is its number, a link is bytes."""
        top = self.top if top is None else top
        yield path, top
        for name, what in top.items():
            if isinstance(what, dict):
                yield from self.directories(what, path + name + b"/")

    def pick(self, wanted=None):
        """A path, its directory and the name there, of what is wanted or of any name."""
        places = [(path, top, name) for path, top in self.directories()
                  for name in (top if wanted else NAMES + list(top)) if not wanted or wanted(top[name])]
        return self.random.choice(places) if places else None

    def path(self, place):
        """Now and then through a symbolic link at the top."""
        path, _, name = place
        links = [link for link, to in self.top.items() if isinstance(to, bytes) and path.startswith(to + b"/")
                 and isinstance(self.at(to), dict)]
        if links and self.random.random() < 0.3:
            link = self.random.choice(links)
            path = link + path[len(self.top[link]):]
        return path + name

    def at(self, path):
        what = self.top
        for name in path.split(b"/"):
            what = what.get(name) if isinstance(what, dict) else None
        return what

    def move(self, place, to):
        what = place[1][place[2]]
        old = to[1].get(to[2])
        if (to[0].startswith(place[0] + place[2] + b"/") or what is old or
                (isinstance(old, dict) and (old or not isinstance(what, dict))) or
                (isinstance(what, dict) and old is not None and not isinstance(old, dict))):
            return
        self.say(RENAME, (PATH, self.path(place)), (PATH_TO, self.path(to)))
        del place[1][place[2]]
        to[1][to[2]] = what

    def make(self):
        self.ino += 1
        kind = self.random.choice((MKDIR, MKDIR, MKFILE, MKFILE, MKFILE, SYMLINK))
        name, more = b"o%d-7-0" % self.ino, ()
        what = {} if kind == MKDIR else self.ino
        if kind == SYMLINK:
            what = self.random.choice([path[:-1] for path, _ in self.directories()][1:] or [b"nowhere"])
            more = ((PATH_LINK, what),)
        self.say(kind, (PATH, name), (INO, struct.pack("<Q", self.ino)), *more)
        self.top[name] = what
        if self.random.random() < 0.15:
            self.change()
        if self.top.get(name) is what and (kind == MKFILE or self.random.random() < 0.9):
            self.move((b"", self.top, name), self.pick())

    def swap(self):
        one, other = self.pick(lambda what: True), self.pick(lambda what: True)
        if not one or one[1] is not other[1] or one[2] == other[2]:
            return
        self.ino += 1
        passing = (b"", self.top, b"o%d-7-0" % self.ino)
        self.move(one, passing)
        if passing[2] in self.top:
            self.move(other, one)
            self.move(passing, other)

    def link(self):
        place, to = self.pick(lambda what: isinstance(what, int)), self.pick()
        if place and to[2] not in to[1]:
            self.say(LINK, (PATH, self.path(to)), (PATH_LINK, self.path(place)))
            to[1][to[2]] = place[1][place[2]]

    def remove(self):
        place = self.pick(lambda what: what == {} or not isinstance(what, dict))
        if place:
            self.say(RMDIR if place[1].pop(place[2]) == {} else UNLINK, (PATH, self.path(place)))

    def inherit(self):
        place = self.pick(lambda what: isinstance(what, dict))
        path = (PATH, self.path(place) if place and self.random.random() < 0.95 else b"")
        self.random.choice((
            lambda: self.say(SET_XATTR, path, (XATTR_NAME, b"btrfs.compression"), (XATTR_DATA, b"zlib")),
            lambda: self.say(SET_XATTR, path, (XATTR_NAME, b"system.posix_acl_default"), (XATTR_DATA, ACL)),
            lambda: self.say(CHMOD, path, (MODE, struct.pack("<Q", 0o2755))),
        ))()

    def write(self):
        place = self.pick(lambda what: isinstance(what, int))
        if place:
            self.say(WRITE, (PATH, self.path(place)), (OFFSET, bytes(8)), (DATA, b"%d" % len(self.out)))

    def rename(self):
        place = self.pick(lambda what: True)
        if place:
            self.move(place, self.pick())

    def change(self):
        self.random.choices((self.make, self.write, self.rename, self.swap, self.link, self.remove, self.inherit),
                            (12, 3) + (self.others,) * 5)[0]()

    def subvolume(self, number):
        identity = (PATH, b"s%d" % number), (1, b"%016d" % number), (2, struct.pack("<Q", number))
        parent = ()
        if number % 5 != 1:
            parent = (20, b"%016d" % (number - 1)), (21, struct.pack("<Q", number - 1))
        else:
            self.top = {}
        self.others = self.random.choice((0.1, 0.3, 1))
        self.out.append(HEAD)
        self.say(SNAPSHOT if parent else SUBVOL, *identity, *parent)
        for _ in range(25):
            self.change()
        self.say(END)


def main():
    model = Model(int(sys.argv[1]))
    for number in range(1, int(sys.argv[2]) + 2):
        model.subvolume(number)
    sys.stdout.buffer.write(b"".join(model.out))


main()
