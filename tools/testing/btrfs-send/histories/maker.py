# SPDX-License-Identifier: GPL-2.0
"""Makes what a plan asks for in a file system that is mounted."""

import errno
import os
import subprocess

import btrfs
import operations


def command(*words, **more):
    """A program whose output is of interest only where it fails."""
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
                          **more)
    if done.returncode:
        raise OSError('exit status %d of %s: %s' % (
            done.returncode, ' '.join(words), done.stderr.decode(errors='replace').strip()[-300:]))


class Maker:
    """Volumes and snapshots, and what happens to them."""

    def __init__(self, plan, root, pauses=True):
        self.plan, self.root, self.pauses = plan, root, pauses
        # Histories by the name of their volume, what was done, and how often.
        self.volumes, self.told, self.counts = {}, [], {}

    def make(self):
        for item in self.plan['items']:
            # What does not find what it needs is left out.
            told = getattr(self, item['kind'])(item) or ''
            self.counts[item['kind']] = self.counts.get(item['kind'], 0) + 1
            if self.plan.get('verbose'):
                what = ' '.join(str(value) for key, value in item.items()
                                if key not in ('number', 'kind', 'shares'))
                self.told.append('%d %s %s%s' % (item['number'], item['kind'], what,
                                                 told and ': ' + told))
        self.close()

    def close(self):
        for volume in self.volumes.values():
            volume.close()

    def path(self, name):
        return os.path.join(self.root, name)

    def volume(self, item):
        path = self.path(item['volume'])
        btrfs.create_subvolume(path)
        self.volumes[item['volume']] = operations.History(path, self.plan['seed'], self.pauses)

    def branch(self, item):
        if 'v' in self.volumes:
            path = self.path(item['volume'])
            btrfs.create_snapshot(self.path('v'), path, False)
            self.volumes[item['volume']] = self.volumes['v'].branch(path)

    def operation(self, item):
        volume = self.volumes.get(item['volume'])
        return volume.operate(item['number'], item['shares']) if volume else 'no volume'

    def snapshot(self, item):
        if item['volume'] in self.volumes:
            btrfs.create_snapshot(self.path(item['volume']), self.path(item['name']), True)

    def receive(self, item):
        stream = btrfs.Stream()
        os.makedirs(self.path('in'), exist_ok=True)
        if stream.send_words(self.root, item['name']):
            command('btrfs', 'receive', '--quiet', '-f', '/proc/self/fd/%d' % stream.descriptor,
                    self.path('in'), pass_fds=(stream.descriptor,))
        stream.close()

    def balance(self, item):
        try:
            btrfs.balance(self.root, item['what'])
        except OSError as error:
            # Mixed block groups are only relocated as both, and there may be no room.
            if error.errno not in (errno.EINVAL, errno.ENOSPC):
                raise
            return errno.errorcode[error.errno]
        return ''

    def delete(self, item):
        if os.path.isdir(self.path(item['name'])):
            btrfs.delete_subvolume(self.path(item['name']))
