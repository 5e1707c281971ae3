# SPDX-License-Identifier: GPL-2.0
"""A run: its machines, one after another, and the folder of its results."""

import glob
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time

from .environment import environment, output_of, read
from .job import TOP, job_text
from .options import VARIANTS, Failure, wrong

PROFILES = os.path.join(TOP, "drivers", "block", "rotdisk", "profiles")
PROGRAM = os.path.join(TOP, "build", "sendahead")
MODEL = os.path.join("build", "rotdisk-sim")
PROGRAM_VARIANTS = ("program", "together", "program-send", "program-receive")
READAHEAD = "/sys/module/btrfs/parameters/send_readahead"
# What a machine that counts instructions has of the host from its start.
PROGRAMS = ("awk basename blockdev btrfs chroot cmp cut date dd df diff dirname env findmnt "
            "grep gzip head jq ls mkfs.btrfs mktemp mountpoint numfmt openssl paste readlink "
            "realpath rm rmdir sed sort stat tail tee tr umount wc")


def tool(*path):
    """A file of the project."""
    return os.path.join(TOP, *path)


def call(*command, **options):
    """Run a command whose output is no result of ours. Returns its exit status."""
    sys.stdout.flush()
    return subprocess.run(command, check=False, stdout=sys.stderr, **options).returncode


def base(path):
    """The last part of a path."""
    return os.path.basename(path.rstrip("/")) or "/"


def processor_times():
    """Of all processors since the machine was started: busy and all ticks."""
    ticks = list(map(int, read("/proc/stat").split("\n")[0].split()[1:9]))
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


class Run:
    """What the options ask for."""

    def __init__(self, options, workload):
        self.options, self.workload = options, workload
        self.child = self.partial = self.record = self.others_busy = None
        kernels = output_of("tools/kernels/supported").split("\n")
        self.kernel = options.kernel or kernels[0]
        if self.kernel not in kernels:
            wrong(f"no kernel '{self.kernel}': there are {' '.join(kernels)}")
        self.profiles = {}
        if options.device:
            self.lane = "device"
            if not options.dry_run and os.geteuid():
                raise Failure("--device needs root")
            for path in options.device.split(","):
                if not is_device(path, stat.S_ISBLK):
                    wrong(f"{path} is not a block device")
        else:
            self.lane = "microvm" if options.clock == "all" else options.kind
            for end, names in (("", options.profile.split(",")),
                               ("receive-", options.receive_profile.split(","))):
                for disk in range(options.disks if not end or options.to == "receive" else 0):
                    self.profiles[f"{end}profile{suffix(disk)}.conf"] = find_profile(
                        names[disk % len(names)])
        if options.kind == "host" and not options.dry_run:
            probe_host()
        self.variants = self.choose_variants()
        self.output = self.choose_output()
        # A link may go with what is erased, and fio takes a colon for the end of a name.
        for name in ("device", "receive_device"):
            if getattr(options, name):
                setattr(options, name, ",".join(map(os.path.realpath, getattr(options, name).split(","))))
        paths = f"{options.device},{options.receive_device}".strip(",").split(",")
        for path in paths:
            if path and paths.count(path) > 1:
                wrong(f"{path} cannot be two disks, or receive what it sends")

    def note(self, message):
        """A line on standard error."""
        if not self.options.dry_run:
            print(f"send-bench: {message}", file=sys.stderr, flush=True)

    def choose_variants(self):
        """What is asked for, or what there is."""
        options, wanted = self.options, self.options.variants
        if not wanted and not options.own_kernel:
            wanted = "off,stock,patched"
        elif not wanted:
            output_of("modprobe", "btrfs")
            wanted = "off,generation,patched" if os.path.exists(READAHEAD) else "stock"
            if options.kind == "host" and os.access(PROGRAM, os.X_OK):
                wanted += ",program"
        variants = wanted.split(",")
        for variant in variants:
            if variant not in VARIANTS:
                wrong(f"--variants takes {' '.join(VARIANTS)}, not '{variant}'")
            if variants.count(variant) > 1:
                wrong(f"--variants names {variant} twice")
            if (variant in ("program", "together", "program-receive") and options.buffer and
                    size(options.buffer) > 1 << 30):
                wrong(f"the program keeps 1G at most, not --buffer {options.buffer}")
        if (set(variants) & set(PROGRAM_VARIANTS) and not options.dry_run and
                not os.access(PROGRAM, os.X_OK)):
            raise Failure("no program to measure: make program builds build/sendahead", 77)
        return variants

    def choose_output(self):
        """The folder of the results, which is not there yet, or empty."""
        options, output = self.options, self.options.output
        if not output:
            disk = base(options.device or options.profile.removesuffix(".conf"))
            output = tool("results", time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) +
                          f"-{base(options.workload)}-{self.workload.numbers['FILES']}-{disk}")
            while os.path.lexists(output):
                output += "+"
        elif os.path.exists(output) and not (os.path.isdir(output) and not os.listdir(output)):
            wrong(f"{output} exists already and is not empty: name another directory for --output")
        output = os.path.realpath(output)
        forbidden = r"[\x00-\x1f\x7f]" if options.own_kernel else r"[\x00-\x1f\x7f\s,\"]"
        if re.search(forbidden, output):
            wrong(f"--output takes a path without white space, commas and quotes, not '{output}'")
        return output

    @staticmethod
    def kernel_of(variant):
        """Which kernel a variant is measured with."""
        if variant == "stock" or variant.startswith("program"):
            return "stock"
        return variant if variant == "searches" else "patched"

    # What is done

    def prepare(self):
        """The folder where everything is made, and what the machines need."""
        options = self.options
        if not options.dry_run:
            small = options.kind == "host" and options.no_fio and not (options.buffer or options.rate)
            needs = ["host" if small else "bench"]
            needs += ["qemu"] if options.clock == "all" else []
            if call(tool("scripts", "install-deps"), *needs):
                raise Failure("what the bench needs is not installed, see above")
            call("make", "--silent", "--directory", TOP, MODEL)
        for file in self.profiles.values():
            check_profile(file)
        if options.dry_run:
            self.partial = output_of("mktemp", "--directory", "--tmpdir", "send-bench.XXXXXX")
            if not self.partial:
                wrong(f"cannot write to {os.environ.get('TMPDIR') or '/tmp'}")
        else:
            self.make_partial()
        for name, file in self.profiles.items():
            shutil.copy(file, self.path(name))
            if options.clock == "all":
                slow = self.path("slow-" + name)
                with open(slow, "w", encoding="utf-8") as profile:
                    profile.write(slow_profile(read(file), options.instruction_ns))
                check_profile(slow)
        open(self.path("samples.jsonl"), "w", encoding="utf-8").close()
        # as the machine would have it
        more = {"dir": "/scratch"} if options.dry_run and not options.own_kernel else {}
        with open(self.path("job"), "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(job_text(options, self.workload, **more))

    def make_partial(self):
        """Beside the results; with --kind host after what killed runs have left was taken away,
        and with a record by which the next run could take this away, see rotdisk-fuse.sh."""
        folder, name = os.path.split(self.output)
        run = str(os.getpid())
        if self.options.kind == "host":
            call(tool("tools", "rotdisk", "rotdisk"), "clean")
            run += "-" + read("/proc/self/stat").rpartition(") ")[2].split()[19]
            os.environ["SENDAHEAD_RUN"] = run
        self.partial = os.path.join(folder, f".{name}.partial.{run}")
        if self.options.kind == "host":
            self.record = os.path.join("/run/sendahead/runs", run)
            with open(self.record, "w", encoding="utf-8") as file:
                folder = os.environ.get("TMPDIR") or "/tmp"
                file.write(f"{self.partial}\n{folder}/send-bench.{run}\n")
        try:
            os.makedirs(self.partial)
        except OSError:
            self.partial = None
            wrong(f"cannot write to {os.path.dirname(self.output)}")

    def path(self, *names):
        """A file of the folder where everything is made."""
        return os.path.join(self.partial, *names)

    def stage(self, stage, *words):
        """Build the tree, or measure a sample of a variant, where the disk is: here, or in the
        machine."""
        options, scratch = self.options, self.partial
        command = [tool("tools", "bench", "guest"), self.path("job"), stage, *words]
        if not options.own_kernel:
            machine, memory = ["--kind", options.kind], options.memory
            guest, variant, append = command[0], words[0] if words else "stock", []
            if stage == "build":
                # what is not measured may have the memory it needs
                memory = max(memory, "2G", key=size)
            elif options.clock == "all":
                machine = ["--kind", "microvm", "--sealed", PROGRAMS]
                guest = "/project/tools/bench/guest"
                scratch = self.path("sealed")
                if not options.dry_run:
                    self.seal()
            if variant in ("off", "generation"):
                append = ["--append", f"btrfs.send_readahead={variant}"]
            timeout = str(options.timeout)
            machine = [tool("vm", "run"), *machine, "--kernel", self.kernel,
                       "--variant", self.kernel_of(variant), "--memory", memory,
                       "--timeout", timeout, "--stall", timeout, "--scratch", scratch,
                       *append, "--", guest, "/scratch/job", stage, *words]
            if options.dry_run:
                print(f"# in the virtual machine: {shlex.join(machine)}", flush=True)
            else:
                command = machine
        status = self.run_child(command)
        free = os.statvfs(self.partial)
        if status and not options.dry_run and free.f_bavail * free.f_frsize <= 3 << 20:
            wrong(f"no space left in {os.path.dirname(self.output)}, where the results go")
        if status:
            sys.exit(status)
        if scratch != self.partial and not options.dry_run:
            self.unseal()

    def run_child(self, command):
        """A signal that ends this run ends the child first. Returns its exit status."""
        # The guest heeds it only after what it has started, a send, say: that ends as well.
        group = self.options.own_kernel and not self.options.dry_run
        self.child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, preexec_fn=os.setpgrp if group else
            lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        try:
            status = self.child.wait()
        except BaseException:
            if self.child.poll() is None:
                (os.killpg if group else os.kill)(self.child.pid, signal.SIGTERM)
            self.child.wait()
            raise
        return status if status >= 0 else 128 - status

    def seal(self):
        """A sealed machine has no more than what makes a difference."""
        os.mkdir(self.path("sealed"))
        for name in ("disk", "receive-disk", "slow-profile.conf", "slow-receive-profile.conf",
                     "job"):
            if os.path.exists(self.path(name)):
                os.link(self.path(name), self.path("sealed", name))
        if set(self.variants) & set(PROGRAM_VARIANTS):
            shutil.copy(PROGRAM, self.path("sealed"))

    def unseal(self):
        """What it has measured."""
        with open(self.path("samples.jsonl"), "ab") as samples, \
                open(self.path("sealed", "samples.jsonl"), "rb") as file:
            samples.write(file.read())
        if os.path.exists(self.path("sealed", "skipped")):
            shutil.copy(self.path("sealed", "skipped"), self.partial)
        if os.path.exists(self.path("sealed", "trace")):
            shutil.copytree(self.path("sealed", "trace"), self.path("trace"), dirs_exist_ok=True)
        shutil.rmtree(self.path("sealed"))

    def measure(self):
        """All stages, the variants in turn, and env.json."""
        self.stage("build")
        if self.options.own_kernel and not self.options.dry_run:
            before = processor_times()
            time.sleep(1)
            busy, ticks = (after - then for after, then in zip(processor_times(), before))
            self.others_busy = round(busy / ticks, 2)
        for sample in range(self.options.samples):
            for variant in self.variants:
                self.stage("measure", variant, str(sample + 1))
        if self.options.dry_run:
            return
        # bytes that are no text become \udcXX
        with open(self.path("env.json"), "w", encoding="utf-8", errors="backslashreplace") as file:
            json.dump(environment(self), file, indent=2, ensure_ascii=False)
            file.write("\n")
        for name in ("disk*", "receive-disk*", "slow-*.conf", "fio*.json", "skipped", "btrfs-progs",
                     "tree-snap?.json", "job"):
            for path in glob.glob(glob.escape(self.partial) + "/" + name):
                os.remove(path)

    def publish(self):
        """The run as a whole, and what it says; a void one does not become the latest."""
        partial, self.partial = self.partial, None
        try:
            if os.path.isdir(self.output):
                os.rmdir(self.output)
            os.rename(partial, self.output)
        except OSError as error:
            raise Failure(f"the results are in {partial}: {error}") from error
        self.note(f"results in {self.output}")
        report = [tool("tools", "bench", "bench-report")]
        if subprocess.run([*report, "--verify", self.output], check=False).returncode:
            sys.exit(1)
        folder = os.path.dirname(self.output)
        if os.path.realpath(folder) == os.path.realpath(tool("results")):
            subprocess.run(["ln", "--symbolic", "--force", "--no-dereference", base(self.output),
                            tool("results", "latest")], check=True)
        picture, page = (os.path.join(self.output, name) for name in ("head.svg", "report.html"))
        self.note(f"a page with a picture of the disk's head: {page}")
        for words in (["--format", "svg", "--output", picture],
                      ["--format", "html", "--output", page],
                      ["--format", self.options.format]):
            status = subprocess.run([*report, *words, self.output], check=False).returncode
            if status:
                sys.exit(status)

    def clean(self):
        """Undo what this run has made and not published."""
        if self.partial:
            shutil.rmtree(self.partial, ignore_errors=True)
        if self.record and os.path.exists(self.record):
            os.remove(self.record)


def is_device(path, kind):
    """As test -b and -c: kind is stat.S_ISBLK or stat.S_ISCHR."""
    try:
        return kind(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def size(text):
    """512M in bytes."""
    return int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]]


def suffix(disk):
    """What the names of a disk's files have after the first disk's."""
    return f"-{disk + 1}" if disk else ""


def find_profile(name):
    """The file of a simulated disk."""
    path = name if "/" in name else os.path.join(PROFILES, name + ".conf")
    if "\0" in path or not (os.path.isfile(path) and os.access(path, os.R_OK)):
        there = sorted(base(path)[:-5] for path in glob.glob(PROFILES + "/*.conf"))
        wrong(f"no disk profile '{name[:80]}': there are {' '.join(there)}")
    return path


def check_profile(path):
    """Only the disk's model knows what it may hold."""
    if os.access(tool(MODEL), os.X_OK) and subprocess.run(
            [tool(MODEL), "check", path], stdout=subprocess.DEVNULL, check=False).returncode:
        sys.exit(2)


def probe_host():
    """What the lane host needs of the machine; packages are installed later."""
    output_of("modprobe", "--all", "--quiet", "fuse", "loop", "btrfs")
    missing = ["root"] if os.geteuid() else []
    for path, what in (("/dev/fuse", "FUSE"), ("/dev/loop-control", "loop devices")):
        if not is_device(path, stat.S_ISCHR):
            missing.append(f"{what} ({path})")
    if not re.search(r"\bbtrfs\b", read("/proc/filesystems") or ""):
        missing.append(f"btrfs in the kernel {os.uname().release}")
    if missing:
        raise Failure("--kind host cannot run here, what is missing: " + ", ".join(missing), 77)


def slow_profile(text, ns):
    """The machine takes one ns for each instruction. Where the processor is faster, the disk is
    slower by as much, and bench-report divides the times."""
    lines = []
    for line in text.split("\n"):
        name, equals, value = re.sub(r"\s*#.*", "", line).partition("=")
        name, value = name.strip(), value.strip()
        if name.endswith("_ns"):
            value = f"{float(value) / ns:.0f}"
        elif name == "seek_point":
            distance, took = value.split()[:2]
            value = f"{int(distance)} {float(took) / ns:.0f}"
        elif re.search("(_rate|rpm|iops_limit)$", name):
            value = f"{float(value) * ns:.0f}"
        lines.append(f"{name} = {value}" if equals else name)
    return "".join(line + "\n" for line in lines)
