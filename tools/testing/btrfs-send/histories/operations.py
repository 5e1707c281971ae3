# SPDX-License-Identifier: GPL-2.0
"""What happens to the files of a subvolume.

An operation is known by its number: its kind, the objects it takes from what
there is and all it does with them follow from the seed and that number alone. An
object is chosen by a hash of its own number, so that an operation that is left
out changes nothing for most of the others: any part of a history is a history.
"""

import copy
import errno
import fcntl
import os
import random
import shutil
import stat
import struct
import time
import zlib

import btrfs
from btrfs import BLOCK

FOLDER, FILE, OTHER = 'folder', 'file', 'other'

# What an operation may meet; anything else is an error of this program.
EXPECTED = (errno.EEXIST, errno.EINVAL, errno.ELOOP, errno.EMLINK, errno.ENODATA,
            errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.ENOTEMPTY, errno.ENAMETOOLONG,
            errno.EISDIR, errno.EPERM, errno.EXDEV, errno.EOPNOTSUPP, errno.ENOTTY, errno.ETXTBSY,
            errno.EBUSY, errno.E2BIG, errno.ERANGE)


class Nothing(Exception):
    """There is no object for this operation."""


class Entry:
    """A name in a folder."""

    def __init__(self, number, name, parent, kind):
        self.hash = zlib.crc32(number.encode())
        self.name, self.parent, self.kind = name, parent, kind

    def path(self):
        return self.parent.path() + '/' + self.name if self.parent else self.name

    def within(self, folder):
        entry = self
        while entry and entry is not folder:
            entry = entry.parent
        return entry is folder


class History:
    """What is there, and the operations that change it."""

    def __init__(self, root, seed, pauses):
        self.seed, self.pauses = seed, pauses
        self.root = Entry('root', root, None, FOLDER)
        self.entries = []
        # open files that have no name
        self.orphans = []
        self.random, self.prefix, self.made, self.told = None, '', 0, []

    def branch(self, root):
        """The history of a writable snapshot of this one."""
        orphans, self.orphans = self.orphans, []
        other = copy.deepcopy(self)
        self.orphans = orphans
        other.root.name = root
        return other

    def close(self):
        for orphan in self.orphans:
            os.close(orphan)
        self.orphans = []

    def operate(self, number, shares):
        """Does an operation, of those with shares, and returns what it has done, as text."""
        self.random = random.Random('%d %d' % (self.seed, number))
        self.prefix, self.made, self.told = '%x' % number, 0, []
        kind = self.random.choices([name for name, _ in SHARES[shares]],
                                   [share for _, share in SHARES[shares]])[0]
        pause = self.random.choice([0.001, 0.02, 0.3])
        if self.pauses:
            # In virtual time nothing else makes time pass.
            time.sleep(pause)
        try:
            getattr(self, kind)()
        except Nothing:
            self.told.append('nothing to do it with')
        except OSError as error:
            if error.errno not in EXPECTED:
                raise
            self.told.append(errno.errorcode[error.errno])
        return '%s: %s' % (kind, ', '.join(self.told))

    # Objects

    def tell(self, *words):
        self.told.append(' '.join(str(word) for word in words))

    def pick(self, *kinds, root=False, where=lambda entry: True):
        """An object of one of the kinds: the one whose hash is next to a number."""
        target = self.random.getrandbits(32)
        found = [entry for entry in self.entries + [self.root] * root
                 if (entry.kind in kinds or entry is self.root) and where(entry)]
        if not found:
            raise Nothing
        entry = min(found, key=lambda entry: entry.hash ^ target)
        self.tell(self.short(entry))
        return entry

    def short(self, entry):
        return entry.path()[len(self.root.name) + 1:] or '.'

    def new(self, kind, parent=None, length=0):
        """A name that is not in use; it is there after add()."""
        self.made += 1
        number = '%s.%x' % (self.prefix, self.made)
        length = length or self.random.choice([1, 5, 10, 20, 40, 60, 60, 200])
        if not parent:
            parent = self.pick(FOLDER, root=True)
        entry = Entry(number, '%s_%s' % (number, 'n' * length), parent, kind)
        self.tell(self.short(entry))
        return entry

    def add(self, entry):
        self.entries.append(entry)
        return entry

    def remove(self, gone):
        self.entries = [entry for entry in self.entries if not entry.within(gone)]

    def data(self, length):
        """Half of all data can be compressed."""
        if self.random.random() < 0.5:
            return bytes([self.random.randrange(1, 256)]) * length
        return self.random.randbytes(length)

    def block(self):
        """The number of a block within a file: few files are large."""
        return self.random.randint(0, self.random.choice([5, 40, 40, 40, 400]))

    def opened(self, entry=None, flags=os.O_RDWR):
        """A file of this name opened, if it is a file still."""
        path = (entry or self.pick(FILE)).path()
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise Nothing
        return open(os.open(path, flags), 'r+b', buffering=0)

    def make_file(self, entry, data):
        with open(entry.path(), 'xb') as file:
            file.write(data)
        self.tell(len(data), 'bytes')
        return self.add(entry)

    def size(self):
        return self.random.choice([0, 10, 500, 1900, 2100, 3900, 5000, 20000, 70000])

    # Content

    def create(self):
        self.make_file(self.new(FILE), self.data(self.size()))

    def create_many(self):
        folder = self.add(self.make_folder())
        for _ in range(self.random.choice([5, 20, 50])):
            size = self.random.choice([0, 50, 900, 1900])
            self.make_file(self.new(FILE, folder), self.data(size))

    def create_large(self):
        self.make_file(self.new(FILE), self.data(self.random.choice([200000, 600000, 1500000])))

    def write_blocks(self):
        with self.opened() as file:
            for _ in range(self.random.choice([1, 1, 3, 20, 60])):
                block = self.block()
                self.tell(block)
                os.pwrite(file.fileno(), self.data(BLOCK), BLOCK * block)

    def write_inside(self):
        with self.opened() as file:
            length, offset = self.random.randint(1, 9000), self.random.randint(0, 30000)
            self.tell(offset, length)
            os.pwrite(file.fileno(), self.data(length), offset)

    def append(self):
        with self.opened() as file:
            file.seek(0, os.SEEK_END)
            file.write(self.data(self.random.choice([1, 100, 5000, 40000])))

    def punch(self):
        with self.opened() as file:
            for _ in range(self.random.randint(1, 5)):
                block, blocks = self.block(), self.random.randint(1, 60)
                self.tell(block, blocks)
                btrfs.fallocate(file.fileno(), btrfs.FALLOC_KEEP_SIZE | btrfs.FALLOC_PUNCH_HOLE,
                                BLOCK * block, BLOCK * blocks)

    def zero_range(self):
        with self.opened() as file:
            offset, length = self.random.randint(0, 100000), self.random.randint(1, 50000)
            self.tell(offset, length)
            btrfs.fallocate(file.fileno(), btrfs.FALLOC_ZERO_RANGE, offset, length)

    def preallocate(self):
        with self.opened() as file:
            block, blocks = self.block(), self.random.randint(1, 60)
            self.tell(block, blocks)
            btrfs.fallocate(file.fileno(), self.random.choice([0, btrfs.FALLOC_KEEP_SIZE]),
                            BLOCK * block, BLOCK * blocks)

    def truncate(self):
        size = self.random.choice([0, 1, 100, 4096, self.random.randint(0, 200000), 1700000])
        entry = self.pick(FILE)
        self.tell(size)
        # Not by its name: Linux 6.1 then also cuts a file with fs-verity, which nobody can
        # open after that.
        with self.opened(entry) as file:
            os.ftruncate(file.fileno(), size)

    def reflink(self):
        with self.opened() as source, self.opened() as target:
            blocks = os.fstat(source.fileno()).st_size // BLOCK
            first = self.random.randrange(blocks) if blocks else 0
            # 0: to the end of the file, which may be within a block
            length = self.random.randint(0 if first else 1, blocks - first) if blocks else 0
            to = self.block()
            self.tell(first, length, to)
            fcntl.ioctl(target.fileno(), btrfs.FICLONERANGE,
                        struct.pack('qQQQ', source.fileno(), first * BLOCK, length * BLOCK,
                                    BLOCK * to))

    def reflink_file(self):
        with self.opened() as source:
            entry = self.make_file(self.new(FILE), b'')
            with self.opened(entry) as target:
                fcntl.ioctl(target.fileno(), btrfs.FICLONE, source.fileno())

    def dedupe(self):
        """The same data in two files, and then one extent for both."""
        length = BLOCK * self.random.choice([1, 4, 32])
        data = self.data(length)
        with self.opened() as source, self.opened() as target:
            first, second = BLOCK * self.block(), BLOCK * self.block()
            self.tell(first, second, length)
            os.pwrite(source.fileno(), data, first)
            os.pwrite(target.fileno(), data, second)
            fcntl.ioctl(source.fileno(), btrfs.FIDEDUPERANGE, bytearray(
                struct.pack('QQHHIqQQiI', first, length, 1, 0, 0,
                            target.fileno(), second, 0, 0, 0)))

    def defragment(self):
        with self.opened() as file:
            fcntl.ioctl(file.fileno(), btrfs.BTRFS_IOC_DEFRAG, bytearray(4096))

    def recreate(self):
        """The name of a file, with another inode."""
        entry = self.pick(FILE, OTHER)
        os.unlink(entry.path())
        self.remove(entry)
        self.make_file(Entry(self.prefix, entry.name, entry.parent, FILE), self.data(self.size()))

    def replace_by_folder(self):
        entry = self.pick(FILE, OTHER)
        os.unlink(entry.path())
        self.remove(entry)
        folder = Entry(self.prefix, entry.name, entry.parent, FOLDER)
        os.mkdir(folder.path())
        self.add(folder)

    # Names

    def make_folder(self):
        entry = self.new(FOLDER)
        os.mkdir(entry.path())
        return entry

    def create_folder(self):
        self.add(self.make_folder())

    def create_folders(self):
        parent = None
        for _ in range(self.random.randint(2, 8)):
            entry = self.new(FOLDER, parent, length=self.random.randint(1, 20))
            os.mkdir(entry.path())
            parent = self.add(entry)

    def symlink(self):
        entry = self.new(OTHER)
        target = '%x' % self.random.getrandbits(8) * self.random.choice([1, 20, 400])
        os.symlink(target, entry.path())
        self.add(entry)

    def special(self):
        entry, kind = self.new(OTHER), self.random.choice(['fifo', 'character', 'block', 'socket'])
        self.tell(kind)
        device = os.makedev(self.random.randint(0, 300), self.random.randint(0, 300))
        if kind == 'fifo':
            os.mkfifo(entry.path())
        elif kind == 'character':
            os.mknod(entry.path(), stat.S_IFCHR | 0o600, device)
        elif kind == 'block':
            os.mknod(entry.path(), stat.S_IFBLK | 0o640, device)
        else:
            os.mknod(entry.path(), stat.S_IFSOCK | 0o755)
        self.add(entry)

    def unlink(self):
        entry = self.pick(FILE, OTHER)
        os.unlink(entry.path())
        self.remove(entry)

    def remove_folder(self):
        entry = self.pick(FOLDER)
        shutil.rmtree(entry.path())
        self.remove(entry)

    def rename(self):
        entry, target = self.pick(FILE, OTHER), self.new(FILE)
        os.rename(entry.path(), target.path())
        entry.name, entry.parent = target.name, target.parent

    def rename_over(self):
        """The name of one that is there, whose inode is gone or linked elsewhere."""
        entry, target = self.pick(FILE, OTHER), self.pick(FILE, OTHER)
        os.rename(entry.path(), target.path())
        # Two names of one inode: nothing was done.
        if not os.path.lexists(entry.path()) and entry is not target:
            self.remove(target)
            entry.name, entry.parent = target.name, target.parent

    def swap(self, one, other):
        btrfs.exchange(one.path(), other.path())
        one.name, other.name = other.name, one.name
        one.parent, other.parent = other.parent, one.parent

    def exchange(self):
        self.swap(self.pick(FILE, OTHER), self.pick(FILE, OTHER))

    def exchange_folders(self):
        one = self.pick(FOLDER)
        self.swap(one, self.pick(FOLDER, where=lambda entry: not entry.within(one) and
                                 not one.within(entry)))

    def move_folder(self):
        entry = self.pick(FOLDER)
        target = self.new(FOLDER, self.pick(FOLDER, root=True,
                                            where=lambda parent: not parent.within(entry)))
        os.rename(entry.path(), target.path())
        entry.name, entry.parent = target.name, target.parent

    def turn_over(self):
        """A folder becomes the parent of its parent."""
        inner = self.pick(FOLDER, where=lambda entry: entry.parent is not self.root)
        outer = inner.parent
        target = self.new(FOLDER, outer.parent)
        os.rename(inner.path(), target.path())
        inner.name, inner.parent = target.name, target.parent
        os.rename(outer.path(), inner.path() + '/' + outer.name)
        outer.parent = inner

    def link(self):
        entry = self.pick(FILE, OTHER)
        target = self.new(entry.kind)
        os.link(entry.path(), target.path(), follow_symlinks=False)
        self.add(target)

    def link_many(self):
        """More than fit into one item of references, in one folder or two."""
        entry = self.pick(FILE)
        folders = [self.pick(FOLDER, root=True), self.pick(FOLDER, root=True)]
        for number in range(self.random.choice([20, 120, 250])):
            target = self.new(FILE, folders[number % 2], length=5)
            os.link(entry.path(), target.path())
            self.add(target)

    def unlink_many(self):
        folder = self.pick(FOLDER, root=True)
        for entry in [entry for entry in self.entries if entry.parent is folder]:
            if entry.kind != FOLDER and self.random.random() < 0.5:
                os.unlink(entry.path())
                self.remove(entry)

    # Orphans

    def orphan(self):
        """Open, but without a name."""
        entry = self.pick(FILE)
        descriptor = os.open(entry.path(), os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
        self.orphans.append(descriptor)
        os.unlink(entry.path())
        self.remove(entry)
        os.pwrite(descriptor, self.data(3000), 0)

    def temporary(self):
        """Never had a name."""
        descriptor = os.open(self.pick(FOLDER, root=True).path(), os.O_TMPFILE | os.O_RDWR)
        self.orphans.append(descriptor)
        os.write(descriptor, self.data(self.size()))

    def name_orphan(self):
        if not self.orphans:
            raise Nothing
        descriptor = self.orphans.pop()
        try:
            entry = self.new(FILE)
            btrfs.link_open(descriptor, entry.path())
            self.add(entry)
        finally:
            os.close(descriptor)

    def drop_orphan(self):
        if not self.orphans:
            raise Nothing
        os.close(self.orphans.pop(0))

    # Attributes

    def set_attribute(self):
        entry = self.pick(FILE, FOLDER, root=True)
        name = self.random.choice(['user', 'user', 'trusted']) + '.x%d' % self.random.randint(0, 9)
        value = self.data(self.random.choice([0, 1, 100, 1500, 3000]))
        self.tell(name, len(value))
        os.setxattr(entry.path(), name, value, follow_symlinks=False)

    def set_attributes(self):
        entry = self.pick(FILE, FOLDER)
        for number in range(self.random.choice([10, 40])):
            os.setxattr(entry.path(), 'user.many%d' % number,
                        self.data(self.random.randint(0, 900)), follow_symlinks=False)

    def remove_attributes(self):
        path = self.pick(FILE, FOLDER).path()
        for name in sorted(os.listxattr(path, follow_symlinks=False)):
            if self.random.random() < 0.5 and not name.startswith('system.'):
                os.removexattr(path, name, follow_symlinks=False)

    def set_acl(self):
        entry = self.pick(FILE, FOLDER)
        undefined = 0xffffffff
        acl = struct.pack('I', 2)
        for tag, mode, who in ((1, 6, undefined), (2, self.random.randint(0, 7), 1000),
                               (2, self.random.randint(0, 7), 1001), (4, 5, undefined),
                               (8, self.random.randint(0, 7), 100), (16, 7, undefined),
                               (32, self.random.randint(0, 7), undefined)):
            acl += struct.pack('HHI', tag, mode, who)
        kind = 'default' if entry.kind == FOLDER and self.random.random() < 0.5 else 'access'
        self.tell(kind)
        os.setxattr(entry.path(), 'system.posix_acl_' + kind, acl)

    def set_capability(self):
        entry = self.pick(FILE)
        os.setxattr(entry.path(), 'security.capability',
                    struct.pack('IIIII', 0x02000001, self.random.getrandbits(20), 0, 0, 0),
                    follow_symlinks=False)

    def change_mode(self):
        entry = self.pick(FILE, FOLDER)
        if not os.path.islink(entry.path()):
            os.chmod(entry.path(), self.random.choice([0o600, 0o644, 0o4755, 0o2755, 0o1777]))

    def change_owner(self):
        """Also takes a capability away."""
        os.lchown(self.pick(FILE, FOLDER, OTHER).path(), self.random.randint(0, 3),
                  self.random.randint(0, 3))

    def change_times(self):
        times = (self.random.getrandbits(60), self.random.getrandbits(60))
        os.utime(self.pick(FILE, FOLDER, OTHER).path(), ns=times, follow_symlinks=False)

    def set_compression(self):
        entry = self.pick(FILE, FOLDER)
        value = self.random.choice(['zlib', 'lzo', 'zstd', 'none'])
        self.tell(value)
        os.setxattr(entry.path(), 'btrfs.compression', value.encode(), follow_symlinks=False)

    def create_compressed(self):
        entry = self.make_file(self.new(FILE), b'')
        os.setxattr(entry.path(), 'btrfs.compression',
                    self.random.choice([b'zlib', b'lzo', b'zstd']))
        with self.opened(entry) as file:
            for _ in range(self.random.randint(1, 4)):
                os.pwrite(file.fileno(), b'%d' % self.random.getrandbits(30) *
                          self.random.choice([100, 5000, 30000]), BLOCK * self.block())

    def create_nocow(self):
        entry = self.make_file(self.new(FILE), b'')
        with self.opened(entry) as file:
            fcntl.ioctl(file.fileno(), btrfs.FS_IOC_SETFLAGS, struct.pack('Q', btrfs.FS_NOCOW_FL))
            file.write(self.data(self.random.choice([5000, 100000])))
        with self.opened(entry) as file:
            os.pwrite(file.fileno(), self.data(BLOCK), BLOCK)

    def enable_verity(self):
        entry = self.pick(FILE)
        # version, SHA-256, size of a block; no salt, no signature
        with btrfs.Opened(entry.path()) as file:
            fcntl.ioctl(file, btrfs.FS_IOC_ENABLE_VERITY, struct.pack('III116x', 1, 1, BLOCK))

    def synchronize(self):
        with btrfs.Opened(self.root.path()) as root:
            btrfs.call(btrfs.libc.syncfs(root))

    # Not in a common history

    def create_striped(self):
        """Every other block: without explicit hole items, the extent behind a hole is all
        that tells of it."""
        for _ in range(10):
            entry = self.make_file(self.new(FILE, self.root, length=5), b'')
            with self.opened(entry) as file:
                for block in range(200):
                    os.pwrite(file.fileno(), b'x' * BLOCK, 2 * BLOCK * block)

    def punch_striped(self):
        with self.opened() as file:
            for _ in range(4):
                block, blocks = 2 * self.random.randrange(200), self.random.choice([1, 1, 1, 3, 9])
                self.tell(block, blocks)
                btrfs.fallocate(file.fileno(), btrfs.FALLOC_KEEP_SIZE | btrfs.FALLOC_PUNCH_HOLE,
                                BLOCK * block, BLOCK * blocks)

    def spread(self):
        """Some sixty leaves of 4 KiB."""
        folder = self.add(self.make_folder())
        for _ in range(30):
            entry = self.make_file(self.new(FILE, folder), self.data(self.random.choice([0, 900])))
            for number in range(self.random.randint(0, 6)):
                os.setxattr(entry.path(), 'user.%d' % number, bytes([65 + number]) * 1500)

    def swell(self):
        """An attribute fills a leaf of 4 KiB."""
        for _ in range(12):
            entry = self.make_file(self.new(FILE, length=5), b'')
            for number in range(100):
                os.setxattr(entry.path(), 'user.%d' % number, bytes([65 + number % 20]) * 3000)


# About how many operations of a hundred are of each kind.
COMMON = (
    ('create', 14), ('create_many', 1.5), ('create_large', 1), ('write_blocks', 8),
    ('write_inside', 5), ('append', 3), ('punch', 5), ('zero_range', 1), ('preallocate', 3),
    ('truncate', 3), ('reflink', 5), ('reflink_file', 2), ('dedupe', 2), ('defragment', 0.7),
    ('recreate', 2), ('replace_by_folder', 0.5),
    ('create_folder', 4), ('create_folders', 2.5), ('symlink', 2), ('special', 1.5),
    ('unlink', 4), ('remove_folder', 0.5), ('rename', 4), ('rename_over', 1.5), ('exchange', 1.5),
    ('exchange_folders', 2.5), ('move_folder', 2), ('turn_over', 2), ('link', 3),
    ('link_many', 0.4), ('unlink_many', 0.4),
    ('orphan', 1.5), ('temporary', 2), ('name_orphan', 1), ('drop_orphan', 0.5),
    ('set_attribute', 3), ('set_attributes', 0.5), ('remove_attributes', 1), ('set_acl', 1.2),
    ('set_capability', 1), ('change_mode', 1), ('change_owner', 1.5), ('change_times', 0.7),
    ('set_compression', 1), ('create_compressed', 1.2), ('create_nocow', 1), ('enable_verity', 1),
    ('synchronize', 1.5),
)
SHARES = {
    'common': COMMON,
    # Which of several places an extent is cloned from hangs, with stock as well, on
    # how its references are written down, which a relocation changes.
    'unshared': tuple((name, share) for name, share in COMMON
                      if name not in ('reflink', 'reflink_file', 'dedupe')),
    'striped': (('create_striped', 1),),
    'holes': (('punch_striped', 1),),
    'tall': (('swell', 1),),
    'wide': (('spread', 1),),
}
