"""A partition's folder as a broker writes it: it grows, tears, rolls, and is cleaned."""

from pathlib import Path

from support.cleaner import clean


class GrowingLog:
    """One partition, and the bytes of everything that was ever appended to it."""

    def __init__(self, home, number=0):
        self.home = Path(home)
        self.folder = self.home / f"__consumer_offsets-{number}"
        self.folder.mkdir(parents=True)
        self.whole = b""  # all whole batches so far, also those that were cleaned away
        self.torn = b""  # what of a batch is not written yet
        self.since = 0  # up to here it was cleaned
        self.roll(0)

    def roll(self, base_offset):
        """Begin a new active segment."""
        self.complete()
        self.active = self.folder / f"{base_offset:020d}.log"
        self.active.touch()

    def append(self, batch, torn=0):
        """Append a batch; with ``torn``, all but so many bytes of it."""
        self.complete()
        cut = len(batch) - min(torn, len(batch) - 1)
        with self.active.open("ab") as file:
            file.write(batch[:cut])
        self.torn = batch[cut:]
        self.whole += batch if not self.torn else b""
        self.last = batch

    def complete(self):
        """Append the missing bytes of a torn batch."""
        if self.torn:
            with self.active.open("ab") as file:
                file.write(self.torn)
            self.torn, self.whole = b"", self.whole + self.last

    def put(self, segments):
        """Let the folder have these segments, (base offset, bytes), whatever it had before."""
        named = {f"{base:020d}.log": data for base, data in segments}
        for path in self.folder.iterdir():
            if path.name not in named:
                path.unlink()
        for name, data in named.items():
            path = self.folder / name
            before = path.read_bytes() if path.exists() else b""
            if path.exists() and data.startswith(before):
                with path.open("ab") as file:
                    file.write(data[len(before) :])
            else:  # the cleaner puts another file in its place
                aside = self.folder / "aside"
                aside.write_bytes(data)
                aside.replace(path)

    def clean(self, now_ms):
        """Compact all segments but the active one, as Kafka's cleaner does."""
        self.complete()
        files = sorted(self.folder.glob("*.log"))
        segments = [(int(file.stem), file.read_bytes()) for file in files]
        cleaned, self.since = clean(segments, self.since, now_ms=now_ms)
        for base, data in cleaned:
            swap = self.folder / f"{base:020d}.log.swap"
            swap.write_bytes(data)
            swap.replace(self.folder / f"{base:020d}.log")
        left = {base for base, _ in cleaned}
        for file in files:
            if int(file.stem) not in left:
                file.unlink()
