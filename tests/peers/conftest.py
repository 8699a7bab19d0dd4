"""The counts by category that a run of the OpInfo records ends with."""

from __future__ import annotations

from collections import Counter
from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Passed and failed records, samples and gradients by category of op."""
    passed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    samples: Counter[str] = Counter()
    gradients: Counter[str] = Counter()
    by_double: Counter[str] = Counter()
    for state, counts in (("passed", passed), ("failed", failed)):
        for report in terminalreporter.stats.get(state, []):
            properties = dict(getattr(report, "user_properties", ()))
            if "category" in properties:
                counts[properties["category"]] += 1
                samples[properties["category"]] += properties.get("samples", 0)
                gradients[properties["category"]] += properties.get("gradients", 0)
                by_double[properties["category"]] += properties.get("by_double", 0)
    if not passed and not failed:
        return
    terminalreporter.section("OpInfo records that exist here")
    for name in sorted(set(passed) | set(failed)):
        terminalreporter.write_line(
            f"{name:28} {passed[name]:4} pass, {failed[name]:3} fail, "
            f"{samples[name]:6} samples, {gradients[name]:6} gradients, "
            f"{by_double[name]:4} settled by float64"
        )
    terminalreporter.write_line(
        f"{'all':28} {sum(passed.values()):4} pass, {sum(failed.values()):3} fail"
    )
