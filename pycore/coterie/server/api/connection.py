"""ApiVersions: the served APIs and their versions, and the features."""

from __future__ import annotations

import re

from coterie.server.api.call import Call
from coterie.server.api.lookup import served
from coterie.values import Error

# ApiVersionsRequest.SOFTWARE_NAME_VERSION_PATTERN
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
# Kafka 4 lists Produce from 0 on, for librdkafka, but serves it from 3 on (KAFKA-18659).
_ADVERTISED_FIRST = {0: 0}
# The first version that may list a feature whose minimum is 0; older clients fail to parse it.
_MINIMUM_0_SINCE = 4
_NO_NODE = -1


def api_versions(call: Call) -> None:
    """Answer ApiVersions, unless the client has a malformed name or means another node.

    Its name and version are there since version 3, the node that it means (KIP-1242) since 5.
    """
    software = (call.body["clientSoftwareName"], call.body["clientSoftwareVersion"])
    if call.api_version >= 3 and not all(_SOFTWARE.fullmatch(text) for text in software):
        return call.answer({"errorCode": int(Error.INVALID_REQUEST)})
    cluster_id, node_id = call.body["clusterId"], call.body["nodeId"]
    if (cluster_id is None) != (node_id == _NO_NODE):
        return call.answer({"errorCode": int(Error.INVALID_REQUEST)})
    if cluster_id is not None and (cluster_id, node_id) != (call.cluster.cluster_id, call.node.id):
        return call.answer({"errorCode": int(Error.REBOOTSTRAP_REQUIRED)})
    release = call.cluster.release.name
    keys = [
        {
            "apiKey": row.key,
            "minVersion": _ADVERTISED_FIRST.get(row.key, row.first),
            "maxVersion": row.last,
        }
        for row in served(release)
    ]
    authentication = call.connection.authentication
    if authentication is not None:
        authentication.api_versions_answered()
    features = call.cluster.features
    supported = [
        {"name": name, "minVersion": first, "maxVersion": last}
        for name, (first, last) in features.supported.items()
        if first > 0 or call.api_version >= _MINIMUM_0_SINCE
    ]
    finalized = [
        {"name": name, "maxVersionLevel": level, "minVersionLevel": level}
        for name, level in features.levels.items()
        if level
    ]
    return call.answer(
        {
            "apiKeys": keys,
            "supportedFeatures": supported,
            "finalizedFeaturesEpoch": features.epoch,
            "finalizedFeatures": finalized,
        }
    )
