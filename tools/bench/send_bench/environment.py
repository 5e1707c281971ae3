# SPDX-License-Identifier: GPL-2.0
"""env.json: what was measured, and with what."""

import hashlib
import json
import os
import shlex
import subprocess
import time

from .job import TOP


def output_of(*command):
    """What a command prints, or None if it fails or is not there."""
    try:
        done = subprocess.run(command, cwd=TOP, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False)
    except (OSError, ValueError):
        return None
    return done.stdout.rstrip("\n") if done.returncode == 0 else None


def read(*path):
    """A file's text without its last newline, or None."""
    try:
        with open(os.path.join(*path), encoding="utf-8") as file:
            return file.read().rstrip("\n")
    except (OSError, ValueError):
        return None


def load(text):
    """JSON if it is that, or the text."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def sha256(path):
    """Of a file."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def series_sha256(kernel):
    """Of the files that the kernel was patched with."""
    top = os.path.join(TOP, output_of("tools/kernels/supported", kernel, "series"))
    files = sorted(os.path.join(folder, name)
                   for folder, _, names in os.walk(top) for name in names)
    return hashlib.sha256("".join(map(sha256, files)).encode()).hexdigest()


def kernels(run):
    """Of each kernel that was measured: release, build and the hash of its configuration."""
    found = {}
    for variant in dict.fromkeys(run.kernel_of(variant) for variant in run.variants):
        if run.options.own_kernel:
            found[variant] = {"release": os.uname().release, "build": None, "config_sha256": None}
            continue
        build = os.path.dirname(output_of("vm/build", "--kind", run.lane, "--kernel", run.kernel,
                                          "--variant", variant))
        found[variant] = {"release": read(build, "release"), "build": os.path.basename(build),
                          "config_sha256": sha256(os.path.join(build, "config"))}
    return found


def device(run):
    """The disk."""
    if not run.options.device:
        return {"name": "loop" if run.options.own_kernel else "rotdisk0", "size_bytes": None,
                "rotational": None}
    paths = run.options.device.split(",")
    names = list(map(os.path.basename, paths))
    rotational = read("/sys/class/block", names[0], "queue/rotational")
    return {"name": "+".join(names),
            "size_bytes": sum(int(output_of("blockdev", "--getsize64", path)) for path in paths),
            "rotational": rotational and rotational == "1"}


def environment(run):
    """All of it."""
    options, numbers, own = run.options, run.workload.numbers, run.options.own_kernel
    profiles = [",".join(os.path.basename(name).removesuffix(".conf") for name in names.split(","))
                for names in (options.profile, options.receive_profile)]
    receive = options.to == "receive"
    commit = output_of("git", "rev-parse", "HEAD")
    same = ("samples", "to", "no_data", "cached", "instruction_ns",
            "disks", "data", "metadata", "below")
    return {
        "run": os.path.basename(run.output),
        "command": shlex.join(["tools/bench/send-bench", *options.arguments]),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit, "dirty": bool(commit and output_of("git", "status", "--porcelain")),
        "lane": run.lane,
        "source": None if own else read(TOP, "build", f"linux-{run.kernel}.version"),
        "kernels": kernels(run),
        "series_sha256": None if own else series_sha256(run.kernel),
        "profile": None if options.device else profiles[0],
        "receive_profile": profiles[1] if receive and not options.device else None,
        "device": device(run), "btrfs_progs": read(run.partial, "btrfs-progs"),
        "workload": os.path.basename(run.workload.name),
        "parameters": {**{key.lower(): load(value) for key, value in sorted(numbers.items())
                          if not key.startswith("PUBLISHED_")}, "seed": options.seed},
        "trees": {snap: load(read(run.partial, f"tree-{snap}.json")) for snap in ("snap1", "snap2")},
        "published": {snap: load(numbers[f"PUBLISHED_{snap.upper()}_LINES"])
                      for snap in ("snap1", "snap2")}
                     if numbers.get("PUBLISHED_FILES") == numbers["FILES"] else None,
        "fio": None if options.no_fio else load(read(run.partial, "fio.json")),
        "variants": run.variants, **{name: getattr(options, name) for name in same},
        "memory": None if own else options.memory,
        "processors": len(os.sched_getaffinity(0)) if own else None,
        "others_busy": run.others_busy, "clock": None if own else options.clock,
        "receive_rounds": options.receive_rounds if receive else None,
        "buffer": options.buffer or None, "rate": options.rate or None,
        "latency_ns": options.latency * 10 ** 6 or None,
        "skipped": list(filter(None, (read(run.partial, "skipped") or "").split("\n")))}
