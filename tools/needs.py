"""Print requirements of pyproject.toml: ``build`` to compile coterie, ``run`` to run it.

``run`` includes every extra. pip would install these only together with the library, which takes
long to compile; so they are installed meanwhile.
"""

import sys
import tomllib
from pathlib import Path


def needs(of):
    """Return the requirements, as pip takes them."""
    settings = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    if of == "build":
        return [*settings["build-system"]["requires"], "cmake", "ninja"]
    project = settings["project"]
    extras = sum(project["optional-dependencies"].values(), project["dependencies"])
    return [
        requirement for requirement in extras if not requirement.startswith(f"{project['name']}[")
    ]


if __name__ == "__main__":
    print("\n".join(needs(sys.argv[1])))
