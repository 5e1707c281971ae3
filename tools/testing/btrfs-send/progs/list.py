#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# Prints what a folder of received subvolumes holds, a line for each file.
import fcntl
import hashlib
import os
import stat
import struct
import sys

SUBVOL_GETFLAGS, SUBVOL_RDONLY = 0x80089419, 2
top = sys.argv[1]
first_name = {}


def flags(path):
    descriptor = os.open(path, os.O_RDONLY)
    value = struct.unpack("<Q", fcntl.ioctl(descriptor, SUBVOL_GETFLAGS, bytes(8)))[0]
    os.close(descriptor)
    return value


def show(path):
    info = os.lstat(path)
    words = [os.path.relpath(path, top), oct(info.st_mode), info.st_uid, info.st_gid, info.st_nlink]
    # Of what is not received yet the time is that of the receive.
    if info.st_ino != 256 and info.st_mtime < 1e9:
        words.append(info.st_mtime_ns)
    if stat.S_ISREG(info.st_mode):
        with open(path, "rb") as file:
            words += [info.st_size, hashlib.sha256(file.read()).hexdigest()[:16]]
        words.append(first_name.setdefault((info.st_dev, info.st_ino), path[len(top):]))
    elif stat.S_ISLNK(info.st_mode):
        words.append(os.readlink(path))
    elif stat.S_ISDIR(info.st_mode):
        if info.st_ino == 256 and path != top:
            words.append("ro" if flags(path) & SUBVOL_RDONLY else "rw")
    else:
        words.append(info.st_rdev)
    for name in sorted(os.listxattr(path, follow_symlinks=False)):
        words += [name, os.getxattr(path, name, follow_symlinks=False).hex()]
    print(*words)


for folder, folders, files in os.walk(top):
    folders.sort()
    for name in sorted(folders + files):
        show(os.path.join(folder, name))
