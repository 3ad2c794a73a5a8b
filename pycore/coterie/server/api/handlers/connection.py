"""ApiVersions: the served APIs and their versions, and the features."""

from __future__ import annotations

import re

from coterie.server.api.call import Call
from coterie.server.api.lookup import served
from coterie.values import Error

__all__ = ["api_versions"]

# ApiVersionsRequest.SOFTWARE_NAME_VERSION_PATTERN
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FEATURE = "metadata.version"
_LEVEL = 21  # IBP_3_9_IV0: the features of a broker 3.9.1


def api_versions(call: Call) -> None:
    """Answer ApiVersions; from version 3 on the client's name and version must be well-formed."""
    software = (call.body["clientSoftwareName"], call.body["clientSoftwareVersion"])
    if call.api_version >= 3 and not all(_SOFTWARE.fullmatch(text) for text in software):
        return call.answer({"errorCode": int(Error.INVALID_REQUEST)})
    keys = [
        {"apiKey": row.key, "minVersion": row.first, "maxVersion": row.last} for row in served()
    ]
    authentication = call.connection.authentication
    if authentication is not None:
        authentication.api_versions_answered()
    feature = {"name": _FEATURE, "minVersion": 1, "maxVersion": _LEVEL}
    level = {"name": _FEATURE, "maxVersionLevel": _LEVEL, "minVersionLevel": _LEVEL}
    return call.answer(
        {
            "apiKeys": keys,
            "supportedFeatures": [feature],
            "finalizedFeaturesEpoch": 0,
            "finalizedFeatures": [level],
        }
    )
