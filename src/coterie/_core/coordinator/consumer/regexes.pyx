"""Regular expressions of subscriptions: RE2's syntax, the whole topic name must match.

RE2 comes with the extra ``regex`` (package google-re2). Source: GroupMetadataManager.java
(refreshRegularExpressions), com.google.re2j.
"""
from coterie.errors import CoterieError

TOGETHER = 100                     # expressions in one set of RE2's
ANYTHING = "(?s).*"


def engine():
    """Return the module ``re2`` and its options."""
    try:
        import re2
    except ModuleNotFoundError:
        raise CoterieError("subscriptions by regular expression need RE2: "
                           "pip install 'coterie[regex]'") from None
    options = re2.Options()
    options.log_errors = False
    return re2, options


def compile_regex(str regex not None):
    """Return whether an expression compiles."""
    re2, options = engine()
    try:
        re2.compile(regex, options)
    except re2.error:
        return False
    return True


def matching(regexes, names):
    """Return the names that each expression matches whole."""
    cdef list each = list(dict.fromkeys(regexes))
    cdef dict found = {}
    for start in range(0, len(each), TOGETHER):
        found.update(matching_together(each[start:start + TOGETHER], list(names)))
    return found


cdef dict matching_together(list regexes, list names):
    """One walk over the names for several expressions."""
    cdef dict found = {regex: [] for regex in regexes}
    re2, options = engine()
    several = re2.Set.FullMatchSet(options)
    for regex in regexes:
        several.Add(regex)
    several.Add(ANYTHING)
    several.Compile()
    for name in names:
        matched = several.Match(name)
        # RE2 says nothing if it has no memory for a set of expressions: then even ANYTHING fails.
        if len(regexes) not in matched:
            return {regex: matching_alone(regex, names) for regex in regexes}
        for number in matched:
            if number < len(regexes):
                found[regexes[number]].append(name)
    return found


cdef list matching_alone(str regex, list names):
    re2, options = engine()
    pattern = re2.compile(regex, options)
    return [name for name in names if pattern.fullmatch(name)]
