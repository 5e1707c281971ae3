# SPDX-License-Identifier: GPL-2.0
"""What a seed stands for: a file system, a list of what happens to it, and the
sends of the snapshots that are then there. All of it as plain data."""

import random

# The volume that most of it happens to, and the one beside it.
VOLUME, OTHER = 'v', 'w'
NODESIZES = ((4096, 45), (16384, 32), (65536, 23))
# Beside "exact": what reads ahead in other ways.
MODES = (('generation', 75), ('off', 25))


def choose(generator, weighted):
    values, weights = zip(*weighted)
    return generator.choices(values, weights)[0]


def file_system(generator, nodesize, kind):
    """Arguments of mkfs.btrfs 6.2 and of mount, for kernels since 5.10."""
    devices = choose(generator, ((1, 80), (2, 20)))
    features, mount = [], []
    mixed = nodesize == 4096 and devices == 1 and generator.random() < 0.06
    if generator.random() < 0.3 and kind != 'holes':
        features.append('^no-holes')
    if generator.random() < 0.1:
        features.append('^extref')
    if generator.random() < 0.1:
        features.append('^skinny-metadata')
    arguments = ['--nodesize', str(nodesize)]
    if devices == 2:
        arguments += ['--metadata', generator.choice(['raid1', 'raid0', 'dup', 'single']),
                      '--data', generator.choice(['raid1', 'raid0', 'single'])]
    elif mixed:
        arguments += ['--mixed']
    else:
        arguments += ['--metadata', generator.choice(['dup', 'single'])]
    if features:
        arguments += ['--features', ','.join(features)]
    if generator.random() < 0.25:
        arguments += ['--runtime-features', '^free-space-tree']
    if generator.random() < 0.3:
        arguments += ['--checksum', generator.choice(['xxhash', 'sha256', 'blake2'])]
    if generator.random() < 0.4:
        mount.append(generator.choice(['compress=zstd', 'compress=lzo', 'compress=zlib',
                                       'compress-force=zstd', 'compress-force=lzo']))
    mount.append(generator.choice(['max_inline=2000', 'max_inline=2048', 'max_inline=0']))
    if generator.random() < 0.1:
        mount.append('nodatacow')
    if generator.random() < 0.1:
        mount.append('autodefrag')
    return {'devices': devices, 'mkfs': arguments, 'mount': ','.join(mount)}


class Items:
    """The list, numbered as it grows."""

    def __init__(self):
        self.items = []

    def add(self, kind, **more):
        self.items.append(dict(more, number=len(self.items), kind=kind))

    def operate(self, count, volume=VOLUME, shares='common'):
        for _ in range(count):
            self.add('operation', volume=volume, shares=shares)


def rounds(counts, shares):
    """A snapshot s1, s2 ... after each of these numbers of operations."""
    items = Items()
    items.add('volume', volume=VOLUME)
    for number, count in enumerate(counts, 1):
        items.operate(count, shares=shares)
        items.add('snapshot', volume=VOLUME, name='s%d' % number)
    return items.items


def history(generator, kind, mixed):
    items = Items()
    items.add('volume', volume=VOLUME)
    snapshots = generator.randint(3, 6)
    if kind == 'tall':
        snapshots = 2
        items.operate(generator.choice([10, 11]), shares='tall')
    elif kind == 'tiny':
        items.operate(generator.randint(0, 4))
    elif kind == 'holes':
        items.operate(2, shares='striped')
    else:
        if kind == 'wide':
            items.operate(generator.randint(1, 6), shares='wide')
        items.operate(generator.randint(30, 75))
    other = generator.choice(['unrelated', 'branch', 'none'])
    # What happens once in a while, after which snapshot.
    relocate = generator.randint(1, 2 * snapshots)
    receive = generator.randint(1, 2 * snapshots)
    delete = generator.randint(1, 6 * snapshots)
    for number in range(1, snapshots + 1):
        if number > 1:
            if kind == 'tiny':
                items.operate(generator.randint(0, 3))
            elif kind == 'holes':
                # Few enough that some leaves beside the holes stay shared.
                items.operate(generator.randint(4, 7), shares='holes')
                items.operate(generator.randint(0, 4))
            else:
                items.operate(generator.randint(6, 24))
            if kind == 'wide' and generator.random() < 0.3:
                items.operate(generator.randint(1, 3), shares='wide')
        items.add('snapshot', volume=VOLUME, name='s%d' % number)
        if number == 1:
            items.add('volume', volume='e')
            items.add('snapshot', volume='e', name='empty')
            if other != 'none':
                items.add('branch' if other == 'branch' else 'volume', volume=OTHER)
                items.operate(generator.randint(3, 20), volume=OTHER)
                items.add('snapshot', volume=OTHER, name='other')
        if number == receive:
            items.add('receive', name='s%d' % number)
        if number == relocate:
            what = generator.choice(['metadata', 'metadata', 'data'])
            items.add('balance', what='both' if mixed else what)
        if number == delete and number < snapshots:
            items.add('delete', name='s%d' % number)
    return items.items


def snapshot_names(items):
    """Snapshots of the history itself, and others."""
    names = [item['name'] for item in items if item['kind'] == 'snapshot']
    names += ['in/' + item['name'] for item in items if item['kind'] == 'receive']
    gone = [item['name'] for item in items if item['kind'] == 'delete']
    names = [name for name in names if name not in gone]
    return [name for name in names if name[0] == 's'], [name for name in names if name[0] != 's']


def flags(generator, protocols):
    """Protocol 2 and data as it is compressed, as kernels know them from 6.0 on."""
    words = []
    if generator.random() < 0.3:
        words.append('--no-data')
    if protocols > 1 and generator.random() < 0.6:
        words += ['--proto', '2']
        if generator.random() < 0.5:
            words.append('--compressed-data')
    return words


def chain_of(items, options):
    """Sends that bring all snapshots of the history to another file system."""
    chain, before = [], []
    for name in snapshot_names(items)[0]:
        chain.append(' '.join(options + before + [name]))
        before = ['-p', name]
    return chain


def chain_options(generator, protocols):
    if protocols < 2 or generator.random() < 0.6:
        return []
    return ['--proto', '2'] + generator.choice([[], ['--compressed-data']])


def all_sends(generator, items, protocols):
    """In the words of btrfs send."""
    own, others = snapshot_names(items)
    more = list(own[1:]) + others
    if len(own) > 1:
        more.append('-p %s %s' % (own[-1], own[0]))
        more.append('-p %s %s' % (own[0], own[-1]))
        # The same with each word that changes a stream.
        words = ['--no-data'] + ['-c ' + own[1]] * (len(own) > 2)
        words += ['--proto 2', '--proto 2 --compressed-data'] * (protocols > 1)
        more += ['%s -p %s %s' % (word, own[0], own[-1]) for word in words]
        for _ in range(generator.randint(2, 4)):
            parent, name = generator.sample(own + others, 2)
            words = flags(generator, protocols)
            if generator.random() < 0.75:
                words += ['-p', parent]
            for clone in generator.sample(own + others, generator.randint(0, 3)):
                if clone != name:
                    words += ['-c', clone]
            more.append(' '.join(words + [name]))
    for other in others:
        more.append('-p %s %s' % (other, own[-1]) if own else other)
        more.append('-p %s %s' % (own[-1], other) if own else other)
    if generator.random() < 0.1:
        # Not readonly: refused.
        more.append('-p %s %s' % (own[0] if own else 'empty', VOLUME))
    return list(dict.fromkeys(more))


def plan(seed, protocols=2):
    """The plan of a seed, for a kernel that knows so many protocols."""
    generator = random.Random('plan %d' % seed)
    kind = choose(generator, (('common', 58), ('wide', 18), ('holes', 10), ('tiny', 11), ('tall', 3)))
    nodesize = choose(generator, NODESIZES)
    if kind in ('tall', 'wide', 'holes'):
        nodesize = 4096
    result = {'seed': seed, 'kind': kind, 'nodesize': nodesize,
              'file_system': file_system(generator, nodesize, kind)}
    result['items'] = history(generator, kind, '--mixed' in result['file_system']['mkfs'])
    result['options'] = chain_options(generator, protocols)
    result['chain'] = chain_of(result['items'], result['options'])
    sends = all_sends(generator, result['items'], protocols)
    result['sends'] = [send for send in sends if send not in result['chain']]
    if kind == 'tall':
        result['sends'] = result['sends'][:2]
    elif kind == 'holes':
        # Large ones in full are not what they are for.
        result['sends'] = [send for send in result['sends'] if '-p' in send]
    result['modes'] = ['exact', choose(generator, MODES)]
    return result
