"""``python -m coterie``: the command line, where the folder of scripts is not on the PATH."""

from coterie.cli import main

main()
