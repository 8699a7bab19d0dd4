"""Settings of PyTorch's code generator. Programs set them; they change nothing here."""

coordinate_descent_tuning = False
epilogue_fusion = True
fx_graph_cache = True
max_autotune = False
