"""Clusters in a ring for hroller."""

from tests import needs
from tests.htools import beside

HROLLER = needs.where("hroller")


real = beside("hroller")


shared = needs.mark("shared/htools")


RING = """g|u|preferred|

a|9000|0|8000|9000|5000|4|M|u|1
b|9000|0|8000|9000|5000|4|N|u|1
c|9000|0|8000|9000|5000|4|N|u|1
d|9000|0|8000|9000|5000|4|N|u|1

i|1000|1000|1|running|Y|a|c|drbd||1
j|1000|1000|1|running|Y|b|d|drbd||1
k|1000|1000|1|running|Y|d||plain||1


"""
