"""A cluster in the text form of htools."""

TEXT = """\
g1|u1|preferred|a,b|net1
g2|u2|unallocable|

n1|16384|1024|12288|409600|306600|16|M|u1|4|rack:1,x|Y|3|2|0.8
n2|16384.5|1024|12288|409600|306600|16|Y|u1
n3|?|1024|12288|409600|306600|16|N|u2|3|t

i1|1024|2048|1|running|Y|n1|n2|drbd|a,b|2|-|N
i2|1024|2048|1|ADMIN_down|N|n3||ext||1|3|Y
i2|512|0|1|ERROR_up|Y|n1||diskless|

htools:iextags:x

|128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|drbd,plain|3.5|16.0
g2|1,2,3,4,5,6||diskless|4.0|32.0
"""
