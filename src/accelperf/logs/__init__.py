"""Readers of profiling logs: one module a format behind one small interface.

`read_folder` walks a folder, finds the ``run.yaml`` of each log, asks every reader whether it
recognises the content, checks the rows, and returns the tidy layer table with an account of every
file.
"""

from __future__ import annotations

from accelperf.logs.base import Finding, LogTable, Reader, StatedTotal
from accelperf.logs.checks import CHECKS, check_layers
from accelperf.logs.ingestion import Ingestion, find_logs, read_folder, read_profile, read_profiles
from accelperf.logs.readers import PLUGIN_GROUP, READERS, all_readers, choose_reader

__all__ = [
    "CHECKS",
    "PLUGIN_GROUP",
    "READERS",
    "Finding",
    "Ingestion",
    "LogTable",
    "Reader",
    "StatedTotal",
    "all_readers",
    "check_layers",
    "choose_reader",
    "find_logs",
    "read_folder",
    "read_profile",
    "read_profiles",
]
