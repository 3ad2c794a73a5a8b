"""Frames with random values, and frames that are damaged at random."""

import random

from support.wire.frames import messages, model, plain, random_body

INTS = [0, 1, 0x7F, 0x80, 0xFE, 0xFF]


def damaged(rng, frame):
    data = bytearray(frame)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(4, len(data))
        match rng.randrange(4):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at] = rng.choice(INTS)
            case 2:
                data[at : at + 4] = rng.choice([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f"])
            case 3:
                del data[at:]
                data += bytes([rng.choice(INTS)]) * 8
    return bytes(data)


ROUNDS = 12  # of each version


def cases(of_api):
    rng = random.Random(of_api)
    for release, api, key, version, direction, fields in messages():
        if api == of_api:
            flexible = model(release).header_version(api, version, "request") == 2
            for _ in range(ROUNDS):
                body = random_body(rng, fields, version, flexible)
                header = {"correlationId": rng.randint(-(1 << 31), (1 << 31) - 1)}
                if direction == "request":
                    client_id = rng.choice([None, "", "client-1", "клиент"])
                    header |= {"requestApiKey": key, "requestApiVersion": version}
                    header["clientId"] = client_id
                frame = model(release).encode(api, version, direction, header, body)
                yield key, version, direction, header, plain(fields, body), frame
