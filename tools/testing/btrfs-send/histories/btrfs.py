# SPDX-License-Identifier: GPL-2.0
"""What the kernel is asked for by system calls: loop devices, mounts,
subvolumes, snapshots, sends, and where the data of a file lies."""

import ctypes
import errno
import fcntl
import hashlib
import mmap
import os
import struct

BLOCK = 4096

LOOP_SET_FD = 0x4C00
LOOP_CLR_FD = 0x4C01
FS_IOC_SETFLAGS = 0x40086602
FS_NOCOW_FL = 0x00800000
FICLONE = 0x40049409
FICLONERANGE = 0x4020940D
FIDEDUPERANGE = 0xC0189436
FS_IOC_FIEMAP = 0xC020660B
FS_IOC_ENABLE_VERITY = 0x40806685
BTRFS_IOC_DEFRAG = 0x50009402
BTRFS_IOC_SUBVOL_CREATE = 0x5000940E
BTRFS_IOC_SNAP_DESTROY = 0x5000940F
BTRFS_IOC_TREE_SEARCH = 0xD0009411
BTRFS_IOC_INO_LOOKUP = 0xD0009412
BTRFS_IOC_SNAP_CREATE_V2 = 0x50009417
BTRFS_IOC_BALANCE_V2 = 0xC4009420
BTRFS_IOC_SEND = 0x40489426

SUBVOL_RDONLY = 2
BALANCE = {'data': 1, 'metadata': 2 | 4 | 8, 'both': 1 | 2 | 4 | 8}
SEND_VERSION = 8
SEND_FLAGS = {'--no-data': 1, '--compressed-data': 16 | SEND_VERSION}
ROOT_TREE = 1
ROOT_ITEM_KEY = 132
# of struct btrfs_root_item
ROOT_ITEM_LEVEL = 238
FIEMAP_EXTENT_LAST = 0x1
# no place of its own on the disk: unknown, delayed, not aligned, inline
FIEMAP_NO_PLACE = 0x2 | 0x4 | 0x100 | 0x200
FIEMAP_EXTENT_ENCODED = 0x8

MS_RDONLY = 1
AT_FDCWD = -100
AT_SYMLINK_FOLLOW = 0x400
RENAME_EXCHANGE = 2
FALLOC_KEEP_SIZE = 1
FALLOC_PUNCH_HOLE = 2
FALLOC_ZERO_RANGE = 16

libc = ctypes.CDLL(None, use_errno=True)


def call(result):
    """Raises the error of a function of the C library."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def fallocate(descriptor, mode, offset, length):
    call(libc.fallocate(descriptor, mode, ctypes.c_long(offset), ctypes.c_long(length)))


def exchange(one, other):
    call(libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE))


def link_open(descriptor, path):
    """Gives an open file a name."""
    call(libc.linkat(AT_FDCWD, b'/proc/self/fd/%d' % descriptor, AT_FDCWD, os.fsencode(path),
                     AT_SYMLINK_FOLLOW))


def mount(device, target, options, readonly=False):
    os.makedirs(target, exist_ok=True)
    call(libc.mount(device.encode(), target.encode(), b'btrfs', MS_RDONLY if readonly else 0,
                    options.encode()))


def unmount(target):
    call(libc.umount2(target.encode(), 0))


class Loop:
    """A loop device on a file."""

    def __init__(self, number, path, readonly=False):
        self.device = '/dev/loop%d' % number
        mode = os.O_RDONLY if readonly else os.O_RDWR
        # Not kept open: what somebody may write to is not mounted.
        self.control(LOOP_SET_FD, mode, path)

    def control(self, request, mode, path=None):
        descriptor = os.open(self.device, mode)
        backing = os.open(path, mode) if path else 0
        try:
            fcntl.ioctl(descriptor, request, backing)
        finally:
            os.close(descriptor)
            if path:
                os.close(backing)

    def detach(self):
        self.control(LOOP_CLR_FD, os.O_RDONLY)


class Opened:
    """A file or folder as the argument of ioctls."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.descriptor = os.open(self.path, os.O_RDONLY)
        return self.descriptor

    def __exit__(self, *_):
        os.close(self.descriptor)


def create_subvolume(path):
    with Opened(os.path.dirname(path)) as parent:
        fcntl.ioctl(parent, BTRFS_IOC_SUBVOL_CREATE,
                    bytearray(struct.pack('q4088s', 0, os.path.basename(path).encode())))


def delete_subvolume(path):
    with Opened(os.path.dirname(path)) as parent:
        fcntl.ioctl(parent, BTRFS_IOC_SNAP_DESTROY,
                    bytearray(struct.pack('q4088s', 0, os.path.basename(path).encode())))


def create_snapshot(source, path, readonly):
    with Opened(os.path.dirname(path)) as parent, Opened(source) as volume:
        fcntl.ioctl(parent, BTRFS_IOC_SNAP_CREATE_V2,
                    bytearray(struct.pack('qQQ32x4040s', volume, 0,
                                          SUBVOL_RDONLY if readonly else 0,
                                          os.path.basename(path).encode())))


def balance(path, kind):
    with Opened(path) as descriptor:
        fcntl.ioctl(descriptor, BTRFS_IOC_BALANCE_V2,
                    bytearray(struct.pack('Q1016x', BALANCE[kind])))


def root_id(path):
    buffer = bytearray(4096)
    struct.pack_into('QQ', buffer, 0, 0, 256)
    with Opened(path) as descriptor:
        fcntl.ioctl(descriptor, BTRFS_IOC_INO_LOOKUP, buffer)
    return struct.unpack_from('Q', buffer)[0]


def root_level(path):
    """The level of a subvolume's root: 0 is a tree that is one leaf."""
    number = root_id(path)
    last = (1 << 64) - 1
    buffer = bytearray(4096)
    struct.pack_into('QQQQQQQIII', buffer, 0, ROOT_TREE, number, number, 0, last, 0, last,
                     ROOT_ITEM_KEY, ROOT_ITEM_KEY, 1)
    with Opened(path) as descriptor:
        fcntl.ioctl(descriptor, BTRFS_IOC_TREE_SEARCH, buffer)
    # behind the search key and the header of the item found
    return buffer[104 + 32 + ROOT_ITEM_LEVEL]


class Stream:
    """What a send has written, in memory."""

    def __init__(self):
        self.descriptor = os.memfd_create('stream')

    def send(self, snapshot, parent=None, clones=(), flags=0, version=0):
        """Sends, and returns the number of the error or 0."""
        os.ftruncate(self.descriptor, 0)
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        # as btrfs send does: the parent is a clone source, too
        sources = [root_id(path) for path in clones]
        parent_id = 0
        if parent:
            parent_id = root_id(parent)
            sources.append(parent_id)
        array = (ctypes.c_uint64 * max(len(sources), 1))(*sources)
        arguments = struct.pack('qQQQQI28x', self.descriptor, len(sources),
                                ctypes.addressof(array), parent_id, flags, version)
        with Opened(snapshot) as descriptor:
            if libc.ioctl(descriptor, ctypes.c_ulong(BTRFS_IOC_SEND), arguments) < 0:
                return ctypes.get_errno()
        return 0

    def send_words(self, root, words):
        """
        A send in the words of btrfs send. Returns what it did: status, checksum and
        size of the stream; None if one of the snapshots is not there.
        """
        *words, name = words.split()
        parent, clones, flags, version = None, [], 0, 0
        while words:
            word = words.pop(0)
            if word == '-p':
                parent = os.path.join(root, words.pop(0))
            elif word == '-c':
                clones.append(os.path.join(root, words.pop(0)))
            elif word == '--proto':
                version = int(words.pop(0))
                flags |= SEND_VERSION
            else:
                flags |= SEND_FLAGS[word]
        snapshot = os.path.join(root, name)
        if not all(os.path.isdir(path) for path in [snapshot] + clones + [parent or root]):
            return None
        number = self.send(snapshot, parent, clones, flags, version)
        return ['error %s' % errno.errorcode[number] if number else 'ok', self.checksum(),
                os.fstat(self.descriptor).st_size]

    def map(self):
        size = os.fstat(self.descriptor).st_size
        return mmap.mmap(self.descriptor, size, prot=mmap.PROT_READ) if size else b''

    def checksum(self):
        return hashlib.sha256(self.map()).hexdigest()[:32]

    def close(self):
        os.close(self.descriptor)


def extents(descriptor):
    """The extents of a file that have a place on the disk: offset, place, bytes, flags."""
    found, start = [], 0
    count = 100
    while True:
        buffer = bytearray(32 + 56 * count)
        struct.pack_into('QQII', buffer, 0, start, (1 << 63) - start, 0, 0)
        struct.pack_into('I', buffer, 24, count)
        fcntl.ioctl(descriptor, FS_IOC_FIEMAP, buffer)
        mapped = struct.unpack_from('I', buffer, 20)[0]
        flags = FIEMAP_EXTENT_LAST
        for number in range(mapped):
            offset, place, length = struct.unpack_from('QQQ', buffer, 32 + 56 * number)
            flags = struct.unpack_from('I', buffer, 32 + 56 * number + 40)[0]
            if not flags & FIEMAP_NO_PLACE:
                found.append((offset, place, length, flags))
            start = offset + length
        if flags & FIEMAP_EXTENT_LAST:
            return found
