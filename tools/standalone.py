"""The program of the standalone folder: the command, which also runs ``-c CODE`` as Python does.

``watch`` starts a process for each page with ``sys.executable -c``, and that is this program.
"""

import sys

if sys.argv[1:2] == ["-c"]:
    code = sys.argv.pop(2)
    del sys.argv[0]
    exec(code)
else:
    from coterie.__main__ import main

    main()
