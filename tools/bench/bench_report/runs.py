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


def printable(text):
    """Without what a terminal would take for commands."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", "?", str(text))


class Run:
    """The folder of one run, read and checked."""

    def __init__(self, argument):
        self.path = find_run(argument)
        self.name = printable(os.path.basename(os.path.realpath(self.path)))
        self.env = read_json(read_text(self.file("env.json")), self.file("env.json"))
        variants, count = self.env.get("variants"), self.env.get("samples")
        # What a ns of the machine stands for: its clock takes one for each instruction.
        self.scale = self.env.get("instruction_ns") or 1
        if not isinstance(variants, list) or not is_count(count) or not is_number(self.scale):
            raise InputError(f"{self.file('env.json')}: the variants or the number of samples are "
                             "missing, the run is damaged")
        self.samples = self.read_samples()
        self.variants = list(dict.fromkeys(sample["variant"] for sample in self.samples))
        wanted = len(variants) * count * len({sample["send"] for sample in self.samples})
        if not wanted or len(self.samples) != wanted:
            raise InputError(f"{self.file('samples.jsonl')} has {len(self.samples)} samples, not "
                             f"{wanted}: the run is damaged")
        self.base = "stock" if "stock" in self.variants else self.variants[0]

    def file(self, name):
        """The path of a file of this run."""
        return os.path.join(self.path, name)

    def read_samples(self):
        """The timed sends, in the order they were made."""
        path, samples = self.file("samples.jsonl"), []
        for number, line in enumerate(read_text(path).splitlines(), 1):
            where = f"{path} line {number}"
            sample = check_sample(read_json(line, where), where)
            samples.append(scaled(sample, self.scale))
            for trace in filter(None, (*sample["traces"], lookup(sample, "receiving", "trace"))):
                if not os.path.isfile(self.file(trace)):
                    raise InputError(f"{self.file(trace)} is missing, the run is damaged")
        return samples

    def of(self, send, variant):
        """The samples of one row."""
        return [s for s in self.samples if s["send"] == send and s["variant"] == variant]

    def check_streams(self):
        """Each send must have sent the same bytes, whatever the variant."""
        first = {}
        for sample in self.samples:
            other = first.setdefault(sample["send"], sample)
            if sample["stream_sha256"] != other["stream_sha256"]:
                raise ReportError(
                    f"run {self.name} is void: the streams of the {sample['send']} send differ: "
                    f"{describe_stream(other)}, {describe_stream(sample)}")


def scaled(value, factor, is_time=False):
    """A sample with all its times (keys in _ns) by this factor."""
    if isinstance(value, dict):
        return {key: scaled(one, factor, key.endswith("_ns")) for key, one in value.items()}
    if isinstance(value, list):
        return [scaled(one, factor, is_time) for one in value]
    return round(value * factor) if is_time and value else value


def describe_stream(sample):
    """Which sample sent what."""
    return f"variant {sample['variant']} sample {sample['sample']} sent {sample['stream_sha256']}"


def find_run(argument):
    """The folder that RUN on the command line means."""
    for path in ([os.path.join(TOP, "results", "latest")] if argument is None else
                 [argument, os.path.join(TOP, "results", argument)] if argument else []):
        if "\0" not in path and os.path.isdir(path):
            return path
    raise InputError(f"no run '{printable(argument or 'results/latest')[:200]}': name a folder, or "
                     "a run in results/")


def read_text(path):
    """A whole file."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}, is this the folder of a run?") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not text, the run is damaged") from None


def read_json(text, where):
    """An object of JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InputError(f"{where}: not a JSON object, the run is damaged")
    return value


def is_count(value):
    """A whole number, not negative; true is no number."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_number(value):
    """Any number above 0; true is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def lookup(value, *keys):
    """value[key][key]..., or None where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def check_sample(sample, where):
    """One line of samples.jsonl holds what it must; what is not there in each run is None."""
    texts = {"variant": r"[\w.+-]+", "send": "full|incremental", "stream_sha256": "[0-9a-f]{64}"}
    counts = ("sample", "elapsed_ns", "stream_bytes", "requests", "sectors")
    maybe = ("first_byte_ns", "hits", "seek_ns", "rotation_ns", "transfer_ns", "user_ns",
             "system_ns", "sync_ns")
    bad = [key for key, form in texts.items() if not re.fullmatch(form, str(sample.get(key)))]
    bad += [key for key in counts if not is_count(sample.get(key))]
    bad += [key for key in maybe if not (sample.setdefault(key) is None or is_count(sample[key]))]
    bad += [] if sample.setdefault("trace") is None or isinstance(sample["trace"], str) else ["trace"]
    # of several disks, of which "trace" is the first one's
    traces = sample.setdefault("traces", [sample["trace"]])
    if not isinstance(traces, list) or not all(isinstance(t, (str, type(None))) for t in traces):
        bad.append("traces")
    bad += [] if sample.get("elapsed_ns") else ["elapsed_ns"]
    for key in ("receiving", "beside", "busy", "program"):
        if not isinstance(sample.setdefault(key), (dict, type(None))):
            bad.append(key)
    if isinstance(sample["receiving"], dict):
        sample["receiving"].setdefault("traces", [sample["receiving"].get("trace")])
    for kind in ("reads", "writes") if sample["receiving"] else ():
        if not is_count(lookup(sample["receiving"], kind, "sectors")):
            bad.append("receiving")
    if bad:
        raise InputError(f"{where}: no {bad[0]} that can be meant, the run is damaged")
    return sample
