# SPDX-License-Identifier: GPL-2.0
"""The parts of scripts/bench-report, one job a file."""
