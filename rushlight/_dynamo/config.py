"""Settings of PyTorch's tracer. Programs set them; they change nothing here."""

cache_size_limit = 8
recompile_limit = 8
suppress_errors = False
verbose = False
