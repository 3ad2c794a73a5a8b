"""Options of Java for programs that run for seconds."""

SHORT_LIVED = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]  # too short for the second compiler
WITHOUT_MESSAGES = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]  # of an archive that does not fit


def options(classes):
    """Return them, with an archive of classes (Java's class data sharing) if it has been made."""
    archived = [f"-XX:SharedArchiveFile={classes}", *WITHOUT_MESSAGES] if classes.exists() else []
    return [*SHORT_LIVED, *archived]
