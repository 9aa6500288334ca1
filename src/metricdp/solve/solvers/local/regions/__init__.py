"""The windowed solver region by region: for problems that are larger than a process, and for many processes.

A region owns some outputs and keeps their columns. It steps on its own outputs and on those around them (the halo);
then only prices and row sums travel, one number for each node. See docs/cluster.md.
"""
