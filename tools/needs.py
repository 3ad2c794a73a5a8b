"""Print what pyproject.toml asks for: ``build``, what compiles coterie; ``run``, what it runs with.

``run`` has the needs of every extra. pip itself tells them only with the library, which takes long
to compile; they are installed beside that.
"""

import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib


def needs(of):
    """Return the requirements, as pip takes them."""
    said = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    if of == "build":
        return [*said["build-system"]["requires"], "cmake", "ninja"]
    project = said["project"]
    extras = sum(project["optional-dependencies"].values(), project["dependencies"])
    return [one for one in extras if not one.startswith(f"{project['name']}[")]


if __name__ == "__main__":
    print("\n".join(needs(sys.argv[1])))
