"""Numbers and policies as hbal and its language write them. Pure."""

from decimal import ROUND_HALF_EVEN, Decimal
from math import isfinite

from nodeagent.placement.cluster.cluster import Policy, Spec, Template
from nodeagent.placement.layout.score import shown

_TEMPLATES = {
    Template.DISKLESS: "DTDiskless",
    Template.FILE: "DTFile",
    Template.SHARED_FILE: "DTSharedFile",
    Template.PLAIN: "DTPlain",
    Template.BLOCK_DEVICE: "DTBlock",
    Template.DRBD: "DTDrbd8",
    Template.RBD: "DTRbd",
    Template.EXT: "DTExt",
    Template.GLUSTER: "DTGluster",
}
_SPEC = ("MemorySize", "CpuCount", "DiskSize", "DiskCount", "NicCount", "SpindleUse")


def fixed(value: float, places: int) -> str:
    """Write a number with so many places, rounded as `score.shown` does."""
    if not isfinite(value):
        return shown(value)
    step = Decimal(1).scaleb(-places)
    return f"{Decimal(repr(value)).quantize(step, ROUND_HALF_EVEN):f}"


def general(value: float) -> str:
    """Write a number with six places; a small or a large one as a power of ten."""
    if not isfinite(value):
        return shown(value)
    if value == 0 or 0.1 <= abs(value) < 1e7:
        return fixed(value, 6)
    number = Decimal(repr(value))
    power = number.adjusted()
    digits = number.scaleb(-power).quantize(Decimal("1e-6"), ROUND_HALF_EVEN)
    if abs(digits) >= 10:
        digits, power = digits.scaleb(-1).quantize(Decimal("1e-6")), power + 1
    return f"{digits:f}e{power}"


def policy(limits: Policy) -> str:
    ranges = ",".join(
        f"MinMaxISpecs {{minMaxISpecsMinSpec = {_spec(least)},"
        f" minMaxISpecsMaxSpec = {_spec(most)}}}"
        for least, most in limits.ranges
    )
    return (
        f"IPolicy {{iPolicyMinMaxISpecs = [{ranges}], iPolicyStdSpec = {_spec(limits.standard)},"
        f" iPolicyDiskTemplates = [{','.join(_TEMPLATES[one] for one in limits.templates)}],"
        f" iPolicyVcpuRatio = {_double(limits.vcpu_ratio)},"
        f" iPolicySpindleRatio = {_double(limits.spindle_ratio)}}}"
    )


def _spec(spec: Spec) -> str:
    fields = (f"iSpec{name} = {value}" for name, value in zip(_SPEC, spec, strict=True))
    return f"ISpec {{{', '.join(fields)}}}"


def _double(value: float) -> str:
    """Write a number as Haskell shows it."""
    number = Decimal(repr(value)).normalize()
    if value == 0 or 0.1 <= abs(value) < 1e7:
        whole, _, part = f"{number:f}".partition(".")
        return f"{whole}.{part or 0}"
    power = number.adjusted()
    whole, _, part = f"{number.scaleb(-power).normalize():f}".partition(".")
    return f"{whole}.{part or 0}e{power}"
