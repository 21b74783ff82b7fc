"""Metric families of one value, or of one value for each value of a label."""

from collections.abc import Mapping
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

Family = TypeVar("Family", GaugeMetricFamily, CounterMetricFamily)
NAMED = 100  # nodes by name, for each kind of trouble; groups by name


def gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=float(value))


def counter(name: str, text: str, value: int) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=value)


def gauges(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    return _each(GaugeMetricFamily(name, text, labels=[label]), values)


def counters(name: str, text: str, label: str, values: Mapping[str, int]) -> CounterMetricFamily:
    return _each(CounterMetricFamily(name, text, labels=[label]), values)


def _each(family: Family, values: Mapping[str, float]) -> Family:
    for key, value in values.items():
        family.add_metric([key], value)
    return family
