"""How each framework makes a step of a workload: ``open_peer(mode, threads)`` of each module."""
