// SPDX-License-Identifier: GPL-2.0
/*
 * Tells the module of this package from the kernel's own: modinfo shows both
 * lines, /sys/module/btrfs/version the first one of the module that is loaded.
 * dkms replaces a module only by one of another version, and the kernel's own
 * has none.
 */

#include <linux/module.h>

MODULE_VERSION("sendahead-" SENDAHEAD_VERSION);
MODULE_INFO(sendahead, SENDAHEAD_SOURCE);
