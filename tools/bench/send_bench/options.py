# SPDX-License-Identifier: GPL-2.0
"""The command line of the bench: what there is, its defaults, and what goes together."""

import argparse
import re

VARIANTS = ("off", "generation", "stock", "searches", "patched", "program", "together",
            "program-send", "program-receive")
# ns an instruction of the processors that --clock all knows
PROCESSORS = {"desktop": "0.25", "nas": "1", None: "0.25"}
# What goes with --to receive only.
RECEIVE = ("receive_profile", "receive_rounds", "buffer", "rate", "latency")
# What the numbers of a workload may be, whether an option or a file gives them.
RANGES = {
    "FILES": (1, 10 ** 8), "JOBS": (1, 256), "INLINE_SIZE": (1, 1 << 20), "GROW": (0, 10 ** 8),
    "UPDATE_EVERY": (1, 10 ** 8), "UPDATE_BYTES": (1, 1 << 20), "MAX_INLINE": (0, 65536),
    "NODESIZE": (4096, 65536), "DIRECTORIES": (1, 10 ** 8), "SIZE_MIN": (1, 10 ** 12),
    "SIZE_MAX": (0, 10 ** 12), "SIZE_SKEW": (1, 1000), "ROUNDS": (1, 1000), "REWRITE": (0, 100),
    "DELETE": (0, 100), "RENAME": (0, 100), "ADD": (0, 100),
    "FILE_SIZE": (1, 10 ** 12), "BLOCK_SIZE": (1, 10 ** 9), "WRITES": (0, 10 ** 8),
    "UPDATES": (0, 10 ** 8), "SYNC_EVERY": (1, 10 ** 8), "EXTENTS": (1, 10 ** 6),
    "SHARERS": (1, 10 ** 8), "PUBLISHED_FILES": (0, 10 ** 8),
    "PUBLISHED_SNAP1_LINES": (0, 10 ** 10), "PUBLISHED_SNAP2_LINES": (0, 10 ** 10)}
DECIMALS = ("SIZE_SKEW", "REWRITE", "DELETE", "RENAME", "ADD")


class Failure(Exception):
    """What ends a run: a line for the user and an exit status."""

    def __init__(self, message, status=1):
        super().__init__(message)
        self.status = status

    def __str__(self):
        """One line, however long and whatever is in a value that it repeats."""
        return re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", "?", self.args[0])[:500]


def wrong(message):
    """The command line cannot be meant."""
    raise Failure(message, 2)


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message):
        wrong(f"{message}, see send-bench --help")


def check_number(value, least, most, decimal=False):
    """The text of a number from least to most, or what is wrong with it."""
    match = re.fullmatch(r"(0|[1-9][0-9]{0,12})([.][0-9]{1,6})?" if decimal else
                         r"(0|[1-9][0-9]{0,12})", value)
    if not match or float(value) > most or int(match[1]) < least:
        raise argparse.ArgumentTypeError(f"a number from {least} to {most}, not '{value}'")
    return value


def number(least, most):
    """A type of argparse."""
    return lambda value: int(check_number(value, least, most))


def words(pattern, what):
    """A type of argparse: a text of some form."""
    def check(value):
        if not re.fullmatch(pattern, value):
            raise argparse.ArgumentTypeError(f"{what}, not '{value}'")
        return value
    return check


SIZE = words(r"[1-9][0-9]{0,5}[KMG]", "a size such as 512M or 8G")
PROFILE = words("single|dup|raid0|raid1|raid1c[34]|raid10|raid[56]", "a profile of btrfs")
NAME = words(r"(?s).+", "something")


def make_parser():
    """All options."""
    parser = Parser(
        prog="send-bench", usage="send-bench [OPTION]...", allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Build a tree of files on a btrfs, take two snapshots and time the full and the\n"
        "incremental send with a cold cache: in a virtual machine, on a simulated disk and in\n"
        "virtual time, or elsewhere with --kind host or --device.",
        epilog="exit status: 0 ok, 1 failed or void (the streams differ), 2 wrong usage, a device in\n"
        "use or a disk full, 77 cannot run here, 128 a virtual machine was lost.")
    group = parser.add_argument_group("what is measured")
    add = group.add_argument
    add("--variants", type=NAME, metavar="LIST",
        help="comma separated (default: off,stock,patched, or what the running kernel has). stock: the "
        "untouched kernel; searches: with patches/KERNEL/fixes and searches; patched: with readahead "
        "as well; off, generation: the same with that btrfs.send_readahead; program: build/sendahead "
        "in the place of btrfs, at both ends, on the untouched kernel; together: on the patched one; "
        "program-send, program-receive: on the untouched kernel, at one end")
    add("--profile", type=NAME, default="desktop-7200", metavar="NAME",
        help="simulated disk: one of drivers/block/rotdisk/profiles, or a file (with a slash); "
        "default %(default)s")
    add("--disks", type=number(1, 16), default=1, metavar="N",
        help="simulated disks that a file system lies on; --profile may name several, which they "
        "have in turn")
    add("--data", type=PROFILE, default="single", metavar="PROFILE",
        help="how data lies on them: single, raid0, raid1, raid1c3, raid1c4, raid10, raid5, raid6")
    add("--metadata", type=PROFILE, metavar="PROFILE",
        help="how tree blocks do (default: dup on one disk, raid1 on more)")
    add("--below", choices=("crypt", "lvm", "md"), default="",
        help="what lies between btrfs and the disks: dm-crypt or a logical volume on each, or md's RAID1 "
        "of all")
    add("--kind", choices=("uml", "qemu", "host"), default="uml",
        help="kind of virtual machine (default uml); host: none, but a simulated disk in real time "
        "under this machine's own kernel; needs root")
    add("--clock", choices=("disk", "all"), default="disk",
        help="what takes time: the disk (default), or the processor as well, whose instructions QEMU "
        "counts")
    add("--processor", type=NAME, metavar="desktop|nas|NS",
        help="ns an instruction with --clock all (default desktop: 0.25; nas: 1)")
    add("--kernel", type=NAME, help="of the virtual machine (default: first of SUPPORTED)")
    add("--memory", type=SIZE, default="8G", metavar="SIZE",
        help="of the virtual machine, without what its disk holds (default %(default)s)")
    add("--timeout", type=number(0, 10 ** 9), default=3600, metavar="SECONDS",
        help="give a virtual machine up after so many real seconds (default %(default)s)")
    add("--device", type=NAME, metavar="DEV[,DEV]...",
        help="block devices of a file system; needs root, and what is on them is lost")
    add("--erase", action="store_true",
        help="destroy a partition table or a file system on a device")
    group = parser.add_argument_group("the tree")
    add = group.add_argument
    add("--workload", type=NAME, default="published", metavar="NAME",
        help="one of tools/bench/workloads, or a file like them (with a slash); default %(default)s")
    for name, what in (("files", "number of files (default: the workload's)"),
                       ("jobs", "jobs that write them at once"), ("inline-size", "bytes of each file"),
                       ("update-every", "change every Nth file between the snapshots"),
                       ("grow", "files added between the snapshots"),
                       ("nodesize", "bytes of a tree block")):
        key = name.upper().replace("-", "_")
        add(f"--{name}", dest=key, metavar="N", help=what,
            type=lambda value, key=key: check_number(value, *RANGES[key]))
    add("--pace", dest="PACE", type=NAME, metavar="MIN-MAX",
        help="pause after each file and job in milliseconds (0: none)")
    add("--seed", type=number(0, 10 ** 12), default=1, metavar="N", help="of everything random")
    add("--print-workload", action="store_true", help="print the workload with these options")
    add("--print-job", action="store_true", help="print what tools/bench/guest is told")
    group = parser.add_argument_group("the send")
    add = group.add_argument
    add("--samples", type=number(1, 1000), default=1, metavar="N",
        help="repeat each cold send N times, the variants in turn (default 1)")
    add("--cached", action="store_true",
        help="everything in memory instead of cold; with --clock all or --kind host")
    add("--to", choices=("null", "file", "receive", "remote"), default="null",
        help="where the stream goes; receive: into btrfs receive on as many other disks, which are "
        "synced within the time that is told, and what is received is compared; remote: the same with "
        "--rate 12M and --latency 20")
    add("--receive-device", type=NAME, metavar="DEV[,DEV]...", help="as many others, with --device")
    add("--receive-profile", type=NAME, metavar="NAME", help="those disks (default: as --profile)")
    add("--receive-rounds", type=number(1, 1000), default=0, metavar="N",
        help="let that disk receive N increments before the first snapshot")
    add("--buffer", type=SIZE, metavar="SIZE",
        help="mbuffer of this size before btrfs receive; the program's own where that receives")
    add("--rate", type=SIZE, metavar="SIZE", help="bytes a second between the ends")
    add("--latency", type=number(1, 10000), default=0, metavar="MS",
        help="from one end to the other, with 6 MiB under way at most")
    add("--no-data", action="store_true", help="btrfs send --no-data")
    add("--beside", choices=("reader", "writer"),
        help="time another user of the disk during each send: random reads with pauses of 50 ms, or "
        "new files with pauses of 20 ms")
    group = parser.add_argument_group("results")
    add = group.add_argument
    add("--output", type=NAME, metavar="DIR", help="default results/<time>...")
    add("--format", choices=("table", "json"), default="table", help="what to print (default table)")
    add("--no-trace", action="store_true", help="do not keep the trace of the disk's commands")
    add("--no-fio", action="store_true", help="do not measure the bare disk with fio")
    add("--dry-run", action="store_true", help="print every command, run none")
    return parser


def parse(arguments):
    """The options by their names, with _ for -; override has numbers of the workload."""
    options = make_parser().parse_args(arguments)
    keys = [key for key in vars(options) if key.isupper()]
    options.override = {key: value for key in keys if (value := getattr(options, key)) is not None}
    options.arguments = arguments
    for name in ("device", "receive_device", "output", "buffer", "rate", "beside"):
        setattr(options, name, getattr(options, name) or "")
    # Does this machine's own kernel send, in real time?
    options.own_kernel = options.kind == "host" or bool(options.device)
    if options.to == "remote":  # a network of 100 Mbit/s
        options.to, options.rate = "receive", options.rate or "12M"
        options.latency = options.latency or 20
    check(options)
    if options.device:
        options.disks = options.device.count(",") + 1
    single = options.disks == 1 or options.below == "md"
    options.metadata = options.metadata or ("dup" if single else "raid1")
    options.receive_profile = options.receive_profile or options.profile
    return options


def check(options):
    """What goes together."""
    given = {word.split("=")[0] for word in options.arguments}
    if options.kind == "host":
        for word in ("--device", "--kernel", "--memory", "--timeout"):
            if word in given:
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
    if options.disks > 1 and (options.device or options.clock == "all"):
        wrong("--disks goes without --device and --clock all")
    if options.below and (options.own_kernel or options.clock == "all" or options.kernel or
                          options.receive_rounds):
        wrong("--below goes without --device, --kernel, --kind host, --clock all, --receive-rounds")
    if options.below == "md" and options.disks == 1:
        wrong("--below md needs --disks")
    if re.fullmatch("[0-9]{1,3}K", options.buffer):
        wrong(f"--buffer takes 1M at least, not '{options.buffer}'")
    for name in RECEIVE:
        option = f"--{name.replace('_', '-')}"
        if options.to != "receive" and getattr(options, name):
            wrong(f"{option} goes with --to receive")
        if options.device and name.startswith("receive") and getattr(options, name):
            wrong(f"{option} does not go with --device")
    if options.device and options.to == "receive" and not options.receive_device:
        wrong("--to receive on a device needs a second disk: --receive-device")
    if options.receive_device and not options.device:
        wrong("--receive-device goes with --device")
    if options.receive_device and options.receive_device.count(",") != options.device.count(","):
        wrong("--receive-device takes as many as --device")
