# SPDX-License-Identifier: GPL-2.0
"""env.json: what was measured, and with what."""

import hashlib
import json
import os
import subprocess
import time

from .job import TOP


def output_of(*command):
    """What a command prints, or None if it fails or is not there."""
    try:
        done = subprocess.run(command, cwd=TOP, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return None
    return done.stdout.rstrip("\n") if done.returncode == 0 else None


def read(*path):
    """A file's text without its last newline, or None."""
    try:
        with open(os.path.join(*path), encoding="utf-8") as file:
            return file.read().rstrip("\n")
    except OSError:
        return None


def load(*path):
    """A file of JSON."""
    return json.loads(read(*path))


def number_or_text(text):
    """As jq would have it."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def sha256(data):
    """In hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path):
    """The same of a file of the project."""
    with open(os.path.join(TOP, path), "rb") as file:
        return sha256(file.read())


def series_sha256(kernel):
    """Of the files that the kernel was patched with."""
    top = os.path.join(TOP, output_of("tools/kernels/supported", kernel, "series"))
    files = [os.path.relpath(os.path.join(folder, name), TOP)
             for folder, _, names in os.walk(top) for name in names]
    return sha256("".join(f"{sha256_of_file(path)}  {path}\n"
                          for path in sorted(files, key=os.fsencode)).encode())


def kernels(run):
    """Of each kernel that was measured: release, build and the hash of its configuration."""
    found = {}
    for variant in dict.fromkeys(run.kernel_of(variant) for variant in run.variants):
        if run.options.own_kernel:
            found[variant] = {"release": os.uname().release, "build": None, "config": None}
            continue
        build = os.path.dirname(output_of("vm/build", "--kind", run.lane, "--kernel", run.kernel,
                                          "--variant", variant))
        found[variant] = {"release": read(build, "release"), "build": os.path.basename(build),
                          "config": sha256_of_file(os.path.join(build, "config"))}
    return found


def device(run):
    """The disk."""
    if not run.options.device:
        return {"name": "loop" if run.options.own_kernel else "rotdisk0", "size_bytes": None,
                "rotational": None}
    name = os.path.basename(os.path.realpath(run.options.device))
    rotational = read("/sys/class/block", name, "queue/rotational")
    return {"name": name,
            "size_bytes": int(output_of("blockdev", "--getsize64", run.options.device)),
            "rotational": rotational and rotational == "1"}


def profile_name(profile):
    """What a name or a file of --profile is called."""
    return os.path.basename(profile).removesuffix(".conf")


def environment(run):
    """All of it."""
    options, workload = run.options, run.workload
    numbers, own = workload.numbers, options.own_kernel
    commit = output_of("git", "rev-parse", "HEAD")
    all_kernels = kernels(run)
    published = {name: numbers.get(key) for name, key in (
        ("files", "PUBLISHED_FILES"), ("snap1_printed", "PUBLISHED_SNAP1_LINES"),
        ("snap2_printed", "PUBLISHED_SNAP2_LINES"))}
    return {
        "run": os.path.basename(run.output),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit,
        "dirty": bool(commit and output_of("git", "status", "--porcelain")),
        "lane": run.lane,
        "source": None if own else read(TOP, "build", f"linux-{run.kernel}.version"),
        "kernels": {variant: {"release": kernel["release"], "build": kernel["build"]}
                    for variant, kernel in all_kernels.items()},
        "config_sha256": next(iter(all_kernels.values()))["config"],
        "series_sha256": None if run.lane == "host" else series_sha256(run.kernel),
        "profile": run.profile_file and profile_name(options.profile),
        "receive_profile": profile_name(options.receive_profile) or None,
        "device": device(run),
        "btrfs_progs": read(run.partial, "btrfs-progs"),
        "workload": os.path.basename(workload.name),
        "parameters": {**{key.lower(): number_or_text(numbers[key]) for key in sorted(numbers)
                          if not key.startswith("PUBLISHED_")},
                       "seed": options.seed, "faithful": options.faithful},
        "trees": {snap: load(run.partial, f"tree-{snap}.json") for snap in ("snap1", "snap2")},
        "published": {name: int(value) for name, value in published.items()}
                     if published["files"] else None,
        "fio": None if options.no_fio else load(run.partial, "fio.json"),
        "variants": run.variants, "samples": options.samples, "to": options.to,
        "no_data": options.no_data, "compressed_data": options.compressed_data,
        "cached": options.cached,
        "memory": None if own else options.memory,
        "tree_kernel": None if own else run.tree_kernel,
        "processors": len(os.sched_getaffinity(0)) if own else None, "real_time": own,
        "clock": None if own else options.clock, "instruction_ns": options.instruction_ns,
        "receive_rounds": options.receive_rounds if options.to == "receive" else None,
        "buffer": options.buffer or None, "rate": options.rate or None,
        "latency_ns": options.latency * 10 ** 6 or None,
        "skipped": list(filter(None, (read(run.partial, "skipped") or "").split("\n")))}
