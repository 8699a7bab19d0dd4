"""From fused groups of graph nodes to native code: scalar values, loop programs, LLVM."""
