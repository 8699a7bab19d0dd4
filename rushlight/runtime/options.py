"""What ``compile`` may be asked for in PyTorch's words: checked as there, and without effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
SWITCHES = (
    "aggressive_fusion", "allow_buffer_reuse", "benchmark_kernel", "coordinate_descent_tuning",
    "cpp_wrapper", "dce", "debug", "debug_fusion", "efficient_conv_bn_eval_fx_passes",
    "emulate_precision_casts", "epilogue_fusion", "fallback_random", "force_layout_optimization",
    "force_shape_pad", "freezing", "fx_graph_cache", "graph_partition", "group_fusion",
    "inplace_buffers", "keep_output_stride", "layout_optimization", "max_autotune",
    "max_autotune_gemm", "max_autotune_pointwise", "memory_planning", "nan_asserts",
    "online_softmax", "pattern_matcher", "permute_fusion", "pick_loop_orders", "profile_bandwidth",
    "reorder_for_compute_comm_overlap", "reorder_for_locality", "reorder_for_peak_memory",
    "shape_padding", "size_asserts", "split_reductions", "use_fast_math", "use_mixed_mm",
)  # fmt: skip
OTHERS = (
    "compile_threads", "fx_graph_remote_cache", "guard_filter_fn", "joint_custom_post_pass",
    "joint_custom_pre_pass", "max_autotune_conv_backends", "max_autotune_gemm_backends",
    "max_autotune_gemm_search_space", "max_fusion_size", "post_grad_custom_post_pass",
    "post_grad_custom_pre_pass", "pre_grad_custom_pass", "precompilation_timeout_seconds",
    "realize_opcount_threshold", "triton_kernel_default_layout_constraint", "worker_start_method",
)  # fmt: skip
PARTS = ("aot_inductor", "cpp", "cuda", "cutlass", "halide", "rocm", "trace", "triton", "xpu")
"""Sections whose options are written with a dot, such as ``triton.cudagraphs``."""


def check(mode: Any, options: Any) -> None:
    """An error in PyTorch's words for a mode or an option that there is not.

    >>> check("max-autotune", None)
    >>> check(None, {"triton.cudagraphs": True})
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    if options is None:
        return
    if not isinstance(options, Mapping):
        kind = type(options).__name__
        raise TypeError(f"compile(): options must be a dict of names and values, not {kind}")
    for name, value in options.items():
        key = str(name).replace("-", "_")
        if key in SWITCHES and not isinstance(value, bool):
            found = type(value).__name__
            raise RuntimeError(f"Unexpected type of attr {name}, got {found} should be bool")
        if key not in (*SWITCHES, *OTHERS) and key.partition(".")[0] not in PARTS:
            known = sorted((*SWITCHES, *OTHERS))
            raise RuntimeError(f"Unexpected optimization option {name}, known options are {known}")
