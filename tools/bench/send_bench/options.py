# SPDX-License-Identifier: GPL-2.0
"""The command line of the bench: what there is, its defaults, and what goes together."""

import re
import sys
import types

USAGE = """\
Usage: send-bench.sh [OPTION]...

Build a tree of files on a btrfs, take two snapshots and time the full and the
incremental send with a cold cache. Without --device this happens in a virtual
machine on a simulated disk and in virtual time.

What is measured:
  --device DEV          a block device; needs root, and what is on it is lost
  --erase               destroy a partition table or a file system on it
  --profile NAME        simulated disk: one of drivers/block/rotdisk/profiles, or a
                        file (with a slash); default desktop-7200
  --kind uml|qemu|host  kind of virtual machine, see vm/run --help (default uml);
                        host: none, but a simulated disk in real time under this
                        machine's own kernel; needs root
  --clock disk|all      what takes time: the disk (default; the processor costs
                        nothing), or the processor as well: QEMU counts the
                        instructions of the timed sends, whose checksum comes
                        from one more send. Not with --device, --kind, --beside,
                        --buffer, --rate and --latency
  --processor desktop|nas|NS  ns an instruction with --clock all (default
                        desktop: 0.25; nas: 1)
  --kernel KERNEL       kernel of the virtual machine (default: first of SUPPORTED)
  --tree-kernel KERNEL  kernel that writes the tree (default: that of --kernel)
  --variants LIST       comma separated (default off,stock,patched). stock: the
                        untouched kernel; searches: with patches/KERNEL/fixes and
                        searches only; patched: with readahead as well; off,
                        generation: the same, with that btrfs.send_readahead;
                        program: build/sendahead instead of btrfs, at both ends, on
                        the untouched kernel; program-send, program-receive: at
                        one end only
  --memory SIZE         memory of the virtual machine without what its disk holds
                        (default 8G; the tree is built with 2G at least)
  --timeout SECONDS     give a virtual machine up after so many real seconds
                        (default 3600)

The tree:
  --workload NAME       published, one of tools/bench/workloads (aged, compressed,
                        deduplicated, directories, hardlinks, nightly,
                        rewritten, sequential, snapshots), or a file of
                        KEY=value lines (with a slash), such as
                        --print-workload prints
  --print-workload      print the workload with the options below taken in
  --print-job           print what tools/bench/guest is told of all options
  --files N             number of files (default: the workload's)
  --jobs N              jobs writing them at once
  --inline-size BYTES   size of each file
  --update-every N      overwrite a part of every Nth file between the snapshots
  --grow N              files added between the snapshots (default: files / 4)
  --nodesize BYTES      size of a tree block
  --seed N              seed of everything random (default 1)
  --pace MIN-MAX        pause after each file and job, in milliseconds (0: none)
  --faithful            as published to the letter: one xfs_io process a file, the
                        stream to /dev/null (its checksum from one more send)

The send:
  --samples N           repeat each cold send N times (default 1)
  --cached              not cold: in memory is what such a send has read, and what the
                        receiving disk's kernel still has; with --clock all or
                        --kind host, not with --receive-rounds
  --to null|file|receive|remote  where the stream goes; receive: into btrfs
                        receive on a second disk, which is synced within the time
                        that is told, and the result is compared with the source;
                        remote: the same with --rate 12M and --latency 20
  --receive-device DEV  that second disk when --device is given
  --receive-profile NAME  that second disk without --device (default: as --profile)
  --receive-rounds N    let that disk live through N increments before the first
                        snapshot, each but the last deleted again (workloads that
                        have rounds, which are N at least; not with --device)
  --buffer SIZE         mbuffer of this size before btrfs receive; the program's
                        own buffer of this size, of 1G at most, where that
                        receives
  --rate SIZE           bytes a second between the two, by pv: a slow network
  --latency MS          time from the one to the other, with 6 MiB under way at most
  --no-data             btrfs send --no-data
  --compressed-data     btrfs send --compressed-data, by protocol 2
  --beside reader|writer  time somebody else during each send: random reads of
                        4 KiB all over the disk with pauses of 50 ms, or files
                        that are made and renamed in the file system that is sent
                        from, with pauses of 20 ms

Results:
  --output DIR          directory of this run (default results/<time>...)
  --format table|json|tsv  what to print (default table)
  --no-trace            do not keep the trace of the disk's commands, and not which
                        trees its blocks belong to
  --no-fio              do not have fio measure the bare disk
  --count-instructions  count also what the processor executes for each send when
                        the disk is not needed, for bench-report --by-class: in
                        QEMU and by a kernel of its own (minutes, and twice four
                        more the first time; not with --device or --kind host)
  --dry-run             print every command, run none
  --help                this text

Exit status:
  0 ok, 1 failed or void (streams differ), 2 usage, a device in use or a disk full
  (either one, or that of the results), 77 cannot run here, 128 a virtual machine
  was lost.
"""

# Options with a value, and their defaults.
VALUES = {
    "device": "", "profile": "desktop-7200", "kind": "uml", "clock": "disk", "processor": "",
    "kernel": "", "tree-kernel": "", "variants": "", "memory": "8G", "workload": "published",
    "to": "null", "receive-device": "", "receive-profile": "", "buffer": "", "rate": "",
    "beside": "", "output": "", "format": "table"}
# Those that are numbers: the default, the least and the most.
NUMBERS = {
    "timeout": (3600, 0, 10 ** 9), "seed": (1, 0, 10 ** 12), "samples": (1, 1, 1000),
    "receive-rounds": (0, 1, 1000), "latency": (0, 1, 10000)}
# What goes with --to receive only.
RECEIVE = ("receive-profile", "receive-rounds", "buffer", "rate", "latency")
# A network of 100 Mbit/s: --to remote.
REMOTE = {"rate": "12M", "latency": 20}
FLAGS = ("erase", "cached", "print-workload", "print-job", "faithful", "no-data", "compressed-data",
         "no-trace", "no-fio", "count-instructions", "dry-run")
# Options that change a number of the workload, which has its default.
OVERRIDES = ("files", "jobs", "inline-size", "update-every", "grow", "nodesize", "pace")
# What the numbers of a workload may be, whether an option or a file gives them.
RANGES = {
    "FILES": (1, 10 ** 8), "JOBS": (1, 256), "INLINE_SIZE": (1, 1 << 20), "GROW": (0, 10 ** 8),
    "UPDATE_EVERY": (1, 10 ** 8), "UPDATE_BYTES": (1, 1 << 20), "MAX_INLINE": (0, 65536),
    "NODESIZE": (4096, 65536), "DIRECTORIES": (1, 10 ** 8), "SIZE_MIN": (1, 10 ** 12),
    "SIZE_MAX": (0, 10 ** 12), "SIZE_SKEW": (1, 1000), "ROUNDS": (1, 1000), "REWRITE": (0, 100),
    "DELETE": (0, 100), "RENAME": (0, 100), "ADD": (0, 100), "SNAPSHOTS": (0, 1000),
    "FILE_SIZE": (1, 10 ** 12), "BLOCK_SIZE": (1, 10 ** 9), "WRITES": (0, 10 ** 8),
    "UPDATES": (0, 10 ** 8), "SYNC_EVERY": (1, 10 ** 8), "EXTENTS": (1, 10 ** 6),
    "SHARERS": (1, 10 ** 8), "PUBLISHED_FILES": (0, 10 ** 8),
    "PUBLISHED_SNAP1_LINES": (0, 10 ** 10), "PUBLISHED_SNAP2_LINES": (0, 10 ** 10)}
DECIMALS = ("SIZE_SKEW", "REWRITE", "DELETE", "RENAME", "ADD")
VARIANTS = ("off", "stock", "searches", "patched", "generation", "program",
            "program-send", "program-receive")
# ns an instruction of the processors that --clock all knows.
PROCESSORS = {"desktop": "0.25", "nas": "1", "": "0.25"}
# What a value must look like, and how that is said.
SIZE = (r"[1-9][0-9]{0,5}[KMG]", "a size such as 512M or 8G")
FORMS = (("to", "null|file|receive|remote", "null, file, receive or remote"),
         ("beside", "reader|writer|", "reader or writer"),
         ("kind", "uml|qemu|host", "uml, qemu or host"), ("clock", "disk|all", "disk or all"),
         ("memory", *SIZE), ("buffer", SIZE[0] + "|", SIZE[1]), ("rate", SIZE[0] + "|", SIZE[1]),
         ("format", "table|json|tsv", "table, json or tsv"))


class Failure(Exception):
    """What ends a run: a line for the user and an exit status."""

    def __init__(self, message, status=1):
        super().__init__(message)
        self.status = status

    def __str__(self):
        """One line, however long and whatever is in a value that it repeats."""
        line = re.sub(r"[\x00-\x1f\x7f-\x9f]", "?", self.args[0])
        return line if len(line) <= 500 else line[:500] + " ..."


def wrong(message):
    """The command line cannot be meant."""
    raise Failure(message, 2)


def check_number(what, value, least, most, decimal=False):
    """Is it one, from least to most?"""
    match = re.fullmatch(r"(0|[1-9][0-9]{0,12})([.][0-9]{1,6})?" if decimal else
                         r"(0|[1-9][0-9]{0,12})", value)
    if not match or float(value) > most or int(match[1]) < least:
        wrong(f"{what} takes a number from {least} to {most}, not '{value}'")


def check_key(what, value, key):
    """The same for a number of the workload."""
    check_number(what, value, *RANGES[key], key in DECIMALS)


def parse(arguments):
    """The options by their names, with _ for -; override has numbers of the workload."""
    numbers = {name: value[0] for name, value in NUMBERS.items()}
    found = {**VALUES, **numbers, **dict.fromkeys(FLAGS, False)}
    given, override = [], {}
    words = iter(arguments)
    for word in words:
        name = word[2:] if word.startswith("--") else ""
        given.append(word)
        if name == "help":
            sys.stdout.write(USAGE)
            sys.exit(0)
        if name in FLAGS:
            found[name] = True
            continue
        if name not in found and name not in OVERRIDES:
            wrong(f"unknown argument '{word}', see send-bench.sh --help")
        value = next(words, "")
        if not value:
            wrong(f"{word} needs a value, see send-bench.sh --help")
        if name in NUMBERS:
            check_number(word, value, *NUMBERS[name][1:])
            found[name] = int(value)
        elif name in OVERRIDES:
            key = name.upper().replace("-", "_")
            if key in RANGES:
                check_key(word, value, key)
            override[key] = value
        else:
            found[name] = value
    options = types.SimpleNamespace(**{name.replace("-", "_"): value
                                       for name, value in found.items()})
    options.override = override
    # Does this machine's own kernel send, in real time?
    options.own_kernel = options.kind == "host" or bool(options.device)
    check(options, given)
    return options


def check(options, given):
    """What goes together."""
    for name, form, what in FORMS:
        value = getattr(options, name)
        if not re.fullmatch(form, value):
            wrong(f"--{name} takes {what}, not '{value}'")
    if options.to == "remote":
        options.to = "receive"
        for name, value in REMOTE.items():
            setattr(options, name, getattr(options, name) or value)
    if options.kind == "host":
        for word in given:
            if re.fullmatch("--(device|(tree-)?kernel|memory|timeout|count-.*)", word):
                wrong(f"{word} does not go with --kind host")
    options.instruction_ns = None
    if options.clock == "all":
        ns = PROCESSORS.get(options.processor, options.processor)
        if not re.fullmatch(r"0[.][1-9][0-9]{0,2}|[1-9]([.][0-9]{1,3})?", ns):
            wrong(f"--processor takes desktop, nas or 0.1 to 9.999 ns, not '{options.processor}'")
        if (options.device or options.kind != "uml" or options.beside or options.buffer or
                options.rate or options.latency):
            wrong("--clock all goes without --device, --kind, --beside, --buffer, --rate, "
                  "--latency")
        options.instruction_ns = float(ns) if "." in ns else int(ns)
    elif options.processor:
        wrong("--processor goes with --clock all")
    elif options.cached and not options.own_kernel:
        wrong("--cached leaves nothing that takes time: it goes with --clock all")
    if options.cached and (options.device or options.receive_rounds):
        wrong("--cached goes without --device and --receive-rounds")
    if options.buffer.endswith("K") and int(options.buffer[:-1]) < 1024:
        wrong(f"--buffer takes 1M at least, not '{options.buffer}'")
    for name in RECEIVE:
        if options.to != "receive" and getattr(options, name.replace("-", "_")):
            wrong(f"--{name} goes with --to receive")
    for name in ("receive-rounds", "receive-profile"):
        if options.device and getattr(options, name.replace("-", "_")):
            wrong(f"--{name} does not go with --device")
    if options.device and options.to == "receive" and not options.receive_device:
        wrong("--to receive on a device needs a second disk: --receive-device")
    if options.receive_device and not options.device:
        wrong("--receive-device goes with --device")
    if options.count_instructions and options.device:
        wrong("--count-instructions does not go with --device")
