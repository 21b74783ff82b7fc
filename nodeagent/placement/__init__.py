"""Places for instances.

NumPy's algebra is asked for nothing large here, and its idle threads would cost processor time at
each start.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
