# SPDX-License-Identifier: GPL-2.0
"""What a folder holds, all that a receive has to bring back: a line for each
name with type, mode, owner, links, size, time, attributes and content; and which
blocks of which files are the same on the disk."""

import hashlib
import os
import stat

import btrfs
from btrfs import BLOCK


def checksum(data):
    return hashlib.sha256(data).hexdigest()[:16]


def content(path):
    """The checksum of all blocks that are not zero: a hole is as good as zeros."""
    digest = hashlib.sha256()
    zeros = bytes(64 * BLOCK)
    with open(path, 'rb', buffering=0) as file:
        size, offset = os.fstat(file.fileno()).st_size, 0
        while offset < size:
            try:
                offset = os.lseek(file.fileno(), offset, os.SEEK_DATA) // BLOCK * BLOCK
            except OSError:
                break
            data = os.pread(file.fileno(), len(zeros), offset)
            if not data:
                raise OSError('%s: cannot be read at %d' % (path, offset))
            if data != zeros[:len(data)]:
                for start in range(0, len(data), BLOCK):
                    block = data[start:start + BLOCK]
                    if block != zeros[:len(block)]:
                        digest.update(b'%d ' % (offset + start))
                        digest.update(block)
            offset += len(data)
    return digest.hexdigest()[:32]


def names_below(root):
    """Sorted, so that the order does not depend on the file system."""
    names = [b'']
    for folder, folders, files in os.walk(root):
        names += [os.path.relpath(os.path.join(folder, name), root) for name in folders + files]
    return sorted(names)


def listing(root):
    root = os.fsencode(root)
    lines, inodes, contents = [], {}, {}
    for name in names_below(root):
        path = os.path.join(root, name)
        status = os.lstat(path)
        # names of one inode, by the first of them: numbers differ
        first = inodes.setdefault(status.st_ino, name)
        attributes = sorted((key, checksum(os.getxattr(path, key, follow_symlinks=False)))
                            for key in os.listxattr(path, follow_symlinks=False))
        if stat.S_ISREG(status.st_mode):
            if first not in contents:
                contents[first] = content(path)
            what = contents[first]
        elif stat.S_ISLNK(status.st_mode):
            what = os.readlink(path)
        elif stat.S_ISDIR(status.st_mode):
            what = ''
        else:
            what = status.st_rdev
        # The time of the top is what a send that moves orphans through it leaves.
        time = status.st_mtime_ns if name else None
        lines.append(' '.join(str(word) for word in (
            name, oct(status.st_mode), status.st_uid, status.st_gid, status.st_nlink,
            first, status.st_size, time, attributes, what)))
    return lines


def sharing(root, snapshots):
    """
    The blocks on the disk that are in more than one place of the snapshots: a line
    for each run of them, with these places. Of compressed extents, what they are
    a part of.
    """
    places = {}
    for snapshot in snapshots:
        top = os.fsencode(os.path.join(root, snapshot))
        seen = set()
        for name in names_below(top):
            path = os.path.join(top, name)
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode) or status.st_ino in seen:
                continue
            seen.add(status.st_ino)
            with btrfs.Opened(path) as descriptor:
                found = btrfs.extents(descriptor)
            whole = b'%s/%s' % (snapshot.encode(), name)
            for offset, place, length, flags in found:
                if flags & btrfs.FIEMAP_EXTENT_ENCODED:
                    places.setdefault(place, set()).add((whole, -1))
                else:
                    for start in range(0, length, BLOCK):
                        block = (offset + start) // BLOCK
                        places.setdefault(place + start, set()).add((whole, block))
    runs = {}
    for where in places.values():
        if len(where) < 2:
            continue
        where = sorted(where)
        base = where[0][1]
        # The same files at the same distances: one run.
        runs.setdefault(tuple((name, block if block < 0 else block - base)
                              for name, block in where), []).append(base)
    return ['%s blocks %s' % (' '.join('%s+%d' % (name.decode(), block) for name, block in key),
                              ' '.join(str(block) for block in sorted(set(runs[key]))))
            for key in sorted(runs)]
