"""Print the lowest version that each requirement of the installed coterie allows, as constraints.

``numpy>=1.26`` becomes ``numpy==1.26``, for ``pip install -c``.
"""

import re
from importlib.metadata import requires

LOWEST = re.compile(r"^([\w.-]+)[^;\[]*?>=\s*([\w.]+)")


def lowest():
    """Yield each constraint; an extra that only names other extras has none."""
    for line in requires("coterie") or []:
        match = LOWEST.match(line)
        if match:
            yield f"{match[1]}=={match[2]}"


if __name__ == "__main__":
    print("\n".join(sorted(set(lowest()))))
