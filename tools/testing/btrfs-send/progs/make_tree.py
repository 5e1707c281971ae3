#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# Makes the files of a subvolume, or changes those that it made there: new inodes of each kind
# in directories that pass something on to them and in some that do not, taken names, moves.
import os
import shutil
import socket
import stat
import struct
import sys

top, change = sys.argv[1], sys.argv[2] == "change"
os.chdir(top)
os.umask(0o022)


def write(name, data=b"data"):
    with open(name, "wb") as file:
        file.write(data)


def kinds(folder):
    write(folder + "/file")
    write(folder + "/large", bytes(range(256)) * 600)
    write(folder + "/none", b"")
    os.mkdir(folder + "/folder")
    write(folder + "/folder/file")
    os.mkfifo(folder + "/fifo", 0o640)
    os.mknod(folder + "/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(folder + "/loop", stat.S_IFBLK | 0o660, os.makedev(7, 250))
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(folder + "/socket")
    os.symlink("../nowhere", folder + "/symlink")
    os.link(folder + "/file", folder + "/hardlink")
    os.setxattr(folder + "/file", "user.name", b"value")
    os.chown(folder + "/none", 5, 6)
    os.chmod(folder + "/large", 0o4751)


def fill(name, setup):
    """Files that were made before the folder passed something on, and after."""
    os.mkdir(name)
    kinds(name)
    setup(name)
    os.mkdir(name + "/after")
    kinds(name + "/after")
    shutil.copytree("plain", name + "/copied", symlinks=True,
                    ignore=lambda _, names: {"socket", "null", "loop", "fifo", "folder", "after", "symlink"} & set(names))


def default_acl(name):
    none = 0xffffffff
    entries = (1, 7, none), (2, 7, 7), (4, 5, none), (8, 5, 8), (16, 7, none), (32, 0, none)
    os.setxattr(name, "system.posix_acl_default",
                struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries))


def compression(name):
    os.setxattr(name, "btrfs.compression", b"zlib")


def setgid(name):
    os.chown(name, 0, 9)
    os.chmod(name, 0o2775)


if not change:
    os.mkdir("plain")
    kinds("plain")
    fill("acl", default_acl)
    fill("compressed", compression)
    fill("setgid", setgid)
    kinds(".")
    write("o300-8-0", b"looks like a name of send")
    for number in range(30):
        os.makedirs(f"deep/{number % 3}/{number % 5}", exist_ok=True)
        write(f"deep/{number % 3}/{number % 5}/{number}", b"%d" % number * 100)
else:
    for name in "acl", "compressed", "setgid", "plain", "deep/0":
        os.mkdir(name + "/new")
        kinds(name + "/new")
        write(name + "/brandnew")
    # What has another's name, also that of one which is gone.
    for name in "plain", "acl":
        os.unlink(name + "/file")
        write(name + "/file", b"another")
        os.unlink(name + "/symlink")
        os.mkdir(name + "/symlink")
        shutil.rmtree(name + "/folder")
        os.symlink("file", name + "/folder")
        os.rename(name + "/large", name + "/fifo")
        os.rename(name + "/null", name + "/exchanged")
        os.rename(name + "/loop", name + "/null")
        os.rename(name + "/exchanged", name + "/loop")
    # Folders that change places, with new files in both.
    os.rename("deep/1", "deep/x")
    os.rename("setgid", "deep/1")
    os.rename("deep/x", "setgid")
    write("deep/1/in-setgid")
    write("setgid/in-deep")
    os.mkdir("over")
    os.rename("compressed", "over/compressed")
    write("over/compressed/late")
    os.removexattr("acl", "system.posix_acl_default")
    write("acl/without")

for folder, folders, files in os.walk(".", topdown=False):
    for name in folders + files:
        os.utime(os.path.join(folder, name), (1e8, 2e8), follow_symlinks=False)
os.utime(".", (1e8, 2e8))
