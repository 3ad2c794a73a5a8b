"""The words of a command as fields: ``generation_id=1 offsets=orders/0:5``."""


def fields_of(words, kinds):
    """Return the fields as a dict; ``kinds`` has what reads a value, by the field's name."""
    pairs = [word.partition("=") for word in words]
    return {name: kinds.get(name, plain)(value) for name, _, value in pairs}


def plain(value):
    """Return a number or a truth value for what reads as one."""
    if value in ("true", "false"):
        return value == "true"
    return int(value) if value.removeprefix("-").isdigit() else value


def places(value):
    """``orders/0,orders/1`` -> [("orders", 0), ("orders", 1)]."""
    found = [place.rpartition("/") for place in value.split(",")]
    return [(topic, int(number)) for topic, _, number in found]


def offsets(value):
    """``orders/0:5`` -> {("orders", 0): 5}."""
    found = [entry.rpartition(":") for entry in value.split(",")]
    return {places(place)[0]: int(offset) for place, _, offset in found}
