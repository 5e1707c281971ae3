# SPDX-License-Identifier: GPL-2.0
"""The parts of tools/bench/bench-report, one job a file."""
