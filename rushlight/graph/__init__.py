"""The static graph: its language, and the trace that writes it."""
