# SPDX-License-Identifier: GPL-2.0
"""What the machines have found out about histories: is anything wrong with one,
and what there was in all."""

import collections
import os


def read_lines(path):
    with open(path, encoding='utf-8', errors='surrogateescape') as file:
        return file.read().splitlines()


class Verdict:
    """What is wrong with a history, and what is counted of it."""

    def __init__(self, plan, scratch):
        self.plan, self.base = plan, os.path.join(scratch, '%d' % plan['number'])
        # Kind and text of each. What befalls the stock kernel is nobody's fault here.
        self.problems, self.stock_problems = [], []
        self.counts = collections.Counter()
        self.levels, self.streams, self.told = set(), {}, []

    def may_go_on(self):
        problems = self.problems + self.stock_problems
        return not any(kind in ('lost', 'failed') for kind, _ in problems)

    def problem(self, kind, text):
        self.problems.append((kind, text))

    def ended(self, stage, result):
        """Did it come to an end, and without complaints?"""
        problems = self.problems if stage == 'send' else self.stock_problems
        for message in result['messages']:
            problems.append(('message', '%s: %s' % (stage, message)))
        if 'lost' in result:
            problems.append(('lost', '%s: the machine was lost' % stage))
        elif 'failed' in result:
            self.problem('failed', '%s: %s' % (stage, result['failed']))
        else:
            return True
        return False

    def make(self, result):
        if self.ended('make', result):
            self.streams, self.told = result['streams'], result['told']
            self.levels = set(result['levels'])
            for kind, number in result['counts'].items():
                self.counts['items ' + kind] += number
            sent = [stream for stream in self.streams.values() if stream]
            self.counts['streams'] += len(sent)
            self.counts['different'] += len({stream[1] for stream in sent})
            self.counts['errors'] += sum(1 for stream in sent if stream[0] != 'ok')

    def send(self, result):
        if not self.ended('send', result):
            return
        for mode, streams in result['modes'].items():
            self.counts['mode ' + mode] += sum(1 for sent in streams.values() if sent)
            for words, sent in streams.items():
                if sent != self.streams[words]:
                    self.problem('stream', 'send %s in mode %s: %s, stock: %s' % (
                        words, mode, sent, self.streams[words]))

    def receive(self, result):
        if not self.ended('receive', result):
            return
        source, stock, patched = (read_lines(self.base + name)
                                  for name in ('.source', '.stock', '.patched'))
        snapshots = {line.split(' ', 1)[0] for line in source}
        different = {line.split(' ', 1)[0] for line in set(source) ^ set(stock)}
        self.counts['received'] += len(snapshots)
        self.counts['as their source'] += len(snapshots - different)
        for line in sorted(set(stock) ^ set(patched)):
            self.problem('received', '%s: %s' % ('patched' if line in patched else 'stock', line))
        stock, patched = (read_lines(self.base + name)
                          for name in ('.stock.sharing', '.patched.sharing'))
        self.counts['shared'] += bool(stock)
        for line in sorted(set(stock) ^ set(patched)):
            self.problem('sharing', '%s: %s' % ('patched' if line in patched else 'stock', line))


class Totals:
    """Of all histories."""

    def __init__(self):
        self.counts, self.levels, self.nodesizes = collections.Counter(), set(), set()
        self.failing, self.stock_failing, self.histories = [], [], 0

    def add(self, verdict, kernel):
        self.histories += 1
        self.counts.update(verdict.counts)
        self.levels |= verdict.levels
        self.nodesizes.add(verdict.plan['nodesize'])
        name = '%s:%d' % (kernel, verdict.plan['seed'])
        if verdict.problems:
            self.failing.append(name)
        if verdict.stock_problems:
            self.stock_failing.append(name)

    def line(self):
        counts = self.counts
        return 'histories %d, streams %d, received %d, failed with stock %d, failed %d' % (
            self.histories, counts['streams'] + sum(
                number for name, number in counts.items() if name.startswith('mode ')),
            2 * counts['received'], len(self.stock_failing), len(self.failing))

    def table(self):
        counts = self.counts
        modes = sorted(name for name in counts if name.startswith('mode '))
        print('histories: %d, nodes of %s bytes, trees of level %s' % (
            self.histories, ', '.join(map(str, sorted(self.nodesizes))),
            ', '.join(map(str, sorted(self.levels)))))
        print('operations: %d, snapshots: %d, relocations: %d, received as parents: %d' % (
            counts['items operation'], counts['items snapshot'], counts['items balance'],
            counts['items receive']))
        print('streams of stock: %d, of these errors: %d, different: %d' % (
            counts['streams'], counts['errors'], counts['different']))
        for name in modes:
            print('streams of patched in %s: %d' % (name, counts[name]))
        print('received by stock: %d snapshots, as their source: %d' % (
            counts['received'], counts['as their source']))
        print('histories received with blocks that are shared: %d' % counts['shared'])
        print('failing with stock already: %s' % (' '.join(self.stock_failing) or 'none'))
        print('failing: %s' % (' '.join(self.failing) or 'none'))
