# SPDX-License-Identifier: GPL-2.0
"""The part of the bench that runs on the host."""
