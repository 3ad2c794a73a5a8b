"""Read requirements and print the lowest version that each allows, as pip takes constraints.

``numpy>=1.26`` becomes ``numpy==1.26``, for ``pip install -c``.
"""

import re
import sys

LOWEST = re.compile(r"^([\w.-]+)[^;]*?>=\s*([\w.]+)")


def lowest(requirements):
    """Yield each constraint; a requirement without a lowest version has none."""
    for line in requirements:
        match = LOWEST.match(line)
        if match:
            yield f"{match[1]}=={match[2]}"


if __name__ == "__main__":
    print("\n".join(sorted(set(lowest(sys.stdin)))))
