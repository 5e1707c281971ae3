# SPDX-License-Identifier: GPL-2.0
"""Says what was measured, and in what several runs differ."""

import json

from bench_report.numbers import number
from bench_report.runs import is_count, is_number, lookup, printable


def describe_kernel(env):
    """Kernel release of each build, and the source they come from."""
    kernels = env.get("kernels")
    releases = {}
    for name, kernel in (kernels.items() if isinstance(kernels, dict) else ()):
        releases.setdefault(str(lookup(kernel, "release")), []).append(name)
    text = "; ".join(f"{release} ({', '.join(sorted(names, key=lambda n: n != 'stock'))})"
                     for release, names in releases.items())
    clock = [f"{env['processors']} processors", "real time"] if env.get("real_time") else []
    if is_number(env.get("instruction_ns")):
        clock = [f"clock: disk and processor, {env['instruction_ns']:g} ns an instruction"]
    return [text or "-", f"source {env.get('source') or 'not known'}", f"lane {env.get('lane', '-')}",
            *clock, f"btrfs-progs {env.get('btrfs_progs', '-')}"]


def describe_disk(env):
    """What disk this was."""
    device = lookup(env, "device", "name") or "-"
    if env.get("profile"):
        return f"simulated {env['profile']} ({device})"
    kind = {True: ", rotational", False: ", not rotational"}.get(lookup(env, "device", "rotational"), "")
    nbytes = lookup(env, "device", "size_bytes")
    return f"real disk {device}" + (f", {nbytes / 1e9:,.0f} GB" if is_count(nbytes) else "") + kind


def describe_fio(env):
    """What fio says this disk does, if it was asked."""
    if not env.get("fio"):
        return []
    parts = []
    for depth in (1, 32):
        random = lookup(env, "fio", f"randread_qd{depth}")
        latency = lookup(random, "mean_latency_ns")
        latency = latency / 1e6 if is_number(latency) else None
        parts.append(f"{number(lookup(random, 'iops'), ',.1f')} IOPS and {number(latency, '.2f')} ms "
                     f"at depth {depth}")
    rate = lookup(env, "fio", "seqread", "bytes_per_second")
    rate = rate / 1e6 if is_number(rate) else None
    return ["random 16 KiB reads " + parts[0], parts[1], f"sequential {number(rate, ',.1f')} MB/s"]


def describe_tree(env, snap):
    """Blocks of a snapshot's tree, and the published ones beside it."""
    tree = lookup(env, "trees", snap)
    text = [f"{snap} {number(lookup(tree, 'blocks'), ',')} blocks "
            f"({number(lookup(tree, 'printed'), ',')} printed lines), "
            f"{number(lookup(tree, 'levels'), '')} levels"]
    lines = lookup(env, "published", f"{snap}_printed")
    files = lookup(env, "published", "files")
    if is_count(lines) and lines:
        published = f"published {lines:,} lines = {round(lines / 2):,} blocks"
        printed = lookup(tree, "printed")
        if files == lookup(env, "parameters", "files") and is_count(printed):
            published += f": {(printed - lines) / lines * 100:+.1f} %"
        else:
            published += f" at N = {number(files, ',')}"
        text.append(published)
    return text


def describe(run):
    """The header of a run: pairs of a title and a list of phrases."""
    env = run.env
    parameters = env.get("parameters")
    workload = [f"{key}={json.dumps(value).strip(chr(34))}" for key, value in
                (parameters.items() if isinstance(parameters, dict) else ()) if key != "generator"]
    n = env.get("samples")
    to = f"to {env.get('to', '-')}"
    if env.get("receive_profile"):
        to += f" on a simulated {env['receive_profile']}"
    send = [to,
            *([f"aged by {env['receive_rounds']} rounds"] if env.get("receive_rounds") else []),
            *(f"{key} {env[key]}" for key in ("buffer", "rate") if env.get(key)),
            *([f"latency {env['latency_ns'] / 1e6:g} ms"] if env.get("latency_ns") else []),
            *(["everything in memory"] if env.get("cached") else []),
            "without data" if env.get("no_data") else "with data",
            *(["compressed data as it is"] if env.get("compressed_data") else []),
            f"{n} sample{'' if n == 1 else 's'} each"]
    if env.get("memory"):
        send.append(f"memory {env['memory']}")
    commit = str(env.get("commit") or "not known")[:12]
    code = [f"commit {commit}" + (" and uncommitted changes" if env.get("dirty") else "")]
    code += [f"{key} {str(env[f'{key}_sha256'])[:12]}" for key in ("series", "config")
             if env.get(f"{key}_sha256")]
    header = [("run", [run.name, str(env.get("date", "-"))]), ("kernel", describe_kernel(env)),
              ("disk", [describe_disk(env)] + describe_fio(env)),
              ("workload", [f"{env.get('workload', '-')}:"] + workload), ("send", send),
              ("tree", describe_tree(env, "snap1")), ("", describe_tree(env, "snap2")),
              ("code", code)]
    skipped = env.get("skipped")
    for reason in skipped if isinstance(skipped, list) else ():
        header.append(("skipped", [str(reason)]))
    return [(title, [printable(p) for p in phrases], " " if title == "workload" else ", ")
            for title, phrases in header]


def differences(runs):
    """What else than the run differs between runs, which a reader must know."""
    keys = ["source", "lane", "clock", "instruction_ns", "profile", "workload", "btrfs_progs", "to",
            "receive_profile", "buffer", "rate", "latency_ns", "no_data", "compressed_data",
            "tree_kernel", "memory", "commit", "dirty", "config_sha256", "series_sha256"]
    envs = [{**{key: run.env.get(key) for key in keys},
             "receive_rounds": run.env.get("receive_rounds") or 0,
             "cached": bool(run.env.get("cached")),
             "beside": next((s["beside"]["kind"] for s in run.samples if s["beside"]), None),
             "kernel": describe_kernel(run.env)[0], "device": lookup(run.env, "device", "name"),
             **(lookup(run.env, "parameters") or {})} for run in runs]
    found = []
    for key in dict.fromkeys(key for env in envs for key in env):
        values = [json.dumps(env.get(key)).strip('"') for env in envs]
        if len(set(values)) > 1:
            found.append(f"{key}: " + " / ".join(printable(value)[:40] for value in values))
    return found
