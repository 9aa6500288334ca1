"""Blocks of records for decomposition: five partitioners, one result."""

from metricdp.partition.make import PARTITIONERS, default_blocks, make_partition
from metricdp.partition.partition import SEPARATORS, Partition, Quality

__all__ = ["PARTITIONERS", "SEPARATORS", "Partition", "Quality", "default_blocks", "make_partition"]
