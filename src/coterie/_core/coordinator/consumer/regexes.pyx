"""Regular expressions of subscriptions: RE2's syntax, the whole topic name must match.

RE2 comes with the extra ``regex`` (package google-re2). Source: GroupMetadataManager.java
(refreshRegularExpressions), com.google.re2j.
"""
from coterie.errors import CoterieError


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


def matching(str regex not None, names):
    """Return the names that an expression matches whole."""
    re2, options = engine()
    pattern = re2.compile(regex, options)
    return [name for name in names if pattern.fullmatch(name)]
