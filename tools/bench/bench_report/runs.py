# SPDX-License-Identifier: GPL-2.0
"""Reads and checks the folder of a run."""

import json
import os
import re

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), *[".."] * 3))
SENDS = ("full", "incremental")


class ReportError(Exception):
    """Something that the caller has to mend, as one line."""

    status = 1


class InputError(ReportError):
    """The same, where what was asked for cannot be taken: a run, a file."""

    status = 2


class Run:
    """The folder of one run, read and checked."""

    def __init__(self, argument):
        self.path = find_run(argument)
        self.name = printable(os.path.basename(os.path.realpath(self.path)))
        self.env = self.read_env()
        # What a ns of the machine stands for: its clock takes one for each instruction.
        self.scale = self.env.get("instruction_ns")
        if self.scale is None:
            self.scale = 1
        elif not is_number(self.scale) or self.scale <= 0:
            raise InputError(f"{self.file('env.json')}: instruction_ns is not a number above 0, "
                             "the run is damaged")
        self.samples = self.read_samples()
        self.variants = list(dict.fromkeys(s["variant"] for s in self.samples))
        self.check_complete()
        self.baseline = "off" if "off" in self.variants else self.variants[0]
        self.nodesize = lookup(self.env, "parameters", "nodesize")
        if not is_count(self.nodesize) or self.nodesize < 1:
            self.nodesize = 16384  # the default of mkfs.btrfs

    def file(self, name):
        """The path of a file of this run."""
        return os.path.join(self.path, name)

    def read_env(self):
        """What was measured, see send_bench/environment.py."""
        path = self.file("env.json")
        env = parse_json(read_text(path), path)
        if not isinstance(env, dict):
            raise InputError(f"{path}: not a JSON object, the run is damaged")
        return env

    def read_samples(self):
        """The timed sends, in the order they were made."""
        path = self.file("samples.jsonl")
        samples = []
        for number, line in enumerate(read_text(path).splitlines(), 1):
            if line.strip():
                where = f"{path} line {number}"
                sample = check_sample(parse_json(line, where), where)
                samples.append({key: round(value * self.scale) if key.endswith("_ns") and value
                                else value for key, value in sample.items()})
        if not samples:
            raise InputError(f"{path}: no samples, the run was not finished")
        return samples

    def of(self, send, variant):
        """The samples of one row."""
        return [s for s in self.samples if s["send"] == send and s["variant"] == variant]

    def check_complete(self):
        """Every variant asked for has every sample of every send, with its trace."""
        variants = self.env.get("variants")
        count = self.env.get("samples")
        if not isinstance(variants, list) or not all(isinstance(v, str) for v in variants):
            raise InputError(f"{self.file('env.json')}: no list of variants, the run is damaged")
        if not is_count(count):
            raise InputError(f"{self.file('env.json')}: no number of samples, the run is damaged")
        sends = [send for send in SENDS if any(s["send"] == send for s in self.samples)]
        for send in sends:
            for variant in dict.fromkeys(variants + self.variants):
                found = sorted(s["sample"] for s in self.of(send, variant))
                if found != list(range(1, count + 1)):
                    raise InputError(
                        f"{self.file('samples.jsonl')}: the {send} send of the variant "
                        f"{printable(variant)} has {len(found)} samples, not {count} numbered "
                        f"from 1: the run is damaged")

        for sample in self.samples:
            for trace in filter(None, (sample["trace"], lookup(sample, "receiving", "trace"))):
                if not os.path.isfile(self.file(trace)):
                    raise InputError(f"{self.file(trace)} is missing, the run is damaged")

    def check_streams(self):
        """Each send must have sent the same bytes, whatever the variant."""
        first = {}
        for sample in self.samples:
            other = first.setdefault(sample["send"], sample)
            if sample["stream_sha256"] != other["stream_sha256"]:
                raise ReportError(
                    f"run {self.name} is void: the streams of the {sample['send']} send differ: "
                    f"{describe_stream(other)}, {describe_stream(sample)}")


def describe_stream(sample):
    """Which sample sent what."""
    return f"variant {sample['variant']} sample {sample['sample']} sent {sample['stream_sha256']}"


def find_run(argument):
    """The folder that RUN on the command line means."""
    if argument is None:
        path = os.path.join(TOP, "results", "latest")
        if not os.path.isdir(path):
            raise InputError("there is no results/latest, run scripts/send-bench.sh or name a run")
        return path
    for path in (argument, os.path.join(TOP, "results", argument)):
        if argument and os.path.isdir(path):
            return path
    raise InputError(f"no run '{printable(argument)[:200]}': name a folder, or a run in results/")


def read_text(path):
    """A whole file."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}, is this the folder of a run?") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not text, the run is damaged") from None


def parse_json(text, where):
    """JSON, which has no NaN and no Infinity."""
    def refuse(word):
        raise ValueError(word)

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise InputError(f"{where}: not JSON, the run is damaged") from None


def is_count(value):
    """A whole number, not negative; true is no number."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_number(value):
    """Any number; true is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_sample(sample, where):
    """One line of samples.jsonl holds what it must."""
    def must(key, good, what):
        if key not in sample or not good(sample[key]):
            has = f"not {json.dumps(sample[key])}" if key in sample else "and is missing"
            raise InputError(f"{where}: {key} must be {what}, {has}: the run is damaged")

    def may(key, good, what):
        sample.setdefault(key, None)  # some are there in some runs only
        must(key, lambda v: v is None or good(v), what + " or null")

    if not isinstance(sample, dict):
        raise InputError(f"{where}: not a JSON object, the run is damaged")
    must("variant", lambda v: isinstance(v, str) and re.fullmatch(r"[\w.+-]+", v), "a word")
    must("send", lambda v: v in SENDS, "full or incremental")
    must("sample", lambda v: is_count(v) and v > 0, "a number above 0")
    must("elapsed_ns", lambda v: is_count(v) and v > 0, "a number above 0")
    must("stream_sha256", lambda v: isinstance(v, str) and re.fullmatch("[0-9a-f]{64}", v),
         "64 hexadecimal digits")
    for key in ("requests", "sectors", "stream_bytes"):
        must(key, is_count, "a number")
    for key in ("first_byte_ns", "hits", "seek_ns", "rotation_ns", "transfer_ns", "user_ns",
                "system_ns", "sync_ns"):
        may(key, is_count, "a number")
    may("trace", lambda v: isinstance(v, str), "the name of a file")
    may("receiving", is_receiving, "reads and writes of a disk, with a trace or null,")
    may("beside", lambda v: isinstance(v, dict) and isinstance(v.get("kind"), str) and
        is_count(v.get("operations")) and
        all(is_count(v[key]) or v[key] is None for key in v if key != "kind"),
        "a kind, operations and times,")
    return sample


def is_receiving(value):
    """What the receiving disk did, see receiving_json of tools/bench/guest-sends.sh."""
    return (isinstance(value, dict) and isinstance(value.get("trace"), (str, type(None))) and
            all(is_count(lookup(value, kind, key)) for kind in ("reads", "writes")
                for key in ("requests", "sectors", "seek_ns", "rotation_ns", "transfer_ns")))


def lookup(env, *keys):
    """A value inside nested objects, or None."""
    for key in keys:
        env = env.get(key) if isinstance(env, dict) else None
    return env


def printable(value):
    """Text that cannot upset a terminal or a table."""
    return "".join(c if c.isprintable() else "?" for c in str(value))
